"""Who may use the studio: a browser on this machine that was opened with the one-time link.

The link's token is exchanged once for a cookie that scripts cannot read and that other sites'
requests do not carry. Requests whose Host is not this very address are refused (a foreign name that
resolves to 127.0.0.1), and so is every change that does not come from the studio's own page.
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shuffledp.service.http.problems import Problem

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
NO_ENTRY = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>shuffledp studio</title>"
    "<h1>This link does not open the studio</h1><p>A link works once, in one browser. Stop "
    "<code>shuffledp studio</code> and start it again: it prints a new link.</p></html>"
)


class Access:
    """Lets only the right requests through to the studio, and marks every answer."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._cookie_name = f"shuffledp_studio_{port}"
        self._cookie = secrets.token_urlsafe(32)
        self._token: str | None = secrets.token_urlsafe(32)
        self.link = f"http://127.0.0.1:{port}/?token={self._token}"

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
        """The answer to a request that is not let through; None if it is."""
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
        return found is not None and hmac.compare_digest(found.value, self._cookie)

    def _without_token(self, scope: Scope) -> Response | None:
        """Sends a browser that is let in already from the link to the page itself."""
        if scope["path"] == "/" and b"token=" in scope["query_string"]:
            return RedirectResponse("/", 303)
        return None

    def _enter(self, given: str) -> Response:
        """Exchanges the token for the cookie, once."""
        token = self._token
        if token is None or not hmac.compare_digest(given.encode(), token.encode()):
            return HTMLResponse(NO_ENTRY, 403)
        self._token = None
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")
        return answer
