"""A server on a socket that other processes share: each takes one connection at a time, and waits the more it has."""

import asyncio
import contextlib
import socket
from typing import Any

import uvicorn

_PAUSE, _LONGEST = 0.0002, 0.002  # seconds that the next connection is left to others, for each that is here; at most
_LATER = 1.0  # seconds after which it is tried again, where too many files are open


class FairServer(uvicorn.Server):
    """Takes connections one by one and, where it shares the socket, leaves the next to those who have fewer.

    uvicorn leaves this to asyncio, which takes all that wait: the process that wakes first would have them all, and
    keep them as long as their visitors do.
    """

    def __init__(self, config: uvicorn.Config, *, shares: bool) -> None:
        super().__init__(config)
        self._pause = _PAUSE if shares else 0.0
        self._taking: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup([])
        for listener in sockets or ():
            listener.setblocking(False)
            listener.listen(self.config.backlog)
            self._taking.append(asyncio.create_task(self._take(listener)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody new in, and finish what was begun."""
        for taking in self._taking:
            taking.cancel()
        await asyncio.gather(*self._taking, return_exceptions=True)
        await super().shutdown(sockets)

    async def _take(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except ConnectionAbortedError:
                continue
            except OSError:
                await asyncio.sleep(_LATER)
                continue
            with contextlib.suppress(OSError):  # a visitor who has gone by now
                await loop.connect_accepted_socket(self._protocol, connection)
            await asyncio.sleep(min(self._pause * len(self.server_state.connections), _LONGEST))

    def _protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
