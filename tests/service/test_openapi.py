"""What the servers answer is what docs/schema/*.openapi.json says, for requests of every kind."""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from described_answers import check_described
from hypothesis import HealthCheck, Phase, given, settings
from service_issuer import IssuerProgram
from service_programs import Programs
from service_trio import ANALYZER_OPERATOR, COLLECTOR, DELIVERY, OPERATOR, Trio, bearing

from shuffledp import plan_histogram, plan_quantiles
from shuffledp.service.analyzer.app import Analyzer
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.http.role import Role
from shuffledp.service.issuer.app import Issuer
from shuffledp.service.issuer.config import IssuerConfig
from shuffledp.service.relay.app import Relay
from shuffledp.service.relay.config import RelayConfig
from shuffledp.service.shuffler.app import Shuffler
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.tasks.results import PUBLISHED
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task

ROOT = Path(__file__).resolve().parents[2]
ROLES: dict[str, Role] = {
    "shuffler": Shuffler(ShufflerConfig()),
    "analyzer": Analyzer(AnalyzerConfig()),
    "issuer": Issuer(IssuerConfig()),
}
TOKENS = {
    "shuffler": {"collector": COLLECTOR, "operator": OPERATOR, "client": "each-nobody"},
    "analyzer": {"collector": COLLECTOR, "operator": ANALYZER_OPERATOR, "shuffler": DELIVERY},
    "issuer": {"collector": COLLECTOR, "operator": OPERATOR, "client": "each-nobody"},
}
TRIES = 8
"""Requests of each kind, for each operation. (That whatever fits the description is accepted is not
asked for: a task must also be private, a token enrolled.)"""


def document(role: str) -> dict[str, Any]:
    text = (ROOT / "docs" / "schema" / f"{role}.openapi.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """All servers on loopback."""
    trio = Trio(tmp_path_factory.mktemp("servers"))
    issuer = IssuerProgram(trio.folder)
    with Programs(trio).both() as (shuffler, analyzer), issuer.running():
        yield {"shuffler": shuffler, "analyzer": analyzer, "issuer": issuer.url}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    """The description of each server, ready to make requests from."""
    import schemathesis  # slow to import

    schemathesis.serializer.alias(
        ["application/private-token-request", "message/ohttp-req"], "application/octet-stream"
    )
    return {role: schemathesis.openapi.from_dict(document(role)) for role in ROLES}


@pytest.mark.parametrize(
    ("role", "method", "path"),
    [(name, one.method, one.path) for name, role in ROLES.items() for one in role.operations()],
)
def test_requests_of_every_kind_get_described_answers(
    servers: dict[str, str], schemas: dict[str, Any], role: str, method: str, path: str
) -> None:
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    operation = schemas[role][path.replace(":path}", "}")][method]
    described = next(
        one for one in ROLES[role].operations() if (one.method, one.path) == (method, path)
    )
    token = TOKENS[role].get(described.who, "")

    @settings(
        max_examples=TRIES,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy())
    def attempt(case: Any) -> None:
        for headers in ({}, bearing(token)) if token else ({},):
            answer = case.call(base_url=servers[role], headers=headers)
            case.validate_response(answer, excluded_checks=[positive_data_acceptance])

    attempt()


def problems_in_source() -> set[tuple[int, str]]:
    """(status, code) of every refusal that the servers' source names."""
    found = set()
    for file in (ROOT / "src" / "shuffledp" / "service").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem":
                status, code = node.args[:2]
                if isinstance(status, ast.Constant) and isinstance(code, ast.Constant):
                    found.add((int(str(status.value)), str(code.value)))
    return found


def test_every_refusal_in_the_source_is_described_and_no_other() -> None:
    servers: list[Role | Relay] = [*ROLES.values(), Relay(RelayConfig())]
    described = {
        (status, code)
        for role in servers
        for operation in role.operations()
        for status, codes in operation.refusals().items()
        for code in codes
    }
    named = problems_in_source()
    assert len(named) > 25 and named <= described
    # those whose status or code is not written beside `Problem(`
    computed = {
        (400, "http"), (400, "upgrade"), (408, "slow"),
        (414, "url"), (431, "headers"), (503, "connections"),
        (403, "token-unknown"), (409, "report-differs"), (409, "token-used"),
        (413, "batch-size"), (422, "long-batch"), (422, "short-batch"), (422, "top-up"),
    }  # fmt: skip
    assert described - named <= computed


def test_an_answer_that_is_not_described_is_found() -> None:
    """The twin of what `Trio` checks in every test."""
    operations = ROLES["shuffler"].operations()
    check_described(operations, "POST", "/tokens", 201, None)
    check_described(operations, "POST", "/tokens", 422, "tokens")
    check_described(operations, "GET", f"/tasks/{'0' * 64}", 304, None)
    for status, code in ((418, None), (422, "invented"), (409, "tokens")):
        with pytest.raises(AssertionError):
            check_described(operations, "POST", "/tokens", status, code)
    with pytest.raises(AssertionError):
        check_described(operations, "GET", "/secret", 200, None)


def test_published_results_are_what_their_schema_says(tmp_path: Path) -> None:
    jsonschema = importlib.import_module("jsonschema")
    reader = jsonschema.Draft202012Validator(
        json.loads((ROOT / "docs/schema/result.json").read_text("utf-8"))
    )

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            key = trio.keys.all()[-1].public
            histogram = plan_histogram(20, 4, ["no", "yes", 3], mse_overhead=8, cell="bounded")
            days = ("2024-01-01", "2024-12-31")
            quantiles = plan_quantiles(20, 8, days, bins=4, mse_overhead=16, cell="bounded")
            tasks: list[tuple[Task, list[Any]]] = [
                (trio.task(), [1] * 20),
                (Task.create(histogram.to_dict(), key, "h", BatchRule(20)), ["no"] * 20),
                (
                    Task.create(quantiles.to_dict(), key, "q", BatchRule(20), publish_noise="none"),
                    [quantiles.protocol.parse("2024-05-05")] * 20,
                ),
            ]
            for task, values in tasks:
                await trio.register(task)
                await trio.upload(task, values)
                (result,) = await trio.results(task)
                PUBLISHED.check(result, "result")
                reader.validate(result)
                assert not reader.is_valid({**result, "raw": 1})

    asyncio.run(walk())


def test_the_protocol_page_lists_every_refusal_of_an_upload() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    upload = next(one for one in ROLES["shuffler"].operations() if one.path.endswith("/reports"))
    for status, codes in upload.refusals().items():
        for code in codes:
            if code != "token-wrong":  # of operators
                assert any(str(status) in row and f"`{code}`" in row for row in rows), (
                    status,
                    code,
                )
