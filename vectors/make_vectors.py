"""Writes vectors/certificates.json: certificates that must pass and attacks that must not.

    python vectors/make_vectors.py

Each entry has a certificate, whether it holds, and what was done to it. Both the package and the
independent checker are held against this file by the tests.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import shuffledp
from shuffledp.plans.plan import Plan

Data = dict[str, Any]


def cell(data: Data) -> Data:
    protocol: Data = data["protocol"]
    found: Data = protocol["cell"] if "cell" in protocol else protocol["digits"][0]
    inside: Data = found.get("cell", found)
    return inside


def change(name: str, value: Any) -> Callable[[Data], None]:
    return lambda data: cell(data).__setitem__(name, value)


PAPER_ATTACKS: dict[str, Callable[[Data], None]] = {
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


def less_odds(data: Data, side: str) -> None:
    """Odds that are too low by one part in a million."""
    direction = cell(data)[side]
    direction["odds"] = [str(Fraction(o) * Fraction(999_999, 10**6)) for o in direction["odds"]]


def shorter(data: Data, name: str) -> None:
    """A cut of the way up that is shorter by one message."""
    cell(data)["up"][name] -= 1


def one_direction(data: Data) -> None:
    """The cell of a count without groups, whose loss is the larger of two, and that loss."""
    alone = shuffledp.plan_count(10**4, 1, cell="bounded").protocol.to_dict()["cell"]
    data["protocol"].update(digits=[{"cell": alone, "down": "1"}])
    data.update(loss="1")


BOUNDED_ATTACKS: dict[str, Callable[[Data], None]] = {
    "lower odds upwards": lambda data: less_odds(data, "up"),
    "lower odds downwards": lambda data: less_odds(data, "down"),
    "a shorter cut": lambda data: shorter(data, "cut"),
    "a shorter muted cut": lambda data: shorter(data, "muted_cut"),
    "noise that falls faster": lambda data: cell(data)["up"].update(decay="1/10"),
    "a larger loss upwards": lambda data: cell(data)["up"].update(epsilon="11/10"),
    "no odds downwards": lambda data: cell(data)["down"].update(odds=[]),
    "a smaller epsilon claimed": lambda data: data.__setitem__("epsilon", "1/2"),
    "a smaller loss claimed": lambda data: data.__setitem__("loss", "1/2"),
    "another number of users": lambda data: data.__setitem__("users", 1),
}


GROUP_ATTACKS: dict[str, Callable[[Data], None]] = {
    **BOUNDED_ATTACKS,
    "one direction charged": one_direction,
    "the same group twice": lambda data: data["protocol"].update(labels=["a", "a"]),
}


def paper_plans() -> dict[str, Plan[Any]]:
    """Plans of the paper's cell for every query."""
    kind = "paper"
    return {
        "count": shuffledp.plan_count(10**6, 1, cell=kind),
        "count with a relative tolerance": shuffledp.plan_count(
            10**6, 1, relative_error="0.01", cell=kind
        ),
        "integer sum": shuffledp.plan_integer_sum(10**4, 1, 5, cell=kind),
        "histogram": shuffledp.plan_histogram(10**4, 1, 4, cell=kind),
        "real sum": shuffledp.plan_real_sum(10**4, 1, cell=kind),
        "quantiles": shuffledp.plan_quantiles(10**4, 1, (0, 1), bins=64, cell=kind),
        "thinning": shuffledp.plan_count(10**4, 1, max_messages=1, cell=kind),
    }


def _fixed(plan: Plan[Any]) -> Plan[Any]:
    """The plan with hash functions that are the same whenever this program runs."""
    return plan.renewed(shuffledp.SeededEntropy(1))


def bounded_plans() -> dict[str, Plan[Any]]:
    """Plans of the bounded cell for every query."""
    kind = "bounded"
    return {
        "bounded count": shuffledp.plan_count(10**6, 1, cell=kind),
        "bounded count, padded": shuffledp.plan_count(10**4, 1, padded=True, cell=kind),
        "bounded integer sum": shuffledp.plan_integer_sum(10**4, 1, 5, cell=kind),
        "bounded histogram": shuffledp.plan_histogram(10**4, 1, 4, cell=kind),
        "bounded real sum": shuffledp.plan_real_sum(10**4, 1, padded=True, cell=kind),
        "bounded quantiles": shuffledp.plan_quantiles(10**4, 1, (0, 1), bins=64, cell=kind),
    }


def pooled_plans() -> dict[str, Plan[Any]]:
    """Plans of the pooled cell for histograms."""
    kind = "pooled"
    return {
        "pooled histogram": shuffledp.plan_histogram(10**4, 1, 4, cell=kind),
        "pooled histogram, padded": shuffledp.plan_histogram(
            200, 1, ["a", "b", "c"], padded=True, other="c", cell=kind
        ),
    }


def fewer_drops(data: Data) -> None:
    """Labels dropped a thousandth too rarely."""
    up = data["protocol"]["cell"]["up"]
    up["odds"] = [str(Fraction(up["odds"][0]) * Fraction(999, 1000))]


