"""Where photos come from: a folder, tar shards, tables that hold images, and addresses of any kind.

    source = open_source("s3://bucket/photos")         # any address that fsspec opens, by the package of its kind
    source = open_source("shards/train-*.tar")         # WebDataset
    source = open_source("images.parquet")             # a column of bytes, or Hugging Face's column of images

A photo's path begins with the file that it is in, so that all photos of a shard, or of a group of rows, fall to the
same part of an album.
"""

from __future__ import annotations

import os
import re
import tarfile
import threading
import zlib
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from smoothap.album.photos import is_inside
from smoothap.album.prepare import FILE_LIMIT, files_below
from smoothap.album.walk import PhotoFile, Walk, kind_of, reason_of, walk
from smoothap.data.reading import UnreadableImage

_GROUPS_KEPT = 2  # groups of rows that are read: the one being worked on, and the next
_IMAGE_COLUMNS = ("image", "bytes", "img", "jpg", "png")


class Source(Protocol):
    """Photos by their paths, wherever they lie."""

    @property
    def root(self) -> Path | None:
        """The folder of this machine that holds them, if one does."""
        ...

    def walk(self, album: Path | None = None) -> Walk:
        """All photos, and what cannot be read; the album's own folder is left out."""
        ...

    def read(self, file: PhotoFile) -> bytes:
        """The content of one photo's file."""
        ...


@dataclass(frozen=True)
class Folder:
    """The photos below a folder of this machine."""

    root: Path

    def walk(self, album: Path | None = None) -> Walk:
        """All image files."""
        return walk(self.root, album)

    def read(self, file: PhotoFile) -> bytes:
        """The content of one file."""
        return files_below(self.root)(file)


def open_source(address: str) -> Source | None:
    """What an address names, by its form; None: a folder, or something else of this machine's own."""
    remote = "://" in address
    if not remote and Path(address).is_dir():
        return None
    if address.endswith(".tar"):
        return TarShards(address, _matching(address))
    if address.endswith(".parquet"):
        files = _matching(address)
        if remote or all(ParquetImages.holds_images(file.address) for file in files):
            return ParquetImages(address, files)
        return None
    return RemoteFolder(address) if remote else None


@dataclass(frozen=True)
class _File:
    """A file that holds many photos: its address, its name among the others, and its version."""

    address: str
    name: str
    version: int


def _matching(address: str) -> list[_File]:
    """The files that an address with * or {000..123} in it names, in order."""
    files: list[_File] = []
    for plain in _expanded(address):
        system, path = _file_system(plain)
        for found in sorted(system.glob(path)) if has_magic(path) else [path]:
            if not system.isfile(found):
                raise FileNotFoundError(f"There is no file {found}: give the shards, such as 'photos-*.tar'.")
            name, version = PurePosixPath(found).name, _version(system.info(found))
            files.append(_File(system.unstrip_protocol(found), name, version))
    if not files:
        raise FileNotFoundError(f"No file is named by {address}.")
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"Two of the files of {address} are called {twice}: photos are known by the name of their file."
        )
    return files


def _expanded(address: str) -> list[str]:
    """WebDataset's names: photos-{000..012}.tar stands for 13 shards."""
    match = re.search(r"\{(\d+)\.\.(\d+)\}", address)
    if match is None:
        return [address]
    first, last = match.groups()
    numbers = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return [
        plain for number in numbers for plain in _expanded(address[: match.start()] + number + address[match.end() :])
    ]


def _file_system(address: str) -> tuple[Any, str]:
    """fsspec's file system for an address, and the path in it."""
    import fsspec

    try:
        return fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise ValueError(f"{address} cannot be opened: {error}") from error


def _open(address: str) -> BinaryIO:
    system, path = _file_system(address)
    return system.open(path, "rb")


def _version(info: dict[str, Any]) -> int:
    """What changes when a file does: its time in nanoseconds, or a number made of its tag."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1e9)
        if isinstance(value, (int, float)):
            return int(value * 1e9)
    tag = info.get("ETag") or info.get("etag") or info.get("md5Hash") or ""
    return zlib.crc32(str(tag).encode())


class RemoteFolder:
    """The image files below an address, by any of fsspec's file systems."""

    root = None

    def __init__(self, address: str) -> None:
        self.name = address
        self._system, self._root = _file_system(address)

    def walk(self, album: Path | None = None) -> Walk:
        """All image files, by their suffix, hidden ones left out."""
        result, top = Walk(), self._root.rstrip("/")
        if not self._system.exists(self._root):
            raise FileNotFoundError(f"There is nothing at {self.name}: give the place that holds the photos.")
        for path, info in self._system.find(self._root, detail=True).items():
            below = path.rstrip("/")[len(top) :].lstrip("/")
            _take_in(result, PhotoFile(below, int(info.get("size") or 0), _version(info)))
        return _checked(result, self.name)

    def read(self, file: PhotoFile) -> bytes:
        """The content of one file."""
        _check_size(file)
        return self._system.cat_file(f"{self._root.rstrip('/')}/{file.path}")


