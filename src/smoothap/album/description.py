"""`album.json`: which files make up the album, and what they are; whoever replaces it replaces the album."""

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from smoothap._core.files import ChecksummedJson
from smoothap.album._seals import (
    Known,
    Part,
    Record,
    Sealed,
    Segment,
    are,
    are_parts,
    are_segments,
    part_values,
    remove_group,
    segment_values,
)
from smoothap.album.vectors import DTYPES, FLOAT32

NAME = "album.json"
COLLECTIONS = "collections"  # the folder in an album for what users keep
FORMAT = 1
_KINDS = {
    "dimension": int, "model": (dict, type(None)), "source": str, "root": (str, type(None)), "segments": list,
    "next_id": int, "next_segment": int, "calibration": (dict, type(None)),
}  # fmt: skip
_LEARNT = {
    "number": int, "projection": str, "dimension": int, "collections": int, "photos": int, "gain": list,
    "calibration": (dict, type(None)),
}  # fmt: skip
_MODEL = {"sha256": str, "architecture": str, "dimension": int, "transform": dict}
_CURVES = {"scores": list, "recall": list, "false_positive_rate": list}
_CALIBRATION = {**_CURVES, "right_per_query": (int, float), "source": str, "queries": int}
_SEALED = ChecksummedJson("an album", _KINDS, "Copy the album again.", FORMAT)


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
    known: Known = field(default_factory=Known, compare=False, repr=False)  # what was on the disk when it was read

    def records(self) -> dict[str, Record]:
        """What is said of each part, by its name."""
        segments: dict[str | None, list[Segment]] = {}
        for segment in self.segments:
            segments.setdefault(segment.part, []).append(segment)
        return {part.name: Record(part, tuple(segments.get(part.name, ()))) for part in self.parts}


def write_description(folder: Path, description: Description) -> None:
    """Make this the album, from one moment to the next; parts that it was read without stay as they are."""
    before, sealed = _read(folder) if (folder / NAME).is_file() else (None, Sealed())
    if before is not None:
        sealed.write(folder, before.records().values())
    known, records = description.known, description.records()
    changed = [record for name, record in records.items() if record != known.records.get(name)]
    groups = Counter() if known.whole else Counter(sealed.groups)
    groups.update(record.part.group for name, record in records.items() if known.whole or name not in known.records)
    for group in groups.keys() - sealed.groups.keys():
        remove_group(folder, group)  # left behind by a writer that was stopped
    values = {**vars(description), "learnt": description.learnt and asdict(description.learnt)}
    del values["known"]
    plain = [segment for segment in description.segments if segment.part not in records]
    values["segments"] = [segment_values(each) for each in (*plain, *(one for _, many in changed for one in many))]
    values["parts"] = [part_values(part) for part, _ in changed]
    values["sealed"] = vars(Sealed(sealed.version + 1, dict(groups))) if groups else None
    # What an album does not have is not spoken of: older versions of smoothap open it as before.
    for name in ("learnt", "parts", "dtype", "sealed"):
        if values[name] in (None, [], FLOAT32):
            del values[name]
    _SEALED.write(folder / NAME, values)
    for group in sealed.groups.keys() - groups.keys():
        remove_group(folder, group)


def read_description(folder: Path, only: Part | None = None) -> Description:
    """What the album is; a file that differs in any letter from what was written is refused.

    With `only`, of the parts that are divided as this one is, it alone is looked for.
    """
    head, sealed = _read(folder)
    while True:
        records = sealed.read(folder, head.learnt is not None, only)
        for name, record in head.records().items():
            if only is None or record.part.group != only.group or name == only.name:
                records[name] = record
        if only is not None or Counter(part.group for part, _ in records.values()) == sealed.groups:
            break
        earlier, (head, sealed) = (head, sealed), _read(folder)  # a writer may have taken some away since
        if (head, sealed) == earlier:
            raise ValueError(f"Some parts of the album {folder} are missing: copy the whole album again.")
    return _with_parts(head, Known(records, only is None))


def read_head(folder: Path) -> Description:
    """What `album.json` alone says of the album: all but which parts there are."""
    head, _ = _read(folder)
    return _with_parts(head, Known(head.records(), whole=False))


def _with_parts(head: Description, known: Known) -> Description:
    """The description with these parts; pieces of a run that is not finished are no parts of the whole album."""
    listed = {name for name, record in known.records.items() if not (known.whole and record.part.loose)}
    segments = [segment for segment in head.segments if segment.part is None]
    for name, record in known.records.items():
        segments += record.segments if name in listed else [replace(each, part=None) for each in record.segments]
    if known.records:
        segments.sort(key=lambda segment: segment.number)
    parts = sorted((known.records[name].part for name in listed), key=lambda part: (part.of, part.number))
    return replace(head, segments=tuple(segments), parts=tuple(parts), known=known)


def _read(folder: Path) -> tuple[Description, Sealed]:
    """What is in `album.json`, and what it says of the files of parts."""
    file = folder / NAME
    if not file.is_file():
        raise FileNotFoundError(f"There is no album in {folder}: smoothap index PHOTOS --out {folder}")
    values = _SEALED.read(file)
    learnt, parts, dtype = values.pop("learnt", None), values.pop("parts", []), values.pop("dtype", FLOAT32)
    sealed = values.pop("sealed", None)
    right = (
        are(values, _KINDS)
        and values["dimension"] >= 1
        and are_segments(values["segments"], learnt is not None)
        and are_parts(parts)
        and (sealed is None or Sealed.is_right(sealed))
        and isinstance(dtype, str)
        and dtype in DTYPES
        and (learnt is None or _is_learnt(learnt))
        and (values["model"] is None or are(values["model"], _MODEL))
        and (values["calibration"] is None or _is_calibration(values["calibration"]))
    )
    if not right:
        raise ValueError(f"{file} does not describe an album: a field is missing or of the wrong kind.")
    values["parts"] = tuple(Part(**part) for part in parts)
    names = {part.name for part in values["parts"]}
    segments = (Segment(**segment) for segment in values["segments"])
    values["segments"] = tuple(each if each.part in names else replace(each, part=None) for each in segments)
    if learnt is not None:
        learnt["gain"] = tuple(learnt["gain"])
    head = Description(**values, learnt=None if learnt is None else Learnt(**learnt), dtype=dtype)
    # An album of an older version has no files of parts: it says here what there is.
    inline = Sealed(groups=Counter(part.group for part in head.parts))
    return head, inline if sealed is None else Sealed(**sealed)


def refuse_inside_album(folder: Path) -> None:
    """Refuse a folder that is in an album: whoever copies or deletes that album would not know of a second one."""
    for above in folder.resolve().parents:
        try:
            read_head(above)
        except (OSError, ValueError):  # no album, or a file of another program with the same name
            continue
        raise ValueError(f"{folder} is in the album {above}: choose a folder outside of it for the new album.")


def _is_learnt(values: object) -> bool:
    return (
        isinstance(values, dict)
        and are(values, _LEARNT)
        and values["dimension"] >= 1
        and len(values["gain"]) == 3
        and all(type(value) in (int, float) and abs(value) <= 1 for value in values["gain"])
        and (values["calibration"] is None or _is_calibration(values["calibration"]))
    )


def _is_calibration(values: dict[str, Any]) -> bool:
    if not are(values, _CALIBRATION):
        return False
    curves = [values[name] for name in _CURVES]
    return (
        len({len(curve) for curve in curves}) == 1
        and len(curves[0]) > 0
        and all(type(value) in (int, float) and abs(value) <= 2 for curve in curves for value in curve)
    )
