"""`smoothap index`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from smoothap.cli._options import AsJson, check_folder, check_network_options, command
from smoothap.data.names import open_data
from smoothap.plots.text import visible

if TYPE_CHECKING:
    from smoothap.album import Album
    from smoothap.album.update import UpdateReport

_LISTED = 10  # unreadable files that are printed


@command()
def index(
    photos: str,
    /,
    *,
    out: Path,
    model: str | None = None,
    weights: str | None = None,
    size: int | None = None,
    labels: str | None = None,
    columns: str | None = None,
    calibrate: str | None = None,
    remove_missing: bool = False,
    device: str | None = None,
    shard: str | None = None,
    processes: int = 1,
    ray: str | None = None,
    float16: bool = False,
    people: bool | None = None,
    face_model: Path | None = None,
    face_weights: Path | None = None,
    regions: bool | None = None,
    region_size: int | None = None,
    as_json: AsJson = False,
) -> None:
    """Make an album of a folder of photos, to search by example; run it again and only what changed is touched.

    Stop it at any moment and run it again: it goes on where it was. Files that are not read are listed in
    unreadable.csv in the album.

    Parameters
    ----------
    photos
        The folder of photos, with any folders in it; or a CSV or Parquet file with a column path and any others, such
        as label, all of which the album keeps to filter by; or tar shards such as 'shards/*.tar', Parquet files that
        hold images, or an address that fsspec opens, such as s3://bucket/photos.
    out
        The folder of the album.
    model
        The folder of a trained model, or a timm name for its published weights; for a new album only. By default
        tf_efficientnet_lite0.
    labels
        "folders", so that each photo is labelled by its folder, or a CSV file with the columns path
        (relative to that file's folder, or absolute) and label.
    calibrate
        NAME or NAME:PATH, such as emoji or folder:PATH: labelled photos to learn from what a score means, for
        searches that ask for a recall. All classes are used that a training with this set leaves out.
    remove_missing
        Take all photos out of the album whose files are gone. Without it, an error asks whether their disk is mounted
        when all are gone, or more than ten and a tenth of them.
    shard
        NUMBER/OF, such as 3/64: embed the photos that fall to this share alone and leave them in the album's folder.
        For batch systems, which compute all shards at once, on any machines that share the folders; one machine then
        runs this without --shard, which inserts them.
    processes
        How many processes share the work; by default this one does it, with all cores.
    ray
        The address of a Ray cluster whose machines share the work, "auto" for the one that this machine belongs to, or
        "local" to start one for this call. All machines find photos, album and model by the same names.
    float16
        Keep the vectors of a new album in half of the room. Scores are those of the rounded vectors, exactly.
    people
        Find the faces in all photos, so that all photos of a person can be asked for. What is kept of them is biometric
        data: smoothap album people ALBUM --forget removes it. By default only an album that has them keeps them up to
        date.
    regions
        Describe parts of all photos too, so that things inside photos can be asked for. Unless --region-size says
        otherwise, the network works about three times as long for it; how long is said before it begins. By default
        only an album that has them keeps them up to date.
    region_size
        The side of a square with as many pixels as the network is given for the parts of a photo; by default 358 for
        a network of 224. Less is quicker, and finds larger things only. At the network's own size, 224, parts come
        from the pass that describes the whole photo, and take hardly any time.
    as_json
        Print the report as JSON.
    """
    if model is None and (size is not None or weights is not None):
        raise ValueError("--size and --weights say more of a --model by its timm name: give that too.")
    if model is not None:
        check_network_options(model, size=size, weights=weights)
    check_folder(out)
    from smoothap._core.devices import chosen_device
    from smoothap.album.ingest import embed_shard, index_photos

    if shard is not None:
        others = (ray, calibrate, labels, region_size)
        if processes != 1 or people or regions or any(one is not None for one in others):
            raise ValueError("A shard is embedded by one process, and no more is done: leave out the other options.")
        place = str(chosen_device(device))
        _print_shard(
            *embed_shard(photos, out, shard, model=model, weights=weights, size=size, device=place), out, as_json
        )
        return
    indexed = index_photos(
        photos, out, model=model, weights=weights, size=size, labels=labels, columns=columns,
        calibrate=None if calibrate is None else open_data(calibrate),
        remove_missing=remove_missing, device=str(chosen_device(device)), processes=processes, ray=ray,
        float16=float16, people=people, face_model=face_model, face_weights=face_weights,
        regions=regions, region_size=region_size,
    )  # fmt: skip
    if indexed.unknown_paths:
        print(
            f"smoothap: {len(indexed.unknown_paths):,} paths in {labels} name no photo, such as "
            f"{visible(indexed.unknown_paths[0])}",
            file=sys.stderr,
        )
    if as_json:
        _print_json(out, indexed.album, indexed.report)
        return
    if indexed.chosen is not None:
        print(about_network(indexed.chosen))
    print_report(out, indexed.album, indexed.report)


def _listed(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {visible(kind)}" for kind, number in kinds.items())


def _print_shard(given: int, embedded: int, out: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"album": str(out), "given": given, "embedded": embedded}, indent=1))
        return
    reported = f", {given - embedded:,} could not be read or have the content they had" if given != embedded else ""
    print(f"{embedded:,} photos embedded{reported}. Run this without --shard on one machine, to insert all shards.")


def about_network(name: str) -> str:
    """What to know about the network that a new album takes by default."""
    return (
        f"The network is {name}, the default: it knows everyday things. A network "
        "that you train (smoothap train) knows your own things; give it as --model."
    )


def _counts(album: Album, report: UpdateReport) -> dict[str, int]:
    names = "added", "changed", "unchanged", "removed", "relabelled", "unreadable"
    return {"photos": len(album), **{name: report.counts()[name] for name in names}}


def _print_json(out: Path, album: Album, report: UpdateReport) -> None:
    from smoothap.album.walk import kinds_of

    calibration, counts = album.calibration, _counts(album, report)
    calibrated = None if calibration is None else {"source": calibration.source, "queries": calibration.queries}
    if album.has_people:
        counts["faces"] = album.face_space().store.count()
    others = kinds_of(report.others)
    whole = {**counts, "unreadable": report.unreadable, "removed": report.removed, "other files": others}
    print(json.dumps({"album": str(out), "model": str(album.model), **whole, "calibration": calibrated}, indent=1))


def print_report(out: Path, album: Album, report: UpdateReport) -> None:
    """What was done to an album, in words."""
    from smoothap.album.walk import kinds_of

    counts = _counts(album, report)
    print(", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "photos"))
    if album.has_people:
        print(about_people(album, report.faces, out))
    if album.has_regions and (settings := album.region_space().store.settings()) is not None:
        print(f"Regions: {settings.bytes_a_photo:,} bytes a photo, for smoothap search --regions")
    if report.unreadable:
        print(f"Cannot be read: {_listed(kinds_of(report.unreadable))}")
    for path, reason in list(report.unreadable.items())[:_LISTED]:
        print(f"  {visible(path)}: {visible(reason)}")
    if report.others:
        print(f"Not photos, going by their file names: {_listed(kinds_of(report.others))}")
    if counts["unreadable"] or report.others:
        print(f"{out / 'unreadable.csv'} lists all of them with the reasons.")
    if album.calibration is not None:
        print(f"Calibrated by {album.calibration.queries:,} queries of {album.calibration.source}")


def about_people(album: Album, new: int, out: Path) -> str:
    """What an album keeps of people, in one line, and how to remove it."""
    faces = album.face_space().store.count()
    return (
        f"People: {faces:,} faces{f', {new:,} of them new' if 0 < new < faces else ''}. Their boxes and vectors, which "
        f"are biometric data, are in {out / 'people'} and nowhere else; to remove them: smoothap album people "
        f"{shlex.quote(str(out))} --forget"
    )
