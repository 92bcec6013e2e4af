"""Running the studio on this machine, for a browser that was opened with the one-time link.

The link's token is exchanged once for a cookie that scripts cannot read and that other sites'
requests do not carry. The studio refuses requests for another Host (a foreign name may resolve to
127.0.0.1) and every change that does not come from its own page.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from types import FrameType
from urllib.parse import parse_qs

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shuffledp.errors import ParameterError
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.templates import templates
from shuffledp.studio.app import Studio
from shuffledp.studio.kept import data_folder

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PAGES = templates("shuffledp.studio")


class Access:
    """Lets only allowed requests through to the studio, and adds security headers to every
    answer."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._cookie_name = f"shuffledp_studio_{port}"
        self._cookie = secrets.token_urlsafe(32)
        self._token: str | None = secrets.token_urlsafe(32)
        self.link = f"http://127.0.0.1:{port}/?token={self._token}"
        self.link_is_over: Callable[[], None] = lambda: None
        """Called when the link was used, or can be used no more."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope)
        answer = self._app if refusal is None else refusal
        await answer(scope, receive, marked)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that is refused; None if it is allowed."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return Problem(421, "host", "The studio answers only under its own address.").response()
        changes = scope["method"] not in ("GET", "HEAD")
        if changes and headers.get("origin") != f"http://{host}":
            return Problem(403, "origin", "Only the studio's own page may ask for this.").response()
        if self._knows(headers):
            return self._without_token(scope)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET":
            return self._enter(given)
        return Problem(401, "token", "Open the link that `shuffledp studio` printed.").response()

    def _knows(self, headers: Headers) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        found = cookies.get(self._cookie_name)
        return found is not None and _same(found.value, self._cookie)

    def _without_token(self, scope: Scope) -> Response | None:
        """Redirects a browser that already has the cookie from the link to the page."""
        if scope["path"] == "/" and b"token=" in scope["query_string"]:
            return RedirectResponse("/", 303)
        return None

    def _enter(self, given: str) -> Response:
        """Exchanges the token for the cookie, once."""
        token = self._token
        if token is None or not _same(given, token):
            return HTMLResponse(_PAGES.get_template("refused_link.html").render(), 403)
        self._token = None
        self.link_is_over()
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")
        return answer


def _same(given: str, secret: str) -> bool:
    """Whether a text is the secret; how long this takes says nothing about it."""
    return hmac.compare_digest(given.encode(), secret.encode())


def listening(port: int) -> socket.socket:
    """A socket on 127.0.0.1; port 0 means any free one."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except OSError as error:
        found.close()
        raise ParameterError(
            f"Port {port} cannot be used ({error.strerror}); remove --port, or choose another one."
        ) from None
    return found


class LocalServer(uvicorn.Server):
    """A server that ends all work in progress at the first signal."""

    def __init__(self, config: uvicorn.Config, studio: Studio, access: Access) -> None:
        super().__init__(config)
        self._studio, self._access = studio, access
        self._ending: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # uvicorn's name
        self._access.link_is_over()  # here: a signal may end the process before anything else runs
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._studio.workers.close())
        super().handle_exit(sig, frame)


def serve(port: int, opened: Callable[[str], Callable[[], None]]) -> None:
    """Runs the studio; `opened` is called with its link once it answers, and returns what to call
    when the link is over."""
    taken = listening(port)
    studio = Studio()
    access = Access(studio.app(), taken.getsockname()[1])
    config = uvicorn.Config(
        access,
        access_log=False,
        log_level="warning",
        ws="none",
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    server = LocalServer(config, studio, access)

    async def run() -> None:
        working = asyncio.create_task(server.serve(sockets=[taken]))
        while not server.started and not working.done():
            await asyncio.sleep(0.02)
        if server.started:
            access.link_is_over = opened(access.link)
        await working

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass
    finally:
        access.link_is_over()
        taken.close()


def redirect_file(link: str) -> Path:
    """A page that leads to the link, in a file that only this user can read: every user of a
    machine can list the arguments of all processes, so the browser gets the name of this file."""
    handle, name = tempfile.mkstemp(
        prefix="studio-", suffix=".html", dir=data_folder()
    )  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_PAGES.get_template("redirect.html").render(link=link))
    return Path(name)


def open_browser(page: Path) -> None:
    """Opens a file in the user's browser and returns at once: some browsers block until they are
    closed."""
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
