"""What is sent and what is answered under /api/v1: all shapes of the API, from which its description is made."""

import re
from collections.abc import Sized
from dataclasses import fields
from datetime import date
from typing import Annotated, Any, Literal

from fastapi import Path, Query, UploadFile
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from smoothap.album import Filter
from smoothap.album.collections import LONGEST_NAME
from smoothap.album.learning import FEWEST_COLLECTIONS, FEWEST_PHOTOS
from smoothap.album.order import By
from smoothap.album.photos import spelled
from smoothap.album.watching import Indexing
from smoothap.plots.text import visible

Identity = Annotated[int, Field(ge=0, le=2**53)]  # what a browser can count to
CollectionKey = Annotated[int, Path(ge=0, le=2**53, description="Its `key` in the list of collections.")]
FaceId = Annotated[int, Path(ge=0, le=2**53, description="A face; a group is named by any of its faces.")]
PictureKey = Annotated[str | None, Query(max_length=100, description="The photo's `picture`: it may then be kept.")]
Ids = Annotated[list[Identity], Field(max_length=20_000)]
CollectionName = Annotated[str, Field(max_length=LONGEST_NAME)]
Offset = Annotated[int, Field(ge=0, le=10_000_000)]
Limit = Annotated[int, Field(ge=1, le=200)]

_COLUMN_AND_VALUE = "^[^=]+="
_BOX_TEXT = r"^[0-9.]{1,12}(,[0-9.]{1,12}){3}$"
_RESERVED = ("id", "label", "path")  # which a photo has beside the columns of a table
_EXAMPLE_HIT: dict[str, Any] = {
    "id": 7, "rank": 1, "score": 0.93, "path": "shoes/red.jpg", "label": "4711", "columns": {"brand": "acme"},
    "picture": "9f2c41d07be8a635", "day": "2016-03-19", "dated_by": "name", "right": None, "copies": [],
}  # fmt: skip


def _checked_pair(text: str) -> str:
    if not re.match(_COLUMN_AND_VALUE, text):
        raise PydanticCustomError("column", "it is COLUMN=VALUE, such as brand=acme")
    return text


def _checked_day(given: object) -> object:
    if isinstance(given, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", given):
        return given
    raise PydanticCustomError("day", "it is a day such as 2024-06-01")  # and no number of seconds


Shares = tuple[float, float, float, float]  # left, top, width and height of a part of a photo, of its width and height


def _inside(box: Shares) -> Shares:
    left, top, width, height = box
    return left, top, min(width, 1 - left), min(height, 1 - top)


ColumnAndValue = Annotated[
    str, Field(max_length=1_000, json_schema_extra={"pattern": _COLUMN_AND_VALUE}), AfterValidator(_checked_pair)
]
Day = Annotated[date, BeforeValidator(_checked_day)]
_Start = Annotated[float, Field(ge=0, lt=1)]
_Side = Annotated[float, Field(ge=0.005, le=1)]
ShareBox = Annotated[tuple[_Start, _Start, _Side, _Side], AfterValidator(_inside)]


# What the album says of itself: text without what would steer its reader, paths, and how many there are of something.
Shown = Annotated[str, BeforeValidator(visible)]
PathText = Annotated[str, BeforeValidator(spelled)]
Count = Annotated[int, BeforeValidator(lambda given: len(given) if isinstance(given, Sized) else given)]


class Problem(BaseModel):
    """What every error looks like (RFC 9457): `detail` is a sentence that names the cause and the remedy."""

    type: str = "about:blank"
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["There is no photo 7 in this album."])


# ---- what is looked at


class Filters(BaseModel, extra="forbid"):
    """Which photos are looked at; all that is given has to hold."""

    folder: str | None = Field(None, max_length=4_096, description="Relative to the photo folder, with those in it.")
    text: str | None = Field(
        None, max_length=1_000, description="Words that are all in the path, in any case and with or without accents."
    )
    since: Day | None = Field(None, description="The first `day` of a photo.")
    until: Day | None = Field(None, description="The last day, counted in.")
    camera: str | None = Field(None, max_length=200, description="A camera's name, or a part of it.")
    collection: Identity | CollectionName | None = Field(
        None, description="A collection that it belongs to, by key or name."
    )
    in_no_collection: bool = Field(False, description="Only photos that no collection holds.")
    where: list[ColumnAndValue] = Field(
        [],
        max_length=20,
        description="COLUMN=VALUE: only photos with this text in a column of the album, or as label; repeatable.",
    )

    def filter(self) -> Filter:
        """The same for the album."""
        columns = tuple((name, value) for name, _, value in (each.partition("=") for each in self.where))
        return Filter(columns=columns, **self.model_dump(include={field.name for field in fields(Filter)}))


