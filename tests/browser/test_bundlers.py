"""The packed client in a fresh folder: Vite, webpack, esbuild and plain ESM, in Chromium.

A page of another origin sends a report to a running demo, as docs/how-to/your-site.md says.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import httpx2
import pytest
from browsers import Browser
from client_site import Quiet
from service_needs import missing
from survey_program import running_survey

ROOT = Path(__file__).resolve().parents[2]
JS, NPM = ROOT / "clients" / "js", Path(__file__).parent / "npm"
NEEDED = (
    "axe-core",
    "create-vite",
    "publint",
    "react-dom",
    "vite",
    "webpack",
    "@arethetypeswrong/cli",
)
INDEX = """<!doctype html>
<html lang="en">
  <head><meta charset="UTF-8"><link rel="icon" href="data:,"><title>Vite App</title></head>
  <body><div id="app"></div><script type="module" src="/src/main.js"></script></body>
</html>
"""
MAIN = """import { createClient, loadTask } from "@shuffledp/client";

const { task: url, token } = Object.fromEntries(new URLSearchParams(location.search));
const task = await loadTask(url);
const { question } = await task.describe();
const client = createClient(task, { token, worker: true });
const receipt = await client.send(true);
document.querySelector("#app").textContent = `${question} ${receipt.state}`;
"""
"""Eight lines, as a developer writes them."""
REACT = """import { createElement as make, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { useSurvey } from "./hook.js";

const { task, token } = Object.fromEntries(new URLSearchParams(location.search));
const giveToken = () => Promise.resolve(token);
function Question() {
  const { about, state, error, send } = useSurvey(task, giveToken);
  return make("section", {},
    make("h1", {}, about?.question),
    make("button", { onClick: () => send(7) }, "Seven"),
    make("button", { onClick: () => send(true) }, "Yes"),
    make("p", { id: "state" }, state),
    make("p", { id: "error" }, error?.code));
}
createRoot(document.querySelector("#app")).render(make(StrictMode, {}, make(Question)));
"""
"""A page around the hook of the documents. In strict mode React mounts a component twice."""
COUNT_WORKERS = """
const Real = Worker;
window.workers = [];
window.Worker = class extends Real {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", () => window.workers.push("answered"));
    this.addEventListener("error", () => window.workers.push("failed"));
  }
};
"""


def run(*words: str | Path, folder: Path) -> str:
    """Runs a program in a folder; gives what it prints."""
    done = subprocess.run(
        list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that `npm pack` makes of a clean checkout: nothing is built in it before."""
    if not shutil.which("npm") or not all(
        (NPM / "node_modules" / name).is_dir() for name in NEEDED
    ):
        missing("The bundlers", "run `npm install --no-save` in tests/browser/npm, or `make test`")
    folder = tmp_path_factory.mktemp("checkout")
    names = run("git", "ls-files", folder=JS).split() if (ROOT / ".git").exists() else None
    for file in names or [str(one.relative_to(JS)) for one in JS.rglob("*") if one.is_file()]:
        if "node_modules" in file or file.startswith("dist"):
            continue
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(JS / file, folder / file)
    (folder / "node_modules").symlink_to(JS / "node_modules")
    (made,) = json.loads(run("npm", "pack", "--json", "--silent", folder=folder))
    return folder / str(made["filename"])


