"""Baselines that other packages add by an entry point."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shuffledp.baselines import Setting, baseline, baselines_for, registry
from shuffledp.baselines.table import compare
from shuffledp.cli.main import main
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SeededEntropy

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_baseline"


@pytest.fixture(autouse=True)
def look_again() -> Iterator[None]:
    """Installed packages are looked for once per process; here, before and after each test."""
    registry.by_name.cache_clear()
    registry.planned.cache_clear()
    yield
    registry.by_name.cache_clear()
    registry.planned.cache_clear()


def install(folder: Path, module: str, entries: str) -> None:
    """Puts a package with one module and these entry points into a folder, as pip would."""
    (folder / "own.py").write_text(module)
    info = folder / "own_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[shuffledp.baselines]\n{entries}\n")


def test_an_installed_package_adds_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of the documents, installed by pip."""
    assert "coin" not in [entry.name for entry in baselines_for("count")]
    flags = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *flags, "--target", tmp_path, EXAMPLE],
        check=True,
        timeout=120,
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry.by_name.cache_clear()
    table = compare("count", Setting.of(1000, "1.5"))
    row = table.row("coin")
    assert row is not None and row.title == "A coin" and row.claim.pure
    assert main(["compare", "count", "--users", "1000", "--epsilon", "1.5"]) == 0
    assert "A coin" in capsys.readouterr().out
    missing = dict(compare("count", Setting.of(1000, "1")).missing)
    assert missing["coin"].startswith("A coin needs ε ≥ 1.1")


def test_the_example_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its estimates have the forecast error, and would not with half of it."""
    monkeypatch.syspath_prepend(EXAMPLE)
    from own_baseline import Coin

    coin = Coin.plan(Setting.of(1000, "1.5"))
    entropy = SeededEntropy(7)
    errors = [coin.estimate(coin.draw(300, 1000, entropy), 1000) - 300 for _ in range(2000)]
    mean = sum(errors) / len(errors)
    squared = sum(error**2 for error in errors) / len(errors)
    forecast = coin.mean_squared_error(1000)
    assert abs(mean) < 5 * (forecast / len(errors)) ** 0.5
    deviation = 5 * (2 / len(errors)) ** 0.5
    assert abs(squared / forecast - 1) < deviation < abs(squared / (forecast / 2) - 1)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("raise OSError('secret')", r"'own' of the package own-package cannot be loaded \(OSError"),
        ("ENTRY = 3", "'own' of the package own-package is not a baseline Entry"),
        (
            "from shuffledp.baselines import baselines_for, BASELINES\nENTRY = BASELINES[0]",
            "Two baselines for a count are named 'central'",
        ),
    ],
)
def test_a_package_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, said: str
) -> None:
    install(tmp_path, module, "own = own:ENTRY")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("own", None)
    with pytest.raises(ParameterError, match=said) as caught:
        baseline("count", "central")
    assert "secret" not in str(caught.value)
    sys.modules.pop("own", None)
