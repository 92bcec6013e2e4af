"""Heavy hitters: words of any characters are found, each once, and hardly any is invented."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run

import shuffledp
from shuffledp import SeededEntropy, plan_heavy_hitters, samples
from shuffledp.errors import InputError, ParameterError, PlanningError
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.queries.heavy_hitters.protocol import HeavyHittersProtocol
from shuffledp.queries.heavy_hitters.result import HeavyHittersResult

WORLD = ["zu", "zum", "", "é", "日本語", "👍🏽", "Zürich 42", "x"]


def planned(users: int, epsilon: Any = 1, **asked: Any) -> HeavyHittersProtocol:
    what = plan_heavy_hitters(users, epsilon, **asked).protocol
    assert isinstance(what, HeavyHittersProtocol)
    return what


def found_in(what: HeavyHittersProtocol, words: list[str], seed: int) -> HeavyHittersResult:
    entropy = SeededEntropy(seed)
    one = what.renewed(entropy)
    batch = one.aggregate(np.array(words, object), entropy)
    return one.analyze(one.release(batch))


def commuters() -> list[str]:
    with open(samples.commute(), encoding="utf-8") as file:
        return [row["way"] for row in csv.DictReader(file)]


@pytest.mark.parametrize("epsilon", ["0.5", 1, 2, 5, 8])
def test_the_sample_holds_exactly_its_five_words(epsilon: Any) -> None:
    words = commuters()
    true, what = Counter(words), planned(len(words), epsilon)
    for seed in range(2):
        found = found_in(what, words, seed)
        assert sorted(map(str, found.labels)) == sorted(true)
        counts = np.array([true[str(word)] for word in found.labels])
        assert ((found.joint_low <= counts) & (counts <= found.joint_high)).all()
        assert list(found.values) == sorted(found.values, reverse=True)


def test_words_of_any_characters_are_listed_once_with_their_counts() -> None:
    """Also a word and its own beginning, the empty word, and emoji."""
    words = [word for at, word in enumerate(WORLD) for _ in range(900 + 200 * at)]
    true, what = Counter(words), planned(len(words))
    errors, inside = [], []
    for seed in range(6):
        found = found_in(what, words, seed)
        assert sorted(map(str, found.labels)) == sorted(WORLD)
        counts = np.array([true[str(word)] for word in found.labels])
        errors.append((found.values - counts) / np.sqrt(counts))
        inside.append((found.low <= counts) & (counts <= found.high))
    assert np.abs(np.mean(errors)) < 1 and np.sqrt(np.mean(np.square(errors))) < 3
    assert np.mean(inside) > 0.85


def test_nothing_is_found_where_nothing_is_frequent() -> None:
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(row) for row in rng.choice(letters, (5_000, 6))]
    found = found_in(planned(5_000), words, 1)
    assert found.labels == () and "no word is frequent enough" in str(found)
    assert found.to_dict()["buckets"] == [] and found.to_frame("pandas").empty


def test_the_forecast_is_what_is_measured() -> None:
    """A word as frequent as the plan says is found nearly always, one of a third hardly ever."""
    users = 10_000
    what = planned(users)
    least = what.finding(users).least_users(5)
    rest = [f"other{n}" for n in range(users)]
    hits = {1: 0, 3: 0}
    for seed in range(10):
        for part in hits:
            held = ["prime"] * (least // part)
            found = found_in(what, held + rest[len(held) :], seed)
            hits[part] += "prime" in found.labels
    assert hits[1] >= 8 and hits[3] <= 4


def test_plans_say_what_is_found() -> None:
    plan = plan_heavy_hitters(100_000, 1)
    said = plan.to_dict()
    assert list(said["found_from"]) == ["3", "5", "7", "10", "30"]
    found = list(said["found_from"].values())
    assert found == sorted(found) and 80 < found[0] < 150 and 800 < found[-1] < 1_300
    assert said["false_words"] <= 0.02 and plan.report_size <= 25
    assert "found from" in str(plan) and "false words" in str(plan)
    assert shuffledp.verify(said).protocol == plan.protocol
    assert protocol_from_dict(plan.protocol.to_dict()) == plan.protocol
    cheap = plan_heavy_hitters(100_000, 5).to_dict()["found_from"]
    assert all(cheap[size] < said["found_from"][size] for size in cheap)


def test_words_too_long_for_the_users_are_said_to_be_lost() -> None:
    plan = plan_heavy_hitters(1_000, 1)
    found = plan.to_dict()["found_from"]
    assert found["30"] is None and all(found[size] <= 1_000 for size in ("3", "5", "7", "10"))
    assert "longer words are not found" in str(plan) and "1,001" not in str(plan)


def test_the_call_and_the_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["tea", "coffee", "tea", "water"] * 1_000
    found = shuffledp.heavy_hitters(words, epsilon=4, seed=1)
    assert found.labels[0] == "tea" and set(found.labels) == {"tea", "coffee", "water"}
    assert found.query == "heavy-hitters" and found.to_dict()["query"] == "heavy-hitters"
    path, picture = tmp_path / "words.csv", tmp_path / "words.png"
    path.write_text("word\n" + "\n".join(words))
    asked = ["heavy-hitters", str(path), "--epsilon", "4"]
    code, out, _ = run(capsys, *asked, "--json", "--plot", str(picture))
    assert code == 0 and json.loads(out)["buckets"][0]["label"] == "tea" and picture.exists()
    plan = ["plan", "heavy-hitters", "--users", "1e5", "--epsilon", "2", "--max-messages", "30"]
    code, out, _ = run(capsys, *plan, "--json")
    assert code == 0 and json.loads(out)["report_size"] == 30
    for wrong in (["--mse-overhead", "1"], ["--length", "4"], ["--spread", "4"]):
        assert run(capsys, *asked, *wrong)[0] == 2


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"users": 0}, "users"),
        ({"epsilon": 0}, "epsilon"),
        ({"max_messages": 0}, "max_messages"),
        ({"epsilon": "0.01"}, "No word would be found"),
    ],
)
def test_bad_arguments_get_one_sentence(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ParameterError, PlanningError), match=sentence):
        plan_heavy_hitters(**{"users": 10_000, "epsilon": 1, **asked})


def test_bad_words_and_parameters_are_refused() -> None:
    what = planned(1_000)
    for values in (np.array([1, 2]), np.array(["a", 1], object), np.array([1.5])):
        with pytest.raises(InputError, match="texts"):
            what.encode(values)
    with pytest.raises(InputError, match="surrogate"):
        what.encode(np.array(["\ud800"], object))
    with pytest.raises(InputError, match="Words must be texts"):
        shuffledp.heavy_hitters([1, 2, 3], epsilon=1)
    for changes in ({"id_bits": 40}, {"hash_seed": "zz"}):
        with pytest.raises(ParameterError):
            protocol_from_dict({**what.to_dict(), **changes})
