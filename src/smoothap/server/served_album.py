"""One version of an album behind the server: queries as its model sees them, pictures, lists and facts of photos."""

import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from PIL import Image
from starlette.exceptions import HTTPException

from smoothap._core.devices import lanes_for
from smoothap.album import Album, Filter
from smoothap.album.engines.codes import Bounded
from smoothap.album.filters import cameras_of, days_of, folders_of, undated
from smoothap.album.order import order_of
from smoothap.album.photos import Photo, spelled
from smoothap.album.prepare import plain_jpeg
from smoothap.album.stacks import Stacks
from smoothap.album.watching import Indexing, Watcher
from smoothap.data.reading import PixelBox, UnreadableImage, read_image
from smoothap.data.transforms import Transform
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.batching import Batching
from smoothap.server.decoder import Decoder
from smoothap.server.rankings import PhotoList, in_order, listed, ranked

_RANKINGS_KEPT, _SCORES_KEPT = 32, 6_400_000  # for the next page of an answer
_LISTS_KEPT = 4  # of the album in its order, and of rankings in theirs
_QUALITY = 92  # of the JPEGs that the page shows
_NO_PICTURE = (OSError, LookupError, ValueError, NotImplementedError)  # whatever an album says that has none
# EXIF, profiles and comments of a JPEG, and whatever is behind its end. In its pixels FF is followed by 00 or D0 to D7.
_MORE = re.compile(rb"\xff[\xe0-\xfe]|\xff\xd9(?=.)", re.DOTALL)
Query = tuple[np.ndarray, Bounded | None]  # a vector (d,), and what a search with it begins with


