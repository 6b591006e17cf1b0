"""The HTTP protocol with a clock on the head of a request: a connection that never asks for anything is ended."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0
_TOO_SLOW = b'{"error":"The request came too slowly: send it again."}'


class PatientForAWhile(H11Protocol):
    """Waits ten seconds for the head of a request, then answers 408 and ends the connection."""

    seconds = SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._due = self.loop.call_later(self.seconds, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answering = self.cycle is not None and not self.cycle.response_complete
        unfinished = bool(self.conn.trailing_data[0])
        if self._due is not None and (answering or not unfinished):
            self._due.cancel()
            self._due = None
        elif self._due is None and not answering and unfinished:
            self._due = self.loop.call_later(self.seconds, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._due is not None:
            self._due.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self._due = None
        if not self.transport.is_closing():
            head = (
                b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n"
            )
            self.transport.write(head % len(_TOO_SLOW) + _TOO_SLOW)
            self.transport.close()