@pytest.fixture(scope="module")
def project(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh folder in which the packed file is installed."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    run("npm", "install", "--silent", "--offline", "--no-audit", packed, folder=folder)
    (folder / "src").mkdir()
    (folder / "index.html").write_text(INDEX)
    (folder / "src" / "main.js").write_text(MAIN)
    return folder


def test_the_packed_file_is_complete_and_its_types_are_right(packed: Path) -> None:
    with tarfile.open(packed) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    assert {"LICENSE", "README.md", "dist/index.js", "dist/send/worker.js"} <= names
    assert {"dist/bundle/client.js", "dist/bundle/survey.js"} <= names
    assert not [name for name in names if name.startswith(("src", "test", "dist/pages/see"))]
    exports = json.loads((JS / "package.json").read_text("utf-8"))["exports"]
    files = [
        file
        for entry in exports.values()
        for file in (entry if isinstance(entry, dict) else {}).values()
    ]
    assert {file.removeprefix("./") for file in files} <= names
    unpacked = packed.with_name("unpacked")
    with tarfile.open(packed) as archive:
        archive.extractall(unpacked, filter="data")
    said = run(NPM / "node_modules/.bin/publint", "--strict", "package", folder=unpacked)
    assert "All good" in said, said
    checker = NPM / "node_modules/.bin/attw"
    run(
        checker,
        packed,
        "--profile",
        "esm-only",
        "--exclude-entrypoints",
        "package.json",
        folder=NPM,
    )


def with_vite(project: Path) -> Path:
    """Vite's default template as `npm create vite` makes it, plus the eight lines."""
    making = ("vite", "--template", "vanilla", "--no-interactive")
    run("node", NPM / "node_modules/create-vite/index.js", *making, folder=project)
    folder = project / "vite"
    main = folder / "src" / "main.js"
    main.write_text(main.read_text("utf-8") + MAIN, "utf-8")
    run(NPM / "node_modules/.bin/vite", "build", "--logLevel", "warn", folder=folder)
    return folder / "dist"


def with_webpack(project: Path) -> Path:
    """webpack with its defaults, and a page."""
    out = project / "webpack"
    script = (
        f"import {{ createRequire }} from 'node:module';"
        f"const webpack = createRequire('{NPM}/')('webpack');"
        f"webpack({{ mode: 'production', context: '{project}', entry: './src/main.js',"
        f"output: {{ path: '{out}', publicPath: '/' }} }}, (error, stats) => {{"
        "if (error || stats.hasErrors()) { console.error(error ?? stats.toString());"
        "process.exit(1); } });"
    )
    run("node", "--input-type=module", "-e", script, folder=project)
    (out / "index.html").write_text(INDEX.replace("/src/main.js", "/main.js"))
    return out


def with_esbuild(project: Path) -> Path:
    """esbuild, with the Worker as a second entry beside the first."""
    out = project / "esbuild"
    run(
        JS / "node_modules/.bin/esbuild",
        "main=src/main.js",
        "worker=@shuffledp/client/worker",
        "--bundle",
        "--format=esm",
        f"--outdir={out}",
        folder=project,
    )
    (out / "index.html").write_text(INDEX.replace("/src/main.js", "/main.js"))
    return out


def without_a_bundler(project: Path) -> Path:
    """The files of the package, with an import map."""
    out = project / "plain"
    shutil.copytree(project / "node_modules/@shuffledp/client/dist/bundle", out / "client")
    (out / "src").mkdir()
    shutil.copyfile(project / "src" / "main.js", out / "src" / "main.js")
    imports = (
        '<script type="importmap">{"imports":{"@shuffledp/client":"/client/client.js"}}</script>'
    )
    (out / "index.html").write_text(INDEX.replace("<title>", imports + "<title>"))
    return out


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[ThreadingHTTPServer]:
    """A site whose folder is set later."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def test_eight_lines_send_a_report_from_another_origin(
    project: Path, browser: Browser, tmp_path: Path
) -> None:
    """With every bundler, to one demo; the Worker works with each of them."""
    builds = [with_vite, with_webpack, with_esbuild, without_a_bundler]
    with contextlib.ExitStack() as stack:
        sites = {}
        for build in builds:
            folder = build(project)
            page = folder / "index.html"
            counting = f"<script>{COUNT_WORKERS}</script><title>"
            page.write_text(page.read_text().replace("<title>", counting))
            server = stack.enter_context(serving(folder))
            sites[build.__name__] = f"http://127.0.0.1:{server.server_port}"
        allowed = [word for site in sites.values() for word in ("--allow-origin", site)]
        demo = stack.enter_context(running_survey(tmp_path / "log", "--browsers", "9", *allowed))
        for name, site in sites.items():
            browser.open(site)  # the demo's site is another origin, and gives this page a token
            where = browser.work(
                f"const place = await (await fetch('{demo}/task.json')).json();"
                f"const given = await (await fetch('{demo}/token', {{ method: 'POST' }})).json();"
                "return new URLSearchParams({ task: place.task, token: given.token }).toString();"
            )
            browser.open(f"{site}/?{where}")
            browser.wait("document.querySelector('#app').textContent.startsWith('Do you')", 60)
            shown = browser.run("document.querySelector('#app').textContent")
            assert shown.startswith("Do you cycle") and shown.endswith(" sent"), (name, shown)
            assert browser.run("window.workers") == ["answered"], name


def test_the_react_hook_of_the_documents_sends_a_report(
    project: Path, browser: Browser, tmp_path: Path
) -> None:
    text = (ROOT / "docs/how-to/your-site.md").read_text("utf-8")
    hook = text.partition("## A React hook")[2].partition("```js\n")[2].partition("```")[0]
    assert 0 < hook.count("\n") <= 36
    (project / "src" / "hook.js").write_text(hook)
    (project / "src" / "react.js").write_text(REACT)
    for name in ("react", "react-dom", "scheduler"):
        (project / "node_modules" / name).symlink_to(NPM / "node_modules" / name)
    esbuild, words = JS / "node_modules/.bin/esbuild", ("--bundle", "--format=esm")
    out = project / "react"
    run(esbuild, "main=src/react.js", *words, f"--outdir={out}", folder=project)
    (out / "index.html").write_text(INDEX.replace("/src/main.js", "/main.js"))
    with serving(out) as server:
        site = f"http://127.0.0.1:{server.server_port}"
        options = ("--browsers", "9", "--allow-origin", site)
        with running_survey(tmp_path / "log", *options) as demo:
            place = httpx2.get(f"{demo}/task.json").json()["task"]
            given = httpx2.post(f"{demo}/token").json()["token"]
            browser.open(f"{site}/?{urlencode({'task': place, 'token': given})}")
            browser.wait("document.querySelector('#state').textContent === 'none'", 60)
            assert browser.run("document.querySelector('h1').textContent").startswith("Do you")
            browser.run("document.querySelectorAll('button')[0].click()")
            browser.wait("document.querySelector('#error').textContent === 'value'", 60)
            browser.wait("document.querySelector('#state').textContent === 'none'", 60)
            browser.run("document.querySelectorAll('button')[1].click()")
            browser.wait("document.querySelector('#state').textContent === 'sent'", 60)
            assert browser.run("document.querySelector('#error').textContent") == ""
