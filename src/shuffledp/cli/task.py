"""`shuffledp task`: create, show, verify, register, close, list, archive, delete, log."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.cli.issuer import add_issuer, given_issuer, issuer_words
from shuffledp.cli.output import (
    Commands,
    Facts,
    add_command,
    add_group,
    check_option,
    emit,
    progress_bar,
    read_file,
    read_json,
    write_output,
)
from shuffledp.cli.relay import add_gateway, given_gateway
from shuffledp.cli.task_series import add_series
from shuffledp.cli.tokens import add_token, collector_tokens, given_token
from shuffledp.documents.files import write_whole
from shuffledp.errors import ParameterError
from shuffledp.numbers.deadline import time_limit
from shuffledp.numbers.exact import counted, show
from shuffledp.tasks.clock import DAY_SECONDS, VALID_DAYS, system_clock

if TYPE_CHECKING:
    from rich.console import Console

    from shuffledp.protocols.base import Protocol
    from shuffledp.protocols.results import Result
    from shuffledp.service.client.task_log import Log
    from shuffledp.tasks.task import Task

VERIFY_SECONDS = 600.0
TASK_FILE = "the task file; - is standard input"
SHUFFLER = "its URL (default: the one in the task)"


def add_to(commands: Commands) -> None:
    actions = add_group(commands, "task", "make, check and register tasks for the service")
    _add_create(actions)
    add_log(actions)
    for name, run, summary in (
        ("show", run_show, "what a task asks for"),
        (
            "verify",
            run_verify,
            "prove a task's certificate again and check its report size and batch rule",
        ),
    ):
        one = add_command(actions, name, run, summary, examples=[f"task {name} task.json"])
        one.add_argument("task", metavar="FILE", help=TASK_FILE)
    register = add_command(
        actions,
        "register",
        run_register,
        "sign a task and register it at the servers",
        examples=[
            "task register task.json --analyzer https://analyzer.example "
            "--signing-key collector.json"
        ],
        needs=["client"],
    )
    register.add_argument("task", metavar="FILE", help=TASK_FILE)
    register.add_argument("--shuffler", metavar="URL", help=SHUFFLER)
    register.add_argument("--analyzer", required=True, metavar="URL", help="its URL")
    register.add_argument(
        "--signing-key",
        required=True,
        metavar="FILE",
        help="the collector's key; `shuffledp keys signing FILE` creates one",
    )
    close = add_command(
        actions,
        "close",
        run_close,
        "take no more reports for a task",
        examples=["task close task.json"],
        needs=["client"],
    )
    close.add_argument("task", metavar="FILE", help=TASK_FILE)
    close.add_argument("--shuffler", metavar="URL", help=SHUFFLER)
    add_token(close, "collector")
    for server in ("shuffler", "analyzer", "issuer"):
        add_token(register, "collector", server)
    add_keeping(actions)
    add_series(actions)


def _add_create(actions: Commands) -> None:
    parser = add_command(
        actions,
        "create",
        run_create,
        "a task from a plan and an analyzer's key",
        examples=[
            'task create --plan plan.json --key key.json --name "dark mode" '
            "--shuffler https://shuffler.example --output task.json"
        ],
    )
    parser.add_argument(
        "--plan", required=True, metavar="FILE", help="JSON from `shuffledp plan … --json`, or -"
    )
    parser.add_argument(
        "--key", required=True, metavar="FILE", help="JSON from `shuffledp keys show`, or -"
    )
    parser.add_argument("--name", required=True, help="a short name, for example: dark mode")
    parser.add_argument(
        "--question", metavar="TEXT", help="what people are asked (default: the name)"
    )
    parser.add_argument(
        "--shuffler", required=True, metavar="URL", help="where devices send their reports"
    )
    for role in ("collector", "shuffler", "analyzer"):
        parser.add_argument(
            f"--{role}-operator", default="not named", metavar="NAME", help=f"who runs the {role}"
        )
    parser.add_argument(
        "--not-before",
        metavar="WHEN",
        help="first time at which devices may answer: a date, UTC (default: now)",
    )
    parser.add_argument(
        "--expires",
        default=f"{VALID_DAYS}d",
        metavar="WHEN",
        help="when the task ends: a date (UTC) like 2031-01-31, or a time from now like 12h or 30d "
        f"({VALID_DAYS}d)",
    )
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="where the task file goes, or -"
    )
    parser.add_argument(
        "--reports",
        type=int,
        help="reports per batch (default: the plan's users and slack for up to three bad clients)",
    )
    parser.add_argument("--top-up", choices=("none", "missing", "full"), default="none")
    parser.add_argument(
        "--at-least", type=int, default=0, help="with a top-up: fewest reports in a batch"
    )
    parser.add_argument(
        "--wait-seconds",
        type=int,
        default=0,
        help="with a top-up: how long to wait for more reports",
    )
    parser.add_argument("--order", choices=("canonical", "uniform"), default="canonical")
    parser.add_argument(
        "--publish-noise",
        choices=("full", "none"),
        default="full",
        help="full: the analyzer adds the certified noise before it publishes, which protects "
        "against a shuffler that forges reports; none: it does not (required for quantiles)",
    )
    add_issuer(parser)
    add_gateway(parser)
    parser.add_argument(
        "--repeat",
        action="store_true",
        help="clients may answer repeatedly; every answer costs ε again",
    )


def run_create(args: argparse.Namespace) -> None:
    from shuffledp.plans.certificate import verify
    from shuffledp.tasks.keys import PublicKey
    from shuffledp.tasks.rules import BatchRule
    from shuffledp.tasks.task import OPERATOR, TASK, Operators, Task
    from shuffledp.tasks.tokens import SERVER_URL

    shuffler = args.shuffler.rstrip("/")
    check_option(SERVER_URL, shuffler, "--shuffler")
    check_option(TASK.fields["name"], args.name, "--name")
    if args.question is not None:
        check_option(TASK.fields["question"], args.question, "--question")
    for role in ("collector", "shuffler", "analyzer"):
        check_option(OPERATOR, getattr(args, f"{role}_operator"), f"--{role}-operator")
    plan, key = read_json(args.plan), read_json(args.key)
    certificate = verify(plan)
    rule = BatchRule(
        _default_reports(args, certificate.protocol) if args.reports is None else args.reports,
        top_up=args.top_up,
        at_least=args.at_least,
        wait_seconds=args.wait_seconds,
    )
    task = Task.create(
        plan,
        PublicKey.from_dict(key),
        args.name,
        rule,
        order=args.order,
        repeat=args.repeat,
        publish_noise=args.publish_noise,
        question=args.question,
        operators=Operators(
            args.collector_operator, args.shuffler_operator, args.analyzer_operator
        ),
        shuffler=shuffler,
        not_before=None if args.not_before is None else moment(args.not_before, "not-before"),
        expires=moment(args.expires, "expires"),
        issuer=given_issuer(args),
        gateway=given_gateway(args),
    )
    write_output(args, task.canonical(), summary(task), table(task))


def _default_reports(args: argparse.Namespace, protocol: Protocol[Result]) -> int:
    """Reports per batch if the user gives none; asks for a number where slack for one bad client
    needs many more reports than there are users."""
    from shuffledp.tasks.rules import slack_is_large
    from shuffledp.tasks.task import checked_report_size, default_reports

    users = protocol.users
    if args.top_up == "full":  # the shuffler's own set of noise is the slack
        return users
    size = checked_report_size(protocol, 2 * users)
    if slack_is_large(users, size):
        raise ParameterError(
            f"A report has {size:,} messages, so that one faulty client could block a batch of "
            f"{users:,} reports; choose --reports: {users + size:,} tolerates one faulty client, "
            f"{users:,} none."
        )
    return default_reports(protocol)


def moment(text: str, name: str) -> int:
    """Seconds since 1970 from a date, or from a duration starting now."""
    span = re.fullmatch("([0-9]{1,6})([mhd])", text.strip(), re.ASCII)
    if span:
        return int(system_clock()) + int(span[1]) * {"m": 60, "h": 3600, "d": DAY_SECONDS}[span[2]]
    try:
        when = datetime.fromisoformat(text.strip())
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return math.floor(when.timestamp())
    except (ValueError, OverflowError):
        raise ParameterError(
            f"--{name} must be a date like 2031-01-31 or 2031-01-31T18:00 (UTC), or a time from "
            "now like 12h or 30d."
        ) from None


def moment_text(seconds: int) -> str:
    """A task's date for people."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def read_task(path: str) -> Task:
    """The task in a file, not yet verified."""
    from shuffledp.tasks.task import MOST_TASK_BYTES, task_from_json

    return task_from_json(read_file(path, MOST_TASK_BYTES))


