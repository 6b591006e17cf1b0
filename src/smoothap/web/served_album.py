"""Searches in one album, as the page asks for them: rankings that are kept for the next page of the answer."""

import contextlib
import csv
import io
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from PIL import Image
from starlette.exceptions import HTTPException

from smoothap.data.reading import read_image
from smoothap.report.markup import visible
from smoothap.report.ranking_rows import precision_recall
from smoothap.search import Album
from smoothap.search.engines import Ranking
from smoothap.search.preparing import plain_jpeg
from smoothap.search.refining import corrected, unit
from smoothap.web import schemas
from smoothap.web.decoder import Decoder

_RANKINGS_KEPT, _SCORES_KEPT = 32, 6_400_000  # for the next page of an answer
_POINTS = 400  # of a curve
_QUALITY = 92  # of the JPEGs that the page shows
_NO_PICTURE = (OSError, LookupError, ValueError, NotImplementedError)  # whatever an album says that has none
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_DRAWN = 101  # photos, of which the page opens on the median
_LARGEST = 100_000  # photos; in a larger album, any of those drawn will do


@dataclass(frozen=True, eq=False)
class LabelledRanking:
    """A ranking; `right` (n,) are the rows that have the query's label, where that is known."""

    ranking: Ranking
    right: np.ndarray | None

    @cached_property
    def curve(self) -> schemas.PrecisionRecallCurve | None:
        """AP and precision by recall over the whole ranking, exactly; None where nothing is right."""
        if self.right is None or not self.right.any():
            return None
        curve = precision_recall(self.ranking.scores, self.right)
        steps = len(curve.recall)
        drawn = np.unique(np.linspace(0, steps - 1, min(steps, _POINTS)).round().astype(int))
        return schemas.PrecisionRecallCurve(
            average_precision=curve.average_precision,
            positives=int(self.right.sum()),
            recall=curve.recall[drawn].round(5).tolist(),
            precision=curve.precision[drawn].round(5).tolist(),
        )


