"""Alerts, board and manifests fit the servers: every metric, route and setting they name exists."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from service_trio import ANALYZER_OPERATOR, OPERATOR, Trio, bearing

from shuffledp.service.http.config import load_config
from shuffledp.service.roles import ROLE_CONFIGS
from shuffledp.tasks.reports import encrypt_report

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
BOARD = ROOT / "deploy" / "grafana" / "shuffledp.json"
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
KINDS = {
    "analyzer": ["StatefulSet", "PodDisruptionBudget"],
    "shuffler": [
        "Deployment",
        "PodDisruptionBudget",
        "HorizontalPodAutoscaler",
        "PersistentVolumeClaim",
    ],
}
"""What runs the server, and what belongs to that."""
DURATION = re.compile(r"\d+[smhd]")
Labels = dict[str, set[str]]
Samples = dict[str, Labels]
"""The labels of each metric and their values, by its name."""

yaml: Any = importlib.import_module("yaml")
promql: Any = importlib.import_module("promql_parser")


def _selectors(expression: Any) -> Iterator[tuple[str, dict[str, str], set[str]]]:
    """(metric, its labels with their values, labels it is grouped by) in a parsed expression."""
    kind = type(expression).__name__
    if kind == "VectorSelector":
        matchers = {one.name: one.value for one in expression.matchers.matchers}
        yield expression.name, matchers, set()
    elif kind == "MatrixSelector":
        yield from _selectors(expression.vector_selector)
    elif kind == "AggregateExpr":
        grouped = set(expression.modifier.labels) if expression.modifier else set()
        for name, labels, more in _selectors(expression.expr):
            yield name, labels, more | grouped
    elif kind == "BinaryExpr":
        yield from _selectors(expression.lhs)
        yield from _selectors(expression.rhs)
    elif kind == "Call":
        for one in expression.args:
            yield from _selectors(one)
    elif kind in ("ParenExpr", "UnaryExpr", "SubqueryExpr"):
        yield from _selectors(expression.expr)
    else:
        assert kind in ("NumberLiteral", "StringLiteral"), kind


def unknown_in(text: str, samples: Samples) -> list[str]:
    """What an expression names that no server shows."""
    found = []
    for name, labels, grouped in _selectors(promql.parse(text)):
        if name not in samples:
            found.append(name)
            continue
        known = samples[name]
        found += [f"{name} by {label}" for label in grouped | labels.keys() if label not in known]
        found += [
            f"{name}{{{label}={value}}}"
            for label, value in labels.items()
            if label in known and value not in known[label]
        ]
    return found


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """What /metrics of both servers shows after reports, refusals, a result and a failed delivery;
    and `up`, which Prometheus adds."""
    found: Samples = {"up": {"job": {"shuffledp-shuffler", "shuffledp-analyzer"}}}

    async def walk() -> None:
        trio = Trio(tmp_path_factory.mktemp("metrics"), token_requests_per_minute=2)
        async with trio.running():
            task, ended = trio.task(cell="bounded"), trio.task("ended", cell="bounded")
            for one in (task, ended):
                await trio.register(one)
            await trio.to_analyzer.post(
                f"/tasks/{ended.id.hex()}/archive",
                json={"discard": True},
                headers=bearing(ANALYZER_OPERATOR),
            )
            for one in (task, ended):
                await trio.upload(one, [1] * 20)
            await trio.results(task)
            for _ in range(3):
                await trio.post(task, encrypt_report(task, 1), "each-nobody")
            for _ in range(600):
                if (await trio.status(ended))["batches"][0]["problem"]:
                    break
                await asyncio.sleep(0.1)
            operators = ((trio.to_shuffler, OPERATOR), (trio.to_analyzer, ANALYZER_OPERATOR))
            for server, token in operators:
                text = (await server.get("/metrics", headers=bearing(token))).text
                for family in text_string_to_metric_families(text):
                    for sample in family.samples:
                        labels = found.setdefault(sample.name, {"job": set()})
                        for label, value in sample.labels.items():
                            labels.setdefault(label, set()).add(value)

    asyncio.run(walk())
    return found


def _rules() -> list[dict[str, Any]]:
    data = yaml.safe_load(RULES.read_text("utf-8"))
    assert set(data) == {"groups"}
    assert all(set(group) == {"name", "rules"} for group in data["groups"])
    return [rule for group in data["groups"] for rule in group["rules"]]


def test_every_alert_is_about_metrics_that_exist(samples: Samples) -> None:
    rules = _rules()
    assert len(rules) > 10 and len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert not unknown_in(rule["expr"], samples), rule["alert"]


def test_every_panel_is_about_metrics_that_exist(samples: Samples) -> None:
    board = json.loads(BOARD.read_text("utf-8"))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 8
    for panel in panels:
        for target in panel["targets"]:
            assert not unknown_in(target["expr"], samples), panel["title"]
            shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            (name, _, grouped) = next(_selectors(promql.parse(target["expr"])))
            assert set(shown) <= (grouped or samples[name].keys()), panel["title"]


def test_a_wrong_name_is_found(samples: Samples) -> None:
    """The twin of the two tests above."""
    good = 'sum by (reason) (rate(shuffledp_shuffler_rejected_total{reason="token-unknown"}[5m]))'
    assert not unknown_in(good, samples)
    for wrong in (
        good.replace("rejected_total", "rejections_total"),
        good.replace("by (reason)", "by (cause)"),
        good.replace("token-unknown", "token-lost"),
    ):
        assert unknown_in(wrong, samples)


def test_every_alert_has_its_chapter_in_the_runbook() -> None:
    book = (ROOT / "docs" / "runbook.md").read_text("utf-8")
    titles = re.findall(r"^#+ (.*)$", book, re.M)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    for rule in _rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert DURATION.fullmatch(rule.get("for", "1m")), rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert page == "docs/runbook.md" and anchor in anchors, anchor
        assert rule["annotations"]["summary"].endswith(".")


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_manifests_follow_the_schema_of_kubernetes(file: Path) -> None:
    checker: Any = importlib.import_module("kubernetes_validate")
    version = checker.latest_version()
    documents = list(yaml.safe_load_all(file.read_text("utf-8")))
    kinds = [document["kind"] for document in documents]
    assert {"ConfigMap", "Service", "NetworkPolicy", *KINDS[file.stem]} == set(kinds)
    for document in documents:
        checker.validate(document, version, strict=True)
    wrong = json.loads(json.dumps(documents[kinds.index(KINDS[file.stem][0])]))
    wrong["spec"]["template"]["spec"]["containers"][0]["port"] = 1
    with pytest.raises(checker.ValidationError):
        checker.validate(wrong, version, strict=True)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_manifests_fit_the_servers(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration is one that the server takes, and ports and probes are those it has."""
    documents = list(yaml.safe_load_all(file.read_text("utf-8")))
    by_kind = {document["kind"]: document for document in documents}
    config_file = tmp_path / "service.toml"
    config_file.write_text(by_kind["ConfigMap"]["data"]["service.toml"], "utf-8")
    assert set(tomllib.loads(config_file.read_text("utf-8"))) == {file.stem}
    monkeypatch.setenv("SHUFFLEDP_SHUFFLER_DELIVER_TOKEN", "secret")
    monkeypatch.setenv("SHUFFLEDP_SHUFFLER_STORE", "postgresql://user:secret@database/shuffler")
    config = load_config(config_file, ROLE_CONFIGS[file.stem])
    work = by_kind[KINDS[file.stem][0]]["spec"]
    (container,) = work["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    inside = int(config.operators_listen.rpartition(":")[2])
    assert ports == {"public": config.port, "operators": inside}
    assert container["args"][:2] == [file.stem, "serve"]
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "operators"}
    assert work["replicas"] == (3 if file.stem == "shuffler" else 1)  # its store has one writer
    if file.stem == "shuffler":
        assert config.store.startswith("postgresql:")
        assert by_kind["PodDisruptionBudget"]["spec"]["minAvailable"] < work["replicas"]
        scaler = by_kind["HorizontalPodAutoscaler"]["spec"]
        assert scaler["minReplicas"] == work["replicas"]
        assert scaler["scaleTargetRef"]["name"] == by_kind["Deployment"]["metadata"]["name"]
        assert by_kind["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    public = [
        document["spec"]["ports"]
        for document in documents
        if document["kind"] == "Service" and not document["metadata"]["name"].endswith("operators")
    ]
    assert [[port["port"] for port in one] for one in public] == [[config.port]]


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_manifests_leave_a_server_no_more_rights_than_it_needs(file: Path) -> None:
    documents = list(yaml.safe_load_all(file.read_text("utf-8")))
    by_kind = {document["kind"]: document for document in documents}
    policy = by_kind["NetworkPolicy"]["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert all(rule["to"] and rule["ports"] for rule in policy["egress"])
    pod = by_kind[KINDS[file.stem][0]]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    (container,) = pod["containers"]
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
    assert (
        rights["capabilities"] == {"drop": ["ALL"]} and container["resources"]["limits"]["memory"]
    )
    names = {one["name"] for one in container.get("env", []) if "secretKeyRef" in one["valueFrom"]}
    expected = {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN", "SHUFFLEDP_SHUFFLER_STORE"}
    assert names == (expected if file.stem == "shuffler" else set())
    settings = tomllib.loads(by_kind["ConfigMap"]["data"]["service.toml"])[file.stem]
    assert not settings.get("store", "").startswith("postgresql:")  # it may hold a password


def test_every_service_of_the_compose_file_is_confined() -> None:
    data = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    assert {"shuffler", "analyzer"} <= set(data["services"])
    for name, service in data["services"].items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"] and service["mem_limit"], name
        assert all(one.startswith("127.0.0.1:") for one in service.get("ports", [])), name
