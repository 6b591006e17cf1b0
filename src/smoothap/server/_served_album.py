"""One version of an album behind the page: its rankings, kept for the next page of the answer, and its pictures."""

import contextlib
import csv
import hashlib
import io
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property, lru_cache, partial
from itertools import count
from typing import Any

import numpy as np
from PIL import Image
from starlette.exceptions import HTTPException

from smoothap._core.devices import lanes_for
from smoothap.album import Album, Filter
from smoothap.album.copies import best_first
from smoothap.album.engines.codes import Bounded
from smoothap.album.filters import cameras_of, days_of, folders_of, undated
from smoothap.album.photos import Photo
from smoothap.album.prepare import plain_jpeg
from smoothap.album.vectors import unit
from smoothap.data.reading import UnreadableImage, read_image
from smoothap.plots.text import visible
from smoothap.server import _schemas as schemas
from smoothap.server._decoder import Decoder
from smoothap.server._plain_jpeg import is_plain_jpeg
from smoothap.server._rankings import LabelledRanking, listed, ranked
from smoothap.server._stacks import Stacks
from smoothap.server._together import Together

_RANKINGS_KEPT, _SCORES_KEPT = 32, 6_400_000  # for the next page of an answer
_LISTS_KEPT = 4  # of the album in its order
_QUALITY = 92  # of the JPEGs that the page shows
_NO_PICTURE = (OSError, LookupError, ValueError, NotImplementedError)  # whatever an album says that has none
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_DRAWN = 101  # photos, of which the page opens on the median
_LARGEST = 100_000  # photos; in a larger album, any of those drawn will do
Query = tuple[np.ndarray, Bounded | None]  # a vector (d,), and what a search with it begins with


