"""What a device that breaks the protocol can do, and whether the studio's report says it."""

from __future__ import annotations

import json
import re

import pytest

from shuffledp import plan_count
from shuffledp.protocols.fake_clients import moved, weight
from shuffledp.studio.report import report_page
from shuffledp.studio.words import fake_clients_sentences

FORM = {"question": "count", "users": "10000", "confidence": "95", "find": "error"}


@pytest.mark.attack("a device that sends all its messages to one counter")
def test_the_report_says_what_devices_can_do_as_computed_from_the_plan() -> None:
    plan = plan_count(10_000, 1, padded=True)
    alone, together = fake_clients_sentences(plan)
    found = re.search(r"counts as ([\d.]+) honest people", alone)
    assert found is not None and f"holds {plan.report_size} messages" in alone
    cell = plan.protocol.cells[0]
    assert float(found[1]) == pytest.approx(float(cell.estimate(plan.report_size, 0, 1)), rel=0.01)
    share = re.search(r"100 devices of 10,000 .* by ([\d.]+) percentage points", together)
    assert share is not None
    seen = moved(plan.protocol, 10_000, 100, plan.report_size, honest_share=0.3)
    assert float(share[1]) == pytest.approx(seen.estimate / 100, rel=0.01) and seen.anomaly < 6
    assert 13 < float(share[1]) < 14
    smaller = plan_count(10_000, 1, rmse=10, padded=True)  # another plan, another figure
    assert smaller.report_size < plan.report_size
    assert weight(smaller.protocol, smaller.report_size) < weight(plan.protocol, plan.report_size)
    asked = {"form": FORM, "publish_noise": True, "purpose": {"name": "bikes"}}
    page = report_page(asked, json.dumps(plan.to_dict()))
    assert alone.replace("'", "&#39;") in page and together in page
    assert "within the range of possible values" not in page
