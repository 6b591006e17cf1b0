"""Photos that other processes and machines embed: each leaves one Parquet file, and one host inserts it.

A worker reads photos and writes; it never opens `album.db`, whose locks are not to be trusted on network folders. A
shard gets its name once it is whole: one file with a row for each photo, its vector and its thumbnail, and, in the
metadata, what made it and which files were not read. Whoever writes to the album next inserts what is there.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from smoothap._core.files import write_atomically
from smoothap._core.progress import Progress
from smoothap.album.dates import day_of
from smoothap.album.given_photos import GivenPhotos
from smoothap.album.identity import ModelIdentity, identity_of, load_model
from smoothap.album.photos import NOTHING_KNOWN, is_inside
from smoothap.album.prepare import Embedded, Wanted, embed_files
from smoothap.album.sources import Source
from smoothap.album.walk import PhotoFile, Refusal, Walk, container_of, read_refusals
from smoothap.models import Embedder

SHARDS = "shards"  # the folder in an album
KNOWN = "known.parquet"  # what the album has, for workers of a batch system
PHOTOS_A_SHARD = 512  # of a run by several processes
_PHOTOS_A_FILE = 4096  # of a share that a batch system computes
_TRIES = 5  # of a shard whose worker was lost; its photos may be what takes it down
_FACTS = ("path", "bytes", "modified", "sha256", "width", "height", "taken", "camera")
_NEEDED = ("path", "bytes", "modified", "sha256", "width", "height", "vector")
_SCHEMA = pa.schema(
    [
        ("path", pa.binary()), ("bytes", pa.int64()), ("modified", pa.int64()), ("sha256", pa.binary()),
        ("width", pa.int64()), ("height", pa.int64()), ("taken", pa.int64()), ("camera", pa.string()),
        ("vector", pa.binary()), ("thumbnail", pa.binary()),
    ]
)  # fmt: skip


class Share(NamedTuple):
    """One of that many shares of a source: `Share(3, 64)` is the third of 64."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Share:
        """The share that a text such as 3/64 names."""
        number, slash, of = text.partition("/")
        if not (slash and number.isascii() and of.isascii() and number.isdigit() and of.isdigit()):
            raise ValueError(f"A shard is given as NUMBER/OF, such as 3/64, not as {text!r}.")
        if not 1 <= int(number) <= int(of):
            raise ValueError(f"Shards are numbered from 1/{of} to {of}/{of}: there is no shard {text}.")
        return cls(int(number), int(of))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def holds(self, path: str) -> bool:
        """Whether a photo falls to this share: by its path alone, so that it stays there when others come and go."""
        return zlib.crc32(os.fsencode(container_of(path))) % self.of == self.number - 1


@dataclass(frozen=True)
class ShardWork:
    """What a worker needs to know, as plain values: the photos, where shards go, and what makes the vectors."""

    photos: str
    folder: str
    model: str  # a folder, or the name of a network with published weights
    dtype: str
    device: str | None = None
    readers: int | None = None

    @cached_property
    def embedder(self) -> Embedder:
        """The model, on its device."""
        from smoothap._core.devices import chosen_device

        return load_model(self.model).to(chosen_device(self.device))

    @cached_property
    def identity(self) -> ModelIdentity:
        """Which model it is."""
        return identity_of(self.embedder)

    @cached_property
    def _source(self) -> Source:
        return GivenPhotos.open(self.photos, None, None).source

    def compute(self, name: str, wanted: Sequence[Wanted], *, progress: bool = False) -> int:
        """Embed files and leave them as one shard; how many there are."""
        whole = Embedded()
        with Progress("Embedding", len(wanted), "photos", shown=progress) as line:
            for batch in embed_files(self.embedder, self._source.read, wanted, self.readers, line):
                whole.records += batch.records
                whole.vectors += batch.vectors
                whole.thumbnails += batch.thumbnails
                whole.refusals |= batch.refusals
                whole.same += batch.same
        about = {
            "model": asdict(self.identity), "refusals": {path: list(why) for path, why in whole.refusals.items()},
            "same": [list(file) for file in whole.same],
        }  # fmt: skip
        write_shard(Path(self.folder) / f"{name}.parquet", whole, about)
        return len(whole.records)


# What gives the names of shards in their order, as they are there; each has a name and its files.
Compute = Callable[[ShardWork, Iterable[tuple[str, Sequence[Wanted]]], int], Iterator[str]]


