"""`smoothap search`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from smoothap.cli._options import AsJson, check_file, command, key_values, options_of
from smoothap.plots.text import text_table, visible

if TYPE_CHECKING:
    from smoothap.album import Album, Filter, Hit
    from smoothap.album.calibration import Calibration
    from smoothap.data.reading import PixelBox

Expectation = dict[str, float]  # the score down to which a list goes, and the recall and precision to expect of it


@options_of("Look only at photos")
@dataclass(frozen=True)
class Only:
    """The photos that a search looks at.

    Parameters
    ----------
    folder
        In this folder, relative to the photo folder, and in those inside it.
    text
        With these words in their path, in any case of letters and with or without accents.
    since
        Taken on this day or later: 2024-06-01, 2024-06 or 2024, by the camera's clock; where it says nothing, by the
        file's name or its own time.
    until
        Taken on this day or before, or in this month or year or before.
    camera
        By this camera; a part of its name will do.
    collection
        In this collection.
    in_no_collection
        In no collection yet.
    where
        COLUMN=VALUE: with this value in a column of the table that the album was made of; repeatable.
    """

    folder: str | None = None
    text: str | None = None
    since: str | None = None
    until: str | None = None
    camera: str | None = None
    collection: str | None = None
    in_no_collection: bool = False
    where: tuple[str, ...] = ()

    def filter(self) -> Filter:
        """As the album takes it."""
        from smoothap.album import Filter
        from smoothap.album.filters import day

        since = None if self.since is None else day(self.since)
        until = None if self.until is None else day(self.until, last=True)
        where = tuple(key_values(self.where, "--where", "COLUMN=VALUE, such as brand=acme").items())
        collection, outside = self.collection, self.in_no_collection
        return Filter(self.folder, self.text, since, until, self.camera, collection, outside, where)


_ALL_PHOTOS = Only()


@command()
def search(
    album: Path,
    /,
    *photos: Path,
    id: Annotated[tuple[int, ...], Parameter(name="--id")] = (),
    k: Annotated[int, Parameter(name=["-k", "--number"])] = 20,
    box: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    person: bool = False,
    face: int | None = None,
    regions: bool = False,
    name: str | None = None,
    everything: Annotated[bool, Parameter(name="--all")] = False,
    rerank: bool = True,
    min_score: float | None = None,
    recall: float | None = None,
    expand: int = 0,
    alpha: float | None = None,
    right: tuple[int, ...] = (),
    wrong: tuple[int, ...] = (),
    only: Only = _ALL_PHOTOS,
    html: Path | None = None,
    engine: str = "auto",
    model: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Find the photos of an album that look like a photo; several photos are one query.

    Parameters
    ----------
    photos
        The photo or photos to look for.
    id
        A photo of the album as the query, or as part of it, by its id.
    k
        How many photos to show.
    box
        x,y,width,height in pixels: only this part of the photo is looked for.
    person
        Find all photos of the person whose face is the largest in the photo; the album has to know people (smoothap
        index --people).
    face
        With --person: the face with this number, counted from 1 by size, instead of the largest; or give a --box.
    regions
        Look for the thing inside photos too, where it is a part of them; the album has to know parts (smoothap index
        --regions).
    name
        Find all photos of the person with this name, who was named before (smoothap album people).
    everything
        Rank all photos of the album.
    rerank
        Rank by the album's neighbourhoods, so that photos that resemble those found come up too; --no-rerank ranks by
        the plain cosine with the query.
    min_score
        As many photos as have at least this score, between -1 and 1.
    recall
        Such as 0.95: the shortest list expected to hold this share of the right photos; for a calibrated album.
    expand
        Add this many first answers to the query and search again.
    alpha
        Weight of those answers: their score to this power; 0 is their plain average. 3 by default.
    right
        Ids of photos that are right, from an earlier search: look for more like them.
    wrong
        Ids of photos that are wrong: look away from them.
    html
        A file for a page of thumbnails, which needs nothing else.
    model
        The album's model, if it is no longer where it was.
    as_json
        Print the answers as JSON.
    """
    if name is not None:
        if photos or id or person:
            raise ValueError("--name looks for somebody by name, without a photo: leave the photo out.")
    elif face is not None and not person:
        raise ValueError("--face is one of the faces of a photo, with --person.")
    elif regions and person:
        raise ValueError("--regions looks for things and --person for people: give one of them.")
    elif not photos and not id:
        raise ValueError("Give a photo to look for, or --id with the id of a photo of the album.")
    if html is not None:
        check_file(html, "found.html", "--html")
    from smoothap.album import Album
    from smoothap.album.queries import ALPHA

    opened = Album.open(album, engine=engine, model=model)
    passing, given = only.filter(), [*photos, *id]
    if name is not None:
        hits = opened.people.search(name, None if everything else k)
    else:
        space = "face" if person else "region" if regions else "photo"
        hits = opened.search(
            given[0] if len(given) == 1 else given, k, space=space, face=face,
            box=None if box is None else _box(box), rerank=rerank, min_score=min_score, recall=recall,
            everything=everything, expand=expand, alpha=ALPHA if alpha is None else alpha, right=right, wrong=wrong,
            where=passing,
        )  # fmt: skip
    of_parts = person or regions or name is not None
    expected = None if of_parts else _expectation(opened.calibration_of(rerank), hits, min_score, recall)
    if html is not None:
        names = [*map(str, photos), *(opened.photo(identity).path for identity in id), *([name] if name else [])]
        _write_page(opened, hits, names, "" if expected is None else _sentence(expected), html)
    if as_json:
        answer = {"hits": [asdict(hit) for hit in hits], "expected": expected}
        print(json.dumps({**answer, **({"note": hits.note} if hits.note else {})}, indent=1))
        return
    _print(hits, expected)
    if passing or hits.note:
        print(f"{_about_filter(opened, passing) if passing else ''} {hits.note}".strip())


