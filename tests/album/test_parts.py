"""An album in parts: each is there whole or not at all, and together they are the album that one run makes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from photo_makers import photo_bytes, photo_folder
from smoothap.album.parts import PARTS, PartUpdate, Share
from smoothap.album.updating import labels_by_folder
from smoothap.album.walking import walk

from smoothap.album import Album, _part_work, updating
from smoothap.album.ingest import index_photos
from smoothap.album.joining import join_albums
from smoothap.models import Embedder

PARTS_OF = 3


@pytest.fixture
def odd_photos(photos):
    """Twelve photos, one more that cannot be read, and a name that is not UTF-8."""
    (photos / "broken.jpg").write_bytes(b"no image")
    (photos / os.fsdecode(b"\xff.png")).write_bytes(photo_bytes(50))
    return photos


def all_parts(photos, out, model, of=PARTS_OF, **options):
    return [
        index_photos(photos, out, model=str(model), part=f"{number}/{of}", progress=False, **options)
        for number in range(1, of + 1)
    ]


def content_of(album):
    """What an album holds, whatever the ids: by path the label, hash, size and thumbnail."""
    return {
        photo.path: (photo.label, photo.sha256, photo.modified, photo.width, album.thumbnail(photo.id))
        for photo in album.photos
    }


def assert_vectors_alike(album, other):
    """Each photo has the same vector in both; the last bits depend on how many were embedded at once."""
    rows = {path: row for row, path in enumerate(album.photos.paths())}
    mine = album.vectors[[rows[path] for path in other.photos.paths()]]
    assert np.allclose(mine, np.asarray(other.vectors), atol=1e-5)


def assert_alike(album, other):
    assert content_of(album) == content_of(other)
    assert_vectors_alike(album, other)


def test_every_photo_falls_to_one_part():
    paths = [f"folder{i % 7}/{i}.jpg" for i in range(1000)] + [os.fsdecode(b"\xff\xfe.png")]
    counts = [sum(Share(number, 8).holds(path) for path in paths) for number in range(1, 9)]
    assert sum(counts) == 1001
    assert min(counts) > 80
    assert Share.parse("3/64") == Share(3, 64)
    for text in ("0/4", "5/4", "3", "3/", "a/b", "-1/4", "1/0", "1/4/2"):
        with pytest.raises(ValueError, match=r"NUMBER/OF, such as 3/64|there is no part"):
            Share.parse(text)


def test_parts_one_by_one_are_the_album_of_one_run(odd_photos, tmp_path, model):
    whole = Album.create(tmp_path / "whole", model, odd_photos)
    whole.update(labels=labels_by_folder, progress=False)
    indexed = all_parts(odd_photos, tmp_path / "album", model, labels="folders")
    album = Album.open(tmp_path / "album")
    album.verify()
    assert_alike(album, whole)
    assert len(album) == 13
    given = {path.relative_to(odd_photos).as_posix() for path in odd_photos.rglob("*.*g")}
    listed = (tmp_path / "album" / "unreadable.csv").read_bytes().decode(errors="surrogateescape")
    assert listed.splitlines()[1].startswith("broken.jpg,")
    for number, (part, one) in enumerate(zip(album.parts, indexed, strict=True), start=1):
        mine = {path for path in given if Share(number, PARTS_OF).holds(path)}
        assert (part.name, part.given) == (f"{number}/{PARTS_OF}", len(mine))
        assert part.given == part.indexed + part.reported == one.report.seen
    assert sum(part.reported for part in album.parts) == 1
    assert not list((tmp_path / "album" / PARTS).glob("*-of-*"))
    assert album.update(progress=False).unchanged == 13  # a plain run finds nothing to do


def test_updating_touches_changed_parts_only(odd_photos, tmp_path, model, monkeypatch):
    all_parts(odd_photos, tmp_path / "album", model)
    before = Album.open(tmp_path / "album")
    ids = {photo.path: photo.id for photo in before.photos}
    files = {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in (tmp_path / "album").glob("*-*")}
    embedded, forward = [], Embedder.forward
    monkeypatch.setattr(Embedder, "forward", lambda self, views: embedded.append(len(views)) or forward(self, views))
    description = (tmp_path / "album" / "album.json").read_bytes()
    all_parts(odd_photos, tmp_path / "album", model)
    assert embedded == []
    assert (tmp_path / "album" / "album.json").read_bytes() == description
    assert {
        file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in (tmp_path / "album").glob("*-*")
    } == files
    mine = [path for path in ids if Share(2, PARTS_OF).holds(path)]
    (odd_photos / mine[0]).write_bytes(photo_bytes(900))
    (odd_photos / mine[1]).unlink()
    report = all_parts(odd_photos, tmp_path / "album", model)[1].report
    assert (report.changed, report.removed, sum(embedded)) == ([mine[0]], [mine[1]], 1)
    after = Album.open(tmp_path / "album")
    after.verify()
    del ids[mine[1]]
    assert {photo.path: photo.id for photo in after.photos} == ids
    others = [segment for segment in before._description.segments if segment.part != "2/3"]
    assert [segment for segment in after._description.segments if segment.part != "2/3"] == others
    for segment in others:
        name = f"vectors-{segment.number:06}.npy"
        assert (tmp_path / "album" / name).stat().st_ino == files[name][0]
    fresh = Album.create(tmp_path / "fresh", model, odd_photos)
    fresh.update(progress=False)
    assert_alike(after, fresh)


def test_a_part_that_was_stopped_is_not_there_and_goes_on(photos, tmp_path, model, monkeypatch):
    monkeypatch.setattr(updating, "BATCH", 1)
    monkeypatch.setattr(updating, "COMMIT_ROWS", 1)
    embedded, forward = [], Embedder.forward

    def fails(self, views):
        if len(embedded) == 3:
            raise KeyboardInterrupt
        embedded.append(len(views))
        return forward(self, views)

    monkeypatch.setattr(Embedder, "forward", fails)
    with pytest.raises(KeyboardInterrupt):
        index_photos(photos, tmp_path / "album", model=str(model), part="1/1", progress=False)
    assert len(Album.open(tmp_path / "album")) == 0
    assert Album.open(tmp_path / "album").parts == ()
    monkeypatch.setattr(Embedder, "forward", lambda self, views: embedded.append(len(views)) or forward(self, views))
    (photos / "class0/000.png").unlink()  # embedded, but gone before the part was whole
    index_photos(photos, tmp_path / "album", part="1/1", progress=False)
    album = Album.open(tmp_path / "album")
    assert len(album) == 11
    assert len(embedded) == 12
    fresh = Album.create(tmp_path / "fresh", model, photos)
    fresh.update(progress=False)
    assert_alike(album, fresh)


def test_photos_in_a_folder_that_cannot_be_read_stay_in_every_part(photos, tmp_path, model):
    all_parts(photos, tmp_path / "album", model)
    for number in range(1, PARTS_OF + 1):
        listing = walk(photos)
        listing.files = [file for file in listing.files if not file.path.startswith("class1/")]
        listing.unreadable["class1"] = "a folder that cannot be entered: permission denied"
        PartUpdate(
            tmp_path / "album", lambda: Embedder.load(model), photos, Share(number, PARTS_OF), listing, progress=False
        ).run()
    album = Album.open(tmp_path / "album")
    assert len(album) == 12
    assert sum(part.reported for part in album.parts) == 1


def test_a_disk_that_is_not_mounted_empties_no_part(photos, tmp_path, model):
    all_parts(photos, tmp_path / "album", model)
    shutil.rmtree(photos)
    photo_folder(photos, 0)
    (photos / "other").mkdir(parents=True)
    (photos / "other" / "x.png").write_bytes(photo_bytes(1))
    with pytest.raises(ValueError, match="is its disk not mounted"):
        all_parts(photos, tmp_path / "album", model)
    assert len(Album.open(tmp_path / "album")) == 12


def test_several_processes_make_the_album_of_one(odd_photos, tmp_path, model, monkeypatch):
    monkeypatch.setattr(_part_work, "PHOTOS_A_PART", 4)
    monkeypatch.setattr("smoothap.album._parallel_indexing.PHOTOS_A_PART", 4)
    indexed = index_photos(
        odd_photos, tmp_path / "album", model=str(model), labels="folders", processes=2, progress=False
    )
    whole = Album.create(tmp_path / "whole", model, odd_photos)
    report = whole.update(labels=labels_by_folder, progress=False)
    assert vars(indexed.report) == vars(report)
    album = Album.open(tmp_path / "album")
    assert_alike(album, whole)
    assert len(album._description.segments) == 1
    assert not list((tmp_path / "album" / PARTS).iterdir())
    (odd_photos / "class0/000.png").unlink()
    indexed = index_photos(odd_photos, tmp_path / "album", processes=2, progress=False)
    assert (indexed.report.removed, indexed.report.unchanged) == (["class0/000.png"], 12)


@pytest.mark.slow
@pytest.mark.alone
def test_kill_9_of_all_processes_loses_nothing(tmp_path, model):
    photos = photo_folder(tmp_path / "many", 300)
    command = [
        sys.executable, "-c",
        "import sys; from smoothap.album import _parallel_indexing as p, index_photos; p.PHOTOS_A_PART = 30;"
        "index_photos(sys.argv[1], sys.argv[2], model=sys.argv[3], processes=2, progress=False)",
        str(photos), str(tmp_path / "album"), str(model),
    ]  # fmt: skip
    victim = subprocess.Popen(command)
    while not (tmp_path / "album" / "album.json").exists() or not len(Album.open(tmp_path / "album")):
        assert victim.poll() is None
        time.sleep(0.05)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    there = set(Album.open(tmp_path / "album").photos.paths())
    assert 0 < len(there) < 300
    deadline = time.monotonic() + 60
    while _workers_of(tmp_path / "album") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _workers_of(tmp_path / "album")  # its processes end with it
    subprocess.run(command, check=True)
    album = Album.open(tmp_path / "album")
    album.verify()
    assert sorted(album.photos.paths()) == [file.path for file in walk(photos).files]
    assert not list((tmp_path / "album" / PARTS).iterdir())


def _workers_of(album: Path) -> list[str]:
    """Processes that hold a file of an album open: its locks."""
    found = []
    for process in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(process.readlink()).startswith(str(album)):
                found.append(str(process))
        except OSError:
            continue
    return found


def test_a_process_that_dies_is_a_sentence(photos, tmp_path, model, monkeypatch):
    monkeypatch.setattr("smoothap.album._parallel_indexing.sys.executable", shutil.which("false") or "/bin/false")
    with pytest.raises(RuntimeError, match=r"ended \(exit code 1\).*run this again"):
        index_photos(photos, tmp_path / "album", model=str(model), processes=2, progress=False)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        index_photos(photos, tmp_path / "album", processes=0)


def test_joined_albums_answer_as_one_and_share_their_files(tmp_path, model):
    root = tmp_path / "all"
    photo_folder(root / "one", 9)
    photo_folder(root / "two", 5)
    (root / "two" / "other.png").write_bytes(photo_bytes(77))
    (root / "two" / "broken.png").write_bytes(b"no image")
    for name in ("one", "two"):
        Album.create(tmp_path / name, model, root / name).update(labels=labels_by_folder, progress=False)
    changed = next(iter(sorted((root / "two").glob("class0/*.png"))))
    changed.write_bytes(photo_bytes(500))
    Album.open(tmp_path / "two").update(labels=labels_by_folder, progress=False)
    joined = join_albums([tmp_path / "one", tmp_path / "two"], tmp_path / "joined")
    assert (joined.photos, joined.twice) == (15, 0)
    album = Album.open(tmp_path / "joined")
    album.verify()
    whole = Album.create(tmp_path / "whole", model, root)
    whole.update(progress=False)
    wanted = {path: value[1:] for path, value in content_of(whole).items()}
    assert {path: value[1:] for path, value in content_of(album).items()} == wanted
    assert_vectors_alike(album, whole)
    assert album.photo(3) == Album.open(tmp_path / "one").photo(3).__class__(
        **{**vars(Album.open(tmp_path / "one").photo(3)), "path": "one/" + Album.open(tmp_path / "one").photo(3).path}
    )
    for kind in ("vectors-*.npy", "thumbnails-*.pack"):
        shared = {file.stat().st_ino for name in ("one", "two") for file in (tmp_path / name).glob(kind)}
        assert {file.stat().st_ino for file in (tmp_path / "joined").glob(kind)} <= shared
    query = root / "two" / "other.png"
    assert [(hit.path, hit.score) for hit in album.search(query, 5)] == [
        (hit.path, hit.score) for hit in whole.search(query, 5)
    ]
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "two")
    album.verify()
    assert album.update(progress=False).unchanged == 15


def test_a_photo_of_two_albums_is_joined_once(photos, tmp_path, model):
    for name in ("one", "two"):
        Album.create(tmp_path / name, model, photos).update(progress=False)
    (photos / "new.png").write_bytes(photo_bytes(60))
    Album.open(tmp_path / "two").update(progress=False)
    joined = join_albums([tmp_path / "one", tmp_path / "two"], tmp_path / "joined")
    assert (joined.photos, joined.twice) == (13, 12)
    album = Album.open(tmp_path / "joined")
    album.verify()
    assert sorted(album.photos.paths()) == sorted(Album.open(tmp_path / "two").photos.paths())
    (photos / "new.png").write_bytes(photo_bytes(61))
    Album.create(tmp_path / "three", model, photos).update(progress=False)
    with pytest.raises(ValueError, match=r"'new.png' is in two of the albums, with different contents"):
        join_albums([tmp_path / "two", tmp_path / "three"], tmp_path / "none")
    assert not (tmp_path / "none" / "album.json").exists()


def test_albums_that_cannot_be_joined_are_refused(album, photos, tmp_path, model, other_model):
    Album.create(tmp_path / "other", other_model, photos).update(progress=False)
    Album.create(tmp_path / "half", model, photos, dtype="float16").update(progress=False)
    Album.from_arrays(np.eye(8), path=tmp_path / "arrays")
    here = tmp_path / "album"
    for albums, sentence in (
        ([here], "at least two"),
        ([here, tmp_path / "other"], "different models"),
        ([here, tmp_path / "half"], "float32, the other in float16"),
        ([here, tmp_path / "arrays"], "different models"),
        ([here, tmp_path / "nowhere"], "no album"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=sentence):
            join_albums(albums, tmp_path / "joined")
    with pytest.raises(ValueError, match="already"):
        join_albums([here, tmp_path / "album"], here)
    assert len(album) == 12


def test_photos_of_a_table_and_their_columns_go_with_parts_and_processes(photos, tmp_path, model):
    rows = [f"photos/class{number % 3}/{number:03}.png,thing {number % 2},{number * 10}" for number in range(9)]
    table = tmp_path / "table.csv"
    table.write_text("path,label,price\n" + "\n".join(rows) + "\n", encoding="utf-8")
    for number in (1, 2):
        index_photos(table, tmp_path / "parts", model=str(model), part=f"{number}/2", progress=False)
    index_photos(table, tmp_path / "processes", model=str(model), processes=2, progress=False)
    for name in ("parts", "processes"):
        album = Album.open(tmp_path / name)
        said = {photo.path: (photo.label, photo.columns) for photo in album.photos}
        assert said == {
            f"photos/class{number % 3}/{number:03}.png": (f"thing {number % 2}", {"price": f"{number * 10}"})
            for number in range(9)
        }
    table.write_text(table.read_text().replace(",30\n", ",31\n"), encoding="utf-8")
    for number in (1, 2):
        index_photos(table, tmp_path / "parts", part=f"{number}/2", progress=False)
    changed = next(photo for photo in Album.open(tmp_path / "parts").photos if photo.path.endswith("003.png"))
    assert changed.columns == {"price": "31"}
