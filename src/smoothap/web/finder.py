"""Searches in one album, as the page asks for them: whole rankings that are kept for the next page of the answer."""

import contextlib
import csv
import io
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from smoothap.data.reading import read_image
from smoothap.ranking import average_precision
from smoothap.report.markup import visible
from smoothap.report.ranking_rows import RankedRow
from smoothap.search import Album, Calibration
from smoothap.search.exact import best_rows
from smoothap.search.refining import corrected, unit
from smoothap.web.decoder import Box, Decoder
from smoothap.web.shapes import Answer, Curve, HitShape, Kept, PhotoShape, Question, unpacked

_KEPT = 32  # rankings
_WHOLE = 200_000  # photos: of larger albums the beginning of a ranking is made, not all of it
_POINTS = 400  # of a curve
_NO_PICTURE = (OSError, LookupError, ValueError, NotImplementedError)  # whatever an album says that has none
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class NotThere(LookupError):  # noqa: N818
    """A photo or an album that the server does not have."""


class NotPossible(ValueError):  # noqa: N818
    """Something that this album cannot do."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows of the album, best first, with their scores; `right` where the query's label is known."""

    rows: np.ndarray
    scores: np.ndarray
    right: np.ndarray | None
    whole: bool

    def at_least(self, minimum: float | None) -> int:
        """How many score at least this."""
        return len(self.scores) if minimum is None else int(np.searchsorted(-self.scores, -minimum, side="right"))

    def curve(self) -> Curve | None:
        """AP and precision by recall over the whole ranking, exactly; None where nothing is right."""
        if self.right is None or not self.whole or not self.right.any():
            return None
        found = average_precision(torch.from_numpy(self.scores), torch.from_numpy(self.right)).item()
        row = RankedRow(-1, self.rows, self.scores, self.right, found)
        precision, recall = row.precision_recall_steps()
        seen = np.unique(np.linspace(0, len(recall) - 1, min(len(recall), _POINTS)).round().astype(int))
        return Curve(
            average_precision=found,
            positives=row.positives,
            recall=[round(float(each), 5) for each in recall[seen]],
            precision=[round(float(each), 5) for each in precision[seen]],
        )


