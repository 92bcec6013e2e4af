"""`shuffledp shuffler` and `shuffledp analyzer`: run a server, enrol clients, discard a batch,
restore a lost ledger."""

from __future__ import annotations

import argparse
import re

from shuffledp.cli.output import Commands, add_command, add_group, emit
from shuffledp.cli.tokens import add_made_tokens, add_token, given_token, write_tokens
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, whole

LONGEST_REASON = 200


def add_to(commands: Commands) -> None:
    shuffler = _add_role(
        commands, "shuffler", "collect encrypted reports and deliver complete batches"
    )
    analyzer = _add_role(commands, "analyzer", "open batches and publish results")
    _add_analyzer_discard(analyzer)
    restore = add_command(
        analyzer,
        "restore-ledger",
        run_restore,
        "rewrite the ledger's entries of all published batches after a loss",
        examples=["analyzer restore-ledger --analyzer https://analyzer.example"],
        needs=["client"],
    )
    restore.add_argument("--analyzer", required=True, help="its URL")
    add_token(restore, "operator")
    enrol = add_command(
        shuffler,
        "enrol",
        run_enrol,
        "create tokens for clients",
        examples=[
            "shuffler enrol --shuffler https://shuffler.example --count 1000 --output tokens.txt"
        ],
        needs=["client"],
    )
    enrol.add_argument("--shuffler", required=True, help="its URL")
    add_made_tokens(enrol)
    enrol.add_argument(
        "--once",
        action="store_true",
        help="each token is for one report in total (default: one per task)",
    )
    add_token(enrol, "operator")
    discard = add_command(
        shuffler,
        "discard",
        run_discard,
        "discard a batch permanently; stop the server first",
        examples=["shuffler discard --config service.toml --task ID --batch 3 --reason lost"],
        needs=["service"],
    )
    discard.add_argument(
        "--config", metavar="FILE", help="the TOML file (overridden by the environment)"
    )
    discard.add_argument("--task", required=True, help="the task's id")
    discard.add_argument("--batch", required=True, help="the batch's number in the status")
    discard.add_argument("--reason", required=True, help="why, for the log")


def _add_analyzer_discard(analyzer: Commands) -> None:
    batch = add_command(
        analyzer,
        "discard",
        run_discard_batch,
        "discard a batch that is not published",
        examples=[
            "analyzer discard --analyzer https://analyzer.example --batch ID --reason damaged"
        ],
        needs=["client"],
    )
    batch.add_argument("--analyzer", required=True, help="its URL")
    batch.add_argument("--batch", required=True, help="its id; see `shuffledp result`")
    batch.add_argument("--reason", required=True, help="why; the status shows it")
    add_token(batch, "operator")


def _add_role(commands: Commands, name: str, summary: str) -> Commands:
    actions = add_group(commands, name, summary)
    add_serve(actions, name)
    return actions


def add_serve(actions: Commands, name: str) -> None:
    """Adds `serve` to the actions of a server's command."""
    serve = add_command(
        actions,
        "serve",
        run_serve,
        f"run the {name} until SIGTERM",
        examples=[f"{name} serve --config service.toml"],
        needs=["service"],
    )
    serve.add_argument(
        "--config", metavar="FILE", help="the TOML file (overridden by the environment)"
    )
    serve.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="web pages of this origin may use the server (repeatable; adds to allow_origins)",
    )
    if name == "shuffler":
        serve.add_argument(
            "--workers",
            type=int,
            metavar="N",
            help="processes that share the public address (1; more need PostgreSQL)",
        )
    serve.set_defaults(role=name)


def run_serve(args: argparse.Namespace) -> None:
    from shuffledp.service.roles import serve_role

    serve_role(args.role, args.config, args.allow_origin, getattr(args, "workers", None))


def run_discard(args: argparse.Namespace) -> None:
    from shuffledp.service.http.config import load_config
    from shuffledp.service.shuffler.config import ShufflerConfig
    from shuffledp.service.shuffler.report_keys import FolderKeys

    number = whole(args.batch, "batch")
    if not re.fullmatch("[0-9a-f]{64}", args.task):
        raise ParameterError("The task's id must be 64 hexadecimal digits; `task show` prints it.")
    reason = f"discarded: {args.reason}"
    if len(reason) > LONGEST_REASON or not reason.isprintable():
        raise ParameterError(
            f"The reason is too long or has control characters; give one line of at most "
            f"{LONGEST_REASON} characters."
        )
    config = load_config(args.config, ShufflerConfig)
    if config.keys_command:
        raise ParameterError(
            "The batch keys are kept by keys_command; destroy the key with that program."
        )
    keys = FolderKeys(config.report_keys_folder)
    keys.open_alone()
    try:
        keys.destroy(bytes.fromhex(args.task), number, reason)
    finally:
        keys.close()
    emit(
        args,
        {"task": args.task, "batch": number, "state": "discarded"},
        f"The reports of batch {number} can never be read again; the shuffler deletes them at "
        "its next start.",
    )


def run_enrol(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import enrol
    from shuffledp.service.tokens import EACH_PREFIX, ONCE_PREFIX

    token = given_token(args, "operator")
    prefix = ONCE_PREFIX if args.once else EACH_PREFIX
    tokens = enrol(args.shuffler, token, whole(args.count, "--count"), prefix)
    write_tokens(args, tokens, "client")


def run_discard_batch(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import ask

    path, reason = f"/batches/{args.batch}/discard", {"reason": args.reason}
    done = ask(
        args.analyzer,
        path,
        given_token(args, "operator"),
        fields=["state"],
        method="POST",
        json=reason,
    )
    emit(args, done, f"Batch {args.batch} is discarded.")


def run_restore(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import ask

    token = given_token(args, "operator")
    done = ask(args.analyzer, "/ledger/restore", token, fields=["lines"], method="POST")
    emit(
        args,
        done,
        f"Written: {counted(done['lines'], 'line')}. Releases that other programs charged to "
        "the same ledger are unknown to the analyzer: add them, or lower the budget.",
    )
