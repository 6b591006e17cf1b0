"""An album of a folder of photos: made, brought up to date, labelled and calibrated in one call."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from smoothap.album.album import Album
from smoothap.album.faces import FOLDER as PEOPLE
from smoothap.album.given_photos import GivenPhotos
from smoothap.album.identity import ModelIdentity
from smoothap.album.prepare import Embedded
from smoothap.album.regions import FOLDER as REGIONS
from smoothap.album.regions import RegionStore
from smoothap.album.shards import (
    KNOWN,
    SHARDS,
    ShardWork,
    Share,
    by_processes,
    by_ray,
    compute_share,
    embed_by,
    read_shard,
    waiting_shards,
    write_known,
)
from smoothap.album.store import COLLECTIONS, NAME, refuse_inside_album
from smoothap.album.update import UpdateReport, bring_up_to_date
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

    `chosen` is the network that was taken for a new album because none was given.
    """

    album: Album
    report: UpdateReport
    unknown_paths: list[str]
    chosen: str | None = None


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
    processes: int = 1,
    ray: str | None = None,
    float16: bool = False,
    people: bool | None = None,
    face_model: Path | str | None = None,
    face_weights: Path | str | None = None,
    regions: bool | None = None,
    region_size: int | None = None,
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

    With more than one of `processes`, that many share the work. `ray` is the address of a Ray cluster whose machines do
    it ("auto": the one this machine belongs to, "local": one that is started for this call). Shards that `embed_shard`
    left are inserted first. `float16` keeps the vectors of a new album in half of the room.

    With `people`, the faces in all photos are found and kept, so that photos of a person can be asked for; without it
    none are, and by default those of an album that has some are kept up to date. `face_model` and `face_weights` are
    those of `Album.look_for_people`.

    With `regions`, parts of all photos are described too, so that things inside photos can be asked for; by default
    only an album that has them keeps them up to date. `region_size` is the side of the square that has as many pixels
    as the view in which the network finds them, by default 1.6 times that of a whole photo: about three times
    the work. Of the size of a whole photo's view, parts come from the same pass, and cost hardly anything; what
    that view cuts off at the borders is not found. What it costs is printed before it begins.
    """
    if ray is not None and processes != 1:
        raise ValueError("Ray divides the work by itself: leave --processes out.")
    out, given = Path(out), GivenPhotos.open(str(photos), labels, columns)
    if region_size is not None and not (RegionStore.is_in(out) if regions is None else regions):
        raise ValueError("--region-size is for the parts of photos: give --regions too (in Python: regions=True).")
    unseen = [] if calibrate is None else _unseen_images(calibrate)
    walk = given.source.walk(out)
    network = _Network(model, size, weights, device, "float16" if float16 else FLOAT32, people is not False)
    album, chosen = network.album(given.source.root, out)
    if people is None:
        people = album.has_people or face_model is not None or face_weights is not None
    if people:
        album.look_for_people(model=face_model, weights=face_weights)
    embed = None
    if processes != 1 or ray is not None:
        compute = by_processes(processes) if ray is None else by_ray(ray)
        embed = partial(embed_by, compute, network.work(album, str(photos), out), _identity(album), progress)
    left = waiting_shards(out)
    report = bring_up_to_date(
        album, walk, given.source.read, root=given.source.root, labels=given.labels, columns=given.columns, embed=embed,
        shards=_left_shards(album, out), people=people, regions=regions, region_size=region_size,
        remove_missing=remove_missing, progress=progress,
    )  # fmt: skip
    if not left:
        with suppress(OSError):  # where shards of this run were, and no others
            (out / SHARDS).rmdir()
    if left or (out / SHARDS).is_dir():
        with album.store.writing():
            write_known(out, album.store.paths())
    album = album.reopened()
    album.collections.refresh()
    album.link(progress=progress)
    if calibrate is not None:
        vectors, classes = embed_sets(album.embedder(), unseen, unreadable=out / "unreadable-calibration.csv")
        album.calibrate(
            album.projected(vectors), classes, f"{calibrate.name}, {sum(images.classes for images in unseen)} classes"
        )
    return Indexed(album, report, given.unknown, chosen)


def begin_album(
    photos: Path,
    out: Path,
    *,
    model: str | None = None,
    device: str | None = None,
    people: bool = True,
    face_model: Path | None = None,
    face_weights: Path | None = None,
) -> tuple[Album, str | None]:
    """The album of a photo folder as it is, or a new one without photos, to be brought up to date while it is served.

    With it comes the network that was taken for a new album because none was given.
    """
    if not photos.is_dir():
        raise FileNotFoundError(f"There is no folder {photos}: give the folder that holds the photos.")
    album, chosen = _Network(model, None, None, device, FLOAT32, people).album(photos, out)
    if people:
        album.look_for_people(model=face_model, weights=face_weights)
    return album, chosen


def _left_shards(album: Album, out: Path) -> Iterator[Embedded]:
    """The shards that were left in an album's folder; each goes once the next is asked for, when it is committed."""
    for pattern in (".run-*.partial", f".{KNOWN}.*.partial"):  # of an earlier run that was stopped
        for file in (out / SHARDS).glob(pattern):
            file.unlink(missing_ok=True)
    for file in waiting_shards(out):
        yield read_shard(file, album.model, album.model_vectors()[1].shape[1])
        file.unlink()


