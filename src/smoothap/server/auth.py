"""Who is let in: the host must be ours, a page of another site may not speak to us, and a token is asked for if set."""

import contextlib
import hmac
import ipaddress
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import get_route_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smoothap.server.limits import problem
from smoothap.server.settings import Service

MAY_WRITE = "smoothap.may_write"  # of a request's scope: it came with the token that may change albums
_NO_TOKEN = (
    "A token is needed: programs send it as the header Authorization: Bearer TOKEN, and a browser opens the page once "
    "with ?token=TOKEN."
)
COOKIE = "smoothap_token"  # and the port: browsers share cookies between all servers of a machine
# Scripts, styles and pictures from here alone; no frame around the page; nothing from any other host.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "cache-control": "no-cache",  # unless an answer says more; the page's own files may be of another version by then
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Gate:
    """Checks each request before the application sees it, and puts the security headers on each answer.

    A page that makes its own name point at us (DNS rebinding) sends that name, which is none of the service's. A
    visitor with the write token may change albums: `scope[MAY_WRITE]` says so.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.hosts, self.any_address = app, service.hosts, service.any_address
        self.token, self.write_token = service.token, service.write_token

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

        refusal = self._refusal(Request(scope))
        await (self.app if refusal is None else refusal)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            sentence = "This server does not go by that name: open the address that it printed when it was started"
            sentence += ", or start it with smoothap serve --allow-host."
            return problem(421, sentence)
        if _is_cross_site(request):
            return problem(403, "Another site may not use this server: open its own page.", close=True)
        bearer = _bearer(request)
        request.scope[MAY_WRITE] = self.write_token is not None and _same(bearer, self.write_token)
        if self.token is not None and not request.scope[MAY_WRITE] and not _same(bearer, self.token):
            return _ask_for_token(request, self.token)
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, _ = parts.hostname, parts.port  # which raises where the port is no number
        except ValueError:
            return False
        if name is None or parts.netloc != host or "@" in host:
            return False
        above = (f"*{name[place:]}" for place, letter in enumerate(name) if letter == "." and place)
        if name in self.hosts or any(pattern in self.hosts for pattern in above):
            return True
        with contextlib.suppress(ValueError):
            return self.any_address and bool(ipaddress.ip_address(name))
        return False


def _bearer(request: Request) -> str:
    """The token that a program sends with each request, as a header or, at an address of the API, in the address."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return bearer.strip()
    if not (_path(request).startswith("/api/") or _path(request) == "/metrics"):
        return ""
    if (token := request.query_params.get("token")) is None:
        return ""
    request.scope["query_string"] = _without_token(request).encode()  # nobody behind the gate asks for it, or knows it
    return token


def _without_token(request: Request) -> str:
    """What is asked for in an address, but for the token."""
    return urlencode([(name, value) for name, value in request.query_params.multi_items() if name != "token"])


def _path(request: Request) -> str:
    """The path below the one that a proxy puts before ours."""
    return get_route_path(request.scope)


def _ask_for_token(request: Request, token: str) -> Response | None:
    if any(_same(value, token) for value in _cookies(request, _cookie_name(request))):
        return None
    if _path(request) == "/" and _same(request.query_params.get("token", ""), token):
        # The address bar and the history keep the page's address without the token.
        page, others = f"{request.scope.get('root_path', '')}/", _without_token(request)
        answer = RedirectResponse(f"{page}?{others}" if others else page, 303)
        secure = request.scope.get("scheme") == "https"
        answer.set_cookie(_cookie_name(request), token, httponly=True, samesite="lax", path=page, secure=secure)
        answer.headers["cache-control"] = "no-store"
        return answer
    answer = problem(401, _NO_TOKEN, close=True)
    answer.headers["www-authenticate"] = "Bearer"
    return answer


def _cookie_name(request: Request) -> str:
    return f"{COOKIE}_{urlsplit('//' + request.headers['host']).port or 80}"


def _cookies(request: Request, wanted: str) -> list[str]:
    """The values of all cookies of a name, read one by one: what another server has set spoils none of ours."""
    pairs = [pair.partition("=") for header in request.headers.getlist("cookie") for pair in header.split(";")]
    return [value.strip().strip('"') for name, _, value in pairs if name.strip() == wanted]


def _is_cross_site(request: Request) -> bool:
    """Sent by a page of another site; a link from elsewhere to our page is none."""
    headers, reading = request.headers, request.method in ("GET", "HEAD")
    opening = reading and _path(request) == "/" and headers.get("sec-fetch-mode", "navigate") == "navigate"
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not opening:
        return True
    origin = headers.get("origin")
    if origin is None or reading:
        return False
    try:
        return urlsplit(origin).netloc != headers.get("host")
    except ValueError:  # such as half an IPv6 address
        return True


def _same(given: str, token: str) -> bool:
    """Whether a token is the right one, in a time that tells nothing about it."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))


async def may_write(request: Request) -> None:
    """Refuse a request that came without the token that may change albums: for routes that do."""
    if not request.scope.get(MAY_WRITE):
        raise HTTPException(
            403,
            "Changing albums needs the write token, as the header Authorization: Bearer TOKEN: whoever runs the server "
            "sets it as SMOOTHAP_WRITE_TOKEN.",
        )
