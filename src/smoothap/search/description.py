"""`album.json`: which files make up the album, and what they are; the one file that is ever replaced."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smoothap.sealed_json import Kinds, SealedJson, wrong_field
from smoothap.search.vectors import DTYPES, FLOAT32

NAME = "album.json"
COLLECTIONS = "collections"  # the folder in an album for what users keep
FORMAT = 1
_KINDS = {
    "dimension": int, "model": (dict, type(None)), "source": str, "root": (str, type(None)), "segments": list,
    "next_id": int, "next_segment": int, "calibration": (dict, type(None)),
}  # fmt: skip
_SEGMENT = {"number": int, "rows": int, "vectors": str, "photos": str}
_PART = {"number": int, "of": int, "given": int, "indexed": int, "reported": int}
_LEARNT = {
    "number": int, "projection": str, "dimension": int, "collections": int, "photos": int, "gain": list,
    "calibration": (dict, type(None)),
}  # fmt: skip
_MODEL = {"sha256": str, "architecture": str, "dimension": int, "transform": dict}
_CURVES = {"scores": list, "recall": list, "false_positive_rate": list}
_CALIBRATION = {**_CURVES, "right_per_query": (int, float), "source": str, "queries": int}
_SEALED = SealedJson("an album", _KINDS, "Copy the album again.", checksum="sha256", format=FORMAT)


@dataclass(frozen=True)
class Segment:
    """Some rows of the album: vectors-N.npy and photos-N.parquet, with their checksums.

    In an album that has learnt there is learnt-N.npy too, the projected vectors. `part` is the part of the album, such
    as 3/64, that these rows came with: it is kept apart from others, so that bringing it up to date touches no other.
    """

    number: int
    rows: int
    vectors: str
    photos: str
    learnt: str | None = None
    part: str | None = None


@dataclass(frozen=True)
class Part:
    """A part that is there, whole: of the files given, some are indexed and the others are reported."""

    number: int
    of: int
    given: int
    indexed: int
    reported: int

    @property
    def name(self) -> str:
        """Such as 3/64."""
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class Learnt:
    """What an album learnt from its collections: projection-N.npy with its checksum, and how it was come by.

    `gain` is by how much mAP rises for photos that were left out, with its interval; `calibration` is the one from
    before, for the day on which all of this is undone.
    """

    dimension: int
    collections: int
    photos: int
    gain: tuple[float, float, float]
    number: int = 0
    projection: str = ""
    calibration: dict[str, Any] | None = None


@dataclass(frozen=True)
class Description:
    """All that is said about an album in one place; whoever replaces it replaces the album."""

    dimension: int
    model: dict[str, Any] | None = None
    source: str = ""  # where the model was found: name:NAME, or folder:PATH relative to the album
    root: str | None = None  # the photo folder, relative to the album
    segments: tuple[Segment, ...] = ()
    next_id: int = 0
    next_segment: int = 1
    calibration: dict[str, Any] | None = None
    learnt: Learnt | None = None
    dtype: str = FLOAT32  # what the vectors are kept in
    parts: tuple[Part, ...] = ()  # those that were computed one by one


def write_description(folder: Path, description: Description) -> None:
    """Make this the album, from one moment to the next."""
    values = {**vars(description), "learnt": description.learnt and asdict(description.learnt)}
    values["segments"] = [dict(vars(segment)) for segment in description.segments]
    values["parts"] = tuple(dict(vars(part)) for part in description.parts)
    # What an album does not have is not spoken of: older versions of smoothap open it as before.
    for piece in (values, *values["segments"]):
        for name in ("learnt", "part", "parts", "dtype"):
            if name in piece and piece[name] in (None, (), FLOAT32):
                del piece[name]
    _SEALED.write(folder / NAME, values)


def read_description(folder: Path) -> Description:
    """What the album is; a file that differs in any letter from what was written is refused."""
    file = folder / NAME
    if not file.is_file():
        raise FileNotFoundError(f"There is no album in {folder}: smoothap index PHOTOS --out {folder}")
    values = _SEALED.read(file)
    learnt, parts, dtype = values.pop("learnt", None), values.pop("parts", []), values.pop("dtype", FLOAT32)
    kinds = _SEGMENT if learnt is None else {**_SEGMENT, "learnt": str}
    right = (
        _are(values, _KINDS)
        and values["dimension"] >= 1
        and all(_are(segment, kinds) or _are(segment, {**kinds, "part": str}) for segment in values["segments"])
        and isinstance(parts, list)
        and all(_are(part, _PART) for part in parts)
        and isinstance(dtype, str)
        and dtype in DTYPES
        and (learnt is None or _is_learnt(learnt))
        and (values["model"] is None or _are(values["model"], _MODEL))
        and (values["calibration"] is None or _is_calibration(values["calibration"]))
    )
    if not right:
        raise ValueError(f"{file} does not describe an album: a field is missing or of the wrong kind.")
    values["segments"] = tuple(Segment(**segment) for segment in values["segments"])
    values["parts"] = tuple(Part(**part) for part in parts)
    if learnt is not None:
        learnt["gain"] = tuple(learnt["gain"])
    return Description(**values, learnt=None if learnt is None else Learnt(**learnt), dtype=dtype)


def refuse_inside_album(folder: Path) -> None:
    """Refuse a folder that lies in an album: whoever copies or deletes that album would not know of a second one."""
    for above in folder.resolve().parents:
        try:
            read_description(above)
        except (OSError, ValueError):  # no album, or a file of another program with the same name
            continue
        raise ValueError(f"{folder} lies in the album {above}: choose a folder outside of it for the new album.")


def _are(values: object, kinds: Kinds) -> bool:
    """Whether these are the fields, each of its kind; whole numbers are counts, and none is below 0."""
    return (
        isinstance(values, dict)
        and values.keys() == kinds.keys()
        and wrong_field(values, kinds) is None
        and all(
            not isinstance(value, bool) and value >= 0 for value in values.values() if isinstance(value, (int, float))
        )
    )


def _is_learnt(values: object) -> bool:
    return (
        isinstance(values, dict)
        and _are(values, _LEARNT)
        and values["dimension"] >= 1
        and len(values["gain"]) == 3
        and all(type(value) in (int, float) and abs(value) <= 1 for value in values["gain"])
        and (values["calibration"] is None or _is_calibration(values["calibration"]))
    )


def _is_calibration(values: dict[str, Any]) -> bool:
    if not _are(values, _CALIBRATION):
        return False
    curves = [values[name] for name in _CURVES]
    return (
        len({len(curve) for curve in curves}) == 1
        and len(curves[0]) > 0
        and all(type(value) in (int, float) and abs(value) <= 2 for curve in curves for value in curve)
    )
