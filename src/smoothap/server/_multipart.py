"""Forms with files, as browsers and curl -F send them, from a body that is in memory already."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

_NAME, _FILE_NAME = (
    re.compile(rf'(?:^|;)\s*{word}="((?:[^"\\]|\\.)*)"', re.IGNORECASE) for word in ("name", "filename")
)
_ENCODED_FILE_NAME = re.compile(r"(?:^|;)\s*filename\*=utf-8''([^\s;\"]+)", re.IGNORECASE)  # RFC 5987
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,70})"|([^\s;,"]{1,70}))', re.IGNORECASE)
_MOST_PARTS = 1_000


@dataclass(frozen=True)
class Part:
    """One field of a form; `filename` is None where it is no file."""

    name: str
    filename: str | None
    content: bytes


def form_parts(content_type: str, body: bytes) -> list[Part]:
    """The fields of a multipart/form-data body, in order (RFC 7578)."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise ValueError("The form names no boundary: send it as multipart/form-data, such as curl -F does.")
    line = b"--" + (found[1] or found[2]).encode("latin-1")
    pieces = (b"\r\n" + body).split(b"\r\n" + line, _MOST_PARTS)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise ValueError("The form is cut off, or has too many parts: send it again, with fewer.")
    return [_part(piece) for piece in pieces[1:-1]]


def _part(piece: bytes) -> Part:
    head, blank, content = piece.partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").split("\r\n")
    disposition = next((line for line in lines if line.lower().startswith("content-disposition:")), "")
    name, filename = (pattern.search(disposition) for pattern in (_NAME, _FILE_NAME))
    if not blank or name is None:
        raise ValueError("A part of the form has no name: send each as name=value, such as curl -F does.")
    if encoded := _ENCODED_FILE_NAME.search(disposition):
        return Part(name[1], unquote(encoded[1], errors="replace"), content)
    return Part(name[1], None if filename is None else filename[1], content)
