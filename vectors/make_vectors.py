"""Writes vectors/certificates.json: certificates that must pass and attacks that must not.

    python vectors/make_vectors.py

Each entry has a certificate, whether it holds, and what was done to it. Both the package and the
independent checker are held against this file by the tests.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shuffledp

Data = dict[str, Any]


def cell(data: Data) -> Data:
    protocol: Data = data["protocol"]
    found: Data = protocol["cell"] if "cell" in protocol else protocol["digits"][0]
    return found


def change(name: str, value: Any) -> Callable[[Data], None]:
    return lambda data: cell(data).__setitem__(name, value)


ATTACKS: dict[str, Callable[[Data], None]] = {
    "one pair less": lambda data: change("input_pairs", cell(data)["input_pairs"] - 1)(data),
    "half the flood": change("flood_mean", "1000"),
    "hardly any muting": change("mute_probability", "1/1000000000000"),
    "muting with certainty": change("mute_probability", "1"),
    "less noise upwards": change("up_epsilon", "11/10"),
    "less noise downwards": change("down_epsilon", "99/100"),
    "a smaller epsilon claimed": lambda data: data.__setitem__("epsilon", "1/2"),
    "a smaller loss claimed": lambda data: data.__setitem__("loss", "1/2"),
    "a larger stand-in": lambda data: change("stand_in", cell(data)["largest"])(data),
    "another number of users": lambda data: data.__setitem__("users", 1),
}


def main() -> None:
    plans = {
        "count": shuffledp.plan_count(10**6, 1),
        "count with a relative tolerance": shuffledp.plan_count(10**6, 1, relative_error="0.01"),
        "integer sum": shuffledp.plan_integer_sum(10**4, 1, 5),
        "histogram": shuffledp.plan_histogram(10**4, 1, 4),
        "real sum": shuffledp.plan_real_sum(10**4, 1),
        "quantiles": shuffledp.plan_quantiles(10**4, 1, (0, 1), bins=64),
        "thinning": shuffledp.plan_count(10**4, 1, max_messages=1),
    }
    entries = []
    for name, plan in plans.items():
        data = plan.certificate.to_dict()
        data.pop("version")
        entries.append({"name": name, "holds": True, "certificate": data})
        for attack, damage in (
            ATTACKS.items() if name in ("count", "integer sum", "real sum") else ()
        ):
            damaged = copy.deepcopy(data)
            damage(damaged)
            entries.append({"name": f"{name}: {attack}", "holds": False, "certificate": damaged})
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    Path(__file__).with_name("certificates.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
