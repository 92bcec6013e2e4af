"""`shuffledp issuer`: run it, create keys, enrol devices; and the issuer options of `task
create`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from shuffledp.cli.output import Commands, add_command, add_group, read_key_text
from shuffledp.cli.serve import add_serve
from shuffledp.cli.tokens import add_made_tokens, add_token, given_token, write_tokens
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import whole

if TYPE_CHECKING:
    from shuffledp.tasks.task import Task
    from shuffledp.tasks.tokens import IssuerKey, TokenIssuer


def add_to(commands: Commands) -> None:
    actions = add_group(commands, "issuer", "give every device one unlinkable token per task")
    add_serve(actions, "issuer")
    key = add_command(
        actions,
        "new-key",
        run_new_key,
        "a fresh key for one task; print its public half",
        examples=["issuer new-key issuer-keys > issuer-key.json"],
    )
    key.add_argument("folder", metavar="FOLDER", help="the issuer's key folder")
    enrol = add_command(
        actions,
        "enrol",
        run_enrol,
        "create the tokens with which devices ask for one-time tokens",
        examples=["issuer enrol --issuer https://issuer.example --count 1000 --output tokens.txt"],
        needs=["client"],
    )
    enrol.add_argument("--issuer", required=True, metavar="URL", help="its URL")
    add_made_tokens(enrol)
    enrol.add_argument(
        "--attested",
        action="store_true",
        help="these enrolments count as attested: you know whose they are",
    )
    add_token(enrol, "operator")


def run_new_key(args: argparse.Namespace) -> None:
    from shuffledp.tasks.tokens import IssuerKeyFolder

    print(json.dumps({"issuer_key": IssuerKeyFolder(args.folder).new().spki.hex()}))


def run_enrol(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import enrol
    from shuffledp.service.tokens import EACH_PREFIX

    token = given_token(args, "operator")
    tokens = enrol(
        args.issuer, token, whole(args.count, "--count"), EACH_PREFIX, attested=args.attested
    )
    write_tokens(args, tokens, "device")


def add_issuer(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `task create` that name an issuer."""
    group = parser.add_argument_group("one-time tokens (default: enrolment tokens of the shuffler)")
    group.add_argument(
        "--issuer", metavar="URL", help="where devices get their token for this task"
    )
    group.add_argument(
        "--issuer-key", metavar="FILE", help="JSON from `shuffledp issuer new-key`, for this task"
    )
    group.add_argument(
        "--attested", action="store_true", help="tokens for attested enrolments only"
    )


def given_issuer(args: argparse.Namespace) -> TokenIssuer | None:
    """The issuer that the options name; None if they name none."""
    from shuffledp.tasks.tokens import TokenIssuer

    if not (args.issuer or args.issuer_key or args.attested):
        return None
    if not (args.issuer and args.issuer_key):
        raise ParameterError("--issuer and --issuer-key go together; give both or neither.")
    return TokenIssuer(args.issuer.rstrip("/"), read_issuer_key(args.issuer_key), args.attested)


def read_issuer_key(file: str) -> IssuerKey:
    """The issuer's key in a file that `issuer new-key` printed."""
    from shuffledp.tasks.tokens import IssuerKey

    return IssuerKey.from_hex(read_key_text(file, "issuer_key", "issuer new-key"))


def issuer_words(task: Task) -> str:
    """Which tokens the reports of a task carry, for people."""
    if task.issuer is None:
        return "enrolment tokens: the shuffler sees which enrolled devices take part"
    whom = "attested enrolments" if task.issuer.attested else "enrolments"
    return f"one-time, from {task.issuer.url}, one for each of its {whom}"
