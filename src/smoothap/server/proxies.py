"""What stands between a visitor and us: proxies whose word is taken, and the path that they put before ours."""

import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class TrustedProxies:
    """Addresses and networks of proxies; whoever comes from there is believed when they name their visitor."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self.networks = tuple(ipaddress.ip_network(proxy, strict=False) for proxy in proxies)

    def __contains__(self, address: object) -> bool:
        try:
            known = ipaddress.ip_address(str(address))
        except ValueError:
            return False
        mapped = getattr(known, "ipv4_mapped", None) or known
        return any(mapped.version == network.version and mapped in network for network in self.networks)


class BehindProxy:
    """Makes of each request what the visitor sent: the name and scheme that a trusted proxy tells, our own path.

    A proxy may take `base_path` off before it asks us, or leave it on: both are understood.
    """

    def __init__(self, app: ASGIApp, proxies: TrustedProxies, base_path: str = "") -> None:
        self.app, self.proxies, self.base_path = app, proxies, base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = dict(scope)
            if (scope.get("client") or ("",))[0] in self.proxies:
                _take_over(scope)
            if self.base_path and scope["path"] == self.base_path:  # the page's own addresses are relative to a folder
                query = scope.get("query_string", b"").decode("latin-1")
                address = f"{self.base_path}/" + (f"?{query}" if query else "")
                await RedirectResponse(address, 307)(scope, receive, send)
                return
            if self.base_path and scope["path"].startswith(f"{self.base_path}/"):
                scope["path"] = scope["path"][len(self.base_path) :]
                scope.pop("raw_path", None)
        await self.app(scope, receive, send)


def _take_over(scope: Scope) -> None:
    given = Headers(scope=scope)
    scope["headers"] = list(scope["headers"])
    # Each proxy adds at the end: what is before was told to it.
    for header, value in (("host", _last(given, "x-forwarded-host")), ("scheme", _last(given, "x-forwarded-proto"))):
        if value and header == "host":
            MutableHeaders(raw=scope["headers"])["host"] = value
        elif value in ("http", "https"):
            scope["scheme"] = value


def _last(headers: Headers, name: str) -> str:
    return ",".join(headers.getlist(name)).rpartition(",")[2].strip()


def checked_base_path(text: str) -> str:
    """A path such as /search, without a slash at its end; "" is none."""
    path = text.rstrip("/")
    if path and (not path.startswith("/") or "//" in path or any(letter in path for letter in "?#%\\ ")):
        raise ValueError(f"--base-path is the path before the page's own, such as /search, not {text!r}.")
    return path