def _box(text: str) -> PixelBox:
    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip().removeprefix("-").isdecimal() for part in parts):
        raise ValueError(f"--box takes x,y,width,height in whole pixels, such as 10,20,200,100, not {text!r}.")
    x, y, width, height = (int(part) for part in parts)
    return x, y, width, height


def _expectation(
    calibration: Calibration | None, hits: list[Hit], min_score: float | None, recall: float | None
) -> Expectation | None:
    """What the calibration says of the list, if the album has one."""
    if calibration is None:
        return None
    if recall is not None:
        score = max(calibration.score_for_recall(recall), -1.0 if min_score is None else min_score)
    elif min_score is not None:
        score = min_score
    elif hits:
        score = hits[-1].score
    else:
        return None
    return {"score": score, "recall": calibration.recall_at(score), "precision": calibration.precision_at(score)}


def _sentence(expected: Expectation) -> str:
    score, recall, precision = expected.values()
    return f"Down to score {score:.3f}: expect {recall:.0%} of the right photos, and {precision:.0%} of these right."


def _about_filter(album: Album, where: Filter) -> str:
    """How many photos passed; and how many have no date, or none but that of their file, so that nobody wonders."""
    passing = album.passing(where)
    assert passing is not None
    said = f"{int(passing.sum()):,} of {len(album):,} photos pass the filter."
    if where.since is not None or where.until is not None:
        counts = album.photos.counts("dated by")
        if by_file := counts.get(b"file"):
            said += f" {by_file:,} are dated by the time of their file, as neither camera nor name says more."
        if unknown := counts.get(b""):
            said += f" {unknown:,} have no date and are in no range of dates."
    return said


def _print(hits: list[Hit], expected: Expectation | None) -> None:
    labelled, boxed = any(hit.label is not None for hit in hits), any(hit.box is not None for hit in hits)
    rows = [
        {"rank": hit.rank, "score": f"{hit.score:.3f}", "id": str(hit.id)}
        | ({"label": visible(hit.label or "")} if labelled else {})
        | ({"box": ",".join(map(str, hit.box or ()))} if boxed else {})
        | {"photo": visible(hit.path)}
        for hit in hits
    ]
    print(text_table(rows, text=("label", "photo")) if hits else "Nothing was found.")
    if expected is not None:
        print(_sentence(expected))


def _write_page(album: Album, hits: list[Hit], queries: list[str], note: str, file: Path) -> None:
    """A page of thumbnails, ranked, with the score of each."""
    from smoothap.plots.html import data_address, write_page

    answers = []
    for hit in hits:
        try:
            address = data_address(album.thumbnail(hit.id), "jpeg")
        except (ValueError, OSError):  # also for an image that cannot be read
            address = ""
        answers.append({**asdict(hit), "address": address})
    names = [Path(name).name for name in queries]
    title = f"Photos like {', '.join(names)}"
    print(write_page(file, "plots/hits.html", title=title, names=names, answers=answers, note=note))
