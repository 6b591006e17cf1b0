"""One version of an album behind the page: its rankings, kept for the next page of the answer, and its pictures."""

import contextlib
import csv
import hashlib
import io
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache, partial
from itertools import count

import numpy as np
from PIL import Image
from starlette.exceptions import HTTPException

from smoothap.data.reading import UnreadableImage, read_image
from smoothap.report.markup import visible
from smoothap.report.ranking_rows import precision_recall
from smoothap.search import Album
from smoothap.search.engines import Ranking
from smoothap.search.preparing import plain_jpeg
from smoothap.search.refining import corrected, unit
from smoothap.web import _schemas as schemas
from smoothap.web._decoder import Decoder

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


def ranked(
    album: Album,
    labels: np.ndarray | None,
    vector: bytes,
    query_row: int | None,
    right: tuple[int, ...] = (),
    wrong: tuple[int, ...] = (),
) -> LabelledRanking:
    """The album ranked for the bytes of a vector (d,) float32 and marked ids, without the query's row, if any."""
    # What is marked stays in the ranking: AP would rise by itself if wrong ones were taken out.
    marked = ([album.photos.row_of(identity) for identity in ids] for ids in (right, wrong))
    moved = corrected(np.frombuffer(vector, np.float32), *(album.vectors[rows] for rows in marked))
    ranking = album.ranking(moved, [] if query_row is None else [int(album.photos.ids[query_row])])
    if query_row is None or labels is None or labels[query_row] is None:
        return LabelledRanking(ranking, None)
    has_label = np.asarray(labels == labels[query_row], bool)
    has_label[query_row] = False
    return LabelledRanking(ranking, has_label)


