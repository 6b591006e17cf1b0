"""When a photo was taken: by its camera's clock, else by the name of its file, else by the file's own time."""

import re
import time
from calendar import timegm
from datetime import datetime, timedelta
from typing import NamedTuple

# A day in a file's name, and the time after it: IMG-20160319-WA0001, PXL_20210102_123456789, 2016-03-19 12.34.
_NAMED = re.compile(
    rb"(?<!\d)((?:19|20)\d\d)([-_.]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?:(?!\d)|(?=\d{6}))"
    rb"(?:[-_ .T]?(?:at |um )?([01]\d|2[0-3])[-_.:h]?([0-5]\d)(?:[-_.:m]?([0-5]\d))?)?"
)
_EPOCH = datetime(1970, 1, 1)
CAMERA, NAME, FILE = "camera", "name", "file"


class Dated(NamedTuple):
    """Seconds since 1970 by the clock on the wall, and what says so; None where nothing does."""

    seconds: int | None
    by: str | None

    @property
    def day(self) -> str | None:
        """The day, such as 2024-06-01."""
        return None if self.seconds is None else day_of(self.seconds)


def dated(taken: int | None, path: bytes, modified: int) -> Dated:
    """When a photo was taken, by what is known of it: what its camera said, its path, its file's time in nanoseconds.

    >>> dated(None, b"WhatsApp/IMG-20160319-WA0001.jpg", 0).day
    '2016-03-19'
    """
    if taken is not None:
        return Dated(taken, CAMERA)
    if (named := _in_name(path.rpartition(b"/")[2])) is not None:
        return Dated(named, NAME)
    if modified:
        try:
            return Dated(timegm(time.localtime(modified // 1_000_000_000)), FILE)
        except (OSError, OverflowError, ValueError):
            return Dated(None, None)
    return Dated(None, None)


def _in_name(name: bytes) -> int | None:
    for found in _NAMED.finditer(name):
        year, month, day, hour, minute, second = (int(part or 0) for part in found.group(1, 3, 4, 5, 6, 7))
        try:
            when = datetime(year, month, day, hour, minute, second)
        except ValueError:  # such as the 30th of February
            continue
        return timegm(when.timetuple())
    return None


def day_of(seconds: int) -> str:
    """The day of a time in seconds since 1970, such as 2024-06-01."""
    return (_EPOCH + timedelta(seconds=seconds)).date().isoformat()
