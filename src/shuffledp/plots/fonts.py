"""Texts of users in pictures: never read as mathematics, in a font that has their characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text


PLACEHOLDERS = ("LastResort", "Fallback", "Blank")
"""Fonts that have a sign for every character, but not the character."""


@cache
def _characters(path: str) -> frozenset[int]:
    """The characters that a font file has; none if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _default_path() -> str:
    from matplotlib.font_manager import findfont

    return str(findfont("DejaVu Sans"))


def _wanted(text: str) -> set[int]:
    """The characters of a text that a font must have."""
    return {ord(character) for character in text if not character.isspace()}


@cache
def font_for(texts: tuple[str, ...]) -> str | None:
    """The name of an installed font that has all characters of the texts; None if there is none."""
    from matplotlib.font_manager import fontManager

    wanted = frozenset().union(*(_wanted(text) for text in texts))
    if wanted <= _characters(_default_path()):
        return "DejaVu Sans"
    fonts = [
        (font.name, str(font.fname))
        for font in fontManager.ttflist
        if not any(word in font.name.replace(" ", "") for word in PLACEHOLDERS)
    ]
    return next((name for name, path in fonts if wanted <= _characters(path)), None)


def shown_labels(labels: Sequence[str]) -> tuple[list[str], str | None, bool]:
    """(texts, font, numbered): the labels with a font that has their characters. Where none is
    installed, those that the default font does not have become #1, #2, … by their place."""
    texts = [" ".join(label.split()) or "(empty)" for label in labels]
    font = font_for(tuple(texts))
    if font is not None:
        return texts, font, False
    known = _characters(_default_path())
    numbered = [
        text if _wanted(text) <= known else f"#{place}" for place, text in enumerate(texts, 1)
    ]
    return numbered, None, True


def set_plainly(texts: Sequence[Text], font: str | None = None) -> None:
    """Makes texts of a picture appear as they are, dollar signs too."""
    for text in texts:
        text.set_parse_math(False)
        if font is not None:
            text.set_fontfamily(font)
