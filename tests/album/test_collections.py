"""Collections: what is kept stays kept, through moves, new albums, other writers and kills, and can be undone."""

import os
import random
import shutil
import signal
import threading
import time

import numpy as np
import pytest
from guarantees import short_or_long

from smoothap.album import Album
from smoothap.album.collection_rows import STEPS_KEPT
from smoothap.album.collections import FILE
from smoothap.album.photos import NoSuchPhoto


def paths(album, ids):
    return [album.photo(identity).path for identity in ids]


def reopened(album):
    return Album.open(album.collections.folder.parent)


def test_what_is_kept_and_marked_is_there_when_the_album_is_opened_again(album):
    album.collections.add("my dog", [3, 1])
    album.collections.mark("my dog", right=[5], wrong=[2, 4])
    album.collections.create("empty")
    again = reopened(album).collections.all()
    assert list(again) == ["my dog", "empty"]
    assert (again["my dog"].right, again["my dog"].wrong) == ((3, 1, 5), (2, 4))
    assert (again["empty"].right, again["empty"].wrong, again["empty"].away) == ((), (), ())
    assert reopened(album).collections.counts() == {again["my dog"].key: (3, 2, 0)}


def test_a_mark_replaces_the_one_before_and_can_be_taken_away(album):
    album.collections.mark("dog", right=[1, 2], wrong=[3])
    assert album.collections.mark("dog", right=[3], wrong=[1]).right == (2, 3)
    seen = album.collections.remove("dog", [1, 2])
    assert (seen.right, seen.wrong) == ((3,), ())


def test_names_are_checked_and_what_is_not_there_is_named(album):
    with pytest.raises(ValueError, match="1 to 200 characters"):
        album.collections.create("  ")
    with pytest.raises(ValueError, match="cannot be seen"):
        album.collections.create("a\nb")
    album.collections.create(" Zoe\u0308 ")
    assert album.collections["Zo\u00eb"].name == "Zo\u00eb"
    with pytest.raises(ValueError, match="already"):
        album.collections.create("Zo\u00eb")
    with pytest.raises(ValueError, match="no collection 'dgo': there is 'Zo\u00eb'"):
        album.collections.remove("dgo", [1])
    with pytest.raises(NoSuchPhoto, match="no photo 99"):
        album.collections.add("dog", [1, 99])
    with pytest.raises(ValueError, match="two ways"):
        album.collections.mark("dog", right=[1], wrong=[1])
    assert list(album.collections.all()) == ["Zo\u00eb"]  # a call that fails changes nothing


def state(collections):
    return {name: (set(one.right), set(one.wrong), one.key) for name, one in collections.all().items()}


def test_every_step_can_be_undone_in_turn_by_another_process(album):
    collections, states = album.collections, []
    steps = [
        lambda: collections.add("dog", [1, 2]),
        lambda: collections.mark("dog", right=[3], wrong=[2]),
        lambda: collections.rename("dog", "Rex"),
        lambda: collections.remove("Rex", [1]),
        lambda: collections.put([("cat", [4, 5], []), ("Rex", [6], [7])], "imported"),
        lambda: collections.delete("Rex"),
    ]
    for step in steps:
        states.append(state(collections))
        step()
    for before in reversed(states):
        reopened(album).collections.undo()
        assert state(album.collections) == before
    with pytest.raises(ValueError, match="nothing to undo"):
        collections.undo()


def test_one_step_among_others_is_undone_and_what_came_later_stays(album):
    collections = album.collections
    collections.add("dog", [1, 2, 3])
    first = collections.steps()[0]
    collections.mark("dog", wrong=[2])
    collections.add("cat", [4])
    assert collections.undo(first.number) == "kept 3 photos in dog"
    assert (collections["dog"].right, collections["dog"].wrong) == ((), (2,))
    assert collections["cat"].right == (4,)
    with pytest.raises(ValueError, match="cannot be undone any more"):
        collections.undo(first.number)


def test_each_session_undoes_its_own_steps(album):
    one, other = (album.collections.of_session(name) for name in ("a", "b"))
    one.add("dog", [1, 2])
    other.add("dog", [3])
    one.mark("dog", wrong=[4])
    other.add("cat", [5])
    assert [step.what for step in one.steps()] == ["marked 1 photo as not in dog", "kept 2 photos in dog"]
    assert [one.undo(), one.undo()] == ["marked 1 photo as not in dog", "kept 2 photos in dog"]
    with pytest.raises(ValueError, match="There is nothing to undo"):
        one.undo()
    with pytest.raises(ValueError, match="cannot be undone any more"):
        one.undo(other.steps()[0].number)
    assert (album.collections["dog"].right, album.collections["cat"].right) == ((3,), (5,))
    assert reopened(album).collections.of_session("b").undo() == "kept 1 photo in cat"
    assert len(album.collections.steps()) == 1  # without a session, those of all
    assert album.collections.undo() == "kept 1 photo in dog"