class ServedAlbum:
    """One version of an album behind the server; nothing about it changes any more."""

    def __init__(self, album: Album, name: str, decoder: Decoder, embedding: Together | None = None) -> None:
        self.album, self.name, self.decoder, self.version = album, name, decoder, album.version
        labels = album.photos.labels()
        self.labels = labels if any(label is not None for label in labels) else None
        kept = min(_RANKINGS_KEPT, 1 + _SCORES_KEPT // (1 + len(album)))
        # Without a reference to this object, which would then hold the album's files open until a cycle is collected.
        self._kept_ranking = lru_cache(kept)(partial(ranked, album, self.labels))
        self._kept_list = lru_cache(_LISTS_KEPT)(partial(listed, album))
        self._embedding = embedding or Together()
        self._model: Any = None  # once it is loaded
        self._loading = threading.Lock()
        self.stacks = Stacks(album)

    def renewed(self) -> "ServedAlbum":
        """The album as it is on disk now; this version of it can be used as before."""
        return ServedAlbum(self.album.reopened(), self.name, self.decoder, self._embedding)

    @cached_property
    def ids_by_path(self) -> dict[str, int]:
        """The id of each photo by its path."""
        return dict(zip(self.album.photos.paths(), self.album.photos.ids.tolist(), strict=True))

    @cached_property
    def model_key(self) -> str:
        """A short name of the album's model and of what was learnt since, which nothing else has."""
        learnt = self.album.learnt
        return _key(repr((self.album.model and asdict(self.album.model), learnt and learnt.number)).encode())

    @property
    def keeps(self) -> bool:
        """Whether the album has a folder to keep collections in."""
        with contextlib.suppress(ValueError):
            return self.album.collections is not None
        return False

    def warm_up(self) -> str:
        """Load what the first photo needs; gives what is wrong with it in a sentence, "" for nothing."""
        self.album.searching.warm_up()
        if self.album.model is not None:
            self.decoder.warm_up()
            try:
                model = self._loaded_model()
                blank = Image.new("RGB", (64, 64))
                _queries_of_views(self, model, [model.transform.test_view(blank)])  # what is compiled, is compiled now
            except (OSError, ValueError, RuntimeError) as error:  # such as a GPU without room for it
                return f"The model of {self.name} cannot be used: {error}"
        return ""

    def embed(self, photo: bytes | int, box: schemas.ShareBox | None) -> schemas.Vector:
        """The vector (d,) of a photo from elsewhere, or of one of the album's by its id, or of a part of it."""
        if isinstance(photo, bytes):
            vector, _ = self.query(photo, box)
        else:
            vector, _ = self._query_of_view(self._viewed_file(photo, box))
        return schemas.Vector(vector=schemas.packed(vector), model=self.model_key)

    def _loaded_model(self) -> Any:
        """The album's model, loaded by one thread; whoever comes later need not wait for those whom it serves."""
        if self._model is None:
            with self._loading:
                model = self.album.embedder().for_queries()
                self._embedding.lanes = lanes_for(model.device)
                self._model = model
        return self._model

    def _usable_model(self) -> Any:
        if self.album.model is None:
            raise HTTPException(409, "This album has vectors and no model: search with one of its own photos.")
        try:
            return self._loaded_model()
        except (OSError, ValueError) as error:
            raise HTTPException(409, f"The album's model cannot be used: {error}") from error

    def query(self, photo: bytes, box: schemas.ShareBox | None = None) -> Query:
        """The vector (d,) of a photo from elsewhere, or of a part of it, and what a search with it begins with."""
        return self._query_of_view(self.decoder.decode(photo, box=box, view=self._usable_model().transform))

    def _query_of_view(self, view: Image.Image) -> Query:
        """The same of what the album's model views of a photo, as the decoder cut it out."""
        return self._embedding.ask(self, partial(_queries_of_views, self, self._usable_model()), view)

    def _viewed_file(self, identity: int, box: schemas.ShareBox | None) -> Image.Image:
        """A part of one of the album's photos, from its file alone: a thumbnail has too few pixels for a part."""
        view, name = self._usable_model().transform, visible(self.album.photo(identity).path)
        try:
            return self.decoder.decode(self.album.photo_path(identity), box=box, view=view)
        except UnreadableImage as error:
            raise HTTPException(422, f"{name} cannot be read ({error.reason}): search with the whole photo.") from error
        except _NO_PICTURE as error:
            raise HTTPException(404, f"{name} cannot be opened ({error}): search with the whole photo.") from error

    def image(self, identity: int, side: int = 1024) -> bytes:
        """A JPEG of at most that many pixels a side, of pixels and nothing else; the thumbnail where the file is
        gone."""
        self.album.photos.row_of(identity)
        try:
            return plain_jpeg(self.decoder.decode(self.album.photo_path(identity), side=side), _QUALITY)
        except _NO_PICTURE:
            return self.thumbnail(identity)

    def thumbnail(self, identity: int) -> bytes:
        """A small JPEG with pixels and nothing else, from the photo itself where the album has no small picture."""
        self.album.photos.row_of(identity)
        try:
            picture = self.album.thumbnail(identity)
            if is_plain_jpeg(picture):
                return picture
            return plain_jpeg(read_image(picture, pixel_limit=4_000_000), _QUALITY)
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

    def photo(self, row: int, albums: Iterable["ServedAlbum"], copies: int = 0) -> schemas.PhotoInfo:
        """The photo in a row, its ids in all albums, and how many copies of it are not listed."""
        photo = self.album.photos[row]
        return schemas.PhotoInfo(
            id=photo.id,
            picture=self.picture_key(photo.id),
            name=visible(photo.path),
            label=None if photo.label is None else visible(photo.label),
            twins=[photo.id if served is self else served.ids_by_path.get(photo.path) for served in albums],
            copies=copies,
        )

    def answer(self, request: schemas.SearchRequest) -> schemas.SearchPage:
        """A page of the ranking that the request asks for."""
        labelled, minimum, calibration = self._ranking_for(request), self._minimum(request), self.album.calibration
        listed, first, last = labelled.ranking.at_least(minimum), request.offset, request.offset + request.limit
        number = total = int(listed.sum())
        if request.stacked:
            kept, copies = labelled.folded(self.stacks, number, minimum)
            total, places, copies = len(kept), kept[first:last], copies[first:last]
            rows, scores = (column[places] for column in labelled.in_order)
        else:
            rows, scores = labelled.places(first, last, minimum)
            places, copies = first + np.arange(len(rows)), np.zeros(len(rows), int)
        ranked_scores = labelled.ranking.scores[labelled.ranking.at_least()]
        known = calibration is not None and minimum is not None
        return schemas.SearchPage(
            version=self._list_version(request.stacked),
            ranked=len(ranked_scores),
            total=total,
            folded=number - total,
            minimum=minimum,
            lowest=float(ranked_scores.min()) if len(ranked_scores) else None,
            highest=float(ranked_scores.max()) if len(ranked_scores) else None,
            expected_recall=calibration.recall_at(minimum) if known else None,
            expected_precision=calibration.precision_at(minimum) if known else None,
            right_in_list=None if labelled.right is None else int((labelled.right & listed).sum()),
            hits=list(self._hits(labelled, rows, scores, places, copies)),
            curve=labelled.curve if request.offset == 0 else None,
            note=labelled.ranking.note,
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
                    409, "The album was made again by another model, or has learnt: give the photo again."
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
        where, kept = self._filter(request.where)
        return self._kept_ranking(vector.tobytes(), row, right, wrong, where, kept)

    def _filter(self, where: schemas.FilterInfo | None) -> tuple[Filter | None, str]:
        """A filter, and a text that changes with what it says where that is up to the collections."""
        chosen = None if where is None else where.filter()
        asks = chosen is not None and (chosen.collection is not None or chosen.in_no_collection)
        return chosen, str(self.album.collections.version) if asks else ""

    def _hits(
        self, labelled: LabelledRanking, rows: np.ndarray, scores: np.ndarray, places: np.ndarray, copies: np.ndarray
    ) -> Iterator[schemas.HitInfo]:
        """The photos in these rows, which are in these places of the list, counted from 0."""
        ids, right = self.album.photos.ids[rows], None if labelled.right is None else labelled.right[rows]
        for place, (path, label) in enumerate(zip(*self.album.photos.named(rows), strict=True)):
            yield schemas.HitInfo(
                id=int(ids[place]),
                picture=self.picture_key(int(ids[place])),
                rank=int(places[place]) + 1,
                score=float(scores[place]),
                name=visible(path),
                label=None if label is None else visible(label),
                right=None if right is None else bool(right[place]),
                copies=int(copies[place]),
            )

    def browsed(self, request: schemas.BrowseRequest, albums: Iterable["ServedAlbum"]) -> schemas.PhotoPage:
        """A page of the album in its order."""
        version = self._list_version(request.stacked)
        number, rows, copies = self._kept_list(
            *self._filter(request.where), self.stacks if request.stacked else None, version
        )
        shown = slice(request.offset, request.offset + request.limit)
        listed = [
            self.photo(int(row), albums, int(under)) for row, under in zip(rows[shown], copies[shown], strict=True)
        ]
        return schemas.PhotoPage(version=version, total=len(rows), folded=number - len(rows), photos=listed)

    def _list_version(self, stacked: bool) -> str:
        return f"{self.version}-{self.stacks.version}" if stacked else self.version

    def facts(self, identity: int, albums: Sequence["ServedAlbum"]) -> schemas.PhotoFacts:
        """What is known of a photo."""
        row = self.album.photos.row_of(identity)
        photo = self.album.photos[row]
        stack = best_first(self.album.photos[int(one)] for one in self.stacks.members(row))
        folder, _, file = photo.path.rpartition("/")
        return schemas.PhotoFacts(
            id=photo.id, picture=self.picture_key(photo.id), file=visible(file), folder=visible(folder),
            label=None if photo.label is None else visible(photo.label),
            taken=None if photo.taken is None else photo.taken.isoformat(" ", "seconds"),
            camera=None if photo.camera is None else visible(photo.camera),
            width=photo.width, height=photo.height, bytes=photo.bytes,
            stack=[self._stacked(one, albums) for one in stack],
        )  # fmt: skip

    def _stacked(self, photo: Photo, albums: Iterable["ServedAlbum"]) -> schemas.StackedPhoto:
        info = self.photo(self.album.photos.row_of(photo.id), albums)
        return schemas.StackedPhoto(**info.model_dump(), width=photo.width, height=photo.height, bytes=photo.bytes)

    @cached_property
    def choices(self) -> schemas.Choices:
        """What there is to filter by."""
        photos = self.album.photos
        first, last = days_of(photos) or (None, None)
        cameras = [schemas.CameraInfo(name=visible(name), photos=number) for name, number in cameras_of(photos).items()]
        # A folder whose name cannot be shown cannot be sent back either.
        folders = [folder for folder in folders_of(photos) if visible(folder) == folder]
        return schemas.Choices(folders=folders, cameras=cameras, first=first, last=last, undated=undated(photos))

    def list_of(self, request: schemas.SearchRequest) -> str:
        """Everything that the request finds, as CSV."""
        rows, scores = self._ranking_for(request).ranking.best(min_score=self._minimum(request))
        return _csv(zip(count(1), scores.tolist(), *self.album.photos.named(rows), strict=False))

    def ids_of(self, request: schemas.SearchRequest) -> list[int]:
        """The ids of everything that the request finds."""
        rows, _ = self._ranking_for(request).ranking.best(min_score=self._minimum(request))
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


def _queries_of_views(served: ServedAlbum, model: Any, views: list[Image.Image]) -> list[Query]:
    """What the photos in some views are searched with; those of a batch are compared with the album in one pass."""
    import torch

    pixels = torch.from_numpy(np.stack([np.asarray(view) for view in views])).permute(0, 3, 1, 2)
    ((vectors, _),) = model.embed_batches([(pixels, None)])
    vectors = served.album.projected(vectors)
    return list(zip(vectors, served.album.searching.bounded(vectors), strict=True))


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
