"""From photos to the codes of their parts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smoothap._core.memory import freed_memory_kept
from smoothap._core.progress import Progress
from smoothap.album.prepare import Read, in_order
from smoothap.album.regions import ENOUGH, Basis, RegionStore
from smoothap.data.reading import read_image
from smoothap.models.regions import PARTS, Size, View, region_vectors, region_view, seconds_a_photo, usual_size

if TYPE_CHECKING:
    from PIL import Image

    from smoothap.album.store import Store
    from smoothap.album.walk import PhotoFile
    from smoothap.models import Embedder

_GROWN = 4  # times as many photos as a basis of few was learnt from: then it is learnt again
_FEWEST = 32  # photos that are worth saying what they cost


class RegionCoder:
    """Describes the parts of photos by a model, codes them by the basis of an album, and keeps them."""

    title = "Describing parts"

    def __init__(self, model: Embedder, size: int, store: RegionStore) -> None:
        self._model, self._size, self._store, self._basis = model, size, store, store.basis()
        self._free = store.free_slots()
        self.enough_pixels = size  # on the shorter side of a photo

    def look(self, picture: Image.Image, size: Size, sha256: bytes) -> View:
        """What the network is given of a picture, of a photo of that size."""
        return region_view(picture, self._size, size)

    def described(self, seen: Sequence[View]) -> list[np.ndarray]:
        """The codes of the parts of each photo, (PARTS, bytes) int8."""
        return list(self._basis.coded(region_vectors(self._model, seen)))

    def lacking(self, contents: Mapping[int, bytes]) -> set[int]:
        """The photos whose parts are not there."""
        seen = self._store.seen()
        return {photo for photo, sha256 in contents.items() if seen.get(photo) != sha256}

    def put(self, found: Mapping[int, tuple[bytes, np.ndarray]]) -> int:
        """Keep the codes of photos."""
        self._store.put(found, self._free)
        return 0


def begin_regions(
    store: Store, model: Embedder, read: Read, files: Sequence[PhotoFile], size: int | None, *, progress: bool = True
) -> RegionCoder | None:
    """Have the parts of an album's photos kept from now on, of views of `size`; None as long as there is no photo.

    The basis is learnt from some of the files, unless the album has one by now. What it costs is said before it begins.
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
            _say_cost(model, size, len(files) - len(regions.seen()), known.bytes_a_photo, shown=progress)
            return RegionCoder(model, size, regions)
    size = usual_size(model) if size is None else size
    if not 32 <= size <= 4096:
        raise ValueError(f"--region-size is the side of a view in pixels, from 32 to 4096, not {size}.")
    region_vectors(model, [region_view(_blank(size), size)])  # a network that cannot do it says so before anything else
    _say_cost(model, size, len(files), PARTS * (min(256, model.dimension) + 4), shown=progress)
    some = [files[place] for place in np.unique(np.linspace(0, len(files) - 1, ENOUGH).astype(int))] if files else []
    vectors = [np.empty((0, model.dimension), np.float32)]
    with freed_memory_kept(), Progress("Learning how parts differ", len(some), "photos", shown=progress) as line:
        for view in in_order(lambda file: _view_of(read, file, size), some, workers=2):
            if view is not None:
                vectors.append(region_vectors(model, [view])[0])
            line.advance()
    if len(vectors) == 1:
        return None
    regions = RegionStore(store.folder, create=True)
    regions.begin(uid, size, Basis.learnt(np.concatenate(vectors)), len(vectors) - 1)
    return RegionCoder(model, size, regions)


def _blank(size: int) -> Image.Image:
    from PIL import Image

    return Image.new("RGB", (size, size))


def _view_of(read: Read, file: PhotoFile, size: int) -> View | None:
    try:
        return region_view(read_image(read(file), shorter_side=size), size)
    except (ValueError, OSError, MemoryError):  # which indexing reports
        return None


def _say_cost(model: Embedder, size: int, photos: int, bytes_a_photo: int, *, shown: bool) -> None:
    if not shown or photos < _FEWEST:
        return
    seconds = seconds_a_photo(model, size)
    print(
        f"Regions: {PARTS} parts of a photo take {1000 * seconds:.0f} ms of the network and {bytes_a_photo:,} bytes. "
        f"For {photos:,} photos that is about {_duration(photos * seconds)} and {photos * bytes_a_photo / 1e6:,.0f} MB "
        "more than without.",
        file=sys.stderr, flush=True,
    )  # fmt: skip


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
