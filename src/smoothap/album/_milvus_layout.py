"""How an album is in Milvus: collections that are written once, and an alias that says which of them count.

    NAME                       the alias, which stands for the newest piece
    NAME_smoothap_7            a piece: photos by id, with their vectors and what searches are filtered by
    NAME_smoothap_7_about      what the album is as of this piece: its description, and the table of the piece's photos
    NAME_smoothap_7_pictures   thumbnails of the piece's photos, where they are kept in Milvus
    NAME_smoothap_kept         what users keep (see _milvus_kept.py)

The first piece holds all photos. A later load adds a piece of the photos that are new or have changed, and its
description says which earlier pieces still count and which of their photos are gone. A row of a later piece replaces
earlier ones of the same id. Nobody reads a piece before the alias stands for it or for a later one.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from smoothap.album.photos import SCHEMA

if TYPE_CHECKING:
    from smoothap.album.milvus_server import MilvusServer

FORMAT = 1
OWN = "smoothap_mark"  # the field of our collections alone: the checksum of a photo and its vector, or a number of ours
TABLE = SCHEMA.append(pa.field(OWN, pa.int64()))
UNDATED = -(1 << 62)
MOST_ROWS = 16_384  # that Milvus gives at once
_CHUNK = 48_000  # bytes in a row of text; as base64 they are 64,000 characters, and a field has room for 65,535
_CHUNKS_AT_ONCE = 200
_TEXT = 60_000  # bytes of a text field
_LONGEST_TEXT = 4_000  # characters of a path or label that searches are filtered by


@dataclass(frozen=True)
class About:
    """What an album in Milvus is as of one piece; see `Description` for what both have."""

    number: int
    pieces: tuple[int, ...]  # those that count, this one last
    removed: tuple[int, ...]  # ids that earlier pieces have and the album has not
    fingerprint: str  # of all that this piece brings
    rows: int  # in this piece
    photos: int  # in the album
    dimension: int
    index: str
    pictures: bool
    model: dict[str, Any] | None = None
    source: str = ""
    root: str | None = None
    calibration: dict[str, Any] | None = None
    learnt: dict[str, Any] | None = None
    dtype: str = "float32"
    alike: list[list[int]] = field(default_factory=list)  # pairs of ids that look the same


def piece_name(album: str, number: int) -> str:
    """The collection with the photos of a piece."""
    return f"{album}_smoothap_{number}"


def about_name(album: str, number: int) -> str:
    """The collection that says what the album is as of a piece."""
    return f"{piece_name(album, number)}_about"


def pictures_name(album: str, number: int) -> str:
    """The collection with the thumbnails of a piece."""
    return f"{piece_name(album, number)}_pictures"


def current_number(server: MilvusServer, album: str) -> int | None:
    """The piece that the alias stands for, None if there is no album of this name; another's is refused."""
    behind = server.behind(album)
    if behind is None:
        if server.has(album):
            raise ValueError(f"{server.address} is a collection of somebody else and not touched: choose another name.")
        return None
    found = re.fullmatch(re.escape(album) + r"_smoothap_(\d+)", behind)
    if found is None or not is_ours(server, behind):
        raise ValueError(
            f"{server.address} stands for {behind}, which is somebody else's and not touched: choose another name."
        )
    return int(found[1])


def is_ours(server: MilvusServer, collection: str) -> bool:
    """Whether a collection has the fields of one that we made."""
    return any(field["name"] == OWN for field in server.ask("describe_collection", collection)["fields"])


def numbers_of(server: MilvusServer, album: str) -> list[int]:
    """All pieces of an album that are there, whole or not, in order."""
    pattern = re.compile(re.escape(album) + r"_smoothap_(\d+)(_about|_pictures)?")
    found = (pattern.fullmatch(name) for name in server.ask("list_collections"))
    return sorted({int(match[1]) for match in found if match is not None})


def drop_piece(server: MilvusServer, album: str, number: int) -> None:
    """Remove all that there is of a piece, if it is ours."""
    for name in (piece_name(album, number), pictures_name(album, number), about_name(album, number)):
        if server.has(name):
            if not is_ours(server, name):
                raise ValueError(f"{name} is a collection of somebody else and not touched: choose another name.")
            server.ask("drop_collection", name)


def create_piece(server: MilvusServer, name: str, dimension: int) -> None:
    """Make the collection of a piece, unless it is there; it has no index yet."""
    if server.has(name):
        return
    schema = _schema()
    types = _types()
    schema.add_field("vector", types.FLOAT_VECTOR, dim=dimension)
    for text in ("path", "label", "folder", "camera"):
        schema.add_field(text, types.VARCHAR, max_length=_TEXT)
    schema.add_field("date", types.INT64)
    schema.add_field("columns", types.JSON)
    server.ask("create_collection", name, schema=schema, consistency_level="Bounded")


def create_texts(server: MilvusServer, name: str) -> None:
    """Make a collection of texts by their ids, unless it is there; Milvus wants a vector in it all the same."""
    if not server.has(name):
        schema = _schema()
        schema.add_field("vector", _types().FLOAT_VECTOR, dim=2)
        schema.add_field("text", _types().VARCHAR, max_length=65_535)
        server.ask("create_collection", name, schema=schema, consistency_level="Strong")
    if not server.ask("list_indexes", name):
        server.ask("create_index", name, index_params("vector", "FLAT", {}))
    server.ask("load_collection", name)


