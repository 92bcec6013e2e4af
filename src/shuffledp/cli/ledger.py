"""`shuffledp ledger`: a privacy budget that queries are charged to."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shuffledp.cli.output import Commands, Facts, add_command, add_group, emit
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, decimals, percent, show, whole, written
from shuffledp.release.ledger import Entry, Ledger
from shuffledp.tasks.results import ResultLine, result_lines


def add_to(commands: Commands) -> None:
    actions = add_group(commands, "ledger", "create, show or check a privacy budget")
    create = _add(actions, "create", run_create, "create a ledger", "budget.json --budget 3")
    create.add_argument("--budget", required=True, metavar="E", help="total ε")
    shown = _add(
        actions,
        "show",
        run_show,
        "show what was spent and what remains",
        "budget.json",
        "budget.json --entry last",
    )
    shown.add_argument(
        "--entry", metavar="N", help="show the result of this entry again (1, 2, … or last)"
    )
    verify = _add(
        actions,
        "verify",
        run_verify,
        "check that no entry was edited or removed",
        "budget.json",
        "budget.json --head 3f5a…",
    )
    verify.add_argument(
        "--head", metavar="HASH", help="check that the ledger continues from this earlier head"
    )
    raised = _add(
        actions, "raise", run_raise, "give a ledger a larger budget", "budget.json --budget 5"
    )
    raised.add_argument("--budget", required=True, metavar="E", help="the new total ε")


def _add(
    actions: Commands, name: str, run: Callable[[argparse.Namespace], None], said: str, *calls: str
) -> argparse.ArgumentParser:
    """An action on the file of a ledger."""
    parser = add_command(
        actions, name, run, said, examples=[f"ledger {name} {call}" for call in calls]
    )
    parser.add_argument("file", metavar="FILE", help="the ledger's file")
    return parser


def run_create(args: argparse.Namespace) -> None:
    _show(args, Ledger.create(args.file, args.budget))


def run_show(args: argparse.Namespace) -> None:
    """Shows what a ledger has spent and what remains, or the result of one release again."""
    ledger = Ledger(args.file)
    if args.entry is None:
        _show(args, ledger)
    else:
        _show_entry(args, ledger.entries())


def run_verify(args: argparse.Namespace) -> None:
    """Checks every hash of a ledger and prints the newest one."""
    ledger = Ledger(args.file)
    head = ledger.verify(args.head)
    lines = len(ledger.entries())
    rows = [("lines", counted(lines, "line")), ("head", head)]
    rows.append(("", "keep the head elsewhere; verify --head compares with it later"))
    title = f"Ledger {args.file}: no entry was edited or removed"
    emit(args, {"lines": lines, "head": head}, Facts(title, rows))


def run_raise(args: argparse.Namespace) -> None:
    ledger = Ledger(args.file)
    ledger.raise_budget(args.budget)
    _show(args, ledger)


def _show(args: argparse.Namespace, ledger: Ledger) -> None:
    book = ledger.read()
    entries, remaining = book.entries, book.budget - book.spent
    data = {
        "budget": str(book.budget),
        "spent": str(book.spent),
        "remaining": str(remaining),
        "entries": [entry.to_dict() for entry in entries],
    }
    numbers = (("budget", book.budget), ("spent", book.spent), ("remaining", remaining))
    rows = [(name, show(number)) for name, number in numbers]
    rows += [(f"{n}  {one.when}", _line(one)) for n, one in enumerate(entries, start=1)]
    if any(entry.result is not None for entry in entries):
        rows.append(("", "add --entry N to show a result again"))
    emit(args, data, Facts(f"Ledger {args.file}", rows))


def _line(entry: Entry) -> str:
    """An entry in one line: its cost, its purpose and, if it is one number, its result."""
    text = f"ε = {show(entry.epsilon)} for {entry.what}"
    text += f" ({entry.note})" if entry.note else ""
    lines = [] if entry.result is None else result_lines(_result_in(entry.result))
    return f"{text}: {_number(lines[0])}" if len(lines) == 1 else text


def _result_in(kept: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of a query, or the one inside what was published for a batch."""
    inner: Mapping[str, Any] = kept.get("result", kept)
    return inner


def _number(line: ResultLine) -> str:
    digits = decimals((line.high - line.low) / 4)
    low, high = (written(end, digits) for end in (line.low, line.high))
    return f"{written(line.clipped, digits)} in {low} … {high}"


def _show_entry(args: argparse.Namespace, entries: Sequence[Entry]) -> None:
    if not entries:
        raise ParameterError(f"{args.file} has no entries yet: nothing was released.")
    most = len(entries)
    number = most if args.entry == "last" else whole(args.entry, "--entry", most=most)
    entry = entries[number - 1]
    if entry.result is None:
        raise ParameterError(
            f"Entry {number} has no result: it was made by hand, or its result was deleted."
        )
    result = _result_in(entry.result)
    sure = percent(result["confidence"])
    rows = [(line.label, _number(line)) for line in result_lines(result)]
    rows += [("privacy", f"ε = {show(entry.epsilon)}, {result['privacy']}")]
    rows += [("users", f"{result['users']:,}"), ("released", entry.when)]
    rows += [("note", entry.note)] if entry.note else []
    title = f"{result['query']}, with {sure} intervals"
    emit(args, dict(entry.result), Facts(title, rows))
