"""The JavaScript client in real browsers, on a page of another origin than the shuffler's."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browsers import Browser, running_browser, running_firefox
from client_site import POLICY, check_count, client_site
from service_programs import Programs
from service_trio import TRUSTING, USERS, Trio

from shuffledp.errors import InputError
from shuffledp.plans.plan import Plan
from shuffledp.queries.by_group.planner import plan_by_group
from shuffledp.queries.frequencies.planner import plan_frequencies
from shuffledp.queries.heavy_hitters.planner import plan_heavy_hitters
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.real_sum.planner import plan_real_sum
from shuffledp.service.client.sending import Client
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task

OPEN = """
    const [url, token, policy, more] = args;
    const { loadTask, createClient, BrowserStorage } = await import("/client.js");
    const task = await loadTask(url, { policy });
    const storage = new BrowserStorage(more.database ?? "shuffledp");
    const client = createClient(task, { token, storage, ...more.options });
    const seen = (window.seen ??= []);
    const real = (window.real ??= window.fetch);
    window.fetch = async (where, how) => {
        if (how?.method !== "POST") return real(where, how);
        const one = { size: how.body.length, body: [...how.body].join() };
        seen.push(one);
        const answer = await real(where, how);
        one.status = answer.status;
        if (more.lose && seen.length === 1) throw new TypeError("the answer was lost");
        return answer;
    };
