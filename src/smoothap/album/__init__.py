"""Query by example: a pile of photos as vectors on disk, and all that look like one of them."""

from smoothap.album._learning_check import Check
from smoothap.album.album import Album
from smoothap.album.calibration import Calibration
from smoothap.album.collections import Collection, Collections
from smoothap.album.filters import Filter
from smoothap.album.ingest import Indexed, embed_shard, index_photos
from smoothap.album.learning import Learning, learn
from smoothap.album.people import Group, People, Question
from smoothap.album.photos import Hit, Hits, Photo, Photos
from smoothap.album.projection import Learnt, Projection
from smoothap.album.settings import album_place
from smoothap.album.update import UpdateReport

__all__ = [
    "Album", "Calibration", "Check", "Collection", "Collections", "Filter", "Group", "Hit", "Hits", "Indexed",
    "Learning", "Learnt", "People", "Photo", "Photos", "Projection", "Question", "UpdateReport", "album_place",
    "embed_shard", "index_photos", "learn",
]  # fmt: skip
