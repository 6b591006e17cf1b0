"""The answers to a search as one HTML file that needs nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smoothap.plots.document import data_address, write_page


@dataclass(frozen=True)
class Answer:
    """One photo that was found; `picture` is its JPEG, or None where it cannot be shown."""

    rank: int
    score: float
    path: str
    label: str | None
    picture: bytes | None

    @property
    def address(self) -> str:
        return data_address(self.picture, "jpeg") if self.picture else ""


def write_hits(path: Path, queries: Sequence[str], answers: Sequence[Answer], note: str = "") -> Path:
    """Write a page of thumbnails, ranked, with the score of each."""
    names = [Path(name).name for name in queries]
    title = "Photos like " + ", ".join(names)
    return write_page(path, "plots/hits.html", title=title, names=names, answers=answers, note=note)
