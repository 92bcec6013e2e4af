"""Witnesses of the log of tasks, which cosign its checkpoints (c2sp.org/tlog-witness)."""

from __future__ import annotations

import asyncio
import base64

import httpx2

from shuffledp.errors import ParameterError
from shuffledp.service.answers import MOST_SHORT_ANSWER_BYTES, bounded_request_async
from shuffledp.service.http.origins import is_server
from shuffledp.tasks.errors import ProofError
from shuffledp.tasks.merkle import MerkleTree
from shuffledp.tasks.notes import COSIGNATURE, Checkpoint, Signature, VerifierKey, parse_signatures

SECONDS = 10.0
CONFLICT = 409


def witness_of(text: str) -> tuple[VerifierKey, str]:
    """The key and the URL of a witness in the configuration; raises `ProofError`."""
    key, _, url = text.partition(" ")
    found = VerifierKey.parse(key)
    if found.kind != COSIGNATURE or not is_server(url):
        raise ProofError("form", "A witness is a verifier key of type 4, a space and a URL.")
    return found, url.rstrip("/")


class Witnesses:
    """Asks witnesses for cosignatures; those that do not answer are left out."""

    def __init__(self, texts: tuple[str, ...], transport: httpx2.AsyncBaseTransport | None = None):
        self._witnesses = [witness_of(text) for text in texts]
        self._sizes: dict[str, int] = {}
        """The size of the newest checkpoint that each witness has cosigned."""
        self._transport = transport

    def __len__(self) -> int:
        return len(self._witnesses)

    async def cosign(self, checkpoint: Checkpoint, tree: MerkleTree) -> list[Signature]:
        """The valid cosignatures of all witnesses that answer in time."""
        async with httpx2.AsyncClient(transport=self._transport, timeout=SECONDS) as client:
            asked = (self._ask(client, one, checkpoint, tree) for one in self._witnesses)
            found = await asyncio.gather(*asked)
        return [line for lines in found for line in lines]

    async def _ask(
        self,
        client: httpx2.AsyncClient,
        witness: tuple[VerifierKey, str],
        checkpoint: Checkpoint,
        tree: MerkleTree,
    ) -> list[Signature]:
        key, url = witness
        try:
            for _ in range(2):
                old = min(self._sizes.get(url, 0), checkpoint.size)
                body = submission(old, checkpoint, tree)
                answer = await bounded_request_async(
                    client, "POST", f"{url}/add-checkpoint", MOST_SHORT_ANSWER_BYTES, content=body
                )
                if answer.status_code != CONFLICT:
                    break
                self._sizes[url] = int(answer.text)  # the witness has seen more, or less
            if answer.status_code != httpx2.codes.OK:
                return []
            lines = parse_signatures(answer.text)
            mine = [one for one in lines if (one.name, one.id) == (key.name, key.id)]
            if not checkpoint.with_signatures(mine).holds(key):
                return []
        except (httpx2.HTTPError, ParameterError, ProofError, ValueError, IndexError):
            return []
        self._sizes[url] = checkpoint.size
        return mine


def submission(old: int, checkpoint: Checkpoint, tree: MerkleTree) -> bytes:
    """The body of add-checkpoint: the old size, a consistency path, and the checkpoint."""
    path = tree.consistency(old, checkpoint.size)
    lines = [f"old {old}", *(base64.b64encode(one).decode() for one in path), "", str(checkpoint)]
    return "\n".join(lines).encode()
