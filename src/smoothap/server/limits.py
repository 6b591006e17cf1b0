"""How much a visitor may ask for: bytes and seconds of a request, places to work in, and pieces of an answer.

What can be left to a proxy is left to it (`deploy/nginx.conf`): connections and requests by address. What times the
heads of requests and answers that nobody reads is the protocol's (`server/run.py`).
"""

import asyncio
import http
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, move_on_after, to_thread
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smoothap.server.settings import Limits

Result = TypeVar("Result")
ENDLESS = "/api/v1/events", "/photos/export"  # how paths end whose answers take as long as they take
STOPPING = "smoothap.stopping"  # of a request's scope: the server is being stopped, and waits for the answer to end
_PIECE = 1 << 16  # bytes of an answer that are handed over at once
_THROWN_AWAY = 60_000_000  # bytes of a request that was refused, for a second at most


def problem(status: int, sentence: str, *, close: bool = False) -> Response:
    """An error as RFC 9457 has it; `close` ends the connection, for a request whose body was not read to its end."""
    headers = {"cache-control": "no-store"}
    if close:
        headers["connection"] = "close"
    if status == 503:
        headers["retry-after"] = "1"
    content = {"type": "about:blank", "title": http.HTTPStatus(status).phrase, "status": status, "detail": sentence}
    return JSONResponse(content, status, headers, media_type="application/problem+json")


class Workers:
    """A few threads, and a few places to wait for one; whoever finds no place free is refused at once."""

    def __init__(self, working: int, waiting: int) -> None:
        self.limiter, self._waiting = CapacityLimiter(working), waiting

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """The result of `work`, done on a thread; 503 where no place is free."""
        if self.limiter.statistics().tasks_waiting >= self._waiting and not self.limiter.available_tokens:
            raise HTTPException(503, "The queue of searches is full: try again in a second.")
        return await to_thread.run_sync(work, *arguments, limiter=self.limiter)


class BoundedRequests:
    """Counts the bytes and seconds of each request as they come, and refuses what is too much, too slow or too many.

    A length that was announced is not believed: what arrives is counted. An answer leaves in pieces, so that a visitor
    who does not read it is noticed by the protocol.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.requests = self.bytes = 0  # that are worked on, and of all that have come
        larger = {"/search/photo": limits.upload_bytes, "/photos": limits.upload_bytes, "/import": limits.list_bytes}
        self.larger = larger  # bytes of a request by how its path ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _Bounded(self, scope, receive, send).run()
        else:
            await self.app(scope, receive, send)


class _Bounded:
    """One request under the limits."""

    def __init__(self, bounds: BoundedRequests, scope: Scope, receive: Receive, send: Send) -> None:
        self.bounds, self.limits, self.scope, self._receive, self._send = bounds, bounds.limits, scope, receive, send
        larger = (most for end, most in bounds.larger.items() if scope["path"].endswith(end))
        self._most, self._loop = next(larger, self.limits.text_bytes), asyncio.get_running_loop()
        self._end = self._loop.time() + self.limits.seconds_to_send
        self._got, self._complete, self._works, self._begun, self._late = 0, False, False, False, False

    async def run(self) -> None:
        """Let the application answer, or refuse."""
        headers, timer = dict(self.scope["headers"]), None
        if not self.scope["path"].endswith(ENDLESS):
            timer = self._loop.call_at(self._end + self.limits.seconds_to_answer, self._give_up)
        try:
            announced = headers.get(b"content-length", b"0")
            if announced.isdigit():
                self._check_size(int(announced[:20]))
            if announced == b"0" and b"transfer-encoding" not in headers:
                self._work(True)
            await self.bounds.app(self.scope, self.receive, self.send)
        except HTTPException as refusal:
            await self._refuse(refusal.status_code, refusal.detail)
        except asyncio.CancelledError:  # the server is stopped while this is being worked on
            await self._refuse(503, "The server was stopped.")
        finally:
            if timer is not None:
                timer.cancel()
            self.bounds.bytes -= self._got
            self._work(False)

    async def receive(self) -> Message:
        """The next part of the request, counted; an error where it is too much, or comes too late."""
        if self._complete:
            return await self._receive()
        left = min(self._end - self._loop.time(), self.limits.seconds_of_silence)
        try:
            message = await asyncio.wait_for(self._receive(), max(left, 0.001))
        except asyncio.TimeoutError:
            raise HTTPException(408, "The request came too slowly: send it again.", {"connection": "close"}) from None
        number = len(message.get("body", b""))
        try:
            self._check_size(self._got + number)
            if self.bounds.bytes + number > self.limits.bytes_in_flight:
                sentence = "The server is busy with other uploads: try again in a second."
                raise HTTPException(503, sentence, {"connection": "close"})
        except HTTPException:
            await self._drain()
            raise
        self.bounds.bytes += number
        self._got += number
        if not message.get("more_body", False):
            self._complete = True
            if not self._begun:  # what streams reads on, to see its visitor go, and is no work any more
                self._work(True)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer, in pieces; nothing once it was given up."""
        if self._late:
            return
        if message["type"] == "http.response.start":
            self._begun = True
            self._work(False)  # the work is done: a visitor who does not take the answer keeps no place from others
        content = memoryview(message.get("body", b""))
        while len(content) > _PIECE:
            await self._send({"type": "http.response.body", "body": bytes(content[:_PIECE]), "more_body": True})
            content = content[_PIECE:]
        await self._send({**message, "body": bytes(content)} if "body" in message else message)

    def _work(self, begins: bool) -> None:
        """Take a place among the requests that are worked on, or give it back."""
        if begins and not self._works and self.bounds.requests >= self.limits.requests:
            raise HTTPException(503, "The server is busy: try again in a second.")
        self.bounds.requests += begins - self._works
        self._works = begins

    def _give_up(self) -> None:
        self._late = not self._begun
        self._giving_up = asyncio.ensure_future(self._refuse(503, "It takes too long: ask for less."))

    async def _refuse(self, status: int, sentence: str) -> None:
        """Answer with an error, unless the answer has begun."""
        if not self._begun:
            self._begun = True
            await problem(status, sentence, close=True)(self.scope, self._receive, self._send)

    def _check_size(self, number: int) -> None:
        if number > self._most:
            sentence = f"That is more than the {self._most:,} bytes taken here: send a smaller file."
            raise HTTPException(413, sentence, {"connection": "close"})

    async def _drain(self) -> None:
        """Throw away what still comes for a moment: an answer sent into a full pipe would be lost with it."""
        left = _THROWN_AWAY
        with move_on_after(1):
            while left > 0 and (message := await self._receive()).get("more_body", False):
                left -= len(message.get("body", b""))
