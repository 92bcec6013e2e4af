"""The JavaScript client in a real browser, where there are an issuer and a relay: reports carry
one-time tokens, and the shuffler sees no address of a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from browsers import Browser
from client_site import POLICY, check_count, client_site
from service_issuer import IssuerProgram

from shuffledp.queries.count.planner import plan_count
from shuffledp.service.client.collector import enrol, gateway_key, register, results
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.sending import Client
from shuffledp.service.demo import Servers, local_servers
from shuffledp.service.tokens import EACH_PREFIX
from shuffledp.tasks.blind_rsa import BlindPrivateKey
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import IssuerKeyFolder, TokenIssuer

USERS = 20
TRUSTING = ClientPolicy(least_users=1)
OPEN = """
    const [text, token, relay, policy, more] = args;
    const { loadTask, loadCurrentTask, createClient, BrowserStorage } = await import("/client.js");
    const seen = (window.seen ??= []);
    const real = (window.real ??= window.fetch);
    window.fetch = async (where, how) => {
        const one = { where: String(where), method: how.method ?? "GET" };
        if (how.body) Object.assign(one, { size: how.body.length, body: [...how.body].join() });
        seen.push(one);
        const answer = await real(where, how);
        one.status = answer.status;
        if (more.lose && one.where.endsWith("/tokens")) throw new TypeError("the answer was lost");
        return answer;
    };
    const task = await loadTask(text, { policy, relay });
    const storage = new BrowserStorage(more.database ?? "shuffledp");
    const client = createClient(task, { token, storage, attempts: 2 });
