"""`album.json`: which files make up the album, and what they are; the one file that is ever replaced."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smoothap.sealed_json import Kinds, SealedJson, wrong_field

NAME = "album.json"
COLLECTIONS = "collections"  # the folder in an album for what users keep
FORMAT = 1
_KINDS = {
    "dimension": int, "model": (dict, type(None)), "source": str, "root": (str, type(None)), "segments": list,
    "next_id": int, "next_segment": int, "calibration": (dict, type(None)),
}  # fmt: skip
_SEGMENT = {"number": int, "rows": int, "vectors": str, "photos": str}
_MODEL = {"sha256": str, "architecture": str, "dimension": int, "transform": dict}
_CURVES = {"scores": list, "recall": list, "false_positive_rate": list}
_CALIBRATION = {**_CURVES, "right_per_query": (int, float), "source": str, "queries": int}
_SEALED = SealedJson("an album", _KINDS, "Copy the album again.", checksum="sha256", format=FORMAT)


@dataclass(frozen=True)
class Segment:
    """Some rows of the album: vectors-N.npy and photos-N.parquet, with their checksums."""

    number: int
    rows: int
    vectors: str
    photos: str


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


def write_description(folder: Path, description: Description) -> None:
    """Make this the album, from one moment to the next."""
    _SEALED.write(folder / NAME, asdict(description))


def read_description(folder: Path) -> Description:
    """What the album is; a file that differs in any letter from what was written is refused."""
    file = folder / NAME
    if not file.is_file():
        raise FileNotFoundError(f"There is no album in {folder}: smoothap index PHOTOS --out {folder}")
    values = _SEALED.read(file)
    right = (
        _are(values, _KINDS)
        and values["dimension"] >= 1
        and all(_are(segment, _SEGMENT) for segment in values["segments"])
        and (values["model"] is None or _are(values["model"], _MODEL))
        and (values["calibration"] is None or _is_calibration(values["calibration"]))
    )
    if not right:
        raise ValueError(f"{file} does not describe an album: a field is missing or of the wrong kind.")
    values["segments"] = tuple(Segment(**segment) for segment in values["segments"])
    return Description(**values)


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


def _is_calibration(values: dict[str, Any]) -> bool:
    if not _are(values, _CALIBRATION):
        return False
    curves = [values[name] for name in _CURVES]
    return (
        len({len(curve) for curve in curves}) == 1
        and len(curves[0]) > 0
        and all(type(value) in (int, float) and abs(value) <= 2 for curve in curves for value in curve)
    )
