"""Albums made by someone who means harm, with checksums that are right: refused with a sentence, and nothing runs."""

import json
import os
import pickle
import sqlite3
from contextlib import closing, contextmanager, suppress

import numpy as np
import pytest

from smoothap.album import Album, Filter, Learnt, Projection
from smoothap.album.face_marks import IS, FaceMarks
from smoothap.album.faces import FaceRecord, FaceStore
from smoothap.album.growing import append
from smoothap.album.photos import RECORD
from smoothap.album.postings import row_crc
from smoothap.album.regions import Basis, RegionStore
from smoothap.models.regions import PARTS


class Payload:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")


@pytest.fixture
def folder(tmp_path):
    metadata = [
        {"path": f"a/{row}.jpg", "label": "x", "camera": "c", "taken": "2020-01-01T00:00:00", "columns": {"brand": "b"}}
        for row in range(3)
    ]
    album = Album.from_arrays(np.eye(3), metadata, tmp_path / "album")
    projection = Projection(np.eye(2, 3, dtype=np.float32), np.full(2, 0.1, np.float32))
    album.learn(projection, Learnt(2, 5, 20, (0.2, 0.1, 0.3)), None)
    album.collections.mark("dog", right=[0], wrong=[1])
    return album.folder


def use(folder):
    """All that a user does with an album; what is wrong with it must be said as a sentence, whenever."""
    album = Album.open(folder)
    album.search(0, everything=True)
    for where in (
        Filter(folder="a"),
        Filter(camera="c"),
        Filter(columns=(("brand", "b"),)),
        Filter(columns=(("label", ""),)),
    ):
        album.search(0, 2, where=where)
    for photo in album.photos:
        repr(photo)
        if album.root is not None:
            album.photo_path(photo.id)
    album.photos.labels(), album.photos.values_of("brand"), album.photos.contents()
    repr((album.model, album.calibration, album.learnt))
    for collection in album.collections.all().values():
        repr((collection.right, collection.wrong, collection.away))
    album.collections.steps()
    album.collections.undo()
    album.verify()
    album.remove([2])
    album.unlearn()
    repr(album.calibration)


