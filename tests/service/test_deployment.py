"""Alerts, board and manifests fit the servers: every metric, route and setting they name exists."""

from __future__ import annotations

import asyncio
import http.server
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from file_schemas import faults
from nginx_proxy import program
from prometheus_client.parser import text_string_to_metric_families
from scripts_modules import script
from service_needs import missing
from service_trio import ANALYZER_OPERATOR, OPERATOR, Trio, bearing

from shuffledp.service.http.config import host_and_port, load_config
from shuffledp.service.roles import ROLE_CONFIGS
from shuffledp.service.store.spool import open_spool
from shuffledp.tasks.reports import encrypt_report

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
BOARD = ROOT / "deploy" / "grafana" / "shuffledp.json"
MANIFESTS = [ROOT / "deploy" / "kubernetes" / f"{role}.yaml" for role in ROLE_CONFIGS]
SCALED = ["Deployment", "PodDisruptionBudget", "HorizontalPodAutoscaler"]
KINDS = {
    "analyzer": ["StatefulSet", "PodDisruptionBudget"],
    "issuer": ["StatefulSet", "PodDisruptionBudget"],
    "relay": SCALED,
    "shuffler": [*SCALED, "PersistentVolumeClaim"],
}
"""What runs the server, and what belongs to that."""
REPLICAS = {"shuffler": 3, "analyzer": 1, "issuer": 1, "relay": 2}
SECRETS = {
    "shuffler": {
        "SHUFFLEDP_SHUFFLER_DELIVER_TOKEN",
        "SHUFFLEDP_SHUFFLER_STORE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    },
    "analyzer": {"SHUFFLEDP_ANALYZER_STORE"},
    "issuer": {"SHUFFLEDP_ISSUER_STORE"},
    "relay": set(),
}
COMPOSE = ROOT / "deploy" / "compose.yaml"
IMAGES = ROOT / "deploy" / "images.txt"
VALUES = {"DELIVER_TOKEN": "deliver", "DATABASE_PASSWORD": "secret", "BUCKET_SECRET": "secret"}
"""What an operator puts into deploy/secrets.env."""
SECRET_ENV = {"SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": "secret"}
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
    public = {"public": host_and_port(config.listen)[1]}
    if config.operators_listen:
        assert ports == public | {"operators": int(config.operators_listen.rpartition(":")[2])}
    else:
        assert ports == public and file.stem == "relay"  # it has no page and no figures
    assert container["args"][:2] == [file.stem, "serve"]
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": list(ports)[-1]}
    assert work["replicas"] == REPLICAS[file.stem]
    if "HorizontalPodAutoscaler" in by_kind:
        assert by_kind["PodDisruptionBudget"]["spec"]["minAvailable"] < work["replicas"]
        scaler = by_kind["HorizontalPodAutoscaler"]["spec"]
        assert scaler["minReplicas"] == work["replicas"]
        assert scaler["scaleTargetRef"]["name"] == by_kind["Deployment"]["metadata"]["name"]
    if file.stem == "shuffler":
        assert config.store.startswith("postgresql:")
        assert by_kind["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    served = [
        document["spec"]["ports"]
        for document in documents
        if document["kind"] == "Service" and not document["metadata"]["name"].endswith("operators")
    ]
    assert [[port["port"] for port in one] for one in served] == [[host_and_port(config.listen)[1]]]


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
    assert names == SECRETS[file.stem]
    settings = tomllib.loads(by_kind["ConfigMap"]["data"]["service.toml"])[file.stem]
    assert not settings.get("store", "").startswith("postgresql:")  # it may hold a password
    pinned = re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", container["image"])
    assert pinned or container["image"] == "shuffledp:set-the-digest"  # which no registry has


def test_kustomize_pins_the_image_of_every_manifest(tmp_path: Path) -> None:
    """With kubectl, where it is installed; what it makes still follows the schemas."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        missing("kubectl", "install Kubernetes' command line")
    digest = f"sha256:{'a1' * 32}"
    text = script("image_digests").kustomization("registry.example/shuffledp:1", digest)
    checker: Any = importlib.import_module("kubernetes_validate")
    for file in MANIFESTS:
        folder = tmp_path / file.stem
        folder.mkdir()
        shutil.copy(file, folder)
        chosen = text.replace(f"  # - {file.name}", f"  - {file.name}")
        (folder / "kustomization.yaml").write_text(chosen, "utf-8")
        done = subprocess.run(
            [str(kubectl), "kustomize", str(folder)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert f"image: registry.example/shuffledp@{digest}\n" in done.stdout
        for document in yaml.safe_load_all(done.stdout):
            checker.validate(document, checker.latest_version(), strict=True)


def _compose(values: dict[str, str]) -> dict[str, Any]:
    """The compose file with its variables filled in, as compose does; what is missing raises."""

    def value(found: re.Match[str]) -> str:
        return values[found[1]]

    text = re.sub(r"\$\{(\w+):\?[^}]*\}", value, COMPOSE.read_text("utf-8"))
    assert "${" not in text
    data: dict[str, Any] = yaml.safe_load(text)
    return data


def _images() -> dict[str, str]:
    tags = script("image_digests").tags(IMAGES.read_text("utf-8"))
    return {name: f"{image}@sha256:{'0' * 64}" for name, image in tags.items()}


def test_the_compose_file_follows_its_schema_and_names_every_role() -> None:
    data = _compose(_images() | VALUES)
    assert not faults("compose-spec", data)
    others = {"nginx", "database", "bucket", "new-bucket"}
    assert set(data["services"]) == {*ROLE_CONFIGS, *others}
    data["services"]["relay"]["capdrop"] = ["ALL"]
    assert faults("compose-spec", data)
    for needed in _images() | VALUES:
        with pytest.raises(KeyError):
            _compose({name: "x" for name in _images() | VALUES if name != needed})


def test_every_service_of_the_compose_file_is_confined() -> None:
    images = _images()
    data = _compose(images | VALUES)
    for name, service in data["services"].items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"] and service["mem_limit"], name
        assert service["pids_limit"] and not service["user"].startswith("0"), name
        assert all(one.startswith("127.0.0.1:") for one in service.get("ports", [])), name
        pinned = service.get("image") or service["build"]["args"]["PYTHON_IMAGE"]
        assert pinned in images.values(), name
    assert data["networks"]["private"]["internal"]
    for name in ("database", "bucket"):
        assert data["services"][name]["networks"] == ["private"]


@pytest.mark.parametrize("role", ROLE_CONFIGS)
def test_the_compose_file_gives_every_server_a_configuration_that_it_takes(role: str) -> None:
    service = _compose(_images() | VALUES)["services"][role]
    environ = service.get("environment", {})
    config = load_config(ROOT / "deploy" / "service.toml", ROLE_CONFIGS[role], environ)
    assert service["command"] == [role, "serve", "--config", "/etc/shuffledp.toml"]
    assert f"127.0.0.1:{host_and_port(config.listen)[1]}/" in service["healthcheck"]["test"]
    if role == "shuffler":
        assert config.store.startswith("postgresql:") and config.spool.startswith("s3:")


def test_the_compose_file_makes_its_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program, in a process, against a bucket server; the spool then works."""
    moto: Any = importlib.import_module("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        services = _compose(_images() | VALUES)["services"]
        given = services["new-bucket"]["environment"]
        environ = {**os.environ, **given, "BUCKET": f"{host}:{port}"}
        command = [sys.executable, "-c", services["new-bucket"]["command"][0]]
        subprocess.run(command, env=environ, check=True, timeout=120)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, given[name])
        uri = services["shuffler"]["environment"]["SHUFFLEDP_SHUFFLER_SPOOL"]
        open_spool(uri.replace("bucket:7070", f"{host}:{port}")).prepare()
    finally:
        server.stop()


def test_the_compose_files_proxy_passes_nginx(tmp_path: Path) -> None:
    """What its nginx runs with: deploy/nginx.conf with names and ports changed by `sed`."""
    service = _compose(_images() | VALUES)["services"]["nginx"]
    words = re.sub(r"\s+", " ", service["command"][2]).split(" && ")[0]
    conf = tmp_path / "nginx.conf"
    words = words.replace("/etc/shuffledp/nginx.conf", str(ROOT / "deploy" / "nginx.conf"))
    subprocess.run(["sh", "-c", words.replace("/tmp/nginx.conf", str(conf))], check=True)
    text = conf.read_text("utf-8")
    for role, kind in ROLE_CONFIGS.items():
        config = load_config(ROOT / "deploy" / "service.toml", kind, SECRET_ENV)
        port = host_and_port(config.listen)[1]
        assert f"server {role}:{port};" in text and f"server_name {role}.localhost;" in text
        text = text.replace(f"server {role}:", "server 127.0.0.1:")  # names of the network only
    assert text.count("listen 8443 ssl;") == len(ROLE_CONFIGS) and "X-Forwarded-For $" not in text
    (tmp_path / "tls").mkdir()
    make_certificate(tmp_path / "tls", list(ROLE_CONFIGS))
    text = text.replace("/etc/shuffledp/tls", str(tmp_path / "tls"))
    for folder in ("/run", "/var/lib/nginx", "/var/log/nginx"):
        assert folder in service["tmpfs"]
        text = text.replace(f" {folder}/", f" {tmp_path}/")
    conf.write_text(text, "utf-8")
    done = subprocess.run(
        [program(), "-t", "-q", "-c", str(conf)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def make_certificate(folder: Path, names: list[str]) -> None:
    for name in names:
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "1"),
                *("-pkeyopt", "ec_paramgen_curve:P-256", "-subj", f"/CN={name}"),
                *("-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"),
            ],
            check=True,
            capture_output=True,
        )


