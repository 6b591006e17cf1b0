"""What users said about faces: who it is, who it is not, that it is none, or that one is here. It is obeyed for ever.

A person may have no name: then the faces are those of one person, and nobody said whose. One who is hidden is a
stranger, whom nobody wants to see. A mark is of the content of a photo and a box in it, so that it holds for copies of
the photo, and for faces that are found again.
"""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from smoothap._core.files import Kinds, wrong_field
from smoothap.album.database import placeholders
from smoothap.album.faces import Faces, FaceStore, NoSuchFace, is_number
from smoothap.models.faces.detection import SAME_FACE, Box, overlap

IS, NOT, NO_FACE, DRAWN = "is", "not", "no face", "drawn"
LONGEST_NAME = 200  # characters
# What a mark takes back of what was said of the same face before; NOT, only what was said of the same person.
_REPLACED = {IS: (IS, NO_FACE), NO_FACE: (IS, NO_FACE, DRAWN), DRAWN: (NO_FACE, DRAWN), NOT: ()}
_STEPS_KEPT = 30
_STEP: Kinds = {"what": str, "gone": dict, "come": dict, "drawn": list}
_SPOKEN = {  # the tables of what is said, as JSON can have them
    "person": "SELECT * FROM person",
    "mark": "SELECT id, hex(sha256), x, y, width, height, kind, person FROM mark",
}


class Person(NamedTuple):
    """Somebody that faces were said to be of."""

    id: int
    name: str | None
    hidden: bool


@dataclass(frozen=True, eq=False)
class Said:
    """What was said about the faces of an album, by their rows."""

    people: dict[int, Person]
    person: np.ndarray  # (n,) who it is, -1 where nobody said
    no_face: np.ndarray  # (n,) bool
    is_not: dict[int, set[int]] = field(default_factory=dict)  # row -> people

    def of(self, row: int, person: int) -> bool | None:
        """Whether a face was said to be this person; None where nobody spoke of it."""
        return (
            True
            if person >= 0 and self.person[row] == person
            else False
            if person in self.is_not.get(row, ())
            else None
        )

    def named(self, name: str) -> Person:
        """The person with a name."""
        wanted = spelled_name(name)
        for person in self.people.values():
            if person.name == wanted:
                return person
        known = ", ".join(sorted(person.name for person in self.people.values() if person.name)) or "nobody"
        raise ValueError(f"Nobody in this album is named {name!r}: it knows {known}.")


def spelled_name(name: str) -> str:
    """A name as it is kept: one line, without spaces around it, equal letters alike."""
    spelled = " ".join(unicodedata.normalize("NFC", name).split())
    if not spelled or len(spelled) > LONGEST_NAME or not spelled.isprintable():
        raise ValueError(f"A name has 1 to {LONGEST_NAME} letters, all of which can be printed, not {name!r}.")
    return spelled


