"""Text and numbers that others wrote: read, or refused with the name of the file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa


def read_text(path: Path) -> str:
    """The text of a file in UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is no text in UTF-8 (byte {error.start}): save it as that, or fetch it again."
        ) from error


def read_json(path: Path) -> Any:
    """The document in a json file."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no whole json file ({error}): fetch it again.") from error


def as_numbers(path: Path, columns: dict[str, pa.Array]) -> np.ndarray:
    """Columns of text as numbers (rows, columns) float32; the first cell that is none is named."""
    return np.stack([_numbers(path, name, column) for name, column in columns.items()], axis=1)


def _numbers(path: Path, name: str, column: pa.Array) -> np.ndarray:
    try:
        return column.cast(pa.float32()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        row, cell = next((row, cell) for row, cell in enumerate(column.to_pylist()) if not _is_number(cell))
        raise ValueError(
            f"{path}: {name} of row {row + 1} is no number but {cell[:40]!r}: fetch the file again."
        ) from error


def _is_number(cell: str) -> bool:
    try:
        pa.array([cell]).cast(pa.float32())
    except pa.ArrowInvalid:
        return False
    return True
