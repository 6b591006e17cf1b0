"""Who finds the nearest vectors: every engine answers one question, and its answer is scored again exactly."""

from typing import Protocol

import numpy as np

from smoothap.search.exact import Exact

EXACT_UP_TO = 100_000  # vectors; above, a graph answers sooner than the product of all


class Engine(Protocol):
    """Something that knows the vectors (n, d) of an album and names rows that lie near a query."""

    name: str
    limit: int  # the most rows it can name at once; for more, all scores are computed

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """About the k rows with the highest scores for the query (d,), in any order."""
        ...


def open_engine(name: str, vectors: np.ndarray, checksum: str) -> Engine:
    """The engine by a name that `checked_name` knows; `checksum` is that of the vectors."""
    if name == "auto":
        name = "exact" if len(vectors) <= EXACT_UP_TO else "hnsw"
    if name == "exact" or not len(vectors):
        return Exact()
    if name == "hnsw":
        from smoothap.search.hnsw import open_hnsw

        return open_hnsw(vectors, checksum)
    from smoothap.search.milvus import Milvus

    return Milvus(name, vectors, checksum)


def checked_name(name: str) -> str:
    """The name, if there is such an engine."""
    if name not in ("auto", "exact", "hnsw") and not name.startswith("milvus://"):
        raise ValueError(f"There is no engine {name!r}: choose auto, exact, hnsw or milvus://HOST:PORT.")
    return name