class FaceMarks:
    """The tables of people and marks in `people.db`; every call is one transaction."""

    def __init__(self, store: FaceStore) -> None:
        self._store, self._database = store, store.database

    def said(self, faces: Faces) -> Said:
        """What was said about these faces."""
        with self._database.reading() as connection:
            self._store.check_spoken(connection)
            people = {
                row[0]: Person(row[0], row[1], bool(row[2])) for row in connection.execute("SELECT * FROM person")
            }
            marks = connection.execute(
                "SELECT sha256, x, y, width, height, kind, person FROM mark ORDER BY id"
            ).fetchall()
            contents = self._store.seen()
        said = Said(people, np.full(len(faces), -1), np.zeros(len(faces), bool))
        of_content = defaultdict[bytes, list[int]](list)
        marked, boxes = {mark[0] for mark in marks}, self._store.checked_boxes([mark[1:5] for mark in marks])
        for row, photo in enumerate(faces.photos.tolist() if marked else []):
            if contents.get(photo) in marked:
                of_content[contents[photo]].append(row)
        for (sha256, *_, kind, person), box in zip(marks, boxes, strict=True):
            rows = np.array(of_content[sha256], np.int64)
            areas = overlap(box, faces.boxes[rows])
            best = rows[areas >= max(SAME_FACE, areas.max(initial=0.0))]  # copies of a photo have it, too
            for row in best.tolist():
                if kind == IS and person in people:
                    said.person[row] = person
                elif kind == NOT and person in people:
                    said.is_not.setdefault(row, set()).add(person)
                elif kind == NO_FACE:
                    said.no_face[row] = True
        return said

    def person(self, name: str | None, *, hidden: bool = False) -> int:
        """The person with a name, or a new one."""
        with self._database.writing() as connection:
            if name is not None:
                name = spelled_name(name)
                row = connection.execute("SELECT id FROM person WHERE name=?", (name,)).fetchone()
                if row is not None:
                    return row[0]
            made = connection.execute("INSERT INTO person (name, hidden) VALUES (?, ?)", (name, int(hidden)))
            assert made.lastrowid is not None
            self._store.change(connection, spoken=True)
            return made.lastrowid

    def rename(self, person: int, name: str | None) -> None:
        """Give a person another name, or none; one with a name is no stranger any more."""
        with self._database.writing() as connection:
            name = None if name is None else spelled_name(name)
            connection.execute("UPDATE person SET name=?, hidden=0 WHERE id=?", (name, person))
            self._store.change(connection, spoken=True)

    def mark(self, faces: Faces, rows: Sequence[int], kind: str, person: int | None = None) -> None:
        """Say something about faces; what was said before and contradicts it goes."""
        with self._database.writing() as connection:
            contents = self._store.seen(faces.photos[rows])
            for row in rows:
                sha256, box = _content_of(faces, row, contents), faces.boxes[row]
                self._take_back(connection, sha256, box, kind, person)
                values = (sha256, *box.tolist(), kind, person)
                connection.execute(
                    "INSERT INTO mark (sha256, x, y, width, height, kind, person) VALUES (?, ?, ?, ?, ?, ?, ?)", values
                )
            self._changed(connection)

    def unmark(self, faces: Faces, rows: Sequence[int], person: int) -> None:
        """Take back whatever was said of faces and a person."""
        with self._database.writing() as connection:
            contents = self._store.seen(faces.photos[rows])
            for row in rows:
                self._take_back(connection, _content_of(faces, row, contents), faces.boxes[row], NOT, person)
            self._changed(connection)

    def _changed(self, connection: sqlite3.Connection) -> None:
        # A person of whom no face is left, and who has no name, is none.
        left = "SELECT person FROM mark WHERE person IS NOT NULL"
        connection.execute(f"DELETE FROM person WHERE name IS NULL AND id NOT IN ({left})")
        self._store.change(connection, spoken=True)

    def drawn(self) -> dict[bytes, list[Box]]:
        """The boxes that users drew around faces that were not found, by the content of their photos."""
        boxes = defaultdict[bytes, list[Box]](list)
        with self._database.reading() as connection:
            query = "SELECT sha256, x, y, width, height FROM mark WHERE kind=? ORDER BY id"
            for sha256, *box in connection.execute(query, (DRAWN,)):
                boxes[sha256].append((box[0], box[1], box[2], box[3]))
        return dict(boxes)

    # -- steps: the setting `steps` has, for each, its words, the rows that went and the ids of those that came, and the
    # faces that were drawn; `version` is the one after it, and another one once anything else was said or found.

    def steps(self) -> list[dict[str, Any]]:
        """What can be taken back, the last step last."""
        with self._database.reading():
            steps = self._store.setting("steps") or []
            for step in steps:
                if not isinstance(step, dict) or wrong_field(step, _STEP) or not all(map(is_number, step["drawn"])):
                    raise self._database.damaged("the setting steps")
            return steps if steps and steps[-1].get("version") == self._store.version else []

    @contextmanager
    def step(self, what: str) -> Generator[None]:
        """Let all that is said while this lasts be one step, in one transaction: what others say then is none of it."""
        with self._database.writing() as connection:
            steps, before, first = self.steps(), self._rows(), self._store.setting("next_face") or 0
            yield
            after, last = self._rows(), self._store.setting("next_face") or 0
            gone = {table: sorted(before[table] - after[table]) for table in _SPOKEN}
            come = {table: [row[0] for row in after[table] - before[table]] for table in _SPOKEN}
            steps.append({"what": what, "gone": gone, "come": come, "drawn": [*range(first, last)]})
            self._keep(connection, steps)

    def undo(self, faces: Faces, version: int | None = None) -> str:
        """Take the last step back, and say of faces that were drawn in it that they are none; gives its words."""
        with self._database.writing() as connection:
            steps = self.steps()
            if not steps or version not in (None, self._store.version):
                raise ValueError(
                    "There is nothing to undo here, or faces were found or named elsewhere since: look again."
                )
            step = steps.pop()
            try:
                for table in _SPOKEN:
                    connection.executemany(f"DELETE FROM {table} WHERE id=?", [(row,) for row in step["come"][table]])
                    for row in step["gone"][table]:
                        values = [
                            bytes.fromhex(value) if table == "mark" and place == 1 else value
                            for place, value in enumerate(row)
                        ]
                        connection.execute(f"INSERT INTO {table} VALUES ({placeholders(values)})", values)
            except (ValueError, TypeError, KeyError, OverflowError, sqlite3.ProgrammingError) as error:
                raise self._database.damaged(f"the step {step['what']!r}") from error
            self._store.change(connection, spoken=True)
            if step["drawn"]:
                self.mark(faces, faces.rows_of(step["drawn"]).tolist(), NO_FACE)
            self._keep(connection, steps)
        return step["what"]

    def _rows(self) -> dict[str, set[tuple[Any, ...]]]:
        with self._database.reading() as connection:
            return {table: set(connection.execute(query).fetchall()) for table, query in _SPOKEN.items()}

    def _keep(self, connection: sqlite3.Connection, steps: list[dict[str, Any]]) -> None:
        if steps:
            steps[-1]["version"] = self._store.version
        self._database.set(connection, "steps", json.dumps(steps[-_STEPS_KEPT:]).encode())

    def _take_back(
        self, connection: sqlite3.Connection, sha256: bytes, box: np.ndarray, kind: str, person: int | None
    ) -> None:
        query = "SELECT id, x, y, width, height, kind, person FROM mark WHERE sha256=?"
        for identity, x, y, width, height, earlier, whom in connection.execute(query, (sha256,)).fetchall():
            same = overlap(box, np.array([[x, y, width, height]]))[0] >= SAME_FACE
            about_them = person is not None and whom == person
            if same and (earlier in _REPLACED[kind] or about_them):
                connection.execute("DELETE FROM mark WHERE id=?", (identity,))


def _content_of(faces: Faces, row: int, contents: Mapping[int, bytes]) -> bytes:
    """The content of the photo of a face, which another process may have taken out meanwhile."""
    content = contents.get(int(faces.photos[row]))
    if content is None:
        raise NoSuchFace(f"The album has no face {faces.ids[row]} any more: its photo was removed.")
    return content
