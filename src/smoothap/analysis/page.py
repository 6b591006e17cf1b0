"""All analyses of a folder on one page: each figure with what it says beside the paper and the command that made it."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from smoothap.analysis.analysis import Analysis
from smoothap.files import write_atomically
from smoothap.report.document import code, report_page, table
from smoothap.report.markup import Markup, element, joined, named
from smoothap.report.text_table import cell, numeric_columns

_ROWS_SHOWN = 12  # a longer table is folded up
_SHARPNESS = 0.7  # of a figure's pixels on the page, so that a fine screen has something to show


@dataclass(frozen=True)
class Section:
    """One analysis that was made or saved, or the reason why there is none."""

    name: str  # the stem of its files, and its anchor
    title: str
    described: dict[str, Any]  # what NAME.json holds: command, paper, agreement, table, numbers
    figures: tuple[Path, ...] = ()  # PNG
    failure: str = ""


def made_section(analysis: Analysis, paths: Sequence[Path]) -> Section:
    """The analysis with the files that it was saved to."""
    figures = tuple(path for path in paths if path.suffix == ".png")
    return Section(analysis.name, analysis.title, analysis.described(), figures)


def saved_section(folder: Path, name: str) -> Section | None:
    """The analysis that was saved under a name in a folder, or None."""
    try:
        described = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        title = str(described["title"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    alone = folder / f"{name}.png"
    figures = [*([alone] if alone.exists() else []), *sorted(folder.glob(f"{name}-*.png"))]
    return Section(name, title, described, tuple(figures))


def failed_section(name: str, reason: str) -> Section:
    """The place of an analysis that could not be made."""
    return Section(name, f"{name.replace('-', ' ').capitalize()} (not made)", {}, failure=reason)


def write_analyses_page(path: Path, sections: Sequence[Section], *, title: str, command: str) -> Path:
    """Write one HTML file that needs nothing else: contents, and a section for each analysis."""
    made = sum(not section.failure for section in sections)
    lead = f"{made} of {len(sections)} analyses. Beside each figure: what the paper reports, and whether ours agrees."
    parts = [(section.name, section.title, _content(section)) for section in sections]
    return write_atomically(path, report_page(title, [lead], parts, command))


def _content(section: Section) -> Markup:
    if section.failure:
        return element("p", element("b", "Not made: "), section.failure, class_="failure")
    described = section.described
    claims = [
        element("dt", "Paper"),
        element("dd", str(described.get("paper", ""))),
        element("dt", "Ours"),
        element("dd", str(described.get("agreement", ""))),
    ]
    return joined(
        *(_figure(path, section.title) for path in section.figures),
        element("dl", *claims, class_="claims"),
        _table(described.get("table") or []),
        code(str(described.get("command", ""))),
        element("p", f"All numbers: {section.name}.json beside this page.", class_="note"),
    )


def _figure(path: Path, title: str) -> Markup:
    with Image.open(path) as picture:
        width, height = (round(_SHARPNESS * side) for side in picture.size)
    address = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    words = f"Figure: {title} ({path.stem})"
    return element("figure", element("img", src=address, alt=words, width=width, height=height), class_="drawn")


def _table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    if not rows:
        return Markup("")
    looks = {name: {"class_": "number"} if numeric else {} for name, numeric in numeric_columns(rows).items()}
    head = [element("th", name, scope="col", **look) for name, look in looks.items()]
    lines = [
        element("tr", *(element("td", named(cell(row.get(name))), **look) for name, look in looks.items()))
        for row in rows
    ]
    numbers = table(head, lines)
    return (
        numbers
        if len(rows) <= _ROWS_SHOWN
        else element("details", element("summary", f"Table of {len(rows)} rows"), numbers)
    )
