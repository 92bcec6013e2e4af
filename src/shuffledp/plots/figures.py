"""Empty figures in the package's style, users' texts in figures, and saving them to files.

matplotlib is imported only when a picture is drawn. Users' texts are never interpreted as
mathematics, and are set in a font that has their characters.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp.documents.files import check_writable, write_whole
from shuffledp.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

INK, BAR, LINE, BAND = "#1f2933", "#3b7dd8", "#d1495b", "#c9d6e8"
DOTS_PER_INCH = 150
PICTURE_FORMATS = ("png", "svg", "pdf")


def new_figure(wide: float = 7.5, high: float = 4.2, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of this size in inches, with `panels` axes side by side and no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _notebook_figure()(figsize=(wide, high), layout="constrained", dpi=DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    axes: Sequence[Axes] = figure.subplots(1, panels, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(colors=INK)
    return figure, list(axes)


def save(figure: Figure, path: str | None) -> Figure:
    """The figure itself, written to a file first if a path is given."""
    if path is not None:
        write_whole(path, picture(figure, checked_picture(path)))
    return figure


def picture(figure: Figure, kind: str = "png") -> bytes:
    """The figure as the bytes of a file."""
    content = BytesIO()
    figure.savefig(content, dpi=DOTS_PER_INCH, format=kind)
    return content.getvalue()


def check_drawing() -> None:
    """Refuses a matplotlib that is installed but cannot be loaded."""
    try:
        import matplotlib.backends.backend_agg  # noqa: F401
    except ImportError as error:
        raise ParameterError(
            f"Pictures cannot be drawn, because matplotlib does not load ({error}); reinstall it."
        ) from None


def checked_picture(path: str) -> str:
    """The format of a picture, from its file name; refuses an unsuitable name or folder."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in PICTURE_FORMATS:
        raise ParameterError(
            f"{path} cannot be written as a picture; use a name ending in .png, .svg or .pdf."
        )
    check_writable(path)
    return ending


@cache
def _notebook_figure() -> type[Figure]:
    """The class of figures that notebooks show as pictures, even without pyplot."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            return picture(self)

    return NotebookFigure


PLACEHOLDERS = ("LastResort", "Fallback", "Blank")
"""Fonts with a placeholder for every character."""

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
    """(texts, fonts, numbered): the labels with fonts that have their characters. If none is
    installed, labels that the default font lacks become #1, #2, … by their position, with a
    warning."""
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
    """Makes texts of a picture appear unchanged, including dollar signs."""
    for text in texts:
        text.set_parse_math(False)
        if fonts is not None:
            text.set_fontfamily(list(fonts))
