"""The log of collections in Milvus is summed up: at any moment all servers read what they read before."""

import itertools
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from smoothap.album.milvus_loading import load_album
from smoothap.album.milvus_server import MilvusAddress, MilvusServer
from test_milvus_albums import address, made  # noqa: F401 (a fixture)

from smoothap.album import Album, _milvus_kept

MANY = 4  # entries, which is enough to be summed up in these tests


@pytest.fixture
def album(address, tmp_path, monkeypatch):  # noqa: F811
    """An album in Milvus whose log soon becomes too long, by a clock that moves a minute at each glance.

    What is two minutes old is summed up.
    """
    made(tmp_path)
    load_album(tmp_path / "album", address)
    clock = itertools.count(_milvus_kept._now(), 60_000_000)
    monkeypatch.setattr(_milvus_kept, "_now", lambda: next(clock))
    monkeypatch.setattr(_milvus_kept, "_LATE", 60_000_000)
    monkeypatch.setattr(_milvus_kept, "_SUMMED_UP_FROM", MANY)
    monkeypatch.setattr(_milvus_kept, "_LONGEST", 200)  # characters, so that every summary has several rows
    monkeypatch.setattr(_milvus_kept, "_POLL", 0.0)
    return address


@pytest.fixture
def another(album, monkeypatch):
    """Opens the collections as another process does, which has read nothing yet."""

    def opened():
        with monkeypatch.context() as patched:
            patched.setattr(_milvus_kept, "_logs", {})
            return Album.open(album).collections

    return opened


def content(collections):
    read = collections._kept.read()
    return [(each.key, each.name, list(each.marks.items())) for each in read.collections], read.steps


def rows_of(collections):
    return collections._kept._rows()


def marked(collections, first, number):
    for photo in range(first, first + number):
        collections.mark("dogs", right=[photo], wrong=[599 - photo])


def test_a_long_log_becomes_short_and_says_the_same(another, tmp_path):
    here, one, other = Album.open(tmp_path / "album").collections, another(), another()
    for each in (here, one):
        each.add("cats", [3, 2, 1])
    assert content(other)
    for photo in range(20):
        for each in (here, one):
            each.mark("dogs", right=[photo], wrong=[599 - photo])
            if photo % 7 == 0:
                each.undo()
            if photo == 10:
                each.rename("cats", "birds")
    for each in (one, other, another()):
        assert {name: (it.right, it.wrong) for name, it in each.all().items()} == {
            name: (it.right, it.wrong) for name, it in here.all().items()
        }
        assert [step.what for step in each.steps()] == [step.what for step in here.steps()]
    assert one._kept.stamp() == other._kept.stamp() == another()._kept.stamp()
    entries = {row[_milvus_kept.OWN] for row in rows_of(one)}
    assert len(entries) < 2 * MANY + 4  # of the 25 that there were
    assert other.undo() == here.undo()


@pytest.mark.parametrize("most_rows", [16_384, 40])
def test_stopped_at_any_moment_nothing_is_lost_or_counted_twice(another, monkeypatch, most_rows):
    monkeypatch.setattr(_milvus_kept, "MOST_ROWS", most_rows)  # that come in one answer
    monkeypatch.setattr(_milvus_kept, "_DELETED_AT_ONCE", 4)
    ask, stopped, right = MilvusServer.ask, [], set()
    for stop in range(0, 20, 2):
        one, calls = another(), itertools.count()
        with monkeypatch.context() as patched:
            patched.setattr(_milvus_kept, "_SUMMED_UP_FROM", 1_000)
            marked(one, 10 * stop, MANY)
            one.undo()  # what is undone does not come back
            marked(one, 10 * stop + MANY, 2)
        wanted = content(another())

        def stopping(self, method, *arguments, calls=calls, stop=stop, **options):
            if method in ("upsert", "delete") and next(calls) == stop:
                stopped.append(method)
                raise KeyboardInterrupt
            return ask(self, method, *arguments, **options)

        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(MilvusServer, "ask", stopping)
            one._kept._sum_up()
        assert content(another()) == wanted
        marked(another(), 10 * stop + 9, 1)  # sums up, unless that was done but for the deleting
        right |= {10 * stop + photo for photo in (*range(MANY + 2), 9) if photo != MANY - 1}
        assert {*another()["dogs"].right} == right
    assert {*stopped} == {"upsert", "delete"}
    marked(another(), 200, 2 * MANY)  # nobody stops this one, and it deletes what others left
    assert {*another()["dogs"].right} == right | {*range(200, 200 + 2 * MANY)}
    assert len({row[_milvus_kept.OWN] for row in rows_of(one)}) < 2 * MANY + 4  # of the 80 that there were


