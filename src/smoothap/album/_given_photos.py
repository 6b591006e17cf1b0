"""The photos that an album is made of, as a user gives them: a folder, a table, shards, or an address."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from smoothap.album._labels import read_labels
from smoothap.album._photo_table import TABLES, PhotoTable, read_photo_table
from smoothap.album.prepare import Read
from smoothap.album.sources import Source, open_source
from smoothap.album.update import Columns, Labels
from smoothap.album.walk import Walk, look_at, walk


@dataclass(frozen=True, eq=False)
class GivenPhotos:
    """Where photos lie and what is said of them; `root` is None where no folder of this machine holds them."""

    root: Path | None
    labels: Labels | None
    unknown: list[str] = field(default_factory=list)  # paths of a table that name no photo
    table: PhotoTable | None = None
    source: Source | None = None

    @classmethod
    def open(cls, photos: str, labels: str | None, columns: str | None) -> GivenPhotos:
        """What the user's words stand for; `columns` says what the columns of a table are called."""
        if (source := open_source(photos)) is not None:
            if columns is not None:
                raise ValueError("--columns names the columns of a table of paths: leave it out.")
            return cls(None, None if labels is None else read_labels(labels, None)[0], source=source)
        place = Path(photos)
        if place.suffix.lower() not in TABLES or place.is_dir():
            if columns is not None and (labels is None or labels == "folders"):
                raise ValueError("--columns names the columns of a table: give one as the photos, or as --labels.")
            label_of, unknown = (None, list[str]()) if labels is None else read_labels(labels, place, columns)
            return cls(place, label_of, unknown)
        if labels is not None:
            raise ValueError(f"{place} lists the photos and their labels too: leave --labels out, or see --columns.")
        table = read_photo_table(place, columns)
        return cls(table.root, table.label if table.labelled else None, table.missing, table)

    @property
    def columns(self) -> Columns | None:
        """What else a table says of a photo."""
        return None if self.table is None else self.table.columns

    @property
    def read(self) -> Read | None:
        """What reads a photo that is in no folder."""
        return None if self.source is None else self.source.read

    def walk(self, album: Path | None = None) -> Walk:
        """All photos, and what cannot be read; the album's own folder is left out."""
        if self.source is not None:
            return self.source.walk()
        assert self.root is not None
        return walk(self.root, album) if self.table is None else look_at(self.root, self.table.rows)
