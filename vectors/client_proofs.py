"""The proofs of tasks in vectors/client.json: honest ones, and attacks that must be refused."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable

from naive_proof import ROLES, Data, accepted, head_text, made, public_of, secret_of, task_text

from shuffledp.tasks.task import Task

TASK_NAME = "count, bounded"
PINNED: Data = {role: public_of(role).hex() for role in ROLES}
HONEST = ((0, 1), (0, 2), (1, 2), (2, 3), (3, 7), (6, 7), (5, 8), (64, 65), (40, 100))
"""(index, size) of honest proofs."""


def others(count: int) -> list[bytes]:
    """So many entries of other tasks."""
    return [hashlib.sha512(f"entry {number}".encode()).digest() * 2 for number in range(count)]


def proofs(tasks: dict[str, Task]) -> Data:
    """The section `proofs`: the pinned keys, and cases with what a device decides."""
    task = tasks[TASK_NAME].id
    cases = [
        _case(f"entry {at} of {size}", made(task, at, others(size - 1))) for at, size in HONEST
    ]
    cases += [_case(name, _changed(task, change)) for name, change in attacks(task).items()]
    cases += [_case(name, proof) for name, proof in other_signers(task).items()]
    for number, case in enumerate(cases):
        found = accepted(case["proof"], task, PINNED)
        assert found == (number < len(HONEST)), case["name"]
        case["accepted"] = found
    return {"task": TASK_NAME, "signing_keys": PINNED, "cases": cases}


def _case(name: str, proof: Data) -> Data:
    return {"name": name, "proof": proof}


def _changed(task: bytes, change: Callable[[Data], object]) -> Data:
    proof = copy.deepcopy(made(task, 3, others(6)))
    change(proof)
    return proof


def other_signers(task: bytes) -> dict[str, Data]:
    """Proofs that are right in themselves, by keys that are not pinned."""
    return {
        f"a stranger as {role}": made(task, 3, others(6), {role: f"stranger {role}"})
        for role in ROLES
    }


def attacks(task: bytes) -> dict[str, Callable[[Data], object]]:
    """What somebody may change in an honest proof, each to be refused."""
    fork = made(task, 2, others(6))["log"]
    alone = made(task, 0, [])["log"]
    log_key = public_of("analyzer")

    def unwitnessed(proof: Data) -> None:
        proof["log"]["shuffler_signature"] = proof["log"]["analyzer_signature"]

    def forked(proof: Data) -> None:
        proof["log"] |= {
            name: fork[name] for name in ("index", "root", "path", "analyzer_signature")
        }

    def unlogged(proof: Data) -> None:
        other = made(hashlib.sha256(b"another task").digest(), 3, others(6))["log"]
        proof["log"] |= other

    def witness_signs_for_another_log(proof: Data) -> None:
        log = proof["log"]
        text = head_text("shuffler", bytes(32), log["size"], bytes.fromhex(log["root"]))
        log["shuffler_signature"] = secret_of("shuffler").sign(text).hex()

    def swapped(proof: Data) -> None:
        text = task_text("analyzer", task)
        proof["signatures"]["shuffler"] = secret_of("shuffler").sign(text).hex()

    def same_size_head(proof: Data) -> None:
        text = head_text("analyzer", log_key, 7, bytes(32))
        proof["log"] |= {
            "root": "00" * 32,
            "analyzer_signature": secret_of("analyzer").sign(text).hex(),
        }

    wrong = {
        f"wrong signature of the {role}": lambda proof, role=role: proof["signatures"].update(
            {role: _flipped(proof["signatures"][role])}
        )
        for role in ROLES
    }
    return {
        **wrong,
        "the shuffler's signature over what the analyzer signs": swapped,
        "unlogged task": unlogged,
        "forked log head": forked,
        "another head of the same size": same_size_head,
        "unwitnessed head": unwitnessed,
        "witnessed for another log": witness_signs_for_another_log,
        "another task": lambda proof: proof.update(task="00" * 32),
        "another index": lambda proof: proof["log"].update(index=2),
        "index beyond the log": lambda proof: proof["log"].update(index=7),
        "another size": lambda proof: proof["log"].update(size=8),
        "short path": lambda proof: proof["log"]["path"].pop(),
        "long path": lambda proof: proof["log"]["path"].append("00" * 32),
        "the head of a log of one": lambda proof: proof["log"].update(root=alone["root"]),
        "unknown field": lambda proof: proof.update(more=1),
        "another format": lambda proof: proof.update(format="shuffledp task proof 2"),
        "capital digits": lambda proof: proof.update(task=proof["task"].upper()),
        "a size that is no number": lambda proof: proof["log"].update(size="7"),
    }


def _flipped(signature: str) -> str:
    """A signature with one bit changed."""
    return f"{int(signature[:2], 16) ^ 1:02x}{signature[2:]}"