"""


@dataclass(frozen=True)
class Deployment:
    """All four servers, and a page of another origin that may talk to those that it needs."""

    servers: Servers
    site: str

    def task(self, name: str, issuer: TokenIssuer | None = None) -> Task:
        """A count for reports with tokens, through the relay; registered everywhere, but at the
        issuer only if it is the real one."""
        keys = IssuerKeyFolder(self.servers.folder / "issuer-keys")
        task = Task.create(
            plan_count(USERS, 2, mse_overhead=2, cell="bounded").to_dict(),
            KeyFolder(self.servers.folder / "keys").all()[-1].public,
            name,
            BatchRule(USERS),
            shuffler=self.servers.shuffler,
            issuer=issuer or TokenIssuer(self.servers.issuer, keys.new()),
            gateway=gateway_key(self.servers.shuffler),
        )
        servers = self.servers
        urls = {"analyzer": servers.analyzer, "shuffler": servers.shuffler}
        if issuer is None:
            urls["issuer"] = servers.issuer
        for role, url in urls.items():
            key = servers.signing_keys["collector"]
            register(task, url, servers.collector_tokens[role], key)
        return task

    def enrolment(self) -> str:
        """A fresh token, enrolled at the issuer."""
        (token,) = enrol(
            self.servers.issuer, self.servers.operator_token, 1, EACH_PREFIX, attested=False
        )
        return token

    def args(self, task: Task, token: str = "", **more: Any) -> list[Any]:
        """The arguments of `OPEN`, with a fresh enrolment."""
        text = task.canonical().decode()
        return [text, token or self.enrolment(), self.servers.relay, POLICY, more]

    def reports(self, task: Task) -> int:
        """How many reports of a task wait at the shuffler."""
        said = {"Authorization": f"Bearer {self.servers.operator_token}"}
        status = httpx2.get(f"{self.servers.shuffler}/status", headers=said).json()["tasks"]
        return int(next(one["have"] for one in status if one["task"] == task.id.hex()))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("servers")
    with (
        client_site(tmp_path_factory.mktemp("site")) as site,
        local_servers(folder, origins=(site,), more=("issuer", "relay")) as servers,
    ):
        yield Deployment(servers, site)


def test_a_batch_of_python_and_browser_answers_with_tokens_through_the_relay(
    deployment: Deployment, browser: Browser, tmp_path: Path
) -> None:
    """The analyzer counts all of them; the browser talks to issuer and relay, never to the
    shuffler, and sends equally many bytes for every value."""
    task, servers = deployment.task("mixed"), deployment.servers
    values = [int(user % 3 == 0) for user in range(USERS)]
    browser.open(deployment.site)
    for user, value in enumerate(values):
        if user % 2:
            with Client(
                task,
                servers.shuffler,
                deployment.enrolment(),
                tmp_path / str(user),
                policy=TRUSTING,
                relay=servers.relay,
            ) as client:
                client.send(value)
        else:
            args = deployment.args(task, database=f"mixed {user}")
            sent = browser.work(OPEN + f"return await client.send({value});", *args)
            assert sent == {"state": "sent", "status": 201}, sent
    seen = browser.run("window.seen")
    token, relay = f"{servers.issuer}/tasks/{task.id.hex()}/tokens", f"{servers.relay}/relay"
    assert [one["where"] for one in seen] == [relay, token, relay] * (USERS // 2)
    assert len({(one["where"], one["size"]) for one in seen}) == 3  # proof, token, report
    loaded = browser.run("performance.getEntriesByType('resource').map((one) => one.name)")
    assert loaded and not any(name.startswith(servers.shuffler) for name in loaded)
    (result,) = _results(servers, task)
    check_count(result, values)


def _results(servers: Servers, task: Task) -> Sequence[dict[str, Any]]:
    """The result, once it is published."""
    for _ in range(600):
        if found := results(servers.analyzer, task.id.hex()):
            return found
        threading.Event().wait(0.1)
    raise AssertionError("no result")


def test_a_second_answer_is_refused(deployment: Deployment, browser: Browser) -> None:
    """By the device; and by the issuer, if the same enrolment answers on another device."""
    task, token = deployment.task("second"), deployment.enrolment()
    browser.open(deployment.site)
    twice = "await client.send(1); return await client.send(0);"
    own = browser.work(OPEN + twice, *deployment.args(task, token, database="own"))
    assert own["error"] == "answered"
    other = browser.work(
        OPEN
        + "try { return await client.send(0); } catch ({ code, status, problem }) "
        + "{ return { code, status, problem, state: await client.state() }; }",
        *deployment.args(task, token, database="other"),
    )
    assert other == {"code": "token", "status": 409, "problem": "token-issued", "state": "none"}
    assert deployment.reports(task) == 1


def test_a_lost_answer_of_the_issuer_does_not_cost_the_enrolment_its_token(
    deployment: Deployment, browser: Browser
) -> None:
    task, token = deployment.task("lost"), deployment.enrolment()
    browser.open(deployment.site)
    lost = browser.work(
        OPEN + "return await client.prepare();",
        *deployment.args(task, token, lose=True, database="lost"),
    )
    assert lost["error"] == "network", lost
    before = browser.run("window.seen.filter((one) => one.where.endsWith('/tokens'))")
    assert [one["status"] for one in before] == [200, 200]
    browser.open(deployment.site)  # as if the browser had been closed meanwhile
    found = browser.work(
        OPEN + "return [await client.send(1), seen];",
        *deployment.args(task, token, database="lost"),
    )
    receipt, seen = found
    assert receipt == {"state": "sent", "status": 201}
    asked = [one["body"] for one in [*before, *seen] if one["where"].endswith("/tokens")]
    assert len(asked) == 3 and len(set(asked)) == 1
    assert deployment.reports(task) == 1


class OtherKey(BaseHTTPRequestHandler):
    """An issuer that signs with another key than the task names."""

    key: BlindPrivateKey
    seen: list[tuple[str, dict[str, str]]]

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.seen.append((self.command, {name.lower(): v for name, v in self.headers.items()}))
        self.send_response(status)
        self.send_header("Access-Control-Allow-Origin", self.headers["Origin"])
        self.send_header("Access-Control-Allow-Headers", "Authorization, Content-Type")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_OPTIONS(self) -> None:
        self._answer(204)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        number = int.from_bytes(body[3:], "big") % self.key.public.modulus
        self._answer(200, self.key.sign(number.to_bytes(256, "big")))

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def other_issuer(tmp_path: Path) -> Iterator[tuple[TokenIssuer, list[tuple[str, dict[str, str]]]]]:
    """An issuer whose key is not the one that tasks name for it, and the headers it is sent."""
    keys = IssuerKeyFolder(tmp_path / "keys")
    named, used = keys.new(), keys.find(keys.new())
    seen: list[tuple[str, dict[str, str]]] = []
    handler = type("Handler", (OtherKey,), {"key": used, "seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield TokenIssuer(f"http://127.0.0.1:{server.server_port}", named), seen
    finally:
        server.shutdown()
        server.server_close()


Other = tuple[TokenIssuer, list[tuple[str, dict[str, str]]]]


def test_with_a_wrong_issuer_key_nothing_is_sent(
    deployment: Deployment, browser: Browser, other_issuer: Other
) -> None:
    """The issuer has another key than the task names: it does not know the task, or signs what does
    not hold. No report leaves the browser and nothing is spent."""
    other, _ = other_issuer
    for issuer in (TokenIssuer(deployment.servers.issuer, other.key), other):
        task = deployment.task(f"wrong key at {issuer.url}", issuer)
        browser.open(deployment.site)
        sent = "try { return await client.send(1); } catch ({ code, message }) "
        after = (
            "{ const charges = await storage.update((record) => record.charges.length); "
            "return { code, message, charges, state: await client.state(), seen }; }"
        )
        found = browser.work(OPEN + sent + after, *deployment.args(task, database=issuer.url))
        assert (found["code"], found["charges"], found["state"]) == ("refused", 0, "none")
        kinds = [one["where"].rpartition("/")[2] for one in found["seen"]]
        assert kinds == ["relay", "tokens"]  # the relay is asked for the proof alone
        assert deployment.reports(task) == 0


def test_what_a_request_to_an_issuer_says_about_the_page(
    deployment: Deployment, browser: Browser, other_issuer: Other
) -> None:
    """Its origin, which browsers always add; no cookie, and not the page's address. (Cookies hold
    for all ports of a host, so that the page's own are those of the issuer here.)"""
    issuer, seen = other_issuer
    task = deployment.task("headers", issuer)
    browser.open(f"{deployment.site}/index.html?person=7")
    browser.run("document.cookie = 'name=person'")
    browser.work(OPEN + "return await client.send(1);", *deployment.args(task, database="headers"))
    assert [command for command, _ in seen] == ["OPTIONS", "POST"]
    for _, headers in seen:
        assert headers["origin"] == deployment.site
        assert not {"referer", "cookie"} & set(headers) and "person" not in str(headers)
    assert {"user-agent", "accept-language"} <= set(seen[1][1])  # these the browser adds, too
    seen.clear()  # the twin: a request as pages make them without such care
    careless = "await real(args[5], { method: 'POST', body: '0001', mode: 'no-cors', "
    careless += "credentials: 'include', referrerPolicy: 'unsafe-url' });"
    browser.work(OPEN + careless, *deployment.args(task, database="headers"), issuer.url)
    assert "person=7" in seen[0][1]["referer"] and seen[0][1]["cookie"] == "name=person"


