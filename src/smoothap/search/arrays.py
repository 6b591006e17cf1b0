"""Vectors and metadata that were made elsewhere, checked and brought into the album's form."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from smoothap.metrics import cosine
from smoothap.metrics.cosine import given_rows, norms_and_marks
from smoothap.search.photos import new_record


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Vectors (n, d) as float32 of length 1; a row that is zero or not finite is named."""
    array = np.asarray(vectors)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ValueError(f"Vectors are numbers of shape (n, d), not {array.dtype} of shape {array.shape}.")
    given = given_rows(array)
    norms, _ = norms_and_marks(given)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if len(bad):
        raise ValueError(f"Vector {bad[0]} is zero or has a number that is not finite: leave that photo out.")
    return cosine.unit_rows(given, norms, torch.float32).numpy()


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Columns of one length as a dict for each row."""
    if len({len(values) for values in columns.values()}) > 1:
        lengths = {name: len(values) for name, values in columns.items()}
        raise ValueError(f"Columns of metadata are of one length, not {lengths}.")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def record_of(row: int, known: Mapping[str, Any]) -> dict[str, Any]:
    """What the user says about a photo as a row of the table."""
    label = known.get("label")
    return new_record(
        row,
        str(known.get("path", f"{row:08d}")),
        label=None if label is None else str(label),
        bytes=int(known.get("bytes", 0)),
        modified=round(float(known.get("modified", 0)) * 1e9),
        sha256=bytes.fromhex(str(known.get("sha256", ""))),
        width=int(known.get("width", 0)),
        height=int(known.get("height", 0)),
    )


def cut(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """The part of the image inside the box (x, y, width, height)."""
    x, y, width, height = box
    left, upper, right, lower = max(x, 0), max(y, 0), min(x + width, image.width), min(y + height, image.height)
    if right <= left or lower <= upper:
        raise ValueError(f"The box {box} lies outside of the image's {image.width} x {image.height} pixels.")
    return image.crop((left, upper, right, lower))
