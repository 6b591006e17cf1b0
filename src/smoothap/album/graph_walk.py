"""The walk over a graph of neighbours in plain numpy, with the bits of the compiled one in `graph_kernels.py`."""

import sys

import numpy as np


def is_compiled() -> bool:
    """Whether numba is loaded, so that the compiled walk costs no import."""
    return "numba" in sys.modules


def reach(
    starts: np.ndarray, linked: np.ndarray, weights: np.ndarray, seeds: np.ndarray, given: np.ndarray,
    closed: np.ndarray, most: int, steps: int, damping: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """What reaches nodes from the seeds: nodes (m,), values (m,), from where (m,); see `graph_kernels.reach`."""
    place = np.where(closed, -2, -1)
    nodes = _first_met(starts, linked, seeds, place, most)
    source = np.zeros(len(nodes))
    given = given[place[seeds] >= 0]
    np.add.at(source, place[seeds[place[seeds] >= 0]], given)
    links, owners = _links_of(starts, nodes)
    inside = place[linked[links]] >= 0
    owners, near, weight = owners[inside], place[linked[links[inside]]], weights[links[inside]].astype(np.float64)
    values = source
    for _ in range(steps):
        values = damping * np.bincount(owners, weight * values[near], len(nodes)) + (1.0 - damping) * source
    brought = np.where(values[near] > values[owners], damping * weight * values[near], -np.inf)
    most_brought = (1.0 - damping) * source
    own = most_brought.copy()
    np.maximum.at(most_brought, owners, brought)
    through = np.full(len(nodes), -1)
    best = np.flatnonzero((brought == most_brought[owners]) & (brought > own[owners]))
    first, at = np.unique(owners[best], return_index=True)
    through[first] = nodes[near[best[at]]]
    return nodes, values, through


def _first_met(starts: np.ndarray, linked: np.ndarray, seeds: np.ndarray, place: np.ndarray, most: int) -> np.ndarray:
    """The nodes that are met first from the seeds, link by link; their places are written into `place`."""
    found, ring = np.empty(0, np.int64), seeds
    while len(ring) and len(found) < most:
        fresh, first = np.unique(ring[place[ring] == -1], return_index=True)
        fresh = fresh[np.argsort(first)][: most - len(found)]
        place[fresh] = np.arange(len(found), len(found) + len(fresh))
        found = np.concatenate([found, fresh])
        ring = linked[_links_of(starts, fresh)[0]].astype(np.int64)
    return found


def _links_of(starts: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The links of some nodes one after the other, and the place of the node that each belongs to."""
    counts = starts[nodes + 1] - starts[nodes]
    owners = np.repeat(np.arange(len(nodes)), counts)
    return np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts) + starts[nodes][owners], owners
