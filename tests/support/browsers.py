"""A real browser, driven headless through its WebDriver program: Chromium, or Firefox."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_needs import missing

from shuffledp.service.demo import free_port

PICTURES = os.environ.get("SHUFFLEDP_PICTURES")
"""A folder for screenshots, for those who want to look."""
WINDOW = (1100, 900)
MOST_SECONDS = 300
"""How long the browser may take to answer; axe needs long for a large page on a busy machine."""
TIMEOUTS = {"script": 800 * MOST_SECONDS}
"""How many milliseconds a script may take; WebDriver would end it after 30,000."""
CHROMIUM = {
    "timeouts": TIMEOUTS,
    "goog:chromeOptions": {
        "args": [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            f"--window-size={WINDOW[0]},{WINDOW[1]}",
        ]
    },
    "goog:loggingPrefs": {"browser": "ALL"},
}
FIREFOX = {
    "timeouts": TIMEOUTS,
    "browserName": "firefox",
    "moz:firefoxOptions": {"args": ["-headless"]},
}


class Browser:
    """As much of the WebDriver protocol as the tests need."""

    def __init__(self, url: str, wanted: dict[str, Any]) -> None:
        self._http = httpx2.Client(timeout=MOST_SECONDS)
        data = {"capabilities": {"alwaysMatch": wanted}}
        answer = self._http.post(f"{url}/session", json=data).json()["value"]
        if "sessionId" not in answer:
            raise AssertionError(f"The browser does not start: {answer.get('message', '')[:500]}")
        self._session = f"{url}/session/{answer['sessionId']}"

    def call(self, path: str, **data: Any) -> Any:
        return self._http.post(f"{self._session}/{path}", json=data).json()["value"]

    def open(self, url: str) -> None:
        self.call("url", url=url)

    def run(self, script: str) -> Any:
        return self.call("execute/sync", script=f"return {script}", args=[])

    def work(self, script: str, *args: Any) -> Any:
        """What the body of an async function returns; what it throws is {"error": code or text}."""
        wrapped = (
            "const done = arguments[arguments.length - 1]; const args = [...arguments];"
            f"(async () => {{ {script} }})().then(done, (error) => "
            "done({ error: error.code ?? String(error), message: error.message }));"
        )
        return self.call("execute/async", script=wrapped, args=list(args))

    def wait(self, script: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.run(script):
                return
            time.sleep(0.1)
        raise AssertionError(f"never true in the page: {script}")

    def offline(self, away: bool) -> None:
        """Takes the network away from the page, or brings it back (Chromium only)."""
        conditions = {"offline": away, "latency": 0, "throughput": 10**9}
        self.call("chromium/network_conditions", network_conditions=conditions)

    def press(self, keys: str) -> None:
        """Presses these keys where the focus is."""
        pressed = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": pressed}
        self.call("actions", actions=[keyboard])

    def dark(self, wanted: bool) -> None:
        """Has pages shown to somebody who prefers dark ones, or not (Chromium only)."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
        command = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [scheme]}}
        self.call("goog/cdp/execute", **command)

    def narrow(self, width: int) -> None:
        """Shows pages so wide, also narrower than a window can be; 0: as wide as the window
        (Chromium only)."""
        sizes = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        command = "setDeviceMetricsOverride" if width else "clearDeviceMetricsOverride"
        self.call("goog/cdp/execute", cmd=f"Emulation.{command}", params=sizes if width else {})

    def new_tab(self) -> str:
        """Opens a tab; gives its handle."""
        return str(self.call("window/new", type="tab")["handle"])

    def tab(self) -> str:
        return str(self._http.get(f"{self._session}/window").json()["value"])

    def turn_to(self, handle: str) -> None:
        self.call("window", handle=handle)

    def close_tab(self) -> None:
        self._http.delete(f"{self._session}/window")

    def size(self, width: int, height: int) -> None:
        self.call("window/rect", width=width, height=height)

    def fresh(self) -> None:
        """One empty tab of the usual size, nothing stored, nothing logged (Chromium only)."""
        kept = self.new_tab()
        for handle in self._http.get(f"{self._session}/window/handles").json()["value"]:
            if handle != kept:
                self.turn_to(handle)
                self.close_tab()
        self.turn_to(kept)
        command = {"cmd": "Storage.clearDataForOrigin"}
        self.call("goog/cdp/execute", **command, params={"origin": "*", "storageTypes": "all"})
        self.narrow(0)
        self.dark(False)
        self.size(*WINDOW)
        self.complaints()

    def complaints(self) -> list[str]:
        return [line["message"] for line in self.call("se/log", type="browser")]

    def picture(self, name: str) -> bytes:
        data = self._http.get(f"{self._session}/screenshot").json()["value"]
        image = base64.b64decode(data)
        if PICTURES:
            Path(PICTURES, f"{name}.png").write_bytes(image)
        return image

    def close(self) -> None:
        self._http.delete(self._session)
        self._http.close()


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """A window of Chromium; its tests are left out, loudly, where there is none."""
    driver = shutil.which("chromedriver")
    if driver is None or not (shutil.which("chromium") or shutil.which("chrome")):
        missing("Chromium with ChromeDriver", "Debian: apt-get install chromium chromium-driver")
        return
    with _driven(driver, CHROMIUM) as window:
        yield window


@contextlib.contextmanager
def running_firefox() -> Iterator[Browser]:
    """A window of Firefox; its tests are left out where there is no driver for it (Debian 12 has
    firefox-esr and no geckodriver)."""
    driver = shutil.which("geckodriver")
    if driver is None or not (shutil.which("firefox-esr") or shutil.which("firefox")):
        pytest.skip("Firefox is not tested: there is no geckodriver, which Debian does not have")
    with _driven(driver, FIREFOX) as window:
        yield window


@contextlib.contextmanager
def _driven(driver: str, wanted: dict[str, Any]) -> Iterator[Browser]:
    port = free_port()
    program = subprocess.Popen(
        [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            with contextlib.suppress(httpx2.TransportError):
                if httpx2.get(f"http://127.0.0.1:{port}/status").status_code == 200:
                    break
            time.sleep(0.1)
        window = Browser(f"http://127.0.0.1:{port}", wanted)
        try:
            yield window
        finally:
            window.close()
    finally:
        program.terminate()
        program.wait(60)
