"""The whole service on this machine: its servers, simulated users, the estimate and the truth."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shuffledp.numbers.entropy import SYSTEM
from shuffledp.queries.count.planner import plan_count
from shuffledp.service.blocking import run_blocking
from shuffledp.service.client.collector import (
    call,
    enrol,
    first_result,
    gateway_key,
    register_everywhere,
    waited,
)
from shuffledp.service.client.connection import BlockingConnection
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.retries import Retries
from shuffledp.service.client.sending import Client, fetch_proof
from shuffledp.service.errors import Refused, Unreachable, UntrustedServer
from shuffledp.service.tokens import EACH_PREFIX, new_token, token_hash
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.signing import SIGNERS, SigningKey
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import IssuerKeyFolder, TokenIssuer

Say = Callable[[str], None]
RESULT_SECONDS = 120.0
PROOF_ATTEMPTS = 8
RESERVED_PORTS = 200
_reserved: deque[socket.socket] = deque()


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Running servers and the tokens to talk to them."""

    folder: Path
    shuffler: str
    analyzer: str
    collector_tokens: dict[str, str]
    """The collector's token at each server; neither is valid at the other server."""
    operator_token: str
    signing_keys: dict[str, SigningKey]
    """The keys with which collector, shuffler and analyzer sign."""
    issuer: str = ""
    """The issuer's URL; empty if there is none."""
    relay: str = ""
    """The relay's URL; empty if there is none."""

    def register(self, task: Task) -> None:
        """Signs a task as the collector and registers it at all servers."""
        urls = {"shuffler": self.shuffler, "analyzer": self.analyzer, "issuer": self.issuer}
        register_everywhere(task, urls, self.collector_tokens, self.signing_keys["collector"])

    def introduce(self, say: Say) -> None:
        """Prints the servers' addresses."""
        say(f"shuffler on {self.shuffler}, analyzer on {self.analyzer}")
        if self.issuer:
            say(f"issuer on {self.issuer}: reports carry one-time tokens")
        if self.relay:
            say(f"relay on {self.relay}: the shuffler sees no addresses of devices")

    def new_parties(self) -> dict[str, Any]:
        """A new task's issuer and gateway, if these servers exist."""
        keys = IssuerKeyFolder(self.folder / "issuer-keys")
        return {
            "issuer": TokenIssuer(self.issuer, keys.new()) if self.issuer else None,
            "gateway": gateway_key(self.shuffler) if self.relay else None,
        }

    def enrol(self, count: int) -> list[str]:
        """Fresh tokens of devices, enrolled at the issuer if there is one, else at the shuffler."""
        if self.issuer:
            return enrol(self.issuer, self.operator_token, count, EACH_PREFIX, attested=False)
        return enrol(self.shuffler, self.operator_token, count, EACH_PREFIX)


def free_port() -> int:
    """A port on which no program listens, for a server that is started next.

    Ensures: on Linux no other program is given this port meanwhile, nor is the next caller. A bound
    socket keeps it, which lets servers listen there that set SO_REUSEADDR, as ours do. Other
    systems would not let them, so nothing keeps the port there.
    """
    probe = socket.socket()
    if keeps := sys.platform == "linux":
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    port: int = probe.getsockname()[1]
    _reserved.append(probe)
    while len(_reserved) > RESERVED_PORTS * keeps:
        _reserved.popleft().close()
    return port


@atexit.register
def _give_back_ports() -> None:
    for one in _reserved:
        one.close()