def summary(task: Task) -> dict[str, Any]:
    """The task with its id and what follows from it."""
    return {
        "task": task.id.hex(),
        "report_bytes": task.report_bytes,
        "bad_messages_tolerated": task.batch.tolerated(task.protocol.users),
        "forecast_rmse": task.forecast_rmse(),
    } | task.to_dict()


def table(task: Task) -> Any:
    """The task as a table for people."""
    protocol, rule, who = task.protocol, task.batch, task.operators
    top_up = {
        "none": "never released short",
        "missing": "missing noise added by the shuffler",
        "full": "one full set of noise added by the shuffler",
    }[rule.top_up]
    noise = (
        "with a full set of noise added before publishing"
        if task.publish_shares
        else "with no noise added before publishing"
    )
    return Facts(
        task.name,
        [
            ("id", task.id.hex()),
            ("question", task.question),
            (
                "operators",
                f"collector {who.collector}, shuffler {who.shuffler}, analyzer {who.analyzer}",
            ),
            ("shuffler", task.shuffler),
            ("valid", f"{moment_text(task.not_before)} to {moment_text(task.expires)}"),
            ("query", f"{protocol.query}, ε = {show(protocol.epsilon)}"),
            ("guarantee", task.guarantee),
            ("forecast", f"RMSE {task.forecast_rmse():,.4g} {noise}"),
            ("report", f"{task.report_size} messages, {task.report_bytes:,} bytes, always"),
            ("batch", f"{counted(rule.reports, 'report')}, {top_up}, {task.order} order"),
            ("slack", slack(task)),
            ("analyzer key", f"{task.key.key_id} (epoch {task.key.epoch})"),
            ("tokens", issuer_words(task)),
            ("answers", "as often as clients like" if task.repeat else "one per client"),
        ],
    )


