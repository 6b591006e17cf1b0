"""The graph of an album's neighbours: which photos are nearest to each, and how strongly they are linked.

A photo is linked with its ten nearest ones. How strong a link is depends on what is near there: the distance of two
photos counts in units of the distances that each has to its fifth neighbour. So the two photos of a pair are linked
strongly although others are around them, and those of a large class are linked with many.

The graph is derived from the vectors and can be thrown away. The nearest are found by the definition of a score, and
equal ones in the order of ids: a graph that was brought up to date is the one that would be made from nothing. Only
above 150,000 photos product codes propose, and some neighbours may be missed.
"""

from __future__ import annotations

import json
import threading
import zlib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from smoothap._core.files import write_atomically
from smoothap._core.progress import Progress
from smoothap._core.threads import numba_is_there, on_threads
from smoothap.album.vectors import StoredVectors, Vectors
from smoothap.metrics.cosine import Cosines, error_bound

if TYPE_CHECKING:
    from smoothap.album.engines.faiss import ProductCodes

NEIGHBOURS = 10
SCALE = 5  # the neighbour whose distance is the unit of all others
EXACT_UP_TO = 150_000  # photos; above, product codes propose
_SPARE = 6  # nearest by a product that are kept beside those wanted: its error may exchange them
_ROWS, _COLUMNS = 2048, 8192  # of a tile of products
_CANDIDATES = 1024  # with the same score, as far as a product can tell: more of them are not compared
_CODED = 200  # candidates that codes propose for each photo
_AT_ONCE = 256  # photos whose candidates are scored together
_LEAST_DISTANCE = 2.0**-20  # copies have none
_FORM = "smoothap neighbours 1"


def strength(score: np.ndarray, scale: np.ndarray | float, other_scale: np.ndarray | float) -> np.ndarray:
    """How strong the link of two photos with a score is, from 0 to 1, given the scale around each.

    It is nearly exp(-2 t), t = (1 - score)^2 / (scale * other_scale), written with operations that every processor
    rounds alike.
    """
    ratio = 1.0 + (1.0 - score) ** 2 / (scale * other_scale) / 4.0
    square = ratio * ratio
    fourth = square * square
    return 1.0 / (fourth * fourth)


