"""Web pages of other origins that may talk to a server (CORS).

A browser lets a page read the answers of another origin only if they say so. The configuration
names the allowed origins; all others get the same responses without that permission. Tokens travel
in a header that browsers never add by themselves, and there are no cookies, so a page can do
nothing here that its user's own program could not do.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANY_ORIGIN = "*"
ORIGIN = re.compile(
    r"https?://[a-z0-9.\-\[\]:]+|moz-extension://[0-9a-f-]+|chrome-extension://[a-p]+"
)
PREFLIGHT_SECONDS = 86_400
Headers = list[tuple[bytes, bytes]]
_PERMISSIONS: Headers = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-max-age", str(PREFLIGHT_SECONDS).encode()),
]
_EXPOSED = (b"access-control-expose-headers", b"ETag, Retry-After")
_VARY = (b"vary", b"Origin")


def is_origin(text: str) -> bool:
    """Whether a text names an origin as browsers send it: scheme, host, perhaps a port."""
    return text == ANY_ORIGIN or ORIGIN.fullmatch(text) is not None


def is_server(url: str) -> bool:
    """Whether a URL names a server: http or https, a host, perhaps a port and a path."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not (parts.query or parts.fragment or parts.username)
        )
    except ValueError:
        return False


class Origins:
    """The origins whose pages may read a server's answers."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self.allowed = frozenset(origin.encode() for origin in allowed)

    def headers(self, request: Headers) -> Headers:
        """The CORS headers of the response to a request with these headers."""
        if not self.allowed:
            return []
        origin = _value(request, b"origin")
        if origin is None or not self.allowed & {origin, ANY_ORIGIN.encode()}:
            return [_VARY]
        return [_VARY, (b"access-control-allow-origin", origin), _EXPOSED]

    def around(self, app: ASGIApp) -> ASGIApp:
        """An application that adds CORS headers to all responses of `app`, including refusals."""
        if not self.allowed:
            return app

        async def with_origins(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            added = self.headers(scope["headers"])
            asked = _value(scope["headers"], b"access-control-request-method")
            if scope["method"] == "OPTIONS" and asked is not None:
                await _answer_preflight(added, send)
                return

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message = {**message, "headers": [*message["headers"], *added]}
                await send(message)

            await app(scope, receive, send_with_headers)

        return with_origins


async def _answer_preflight(added: Headers, send: Send) -> None:
    """The response to a browser's preflight request; an origin that is not allowed gets no
    permission."""
    permissions = _PERMISSIONS if len(added) > 1 else []
    headers = [*added, *permissions]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _value(headers: Headers, name: bytes) -> bytes | None:
    return next((value for key, value in headers if key == name), None)
