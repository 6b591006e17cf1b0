"""What is sent and what is answered: the shapes of the API, from which its OpenAPI description is made."""

import base64
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any

import numpy as np
from fastapi import Query
from pydantic import AfterValidator, BaseModel, Field
from starlette.responses import JSONResponse, Response

from smoothap.album.filters import Filter

Identity = Annotated[int, Field(ge=0, le=2**53)]  # what a browser can count to
Start = Annotated[float, Field(ge=0, lt=1)]
Side = Annotated[float, Field(ge=0.005, le=1)]


def _inside(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    left, top, width, height = box
    return left, top, min(width, 1 - left), min(height, 1 - top)


# Part of a picture's address: the photo's `picture`.
PictureKey = Annotated[str | None, Query(max_length=100, description="The photo's `picture`, so that it can be kept.")]
JPEG: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}, "description": "The picture"}
}

# Left, top, width and height of a part of a photo, as shares of its width and height.
ShareBox = Annotated[tuple[Start, Start, Side, Side], AfterValidator(_inside)]


class FilterInfo(BaseModel, extra="forbid"):
    """Which photos to look at; all that is given has to hold."""

    folder: str | None = Field(None, max_length=4_096, description="Relative to the photo folder, with those in it.")
    since: date | None = Field(None, description="The first day, by the camera's clock.")
    until: date | None = Field(None, description="The last day, counted in.")
    camera: str | None = Field(None, max_length=200, description="A camera's name, or a part of it.")
    collection: Identity | None = Field(None, description="The key of a collection that it belongs to.")
    in_no_collection: bool = False

    def filter(self) -> Filter:
        """The same for the album."""
        return Filter(**self.model_dump())


class SearchRequest(BaseModel, extra="forbid"):
    """A search: with a photo of the album, or with the vector that `embed` gave for another."""

    photo: Identity | None = Field(None, description="A photo of the album; it is left out of the answer.")
    vector: str | None = Field(
        None, max_length=100_000, description="What `embed` or `part` answered; with `photo`, a part of that photo."
    )
    model: str | None = Field(
        None, max_length=100, description="What came with the vector: another model's is refused."
    )
    offset: int = Field(0, ge=0, le=1_000_000)
    limit: int = Field(60, ge=1, le=200)
    minimum: float | None = Field(None, ge=-1, le=1, description="Only photos that score at least this.")
    recall: float | None = Field(None, gt=0, le=1, description="The shortest list expected to hold this share.")
    collection: Identity | None = Field(None, description="Ask with the marks of this collection, by its key.")
    right: list[Identity] = Field([], max_length=200, description="Photos marked as right.")
    wrong: list[Identity] = Field([], max_length=200, description="Photos marked as wrong.")
    where: FilterInfo | None = Field(None, description="Look only at some of the photos.")
    stacked: bool = Field(False, description="Copies of one photo as one, where the first of them stands.")


class BrowseRequest(BaseModel, extra="forbid"):
    """Photos of the album in their order."""

    offset: int = Field(0, ge=0, le=10_000_000)
    limit: int = Field(60, ge=1, le=200)
    where: FilterInfo | None = None
    stacked: bool = False


class PhotoPart(BaseModel, extra="forbid"):
    """A part of a photo."""

    box: ShareBox = Field(description="Left, top, width and height as shares of the photo's width and height.")


class AlbumInfo(BaseModel):
    """An album and what can be done with it."""

    name: str
    photos: int
    labelled: bool
    takes_photos: bool = Field(description="Whether it has a model to embed a photo with.")
    calibrated: bool
    keeps: bool = Field(description="Whether it has a folder to keep collections in.")


class AlbumList(BaseModel):
    """All albums of this server; `start` is a photo to begin with, by its id in each."""

    albums: list[AlbumInfo]
    start: list[int] | None
    upload_bytes: int
    local: bool = Field(description="Whether only this computer sees the page, so that it may show photos in folders.")


class PhotoInfo(BaseModel):
    """A photo; `twins` has its id in each album of the server, None where it is not.

    `picture` changes with the pixels: asked for with ?picture= and this, a thumbnail or image may be kept by browsers.
    """

    id: int
    picture: str
    name: str
    label: str | None
    twins: list[int | None]
    copies: int = Field(0, description="How many other photos of the list are copies of it and not listed.")


