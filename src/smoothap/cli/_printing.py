"""What commands print: tables before and after, and names from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothap.report.text_table import text_table

if TYPE_CHECKING:
    from smoothap.metrics import Report


def comparison(before: Report, after: Report) -> str:
    """The metrics before and after training and how far apart they are, in per cent."""
    old, new = before.main_metrics(), after.main_metrics()
    rows = {
        "before": {name: f"{100 * value:.1f}" for name, value in old.items()},
        "after": {name: f"{100 * value:.1f}" for name, value in new.items()},
        "gained": {name: f"{100 * (value - old[name]):+.1f}" for name, value in new.items()},
    }
    table = text_table([{"": name, **row} for name, row in rows.items()], text=[""])
    return f"{table}\n{after.about_copies()}".rstrip()


def printable(text: str) -> str:
    """Text from a file name for a terminal: what would move the cursor or turn the line around is spelled out."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
