"""Photos that look alike: all pairs of an album, exact and tile by tile, and the groups that they form."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from smoothap.metrics.cosine import Cosines, error_bound
from smoothap.progress import Progress
from smoothap.search.photos import Photos
from smoothap.search.vectors import Vectors

_TILE = 2048


class Pair(NamedTuple):
    """Two photos and their score."""

    first: int
    second: int
    score: float


def pairs_above(vectors: Vectors, score: float, limit: int = 10_000_000) -> list[Pair]:
    """All pairs of rows of vectors (n, d) at or above the score, best first."""
    tiles: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    number = 0
    for tile in _tiles(Cosines(vectors), score):
        tiles.append(tile)
        number += len(tile[0])
        if number > limit:
            raise ValueError(f"More than {limit:,} pairs score {score} or above: ask for a higher score.")
    if not number:
        return []
    first, second, scores = (np.concatenate(parts) for parts in zip(*tiles, strict=True))
    order = np.lexsort((second, first, -scores))
    columns = first[order].tolist(), second[order].tolist(), scores[order].tolist()
    return [Pair(*row) for row in zip(*columns, strict=True)]


def _tiles(cosines: Cosines, score: float) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    vectors, bound = cosines.vectors, error_bound(cosines.vectors.shape[1], torch.float32)
    starts = range(0, len(vectors), _TILE)
    with Progress("Comparing", len(starts) * (len(starts) + 1) // 2, "tiles") as line:
        for top in starts:
            rows = cosines.units(slice(top, top + _TILE))
            for left in range(top, len(vectors), _TILE):
                block = rows @ cosines.units(slice(left, left + _TILE)).T
                likely = block >= score - bound  # the product proposes, the definition decides
                across, down = np.nonzero(np.triu(likely, 1) if left == top else likely)
                scores = cosines.between(across + top, down + left)
                across, down, scores = (part[scores >= score] for part in (across, down, scores))
                line.advance()
                if len(across):
                    yield across + top, down + left, scores


def rows_by_content(photos: Photos) -> list[list[int]]:
    """The rows of each different file in their order; a photo whose checksum is not known is like no other."""
    groups: dict[bytes | int, list[int]] = {}
    for row, digest in enumerate(photos.column("sha256").to_pylist()):
        groups.setdefault(digest or row, []).append(row)
    return list(groups.values())


def linked(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Rows that are linked by pairs, directly or through others: each group and the list of groups in order."""
    group_of: dict[int, list[int]] = {}
    for first, second in pairs:
        groups = group_of.setdefault(first, [first]), group_of.setdefault(second, [second])
        if groups[0] is not groups[1]:
            smaller, larger = sorted(groups, key=len)
            larger += smaller
            group_of.update(dict.fromkeys(smaller, larger))
    return sorted(sorted(group) for row, group in group_of.items() if row == group[0])
