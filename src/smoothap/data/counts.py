"""What a copy of a benchmark should hold: a warning where it differs from the paper, an error where it is partial."""

from typing import NamedTuple

from smoothap.data.image_set import ImageSet


class IncompleteSetError(ValueError):
    """A copy of a benchmark that lacks files; the message says what was found and what was expected."""


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
    found = Counts(len(images), images.classes)
    known = [paper] if release is None else [paper, release]
    partial = all(found.images < each.images or found.classes < each.classes for each in known)
    if partial and strict:
        raise IncompleteSetError(
            f"{images.name} is partial: found {found.in_words()}, expected {min(known).in_words()}. "
            "Download the rest, or open a part on purpose with folder:PATH or csv:PATH."
        )
    if found == paper:
        return []
    reason = " (the public release differs from the paper)" if found == release else ""
    return [f"{images.name}: found {found.in_words()}, the paper has {paper.in_words()}{reason}."]


def missing_files(what: str, missing: "list[str]", listed: int, remedy: str) -> IncompleteSetError:
    """The error for files that a list names and the disk does not have."""
    return IncompleteSetError(
        f"{what}: {len(missing):,} of {listed:,} listed files are missing, such as {missing[0][:200]}. {remedy}"
    )
