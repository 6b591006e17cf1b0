"""The files of an album: whatever is done to it in whatever order, it holds what it should, for every reader."""

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothap._core.files import DiskFullError, FolderBusy
from smoothap.album import Album, Filter, Learnt, Projection, growing
from smoothap.album.faces import FaceStore
from smoothap.album.photos import Photos, new_record
from smoothap.album.regions import RegionStore
from smoothap.album.store import Store

WIDTH = 6


def vector_of(seed):
    vector = np.random.default_rng(seed).standard_normal(WIDTH)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def vectors_of(seeds):
    return np.stack([vector_of(seed) for seed in seeds])


def made(folder, number=10, **options):
    """An album whose photo N has the vector `vector_of(N)` and a label."""
    metadata = [{"path": f"{row}.jpg", "label": f"c{row % 2}", "sha256": f"{row:064x}"} for row in range(number)]
    return Album.from_arrays(vectors_of(range(number)), metadata, folder, **options)


def add(store, seeds):
    """Take in more photos, by hand."""
    with store.writing():
        records = [new_record(f"more/{seed}.jpg", label=f"c{seed % 2}") for seed in seeds]
        return store.add(records, vectors_of(seeds), [f"picture {seed}".encode() for seed in seeds])


class Model:
    """What the album should hold, as a plain dict: id -> (path, label, columns, seed of its vector, picture)."""

    def __init__(self):
        self.photos, self.next, self.seed = {}, 0, 0

    def fresh(self):
        self.seed += 1
        return self.seed


LABELS = st.sampled_from([None, "", "a", "b", "é"])
VALUES = st.sampled_from([None, "", "x", "y"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 6), LABELS, VALUES),
        st.tuples(st.just("change"), st.integers(0, 99), LABELS, VALUES),
        st.tuples(st.just("revise"), st.integers(0, 99), LABELS, VALUES),
        st.tuples(st.just("remove"), st.integers(0, 99), st.integers(1, 4)),
        st.tuples(st.just("compact")),
        st.tuples(st.just("open")),
    ),
    max_size=14,
)


def record_of(path, label, value):
    columns = {} if value is None else {"brand": value}
    return {**new_record(path, label=label, columns=json.dumps(columns) if columns else None)}


def do(store, model, step):
    kind, *values = step
    ids = sorted(model.photos)
    if kind == "open":
        return Store(store.folder, durable=False)
    with store.writing():
        if kind == "compact":
            store.compact(always=True)
        elif kind == "add":
            number, label, value = values
            seeds = [model.fresh() for _ in range(number)]
            pictures = [None if seed % 3 == 0 else b"picture %d" % seed for seed in seeds]
            records = [record_of(f"f{seed % 4}/{seed}.jpg", label, value) for seed in seeds]
            assert store.add(records, vectors_of(seeds), pictures) == list(range(model.next, model.next + number))
            for record, seed, picture in zip(records, seeds, pictures, strict=True):
                model.photos[model.next] = (record["path"], label, value, seed, picture)
                model.next += 1
        elif ids and kind == "remove":
            gone = {ids[(values[0] + place) % len(ids)] for place in range(values[1])}
            store.remove(gone)
            for identity in gone:
                del model.photos[identity]
        elif ids:
            place, label, value = values
            identity = ids[place % len(ids)]
            path, _, _, seed, picture = model.photos[identity]
            if kind == "change":
                seed, picture = model.fresh(), b"changed"
                record = {**record_of(os.fsdecode(path), label, value), "id": identity}
                assert store.add([record], vectors_of([seed]), [picture]) == [identity]
                store.compact()
            else:
                columns = record_of("x", label, value)["columns"]
                store.revise({identity: {"label": label, "columns": columns}})
            model.photos[identity] = (path, label, value, seed, picture)
    return store


