"""An album of a folder of photos: made, brought up to date, labelled and calibrated in one call."""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from smoothap.data.benchmark import Benchmark
from smoothap.data.columns import read_table
from smoothap.data.image_set import ImageSet
from smoothap.data.places import data_folder
from smoothap.experiments._photo_table import TABLES, PhotoTable, read_photo_table
from smoothap.experiments.data_sets import open_data
from smoothap.models import Embedder, open_model
from smoothap.models.efficientnet_lite import ARCHITECTURE
from smoothap.search import Album, UpdateReport
from smoothap.search.description import COLLECTIONS, NAME, refuse_inside_album
from smoothap.search.updating import Labels, labels_by_folder
from smoothap.search.walking import walk
from smoothap.training.evaluation import embed_sets

_NETWORK = "network"  # the folder in an album for a network whose weights came from a file


@dataclass(frozen=True, eq=False)
class Indexed:
    """An album that is up to date, what was done for that, and paths in the table of labels that name no photo.

    `chosen` is the network that was taken for a new album because none was given.
    """

    album: Album
    report: UpdateReport
    unknown_paths: list[str]
    chosen: str | None = None


def album_place(photos: Path | str) -> Path:
    """Where the album of a folder lies for which no place was given: by the folder's own path, in the user's data."""
    folder = Path(photos).resolve()
    name = re.sub(r"[^\w.-]+", "-", folder.name).strip("-.")[:60] or "photos"
    return data_folder() / "albums" / f"{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:10]}"


