"""`shuffledp demo`: the whole service on this machine, with simulated users or a survey page."""

from __future__ import annotations

import argparse
import signal
from types import FrameType

from shuffledp.cli.output import Commands, Facts, add_command, emit, note
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import percent, whole


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "demo",
        run,
        "run a local shuffler, analyzer and simulated users",
        examples=["demo", "demo --issuer --relay", "demo --users 1000 --epsilon 0.5 --keep"],
        needs=["service"],
    )
    parser.add_argument("--users", default="200", metavar="N", help="simulated users (200)")
    parser.add_argument("--epsilon", default="1", metavar="E", help="ε (1)")
    parser.add_argument(
        "--issuer", action="store_true", help="with an issuer: reports carry one-time tokens"
    )
    parser.add_argument(
        "--relay", action="store_true", help="with a relay: the shuffler sees no addresses"
    )
    parser.add_argument("--keep", action="store_true", help="keep databases and logs")
    page = parser.add_argument_group(
        "survey page to answer in a browser (served with any of these)"
    )
    page.add_argument("--browser", action="store_true", help="serve the page")
    page.add_argument("--browsers", metavar="N", help="number of answers from the page (1)")
    page.add_argument("--port", metavar="P", help="port of the page (default: a free one)")
    page.add_argument("--question", metavar="TEXT", help="the yes-or-no question on the page")
    page.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="let pages of another site answer too, for example http://localhost:5173; repeat it "
        "for each",
    )


def run(args: argparse.Namespace) -> None:
    """Runs the demo; SIGTERM ends it, and its servers with it."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        page = (args.browsers, args.port, args.question, args.allow_origin)
        run_page(args) if args.browser or any(page) else run_users(args)
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def run_users(args: argparse.Namespace) -> None:
    from shuffledp.service.demo import run_demo

    users = whole(args.users, "--users", least=2, most=100_000)
    found = run_demo(users, args.epsilon, lambda line: note(args, line), args.keep, _more(args))
    result = found["result"]
    low, high = result["interval"]
    emit(
        args,
        found,
        Facts(
            "How many of the simulated users say yes",
            [
                ("estimate", f"{result['clipped']:,.1f} of {users:,} users"),
                (f"{percent(result['confidence'])} interval", f"{low:,} … {high:,}"),
                ("truth", f"{found['truth']:,} (only this demo knows it)"),
                ("privacy", f"ε = {float(result['epsilon']):g}, pure, certified"),
                *_anomaly(args, found["anomaly"]),
            ],
        ),
    )


def _anomaly(args: argparse.Namespace, anomaly: float) -> list[tuple[str, str]]:
    """How unusual the messages of the batch are, with -v."""
    shown = f"{anomaly:+.2f} standard deviations"
    return [("anomaly", shown)] if getattr(args, "verbose", False) else []


def run_page(args: argparse.Namespace) -> None:
    """Serves the survey page until it is interrupted."""
    from shuffledp.service.survey import MOST_BROWSERS, QUESTION, run_survey

    users = whole(args.users, "--users", least=2, most=100_000)
    run_survey(
        users,
        args.epsilon,
        lambda line: note(args, line),
        browsers=whole(args.browsers or 1, "--browsers", most=min(MOST_BROWSERS, users - 1)),
        port=whole(args.port or 0, "--port", least=0, most=65_535),
        question=args.question or QUESTION,
        keep=args.keep,
        more=_more(args),
        origins=_origins(args),
    )


def _origins(args: argparse.Namespace) -> list[str]:
    """The other sites whose pages may answer."""
    from shuffledp.service.http.origins import is_origin

    if not all(is_origin(origin) for origin in args.allow_origin):
        raise ParameterError(
            "--allow-origin takes an origin: scheme, host and port without a path, for example "
            "http://localhost:5173."
        )
    return list(args.allow_origin)


def _more(args: argparse.Namespace) -> list[str]:
    """The servers to run besides shuffler and analyzer."""
    return [role for role in ("issuer", "relay") if getattr(args, role)]
