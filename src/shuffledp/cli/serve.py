"""`shuffledp shuffler` and `shuffledp analyzer`: run a server, enrol clients, discard what can
never be published, restore a lost ledger."""

from __future__ import annotations

import argparse

from shuffledp.cli.output import Commands, add_command, emit
from shuffledp.cli.task import add_token, given_token, read_task
from shuffledp.sealed.files import write_whole


def add_to(commands: Commands) -> None:
    """Adds the commands `shuffler` and `analyzer`."""
    shuffler = _add_role(
        commands, "shuffler", "collect encrypted reports and deliver whole batches"
    )
    analyzer = _add_role(commands, "analyzer", "open batches and publish results")
    _add_discards(shuffler, analyzer)
    restore = add_command(
        analyzer,
        "restore-ledger",
        run_restore,
        "after a loss: write the lines of all published batches into the ledger again",
    )
    restore.add_argument("--analyzer", required=True, help="its URL")
    add_token(restore, "operator")
    enrol = add_command(shuffler, "enrol", run_enrol, "make tokens for clients")
    enrol.add_argument("--shuffler", required=True, help="its URL")
    enrol.add_argument("--count", type=int, required=True, help="how many")
    enrol.add_argument("--out", required=True, help="file for the tokens, one per line")
    enrol.add_argument(
        "--once", action="store_true", help="each token for one report in all (else: one per task)"
    )
    add_token(enrol, "operator")


def _add_discards(shuffler: Commands, analyzer: Commands) -> None:
    batch = add_command(
        analyzer, "discard", run_discard_batch, "give up a batch that is not published"
    )
    batch.add_argument("--analyzer", required=True, help="its URL")
    batch.add_argument("--batch", required=True, help="its id; see `shuffledp result`")
    waiting = add_command(
        shuffler, "discard", run_discard_reports, "delete the reports of a task that wait"
    )
    waiting.add_argument("--shuffler", required=True, help="its URL")
    waiting.add_argument("--task", required=True, help="the task file")
    for one in (batch, waiting):
        one.add_argument("--reason", required=True, help="why; the status shows it")
        add_token(one, "operator")


def _add_role(commands: Commands, name: str, summary: str) -> Commands:
    parser = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    serve = add_command(actions, "serve", run_serve, f"run the {name} until SIGTERM")
    serve.add_argument("--config", help="the TOML file (overridden by the environment)")
    serve.set_defaults(role=name)
    return actions


def run_serve(args: argparse.Namespace) -> None:
    from shuffledp.service.roles import serve_role

    serve_role(args.role, args.config)


def run_enrol(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import enrol
    from shuffledp.service.tokens import EACH_PREFIX, ONCE_PREFIX

    token = given_token(args, "operator")
    prefix = ONCE_PREFIX if args.once else EACH_PREFIX
    tokens = enrol(args.shuffler, token, args.count, prefix)
    write_whole(args.out, "\n".join(tokens) + "\n")
    emit(
        args,
        {"tokens": len(tokens), "file": args.out},
        lambda out: out.print(f"{len(tokens):,} tokens are in {args.out}; give each client one."),
    )


def run_discard_batch(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import call

    url = f"{args.analyzer.rstrip('/')}/batches/{args.batch}/discard"
    done = call("POST", url, given_token(args, "operator"), json={"reason": args.reason}).json()
    emit(args, done, lambda out: out.print(f"Batch {args.batch} is discarded.", markup=False))


def run_discard_reports(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import call

    task = read_task(args.task)
    url = f"{args.shuffler.rstrip('/')}/tasks/{task.id.hex()}/discard"
    done = call("POST", url, given_token(args, "operator"), json={"reason": args.reason}).json()
    emit(args, done, lambda out: out.print(f"{done['reports']:,} waiting reports are deleted."))


def run_restore(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import call

    url = f"{args.analyzer.rstrip('/')}/ledger/restore"
    done = call("POST", url, given_token(args, "operator")).json()
    emit(
        args,
        done,
        lambda out: out.print(
            f"{done['lines']:,} lines were written. Releases that other programs charged to the "
            "same ledger are not known here: add them, or lower the budget."
        ),
    )