def check(store, model):
    """Everything that can be asked, against the dict."""
    snapshot = store.snapshot()
    ids = sorted(model.photos)
    assert snapshot.ids.tolist() == ids
    wanted = vectors_of(model.photos[one][3] for one in ids) if ids else np.empty((0, WIDTH), np.float32)
    assert np.array_equal(snapshot.vectors[:], wanted)
    assert (snapshot.space.slots - len(ids)) * 5 <= snapshot.space.slots  # at most a fifth is dead
    photos = Photos(store, snapshot.ids)
    assert [(photo.id, os.fsencode(photo.path), photo.label, photo.columns.get("brand")) for photo in photos] == [
        (one, *model.photos[one][:3]) for one in ids
    ]
    assert [store.thumbnail(record) for record in photos.records(np.arange(len(ids)))] == [
        model.photos[one][4] for one in ids
    ]
    by_label = {}
    for one in ids:
        by_label.setdefault(model.photos[one][1], []).append(one)
    by_label.pop(None, None)
    assert photos.counts("label") == {label.encode(): len(some) for label, some in by_label.items()}
    for label, some in by_label.items():
        assert photos.ids[photos.having("label", label.encode())].tolist() == some


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_an_album_is_what_was_done_to_it_whatever_that_was(steps):
    """Added, changed, relabelled, removed, compacted and opened in any order; ids are given once."""
    store, model = Store.create(None, WIDTH), Model()
    owner = store  # whose folder goes with it
    for step in steps:
        store = do(store, model, step)
        check(store, model)
    store.verify()
    assert owner.folder.is_dir()


@pytest.mark.parametrize("learnt", [False, True])
def test_dead_slots_are_left_out_once_they_are_a_fifth(tmp_path, learnt):
    album = made(tmp_path / "album", 100)
    if learnt:
        projection = Projection(np.eye(3, WIDTH, dtype=np.float32), np.full(3, 0.1, np.float32))
        album.learn(projection, Learnt(3, 5, 20, (0.2, 0.1, 0.3)), None)
    size = (album.folder / "vectors-photo-1").stat().st_size
    album.remove(range(20))
    assert (album.folder / "vectors-photo-1").stat().st_size == size
    before = {hit.id: hit.score for hit in album.search(50, everything=True, rerank=False)}
    album.remove([20])
    names = {file.name for file in album.folder.glob("*-photo-*")}
    assert names == {"vectors-photo-2", "items-photo-2"} | ({"learnt-photo-2-1"} if learnt else set())
    assert (album.folder / "vectors-photo-2").stat().st_size == size * 79 // 100
    for now in (album, Album.open(album.folder)):
        assert {hit.id: hit.score for hit in now.search(50, everything=True, rerank=False)} == {
            identity: score for identity, score in before.items() if identity != 20
        }
    assert add(album.store, [1000]) == [100]
    album.verify()


def test_whoever_opened_an_album_before_goes_on_with_what_it_was(tmp_path):
    album = made(tmp_path / "album", 50)
    wanted = [(hit.id, hit.score, hit.path) for hit in album.search(3, everything=True, rerank=False)]
    for gone in range(10, 16):
        Album.open(album.folder).remove([gone])
    Album.open(album.folder).remove(range(16, 40))  # other files of vectors
    assert not album.is_current()
    assert [(hit.id, hit.score, hit.path) for hit in album.search(3, everything=True, rerank=False)] == wanted
    assert len(album.reopened().search(3, everything=True, rerank=False)) == 19


def test_what_was_left_behind_the_counted_bytes_is_cut_off(tmp_path):
    album = made(tmp_path / "album")
    add(album.store, [70])
    names = ["vectors-photo-1", "items-photo-1", "thumbnails-1"]
    for name in names:
        with (album.folder / name).open("ab") as stream:
            stream.write(b"left by a writer that was stopped")
    (album.folder / "vectors-photo-7").write_bytes(b"a whole file that does not count")
    again = Album.open(album.folder)
    again.verify()
    assert len(again.search(np.ones(WIDTH), everything=True, rerank=False)) == 11
    assert add(again.store, [71]) == [11]
    assert not (album.folder / "vectors-photo-7").exists()
    again = Album.open(album.folder)
    again.verify()
    assert np.array_equal(again.vectors[-2:], vectors_of([70, 71]))
    assert again.thumbnail(11) == b"picture 71"
    assert (album.folder / "vectors-photo-1").stat().st_size == 12 * WIDTH * 4


