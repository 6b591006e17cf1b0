"""Query by example: a pile of photos as vectors on disk, and all that look like one of them."""

from smoothap.search.album import Album
from smoothap.search.calibration import Calibration
from smoothap.search.collections import Collection, Collections
from smoothap.search.filtering import Filter
from smoothap.search.photos import Hit, Hits, Photo, Photos
from smoothap.search.updating import UpdateReport

__all__ = [
    "Album",
    "Calibration",
    "Collection",
    "Collections",
    "Filter",
    "Hit",
    "Hits",
    "Photo",
    "Photos",
    "UpdateReport",
]
