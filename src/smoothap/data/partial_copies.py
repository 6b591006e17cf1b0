"""Partial copies of a benchmark: refused for real results, and taken as they are for a dry run."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class Lacking:
    """What the sets that were opened lack, in whole sentences, and how many images a whole part of them has."""

    sentences: list[str] = field(default_factory=list)
    whole: dict[str, int] = field(default_factory=dict)  # by the name of the part, such as "sop train"


_lacking: ContextVar[Lacking | None] = ContextVar("lacking", default=None)


@contextmanager
def partial_copies_taken() -> Generator[Lacking]:
    """Open what is there of a set, here and now; what it lacks is noted instead of refused.

    This is no option of the functions that open a set, because a recipe may open its own in any way.
    """
    lacking = Lacking()
    before = _lacking.set(lacking)
    try:
        yield lacking
    finally:
        _lacking.reset(before)


def refuse_partial(refusal: ValueError, part: str = "", whole: int = 0) -> None:
    """Raise the error, unless partial copies are taken; then note what it says, and the size of the whole part."""
    lacking = _lacking.get()
    if lacking is None:
        raise refusal
    lacking.sentences.append(str(refusal))
    if part:
        lacking.whole[part] = whole
