"""A site with the files of the JavaScript client, of an origin of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

BUNDLE = Path(str(files("shuffledp.service") / "pages" / "client"))
WIDE = 5
"""An estimate may miss by so many intervals, so that tests fail by chance next to never."""
POLICY = {"leastUsers": 1, "mostEpsilonPerPeriod": "1000"}


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a log."""

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


@contextlib.contextmanager
def client_site(folder: Path) -> Iterator[str]:
    """The origin of the site, whose files lie in a folder, while it is served."""
    for file in BUNDLE.glob("*.js"):
        (folder / file.name).write_bytes(file.read_bytes())
    page = "<!doctype html><link rel=icon href='data:,'><title>t</title>"
    (folder / "index.html").write_text(page)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def check_count(published: Mapping[str, Any], values: Sequence[int]) -> None:
    """Checks that a published count fits what the users hold, and does not fit something else."""
    estimate = published["result"]["estimate"]
    low, high = published["result"]["interval"]
    low, high = estimate - WIDE * (estimate - low), estimate + WIDE * (high - estimate)
    assert low <= sum(values) <= high
    assert not low <= sum(values) + 10 * len(values) <= high
    assert abs(published["anomaly"]) < 6
