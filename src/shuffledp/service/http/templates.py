"""HTML pages from Jinja2 templates. Every value is escaped, whatever the template."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from shuffledp.numbers.exact import counted, percent


def templates(package: str) -> Environment:
    """The templates in a package's `templates` folder.

    Numbers are written by `{{ value | number(",.2f") }}`, whose argument is a format
    specification of Python.
    """
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "counted": counted, "percent": percent}
    return environment


def _number(number: float, form: str) -> str:
    """A number in a format of Python's; never as −0."""
    if not isinstance(number, float):
        return format(number, form)
    sign = form[:1] if form.startswith(("+", "-", " ")) else ""
    return format(number, f"{sign}z{form.removeprefix(sign)}")


def static(package: str, name: str) -> str:
    """The text of a style sheet or script in a package's `pages` folder."""
    return (files(package) / "pages" / name).read_text("utf-8")