@dataclass(frozen=True, eq=False)
class Graph:
    """Neighbours and links of nodes 0 to n - 1, which are photos in the order of their ids.

    slots (n,): where the vector of each is, which no other vector ever is. nearest (n, k), scores (n, k): the
    neighbours of each, best first. Links go both ways: those of node i are the places starts[i] to starts[i + 1] of
    linked and weights, normalised by the strength of all links at both ends. scale (n,): the distance to the fifth
    neighbour. degree (n,): the strength of all links.
    """

    slots: np.ndarray
    nearest: np.ndarray
    scores: np.ndarray
    starts: np.ndarray = field(repr=False)
    linked: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    scale: np.ndarray = field(repr=False)
    degree: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.slots)

    @classmethod
    def of(cls, slots: np.ndarray, nearest: np.ndarray, scores: np.ndarray) -> Graph:
        """The graph of these neighbours."""
        number, width = nearest.shape
        known = scores.astype(np.float64)
        scale = np.maximum(1.0 - known[:, min(SCALE, width) - 1], _LEAST_DISTANCE) if width else np.ones(number)
        source, target = np.repeat(np.arange(number), width), nearest.ravel().astype(np.int64)
        half = strength(known.ravel(), scale[source], scale[target]) / 2
        keys = np.concatenate([source * number + target, target * number + source])
        links, place = np.unique(keys, return_inverse=True)
        strengths = np.bincount(place, np.concatenate([half, half]), len(links))  # a sum of one or two
        source, target = np.divmod(links, max(number, 1))
        degree = np.bincount(source, strengths, number)
        weights = strengths / np.sqrt(degree[source] * degree[target])
        starts = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=number))])
        return cls(
            slots.astype(np.int64), nearest.astype(np.int32), scores.astype(np.float32), starts.astype(np.int64),
            target.astype(np.int32), weights.astype(np.float32), scale, degree,
        )  # fmt: skip

    def save(self, file: Path) -> None:
        """Write it to a file: a line of JSON that says what is where, and the arrays."""
        arrays = {each.name: np.ascontiguousarray(getattr(self, each.name)) for each in fields(self)}
        kinds = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
        crc = 0
        for array in arrays.values():
            crc = zlib.crc32(array.data.cast("B") if array.size else b"", crc)
        head = json.dumps({"form": _FORM, "crc": crc, "arrays": kinds}).encode()

        def write(path: Path) -> None:
            with path.open("wb") as stream:
                stream.write(head + b" " * (-(len(head) + 1) % 64) + b"\n")
                for array in arrays.values():
                    stream.write(array.data.cast("B") if array.size else b"")
                    stream.write(bytes(-array.nbytes % 64))

        write_atomically(file, write)

    @classmethod
    def load(cls, file: Path) -> Graph | None:
        """The graph in a file, mapped into memory; None if there is none that is whole."""
        try:
            with file.open("rb") as stream:
                head = stream.readline(4096)
            content = json.loads(head)
            start, arrays, crc = len(head), {}, 0
            for name, (kind, shape) in content["arrays"].items():
                dtype = np.dtype(kind)
                array = np.memmap(file, dtype, "r", start, tuple(shape)) if 0 not in shape else np.empty(shape, dtype)
                crc = zlib.crc32(array.data.cast("B") if array.size else b"", crc)
                arrays[name], start = array, start + array.nbytes + -array.nbytes % 64
            graph = cls(**arrays)
            whole = content["form"] == _FORM and content["crc"] == crc and graph._is_consistent()
        except (OSError, ValueError, TypeError, KeyError, OverflowError, AttributeError):
            return None
        return graph if whole else None

    def _is_consistent(self) -> bool:
        """Whether every number is one that a graph can have: a stranger may have written the file."""
        number, width = self.nearest.shape
        shapes = [self.slots.shape, self.scale.shape, self.degree.shape, self.starts.shape, self.scores.shape]
        if shapes != [(number,), (number,), (number,), (number + 1,), (number, width)] or width > NEIGHBOURS:
            return False
        kinds = [array.dtype.kind for array in (self.slots, self.nearest, self.starts, self.linked)]
        steps = np.diff(self.starts)
        whole = kinds == ["i"] * 4 and self.linked.shape == self.weights.shape == (int(self.starts[-1]),)
        inside = all(not a.size or (a.min() >= 0 and a.max() < number) for a in (self.nearest, self.linked))
        finite = all(np.isfinite(a).all() for a in (self.scores, self.weights, self.scale, self.degree))
        return bool(whole and inside and finite and self.starts[0] == 0 and (steps >= 0).all())


def nodes_of(graph: Graph, slots: np.ndarray) -> np.ndarray:
    """The node of each vector by its slot (n,), -1 for those that are not in the graph."""
    order = np.argsort(graph.slots, kind="stable")
    places = np.minimum(np.searchsorted(graph.slots, slots, sorter=order), max(len(graph) - 1, 0))
    if not len(graph):
        return np.full(len(slots), -1)
    nodes = order[places]
    return np.where(graph.slots[nodes] == slots, nodes, -1)


def work_of(vectors: Vectors, slots: np.ndarray, before: Graph | None) -> float:
    """How many products of numbers a graph of these vectors takes, about, given one of some of them."""
    number, dimension = vectors.shape
    known = 0 if before is None else int((nodes_of(before, slots) >= 0).sum())
    return float(number) * (number - known) * dimension


class BuildingStopped(Exception):  # noqa: N818
    """The making of a graph was stopped before its end."""


def build_graph(
    vectors: StoredVectors,
    slots: np.ndarray,
    before: Graph | None = None,
    *,
    key: str = "",
    progress: bool = False,
    stop: threading.Event | None = None,
) -> Graph:
    """The graph of vectors (n, d) in these slots (n,), in the order of ids; `before` is one of some of them.

    `key` names the vectors in the cache of product codes. Once `stop` is set, it ends in `BuildingStopped`.
    """
    return _Neighbours(vectors, slots, before, key, progress, stop or threading.Event()).graph()


