"""The code blocks of the tutorial and the how-to pages run and print what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts_modules import script

blocks = script("document_blocks")


WITH_BLOCKS = [page for page in blocks.PAGES if [*blocks.steps(page.read_text("utf-8"))]]


def test_the_pages_have_blocks() -> None:
    assert len(WITH_BLOCKS) >= 7


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.stem)
def test_every_block_runs_and_prints_what_the_page_shows(page: Path) -> None:
    blocks.run_page(page)


def test_every_command_that_should_fail_is_shown_failing() -> None:
    """Every `|| echo "exit code $?"` of a block prints one: what it tries is refused."""
    tries = 0
    for page in WITH_BLOCKS:
        for step in blocks.steps(page.read_text("utf-8")):
            expected = step.code.count('|| echo "exit code $?"')
            shown = step.shown["body"].count("exit code ") if step.shown else 0
            assert shown == expected, f"{page.name}: {step.code}"
            tries += expected
    assert tries >= 4


GOOD = """
```bash
X=3
```

```bash
echo "$X of 4" > file
cat file
```

```text
3 of 4
```

```python
from pathlib import Path

n = len(Path("file").read_text())
print("read", n)
```

```text random
read 12
```

```console
$ exit 1
```
"""


def test_a_good_page_runs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(GOOD)
    blocks.run_page(page)
    page.write_text(GOOD.replace("\n3 of 4", "\n3 of 5"))
    blocks.run_page(page, write=True)
    assert page.read_text() == GOOD.replace("read 12", "read 7")  # digits are brought up to date


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("X=3", "false"),
        ("X=3", "X=2"),
        ("\n3 of 4", "\n3 of 5"),
        ("read 12", "wrote 12"),
        ('"file"', '"another"'),
    ],
)
def test_a_page_that_is_wrong_is_refused(tmp_path: Path, good: str, bad: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(GOOD.replace(good, bad, 1))
    with pytest.raises(blocks.BlockError):
        blocks.run_page(page)
