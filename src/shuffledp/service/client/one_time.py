"""The one-time token of a task on a device: blinded, signed by the issuer, unblinded, and kept
until the report that carries it is acknowledged.

The request to the issuer is stored before it is sent. After an interruption the same request is
sent again and gets the same response; a different one would be refused.
"""

from __future__ import annotations

import json
from pathlib import Path

from shuffledp.documents.files import lock, write_whole
from shuffledp.service.client.retries import DeviceRequest
from shuffledp.service.tokens import token_hash
from shuffledp.tasks.clock import CLOCK_SECONDS
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import TOKEN_PREFIX, TaskToken, TokenRequest, task_challenge


class OneTimeToken:
    """The token of one task, in a file next to the device's reports: `<id>.token`."""

    def __init__(self, task: Task, enrolment: str, folder: Path) -> None:
        assert task.issuer is not None
        self._task, self._issuer, self._folder = task, task.issuer, folder
        self._file = folder / f"{task.id.hex()}.token"
        self._enrolment = enrolment

    def text(self) -> str | None:
        """The token for the shuffler; None if the issuer has not signed it yet."""
        return self._read().get("token")

    def signing_request(self) -> DeviceRequest:
        """The request to the issuer to sign it."""
        return DeviceRequest(
            method="POST",
            server=self._issuer.url,
            path=f"/tasks/{self._task.id.hex()}/tokens",
            headers={
                "Authorization": f"Bearer {self._enrolment}",
                "Content-Type": "application/private-token-request",
            },
            body=self.request(),
            unreachable="The issuer does not answer, so there is no token yet; nothing was sent: "
            "try later.",
            refused="The issuer gave no token",
        )

    def request(self) -> bytes:
        """What the issuer is asked to sign: always the same bytes."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock(self._file.with_suffix(".token.lock"), secret=True):
            data = self._read()
            if not data:
                made = TokenRequest.make(self._issuer.key, task_challenge(self._task))
                data = {
                    "input": made.token_input.hex(),
                    "blinded": made.blinded.hex(),
                    "inverse": f"{made.inverse:x}",
                    **self._until(),
                }
                self._write(data)
        return self._made(data).to_bytes()

    def keep(self, answer: bytes) -> None:
        """Makes the token of the issuer's answer and stores it; raises `TaskError` unless it is
        valid."""
        token = self._made(self._read()).finish(answer)
        self._write({"token": token.text, **self._until()})

    def forget(self) -> None:
        """Removes the token after it was used."""
        _remove(self._file)

    def _until(self) -> dict[str, str]:
        """When the token expires."""
        return {"expires": str(self._task.expires)}

    def _made(self, data: dict[str, str]) -> TokenRequest:
        return TokenRequest(
            key=self._issuer.key,
            token_input=bytes.fromhex(data["input"]),
            blinded=bytes.fromhex(data["blinded"]),
            inverse=int(data["inverse"], 16),
        )

    def _read(self) -> dict[str, str]:
        try:
            return dict(json.loads(self._file.read_text("utf-8")))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError):
            raise TaskError(
                f"The token in {self._file} cannot be read; restore the file from a copy."
            ) from None

    def _write(self, data: dict[str, str]) -> None:
        write_whole(self._file, json.dumps(data), durable=True, secret=True)


def tokens_kept(folder: Path) -> list[str]:
    """The ids of the tasks for which a device keeps a token."""
    return sorted(file.stem for file in folder.glob("*.token"))


def forget_expired(folder: Path, now: int) -> None:
    """Removes the tokens of tasks that can no longer be answered and for which no report waits."""
    for file in folder.glob("*.token"):
        if file.with_suffix(".report").exists():
            continue
        try:
            expires = int(json.loads(file.read_text("utf-8"))["expires"])
        except (OSError, ValueError, TypeError, LookupError):
            continue  # unreadable files are kept: a task may still need them
        if expires + CLOCK_SECONDS <= now:  # the shuffler takes late reports
            _remove(file)


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.with_suffix(".token.lock").unlink(missing_ok=True)


def spent_name(token: str) -> bytes:
    """The name under which the shuffler remembers a token as spent."""
    if token.startswith(TOKEN_PREFIX):
        return TaskToken.from_text(token).name
    return token_hash(token)
