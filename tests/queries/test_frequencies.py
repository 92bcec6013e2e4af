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
CANDIDATES = ODD + [f"name {n}" for n in range(12)]
WORDS = [ODD[n % len(ODD)] if n % 2 else f"word {n}" for n in range(20_000)]


def test_labels_in_unicode_and_empty_ones_are_told_apart() -> None:
    found = shuffledp.frequencies(WORDS, epsilon=4)
    assert isinstance(found, shuffledp.FrequenciesResult) and found.query == "frequencies"
    shown = found.showing(CANDIDATES)
    counts = np.array([WORDS.count(label) for label in CANDIDATES])
    assert shown.rmse < 20 and (np.abs(shown.values - counts) < 6 * shown.rmse).all()
    assert shown.to_frame("pandas").shape == (len(CANDIDATES), 7)


def test_a_histogram_counts_candidates_and_shows_them_alone() -> None:
    for names in (["7", "é"], ["7"]):
        found = shuffledp.frequencies(WORDS, epsilon=4, candidates=names)
        assert found.labels == tuple(names) and found.query == "frequencies"
        true = np.array([WORDS.count(name) for name in names])
        assert (np.abs(found.values - true) < 40).all()
        assert ((found.joint_low <= true) & (true <= found.joint_high)).all()


def test_many_distinct_whole_numbers_of_64_bits() -> None:
    numbers = np.arange(2**64 - 10**5, 2**64, dtype=np.uint64)
    numbers[:5_000] = 7
    found = shuffledp.frequencies(numbers, epsilon=1, candidates=[7, 8, 2**64 - 1])
    assert (np.abs(found.values - [5_000, 0, 1]) < 6 * found.rmse).all()
    assert isinstance(found, shuffledp.FrequenciesResult)  # 2⁶⁴ − 1 is no bucket of a histogram


def test_a_seed_repeats_a_result_and_two_calls_do_not_share_a_hash() -> None:
    first, again = (shuffledp.frequencies(WORDS, seed=5, epsilon=4) for _ in range(2))
    values = [
        found.showing(ODD).values
        for found in (first, again)
        if isinstance(found, shuffledp.FrequenciesResult)
    ]
    assert (values[0] == values[1]).all() and first.seeded
    one, two = (shuffledp.frequencies(WORDS, epsilon=4) for _ in range(2))
    seeds = [found.certificate["protocol"]["hash_seed"] for found in (one, two)]  # type: ignore[index]
    assert seeds[0] != seeds[1]
    assert all(shuffledp.verify(found.certificate) for found in (one, two))


@pytest.mark.parametrize(
    ("data", "asked", "error", "sentence"),
    [
        ([1.5, 2.5], {"candidates": ["a"]}, ValueOutOfRange, "texts or whole numbers"),
        ([True, False], {}, ValueOutOfRange, "texts or whole numbers"),
        ([1, 2], {"candidates": ["a"]}, ValueOutOfRange, "no candidate does"),
        (["a"], {"candidates": [1]}, ValueOutOfRange, "no candidate does"),
        (["a", None], {}, DataError, "missing"),
        (["a"], {"candidates": "a"}, ParameterError, "a list"),
        (["a"], {"mse_overhead": 1}, ParameterError, "planned for rmse or max_messages"),
        (["a"], {"rmse": 1, "max_messages": 5}, ParameterError, "cannot be combined"),
        (["a"], {"error_at": -1}, ParameterError, "error_at"),
        (["a"], {"max_messages": 2.5}, ParameterError, "max_messages"),
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
    plan = ["plan", "frequencies", "--users", "1e5", "--epsilon", "1"]
    code, out, _ = run(capsys, *plan, "--max-messages", "13", "--error-at", "1000", "--json")
    said = json.loads(out)
    assert code == 0 and said["report_size"] == 13 and said["target"]["error_at"] == "1000"
    for wrong in (["--mse-overhead", "1"], ["--error-at", "some"], ["--max-messages", "2.5"]):
        code, out, error = run(capsys, *plan, *wrong)
        assert code == 2 and len((out + error).strip().splitlines()) <= 3
