"""A Milvus server by its address, asked with patience: what may pass is asked again, for a while, and then it is told.

The token is taken from MILVUS_TOKEN. With milvus+tls:// the connection is encrypted; MILVUS_CERTIFICATE is a file with
the certificates to trust, where those of the system are not enough.
"""

from __future__ import annotations

import logging
import os
import re
import time
from dataclasses import dataclass
from typing import Any

SCHEMES = "milvus://", "milvus+tls://"  # without and with TLS
LONGEST_NAME = 100  # characters, so that there is room for what we put behind it
MOST_ROWS = 16_384  # that Milvus gives at once
TIMEOUT = 20.0  # seconds that one call may take
# Servers hang up on who asks more than once in five minutes whether they are alive; pymilvus asks every ten seconds.
KEEPALIVE = {"grpc.keepalive_time_ms": 330_000, "grpc.keepalive_permit_without_calls": False}
PATIENCE = 60.0  # seconds for which a call is made again while the server is away
_FINAL = 100, 1100, 1600, 1601, 1602  # codes of Milvus for what no waiting helps: no such collection, alias or field
_LONGEST_PAUSE = 2.0


class MilvusUnavailable(ValueError):  # noqa: N818
    """A server that has not answered for as long as we wait."""


@dataclass(frozen=True)
class MilvusAddress:
    """Where a server listens, and the name of an album on it."""

    host: str
    port: int
    name: str
    tls: bool = False

    @classmethod
    def parse(cls, text: str) -> MilvusAddress:
        """The address that milvus://HOST:PORT/NAME or milvus+tls://HOST:PORT/NAME spells."""
        parts = re.fullmatch(r"milvus(\+tls)?://(\[[0-9a-fA-F:.]+\]|[^/:\s]+)(?::(\d{1,5}))?/([^/\s]+)/?", text)
        if parts is None or not 0 < int(parts[3] or 19530) < 65_536:
            raise ValueError(
                f"An address of Milvus is milvus://HOST:PORT/NAME, or milvus+tls:// with TLS, not {text!r}."
            )
        name = parts[4]
        if not (re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and len(name) <= LONGEST_NAME):
            raise ValueError(
                f"A name in Milvus has letters, digits and _, begins with a letter, and has at most {LONGEST_NAME} "
                f"characters: {name!r} is none."
            )
        return cls(parts[2], int(parts[3] or 19530), name, parts[1] is not None)

    @property
    def server(self) -> str:
        """The server alone, as we spell it."""
        return f"{SCHEMES[self.tls]}{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.server}/{self.name}"


class MilvusServer:
    """Calls of a server's client by their names; whatever goes wrong is a sentence."""

    def __init__(self, address: MilvusAddress, *, patience: float = PATIENCE, timeout: float = TIMEOUT) -> None:
        try:
            from pymilvus import MilvusClient
            from pymilvus.exceptions import MilvusException
        except ModuleNotFoundError as missing:
            raise ValueError("Milvus needs its client: pip install 'smoothap[milvus]'") from missing
        logger = logging.getLogger("pymilvus")
        if logger.level < logging.CRITICAL:  # it prints whole tracebacks of what we say in a sentence
            logger.setLevel(logging.CRITICAL)
        import grpc

        self.address, self.patience, self.timeout = address, patience, timeout
        self._errors = MilvusException, grpc.RpcError, OSError
        options: dict[str, Any] = {"grpc_options": KEEPALIVE}
        if address.tls:
            options["secure"] = True
            if certificate := os.environ.get("MILVUS_CERTIFICATE"):
                options["server_pem_path"] = certificate
        scheme = "https" if address.tls else "http"
        try:
            self.client = MilvusClient(
                uri=f"{scheme}://{address.host}:{address.port}", token=os.environ.get("MILVUS_TOKEN", ""),
                timeout=min(timeout, 10.0), **options,
            )  # fmt: skip
        except self._errors as error:
            raise self._told(error, MilvusUnavailable) from error

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """What a method of the client gives; a server that is away is waited for, up to the patience."""
        end, pause = time.monotonic() + self.patience, 0.1
        while True:
            try:
                return getattr(self.client, method)(*arguments, timeout=self.timeout, **options)
            except self._errors as error:
                if _is_final(error):
                    raise self._told(error, ValueError) from error
                if time.monotonic() + pause >= end:
                    raise self._told(error, MilvusUnavailable) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def has(self, collection: str) -> bool:
        """Whether there is a collection of this name, or an alias."""
        return bool(self.ask("has_collection", collection))

    def behind(self, alias: str) -> str | None:
        """The collection that an alias stands for; None if there is no such alias."""
        if not self.has(alias):
            return None
        name = self.ask("describe_collection", alias)["collection_name"]
        return None if name == alias else str(name)

    def rows(self, collection: str, where: str, *fields: str, consistency: str = "Strong") -> list[dict[str, Any]]:
        """The fields of rows that an expression lets pass; `Strong` counts those in that were written a moment ago."""
        asked = {"filter": where, "output_fields": list(fields), "consistency_level": consistency}
        return self.ask("query", collection, **asked, **({} if fields == ("count(*)",) else {"limit": MOST_ROWS}))

    def count(self, collection: str) -> int:
        """How many rows a collection has."""
        return int(self.rows(collection, "", "count(*)")[0]["count(*)"])

    def _told(self, error: Exception, kind: type[ValueError]) -> ValueError:
        if _is_about_the_token(error):
            return ValueError(
                f"{self.address} does not let us in: set MILVUS_TOKEN to its token, such as user:password."
            )
        words = " ".join(str(getattr(error, "message", "") or error).split())[:300]
        if kind is MilvusUnavailable:
            return kind(f"Milvus does not answer at {self.address.server}: start it, or try again later. ({words})")
        return kind(f"Milvus at {self.address.server} refuses: {words}")


def _is_about_the_token(error: Exception) -> bool:
    words = f"{error} {error.__cause__}"  # a connection that fails says why in what it comes from
    return re.search(r"(?i)unauthenticated|auth check|permission ?deny|permission ?denied", words) is not None


def _is_final(error: Exception) -> bool:
    if _is_about_the_token(error):
        return True
    return getattr(error, "code", None) in _FINAL and "not loaded" not in str(error).lower()
