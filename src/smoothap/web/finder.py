"""Searches in one album, as the page asks for them: rankings that are kept for the next page of the answer."""

import contextlib
import csv
import io
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image

from smoothap.data.reading import read_image
from smoothap.report.markup import visible
from smoothap.search import Album, Calibration
from smoothap.search.exact import Ranking
from smoothap.search.refining import corrected, unit
from smoothap.web.decoder import Box, Decoder
from smoothap.web.shapes import Answer, Curve, HitShape, Kept, PhotoShape, Question, unpacked

_KEPT, _KEPT_SCORES = 32, 6_400_000  # rankings, and the scores in all of them
_POINTS = 400  # of a curve
_NO_PICTURE = (OSError, LookupError, ValueError, NotImplementedError)  # whatever an album says that has none
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class NotThere(LookupError):  # noqa: N818
    """A photo or an album that the server does not have."""


class NotPossible(ValueError):  # noqa: N818
    """Something that this album cannot do."""


@dataclass(frozen=True, eq=False)
class LabelledRanking:
    """A ranking; `right` (n,) are the rows that have the query's label, where that is known."""

    ranking: Ranking
    right: np.ndarray | None

    @cached_property
    def curve(self) -> Curve | None:
        """AP and precision by recall over the whole ranking, exactly; None where nothing is right."""
        if self.right is None or not self.right.any():
            return None
        at, counts = np.unique(self.ranking.scores[self.right], return_counts=True)
        places = np.searchsorted(at, self.ranking.scores, side="right")
        found, listed = counts[::-1].cumsum(), np.bincount(places, minlength=len(at) + 1)[:0:-1].cumsum()
        precision, recall = found / listed, found / found[-1]  # at each score of a right photo, the highest first
        seen = np.unique(np.linspace(0, len(at), min(len(at) + 1, _POINTS)).round().astype(int))
        return Curve(
            average_precision=float((precision * counts[::-1]).sum() / found[-1]),
            positives=int(found[-1]),
            recall=[round(float(each), 5) for each in np.append(0.0, recall)[seen]],
            precision=[round(float(each), 5) for each in np.append(precision[0], precision)[seen]],
        )


class Finder:
    """One album behind the server."""

    def __init__(self, album: Album, name: str, decoder: Decoder) -> None:
        self.album, self.name, self.decoder = album, name, decoder
        labels = album.photos.labels()
        self.labels = labels if any(label is not None for label in labels) else None
        self._rankings: OrderedDict[tuple[object, ...], LabelledRanking] = OrderedDict()
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
        found, minimum, calibration = self.ranking(question), self._minimum(question), self.calibration
        scores, listed = found.ranking.scores, found.ranking.at_least(minimum)
        ranked = scores[found.ranking.at_least()]
        known = calibration is not None and minimum is not None
        return Answer(
            total=int(listed.sum()),
            minimum=minimum,
            lowest=float(ranked.min()) if len(ranked) else None,
            highest=float(ranked.max()) if len(ranked) else None,
            expected_recall=float(calibration.recall_at(minimum)) if known else None,
            expected_precision=float(calibration.precision_at(minimum)) if known else None,
            right_in_list=None if found.right is None else int((found.right & listed).sum()),
            hits=list(self._hits(found, minimum, question.offset, question.offset + question.limit)),
            curve=found.curve if question.offset == 0 else None,
        )

    def _minimum(self, question: Question) -> float | None:
        """The least score of the list that the question asks for."""
        if question.recall is None:
            return question.minimum
        if self.calibration is None:
            raise NotPossible("This album is not calibrated, so recall cannot be asked for: give a score.")
        return float(self.calibration.score_for_recall(question.recall))

    def ranking(self, question: Question) -> LabelledRanking:
        """The ranking for a question, made now or kept from the page before."""
        own = None if question.photo is None else self.row(question.photo)
        if own is None and question.vector is None:
            raise NotPossible("A search needs a photo of the album or a vector: give one of them.")
        vectors = self.album.vectors
        vector = (
            np.array(vectors[own]) if question.vector is None else unit(unpacked(question.vector, vectors.shape[1]))
        )
        key = (own, vector.tobytes(), tuple(question.right), tuple(question.wrong))
        with self._rankings_lock:
            if key in self._rankings:
                self._rankings.move_to_end(key)
                return self._rankings[key]
        # What is marked stays in the ranking: AP would rise by itself if wrong ones were taken out.
        right, wrong = ([self.row(each) for each in marks] for marks in (question.right, question.wrong))
        ranking = self.ranked(corrected(vector, vectors[right], vectors[wrong]), own)
        with self._rankings_lock:
            self._rankings[key] = ranking
            while len(self._rankings) > min(_KEPT, 1 + _KEPT_SCORES // (1 + len(self))):
                self._rankings.popitem(last=False)
        return ranking

    def ranked(self, vector: np.ndarray, own: int | None) -> LabelledRanking:
        """The album ranked for a vector (d,), without the query's own row, where it has one."""
        ranking = self.album.ranking(vector, [] if own is None else [int(self.album.photos.ids[own])])
        if own is None or self.labels is None or self.labels[own] is None:
            return LabelledRanking(ranking, None)
        right = np.asarray(self.labels == self.labels[own], bool)
        right[own] = False
        return LabelledRanking(ranking, right)

    def _hits(self, found: LabelledRanking, minimum: float | None, first: int, last: int | None) -> Iterator[HitShape]:
        """What stands in these places of the list, counted from 0."""
        rows, scores = (each[first:] for each in found.ranking.best(last, minimum))
        ids, right = self.album.photos.ids[rows], None if found.right is None else found.right[rows]
        for place, (path, label) in enumerate(zip(*self.album.photos.paths_and_labels(rows), strict=True)):
            yield HitShape(
                id=int(ids[place]),
                rank=first + place + 1,
                score=float(scores[place]),
                name=visible(path),
                label=None if label is None else visible(label),
                right=None if right is None else bool(right[place]),
            )

    def list_of(self, question: Question) -> str:
        """Everything that the question finds, as CSV."""
        hits = self._hits(self.ranking(question), self._minimum(question), 0, None)
        return _csv((hit.rank, hit.score, hit.name, hit.label) for hit in hits)

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