class ServedAlbum:
    """One album behind the server."""

    def __init__(self, album: Album, name: str, decoder: Decoder) -> None:
        self.album, self.name, self.decoder = album, name, decoder
        labels = album.photos.labels()
        self.labels = labels if any(label is not None for label in labels) else None
        kept = min(_RANKINGS_KEPT, 1 + _SCORES_KEPT // (1 + len(album)))
        self._kept_ranking = lru_cache(kept)(self.ranking)
        self._model_lock = threading.Lock()

    @cached_property
    def ids_by_path(self) -> dict[str, int]:
        """The id of each photo by its path."""
        return dict(zip(self.album.photos.paths(), self.album.photos.ids.tolist(), strict=True))

    def warm_up(self) -> None:
        """Load what the first photo needs; what is wrong with it is told when that comes."""
        if self.album.model is not None:
            self.decoder.warm_up()
            with self._model_lock, contextlib.suppress(OSError, ValueError):
                self.album.embedder()

    def embed(self, photo: bytes | int, box: schemas.ShareBox | None) -> np.ndarray:
        """The vector (d,) of a photo from elsewhere, or of one of the album's by its id, or of a part of it."""
        if self.album.model is None:
            raise HTTPException(409, "This album has vectors and no model: search with one of its own photos.")
        image = self._decoded(photo, box) if isinstance(photo, int) else self.decoder.decode(photo, box=box)
        with self._model_lock:
            try:
                model = self.album.embedder()
            except (OSError, ValueError) as error:
                raise HTTPException(409, f"The album's model cannot be used: {error}") from error
            return model.embed([image], progress=False)[0].numpy()

    def _decoded(self, identity: int, box: schemas.ShareBox | None = None) -> Image.Image:
        """One of the album's photos, or a part of it: from its file, or from its thumbnail if that is gone."""
        self.album.photos.row_of(identity)
        try:
            return self.decoder.decode(self.album.photo_path(identity), box=box)
        except _NO_PICTURE:
            return self.decoder.decode(self.thumbnail(identity), box=box)

    def image(self, identity: int) -> bytes:
        """A JPEG of at most 1,024 pixels a side with pixels and nothing else; the thumbnail where the file is gone."""
        return plain_jpeg(self._decoded(identity), _QUALITY)

    def thumbnail(self, identity: int) -> bytes:
        """A small JPEG with pixels and nothing else, from the photo itself where the album has no small picture."""
        self.album.photos.row_of(identity)
        try:
            return plain_jpeg(read_image(self.album.thumbnail(identity), pixel_limit=4_000_000), _QUALITY)
        except _NO_PICTURE:
            try:
                return plain_jpeg(self.decoder.decode(self.album.photo_path(identity), side=256), _QUALITY)
            except _NO_PICTURE as error:
                raise HTTPException(404, f"Photo {identity} has no picture: index the album again.") from error

    def photo(self, row: int, albums: Iterable["ServedAlbum"]) -> schemas.PhotoInfo:
        """The photo in a row, and its ids in all albums."""
        photo = self.album.photos[row]
        return schemas.PhotoInfo(
            id=photo.id,
            name=visible(photo.path),
            label=None if photo.label is None else visible(photo.label),
            twins=[photo.id if served is self else served.ids_by_path.get(photo.path) for served in albums],
        )

    def answer(self, request: schemas.SearchRequest) -> schemas.SearchPage:
        """A page of the ranking that the request asks for."""
        labelled, minimum, calibration = self._ranking_for(request), self._minimum(request), self.album.calibration
        scores, listed = labelled.ranking.scores, labelled.ranking.at_least(minimum)
        ranked = scores[labelled.ranking.at_least()]
        known = calibration is not None and minimum is not None
        return schemas.SearchPage(
            total=int(listed.sum()),
            minimum=minimum,
            lowest=float(ranked.min()) if len(ranked) else None,
            highest=float(ranked.max()) if len(ranked) else None,
            expected_recall=calibration.recall_at(minimum) if known else None,
            expected_precision=calibration.precision_at(minimum) if known else None,
            right_in_list=None if labelled.right is None else int((labelled.right & listed).sum()),
            hits=list(self._hits(labelled, minimum, request.offset, request.offset + request.limit)),
            curve=labelled.curve if request.offset == 0 else None,
        )

    def _minimum(self, request: schemas.SearchRequest) -> float | None:
        """The least score of the list that the request asks for."""
        if request.recall is None:
            return request.minimum
        if (calibration := self.album.calibration) is None:
            raise HTTPException(409, "This album is not calibrated, so recall cannot be asked for: give a score.")
        return calibration.score_for_recall(request.recall)

    def _ranking_for(self, request: schemas.SearchRequest) -> LabelledRanking:
        """The ranking for a request, made now or kept from the page before."""
        row = None if request.photo is None else self.album.photos.row_of(request.photo)
        if request.vector is not None:
            vector = unit(schemas.unpacked(request.vector, self.album.vectors.shape[1]))
        elif row is not None:
            vector = self.album.vectors[row]
        else:
            raise HTTPException(409, "A search needs a photo of the album or a vector: give one of them.")
        return self._kept_ranking(vector.tobytes(), row, tuple(request.right), tuple(request.wrong))

    def ranking(
        self, vector: bytes, query_row: int | None, right: tuple[int, ...] = (), wrong: tuple[int, ...] = ()
    ) -> LabelledRanking:
        """The album ranked for the bytes of a vector (d,) float32 and marked ids, without the query's row, if any."""
        photos, vectors = self.album.photos, self.album.vectors
        # What is marked stays in the ranking: AP would rise by itself if wrong ones were taken out.
        marked = ([photos.row_of(identity) for identity in ids] for ids in (right, wrong))
        moved = corrected(np.frombuffer(vector, np.float32), *(vectors[rows] for rows in marked))
        ranking = self.album.ranking(moved, [] if query_row is None else [int(photos.ids[query_row])])
        if query_row is None or self.labels is None or self.labels[query_row] is None:
            return LabelledRanking(ranking, None)
        has_label = np.asarray(self.labels == self.labels[query_row], bool)
        has_label[query_row] = False
        return LabelledRanking(ranking, has_label)

    def _hits(
        self, labelled: LabelledRanking, minimum: float | None, first: int, last: int | None
    ) -> Iterator[schemas.HitInfo]:
        """What stands in these places of the list, counted from 0."""
        rows, scores = (column[first:] for column in labelled.ranking.best(last, minimum))
        ids, right = self.album.photos.ids[rows], None if labelled.right is None else labelled.right[rows]
        for place, (path, label) in enumerate(zip(*self.album.photos.named(rows), strict=True)):
            yield schemas.HitInfo(
                id=int(ids[place]),
                rank=first + place + 1,
                score=float(scores[place]),
                name=visible(path),
                label=None if label is None else visible(label),
                right=None if right is None else bool(right[place]),
            )

    def list_of(self, request: schemas.SearchRequest) -> str:
        """Everything that the request finds, as CSV."""
        hits = self._hits(self._ranking_for(request), self._minimum(request), 0, None)
        return _csv((hit.rank, hit.score, hit.name, hit.label) for hit in hits)

    def list_of_basket(self, basket: list[schemas.BasketPhoto]) -> str:
        """The photos of a basket, as CSV."""
        photos = [(place, chosen.score, self.album.photo(chosen.id)) for place, chosen in enumerate(basket, start=1)]
        return _csv((place, score, photo.path, photo.label) for place, score, photo in photos)


def typical_photo(albums: list[ServedAlbum]) -> list[int] | None:
    """The photo that a comparison opens on, a typical one and not the best: its id in each of two labelled albums.

    Of about a hundred photos drawn at random it is the one whose AP rises by the median from the first album to the
    second.
    """
    if len(albums) != 2 or any(served.labels is None or not len(served.album) for served in albums):
        return None
    first, second = albums
    paths = np.random.default_rng(0).permutation(first.album.photos.paths())[: 4 * _DRAWN].tolist()
    pairs = [(first.ids_by_path[path], second.ids_by_path[path]) for path in paths if path in second.ids_by_path]
    sizes = Counter(label for label in first.album.photos.labels() if label is not None)
    pairs = [pair for pair in pairs if sizes[first.album.photo(pair[0]).label] > 1][:_DRAWN]
    if not pairs:
        return None
    if len(first.album) > _LARGEST:
        return list(pairs[0])
    gains = [_average_precision(second, other) - _average_precision(first, one) for one, other in pairs]
    return list(pairs[int(np.argsort(gains, kind="stable")[len(gains) // 2])])


def _average_precision(served: ServedAlbum, identity: int) -> float:
    row = served.album.photos.row_of(identity)
    curve = served.ranking(served.album.vectors[row].tobytes(), row).curve
    return np.nan if curve is None else curve.average_precision


def _csv(rows: Iterable[tuple[int, float | None, str, str | None]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(("rank", "score", "photo", "label"))
    for rank, score, path, label in rows:
        writer.writerow((rank, "" if score is None else f"{score:.6f}", _cell(path), _cell(label or "")))
    return stream.getvalue()


def _cell(text: str) -> str:
    """Text that steers nothing, and that a spreadsheet does not take for a formula."""
    text = visible(text)
    return f"'{text}" if text.startswith(_FORMULA) else text