def test_a_deleted_collection_comes_back_beside_a_new_one_of_its_name(album):
    album.collections.add("dog", [1])
    album.collections.delete("dog")
    deleted = album.collections.steps()[0].number
    album.collections.add("dog", [2])
    album.collections.undo(deleted)
    assert {name: one.right for name, one in album.collections.all().items()} == {"dog": (2,), "dog (2)": (1,)}


def test_what_is_done_already_is_no_step(album):
    album.collections.add("dog", [1, 2])
    before = album.collections.version
    album.collections.add("dog", [2, 1])
    album.collections.rename("dog", "dog")
    assert album.collections.version == before
    assert len(album.collections.steps()) == 1


def test_as_many_steps_are_kept_as_are_promised(album):
    for number in range(STEPS_KEPT + 5):
        album.collections.mark("dog", **{"right" if number % 2 == 0 else "wrong": [1]})
    assert len(album.collections.steps()) == STEPS_KEPT


def test_a_moved_photo_stays_and_is_known_when_it_is_edited_later(album, photos):
    album.collections.mark("dog", right=[0, 3], wrong=[6])
    kept = paths(album, [0, 3, 6])
    (photos / "elsewhere").mkdir()
    (photos / kept[0]).rename(photos / "elsewhere" / "moved.png")
    album.update(progress=False)
    assert paths(album, album.collections["dog"].right) == ["elsewhere/moved.png", kept[1]]
    content = (photos / "class1" / "001.png").read_bytes()
    (photos / "elsewhere" / "moved.png").write_bytes(content + b" ")  # bytes behind the picture: a tag
    album.update(progress=False)
    assert paths(album, album.collections["dog"].right) == ["elsewhere/moved.png", kept[1]]


def test_a_photo_that_left_the_album_comes_back_with_its_file(album, photos):
    album.collections.add("dog", [0, 3])
    kept = paths(album, [0, 3])
    album.remove([0])
    assert (album.collections["dog"].right, album.collections["dog"].away) == ((3,), (kept[0],))
    album.collections.mark("dog", wrong=[1])
    album.update(progress=False)
    assert paths(album, album.collections["dog"].right) == kept
    assert album.collections["dog"].away == ()


def test_collections_go_over_to_an_album_that_is_made_again(tmp_path, album, photos, other_model):
    album.collections.mark("dog", right=[4, 7], wrong=[2])
    kept, wrong = paths(album, [4, 7]), paths(album, [2])
    (photos / "class0" / "000a.png").write_bytes((photos / "class1" / "001.png").read_bytes())  # all ids move by one
    new = Album.create(tmp_path / "new", other_model, photos)
    shutil.copytree(album.collections.folder, new.collections.folder)
    new.update(progress=False)
    seen = new.collections["dog"]
    assert seen.right != (4, 7)
    assert (paths(new, seen.right), paths(new, seen.wrong)) == (kept, wrong)


