"""The collections of one version of an album behind the page."""

from collections.abc import Callable, Sequence

import numpy as np
from starlette.exceptions import HTTPException

from smoothap.album import Album
from smoothap.album.collection_export import Originals, originals
from smoothap.album.collection_import import import_text
from smoothap.album.collections import Collection, Collections
from smoothap.album.finding_all import find_next
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.face_searching import all_found
from smoothap.server.served_album import ServedAlbum

_EXAMPLES = 5  # of names that are not in the album


class ServedCollections:
    """What the page asks of the collections of an album; all that is kept is in the album's folder."""

    def __init__(self, served: ServedAlbum) -> None:
        self._served = served

    @property
    def stored(self) -> Collections:
        """The collections on disk."""
        try:
            return self._served.album.collections
        except ValueError as error:
            raise HTTPException(409, str(error)) from error

    @property
    def version(self) -> str:
        """Changes with any collection, and with the photos that they are seen by."""
        return f"{self._served.version}-{self.stored.version}"

    def listed(self, chosen: int | None = None) -> schemas.CollectionList:
        """All collections, and what can be undone."""
        version, stored = self.version, self.stored  # the version first: what is written meanwhile is newer
        steps, counts = stored.steps(), stored.counts()
        return schemas.CollectionList(
            version=version,
            collections=[
                schemas.CollectionInfo(key=one.key, name=one.name, right=right, wrong=wrong, away=away)
                for one in stored.all().values()
                for right, wrong, away in [counts.get(one.key, (0, 0, 0))]
            ],
            undo=schemas.StepInfo(number=steps[0].number, what=visible(steps[0].what)) if steps else None,
            chosen=chosen,
        )

    def marks(self, key: int) -> schemas.CollectionMarks:
        """The ids of a collection."""
        version, one = self.version, self.stored[key]
        return schemas.CollectionMarks(
            version=version, key=one.key, name=one.name, right=list(one.right), wrong=list(one.wrong),
            away=[visible(path) for path in one.away],
        )  # fmt: skip

    def create(self, new: schemas.NewCollection) -> int:
        """Make a collection with its first photos, in one step; gives its key."""
        if new.name.strip() in self.stored.all() or not (new.right or new.wrong):
            return self.stored.create(new.name).key  # which refuses a name that is taken
        return self.stored.mark(new.name, right=new.right, wrong=new.wrong).key

    def keep(self, key: int, request: schemas.SearchRequest) -> int:
        """Keep all that a search finds, and the photos that it was asked with."""
        album, wrong = self._served.album, set(self.stored[key].wrong)
        rows, _ = all_found(self._served, request)
        itself = album.photos.rows_of(request.ids).tolist()
        found = album.photos.ids[[*itself, *rows]].tolist()
        return self.stored.mark(key, right=[one for one in found if one not in wrong]).key

    def photos(self, key: int, offset: int, limit: int) -> schemas.PhotoPage:
        """A page of the photos that belong to a collection."""
        right, photos = self.stored[key].right, self._served.album.photos
        shown = photos.at(photos.rows_of(right[offset : offset + limit]))
        return schemas.PhotoPage(
            version=self.version, total=len(right), photos=[self._served.photo(photo) for photo in shown]
        )

    def exported(self, key: int, form: Callable[[Album, Sequence[Collection]], str]) -> tuple[str, str]:
        """The name of a collection and what it holds in some form."""
        one = self.stored[key]
        return one.name, form(self._served.album, [one])

    def originals(self, key: int) -> tuple[str, Originals]:
        """The name of a collection and the files of its photos."""
        one: Collection = self.stored[key]
        return one.name, originals(self._served.album, [one])

    def take_in(self, content: bytes) -> schemas.ImportedInfo:
        """Import a list that was exported."""
        report = import_text(self._served.album, content)
        return schemas.ImportedInfo(
            photos=report.photos,
            unknown=len(report.unknown),
            examples=[visible(path) for path in report.unknown[:_EXAMPLES]],
            collections=self.listed(),
        )

    def look_next(self, key: int, request: schemas.NextRequest) -> schemas.NextPhotos:
        """How much is found, and what to look at: copies of one photo as one, and none of what is marked already."""
        album, version, collection = self._served.album, self.version, self.stored[key]
        photos, stacks = album.photos, self._served.stacks
        marked = (stacks.members(row) for row in photos.rows_of([*collection.right, *collection.wrong]))
        copies = photos.ids[np.concatenate([np.zeros(0, np.int64), *marked])].tolist()
        found = find_next(album, collection, number=2 * request.limit, seen=[*request.seen, *copies])
        rows = photos.rows_of(hit.id for hit in found.photos)
        first, best = (column[: request.limit] for column in stacks.folded(rows))
        shown = zip(photos.at(best), first.tolist(), stacks.copies(best, None), strict=True)
        return schemas.NextPhotos(
            version=version,
            recall=found.recall,
            lowest=found.lowest,
            highest=found.highest,
            missing=found.missing,
            why=found.why,
            hits=[
                self._served.hit(photo, rank, found.photos[place].score, copies=others)
                for rank, (photo, place, others) in enumerate(shown, start=1)
            ],
        )
