"""A server's TOML file with every setting and its meaning."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from shuffledp.service.http.config import ServerConfig

WIDTH = 96


class Setting(NamedTuple):
    """One setting of a server."""

    name: str
    default: str | int | tuple[str, ...]
    meaning: str


def settings(kind: type[ServerConfig]) -> list[Setting]:
    """Every setting of a role with its default and its meaning, the role's own ones first."""
    meanings: dict[str, str] = {}
    for one in kind.__mro__:
        if issubclass(one, ServerConfig):
            for name, meaning in _meanings(one):
                meanings.setdefault(name, meaning)
    defaults: dict[str, Any] = {field.name: field.default for field in fields(kind)}
    return [
        Setting(name, defaults[name], meaning)
        for name, meaning in meanings.items()
        if name in defaults and name not in kind.unused
    ]


def _meanings(kind: type[ServerConfig]) -> Iterator[tuple[str, str]]:
    """The fields of one class, with the docstring of each."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for statement, follower in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(follower, ast.Expr)
            and isinstance(follower.value, ast.Constant)
        ):
            yield statement.target.id, inspect.cleandoc(str(follower.value.value))


def explained_toml(
    kind: type[ServerConfig], given: Mapping[str, Any], awaited: Mapping[str, str]
) -> str:
    """The table of a role. `given` settings are set, `awaited` ones are empty until the named
    organisation has introduced itself, and the others are comments that show their defaults."""
    lines = [f"[{kind.table}]"]
    for setting in settings(kind):
        meaning = setting.meaning.replace("\n", " ").replace("`", "")
        lines += ["", *(f"# {line}" for line in textwrap.wrap(meaning, WIDTH))]
        if setting.name in awaited:
            lines += [
                f"# It comes from the {awaited[setting.name]}: shuffledp start --with FILE.",
                f'{setting.name} = ""',
            ]
        elif setting.name in given:
            lines.append(f"{setting.name} = {_toml(given[setting.name])}")
        else:
            lines.append(f"# {setting.name} = {_toml(setting.default)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
