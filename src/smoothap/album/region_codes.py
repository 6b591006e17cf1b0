"""From photos to the codes of their parts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothap._core.memory import freed_memory_kept
from smoothap._core.progress import Progress
from smoothap.album.prepare import Read, in_order
from smoothap.album.regions import ENOUGH, Basis, RegionStore
from smoothap.data.reading import read_image
from smoothap.models.regions import (
    PARTS,
    Size,
    View,
    pooled,
    region_vectors,
    region_view,
    seconds_a_photo,
    usual_size,
    whole_view,
)

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from smoothap.album.store import Store
    from smoothap.album.walk import PhotoFile
    from smoothap.data.transforms import Transform
    from smoothap.models import Embedder

_GROWN = 4  # times as many photos as a basis of few was learnt from: then it is learnt again
_FEWEST = 32  # photos that are worth saying what they cost


@dataclass(frozen=True)
class _Views:
    """What the network is given for the parts of photos: views of a size, or by a transform those of whole photos."""

    size: int
    transform: Transform | None = None

    @classmethod
    def by(cls, model: Embedder, size: int) -> _Views:
        """Of the size of the network's own views, these are taken."""
        return cls(size, model.transform if size == model.transform.size else None)

    @property
    def enough_pixels(self) -> int:
        """On the shorter side of a picture."""
        return self.size if self.transform is None else self.transform.enough_pixels(train=False)

    def of(self, picture: Image.Image, size: Size | None = None) -> View:
        """Of a picture, of a photo of that size."""
        if self.transform is None:
            return region_view(picture, self.size, size)
        return whole_view(picture, self.transform, size)


class RegionCoder:
    """Describes the parts of photos by a model, codes them by the basis of an album, and keeps them."""

    title = "Describing parts"

    def __init__(self, model: Embedder, views: _Views, store: RegionStore) -> None:
        self._model, self._views, self._store, self._basis = model, views, store, store.basis()
        self._free = store.free_slots()
        self.enough_pixels, self.takes_maps = views.enough_pixels, views.transform is not None

    def look(self, picture: Image.Image, size: Size, sha256: bytes) -> View:
        """What the network is given of a picture, of a photo of that size."""
        return self._views.of(picture, size)

    def described(self, seen: Sequence[View], maps: Tensor | None = None) -> list[np.ndarray]:
        """The codes of the parts of each photo, (PARTS, bytes) int8."""
        if maps is None or not self.takes_maps:
            return list(self._basis.coded(region_vectors(self._model, seen)))
        return list(self._basis.coded(pooled(self._model, maps, [size for _, size in seen])))

    def lacking(self, contents: Mapping[int, bytes]) -> set[int]:
        """The photos whose parts are not there."""
        seen = self._store.seen()
        return {photo for photo, sha256 in contents.items() if seen.get(photo) != sha256}

    def put(self, found: Mapping[int, tuple[bytes, np.ndarray]]) -> int:
        """Keep the codes of photos."""
        self._store.put(found, self._free)
        return 0


def begin_regions(
    store: Store,
    model: Embedder,
    read: Read,
    files: Sequence[PhotoFile],
    size: int | None,
    *,
    embeds: bool = True,
    progress: bool = True,
) -> RegionCoder | None:
    """Have the parts of an album's photos kept from now on, of views of `size`; None as long as there is no photo.

    The basis is learnt from some of the files, unless the album has one by now. What it costs is said before it begins:
    less where this process `embeds` the photos that are new, and one pass can do both.
    """
    uid, regions = store.settings().uid, RegionStore(store.folder) if RegionStore.is_in(store.folder) else None
    known = None if regions is None else regions.settings()
    if regions is not None and known is not None and known.uid == uid:
        if size not in (None, known.size):
            raise ValueError(
                f"The parts of this album are described at a size of {known.size}, not {size}: delete {regions.folder} "
                "to describe them again."
            )
        size = known.size
        if known.learnt_from >= ENOUGH or len(files) < _GROWN * known.learnt_from:
            if progress:
                seen = len(regions.seen())
                passes = len(store.paths() if embeds else files) - seen
                _say_cost(model, _Views.by(model, size), len(files) - seen, passes, known.bytes_a_photo)
            return RegionCoder(model, _Views.by(model, size), regions)
    size = usual_size(model) if size is None else size
    if not 32 <= size <= 4096:
        raise ValueError(f"--region-size is the side of a view in pixels, from 32 to 4096, not {size}.")
    views = _Views.by(model, size)
    region_vectors(model, [views.of(_blank(size, size))])  # a network that cannot do it says so before anything else
    if progress:
        passes = len(store.paths() if embeds else files)
        _say_cost(model, views, len(files), passes, PARTS * (min(256, model.dimension) + 4))
    some = [files[place] for place in np.unique(np.linspace(0, len(files) - 1, ENOUGH).astype(int))] if files else []
    vectors = [np.empty((0, model.dimension), np.float32)]
    with freed_memory_kept(), Progress("Learning how parts differ", len(some), "photos", shown=progress) as line:
        for view in in_order(lambda file: _view_of(read, file, views), some, workers=2):
            if view is not None:
                vectors.append(region_vectors(model, [view])[0])
            line.advance()
    if len(vectors) == 1:
        return None
    regions = RegionStore(store.folder, create=True)
    transform = None if views.transform is None else views.transform.to_dict()
    regions.begin(uid, size, Basis.learnt(np.concatenate(vectors)), len(vectors) - 1, transform)
    return RegionCoder(model, views, regions)


def _blank(width: int, height: int) -> Image.Image:
    from PIL import Image

    return Image.new("RGB", (width, height))


def _view_of(read: Read, file: PhotoFile, views: _Views) -> View | None:
    try:
        return views.of(read_image(read(file), shorter_side=views.enough_pixels))
    except (ValueError, OSError, MemoryError):  # which indexing reports
        return None


def _say_cost(model: Embedder, views: _Views, photos: int, passes: int, bytes_a_photo: int) -> None:
    """For photos whose parts are wanted; so many are not embedded as a whole now."""
    if photos < _FEWEST:
        return
    alone, behind_another = seconds_a_photo(model, views.of(_blank(4 * views.size, 3 * views.size)))
    passes = photos if views.transform is None else min(passes, photos)
    seconds = passes * alone + (photos - passes) * behind_another
    print(
        f"Regions: {PARTS} parts of a photo take {1000 * seconds / photos:.0f} ms of the network and "
        f"{bytes_a_photo:,} bytes. For {photos:,} photos that is about {_duration(seconds)} and "
        f"{photos * bytes_a_photo / 1e6:,.0f} MB more than without.",
        file=sys.stderr, flush=True,
    )  # fmt: skip


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