"""


class Page:
    """The servers, and a page of another origin that may send to the shuffler."""

    def __init__(self, folder: Path, site: str) -> None:
        trio = Trio(folder, allow_origins=(site,))
        trio.analyzer_config = replace(trio.analyzer_config, confidence_percent=99)
        self.programs, self.site = Programs(trio), site

    def task(self, name: str) -> Task:
        """A count in bounded cells, registered at both servers."""
        shuffler = self.programs.urls["shuffler"]
        task = self.programs.trio.task(name, cell="bounded", shuffler=shuffler)
        self.programs.register(task)
        return task

    def histogram(self) -> Task:
        """A histogram whose reports are large enough for a Worker."""
        plan = plan_histogram(USERS, 2, [f"label {i}" for i in range(60)], cell="bounded")
        key = self.programs.trio.keys.all()[-1].public
        shuffler = self.programs.urls["shuffler"]
        task = Task.create(plan.to_dict(), key, "large", BatchRule(USERS), shuffler=shuffler)
        self.programs.register(task)
        return task

    def frequencies(self) -> Task:
        """Labels of any domain, in a hashed table; its batches are not filled here."""
        return self.unfilled(plan_frequencies(20_000, 2))

    def words(self) -> Task:
        """Words of an unknown domain; its batches are not filled here."""
        return self.unfilled(plan_heavy_hitters(20_000, 2))

    def shared_digits(self) -> Task:
        """A real sum whose digits share their way up, in reports large enough for a Worker."""
        plan = plan_real_sum(200_000, 1, rmse=5, padded=True, cell="bounded")
        assert {cell.kind for cell in plan.protocol.cells} == {"shared"}
        return self.unfilled(plan)

    def unfilled(self, plan: Plan[Any]) -> Task:
        """A task for so many that its batches are not filled here."""
        key, shuffler = self.programs.trio.keys.all()[-1].public, self.programs.urls["shuffler"]
        batch = BatchRule(plan.protocol.users)
        task = Task.create(plan.to_dict(), key, "many", batch, shuffler=shuffler)
        self.programs.register(task)
        return task

    def means(self) -> Task:
        """Means by group; its batches are not filled here."""
        plan = plan_by_group(20_000, 2, ["march", "may"], answer="mean", bounds=(0, 10))
        return self.unfilled(plan)

    def args(self, task: Task, **more: Any) -> list[Any]:
        """The arguments of `OPEN`, with a fresh token."""
        (token,) = self.programs.enrol(1)
        url = f"{self.programs.urls['shuffler']}/tasks/{task.id.hex()}"
        return [url, token, POLICY, more]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with client_site(tmp_path_factory.mktemp("site")) as site:
        found = Page(tmp_path_factory.mktemp("trio"), site)
        with found.programs.both():
            yield found


Running = Callable[[], contextlib.AbstractContextManager[Browser]]


@pytest.mark.parametrize("running", [running_browser, running_firefox])
def test_a_lost_answer_is_asked_for_again_with_the_same_bytes(page: Page, running: Running) -> None:
    """201, which gets lost, and then 200 for the very same bytes; then nothing more is sent."""
    task = page.task("lost answer")
    with running() as browser:
        browser.open(page.site)
        script = "const receipt = await client.send(1); const again = await client.resume();"
        found = browser.work(
            OPEN + script + "return { receipt, again, seen, state: await client.state() };",
            *page.args(task, lose=True),
        )
    assert found["receipt"] == {"state": "sent", "status": 200} and found["again"] is None, found
    assert [one["status"] for one in found["seen"]] == [201, 200]
    assert found["seen"][0]["body"] == found["seen"][1]["body"]
    assert found["seen"][0]["size"] == task.report_bytes and found["state"] == "sent"


def test_a_page_of_another_origin_may_not_send(page: Page, browser: Browser) -> None:
    """Web security is on: without permission the browser refuses (localhost is another origin)."""
    task = page.task("foreign")
    browser.open(page.site.replace("127.0.0.1", "localhost"))
    found = browser.work(
        OPEN + "return await client.send(1);", *page.args(task, options={"attempts": 2})
    )
    assert found["error"] == "cors" and "allow_origins" in found["message"], found


def test_offline_then_resumed(page: Page, browser: Browser) -> None:
    task = page.task("offline")
    browser.open(page.site)
    args = page.args(task, options={"attempts": 2})
    # the page is loaded and has the task; then the network goes away
    loaded = browser.work(OPEN + "window.client = client; return await client.state();", *args)
    assert loaded == "none"
    browser.offline(True)
    try:
        stored = browser.work("return await window.client.send(true);")
        assert stored == {"state": "stored"}, stored
        assert browser.work("return await window.client.state();") == "stored"
        again = browser.work("return await window.client.send(0);")
        assert again["error"] == "answered", "a second value while the first one waits"
        assert browser.run("window.seen.length") == 0, "nothing was tried"
        body = browser.work(
            "const { BrowserStorage } = await import('/client.js');"
            "return new BrowserStorage().update(({ reports }) => [...reports[args[0]]].join());",
            task.id.hex(),
        )
    finally:
        browser.offline(False)
    browser.wait("window.seen.length === 1")  # online again: the page sends it by itself
    assert browser.run("window.seen[0].body") == body
    browser.wait("window.seen[0].status === 201")
    browser.open(page.site)
    found = browser.work(OPEN + "return { again: await client.resume(), seen };", *args)
    assert found == {"again": None, "seen": []}


@pytest.mark.parametrize("shared", [True, False])
def test_two_tabs_answer_once(page: Page, browser: Browser, shared: bool) -> None:
    """Of two tabs that answer at the same time one is told that the task is answered; with two
    records, as on two devices, both answer."""
    task = page.task(f"two tabs {shared}")
    first = browser.tab()
    tabs = [first, browser.new_tab()]
    start = (
        "window.outcome = null; client.send(1).then((r) => { window.outcome = r.status; }, "
        "(e) => { window.outcome = e.code; }); return true;"
    )
    for number, handle in enumerate(tabs):
        browser.turn_to(handle)
        browser.open(page.site)
        database = f"tabs {'both' if shared else number}"
        assert browser.work(
            OPEN + "window.go = () => { " + start + " }; return true;",
            *page.args(task, database=database),
        )
    for handle in tabs:  # both begin before either has ended
        browser.turn_to(handle)
        browser.run("window.go()")
    outcomes = []
    for handle in reversed(tabs):
        browser.turn_to(handle)
        browser.wait("window.outcome !== null")
        outcomes.append(browser.run("window.outcome"))
        if handle != first:
            browser.close_tab()
    browser.turn_to(first)
    assert sorted(outcomes, key=str) == ([201, "answered"] if shared else [201, 201])


def test_bodies_have_one_size_for_every_value_even_from_a_worker(
    page: Page, browser: Browser
) -> None:
    task = page.histogram()
    assert task.report_size > 400
    sizes = []
    browser.open(page.site)
    browser.run("(window.RealWorker = Worker, window.workers = 0, true)")
    count = (
        "window.Worker = class extends window.RealWorker { constructor(...a) "
        "{ super(...a); window.workers++; } };"
    )
    for number, value in enumerate(("label 0", "label 59")):
        args = page.args(task, database=f"sizes {number}")
        script = count + OPEN + f"await client.send({value!r}); return seen.at(-1);"
        found = browser.work(script, *args)
        assert found["status"] == 201, found
        sizes.append(found["size"])
    assert sizes == [task.report_bytes] * 2
    assert browser.run("window.workers") == 2
    refused = browser.work(
        OPEN + "return await client.send('no such label');", *page.args(task, database="other")
    )
    assert refused["error"] == "value" and "no such label" not in refused["message"]


def test_labels_of_any_domain_are_sent(page: Page, browser: Browser) -> None:
    """That the right messages are sent is what the vectors show."""
    browser.open(page.site)
    for task in (page.frequencies(), page.words()):
        for number, value in enumerate(("", "Zürich", "😀" * 200)):
            args = page.args(task, database=f"{task.protocol.query} {number}")
            found = browser.work(OPEN + f"await client.send({value!r}); return seen.at(-1);", *args)
            assert (found["status"], found["size"]) == (201, task.report_bytes), found


def test_a_million_labels_from_the_browser_and_from_python(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    """The task is short, a report has 25 messages, and a label beyond the last one is refused."""
    task = page.unfilled(plan_histogram(20_000, 2, 10**6, error_at=100))
    assert len(task.canonical()) < 10_000 and task.report_size <= 25
    browser.open(page.site)
    for number, value in enumerate((0, 999_999)):
        args = page.args(task, database=f"million {number}")
        found = browser.work(OPEN + f"await client.send({value}); return seen.at(-1);", *args)
        assert (found["status"], found["size"]) == (201, task.report_bytes), found
    refused = browser.work(
        OPEN + "return await client.send(1000000);", *page.args(task, database="beyond a million")
    )
    assert refused["error"] == "value" and "1000000" not in refused["message"]
    (token,) = page.programs.enrol(1)
    with Client(task, task.shuffler, token, tmp_path / "outbox", policy=TRUSTING) as client:
        with pytest.raises(InputError):
            client.send(10**6)
        client.send(999_999)


def test_heavy_labels_and_counts_of_many_groups_are_sent(page: Page, browser: Browser) -> None:
    """That the right messages are sent is what the vectors show."""
    heavy = plan_histogram(20_000, 2, ["US", "DE", "FR", "IT"], heavy=["US"])
    groups = [f"group {number}" for number in range(3_000)]
    counts = plan_by_group(20_000, 2, groups, error_at=100)
    pooled = plan_by_group(20_000, 2, ["a", "b", "c"], padded=True, cell="pooled")
    browser.open(page.site)
    for plan, values, wrong in (
        (heavy, ("US", "IT"), "ES"),
        (counts, (["group 2999", 1], ["group 0", 0]), ["group 3000", 1]),
        (pooled, (["c", 1], ["a", 0]), ["a", 2]),
    ):
        task, kind = page.unfilled(plan), plan.protocol.cells[-1].kind
        for number, value in enumerate(values):
            args = page.args(task, database=f"{kind} {number}")
            sent = f"await client.send({json.dumps(value)}); return seen.at(-1);"
            found = browser.work(OPEN + sent, *args)
            assert (found["status"], found["size"]) == (201, task.report_bytes), found
        args = page.args(task, database=f"{kind}, wrong")
        refused = browser.work(OPEN + f"return await client.send({json.dumps(wrong)});", *args)
        assert refused["error"] == "value" and refused["message"].count(". ") == 0, refused


def test_digits_that_share_their_way_up_are_sent_from_a_worker(
    page: Page, browser: Browser
) -> None:
    """That the right messages are sent is what the vectors show."""
    task = page.shared_digits()
    assert task.report_size > 400
    browser.open(page.site)
    for number, value in enumerate((0, 0.3, 1)):
        args = page.args(task, database=f"shared digits {number}")
        found = browser.work(OPEN + f"await client.send({value}); return seen.at(-1);", *args)
        assert (found["status"], found["size"]) == (201, task.report_bytes), found
    refused = browser.work(
        OPEN + "return await client.send(1.25);", *page.args(task, database="beyond")
    )
    assert refused["error"] == "value" and "1.25" not in refused["message"]


def test_pairs_of_a_group_and_a_number_are_sent(page: Page, browser: Browser) -> None:
    """Also from a Worker. That the right messages are sent is what the vectors show."""
    task = page.means()
    browser.open(page.site)
    for number, value in enumerate((["march", 0], ["may", 9.5])):
        args = page.args(task, database=f"by group {number}", options={"worker": bool(number)})
        found = browser.work(OPEN + f"await client.send({value!r}); return seen.at(-1);", *args)
        assert (found["status"], found["size"]) == (201, task.report_bytes), found


def test_a_person_chooses_a_group_and_an_answer(page: Page, browser: Browser) -> None:
    """Both are lists of buttons in one form; a click in one leaves the other as it is."""
    task = page.unfilled(plan_by_group(20_000, 2, ["march", "may"], answer="count"))
    url, token, _, _ = page.args(task)
    browser.open(page.site)
    browser.work(
        "localStorage.setItem('shuffledp token /token', args[1]); await import('/survey.js');"
        "const survey = document.createElement('shuffledp-survey');"
        "survey.setAttribute('task', args[0]); document.body.append(survey);",
        url,
        token,
    )
    survey = "document.querySelector('shuffledp-survey')"
    browser.wait(f"{survey}.querySelector('form')", 60)
    for label in ("may", "Yes"):
        browser.run(
            f"[...{survey}.querySelectorAll('label')]"
            f".find((one) => one.innerText.trim() === '{label}').click()"
        )
    assert browser.run(f"{survey}.querySelectorAll('input:checked').length") == 2
    browser.run(f"{survey}.querySelector('button[type=submit]').click()")
    browser.wait(f"{survey}.innerText.includes('Your answer has arrived')", 60)


def test_two_questions_on_a_page_share_a_token_and_no_list(page: Page, browser: Browser) -> None:
    """The suggestions of one question must not appear in the other."""
    tasks = [page.args(task)[0] for task in (page.frequencies(), page.words())]
    browser.open(page.site)
    browser.work(
        "const real = window.fetch; window.tokens = 0;"
        "window.fetch = async (where, how) => where === '/token'"
        " ? (window.tokens++, Response.json({ token: 'a token of this site' })) : real(where, how);"
        "localStorage.clear(); await import('/survey.js');"
        "for (const url of args.slice(0, 2)) {"
        " const survey = document.createElement('shuffledp-survey');"
        " survey.setAttribute('task', url); document.body.append(survey); }",
        *tasks,
    )
    browser.wait("document.querySelectorAll('form').length === 2", 60)
    own = browser.run(
        "[...document.querySelectorAll('shuffledp-survey')]"
        ".map((one) => one.contains(one.querySelector('input').list))"
    )
    assert own == [True, True]
    assert browser.run("window.tokens") == 1


def test_a_batch_of_python_and_browser_answers(
    page: Page, browser: Browser, tmp_path: Path
) -> None:
    """Half of the users answer in Python, half in a browser; the estimate fits the truth."""
    task = page.task("mixed")
    values = [int(user % 3 == 0) for user in range(USERS)]
    browser.open(page.site)
    for user, value in enumerate(values):
        if user % 2:
            (token,) = page.programs.enrol(1)
            outbox = tmp_path / str(user)
            with Client(task, task.shuffler, token, outbox, policy=TRUSTING) as client:
                client.send(value)
        else:
            args = page.args(task, database=f"mixed {user}")
            sent = browser.work(OPEN + f"return await client.send({value});", *args)
            assert sent == {"state": "sent", "status": 201}, sent
    (result,) = page.programs.results(task)
    check_count(result, values)
