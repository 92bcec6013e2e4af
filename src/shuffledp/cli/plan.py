"""`shuffledp plan`: from a target to certified parameters."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from shuffledp import plan_count, plan_histogram, plan_integer_sum, plan_quantiles, plan_real_sum
from shuffledp.cli.output import Commands, add_command, emit, facts
from shuffledp.errors import ParameterError
from shuffledp.exact.numbers import show
from shuffledp.planning.plan import Plan
from shuffledp.sealed.files import write_whole


def add_to(commands: Commands) -> None:
    """The command and its kinds."""
    parser = commands.add_parser("plan", help="find the cheapest certified parameters")
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    _kind(kinds, "count", _count, "how many users hold 1")
    integers = _kind(kinds, "integers", _integers, "the sum of whole numbers 0..D")
    integers.add_argument("--largest", required=True, metavar="D", help="the largest value")
    histogram = _kind(kinds, "histogram", _histogram, "how many users hold each label")
    histogram.add_argument(
        "--buckets", required=True, metavar="B", help="how many, or labels separated by commas"
    )
    histogram.add_argument("--other", metavar="LABEL", help="a bucket for all other labels")
    real = _kind(kinds, "sum", _sum, "the sum of real values")
    add_bounds(real, default="0,1")
    real.add_argument("--radix", metavar="C,C,…", help="fix the digits' bases, e.g. 2,2,2,2")
    ranges = _kind(kinds, "quantiles", _quantiles, "quantiles and range counts")
    add_bounds(ranges, default="0,1")
    ranges.add_argument("--bins", default=64, metavar="N", help="parts of the range (64)")


def _kind(
    kinds: Commands, name: str, make: Callable[[argparse.Namespace], Plan], summary: str
) -> argparse.ArgumentParser:
    parser = add_command(kinds, name, lambda args: run(args, make), f"plan: {summary}")
    parser.add_argument(
        "--users", required=True, metavar="N", help="honest users who are sure to take part"
    )
    parser.add_argument("--epsilon", required=True, metavar="E", help="the privacy loss allowed")
    parser.add_argument(
        "--expected", metavar="N", help="users who may take part (the error is forecast for them)"
    )
    add_targets(parser)
    parser.add_argument(
        "--padded",
        action="store_true",
        help="for the service: count messages after padding, not on average before it",
    )
    parser.add_argument(
        "--fleet", action="store_true", help="also size a fleet, from rates measured here"
    )
    parser.add_argument("--output", metavar="FILE", help="also write the plan as JSON")
    return parser


def add_targets(parser: argparse.ArgumentParser) -> None:
    """What a plan may be asked for."""
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


def add_bounds(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """--bounds LOW,HIGH."""
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


def labels_of(text: str) -> int | list[str]:
    """A number of buckets, or labels."""
    if text.strip().isascii() and text.strip().isdigit():
        return int(text)
    return [label.strip() for label in text.split(",")]


def aim(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The targets that were given."""
    wanted = names or ("mse_overhead", "rmse", "relative_error", "max_messages")
    found = {name: getattr(args, name) for name in wanted if getattr(args, name) is not None}
    if getattr(args, "padded", False):
        found["padded"] = True
    if getattr(args, "expected", None) is not None:
        found["expected"] = args.expected
    return found


def _count(args: argparse.Namespace) -> Plan:
    return plan_count(args.users, args.epsilon, **aim(args))


def _integers(args: argparse.Namespace) -> Plan:
    return plan_integer_sum(args.users, args.epsilon, args.largest, **aim(args))


def _histogram(args: argparse.Namespace) -> Plan:
    labels = labels_of(args.buckets)
    return plan_histogram(args.users, args.epsilon, labels, other=args.other, **aim(args))


def _sum(args: argparse.Namespace) -> Plan:
    radix = None if args.radix is None else args.radix.split(",")
    return plan_real_sum(args.users, args.epsilon, bounds=bounds_of(args), radix=radix, **aim(args))


