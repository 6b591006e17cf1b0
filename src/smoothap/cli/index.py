"""`smoothap index`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from smoothap import experiments
from smoothap.cli._options import Device, NetworkSize, TableColumns, Weights, check_folder, check_network_options
from smoothap.report.markup import visible

if TYPE_CHECKING:
    from smoothap.experiments.indexing import Indexed

_LISTED = 10  # unreadable files that are printed


def index(
    photos: Path,
    /,
    *,
    out: Path,
    model: str | None = None,
    weights: Weights = None,
    size: NetworkSize = None,
    labels: str | None = None,
    columns: TableColumns = None,
    calibrate: str | None = None,
    remove_missing: Annotated[bool, Parameter(negative=())] = False,
    device: Device = None,
    workers: int | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Make an album of a folder of photos, to search by example; run it again and only what changed is touched.

    Stop it at any moment and run it again: it goes on where it was. Files that are not read are listed in
    unreadable.csv in the album.

    Parameters
    ----------
    photos
        The folder of photos, with any folders in it; or a CSV or Parquet file with a column path and any others, such
        as label, all of which the album keeps to filter by.
    out
        The folder of the album.
    model
        The folder of a trained model, or a timm name for its published weights; for a new album only. By default
        tf_efficientnet_lite0.
    labels
        "folders", so that each photo is labelled by the folder it lies in, or a CSV file with the columns path
        (relative to that file's folder, or absolute) and label.
    calibrate
        NAME or NAME:PATH, such as emoji or folder:PATH: labelled photos to learn from what a score means, for
        searches that ask for a recall. All classes are used that a training with this set leaves out.
    remove_missing
        Take all photos out of the album whose files are gone. Without it, an error asks whether their disk is mounted
        when all are gone, or more than ten and a tenth of them.
    workers
        How many photos are read at once; by default one for each core.
    as_json
        Print the report as JSON.
    """
    if model is None and (size is not None or weights is not None):
        raise ValueError("--size and --weights say more of a --model by its timm name: give that too.")
    if model is not None:
        check_network_options(model, size=size, weights=weights)
    check_folder(out)
    from smoothap.numerics.devices import chosen_device

    indexed = experiments.index_photos(
        photos, out, model=model, weights=weights, size=size, labels=labels, columns=columns, calibrate=calibrate,
        remove_missing=remove_missing, device=str(chosen_device(device)), workers=workers,
    )  # fmt: skip
    if indexed.unknown_paths:
        print(
            f"smoothap: {len(indexed.unknown_paths):,} paths in {labels} name no photo, such as "
            f"{visible(indexed.unknown_paths[0])}",
            file=sys.stderr,
        )
    print_report(indexed, out, as_json)


def _listed(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {visible(kind)}" for kind, number in kinds.items())


def print_report(indexed: Indexed, out: Path, as_json: bool) -> None:
    """What was done to an album, in words or as JSON."""
    from smoothap.search.walking import kinds_of

    album, report = indexed.album, indexed.report
    if indexed.chosen is not None and not as_json:
        print(
            f"The network is {indexed.chosen}, which is taken where no --model is given: it knows the things of "
            "everyday photos. One that you train (smoothap train) knows your own."
        )
    counts = {
        "photos": len(album), "added": len(report.added), "changed": len(report.changed),
        "unchanged": report.unchanged, "removed": len(report.removed), "relabelled": len(report.relabelled),
        "unreadable": len(report.unreadable),
    }  # fmt: skip
    others, unreadable = kinds_of(report.others), kinds_of(report.unreadable)
    calibration = album.calibration
    if as_json:
        calibrated = None if calibration is None else {"source": calibration.source, "queries": calibration.queries}
        whole = {**counts, "unreadable": report.unreadable, "removed": report.removed, "other files": others}
        print(json.dumps({"album": str(out), "model": str(album.model), **whole, "calibration": calibrated}, indent=1))
        return
    print(", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "photos"))
    if report.unreadable:
        print(f"Cannot be read: {_listed(unreadable)}")
    for path, reason in list(report.unreadable.items())[:_LISTED]:
        print(f"  {visible(path)}: {visible(reason)}")
    if report.others:
        print(f"Not read, no photos by their names: {_listed(others)}")
    if report.unreadable or report.others:
        print(f"{out / 'unreadable.csv'} lists all of them with the reasons.")
    if calibration is not None:
        print(f"Calibrated by {calibration.queries:,} queries of {calibration.source}")
