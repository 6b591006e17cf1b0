"""Photos that look alike: all pairs of an album, exact and tile by tile, and the groups that they form."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from smoothap._core.progress import Progress
from smoothap.album.photos import Photos
from smoothap.album.vectors import Vectors
from smoothap.metrics.cosine import NUMBERS_READ_AT_ONCE, Cosines, error_bound

_TILE = 1024  # rows
_SHORT = 64  # numbers of a vector that are compared first
_FEW = 4096  # vectors: to find how to shorten them takes longer than to compare them
_MANY = 1 / 32  # of a tile: from that many likely pairs on, whole vectors are multiplied before they are scored


class Pair(NamedTuple):
    """Two photos and their score."""

    first: int
    second: int
    score: float


def pairs_above(vectors: Vectors, score: float, limit: int = 10_000_000) -> list[Pair]:
    """All pairs of rows of vectors (n, d) at or above the score, best first."""
    if len(vectors) < 2:
        return []
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
    short, margin = _short_rows(cosines)
    least = score - margin
    order = _side_by_side(short)
    short = short[order]
    bound = error_bound(cosines.vectors.shape[1], torch.float32)
    pairs = _near_tiles(short, least)
    with Progress("Comparing", len(pairs), "tiles") as line:
        for top, left in pairs * _TILE:
            line.advance()
            block = short[top : top + _TILE] @ short[left : left + _TILE].T
            if block.max() < least:
                continue
            rows, columns = order[top : top + _TILE], order[left : left + _TILE]
            likely = block >= least
            if left == top:
                likely = np.triu(likely, 1)
            if likely.mean() > _MANY:  # whole vectors tell more apart
                likely &= cosines.units(rows) @ cosines.units(columns).T >= score - bound
            across, down = np.nonzero(likely)  # the product proposes, the definition decides
            ends = np.sort([rows[across], columns[down]], axis=0)
            scores = cosines.between(*ends)
            first, second, scores = (part[scores >= score] for part in (*ends, scores))
            if len(first):
                yield first, second, scores


def _short_rows(cosines: Cosines) -> tuple[np.ndarray, float]:
    """Rows (n, k) of length 1 whose products are at least the scores of the vectors, and by how much they may fail to.

    Along some orthogonal directions two vectors have a part that is multiplied, and what is left of them adds at most
    the product of its lengths: the parts and that length are a short row. The directions are those along which a
    sample of the vectors is longest. Short vectors, and few of them, are taken as they are.
    """
    number, dimension = cosines.vectors.shape
    margin, step = error_bound(dimension, torch.float32), max(1, NUMBERS_READ_AT_ONCE // dimension)
    is_short = dimension <= 2 * _SHORT or number <= _FEW
    directions, rows = None, np.empty((number, dimension if is_short else _SHORT + 1), np.float32)
    if not is_short:
        sample = np.concatenate([cosines.units(slice(at, at + 256)) for at in range(0, number, max(256, number // 64))])
        directions = np.linalg.eigh(sample.T.astype(np.float64) @ sample)[1][:, -_SHORT:]
        margin += error_bound(_SHORT + 1, torch.float32)
    for start in range(0, number, step):
        units = cosines.units(slice(start, start + step))
        if directions is not None:
            exact = units.astype(np.float64)
            parts = exact @ directions
            left = np.maximum((exact**2).sum(1) - (parts**2).sum(1), 0) + 1e-12  # never less than it is
            units = np.column_stack([parts, np.sqrt(left)])
        rows[start : start + step] = units
    return rows, margin


def _side_by_side(rows: np.ndarray) -> np.ndarray:
    """An order (n,) of rows (n, k) in which those of a tile lie near each other: halved, and halved again, each time
    where they are spread the most."""
    done, left = list[np.ndarray](), [np.arange(len(rows))]
    while left:
        some = left.pop()
        if len(some) <= _TILE:
            done.append(some)
            continue
        here = rows[some]
        half = (len(some) // 2 + _TILE - 1) // _TILE * _TILE  # whole tiles
        parted = some[np.argpartition(here[:, here.var(0).argmax()], half)]
        left += [parted[half:], parted[:half]]
    return np.concatenate(done) if done else np.empty(0, np.int64)


def _near_tiles(rows: np.ndarray, least: float) -> np.ndarray:
    """The pairs of tiles (m, 2) of rows (n, k) that lie near enough for some product to reach `least`, by number."""
    tiles = [rows[start : start + _TILE] for start in range(0, len(rows), _TILE)]
    lowest, highest = (np.array([edge(tile, axis=0) for tile in tiles], np.float64) for edge in (np.min, np.max))
    reach = 2 - 2 * least + 1e-5  # the square of how far apart two rows of length 1 lie, and what float32 rounds
    near = [
        (one, one + further)
        for one in range(len(tiles))
        for further in np.flatnonzero(
            (np.maximum(np.maximum(lowest[one:] - highest[one], lowest[one] - highest[one:]), 0) ** 2).sum(1) <= reach
        )
    ]
    return np.array(near, np.int64).reshape(-1, 2)


def rows_by_content(photos: Photos) -> list[list[int]]:
    """The rows of each different file in their order; a photo whose checksum is not known is like no other."""
    groups: dict[bytes | int, list[int]] = {}
    for row, digest in enumerate(photos.contents()):
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