def smaller_ratio(data: Data) -> None:
    """Jumps that tell more of the value than they may."""
    down = data["protocol"]["cell"]["down"]
    down["ratio"] = str(Fraction(down["ratio"]) * Fraction(9, 10))


def fewer_labels(data: Data) -> None:
    """An urn for more buckets than there are labels."""
    data["protocol"]["labels"].pop()
    data["protocol"]["other"] = None


POOLED_ATTACKS = {
    "labels dropped too rarely": fewer_drops,
    "a ratio that is too small": smaller_ratio,
    "fewer labels": fewer_labels,
    "other users": lambda data: more_users(data),
}


def label_plans() -> dict[str, Plan[Any]]:
    """Plans for labels of any domain, on a sparse cell."""
    return {
        "frequencies": _fixed(shuffledp.plan_frequencies(10**5, 1)),
        "heavy hitters": _fixed(shuffledp.plan_heavy_hitters(10**4, 2)),
    }


def weaker(data: Data) -> None:
    """A thousandth less muting."""
    cell = data["protocol"]["cell"]
    lost = Fraction(cell["muted"]) / 1000
    cell["muted"] = str(Fraction(cell["muted"]) - lost)
    cell["data"] = str(Fraction(cell["data"]) + lost)


def other_buckets(data: Data) -> None:
    """Three buckets fewer than the hash gives."""
    data["protocol"]["cell"]["buckets"] -= 3


def more_users(data: Data) -> None:
    """Noise for fewer users than are claimed."""
    data["users"] += 1


LABEL_ATTACKS = {
    "less muting": weaker,
    "buckets that are no power of two": other_buckets,
    "other users": more_users,
}


def group_plans() -> dict[str, Plan[Any]]:
    """Plans by private group."""
    return {
        "count by group": shuffledp.plan_by_group(10**4, 1, ["ä", ""], padded=True, cell="bounded"),
        "mean by group": shuffledp.plan_by_group(
            10**4, 1, ["may", "june"], answer="mean", bounds=(-1, 3)
        ),
    }


def counts_by_group() -> dict[str, Plan[Any]]:
    """Counts by private group whose cell draws all groups at once."""
    return {
        "sparse count by group": shuffledp.plan_by_group(10**4, 1, 5, error_at=100),
        "pooled count by group": shuffledp.plan_by_group(
            200, 1, ["a", "b", "c"], padded=True, cell="pooled"
        ),
    }


def no_bucket_for_zero(data: Data) -> None:
    """One more group, and no bucket for the users who hold 0."""
    labels = data["protocol"]["labels"]
    labels.append(max(labels) + 1 if isinstance(labels[0], int) else "d")


def as_integer_sum(data: Data) -> None:
    """An answer that such cells do not give."""
    data["protocol"]["answer"] = "integer-sum"


def cheaper_down(data: Data) -> None:
    """A loss downwards that is not the cell's."""
    data["protocol"]["digits"][0]["down"] = "1/100"


def fewer_jumps(data: Data) -> None:
    """A thousandth fewer jumps, or labels dropped as much too rarely."""
    inside = cell(data)
    if "up" in inside:
        inside["up"]["odds"] = [str(Fraction(inside["up"]["odds"][0]) * Fraction(999, 1000))]
        return
    lost = Fraction(inside["jump"]) / 1000
    inside["jump"] = str(Fraction(inside["jump"]) - lost)
    inside["data"] = str(Fraction(inside["data"]) + lost)


COUNT_ATTACKS = {
    "fewer jumps": fewer_jumps,
    "no bucket for zero": no_bucket_for_zero,
    "an integer sum": as_integer_sum,
    "a cheaper way down": cheaper_down,
    "other users": more_users,
    "the same group twice": GROUP_ATTACKS["the same group twice"],
}


ATTACKED = (
    "count",
    "integer sum",
    "real sum",
    "bounded count",
    "bounded integer sum",
    "bounded real sum",
    "count by group",
    "mean by group",
    "sparse count by group",
    "pooled count by group",
    "frequencies",
    "heavy hitters",
    "pooled histogram, padded",
)


def main() -> None:
    entries = []
    for plans, attacks in (
        (paper_plans(), PAPER_ATTACKS),
        (bounded_plans(), BOUNDED_ATTACKS),
        (group_plans(), GROUP_ATTACKS),
        (counts_by_group(), COUNT_ATTACKS),
        (label_plans(), LABEL_ATTACKS),
        (pooled_plans(), POOLED_ATTACKS),
    ):
        for name, plan in plans.items():
            data = plan.certificate.to_dict()
            data.pop("version")
            entries.append({"name": name, "holds": True, "certificate": data})
            for attack, damage in attacks.items() if name in ATTACKED else ():
                damaged = copy.deepcopy(data)
                damage(damaged)
                entry = {"name": f"{name}: {attack}", "holds": False, "certificate": damaged}
                entries.append(entry)
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    Path(__file__).with_name("certificates.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
