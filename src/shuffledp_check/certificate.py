"""Checks certificates, and plans that hold one: `python -m shuffledp_check FILE [FILE …]`."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

from shuffledp_check import document
from shuffledp_check.bounded import Rejected
from shuffledp_check.paper import Cell, Work
from shuffledp_check.queries import QUERIES, Budget, budgets, rule_of, users_of

STATEMENT = "pure differential privacy in the shuffle model"
NEIGHBOURS = "replace one user's value"
CERTIFICATE = document.certificate({name: query.check(name) for name, query in QUERIES.items()})


def prove(one: Budget, work: Work) -> dict[str, Any]:
    """What a proof says about a cell; raises `Rejected` if there is none."""
    if isinstance(one.cell, Cell):
        return one.cell.check(one.up, one.down, work)
    return one.cell.check(one.up, one.down)


def check(data: Any) -> Fraction:
    """ε, if the certificate (or the plan that holds one) proves it; raises `Rejected` otherwise."""
    if type(data) is dict and type(data.get("certificate")) is dict:
        data = data["certificate"]
    CERTIFICATE(data)
    protocol = data["protocol"]
    loss, cells = budgets(protocol)
    epsilon = Fraction(protocol["epsilon"])
    if loss > epsilon:
        raise Rejected("the losses add up to more than epsilon")
    claims = {
        "statement": STATEMENT,
        "epsilon": str(epsilon),
        "loss": str(loss),
        "rule": rule_of(protocol, cells),
        "neighbours": NEIGHBOURS,
        "users": users_of(cells),
    }
    if not says(data, claims) or len(data["cells"]) != len(cells):
        raise Rejected("a claim does not follow from the parameters")
    work = Work()
    for one, given in zip(cells, data["cells"], strict=True):
        claim = {
            "kind": one.cell.kind,
            "copies": one.copies,
            "up": str(one.up),
            "down": str(one.down),
        }
        if not says(given, claim):
            raise Rejected("a claim about a cell does not follow from the parameters")
        shown = prove(one, work)
        if not says(given, {"proof": shown}):
            raise Rejected("a proof is not what was found")
    return epsilon


def says(given: Any, claims: dict[str, Any]) -> bool:
    """Whether a part of a certificate makes all these claims."""
    return type(given) is dict and all(
        says(given.get(name), claim)
        if type(claim) is dict
        else type(given.get(name)) is type(claim) and given[name] == claim
        for name, claim in claims.items()
    )


USAGE = "Name certificate or plan files: python -m shuffledp_check FILE [FILE …]"
CERTIFIED, WRONG_CALL, REFUTED = 0, 2, 3
"""Exit codes."""


def verdict(name: str) -> tuple[int, str]:
    """The exit code for one file, `-` for standard input, and what to say about it."""
    most = document.MOST_BYTES + 1
    try:
        if name == "-":
            text = sys.stdin.buffer.read(most)
        else:
            with open(name, "rb") as file:
                text = file.read(most)
    except OSError as error:
        return WRONG_CALL, f"cannot be read ({error.strerror})"
    try:
        return CERTIFIED, f"certified for epsilon = {check(document.read(text))}"
    except Rejected as error:
        return REFUTED, f"rejected: {error}"
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return REFUTED, "rejected: malformed"


def main() -> int:
    """Checks every named file; the exit code is 0 only if all of them hold."""
    names = sys.argv[1:]
    if not names or names[0].startswith("--"):
        print(USAGE, file=sys.stderr)
        return CERTIFIED if "--help" in names else WRONG_CALL
    codes = []
    for name in names:
        code, said = verdict(name)
        print(f"{name}: {said}")
        codes.append(code)
    return max(codes)
