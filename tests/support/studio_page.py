"""Using the studio's page as people do: keys and clicks through WebDriver, and its screenshots."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from axe import COLOUR_RULES, accessible
from browsers import Browser
from studio_program import Started

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # WebDriver's own name for a reference
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
CONTROL_A, TAB, RIGHT = "\ue009a\ue000", "\ue004", "\ue014"


class Page:
    """The studio's page in a browser."""

    def __init__(self, browser: Browser, studio: Started) -> None:
        self.browser = browser
        browser.dark(False)
        browser.size(1280, 1180)
        if studio.entered:  # forget what an earlier test typed; the page begins anew
            browser.open(f"{studio.address}/page/studio.css")
            browser.run("sessionStorage.clear()")
        browser.open("about:blank")  # so that the next address is loaded, whatever its fragment
        browser.open(studio.address if studio.entered else studio.link)
        studio.entered = True

    def element(self, css: str) -> str:
        found = self.browser.call("element", using="css selector", value=css)
        assert ELEMENT in found, f"{css}: {found}"
        return f"element/{found[ELEMENT]}"

    def click(self, css: str) -> None:
        answer = self.browser.call(f"{self.element(css)}/click")
        assert answer is None, f"{css} cannot be clicked: {answer}"

    def keys(self, css: str, text: str) -> None:
        answer = self.browser.call(f"{self.element(css)}/value", text=text)
        assert answer is None, f"{css} takes no keys: {answer}"

    def write(self, css: str, text: str) -> None:
        """Replaces what a field holds."""
        self.keys(css, CONTROL_A + text)

    def choose(self, css: str, value: str) -> None:
        self.click(f"{css} option[value='{value}']")

    def step(self, name: str) -> None:
        """Goes to one of the three steps."""
        self.click(f"#step-{name}")
        self.wait(f"!document.querySelector('#{name}').hidden")

    def slide(self, css: str, times: int) -> None:
        """Moves a slider to the right with the keyboard."""
        self.browser.run(f"document.querySelector({css!r}).focus()")
        self.browser.press(RIGHT * times)

    def text(self, css: str) -> str:
        return str(self.browser.run(f"document.querySelector({css!r}).innerText"))

    def value(self, css: str) -> str:
        return str(self.browser.run(f"document.querySelector({css!r}).value"))

    def wait(self, script: str, seconds: float = 60) -> None:
        try:
            self.browser.wait(script, seconds)
        except AssertionError as error:
            said = self.browser.run(
                "[...document.querySelectorAll('.problem, .note, .lead')].map(one => one.innerText)"
            )
            raise AssertionError(f"{error}; the page says {said}") from None

    def wait_text(self, css: str, part: str, seconds: float = 60) -> str:
        """Waits until an element says something; gives all that it says."""
        self.wait(f"document.querySelector({css!r}).innerText.includes({part!r})", seconds)
        return self.text(css)

    def wait_problem(self, css: str) -> str:
        """Waits for a refusal: one sentence or two, in words."""
        self.wait(f"!document.querySelector({css!r}).hidden")
        sentence = self.text(css)
        assert sentence.endswith(".") and "Traceback" not in sentence and len(sentence) < 400
        return sentence

    def wait_plan(self, part: str = "") -> str:
        """Waits until a plan is found and final; gives its sentences."""
        self.wait(
            "document.querySelector('#plan-note').innerText == 'Certified.' && "
            f"document.querySelector('#plan-sentences').innerText.includes({part!r})"
        )
        return self.text("#plan-sentences")

    def plan(self) -> Any:
        """The plan's JSON as the page would save it."""
        return self.browser.work("return (await import('/page/plan.js')).state.plan.json")

    def download(self, css: str, name: str, folder: Path) -> Path:
        """Clicks a button that saves a file; gives the file."""
        where = {"behavior": "allow", "downloadPath": str(folder)}
        self.browser.call("goog/cdp/execute", cmd="Browser.setDownloadBehavior", params=where)
        self.click(css)
        for _ in range(600):
            if (folder / name).exists():
                return folder / name
            time.sleep(0.1)
        raise AssertionError(f"{name} was not saved")

    def usable(self) -> None:
        """Nothing is wrong with the page for people who see little or use no mouse: in light and
        dark, and 400 pixels wide."""
        assert accessible(self.browser) == []
        self.browser.dark(True)
        assert accessible(self.browser, *COLOUR_RULES) == []
        self.browser.dark(False)
        self.browser.narrow(400)
        assert self.browser.run(FITS), "the page is wider than 400 pixels"
        assert accessible(self.browser) == []
        self.browser.narrow(0)

    def picture(self, name: str) -> None:
        """A screenshot for the documents, written only where SHUFFLEDP_FIGURES=1 asks for it."""
        image = self.browser.picture(f"studio-{name}")
        assert len(image) > 20_000
        if os.environ.get("SHUFFLEDP_FIGURES") == "1":
            (FIGURES / f"studio-{name}.png").write_bytes(image)
