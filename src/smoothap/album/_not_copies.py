"""`not_copies.json` in an album: photos that look alike and that the user says are no copies of each other.

It is in the folder of the collections and shares their lock. Photos are remembered by their content, so that what was
said holds when they are moved, and not when they are edited.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path

from smoothap._core.files import ChecksummedJson
from smoothap.album._collection_file import writing
from smoothap.album.photos import Photo

NAME = "not_copies.json"
_SEALED = ChecksummedJson(
    "which photos are no copies",
    {"pairs": list},
    "Copy it again from where you have another copy, or move it away to begin with none.",
)

Told = frozenset[tuple[str, str]]  # pairs of keys, each in order


def pair_of(one: Photo, other: Photo) -> tuple[str, str]:
    """Two photos as they are remembered: by content, or by path where that is the same or nobody has read it."""
    by_content = one.sha256 and other.sha256 and one.sha256 != other.sha256
    first, second = sorted((one.sha256, other.sha256) if by_content else (one.path, other.path))
    return first, second


def read(folder: Path) -> Told:
    """All pairs that are no copies."""
    if not (file := folder / NAME).exists():
        return frozenset()
    pairs = _SEALED.read(file)["pairs"]
    if not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(key, str) for key in pair) for pair in pairs
    ):
        raise ValueError(f"{file} does not say which photos are no copies: move it away to begin with none.")
    return frozenset((first, second) for first, second in pairs)


def tell(folder: Path, photos: Sequence[Photo], among: Iterable[Photo]) -> None:
    """Remember that none of these photos is a copy of another of them, or of any of those `among` which they stand."""
    others = [photo for photo in among if photo not in photos]
    new = [*combinations(photos, 2), *((photo, other) for photo in photos for other in others)]
    _change(folder, lambda told: told | {pair_of(*pair) for pair in new})


def forget(folder: Path, photos: Sequence[Photo]) -> None:
    """Let photos be copies again of whatever they look like."""
    keys = {key for photo in photos for key in (photo.sha256, photo.path) if key}
    _change(folder, lambda told: {pair for pair in told if keys.isdisjoint(pair)})


def _change(folder: Path, change: Callable[[Told], Iterable[tuple[str, str]]]) -> None:
    with writing(folder):
        pairs = sorted(change(read(folder)))
        _SEALED.write(folder / NAME, {"pairs": [list(pair) for pair in pairs]})
