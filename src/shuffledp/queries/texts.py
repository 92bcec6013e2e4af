"""Arguments of queries as people write them in a terminal: lists of labels, bounds, powers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.queries.checks import is_whole

LIST_WRITTEN = "Labels between commas, a JSON list, or @FILE with a label on each line."


def two_bounds(text: str) -> tuple[str, str]:
    """The bounds in LOW,HIGH."""
    parts = text.split(",")
    if len(parts) != 2:
        raise ParameterError("--bounds needs two numbers with a comma between them, e.g. 0,100.")
    return parts[0], parts[1]


def between_commas(text: str) -> list[str]:
    """The parts between commas."""
    return text.split(",")


def labels_or_number(text: str) -> int | list[Any]:
    """A number of labels 0, 1, …, or the labels of a list."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else listed(text)


def listed(text: str) -> list[Any]:
    """Labels between commas, a JSON list of them, or the lines of a file."""
    text = text.strip()
    if text.startswith("@"):
        return _lines(Path(text[1:]))
    if text.startswith("["):
        try:
            return list(json.loads(text))
        except ValueError:
            raise ParameterError(
                'The list begins with [ but is not JSON; write ["a", "b"], or use @FILE.'
            ) from None
    return [label.strip() for label in text.split(",")]


def listed_typed(text: str) -> int | list[Any]:
    """`labels_or_number`, as whole numbers where all labels are written like that."""
    found = labels_or_number(text)
    return found if isinstance(found, int) else _typed(found)


def labels_by_column(texts: list[str]) -> dict[str, list[Any]]:
    """The labels of each column, from texts COLUMN=L,L,… or COLUMN=["L","L",…]."""
    domains: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, labels = text.partition("=")
        if not equals:
            raise ParameterError("--domain needs a column and its labels, e.g. way=walk,bike.")
        domains[name] = _typed(listed(labels))
    return domains


def _typed(labels: list[Any]) -> list[Any]:
    if all(isinstance(label, str) and is_whole(label) for label in labels):
        return [int(label) for label in labels]
    return labels


def _lines(path: Path) -> list[str]:
    """The lines of a file, without empty ones."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ParameterError(f"{path} cannot be read ({error.strerror}); check the path.") from None
    except UnicodeError:
        raise ParameterError(f"{path} is not UTF-8; convert it first.") from None
    return [line for line in lines if line.strip()]
