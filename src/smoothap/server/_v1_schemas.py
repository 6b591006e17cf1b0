"""What programs send and get under /api/v1: shapes that do not change but for fields that are added."""

import re
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from smoothap.album import Filter
from smoothap.server._schemas import Identity

Sentence = Annotated[str, Field(max_length=4_096)]
_COLUMN_AND_VALUE = "^[^=]+="
_RESERVED = ("id", "label", "path")  # which a photo has beside the columns of a table


def _checked_pair(text: str) -> str:
    if not re.match(_COLUMN_AND_VALUE, text):
        raise PydanticCustomError("column", "it is COLUMN=VALUE, such as brand=acme")
    return text


ColumnAndValue = Annotated[
    str, Field(max_length=1_000, json_schema_extra={"pattern": _COLUMN_AND_VALUE}), AfterValidator(_checked_pair)
]


class Question(BaseModel, extra="forbid"):
    """A search. The photo is the body, or give the id of one of the album's, or a vector."""

    id: Identity | None = Field(None, description="A photo of the album as the query; it is left out of the answer.")
    k: int = Field(20, ge=1, le=1_000, description="How many hits, or groups, at most.")
    minimum: float | None = Field(None, ge=-1, le=1, description="Only photos that score at least this.")
    recall: float | None = Field(
        None, gt=0, le=1, description="Only the shortest list expected to hold this share; for a calibrated album."
    )
    group_by: str | None = Field(
        None, max_length=200, description="label, or a column of the album: the best photo of each, with counts."
    )
    folder: Sentence | None = Field(None, description="Only photos in this folder, relative to the photo folder.")
    since: date | None = Field(None, description="Only photos taken on this day or later.")
    until: date | None = Field(None, description="Only photos taken on this day or earlier.")
    camera: str | None = Field(None, max_length=200, description="Only photos by this camera.")
    collection: str | None = Field(None, max_length=200, description="Only photos that this collection holds.")
    in_no_collection: bool = Field(False, description="Only photos that no collection holds.")
    where: list[ColumnAndValue] = Field(
        [],
        max_length=20,
        description="COLUMN=VALUE: only photos with this text in a column of the album, or as label; repeatable.",
    )

    def filter(self) -> Filter:
        """Which photos are looked at."""
        given = {name: getattr(self, name) for name in ("folder", "since", "until", "camera", "in_no_collection")}
        columns = tuple((name, value) for name, _, value in (each.partition("=") for each in self.where))
        return Filter(collection=self.collection, columns=columns, **given)


class VectorQuestion(Question):
    """A search as JSON, which may have a vector as its query."""

    vector: list[float] | None = Field(
        None, min_length=1, max_length=20_000, description="The query as the album's model gives it, of any length."
    )


class NewPhotos(BaseModel, extra="forbid"):
    """What is said of photos that are added."""

    path: str | None = Field(None, max_length=1_000, description="Of the photo that is the body.")
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


class FoundPhoto(BaseModel):
    """One answer; `score` is the cosine, `columns` what else the album's table says of it."""

    id: int
    rank: int
    score: float
    path: str
    label: str | None
    columns: dict[str, str]


class FoundGroup(BaseModel):
    """A group by its best photo; `photos` counts those of it that pass and score at least `minimum`."""

    group: str
    photos: int
    best: FoundPhoto


class Found(BaseModel):
    """Hits, best first, or groups. `total` photos pass and score at least `minimum`; `version` is the album's."""

    album: str
    version: str
    total: int
    minimum: float | None
    expected_recall: float | None = Field(description="Of a list down to `minimum`, where the album is calibrated.")
    expected_precision: float | None
    hits: list[FoundPhoto]
    groups: list[FoundGroup] | None


class StoredPhoto(BaseModel):
    """A photo of an album."""

    id: int
    path: str
    label: str | None
    columns: dict[str, str]
    width: int
    height: int
    bytes: int
    taken: str | None
    camera: str | None


class StoredAlbum(BaseModel):
    """An album; `version` changes whenever it does."""

    name: str
    version: str
    photos: int
    dimension: int
    takes_photos: bool
    calibrated: bool
    columns: list[str]


class StoredAlbums(BaseModel):
    """The albums of this server."""

    albums: list[StoredAlbum]


class Written(BaseModel):
    """What became of photos that were sent, by path: the id of each that is in the album, and why others are not."""

    version: str
    ids: dict[str, int]
    refused: dict[str, str]


class Removed(BaseModel):
    """A photo that was taken out of the album; its file is still there unless its deletion was asked for."""

    version: str
    id: int
    path: str
    file_deleted: bool
