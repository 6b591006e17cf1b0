"""Which photo a comparison opens on: a typical one, not the best."""

import numpy as np

from smoothap.web.finder import Finder

_DRAWN = 101
_LARGEST = 100_000  # photos; above, any photo will do


def typical_photo(finders: list[Finder]) -> list[int] | None:
    """Its id in each of two labelled albums: of 101 photos drawn by chance the one that gains the median of AP."""
    if len(finders) != 2 or any(each.labels is None or not len(each) for each in finders):
        return None
    first, second = finders
    shared = [
        (first.id_of_path(path), second.id_of_path(path))
        for path in np.random.default_rng(0).permutation(first.album.photos.paths())[: 4 * _DRAWN].tolist()
    ]
    pairs = [(one, other) for one, other in shared if one is not None and other is not None]
    pairs = [pair for pair in pairs if _has_positives(first, pair[0])][:_DRAWN]
    if not pairs:
        return None
    if len(first) > _LARGEST:
        return list(pairs[0])
    gains = np.array([_precision_of(second, other) - _precision_of(first, one) for one, other in pairs])
    return list(pairs[int(np.argsort(gains, kind="stable")[len(gains) // 2])])


def _has_positives(finder: Finder, identity: int) -> bool:
    assert finder.labels is not None
    label = finder.labels[finder.row(identity)]
    return label is not None and int((finder.labels == label).sum()) > 1


def _precision_of(finder: Finder, identity: int) -> float:
    row = finder.row(identity)
    curve = finder.ranked(finder.album.vectors[row], row).curve
    return np.nan if curve is None else curve.average_precision
