"""Photos that an album has twice."""

from smoothap.search.album import Album
from smoothap.search.pairs import Pair, groups_of, pairs_above
from smoothap.search.photos import Photo


def exact_copies(album: Album) -> list[list[Photo]]:
    """Groups of photos whose files are the same to the byte."""
    groups: dict[bytes, list[int]] = {}
    for row, digest in enumerate(album.photos.column("sha256").to_pylist()):
        if digest:
            groups.setdefault(digest, []).append(row)
    return [[album.photos[row] for row in rows] for rows in groups.values() if len(rows) > 1]


def near_copies(album: Album, score: float) -> list[list[Photo]]:
    """Groups of photos linked by scores at or above `score`; of exact copies only the first takes part."""
    if not -1 <= score <= 1:
        raise ValueError(f"A score is a cosine, from -1 to 1, such as 0.98, not {score}.")
    first: dict[bytes, int] = {}
    rows: list[int] = []
    for row, digest in enumerate(album.photos.column("sha256").to_pylist()):
        if not digest or first.setdefault(digest, row) == row:
            rows.append(row)
    vectors = album.vectors if len(rows) == len(album) else album.vectors[rows]
    pairs = [Pair(rows[one], rows[other], value) for one, other, value in pairs_above(vectors, score)]
    return [[album.photos[row] for row in group] for group in groups_of(pairs)]
