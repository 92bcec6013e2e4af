"""`shuffledp record FILE`: a deployment record of a task or a plan, to be published."""

from __future__ import annotations

import argparse
import json
from typing import Any

from shuffledp.cli.output import Commands, Facts, add_command, read_file, write_output
from shuffledp.documents.json_text import MOST_JSON_BYTES
from shuffledp.documents.json_text import read_json as json_of
from shuffledp.errors import ParameterError
from shuffledp.plans.plan import Plan
from shuffledp.tasks.deployment_record import (
    NOT_STATED,
    Statement,
    record_as_html,
    record_of_plan,
    record_of_task,
)
from shuffledp.tasks.task import task_from_json

STATED = {
    "intended-use": "what the result is for",
    "data-subjects": "who is asked",
    "justification": "why this ε, and who decided",
    "contact": "whom to ask about it",
}


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "record",
        run,
        "write a deployment record to publish: what is asked, ε, who runs what, how to check",
        examples=[
            'record task.json --intended-use "plan bike racks" --output record.html',
            "record plan.json --json",
        ],
    )
    parser.add_argument(
        "file", metavar="FILE", help="a task or a plan, as JSON; - is standard input"
    )
    parser.add_argument("--name", help="of the deployment (default: the task's; plan: its query)")
    for name, meaning in STATED.items():
        parser.add_argument(f"--{name}", metavar="TEXT", default=NOT_STATED, help=meaning)
    parser.add_argument(
        "--link", metavar="URL", action="append", default=[], help="more about it; repeatable"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write it: a page if the name ends in .html, else JSON"
    )


def run(args: argparse.Namespace) -> None:
    """Proves the task or plan again, and writes its record."""
    record = record_of(args)
    page = str(args.output or "").endswith((".html", ".htm"))
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    rows = [
        ("ε", f"{record['privacy']['epsilon']}, {record['privacy']['definition']}"),
        ("protects", record["privacy"]["unit"]),
        *((one["role"], one["operator"]) for one in record["parties"]),
        ("check", "; ".join(record["verification"]["steps"])),
        ("record", args.output or "add --output FILE (.html or .json) to write it"),
    ]
    write_output(
        args,
        record_as_html(record) if page else text,
        record,
        Facts(record["deployment"]["name"], rows),
    )


def record_of(args: argparse.Namespace) -> dict[str, Any]:
    """The record of the file, after proving its certificate again."""
    text = read_file(args.file, MOST_JSON_BYTES)
    data = json_of(text, args.file)
    said = Statement(
        intended_use=args.intended_use,
        data_subjects=args.data_subjects,
        justification=args.justification,
        contact=args.contact,
        links=tuple(args.link),
    )
    form = data.get("format", "") if isinstance(data, dict) else ""
    if str(form).startswith("shuffledp task"):
        task = task_from_json(text)
        task.verify()
        record = record_of_task(task, said)
        record["deployment"]["name"] = args.name or task.name
        return record
    if not str(form).startswith("shuffledp plan"):
        raise ParameterError(
            "This file is neither a task nor a plan; use what `shuffledp task create` or "
            "`shuffledp plan … --output` wrote."
        )
    plan = Plan.from_dict(data)
    return record_of_plan(plan, said, args.name or f"a {plan.protocol.query}")
