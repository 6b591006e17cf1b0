"""`collections.json` in an album: the collections, and the last steps that made them, so that they can be undone.

The file is replaced atomically and carries a checksum of itself. It is in a folder of its own, whose lock is not the
album's: photos can be kept while the album is being indexed.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from smoothap._core.files import ChecksummedJson, DiskFullError, is_full, locked, sweep
from smoothap.album._members import Member

NAME = "collections.json"
STEPS_KEPT, MARKS_KEPT = 100, 200_000  # of what can be undone, the marks in all steps together
_PATIENCE = 30.0  # seconds that a writer waits for others, each of whom takes a moment
_KINDS = {"next": int, "collections": list, "steps": list}
_SEALED = ChecksummedJson(
    "the collections of an album",
    _KINDS,
    "Copy it again from where you have another copy, or move it away to begin with no collections.",
)

Mark = bool | None  # right, wrong, or neither


@dataclass
class StoredCollection:
    """A collection: `key` is its own for life, `marks` say whether photos are right, oldest first."""

    key: int
    name: str
    marks: dict[Member, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What a step did to one collection: its name before and after (None: there was none), and the marks of photos."""

    key: int
    name: tuple[str | None, str | None]
    marks: tuple[tuple[Member, Mark, Mark], ...] = ()  # photo, before, after


@dataclass(frozen=True)
class Step:
    """One thing that a user did, in words and in what it changed."""

    number: int
    what: str
    changes: tuple[Change, ...]


@dataclass
class CollectionFile:
    """All that the file holds; `next` numbers the next step or collection, and so changes with every write."""

    next: int = 1
    collections: list[StoredCollection] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def number(self) -> int:
        """A number that nothing has had before."""
        self.next += 1
        return self.next - 1

    def by_key(self, key: int) -> StoredCollection | None:
        """The collection with this key, if it is there."""
        return next((collection for collection in self.collections if collection.key == key), None)

    def by_name(self, name: str) -> StoredCollection | None:
        """The collection with this name, if it is there."""
        return next((collection for collection in self.collections if collection.name == name), None)


@contextmanager
def writing(folder: Path) -> Generator[None]:
    """Alone with the collections of an album; whoever comes meanwhile waits a little."""
    refusal = f"The collections in {folder} are being written by another process: try again in a moment."
    try:
        with locked(folder, refusal, patience=_PATIENCE):
            sweep(folder)
            yield
    except PermissionError as error:
        raise ValueError(
            f"The collections cannot be written to {folder} ({error.strerror}): nothing changed."
        ) from error
    except OSError as error:
        if isinstance(error, DiskFullError) or not is_full(error):
            raise
        raise DiskFullError(error.errno, f"The disk of {folder} is full, and nothing changed: make room.") from error


def stamp(folder: Path) -> str:
    """What changes whenever the file is replaced."""
    try:
        status = (folder / NAME).stat()
    except FileNotFoundError:
        return "none"
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def read(folder: Path) -> CollectionFile:
    """The collections of an album; none where nobody has made any."""
    file = folder / NAME
    if not file.exists():
        return CollectionFile()
    values = _SEALED.read(file)
    try:
        collections = [
            StoredCollection(int(one["key"]), str(one["name"]), {_member(mark): bool(mark[3]) for mark in one["marks"]})
            for one in values["collections"]
        ]
        steps = [Step(int(one["number"]), str(one["what"]), changes_of(one["changes"])) for one in values["steps"]]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:  # a checksum alone proves nothing
        raise ValueError(f"{file} does not describe collections: move it away to begin with none.") from error
    return CollectionFile(values["next"], collections, steps)


def kept_steps(steps: list[Step]) -> list[Step]:
    """The last of some steps, as many as can be undone."""
    steps = steps[-STEPS_KEPT:]
    while len(steps) > 1 and sum(len(change.marks) for step in steps for change in step.changes) > MARKS_KEPT:
        steps = steps[1:]
    return steps


def apply_change(content: CollectionFile, change: Change) -> None:
    """Do to the collections what a step did to one of them."""
    name = change.name[1]
    stored = content.by_key(change.key)
    if stored is None:
        if name is None:  # another has deleted it meanwhile
            return
        stored = StoredCollection(change.key, name)
        content.collections.append(stored)
    for member, _, after in change.marks:
        stored.marks.pop(member, None)
        if after is not None:
            stored.marks[member] = after
    if name is None:
        content.collections.remove(stored)
    else:
        stored.name = name


def write(folder: Path, content: CollectionFile) -> None:
    """Make these the collections, from one moment to the next."""
    steps = kept_steps(content.steps)
    _SEALED.write(
        folder / NAME,
        {
            "next": content.next,
            "collections": [
                {"key": one.key, "name": one.name, "marks": [[*member, right] for member, right in one.marks.items()]}
                for one in content.collections
            ],
            "steps": [
                {"number": step.number, "what": step.what, "changes": [plain_change(change) for change in step.changes]}
                for step in steps
            ],
        },
    )


def plain_change(change: Change) -> dict[str, Any]:
    """A change as plain values, fit for json."""
    marks = [[*member, before, after] for member, before, after in change.marks]
    return {"key": change.key, "name": list(change.name), "marks": marks}


def _member(values: list[Any]) -> Member:
    identity, path, sha256 = values[:3]
    bytes.fromhex(sha256)  # which it has to be
    return Member(int(identity), str(path), str(sha256))


def changes_of(values: list[dict[str, Any]]) -> tuple[Change, ...]:
    """What `plain_change` made plain."""
    return tuple(
        Change(
            int(one["key"]),
            (one["name"][0], one["name"][1]),
            tuple((_member(mark), mark[3], mark[4]) for mark in one["marks"]),
        )
        for one in values
    )


class Kept(Protocol):
    """Where the collections of an album are kept."""

    folder: Path | None  # None: not in a folder

    def stamp(self) -> str:
        """What changes whenever a collection does."""
        ...

    def exists(self) -> bool:
        """Whether anything was ever kept."""
        ...

    def read(self) -> CollectionFile:
        """All collections, and the last steps."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """While this lasts, what is read here is what will be changed."""
        ...

    def write(self, content: CollectionFile) -> None:
        """Make these the collections."""
        ...


class KeptFolder:
    """The collections in the folder of an album."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path | None = folder
        self._folder = folder

    def stamp(self) -> str:
        """What changes whenever the file is replaced."""
        return stamp(self._folder)

    def exists(self) -> bool:
        """Whether there is a file."""
        return (self._folder / NAME).exists()

    def read(self) -> CollectionFile:
        """What the file holds."""
        return read(self._folder)

    def writing(self) -> AbstractContextManager[None]:
        """Alone with the file, among all processes."""
        return writing(self._folder)

    def write(self, content: CollectionFile) -> None:
        """Replace the file."""
        write(self._folder, content)
