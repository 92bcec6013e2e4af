"""`shuffledp send`: sends one value for a task, encrypted."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shuffledp.cli.output import STANDARD, Commands, add_command, emit, read_json
from shuffledp.cli.task import read_task
from shuffledp.cli.tokens import add_token, given_token
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import whole

if TYPE_CHECKING:
    from shuffledp.service.client.policy import ClientPolicy

VALUE_VARIABLE = "SHUFFLEDP_VALUE"
LONGEST_VALUE = 10_000


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "send",
        run,
        "send your value for a task to the shuffler",
        examples=[
            "send --task task.json --token-file token.txt",
            "send --task task.json --resume",
        ],
        needs=["client"],
    )
    parser.add_argument("--task", required=True, metavar="FILE", help="the task file")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--value",
        help=f"- reads your value from standard input; by default it comes from {VALUE_VARIABLE}, "
        "or you are asked. Only for trials: other users of this machine can see a value given "
        "here",
    )
    what.add_argument("--resume", action="store_true", help="send the stored report again")
    parser.add_argument("--shuffler", metavar="URL", help="its URL (default: the one in the task)")
    parser.add_argument(
        "--relay",
        metavar="URL",
        default="",
        help="send through it, so that the shuffler does not see your address",
    )
    parser.add_argument(
        "--outbox",
        metavar="FOLDER",
        help="folder for reports that wait to be sent (default: your data folder)",
    )
    parser.add_argument(
        "--attempts", default="8", metavar="N", help="attempts before giving up for now (8)"
    )
    add_token(parser, "client")
    add_policy(parser)


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say what this device agrees to."""
    group = parser.add_argument_group(
        "what this device agrees to (each option overrides the policy)"
    )
    group.add_argument(
        "--policy", metavar="FILE", help="JSON file: `shuffledp device policy` prints one"
    )
    group.add_argument("--most-epsilon-per-task", metavar="E", help="most ε for one task (2)")
    group.add_argument("--most-epsilon-per-period", metavar="E", help="most ε in one period (4)")
    group.add_argument("--period-days", metavar="N", help="length of the period (30)")
    group.add_argument(
        "--least-users", metavar="N", help="smallest number of users to hide among (100)"
    )
    group.add_argument(
        "--allow-repeat", action="store_true", help="accept tasks that ask repeatedly"
    )
    group.add_argument(
        "--allow-short-batches",
        action="store_true",
        help="accept tasks whose batches may leave early",
    )
    group.add_argument(
        "--analyzer-key",
        action="append",
        metavar="FILE",
        help="JSON from `shuffledp keys show`: encrypt for this key only (may be given again)",
    )
    group.add_argument(
        "--signing-key",
        action="append",
        default=[],
        metavar="ROLE=KEY",
        help="answer only tasks that this key of the collector, shuffler or analyzer has signed "
        "(as `shuffledp keys signing` prints it; may be given again)",
    )


def given_policy(args: argparse.Namespace) -> ClientPolicy:
    """The policy of the file, or the default one, with what the options replace."""
    from shuffledp.service.client.policy import ClientPolicy

    policy = ClientPolicy.load(args.policy) if args.policy else ClientPolicy()
    names = ("most_epsilon_per_task", "most_epsilon_per_period", "period_days", "least_users")
    given: dict[str, Any] = {
        name: getattr(args, name) for name in names if getattr(args, name) is not None
    }
    if args.analyzer_key:
        given["analyzer_keys"] = [read_json(path) for path in args.analyzer_key]
    if args.signing_key:
        given["signing_keys"] = dict(policy.signing_keys) | _signing_keys(args.signing_key)
    policy = ClientPolicy.from_dict(policy.to_dict() | given)
    return replace(
        policy,
        allow_repeat=policy.allow_repeat or args.allow_repeat,
        allow_short_batches=policy.allow_short_batches or args.allow_short_batches,
    )


def _signing_keys(given: list[str]) -> dict[str, list[str]]:
    """The keys of options like collector=0123…, by role."""
    found: dict[str, list[str]] = {}
    for text in given:
        role, equals, key = text.partition("=")
        if not equals:
            raise ParameterError("--signing-key needs a role and a key, like collector=0123….")
        found.setdefault(role, []).append(key)
    return found


def given_value(args: argparse.Namespace) -> str:
    """The value from standard input, the environment, a prompt or, with a warning, the option."""
    if args.value == STANDARD:
        return sys.stdin.readline(LONGEST_VALUE).rstrip("\r\n")
    if args.value is not None:
        print(
            "Warning: other users of this machine can see a value given as --value in the list of "
            f"processes; use --value - or {VALUE_VARIABLE} for real values.",
            file=sys.stderr,
        )
        return str(args.value)
    if VALUE_VARIABLE in os.environ:
        return os.environ[VALUE_VARIABLE]
    if sys.stdin.isatty():
        return getpass.getpass("Your value (not shown): ")
    raise ParameterError(
        f"No value was given; write it to standard input with --value -, or set {VALUE_VARIABLE}."
    )


def run(args: argparse.Namespace) -> None:
    from shuffledp.service.client.sending import Client

    if (args.value, args.task, args.token_file).count(STANDARD) > 1:
        raise ParameterError("Standard input can be used only once; name files for the others.")
    task = read_task(args.task)
    token = given_token(args, "client")
    with Client(
        task,
        args.shuffler or task.shuffler,
        token,
        args.outbox,
        policy=given_policy(args),
        attempts=whole(args.attempts, "--attempts"),
        relay=args.relay,
    ) as client:
        if args.resume:
            client.resume()
        else:
            client.check()  # before asking for a value
            client.send(task.protocol.parse(given_value(args)))
    emit(
        args,
        {"task": task.id.hex(), "state": "stored by the shuffler"},
        f"The shuffler has your encrypted report for {task.name}: {task.report_size} messages, "
        "the same number for everybody.",
    )
