"""Our own JSON files, each with a checksum of itself: what was written comes back to the letter, or is refused."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from smoothap._core.files import write_atomically

_LARGE = 1 << 18  # characters
Kinds: TypeAlias = Mapping[str, type | tuple[type, ...]]


@dataclass(frozen=True)
class SealedJson:
    """One sort of file: what it describes, the kinds of its fields, and what to do when it is damaged."""

    what: str
    kinds: Kinds
    remedy: str
    checksum: str = "own_sha256"  # the name of the field with the checksum; it stands last
    format: int | None = None  # if given, it stands first in the file, then the checksum, then the other fields
    indent: int | None = 1  # None: all in one line, as large files always are: Python lays lines out slowly
    finite: bool = True  # whether infinities and NaN are refused
    older: bool = False  # whether files from before there was a checksum are read too

    def text(self, values: Mapping[str, Any], *, in_one_line: bool | None = None) -> str:
        """The fields with their checksum, as they stand in the file."""
        plain = json.dumps(values, sort_keys=True, allow_nan=not self.finite)
        own = {self.checksum: hashlib.sha256(plain.encode()).hexdigest()}
        full = {**values, **own} if self.format is None else {"format": self.format, **own, **values}
        in_one_line = len(plain) > _LARGE if in_one_line is None else in_one_line
        return json.dumps(full, indent=None if in_one_line else self.indent) + "\n"

    def write(self, file: Path, values: Mapping[str, Any]) -> None:
        """Write the fields to the file, atomically."""
        write_atomically(file, self.text(values))

    def read(self, file: Path) -> dict[str, Any]:
        """The fields of the file, if they are those that were written and of the right kinds."""
        values, form, whole = dict[str, Any](), self.format, False
        with suppress(ValueError, TypeError, AttributeError, RecursionError):  # not json any more, or not ours
            text = file.read_text(encoding="utf-8")
            values = json.loads(text)
            without = self.older and values.keys().isdisjoint(("format", self.checksum))
            values.pop(self.checksum, None)
            form = None if self.format is None else values.pop("format", None)
            whole = without or self.text(values, in_one_line=text.count("\n") == 1) == text
        if form != self.format:
            raise ValueError(f"{file} is of format {form!r}, and this version of smoothap reads format {self.format}.")
        if not whole:
            raise ValueError(f"{file} is damaged: its checksum differs. {self.remedy}")
        if (name := wrong_field(values, self.kinds)) is not None:  # anybody can compute a checksum
            raise ValueError(
                f"{file} is damaged, or does not describe {self.what}: {name!r} is missing or of the wrong kind. "
                f"{self.remedy}"
            )
        return values


def wrong_field(values: Mapping[str, Any], kinds: Kinds) -> str | None:
    """The first field that is missing or of the wrong kind, None where all are right."""
    wrong = (name for name, kind in kinds.items() if name not in values or not isinstance(values[name], kind))
    return next(wrong, None)
