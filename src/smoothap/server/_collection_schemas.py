"""What is sent and what is answered about collections."""

from pydantic import BaseModel, Field

from smoothap.album.collections import LONGEST_NAME
from smoothap.server._schemas import HitInfo, Identity


class CollectionName(BaseModel, extra="forbid"):
    """The name of a collection, which no other has."""

    name: str = Field(max_length=LONGEST_NAME)


class Marks(BaseModel, extra="forbid"):
    """What is said of photos: that they belong to the collection, that they do not, or neither any more."""

    right: list[Identity] = Field([], max_length=20_000)
    wrong: list[Identity] = Field([], max_length=20_000)
    neither: list[Identity] = Field([], max_length=20_000)


class StepNumber(BaseModel, extra="forbid"):
    """The step to undo, as `undo` named it; without it the last one."""

    step: Identity | None = None


class CollectionInfo(BaseModel):
    """A collection: how many photos belong to it, do not, and belong to it but are not in the album any more.

    `key` stays when the name changes.
    """

    key: int
    name: str
    right: int
    wrong: int
    away: int


class StepInfo(BaseModel):
    """A step that can be undone, and what it did in words."""

    number: int
    what: str


class CollectionList(BaseModel):
    """All collections of the album; `version` changes with any of them. `chosen` is the one that a call was about."""

    version: str
    collections: list[CollectionInfo]
    undo: StepInfo | None
    chosen: int | None = None


class CollectionMarks(BaseModel):
    """The ids of the photos that belong to a collection, and of those that do not."""

    version: str
    key: int
    name: str
    right: list[int]
    wrong: list[int]
    away: list[str] = Field(description="Photos that belong to it and are not in the album any more.")


class MissingOriginal(BaseModel):
    """A photo whose file cannot be had, and why."""

    name: str
    reason: str


class OriginalsInfo(BaseModel):
    """What a zip of the originals will hold, and its size in bytes."""

    photos: int
    bytes: int
    missing: list[MissingOriginal]


class ImportedInfo(BaseModel):
    """What came of a list: the collections, how many photos of each, and names that are not in the album."""

    photos: dict[str, int]
    unknown: int
    examples: list[str]
    collections: CollectionList


class NextRequest(BaseModel, extra="forbid"):
    """How many photos to look at next, and which were looked at without a mark."""

    limit: int = Field(60, ge=1, le=200)
    seen: list[Identity] = Field([], max_length=20_000)


class NextPhotos(BaseModel):
    """The photos of the album most worth a look for a collection, and how much of it is found by now.

    `recall` is the share of the right photos that are in the collection already, as far as can be expected, between
    `lowest` and `highest`; None while there are too few marks to say. `missing` is how many are still to be found. The
    score of a hit is how likely it belongs to the collection.
    """

    version: str
    recall: float | None
    lowest: float | None
    highest: float | None
    missing: float | None
    why: str
    hits: list[HitInfo]
