"""What a copy of a benchmark should hold: a warning where it differs from the paper, an error where it is partial."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet


class Counts(NamedTuple):
    """How many images and classes a split has."""

    images: int
    classes: int

    def in_words(self) -> str:
        """Such as "12,067 images of 1,763 classes"."""
        return f"{self.images:,} images of {self.classes:,} classes"


def compare_counts(images: ImageSet, paper: Counts, release: Counts | None = None, strict: bool = True) -> list[str]:
    """Warnings where a split differs from the paper; an error where it holds less than the paper and the release do.

    `release` is the public release where it is known to differ from the paper. A split that varies by protocol is
    compared with strict=False, which only warns.
    """
    counts = Counts(len(images), images.classes)
    known = [paper] if release is None else [paper, release]
    partial = all(counts.images < expected.images or counts.classes < expected.classes for expected in known)
    if partial and strict:
        refusal = ValueError(
            f"{images.name} is partial: found {counts.in_words()}, expected {min(known).in_words()}. "
            "Download the rest, or open a part on purpose with folder:PATH or csv:PATH."
        )
        refuse_partial(refusal, images.name, min(known).images)
        return []
    if counts == paper:
        return []
    reason = " (the public release differs from the paper)" if counts == release else ""
    return [f"{images.name}: found {counts.in_words()}, the paper has {paper.in_words()}{reason}."]


def published_split(
    name: str, parts: dict[str, ImageSet], paper: Mapping[str, Counts], release: Mapping[str, Counts] | None = None
) -> Benchmark:
    """The benchmark of a published split, its part called "train" and the others to test on, with its counts compared.

    `paper` and `release` are those of `compare_counts` for each part.
    """
    releases = release or {}
    warnings = [
        warning for part, images in parts.items() for warning in compare_counts(images, paper[part], releases.get(part))
    ]
    tests = {part: images for part, images in parts.items() if part != "train"}
    return Benchmark(name, parts["train"], tests, warnings=tuple(warnings))


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
