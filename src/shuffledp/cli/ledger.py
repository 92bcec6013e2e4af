"""`shuffledp ledger`: a privacy budget that queries are charged to."""

from __future__ import annotations

import argparse

from shuffledp.cli.output import Commands, add_command, add_group, emit, facts
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import decimals, percent, show, whole, written
from shuffledp.release.ledger import Entry, Ledger
from shuffledp.tasks.results import ResultLine, result_lines


def add_to(commands: Commands) -> None:
    """Adds `ledger create` and `ledger show`."""
    actions = add_group(commands, "ledger", "create or show a privacy budget")
    create = add_command(
        actions,
        "create",
        run_create,
        "create a ledger",
        examples=["ledger create budget.json --budget 3"],
    )
    create.add_argument("file", metavar="FILE", help="the ledger's file")
    create.add_argument("--budget", required=True, metavar="E", help="total ε")
    shown = add_command(
        actions,
        "show",
        run_show,
        "show what was spent and what remains",
        examples=["ledger show budget.json", "ledger show budget.json --entry last"],
    )
    shown.add_argument("file", metavar="FILE", help="the ledger's file")
    shown.add_argument(
        "--entry", metavar="N", help="show the result of this entry again (1, 2, … or last)"
    )


def run_create(args: argparse.Namespace) -> None:
    """Creates a ledger and shows it."""
    _show(args, Ledger.create(args.file, args.budget))


def run_show(args: argparse.Namespace) -> None:
    """Shows what a ledger has spent and what remains, or the result of one release again."""
    ledger = Ledger(args.file)
    if args.entry is None:
        _show(args, ledger)
    else:
        _show_entry(args, ledger.entries())


def _show(args: argparse.Namespace, ledger: Ledger) -> None:
    entries = ledger.entries()
    data = {
        "budget": str(ledger.budget),
        "spent": str(ledger.spent()),
        "remaining": str(ledger.remaining()),
        "entries": [entry.to_dict() for entry in entries],
    }
    rows = [(name, show(getattr(ledger, name)())) for name in ("spent", "remaining")]
    rows = [("budget", show(ledger.budget)), *rows]
    rows += [(f"{n}  {one.when}", _line(one)) for n, one in enumerate(entries, start=1)]
    if any(entry.result is not None for entry in entries):
        rows.append(("", "add --entry N to show a result again"))
    emit(args, data, lambda console: console.print(facts(f"Ledger {args.file}", rows)))


def _line(entry: Entry) -> str:
    """An entry in one line: its cost, its purpose and, if it is one number, its result."""
    text = f"ε = {show(entry.epsilon)} for {entry.what}"
    text += f" ({entry.note})" if entry.note else ""
    lines = [] if entry.result is None else result_lines(entry.result)
    return f"{text}: {_number(lines[0])}" if len(lines) == 1 else text


def _number(line: ResultLine) -> str:
    digits = decimals((line.high - line.low) / 4)
    low, high = (written(end, digits) for end in (line.low, line.high))
    return f"{written(line.clipped, digits)} in {low} … {high}"


def _show_entry(args: argparse.Namespace, entries: list[Entry]) -> None:
    if not entries:
        raise ParameterError(f"{args.file} has no entries yet: nothing was released.")
    most = len(entries)
    number = most if args.entry == "last" else whole(args.entry, "--entry", most=most)
    entry = entries[number - 1]
    if entry.result is None:
        raise ParameterError(
            f"Entry {number} has no result: the ledger keeps the results of queries only."
        )
    result = entry.result
    sure = percent(result["confidence"])
    rows = [(line.label, _number(line)) for line in result_lines(result)]
    rows += [("privacy", f"ε = {show(entry.epsilon)}, {result['privacy']}")]
    rows += [("users", f"{result['users']:,}"), ("released", entry.when)]
    rows += [("note", entry.note)] if entry.note else []
    title = f"{result['query']}, with {sure} intervals"
    emit(args, dict(result), lambda console: console.print(facts(title, rows)))
