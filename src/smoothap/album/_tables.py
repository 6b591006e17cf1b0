"""`photos-000001.parquet` in an album: what is known of the photos of a segment, row by row."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from smoothap.album._segments import last_places
from smoothap.album.photos import OLDER_SCHEMA, OUTSIDE, SCHEMA, whole_numbers


def write_table(table: pa.Table, path: Path) -> None:
    """Write the photos of a segment."""
    pq.write_table(table.cast(SCHEMA), path, compression="zstd")


def read_table(file: Path, rows: int) -> pa.Table:
    """The photos of a segment of that many rows; whatever else the file may hold is refused."""
    try:
        with pq.ParquetFile(file) as stored:  # not read_table, which loads pandas first
            table = _as_schema(stored)
    except FileNotFoundError:
        raise  # swept away since it was checked: there is a new description
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{file} is no table of photos: {error}") from error
    if table.num_rows != rows or any(table.column(name).null_count for name in ("id", "path", "bytes", "modified")):
        raise ValueError(f"{file} should hold {rows} photos, not {table.num_rows}: it is damaged.")
    outside = pc.call_function("match_substring_regex", [table["path"]], pc.MatchSubstringOptions(OUTSIDE))
    if pc.call_function("any", [outside]).as_py():
        raise ValueError(f"{file} names a file outside of the photo folder: the album is not to be trusted.")
    return table


def _as_schema(stored: pq.ParquetFile) -> pa.Table:
    """The table of a file, with columns of nulls where an older version wrote it; an empty one where it is not ours."""
    if stored.schema_arrow.equals(SCHEMA):
        return stored.read()
    if not stored.schema_arrow.equals(OLDER_SCHEMA):
        return SCHEMA.empty_table()
    table = stored.read()
    for name in SCHEMA.names[len(OLDER_SCHEMA) :]:
        field = SCHEMA.field(name)
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def together_by_id(tables: list[pa.Table]) -> tuple[pa.Table, np.ndarray | None]:
    """Segments as one, in the order of ids, and where each row stands, (n,); the last row of an id counts."""
    table = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    ids = whole_numbers(table["id"])
    if (np.diff(ids) > 0).all():
        return table, None
    places = last_places(tables, np.unique(ids))
    return table.take(pa.array(places)), places