def _quantiles(args: argparse.Namespace) -> Plan:
    if args.max_messages is not None:
        raise ParameterError("Quantiles are planned for an error; --max-messages does not apply.")
    names = ("mse_overhead", "rmse", "relative_error")
    return plan_quantiles(
        args.users, args.epsilon, bounds_of(args), bins=args.bins, **aim(args, *names)
    )


def run(args: argparse.Namespace, make: Callable[[argparse.Namespace], Plan]) -> None:
    """Makes the plan, shows it, and writes it if asked."""
    import json

    plan = make(args)
    data, tables = plan.to_dict(), []
    if args.fleet:
        from shuffledp.spark.rates import fleet_for

        fleet = fleet_for(plan)
        data["fleet"] = fleet.to_dict()
        tables.append(facts(f"Fleet for {fleet.users:,} users", fleet.rows()))
    if args.output:
        write_whole(args.output, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    emit(args, data, lambda console: console.print(plan_table(plan), *tables))


def plan_table(plan: Plan) -> Any:
    """A plan for people."""
    from shuffledp.sealed.wire import MOST_REPORT_SIZE

    f = plan.forecast
    rows = [
        ("privacy", f"ε = {show(plan.epsilon)}, pure, in the shuffle model; certified"),
        ("", "neighbours: replace one user's value"),
        ("users", f"{plan.users:,} must take part; error forecast for {plan.expected:,}"),
        ("target", str(plan.target)),
        (
            "messages",
            f"{f.messages_per_user:,.2f} per user ({f.bits_per_message} bit each; "
            f"{f.limit_messages:,.2f} if the flood were free)",
        ),
        ("bytes", f"{f.bytes_per_user:,.1f} bare, per user"),
        (
            "in the service",
            f"{plan.report_size:,} messages in every report, to hide how many it holds: "
            f"{plan.encrypted_bytes:,} bytes sealed"
            + ("" if plan.target.padded else " (--padded plans for fewer)")
            + (
                f"; more than the {MOST_REPORT_SIZE:,} that it takes"
                if plan.report_size > MOST_REPORT_SIZE
                else ""
            ),
        ),
        (
            "RMSE",
            f"{f.rmse:,.4g} at worst, {f.rmse_at_zero:,.4g} at zero "
            f"(central mechanism: {f.central_rmse:,.4g})",
        ),
        ("95 % of errors", f"{f.error_low:,.4g} … {f.error_high:,.4g}"),
        *_printed_rows(plan.printed),
        *_warnings(plan),
        *_parameters(plan),
    ]
    return facts(f"Plan: {plan.protocol.query}", rows)


def _printed_rows(printed: dict[str, Any] | None) -> list[tuple[str, str]]:
    if printed is None:
        return []
    if "refused" in printed:
        return [("as printed", printed["refused"])]
    text = f"{printed['messages_per_user']:,.0f} messages per user, RMSE {printed['rmse']:,.4g}"
    if not printed["keeps_its_error"]:
        text += ": more than the paper promises for its own constants (erratum 3)"
    return [("as printed", text)]


def _warnings(plan: Plan) -> list[tuple[str, str]]:
    largest = plan.protocol.largest_answer(plan.expected)
    if largest is not None and plan.forecast.rmse > largest / 2:
        return [("warning", "the error exceeds half the range: the answer would say nothing")]
    return []


def _parameters(plan: Plan) -> list[tuple[str, str]]:
    rows = []
    for use, proof in zip(plan.protocol.uses, plan.certificate.proofs, strict=True):
        values = {k: v for k, v in use.cell.to_dict().items() if k not in ("kind", "users")}
        text = ", ".join(f"{name} {_short(value)}" for name, value in values.items())
        copies = f" × {use.copies}" if use.copies > 1 else ""
        rows.append((f"{use.cell.kind} cell{copies}", text))
        rows.append(("", proof.proof.summary()))
    return rows


def _short(value: object) -> str:
    from fractions import Fraction

    return show(Fraction(value)) if isinstance(value, str) else str(value)
