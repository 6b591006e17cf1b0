"""How much a visitor may ask for: bytes and seconds of a request, and places in the queue of work."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smoothap.web.schemas import error_response

Result = TypeVar("Result")
_BUSY = "The server is busy: try again in a second."


@dataclass(frozen=True)
class Limits:
    """What the server takes on; whatever is beyond is refused with 408, 413 or 503, at once."""

    upload_bytes: int = 20_000_000  # of one photo
    text_bytes: int = 256_000  # of any other request
    bytes_in_flight: int = 120_000_000  # of all requests together
    requests: int = 200  # that are complete and being answered
    senders: int = 2_000  # whose requests are still on their way; each is given up when it is too slow
    waiting: int = 16  # for one of the working threads
    working: int = 2
    seconds_to_send: float = 30  # a whole request
    seconds_of_silence: float = 10  # within it
    pixels: int = 50_000_000
    decode_seconds: float = 5
    decode_megabytes: int = 150  # on top of what an idle decoder has


class WorkQueue:
    """A few threads that work, a few places to wait for them, and nobody else."""

    def __init__(self, limits: Limits) -> None:
        self._places = limits.working + limits.waiting
        self._threads = ThreadPoolExecutor(limits.working, "smoothap-work")
        self._unfinished: set[Future[Any]] = set()

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """The result of `work`, done on a thread; 503 where no place is free."""
        if len(self._unfinished) >= self._places:
            raise HTTPException(503, "The queue of searches is full: try again in a second.")
        future = self._threads.submit(work, *arguments)
        self._unfinished.add(future)
        # Its place is taken until it is done, also where the visitor has gone: the thread is busy until then.
        future.add_done_callback(self._unfinished.discard)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Let the threads end once their work is done."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class BoundedRequests:
    """Reads the whole body of each request before anything else sees it, and counts as it reads.

    A length that was announced is not believed: what arrives is counted.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self._requests = self._senders = self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = bytearray()
        try:
            if await self._received(scope, receive, send, body):
                await self._answer(scope, _replay(bytes(body), receive), send)
        finally:
            self._bytes -= len(body)

    async def _received(self, scope: Scope, receive: Receive, send: Send, body: bytearray) -> bool:
        if self._senders >= self.limits.senders:
            await error_response(503, _BUSY, close=True)(scope, receive, send)
            return False
        self._senders += 1
        try:
            await self._read(scope, receive, body)
        except HTTPException as refusal:
            await _drain(receive)
            await error_response(refusal.status_code, refusal.detail, close=True)(scope, receive, send)
            return False
        except ConnectionResetError:
            return False
        finally:
            self._senders -= 1
        return True

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._requests >= self.limits.requests:
            await error_response(503, _BUSY)(scope, receive, send)
            return
        self._requests += 1
        try:
            await self.app(scope, receive, send)
        except asyncio.CancelledError:  # the server is stopped while this is being worked on
            with contextlib.suppress(RuntimeError):  # where the answer had begun
                await error_response(503, "The server was stopped.", close=True)(scope, receive, send)
        finally:
            self._requests -= 1

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        limit = self.limits.upload_bytes if scope["path"].endswith("/embed") else self.limits.text_bytes
        too_large = HTTPException(413, f"That is more than the {limit:,} bytes taken here: send a smaller file.")
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > limit:
            raise too_large
        clock = asyncio.get_running_loop().time
        end = clock() + self.limits.seconds_to_send
        more = True
        while more:
            left = min(end - clock(), self.limits.seconds_of_silence)
            try:
                message = await asyncio.wait_for(receive(), max(left, 0.001))
            except asyncio.TimeoutError:
                raise HTTPException(408, "The request came too slowly: send it again.") from None
            if message["type"] == "http.disconnect":
                raise ConnectionResetError
            chunk = message.get("body", b"")
            if len(body) + len(chunk) > limit:
                raise too_large
            if self._bytes + len(chunk) > self.limits.bytes_in_flight:
                raise HTTPException(503, "The server is busy with other uploads: try again in a second.")
            self._bytes += len(chunk)
            body += chunk
            more = message.get("more_body", False)


async def _drain(receive: Receive, seconds: float = 1.0, most: int = 30_000_000) -> None:
    """Throw away what still comes for a moment: an answer sent into a full pipe would be lost with the connection."""

    async def read() -> None:
        left = most
        while left > 0:
            message = await receive()
            left -= len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return

    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(read(), seconds)


def _replay(body: bytes, receive: Receive) -> Receive:
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return parts.pop() if parts else await receive()

    return next_message
