"""Collections: named groups of an album's photos, with marks of what belongs and what does not, kept in its folder.

Every call reads the collections as they are on disk, changes what it was asked to change and nothing else, and writes
them back before anybody else does: two processes or two browsers that write at once lose nothing.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from smoothap.album._collection_file import Change, CollectionFile, Kept, Mark, Step, StoredCollection, apply_change
from smoothap.album._members import Lookup, Member, members_of
from smoothap.album.photos import Photos

LONGEST_NAME = 200  # characters


@dataclass(frozen=True)
class Collection:
    """A named group: ids of photos that belong to it and of photos marked as not belonging, oldest mark first.

    Ids are those of the album as it is now. `away` are the paths of photos that belong to it and are not in the album
    any more: they come back with their file. `key` stays when the name changes.
    """

    name: str
    right: tuple[int, ...]
    wrong: tuple[int, ...]
    away: tuple[str, ...] = ()
    key: int = 0


class NoSuchCollection(KeyError, ValueError):  # noqa: N818
    """A name or a key that no collection of the album has."""

    def __str__(self) -> str:
        return str(self.args[0])


class Collections:
    """The collections of one album; `photos` are its photos as they are now.

    A collection is given by its name, or by its key, which is a number. What makes or changes one returns it as it is
    then.
    """

    def __init__(self, kept: Kept, photos: Photos) -> None:
        self._kept, self.photos = kept, photos

    @property
    def folder(self) -> Path:
        """Where they are kept, if that is a folder."""
        if self._kept.folder is None:
            raise ValueError("These collections are not kept in a folder.")
        return self._kept.folder

    @property
    def version(self) -> str:
        """Changes with any collection; known without reading them."""
        return self._kept.stamp()

    def all(self) -> dict[str, Collection]:
        """All collections by name, oldest first."""
        stored = self._kept.read().collections
        lookup = self._lookup(*stored)
        return {one.name: _seen(one, lookup) for one in stored}

    def __getitem__(self, which: str | int) -> Collection:
        stored = _existing(self._kept.read(), which)
        return _seen(stored, self._lookup(stored))

    def create(self, name: str) -> Collection:
        """Make a new, empty collection."""
        name = checked_name(name)

        def change(content: CollectionFile) -> tuple[str, list[Change]]:
            if content.by_name(name) is not None:
                raise ValueError(f"There is a collection {name!r} already: choose another name.")
            return f"made {name}", [_created(content, name)]

        return self._do(change, name)

    def add(self, which: str | int, ids: Iterable[int]) -> Collection:
        """Keep photos in a collection, which is made if there is none of this name."""
        return self.mark(which, right=ids)

    def remove(self, which: str | int, ids: Iterable[int]) -> Collection:
        """Take photos out of a collection, and forget that they were marked as not belonging, if they were."""
        self[which]  # a name that is misspelt is no new collection
        return self.mark(which, neither=ids)

    def mark(
        self, which: str | int, right: Iterable[int] = (), wrong: Iterable[int] = (), neither: Iterable[int] = ()
    ) -> Collection:
        """Say of photos that they belong to a collection, that they do not, or that neither is known."""
        marks: dict[int, Mark] = {}
        for ids, mark in ((right, True), (wrong, False), (neither, None)):
            for identity in ids:
                if marks.setdefault(int(identity), mark) is not mark:
                    raise ValueError(f"Photo {identity} is marked in two ways at once: give it once.")
        asked = dict(zip(members_of(self.photos, marks), marks.values(), strict=True))
        which = checked_name(which) if isinstance(which, str) else which

        def change(content: CollectionFile) -> tuple[str, list[Change]]:
            stored = content.by_name(which) if isinstance(which, str) else content.by_key(which)
            changes = []
            if stored is None:
                changes.append(_created(content, _new_name(which)))
                stored = StoredCollection(changes[0].key, _new_name(which))
            changes += self._marking(stored, asked)
            return _said(stored.name, [mark for one in changes for mark in one.marks]), changes

        return self._do(change, which)

    def put(self, groups: Sequence[tuple[str, Iterable[int], Iterable[int]]], what: str) -> None:
        """Add to several collections at once, each a name with its right and its wrong ids: one step to undo."""
        asked: dict[str, dict[Member, Mark]] = {}
        for name, *ids in groups:
            right, wrong = (members_of(self.photos, some) for some in ids)
            asked.setdefault(checked_name(name), {}).update(dict.fromkeys(wrong, False) | dict.fromkeys(right, True))

        def change(content: CollectionFile) -> tuple[str, list[Change]]:
            changes: list[Change] = []
            for name, marks in asked.items():
                stored = content.by_name(name)
                if stored is None:
                    changes.append(_created(content, name))
                    stored = StoredCollection(changes[-1].key, name)
                changes += self._marking(stored, marks)
            return what, changes

        self._do(change, None)

    def rename(self, which: str | int, name: str) -> Collection:
        """Give a collection another name."""
        name = checked_name(name)

        def change(content: CollectionFile) -> tuple[str, list[Change]]:
            stored, other = _existing(content, which), content.by_name(name)
            if other is not None and other is not stored:
                raise ValueError(f"There is a collection {name!r} already: choose another name, or delete that one.")
            return f"renamed {stored.name} to {name}", [Change(stored.key, (stored.name, name))]

        return self._do(change, name)

    def delete(self, which: str | int) -> None:
        """Forget a collection and its marks; the photos stay where they are, and `undo` brings it back."""

        def change(content: CollectionFile) -> tuple[str, list[Change]]:
            stored = _existing(content, which)
            marks = tuple((member, right, None) for member, right in stored.marks.items())
            return f"deleted {stored.name}", [Change(stored.key, (stored.name, None), marks)]

        self._do(change, None)

    def steps(self) -> list[Step]:
        """What can be undone, newest first, each with its number and what it did in words."""
        return self._kept.read().steps[::-1]

    def undo(self, number: int | None = None) -> str:
        """Take back the last step, or the one with this number, whoever made it; says what it was.

        What was marked otherwise since then stays so.
        """
        with self._kept.writing():
            content = self._kept.read()
            step = next((one for one in reversed(content.steps) if number in (None, one.number)), None)
            if step is None:
                raise ValueError(
                    "There is nothing to undo." if number is None else f"Step {number} cannot be undone any more."
                )
            content.steps.remove(step)
            for change in reversed(step.changes):
                self._take_back(content, change)
            content.number()
            self._kept.write(content)
        return step.what

    def refresh(self) -> None:
        """Remember the photos as they are now: one that was moved is then known also when it is edited later."""
        if not self._kept.exists():
            return
        with self._kept.writing():
            content = self._kept.read()
            lookup, changed = self._lookup(*content.collections), False
            for stored in content.collections:
                now = lookup.found(list(stored.marks))
                marks = {new or old: mark for (old, mark), new in zip(stored.marks.items(), now, strict=True)}
                changed, stored.marks = changed or marks != stored.marks, marks
            if changed:
                content.number()
                self._kept.write(content)

    def _lookup(self, *stored: StoredCollection) -> Lookup:
        return Lookup([member for one in stored for member in one.marks], self.photos)

    def _do(self, change: Callable[[CollectionFile], tuple[str, list[Change]]], which: str | int | None) -> Collection:
        """Make changes, as one step; `which` is the collection to answer with."""
        with self._kept.writing():
            content = self._kept.read()
            what, changes = change(content)
            changes = [one for one in changes if one.marks or one.name[0] != one.name[1]]
            if changes:
                for one in changes:
                    apply_change(content, one)
                content.steps.append(Step(content.number(), what, tuple(changes)))
                self._kept.write(content)
        if which is None:
            return Collection("", (), ())
        stored = _existing(content, which)
        return _seen(stored, self._lookup(stored))

    def _marking(self, stored: StoredCollection, asked: dict[Member, Mark]) -> list[Change]:
        """What marking photos of the album changes in a collection; those that are so already are left out."""
        now = self._lookup(stored).found(list(stored.marks))
        known = {new.id: mark for new, mark in zip(now, stored.marks.items(), strict=True) if new is not None}
        marks: list[tuple[Member, Mark, Mark]] = []
        for member, mark in asked.items():
            old, before = known.get(member.id, (member, None))
            if before is not mark:
                marks.append((old, before, mark))
        return [Change(stored.key, (stored.name, stored.name), tuple(marks))]

    def _take_back(self, content: CollectionFile, change: Change) -> None:
        before, after = change.name
        stored = content.by_key(change.key)
        if stored is None:
            if before is None or after is not None:  # deleted since then, by a step of its own
                return
            stored = StoredCollection(change.key, _free_name(content, before))
            content.collections.append(stored)
        # The photos of a step may be remembered by other paths since.
        members, photos = list(stored.marks), [member for member, _, _ in change.marks]
        lookup = Lookup([*members, *photos], self.photos)
        ids = {new.id: old for new, old in zip(lookup.found(members), members, strict=True) if new is not None}
        for photo, now, (_, earlier, later) in zip(photos, lookup.found(photos), change.marks, strict=True):
            member = photo if photo in stored.marks or now is None else ids.get(now.id, photo)
            if stored.marks.get(member) is later:
                stored.marks.pop(member, None)
                if earlier is not None:
                    stored.marks[member] = earlier
        if before is None:
            if not stored.marks:
                content.collections.remove(stored)
        elif after is not None and before != after and stored.name == after:
            stored.name = _free_name(content, before)


def _seen(stored: StoredCollection, lookup: Lookup) -> Collection:
    marks = list(zip(stored.marks.items(), lookup.found(list(stored.marks)), strict=True))
    right, wrong = (
        tuple(now.id for (_, mark), now in marks if now is not None and mark is wanted) for wanted in (True, False)
    )
    away = tuple(member.path for (member, mark), now in marks if now is None and mark)
    return Collection(stored.name, right, wrong, away, stored.key)


def checked_name(name: str) -> str:
    """The name of a collection, if it can be one."""
    name = unicodedata.normalize("NFC", name.strip())
    if not name or len(name) > LONGEST_NAME:
        raise ValueError(f"The name of a collection has 1 to {LONGEST_NAME} characters, not {len(name):,}.")
    if not name.isprintable():  # control characters, line breaks, halves of a character
        raise ValueError(f"{name!r} has characters that cannot be seen: name the collection without them.")
    return name


def _new_name(which: str | int) -> str:
    """The name for a collection that is made because photos are put into it."""
    if isinstance(which, int):
        raise NoSuchCollection(f"There is no collection {which} any more: it was deleted.")
    return which


def _existing(content: CollectionFile, which: str | int) -> StoredCollection:
    if isinstance(which, int):
        stored = content.by_key(which)
    else:
        stored = content.by_name(unicodedata.normalize("NFC", which.strip()))
    if stored is None:
        names, number = ", ".join(repr(one.name) for one in content.collections[:5]), len(content.collections)
        verb, others = "is" if number == 1 else "are", " and others" if number > 5 else ""
        there = f"there {verb} {names}{others}" if names else "there are none"
        raise NoSuchCollection(f"The album has no collection {which!r}: {there}.")
    return stored


def _created(content: CollectionFile, name: str) -> Change:
    return Change(content.number(), (None, name))


def _free_name(content: CollectionFile, name: str) -> str:
    """The name, or one like it where another collection has taken it meanwhile."""
    number, free = 1, name
    while content.by_name(free) is not None:
        number += 1
        free = f"{name} ({number})"
    return free


def _said(name: str, marks: list[tuple[Member, Mark, Mark]]) -> str:
    """What marking did, in words."""
    kinds = {True: "kept {} in", False: "marked {} as not in", None: "took {} out of"}
    counts = {kind: sum(after is kind for _, _, after in marks) for kind in kinds}
    parts = [
        f"{words.format(f'{counts[kind]:,} photo' + 's' * (counts[kind] != 1))} {name}"
        for kind, words in kinds.items()
        if counts[kind]
    ]
    return ", ".join(parts) or f"made {name}"
