"""`smoothap learn`: an album learns from its collections, if that helps."""

from dataclasses import dataclass

from smoothap.learning.checking import TOLERATED_LOSS, Check, check, trainings
from smoothap.learning.lessons import Lessons
from smoothap.learning.training import STEPS, Start, between, train_projection
from smoothap.numerics.threads import one_thread
from smoothap.progress import Progress
from smoothap.search import Album
from smoothap.search.description import Learnt

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
    """Teach an album what its collections say, where cross-validation shows that this helps: `smoothap learn`.

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
        reason = (
            f"{_kept(album)} To learn, it wants at least {FEWEST_COLLECTIONS} collections of {FEWEST_PHOTOS} photos "
            f"or more, and it has {collections}: keep more things, and learn again."
        )
        return Learning(False, collections, marked, None, reason)
    with one_thread(), Progress("Learning", (1 + trainings(lessons)) * STEPS, "steps", shown=progress) as line:
        start = Start.of(vectors, lessons.rows)
        checked = check(vectors, lessons, start, line.advance)
        if not checked.is_clear or check_only:
            reason = _verdict(checked) if checked.is_clear else f"{_kept(album)} {_verdict(checked)}"
            return Learning(False, collections, marked, checked, reason)
        end = train_projection(vectors, lessons, start, line.advance)
    projection = between(start.projection(), end, checked.strength)
    gain = checked.taught
    album.learn(projection, Learnt(projection.dimension, collections, marked, tuple(gain)), checked.calibration)
    return Learning(True, collections, marked, checked, _verdict(checked))


def _kept(album: Album) -> str:
    return f"The album keeps {'what it learnt before' if album.learnt else 'its vectors as they are'}."


def _verdict(checked: Check) -> str:
    """What the cross-validation says, in sentences."""
    taught, untaught = checked.taught, checked.untaught
    figures = f"mAP {100 * checked.before:.1f} before and {100 * checked.after:.1f} after"
    gains, loses = (
        f"{100 * one.value:+.1f} ({100 * one.low:+.1f} to {100 * one.high:+.1f})" for one in (taught, untaught)
    )
    found = f"Photos that were left out find the others of their collection with {figures}: {gains}."
    if taught.low <= 0:
        return f"{found} That may be chance: keep more photos in each collection, or more collections."
    others = f"Collections that were left out: {loses}."
    if untaught.value < -TOLERATED_LOSS:
        return f"{found} {others} What it is not taught would suffer: keep more, and other, things."
    return f"{found} {others}"
