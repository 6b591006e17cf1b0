"""`unreadable.csv` in an album: the photos that could not be read, and why; they are tried again when they change."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from smoothap.files import write_atomically
from smoothap.search.walking import Found

NAME = "unreadable.csv"
_HEADER = ["path", "reason", "bytes", "modified"]


def write_unreadable(folder: Path, refused: Mapping[Found, str], not_found: Mapping[str, str]) -> None:
    """List files that could not be read, and those (links, folders) that could not even be looked at."""
    rows = [[found.path, reason, str(found.bytes), str(found.modified)] for found, reason in refused.items()]
    rows += [[path, reason, "", ""] for path, reason in not_found.items()]
    file = folder / NAME
    if not rows:
        file.unlink(missing_ok=True)
        return
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(_HEADER)
    writer.writerows(sorted(rows))
    content = table.getvalue().encode(errors="surrogateescape")
    if not file.is_file() or file.read_bytes() != content:
        write_atomically(file, content)


def read_unreadable(folder: Path) -> dict[Found, str]:
    """The files listed before, by path, size and time; whatever the list does not say is tried again."""
    try:
        text = (folder / NAME).read_bytes().decode(errors="surrogateescape")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, csv.Error):
        return {}
    known: dict[Found, str] = {}
    for row in rows[1:]:
        if len(row) == 4 and row[2].isdecimal() and row[3].isdecimal():
            known[Found(row[0], int(row[2]), int(row[3]))] = row[1]
    return known