def embed_shard(
    photos: Path | str,
    out: Path | str,
    shard: str,
    *,
    model: str | None = None,
    weights: str | None = None,
    size: int | None = None,
    device: str | None = None,
    progress: bool = True,
) -> tuple[int, int]:
    """Embed the photos that fall to a shard, such as 3/64, and leave them in an album's folder: for batch systems.

    The album need not be there yet, and is not opened: `index_photos`, called on one machine, inserts all shards. How
    many files the album lacked, and how many of them could be embedded.
    """
    share, out, given = Share.parse(shard), Path(out), GivenPhotos.open(str(photos), None, None)
    work = _Network(model, size, weights, device, FLOAT32).work(None, str(photos), out)
    return compute_share(work, share, given.source.walk(out), out, progress=progress)


def _identity(album: Album) -> ModelIdentity:
    if album.model is None:
        raise ValueError("This album has no model, so it takes in no photos.")
    return album.model


def _check_new(out: Path) -> None:
    """See that there is a place for an album, before there is one."""
    refuse_inside_album(out)
    # Hidden files and the network are what an index that was stopped in its first moments leaves; collections and what
    # users said about people may be those of an earlier album of these photos.
    files = [file.name for file in out.iterdir()] if out.exists() else []
    if others := [
        name for name in files if name[0] != "." and name not in (_NETWORK, COLLECTIONS, PEOPLE, REGIONS, SHARDS)
    ]:
        raise ValueError(f"{out} is no album and holds other files, such as {min(others)}: give a new folder as --out.")


@dataclass(frozen=True)
class _Network:
    """What makes the vectors of an album, as the user names it, and what these are kept in."""

    model: str | None
    size: int | None
    weights: str | None
    device: str | None
    dtype: str
    people: bool = True  # whether the album shows them

    def album(self, root: Path | None, out: Path) -> tuple[Album, str | None]:
        """The album in a folder, new if there is none, and the network that was taken because none was given."""
        if (out / NAME).exists():
            album = Album.open(
                out, root=root, model=self._source(self.model), device=self.device, people=self.people
            )  # fmt: skip
            if self.dtype != FLOAT32 and album.codec != self.dtype:
                raise ValueError(f"The vectors of {out} are in float32: --float16 is for new albums.")
            return album, None
        _check_new(out)
        chosen = ARCHITECTURE if self.model is None else None
        source = self._source(self.model or ARCHITECTURE, keep_in=out / _NETWORK)
        assert source is not None
        return Album.create(out, source, root, device=self.device, dtype=self.dtype), chosen

    def work(self, album: Album | None, photos: str, out: Path) -> ShardWork:
        """The same for other processes, which find photos, album and model by names that are not relative."""
        if album is None:
            kept = out / _NETWORK  # by whoever computed another shard
            is_kept = self.weights is not None and kept.is_dir()
            place = str(kept if is_kept else self._source(self.model or ARCHITECTURE, keep_in=kept))
        else:
            place = album.model_place()
        if Path(place).is_dir():
            place = str(Path(place).absolute())
        photos = photos if "://" in photos else str(Path(photos).absolute())
        return ShardWork(photos, str((out / SHARDS).absolute()), place, self.dtype, self.device)

    def _source(self, model: str | None, keep_in: Path | None = None) -> Embedder | Path | str | None:
        """The network; one whose weights come from a file, which may move, is kept in a folder if one is given."""
        if model is None or self.weights is None:
            return model if self.size is None else f"{model}@{self.size}"
        network = open_model(model, size=self.size, weights=self.weights).eval()
        return network if keep_in is None else network.save(keep_in)


def _unseen_images(benchmark: Benchmark) -> list[ImageSet]:
    """The images of all classes that a training with the set leaves out."""
    tested = next(iter(benchmark.tests.values()))
    return [tested] if benchmark.train is None else [tested, benchmark.train_and_validation()[1]]
