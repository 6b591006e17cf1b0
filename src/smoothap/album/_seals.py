"""`parts/000064/000003.json` in an album: what part 3 of 64 consists of, in a small file of its own.

Counting a part in costs the same however many there are, since `album.json` does not list them. It says the last change
in full, and by that the change counts, from one moment to the next. The next writer moves it to the part's own file,
which keeps what it said before as well, for readers that hold the `album.json` of then.
"""

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from smoothap._core.files import ChecksummedJson, Kinds, sync, wrong_field

FOLDER = "parts"
_SEGMENT = {"number": int, "rows": int, "vectors": str, "photos": str}
_PART = {"number": int, "of": int, "given": int, "indexed": int, "reported": int}
_LOOSE = "-loose"
_RECORD = {"version": int, "part": dict, "segments": list}
_SEALED = ChecksummedJson("a part of an album", {**_RECORD, "before": (dict, type(None))}, "Copy the album again.")


@dataclass(frozen=True)
class Segment:
    """Some rows of the album: vectors-N.npy and photos-N.parquet, with their checksums.

    In an album that has learnt there is learnt-N.npy too, the projected vectors. `part` names the part of the album
    that these rows came with: it is kept apart from others, so that bringing it up to date touches no other. Where
    segments have rows of the same id, that with the highest number counts.
    """

    number: int
    rows: int
    vectors: str
    photos: str
    learnt: str | None = None
    part: str | None = None


@dataclass(frozen=True)
class Part:
    """A part that is there, whole: of the files given, some are indexed and the others are reported.

    One that is `loose` is a piece of a run by several processes: who reads the whole album finds its rows among those
    of no part, and who writes it brings them together.
    """

    number: int
    of: int
    given: int = 0
    indexed: int = 0
    reported: int = 0
    loose: bool = False

    @property
    def name(self) -> str:
        """Such as 3/64."""
        return f"{self.number}/{self.of}{_LOOSE if self.loose else ''}"

    @property
    def group(self) -> str:
        """The folder that its file is in, with all others of that many."""
        return f"{self.of:06d}{_LOOSE if self.loose else ''}"

    @property
    def place(self) -> str:
        """Its file in the folder of all parts."""
        return f"{self.group}/{self.number:06d}.json"


class Record(NamedTuple):
    """All that is said of a part."""

    part: Part
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Known:
    """The parts, by their names, that a description was read with; `whole`: they are all that there are."""

    records: Mapping[str, Record] = field(default_factory=dict)
    whole: bool = True


@dataclass(frozen=True)
class Sealed:
    """What `album.json` says of the files of parts: how many count in each folder, and the version that these make."""

    version: int = 0
    groups: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def is_right(values: object) -> bool:
        """Whether these are its fields; nothing in them leads out of the album."""
        return (
            isinstance(values, dict)
            and are(values, {"version": int, "groups": dict})
            and all(group.removesuffix(_LOOSE).isdecimal() for group in values["groups"])
            and all(type(count) is int and count > 0 for count in values["groups"].values())
        )

    def read(self, folder: Path, learnt: bool, only: Part | None = None) -> dict[str, Record]:
        """The parts that count, by name: all, or of those that are divided as `only` is, that one alone."""
        found: dict[str, Record] = {}
        for group in self.groups:
            if only is not None and group == only.group:
                places = [folder / FOLDER / only.place]
            else:
                places = sorted((folder / FOLDER / group).glob("*.json"))
            for file in places:
                with suppress(FileNotFoundError):  # not counted in yet, or taken away: who asked for all, counts them
                    if (record := self._counting(file, learnt)) is not None:
                        found[record.part.name] = record
        return found

    def _counting(self, file: Path, learnt: bool) -> Record | None:
        """What a part's file says in this version of the album; None: it was not there."""
        values = _SEALED.read(file)
        before = values.pop("before")
        if values["version"] > self.version:
            if before is None:
                return None
            values = before
        if not (are(values, _RECORD) and are_parts([values["part"]]) and are_segments(values["segments"], learnt)):
            raise ValueError(f"{file} does not describe a part of an album: a field is missing or of the wrong kind.")
        if values["version"] > self.version:
            return None
        part, segments = Part(**values["part"]), values["segments"]
        if not file.match(part.place):
            raise ValueError(f"{file} describes part {part.name}, and has the name of another: copy the album again.")
        return Record(part, tuple(replace(Segment(**segment), part=part.name) for segment in segments))

    def write(self, folder: Path, records: Iterable[Record]) -> None:
        """Move what `album.json` says in this version to the files of the parts; half moved, it is moved again."""
        for part, segments in records:
            file, before = folder / FOLDER / part.place, None
            with suppress(FileNotFoundError):
                before = _SEALED.read(file)
                del before["before"]
                if before["version"] >= self.version:
                    continue
            _SEALED.write(
                file,
                {
                    "version": self.version,
                    "part": part_values(part),
                    "segments": [segment_values(replace(segment, part=None)) for segment in segments],
                    "before": before,
                },
            )


def remove_group(folder: Path, group: str) -> None:
    """Take away the files of parts that do not count, so that they cannot count again."""
    if (place := folder / FOLDER / group).exists():
        shutil.rmtree(place, ignore_errors=True)
        sync(place.parent)


def segment_values(segment: Segment) -> dict[str, Any]:
    """The fields of a segment; what it does not have is not spoken of."""
    return {name: value for name, value in vars(segment).items() if value is not None}


def part_values(part: Part) -> dict[str, Any]:
    """The fields of a part."""
    return {name: value for name, value in vars(part).items() if value is not False}


def are_segments(values: object, learnt: bool) -> bool:
    """Whether these are the fields of segments, of an album that has learnt or has not."""
    kinds = {**_SEGMENT, "learnt": str} if learnt else _SEGMENT
    return isinstance(values, list) and all(are(each, kinds) or are(each, {**kinds, "part": str}) for each in values)


def are_parts(values: object) -> bool:
    """Whether these are the fields of parts."""
    return isinstance(values, list) and all(
        are({name: value for name, value in each.items() if (name, value) != ("loose", True)}, _PART)
        if isinstance(each, dict)
        else False
        for each in values
    )


def are(values: object, kinds: Kinds) -> bool:
    """Whether these are the fields, each of its kind; whole numbers are counts, and none is below 0."""
    return (
        isinstance(values, dict)
        and values.keys() == kinds.keys()
        and wrong_field(values, kinds) is None
        and all(
            not isinstance(value, bool) and value >= 0 for value in values.values() if isinstance(value, (int, float))
        )
    )