class StackedRequest(Filters):
    """Photos that pass, and whether copies are one."""

    stacked: bool = Field(False, description="Copies of one photo as one, the best, where the first of them is.")


class SectionsRequest(StackedRequest):
    """The sections of the album in an order."""

    order: By


class PhotoListRequest(StackedRequest):
    """Photos of the album in an order."""

    order: By | None = Field(None, description="Without it, as they came into the album.")
    offset: Offset = 0
    limit: Limit = 60


class SearchOptions(StackedRequest):
    """What every search can ask for, whatever its query is."""

    offset: Offset = 0
    limit: int = Field(20, ge=1, le=1_000, description="How many hits, or groups, at most.")
    min_score: float | None = Field(None, ge=-1, le=1, description="Only photos that score at least this.")
    recall: float | None = Field(
        None, gt=0, le=1, description="Only the shortest list expected to hold this share; for a calibrated album."
    )
    group_by: str | None = Field(
        None, max_length=200, description="label, or a column of the album: the best photo of each, with counts."
    )
    marks: Identity | CollectionName | None = Field(
        None, description="Ask with the marks of this collection too, by key or name."
    )
    right: list[Identity] = Field([], max_length=200, description="Photos marked as right.")
    wrong: list[Identity] = Field([], max_length=200, description="Photos marked as wrong.")
    rerank: bool = Field(
        True, description="Rank by the album's neighbourhoods; false ranks by the plain cosine with the query."
    )
    space: Literal["photo", "face", "region"] = Field(
        "photo",
        description='What is compared: "face" finds all photos of the person whose face the query is, "region" photos '
        "that have a part like the query.",
    )
    face: int | None = Field(
        None, ge=1, le=10_000, description="Which face of the query, counted from 1 by size; by default the largest."
    )
    statistics: bool = Field(
        False, description="Rank the whole album, for `ranked`, `lowest`, `highest`, `right_in_list` and `curve`."
    )

    @property
    def needs_ranking(self) -> bool:
        """Whether more than the nearest photos has to be known."""
        return self.statistics or self.stacked or self.group_by is not None