def test_a_second_writer_waits_or_is_told(tmp_path):
    album = made(tmp_path / "album")
    code = (
        "import sys; from smoothap.album import Album\n"
        "album = Album.open(sys.argv[1])\n"
        "try:\n    album.remove([0])\nexcept ValueError as error:\n    print(error)\n"
        "with album.store.writing(60):\n    album.store.remove([1])\n"
    )
    with album.store.writing():
        other = subprocess.Popen(
            [sys.executable, "-c", code, str(album.folder)], stdout=subprocess.PIPE, text=True, env=environment()
        )
        assert other.stdout is not None
        assert f"Another process is writing to {album.folder}: wait until it is done." in other.stdout.readline()
        album.store.remove([2])
    assert other.wait() == 0
    other.stdout.close()
    assert Album.open(album.folder).photos.ids.tolist() == [0, 3, 4, 5, 6, 7, 8, 9]


def environment():
    source = os.pathsep.join([str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": source, "PYTHONWARNINGS": "ignore"}


CROWD = """
import json, os, sys, time
import numpy as np
from pathlib import Path
from smoothap.album import Album, Filter
from smoothap.album.photos import NoSuchPhoto, new_record
folder, changes = Path(sys.argv[1]), int(sys.argv[2])
def vector_of(seed):
    vector = np.random.default_rng(seed).standard_normal(6)
    return (vector / np.linalg.norm(vector)).astype(np.float32)
def read(number):
    rounds, versions = 0, set()
    album = Album.open(folder)
    while not (folder.parent / "done").exists():
        album = album.reopened()
        ids = album.photos.ids
        wanted = np.stack([vector_of(one) for one in ids])
        assert np.allclose(album.vectors[:], wanted, atol=1e-6), "vectors"
        try:
            paths = [photo.path for photo in album.photos[-3:]]
            even = album.search(int(ids[0]), everything=True, where=Filter(columns=(("parity", "0"),)), rerank=False)
        except NoSuchPhoto:  # this one looked away for many versions
            assert not album.is_current()
            continue
        assert paths == [f"{one}.jpg" for one in ids[-3:]], "paths"
        assert all(hit.id % 2 == 0 for hit in even), "filter"
        assert len(even) == (ids[1:] % 2 == 0).sum() or not album.is_current(), "missing"
        versions.add(album.version)
        rounds += 1
    (folder.parent / f"reader-{number}").write_text(json.dumps([rounds, len(versions)]))
children = []
for number in range(8):
    child = os.fork()
    if child == 0:
        try:
            read(number)
        except BaseException as error:
            (folder.parent / f"reader-{number}").write_text(json.dumps(repr(error)))
        os._exit(0)
    children.append(child)
store, longest = Album.open(folder).store, 0.0
time.sleep(0.5)
for change in range(changes):
    began = time.monotonic()
    with store.writing():
        first = store.settings().next_id
        parities = {one: json.dumps({"parity": str(one % 2)}) for one in range(first, first + 4)}
        rows = [new_record(f"{one}.jpg", columns=parity) for one, parity in parities.items()]
        store.add(rows, np.stack([vector_of(first + place) for place in range(4)]))
        store.remove(store.snapshot().ids[5:9].tolist())
    longest = max(longest, time.monotonic() - began)
    time.sleep(0.05)
time.sleep(0.2)
(folder.parent / "done").write_text("")
for child in children:
    os.waitpid(child, 0)
print(longest)
"""


@pytest.mark.alone
def test_eight_readers_and_a_writer_each_see_whole_versions_and_nobody_starves(tmp_path):
    metadata = [{"path": f"{row}.jpg", "columns": {"parity": str(row % 2)}} for row in range(40)]
    album = Album.from_arrays(vectors_of(range(40)), metadata, tmp_path / "album")
    command = [sys.executable, "-c", CROWD, str(album.folder), "40"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=200)
    assert run.returncode == 0, run.stderr
    seen = [json.loads((tmp_path / f"reader-{number}").read_text()) for number in range(8)]
    assert all(isinstance(one, list) for one in seen), seen
    assert min(rounds for rounds, _ in seen) > 3
    assert max(versions for _, versions in seen) > 3  # the album did change under them
    assert float(run.stdout) < 30  # seconds of the slowest change, where others hold locks for moments
    after = Album.open(album.folder)
    after.verify()
    assert len(after) == 40


@contextmanager
def nobody_may_write(folder):
    """As a user who may read the folder and not write to it; the tests may run as one who may do everything."""
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o555 if place.is_dir() else 0o444)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for place in (folder, *folder.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)


@pytest.fixture
def shared():
    """A folder that another user can read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def use_once(folder):
    """All that is read, so that nothing is imported later by a user who may not read Python's own files."""
    album = Album.open(folder)
    album.search(0, 3, where=Filter(columns=(("label", "c0"),)), rerank=False)
    album.verify()
    return [hit.id for hit in album.search(0, 5, rerank=False)], album.collections["dog"].right


def test_a_folder_that_is_read_only_opens_and_searches(shared):
    album = made(shared / "album")
    album.collections.add("dog", [4, 2])
    wanted = use_once(album.folder)
    with nobody_may_write(shared):
        assert use_once(album.folder) == wanted
        reader = Album.open(album.folder)
        with pytest.raises((OSError, ValueError), match=r"(?i)permission|cannot be written"):
            reader.remove([0])
        with pytest.raises(ValueError, match="collections cannot be written"):
            reader.collections.add("dog", [5])
    assert use_once(album.folder) == wanted


@pytest.mark.parametrize("name", ["album.db", "collections/collections.db"])
def test_a_stopped_writer_is_taken_back_and_where_nobody_may_write_that_is_said(shared, name):
    album = made(shared / "album", 50)
    album.collections.add("dog", [4, 2])
    wanted = use_once(album.folder)
    table = "photo" if name == "album.db" else "mark"
    connection = sqlite3.connect(album.folder / name, isolation_level=None)
    connection.execute("PRAGMA cache_size=1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"UPDATE {table} SET sha256=zeroblob(9000)")
    shutil.copytree(album.folder, shared / "stopped")  # in the middle: pages that changed, and the journal
    connection.close()
    assert (shared / "stopped" / f"{name}-journal").stat().st_size > 512
    with nobody_may_write(shared), pytest.raises(OSError, match="open it once where it can be written"):
        use_once(shared / "stopped")
    assert use_once(shared / "stopped") == wanted
    assert not (shared / "stopped" / f"{name}-journal").exists()


@pytest.mark.parametrize("where", ["files", "database"])
def test_a_full_disk_changes_nothing_and_is_said(tmp_path, monkeypatch, where):
    album = made(tmp_path / "album")
    with album.store.database.reading() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    with monkeypatch.context() as patched:
        if where == "files":
            append = growing.append

            def full(connection, folder, name, pieces, **options):
                append(connection, folder, name, pieces, **options)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patched.setattr(growing, "append", full)
        else:
            album.store.database._connection.execute(f"PRAGMA max_page_count={pages}")
        for _ in range(2):
            with pytest.raises(DiskFullError, match=r"disk of .* is full.*make room, and"):
                add(album.store, range(100, 400))
        album.store.database._connection.execute("PRAGMA max_page_count=1000000")
    again = Album.open(album.folder)
    again.verify()
    assert again.photos.ids.tolist() == list(range(10))
    assert add(album.store, range(100, 400)) == list(range(10, 310))
    Album.open(album.folder).verify()


def test_an_album_that_was_made_again_is_another_one(tmp_path):
    album = made(tmp_path / "album")
    shutil.rmtree(album.folder)
    made(tmp_path / "album", 3)
    assert not album.is_current()
    with pytest.raises(ValueError, match="made again meanwhile: open it again"):
        add(album.store, [77])
    assert len(album.reopened()) == 3


@pytest.mark.parametrize("kind", ["cut", "missing", "empty"])
@pytest.mark.parametrize("name", ["vectors-photo-1", "items-photo-1", "album.db"])
def test_a_file_that_is_cut_or_missing_is_named(tmp_path, kind, name):
    file = made(tmp_path / "album").folder / name
    if kind == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: -7 if kind == "cut" else 0])
    with pytest.raises((ValueError, FileNotFoundError), match=r"damaged|missing|no album|is of format 0") as refused:
        Album.open(tmp_path / "album")
    assert name in str(refused.value) or kind == "missing"


