"""`shuffledp keys`: the analyzer's keys, signing keys and tokens."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from shuffledp.cli.output import Commands, add_command, add_group, confirm, emit


def add_to(commands: Commands) -> None:
    actions = add_group(commands, "keys", "the analyzer's keys, signing keys and tokens")
    for name, run, summary in (
        ("new", run_new, "create a key and print its public half"),
        (
            "show",
            run_show,
            "print the public half of the newest active key, for `task create --key`",
        ),
        (
            "retire",
            run_retire,
            "take no new reports for a key; it still opens batches already collected",
        ),
        (
            "destroy",
            run_destroy,
            "erase a key: what was encrypted for it can never be opened again",
        ),
    ):
        numbered = name in ("retire", "destroy")
        example = f"keys {name} keys" + (" --id 1" if numbered else " > key.json")
        action = add_command(actions, name, run, summary, examples=[example])
        action.add_argument("folder", metavar="FOLDER", help="the analyzer's key folder")
        if numbered:
            action.add_argument("--id", type=int, required=True, metavar="N", help="its number")
        if name == "destroy":
            action.add_argument("--yes", action="store_true", help="do not ask")
    signing = add_command(
        actions,
        "signing",
        run_signing,
        "print the public half of a signing key; create the key if there is none",
        examples=["keys signing collector.json"],
    )
    signing.add_argument("file", metavar="FILE", help="the secret key's file")
    add_command(
        actions,
        "token",
        run_token,
        "create a token and the hash to configure",
        examples=["keys token", "keys token --json"],
        needs=["client"],
    )


def run_new(args: argparse.Namespace) -> None:
    from shuffledp.tasks.keys import KeyFolder

    print(json.dumps(KeyFolder(args.folder).new().public.to_dict()))


def run_show(args: argparse.Namespace) -> None:
    from shuffledp.tasks.errors import TaskError
    from shuffledp.tasks.keys import KeyFolder

    active = [key for key in KeyFolder(args.folder).all() if key.state == "active"]
    if not active:
        raise TaskError(f"There is no active key in {args.folder}; create one with `keys new`.")
    print(json.dumps(active[-1].public.to_dict()))


def run_signing(args: argparse.Namespace) -> None:
    from shuffledp.tasks.signing import SigningKey

    new = not Path(args.file).exists()
    key = SigningKey.create(args.file) if new else SigningKey.load(args.file)
    emit(args, {"public": key.public.hex(), "new": new}, key.public.hex())


def run_retire(args: argparse.Namespace) -> None:
    from shuffledp.tasks.keys import KeyFolder

    key = KeyFolder(args.folder).retire(args.id)
    emit(
        args,
        {"key_id": key.key_id, "state": key.state},
        f"Key {key.key_id} is retired; its tasks take no more reports.",
    )


def run_destroy(args: argparse.Namespace) -> None:
    from shuffledp.tasks.keys import KeyFolder

    folder = KeyFolder(args.folder)
    folder.check(args.id)  # refuses a wrong number before asking
    if not args.yes:
        confirm(
            f"Destroy key {args.id} in {args.folder}? Nothing that was encrypted for it can ever "
            "be opened again."
        )
    folder.destroy(args.id)
    emit(
        args,
        {"key_id": args.id, "state": "destroyed"},
        f"Key {args.id} is destroyed.",
    )


def run_token(args: argparse.Namespace) -> None:
    from shuffledp.service.tokens import new_token, token_hash

    token = new_token()
    data = {"token": token, "sha256": token_hash(token).hex()}
    emit(args, data, f"token   {token}\nsha256  {data['sha256']}")
