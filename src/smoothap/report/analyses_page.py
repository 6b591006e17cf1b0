"""All analyses of a folder on one page: each figure with what it says beside the paper and the command that made it."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from smoothap.files import write_atomically
from smoothap.report.document import document
from smoothap.report.markup import Markup, element, joined, named

_ROWS_SHOWN = 12  # a longer table is folded up
_SHARPNESS = 0.7  # of a figure's pixels on the page, so that a fine screen has something to show


@dataclass(frozen=True)
class Section:
    """One analysis as it was saved, or the reason why there is none."""

    name: str  # the stem of its files, and its anchor
    title: str
    described: dict[str, Any]  # what NAME.json holds: command, paper, agreement, table, numbers
    figures: tuple[Path, ...] = ()  # PNG
    failure: str = ""


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
    return Section(name, name.replace("-", " ").capitalize(), {}, failure=reason)


def write_analyses_page(path: Path, sections: Sequence[Section], *, title: str, command: str) -> Path:
    """Write one HTML file that needs nothing else: contents, and a section for each analysis."""
    links = [
        element("li", element("a", each.title, href=f"#{each.name}"), " (not made)" if each.failure else "")
        for each in sections
    ]
    made = sum(not each.failure for each in sections)
    introduction = (
        f"{made} of {len(sections)} analyses. Beside each figure: what the paper reports, and whether ours agrees."
    )
    content = [
        element("a", "Skip to the analyses", href="#analyses", class_="skip"),
        element("header", element("h1", named(title)), element("p", introduction, class_="lead")),
        element("nav", element("ol", *links, class_="contents"), aria_label="Contents"),
        element("main", *(_section(each) for each in sections), id="analyses"),
        element("section", element("h2", "This page"), _command(command), id="command"),
    ]
    return write_atomically(path, document(title, *content))


def _section(section: Section) -> Markup:
    if section.failure:
        body = element("p", element("b", "Not made: "), section.failure, class_="failure")
        return element("section", element("h2", section.title), body, id=section.name)
    described = section.described
    told = [
        element("dt", "Paper"),
        element("dd", str(described.get("paper", ""))),
        element("dt", "Ours"),
        element("dd", str(described.get("agreement", ""))),
    ]
    return element(
        "section",
        element("h2", section.title),
        *(_figure(path, section.title) for path in section.figures),
        element("dl", *told, class_="told"),
        _table(described.get("table")),
        _command(str(described.get("command", ""))),
        element("p", f"All numbers: {section.name}.json beside this page.", class_="note"),
        id=section.name,
    )


def _figure(path: Path, title: str) -> Markup:
    with Image.open(path) as picture:
        width, height = (round(_SHARPNESS * side) for side in picture.size)
    address = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    words = f"Figure: {title} ({path.stem})"
    return element("figure", element("img", src=address, alt=words, width=width, height=height), class_="drawn")


def _table(rows: list[dict[str, Any]] | None) -> Markup:
    if not rows:
        return Markup("")
    names = list(dict.fromkeys(name for row in rows for name in row))
    numeric = {name for name in names if all(not isinstance(row.get(name), str) for row in rows)}
    head = element(
        "tr", *(element("th", name, scope="col", **({"class_": "number"} if name in numeric else {})) for name in names)
    )
    lines = [element("tr", *(_cell(row.get(name), name in numeric) for name in names)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *lines), class_="numbers")
    scrolled = element("div", table, class_="wide", tabindex=0)
    if len(rows) <= _ROWS_SHOWN:
        return scrolled
    return element("details", element("summary", f"Table of {len(rows)} rows"), scrolled)


def _cell(value: Any, numeric: bool) -> Markup:
    if value is None:
        text = "–"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:,.4g}".replace("-", "−")
    else:
        text = joined(named(str(value)))
    return element("td", text, **({"class_": "number"} if numeric else {}))


def _command(command: str) -> Markup:
    return element("pre", element("code", command), tabindex=0)