class _Neighbours:
    """The search for the nearest of all vectors: of those that are new, and of those that lost one of theirs."""

    def __init__(
        self,
        vectors: StoredVectors,
        slots: np.ndarray,
        before: Graph | None,
        key: str,
        progress: bool,
        stop: threading.Event,
    ) -> None:
        self._vectors, self._slots, self._key, self._progress, self._stop = vectors, slots, key, progress, stop
        self._cosines = Cosines(vectors if len(vectors) > EXACT_UP_TO else vectors[:])
        number = len(vectors)
        self._width = min(NEIGHBOURS, max(number - 1, 0))
        self._nearest = np.zeros((number, self._width), np.int64)
        self._scores = np.zeros((number, self._width), np.float32)
        self._is_new, self._is_needed = np.ones(number, bool), np.ones(number, bool)
        if before is not None and before.nearest.shape[1] == self._width:
            self._take_over(before)

    def _take_over(self, before: Graph) -> None:
        """Keep the neighbours of vectors that have all of theirs still."""
        nodes = nodes_of(before, self._slots)
        rows = np.full(len(before), -1)
        rows[nodes[nodes >= 0]] = np.flatnonzero(nodes >= 0)
        known = np.flatnonzero(nodes >= 0)
        theirs = rows[before.nearest[nodes[known]]]
        whole = (theirs >= 0).all(axis=1)
        kept = known[whole]
        self._nearest[kept], self._scores[kept] = theirs[whole], before.scores[nodes[kept]]
        self._is_new[known], self._is_needed[kept] = False, False

    def graph(self) -> Graph:
        """Find all that are missing."""
        if self._width and self._is_needed.any():
            if len(self._vectors) > EXACT_UP_TO:
                self._by_codes()
            else:
                self._by_products()
        return Graph.of(self._slots, self._nearest, self._scores)

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise BuildingStopped

    # -- all pairs

    def _by_products(self) -> None:
        """Products of the needed rows with all propose; those that are new may be nearer to the others, too."""
        needed, kept = np.flatnonzero(self._is_needed), np.flatnonzero(~self._is_needed)
        order = np.concatenate([needed, kept])
        units = torch.from_numpy(self._cosines.units(order))
        bound = error_bound(self._vectors.shape[1], torch.float32)
        best, is_new = _Best(len(order), self._width + _SPARE), self._is_new[order]
        if len(kept):  # only what is nearer than the last that they have
            best.least[len(needed) :] = self._scores[kept, -1] - np.float32(2 * bound + 2.0**-22)
        with Progress("Linking similar photos", len(needed), "photos", shown=self._progress) as line:
            for top in range(0, len(needed), _ROWS):
                bottom = min(top + _ROWS, len(needed))
                for left in range(top, len(order), _COLUMNS):
                    self._go_on()
                    right = min(left + _COLUMNS, len(order))
                    tile = (units[top:bottom] @ units[left:right].T).numpy()
                    best.take(tile, top, left, is_new, len(needed))
                line.advance(bottom - top)
        for start in range(0, len(order), _AT_ONCE):
            self._go_on()
            places = np.arange(start, min(start + _AT_ONCE, len(order)))
            self._decide(places, order, best, units, bound, len(needed))

    def _decide(
        self, places: np.ndarray, order: np.ndarray, best: _Best, units: torch.Tensor, bound: float, needed: int
    ) -> None:
        """Score the candidates of some rows by the definition, and take the best."""
        rows, columns = [], []
        for place in places:
            products, found = best.products[place], best.found[place]
            if place < needed:
                least = products[self._width - 1] - 2 * bound
                several = products[-1] >= least
            else:
                least, several = best.least[place], products[-1] > -np.inf
            candidates = order[found[products >= max(least, -2.0)]]
            if several:  # there may be more of them than were kept
                whole = (units @ units[place]).numpy()
                whole[place] = -np.inf
                least = np.partition(whole, len(whole) - self._width)[len(whole) - self._width] - 2 * bound
                candidates = np.sort(order[np.flatnonzero(whole >= least)])[:_CANDIDATES]
            elif place >= needed:
                if not len(candidates):
                    continue
                candidates = np.union1d(candidates, self._nearest[order[place]])
            rows.append(np.full(len(candidates), order[place]))
            columns.append(candidates)
        if rows:
            self._take_best(np.concatenate(rows), np.concatenate(columns))

    def _take_best(self, rows: np.ndarray, columns: np.ndarray) -> None:
        """Of candidates, a row and a column each, the best of every row; equal ones in the order of columns."""
        scores = self._cosines.between(rows, columns)
        ranked = np.lexsort((columns, -scores, rows))
        rows, columns, scores = rows[ranked], columns[ranked], scores[ranked]
        owners, first = np.unique(rows, return_index=True)
        places = first[:, None] + np.arange(self._width)
        self._nearest[owners], self._scores[owners] = columns[places], scores[places]

    # -- by codes

    def _by_codes(self) -> None:
        """Product codes propose for all rows that are needed; those that are new are offered to their neighbours."""
        from smoothap.album.engines.faiss import open_codes

        codes: ProductCodes = open_codes(self._vectors, self._key)
        needed = np.flatnonzero(self._is_needed)
        with Progress("Linking similar photos", len(needed), "photos", shown=self._progress) as line:
            for start in range(0, len(needed), _AT_ONCE):
                self._go_on()
                rows = needed[start : start + _AT_ONCE]
                owners, columns = codes.candidates(self._vectors[rows], _CODED)
                owners, others = rows[owners], columns != rows[owners]
                self._take_best(owners[others], columns[others])
                line.advance(len(rows))
        self._offer_new(needed)

    def _offer_new(self, needed: np.ndarray) -> None:
        """Let vectors that stayed as they were take new ones that have them for neighbours."""
        new = needed[self._is_new[needed]]
        rows, columns = self._nearest[new].ravel(), np.repeat(new, self._width)
        nearer = ~self._is_needed[rows] & (self._scores[new].ravel() > self._scores[rows, -1])
        rows, columns = rows[nearer], columns[nearer]
        if len(rows):
            owners = np.unique(rows)
            known = np.repeat(owners, self._width), self._nearest[owners].ravel()
            self._take_best(*(np.concatenate(pair) for pair in zip((rows, columns), known, strict=True)))


