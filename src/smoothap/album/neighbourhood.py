"""Ranking by neighbourhood: who wants all photos of a thing wants those that resemble the ones found, too.

The query spreads over the graph of neighbours for some steps (a random walk that restarts), as far as a thousand
photos. What reaches a photo, and how strongly it is linked with the query itself, say where it ranks among those
reached and the fifty nearest; all others follow by their plain scores. The score in a place of the list is the
one that the plain list has in that place, so that a score means as much as before, and a list down to a score is as
long.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smoothap._core.threads import numba_is_there
from smoothap.album.graph import NEIGHBOURS, SCALE, BuildingStopped, Graph, build_graph, nodes_of, strength, work_of
from smoothap.album.search import Nearest, Ranking, Search, VectorQuery

if TYPE_CHECKING:
    from smoothap.album.engines.codes import Bounded
    from smoothap.album.faces import Faces, FaceStore
    from smoothap.album.store import Snapshot, Store

REACHED = 1000  # photos that a query spreads to
COMPARED = 50  # nearest photos that are ranked among those reached
STEPS, DAMPING = 15, 0.95  # of the walk: it goes on with this probability, and else begins again at the query
_AT_ONCE = 3e11  # products of numbers, some seconds: a longer making goes on in the background
_LEAST_DISTANCE = 2.0**-20  # of a query from its neighbours
_WORTH_COMPILING = 20_000  # photos: in a smaller album the first search does not wait for numba

_STOP, _RUNNING = threading.Event(), set[threading.Thread]()


def _in_background(work: Callable[..., None], *arguments: object) -> None:
    """Run something on a thread that the end of the program stops and waits for: torch must not end under it."""
    _RUNNING.difference_update([each for each in _RUNNING if not each.is_alive()])
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    _RUNNING.add(thread)
    thread.start()


@atexit.register
def _stop_all() -> None:
    _STOP.set()
    for thread in _RUNNING:
        thread.join(60)


class Seeds(NamedTuple):
    """Where a query begins in the graph: nodes (s,), what each is given (s,), and the scale around the query."""

    nodes: np.ndarray
    given: np.ndarray
    scale: float


@dataclass(frozen=True)
class Window:
    """The photos that a query is ranked by: rows (w,), best first, and the row through which each came in, or -1."""

    rows: np.ndarray
    through: np.ndarray

    def followed_by(self, rows: np.ndarray) -> np.ndarray:
        """The ranked list: these rows, and those of a plain list that are not among them."""
        return np.concatenate([self.rows, rows[~np.isin(rows, self.rows)]])


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """A graph, and which row of an album each node is: the album may have changed since the graph was made."""

    graph: Graph
    slots: np.ndarray  # of the rows
    nodes: np.ndarray = field(init=False)  # of each row, -1 for one that is not linked yet
    rows: np.ndarray = field(init=False)  # of each node, -1 for one that is gone

    def __post_init__(self) -> None:
        nodes, rows = nodes_of(self.graph, self.slots), np.full(len(self.graph), -1)
        rows[nodes[nodes >= 0]] = np.flatnonzero(nodes >= 0)
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "rows", rows)

    @cached_property
    def missing(self) -> int:
        """How many photos are not linked yet."""
        return int((self.nodes < 0).sum())

    def at_photo(self, row: int) -> Seeds | None:
        """Where a photo of the album begins, if it is linked."""
        node = int(self.nodes[row])
        return None if node < 0 else Seeds(np.array([node]), np.ones(1), float(self.graph.scale[node]))

    def among(self, nearest: Nearest) -> Seeds | None:
        """Where a query from outside begins: among its own neighbours, the nearest of all photos."""
        nodes = self.nodes[nearest.rows[:NEIGHBOURS]]
        scores, nodes = nearest.scores[:NEIGHBOURS][nodes >= 0], nodes[nodes >= 0]
        if not len(nodes):
            return None
        scale = max(1.0 - float(scores[min(SCALE, len(scores)) - 1]), _LEAST_DISTANCE)
        given = strength(scores, scale, self.graph.scale[nodes]) / np.sqrt(self.graph.degree[nodes])
        return Seeds(nodes, given, scale)

    def window(
        self, seeds: Seeds, plain: Nearest, left_out: np.ndarray, passing: np.ndarray | None, closed: np.ndarray
    ) -> Window:
        """The photos reached and the nearest by plain scores, ranked together.

        `plain` has the nearest photos, `left_out` rows that are not listed, `passing` (n,) those that may be, and
        `closed` rows that nothing is reached through.
        """
        shut = self.rows < 0
        shut[self.nodes[closed][self.nodes[closed] >= 0]] = True
        nodes, values, through = self._reached(seeds, shut)
        rows = self.rows[nodes]
        listed = np.ones(len(self.nodes), bool) if passing is None else passing.copy()
        listed[left_out] = False
        kept = listed[rows]
        rows, values, through = rows[kept], values[kept], through[kept]
        near, scores = plain.rows[:COMPARED], plain.scores[:COMPARED]
        of_near = self.nodes[near]
        scales = np.where(of_near >= 0, self.graph.scale[np.maximum(of_near, 0)], seeds.scale)
        members = np.union1d(rows, near)
        keys, came = np.zeros(len(members)), np.full(len(members), -1)
        places = np.searchsorted(members, rows)
        keys[places] = np.sqrt(values / max(values.max(initial=0.0), 1e-300))
        came[places] = np.where(through < 0, -1, self.rows[np.maximum(through, 0)])
        keys[np.searchsorted(members, near)] += strength(scores, seeds.scale, scales)
        order = np.lexsort((members, -keys))
        return Window(members[order], came[order])

    def _reached(self, seeds: Seeds, closed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        graph = self.graph
        most = min(REACHED, len(graph))
        arguments = graph.starts, graph.linked, graph.weights, *seeds[:2], closed, most, STEPS, DAMPING
        if ("numba" in sys.modules or len(graph) >= _WORTH_COMPILING) and numba_is_there():
            from smoothap.album import graph_kernels

            return graph_kernels.reach(*arguments)
        return reach(*arguments)


class Reranked:
    """Answers of a search, ranked by a neighbourhood; with the same scores in the same places of the list."""

    def __init__(self, search: Search, neighbourhood: Neighbourhood) -> None:
        self._search, self._neighbourhood = search, neighbourhood
        missing = neighbourhood.missing
        self._note = f"{missing:,} photos are not linked with those like them yet, and ranked by themselves."
        self._note = self._note if missing else ""

    def nearest(self, query: VectorQuery, k: int, bounded: Bounded | None = None) -> Nearest:
        """The k rows that rank best."""
        plain = self._search.nearest(query, max(k, COMPARED), bounded)
        return self._ranked(query, plain, plain, k)

    def above(self, query: VectorQuery, min_score: float) -> Nearest:
        """As many rows as score this or higher, those that rank best."""
        plain = self._search.above(query, min_score)
        enough = plain if len(plain.rows) >= COMPARED else self._search.nearest(query, COMPARED)
        return self._ranked(query, enough, plain, len(plain.rows))

    def ranking(self, query: VectorQuery) -> Ranking:
        """All rows with the scores of their places."""
        plain = self._search.ranking(query)
        rows, scores = plain.best()
        listed = Nearest(rows, scores)
        window = self._window(query, listed)
        if window is None:
            return plain
        order, ranked = window.followed_by(rows), np.full(len(plain.scores), -np.inf)
        ranked[order] = scores
        through = np.full(len(ranked), -1)
        through[window.rows] = window.through
        return replace(plain, scores=ranked, note=self._said(plain.note), through=through)

    def _ranked(self, query: VectorQuery, compared: Nearest, plain: Nearest, k: int) -> Nearest:
        window = self._window(query, compared)
        if window is None:
            return Nearest(plain.rows[:k], plain.scores[:k], plain.note)
        rows = window.followed_by(plain.rows)[:k]
        scores = plain.scores[: len(rows)]
        through = np.full(len(rows), -1)
        through[: len(window.rows)] = window.through[: len(rows)]
        order = np.lexsort((rows, -scores))  # equal scores in the order of ids, as everywhere
        return Nearest(rows[order], scores, self._said(plain.note), through[order])

    def _said(self, note: str) -> str:
        return f"{note} {self._note}".strip()

    def _window(self, query: VectorQuery, compared: Nearest) -> Window | None:
        seeds = None if query.row is None else self._neighbourhood.at_photo(query.row)
        if seeds is None:
            own = compared if query.passing is None else self._search.nearest(query._replace(passing=None), NEIGHBOURS)
            seeds = self._neighbourhood.among(own)
        if seeds is None:
            return None
        window = self._neighbourhood.window(seeds, compared, query.left_out, query.passing, query.wrong)
        if query.row is not None:
            window.through[window.through == query.row] = -1
        return window


class Neighbourhoods:
    """The neighbourhood of whichever version of an album asks: from its file, or made; long ones in the background."""

    def __init__(self, store: Store | FaceStore) -> None:
        self._store, self._lock = store, threading.Lock()
        self._file, self._making = "", False
        self._graph: Graph | None = None
        self._attached: Neighbourhood | None = None

    def of(self, snapshot: Snapshot | Faces, *, wait: bool = False, progress: bool = False) -> Neighbourhood | None:
        """The neighbourhood for a version; if photos are missing in it, it is made complete in the background.

        With `wait`, and where that takes moments, it is complete. None while there is none at all.
        """
        with self._lock:
            if snapshot.graph_file != self._file:
                self._file, self._graph = snapshot.graph_file, Graph.load(self._store.folder / snapshot.graph_file)
                self._attached = None
            slots, graph = snapshot.all_slots, self._graph
            if len(slots) < 2:
                return None
            if self._attached is None or not np.array_equal(self._attached.slots, slots):
                self._attached = None if graph is None else Neighbourhood(graph, slots)
            if self._attached is not None and np.array_equal(self._attached.graph.slots, slots):
                return self._attached
            if wait or work_of(snapshot.vectors, slots, graph) <= _AT_ONCE:
                self._graph = self._made(snapshot, graph, progress)
                self._attached = Neighbourhood(self._graph, slots)
            elif not self._making:
                self._making = True
                _in_background(self._make, snapshot, graph)
            return self._attached

    def _make(self, snapshot: Snapshot | Faces, before: Graph | None) -> None:
        """In a thread of its own: whoever searches meanwhile has the graph as it was."""
        try:
            graph = self._made(snapshot, before, progress=False, stop=_STOP)
            with self._lock:
                if snapshot.graph_file == self._file:
                    self._graph, self._attached = graph, None
        except (BuildingStopped, RuntimeError):
            if threading.main_thread().is_alive():  # else the program ends, and no thread takes work any more
                raise
        finally:
            self._making = False

    def _made(
        self, snapshot: Snapshot | Faces, before: Graph | None, progress: bool, stop: threading.Event | None = None
    ) -> Graph:
        made = build_graph(
            snapshot.vectors, snapshot.all_slots, before, key=snapshot.vectors_key, progress=progress, stop=stop
        )
        if self._store.folder.is_dir():  # people may have been forgotten meanwhile
            with suppress(OSError):  # it is made again where it cannot be kept
                made.save(self._store.folder / snapshot.graph_file)
        return made


def reach(
    starts: np.ndarray, linked: np.ndarray, weights: np.ndarray, seeds: np.ndarray, given: np.ndarray,
    closed: np.ndarray, most: int, steps: int, damping: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """What reaches nodes from the seeds: nodes (m,), values (m,), from where (m,), with the bits of `graph_kernels`."""
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
