"""What a copy of a benchmark should hold: a warning where it differs from the paper, an error where it is partial."""

from collections.abc import Generator
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


PAPER = {
    "sop train": Counts(59_551, 11_318),
    "sop test": Counts(60_502, 11_316),
    "vehicle-id train": Counts(110_178, 13_134),
    "vehicle-id small": Counts(7_332, 800),
    "vehicle-id medium": Counts(12_995, 1_600),
    "vehicle-id large": Counts(20_038, 2_400),
    "inaturalist train": Counts(325_846, 5_690),
    "inaturalist test": Counts(136_093, 2_452),
    "vggface2 train": Counts(3_310_000, 8_631),
    "vggface2 test": Counts(169_396, 500),
    "ijbc test": Counts(148_824, 3_531),
    "cub train": Counts(5_864, 100),  # as all papers have it, like the others below
    "cub test": Counts(5_924, 100),
    "cars train": Counts(8_054, 98),
    "cars test": Counts(8_131, 98),
    "in-shop train": Counts(25_882, 3_997),
    "in-shop test": Counts(26_830, 3_985),  # 14,218 queries, 12,612 in the gallery
}
RELEASE = {"vehicle-id train": Counts(113_346, 13_164), "vggface2 train": Counts(3_141_890, 8_631)}


def compare_counts(images: ImageSet, paper: Counts | None = None, *, strict: bool = True) -> list[str]:
    """Warnings where a split differs from the paper; an error where it holds less than the paper and the release do.

    By default the counts are those that the tables above have for its name. A split that varies by protocol is compared
    with strict=False, which only warns.
    """
    paper, release = paper or PAPER[images.name], RELEASE.get(images.name)
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


def published_split(name: str, parts: dict[str, ImageSet]) -> Benchmark:
    """The benchmark of a published split: its part "train" and the others to test on, with its counts compared."""
    warnings = tuple(warning for images in parts.values() for warning in compare_counts(images))
    tests = {part: images for part, images in parts.items() if part != "train"}
    return Benchmark(name, parts["train"], tests, warnings)


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
