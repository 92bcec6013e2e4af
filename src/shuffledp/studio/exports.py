"""Files to save: published results as JSON, CSV, PNG and a page for the public, the task, and the
report. Those of a trial are marked as such."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.plots.results import published_png
from shuffledp.studio.public_page import public_zip
from shuffledp.studio.report import TRIAL, report_page
from shuffledp.studio.running import Collected
from shuffledp.tasks.results import results_csv, series_csv

Asked = Mapping[str, Any]


def _json(asked: Asked, collected: Collected) -> bytes:
    results = collected.results
    if collected.trial:
        results = [{"trial": TRIAL, **one} for one in results]
    return (json.dumps(results, indent=2, ensure_ascii=False) + "\n").encode()


def _csv(asked: Asked, collected: Collected) -> bytes:
    if collected.task is not None and collected.task.series is not None:
        return series_csv({**one, "results": [one]} for one in collected.results).encode()
    marks = {"trial": TRIAL} if collected.trial else {}
    return results_csv(collected.results, **marks).encode()


def _png(asked: Asked, collected: Collected) -> bytes:
    numbered = [{**one, "number": place} for place, one in enumerate(collected.results, start=1)]
    return published_png(numbered, TRIAL if collected.trial else "")


def _task(asked: Asked, collected: Collected) -> bytes:
    if collected.task is None:
        raise ParameterError("There is no task yet; start a collection in the third step.")
    return collected.task.canonical()


def _report(asked: Asked, collected: Collected) -> bytes:
    """The report on the page's plan, or on the collection with the plan that it follows."""
    if not asked.get("collected"):
        return report_page(asked, str(asked.get("plan"))).encode()
    if collected.task is None:
        raise ParameterError("There is no collection yet; start one in the third step.")
    began = {
        "form": collected.form,
        "purpose": _purpose(asked, collected),
        "publish_noise": collected.task.publish_shares > 0,
    }
    page = report_page(began, collected.plan, collected.results, trial=collected.trial)
    return page.encode()


def _public(asked: Asked, collected: Collected) -> bytes:
    """The page for the public with its files."""
    files = {"results.csv": _csv(asked, collected), "results.json": _json(asked, collected)}
    if collected.task is not None:
        files["task.json"] = collected.task.canonical()
    if collected.proof is not None:
        files["log-entry.json"] = collected.proof.to_json().encode()
    return public_zip({**asked, "purpose": _purpose(asked, collected)}, collected, files)


def _purpose(asked: Asked, collected: Collected) -> dict[str, Any]:
    """The words of the first step: as they are now, else as they were when the collection began."""
    typed = {name: text for name, text in (asked.get("purpose") or {}).items() if text}
    return {**collected.purpose, **typed}


EXPORTS: dict[str, tuple[str, Callable[[Asked, Collected], bytes]]] = {
    "results.json": ("application/json", _json),
    "results.csv": ("text/csv", _csv),
    "results.png": ("image/png", _png),
    "task.json": ("application/json", _task),
    "public.zip": ("application/zip", _public),
    "report.html": ("text/html", _report),
}
"""Every file by its name: its media type, and the function that makes it."""
