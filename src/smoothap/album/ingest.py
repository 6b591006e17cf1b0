"""An album of a folder of photos: made, brought up to date, labelled and calibrated in one call."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from smoothap._core.files import data_folder, locked
from smoothap.album._given_photos import GivenPhotos
from smoothap.album.album import Album
from smoothap.album.store import COLLECTIONS, NAME, refuse_inside_album
from smoothap.album.update import UpdateReport
from smoothap.album.vectors import FLOAT32
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.models import Embedder, open_model
from smoothap.models.efficientnet_lite import ARCHITECTURE
from smoothap.models.embedding import embed_sets

_NETWORK = "network"  # the folder in an album for a network whose weights came from a file


@dataclass(frozen=True, eq=False)
class Indexed:
    """An album that is up to date, what was done for that, and paths in the table of labels that name no photo.

    `chosen` is the network that was taken for a new album because none was given. `counts` says how many photos were
    added, changed and so on; on Ray that is all there is, and the report is empty.
    """

    album: Album
    report: UpdateReport
    unknown_paths: list[str]
    chosen: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


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
    calibrate: Benchmark | None = None,
    remove_missing: bool = False,
    device: str | None = None,
    part: str | None = None,
    processes: int = 1,
    ray: str | None = None,
    float16: bool = False,
    progress: bool = True,
) -> Indexed:
    """Make an album of a folder of photos, or of those that a table lists, or bring it up to date: `smoothap index`.

        indexed = index_photos("photos", "album", model="tf_efficientnet_lite0", labels="folders")
        print(len(indexed.album), indexed.report.unreadable)

    `photos` is a folder; a CSV or Parquet file with a column path, and label if you like, of which the album keeps all
    other columns to filter by; tar shards (`shards/*.tar`), Parquet files that hold images, or any address that fsspec
    opens, such as `s3://bucket/photos`. `model` is the folder of a trained model or a timm name, with `weights` from a
    file and a `size` if you like; a new album for which none is given is made by the default network,
    tf_efficientnet_lite0. `labels` is "folders", or a CSV or Parquet file with the columns path (relative to its
    folder) and label. `columns` says what they are called in any table here, such as
    "path=image_path,label=product_id". `calibrate` is a set of labelled photos to learn from what a score means.
    `remove_missing` is that of `Album.update`.

    With `part`, such as 3/64, only the photos that fall to that part are looked at, for batch systems that compute each
    part alone; with more than one of `processes`, that many share the work. `ray` is the address of a Ray cluster
    whose machines do it ("auto": the one this machine belongs to, "local": one that is started for this call).
    `float16` keeps the vectors of a new album in half of the room.
    """
    share = None if part is None else Share.parse(part)
    if ray is not None and (processes != 1 or share is not None):
        raise ValueError("Ray divides the work by itself: leave --processes and --part out.")
    if share is not None and (processes != 1 or calibrate is not None):
        raise ValueError(
            "A part is computed alone, by one process, and calibrates nothing: leave out the other option."
        )
    out, given = Path(out), GivenPhotos.open(str(photos), labels, columns)
    unseen = [] if calibrate is None else _unseen_images(calibrate)
    listing = given.walk(out)
    network = _Network(model, size, weights, device, "float16" if float16 else FLOAT32)
    if share is None:
        album, chosen = network.album(given.root, out)
    else:  # others may be making the same album
        refusal = f"Another process is making the album {out}, and takes long: run this again."
        with locked(out / PARTS, refusal, PATIENCE):
            album, chosen = network.album(given.root, out)
            album.remember_places()
    report, counts = UpdateReport(), None
    if ray is not None:
        work = plan(album, str(photos), listing, labels=labels, columns=columns, remove_missing=remove_missing)
        counts = compute_on_ray(work, ray, progress=progress)
    elif processes != 1:
        work = plan(
            album, str(photos), listing, labels=labels, columns=columns, remove_missing=remove_missing, device=device
        )
        report = compute_in_processes(work, processes, progress=progress)
    elif share is not None or given.source is not None:
        report = PartUpdate(
            out, album.embedder, given.root, share or Share(1, 1), listing, given.labels, remove_missing,
            progress=progress, apart=share is not None, read=given.read, columns=given.columns,
        ).run()  # fmt: skip
        if share is None:
            settle_album(out)
    else:
        report = album.update(
            paths=None if given.table is None else given.table.rows, labels=given.labels, columns=given.columns,
            remove_missing=remove_missing, progress=progress,
        )  # fmt: skip
    if not album.is_current():
        album = album.reopened()
        album.collections.refresh()
    if calibrate is not None:
        vectors, classes = embed_sets(album.embedder(), unseen, unreadable=out / "unreadable-calibration.csv")
        album.calibrate(
            album.projected(vectors), classes, f"{calibrate.name}, {sum(images.classes for images in unseen)} classes"
        )
    return Indexed(album, report, given.unknown, chosen, counts or report.counts())


def _check_new(out: Path) -> None:
    """See that there is a place for an album, before there is one."""
    refuse_inside_album(out)
    # Hidden files and the network are what an index that was stopped in its first moments leaves; collections may be
    # those of an earlier album of these photos.
    files = [file.name for file in out.iterdir()] if out.exists() else []
    if others := [name for name in files if name[0] != "." and name not in (_NETWORK, COLLECTIONS)]:
        raise ValueError(f"{out} is no album and holds other files, such as {min(others)}: give a new folder as --out.")


@dataclass(frozen=True)
class _Network:
    """What makes the vectors of an album, as the user names it, and what these are kept in."""

    model: str | None
    size: int | None
    weights: str | None
    device: str | None
    dtype: str

    def album(self, root: Path | None, out: Path) -> tuple[Album, str | None]:
        """The album in a folder, new if there is none, and the network that was taken because none was given."""
        is_new = not (out / NAME).exists()
        chosen = ARCHITECTURE if is_new and self.model is None else None
        if is_new:
            _check_new(out)
        elif self.dtype != FLOAT32 and read_head(out).dtype != self.dtype:
            raise ValueError(f"The vectors of {out} are in float32: --float16 is for new albums.")
        source = self._source(self.model or chosen)
        if not is_new or source is None:
            return Album.open(out, root=root, model=source, device=self.device), chosen
        if isinstance(source, Embedder):  # the file of its weights may move, so the album keeps a copy
            source = source.save(out / _NETWORK)
        return Album.create(out, source, root, device=self.device, dtype=self.dtype), chosen

    def _source(self, model: str | None) -> Embedder | str | None:
        if model is not None and self.weights is not None:
            return open_model(model, size=self.size, weights=self.weights).eval()
        return model if self.size is None else f"{model}@{self.size}"


def _unseen_images(benchmark: Benchmark) -> list[ImageSet]:
    """The images of all classes that a training with the set leaves out."""
    tested = next(iter(benchmark.tests.values()))
    return [tested] if benchmark.train is None else [tested, benchmark.train_and_validation()[1]]
