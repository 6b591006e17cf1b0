"""Collections that are kept in Milvus: a log of what was done, which any number of servers write to at once.

Milvus has no lock and no transaction, so nothing is ever replaced: each change is a row of its own, with what it did to
which collection. Whoever reads puts them together in their order. Two servers that change the same collection at the
same moment both keep what they did; of two new collections of one name, the later gets a number behind it.
"""

from __future__ import annotations

import base64
import json
import random
import threading
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from smoothap.search._collection_file import (
    Change,
    CollectionFile,
    Step,
    StoredCollection,
    apply_change,
    changes_of,
    kept_steps,
    plain_change,
)
from smoothap.search._milvus_layout import MARK, MOST_ROWS, create_texts, text_row

if TYPE_CHECKING:
    from smoothap.search.milvus_server import MilvusServer

_SINCE = 1_767_225_600  # the first of 2026: microseconds since then have room in a number of a browser, 2^53
_LONGEST = 64_000  # characters of a row
_LATE = 600_000_000  # microseconds by which the clocks of two servers may differ
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
        return f"{len(self._log.rows):x}-{self._log.newest:x}"

    def exists(self) -> bool:
        """Whether anything was ever kept."""
        return bool(self._log.rows) or self._server.has(self._name)

    def read(self) -> CollectionFile:
        """The collections, as all that was done until now makes them."""
        self._catch_up()
        with self._log.lock:
            content = _content([self._log.rows[number] for number in sorted(self._log.rows)])
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
        before: CollectionFile = self._log.seen.content
        known, now = ({step.number for step in one.steps} for one in (before, content))
        entry = {
            "changes": [plain_change(change) for change in _differences(before, content)],
            "added": [
                {"number": step.number, "what": step.what, "changes": [plain_change(one) for one in step.changes]}
                for step in content.steps
                if step.number not in known
            ],
            "removed": sorted(known - now),
        }
        packed = base64.b64encode(zlib.compress(json.dumps(entry).encode())).decode()
        texts = [packed[start : start + _LONGEST] for start in range(0, len(packed), _LONGEST)]
        first = _now() << 10 | random.getrandbits(10)
        create_texts(self._server, self._name)
        rows = [text_row(first, f"{place}/{len(texts)}/{text}", mark=first) for place, text in enumerate(texts)]
        for place, row in enumerate(rows):
            row["id"] = first if not place else random.getrandbits(62) | 1 << 62
        self._server.ask("upsert", self._name, rows)
        self._catch_up()

    def _catch_up(self) -> None:
        """Read what was added to the log since the last time, and a while before that: clocks differ."""
        log = self._log
        with log.lock:
            if not log.rows and not self._server.has(self._name):
                return
            since = max(0, (log.newest >> 10) - _LATE) << 10
            found = self._server.ask(
                "query", self._name, filter=f"{MARK} >= {since}", limit=MOST_ROWS,
                output_fields=["id", MARK, "text"], consistency_level="Strong",
            )  # fmt: skip
            if len(found) >= MOST_ROWS:  # the first time: a part of the years at a time
                found = self._all_of(since)
            log.take_in(found)
            log.checked = time.monotonic()

    def _all_of(self, since: int) -> list[dict[str, Any]]:
        """All rows of the log from a number on, however many, in the order of their own numbers."""
        rows: list[dict[str, Any]] = []
        last = 0
        while True:
            found = self._server.ask(
                "query", self._name, filter=f"id > {last} and {MARK} >= {since}", limit=MOST_ROWS,
                output_fields=["id", MARK, "text"], consistency_level="Strong",
            )  # fmt: skip
            rows += found
            if len(found) < MOST_ROWS:
                return rows
            last = max(row["id"] for row in found)


class _Log:
    """What this process has read of a log by now: no more than a copy, which others need not wait for."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}  # the entries by their numbers
        self.newest = 0
        self.checked = -_POLL  # when the log was last read, by the clock of this process
        self.lock, self.writing = threading.RLock(), threading.RLock()
        self.seen = threading.local()

    def take_in(self, rows: Any) -> None:
        """Put the texts of entries together; one whose rows are not all there yet comes the next time."""
        parts: dict[int, dict[int, str]] = {}
        numbers: dict[int, int] = {}
        for row in rows:
            place, number, text = row["text"].split("/", 2)
            parts.setdefault(row[MARK], {})[int(place)] = text
            numbers[row[MARK]] = int(number)
        for mark, texts in parts.items():
            if mark not in self.rows and len(texts) == numbers[mark]:
                packed = "".join(texts[place] for place in range(len(texts)))
                self.rows[mark] = json.loads(zlib.decompress(base64.b64decode(packed)))
                self.newest = max(self.newest, mark)


def _now() -> int:
    return int((time.time() - _SINCE) * 1_000_000)


def _content(entries: list[dict[str, Any]]) -> CollectionFile:
    """The collections that all entries make, in their order."""
    content = CollectionFile()
    for entry in entries:
        for change in changes_of(entry["changes"]):
            apply_change(content, _without_clash(content, change))
        content.steps = [step for step in content.steps if step.number not in entry["removed"]]
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
