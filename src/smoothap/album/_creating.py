"""New albums: empty ones for a model and a folder of photos, and those of vectors made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothap.album._identity import AlbumModel, ModelIdentity
from smoothap.album._storage import Storage, relative
from smoothap.album.description import Description, write_description
from smoothap.album.photos import Photos, records_of, table_of
from smoothap.album.refining import unit_vectors
from smoothap.album.vectors import FLOAT32, MappedVectors, Vectors, check_dtype

if TYPE_CHECKING:
    from smoothap.models import Embedder


def create_empty(
    folder: Path, model: Embedder | Path | str, root: Path | str | None, device: str | None, dtype: str
) -> AlbumModel:
    """Make an album without photos in a folder, and give its model back."""
    check_dtype(dtype)
    known = AlbumModel.of(model, folder, device)
    assert known.identity is not None
    storage = Storage(folder)
    with storage.creating():
        empty = Description(
            known.identity.dimension, root=None if root is None else relative(Path(root), folder), dtype=dtype
        )
        write_description(folder, known.described(empty))
    return known


@dataclass(frozen=True, eq=False)
class MadeElsewhere:
    """What an album of arrays is made of."""

    rows: tuple[Photos, Vectors]
    description: Description
    model: AlbumModel


def of_arrays(
    vectors: np.ndarray,
    metadata: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]],
    path: Path | str | None,
    root: Path | str | None,
    model: Embedder | ModelIdentity | Path | str | None,
    dtype: str,
) -> MadeElsewhere:
    """Make an album of vectors (n, d) and what is said about them, in a new folder if one is given."""
    check_dtype(dtype)
    folder, rows = None if path is None else Path(path), unit_vectors(vectors)
    records = records_of(metadata, len(rows))
    known = AlbumModel.of(model, folder)
    description = known.described(Description(rows.shape[1], dtype=dtype))
    if folder is not None:
        storage = Storage(folder)
        with storage.creating():
            place = None if root is None else relative(Path(root), folder)
            storage.append(replace(description, root=place), records, rows, [None] * len(rows))
    kept = rows if dtype == FLOAT32 else MappedVectors([rows.astype(dtype)], rows.shape[1])
    return MadeElsewhere((Photos(table_of(records)), kept), description, known)