def test_a_large_album_that_was_found_whole_is_not_read_again_until_it_changes(tmp_path, monkeypatch):
    album = made(tmp_path / "album")
    monkeypatch.setattr("smoothap.album.store._LARGE", 1)
    checked = []
    check = growing.check
    monkeypatch.setattr(growing, "check", lambda *arguments: checked.append(arguments[2]) or check(*arguments))
    Album.open(album.folder)
    assert len(checked) == 2
    Album.open(album.folder).remove([3])  # what the writer leaves is known to be whole
    Album.open(album.folder)
    assert len(checked) == 2
    file = album.folder / "vectors-photo-1"
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match="vectors-photo-1 is damaged"):
        Album.open(album.folder)


def test_thumbnails_are_in_packs_and_empty_packs_go(tmp_path, monkeypatch):
    monkeypatch.setattr("smoothap.album.store._PACK", 30)
    album = made(tmp_path / "album", 1)
    for seed in range(6):
        add(album.store, [seed])
    packs = {file.name for file in album.folder.glob("thumbnails-*")}
    assert packs == {"thumbnails-1", "thumbnails-2"}
    album = album.reopened()
    assert [album.thumbnail(identity) for identity in range(1, 7)] == [b"picture %d" % seed for seed in range(6)]
    album.remove([1, 2, 3])
    for seed in range(20):  # until no reader can ask for the removed ones
        album.store.set(source=str(seed))
    with album.store.writing():
        album.store.compact(always=True)
    assert not (album.folder / "thumbnails-1").exists()
    Album.open(album.folder).verify()


