"""Reference pages that are made from the code: Python names, commands, problem codes."""

from __future__ import annotations

import argparse
import ast
import inspect
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import shuffledp
from shuffledp.cli.main import parser
from shuffledp.queries.catalogue import CALLED
from shuffledp.service.http.problems import PROBLEM_TITLES
from shuffledp.service.shuffler.arrivals import Verdict

ROOT = Path(__file__).resolve().parents[1]
SERVICE = ROOT / "src/shuffledp/service"
REFUSALS = ("Problem", "_end")
"""The calls that name a problem's status, code and sentence."""


PYTHON = """# Python

Every public name of `import shuffledp`, each with a page of its options, errors and an example that
the tests run. Queries run on Spark if their data is a Spark DataFrame. The
[glossary](../glossary.md) explains words, and [data](../data.md) explains columns (CSV, Parquet,
pandas, Polars, Excel)."""

COMMAND_LINE = """# Command line

The help of every command, printed by the program itself. What a command prints with `--json` has
the names of the [glossary](../glossary.md)."""

PROBLEM_CODES = """# Problem codes

Both servers refuse with problem details (RFC 9457, `application/problem+json`). The code is the end
of `type`, for example `urn:shuffledp:problem:task-closed`. This table is read off the code of the
servers; … is filled in at run time. An answer with `retry_after` says after how many seconds
the same request can be sent again. What a client has to do about each is in
[the protocol](../protocol.md), what an operator has to do in
[run the service](../how-to/run-service.md).

| code | status | what it says |
|---|---|---|"""


def public_names() -> dict[str, list[str]]:
    """All names of `import shuffledp`, by what they are."""
    groups: dict[str, list[str]] = {"Queries": [], "Planners": [], "Proofs": [], "Classes": []}
    groups |= {"Data": ["samples"], "Errors": []}
    for name in sorted(set(shuffledp.__all__) - {"__version__", "samples"}):
        thing = getattr(shuffledp, name)
        if inspect.isclass(thing):
            groups["Errors" if issubclass(thing, Exception) else "Classes"].append(name)
        elif name.startswith("plan_"):
            groups["Planners"].append(name)
        else:
            groups["Proofs" if name in ("certify", "verify") else "Queries"].append(name)
    return groups


def python_page() -> str:
    """All public names with what they do, linked to their pages."""
    lines = [PYTHON]
    for title, names in public_names().items():
        lines += ["", f"## {title}", "", "| name | what it is |", "|---|---|"]
        for name in names:
            said = (inspect.getdoc(getattr(shuffledp, name)) or "").split("\n\n")[0]
            lines.append(f"| [`{name}`](python/{name}.md) | {' '.join(said.split())} |")
    pages = [f"{name} <python/{name}>" for names in public_names().values() for name in names]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", *pages, "```"])


def name_page(name: str) -> str:
    """One public name: Sphinx fills in its docstring; then its command and its source."""
    thing = getattr(shuffledp, name)
    lines = [f"# {name}", "", directive(name)]
    query = name.replace("_", "-")
    if query in CALLED:
        lines += [f"**Command line:** [`shuffledp {query}`](../commands.md#shuffledp-{query})."]
    source = Path(inspect.getsourcefile(thing) or "").resolve()
    if query in CALLED:
        source = Path(inspect.getsourcefile(CALLED[query]) or "").resolve()
    shown = source.relative_to(ROOT).as_posix()
    lines += ["", f"**Source:** [{shown}](../../../{shown})"]
    return "\n".join(lines)


def query_table() -> list[str]:
    """The glossary's table of queries, from their declarations."""
    lines = ["| query | Python | planner | protocol | CLI and JSON |", "|---|---|---|---|---|"]
    for name, query in CALLED.items():
        said, python = query.declaration, name.replace("-", "_")
        if said.planner is not None and said.protocol is not None:
            names = (python, said.planner.__name__, said.protocol.__name__, name)
            what = query.summary().rstrip(".")
            lines.append(f"| {what} | {' | '.join(f'`{one}`' for one in names)} |")
    return lines


def directive(name: str) -> str:
    """What makes Sphinx write about a name."""
    thing = getattr(shuffledp, name)
    kind = "autofunction" if inspect.isfunction(thing) else "autoclass"
    kind = "automodule" if inspect.ismodule(thing) else kind
    return f"```{{eval-rst}}\n.. {kind} :: shuffledp.{name}\n```\n".replace(" ::", "::")


def subcommands(of: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """A parser's commands by name; none if it has no commands."""
    found = (one for one in of._actions if isinstance(one, argparse._SubParsersAction))
    return {name: command for action in found for name, command in action.choices.items()}


def every_command(of: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and everything below it, in the order of the help."""
    yield of
    for command in subcommands(of).values():
        yield from every_command(command)


def commands_page() -> str:
    """The help of every command, as the program prints it."""
    os.environ.update(COLUMNS="92", NO_COLOR="1")
    lines = [COMMAND_LINE]
    for command in every_command(parser()):
        depth = min(command.prog.count(" ") + 2, 4)
        lines += ["", f"{'#' * depth} {command.prog}", "", "```text"]
        lines += [command.format_help().rstrip(), "```"]
    return "\n".join(lines)


def written(node: ast.expr) -> str:
    """The text of an expression in the code; what is filled in later is shown as …"""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(written(part) for part in parts)
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="Verdict"), attr=name)):
            return str(Verdict[name].value)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return written(left) + written(right)
    return "…"


def problems() -> dict[tuple[str, int], list[str]]:
    """The sentences of every refusal of the servers, by code and status, read off the code."""
    found: dict[tuple[str, int], list[str]] = {}
    for path in sorted(SERVICE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or len(node.args) != 3:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            status, code, detail = node.args
            if (
                name in REFUSALS
                and isinstance(status, ast.Constant)
                and isinstance(status.value, int)
            ):
                sentences = found.setdefault((written(code), status.value), [])
                if (sentence := written(detail)) not in sentences:
                    sentences.append(sentence)
    return found


def problems_page() -> str:
    """The table of all problem codes."""
    lines = [PROBLEM_CODES]
    for (code, status), sentences in sorted(problems().items()):
        said = "<br>".join(
            "the reason in one sentence" if one == "…" else one.replace("|", "\\|")
            for one in sentences
        )
        lines.append(f"| `{code}` | {status} {PROBLEM_TITLES.get(status, '')} | {said} |")
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "reference/python.md": python_page,
    **{
        f"reference/python/{name}.md": partial(name_page, name)
        for names in public_names().values()
        for name in names
    },
    "reference/commands.md": commands_page,
    "reference/problems.md": problems_page,
}
"""Pages of the site that have no file below docs/, and the functions that write them."""
