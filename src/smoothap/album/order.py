"""The photos of an album in an order to browse them by, in sections: months, folders or first letters."""

import os
from dataclasses import dataclass
from datetime import date
from typing import Literal

import numpy as np

from smoothap.album.photos import Photos, plain_letters

By = Literal["newest", "oldest", "name", "folder"]
WITHOUT_DATE = "Without a date"


@dataclass(frozen=True, eq=False)
class Order:
    """The place of each row (n,), the section that it is in (n,), and the titles of the sections, in order."""

    place: np.ndarray
    section: np.ndarray
    titles: tuple[str, ...]

    def sorted(self, rows: np.ndarray) -> np.ndarray:
        """Some rows in this order."""
        return rows[np.argsort(self.place[rows])]

    def sections(self, rows: np.ndarray) -> list[tuple[str, int, int]]:
        """The sections of some rows in this order: the title of each, where it starts, and how many rows it has."""
        starts = np.flatnonzero(np.diff(self.section[rows], prepend=-1))
        numbers = np.diff(starts, append=len(rows)).tolist()
        titles = [self.titles[number] for number in self.section[rows[starts]].tolist()]
        return list(zip(titles, starts.tolist(), numbers, strict=True))


def order_of(photos: Photos, by: By) -> Order:
    """The order of an album's photos by their dates, by the names of their files, or by folder and name.

    Photos without a date come last. The title of a section is a month, a folder ("" for the photo folder itself), or a
    letter.
    """
    rows, keys = _by_date(photos, newest=by == "newest") if by in ("newest", "oldest") else _by_path(photos, by)
    begins = np.ones(len(rows), bool)
    begins[1:] = keys[1:] != keys[:-1]
    place, section = np.empty_like(rows), np.empty_like(rows)
    place[rows], section[rows] = np.arange(len(rows)), np.cumsum(begins) - 1
    return Order(place, section, tuple(map(str, keys[begins])))


def _by_date(photos: Photos, *, newest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The rows in order (n,), and the month of each."""
    found = photos.times()
    known = np.array([seconds is not None for seconds in found], bool)
    times = np.array([seconds or 0 for seconds in found], np.int64)
    sign = -1 if newest else 1
    rows = np.lexsort((sign * photos.ids, sign * times, ~known))
    months, which = np.unique(times[rows].astype("datetime64[s]").astype("datetime64[M]"), return_inverse=True)
    titles = np.array([f"{date.fromisoformat(f'{month}-01'):%B %Y}" for month in months], object)
    return rows, np.where(known[rows], titles[which], WITHOUT_DATE)


def _by_path(photos: Photos, by: By) -> tuple[np.ndarray, np.ndarray]:
    """The rows in order (n,), and the folder or the first letter of each."""
    folders, names = zip(*(os.path.split(path) for path in photos.paths()), strict=True) if len(photos) else ((), ())
    letters = [plain_letters(name) for name in names]
    if by == "name":
        rows = sorted(range(len(names)), key=lambda row: (letters[row], folders[row]))
        keys = [letters[row][:1].upper() for row in rows]
    else:
        above = {folder: (plain_letters(folder).split("/"), folder) for folder in set(folders)}
        rows = sorted(range(len(names)), key=lambda row: (above[folders[row]], letters[row]))
        keys = [folders[row] for row in rows]
    return np.array(rows, np.int64), np.array(keys, object)
