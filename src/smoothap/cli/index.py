"""`smoothap index`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from smoothap import experiments
from smoothap.cli.options import Device, NetworkSize, Weights, check_folder, check_network_options, chosen_device

if TYPE_CHECKING:
    import numpy as np

    from smoothap.data.benchmark import Benchmark
    from smoothap.models import Embedder
    from smoothap.search import Album, UpdateReport
    from smoothap.search.updating import Labels

_LISTED = 10  # unreadable files that are printed
_NETWORK = "network"  # the folder in an album for a network whose weights came from a file


def index(
    photos: Path,
    /,
    *,
    out: Path,
    model: str | None = None,
    weights: Weights = None,
    size: NetworkSize = None,
    labels: str | None = None,
    calibrate: str | None = None,
    device: Device = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Make an album of a folder of photos, to search by example; run it again and only what changed is touched.

    Stop it at any moment and run it again: it goes on where it was. Files that cannot be read are listed in
    unreadable.csv in the album.

    Parameters
    ----------
    photos
        The folder of photos, with any folders in it.
    out
        The folder of the album.
    model
        The folder of a trained model, or a timm name for its published weights; needed for a new album only.
    labels
        "folders", so that each photo is labelled by the folder it lies in, or a CSV file with the columns path
        (relative to the photo folder) and label.
    calibrate
        NAME or NAME:PATH, such as emoji or folder:PATH: labelled photos to learn from what a score means, for
        searches that ask for a recall. All classes are used that a training with this set leaves out.
    as_json
        Print the report as JSON.
    """
    from smoothap.models import Embedder
    from smoothap.search import Album
    from smoothap.search.description import NAME

    if model is None and (size is not None or weights is not None):
        raise ValueError("--size and --weights say more of a --model by its timm name: give that too.")
    check_folder(out)
    known, place = _labels(labels), chosen_device(device)
    benchmark = None if calibrate is None else experiments.open_data(calibrate)
    if (out / NAME).exists():
        source = None if model is None else _source(model, size, weights, place)
        album = Album.open(out, root=photos, model=source, device=place)
    elif model is None:
        raise ValueError(f"{out} is a new album: give the --model that is to make its vectors.")
    else:
        _check_new(photos, out)
        source = _source(model, size, weights, place)
        if isinstance(source, Embedder):  # weights of a file, which may move: the album keeps a copy
            source = source.save(out / _NETWORK)
        album = Album.create(out, source, photos, device=place)
    report = album.update(labels=known)
    if benchmark is not None:
        _calibrate(album, benchmark, out)
    _print_report(album, report, out, as_json)


def _check_new(photos: Path, out: Path) -> None:
    """See that there is something to make an album of, and a place for it, before there is an album."""
    from smoothap.search.walking import walk

    walk(photos)
    # Hidden files and the network are what an index that was stopped in its first moments leaves.
    files = [file.name for file in out.iterdir()] if out.exists() else []
    if others := [name for name in files if name[0] != "." and name != _NETWORK]:
        raise ValueError(f"{out} is no album and holds other files, such as {min(others)}: give a new folder as --out.")


def _source(model: str, size: int | None, weights: str | None, device: str) -> Embedder | str:
    check_network_options(model, size=size, weights=weights)
    if weights is not None:
        return experiments.open_model(model, size=size, weights=weights).eval().to(device)
    return model if size is None else f"{model}@{size}"


def _labels(labels: str | None) -> Labels | None:
    if labels is None:
        return None
    if labels == "folders":
        from smoothap.search.updating import labels_by_folder

        return labels_by_folder
    from smoothap.data.columns import read_table

    if not Path(labels).is_file():
        raise ValueError(f"--labels takes 'folders' or a CSV file with the columns path and label, not {labels!r}.")
    table = read_table(Path(labels), ("path", "label"))
    by_path = dict(zip(table["path"].to_pylist(), table["label"].to_pylist(), strict=True))
    return lambda path: by_path.get(path) or None


def _calibrate(album: Album, benchmark: Benchmark, out: Path) -> None:
    import numpy as np

    from smoothap.data.dataset import ImageDataset
    from smoothap.training.evaluation import embed_set

    unseen = [next(iter(benchmark.tests.values()))]
    if benchmark.train is not None:
        unseen.append(benchmark.train_and_validation()[1])
    model, classes = album.embedder(), 0
    vectors: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    for images in unseen:
        dataset = ImageDataset(images, model.transform, report=out / "unreadable-calibration.csv")
        embedded = embed_set(model, dataset)
        vectors.append(embedded.vectors)
        labels.append(images.labels[embedded.rows] + classes)
        classes += images.classes
    album.calibrate(np.concatenate(vectors), np.concatenate(labels), f"{benchmark.name}, {classes} classes")


def _print_report(album: Album, report: UpdateReport, out: Path, as_json: bool) -> None:
    counts = {
        "photos": len(album), "added": len(report.added), "changed": len(report.changed),
        "unchanged": report.unchanged, "removed": len(report.removed), "relabelled": len(report.relabelled),
        "unreadable": len(report.unreadable), "other files": report.ignored,
    }  # fmt: skip
    calibration = album.calibration
    if as_json:
        calibrated = None if calibration is None else {"source": calibration.source, "queries": calibration.queries}
        whole = {**counts, "unreadable": report.unreadable, "removed": report.removed, "calibration": calibrated}
        print(json.dumps({"album": str(out), "model": str(album.model), **whole}, indent=1))
        return
    from smoothap.cli.printing import printable

    print(", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "photos"))
    for path, reason in list(report.unreadable.items())[:_LISTED]:
        print(f"  cannot be read: {printable(path)}: {printable(reason)}")
    if report.unreadable:
        print(f"{out / 'unreadable.csv'} lists what could not be read.")
    if calibration is not None:
        print(f"Calibrated by {calibration.queries:,} queries of {calibration.source}")
