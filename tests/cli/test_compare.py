"""`shuffledp compare`: the table, its JSON, its pictures, its refusals."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from shuffledp.baselines import table as baselines_table
from shuffledp.baselines.base import Setting
from shuffledp.cli.compare import add_to
from shuffledp.errors import ParameterError


def compare(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    add_to(parser.add_subparsers())
    args = parser.parse_args(["compare", *arguments])
    args.run(args)


def test_the_table_has_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    compare("count", "--users", "500", "--epsilon", "1", "--delta", "0")
    printed = capsys.readouterr().out
    for column in (
        "protocol",
        "RMSE",
        "messages",
        "bits",
        "privacy",
        "trust",
    ):
        assert column in printed
    assert "shuffledp, ρ = 0.5" in printed
    assert "GKMP20" not in printed  # without δ, no approximate protocol


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    compare("histogram", "--users", "800", "--epsilon", "1", "--buckets", "3", "--json")
    data = json.loads(capsys.readouterr().out)
    assert data["buckets"] == 3
    kinds = {row["protocol"]: row["privacy"]["kind"] for row in data["rows"]}
    assert kinds["lwy22"] == "approximate"
    assert kinds["ours-0.5"] == kinds["thinning"] == "pure"


def test_pictures_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "frontier.png"
    compare("count", "--users", "300", "--epsilon", "1", "--plot", str(target))
    assert target.read_bytes().startswith(b"\x89PNG")
    assert "frontier.png" in capsys.readouterr().out.replace("\n", "")


def test_over_needs_a_picture_and_buckets_a_histogram() -> None:
    with pytest.raises(ParameterError, match="--plot"):
        compare("count", "--users", "300", "--epsilon", "1", "--over", "users")
    with pytest.raises(ParameterError, match="is only for histograms"):
        compare("count", "--users", "300", "--epsilon", "1", "--buckets", "4")
    with pytest.raises(ParameterError):
        compare("count", "--users", "300", "--epsilon", "1", "--delta", "lots")


def test_histograms_show_the_error_at_zero_at_a_count_and_at_worst() -> None:
    table = baselines_table.compare(
        "histogram", Setting.of(1000, 1, None, 200, 50), names=["thinning", "central"]
    )
    thinned, trusted = (table.row(name) for name in ("thinning", "central"))
    assert thinned is not None and trusted is not None
    shown = thinned.to_dict()
    assert shown["rmse_at_zero"] < 0.5 * shown["rmse_at"] < 0.5 * shown["rmse"]
    assert trusted.to_dict()["rmse_at_zero"] == trusted.to_dict()["rmse"]
    assert table.to_dict()["error_at"] == 50