def write_shard(file: Path, photos: Embedded, about: Mapping[str, Any]) -> None:
    """Write a shard, which has its name when it is whole."""
    columns: dict[str, list[Any]] = {name: [record[name] for record in photos.records] for name in _FACTS}
    columns["vector"] = [np.asarray(vector, "<f4").tobytes() for vector in photos.vectors]
    columns["thumbnail"] = photos.thumbnails
    schema = _SCHEMA.with_metadata({"smoothap": json.dumps(about)})
    table = pa.table([pa.array(columns[one.name], one.type) for one in schema], schema=schema)
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    write_atomically(file, lambda path: pq.write_table(table, path, **options))


def read_shard(file: Path, identity: ModelIdentity | None, dimension: int) -> Embedded:
    """What a worker left; a file that is no shard of this album's model is refused."""
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as stored:
            if not stored.schema_arrow.remove_metadata().equals(_SCHEMA):
                raise ValueError("it has other columns")
            about = json.loads((stored.schema_arrow.metadata or {})[b"smoothap"])
            table = stored.read()
        rows = table.to_pylist()
        if any(table[name].null_count for name in _NEEDED) or len({row["path"] for row in rows}) != len(rows):
            raise ValueError("a photo lacks something, or is there twice")
        for row in rows:
            if row["taken"] is not None:
                day_of(row["taken"])
        vectors = [np.frombuffer(row["vector"], "<f4") for row in rows]
        refusals = {str(path): Refusal(*why) for path, why in dict(about["refusals"]).items()}
        same = [PhotoFile(*one) for one in about["same"]]
        if not all(list(map(type, file[:3])) == [str, int, int] for file in same):
            raise ValueError("a file is not described as one")
        model = ModelIdentity.of(about["model"])
    except (OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise ValueError(f"{file} is no shard of an album ({error}): delete it, and embed its photos again.") from error
    if model != identity:
        raise ValueError(f"{file} was made by another model ({model}) than the album ({identity}): delete it.")
    for row, vector in zip(rows, vectors, strict=True):
        if not is_inside(row["path"]) or vector.shape != (dimension,):
            raise ValueError(f"{file} names a file outside of the photo folder, or has vectors of another length.")
        if not abs(float(vector @ vector) - 1) <= 1e-3:
            raise ValueError(f"{file} has a vector that is not of length 1: delete it, and embed its photos again.")
    records = [{**NOTHING_KNOWN, **{name: row[name] for name in _FACTS}} for row in rows]
    return Embedded(records, vectors, [row["thumbnail"] for row in rows], refusals, same)


def waiting_shards(album: Path) -> list[Path]:
    """The shards that were left in an album's folder and wait to be inserted, in order."""
    return sorted(file for file in (album / SHARDS).glob("*.parquet") if file.name != KNOWN)


def write_known(album: Path, known: Mapping[bytes, tuple[int, int, int, bytes]]) -> None:
    """Say which files the album has, for workers that cannot ask it."""
    rows = [(path, size, modified, content) for path, (_, size, modified, content) in known.items()]
    names = ("path", "bytes", "modified", "sha256")
    schema = pa.schema([_SCHEMA.field(name) for name in names])
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=schema)
    write_atomically(album / SHARDS / KNOWN, lambda path: pq.write_table(table, path, compression="zstd"))


def compute_share(work: ShardWork, share: Share, walk: Walk, album: Path, *, progress: bool) -> tuple[int, int]:
    """Embed what of a source falls to a share and the album lacks; how many files those are, and how many are read."""
    name = f"{share.number:06d}-of-{share.of:06d}"
    left = [file for file in waiting_shards(album) if file.name.startswith(name)]  # by a run that was stopped
    for file in (album / SHARDS).glob(f".{name}-*.partial"):
        file.unlink(missing_ok=True)
    known: dict[str, tuple[int, int, bytes]] = {}
    for file in (album / SHARDS / KNOWN, *left):
        if file.is_file():
            try:
                with pq.ParquetFile(file) as stored:
                    rows = stored.read(columns=["path", "bytes", "modified", "sha256"]).to_pylist()
            except (OSError, pa.ArrowException) as error:
                raise ValueError(f"{file} is damaged ({error}): delete it.") from error
            known |= {os.fsdecode(row["path"]): (row["bytes"], row["modified"], row["sha256"]) for row in rows}
    refused = read_refusals(album)
    wanted: list[Wanted] = []
    for file in walk.files:
        have, why = known.get(file.path), refused.get(file.path)
        is_new = have is None or have[:2] != (file.bytes, file.modified)
        is_refused = why is not None and why == Refusal(why.reason, file.bytes, file.modified)
        if share.holds(file.path) and is_new and not is_refused:
            wanted.append((file, None if have is None else have[2]))
    read = 0
    for start in range(0, len(wanted), _PHOTOS_A_FILE):
        part = wanted[start : start + _PHOTOS_A_FILE]
        read += work.compute(f"{name}-{len(left) + start // _PHOTOS_A_FILE:06d}", part, progress=progress)
    return len(wanted), read