class SearchRequest(SearchOptions):
    """A search with photos of the album, or with a vector."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"id": 7, "limit": 20},
                {"id": [7, 12], "folder": "shoes", "min_score": 0.5},
                {"vector": "AACAPwAAAAA=", "model": "5d0f", "offset": 20, "right": [7], "wrong": [9]},
            ]
        }
    )

    id: Identity | Annotated[list[Identity], Field(min_length=1, max_length=200)] | None = Field(
        None, description="A photo of the album, or several of one thing; left out of the answer."
    )
    vector: (
        Annotated[str, Field(max_length=100_000)]
        | Annotated[list[float], Field(min_length=1, max_length=20_000)]
        | None
    ) = Field(
        None,
        description="As text, the `query` of an answer; as numbers, what the album's model computes. With `id`, the "
        "vector of a part of that photo.",
    )
    model: str | None = Field(None, max_length=100, description="Of the `query`: another model's vector is refused.")
    box: ShareBox | None = Field(None, description="The part of the photo `id`: left, top, width, height as shares.")

    @property
    def ids(self) -> list[int]:
        """The photos that it names."""
        return self.id if isinstance(self.id, list) else [] if self.id is None else [self.id]


class PhotoSearchForm(SearchOptions):
    """A search with a photo from elsewhere, which is not kept."""

    image: UploadFile
    # Its pattern is for those who read the description: what is wrong with a box is said by `part`, with an example.
    box: Annotated[str, WithJsonSchema({"type": "string", "pattern": _BOX_TEXT})] | None = Field(
        None,
        description="left,top,width,height of a part as shares of 1, such as 0.1,0.2,0.5,0.5",
    )
    preview: bool = Field(False, description="Answer with a small JPEG of the photo, if the browser cannot show it.")

    @property
    def part(self) -> ShareBox | None:
        """The part of the photo that is asked with."""
        if self.box is None:
            return None
        try:
            return TypeAdapter(ShareBox).validate_python(self.box.split(","))
        except ValidationError:
            raise ValueError(
                "A box is four numbers such as 0.1,0.2,0.5,0.5: left, top, width and height as shares from 0 to 1, the "
                f"last two at least 0.005, not {self.box[:100]!r}."
            ) from None


# ---- what is found


class ChosenPhotos(BaseModel, extra="forbid"):
    """Photos whose originals are wanted: by their ids, or all of a collection."""

    photos: Ids = []
    collection: Identity | CollectionName | None = Field(None, description="By key or name; instead of `photos`.")
    remove_place: bool | None = Field(
        None, description="Whether they are not to say where they were taken; only a page of this computer may say no."
    )

    @model_validator(mode="after")
    def _are_one_or_the_other(self) -> "ChosenPhotos":
        if bool(self.photos) == (self.collection is not None):
            raise PydanticCustomError("photos", "give ids of photos, or a collection")
        return self


class Exported(BaseModel):
    """The folder that originals were copied into, how many, and which were not, with the reason."""

    folder: PathText
    files: int
    skipped: list[PathText]


class PhotoInfo(BaseModel):
    """A photo; `picture` changes with its pixels, and is part of an address that browsers may keep."""

    id: int
    path: PathText = Field(description="Relative to the photo folder.")
    label: str | None
    columns: dict[str, str] = Field(description="What else the album's table says of it.")
    picture: str
    day: str | None = Field(description="The day that it is of, such as 2024-06-01.")
    dated_by: Literal["camera", "name", "file"] | None = Field(
        description="What says so: the camera, the name of the file, or the file's own time."
    )
    copies: list[int] = Field([], description="Other photos of the list that are copies of it, and not listed.")


class Hit(PhotoInfo):
    """One answer; `right` says whether its label is the query's, where both are known.

    `score` is the cosine; in a ranking by neighbourhood it is the one that the plain list has in this place, and
    `through` the id of the photo that led to this one, if it was not the query itself.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE_HIT]})

    rank: int
    score: float
    right: bool | None = None
    through: int | None = None
    face: int | None = Field(None, description="The id of the face that was found, where faces were looked for.")
    box: Shares | None = Field(
        None, description="Where that face or part is: left, top, width, height as shares of the photo."
    )
    said: bool | None = Field(None, description="Of a person's photo: whether a user said that this is them, or not.")


class Group(BaseModel):
    """A group by its best photo; `photos` counts those of it that pass and score at least `min_score`."""

    group: str
    photos: int
    best: Hit


class QueryVector(BaseModel):
    """The query as the album compares it, float32 in base64, to ask with again; `model` names what computed it."""

    vector: str
    model: str


class PrecisionRecallCurve(BaseModel):
    """How well the whole ranking does, where the query's label is known."""

    average_precision: float
    positives: int
    recall: list[float]
    precision: list[float]


class Listing(BaseModel):
    """A page of a list; `version` changes whenever the list does, and is one from end to end."""

    version: str
    total: int = Field(description="Where copies are stacked, each stack counts once.")
    folded: int = Field(0, description="How many copies are in the list and not counted in its total.")


class SearchAnswer(Listing):
    """A page of hits, best first, or groups; of the photos that pass, `total` score at least `min_score`."""

    album: str
    min_score: float | None
    expected_recall: float | None = Field(None, description="Down to `min_score`, where the album is calibrated.")
    expected_precision: float | None = None
    hits: list[Hit]
    groups: list[Group] | None = None
    query: QueryVector
    note: str = Field("", description="What there is to know about how they were found.")
    ranked: int | None = Field(None, description="With `statistics`: how many photos were ranked.")
    lowest: float | None = None
    highest: float | None = None
    right_in_list: int | None = Field(None, description="Of the `total`, where the query's label is known.")
    curve: PrecisionRecallCurve | None = Field(None, description="With the first page only.")
    preview: str | None = Field(None, description="A JPEG of the query in base64, where it was asked for.")


class PhotoPage(Listing):
    """Photos of an album in their order, or of a collection."""

    photos: list[PhotoInfo]


