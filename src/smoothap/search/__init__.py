"""Query by example: a pile of photos as vectors on disk, and all that look like one of them."""

from smoothap.search.album import Album
from smoothap.search.calibration import Calibration
from smoothap.search.collections import Collection, Collections
from smoothap.search.description import Learnt
from smoothap.search.filtering import Filter
from smoothap.search.photos import Hit, Hits, Photo, Photos
from smoothap.search.projection import Projection
from smoothap.search.updating import UpdateReport

__all__ = [
    "Album", "Calibration", "Collection", "Collections", "Filter", "Hit", "Hits", "Learnt", "Photo", "Photos",
    "Projection", "UpdateReport",
]  # fmt: skip
