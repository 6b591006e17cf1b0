"""The collections of one version of an album behind the page."""

from starlette.exceptions import HTTPException

from smoothap.album.collection_export import Originals, originals
from smoothap.album.collection_import import import_text
from smoothap.album.collections import Collection, Collections
from smoothap.album.finding_all import find_next
from smoothap.plots.text import visible
from smoothap.server import _collection_schemas as shapes
from smoothap.server import _schemas as schemas
from smoothap.server._served_album import ServedAlbum

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

    def listed(self, chosen: int | None = None) -> shapes.CollectionList:
        """All collections, and what can be undone."""
        version, stored = self.version, self.stored  # the version first: what is written meanwhile is newer
        steps, counts = stored.steps(), stored.counts()
        return shapes.CollectionList(
            version=version,
            collections=[
                shapes.CollectionInfo(key=one.key, name=one.name, right=right, wrong=wrong, away=away)
                for one in stored.all().values()
                for right, wrong, away in [counts.get(one.key, (0, 0, 0))]
            ],
            undo=shapes.StepInfo(number=steps[0].number, what=visible(steps[0].what)) if steps else None,
            chosen=chosen,
        )

    def marks(self, key: int) -> shapes.CollectionMarks:
        """The ids of a collection."""
        version, one = self.version, self.stored[key]
        return shapes.CollectionMarks(
            version=version, key=one.key, name=one.name, right=list(one.right), wrong=list(one.wrong),
            away=[visible(path) for path in one.away],
        )  # fmt: skip

    def keep(self, key: int, request: schemas.SearchRequest) -> int:
        """Keep all that a search finds, and the photo that it was asked with."""
        wrong = set(self.stored[key].wrong)
        found = [*([] if request.photo is None else [request.photo]), *self._served.ids_of(request)]
        return self.stored.mark(key, right=[one for one in found if one not in wrong]).key

    def photos(self, key: int, albums: tuple[ServedAlbum, ...], offset: int, limit: int) -> schemas.PhotoPage:
        """A page of the photos that belong to a collection."""
        right = self.stored[key].right
        rows = [self._served.album.photos.row_of(identity) for identity in right[offset : offset + limit]]
        listed = [self._served.photo(row, albums) for row in rows]
        return schemas.PhotoPage(version=self.version, total=len(right), photos=listed)

    def originals(self, key: int) -> tuple[str, Originals]:
        """The name of a collection and the files of its photos."""
        one: Collection = self.stored[key]
        return one.name, originals(self._served.album, [one])

    def take_in(self, content: bytes) -> shapes.ImportedInfo:
        """Import a list that was exported."""
        report = import_text(self._served.album, content)
        return shapes.ImportedInfo(
            photos=report.photos,
            unknown=len(report.unknown),
            examples=[visible(path) for path in report.unknown[:_EXAMPLES]],
            collections=self.listed(),
        )

    def look_next(self, key: int, request: shapes.NextRequest) -> shapes.NextPhotos:
        """How much is found, and what to look at."""
        album, version = self._served.album, self.version
        found = find_next(album, self.stored[key], number=request.limit, seen=request.seen)
        return shapes.NextPhotos(
            version=version,
            recall=found.recall,
            lowest=found.lowest,
            highest=found.highest,
            missing=found.missing,
            why=found.why,
            hits=[
                schemas.HitInfo(
                    id=hit.id, picture=self._served.picture_key(hit.id), rank=hit.rank, score=hit.score,
                    name=visible(hit.path), label=None if hit.label is None else visible(hit.label), right=None,
                )
                for hit in found.photos
            ],
        )  # fmt: skip
