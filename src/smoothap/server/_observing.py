"""What operators see: /health, /ready and /metrics, and a line of JSON for each request."""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TextIO

from fastapi import FastAPI
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smoothap.server._metrics import Metrics, route_of
from smoothap.server._schemas import error_response
from smoothap.server.limits import visitor_address
from smoothap.server.proxies import TrustedProxies

if TYPE_CHECKING:
    from smoothap.server._current_albums import CurrentAlbums

GONE = 499  # what is counted where a visitor has left before the answer


class Observed:
    """Counts and logs each request from outside of everything else, and says whether the server is alive and ready.

    /health and /ready are for whoever starts and stops servers: they ask for no token and tell nothing else. `log` gets
    one line of JSON for each answer: time, address, method, path, status, seconds and bytes; neither what is behind
    the path's question mark nor headers nor bodies, so no token and no photo.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        is_ready: Callable[[], str],
        log: TextIO | None = None,
        proxies: TrustedProxies | None = None,
    ) -> None:
        self.app, self.metrics, self.is_ready, self.log = app, metrics, is_ready, log
        self.proxies = proxies or TrustedProxies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status, size = time.perf_counter(), GONE, 0

        async def counting(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._answerer(scope)(scope, receive, counting)
        except asyncio.CancelledError:
            status = status if status != GONE else 503
            raise
        finally:
            seconds = time.perf_counter() - begun
            self.metrics.answered(route_of(scope["path"]), status, seconds)
            self._write(scope, status, seconds, size)

    def _answerer(self, scope: Scope) -> ASGIApp:
        if scope["path"] == "/health":
            return PlainTextResponse("alive\n", headers={"cache-control": "no-store"})
        if scope["path"] == "/ready":
            missing = self.is_ready()
            if missing:
                return error_response(503, missing)
            return PlainTextResponse("ready\n", headers={"cache-control": "no-store"})
        return self.app

    def _write(self, scope: Scope, status: int, seconds: float, size: int) -> None:
        if self.log is None or scope["path"] in ("/health", "/ready"):
            return
        line = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "address": visitor_address(scope, self.proxies),
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 4),
            "bytes": size,
        }
        self.log.write(json.dumps(line) + "\n")
        self.log.flush()


def add_metrics_route(app: FastAPI, metrics: Metrics, current: "CurrentAlbums") -> None:
    """Add /metrics, which asks for the token as all addresses do."""

    async def metrics_text() -> PlainTextResponse:
        served = await current.current()
        text = metrics.text([(each.name, len(each.album), each.version) for each in served])
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4", headers={"cache-control": "no-store"})

    app.get("/metrics", include_in_schema=False)(metrics_text)
