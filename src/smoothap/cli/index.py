"""`smoothap index`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from smoothap._core.devices import chosen_device
from smoothap.album.ingest import Indexed, index_photos
from smoothap.album.walking import kinds_of
from smoothap.cli._options import AsJson, check_folder, check_network_options, command
from smoothap.data.names import open_data
from smoothap.plots.text import visible

_LISTED = 10  # unreadable files that are printed


@command(index_photos, without=("progress",))
def index(
    photos: str,
    /,
    *,
    out: Path,
    calibrate: str | None = None,
    device: str | None = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Make an album of a folder of photos, to search by example; run it again and only what changed is touched.

    Stop it at any moment and run it again: it goes on where it was. Files that are not read are listed in
    unreadable.csv in the album.

    Parameters
    ----------
    calibrate
        NAME or NAME:PATH, such as emoji or folder:PATH: labelled photos to learn from what a score means, for
        searches that ask for a recall. All classes are used that a training with this set leaves out.
    as_json
        Print the report as JSON.
    """
    network = {name: options.get(name) for name in ("size", "weights")}
    if options.get("model") is not None:
        check_network_options(options["model"], **network)
    elif any(value is not None for value in network.values()):
        raise ValueError("--size and --weights say more of a --model by its timm name: give that too.")
    check_folder(out)
    place, labelled = str(chosen_device(device)), None if calibrate is None else open_data(calibrate)
    indexed = index_photos(photos, out, calibrate=labelled, device=place, **options)
    if indexed.unknown_paths:
        print(
            f"smoothap: {len(indexed.unknown_paths):,} paths in {options['labels']} name no photo, such as "
            f"{visible(indexed.unknown_paths[0])}",
            file=sys.stderr,
        )
    print_report(indexed, out, as_json)
    if options.get("part") is not None and not as_json:
        _print_parts(indexed, options["part"])


def _print_parts(indexed: Indexed, part: str) -> None:
    there = indexed.album.parts
    this = next(known for known in there if known.name == part)
    print(f"Part {part}: {this.given:,} files given, {this.indexed:,} indexed, {this.reported:,} reported")
    missing = sorted(set(range(1, this.of + 1)) - {known.number for known in there if known.of == this.of})
    listed = ", ".join(f"{number:,}" for number in missing[:_LISTED]) + (" ..." if len(missing) > _LISTED else "")
    print(f"Parts that are missing of {this.of:,}: {listed}" if missing else f"All {this.of:,} parts are there.")


def _listed(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {visible(kind)}" for kind, number in kinds.items())


def print_report(indexed: Indexed, out: Path, as_json: bool) -> None:
    """What was done to an album, in words or as JSON."""
    album, report, calibration = indexed.album, indexed.report, indexed.album.calibration
    names = "added", "changed", "unchanged", "removed", "relabelled", "unreadable"
    counts = {"photos": len(album), **{name: indexed.counts[name] for name in names}}
    others, unreadable = kinds_of(report.others), kinds_of(report.unreadable)
    if as_json:
        calibrated = None if calibration is None else {"source": calibration.source, "queries": calibration.queries}
        whole = {**counts, "unreadable": report.unreadable, "removed": report.removed, "other files": others}
        if album.parts:
            whole["parts"] = {part.name: [part.given, part.indexed, part.reported] for part in album.parts}
        print(json.dumps({"album": str(out), "model": str(album.model), **whole, "calibration": calibrated}, indent=1))
        return
    if indexed.chosen is not None:
        print(
            f"The network is {indexed.chosen}, which is taken where no --model is given: it knows the things of "
            "everyday photos. One that you train (smoothap train) knows your own."
        )
    print(", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "photos"))
    if report.unreadable:
        print(f"Cannot be read: {_listed(unreadable)}")
    for path, reason in list(report.unreadable.items())[:_LISTED]:
        print(f"  {visible(path)}: {visible(reason)}")
    if report.others:
        print(f"Not read, no photos by their names: {_listed(others)}")
    if counts["unreadable"] or indexed.counts["others"]:
        print(f"{out / 'unreadable.csv'} lists all of them with the reasons.")
    if calibration is not None:
        print(f"Calibrated by {calibration.queries:,} queries of {calibration.source}")