class Section(BaseModel):
    """A month, a folder ("" for the photo folder itself) or a first letter, and where it starts in the list."""

    title: PathText = Field(examples=["March 2016"])
    start: int
    photos: int


class PhotoSections(BaseModel):
    """The sections of a list in order; `version` is that of the list."""

    version: str
    sections: list[Section]


class Copy(PhotoInfo):
    """A photo of a stack of copies, and its size, by which the best of them is told."""

    width: int
    height: int
    bytes: int


class Stack(BaseModel):
    """Copies of one photo, the best first, and how much they differ."""

    photos: list[Copy]
    best: int
    kind: str = Field(description="same file, same picture, crop, or black and white.")


class CopiesPage(Listing):
    """Stacks of copies, those with the most photos first."""

    stacks: list[Stack]


class Photo(Copy):
    """What is known of a photo; where it was taken is not told."""

    taken: str | None = Field(description="What the camera's clock showed, such as 2024-06-01 12:30:05.")
    camera: str | None
    twins: list[int | None] = Field(description="Its id in each album of the server, None where it is not.")
    stack: list[Copy] = Field(description="The photo itself and its copies, the best first.")


class AlbumNow(BaseModel):
    """An album, and what is being done to it."""

    name: str
    version: str
    photos: int
    indexing: Indexing | None = Field(description="What is being done to take in photos, if anything is.")
    problem: Shown | None = Field(description="Why no photos can be taken in, if so.")


class AlbumInfo(AlbumNow):
    """An album and what can be done with it; `version` changes whenever it does."""

    dimension: int
    columns: list[str]
    labelled: bool
    takes_photos: bool = Field(description="Whether it has a model to embed a photo with.")
    calibrated: bool
    keeps: bool = Field(description="Whether it has a folder to keep collections in.")
    people: bool = Field(description="Whether faces were looked for in it, and are shown here.")
    regions: bool = Field(description="Whether parts of its photos are known, so that things in them can be found.")


class AlbumState(AlbumNow):
    """What there is to know of an album to see whether anything is new; `version` changes with its lists."""

    collections: str | None = Field(description="The version of its collections, where it keeps any.")
    learning: float | None = Field(description="The share that is done of what it is learning.")
    people: int | None = Field(description="The version of its people, where they are shown.")


class AlbumList(BaseModel):
    """All albums of this server; `start` is a photo to begin a comparison with, by its id in each."""

    albums: list[AlbumInfo]
    start: list[int] | None
    upload_bytes: int
    local: bool = Field(description="Whether only this computer sees the page, so that it may show photos in folders.")


class Choices(BaseModel):
    """What there is to filter by."""

    folders: list[str]
    cameras: dict[str, int] = Field(description="Each with the number of its photos.")
    first: date | None = Field(description="The day of the earliest photo, of those that have a date.")
    last: date | None
    undated: int = Field(description="How many photos have no date, and so are in no range of dates.")


# ---- what is written


class NewPhotos(BaseModel, extra="forbid"):
    """Photos to add: the path of each file is its file name; label and columns are those of all of them."""

    image: list[UploadFile] = Field(min_length=1, max_length=1_000)
    label: str | None = Field(None, max_length=1_000)
    column: list[ColumnAndValue] = Field([], max_length=50, description="COLUMN=VALUE; repeatable.")

    @field_validator("column")
    @classmethod
    def _are_columns(cls, given: list[str]) -> list[str]:
        for name in (each.partition("=")[0] for each in given):
            if name in _RESERVED:
                raise PydanticCustomError("column", "a column is not called {name}", {"name": name})
        return given

    def columns(self) -> dict[str, str]:
        """The value of each column."""
        return dict(each.split("=", 1) for each in self.column)


class Written(BaseModel):
    """What became of photos that were sent, by path: the id of each that is in the album, and why others are not."""

    version: str
    ids: dict[str, int]
    refused: dict[PathText, PathText]


class Removed(BaseModel):
    """A photo that was taken out of the album; its file is still there unless its deletion was asked for."""

    version: str
    id: int
    path: PathText
    file_deleted: bool


# ---- collections and learning


