"""How much a visitor may ask for: bytes and seconds of a request and of its answer, and places in the queue of work."""

import asyncio
import contextlib
import ipaddress
from collections import Counter
from collections.abc import Callable, Container
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smoothap.server._schemas import error_response

Result = TypeVar("Result")
_BUSY = "The server is busy: try again in a second."
_TOO_MANY = "Too many requests come from your address at once: try again in a second."
STREAMED = "smoothap.streamed"  # in a request's scope: its answer is made while it is sent, and is in no memory
_PIECE = 1 << 16  # bytes of an answer that are handed over at once


@dataclass(frozen=True)
class Limits:
    """What the server takes on; whatever is beyond is refused with 408, 413 or 503, at once."""

    upload_bytes: int = 50_000_000  # of one photo: phones write JPEGs of 50 megapixels
    list_bytes: int = 10_000_000  # of a list of collections to import: 50,000 photos
    text_bytes: int = 256_000  # of any other request
    bytes_in_flight: int = 120_000_000  # of all requests together: two of the largest photos, and small ones
    requests: int = 200  # that are complete and being worked on
    senders: int = 2_000  # whose requests are still on their way; each is given up when it is too slow
    per_address: int = 400  # requests of one address, from first byte to last: 50 browsers of 6 connections and more
    unread_bytes: int = 120_000_000  # of all answers that visitors have not taken yet
    waiting: int = 62  # for one of the working threads
    working: int = 2
    seconds_to_stop: float = 20  # in which a server that is stopped finishes what it has begun
    seconds_for_head: float = 10  # from the connection to the end of a request's head
    seconds_to_send: float = 60  # a whole request
    seconds_of_silence: float = 10  # within it
    seconds_to_read: float = 15  # for each 64 kB of an answer
    pixels: int = 100_000_000
    decode_seconds: float = 10
    decode_megabytes: int = 150  # on top of what an idle decoder has; more for photos of many pixels
    most_decode_megabytes: int = 1_200


class WorkQueue:
    """A few threads, and a few places to wait for one; whoever finds no place free is refused."""

    def __init__(self, working: int, waiting: int, watch: Callable[[int, int], None] = lambda *_: None) -> None:
        self._working, self._places, self._watch = working, working + waiting, watch
        self._threads = ThreadPoolExecutor(working, "smoothap-work")
        self._unfinished: set[Future[Any]] = set()

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """The result of `work`, done on a thread; 503 where no place is free."""
        if len(self._unfinished) >= self._places:
            raise HTTPException(503, "The queue of searches is full: try again in a second.")
        future = self._threads.submit(work, *arguments)
        self._unfinished.add(future)
        self._tell()
        # Its place is taken until it is done, also where the visitor has gone: the thread is busy until then.
        future.add_done_callback(self._leave)
        return await asyncio.wrap_future(future)

    def _leave(self, future: Future[Any]) -> None:
        self._unfinished.discard(future)
        self._tell()

    def _tell(self) -> None:
        """Say how many are worked on, and how many wait."""
        number = len(self._unfinished)
        self._watch(min(number, self._working), max(0, number - self._working))

    def close(self) -> None:
        """Let the threads end once their work is done."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class BoundedRequests:
    """Reads the whole body of each request before anything else sees it, and counts as it reads.

    A length that was announced is not believed: what arrives is counted. An answer leaves in pieces, so that a visitor
    who does not read it is noticed by the protocol. `proxies` are addresses whose word about their visitors is taken.
    """

    def __init__(self, app: ASGIApp, limits: Limits, proxies: Container[str] = frozenset()) -> None:
        self.app, self.limits, self.proxies = app, limits, proxies
        self._requests = self._senders = self._bytes = self._unread = 0
        self._per_address: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        address, body = visitor_address(scope, self.proxies), bytearray()
        if self._per_address[address] >= self.limits.per_address:
            await error_response(503, _TOO_MANY, close=True)(scope, receive, send)
            return
        self._per_address[address] += 1
        try:
            if await self._received(scope, receive, send, body):
                await self._answer(scope, _replay(bytes(body), receive), send)
        finally:
            self._bytes -= len(body)
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]  # a crowd of addresses leaves nothing behind

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
        begun, refused, unread = False, False, 0

        async def send_in_pieces(message: Message) -> None:
            nonlocal begun, refused, unread
            if message["type"] == "http.response.start":
                # The work is done: a visitor who does not take the answer keeps no place from others.
                begun = True
                self._requests -= 1
                size = 0 if scope.get(STREAMED) else int(dict(message["headers"]).get(b"content-length", 0))
                # A list of any length is sent while nobody else waits, and small answers always.
                refused = size > _PIECE and self._unread > 0 and self._unread + size > self.limits.unread_bytes
                if refused:
                    await error_response(503, _BUSY)(scope, receive, send)
                else:
                    unread = size
                    self._unread += size
            if refused:
                return
            content = memoryview(message.get("body", b""))
            while len(content) > _PIECE:
                await send({"type": "http.response.body", "body": bytes(content[:_PIECE]), "more_body": True})
                content = content[_PIECE:]
            await send({**message, "body": bytes(content)} if "body" in message else message)

        try:
            await self.app(scope, receive, send_in_pieces)
        except asyncio.CancelledError:  # the server is stopped while this is being worked on
            with contextlib.suppress(RuntimeError):  # where the answer had begun
                await error_response(503, "The server was stopped.", close=True)(scope, receive, send)
        finally:
            self._unread -= unread
            if not begun:
                self._requests -= 1

    async def _read(self, scope: Scope, receive: Receive, body: bytearray) -> None:
        larger = {"embed": self.limits.upload_bytes, "import": self.limits.list_bytes}
        if scope["path"].startswith("/api/v1/"):
            larger |= dict.fromkeys(("search", "photos"), self.limits.upload_bytes)
        limit = larger.get(scope["path"].rpartition("/")[2], self.limits.text_bytes)
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


def visitor_address(scope: Scope, proxies: Container[str]) -> str:
    """Whom a request comes from: the peer, or whom trusted proxies heard it from; all of an IPv6 network are one."""
    address = str((scope.get("client") or ("",))[0])
    if address in proxies:
        values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        # Each proxy adds at the end; what is before the first that is not ours was written by the visitor.
        told = [part.strip() for value in values for part in value.split(",")]
        address = next((part for part in reversed(told) if part not in proxies), address)
    with contextlib.suppress(ValueError):
        known = ipaddress.ip_address(address)
        if isinstance(known, ipaddress.IPv6Address):
            mapped = known.ipv4_mapped
            return str(mapped or ipaddress.ip_network((known, 64), strict=False))
    return address


async def _drain(receive: Receive, seconds: float = 1.0, most: int = 60_000_000) -> None:
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
