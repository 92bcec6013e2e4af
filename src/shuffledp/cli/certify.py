"""`shuffledp certify FILE`: proves a certificate again, believing nothing it says."""

from __future__ import annotations

import argparse

from shuffledp.cli.output import Commands, add_command, emit, facts, read_json
from shuffledp.exact.numbers import show
from shuffledp.privacy.certificate import verify


def add_to(commands: Commands) -> None:
    """The command."""
    parser = add_command(commands, "certify", run, "check a certificate or a plan from its file")
    parser.add_argument("file", metavar="FILE", help="JSON from `shuffledp plan … --json`")


def run(args: argparse.Namespace) -> None:
    """Proves it again and says so; a violation is an error with its witness."""
    certificate = verify(read_json(args.file))
    rows = [
        ("certified", f"ε = {show(certificate.epsilon)}, pure, in the shuffle model"),
        ("loss", f"{show(certificate.loss)} at most"),
        ("users", f"{certificate.protocol.users:,} at least"),
    ]
    for proof in certificate.proofs:
        rows.append(("proof", proof.proof.summary()))
    title = f"Certificate: {certificate.protocol.query}"
    emit(args, certificate.to_dict(), lambda console: console.print(facts(title, rows)))