class ServedAlbum:
    """One version of an album behind the server; nothing about it changes any more."""

    def __init__(self, album: Album, name: str, decoder: Decoder, model_lock: "threading.Lock | None" = None) -> None:
        self.album, self.name, self.decoder, self.version = album, name, decoder, album.version
        labels = album.photos.labels()
        self.labels = labels if any(label is not None for label in labels) else None
        kept = min(_RANKINGS_KEPT, 1 + _SCORES_KEPT // (1 + len(album)))
        # Without a reference to this object, which would then hold the album's files open until a cycle is collected.
        self._kept_ranking = lru_cache(kept)(partial(ranked, album, self.labels))
        self._model_lock = model_lock or threading.Lock()

    def renewed(self) -> "ServedAlbum":
        """The album as it is on disk now; this version of it can be used as before."""
        return ServedAlbum(self.album.reopened(), self.name, self.decoder, self._model_lock)

    @cached_property
    def ids_by_path(self) -> dict[str, int]:
        """The id of each photo by its path."""
        return dict(zip(self.album.photos.paths(), self.album.photos.ids.tolist(), strict=True))

    @cached_property
    def model_key(self) -> str:
        """A short name of the album's model and of what was learnt since, which nothing else has."""
        learnt = self.album.learnt
        return _key(repr((self.album.model and asdict(self.album.model), learnt and learnt.projection)).encode())

    @property
    def keeps(self) -> bool:
        """Whether the album has a folder to keep collections in."""
        with contextlib.suppress(ValueError):
            return self.album.collections is not None
        return False

    def warm_up(self) -> None:
        """Load what the first photo needs; what is wrong with it is told when that comes."""
        if self.album.model is not None:
            self.decoder.warm_up()
            with self._model_lock, contextlib.suppress(OSError, ValueError):
                self.album.embedder()

    def embed(self, photo: bytes | int, box: schemas.ShareBox | None) -> schemas.Vector:
        """The vector (d,) of a photo from elsewhere, or of one of the album's by its id, or of a part of it."""
        if self.album.model is None:
            raise HTTPException(409, "This album has vectors and no model: search with one of its own photos.")
        image = self.decoder.decode(photo, box=box) if isinstance(photo, bytes) else self._decoded_file(photo, box)
        with self._model_lock:
            try:
                model = self.album.embedder()
            except (OSError, ValueError) as error:
                raise HTTPException(409, f"The album's model cannot be used: {error}") from error
            vector = self.album.projected(model.embed([image], progress=False).numpy())[0]
        return schemas.Vector(vector=schemas.packed(vector), model=self.model_key)

    def _decoded_file(self, identity: int, box: schemas.ShareBox | None) -> Image.Image:
        """A part of one of the album's photos, from its file alone: a thumbnail has too few pixels for a part."""
        name = visible(self.album.photo(identity).path)
        try:
            return self.decoder.decode(self.album.photo_path(identity), box=box)
        except UnreadableImage as error:
            raise HTTPException(422, f"{name} cannot be read ({error.reason}): search with the whole photo.") from error
        except _NO_PICTURE as error:
            raise HTTPException(404, f"{name} cannot be opened ({error}): search with the whole photo.") from error

    def image(self, identity: int) -> bytes:
        """A JPEG of at most 1,024 pixels a side with pixels and nothing else; the thumbnail where the file is gone."""
        self.album.photos.row_of(identity)
        try:
            return plain_jpeg(self.decoder.decode(self.album.photo_path(identity)), _QUALITY)
        except _NO_PICTURE:
            return self.thumbnail(identity)

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

    def picture_key(self, identity: int) -> str:
        """A short name that changes with the pixels of a photo: part of its picture's address, which browsers keep."""
        photo = self.album.photo(identity)
        if photo.sha256:
            return _key(photo.sha256.encode())
        try:  # vectors made elsewhere: nobody has read the file
            status = self.album.photo_path(identity).stat()
        except _NO_PICTURE:
            return _key(b"")
        return _key(repr((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)).encode())

    def photo(self, row: int, albums: Iterable["ServedAlbum"]) -> schemas.PhotoInfo:
        """The photo in a row, and its ids in all albums."""
        photo = self.album.photos[row]
        return schemas.PhotoInfo(
            id=photo.id,
            picture=self.picture_key(photo.id),
            name=visible(photo.path),
            label=None if photo.label is None else visible(photo.label),
            twins=[photo.id if served is self else served.ids_by_path.get(photo.path) for served in albums],
        )

    def answer(self, request: schemas.SearchRequest) -> schemas.SearchPage:
        """A page of the ranking that the request asks for."""
        labelled, minimum, calibration = self._ranking_for(request), self._minimum(request), self.album.calibration
        listed = labelled.ranking.at_least(minimum)
        ranked_scores = labelled.ranking.scores[labelled.ranking.at_least()]
        known = calibration is not None and minimum is not None
        return schemas.SearchPage(
            version=self.version,
            ranked=len(ranked_scores),
            total=int(listed.sum()),
            minimum=minimum,
            lowest=float(ranked_scores.min()) if len(ranked_scores) else None,
            highest=float(ranked_scores.max()) if len(ranked_scores) else None,
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
            if request.model not in (None, self.model_key):
                raise HTTPException(
                    409, "The album was made anew by another model, or has learnt: give the photo again."
                )
            vector = unit(schemas.unpacked(request.vector, self.album.vectors.shape[1]))
        elif row is not None:
            vector = self.album.vectors[row]
        else:
            raise HTTPException(409, "A search needs a photo of the album or a vector: give one of them.")
        right, wrong = tuple(request.right), tuple(request.wrong)
        if request.collection is not None:
            marked = self.album.collections[request.collection]
            right, wrong = right + marked.right, wrong + marked.wrong
        return self._kept_ranking(vector.tobytes(), row, right, wrong)

    def _hits(
        self, labelled: LabelledRanking, minimum: float | None, first: int, last: int
    ) -> Iterator[schemas.HitInfo]:
        """What stands in these places of the list, counted from 0."""
        rows, scores = (column[first:] for column in labelled.ranking.best(last, minimum))
        ids, right = self.album.photos.ids[rows], None if labelled.right is None else labelled.right[rows]
        for place, (path, label) in enumerate(zip(*self.album.photos.named(rows), strict=True)):
            yield schemas.HitInfo(
                id=int(ids[place]),
                picture=self.picture_key(int(ids[place])),
                rank=first + place + 1,
                score=float(scores[place]),
                name=visible(path),
                label=None if label is None else visible(label),
                right=None if right is None else bool(right[place]),
            )

    def list_of(self, request: schemas.SearchRequest) -> str:
        """Everything that the request finds, as CSV."""
        rows, scores = self._ranking_for(request).ranking.best(minimum=self._minimum(request))
        return _csv(zip(count(1), scores.tolist(), *self.album.photos.named(rows), strict=False))

    def ids_of(self, request: schemas.SearchRequest) -> list[int]:
        """The ids of everything that the request finds."""
        rows, _ = self._ranking_for(request).ranking.best(minimum=self._minimum(request))
        return self.album.photos.ids[rows].tolist()


def typical_photo(albums: Sequence[ServedAlbum]) -> list[int] | None:
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
    curve = ranked(served.album, served.labels, served.album.vectors[row].tobytes(), row).curve
    return np.nan if curve is None else curve.average_precision


def _key(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _csv(rows: Iterable[tuple[int, float, str, str | None]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(("rank", "score", "photo", "label"))
    for rank, score, path, label in rows:
        writer.writerow((rank, f"{score:.6f}", _cell(path), _cell(label or "")))
    return stream.getvalue()


def _cell(text: str) -> str:
    """Text that steers nothing, and that a spreadsheet does not take for a formula."""
    text = visible(text)
    return f"'{text}" if text.startswith(_FORMULA) else text
