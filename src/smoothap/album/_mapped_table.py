"""What a large album says of its photos, as a file in the user's cache that is mapped into memory instead of read.

The album's own tables are compressed: reading those of ten million photos takes seconds, and more memory than a search.
The file holds the same rows, in the order of ids, and where the vector of each stands. It is named after the checksums
of the tables. Only a file is mapped that this user alone could write.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from smoothap._core.files import cache_folder, write_atomically
from smoothap.album._checksums import check, checksum
from smoothap.album._faiss_cache import belongs_to_us
from smoothap.album.description import Segment
from smoothap.album.photos import SCHEMA, whole_numbers

MANY = 500_000  # photos; fewer are read sooner than they are looked for
_PLACE = "place"
_KEPT = 4  # files in the cache: an album that changes leaves its old one behind


def read_mapped(segments: Sequence[Segment]) -> tuple[pa.Table, np.ndarray | None] | None:
    """The photos of these segments and where each stands, (n,) or None if in order; None if they are not kept."""
    folder, file = _file(segments)
    try:
        if not belongs_to_us(folder, file, file.with_suffix(".sha256")):
            return None
        check(file, file.with_suffix(".sha256").read_text(encoding="ascii").strip())
        table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    except (OSError, ValueError, pa.ArrowException):
        return None
    places = whole_numbers(table[_PLACE]) if _PLACE in table.column_names else None
    table = table.select(SCHEMA.names)
    return (table, places) if table.schema.equals(SCHEMA) else None


def keep_mapped(segments: Sequence[Segment], table: pa.Table, places: np.ndarray | None) -> None:
    """Keep the photos for the next time; a cache that cannot be written costs time and memory, nothing else."""
    folder, file = _file(segments)
    if places is not None:
        table = table.append_column(_PLACE, pa.array(places))

    def write(path: Path) -> None:
        with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table.combine_chunks())

    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.with_suffix(".sha256").unlink(missing_ok=True)  # first: it is not that of the new file
        write_atomically(file, write)
        write_atomically(file.with_suffix(".sha256"), checksum(file) + "\n")
        oldest_first = sorted(folder.glob("*.arrow"), key=lambda kept: kept.stat().st_mtime)
        for old in oldest_first[:-_KEPT]:
            old.unlink(missing_ok=True)
            old.with_suffix(".sha256").unlink(missing_ok=True)
    except OSError:
        return


def _file(segments: Sequence[Segment]) -> tuple[Path, Path]:
    folder = cache_folder() / "tables"
    return folder, folder / f"{checksum(chr(10).join(segment.photos for segment in segments).encode())}.arrow"