class _Best:
    """The highest products of each of n rows, in places of the order that they are multiplied in."""

    def __init__(self, number: int, width: int) -> None:
        self.products = np.full((number, width), -np.inf, np.float32)
        self.found = np.zeros((number, width), np.int64)
        self.least = np.full(number, -np.inf, np.float32)  # lower ones are not looked at

    def take(self, tile: np.ndarray, top: int, left: int, is_new: np.ndarray, needed: int) -> None:
        """Products of the rows from `top` on with those from `left` on; each pair comes once."""
        rows = len(tile)
        if left < top + rows:  # the corner: each pair once for both, and none of a row with itself
            across = np.arange(left, left + tile.shape[1])[None, :] <= np.arange(top, top + rows)[:, None]
            tile[across] = -np.inf
        arguments = self.products, self.found, self.least
        if numba_is_there():
            from smoothap.album.graph_kernels import take_columns, take_rows

            on_threads(take_rows, torch.get_num_threads(), tile, top, left, *arguments)
            on_threads(take_columns, torch.get_num_threads(), tile, top, left, is_new, needed, *arguments)
            return
        _merge(tile, top, left, *arguments)
        turned, kept = tile.T.copy(), np.arange(left, left + tile.shape[1]) >= needed
        turned[np.ix_(kept, ~is_new[top : top + rows])] = -np.inf
        _merge(turned, left, top, *arguments)


def _merge(tile: np.ndarray, top: int, left: int, products: np.ndarray, found: np.ndarray, least: np.ndarray) -> None:
    """Merge products (r, c) of rows from `top` on with columns from `left` on into the best of those rows."""
    rows, width = slice(top, top + len(tile)), products.shape[1]
    offered = np.where(tile > least[rows, None], tile, -np.inf)
    values = np.concatenate([products[rows], offered], axis=1)
    places = np.concatenate([found[rows], np.broadcast_to(np.arange(left, left + tile.shape[1]), tile.shape)], axis=1)
    best = np.argsort(-values, axis=1, kind="stable")[:, :width]
    products[rows], found[rows] = (np.take_along_axis(each, best, axis=1) for each in (values, places))