FOUND = {  # two photos of one content that were kept, the album made again, and what is then kept
    "other ids": ([("b", "aa"), ("a", "aa")], {"a", "b"}),
    "a copy that is gone is not its twin": ([("a", "aa"), ("x", "bb")], {"a"}),
    "moved, and another photo took its place": ([("x", "aa"), ("a", "cc")], {"x"}),
    "both edited": ([("a", "cc"), ("b", "dd")], {"a", "b"}),
    "content that nobody has read": ([("a", ""), ("x", "aa")], {"a", "x"}),
    "both gone": ([("x", "cc"), ("y", "")], set()),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_member_is_known_by_path_and_content_and_no_photo_is_two_members(tmp_path, case):
    def made(rows):
        metadata = [{"path": path, "sha256": content} for path, content in rows]
        return Album.from_arrays(np.eye(len(rows)), metadata, tmp_path / "album")

    made([("a", "aa"), ("b", "aa"), ("other", "ee")]).collections.mark("dog", right=[0, 1])
    rows, wanted = FOUND[case]
    shutil.move(tmp_path / "album" / "collections", tmp_path / "kept")
    shutil.rmtree(tmp_path / "album")
    album = made(rows)
    shutil.move(tmp_path / "kept", tmp_path / "album" / "collections")
    seen = album.collections["dog"]
    assert len(seen.right) == len(wanted)
    assert {album.photo(identity).path for identity in seen.right} == wanted
    assert len(seen.right) + len(seen.away) == 2
    # Back to the album of before: what was away is there again.
    shutil.move(tmp_path / "album" / "collections", tmp_path / "kept")
    shutil.rmtree(tmp_path / "album")
    again = made([("a", "aa"), ("b", "aa")])
    shutil.move(tmp_path / "kept", tmp_path / "album" / "collections")
    if case not in ("both edited", "moved, and another photo took its place"):
        assert set(again.collections["dog"].right) == {0, 1}


def test_what_is_undone_after_photos_moved_and_came_back_is_what_was_done(album, photos):
    album.collections.mark("dog", right=[0, 1], wrong=[2])
    before = paths(album, [0, 1])
    (photos / before[0]).rename(photos / "moved.png")
    album.update(progress=False)
    album.collections.delete("dog")
    album.remove([album.photos.id_of(before[1])])
    album.collections.undo()
    assert paths(album, album.collections["dog"].right) == ["moved.png"]
    assert album.collections["dog"].away == (before[1],)
    album.update(progress=False)
    assert paths(album, album.collections["dog"].right) == ["moved.png", before[1]]
    assert album.collections.undo() == "kept 2 photos in dog, marked 1 photo as not in dog"
    assert album.collections.all() == {}


def test_a_file_name_that_is_no_utf_8_is_remembered(album, photos):
    name = os.fsdecode(b"\xff\xfe.png")
    (photos / name).write_bytes((photos / "class0" / "000.png").read_bytes() + b"1")
    album.update(progress=False)
    new = next(photo.id for photo in album.photos if photo.path == name)
    album.collections.add("odd", [new])
    assert paths(album, reopened(album).collections["odd"].right) == [name]


def test_a_damaged_file_is_refused_with_a_remedy_and_the_album_still_searches(album):
    album.collections.add("dog", [1])
    file = album.collections.folder / FILE
    file.write_bytes(file.read_bytes().replace(b"dog", b"cat"))
    opened = reopened(album)
    for read in (opened.collections.all, lambda: opened.collections.add("dog", [2]), opened.verify):
        with pytest.raises(ValueError, match=r"collections\.db is damaged .*move it away to begin with no collections"):
            read()
    assert opened.search(0, k=3)
    file.unlink()
    assert opened.collections.add("cat", [2]).right == (2,)


def test_an_album_in_memory_has_none():
    with pytest.raises(ValueError, match="This album is temporary"):
        Album.from_arrays(np.eye(3)).collections  # noqa: B018


def forked(work, *given):
    """The number of a process of its own that does some work, which needs nothing but SQLite."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(*given)
            code = 0
        finally:
            os._exit(code)
    return child


def write_in_two_threads(folder, first, rounds):
    def work(start):
        collections = Album.open(folder).collections
        for number in range(rounds):
            collections.add(f"own {start}", [number])
            collections.add("shared", [start + number])

    threads = [threading.Thread(target=work, args=(first + rounds * place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def add_without_end(folder, told):
    collections = Album.open(folder).collections
    number = len(collections["dog"].right)
    os.write(told, b"ready\n")
    while True:
        collections.add("dog", [number])
        os.write(told, b"%d\n" % number)
        number += 1


def big_album(folder, photos):
    rows = np.random.default_rng(0).normal(size=(photos, 4)).astype(np.float32)
    metadata = [{"path": f"{row}.jpg", "sha256": f"{row:064x}"} for row in range(photos)]
    return Album.from_arrays(rows, metadata, folder)


def test_two_processes_of_two_threads_that_write_at_once_lose_nothing(tmp_path):
    rounds = 15
    album = big_album(tmp_path / "album", 4 * rounds)
    writers = [forked(write_in_two_threads, album.folder, first, rounds) for first in (0, 2 * rounds)]
    assert [os.waitpid(writer, 0)[1] for writer in writers] == [0, 0]
    seen = album.collections.all()
    assert set(seen["shared"].right) == set(range(4 * rounds))
    assert all(seen[f"own {start}"].right == tuple(range(rounds)) for start in range(0, 4 * rounds, rounds))


def test_a_kill_at_any_moment_leaves_the_old_or_the_new(tmp_path):
    album = big_album(tmp_path / "album", 20_000)
    album.collections.create("dog")
    album.collections.mark("ballast", right=range(10_000))  # so that a write takes a while
    choose, before = random.Random(0), 0
    for _ in range(short_or_long(2, 40)):
        reads, writes = os.pipe()
        victim = forked(add_without_end, album.folder, writes)
        os.close(writes)
        with os.fdopen(reads) as lines:
            assert lines.readline() == "ready\n"
            time.sleep(choose.uniform(0, 0.4))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            told = [int(line) for line in lines]
        seen = album.collections["dog"].right
        assert seen == tuple(range(len(seen)))
        least = told[-1] + 1 if told else before
        assert len(seen) in (least, least + 1)
        before = len(seen)
    album.collections.add("dog", [19_999])  # the lock of the dead is no obstacle
    assert [file.name for file in album.collections.folder.iterdir()] == [FILE]
    Album.open(album.folder).verify()