class ServedAlbum:
    """One version of an album behind the server; nothing about it changes any more."""

    def __init__(
        self,
        album: Album,
        name: str,
        decoder: Decoder,
        batching: Batching | None = None,
        watcher: Watcher | None = None,
        stacks: Stacks | None = None,
    ) -> None:
        self.album, self.name, self.decoder, self.version = album, name, decoder, album.version
        self._watcher = watcher
        labels = album.photos.labels()
        self.labels = labels if any(label is not None for label in labels) else None
        kept = min(_RANKINGS_KEPT, 1 + _SCORES_KEPT // (1 + len(album)))
        # Without a reference to this object, which would then hold the album's files open until a cycle is collected.
        self.ranking = lru_cache(kept)(partial(ranked, album, self.labels))
        self._kept_list = lru_cache(_LISTS_KEPT)(partial(listed, album))
        self._order = lru_cache(_LISTS_KEPT)(partial(order_of, album.photos))
        self._batching = batching or Batching()
        self._model: Any = None  # once it is loaded
        self._loading = threading.Lock()
        self.stacks = Stacks(album, stacks)
        self.in_order = lru_cache(_LISTS_KEPT)(partial(in_order, self.stacks))  # of the last rankings
        self.face_pictures: OrderedDict[int, bytes] = OrderedDict()

    def renewed(self) -> "ServedAlbum":
        """The album as it is on disk now; this version of it can be used as before."""
        album = self.album.reopened()
        newer = ServedAlbum(album, self.name, self.decoder, self._batching, self._watcher, self.stacks)
        newer.face_pictures = self.face_pictures  # a face and its number stay what they are
        if self._order.cache_info().currsize:  # a page that browses is not to wait for it
            newer._order("newest")
        return newer

    @cached_property
    def model_key(self) -> str:
        """A short name of the album's model and of what was learnt since, which nothing else has."""
        learnt = self.album.learnt
        return _key(repr((self.album.model and asdict(self.album.model), learnt and learnt.number)).encode())

    @property
    def keeps(self) -> bool:
        """Whether the album has a folder to keep collections in."""
        return self.album.folder is not None

    @property
    def collections_version(self) -> str:
        """Changes with any collection, and with the photos that they are seen by."""
        return f"{self.version}-{self.album.collections.version}"

    @property
    def info(self) -> schemas.AlbumInfo:
        """The album and what can be done with it."""
        return schemas.AlbumInfo(
            name=self.name, version=self.version, photos=len(self.album), dimension=self.album.vectors.shape[1],
            columns=self.album.photos.column_names(), labelled=self.labels is not None,
            takes_photos=self.album.model is not None, calibrated=self.album.calibration is not None, keeps=self.keeps,
            people=self.album.has_people, regions=self.album.has_regions, indexing=self.indexing, problem=self.problem,
        )  # fmt: skip

    @property
    def indexing(self) -> Indexing | None:
        """How far it is, if photos are being taken in."""
        return None if self._watcher is None else self._watcher.work

    @property
    def problem(self) -> str | None:
        """Why no photos can be taken in, if so."""
        return None if self._watcher is None else self._watcher.problem

    # ---- queries

    def warm_up(self) -> str:
        """Load what the first photo needs; gives what is wrong with it in a sentence, "" for nothing."""
        self._order("newest")
        self.album.searching.warm_up()
        if self.album.model is not None:
            self.decoder.warm_up()
            try:
                model = self._loaded_model()
                blank = Image.new("RGB", (64, 64))
                self._queries_of_views([model.transform.test_view(blank)])  # what is compiled, is compiled now
            except (OSError, ValueError, RuntimeError) as error:  # such as a GPU without room for it
                return f"The model of {self.name} cannot be used: {error}"
        return ""

    def query(self, photo: bytes | int, box: schemas.ShareBox | None = None) -> Query:
        """The vector (d,) of a photo, or of a part of it, and what a search with it begins with.

        The photo is from elsewhere, or by its id one of the album's: read from its file, as a thumbnail has too few
        pixels.
        """
        view = self._usable_model().transform
        if isinstance(photo, int):
            seen = self.decoded(photo, box=box, view=view)
        else:
            seen = self.decoder.decode(photo, box=box, view=view)
        return self._batching.ask(self._queries_of_views, seen)

    def _loaded_model(self) -> Any:
        """The album's model, loaded by one thread; whoever comes later need not wait for those whom it serves."""
        if self._model is None:
            with self._loading:
                model = self.album.embedder().for_queries()
                self._batching.lanes = lanes_for(model.device)
                self._model = model
        return self._model

    def _usable_model(self) -> Any:
        if self.album.model is None:
            raise HTTPException(409, "This album has vectors and no model: search with one of its own photos.")
        try:
            return self._loaded_model()
        except (OSError, ValueError) as error:
            raise HTTPException(409, f"The album's model cannot be used: {error}") from error

    def _queries_of_views(self, views: list[Image.Image]) -> list[Query]:
        """What the photos in some views are searched with; those of a batch are compared with the album in one pass."""
        import torch

        pixels = torch.from_numpy(np.stack([np.asarray(view) for view in views])).permute(0, 3, 1, 2)
        ((vectors, _),) = self._loaded_model().embed_batches([(pixels, None)])
        vectors = self.album.projected(vectors)
        return list(zip(vectors, self.album.searching.bounded(vectors), strict=True))

    # ---- pictures

    def decoded(
        self, identity: int, *, side: int = 1024, box: schemas.ShareBox | None = None, view: Transform | None = None
    ) -> Image.Image:
        """One of the album's photos, or a part of it, from its file, as the decoder has it."""
        name = visible(self.album.photo(identity).path)
        try:
            return self.decoder.decode(self.album.photo_path(identity), box=box, side=side, view=view)
        except UnreadableImage as error:
            raise HTTPException(422, f"{name} cannot be read ({error.reason}): search with the whole photo.") from error
        except _NO_PICTURE as error:
            raise HTTPException(
                404, f"{name} cannot be opened ({error}): is its disk mounted? Or search with the whole photo."
            ) from error

    def image(self, identity: int, side: int) -> bytes:
        """A JPEG of at most that many pixels a side, of pixels and nothing else; the thumbnail if the file is gone."""
        try:
            return plain_jpeg(self.decoded(identity, side=side), _QUALITY)
        except HTTPException:
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
                return plain_jpeg(self.decoded(identity, side=256), _QUALITY)
            except HTTPException as error:
                raise HTTPException(404, f"Photo {identity} has no picture: index the album again.") from error

    def picture_key(self, photo: Photo) -> str:
        """A short name that changes with the pixels of a photo: part of its picture's address, which browsers keep."""
        if photo.sha256:
            return _key(photo.sha256.encode())
        if self.album.root is None:
            return _key(b"")
        try:  # vectors made elsewhere: nobody has read the file
            # no Path: each interns its parts, and under load Python makes its table of those, 8 MB, again and again
            status = os.stat(f"{self.album.root}/{photo.path}")  # noqa: PTH116
        except _NO_PICTURE:
            return _key(b"")
        return _key(repr((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)).encode())

    # ---- photos

    def photo(self, photo: Photo, copies: Sequence[int] = ()) -> schemas.PhotoInfo:
        """A photo, and the ids of its copies that are not listed."""
        return schemas.PhotoInfo(**self._known(photo), copies=list(copies))

    def hits(self, rows: np.ndarray, ranks: Iterable[int], **columns: Sequence[Any] | None) -> list[schemas.Hit]:
        """The photos in these rows as answers; what is known of each as columns: `score` and others of a hit.

        A `box` is given in pixels.
        """
        given, hits = {name: values for name, values in columns.items() if values is not None}, list[schemas.Hit]()
        for photo, rank, *values in zip(self.album.photos.at(rows), ranks, *given.values(), strict=False):
            found = dict(zip(given, values, strict=True))
            if "box" in found:
                found["box"] = shares(found["box"], (photo.width, photo.height))
            hits.append(schemas.Hit(**self._known(photo), rank=rank, **found))
        return hits

    def _known(self, photo: Photo) -> dict[str, Any]:
        when = photo.dated
        return {
            "id": photo.id, "path": photo.path, "label": photo.label, "columns": photo.columns,
            "picture": self.picture_key(photo), "day": when.day, "dated_by": when.by,
        }  # fmt: skip

    def facts(self, identity: int, albums: Sequence["ServedAlbum"]) -> schemas.Photo:
        """What is known of a photo."""
        row = self.album.photos.row_of(identity)
        photo, stack = self.album.photos[row], self.album.photos.at(self.stacks.members(row))
        return schemas.Photo(
            **self._sized(photo),
            taken=None if photo.taken is None else photo.taken.isoformat(" ", "seconds"),
            camera=photo.camera,
            twins=[photo.id if served is self else served.album.photos.find(photo.path) for served in albums],
            stack=[schemas.Copy(**self._sized(one)) for one in stack],
        )

    def _sized(self, photo: Photo) -> dict[str, Any]:
        return {**self._known(photo), "width": photo.width, "height": photo.height, "bytes": photo.bytes}

    def filter(self, asked: schemas.Filters) -> tuple[Filter, str]:
        """A filter, and a text that changes with what it says where that is up to the collections."""
        chosen = asked.filter()
        if chosen.collection is not None:
            chosen = replace(chosen, collection=self.collection(chosen.collection))
        elif not chosen.in_no_collection:
            return chosen, ""
        return chosen, str(self.album.collections.version)

    def collection(self, which: int | str) -> int | str:
        """A collection by its key or name; digits that no collection is called are a key, as an address has it."""
        is_key = isinstance(which, str) and which.isdecimal() and which not in self.album.collections.all()
        return int(which) if is_key else which

    def listed(self, request: schemas.PhotoListRequest) -> schemas.PhotoPage:
        """A page of the album in its order."""
        version, kept = self._list_of(request)
        shown = kept.shown[request.offset : request.offset + request.limit]
        copies = self.stacks.copies(shown, kept.passing) if request.stacked else len(shown) * [()]
        photos = [self.photo(*each) for each in zip(self.album.photos.at(shown), copies, strict=True)]
        total = len(kept.shown)
        return schemas.PhotoPage(version=version, total=total, folded=kept.number - total, photos=photos)

    def sections(self, request: schemas.SectionsRequest) -> schemas.PhotoSections:
        """The sections of the album in an order, from end to end."""
        version, kept = self._list_of(request)
        sections = [
            schemas.Section(title=title, start=start, photos=number)
            for title, start, number in self._order(request.order).sections(kept.places)
        ]
        return schemas.PhotoSections(version=version, sections=sections)

    def copies(self, offset: int, limit: int) -> schemas.CopiesPage:
        """Stacks of copies, those with the most photos first."""
        version = self.list_version(stacked=True)
        stacks = self.stacks.all()
        shown = [
            schemas.Stack(
                photos=[schemas.Copy(**self._sized(photo)) for photo in self.album.photos.at(rows)],
                best=int(self.album.photos.ids[rows[0]]), kind=kind,
            )
            for rows, kind in stacks[offset : offset + limit]
        ]  # fmt: skip
        return schemas.CopiesPage(version=version, total=len(stacks), stacks=shown)

    def _list_of(self, request: schemas.PhotoListRequest | schemas.SectionsRequest) -> tuple[str, PhotoList]:
        version, stacks = self.list_version(request.stacked), self.stacks if request.stacked else None
        order = None if request.order is None else self._order(request.order)
        return version, self._kept_list(*self.filter(request), stacks, version, order)

    def list_version(self, stacked: bool) -> str:
        """The version of a list: with copies stacked, it changes with the stacks too."""
        return f"{self.version}-{self.stacks.version}" if stacked else self.version

    @cached_property
    def choices(self) -> schemas.Choices:
        """What there is to filter by."""
        photos = self.album.photos
        first, last = days_of(photos) or (None, None)
        # A folder whose name is no text cannot be sent back.
        folders = [folder for folder in folders_of(photos) if spelled(folder) == folder]
        return schemas.Choices(
            folders=folders, cameras=dict(cameras_of(photos)), first=first, last=last, undated=undated(photos)
        )


def is_plain_jpeg(content: bytes) -> bool:
    """Whether a JPEG has a head without a thumbnail, pixels, and nothing else: then it can be served as it is."""
    framed = content.startswith(b"\xff\xd8\xff\xe0\x00\x10JFIF") and content.endswith(b"\xff\xd9")
    return framed and _MORE.search(content, 6) is None


def _key(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


Albums = tuple[ServedAlbum, ...]


def shares(box: Sequence[float], size: tuple[int, int]) -> schemas.Shares:
    """A box in pixels as shares of a photo of this size."""
    x, y, width, height = box
    return x / size[0], y / size[1], width / size[0], height / size[1]


def pixels(box: schemas.ShareBox, size: tuple[int, int]) -> PixelBox:
    """The same the other way round."""
    left, top, width, height = box
    return round(left * size[0]), round(top * size[1]), max(1, round(width * size[0])), max(1, round(height * size[1]))
