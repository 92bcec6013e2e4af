"""Many runs of the page's query on an imported file, compared with the true answer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shuffledp.engines.rehearsal import Comparison, Rehearsal
from shuffledp.errors import DataError, ValueOutOfRange
from shuffledp.numbers.exact import exact, whole
from shuffledp.numbers.lattice import lattice_bins
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Result
from shuffledp.studio.examples import QUANTILES
from shuffledp.studio.fields import Form
from shuffledp.studio.importing import column_count, read_texts, read_values
from shuffledp.studio.questions import (
    BETWEEN,
    GROUP,
    OTHER_LABEL,
    VALUE,
    confidence_of,
    groups_of,
    noise_shares,
    question_of,
    reach_of,
)
from shuffledp.studio.suggesting import nearest_plan

Item = dict[str, Any]
MOST_RUNS = 2000
MOST_BUCKETS_SHOWN = 60
EMPTY_LABEL = "(empty)"
LEAVE, OWN, COUNT_AS = "leave", "own", "value"
"""What becomes of rows with an empty cell: left out, an answer by themselves, or a value."""


def rehearse(
    form: Form, plan: str, path: str, runs: str, chosen: Mapping[str, Any]
) -> Iterator[Item]:
    """The true answer, then the numbers of each run, then a summary of all runs. `chosen` says
    which columns are meant, and what becomes of empty cells."""
    wanted = whole(runs, "runs", most=MOST_RUNS)
    form, table, empty = _table(form, Path(path), chosen)
    with _of_column(form, chosen):
        setup, differs = _setup(form, plan, table, one_more=empty == OWN)
    yield {
        "ready": {
            "users": setup.users,
            "planned": setup.plan.users,
            "differs": differs,
            "truth": setup.truth.tolist(),
            "absent": _absent(form, setup),
        }
    }
    results: list[Result] = []
    for _ in range(wanted):
        results.append(setup.run())
        rows = results[-1].clipped_rows()[:MOST_BUCKETS_SHOWN]
        yield {"run": [_numbers(row[1:]) for row in rows]}
    yield {"summary": _summary(form, setup.plan, results, setup.truth)}


@contextmanager
def _of_column(form: Form, chosen: Mapping[str, Any]) -> Iterator[None]:
    """Makes errors name the column whose value does not fit, and what to do on the page."""
    name = chosen.get("name") or "the column"
    try:
        yield
    except ValueOutOfRange as error:
        if question_of(form).name != "count":
            said = str(error).replace("with clamp=True (--clamp)", "with the box on this page")
            raise DataError(
                f"Column {name}: {said} Or choose another column, or another question in the "
                "first step."
            ) from None
        raise DataError(
            f"Column {name} holds values other than yes/no or 0/1. Write which value to "
            "count under “Count the rows with this value”, or choose another column."
        ) from None


def _table(form: Form, path: Path, chosen: Mapping[str, Any]) -> tuple[Form, Any, str]:
    """(the form, with one more answer where empty cells are one; the columns that the query reads;
    what became of empty cells)."""
    question, empty = question_of(form), str(chosen.get("empty") or LEAVE)
    as_text = question.reads_texts or bool(question.name == "count" and form.get("equals"))
    value = _column(path, chosen.get("column"), as_text, question.words.of_one == "value")
    readable = value.null_count < len(value)
    if empty == COUNT_AS:
        value = _filled(value, str(chosen.get("empty_value") or "").strip())
    elif empty == OWN and question.reads_texts:
        value = pc.fill_null(value, EMPTY_LABEL)
        form = {**form, "labels": [*form.get("labels", ()), EMPTY_LABEL]}
    columns = {VALUE: value}
    if groups_of(form) is not None:
        columns[GROUP] = _column(path, chosen.get("group"), True, False, "of groups")
    table = pa.table(columns).drop_null()
    if not table.num_rows:
        raise DataError(
            "No row is left: wherever one column has a value, the other is empty."
            if readable
            else "No cell of this column can be read; choose another column."
        )
    return form, _prepared(form, table), empty


def _column(path: Path, number: Any, as_text: bool, dates: bool, what: str = "") -> Any:
    """A column of the imported file: its texts, or what they mean."""
    if not str(number or "").isdigit():
        raise DataError(f"Choose a column{f' {what}' if what else ''} first.")
    if int(number) >= column_count(path):
        raise DataError("There is no such column; choose one of those listed.")
    values = None if as_text else read_values(path, int(number))
    if values is not None:
        return values
    texts = read_texts(path, int(number))
    if texts.null_count == len(texts):
        raise DataError("All cells of this column are empty; choose another column.")
    if not as_text:
        raise DataError(
            "This column holds texts, and the question is about "
            f"{'numbers or dates' if dates else 'numbers'}; choose another column, or another "
            "question in the first step."
        )
    return texts


def _filled(value: Any, text: str) -> Any:
    """The column with a value for every empty cell."""
    try:
        number: Any = text if pa.types.is_string(value.type) else _number(text, value.type)
        return pc.fill_null(value, pa.scalar(number, value.type))
    except (pa.ArrowException, ValueError, TypeError):
        raise DataError(
            "Empty cells cannot count as this value: write one of the column's own type, such as 0."
        ) from None


def _number(text: str, kind: Any) -> Any:
    if pa.types.is_boolean(kind):
        return {"0": False, "1": True, "no": False, "yes": True}[text.lower()]
    if pa.types.is_integer(kind):
        return int(text)
    return float(exact(text, "the value")) if pa.types.is_floating(kind) else text


def _prepared(form: Form, table: Any) -> Any:
    """Texts as the query takes them: compared with the value to count, or joined to groups."""
    question, value = question_of(form), table.column(VALUE)
    if question.name == "count" and form.get("equals"):
        value = pc.equal(value, str(form["equals"]).strip())
        table = table.set_column(0, VALUE, value)
    if groups_of(form) is not None and "labels" in question.fields:
        if form.get("other"):
            known = pc.is_in(value, pa.array(question.answers(form)))
            value = pc.if_else(known, value, OTHER_LABEL)
        joined = pc.binary_join_element_wise(table.column(GROUP), value, BETWEEN)
        return pa.table({VALUE: joined})
    return table


def _absent(form: Form, setup: Rehearsal[Result]) -> list[str]:
    """The answers that no row holds: they may be misspelt."""
    question = question_of(form)
    if question.name == "count" and groups_of(form) is None:
        return [str(form["equals"])] if form.get("equals") and not setup.truth[0] else []
    if "labels" not in question.fields:
        return []
    labels = question.combinations(form) if groups_of(form) else question.answers(form)
    return [label for label, count in zip(labels, setup.truth, strict=False) if not count]


def _setup(form: Form, plan: str, table: Any, one_more: bool) -> tuple[Rehearsal[Result], str]:
    """The rehearsal with the page's plan, or with another one if the file has fewer rows or one
    more answer; and in words, how it differs from what was planned."""
    question, rows = question_of(form), table.num_rows
    made, differs = Plan.from_dict(json.loads(plan)), ""
    few = rows < made.users
    if few or one_more:
        find = "error" if form["find"] == "error" else "messages"
        users = str(min(rows, made.users))
        form = {**form, "find": find, "epsilon": str(made.epsilon), "users": users}
        made, why = nearest_plan(form)
        reason = "fewer than the plan needs" if few else "and empty cells are one more answer"
        differs = (
            f"The file has {rows:,} rows, {reason}: a plan for {made.users:,} people, with the "
            f"same {'ε' if why else 'ε and target'}, is rehearsed instead. {why}"
        )
    elif rows > made.users:
        errors = "Every row adds noise, so these errors are larger than those of the plan."
        if question.words.of_one != "sum":
            errors = "With more rows, these errors are smaller than those of the plan."
        differs = f"The file has {rows:,} rows, but the plan is for {made.users:,} people. {errors}"
    how: dict[str, Any] = {"column": VALUE, "confidence": confidence_of(form)}
    query = question.query({**form, "equals": None}, made.epsilon, **how)
    shares = noise_shares(form, made.users)
    return Rehearsal(query, table, plan=made, noise_shares=shares), differs.strip()


def _summary(form: Form, plan: Plan[Any], results: list[Result], truth: Any) -> Item:
    """Coverage and errors of all runs together."""
    found, often = Comparison.of(results, truth), float(confidence_of(form))
    allowed = reach_of(form, plan, results[0].users)
    names = [QUANTILES.get(name, name) for name in found.names[:MOST_BUCKETS_SHOWN]]
    return {
        "names": names if len(names) > 1 else [question_of(form).words.about],
        "runs": len(results),
        "promised": often,
        "held": [int(number) for number in found.held.sum(axis=0)],
        "found": [int(number) for number in found.found.sum(axis=0)],
        "coverage": float(found.held.sum() / max(found.found.sum(), 1)),
        "rmse": [float(number) for number in found.rmse],
        "forecast": results[0].rmse,
        "within": {"error": allowed, "share": found.within(allowed + 0.5 * (allowed % 1 == 0))},
        "planned": reach_of(form, plan),
        "bars": _bars(results, found),
    }


def _numbers(row: Sequence[float]) -> list[float | None]:
    """Numbers as JSON has them: none where a word was not found."""
    return [None if math.isnan(one) else one for one in row]


def _bars(results: list[Result], found: Comparison) -> Item | None:
    """How often each error occurred, and its exact law, for results of one number."""
    law = getattr(results[0], "errors", None)
    if found.errors.shape[1] != 1 or law is None or len(results) < 10:
        return None
    errors = found.errors[:, 0]
    places, chances = replace(results[0]).errors()  # type: ignore[attr-defined]
    edges = lattice_bins(places, 3.5 * max(errors.std(), 1e-9) / len(errors) ** (1 / 3))
    reach = 1.1 * float(np.abs(errors).max()) + float(edges[1] - edges[0])
    edges = edges[np.abs(edges) <= reach]
    if len(edges) < 2:
        return None
    measured, _ = np.histogram(errors, bins=edges)
    expected, _ = np.histogram(places, bins=edges, weights=chances)
    return {
        "edges": edges.tolist(),
        "measured": (measured / len(errors)).tolist(),
        "expected": expected.tolist(),
    }
