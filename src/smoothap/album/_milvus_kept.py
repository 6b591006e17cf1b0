"""Collections that are kept in Milvus: a log of what was done, which any number of servers write to at once.

Milvus has no lock and no transaction, so nothing is ever replaced: each change is an entry of its own, with what it did
to which collection. Whoever reads puts them together in their order. Two servers that change the same collection at
the same moment both keep what they did; of two new collections of one name, the later gets a number behind it.

Once there are many entries that are older than any that can still come, a server writes a summary of them: an entry
that begins from nothing, and is where the last of them stood. When all of its rows are there, it deletes what is
summed up. Killed at any moment, or two at once: whoever reads finds the entries, or their summary, or both.
"""

from __future__ import annotations

import base64
import json
import random
import threading
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from smoothap.album._collection_file import (
    Change,
    CollectionFile,
    Step,
    StoredCollection,
    apply_change,
    changes_of,
    kept_steps,
    plain_change,
)
from smoothap.album._milvus_layout import MOST_ROWS, OWN, create_texts, text_row

if TYPE_CHECKING:
    from smoothap.album.milvus_server import MilvusServer

_SINCE = 1_767_225_600  # the first of 2026: microseconds since then have room in a number of a browser, 2^53
_LONGEST = 64_000  # characters of a row
_LATE = 600_000_000  # microseconds by which an entry may come after others with higher numbers
_SUMMED_UP_FROM = 1_000  # entries
_SUMMARY = 3 << 61  # the least id of a row of a summary
_MOST_IN_SUMMARY = 1 << 11  # rows
_DELETED_AT_ONCE = 1_000  # rows
_POLL = 1.0  # seconds: many pages ask whether anything has changed, and one question serves them
_logs: dict[tuple[str, str], _Log] = {}
_making = threading.Lock()


