"""What a camera wrote into a photo: when it was taken and by which camera. Where it was taken is not read."""

import re
from contextlib import suppress
from datetime import datetime

from PIL import ExifTags, Image

_LONGEST = 100  # letters of a camera's name: it is a stranger's text
# When the light fell on the sensor; when it was scanned; when the file was last written by a camera that says no more.
_DATES = (ExifTags.Base.DateTimeOriginal, ExifTags.Base.DateTimeDigitized)


def orientation(exif: Image.Exif) -> int:
    """How the pixels have to be turned, 1 where they stand upright or nobody says."""
    value = exif.get(ExifTags.Base.Orientation)
    return value if value is not None and value in range(1, 9) else 1


def date_taken(exif: Image.Exif) -> datetime | None:
    """The camera's own clock when the photo was taken, without a time zone; None where there is no such date."""
    details = exif.get_ifd(ExifTags.IFD.Exif)
    for value in (*(details.get(tag) for tag in _DATES), exif.get(ExifTags.Base.DateTime)):
        with suppress(ValueError):  # such as 0000:00:00 00:00:00, of a camera whose clock was never set
            return datetime.strptime(str(value).strip(" \0")[:19], "%Y:%m:%d %H:%M:%S")
    return None


def camera_name(exif: Image.Exif) -> str:
    """Maker and model, such as "Apple iPhone 15 Pro"; the maker once where the model names it too; "" for neither."""
    maker, model = (_plain(exif.get(tag)) for tag in (ExifTags.Base.Make, ExifTags.Base.Model))
    if maker and model.lower().startswith(maker.split()[0].lower()):
        maker = ""
    return f"{maker} {model}".strip()[:_LONGEST].rstrip()


def _plain(value: object) -> str:
    """Text without letters that steer, which UTF-8 can spell."""
    text = value if isinstance(value, str) else ""
    text = text.encode(errors="replace").decode()
    return re.sub(r"[\x00-\x20\x7f-\x9f\s]+", " ", text).strip()
