"""Which photos of an album are looked at: by folder, words, date, camera and collection; chosen first, then ranked."""

from __future__ import annotations

import os
import re
from calendar import monthrange
from dataclasses import dataclass, fields
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothap.album.photos import Photos, plain_letters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from smoothap.album.collections import Collections

_NAMED = 5  # cameras or folders that an error names


@dataclass(frozen=True)
class Filter:
    """What a photo has to be for a search to look at it; all that is given has to hold.

    >>> where = Filter(folder="holidays/2023", since=date(2023, 7, 1), camera="iPhone")

    `folder` is relative to the photo folder and counts with all folders in it. `text` is words that all occur in the
    photo's path, in any case of letters and with or without accents. `since` and `until` are days, both counted in, by
    the camera's clock or, where it says nothing, by the file's name or its own time; a photo without a date is in no
    range of dates. `camera` is a whole name, or a part of some names, in any case of letters. `collection` is the name
    or key of one that the photo belongs to. `columns` are pairs of a column of the album's table and the value that it
    has to have.
    """

    folder: str | None = None
    text: str | None = None
    since: date | None = None
    until: date | None = None
    camera: str | None = None
    collection: str | int | None = None
    in_no_collection: bool = False
    columns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Filter:
        """The filter that a dict describes: names that a filter has, and columns of the album's table for all others.

        >>> Filter.of({"folder": "shoes", "brand": "acme"}).columns
        (('brand', 'acme'),)
        """
        own = {field.name for field in fields(cls)} - {"columns"}
        given = {name: value for name, value in values.items() if name in own}
        return cls(**given, columns=tuple((name, str(value)) for name, value in values.items() if name not in own))

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) != field.default for field in fields(self))

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since > self.until:
            raise ValueError(f"No day is after {self.since} and before {self.until}: give the earlier one first.")
        if self.collection is not None and self.in_no_collection:
            raise ValueError("A photo that is in no collection is not in one: give one of the two.")

    def passing(self, photos: Photos, collections: Callable[[], Collections]) -> np.ndarray:
        """Which rows pass, (n,) bool; what no photo of the album has is an error that says what there is."""
        keep = np.ones(len(photos), bool)
        if self.folder is not None:
            keep &= in_folder(photos, self.folder)
        if self.text is not None:
            words = plain_letters(self.text).split()
            keep &= np.array([all(word in path for word in words) for path in photos.search_texts], bool)
        if self.since is not None or self.until is not None:
            keep &= _taken_between(photos, self.since, self.until)
        if self.camera is not None:
            keep &= _by_camera(photos, self.camera)
        if self.collection is not None:
            keep &= photos.rows_with(collections().ids_in(self.collection))
        if self.in_no_collection:
            keep &= ~photos.rows_with(collections().ids_in(None))
        for name, value in self.columns:
            keep &= _in_column(photos, name, value)
        return keep


def day(text: str, *, last: bool = False) -> date:
    """A day in words, such as 2024-06-01; of a month (2024-06) or a year (2024), the first day or the last one."""
    parts = re.fullmatch(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?", text.strip())
    try:
        if parts is None:
            raise ValueError
        year, month, number = (None if part is None else int(part) for part in parts.groups())
        assert year is not None
        month = month or (12 if last else 1)
        return date(year, month, number or (monthrange(year, month)[1] if last else 1))
    except ValueError:
        raise ValueError(f"A day is 2024-06-01, a month 2024-06 and a year 2024, not {text!r}.") from None


def in_folder(photos: Photos, folder: str) -> np.ndarray:
    """Which rows are in a folder below the photo folder, or in one inside it. (n,) bool"""
    parts = [part for part in folder.replace(os.sep, "/").split("/") if part not in ("", ".")]
    if ".." in parts or os.path.isabs(folder):  # noqa: PTH117 (a folder of the album, not of this machine)
        raise ValueError(f"A folder is given relative to the photo folder, such as holidays/2023, not {folder!r}.")
    if not parts:
        return np.ones(len(photos), bool)
    name = os.fsencode("/".join(parts))
    inside = photos.having("folder", name) | photos.having("folder", name + b"/", name + b"0")  # "0" comes after "/"
    if len(photos) and not inside.any():
        there = ", ".join(repr(name) for name in folders_of(photos)[:_NAMED])
        raise ValueError(f"No photo of the album is in the folder {folder!r}: it has {there or 'no folders'}.")
    return inside


def folders_of(photos: Photos) -> list[str]:
    """All folders that photos are in, below the photo folder, and those above them, in order."""
    direct = {os.fsdecode(place) for place in photos.counts("folder")}
    folders = set(direct)
    for folder in direct:
        while folder := folder.rpartition("/")[0]:
            folders.add(folder)
    return sorted(folders - {""})


def cameras_of(photos: Photos) -> dict[str, int]:
    """How many photos there are by each camera that is known, in the order of their names."""
    known = {name.decode(): number for name, number in photos.counts("camera").items()}
    return dict(sorted(known.items(), key=lambda item: item[0].lower()))


def days_of(photos: Photos) -> tuple[date, date] | None:
    """The first and the last day of a photo; None where nothing is known of any."""
    days = [day.decode() for day in photos.counts("day") if day]
    return (date.fromisoformat(days[0]), date.fromisoformat(days[-1])) if days else None


def undated(photos: Photos) -> int:
    """How many photos there are of which no date is known."""
    return photos.counts("day").get(b"", 0)


def _taken_between(photos: Photos, since: date | None, until: date | None) -> np.ndarray:
    first = b"0" if since is None else since.isoformat().encode()
    last = b"~" if until is None else until.isoformat().encode() + b"~"  # which comes after all that a day can be
    return photos.having("day", first, last)


def _by_camera(photos: Photos, wanted: str) -> np.ndarray:
    """Which rows are by the camera of this name or, where no camera is called so, by those with this in their name."""
    names, word = list(cameras_of(photos)), wanted.strip().lower()
    chosen = [name for name in names if name.lower() == word] or [name for name in names if word in name.lower()]
    if not chosen or not word:
        there = ", ".join(names[:_NAMED]) + (" and others" if len(names) > _NAMED else "")
        raise ValueError(f"No photo of the album is by a camera {wanted!r}: it has {there or 'none that is known'}.")
    return np.logical_or.reduce([photos.having("camera", name.encode()) for name in chosen])


def _in_column(photos: Photos, name: str, value: str) -> np.ndarray:
    """Which rows have a value in a column of the user's table, or as `label`; "" is that of those without any."""
    key = photos.key_of(name)
    if value:
        return photos.having(key, value.encode(errors="surrogatepass"))
    return ~photos.having(key, b"\0", b"\xff")  # no text begins with this byte
