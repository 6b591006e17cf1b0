"""Exact metrics of vectors and labels in files; needs torch and numpy alone."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from smoothap.metrics import Report, evaluate


def evaluate_files(
    embeddings: Path,
    labels: Path,
    gallery: Path | None = None,
    gallery_labels: Path | None = None,
    recall_at: Sequence[int] = (1, 10, 100, 1000),
    *,
    device: str | None = None,
) -> Report:
    """The report of vectors and labels in .npy files, which are read from the disk as they are needed."""
    ranked = [None if file is None else open_array(file) for file in (gallery, gallery_labels)]
    return evaluate(open_array(embeddings), open_array(labels), *ranked, recall_at, device=device, distributed=True)


def open_array(file: Path) -> np.ndarray:
    """The array of a .npy file, mapped; a file that would run code when opened is refused."""
    if file.suffix != ".npy":
        raise ValueError(f"{file}: vectors and labels are read from .npy files, which numpy.save writes")
    try:
        with file.open("rb") as opened:
            if opened.read(1) not in (b"\x93", b"P", b"\x80", b""):  # .npy, .npz, a pickle: numpy calls all else one
                raise ValueError("it does not begin as one")
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise ValueError(f"There is no file {file}: give the .npy file that numpy.save wrote") from error
    except (ValueError, EOFError) as error:
        if "allow_pickle" not in str(error) and "Python objects" not in str(error):
            raise ValueError(f"{file} is not a whole .npy file: {error}") from error
        raise ValueError(
            f"{file} holds pickled Python objects, which can run code when they are opened: save plain numbers or "
            "strings, such as numpy.array(labels, dtype=str)"
        ) from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{file} holds several arrays, whatever its name: save one with numpy.save")
    return array
