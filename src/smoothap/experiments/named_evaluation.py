"""Exact metrics in one call: of a model on a set by their names, or of vectors in files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from smoothap.experiments.data_sets import open_data
from smoothap.metrics import Report, evaluate


def evaluate_model(
    model: str,
    data: str,
    *,
    weights: str | None = None,
    size: int | None = None,
    recall_at: Sequence[int] | None = None,
    test_fraction: float | None = None,
    test_classes: Path | None = None,
    columns: str | None = None,
    device: str | None = None,
    workers: int = 0,
    unreadable: Path | str = "unreadable-images.csv",
) -> dict[str, Report]:
    """The report of a model for every test protocol of a set: `smoothap evaluate --model`.

        evaluate_model("runs/mine/model", "folder:photos")["test"].mean_average_precision

    `model` is the folder of a trained one, or a timm name, which alone takes `weights` and `size`; `unreadable` is the
    file that will list the images that cannot be read.
    """
    benchmark = open_data(data, test_fraction=test_fraction, test_classes=test_classes, columns=columns).with_tests()
    from smoothap.models import open_model  # vectors in files need none of this
    from smoothap.training.evaluation import evaluate_benchmark

    embedder = open_model(model, size=size, weights=weights).to(device)
    return evaluate_benchmark(embedder, benchmark, unreadable=unreadable, recall_at=recall_at, workers=workers)


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
