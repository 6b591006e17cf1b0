"""All analyses of a folder on one page: each figure with what it says beside the paper and the command that made it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from smoothap.plots.document import data_address, write_page
from smoothap.plots.text_table import numeric_columns

_SHARPNESS = 0.7  # of a figure's pixels on the page, so that a fine screen has something to show


@dataclass(frozen=True)
class Section:
    """One analysis that was made or saved, or the reason why there is none."""

    name: str  # the stem of its files, and its anchor
    title: str
    described: dict[str, Any]  # what NAME.json holds: command, paper, agreement, table, numbers
    figures: tuple[Path, ...] = ()  # PNG
    failure: str = ""

    def pictures(self) -> list[dict[str, Any]]:
        """The figures as addresses that hold them, and their sizes on the page."""
        pictures = []
        for path in self.figures:
            with Image.open(path) as picture:
                width, height = (round(_SHARPNESS * side) for side in picture.size)
            address = data_address(path.read_bytes(), "png")
            pictures.append({"address": address, "stem": path.stem, "width": width, "height": height})
        return pictures


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
    return write_page(
        path,
        "paper/page.html",
        title=title,
        lead=lead,
        contents={section.name: section.title for section in sections},
        sections=sections,
        numeric_columns=numeric_columns,
        command=command,
    )
