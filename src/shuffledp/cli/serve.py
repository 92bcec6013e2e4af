"""`shuffledp shuffler` and `shuffledp analyzer`: run a server, enrol clients."""

from __future__ import annotations

import argparse

from shuffledp.cli.output import Commands, add_command, emit
from shuffledp.cli.task import add_token, given_token
from shuffledp.sealed.files import write_whole


def add_to(commands: Commands) -> None:
    """Adds the commands `shuffler` and `analyzer`."""
    shuffler = _add_role(
        commands, "shuffler", "collect encrypted reports and deliver whole batches"
    )
    _add_role(commands, "analyzer", "open batches and publish results")
    enrol = add_command(shuffler, "enrol", run_enrol, "make tokens for clients")
    enrol.add_argument("--shuffler", required=True, help="its URL")
    enrol.add_argument("--count", type=int, required=True, help="how many")
    enrol.add_argument("--out", required=True, help="file for the tokens, one per line")
    enrol.add_argument(
        "--once", action="store_true", help="each token for one report in all (else: one per task)"
    )
    add_token(enrol, "operator")


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
    write_whole(args.out, "\n".join(tokens) + "\n", secret=True)
    emit(
        args,
        {"tokens": len(tokens), "file": args.out},
        lambda out: out.print(f"{len(tokens):,} tokens are in {args.out}; give each client one."),
    )
