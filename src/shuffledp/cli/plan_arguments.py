"""Arguments that plans and queries share: targets, bounds, labels, groups."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.queries.checks import is_whole
from shuffledp.queries.frequencies.planner import DEFAULT_SPREAD
from shuffledp.queries.heavy_hitters.planner import DEFAULT_LENGTH, DEFAULT_TREE_SPREAD, LETTERS

TARGETS = ("mse_overhead", "rmse", "relative_error", "max_messages")


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which error or cost a plan is asked for."""
    group = parser.add_argument_group("target (one; or an error with --relative-error beside it)")
    group.add_argument(
        "--mse-overhead", metavar="RHO", help="MSE within 1 + RHO of the central optimum"
    )
    group.add_argument("--rmse", metavar="R", help="root mean squared error at most R")
    group.add_argument(
        "--relative-error", metavar="R", help="or within R of the true value, e.g. 0.01"
    )
    group.add_argument(
        "--max-messages", metavar="M", help="best error with at most M messages per user"
    )


def add_expected(parser: argparse.ArgumentParser) -> None:
    """Adds --expected."""
    parser.add_argument(
        "--expected", metavar="N", help="users who may take part (the error is forecast for them)"
    )


def targets_of(args: argparse.Namespace) -> dict[str, Any]:
    """The targets that were given, as keyword arguments of planners and queries."""
    names = (*TARGETS, "expected")
    return {name: value for name in names if (value := getattr(args, name, None)) is not None}


def add_bounds(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Adds --bounds LOW,HIGH."""
    parser.add_argument(
        "--bounds",
        default=default,
        required=default is None,
        metavar="LOW,HIGH",
        help="the values' range" + (f" ({default})" if default else ""),
    )


def bounds_of(args: argparse.Namespace) -> tuple[str, str]:
    """The two numbers of --bounds."""
    parts = args.bounds.split(",")
    if len(parts) != 2:
        raise ParameterError("--bounds needs two numbers with a comma between, e.g. 0,100.")
    return parts[0], parts[1]


def add_labels(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Adds --labels, --label and --other."""
    named = parser.add_mutually_exclusive_group(required=required)
    named.add_argument(
        "--labels",
        metavar="L,L,…",
        help='labels, how many numbers from 0 on, a JSON list ["a, b", "c"], or @FILE with a '
        "label on each line",
    )
    named.add_argument(
        "--label", action="append", metavar="L", help="one label, as it is; to be repeated"
    )
    parser.add_argument("--other", metavar="LABEL", help="a bucket for all other labels")


def add_candidates(parser: argparse.ArgumentParser) -> None:
    """Adds --candidates and --spread."""
    parser.add_argument(
        "--candidates",
        metavar="L,L,…",
        help="labels to show, a JSON list, or @FILE with a label on each line",
    )
    parser.add_argument(
        "--spread",
        default=str(DEFAULT_SPREAD),
        metavar="S",
        help=f"plan the error as if values were spread evenly over S labels ({DEFAULT_SPREAD})",
    )


def add_tree(parser: argparse.ArgumentParser) -> None:
    """Adds --alphabet, --length and --spread of a tree of prefixes."""
    parser.add_argument(
        "--alphabet", default=LETTERS, metavar="A…", help="characters that are told apart (a–z'-)"
    )
    parser.add_argument(
        "--length", default=DEFAULT_LENGTH, metavar="N", help=f"of words ({DEFAULT_LENGTH})"
    )
    parser.add_argument(
        "--spread",
        default=str(DEFAULT_TREE_SPREAD),
        metavar="S",
        help=f"plan the error as if prefixes were spread evenly over S ({DEFAULT_TREE_SPREAD})",
    )


def candidates_of(args: argparse.Namespace) -> list[Any]:
    """What --candidates says: a list of labels, empty where it is not given."""
    return [] if args.candidates is None else listed(args.candidates.strip(), "--candidates")


def labels_of(args: argparse.Namespace) -> int | list[Any]:
    """What --labels or --label say: a number of buckets, or a list of labels."""
    if args.label is not None:
        return list(args.label)
    text = args.labels.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    return listed(text, "--labels")


def listed(text: str, option: str) -> list[Any]:
    """Labels between commas, a JSON list of them, or the lines of a file."""
    if text.startswith("@"):
        return _labels_in(Path(text[1:]))
    if text.startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            raise ParameterError(
                f'{option} begins with [ but is no JSON list; write ["a", "b"], or use @FILE.'
            ) from None
        return list(found)
    return [label.strip() for label in text.split(",")]


def _labels_in(path: Path) -> list[str]:
    """The lines of a file, without empty ones."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ParameterError(f"{path} cannot be read ({error.strerror}); check the path.") from None
    except UnicodeError:
        raise ParameterError(f"{path} is not in the encoding UTF-8; convert it first.") from None
    return [line for line in lines if line.strip()]


def add_domains(parser: argparse.ArgumentParser) -> None:
    """Adds --domain, the labels of one of several columns."""
    parser.add_argument(
        "--domain",
        action="append",
        metavar="C=L,L,…",
        help="the labels of one of several columns whose combinations are counted; to be repeated",
    )


def domains_of(args: argparse.Namespace) -> dict[str, list[Any]]:
    """What all --domain say: the labels of each column."""
    domains: dict[str, list[Any]] = {}
    for text in args.domain or []:
        name, equals, labels = text.partition("=")
        if not equals:
            raise ParameterError("--domain needs a column and its labels, e.g. way=walk,bike.")
        domains[name] = typed_labels([label.strip() for label in labels.split(",")])
    return domains


def typed_labels(labels: list[Any]) -> list[Any]:
    """Labels as whole numbers where all of them are written like that."""
    if all(isinstance(label, str) and is_whole(label) for label in labels):
        return [int(label) for label in labels]
    return labels


def add_groups(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Adds --groups."""
    parser.add_argument(
        "--groups",
        required=required,
        metavar="L,L,…",
        help="the labels of all groups, a JSON list, or @FILE with a label on each line",
    )


def declared_groups(args: argparse.Namespace) -> list[Any] | None:
    """What --groups says; None where it is not given."""
    return None if args.groups is None else typed_labels(listed(args.groups.strip(), "--groups"))
