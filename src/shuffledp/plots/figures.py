"""Empty figures in the package's style, and writing them to files.

matplotlib is imported only when somebody asks for a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp.documents.files import check_writable, write_whole
from shuffledp.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, BAR, LINE, BAND = "#1f2933", "#3b7dd8", "#d1495b", "#c9d6e8"
DOTS_PER_INCH = 150
PICTURE_FORMATS = ("png", "svg", "pdf")


def new_figure(wide: float = 7.5, high: float = 4.2, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches with so many axes side by side, without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from shuffledp.plots.notebook import NotebookFigure

    figure = NotebookFigure(figsize=(wide, high), layout="constrained", dpi=DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    axes: Sequence[Axes] = figure.subplots(1, panels, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(colors=INK)
    return figure, list(axes)


def save(figure: Figure, path: str | None) -> Figure:
    """The figure itself, written to a file first if a path is given."""
    if path is not None:
        content = BytesIO()
        figure.savefig(content, dpi=DOTS_PER_INCH, format=checked_picture(path))
        write_whole(path, content.getvalue())
    return figure


def check_drawing() -> None:
    """Refuses a matplotlib that is installed but cannot be loaded."""
    try:
        import matplotlib.backends.backend_agg  # noqa: F401
    except ImportError as error:
        raise ParameterError(
            f"Pictures cannot be drawn, because matplotlib does not load ({error}); install it "
            "anew."
        ) from None


def checked_picture(path: str) -> str:
    """The format of a picture by its file name; refuses a name or a folder that will not do."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in PICTURE_FORMATS:
        raise ParameterError(
            f"{path} cannot be written as a picture; use a name ending in .png, .svg or .pdf."
        )
    check_writable(path)
    return ending
