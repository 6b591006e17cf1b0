"""Crops of faces from the boxes and landmarks that a set's own files give; nothing here detects a face."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from smoothap.data.datasets.listing import missing_files
from smoothap.data.reading import UnreadableImage, read_image
from smoothap.data.tables import as_numbers, positions

ALIGNED_SIZE = 112
_FARTHEST = 1e6  # pixels: whatever lies farther out is no place in an image
# Where ArcFace wants the eyes, the nose and the corners of the mouth, as x and y in a crop of 112 x 112.
ARCFACE_POINTS = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)


def places_of_faces(files: pa.Array, table: Path, keys: pa.Array, columns: dict[str, pa.Array]) -> np.ndarray:
    """The numbers (n, columns) float32 in the row of the table whose key is the file's name."""
    rows = positions(files, keys)
    if rows.null_count:
        missing = files.filter(rows.is_null()).to_pylist()
        raise missing_files(f"{table}, which gives the faces", missing, len(files), "Download the table again.")
    return as_numbers(table, columns)[rows.to_numpy()]


def read_box(path: Path, box: np.ndarray, factor: float = 1.3) -> Image.Image:
    """The face's box (x, y, width, height) extended about its centre by a factor and cut at the image's edges."""
    x, y, width, height = (float(value) for value in box)
    if not np.isfinite(box).all() or np.abs(box).max() > _FARTHEST:
        raise UnreadableImage(str(path), f"its face is said to be at {x:g}, {y:g}, {width:g} x {height:g}")
    left, top = round(x - (factor - 1) / 2 * width), round(y - (factor - 1) / 2 * height)
    return read_image(path, box=(left, top, round(factor * width), round(factor * height)))


def read_aligned(path: Path, points: np.ndarray) -> Image.Image:
    """The face aligned by its five points (10,), x and y of each: 112 x 112."""
    if not np.isfinite(points).all() or np.abs(points).max() > _FARTHEST:
        raise UnreadableImage(str(path), "its landmarks are said to be outside of any image")
    return align(read_image(path), points)


def align(image: Image.Image, points: np.ndarray) -> Image.Image:
    """The face turned, scaled and moved so that its five points (5, 2) are where ArcFace wants them: 112 x 112."""
    back = similarity(ARCFACE_POINTS, points.reshape(5, 2))  # from a pixel of the crop to its place in the image
    size = (ALIGNED_SIZE, ALIGNED_SIZE)
    return image.transform(size, Image.Transform.AFFINE, tuple(back.ravel()), Image.Resampling.BILINEAR)


def similarity(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The rotation, scale and shift that bring source (n, 2) closest to target (n, 2): (2, 3), by least squares.

    A similarity of the plane is a product with one complex number and a sum with another.
    """
    start, end = source @ np.array([1, 1j]), target @ np.array([1, 1j])
    centred = start - start.mean()
    turn = np.vdot(centred, end - end.mean()) / np.vdot(centred, centred)
    shift = end.mean() - turn * start.mean()
    return np.array([[turn.real, -turn.imag, shift.real], [turn.imag, turn.real, shift.imag]])