class PhotoPage(BaseModel):
    """Photos of an album in their order; `version` changes whenever the album does."""

    version: str
    total: int
    folded: int = Field(0, description="How many copies are in the list and not counted in its total.")
    photos: list[PhotoInfo]


class CameraInfo(BaseModel):
    """A camera and how many photos are by it."""

    name: str
    photos: int


class Choices(BaseModel):
    """What there is to filter by."""

    folders: list[str]
    cameras: list[CameraInfo]
    first: date | None = Field(description="The day of the earliest photo, of those that have a date.")
    last: date | None
    undated: int = Field(description="How many photos have no date, and so are in no range of dates.")


class StackedPhoto(PhotoInfo):
    """A photo of a stack of copies, and its size, by which the best of them is told."""

    width: int
    height: int
    bytes: int


class PhotoFacts(BaseModel):
    """What is known of a photo; where it was taken is not."""

    id: int
    picture: str
    file: str
    folder: str
    label: str | None
    taken: str | None = Field(description="What the camera's clock showed, such as 2024-06-01 12:30:05.")
    camera: str | None
    width: int
    height: int
    bytes: int
    stack: list[StackedPhoto] = Field(description="The photo itself and its copies, the best first.")


class Vector(BaseModel):
    """A photo as the album's model sees it: float32, little-endian, in base64; `model` names that model."""

    vector: str
    model: str


class HitInfo(BaseModel):
    """One answer; `right` says whether its label is the query's, where both are known."""

    id: int
    picture: str
    rank: int
    score: float
    name: str
    label: str | None
    right: bool | None
    copies: int = Field(0, description="How many other photos of the list are copies of it and not listed.")


class PrecisionRecallCurve(BaseModel):
    """How well the whole ranking does, where the query's label is known."""

    average_precision: float
    positives: int
    recall: list[float]
    precision: list[float]


class SearchPage(BaseModel):
    """A page of a ranking; of `ranked` photos, `total` score at least `minimum`. `version` is that of the album.

    Where copies are stacked, `total` counts each stack once.
    """

    version: str
    ranked: int
    total: int
    folded: int = Field(0, description="How many copies are in the list and not counted in its total.")
    minimum: float | None
    lowest: float | None
    highest: float | None
    expected_recall: float | None
    expected_precision: float | None
    right_in_list: int | None = Field(description="Of the `total`, where the query's label is known.")
    hits: list[HitInfo]
    curve: PrecisionRecallCurve | None = Field(description="With the first page only.")
    note: str = Field(
        "", description="What there is to know about how they were found, such as what was not looked at."
    )


class ErrorInfo(BaseModel):
    """What every error looks like: one sentence that names the cause and the remedy."""

    error: str


def error_response(status: int, sentence: str, *, close: bool = False) -> Response:
    """An error as JSON; `close` ends the connection, for a request whose body was not read to its end."""
    headers = {"cache-control": "no-store"}
    if close:
        headers["connection"] = "close"
    if status == 503:
        headers["retry-after"] = "1"
    return JSONResponse({"error": sentence}, status, headers)


def sentence_of(mistake: Mapping[str, Any]) -> str:
    """What pydantic says is wrong with a request, as a sentence."""
    first, *others = mistake["loc"] or ("",)
    place = others if others and first in ("body", "query", "path") else [first, *others]
    where = " ".join(map(str, place))
    if mistake["type"] == "extra_forbidden":
        return f"There is no parameter {where!r} here: /api/openapi.json has those that there are."
    return f"{where or 'The request'}: {mistake['msg']}."


def packed(vector: np.ndarray) -> str:
    """A vector (d,) as text."""
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def unpacked(text: str, dimension: int) -> np.ndarray:
    """The vector (d,) in the text."""
    try:
        vector = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except ValueError:
        raise ValueError("The vector is no base64 of float32: send what embed answered.") from None
    if vector.shape != (dimension,):
        raise ValueError(
            f"The vector has {len(vector)} numbers and the album's have {dimension}: embed the photo here."
        )
    return vector


def picture_response(content: bytes, *, remembered: bool) -> Response:
    """A JPEG; a browser may keep it only under an address that no other picture will ever have."""
    headers = {"cache-control": "private, max-age=31536000, immutable" if remembered else "no-store"}
    return Response(content, media_type="image/jpeg", headers=headers)
