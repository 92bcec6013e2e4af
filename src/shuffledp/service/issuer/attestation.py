"""The operator's command that decides who may enrol: App Attest, Play Integrity, a login, …

The command reads the evidence from standard input. To accept it, the command prints one line, the
subject, and exits with 0; the subject must be the same each time the same person or device comes
back. Exit code 1 refuses the evidence. Any other code means that the command could not decide, and
the device is told to come back later. Only a keyed hash of the subject is stored, and nothing of
either is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import shlex
from pathlib import Path

from shuffledp.documents.files import lock, write_whole
from shuffledp.service.http.problems import Problem

MOST_EVIDENCE_BYTES = 64 << 10
MOST_SUBJECT_BYTES = 1000
MOST_AT_ONCE = 4
MOST_WAITING = 64
REFUSED_CODE = 1
SECRET_BYTES = 32


class AttestationCommand:
    """Runs the command, a few at a time."""

    def __init__(self, command: str, seconds: int, folder: str) -> None:
        self._command, self._seconds, self._folder = shlex.split(command), seconds, Path(folder)
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._waiting = 0

    async def holder(self, evidence: str) -> bytes:
        """The keyed hash of the subject that the evidence is for; a `Problem` if there is none."""
        if not self._command:
            raise Problem(
                422,
                "attest-off",
                "This issuer enrols nobody by evidence; ask its operator for an enrolment.",
            )
        if self._waiting >= MOST_WAITING:
            raise Problem(
                503, "busy", "Too many enrolments are waiting; try again later.", retry_after=5
            )
        self._waiting += 1
        try:
            async with self._turns:
                code, said = await self._run(evidence.encode())
        finally:
            self._waiting -= 1
        subject = said.strip()
        if code == REFUSED_CODE:
            raise Problem(403, "not-attested", "The evidence was refused; ask the operator why.")
        if code != 0 or not subject or b"\n" in subject or len(said) > MOST_SUBJECT_BYTES:
            raise _undecided()
        return hmac.digest(await asyncio.to_thread(self._secret), b"subject " + subject, "sha256")

    async def _run(self, evidence: bytes) -> tuple[int | None, bytes]:
        """(exit code, what it printed)."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError:
            raise _undecided() from None
        try:
            async with asyncio.timeout(self._seconds):
                said, _ = await process.communicate(evidence)
        except TimeoutError:
            raise _undecided() from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return process.returncode, said

    def _secret(self) -> bytes:
        """The key of the hashes, made at its first use."""
        file = self._folder / "subjects.key"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock(self._folder / "subjects.lock", secret=True):
            if not file.exists():
                write_whole(file, os.urandom(SECRET_BYTES), durable=True, secret=True)
            return file.read_bytes()


def _undecided() -> Problem:
    return Problem(
        503, "attest", "The evidence could not be checked now; try again later.", retry_after=30
    )