class Finder:
    """One album behind the server."""

    def __init__(self, album: Album, name: str, decoder: Decoder) -> None:
        self.album, self.name, self.decoder = album, name, decoder
        labels = album.photos.labels()
        self.labels = labels if any(label is not None for label in labels) else None
        self._rankings: OrderedDict[tuple[object, ...], Ranking] = OrderedDict()
        self._rankings_lock = threading.Lock()
        self._model_lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.album)

    @property
    def takes_photos(self) -> bool:
        """Whether a photo from elsewhere can be embedded."""
        return self.album.model is not None

    def row(self, identity: int) -> int:
        """Where the photo with this id stands."""
        try:
            return self.album.photos.row_of(identity)
        except KeyError:
            raise NotThere(f"The album has no photo {identity}: it was removed, or never there.") from None

    @cached_property
    def calibration(self) -> Calibration | None:
        """What scores mean, where that was measured."""
        return self.album.calibration

    @cached_property
    def _rows_by_path(self) -> dict[str, int]:
        return {path: row for row, path in enumerate(self.album.photos.paths())}

    def id_of_path(self, path: str) -> int | None:
        """The id of the photo with this path, None where there is none."""
        row = self._rows_by_path.get(path)
        return None if row is None else int(self.album.photos.ids[row])

    def warm_up(self) -> None:
        """Load what the first photo needs; what is wrong with it is told when that comes."""
        if self.takes_photos:
            self.decoder.warm_up()
            with self._model_lock, contextlib.suppress(OSError, ValueError):
                self.album.embedder()

    def embed(self, source: bytes | Path, box: Box | None) -> np.ndarray:
        """The vector (d,) of a photo or of a part of it."""
        if not self.takes_photos:
            raise NotPossible("This album has vectors and no model: search with one of its own photos.")
        image = self.decoder.decode(source, box=box)
        with self._model_lock:
            try:
                model = self.album.embedder()
            except (OSError, ValueError) as error:
                raise NotPossible(f"The album's model cannot be used: {error}") from error
            return model.embed([image], progress=False)[0].numpy()

    def embed_part(self, identity: int, box: Box) -> np.ndarray:
        """The vector (d,) of a part of one of the album's photos: of its file, or of its thumbnail if that is gone."""
        self.row(identity)
        try:
            return self.embed(Path(self.album.photo_path(identity)), box)
        except NotPossible:
            raise
        except _NO_PICTURE:
            return self.embed(self.thumbnail(identity), box)

    def thumbnail(self, identity: int) -> bytes:
        """A small JPEG with pixels and nothing else, from the photo itself where the album has no small picture."""
        self.row(identity)
        try:
            return stripped(read_image(bytes(self.album.thumbnail(identity)), pixel_limit=4_000_000))
        except _NO_PICTURE:
            try:
                return stripped(self.decoder.decode(Path(self.album.photo_path(identity)), side=256))
            except _NO_PICTURE as error:
                raise NotThere(f"Photo {identity} has no picture: index the album again.") from error

    def image(self, identity: int) -> bytes:
        """A JPEG of at most 1,024 pixels a side with pixels and nothing else; the thumbnail where the file is gone."""
        self.row(identity)
        try:
            return stripped(self.decoder.decode(Path(self.album.photo_path(identity))))
        except _NO_PICTURE:
            return self.thumbnail(identity)

    def photo(self, row: int, twins: Iterable["Finder"]) -> PhotoShape:
        """The photo in a row, and its ids in all albums."""
        photo = self.album.photos[row]
        return PhotoShape(
            id=photo.id,
            name=visible(photo.path),
            label=None if photo.label is None else visible(photo.label),
            twins=[photo.id if each is self else each.id_of_path(photo.path) for each in twins],
        )

    def answer(self, question: Question) -> Answer:
        """A page of the ranking that the question asks for."""
        ranking = self.ranking(question)
        calibration = self.calibration
        minimum = question.minimum
        if question.recall is not None:
            if calibration is None:
                raise NotPossible("This album is not calibrated, so recall cannot be asked for: give a score.")
            minimum = float(calibration.score_for_recall(question.recall))
        total = ranking.at_least(minimum)
        page = range(question.offset, min(question.offset + question.limit, total))
        if not ranking.whole and total == len(ranking.scores):  # there is more, how much is not known yet
            total = len(self) - (question.photo is not None)
        known = calibration is not None and minimum is not None
        return Answer(
            total=total,
            minimum=minimum,
            lowest=(float(ranking.scores[-1]) if ranking.whole else -1.0) if len(ranking.scores) else None,
            highest=float(ranking.scores[0]) if len(ranking.scores) else None,
            expected_recall=float(calibration.recall_at(minimum)) if known else None,
            expected_precision=float(calibration.precision_at(minimum)) if known else None,
            right_in_list=int(ranking.right[:total].sum()) if ranking.right is not None and ranking.whole else None,
            hits=[self._hit(ranking, place) for place in page],
            curve=ranking.curve() if question.offset == 0 else None,
        )

    def ranking(self, question: Question) -> Ranking:
        """The ranking for a question, made now or kept from the page before."""
        own = None if question.photo is None else self.row(question.photo)
        if own is None and question.vector is None:
            raise NotPossible("A search needs a photo of the album or a vector: give one of them.")
        vectors = self.album.vectors
        vector = (
            np.array(vectors[own]) if question.vector is None else unit(unpacked(question.vector, vectors.shape[1]))
        )
        wanted = question.offset + question.limit
        whole = len(self) <= _WHOLE
        key = (own, vector.tobytes(), tuple(question.right), tuple(question.wrong), whole or wanted)
        with self._rankings_lock:
            if key in self._rankings:
                self._rankings.move_to_end(key)
                return self._rankings[key]
        ranking = self._rank(vector, own, question, None if whole else wanted)
        with self._rankings_lock:
            self._rankings[key] = ranking
            while len(self._rankings) > _KEPT:
                self._rankings.popitem(last=False)
        return ranking

    def _rank(self, vector: np.ndarray, own: int | None, question: Question, first: int | None) -> Ranking:
        if first is None:
            # What is marked stays in the ranking: AP would rise by itself if wrong ones were taken out.
            right_rows, wrong_rows = ([self.row(each) for each in marks] for marks in (question.right, question.wrong))
            vectors = self.album.vectors
            moved = corrected(vector, vectors[right_rows], vectors[wrong_rows])
            every = self.album.cosines.of(moved)
            rows = best_rows(every, len(every))
            scores = every[rows]
        else:
            hits = self.album.search(vector, k=first + 1, right=question.right, wrong=question.wrong)
            rows = np.array([self.row(hit.id) for hit in hits], np.int64)
            scores = np.array([hit.score for hit in hits])
        right = None
        if own is not None:
            others = rows != own
            rows, scores = rows[others], scores[others]
            if self.labels is not None and self.labels[own] is not None:
                right = np.asarray(self.labels[rows] == self.labels[own], bool)
        return Ranking(rows, scores, right, whole=first is None)

    def _hit(self, ranking: Ranking, place: int) -> HitShape:
        photo = self.album.photos[int(ranking.rows[place])]
        return HitShape(
            id=photo.id,
            rank=place + 1,
            score=float(ranking.scores[place]),
            name=visible(photo.path),
            label=None if photo.label is None else visible(photo.label),
            right=None if ranking.right is None else bool(ranking.right[place]),
        )

    def list_of(self, question: Question) -> str:
        """Everything that the question finds, as CSV."""
        every = question.model_copy(update={"offset": 0, "limit": 100_000})
        return _csv((hit.rank, hit.score, hit.name, hit.label) for hit in self.answer(every).hits)

    def list_of_basket(self, kept: list[Kept]) -> str:
        """The photos of a basket, as CSV."""
        photos = [(self.album.photos[self.row(each.id)], each.score) for each in kept]
        return _csv(
            (place, score, visible(photo.path), photo.label) for place, (photo, score) in enumerate(photos, start=1)
        )


def stripped(image: Image.Image) -> bytes:
    """The pixels as a JPEG: a copy that has no EXIF, no place, no comment and no profile."""
    clean = Image.frombytes("RGB", image.size, image.convert("RGB").tobytes())
    stream = io.BytesIO()
    clean.save(stream, "JPEG", quality=92)
    return stream.getvalue()


def _csv(rows: Iterable[tuple[int, float | None, str, str | None]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(("rank", "score", "photo", "label"))
    for rank, score, path, label in rows:
        writer.writerow((rank, "" if score is None else f"{score:.6f}", _cell(path), _cell(visible(label or ""))))
    return stream.getvalue()


def _cell(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
