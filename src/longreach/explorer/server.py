"""The server of the explorer: loopback unless told otherwise, and nothing that leads outside."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, RunError

if TYPE_CHECKING:
    from fastapi import FastAPI

HOST, PORT = "127.0.0.1", 7860

SCRIPT = "/longreach/page.js"
"""Where the page finds what draws its charts."""

LARGEST_BODY = 2_500_000
"""Bytes of a request: a pasted config of the largest size, escaped, and what is around it."""

REFUSED = ("/gradio_api/upload", "/gradio_api/proxy=", "/gradio_api/file=", "/gradio_api/deep_link")
"""Of what Gradio offers, what this app does not use: files in, files out, other hosts' pages."""

POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",  # Gradio's start, and Vega's formulas
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
    )
)
"""What a browser may load for the page: nothing from elsewhere."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Guard:
    """Stands before the app: refuses what is too large or not for here, and sends the policy."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if path.startswith(REFUSED):
            await refuse(send, 403, b"not here")
            return
        headers = dict(scope["headers"])
        stated = headers.get(b"content-length", b"0")
        if not stated.isdigit() or int(stated) > LARGEST_BODY:
            await refuse(send, 413, b"too large")
            return
        taken = 0

        async def counted() -> MutableMapping[str, Any]:
            """A body that does not say how long it is, is cut off where it gets too long."""
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return {"type": "http.disconnect"} if taken > LARGEST_BODY else message

        async def with_policy(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"content-security-policy", POLICY.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                ]
            await send(message)

        await self._app(scope, counted, with_policy)


async def refuse(send: Send, status: int, why: bytes) -> None:
    """An answer that is an error."""
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": why})


def application(folders: list[Path] | None = None, *, allow_hub: bool = False) -> FastAPI:
    """The app as any ASGI server takes it. folders: runs folders to show beside what ships.

    Raises InputError for a folder that is no runs folder, or where gradio is not installed.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # Read when gradio is imported.
    # Else the browser keeps all that goes in and comes out, pasted configs too, and offers to put
    # it into a bucket elsewhere; writing that down takes longer than the answers do.
    os.environ["GRADIO_RUN_HISTORY"] = "False"
    try:
        import gradio as gr
    except ImportError:
        raise InputError(
            "the explorer needs gradio: install longreach with its extra, longreach[app]"
        ) from None
    from fastapi import FastAPI, Response

    from . import view
    from .app import build
    from .studies import Library

    built = build(Library(folders or ()), allow_hub=allow_hub)
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    script = view.script().encode()

    @outer.get(SCRIPT)
    def page_script() -> Response:
        return Response(
            script,
            media_type="text/javascript",
            headers={"cache-control": "public, max-age=3600"},
        )

    gr.mount_gradio_app(
        outer,
        built,
        path="",
        theme=look(),
        css=view.styles(),
        # A module, whose names stay its own.
        head=f'<script type="module" src="{SCRIPT}"></script>',
        footer_links=[],
        show_error=False,
        ssr_mode=False,
        pwa=False,
        enable_monitoring=False,
        mcp_server=False,
    )
    outer.add_middleware(Guard)
    return outer


def look() -> Any:
    """Gradio's theme in the charts' colours, with enough contrast to be read."""
    import gradio as gr

    from .view import colours

    light, dark = colours("light"), colours("dark")
    strong = light["--lr-first"]  # White stands out on it, on either paper.
    # Names of fonts that are there already: Gradio would fetch its own from elsewhere.
    return gr.themes.Default(
        primary_hue=gr.themes.colors.blue,
        font=["system-ui", "Segoe UI", "DejaVu Sans", "sans-serif"],
        font_mono=["ui-monospace", "DejaVu Sans Mono", "monospace"],
    ).set(
        body_background_fill=light["--lr-paper"],
        body_background_fill_dark=dark["--lr-paper"],
        slider_color=strong,
        button_primary_background_fill=strong,
        button_primary_background_fill_dark=strong,
        button_primary_background_fill_hover=strong,
        button_primary_background_fill_hover_dark=strong,
        button_primary_text_color="white",
        button_primary_text_color_dark="white",
    )


def serve(
    folders: list[Path] | None = None,
    *,
    host: str = HOST,
    port: int = PORT,
    allow_hub: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Serves until it is interrupted.

    port: 0 takes a free one. Raises InputError as `application` does, RunError where the port is
    taken.
    """
    app = application(folders, allow_hub=allow_hub)
    import uvicorn

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # Who comes before the app is ready waits.
    except OSError as error:
        raise RunError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port"
        ) from None
    shown = listening.getsockname()[1]
    say(f"explorer: http://{host}:{shown}/  (Ctrl+C ends it)")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    server.run(sockets=[listening])
