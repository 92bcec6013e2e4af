"""A deployment record that can be published: what is asked, at which ε, by whom, and how to check.

Its fields are those that public registries of deployments ask for: who, what, when, the privacy
model with its parameters and its unit, the parties and what each sees, and how to verify it. It
contains no secrets and nothing about any person.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from shuffledp.cells.report_size import promise
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import NEIGHBOURS, Result
from shuffledp.tasks.rules import AGAINST_WHOM
from shuffledp.tasks.task import UNNAMED_OPERATORS, Task
from shuffledp.version import __version__

RECORD_FORMAT = "shuffledp deployment record 1"
NOT_STATED = "not stated"
SEES = {
    "collector": "the task and the published result",
    "shuffler": "who takes part, and encrypted reports of equal size",
    "analyzer": "everybody's messages, without knowing who sent which",
}


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What the operators state in addition to the plan or the task."""

    intended_use: str = NOT_STATED
    """What the result is for."""
    data_subjects: str = NOT_STATED
    """Who is asked."""
    justification: str = NOT_STATED
    """Why this ε, and who decided."""
    contact: str = NOT_STATED
    links: tuple[str, ...] = field(default=())


def record_of_task(task: Task, said: Statement) -> dict[str, Any]:
    """The record of a task: everything in it is in the task or in the statement."""
    who = asdict(task.operators)
    return {
        "format": RECORD_FORMAT,
        "deployment": _deployment(task.name, said)
        | {
            "question": task.question,
            "status": "task",
            "period": {"from": _day(task.not_before), "to": _day(task.expires)},
            "answers_per_person": "several" if task.repeat else "one",
        },
        "privacy": _privacy(task.certificate, task.padding)
        | {"holds": AGAINST_WHOM[task.publish_noise]},
        "parties": _parties(who, task.issuer is not None, task.gateway is not None),
        "collection": {
            "query": task.protocol.query,
            "users_required": task.protocol.users,
            "reports_per_batch": task.batch.reports,
            "messages_per_report": task.report_size,
            "bytes_per_report": task.report_bytes,
            "error_rmse": task.forecast_rmse(),
        },
        "verification": {
            "task_id": task.id.hex(),
            "steps": [
                "shuffledp task verify task.json",
                "python -m shuffledp_check task.json",
                "shuffledp task log --analyzer URL: the task is in the public log",
            ],
        },
        "software": _software(),
    }


def record_of_plan(plan: Plan[Result], said: Statement, name: str) -> dict[str, Any]:
    """The record of a plan, before there is a task."""
    certificate = plan.certificate.to_dict()
    return {
        "format": RECORD_FORMAT,
        "deployment": _deployment(name, said) | {"status": "plan"},
        "privacy": _privacy(certificate, plan.padding),
        "parties": _parties(asdict(UNNAMED_OPERATORS), False, False),
        "collection": {
            "query": plan.protocol.query,
            "users_required": plan.users,
            "messages_per_report": plan.report_size,
            "bytes_per_report": plan.encrypted_bytes,
            "error_rmse": plan.forecast.rmse,
        },
        "verification": {
            "steps": ["shuffledp verify plan.json", "python -m shuffledp_check plan.json"]
        },
        "software": _software(),
    }


def _deployment(name: str, said: Statement) -> dict[str, Any]:
    stated = asdict(said)
    return {"name": name, **stated, "links": list(said.links)}


def _privacy(certificate: Mapping[str, Any], padding: str) -> dict[str, Any]:
    return {
        "model": "shuffle model",
        "definition": promise(padding),
        "epsilon": certificate["epsilon"],
        "delta": "0",
        "unit": "one person's answer",
        "neighbours": NEIGHBOURS,
        "accounting": "ε adds up over all tasks that the same person answers; each device keeps a "
        "budget and refuses more",
        "mechanism": f"{certificate['rule']}; noise shared among devices, certified exactly",
    }


def _parties(who: Mapping[str, str], issuer: bool, relay: bool) -> list[dict[str, str]]:
    rows = [{"role": role, "operator": who[role], "sees": sees} for role, sees in SEES.items()]
    if issuer:
        rows.append({"role": "issuer", "operator": NOT_STATED, "sees": "who enrols, no report"})
    if relay:
        rows.append({"role": "relay", "operator": NOT_STATED, "sees": "addresses, no content"})
    return rows


def _software() -> dict[str, str]:
    return {"name": "shuffledp", "version": __version__, "licence": "Apache-2.0"}


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 46em; margin: 2em auto;
padding: 0 1em; color-scheme: light dark; } th { text-align: left; vertical-align: top;
padding: 0.2em 1em 0.2em 0; font-weight: 600; } td { padding: 0.2em 0; } caption { text-align: left;
font-size: 1.2em; font-weight: 600; padding: 1em 0 0.3em; }"""


def record_as_html(record: Mapping[str, Any]) -> str:
    """The record as one page that needs nothing else: it can be published and printed."""
    title = html.escape(str(record["deployment"]["name"]))
    parts = "".join(
        _table(name, value) for name, value in record.items() if isinstance(value, dict | list)
    )
    warning = (
        "Shuffler and analyzer together could read every answer; they must be run by different "
        "organisations."
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<main><h1>{title}</h1><p>Deployment record: how this collection protects the people "
        f"who answer. {warning}</p>{parts}</main></body></html>\n"
    )


def _table(name: str, value: Mapping[str, Any] | list[Mapping[str, Any]]) -> str:
    if isinstance(value, list):
        rows = [(one["role"], f"{one['operator']}; sees {one['sees']}") for one in value]
    else:
        rows = [(key, _shown(one)) for key, one in value.items()]
    body = "".join(
        f'<tr><th scope="row">{html.escape(_words(key))}</th><td>{html.escape(text)}</td></tr>'
        for key, text in rows
    )
    return f"<table><caption>{_words(name)}</caption>{body}</table>"


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items())
    if isinstance(value, list):
        return "; ".join(str(one) for one in value) or "none"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
