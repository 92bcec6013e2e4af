"""Texts of users in pictures: never read as mathematics, in a font that has their characters."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text


PLACEHOLDERS = ("LastResort", "Fallback", "Blank")
"""Fonts that have a sign for every character, but not the character."""

NO_FONT = (
    "No installed font has the characters of all labels, which are numbered in the picture "
    "instead; install one, for example Noto Sans CJK for Chinese, Japanese and Korean."
)


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
def fonts_for(texts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names of installed fonts that together have all characters of the texts, the default one
    first; None if some character is in none."""
    from matplotlib.font_manager import fontManager

    wanted = set().union(*(_wanted(text) for text in texts)) - _characters(_default_path())
    chosen = ["DejaVu Sans"]
    fonts = [
        (font.name, str(font.fname))
        for font in fontManager.ttflist
        if not any(word in font.name.replace(" ", "") for word in PLACEHOLDERS)
    ]
    while wanted and fonts:
        name, path = max(fonts, key=lambda font: len(wanted & _characters(font[1])))
        if not wanted & _characters(path):
            break
        wanted -= _characters(path)
        chosen.append(name)
    return None if wanted else tuple(chosen)


def shown_labels(labels: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None, bool]:
    """(texts, fonts, numbered): the labels with fonts that have their characters. Where none is
    installed, those that the default font does not have become #1, #2, … by their place, and a
    warning says so."""
    texts = [" ".join(label.split()) or "(empty)" for label in labels]
    fonts = fonts_for(tuple(texts))
    if fonts is not None:
        return texts, fonts, False
    warnings.warn(NO_FONT, stacklevel=2)
    known = _characters(_default_path())
    numbered = [
        text if _wanted(text) <= known else f"#{place}" for place, text in enumerate(texts, 1)
    ]
    return numbered, None, True


def set_plainly(texts: Sequence[Text], fonts: Sequence[str] | None = None) -> None:
    """Makes texts of a picture appear as they are, dollar signs too."""
    for text in texts:
        text.set_parse_math(False)
        if fonts is not None:
            text.set_fontfamily(list(fonts))