class MilvusKept:
    """The collections of an album in Milvus, as `KeptFolder` has those of a folder."""

    folder = None

    def __init__(self, server: MilvusServer, album: str) -> None:
        self._server, self._album, self._name = server, album, f"{album}_smoothap_kept"
        with _making:
            self._log = _logs.setdefault((server.address.server, self._name), _Log())

    def stamp(self) -> str:
        """What changes whenever anybody changes a collection, in this process at once and elsewhere after a second."""
        if time.monotonic() >= self._log.checked + _POLL:
            self._catch_up()
        return self._log.stamp()

    def exists(self) -> bool:
        """Whether anything was ever kept."""
        return bool(self._log.entries) or self._server.has(self._name)

    def read(self) -> CollectionFile:
        """The collections, as all that was done until now makes them."""
        self._catch_up()
        with self._log.lock:
            content = _content(self._log.in_order())
        content.next = max(content.next, _now())  # a number that no other server gives at this moment
        self._log.seen.content = deepcopy(content)
        return content

    @contextmanager
    def writing(self) -> Generator[None]:
        """Alone among the threads of this process; other processes write at the same time, and nothing is lost."""
        with self._log.writing:
            yield

    def write(self, content: CollectionFile) -> None:
        """Add to the log what differs from the collections as this thread read them last."""
        entry = _entry(self._log.seen.content, content)
        if not self._log.entries:
            create_texts(self._server, self._name)
        newest = self._log.newest
        while True:  # again only if this process slept meanwhile: others may have summed up without the entry
            number = max(_now(), (newest >> 10) + 1) << 10 | random.getrandbits(10)
            first, *others = _packed(entry)
            rows = [text_row(number, first, number=number)]
            rows += [text_row(random.getrandbits(61) | 1 << 62, text, number=number) for text in others]
            self._server.ask("upsert", self._name, rows)
            self._catch_up()
            newest = self._log.newest
            if newest - number <= _LATE << 10:
                break
        with suppress(ValueError):  # what was to be written is written: the next one tries it again
            self._sum_up()

    def _sum_up(self) -> None:
        """Put the entries that are older than any that can still come into one, if they are many."""
        log = self._log
        with log.lock:
            if len(log.older(2 * _LATE)) < _SUMMED_UP_FROM:
                return
            log.take_in(self._rows(where=f"id >= {_SUMMARY}"))  # another server may have done it
            old = log.older(2 * _LATE)
            if len(old) < _SUMMED_UP_FROM:
                return
            number = old[-1] + 1
            while number in log.entries:  # from the same microsecond
                old, number = [*old, number], number + 1
            content = _content([log.entries[each] for each in old])
        texts = _packed(_entry(CollectionFile(), content) | {"summary": True})
        if len(texts) > _MOST_IN_SUMMARY:
            return
        first = _SUMMARY + _now() * _MOST_IN_SUMMARY
        rows = [text_row(first + place, text, number=number) for place, text in enumerate(texts)]
        for row in rows:
            self._server.ask("upsert", self._name, [row])
        gone = [row["id"] for row in self._rows(end=number)]
        for start in range(0, len(gone), _DELETED_AT_ONCE):
            self._server.ask("delete", self._name, ids=gone[start : start + _DELETED_AT_ONCE])
        with log.lock:
            log.take_in(rows)

    def _catch_up(self) -> None:
        """Read what was added to the log since the last time, and a while before that: some come late."""
        log = self._log
        with log.lock:
            if not log.entries and not self._server.has(self._name):
                return
            log.take_in(self._rows(max(0, (log.newest >> 10) - _LATE) << 10))
            log.checked = time.monotonic()

    def _rows(self, first: int = 0, end: int = 1 << 62, where: str = "id > 0") -> list[dict[str, Any]]:
        """All rows of the entries from a number on and before another, in the order of numbers where they are many.

        So what a summary stands for is read before the summary: deleted in between, it is in the one or the other.
        """
        rows: list[dict[str, Any]] = self._server.ask(
            "query", self._name, filter=f"{OWN} >= {first} and {OWN} < {end} and {where}", limit=MOST_ROWS,
            output_fields=["id", OWN, "text"], consistency_level="Strong",
        )  # fmt: skip
        if len(rows) < MOST_ROWS or end - first <= 1:
            return rows
        middle = max(first + 1, sorted(row[OWN] for row in rows)[len(rows) // 2])
        return self._rows(first, middle, where) + self._rows(middle, end, where)


class _Log:
    """What this process has read of a log by now: no more than a copy, which others need not wait for."""

    def __init__(self) -> None:
        self.entries: dict[int, dict[str, Any]] = {}  # by their numbers, from the newest summary on
        self.newest = 0
        self.checked = -_POLL  # when the log was last read, by the clock of this process
        self.lock, self.writing = threading.RLock(), threading.RLock()
        self.seen = threading.local()

    def take_in(self, rows: list[dict[str, Any]]) -> None:
        """Add the entries that are whole; one whose rows are not all there yet comes the next time."""
        self.entries |= _whole_entries([row for row in rows if row[OWN] not in self.entries])
        begins = max((number for number, entry in self.entries.items() if "summary" in entry), default=0)
        self.entries = {number: entry for number, entry in self.entries.items() if number >= begins}
        self.newest = max(self.entries, default=0)

    def in_order(self) -> list[dict[str, Any]]:
        return [self.entries[number] for number in sorted(self.entries)]

    def older(self, age: int) -> list[int]:
        """The numbers of the entries by that many microseconds older than the newest, in order."""
        return sorted(number for number in self.entries if number >> 10 < (self.newest >> 10) - age)

    def stamp(self) -> str:
        """What is the same for all who have read the same, whether they know it by a summary or not."""
        return f"{len(self.entries) - len(self.older(_LATE)):x}-{self.newest:x}"


def _whole_entries(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The entries of a log that rows hold, by their numbers; not those of which a row is missing."""
    texts: dict[tuple[int, int], dict[int, str]] = {}
    lengths: dict[tuple[int, int], int] = {}
    for row in rows:
        which = row[OWN], row["id"] // _MOST_IN_SUMMARY if row["id"] >= _SUMMARY else 0  # two may sum up the same
        place, length, text = row["text"].split("/", 2)
        texts.setdefault(which, {})[int(place)] = text
        lengths[which] = int(length)
    return {
        which[0]: json.loads(zlib.decompress(base64.b64decode("".join(parts[place] for place in range(len(parts))))))
        for which, parts in texts.items()
        if len(parts) == lengths[which]
    }


def _packed(entry: dict[str, Any]) -> list[str]:
    """The texts of the rows of an entry."""
    packed = base64.b64encode(zlib.compress(json.dumps(entry).encode())).decode()
    texts = [packed[start : start + _LONGEST] for start in range(0, len(packed), _LONGEST)]
    return [f"{place}/{len(texts)}/{text}" for place, text in enumerate(texts)]


def _now() -> int:
    return int((time.time() - _SINCE) * 1_000_000)


def _content(entries: list[dict[str, Any]]) -> CollectionFile:
    """The collections that all entries make, in their order."""
    content = CollectionFile()
    for entry in entries:
        for change in changes_of(entry["changes"]):
            apply_change(content, _without_clash(content, change))
        gone = {*entry["removed"], *(one["number"] for one in entry["added"])}  # an entry may be there twice
        content.steps = [step for step in content.steps if step.number not in gone]
        content.steps += [Step(one["number"], one["what"], changes_of(one["changes"])) for one in entry["added"]]
        content.steps.sort(key=lambda step: step.number)
        content.steps = kept_steps(content.steps)
    numbers = [step.number for step in content.steps] + [stored.key for stored in content.collections]
    content.next = max(numbers, default=0) + 1
    return content


def _without_clash(content: CollectionFile, change: Change) -> Change:
    """A change whose name is free: another server may have taken it at the same moment."""
    name, number = change.name[1], 1
    if name is None:
        return change
    free = name
    while (other := content.by_name(free)) is not None and other.key != change.key:
        number += 1
        free = f"{name} ({number})"
    return Change(change.key, (change.name[0], free), change.marks)


def _entry(before: CollectionFile, after: CollectionFile) -> dict[str, Any]:
    """The entry of a log that leads from the one to the other, as plain values."""
    known, now = ({step.number for step in one.steps} for one in (before, after))
    return {
        "changes": [plain_change(change) for change in _differences(before, after)],
        "added": [
            {"number": step.number, "what": step.what, "changes": [plain_change(one) for one in step.changes]}
            for step in after.steps
            if step.number not in known
        ],
        "removed": sorted(known - now),
    }


def _differences(before: CollectionFile, after: CollectionFile) -> list[Change]:
    """The changes that lead from the one to the other."""
    changes: list[Change] = []
    for stored in before.collections:
        if after.by_key(stored.key) is None:
            marks = tuple((member, mark, None) for member, mark in stored.marks.items())
            changes.append(Change(stored.key, (stored.name, None), marks))
    for stored in after.collections:
        known = before.by_key(stored.key)
        old = known or StoredCollection(stored.key, "")
        marks = tuple((member, mark, None) for member, mark in old.marks.items() if member not in stored.marks)
        marks += tuple(
            (member, old.marks.get(member), mark)
            for member, mark in stored.marks.items()
            if old.marks.get(member) is not mark
        )
        names = (None if known is None else known.name, stored.name)
        if marks or names[0] != names[1]:
            changes.append(Change(stored.key, names, marks))
    return changes
