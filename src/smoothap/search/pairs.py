"""All pairs of an album that look alike: exact, tile by tile."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from smoothap.metrics.cosine import Cosines, error_bound

_TILE = 2048


class Pair(NamedTuple):
    """Two photos and their score."""

    first: int
    second: int
    score: float


def pairs_above(vectors: np.ndarray, score: float, limit: int = 10_000_000) -> list[Pair]:
    """All pairs of rows of vectors (n, d) at or above the score, best first."""
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    number = 0
    for first, second, scores in _tiles(Cosines(vectors), score):
        found.append((first, second, scores))
        number += len(first)
        if number > limit:
            raise ValueError(f"More than {limit:,} pairs score {score} or above: ask for a higher score.")
    if not number:
        return []
    first, second, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((second, first, -scores))
    columns = first[order].tolist(), second[order].tolist(), scores[order].tolist()
    return [Pair(*each) for each in zip(*columns, strict=True)]


def _tiles(cosines: Cosines, score: float) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    from smoothap.progress import Progress

    vectors, bound = cosines.vectors, error_bound(cosines.vectors.shape[1], torch.float32)
    starts = range(0, len(vectors), _TILE)
    with Progress("Comparing", len(starts) * (len(starts) + 1) // 2, "tiles") as line:
        for top in starts:
            rows = np.asarray(vectors[top : top + _TILE])
            for left in range(top, len(vectors), _TILE):
                block = rows @ np.asarray(vectors[left : left + _TILE]).T
                likely = block >= score - bound  # the product proposes, the definition decides
                across, down = np.nonzero(np.triu(likely, 1) if left == top else likely)
                scores = cosines.between(across + top, down + left)
                across, down, scores = (part[scores >= score] for part in (across, down, scores))
                line.advance()
                if len(across):
                    yield across + top, down + left, scores


def groups_of(pairs: list[Pair]) -> list[list[int]]:
    """Photos that are linked by pairs, directly or through others, each group and the list of groups in order."""
    leader: dict[int, int] = {}

    def lead(item: int) -> int:
        leader.setdefault(item, item)
        while leader[item] != item:
            leader[item] = leader[leader[item]]
            item = leader[item]
        return item

    for first, second, _ in pairs:
        one, other = sorted((lead(first), lead(second)))
        leader[other] = one
    groups: dict[int, list[int]] = {}
    for item in sorted(leader):
        groups.setdefault(lead(item), []).append(item)
    return list(groups.values())