def text_row(identity: int, text: str, number: int = 0) -> dict[str, Any]:
    """A row of a collection of texts."""
    return {"id": identity, OWN: number, "vector": [1.0, 0.0], "text": text}


def index_params(name: str, kind: str, params: dict[str, Any], metric: str = "IP") -> Any:
    """The parameters of an index on a field of vectors."""
    from pymilvus import MilvusClient

    made = MilvusClient.prepare_index_params()
    made.add_index(name, index_type=kind, metric_type=metric, params=params)
    return made


def _types() -> Any:
    from pymilvus import DataType

    return DataType


def _schema() -> Any:
    from pymilvus import MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description="an album of smoothap")
    schema.add_field("id", _types().INT64, is_primary=True)
    schema.add_field(OWN, _types().INT64)
    return schema


def fields_of(record: dict[str, Any]) -> dict[str, Any]:
    """What searches are filtered by, of a photo as the table has it."""
    path = bytes(record["path"]).decode(errors="backslashreplace")
    return {
        "id": record["id"],
        OWN: record[OWN],
        "path": path[:_LONGEST_TEXT],
        "folder": path.rpartition("/")[0][:_LONGEST_TEXT],
        "label": _plain(record["label"] or ""),
        "camera": _plain(record["camera"] or ""),
        "date": UNDATED if record["taken"] is None else record["taken"],
        "columns": {_plain(name): _plain(value) for name, value in record["columns"] or ()},
    }


def _plain(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()[:_LONGEST_TEXT]


def write_about(server: MilvusServer, album: str, about: About, table: pa.Table, projection: np.ndarray | None) -> None:
    """Write down what the album is as of a piece: its last row comes last, so that it is there whole or not at all."""
    name, stream, parts = about_name(album, about.number), io.BytesIO(), list[bytes]()
    parts.append(json.dumps(asdict(about)).encode())
    pq.write_table(table.cast(TABLE), stream, compression="zstd")
    parts.append(stream.getvalue())
    parts.append(b"" if projection is None else np.ascontiguousarray(projection, "<f4").tobytes())
    whole = b"".join(parts)
    create_texts(server, name)
    chunks = [whole[start : start + _CHUNK] for start in range(0, len(whole), _CHUNK)]
    rows = [text_row(place, base64.b64encode(chunk).decode()) for place, chunk in enumerate(chunks, start=1)]
    for start in range(0, len(rows), _CHUNKS_AT_ONCE):
        server.ask("upsert", name, rows[start : start + _CHUNKS_AT_ONCE])
    lengths = [len(part) for part in parts]
    seal = {"format": FORMAT, "chunks": len(chunks), "lengths": lengths, "sha256": hashlib.sha256(whole).hexdigest()}
    server.ask("upsert", name, [text_row(0, json.dumps(seal))])


def read_about(server: MilvusServer, album: str, number: int) -> tuple[About, pa.Table, np.ndarray | None] | None:
    """What `write_about` wrote, checked to the byte; None where it was not written to its end."""
    name = about_name(album, number)
    if not server.has(name):
        return None
    seal = server.ask("query", name, filter="id == 0", output_fields=["text"], consistency_level="Strong", limit=1)
    if not seal:
        return None
    described = json.loads(seal[0]["text"])
    if described.get("format") != FORMAT:
        raise ValueError(f"{server.address} was loaded by another version of smoothap: load it again with this one.")
    texts: dict[int, str] = {}
    for start in range(1, described["chunks"] + 1, _CHUNKS_AT_ONCE):
        where = f"id >= {start} and id < {start + _CHUNKS_AT_ONCE}"
        rows = server.ask(
            "query", name, filter=where, output_fields=["id", "text"], limit=_CHUNKS_AT_ONCE, consistency_level="Strong"
        )
        texts |= {row["id"]: row["text"] for row in rows}
    whole = b"".join(base64.b64decode(texts[place]) for place in sorted(texts))
    if hashlib.sha256(whole).hexdigest() != described["sha256"]:
        raise ValueError(f"{name} at {server.address.server} is damaged: load the album again with --replace.")
    ends = np.cumsum([0, *described["lengths"]])
    words, photos, numbers = (whole[first:last] for first, last in pairwise(ends))
    values = json.loads(words)
    values["pieces"], values["removed"] = tuple(values["pieces"]), tuple(values["removed"])
    if values["learnt"] is not None:
        values["learnt"]["gain"] = tuple(values["learnt"]["gain"])
    about = About(**values)
    with pq.ParquetFile(io.BytesIO(photos)) as stored:
        table = stored.read()
    if not table.schema.equals(TABLE) or table.num_rows != about.rows:
        raise ValueError(f"{name} at {server.address.server} holds no table of photos: load the album again.")
    if not numbers or about.learnt is None:
        return about, table, None
    return about, table, np.frombuffer(numbers, "<f4").reshape(about.learnt["dimension"], -1)
