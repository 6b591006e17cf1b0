"""The account of images that could not be read: left out, counted, listed with their reasons, and not too many."""

import csv
import io
from pathlib import Path

from smoothap.files import write_atomically


class TooManyBadImages(ValueError):  # noqa: N818
    """More images of a set are unreadable than may be left out."""


class BadImages:
    """The unreadable images of one set of `total` images, each counted once.

    `report` is the CSV file (image, reason) that `write` leaves; a share above `limit` is an error that names it.
    """

    def __init__(self, set_name: str, total: int, report: Path | str, limit: float = 0.01) -> None:
        self.set_name, self.total, self.report, self.limit = set_name, total, Path(report), limit
        self.reasons: dict[str, str] = {}  # name -> reason, in the order of discovery
        self._written = 0

    def __len__(self) -> int:
        return len(self.reasons)

    @property
    def allowed(self) -> int:
        """How many images may be bad; never all of them."""
        return min(int(self.limit * self.total), self.total - 1)

    def add(self, name: str, reason: str) -> None:
        """Count one image as bad; raises `TooManyBadImages` when it is one too many, with the report written."""
        self.reasons.setdefault(str(name), reason)
        if len(self) > self.allowed:
            self.write()
            raise TooManyBadImages(
                f"{len(self):,} of the {self.total:,} images of {self.set_name} cannot be read, more than "
                f"{self.limit:.1%}; the first is {next(iter(self.reasons))} ({next(iter(self.reasons.values()))}). "
                f"{self.report} lists them: repair these files, or take them out of the set."
            )

    def write(self) -> None:
        """Write the report if there is anything new to say."""
        if len(self) == self._written:
            return
        table = io.StringIO()
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow(("image", "reason"))
        rows.writerows(self.reasons.items())
        write_atomically(self.report, table.getvalue().encode(errors="backslashreplace"))
        self._written = len(self)