def embed_by(
    compute: Compute, work: ShardWork, identity: ModelIdentity, progress: bool, wanted: Sequence[Wanted]
) -> Iterator[Embedded]:
    """Embed files by other processes, a shard at a time."""
    parts = [wanted[start : start + PHOTOS_A_SHARD] for start in range(0, len(wanted), PHOTOS_A_SHARD)]
    named = [(f"run-{number:08d}", part) for number, part in enumerate(parts)]
    with Progress("Indexing", len(wanted), "photos", shown=progress) as line:
        for (_, part), name in zip(named, compute(work, named, len(named)), strict=True):
            file = Path(work.folder) / f"{name}.parquet"
            yield read_shard(file, identity, identity.dimension)
            file.unlink()
            line.advance(len(part))


def by_processes(workers: int) -> Compute:
    """What computes shards by that many processes of this machine; they end with this one."""
    if workers < 1:
        raise ValueError(f"--processes is how many processes embed photos, at least 1, not {workers}.")

    def compute(work: ShardWork, named: Iterable[tuple[str, Sequence[Wanted]]], number: int) -> Iterator[str]:
        threads = max(1, (os.cpu_count() or 1) // workers)
        pool = ProcessPoolExecutor(min(workers, number), get_context("spawn"), _begin, (work, threads))
        try:
            yield from pool.map(_compute, named)
        except BrokenExecutor as error:
            raise RuntimeError(
                "A process that embedded photos ended, perhaps for want of memory. What was done is kept: run this "
                "again, with fewer --processes if it was memory."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)

    return compute


_work: ShardWork | None = None  # of this process, which computes shards for another


def _begin(work: ShardWork, threads: int) -> None:
    import torch

    from smoothap._core.workers import end_with_the_parent

    global _work
    end_with_the_parent()
    torch.set_num_threads(threads)
    _work = replace(work, readers=threads)


def _compute(named: tuple[str, Sequence[Wanted]]) -> str:
    assert _work is not None
    _work.compute(*named)
    return named[0]


def by_ray(address: str) -> Compute:
    """What computes shards on a Ray cluster: by its address, "auto" for this machine's, "local" to start one.

    The photos, the album and its model are in folders, or at addresses, that all machines reach by the same names.
    """
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError as missing:
        raise ValueError("--ray needs Ray: pip install 'smoothap[ray]'") from missing

    def compute(work: ShardWork, named: Iterable[tuple[str, Sequence[Wanted]]], number: int) -> Iterator[str]:
        if not ray.is_initialized():
            options = {"_node_ip_address": "127.0.0.1"} if address == "local" else {"address": address}
            ray.init(**options, include_dashboard=False, log_to_driver=False, configure_logging=False)
        resources = ray.cluster_resources()
        on_gpu = resources.get("GPU", 0) >= 1
        # A share of a core each, so that others on the cluster are not kept waiting for ever.
        needs = {"num_gpus": 1, "num_cpus": 0.5} if on_gpu else {"num_cpus": 0.9}
        there = asdict(replace(work, device=None if on_gpu else "cpu", readers=1))
        actor = ray.remote(max_restarts=_TRIES, max_task_retries=_TRIES, **needs)(_RayActor)
        room = max(1, int(resources.get("GPU" if on_gpu else "CPU", 1)))
        actors = [actor.remote(there) for _ in range(min(number, room))]
        try:
            pool = import_module("ray.util").ActorPool(actors)
            for name in pool.map(lambda one, part: one.compute.remote(*part), list(named)):
                yield str(name)
        except ray.exceptions.RayActorError as error:
            raise RuntimeError(
                f"A shard took down {_TRIES} actors, perhaps for want of memory. What was done is kept: give the "
                "actors more memory, and run this again."
            ) from error
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error

    return compute


class _RayActor:
    """The model of an album, in a process of Ray's."""

    def __init__(self, work: dict[str, Any]) -> None:
        import torch

        torch.set_num_threads(1)
        self._work = ShardWork(**work)

    def compute(self, name: str, wanted: Sequence[Wanted]) -> str:
        """Compute one shard; nothing but its name goes back."""
        self._work.compute(name, wanted)
        return name
