"""Requests that are answered before their body has arrived: their connection is closed, so that
nobody can keep it open by sending the rest slowly."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


def closing_unread(app: ASGIApp) -> ASGIApp:
    """An application that says `Connection: close` in every answer to a request whose body is not
    complete; the server then ends the connection with the answer."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        complete = not any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in scope["headers"]
        )

        async def watched() -> Message:
            nonlocal complete
            message = await receive()
            complete = complete or not message.get("more_body", False)
            return message

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start" and not complete:
                headers = [*message["headers"], (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, watched, answered)

    return guarded