def slack(task: Task) -> str:
    """How many bad messages a batch tolerates, for people."""
    most = task.batch.tolerated(task.protocol.users)
    clients = most // task.report_size
    few = {0: "a single such client can block a batch", 1: "one such client cannot block a batch"}
    blocked = few.get(clients, f"{clients:,} such clients cannot block a batch")
    return (
        f"published with at most {most:,} bad messages, else held; a bad client can send "
        f"{task.report_size:,}, so {blocked}"
    )


def run_show(args: argparse.Namespace) -> None:
    task = read_task(args.task)
    emit(args, summary(task), table(task))


def run_verify(args: argparse.Namespace) -> None:
    task = read_task(args.task)
    with time_limit(VERIFY_SECONDS, "Verifying this task"):
        certificate = task.verify()
    data = {"task": task.id.hex(), "verified": True, "epsilon": str(certificate.epsilon)}
    emit(
        args,
        data,
        f"Verified: {task.name} is ε-DP with ε = {show(certificate.epsilon)} for "
        f"{counted(certificate.protocol.users, 'user')}; every report holds "
        f"{task.report_size} messages (padding {task.padding}), a batch "
        f"{counted(task.batch.reports, 'report')}.\n{task.id.hex()}",
    )


def run_register(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import register_everywhere
    from shuffledp.tasks.signing import SigningKey

    task = read_task(args.task)
    servers = {"analyzer": args.analyzer, "shuffler": args.shuffler or task.shuffler}
    if task.issuer is not None:
        servers["issuer"] = task.issuer.url
    tokens = collector_tokens(args, servers)
    key = SigningKey.load(args.signing_key)
    with time_limit(VERIFY_SECONDS, "Verifying this task"):
        task.verify()
    new = register_everywhere(task, servers, tokens, key)
    emit(
        args,
        {"task": task.id.hex(), "new": new, "collector_key": key.public.hex()},
        f"Registered {task.name} at {len(new)} servers, signed with {key.public.hex()}; it is "
        f"in the analyzer's public log.\n{task.id.hex()}",
    )


def run_close(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import close

    task = read_task(args.task)
    close(task.id, args.shuffler or task.shuffler, given_token(args, "collector", "shuffler"))
    emit(
        args,
        {"task": task.id.hex(), "state": "closed"},
        f"{task.name} takes no more reports.",
    )


SERVER = "the operators' URL of a shuffler or an analyzer"


def add_keeping(actions: Commands) -> None:
    """Adds `list`, `archive` and `delete` to the command `task`."""
    listing = add_command(
        actions,
        "list",
        run_list,
        "all tasks of a server and their states",
        examples=["task list --server http://127.0.0.1:8811"],
        needs=["client"],
    )
    archive = add_command(
        actions,
        "archive",
        run_archive,
        "end a task permanently; the server accepts nothing more for it",
        examples=["task archive --server http://127.0.0.1:8811 --task ID"],
        needs=["client"],
    )
    archive.add_argument(
        "--discard",
        action="store_true",
        help="also discard waiting reports and unfinished batches",
    )
    delete = add_command(
        actions,
        "delete",
        run_delete,
        "delete an archived task and everything a server stores about it",
        examples=["task delete --server http://127.0.0.1:8811 --task ID"],
        needs=["client"],
    )
    for parser in (listing, archive, delete):
        parser.add_argument("--server", required=True, metavar="URL", help=SERVER)
        add_token(parser, "operator")
    for parser in (archive, delete):
        parser.add_argument("--task", required=True, metavar="ID", help="the task's id")


def run_list(args: argparse.Namespace) -> None:
    found = _call(args, "GET", "/tasks", ["tasks"])["tasks"]
    emit(args, found, lambda out: _show_list(out, found))


def _show_list(out: Any, found: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table("name", "state", "expires", "waiting", "unfinished", "id")
    for one in found:
        table.add_row(
            one["name"],
            one["state"],
            moment_text(one["expires"]),
            *(
                "unreachable" if one[name] is None else f"{one[name]:,}"
                for name in ("waiting", "unfinished")
            ),
            one["task"][:16],
        )
    out.print(table if found else "No task is registered here.")


def run_archive(args: argparse.Namespace) -> None:
    path, discard = f"/tasks/{_task_id(args)}/archive", {"discard": args.discard}
    done = _call(args, "POST", path, ["state"], json=discard)
    emit(args, done, "The task is archived; nothing more is accepted for it.")


def run_delete(args: argparse.Namespace) -> None:
    done = _call(args, "DELETE", f"/tasks/{_task_id(args)}", ["state"])
    emit(args, done, "The task and everything stored about it are deleted.")


def _task_id(args: argparse.Namespace) -> str:
    if not re.fullmatch("[0-9a-f]{64}", args.task):
        raise ParameterError("A task's id is 64 hexadecimal digits; `task list --json` shows it.")
    return str(args.task)


def _call(
    args: argparse.Namespace, method: str, path: str, fields: list[str], **content: Any
) -> dict[str, Any]:
    from shuffledp.service.client.collector import ask

    token = given_token(args, "operator")
    return ask(args.server, path, token, fields=fields, method=method, **content)


def add_log(actions: Commands) -> None:
    """Adds the action `log`."""
    log = add_command(
        actions,
        "log",
        run_log,
        "read and check the public log of all tasks",
        examples=[
            "task log --analyzer https://analyzer.example --shuffler https://shuffler.example",
            "task log --analyzer https://analyzer.example --seen head.json",
        ],
        needs=["client"],
    )
    log.add_argument("--analyzer", required=True, metavar="URL", help="its URL")
    log.add_argument(
        "--shuffler", metavar="URL", help="also check what this shuffler has witnessed"
    )
    log.add_argument(
        "--seen",
        metavar="FILE",
        help="check that the log extends the head in this file, then store the new head there",
    )


def run_log(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import CALL_SECONDS
    from shuffledp.service.client.connection import BlockingConnection
    from shuffledp.service.client.task_log import Log, same_questions

    with BlockingConnection(seconds=CALL_SECONDS) as connection:
        log = Log(args.analyzer, connection)
        if args.seen and Path(args.seen).exists():
            _check_seen(log, args.seen)
        witness = log.check_witnessed(args.shuffler).hex() if args.shuffler else None
        with progress_bar(args, "reading tasks", len(log.entries)) as progress:
            tasks = log.tasks(lambda: progress(1))
    same = same_questions(tasks)
    data = {
        "head": log.head.to_dict(),
        "shuffler_key": witness,
        "tasks": [
            {
                "task": entry.task_id.hex(),
                "collector_key": entry.collector.key.hex(),
                "same_question_as": same.get(place, []),
                **_log_facts(tasks[place]),
            }
            for place, entry in enumerate(log.entries)
        ],
    }
    if args.seen:
        write_whole(args.seen, json.dumps(log.head.to_dict(), indent=2), durable=True)
    emit(args, data, lambda out: _show_log(out, data))


def _check_seen(log: Log, path: str) -> None:
    from shuffledp.tasks.errors import ProofError
    from shuffledp.tasks.log import Head

    try:
        seen = Head.from_dict(read_json(path))
    except ProofError:
        raise ParameterError(
            f"{path} is not the head of a log; use a file that --seen wrote."
        ) from None
    seen.check()
    log.check_continues(seen.size, seen.root, seen.log_key)


def _log_facts(task: Task | None) -> dict[str, Any]:
    """What a task asks; empty if the analyzer no longer has its text."""
    if task is None:
        return {"name": None, "question": None, "expires": None}
    return {"name": task.name, "question": task.question, "expires": task.expires}


def _show_log(out: Console, data: Mapping[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    head = data["head"]
    out.print(f"{counted(head['size'], 'task')}, all signed; root {head['root']}")
    if data["shuffler_key"]:
        out.print(f"The shuffler {data['shuffler_key']} has witnessed this log.")
    made = Table(box=None)
    for name in ("", "task", "question", "until", "same question"):
        made.add_column(name, overflow="fold")
    for place, task in enumerate(data["tasks"]):
        until = task["expires"] and datetime.fromtimestamp(task["expires"], UTC).date().isoformat()
        same = ", ".join(str(other) for other in task["same_question_as"])
        question = task["question"] or "(no longer available)"
        made.add_row(str(place), f"{task['task'][:16]}…", Text(question), until or "", same)
    if data["tasks"]:
        out.print(made)
    if any(task["same_question_as"] for task in data["tasks"]):
        out.print("Some tasks ask the same question at the same time; ask the collector why.")