def test_what_a_summary_stands_for_no_longer_counts(another):
    one = another()
    marked(one, 0, 2)
    before = rows_of(one)
    one.undo()
    marked(one, 2, MANY + 2)
    one._kept._server.ask("upsert", one._kept._name, [{**row, "vector": [1.0, 0.0]} for row in before])  # came back
    assert another()["dogs"].right == (0, *range(2, MANY + 4))


def test_two_who_sum_up_at_once_do_not_get_into_each_others_way(another, monkeypatch):
    one = another()
    with monkeypatch.context() as patched:
        patched.setattr(_milvus_kept, "_SUMMED_UP_FROM", 1_000)
        marked(one, 0, MANY + 4)
    other, ask, calls = another(), MilvusServer.ask, itertools.count()
    wanted = content(other)

    def other_in_between(self, method, *arguments, **options):
        answer = ask(self, method, *arguments, **options)
        if method == "upsert" and next(calls) == 1:  # half of the summary of the first is there
            with monkeypatch.context() as another_version:  # which divides its summary otherwise
                another_version.setattr(_milvus_kept, "_LONGEST", 130)
                other._kept._sum_up()
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(MilvusServer, "ask", other_in_between)
        one._kept._sum_up()
    assert content(one) == content(other) == content(another()) == wanted
    marked(other, 50, 1)
    assert content(one) == content(other) == content(another())


def test_who_slept_reads_by_a_summary_what_it_missed(another):
    sleeper, one = another(), another()
    one.add("cats", [1, 2, 3])
    assert content(sleeper)
    marked(one, 0, 12)
    assert content(sleeper) == content(one)
    assert sleeper._kept.stamp() == one._kept.stamp()


def test_a_mark_that_comes_after_its_time_was_summed_up_is_kept(another, monkeypatch):
    slow, one = another(), another()
    one.add("cats", [1, 2, 3])
    content(slow)
    ask, calls = MilvusServer.ask, itertools.count()

    def asleep(self, method, *arguments, **options):
        if method == "upsert" and not next(calls):  # the number of the entry is chosen, and an hour goes by
            marked(one, 0, 12)
        return ask(self, method, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(MilvusServer, "ask", asleep)
        slow.add("cats", [77])
    for each in (slow, one, another()):
        assert each["cats"].right == (1, 2, 3, 77)
        assert [step.what for step in each.steps()].count("kept 1 photo in cats") == 1


PROGRAM = """
import sys
from smoothap.album import Album, _milvus_kept
_milvus_kept._SUMMED_UP_FROM, _milvus_kept._LATE, _milvus_kept._LONGEST = 5, 1_000_000, 200
collections = Album.open(sys.argv[1]).collections
for photo in range(int(sys.argv[2]), int(sys.argv[3])):
    collections.mark("dogs", right=[photo])
    print(photo, flush=True)
"""


@pytest.mark.slow
def test_two_processes_of_which_one_dies_again_and_again_lose_no_mark(address, tmp_path):  # noqa: F811
    made(tmp_path)
    load_album(tmp_path / "album", address)
    Album.open(address).collections.create("dogs")
    told = tmp_path / "told"

    def started(first, last):
        with told.open("a") as out:
            command = [sys.executable, "-c", PROGRAM, address, str(first), str(last)]
            return subprocess.Popen(command, stdout=out)

    lasting = started(0, 200)
    for turn in range(6):
        dying = started(200 + 50 * turn, 250 + 50 * turn)
        time.sleep(3 + turn)
        dying.kill()
        dying.wait()
    lasting.kill()
    lasting.wait()
    answered = {int(line) for line in told.read_text().splitlines() if line}
    assert len(answered) > 20
    collections = Album.open(address).collections
    assert answered <= {*collections["dogs"].right}
    server = MilvusServer(MilvusAddress.parse(address))
    summaries = [row for row in rows_of(collections) if row["id"] >= _milvus_kept._SUMMARY]
    assert summaries, f"nothing was summed up: {server.count(collections._kept._name)} rows"