def test_a_page_of_another_origin_gets_no_token_and_sends_nothing(
    deployment: Deployment, browser: Browser
) -> None:
    """Web security is on: neither issuer nor relay permit it (localhost is another origin)."""
    task = deployment.task("foreign")
    browser.open(deployment.site.replace("127.0.0.1", "localhost"))
    args = deployment.args(task)
    assert browser.work(OPEN + "return await client.send(1);", *args)["error"] == "cors"
    args[2] = None  # no relay: the proof comes with the task
    proof = httpx2.get(f"{deployment.servers.shuffler}/tasks/{task.id.hex()}/proof").text
    script = OPEN.replace("{ policy, relay }", "{ policy, relay, proof: more.proof }")
    args[4] = {"proof": proof}
    asked = browser.work(script + "return await client.prepare();", *args)
    assert asked["error"] == "cors" and "issuer" in asked["message"]


def test_a_person_who_enrols_twice_by_evidence_gets_one_token(
    deployment: Deployment, browser: Browser, tmp_path: Path
) -> None:
    """The evidence decides who is the same person: the issuer's command passes it on here."""
    program = IssuerProgram(tmp_path, attest="cat", allow_origins=[deployment.site])
    key = IssuerKeyFolder(tmp_path / "issuer-keys").new()
    with program.running():
        task = deployment.task("attested", TokenIssuer(program.url, key, attested=True))
        program.register(task)
        browser.open(deployment.site)
        enrolling = (
            'const { enrolByEvidence } = await import("/enrolment.js");'
            "return await enrolByEvidence(args[0], args[1]);"
        )
        outcomes = []
        for number, evidence in enumerate(("person 7", "person 8", "person 7")):
            token = browser.work(enrolling, program.url, evidence)
            assert str(token).startswith("each-"), token
            args = deployment.args(task, token, database=f"attested {number}")
            sent = browser.work(OPEN + "return await client.send(1);", *args)
            outcomes.append(sent.get("status") or sent["error"])
        assert outcomes == [201, 201, "token"]
        assert deployment.reports(task) == 2


def test_the_task_that_is_asked_now_is_found(deployment: Deployment, browser: Browser) -> None:
    task = deployment.task("found by its name")
    browser.open(deployment.site)
    found = browser.work(
        """const [server, name, policy] = args;
        const { loadCurrentTask } = await import("/client.js");
        return (await loadCurrentTask(server, name, { policy })).id;""",
        deployment.servers.shuffler,
        "found by",
        POLICY,
    )
    assert found == task.id.hex()


def test_the_task_that_is_asked_now_is_found_through_the_relay(
    deployment: Deployment, browser: Browser
) -> None:
    """The browser talks to the relay alone; without the gateway's key it asks nobody, and with
    another key it learns nothing."""
    task, servers = deployment.task("looked for"), deployment.servers
    assert task.gateway is not None
    key = task.gateway.to_bytes()
    other = key[:3] + bytes([key[3] ^ 1]) + key[4:]
    looking = """const [server, name, policy, relay, gateway] = args;
        const { loadCurrentTask } = await import("/client.js");
        const options = { policy, relay, ...(gateway && { gateway }) };
        return (await loadCurrentTask(server, name, options)).id;"""
    args = [servers.shuffler, "looked", POLICY, servers.relay]
    browser.open(deployment.site)
    assert browser.work(looking, *args, None)["error"] == "task"
    assert browser.work(looking, *args, other.hex())["error"] == "network"
    assert browser.work(looking, *args, key.hex()) == task.id.hex()
    names = browser.run("performance.getEntriesByType('resource').map((one) => one.name)")
    asked = [name for name in names if not name.startswith(deployment.site)]
    assert asked and set(asked) == {f"{servers.relay}/relay"}
    # the twin: without a relay it is the shuffler that is asked
    assert browser.work(looking, *args[:3], None, None) == task.id.hex()
    names = browser.run("performance.getEntriesByType('resource').map((one) => one.name)")
    assert f"{servers.shuffler}/current" in names