def test_a_busy_database_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("smoothap.album.database._BUSY", 0.05)
    album = made(tmp_path / "album")
    connection = sqlite3.connect(album.folder / "album.db", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(FolderBusy, match="try again in a moment"):
        Album.open(album.folder)
    connection.close()
    assert len(Album.open(album.folder)) == 10


@pytest.mark.parametrize(
    ("kind", "folder", "name", "remedy"),
    [
        (FaceStore, "people", "people.db", "people ALBUM --forget"),
        (RegionStore, "regions", "regions.db", "Delete the folder regions"),
    ],
)
def test_a_file_that_nothing_came_to_be_in_is_refused_with_what_to_do(tmp_path, kind, folder, name, remedy):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / name).touch()  # the disk was full, or the writer was killed
    with pytest.raises(FileNotFoundError, match=f"is empty, as good as missing. .*{remedy}"):
        kind(tmp_path)


def test_an_album_in_a_folder_waits_for_the_disk_and_a_temporary_one_does_not(tmp_path):
    for folder, extra_or_off in ((tmp_path / "album", 3), (None, 0)):
        store = Store.create(folder, 4)
        with store.database.reading() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (extra_or_off,)
    for database in (FaceStore(tmp_path / "album", create=True), RegionStore(tmp_path / "album", create=True)):
        with database.database.reading() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (3,)


def test_records_of_many_ids_are_all_there(tmp_path):
    store = Store.create(tmp_path / "album", 8)
    with store.writing():
        store.add([new_record(f"{seed}.jpg") for seed in range(1_300)], vectors_of(range(1_300)), [None] * 1_300)
    wanted = list(range(1_299, -1, -2))
    assert sorted(record["id"] for record in store.records(wanted)) == sorted(wanted)
