"""A backup of running servers, their loss, and the way back that docs/runbook.md describes."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import postgres_server as postgres
from season_stage import Stage, command

STORES = ("analyzer", "issuer", "shuffler")


@dataclass(frozen=True)
class Backups:
    """Where copies are, and how PostgreSQL's programs are called."""

    folder: Path
    programs: Path
    socket: str

    def _run(self, program: str, *words: str) -> None:
        subprocess.run([self.programs / program, *words], check=True)

    def back_up(self, stage: Stage, name: str, roles: Sequence[str] = STORES) -> None:
        """Copies the stores of servers while they run; `name` is the copy's."""
        copies = self.folder / name
        copies.mkdir(parents=True)
        for role in roles:
            if role == "shuffler":
                url = stage.settings["SHUFFLEDP_SHUFFLER_STORE"]
                self._run("pg_dump", "--format=custom", f"--file={copies}/shuffler.dump", url)
            else:
                store = f"sqlite:{stage.folder}/{role}.db"
                command("backup", "--store", store, "--output", str(copies / f"{role}.db"))

    def lose_and_restore(self, stage: Stage, name: str, roles: Sequence[str] = STORES) -> None:
        """Destroys the stores of servers, puts the copies back, and starts them again. What knows
        what has happened since (report keys, ledger, replay memory, the record of issued tokens)
        stays, as the runbook says."""
        stage.stop(*roles)
        for role in roles:
            if role == "shuffler":
                stage.settings["SHUFFLEDP_SHUFFLER_STORE"] = self._restored(stage, name)
                continue
            for file in stage.folder.glob(f"{role}.db*"):
                file.unlink()
            copy, store = str(self.folder / name / f"{role}.db"), f"{stage.folder}/{role}.db"
            command("restore", "--backup", copy, "--store", f"sqlite:{store}")
        stage.start(*roles)

    def write_all(self, stage: Stage) -> None:
        """Has PostgreSQL write all that it holds in memory to its files."""

        async def checkpoint() -> None:
            connection = await asyncpg.connect(stage.settings["SHUFFLEDP_SHUFFLER_STORE"])
            await connection.execute("CHECKPOINT")
            await connection.close()

        asyncio.run(checkpoint())

    def _restored(self, stage: Stage, name: str) -> str:
        """The shuffler's store, lost and restored into an empty database."""
        lost = stage.settings["SHUFFLEDP_SHUFFLER_STORE"].partition("?")[0].rpartition("/")[2]
        self._run("dropdb", "--force", "-h", self.socket, "-U", "postgres", lost)
        fresh = postgres.new_database(self.programs, self.socket)
        self._run("pg_restore", f"--dbname={fresh}", f"{self.folder}/{name}/shuffler.dump")
        return fresh
