"""A backup of running servers, their loss, and the way back that docs/runbook.md describes."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import postgres_server as postgres
from season_stage import Stage, command

SQLITE_ROLES = ("analyzer", "issuer")
STORES = (*SQLITE_ROLES, "shuffler")


@dataclass(frozen=True)
class Backups:
    """Where the copies are, and how PostgreSQL's programs are called."""

    folder: Path
    programs: Path
    socket: str

    def _run(self, program: str, *words: str) -> None:
        subprocess.run([self.programs / program, *words], check=True)

    def back_up(self, stage: Stage) -> None:
        """Copies the stores of all servers while they run."""
        self.folder.mkdir()
        for role in SQLITE_ROLES:
            copy = str(self.folder / f"{role}.db")
            command("backup", "--store", f"sqlite:{stage.folder}/{role}.db", "--output", copy)
        url = stage.settings["SHUFFLEDP_SHUFFLER_STORE"]
        self._run("pg_dump", "--format=custom", f"--file={self.folder}/shuffler.dump", url)

    def lose_and_restore(self, stage: Stage) -> None:
        """Destroys all stores, puts the copies back, and starts the servers again. What knows what
        has happened (report keys, ledger, replay memory) stays, as the runbook says."""
        stage.stop(*STORES)
        for role in SQLITE_ROLES:
            for file in stage.folder.glob(f"{role}.db*"):
                file.unlink()
            copy = str(self.folder / f"{role}.db")
            command("restore", "--backup", copy, "--store", f"sqlite:{stage.folder}/{role}.db")
        lost = stage.settings["SHUFFLEDP_SHUFFLER_STORE"].partition("?")[0].rpartition("/")[2]
        self._run("dropdb", "-h", self.socket, "-U", "postgres", lost)
        fresh = postgres.new_database(self.programs, self.socket)
        self._run("pg_restore", f"--dbname={fresh}", f"{self.folder}/shuffler.dump")
        stage.settings["SHUFFLEDP_SHUFFLER_STORE"] = fresh
        stage.start(*STORES)
