"""How the server is set up: who reaches it, by which names and tokens, and how much it takes on."""

import ipaddress
import re
import socket
from dataclasses import dataclass, field

from smoothap.server import LOOPBACK


@dataclass(frozen=True)
class Limits:
    """What the server takes on; whatever is beyond is refused with 408, 413 or 503, at once."""

    upload_bytes: int = 50_000_000  # of one photo: phones write JPEGs of 50 megapixels
    list_bytes: int = 10_000_000  # of a list of collections to import: 50,000 photos
    text_bytes: int = 256_000  # of any other request
    bytes_in_flight: int = 120_000_000  # of all requests together: two of the largest photos, and small ones
    connections: int = 2_000
    requests: int = 200  # that are complete and not answered yet
    waiting: int = 62  # for one of the working threads
    working: int = 2
    streams: int = 200  # of events
    seconds_of_events: float = 900  # after which a browser asks for them again
    seconds_to_stop: float = 20  # in which a server that is stopped finishes what it has begun
    seconds_for_head: float = 10  # from the connection to the end of a request's head
    seconds_to_send: float = 60  # a whole request
    seconds_of_silence: float = 10  # within it
    seconds_to_answer: float = 60  # until an answer begins
    seconds_to_read: float = 15  # for each 64 kB of an answer
    pixels: int = 100_000_000
    decode_seconds: float = 10
    decode_megabytes: int = 150  # on top of what an idle decoder has; more for photos of many pixels
    most_decode_megabytes: int = 1_200


@dataclass(frozen=True)
class Service:
    """How albums are served, beside the socket; an error names the option of smoothap serve.

    names: other names that visitors reach it by, or *.NAME for all below one. proxies: addresses or networks of proxies
    that tell their visitors' addresses. base_path: the path that a proxy puts before the
    page's own, without a slash at its end. token: asked of every visitor. write_token: lets programs add and remove
    photos; without one nobody can. log: a file for a line of JSON for each request, "-" for standard output.
    shows_token: whether the address that is printed holds the token.
    """

    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    base_path: str = ""
    token: str | None = None
    write_token: str | None = None
    shows_token: bool = True
    log: str | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name in self.names:
            if not re.fullmatch(r"(\*\.)?[\w-]+(\.[\w-]+)*\.?", name):
                raise ValueError(f"--allow-host is a name such as photos.example.org or *.example.org, not {name!r}.")
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy, strict=False)
            except ValueError:
                said = "the IP address of a proxy, such as 127.0.0.1, or its network"
                raise ValueError(f"--trusted-proxy is {said}, not {proxy!r}.") from None
        if not re.fullmatch(r"(/[^/?#%\\ ]+)*", self.base_path):
            raise ValueError(f"--base-path is the path before the page's own, such as /search, not {self.base_path!r}.")

    @property
    def hosts(self) -> frozenset[str]:
        """All names that this server goes by."""
        here = {socket.gethostname().lower()} if self.any_address else set()
        return LOOPBACK | here | {self.host.lower(), *(name.lower() for name in self.names)}

    @property
    def any_address(self) -> bool:
        """Whether it goes by every plain IP address too, which no other page can make its own."""
        return self.host not in LOOPBACK

    @property
    def is_local(self) -> bool:
        """Whether only this computer sees the page, so that it may open folders here."""
        return self.host in LOOPBACK and not (self.names or self.proxies)

    def address(self, port: int, *, with_token: bool) -> str:
        """The page's address."""
        name = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{name}]" if ":" in name else name
        query = f"?token={self.token}" if self.token and with_token else ""
        return f"http://{shown}:{port}{self.base_path}/{query}"
