"""Parts of an album as work for other processes, here or on other machines: plain values, and one call for a part."""

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from smoothap._core.files import write_atomically
from smoothap.album._given_photos import GivenPhotos
from smoothap.album.album import Album
from smoothap.album.parts import PARTS, PartUpdate, Share
from smoothap.album.updating import UpdateReport
from smoothap.album.walking import PhotoFile, Walk

PHOTOS_A_PART = 4096
_LISTINGS = f"{PARTS}/listings"


@dataclass(frozen=True)
class PartWork:
    """An album whose missing photos are computed in `of` parts; what falls to each was listed beforehand."""

    photos: str
    out: str
    of: int
    labels: str | None = None
    columns: str | None = None
    device: str | None = None
    readers: int | None = None

    @cached_property
    def _given(self) -> GivenPhotos:
        return GivenPhotos.open(self.photos, self.labels, self.columns)

    @cached_property
    def _album(self) -> Album:
        return Album.open(self.out, root=self._given.root, device=self.device)

    def compute(self, number: int) -> UpdateReport:
        """Compute one part, and count it in; what is missing was approved of by whoever listed it."""
        out, given = Path(self.out), self._given
        return PartUpdate(
            out, self._album.embedder, given.root, Share(number, self.of), _read(_file(out, number)), given.labels,
            remove_missing=True, readers=self.readers, progress=False, apart=False,
            read=given.read, columns=given.columns,
        ).run()  # fmt: skip


def write_listings(out: Path, walk: Walk, of: int) -> None:
    """Say which files fall to each of that many parts, so that nobody else need walk through all of them."""
    shutil.rmtree(out / _LISTINGS, ignore_errors=True)
    parts = [Walk(unreadable=walk.unreadable) for _ in range(of)]
    shares = [Share(number, of) for number in range(1, of + 1)]
    for file in walk.files:
        parts[shares[0].place(file.path)].files.append(file)
    for path, reason in walk.others.items():
        parts[shares[0].place(path)].others[path] = reason
    for number, part in enumerate(parts, start=1):
        values = {"files": part.files, "unreadable": part.unreadable, "others": part.others}
        write_atomically(_file(out, number), json.dumps(values))


def remove_listings(out: Path) -> None:
    """Leave nothing behind of parts that are all there."""
    shutil.rmtree(out / _LISTINGS, ignore_errors=True)


def _file(out: Path, number: int) -> Path:
    return out / _LISTINGS / f"{number:06d}.json"


def _read(file: Path) -> Walk:
    values = json.loads(file.read_text(encoding="utf-8"))
    return Walk([PhotoFile(*each) for each in values["files"]], values["unreadable"], values["others"])
