"""A page for the public on a collection: the question, its newest result, how it changed from batch
to batch, and how it was protected. A ZIP archive has the page and its files beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from shuffledp.errors import ParameterError
from shuffledp.plans.plan import Plan
from shuffledp.queries.quantiles.dates import DAY, date_text
from shuffledp.service.http.templates import templates
from shuffledp.studio.collecting import Purpose, when
from shuffledp.studio.examples import answer_lines, answer_range
from shuffledp.studio.fields import Form
from shuffledp.studio.questions import question_of
from shuffledp.studio.report import TRIAL
from shuffledp.studio.running import Collected
from shuffledp.studio.words import epsilon_sentence, people_sentence, short
from shuffledp.tasks.results import ResultLine

PAGE = "index.html"
MOST_TRENDS, MOST_TICKS = 24, 4
LEFT, WIDTH = 2.0, 96.0
"""Where pictures begin, and how wide they are, in per cent."""
_PAGES = templates("shuffledp.studio")


class Shown(NamedTuple):
    """One number as the page shows it; positions are in per cent of the scale."""

    label: str
    number: str
    interval: str
    x: float
    x_low: float
    x_high: float
    doubtful: bool
    when: str
    """Its batch, or in a series its date."""
    people: int


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What numbers mean on a page: the smallest and the largest possible answer, and their unit."""

    form: Form
    dates: bool

    @property
    def of_people(self) -> bool:
        """Whether numbers are people, who are shown as shares."""
        words = question_of(self.form).words
        return words.of_one == "sum" and words.whole and "largest" not in self.fields

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the question."""
        return question_of(self.form).fields

    def ends(self, people: int) -> tuple[float, float]:
        """The smallest and the largest possible answer."""
        return (0.0, float(people)) if self.of_people else answer_range(self.form, people)

    def text(self, number: float, people: int) -> str:
        """A number in words: a share, a date or a plain number."""
        if self.of_people:
            return f"{100 * number / people:.1f}".removesuffix(".0") + " %"
        return date_text(number, DAY) if self.dates else short(number)

    def across(self, number: float, people: int) -> float:
        """Where a number is drawn, in per cent."""
        low, high = self.ends(people)
        share = (number - low) / ((high - low) or 1.0)
        return LEFT + WIDTH * min(max(share, 0.0), 1.0)

    def shown(self, line: ResultLine, published: Mapping[str, Any]) -> Shown:
        """A published number with its interval."""
        people = published["reports"]
        low, high = self.ends(people)
        ends = [min(max(end, low), high) for end in (line.low, line.high)]
        return Shown(
            label=line.label,
            number=self.text(line.clipped, people),
            interval=" to ".join(self.text(end, people) for end in ends),
            x=self.across(line.clipped, people),
            x_low=self.across(line.low, people),
            x_high=self.across(line.high, people),
            doubtful=bool(published["implausible"]),
            when=when(published),
            people=people,
        )


def public_zip(asked: Mapping[str, Any], collected: Collected, files: Mapping[str, bytes]) -> bytes:
    """The page and the files that it links to, as a ZIP archive."""
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as archive:
        archive.writestr(PAGE, public_page(asked, collected, list(files)))
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def public_page(asked: Mapping[str, Any], collected: Collected, files: Sequence[str] = ()) -> str:
    """The page as HTML that needs no script and no other file; `files` are linked."""
    results, task = collected.results, collected.task
    if task is None or not results:
        raise ParameterError("There is no published result yet; wait for the first batch.")
    plan = Plan.from_dict(json.loads(collected.plan))
    scale = Scale(form=collected.form, dates=str(results[-1]["result"].get("unit")).startswith(DAY))
    rows = [
        [scale.shown(one, batch) for one in answer_lines(scale.form, batch)] for batch in results
    ]
    people, purpose = results[-1]["reports"], Purpose.of(asked.get("purpose"))
    return _PAGES.get_template("public.html").render(
        title=task.name,
        question=task.question,
        trial=TRIAL if collected.trial else "",
        people=people,
        confidence=results[-1]["result"]["confidence"],
        newest=rows[-1],
        ends=[scale.text(end, people) for end in scale.ends(people)],
        trends=_trends(rows) if len(results) > 1 else {},
        whens=[when(batch) for batch in results],
        every="batch" if task.series is None else task.series.every,
        every_tick=math.ceil(len(results) / MOST_TICKS),
        spread=lambda at: f"{LEFT + WIDTH * (at + 0.5) / len(results):.2f}",
        operators=task.operators,
        promises=[epsilon_sentence(plan.epsilon, plan.padding), people_sentence(plan)],
        certified=plan.certificate.to_dict(),
        task_id=task.id.hex(),
        proof=collected.proof,
        afterwards=purpose.afterwards,
        files=files,
    )


def _trends(rows: Sequence[Sequence[Shown]]) -> dict[str, list[Shown | None]]:
    """The numbers of each label, batch by batch; None where a batch has none."""
    labels = list(dict.fromkeys(one.label for batch in rows for one in batch))[:MOST_TRENDS]
    found = [{one.label: one for one in batch} for batch in rows]
    return {label: [batch.get(label) for batch in found] for label in labels}
