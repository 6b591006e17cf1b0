"""`smoothap album learn`: an album learns from its collections, if that helps."""

from dataclasses import dataclass

import numpy as np

from smoothap._core.progress import Progress
from smoothap._core.threads import one_thread
from smoothap.album._learn_training import STEPS, Lessons, principal_components, train_projection
from smoothap.album._learning_check import LEAST_GAIN, Check, check, trainings
from smoothap.album.album import Album
from smoothap.album.projection import Learnt, Projection

LEARNING = "Learning"  # as its progress is called
FEWEST_COLLECTIONS, FEWEST_PHOTOS = 5, 4  # of a collection, half of which are left out in turn


@dataclass(frozen=True)
class Learning:
    """What came of it: `learnt` says whether the album searches in new vectors now; `check` is None without one.

    `collections` and `photos` are how many collections have photos enough, and how many photos these have.
    """

    learnt: bool
    collections: int
    photos: int
    check: Check | None
    reason: str  # a sentence


def learn(album: Album, *, check_only: bool = False, progress: bool = True) -> Learning:
    """Teach an album what its collections say, where cross-validation shows that this helps: `smoothap album learn`.

        album = Album.open("album")
        print(learn(album).reason)
        album.unlearn()  # takes it back

    The model's own vectors stay in the album, and every learning begins with them. No photo is read. With `check_only`
    nothing is written.
    """
    photos, vectors = album.model_vectors()
    lessons = Lessons.of(album.collections.all(), photos)
    enough = lessons.sizes >= FEWEST_PHOTOS
    collections, marked = int(enough.sum()), int(lessons.member[:, enough].any(axis=1).sum())
    if collections < FEWEST_COLLECTIONS:
        return Learning(False, collections, marked, None, f"{_kept(album)} {too_few(collections)}")
    steps = (1 + trainings(lessons)) * STEPS
    with one_thread(), Progress(LEARNING, steps, "steps", shown=progress) as line:
        start, unmarked = principal_components(vectors), np.setdiff1d(np.arange(len(vectors)), lessons.rows)
        checked = check(vectors, lessons, start, unmarked, line.advance)
        if not checked.is_clear or check_only:
            reason = _verdict(checked) if checked.is_clear else f"{_kept(album)} {_next_step(checked, album)}"
            return Learning(False, collections, marked, checked, reason)
        end = train_projection(vectors, lessons, start, unmarked, line.advance)
    share = checked.strength  # of the way from the start
    projection = Projection(
        ((1 - share) * start.weight + share * end.weight).astype(np.float32), (share * end.bias).astype(np.float32)
    )
    learnt = Learnt(projection.dimension, collections, marked, tuple(checked.taught))
    album.learn(projection, learnt, checked.calibration)
    return Learning(True, collections, marked, checked, _verdict(checked))


def collections_enough(album: Album) -> int:
    """How many collections of an album have photos enough to be learnt from."""
    return sum(len(one.right) >= FEWEST_PHOTOS for one in album.collections.all().values())


def too_few(collections: int) -> str:
    """What to say of an album that has that many collections, and not enough."""
    return (
        f"To learn, it wants at least {FEWEST_COLLECTIONS} collections of {FEWEST_PHOTOS} photos or more, and it has "
        f"{collections}: mark four photos or more of other things, and learn again."
    )


def _kept(album: Album) -> str:
    return f"The album goes on searching {'with what it learnt before' if album.learnt else 'as before'}."


def _next_step(checked: Check, album: Album) -> str:
    """Why it was refused, and what to do next."""
    by_size = sorted(album.collections.all().values(), key=lambda one: len(one.right))
    more = f"Mark about ten more photos of {' and of '.join(f'“{one.name}”' for one in by_size[:2])}, and learn again."
    if checked.taught.low <= 0:
        return f"With these marks it cannot be told yet whether learning helps. {more}"
    if checked.taught.value < LEAST_GAIN:
        return f"With these marks learning would help too little. {more}"
    return (
        "Things that are in no collection would be found less well. Mark ten photos each of a few more things, and "
        "learn again."
    )


def _verdict(checked: Check) -> str:
    """What the cross-validation says of a learning that helps."""
    figures = f"mAP {100 * checked.before:.1f} before and {100 * checked.after:.1f} after"
    gains, loses = (
        f"{100 * one.value:+.1f} ({100 * one.low:+.1f} to {100 * one.high:+.1f})"
        for one in (checked.taught, checked.untaught)
    )
    found = f"Photos that were left out find the others of their collection with {figures}: {gains}."
    return f"{found} Collections that were left out: {loses}."
