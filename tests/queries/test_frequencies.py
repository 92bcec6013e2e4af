"""`shuffledp.frequencies` on columns and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import run

import shuffledp
from shuffledp.errors import DataError, InputError, ParameterError, ValueOutOfRange

ODD = ["", "東京", "e\u0301", "é", "007", "7", " 7", "x" * 900]
"""Labels that a careless reader would take for another or for none."""
CANDIDATES = ODD + [f"name {n}" for n in range(1_000)]
"""So many that no histogram is planned."""
WORDS = [ODD[n % len(ODD)] if n % 2 else f"word {n}" for n in range(20_000)]


def test_labels_in_unicode_and_empty_ones_are_told_apart() -> None:
    found = shuffledp.frequencies(WORDS, epsilon=4, candidates=CANDIDATES, max_messages=20)
    assert isinstance(found, shuffledp.FrequenciesResult) and found.labels == tuple(CANDIDATES)
    assert found.query == "frequencies" and found.rmse < 250
    counts = np.array([WORDS.count(label) for label in CANDIDATES])
    assert (np.abs(found.values - counts) < 6 * found.rmse).all()
    assert found.to_frame("pandas").shape == (1_008, 6)


def test_a_histogram_answers_where_it_is_better_and_shows_the_candidates_alone() -> None:
    found = shuffledp.frequencies(WORDS, epsilon=4, candidates=["7", "é"])
    assert found.labels == ("7", "é") and found.query == "frequencies" and found.rmse < 5
    assert (np.abs(found.values - [WORDS.count("7"), WORDS.count("é")]) < 6 * found.rmse).all()


def test_a_million_distinct_whole_numbers_of_64_bits() -> None:
    numbers = np.arange(2**64 - 10**6, 2**64, dtype=np.uint64)
    numbers[:50_000] = 7
    found = shuffledp.frequencies(numbers, epsilon=1, candidates=[7, 8, 2**64 - 1], rmse=1_500)
    assert (np.abs(found.values - [50_000, 0, 1]) < 6 * found.rmse).all()


def test_a_seed_repeats_a_result_and_two_calls_do_not_share_a_hash() -> None:
    asked = {"epsilon": 4, "candidates": CANDIDATES, "max_messages": 20}
    first, again = (shuffledp.frequencies(WORDS, seed=5, **asked) for _ in range(2))  # type: ignore[arg-type]
    assert (first.values == again.values).all() and first.seeded
    one, two = (shuffledp.frequencies(WORDS, **asked) for _ in range(2))  # type: ignore[arg-type]
    seeds = [found.certificate["protocol"]["hash_seed"] for found in (one, two)]  # type: ignore[index]
    assert seeds[0] != seeds[1]
    assert all(shuffledp.verify(found.certificate) for found in (one, two))


@pytest.mark.parametrize(
    ("data", "asked", "error", "sentence"),
    [
        ([1.5, 2.5], {"candidates": ["a"]}, ValueOutOfRange, "texts or whole numbers"),
        ([True, False], {}, ValueOutOfRange, "texts or whole numbers"),
        ([1, 2], {"candidates": ["a"]}, ValueOutOfRange, "no candidate is one"),
        (["a"], {"candidates": [1]}, ValueOutOfRange, "no candidate is one"),
        (["a", None], {}, DataError, "missing"),
        (["a"], {"candidates": "a"}, ParameterError, "a list"),
        (["a"], {"mse_overhead": 1}, ParameterError, "rmse or max_messages"),
        (["a"], {"spread": 0}, ParameterError, "spread"),
        (["a"], {"protocol": "local"}, ParameterError, "protocol"),
    ],
)
def test_bad_questions_get_one_sentence(
    data: list[object], asked: dict[str, object], error: type[InputError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        shuffledp.frequencies(data, epsilon=1, **asked)  # type: ignore[arg-type]


def test_the_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("word\n" + "\n".join(f"w{n % 50}" for n in range(20_000)), "utf-8")
    asked = ["frequencies", str(path), "--epsilon", "2", "--candidates", "w1,w2,elsewhere"]
    picture = tmp_path / "words.png"
    code, out, _ = run(capsys, *asked, "--max-messages", "30", "--json", "--plot", str(picture))
    rows = json.loads(out)["buckets"]
    assert code == 0 and [row["label"] for row in rows] == ["w1", "w2", "elsewhere"]
    assert picture.stat().st_size > 1_000
    code, out, _ = run(capsys, *asked, "--mse-overhead", "1")
    assert code == 2
    plan = ["plan", "frequencies", "--users", "1e5", "--epsilon", "1", "--max-messages", "40"]
    code, out, _ = run(capsys, *plan, "--domain", "2^64", "--padded", "--json")
    assert code == 0 and json.loads(out)["report_size"] <= 40
    for wrong in (["--mse-overhead", "1"], ["--domain", "2^99"], ["--domain", "many"]):
        words = [word for word in plan if word not in ("--max-messages", "40")]
        code, out, error = run(capsys, *words, *wrong)
        assert code == 2 and len((out + error).strip().splitlines()) <= 3
