"""`unreadable.csv` in an album: what was not read and why, so that nobody waits for the same damage twice."""

import csv
import io
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from smoothap._core.files import write_atomically

NAME = "unreadable.csv"
_HEADER = ["path", "reason", "bytes", "modified_ns"]


class Refusal(NamedTuple):
    """Why something could not be read; size and time stand for a file that is damaged until one of them changes.

    Without them the reason may pass, such as a permission, and the file is tried again in every run.
    """

    reason: str
    bytes: int | None = None
    modified: int | None = None


def write_refusals(folder: Path, refusals: Mapping[str, Refusal]) -> None:
    """Make this the list of an album, by path; nothing is written where it is the list already."""
    file = folder / NAME
    if not refusals:
        file.unlink(missing_ok=True)
        return
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([_HEADER, *sorted([path, *refusals[path]] for path in refusals)])
    content = table.getvalue().encode(errors="surrogateescape")
    if not file.is_file() or file.read_bytes() != content:
        write_atomically(file, content)


def read_refusals(folder: Path) -> dict[str, Refusal]:
    """The list of an album by path; what is no line of ours is left out, so that it is tried again."""
    try:
        text = (folder / NAME).read_bytes().decode(errors="surrogateescape")
        header, *rows = csv.reader(io.StringIO(text, newline=""))
    except (OSError, ValueError, csv.Error):
        return {}
    known: dict[str, Refusal] = {}
    for row in rows if header == _HEADER else ():
        with suppress(ValueError, TypeError):
            path, reason, *numbers = row
            known[path] = Refusal(reason, *(int(number) if number else None for number in numbers))
    return known