@contextlib.contextmanager
def local_servers(
    folder: Path, origins: Sequence[str] = (), more: Sequence[str] = ()
) -> Iterator[Servers]:
    """A shuffler, an analyzer and `more` servers on 127.0.0.1, with all their files in one folder;
    web pages of these origins may send reports."""
    ports = {role: free_port() for role in ("shuffler", "analyzer", *more)}
    tokens = new_tokens()
    config = folder / "demo.toml"
    config.write_text(configuration(folder, ports, tokens, origins))
    KeyFolder(folder / "keys").new()
    signing = {role: SigningKey.create(folder / f"{role}-signing.json") for role in SIGNERS}
    environment = os.environ | {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": tokens["shuffler"]}
    running = [_start(role, config, environment) for role in ports]
    try:
        urls = {role: f"http://127.0.0.1:{port}" for role, port in ports.items()}
        for url in urls.values():
            wait_ready(url)
        yield Servers(
            folder=folder,
            shuffler=urls["shuffler"],
            analyzer=urls["analyzer"],
            collector_tokens={
                role: tokens[name] for role in ports if (name := f"collector at {role}") in tokens
            },
            operator_token=tokens["operator"],
            issuer=urls.get("issuer", ""),
            relay=urls.get("relay", ""),
            signing_keys=signing,
        )
    finally:
        for server in running:
            server.terminate()
        for server in running:
            server.wait(30)


def new_tokens() -> dict[str, str]:
    """Fresh tokens for everyone who talks to a server of `configuration`."""
    collectors = (f"collector at {role}" for role in ("shuffler", "analyzer", "issuer"))
    names = (*collectors, "operator", "shuffler")
    return {name: new_token() for name in (*names, "operator of analyzer")}


def _start(role: str, config: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with open(config.with_name(f"{role}.log"), "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "shuffledp.cli.main", role, "serve", "--config", str(config)],
            env=environment,
            stderr=log,
        )


def configuration(
    folder: Path, ports: dict[str, int], tokens: dict[str, str], origins: Sequence[str] = ()
) -> str:
    """The TOML file of the servers, with all their files in one folder."""
    sha = {name: token_hash(token).hex() for name, token in tokens.items()}
    own: dict[str, dict[str, Any]] = {
        "shuffler": {
            "analyzer": f"http://127.0.0.1:{ports['analyzer']}",
            "operator_token_sha256": sha["operator"],
        },
        "analyzer": {
            "keys": f"{folder}/keys",
            "ledger": f"{folder}/ledger.json",
            "budget": "100",
            "shuffler_token_sha256": sha["shuffler"],
            "operator_token_sha256": sha["operator of analyzer"],
        },
        "issuer": {"keys": f"{folder}/issuer-keys", "operator_token_sha256": sha["operator"]},
        "relay": {"shuffler": f"http://127.0.0.1:{ports['shuffler']}"},
    }
    lines = []
    for role, port in ports.items():
        settings = {"listen": f"127.0.0.1:{port}", "allow_origins": list(origins), **own[role]}
        if role != "relay":
            settings |= {
                "store": f"sqlite:{folder}/{role}.db",
                "spool": f"{folder}/{role}",
                "collector_token_sha256": sha[f"collector at {role}"],
                "drain_seconds": 0,
            }
        lines += [f"[{role}]", *(f"{name} = {json.dumps(it)}" for name, it in settings.items())]
    return "\n".join(lines) + "\n"


def wait_ready(url: str, seconds: float = 120.0, pause: float = 0.05) -> None:
    """Waits until a server is ready; raises `Unreachable` if it is not in time, and
    `UntrustedServer` at once."""

    def ready() -> bool | None:
        try:
            answer = call("GET", f"{url}/readyz", connection=connection)
            return answer.status_code == 200 or None
        except UntrustedServer:
            raise
        except (Refused, Unreachable):
            return None

    trouble = f"The server at {url} is not ready; start it, or look at its log."
    with BlockingConnection() as connection:
        waited(ready, seconds, pause, trouble)


def simulated(users: int) -> list[int]:
    """Values of simulated users: about three in ten are 1."""
    return [int(SYSTEM.below(10) < 3) for _ in range(users)]


def run_demo(
    users: int, epsilon: str, say: Say, keep: bool = False, more: Sequence[str] = ()
) -> dict[str, Any]:
    """Runs everything once and cleans up; returns the result and the truth. `more` names
    further servers to run."""
    with (
        scratch_folder("shuffledp-demo-", say, keep) as folder,
        local_servers(folder, more=more) as servers,
    ):
        servers.introduce(say)
        return _one_round(servers, users, epsilon, say)


@contextlib.contextmanager
def scratch_folder(prefix: str, say: Say, keep: bool) -> Iterator[Path]:
    """A folder that is removed in the end, unless it is to be kept."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        if keep:
            say(f"everything is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _one_round(servers: Servers, users: int, epsilon: str, say: Say) -> dict[str, Any]:
    plan = plan_count(users, epsilon, padded=True)
    key = KeyFolder(servers.folder / "keys").all()[-1].public
    task = Task.create(
        plan.to_dict(),
        key,
        "demo: who has it?",
        BatchRule(users),
        **servers.new_parties(),
    )
    servers.register(task)
    say(
        f"task {task.id.hex()[:16]}…: {task.report_size} messages and {task.report_bytes:,} bytes "
        "per report, whatever the value"
    )
    values = simulated(users)
    send_all(servers, task, values, servers.enrol(users), say)
    trouble = f"No result after {RESULT_SECONDS:.0f} s; look at the logs with --keep."
    result = first_result(servers.analyzer, task, RESULT_SECONDS, 0.1, trouble)
    return {"truth": sum(values), **result}


def send_all(
    servers: Servers,
    task: Task,
    values: list[int],
    tokens: list[str],
    say: Say,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Sends every simulated user's report; `before` runs before each."""
    policy = ClientPolicy(
        most_epsilon_per_task=task.protocol.epsilon,
        most_epsilon_per_period=task.protocol.epsilon,
        least_users=task.protocol.users,
        analyzer_keys=(task.key.raw.hex(),),
        signing_keys={role: (key.public.hex(),) for role, key in servers.signing_keys.items()},
    )
    connection, retries = BlockingConnection(), Retries(PROOF_ATTEMPTS, SYSTEM)
    proof = run_blocking(fetch_proof(connection, servers.shuffler, task.id, retries))
    run_blocking(connection.close())

    def send(user: int) -> None:
        before()
        outbox = servers.folder / "devices" / str(user)
        with Client(
            task,
            servers.shuffler,
            tokens[user],
            outbox,
            policy=policy,
            proof=proof,
            relay=servers.relay,
        ) as client:
            client.send(values[user])

    with ThreadPoolExecutor(4) as threads:
        for done, _ in enumerate(threads.map(send, range(len(values))), start=1):
            if done % max(1, len(values) // 4) == 0:
                say(f"{done:,} of {len(values):,} simulated users have sent their report")