def index_photos(
    photos: Path | str,
    out: Path | str,
    *,
    model: str | None = None,
    weights: str | None = None,
    size: int | None = None,
    labels: str | None = None,
    columns: str | None = None,
    calibrate: str | None = None,
    remove_missing: bool = False,
    device: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Indexed:
    """Make an album of a folder of photos, or of those that a table lists, or bring it up to date: `smoothap index`.

        indexed = index_photos("photos", "album", model="tf_efficientnet_lite0", labels="folders")
        print(len(indexed.album), indexed.report.unreadable)

    `model` is the folder of a trained model or a timm name, with `weights` from a file and a `size` if you like; a new
    album for which none is given is made by the default network, tf_efficientnet_lite0. `labels` is "folders", or a CSV
    or Parquet file with the columns path (relative to that file's folder) and label. `calibrate` is NAME or NAME:PATH
    of labelled photos to learn from what a score means. A table in the place of the folder is a CSV or Parquet file
    with a column path, and label if you like; the album keeps all others to filter by. `columns` says what they are
    called in any table here, such as "path=image_path,label=product_id". `remove_missing` and `workers` are those of
    `Album.update`.
    """
    photos, out = Path(photos), Path(out)
    is_new = not (out / NAME).exists()
    chosen = ARCHITECTURE if is_new and model is None else None
    model = model or chosen
    table = _listed(photos, labels, columns)
    photos = photos if table is None else table.root
    if is_new:
        _check_new(photos, out)
    label_of, unknown = (None, list[str]()) if labels is None else read_labels(labels, photos, columns)
    if table is not None:
        label_of, unknown = table.label if table.labelled else None, table.missing
    labelled = None if calibrate is None else open_data(calibrate)
    unseen = [] if labelled is None else _unseen_images(labelled)
    source = None if model is None else _network(model, size, weights)
    if is_new and source is not None:
        if isinstance(source, Embedder):  # the file of its weights may move, so the album keeps a copy
            source = source.save(out / _NETWORK)
        album = Album.create(out, source, photos, device=device)
    else:
        album = Album.open(out, root=photos, model=source, device=device)
    report = album.update(
        paths=None if table is None else table.rows, labels=label_of, columns=None if table is None else table.columns,
        remove_missing=remove_missing, workers=workers, progress=progress,
    )  # fmt: skip
    if labelled is not None:
        vectors, classes = embed_sets(album.embedder(), unseen, unreadable=out / "unreadable-calibration.csv")
        album.calibrate(
            album.projected(vectors), classes, f"{labelled.name}, {sum(images.classes for images in unseen)} classes"
        )
    return Indexed(album, report, unknown, chosen)


def _listed(photos: Path, labels: str | None, columns: str | None) -> PhotoTable | None:
    """The table in the place of a photo folder, if it is one."""
    if photos.suffix.lower() not in TABLES or photos.is_dir():
        if columns is not None and (labels is None or labels == "folders"):
            raise ValueError("--columns names the columns of a table: give one as the photos, or as --labels.")
        return None
    if labels is not None:
        raise ValueError(f"{photos} lists the photos and their labels too: leave --labels out, or see --columns.")
    return read_photo_table(photos, columns)


def _check_new(photos: Path, out: Path) -> None:
    """See that there is something to make an album of, and a place for it, before there is an album."""
    refuse_inside_album(out)
    walk(photos)
    # Hidden files and the network are what an index that was stopped in its first moments leaves; collections may be
    # those of an earlier album of these photos.
    files = [file.name for file in out.iterdir()] if out.exists() else []
    if others := [name for name in files if name[0] != "." and name not in (_NETWORK, COLLECTIONS)]:
        raise ValueError(f"{out} is no album and holds other files, such as {min(others)}: give a new folder as --out.")


def _network(model: str, size: int | None, weights: str | None) -> Embedder | str:
    if weights is not None:
        return open_model(model, size=size, weights=weights).eval()
    return model if size is None else f"{model}@{size}"


def read_labels(labels: str, photos: Path, columns: str | None = None) -> tuple[Labels, list[str]]:
    """What gives the label of a photo by its path below `photos`, and paths of the table that name no file there.

    Paths in a table are relative to its folder, or absolute, as in every table of images.
    """
    if labels == "folders":
        return labels_by_folder, []
    file = Path(labels)
    if not file.is_file():
        raise ValueError(f"--labels takes 'folders' or a CSV file with the columns path and label, not {labels!r}.")
    table = read_table(file, ("path", "label"), columns)
    listed = [Path(path) for path in table["path"].to_pylist()]
    # A table names many photos of few folders, and links are followed for the folders only.
    folders = {folder: _below(photos, file.parent / folder) for folder in {path.parent for path in listed}}
    by_path, unknown = dict[str, str](), list[str]()
    for path, label in zip(listed, table["label"].to_pylist(), strict=True):
        folder = folders[path.parent]
        # Unlike Path.is_file, isfile takes a name that is too long for one that is not there.
        if folder is None or not os.path.isfile(photos / folder / path.name):  # noqa: PTH113
            unknown.append(str(path))
        elif by_path.setdefault(key := (folder / path.name).as_posix(), label) != label:
            raise ValueError(f"{file} labels {key!r} as {by_path[key]!r} and as {label!r}: give it one label.")
    if not by_path:
        example = f", such as {unknown[0]!r}" if unknown else ""
        raise ValueError(
            f"None of the {len(listed):,} paths in {file}{example}, names a photo in {photos}. Paths are relative to "
            f"the folder of the table, {file.parent.resolve()}, or absolute."
        )
    return lambda path: by_path.get(path) or None, unknown


def _below(photos: Path, folder: Path) -> Path | None:
    """The folder as seen from the photo folder, by its name or else by where links lead; None if it lies elsewhere."""
    by_name = (Path(os.path.normpath(place.absolute())) for place in (photos, folder))
    by_links = (place.resolve() for place in (photos, folder))
    for top, place in (by_name, by_links):
        if place.is_relative_to(top):
            return place.relative_to(top)
    return None


def _unseen_images(benchmark: Benchmark) -> list[ImageSet]:
    """The images of all classes that a training with the set leaves out."""
    tested = next(iter(benchmark.tests.values()))
    return [tested] if benchmark.train is None else [tested, benchmark.train_and_validation()[1]]