class _Files:
    """Files that hold many photos each, by their names."""

    root = None

    def __init__(self, name: str, files: list[_File]) -> None:
        self.name, self.files = name, files
        self._addresses = {file.name: file.address for file in files}


class TarShards(_Files):
    """Photos in tar files, as WebDataset has them: `shard.tar/name.jpg`."""

    def walk(self, album: Path | None = None) -> Walk:
        """All image files of all shards; a shard that is damaged is reported, with what was found before the damage."""
        result = Walk()
        for shard in self.files:
            try:
                with _open(shard.address) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
                    for member in archive:
                        if member.isfile():
                            path = f"{shard.name}/{member.name.removeprefix('./')}"
                            _take_in(result, PhotoFile(path, member.size, shard.version, member.offset_data))
            except (tarfile.TarError, OSError, EOFError) as error:
                result.unreadable[shard.name] = f"a shard that cannot be read to its end: {reason_of(error)}"
        return _checked(result, self.name)

    def read(self, file: PhotoFile) -> bytes:
        """The content of one photo."""
        _check_size(file)
        with _open(self._addresses[file.path.split("/", 1)[0]]) as stream:
            stream.seek(file.place)
            content = stream.read(file.bytes)
        if len(content) < file.bytes:
            raise UnreadableImage(file.path, "its shard ends too early")
        return content


class ParquetImages(_Files):
    """Photos in Parquet files: a column of bytes, or of a struct with bytes; `file.parquet/group/row`."""

    def __init__(self, name: str, files: list[_File]) -> None:
        super().__init__(name, files)
        self._group, self._lock = lru_cache(_GROUPS_KEPT)(self._read_group), threading.Lock()

    @staticmethod
    def holds_images(address: str) -> bool:
        """Whether a Parquet file has a column of images, and not of paths alone."""
        import pyarrow.parquet as pq

        with _open(address) as stream, pq.ParquetFile(stream) as table:
            return _image_column(table.schema_arrow) is not None

    def walk(self, album: Path | None = None) -> Walk:
        """Every row; their bytes are read later, so that sizes are not known."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        result = Walk()
        for file in self.files:
            try:
                with _open(file.address) as stream, pq.ParquetFile(stream) as table:
                    if _image_column(table.schema_arrow) is None:
                        result.unreadable[file.name] = f"no column of images ({', '.join(_IMAGE_COLUMNS)}, of bytes)"
                        continue
                    for group in range(table.num_row_groups):
                        for row in range(table.metadata.row_group(group).num_rows):
                            path = f"{file.name}/{group:06d}/{row:06d}"
                            result.files.append(PhotoFile(path, 0, file.version, row))
            except (pa.ArrowException, OSError) as error:
                result.unreadable[file.name] = f"no Parquet file: {reason_of(error)}"
        return _checked(result, self.name)

    def read(self, file: PhotoFile) -> bytes:
        """The bytes of one row; its group is kept, because the next photo is in it too."""
        name, group, _ = file.path.split("/")
        with self._lock:
            content = self._group(name, int(group))[file.place]
        if content is None:
            raise UnreadableImage(file.path, "the row has no image")
        return content

    def _read_group(self, name: str, group: int) -> list[bytes | None]:
        import pyarrow.parquet as pq

        with _open(self._addresses[name]) as stream, pq.ParquetFile(stream) as table:
            column = _image_column(table.schema_arrow)
            assert column is not None
            top, _, leaf = column.partition(".")
            rows = table.read_row_group(group, [column]).column(top).to_pylist()
            return [row.get(leaf) if leaf and row is not None else row for row in rows]


def _image_column(schema: Any) -> str | None:
    """The column of a table that holds images: of bytes, or the bytes in a column of structs."""
    import pyarrow as pa

    for name in _IMAGE_COLUMNS:
        if name in schema.names:
            kind = schema.field(name).type
            if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                return name
            if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
                return f"{name}.bytes"
    return None


def _take_in(result: Walk, file: PhotoFile) -> None:
    """Count in a file by its path: a photo, or something that is none."""
    if not is_inside(os.fsencode(file.path)):
        result.unreadable[repr(file.path)] = "a path that leads out of its place"
    elif (kind := kind_of(file.path)) is None:
        result.files.append(file)
    elif kind:
        result.others[file.path] = kind


def _checked(result: Walk, name: str) -> Walk:
    paths = [file.path for file in result.files]
    if len(set(paths)) < len(paths):  # a tar may hold a name twice: the last counts, as it does when it is unpacked
        result.files = list({file.path: file for file in result.files}.values())
    if not result.files and not result.unreadable:
        raise ValueError(f"There are no photos in {name}: give the place that holds them.")
    result.files.sort()
    return result


def _check_size(file: PhotoFile) -> None:
    if file.bytes > FILE_LIMIT:
        raise UnreadableImage(file.path, f"{file.bytes:,} bytes, more than the limit of {FILE_LIMIT:,}")