class Name(BaseModel, extra="forbid"):
    """The name of a collection, which no other has; or of a person: one that somebody has makes both one person."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME)


class NewCollection(Name):
    """A collection to make, with photos that belong to it and that do not: one step, which one undo takes back."""

    right: Ids = []
    wrong: Ids = []


class Marks(BaseModel, extra="forbid"):
    """What is said of photos or faces: they belong to a collection or a person, they do not, or neither any more."""

    right: Ids = []
    wrong: Ids = []
    neither: Ids = []


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
    what: Shown


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
    away: list[Shown] = Field(description="Photos that belong to it and are not in the album any more.")


class OriginalsInfo(BaseModel):
    """What a zip of the originals will hold, and its size in bytes."""

    photos: int
    bytes: int
    missing: dict[Shown, Shown] = Field(description="Photos whose files cannot be had, and why.")


class ImportedInfo(BaseModel):
    """What came of a list: the collections, how many photos of each, and names that are not in the album."""

    photos: dict[str, int]
    unknown: int
    examples: list[Shown]
    collections: CollectionList


class NextRequest(BaseModel, extra="forbid"):
    """How many photos to look at next, and which were looked at without a mark."""

    limit: Limit = 60
    seen: Ids = []


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
    hits: list[Hit]


class LearningInfo(BaseModel):
    """What an album has learnt, and what it is learning."""

    learnt: bool = Field(description="Whether searches are in what it learnt.")
    collections: int = Field(description="Collections with photos enough to learn from.")
    wanted: int = Field(default=FEWEST_COLLECTIONS, description="That many of them are needed.")
    photos: int = Field(default=FEWEST_PHOTOS, description="That many photos of each are needed.")
    running: bool = Field(description="Whether it is learning now.")
    share: float = Field(description="Of that, the share that is done, from 0 to 1.")
    said: str | None = Field(description="What came of the last learning here, in words.")


# ---- people


class PeopleRequest(BaseModel, extra="forbid"):
    """Which groups of faces are listed."""

    offset: Offset = 0
    limit: Limit = 60
    min_photos: int = Field(1, ge=1, le=1_000_000, description="Of those without a name, only groups in that many.")
    strangers: bool = Field(False, description="Those who were said to be strangers, instead of all others.")


class PersonInfo(BaseModel, from_attributes=True):
    """Faces that are of one person: any of their ids names the group, and `number` is the lowest of them."""

    number: int
    name: str | None
    cover: int = Field(description="The face that shows best who it is.")
    photos: Count
    faces: Count
    stranger: bool


class PeopleList(BaseModel):
    """Groups of faces, those with names first, then by photos; `version` changes whenever any of it does."""

    version: str
    total: int
    rarer: int = Field(description="How many more there are in fewer photos than were asked for.")
    strangers: int
    undo: str | None = Field(description="What was said last and can be undone, in words.")
    people: list[PersonInfo]


class PersonQuestion(BaseModel):
    """Whether two groups are one person; `score` is their mean cosine."""

    one: PersonInfo
    other: PersonInfo
    score: float


class PersonPhotosRequest(BaseModel, extra="forbid"):
    """Which photos of a person are listed."""

    missing: bool = Field(False, description="Those that may be of them, and nobody said so, instead of the certain.")
    seen: Ids = Field([], description="Faces that were looked at already.")
    offset: Offset = 0
    limit: Limit = 60


class PersonPhotos(Listing):
    """Photos of a person, the surest first, each once, with the face in it."""

    person: PersonInfo
    hits: list[Hit]


class ChosenFaces(BaseModel, extra="forbid"):
    """Faces by their ids; where groups are meant, one of each."""

    faces: Annotated[list[Identity], Field(min_length=1, max_length=20_000)]


class NoFaces(ChosenFaces):
    """Faces that are none; or groups of which no face is one, each by one of its faces."""

    groups: bool = False


class DrawnFace(BaseModel, extra="forbid"):
    """A face that was not found: the box around it, as shares of the photo, and whose it is."""

    box: ShareBox
    name: str | None = Field(None, min_length=1, max_length=LONGEST_NAME)


class PeopleChange(BaseModel):
    """What was said, what can be undone, and the group that it was about, as it is now."""

    version: str
    said: str
    undo: str | None
    person: PersonInfo | None = None


class FaceInfo(BaseModel):
    """A face of a photo, its box as shares of the photo, and the group that it is in."""

    id: int
    box: Shares
    person: PersonInfo


class PhotoFaces(BaseModel):
    """The faces of a photo, the largest first."""

    version: str
    faces: list[FaceInfo]
