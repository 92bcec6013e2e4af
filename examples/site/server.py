"""A web site with a survey: serves its page, and gives each visitor one token.

    shuffledp demo --allow-origin http://127.0.0.1:8000     (in another terminal)
    python examples/site/server.py --survey http://127.0.0.1:PORT

The demo prints the address with PORT: "Open http://127.0.0.1:PORT in your browser". With a
deployment of your own, `token` enrols at your shuffler or issuer instead;
docs/how-to/your-site.md shows that endpoint for Python and for Node.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

FOLDER = Path(__file__).parent
CLIENT = files("shuffledp.service") / "pages" / "client"
TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript"}


class Site(BaseHTTPRequestHandler):
    """The site's routes: the page, the client's files, a token."""

    survey = ""
    """The demo, which enrols devices."""

    def do_GET(self) -> None:
        """Serves the page and the client's files."""
        name = self.path.split("?")[0].removeprefix("/")
        if name == "":
            page = (FOLDER / "index.html").read_text("utf-8").replace("SURVEY", self.task())
            self._answer(200, page.encode(), TYPES["html"])
        elif name.removeprefix("client/").removesuffix(".js").isalpha() and name.endswith(".js"):
            file = CLIENT / name.removeprefix("client/")
            found = file.is_file()
            self._answer(200 if found else 404, file.read_bytes() if found else b"", TYPES["js"])
        else:
            self._answer(404, b"", TYPES["html"])

    def do_POST(self) -> None:
        """Gives a visitor a token. A real site first checks who asks: a login, a ticket."""
        if self.path != "/token":
            self._answer(404, b"", TYPES["html"])
            return
        asked = urllib.request.Request(f"{self.survey}/token", method="POST")
        with urllib.request.urlopen(asked) as answer:
            self._answer(200, answer.read(), "application/json")

    @classmethod
    def task(cls) -> str:
        """The address of the demo's task."""
        with urllib.request.urlopen(f"{cls.survey}/task.json") as answer:
            return str(json.load(answer)["task"])

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing: when somebody answered is nobody's business."""


def main() -> None:
    """Serves the site on 127.0.0.1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--survey", required=True, help="the demo's address, from its line Open …")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    Site.survey = args.survey.rstrip("/")
    try:
        Site.task()
    except (OSError, ValueError, LookupError, TypeError):
        parser.error("no demo answers there; --survey is the address in its line Open …")
    ThreadingHTTPServer(("127.0.0.1", args.port), Site).serve_forever()


if __name__ == "__main__":
    main()
