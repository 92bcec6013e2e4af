"""Heavy hitters: frequent words of a real list are found, without candidates."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wordfreq
from command_line import run

import shuffledp
from shuffledp import SeededEntropy, plan_heavy_hitters
from shuffledp.errors import InputError, ParameterError, PlanningError
from shuffledp.queries.heavy_hitters.protocol import (
    END,
    MORE,
    OTHER,
    UNKNOWN,
    FoundWord,
    HeavyHittersProtocol,
    word_of,
)

USERS = 100_000


def english() -> tuple[np.ndarray, dict[str, int]]:
    """100,000 words of English in the proportions of the package wordfreq, and their counts."""
    words = wordfreq.top_n_list("en", 3_000)
    shares = np.array([wordfreq.word_frequency(word, "en") for word in words])
    counts = np.floor(shares / shares.sum() * USERS).astype(int)
    counts[-1] += USERS - counts.sum()
    return np.repeat(np.array(words, object), counts), dict(zip(words, counts, strict=True))


def tree(**asked: Any) -> HeavyHittersProtocol:
    what = plan_heavy_hitters(**{"users": USERS, "epsilon": 2, **asked}).protocol
    assert isinstance(what, HeavyHittersProtocol)
    return what


def test_all_words_above_one_percent_are_found() -> None:
    """The reach, in few of the hundred runs that `scripts/bench_words.py` makes."""
    data, counts = english()
    what, wanted = tree(), {word for word, count in counts.items() if count >= USERS // 100}
    assert len(wanted) > 10 and wanted >= {"the", "that", "on"}
    for seed in range(2):
        one = what.renewed(SeededEntropy(seed))
        found = one.analyze(one.release(one.aggregate(data, SeededEntropy(seed))))
        assert wanted <= set(found.labels)
        assert list(found.values) == sorted(found.values, reverse=True)
        true = np.array([counts.get(str(word), 0) for word in found.labels])
        large = true >= USERS // 100
        assert ((found.low <= true) & (true <= found.high))[large].mean() > 0.8
        invented = [w for w in found.labels if w not in counts and UNKNOWN not in str(w)]
        assert len(invented) <= 2


def test_the_forecast_chance_is_what_is_measured() -> None:
    """Words near the threshold are found about as often as the plan says, and rarer ones hardly."""
    what = tree(users=20_000, length=4, max_messages=60)
    share = what.found_share(20_000, 0.6, 3)
    assert what.chance(20_000, share, 3) == pytest.approx(0.6, abs=0.01)
    assert what.chance(20_000, share / 3, 3) < 0.05
    assert what.chance(20_000, 2 * share, 3) > 0.95
    assert what.found_share(20_000, 0.95, 1) < what.found_share(20_000, 0.95, 4)
    others = [f"{a}{b}x" for a in "abcdefghijklmnopqrstuvwxy'-" for b in "hi"]  # spread as assumed
    data = np.array(others * 1_000, object)[:20_000]
    data[: round(share * 20_000)] = "zoo"
    hits = []
    for seed in range(16):
        one = what.renewed(SeededEntropy(seed))
        found = one.analyze(one.release(one.aggregate(data, SeededEntropy(seed))))
        hits.append("zoo" in found.labels)
    assert 0.25 < np.mean(hits) < 0.95


@pytest.mark.parametrize("true", [0.0, 30.0, 45.0, 60.0, 100.0])
def test_intervals_of_what_was_shown_keep_their_confidence_and_usual_ones_do_not(
    true: float,
) -> None:
    """Estimates with an error of 10 that are shown from 50 on."""
    drawn = np.random.default_rng(5).normal(true, 10, 2_000_000 if true == 0 else 4_000)
    shown = drawn[drawn >= 50][:2_000]
    if true == 0:
        shown = np.append(shown, 50.5)  # hardly any is shown by chance, and then just so
    words = [FoundWord("word", float(value), 10.0, 50.0) for value in shown]
    low = np.array([word.low(0.05, 1.96) for word in words])
    inside = (low <= true) & (true <= shown + 19.6)
    usual = (shown - 19.6 <= true) & (true <= shown + 19.6)
    assert inside.mean() > 0.94
    assert (usual.mean() < 0.935) == (true < 50)


def test_tokens_of_short_long_and_foreign_words() -> None:
    what = replace(tree(length=4, max_messages=60), step=2, levels=2)
    assert [what.token(word, 0) for word in ("", "a", "ab", "abc")] == [
        END, "a" + END, "ab" + END, "ab",
    ]  # fmt: skip
    assert what.token("abcde", 1) == "abcd" and what.token("é7", 0) == OTHER * 2 + END
    assert word_of("ab" + END) == "ab" and word_of("ab" + OTHER) == "ab" + UNKNOWN + MORE


def test_nothing_is_found_where_nothing_is_frequent() -> None:
    what = tree(users=20_000, length=4, max_messages=60)
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    data = np.array(["".join(row) for row in rng.choice(letters, (20_000, 4))], object)
    found = what.analyze(what.release(what.aggregate(data, SeededEntropy(1))))
    assert len(found.labels) <= 3 and "heavy-hitters" in str(found)


def test_certificates_and_plans_say_what_is_found() -> None:
    plan = plan_heavy_hitters(USERS, 2, max_messages=100)
    assert "is found with probability 95 %" in str(plan)
    assert shuffledp.verify(plan.to_dict()).protocol == plan.protocol
    assert plan.forecast.messages_per_user <= 100


def test_the_call_and_the_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["tea", "coffee", "tea", "water"] * 10_000
    found = shuffledp.heavy_hitters(words, epsilon=4, length=6, max_messages=100, seed=1)
    assert found.labels[:3] in (("tea", "coffee", "water"), ("tea", "water", "coffee"))
    assert found.query == "heavy-hitters" and found.to_dict()["query"] == "heavy-hitters"
    path, picture = tmp_path / "words.csv", tmp_path / "words.png"
    path.write_text("word\n" + "\n".join(words))
    asked = ["heavy-hitters", str(path), "--epsilon", "4", "--length", "6"]
    more = ["--max-messages", "100", "--json", "--plot", str(picture)]
    code, out, _ = run(capsys, *asked, *more)
    assert code == 0 and json.loads(out)["buckets"][0]["label"] == "tea" and picture.exists()
    plan = ["plan", "heavy-hitters", "--users", "1e5", "--epsilon", "2", "--max-messages", "100"]
    code, out, _ = run(capsys, *plan, "--json")
    assert code == 0 and json.loads(out)["certificate"]["protocol"]["levels"] >= 2
    code, out, _ = run(capsys, *asked, "--mse-overhead", "1")
    assert code == 2


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"alphabet": ""}, "alphabet"),
        ({"alphabet": "aa"}, "each once"),
        ({"alphabet": "a" + END}, "control characters"),
        ({"alphabet": 5}, "alphabet"),
        ({"length": 0}, "length"),
        ({"length": 65}, "length"),
        ({"spread": 0}, "spread"),
        ({"users": 100}, "No tree"),
        ({"max_messages": 1}, "No tree"),
    ],
)
def test_bad_arguments_get_one_sentence(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ParameterError, PlanningError), match=sentence):
        plan_heavy_hitters(**{"users": 10_000, "epsilon": 2, "max_messages": 60, **asked})


@pytest.mark.parametrize(
    "changes",
    [{"threshold": Fraction(0)}, {"step": 9}, {"candidates": ("a",)}],
)
def test_bad_trees_are_refused(changes: dict[str, Any]) -> None:
    what = tree(length=4, max_messages=60)
    with pytest.raises(ParameterError):
        replace(what, **changes)
    with pytest.raises(ParameterError, match="equally many groups"):
        replace(what, groups=what.groups - 1)
    with pytest.raises(InputError, match="texts"):
        what.encode(np.array([1, 2]))
