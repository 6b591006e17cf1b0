"""Milvus as an engine: pushed, searched without local vectors, brought up to date; embedded and on a real server."""

import shutil
import uuid
from dataclasses import asdict, replace
from datetime import date

import numpy as np
import pytest
from milvus_servers import EVERY_MILVUS, address_of

from smoothap.album import Album, Filter
from smoothap.album.engines.milvus import MilvusUnavailable, breadth, current_collection, expressed, read_state
from smoothap.album.engines.milvus_push import index_of, push
from smoothap.album.engines.milvus_server import MilvusAddress, MilvusServer
from smoothap.album.photos import new_record
from smoothap.album.projection import Projection
from smoothap.album.search import VectorQuery
from smoothap.album.vectors import unit_vectors

ROWS = 600
NOBODY = np.empty(0, np.int64)


def vectors_of(rows=ROWS, seed=0):
    random = np.random.default_rng(seed)
    return np.repeat(random.standard_normal((rows // 20, 24)), 20, axis=0) + 0.5 * random.standard_normal((rows, 24))


def facts_of(rows=ROWS):
    return [
        {"path": f"f{row % 7}/sub/{row}.jpg", "label": str(row // 20), "taken": f"{2000 + row % 20}-05-01",
         "camera": ("one", "other")[row % 2], "columns": {"brand": "ab"[row % 2]}}
        for row in range(rows)
    ]  # fmt: skip


@pytest.fixture(params=EVERY_MILVUS)
def address(request, monkeypatch):
    """A name of its own for each test, taken away afterwards."""
    monkeypatch.setattr("smoothap.album.engines.milvus_push._LINGER", 0.0)
    place = MilvusAddress.parse(f"{address_of(request, request.param)}/t{uuid.uuid4().hex[:12]}")
    yield str(place)
    server = MilvusServer(place)
    if server.behind(place.name) is not None:
        server.ask("drop_alias", place.name)
    for name in server.ask("list_collections"):
        if name.startswith(place.name):
            server.ask("drop_collection", name)


@pytest.fixture
def few(monkeypatch):
    """So few photos that the index is asked even in a small album."""
    monkeypatch.setattr("smoothap.album.engines.milvus.FEW", 30)
    monkeypatch.setattr("smoothap.album.engines.milvus.SEEN", 100)


@pytest.fixture
def here(tmp_path):
    return Album.from_arrays(vectors_of(), facts_of(), path=tmp_path / "album")


def opened(album, address):
    """The album with nothing local but what it has beside its vectors."""
    folder = album.folder.parent / f"bare-{uuid.uuid4().hex[:6]}"
    shutil.copytree(album.folder, folder)
    for pattern in ("vectors-*", "items-*", "learnt-*"):
        for file in folder.glob(pattern):
            file.unlink()
    return Album.open(folder, engine=address)


def answers(hits):
    return [asdict(hit) for hit in hits]


def messages(monkeypatch, before=lambda number: None):
    """The ids in each message of photos that is sent; `before` is told how many there were."""
    monkeypatch.setattr("smoothap.album.engines.milvus_push._BYTES_AT_ONCE", 60_000)  # a hundred photos in a message
    ask, sent = MilvusServer.ask, []

    def watched(self, method, *arguments, **options):
        if method == "upsert" and arguments[1][0]["id"] >= 0:
            before(len(sent))
            sent.append([row["id"] for row in arguments[1]])
        return ask(self, method, *arguments, **options)

    monkeypatch.setattr(MilvusServer, "ask", watched)
    return sent


def test_what_is_found_in_milvus_is_what_is_found_here_to_the_last_bit(address, here, few):
    done = push(here, address)
    assert (done.photos, done.sent, done.removed) == (ROWS, ROWS, 0)
    assert done.recall >= 0.95
    there = opened(here, address)
    assert there.searching.name == "milvus"
    for query in (5, 599, np.random.default_rng(1).standard_normal(24).astype(np.float32), [3, 4]):
        for options in ({}, {"expand": 3}, {"right": [40, 41], "wrong": [7, 80]}):
            assert answers(there.search(query, 10, **options, rerank=False)) == answers(
                here.search(query, 10, **options, rerank=False)
            )
    found = there.search(5, min_score=0.5, rerank=False)
    assert answers(found) == answers(here.search(5, min_score=0.5, rerank=False))
    assert "may miss a few" in found.note
    best = there.search(5, everything=True, rerank=False)
    assert answers(best) == answers(here.search(5, everything=True, rerank=False))[:100]
    assert best.note == "The best 100 of 599 photos are ranked, by HNSW."
    assert not there.ranking(here.vectors[5]).complete


def test_a_small_album_is_compared_whole(address, here):
    push(here, address)
    there = opened(here, address)
    assert answers(there.search(5, everything=True, rerank=False)) == answers(
        here.search(5, everything=True, rerank=False)
    )
    assert answers(there.search(5, min_score=-1.0, rerank=False)) == answers(
        here.search(5, min_score=-1.0, rerank=False)
    )
    assert there.ranking(here.vectors[5]).complete


def test_vectors_are_fetched_as_an_array_gives_them(address, here):
    push(here, address)
    vectors = opened(here, address).vectors
    assert vectors.shape == (ROWS, 24)
    for rows in (7, -1, slice(3, 9), np.array([8, 2, 8]), np.arange(ROWS) % 3 == 0, NOBODY):
        assert np.array_equal(vectors[rows], here.vectors[rows])
    assert np.array_equal(np.asarray(vectors), here.vectors[:])
    with pytest.raises(IndexError):
        vectors[ROWS]


def test_filters_choose_the_same_photos_as_here(address, here, few):
    push(here, address)
    here.collections.add("kept", range(0, ROWS, 5))
    there = opened(here, address)
    for where in (
        Filter(folder="f3"),
        Filter(folder="f3/sub", camera="ONE"),
        Filter(since=date(2003, 1, 1), until=date(2006, 12, 31)),
        Filter(until=date(2006, 12, 31), columns=(("label", "3"),)),
        Filter(columns=(("brand", "b"),), folder="f1", until=date(2001, 1, 1)),
        Filter(collection="kept"),
        Filter(in_no_collection=True, camera="other"),
    ):
        assert answers(there.search(5, 25, where=where, rerank=False)) == answers(
            here.search(5, 25, where=where, rerank=False)
        )
        assert answers(there.search(5, min_score=0.0, where=where, rerank=False)) == answers(
            here.search(5, min_score=0.0, where=where, rerank=False)
        )
    with pytest.raises(ValueError, match="No photo of the album is in the folder"):
        there.search(5, where=Filter(folder="nowhere"), rerank=False)


def test_filters_and_exclusions_beyond_what_milvus_gives_at_once(address, tmp_path):
    rows = 20_000
    vectors = unit_vectors(vectors_of(rows))
    here = Album.from_arrays(vectors, path=tmp_path / "many", engine="exact")
    push(here, address)
    there = opened(here, address)
    order = np.argsort(-(vectors @ vectors[0]))
    half, far = np.zeros((2, rows), bool)
    half[::2] = far[order[-17_000:]] = True
    for query in (
        VectorQuery(vectors[0], np.sort(order[:12_000])),
        VectorQuery(vectors[0], np.sort(order[:17_000])),
        VectorQuery(vectors[0], NOBODY, half),
        VectorQuery(vectors[0], np.sort(order[:10_000]), half),
        VectorQuery(vectors[0], NOBODY, far),
    ):
        found, wanted = (album.searching.nearest(query, 10) for album in (there, here))
        assert np.array_equal(found.rows, wanted.rows)
        assert np.array_equal(found.scores, wanted.scores)
    wanted = here.searching.above(VectorQuery(vectors[0], NOBODY), -0.3)
    assert len(wanted.rows) > 16_384
    assert np.array_equal(there.searching.above(VectorQuery(vectors[0], NOBODY), -0.3).rows, wanted.rows)


def test_the_next_push_sends_only_what_changed(address, here, few, monkeypatch):
    push(here, address)
    assert push(here, address).sent == 0
    before = opened(here, address)
    here.remove([3, 4, 5])
    with here.store.writing():
        records = [{**new_record("f5/sub/40.jpg"), "id": 40}, new_record("new/600.jpg", label="new")]
        here.store.add(records, unit_vectors(vectors_of(20, seed=9))[:2])  # one that changed, and one that is new
        here.store.revise({50: {"label": "other"}})
        here.store.compact(always=True)  # the same vectors in other slots
    here = here.reopened()
    with pytest.raises(ValueError, match=r"version .* push it again: smoothap album push ALBUM milvus"):
        opened(here, address)
    assert 3 in {hit.id for hit in before.search(6, 20, rerank=False)}  # whoever began with the old one goes on with it
    sent = messages(monkeypatch)
    done = push(here, address)
    assert (done.sent, done.removed, done.photos) == (3, 3, ROWS - 2)
    assert sorted(identity for ids in sent for identity in ids) == [40, 50, ROWS]
    there = opened(here, address)
    for query in (40, 600, 41, 6):
        assert answers(there.search(query, 10, rerank=False)) == answers(here.search(query, 10, rerank=False))
    where = Filter(columns=(("label", "other"),))
    assert [hit.id for hit in there.search(6, 10, where=where, rerank=False)] == [50]
    assert np.array_equal(there.vectors[:], here.vectors[:])
    server = MilvusServer(MilvusAddress.parse(address))
    assert server.count(current_collection(server)) == ROWS - 2 + 1  # what was removed is gone


def test_an_album_that_was_put_back_to_an_earlier_state_is_pushed(address, here):
    shutil.copytree(here.folder, here.folder.parent / "earlier")
    with here.store.writing():
        here.store.add([new_record("new/600.jpg")], unit_vectors(vectors_of(20, seed=9))[:1])
    push(here, address)
    earlier = Album.open(here.folder.parent / "earlier")
    assert push(earlier, address).removed == 1
    assert np.array_equal(opened(earlier, address).vectors[:], earlier.vectors[:])


def test_an_album_that_has_learnt_goes_into_a_collection_of_its_own(address, here, few):
    push(here, address)
    server = MilvusServer(MilvusAddress.parse(address))
    first = current_collection(server)
    weights = np.random.default_rng(3).standard_normal((8, 25)).astype(np.float32)
    learnt = {"dimension": 8, "photos": 1, "collections": 1, "gain": (0.0, 0.0, 0.0)}
    with here.store.writing():
        here.store.learn(Projection.from_array(weights), learnt, None)
    here = here.reopened()
    assert push(here, address).recall >= 0.95
    there = opened(here, address)
    assert there.vectors.shape == (ROWS, 8)
    assert answers(there.search(5, 10, rerank=False)) == answers(here.search(5, 10, rerank=False))
    assert current_collection(server) != first
    assert not server.has(first)


def test_a_push_that_was_stopped_goes_on_and_nobody_saw_it(address, here, monkeypatch):
    stop = [3]

    def stopped(number):
        if number in stop:
            raise KeyboardInterrupt

    sent = messages(monkeypatch, stopped)
    with pytest.raises(KeyboardInterrupt):
        push(here, address, connections=1)
    with pytest.raises(FileNotFoundError, match="smoothap album push"):
        opened(here, address)
    first = len(sent)
    stop.clear()
    assert push(here, address, connections=1).photos == ROWS
    assert sorted(number for ids in sent for number in ids) == list(range(ROWS))  # nothing went twice
    assert 0 < first < len(sent)
    with here.store.writing():
        here.store.revise({row: {"label": "new"} for row in range(ROWS)})
    stop.append(len(sent) + 2)
    with pytest.raises(KeyboardInterrupt):
        push(here, address, connections=1)
    with pytest.raises(ValueError, match="under way, or was stopped"):
        opened(here, address)
    stop.clear()
    assert 0 < push(here, address, connections=1).sent < ROWS
    assert answers(opened(here, address).search(5, 10, rerank=False)) == answers(
        here.reopened().search(5, 10, rerank=False)
    )


def test_two_pushes_at_once_are_noticed(address, here, monkeypatch):
    push(here, address)
    shutil.copytree(here.folder, here.folder.parent / "copy")
    copy = Album.open(here.folder.parent / "copy")
    for album, label in ((here, "one"), (copy, "two")):
        with album.store.writing():
            album.store.revise({row: {"label": label} for row in range(ROWS)})
    started = []

    def second(number):
        if number == 2 and not started:
            started.append(number)
            push(copy, address, connections=1)

    messages(monkeypatch, second)
    with pytest.raises(ValueError, match=r"Another push .* came in between"):
        push(here, address, connections=1)
    for album in (here, copy):
        with pytest.raises(ValueError, match="under way, or was stopped"):
            opened(album, address)
    assert push(here, address).sent
    assert len(opened(here, address)) == ROWS


def test_somebody_elses_collection_is_never_touched(address, here):
    place = MilvusAddress.parse(address)
    server = MilvusServer(place)
    server.ask("create_collection", place.name, dimension=4)
    server.ask("insert", place.name, [{"id": 1, "vector": [1.0, 0, 0, 0]}])
    for attempt in (lambda: push(here, address), lambda: opened(here, address)):
        with pytest.raises(ValueError, match="somebody else"):
            attempt()
    assert server.count(place.name) == 1
    server.ask("drop_collection", place.name)
    server.ask("create_collection", f"{place.name}_other", dimension=4)
    server.ask("create_alias", f"{place.name}_other", place.name)
    with pytest.raises(ValueError, match="somebody else"):
        push(here, address)
    server.ask("drop_alias", place.name)
    push(here, address)
    ours = current_collection(server)
    server.ask("drop_alias", place.name)
    server.ask("drop_collection", ours)
    server.ask("create_collection", ours, dimension=4)  # under the name that we would take
    with pytest.raises(ValueError, match="somebody else"):
        push(here, address)
    assert server.has(ours)


def test_another_album_does_not_take_the_place_of_one_unasked(address, here, tmp_path):
    push(here, address)
    other = Album.from_arrays(np.eye(24), path=tmp_path / "other")
    with pytest.raises(ValueError, match="--replace"):
        push(other, address)
    with pytest.raises(ValueError, match="holds another album"):
        opened(other, address)
    assert len(opened(here, address)) == ROWS
    assert push(other, address, replace_all=True).photos == 24
    assert len(opened(other, address)) == 24


def test_an_index_that_finds_too_little_is_not_shown_to_anybody(address, here, monkeypatch):
    search = "smoothap.album.engines.milvus.MilvusSearch.candidates"
    monkeypatch.setattr(search, lambda self, *_: np.arange(20))
    with pytest.raises(ValueError, match="nothing was switched"):
        push(here, address)
    with pytest.raises(FileNotFoundError):
        opened(here, address)


def test_codes_find_what_a_graph_finds(address, tmp_path, few, monkeypatch):
    server = MilvusServer(MilvusAddress.parse(address))
    if "milvus_lite" in str(server.ask("get_server_version")):
        pytest.skip("the embedded engine has no codes")
    monkeypatch.setattr("smoothap.album.engines.milvus_push._LEAST_FOR_CODES", 1_000)
    rows = 3_000  # a segment of fewer than 1,024 is not indexed at all
    here = Album.from_arrays(vectors_of(rows), facts_of(rows), path=tmp_path / "codes")
    assert push(here, address, index="ivf_pq").index == "IVF_PQ"
    assert server.ask("describe_index", current_collection(server), "vector")["index_type"] == "IVF_PQ"
    there = opened(here, address)
    found = [
        answers(there.search(query, 10, rerank=False)) == answers(here.search(query, 10, rerank=False))
        for query in range(0, rows, 100)
    ]
    assert np.mean(found) >= 0.9


def test_an_album_searched_in_milvus_is_changed_in_its_folder(address, here):
    push(here, address)
    there = opened(here, address)
    there.verify()
    there.collections.add("dogs", [5, 6])  # kept in the folder, as always
    assert there.collections["dogs"].right == (5, 6)
    for change in (lambda: there.remove([1]), there.unlearn, lambda: push(there, address)):
        with pytest.raises(ValueError, match="pushed again"):
            change()


def test_vectors_that_are_gone_and_other_dimensions_are_told(address, here):
    push(here, address)
    server = MilvusServer(MilvusAddress.parse(address))
    collection = current_collection(server)
    there = opened(here, address)
    server.ask("delete", collection, ids=[7])
    server.count(collection)  # with all that was written
    with pytest.raises(ValueError, match="no vector of photo 7"):
        there.vectors[7]
    assert push(here, address).sent == 1  # the count says that it is not up to date
    state = read_state(server, collection)
    replace(state, version=state.version + 1).write(server, collection)
    with pytest.raises(ValueError, match=r"holds version .* \(24 dimensions\)"):
        opened(here, address)


def test_a_server_that_is_away_is_told_in_a_sentence(here):
    pytest.importorskip("pymilvus")
    with pytest.raises(MilvusUnavailable, match="does not answer"):
        opened(here, "milvus://127.0.0.1:9/one")


@pytest.mark.parametrize(
    "text", ["milvus://", "milvus://host:99999/a", "milvus://host/a b", "milvus://host/1a", "http://host/a"]
)
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"(?i)milvus"):
        MilvusAddress.parse(text)


def test_a_filter_that_cannot_be_said_lets_all_pass(here):
    assert expressed(Filter(folder='a"b'), here.photos) == ("", False)
    assert expressed(Filter(columns=(("brand", "ü"), ("label", "x"))), here.photos) == ('label == "x"', False)
    assert expressed(Filter(camera="one"), here.photos) == ('camera in ["one"]', True)


def test_a_segment_has_no_more_cells_than_its_vectors_need_however_many_segments_there_are():
    assert index_of("IVF_PQ", 40_000, 512) == ("IVF_PQ", {"nlist": 800, "m": 64, "nbits": 8})
    assert index_of("IVF_PQ", 10**9, 512) == ("IVF_PQ", {"nlist": 1024, "m": 64, "nbits": 8})


def test_several_graphs_are_searched_half_as_broadly_and_none_for_fewer_than_are_wanted():
    for shape in ((100_000, 512), (1_000_000, 128)):
        assert [breadth(limit, shape) for limit in (26, 116, 16_384)] == [128, 232, 32_768]
    assert [breadth(limit, (1_000_000, 512)) for limit in (26, 116, 16_384)] == [64, 116, 16_384]
