"""Answers that say what is wrong in a sentence, and the headers that every answer carries."""

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

# Scripts, styles and pictures from here alone; no frame around the page; nothing from any other host.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class ErrorAnswer(BaseModel):
    """What every error looks like: one sentence that names the cause and the remedy."""

    error: str


def error_response(status: int, sentence: str, *, close: bool = False) -> Response:
    """An error as JSON; `close` ends the connection, for a request whose body was not read to its end."""
    headers = {"cache-control": "no-store"}
    if close:
        headers["connection"] = "close"
    if status == 503:
        headers["retry-after"] = "1"
    return JSONResponse({"error": sentence}, status, headers)
