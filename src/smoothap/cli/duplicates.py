"""`smoothap duplicates`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from smoothap.report.markup import visible

if TYPE_CHECKING:
    from smoothap.search import Photo


def duplicates(
    album: Path,
    /,
    *,
    score: float = 0.98,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """List photos of an album that are there twice: exact copies by their hash, near ones by their score.

    Parameters
    ----------
    album
        The folder that smoothap index made.
    score
        From which cosine on two photos are near duplicates, from -1 to 1.
    as_json
        Print the groups as JSON.
    """
    from smoothap.search import Album
    from smoothap.search.duplicates import exact_copies, near_copies

    opened = Album.open(album)
    exact, near = exact_copies(opened.photos), near_copies(opened.photos, opened.vectors, score)
    if as_json:
        groups = {"exact": [_plain(group) for group in exact], "near": [_plain(group) for group in near]}
        print(json.dumps({"score": score, **groups}, indent=1))
        return
    for title, groups in (("exact copies", exact), (f"near duplicates, score {score} or above", near)):
        photos = sum(len(group) for group in groups)
        print(f"{len(groups):,} groups of {title}, {photos:,} photos")
        for group in groups:
            print("  " + "  ".join(f"{photo.id}: {visible(photo.path)}" for photo in group))


def _plain(group: list[Photo]) -> list[dict[str, object]]:
    return [{"id": photo.id, "path": photo.path, "sha256": photo.sha256} for photo in group]