@contextmanager
def edited(file, *, loosely=True):
    """A connection that writes whatever it is told; `loosely` also what the types of the tables do not allow."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        schema = connection.execute("SELECT sql, name FROM sqlite_master WHERE sql LIKE '% STRICT'").fetchall()
        if loosely:
            connection.execute("PRAGMA writable_schema=ON")
            plain = [(sql.removesuffix("STRICT").rstrip(" ,"), name) for sql, name in schema]
            connection.executemany("UPDATE sqlite_master SET sql=? WHERE name=?", plain)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        yield connection
    if loosely:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema=ON")
            connection.executemany("UPDATE sqlite_master SET sql=? WHERE name=?", schema)


def sign(connection, table, columns):
    """Give rows the checksums that their maker would."""
    names = ", ".join(columns)
    for key, *row in connection.execute(f"SELECT {columns[0]}, {names} FROM {table}").fetchall():
        connection.execute(f"UPDATE {table} SET crc=? WHERE {columns[0]} IS ?", (row_crc(row), key))


def set_setting(name, value):
    def change(connection):
        text = value if isinstance(value, (str, bytes)) and value[:1] in ("[", b"\xff") else json.dumps(value)
        connection.execute("REPLACE INTO setting VALUES (?, ?, ?)", (name, text, row_crc((name, text))))

    return change


CALIBRATED = {  # as an album may have it
    "scores": [0.5], "recall": [1.0], "false_positive_rate": [0.0], "right_per_query": 1.0, "source": "a", "queries": 3,
}  # fmt: skip


def set_learnt(**changes):
    def change(connection):
        (text,) = connection.execute("SELECT value FROM setting WHERE name='learnt'").fetchone()
        set_setting("learnt", {**json.loads(text), **changes})(connection)

    return change


def set_space(column, value):
    def change(connection):
        connection.execute(f"UPDATE space SET {column}=?", (value,))
        sign(connection, "space", ("name", "dimension", "codec", "file", "slots", "spread"))

    return change


def set_photo(column, value):
    def change(connection):
        connection.execute(f"UPDATE photo SET {column}=? WHERE id=1", (value,))
        sign(connection, "photo", RECORD)

    return change


def set_posting(column, value):
    def change(connection):
        connection.execute(f"UPDATE posting SET {column}=? WHERE name='label'", (value,))
        for row in connection.execute("SELECT name, value, block, number, ids FROM posting").fetchall():
            connection.execute("UPDATE posting SET crc=? WHERE name=?", (row_crc(row), row[0]))

    return change


def run(*statements):
    def change(connection):
        for statement in statements:
            connection.execute(statement)

    return change


def hidden(kind, name, sql):
    """An entry of the schema that SQLite would not let anybody make."""
    return run(
        "PRAGMA writable_schema=ON",
        f"INSERT INTO sqlite_master VALUES ('{kind}', '{name}', 'setting', 0, '{sql}')",
    )


EVIL = "CREATE TRIGGER {} AFTER UPDATE ON setting BEGIN DELETE FROM photo; END"
TABLES = "does not have the tables of an album"
SCHEMA = {
    "a trigger": (run(EVIL.format("evil")), TABLES),
    "a trigger by a name of SQLite's own": (hidden("trigger", "sqlite_stat1", EVIL.format("sqlite_stat1")), TABLES),
    "a view": (run("CREATE VIEW v AS SELECT 1"), TABLES),
    "a table": (run("CREATE TABLE t (x)"), TABLES),
    "a virtual table": (run("CREATE VIRTUAL TABLE t USING fts5(x)"), TABLES),
    "a view instead of a table": (
        run("ALTER TABLE dead RENAME TO gone", "CREATE VIEW dead AS SELECT 'photo' space, 0 slot"), TABLES,
    ),
    "an index": (run("CREATE INDEX i ON photo (abs(id))"), TABLES),
    "no index": (run("DROP INDEX photo_path"), TABLES),
    "no table": (run("DROP TABLE dead"), TABLES),
    "another format": (run("PRAGMA user_version=99"), "is of format 99, and this version of smoothap reads"),
}  # fmt: skip
DAMAGED = r"damaged|outside of the photo folder|not described|is missing|does not"
VALUES = {
    **{f"setting {name}={value!r:.40}": set_setting(name, value) for name, value in [
        ("version", "x"), ("version", -1), ("version", 10**30), ("photos", 2), ("photos", 2**70), ("photos", 1.5),
        ("next_id", 1), ("next_id", True), ("model", [1]), ("model", {}), ("model", {"dimension": "x"}), ("root", 5),
        ("root", "a\0b"), ("uid", None), ("source", 3), ("calibration", {}), ("calibration", {"scores": 1}),
        *(("calibration", {name: value} | CALIBRATED | {name: value}) for name, value in [
            ("ranked", False), ("ranked", {"queries": None} | CALIBRATED | {"queries": None}), ("queries", None),
            ("right_per_query", None), ("right_per_query", float("nan")), ("source", 5),
        ]),
        ("learnt", {}), ("learnt", {"number": 1}), ("pack", "../x"), ("unknown", 1), ("uid", "[" * 100_000),
        ("uid", b"\xff\xfe"),
    ]},
    **{f"learnt {changes!r:.60}": set_learnt(**changes) for changes in [
        {"number": "../x"}, {"number": -1}, {"number": 2}, {"dimension": 0}, {"dimension": "x"}, {"gain": [0.1]},
        {"gain": [0.1, "x", 0.2]}, {"projection": 3}, {"calibration": {}}, {"calibration": 7}, {"photos": None},
    ]},
    **{f"space {column}={value!r:.40}": set_space(column, value) for column, value in [
        ("dimension", 0), ("dimension", 2**40), ("dimension", 2**62), ("dimension", "x"), ("dimension", 2),
        ("codec", "x"), ("codec", "float16"), ("codec", b"float32"), ("file", -1), ("file", "../x"), ("file", 2),
        ("slots", 0), ("slots", 2), ("slots", 4), ("slots", -1), ("slots", 2**62), ("spread", -1.0), ("spread", "x"),
        ("spread", 1e300), ("name", "face"),
    ]},
    **{f"photo {column}={value!r:.40}": set_photo(column, value) for column, value in [
        *(("path", path) for path in [
            b"/etc/passwd", b"../x", b"a/../../x", b"..", b"a\n/../../b", b"x\0y", b"", "text.jpg", 7,
        ]),
        ("id", 7), ("label", b"x"), ("bytes", "x"), ("modified", "x"), ("modified", b"x"), ("sha256", "x"),
        ("sha256", 5), ("width", b"x"), ("height", 1e300), ("taken", "x"), ("taken", 2**62), ("taken", -(2**62)),
        ("camera", b"x"), ("columns", "{"), ("columns", "[1]"), ("columns", '{"brand": 5}'), ("columns", b"x"),
        ("columns", "[" * 100_000), ("pack", "1/../../x"), ("start", "x"), ("start", -5), ("length", "x"),
        ("length", -3), ("removed", 1),
    ]},
    **{f"posting {column}={value!r:.40}": set_posting(column, value) for column, value in [
        ("ids", b"x"), ("ids", b"\xff\xff"), ("ids", "text"), ("ids", bytes(5000)), ("block", -1), ("block", 2**62),
        ("block", "x"), ("value", "text"), ("value", b"\xff\xfe"), ("number", "x"), ("number", -1),
    ]},
    **{f"dead {value!r}": run(f"INSERT INTO dead VALUES ('photo', {value})") for value in (
        "99", "-1", "1", "'x'", str(2**62), "1.5",
    )},
    **{f"block {change}": run(f"UPDATE block SET {change} WHERE file LIKE 'vectors%'") for change in (
        "start=1", "start='x'", "length=0", "length='x'", "length=1<<62", "length=-36", "crc='x'", "file='../x'",
    )},
}  # fmt: skip


def check_refused(folder, sentence):
    """The album is refused, by an error that is ours and says so."""
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as refused:
        use(folder)
    assert not isinstance(refused.value, (json.JSONDecodeError, UnicodeError))


@pytest.mark.guarantee(14)
@pytest.mark.parametrize("what", SCHEMA)
def test_a_database_with_other_things_in_it_is_refused_before_anything_runs(folder, what):
    change, sentence = SCHEMA[what]
    with edited(folder / "album.db", loosely=False) as connection:
        change(connection)
    with pytest.raises(ValueError, match=sentence):
        Album.open(folder)
    with edited(folder / "album.db", loosely=False) as connection:
        assert connection.execute("SELECT count(*) FROM photo").fetchone() == (3,)


@pytest.mark.guarantee(17)
@pytest.mark.parametrize("what", VALUES)
def test_values_that_no_album_has_are_refused_with_a_sentence(folder, what):
    with edited(folder / "album.db") as connection:
        VALUES[what](connection)
    check_refused(folder, DAMAGED)


@pytest.mark.guarantee(14)
@pytest.mark.parametrize(
    "name", ["album.db", "vectors-photo-1", "items-photo-1", "projection-1", "collections/collections.db"]
)
@pytest.mark.parametrize("content", ["pickle", "array", "text", "empty"])
def test_no_pickle_is_run_in_the_place_of_any_file(folder, tmp_path, name, content):
    mark = tmp_path / "mark"
    if content == "array":
        with (folder / name).open("wb") as stream:
            np.save(stream, np.array([Payload(mark)] * 3, dtype=object), allow_pickle=True)
    else:
        made = {"pickle": pickle.dumps(Payload(mark)), "text": b"hello " * 1000, "empty": b""}
        (folder / name).write_bytes(made[content])
    if (name, content) != ("collections/collections.db", "empty"):  # as it is before anything is kept in it
        check_refused(folder, r"damaged|is of format|does not have the tables|is empty")
    assert not mark.exists()


STEPS = ["{", "[[1, 2, 3]]", '[[1, [null, "x"], [[0, "zz", "", 1, 1]]]]']
COLLECTIONS = [
    EVIL.format("evil").replace("setting", "mark").replace("photo", "collection"), "PRAGMA user_version=7",
    "UPDATE mark SET belongs='x'", "UPDATE mark SET belongs=7", "UPDATE mark SET path='text'",
    "UPDATE mark SET photo='x'", "UPDATE state SET value='x' WHERE name='next'", "UPDATE collection SET name=x'ff'",
    *(f"UPDATE step SET changes='{changes}'" for changes in STEPS),
]  # fmt: skip


@pytest.mark.parametrize("statement", COLLECTIONS)
def test_collections_that_nobody_wrote_are_refused_with_a_sentence(folder, statement):
    tables = {
        "state": ("name", "value"), "collection": ("id", "name"), "step": ("id", "session", "what", "marks", "changes"),
        "mark": ("position", "collection", "belongs", "photo", "path", "sha256"),
    }  # fmt: skip
    with edited(folder / "collections" / "collections.db") as connection:
        connection.execute(statement)
        for table, columns in tables.items() if "TRIGGER" not in statement else ():
            sign(connection, table, columns)
    check_refused(folder, r"collections\.db (is damaged|is of format|does not have the tables)")
    assert Album.open(folder).search(0, 2)


def test_a_photo_behind_a_link_out_of_the_folder_is_not_opened(folder, tmp_path):
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "0.jpg").symlink_to("/etc/hostname")
    album = Album.open(folder, root=tmp_path / "photos")
    with pytest.raises(ValueError, match="leads out of the photo folder"):
        album.photo_path(0)
    assert os.fspath(album.photo_path(1)).startswith(os.fspath(tmp_path))


@pytest.fixture
def with_people(folder):
    """The album with three faces, two of which have names."""
    store, album = FaceStore(folder, create=True), Album.open(folder)
    network = {"name": "n", "detector": "d", "recogniser": "r", "dimension": 3}
    store.use(album.store.settings().uid, network, {"model": None, "weights": None})
    rows = np.eye(3, dtype=np.float32)
    store.put({photo: (bytes([photo]), [FaceRecord((4.0, 4.0, 9.0, 9.0), 1.0, rows[photo])]) for photo in range(3)})
    with album.people.step("named two"):
        album.people.name(0, "Anna")
        album.people.name(1, "Bob")
    return folder


def ask_of_people(folder):
    """All that a user does with the people of an album."""
    album = Album.open(folder)
    album.verify()
    album.people.groups(strangers=True)
    album.search(0, space="face", rerank=False)
    album.people.undo()
    album.people.name(2, "Chris")
    album.remove([2])


def set_face(column, value):
    def change(connection):
        connection.execute(f"UPDATE face SET {column}=? WHERE id=1", (value,))
        sign(connection, "face", ("id", "photo", "x", "y", "width", "height", "score", "vector"))

    return change


def set_people(name, value):
    def change(connection):
        packed = value if isinstance(value, (str, bytes)) else json.dumps(value).encode()
        connection.execute("REPLACE INTO setting VALUES (?, ?, ?)", (name, packed, row_crc((name, packed))))

    return change


def set_step(**changes):
    def change(connection):
        (text,) = connection.execute("SELECT value FROM setting WHERE name='steps'").fetchone()
        set_people("steps", [{**json.loads(text)[0], **changes}])(connection)

    return change


PEOPLE = {
    **{f"face {column}={value!r:.40}": set_face(column, value) for column, value in [
        ("x", 1e400), ("y", -1e400), ("width", 1e400), ("height", 1e300), ("x", "x"), ("vector", b""), ("vector", 5),
        ("vector", bytes(12)), ("vector", b"\xff" * 12), ("vector", np.full(3, 1e30, "<f4").tobytes()),
    ]},
    **{f"setting {name}={value!r:.40}": set_people(name, value) for name, value in [
        ("uid", 5), ("uid", b"{"), ("uid", b"\xff"), ("uid", "text"), ("version", -1), ("version", [1]),
        ("version", 2**80), ("next_face", "1"), ("next_face", 2**63), ("network", 5), ("network", {}),
        ("network", {"name": "n", "detector": "d", "recogniser": "r", "dimension": 0}), ("network", b"[" * 100_000),
        ("source", {"model": 5, "weights": None}), ("source", [1]), ("pushed", 5), ("pushed", [5]), ("steps", 5),
        ("steps", [5]), ("steps", [{}]), ("crc mark", 1),
    ]},
    **{f"step {changes!r:.60}": set_step(**changes) for changes in [
        {"what": 5}, {"gone": []}, {"gone": {}}, {"gone": {"person": [5], "mark": []}}, {"drawn": [1e30]},
        {"gone": {"person": [], "mark": [[1, "zz", 1, 1, 1, 1, "is", 1]]}}, {"drawn": ["x"]}, {"drawn": [10**30]},
        {"gone": {"person": [[1, "A", {}]], "mark": []}}, {"come": {"person": [2**70], "mark": []}},
    ]},
    **{statement: run(statement) for statement in (
        "UPDATE mark SET x='x'", "UPDATE mark SET width=1e300", "UPDATE person SET name='Anne' WHERE name='Anna'",
        "UPDATE mark SET sha256=x'07'", "DELETE FROM seen WHERE photo=1", "UPDATE seen SET sha256=x'07'",
        "UPDATE person SET name=CAST(x'ff41' AS TEXT) WHERE name='Anna'",
    )},
}  # fmt: skip


@pytest.mark.guarantee(17)
@pytest.mark.parametrize("what", PEOPLE)
def test_people_that_nobody_found_or_named_are_refused_with_a_sentence(with_people, what):
    with edited(with_people / "people" / "people.db") as connection:
        PEOPLE[what](connection)
    with pytest.raises(ValueError, match=r"people\.db is damaged .*--forget") as refused:
        ask_of_people(with_people)
    assert not isinstance(refused.value, (json.JSONDecodeError, UnicodeError))
    left = Album.open(with_people).forget_people().left
    assert ["sent to Milvus is not known any more" in said for said in left] == [True] * ("setting pushed" in what)
    assert not Album.open(with_people).has_people


def test_people_that_are_as_they_were_written_are_not_refused(with_people):
    ask_of_people(with_people)
    Album.open(with_people).verify()


def test_a_face_whose_photo_another_process_removed_meanwhile_is_said_to_be_gone(with_people):
    album, faces = Album.open(with_people), FaceStore(with_people).faces(np.arange(3))
    Album.open(with_people).remove([1])
    with pytest.raises(ValueError, match="no face 1 any more: its photo was removed"):
        FaceMarks(FaceStore(album.folder)).mark(faces, [1], IS, 1)


@pytest.mark.parametrize("name", [".lock", "thumbnails-1", "unreadable.csv", "people/neighbours-face"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link to nothing"])
def test_what_would_never_end_or_be_written_elsewhere_is_no_part_of_an_album(folder, tmp_path, name, kind):
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero" if kind == "device" else tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=rf"{name} is a pipe, a device or a link to nothing, .*: delete it"):
        Album.open(folder)
    assert not (tmp_path / "elsewhere").exists()


PARTS_SETTINGS = [
    {"file": "x/../../../victim"}, {"file": 0.5}, {"size": "64"}, {"dimension": 0}, {"dimension": 7}, {"code": 4},
    {"code": 1 << 40}, {"learnt_from": None}, {"uid": 3}, {"version": []}, {"transform": []}, {"transform": {}},
    {"transform": {"mean": [0], "std": [1], "size": "big"}}, {"transform": {"mean": [], "std": [], "size": 1e999}},
    {"another": 1},
]  # fmt: skip


@pytest.mark.parametrize("changes", PARTS_SETTINGS, ids=str)
def test_settings_of_parts_of_the_wrong_kind_are_refused(folder, tmp_path, changes):
    parts = np.eye(PARTS, 3, dtype=np.float32)[None]
    store, uid = RegionStore(folder, create=True), Album.open(folder).store.settings().uid
    basis = Basis.learnt(parts.reshape(-1, 3))
    store.begin(uid, 64, basis, 1)
    store.put({0: (b"", basis.coded(parts)[0])})
    store.database.close()
    (tmp_path / "victim").write_bytes(b"untouched")
    with edited(folder / "regions" / "regions.db", loosely=False) as connection:
        (text,) = connection.execute("SELECT value FROM setting WHERE name='settings'").fetchone()
        value = json.dumps({**json.loads(text), **changes}).encode()
        connection.execute("REPLACE INTO setting VALUES (?, ?, ?)", ("settings", value, row_crc(("settings", value))))
    (folder / "regions" / "codes-x").mkdir()
    with suppress(ValueError):
        Album.open(folder).search(0, space="region")
    with suppress(ValueError):
        RegionStore(folder).put({1: (b"", basis.coded(parts)[0])})
    with pytest.raises(ValueError, match="damaged"):
        RegionStore(folder).basis()
    assert (tmp_path / "victim").read_bytes() == b"untouched"


@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_written_through_a_link_in_the_place_of_an_albums_file(folder, tmp_path, is_there):
    victim, parts = tmp_path / "victim", np.eye(PARTS, 3, dtype=np.float32)[None]
    if is_there:
        victim.write_bytes(b"untouched")
    basis, store = Basis.learnt(parts.reshape(-1, 3)), RegionStore(folder, create=True)
    store.begin(Album.open(folder).store.settings().uid, 64, basis, 1)
    (folder / "regions" / "codes-1").symlink_to(victim)
    (folder / "vectors").symlink_to(victim)
    with pytest.raises(ValueError, match="is a link"):
        store.put({0: (b"", basis.coded(parts)[0])})
    with pytest.raises(ValueError, match="is a link"):
        append(None, folder, "vectors", [b"harm"], durable=False)
    assert victim.read_bytes() == b"untouched" if is_there else not victim.exists()