class Registry(http.server.BaseHTTPRequestHandler):
    """A registry that gives everybody a token, and the digest of one image."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, {}, b'{"token": "anybody"}')

    def do_HEAD(self) -> None:
        if self.headers["Authorization"] != "Bearer anybody":
            realm = f"http://127.0.0.1:{self.server.server_port}/token"  # type: ignore[attr-defined]
            self._answer(401, {"WWW-Authenticate": f'Bearer realm="{realm}",service="registry"'})
        elif self.path == "/v2/library/python/manifests/3.12-slim":
            self._answer(200, {"Docker-Content-Digest": f"sha256:{'5' * 64}"})
        else:
            self._answer(404, {})

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items() | {("Content-Length", str(len(body)))}:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def test_digests_come_from_the_registry() -> None:
    tool = script("image_digests")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        image = f"{host}/library/python:3.12-slim"
        written = tool.environment({"PYTHON_IMAGE": image}, "http")
        assert written == f"PYTHON_IMAGE={image}@sha256:{'5' * 64}\n"
        with pytest.raises(tool.RegistryError, match="answered 404"):
            tool.digest_of(f"{host}/library/python:none", "http")
        server.shutdown()
    for wrong in ("python", "python:3.12", "docker.io/python"):
        with pytest.raises(tool.RegistryError, match="HOST/NAME:TAG"):
            tool.digest_of(wrong)
    with pytest.raises(tool.RegistryError, match="cannot be reached"):
        tool.digest_of(image, "http")


def test_no_digest_is_invented() -> None:
    """The repository holds tags; digests are looked up when an image is built."""
    for file in (ROOT / "deploy").rglob("*"):
        if file.is_file() and file.name not in ("images.env", "kustomization.yaml"):
            assert "@sha256:" not in file.read_text("utf-8"), file.name
    assert "ARG PYTHON_IMAGE\n" in (ROOT / "deploy" / "Containerfile").read_text("utf-8")
