"""The optional dependencies: which extra installs which package, and whether it is installed.

Code that needs an extra calls `require` first, so that nothing is charged for a result that cannot
be computed, shown or sent.
"""

from __future__ import annotations

from importlib.util import find_spec

from shuffledp.errors import MissingExtra

_SENDING = ("httpx2", "tenacity")
_FRAMES = ("pyarrow", "narwhals")
_PLOT = ("matplotlib",)
_SERVICE = (
    *_SENDING,
    "apsw",
    "httptools",
    "jinja2",
    "prometheus_client",
    "starlette",
    "uvicorn",
)
PACKAGES: dict[str, tuple[str, ...]] = {
    "client": _SENDING,
    "frames": _FRAMES,
    "plot": _PLOT,
    "postgres": ("asyncpg",),
    "service": _SERVICE,
    "spark": ("pyspark", "pyarrow"),
    "studio": (*_FRAMES, *_PLOT, *_SERVICE, "python_calamine"),
}
"""The modules that must be importable for each extra."""


def require(extra: str) -> None:
    """Raises `MissingExtra` if a package of this extra is not installed."""
    for package in PACKAGES[extra]:
        if not _installed(package):
            raise MissingExtra(package, extra)


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False
