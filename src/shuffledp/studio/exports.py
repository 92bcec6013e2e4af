"""Files to keep: published results as JSON, CSV and PNG, and the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.planning.plan import Plan
from shuffledp.plots.published import published_png
from shuffledp.sealed.results import results_csv
from shuffledp.studio.questions import confidence_of
from shuffledp.studio.report import report_page

Asked = Mapping[str, Any]
Results = Sequence[dict[str, Any]]


def _json(asked: Asked, results: Results) -> bytes:
    return (json.dumps(list(results), indent=2, ensure_ascii=False) + "\n").encode()


def _csv(asked: Asked, results: Results) -> bytes:
    return results_csv(results).encode()


def _png(asked: Asked, results: Results) -> bytes:
    return published_png(results)


def _report(asked: Asked, results: Results) -> bytes:
    """The report on the page's plan; with the published results of that very plan, if any."""
    try:
        plan = Plan.from_dict(json.loads(asked["plan"]))
    except (KeyError, TypeError, ValueError):
        raise ParameterError("There is no plan yet; make one in the first step.") from None
    proved = plan.certificate.to_dict()["protocol"]
    fitting = [one for one in results if one["result"]["certificate"]["protocol"] == proved]
    page = report_page(
        plan,
        str(asked.get("name", "")),
        confidence_of(asked["form"]),
        bool(asked.get("publish_noise")),
        fitting,
    )
    return page.encode()


EXPORTS: dict[str, tuple[str, Callable[[Asked, Results], bytes]]] = {
    "results.json": ("application/json", _json),
    "results.csv": ("text/csv", _csv),
    "results.png": ("image/png", _png),
    "report.html": ("text/html", _report),
}
"""Every file by its name: its type, and what makes it."""
