"""Milvus by its address: the vectors of an album in a collection of a server or a cluster.

The collection is named after the checksum of the vectors, filled once and never changed; an album that changes gets a
new one. The album's own vectors stay the truth: Milvus names candidates, which are scored again here. Tried with the
clients pymilvus 2.6.17 and 3.0.2, each against a server of Milvus 2.3.5 and one of milvus-lite 3.2.2.
"""

import os

import numpy as np

from smoothap.progress import Progress
from smoothap.search.milvus_server import KEEPALIVE
from smoothap.search.vectors import Vectors

_LIMIT = 16_384  # Milvus returns fewer than asked for beyond this, without a word
_BYTES = 16 << 20  # of vectors in one message
_KEY = "id"  # the row; older servers call the primary field so in their answers, whatever its name


class Milvus:
    """A collection behind milvus://HOST:PORT; a token is taken from the variable MILVUS_TOKEN."""

    name = "milvus"

    def __init__(self, address: str, vectors: Vectors, checksum: str) -> None:
        try:
            from pymilvus import MilvusClient
            from pymilvus.exceptions import MilvusException
        except ModuleNotFoundError as missing:
            raise ValueError("The engine milvus needs its client: pip install 'smoothap[milvus]'") from missing
        server = "http://" + address.removeprefix("milvus://")
        try:
            token = os.environ.get("MILVUS_TOKEN", "")
            self.client = MilvusClient(uri=server, token=token, timeout=10, grpc_options=KEEPALIVE)
        except (MilvusException, OSError) as error:
            raise ValueError(f"Milvus does not answer at {address}: start it, or choose another engine.") from error
        self.collection = f"smoothap_by_id_{checksum[:40]}"  # not that of versions with another primary field
        self.limit = min(_LIMIT, len(vectors))
        if not self._is_filled(len(vectors)):
            self._fill(vectors)

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """About the k rows nearest to the query (d,)."""
        answers = self.client.search(
            self.collection, [query.tolist()], limit=min(k, self.limit), output_fields=[], consistency_level="Strong"
        )
        return np.array([hit[_KEY] for hit in answers[0]], np.int64)

    def _is_filled(self, rows: int) -> bool:
        """Whether the collection is there and whole; half of one, from an interrupted run, is dropped."""
        if not self.client.has_collection(self.collection):
            return False
        self.client.load_collection(self.collection)
        if self._count() == rows:
            return True
        self.client.drop_collection(self.collection)
        return False

    def _count(self) -> int:
        counted = self.client.query(self.collection, filter="", output_fields=["count(*)"], consistency_level="Strong")
        return int(counted[0]["count(*)"])

    def _fill(self, vectors: Vectors) -> None:
        self.client.create_collection(
            self.collection, dimension=vectors.shape[1], primary_field_name=_KEY, id_type="int",
            vector_field_name="vector", metric_type="IP", auto_id=False, consistency_level="Strong",
        )  # fmt: skip
        step = max(1, _BYTES // (4 * vectors.shape[1]))
        with Progress("Sending to Milvus", len(vectors), "vectors") as line:
            for start in range(0, len(vectors), step):
                part = vectors[start : start + step]
                rows = [{_KEY: start + place, "vector": vector} for place, vector in enumerate(part.tolist())]
                self.client.insert(self.collection, rows)
                line.advance(len(part))
        self.client.flush(self.collection)
        if self._count() != len(vectors):
            raise ValueError(f"Milvus kept {self._count():,} of {len(vectors):,} vectors: look at its log.")
