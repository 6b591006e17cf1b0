"""Who is let in: the host must be ours, a page of another site may not speak to us, and a token is asked for if set."""

import hmac
import ipaddress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smoothap.web.answers import HEADERS, problem

COOKIE = "smoothap_token"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Gate:
    """Checks each request before the application sees it, and puts the security headers on each answer.

    hosts: names that this server is reached by. A page that makes its own name point at us (DNS rebinding) sends that
    name. With `any_address` every plain IP address is a name of ours too: those cannot be rebound.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: frozenset[str] = LOOPBACK, any_address: bool = False, token: str | None = None
    ) -> None:
        self.app, self.hosts, self.any_address, self.token = app, hosts, any_address, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        await (self.app if refusal is None else refusal)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return problem(421, "This server does not go by that name: open the address that smoothap serve printed.")
        if _is_cross_site(scope, headers):
            return problem(403, "Another site may not use this server: open its own page.", close=True)
        if self.token is not None:
            return self._ask_for_token(scope, headers, self.token)
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, _ = parts.hostname, parts.port  # which raises where the port is no number
        except ValueError:
            return False
        if name is None or parts.netloc != host or "@" in host:
            return False
        return name in self.hosts or (self.any_address and _is_address(name))

    def _ask_for_token(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), token):
            return None
        if _same(_cookie(headers.get("cookie", "")), token):
            return None
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        if scope["path"] == "/" and _same(asked.pop("token", [""])[0], token):
            # The address bar and the history keep the page's address without the token.
            answer = RedirectResponse(f"/?{urlencode(asked, doseq=True)}" if asked else "/", 303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="lax", path="/")
            answer.headers["cache-control"] = "no-store"
            return answer
        sentence = "A token is needed: open the address that smoothap serve printed, with ?token= and the token."
        return problem(401, sentence, close=True)


def _is_cross_site(scope: Scope, headers: Headers) -> bool:
    """Sent by a page of another site; a link from elsewhere to our page is none."""
    reading = scope["method"] in ("GET", "HEAD")
    opening = reading and scope["path"] == "/" and headers.get("sec-fetch-mode", "navigate") == "navigate"
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not opening:
        return True
    origin = headers.get("origin")
    if origin is None or reading:
        return False
    try:
        return urlsplit(origin).netloc != headers.get("host")
    except ValueError:  # such as half an IPv6 address
        return True


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cookie(text: str) -> str:
    try:
        found = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))
