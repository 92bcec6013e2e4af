"""`shuffledp verify FILE`: re-proves a certificate from its parameters."""

from __future__ import annotations

import argparse

from shuffledp.cli.output import Commands, Facts, add_command, emit, read_json
from shuffledp.numbers.deadline import time_limit
from shuffledp.numbers.exact import show
from shuffledp.plans.certificate import verify
from shuffledp.plans.text import proof_lines

VERIFY_SECONDS = 600.0


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "verify",
        run,
        "check a certificate or a plan by proving everything again",
        examples=[
            "verify plan.json",
            "plan count --users 1000 --epsilon 1 --json | shuffledp verify -",
        ],
    )
    parser.add_argument(
        "file", metavar="FILE", help="JSON from `shuffledp plan … --json`; - is standard input"
    )


def run(args: argparse.Namespace) -> None:
    """Proves the certificate again and shows it; a violation is an error with its witness."""
    with time_limit(VERIFY_SECONDS, "Verifying this certificate"):
        certificate = verify(read_json(args.file))
    rows = [
        ("certified", f"ε = {show(certificate.epsilon)}, pure, in the shuffle model"),
        ("users", f"{certificate.protocol.users:,} at least, all honest"),
    ]
    if getattr(args, "verbose", False):
        rows.append(("loss", f"{show(certificate.loss)} at most"))
        rows += [("proof", line) for line in proof_lines(certificate)]
    title = f"Certificate: {certificate.protocol.query}"
    emit(args, certificate.to_dict(), Facts(title, rows))
