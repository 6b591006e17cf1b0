"""Albums that live in Milvus: loaded, searched without local vectors, brought up to date; embedded and on a server."""

import shutil
import uuid
from dataclasses import asdict
from datetime import date

import numpy as np
import pytest
from milvus_servers import EVERY_MILVUS, address_of
from smoothap.album._milvus_layout import drop_piece, numbers_of, piece_name
from smoothap.album._milvus_vectors import breadth
from smoothap.album.milvus_loading import index_of, load_album
from smoothap.album.milvus_server import MilvusAddress, MilvusServer, MilvusUnavailable

from smoothap.album import Album, Filter

ROWS = 600


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
def address(request):
    """A name of its own for each test, taken away afterwards."""
    place = MilvusAddress.parse(f"{address_of(request, request.param)}/t{uuid.uuid4().hex[:12]}")
    yield str(place)
    server = MilvusServer(place)
    if (behind := server.behind(place.name)) is not None:
        server.ask("drop_alias", place.name)
        assert behind
    for name in server.ask("list_collections"):
        if name.startswith(place.name):
            server.ask("drop_collection", name)


@pytest.fixture
def few(monkeypatch):
    """So few photos that the index is asked even in a small album."""
    monkeypatch.setattr("smoothap.album._milvus_vectors.FEW", 30)
    monkeypatch.setattr("smoothap.album._milvus_vectors.SEEN", 100)


def made(tmp_path, **options):
    return Album.from_arrays(vectors_of(), facts_of(), path=tmp_path / "album", **options)


def answers(hits):
    return [asdict(hit) for hit in hits]


def test_what_is_found_in_milvus_is_what_is_found_here_to_the_last_bit(address, tmp_path, few):
    here = made(tmp_path)
    loaded = load_album(tmp_path / "album", address)
    assert (loaded.photos, loaded.sent, loaded.removed) == (ROWS, ROWS, 0)
    assert loaded.recall is not None
    assert loaded.recall >= 0.95
    shutil.rmtree(tmp_path / "album")  # no vectors are left here
    there = Album.open(address)
    random = np.random.default_rng(1)
    questions = [5, 599, random.standard_normal(24).astype(np.float32), [3, 4]]
    for query in questions:
        assert answers(there.search(query, 10)) == answers(here.search(query, 10))
        assert answers(there.search(query, expand=3)) == answers(here.search(query, expand=3))
        marked = {"right": [40, 41], "wrong": [7, 80]}
        assert answers(there.search(query, 10, **marked)) == answers(here.search(query, 10, **marked))
        assert answers(there.search(query, everything=True)) == answers(here.search(query, everything=True))
    found = there.search(5, minimum=0.5)
    assert answers(found) == answers(here.search(5, minimum=0.5))
    assert "may miss a few" in found.note
    assert there.search(5, everything=True).note == ""


def test_codes_find_what_a_graph_finds(address, tmp_path, few, monkeypatch):
    if "milvus_lite" in str(MilvusServer(MilvusAddress.parse(address)).ask("get_server_version")):
        pytest.skip("the embedded engine has no codes")
    monkeypatch.setattr("smoothap.album.milvus_loading._LEAST_FOR_CODES", 1_000)
    rows = 3_000  # a segment of fewer than 1,024 is not indexed at all
    here = Album.from_arrays(vectors_of(rows), facts_of(rows), path=tmp_path / "album")
    loaded = load_album(tmp_path / "album", address, index="ivf_pq")
    assert loaded.index == "IVF_PQ"
    there = Album.open(address)
    server = MilvusServer(MilvusAddress.parse(address))
    described = server.ask("describe_index", server.behind(server.address.name), "vector")
    assert described["index_type"] == "IVF_PQ"
    found = [answers(there.search(query, 10)) == answers(here.search(query, 10)) for query in range(0, rows, 100)]
    assert np.mean(found) >= 0.9


def test_a_segment_has_no_more_cells_than_its_vectors_need_however_many_segments_there_are():
    assert index_of("IVF_PQ", 40_000, 512) == ("IVF_PQ", {"nlist": 800, "m": 64, "nbits": 8})
    assert index_of("IVF_PQ", 10**9, 512) == ("IVF_PQ", {"nlist": 1024, "m": 64, "nbits": 8})


def test_filters_choose_the_same_photos_as_in_a_folder(address, tmp_path, few):
    here = made(tmp_path)
    load_album(tmp_path / "album", address)
    there = Album.open(address)
    for where in (
        Filter(folder="f3"),
        Filter(folder="f3/sub", camera="one"),
        Filter(since=date(2003, 1, 1), until=date(2006, 12, 31)),
        Filter(columns=(("brand", "a"),)),
        Filter(columns=(("brand", "b"),), folder="f1", until=date(2001, 1, 1)),
    ):
        assert answers(there.search(5, 25, where=where)) == answers(here.search(5, 25, where=where))
        assert answers(there.search(5, minimum=0.0, where=where)) == answers(here.search(5, minimum=0.0, where=where))
    with pytest.raises(ValueError, match="No photo of the album is in the folder"):
        there.search(5, where=Filter(folder="nowhere"))


def test_the_next_load_sends_only_what_changed_and_readers_take_it_up(address, tmp_path, few):
    here = made(tmp_path)
    load_album(tmp_path / "album", address)
    before = Album.open(address)
    assert not load_album(tmp_path / "album", address).is_new
    here.remove([3, 4, 5])
    from smoothap.album._storage import Storage
    from smoothap.album.refining import unit_vectors

    from smoothap.album.photos import new_record

    storage = Storage(tmp_path / "album")
    new = unit_vectors(vectors_of(20, seed=9))
    records = [new_record(40, "f5/sub/40.jpg"), new_record(ROWS, "new/600.jpg", label="new")]
    storage.append(storage.load()[0], records, new[:2], [None, None])  # one that changed, and one that is new
    loaded = load_album(tmp_path / "album", address)
    assert (loaded.sent, loaded.removed, loaded.photos) == (2, 3, ROWS - 2)
    here, there = Album.open(tmp_path / "album"), Album.open(address)
    for query in (40, 600, 41, 6):
        assert answers(there.search(query, 10)) == answers(here.search(query, 10))
    assert np.array_equal(there.vectors[[3, 36, 597]], here.vectors[[3, 36, 597]])
    assert 3 in {hit.id for hit in before.search(6, 20)}  # whoever began with the old one goes on with it
    assert before.version != there.version


def test_somebody_elses_collection_is_never_touched(address, tmp_path):
    made(tmp_path)
    place = MilvusAddress.parse(address)
    server = MilvusServer(place)
    server.ask("create_collection", place.name, dimension=4)
    server.ask("insert", place.name, [{"id": 1, "vector": [1.0, 0, 0, 0]}])
    with pytest.raises(ValueError, match="somebody else"):
        load_album(tmp_path / "album", address)
    with pytest.raises(ValueError, match="somebody else"):
        Album.open(address)
    assert server.count(place.name) == 1
    server.ask("drop_collection", place.name)
    server.ask("create_collection", f"{place.name}_other", dimension=4)
    server.ask("create_alias", f"{place.name}_other", place.name)
    with pytest.raises(ValueError, match="somebody else"):
        load_album(tmp_path / "album", address)
    server.ask("drop_alias", place.name)
    load_album(tmp_path / "album", address)
    (number,) = numbers_of(server, place.name)
    server.ask("drop_alias", place.name)
    drop_piece(server, place.name, number)
    server.ask("create_collection", piece_name(place.name, number), dimension=4)  # under the name that we would take
    with pytest.raises(ValueError, match="somebody else"):
        load_album(tmp_path / "album", address)
    assert server.has(piece_name(place.name, number))


def test_two_loads_at_once_into_one_name_never_mix(address, tmp_path, monkeypatch):
    albums = [made(tmp_path)]
    load_album(tmp_path / "album", address)
    for seed, name in enumerate(("one", "two"), start=1):  # the same photos with other vectors
        albums.append(Album.from_arrays(vectors_of(seed=seed), facts_of(ROWS), path=tmp_path / name))
    monkeypatch.setattr("smoothap.album.milvus_loading._BYTES_AT_ONCE", 60_000)  # a hundred photos in a message
    ask, sent = MilvusServer.ask, []

    def second_in_between(self, method, *arguments, **options):
        if method == "upsert" and not arguments[0].endswith("_about"):
            sent.append(arguments[0])
            if len(sent) == 3:  # the first load is half done
                load_album(tmp_path / "two", address, replace_all=True, workers=1)
        return ask(self, method, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(MilvusServer, "ask", second_in_between)
        with pytest.raises(ValueError, match=r"Another load .* Run this again"):
            load_album(tmp_path / "one", address, replace_all=True, workers=1)
    assert len(sent) > 6
    shown = Album.open(address).vectors[:]
    assert any(np.array_equal(shown, album.vectors) for album in albums)


def test_another_album_does_not_take_the_place_of_one_unasked(address, tmp_path):
    made(tmp_path)
    load_album(tmp_path / "album", address)
    Album.from_arrays(np.eye(24), path=tmp_path / "other")
    with pytest.raises(ValueError, match="--replace"):
        load_album(tmp_path / "other", address)
    assert len(Album.open(address)) == ROWS
    assert load_album(tmp_path / "other", address, replace_all=True).photos == 24
    assert len(Album.open(address)) == 24


def test_a_load_that_was_stopped_goes_on_and_readers_saw_nothing_of_it(address, tmp_path, monkeypatch):
    here = made(tmp_path)
    monkeypatch.setattr("smoothap.album.milvus_loading._BYTES_AT_ONCE", 60_000)  # a hundred photos in a message
    sent = []
    ask = MilvusServer.ask

    def stopped(self, method, name="", *arguments, **options):
        if method == "upsert" and not name.endswith(("_about", "_pictures")):
            if len(sent) == 3 and stopped.is_on:
                raise KeyboardInterrupt
            sent.append([row["id"] for row in arguments[0]])
        return ask(self, method, *((name,) if name else ()), *arguments, **options)

    stopped.is_on = True
    monkeypatch.setattr(MilvusServer, "ask", stopped)
    with pytest.raises(KeyboardInterrupt):
        load_album(tmp_path / "album", address, workers=1)
    with pytest.raises(FileNotFoundError, match="smoothap album push"):
        Album.open(address)
    stopped.is_on = False
    first = len(sent)
    assert load_album(tmp_path / "album", address, workers=1).photos == ROWS
    assert sorted(number for ids in sent for number in ids) == list(range(ROWS))  # nothing went twice
    assert 0 < first < len(sent)
    assert answers(Album.open(address).search(5, 10)) == answers(here.search(5, 10))


def test_an_index_that_finds_too_little_is_not_shown_to_anybody(address, tmp_path, monkeypatch):
    made(tmp_path)
    monkeypatch.setattr("smoothap.album._milvus_vectors.MilvusNeighbours._candidates", lambda self, *_: np.arange(20))
    with pytest.raises(ValueError, match="nothing was switched"):
        load_album(tmp_path / "album", address)
    with pytest.raises(FileNotFoundError):
        Album.open(address)


def test_collections_are_kept_in_milvus_for_all_who_open_the_album(address, tmp_path):
    made(tmp_path)
    load_album(tmp_path / "album", address)
    one, other = Album.open(address).collections, Album.open(address).collections
    one.add("dogs", [5, 6])
    other.mark("dogs", right=[7], wrong=[9])
    assert (one["dogs"].right, one["dogs"].wrong) == ((5, 6, 7), (9,))
    assert one.undo() == "kept 1 photo in dogs, marked 1 photo as not in dogs"
    assert (other["dogs"].right, other["dogs"].wrong) == ((5, 6), ())
    one.rename("dogs", "cats")
    other.create("birds")
    assert list(one.all()) == ["cats", "birds"]
    other.delete("cats")
    assert other.undo() == "deleted cats"
    assert one["cats"].right == (5, 6)
    assert answers(Album.open(address).search(8, 5, where=Filter(collection="cats")))[0]["id"] in (5, 6)


def test_two_who_write_at_the_same_moment_lose_nothing(address, tmp_path, monkeypatch):
    from smoothap.album import _milvus_kept

    made(tmp_path)
    load_album(tmp_path / "album", address)
    one = Album.open(address).collections
    monkeypatch.setattr(_milvus_kept, "_logs", {})  # as another process has it
    other = Album.open(address).collections
    for kept in (one._kept, other._kept):
        kept.read()
    for collections, ids in ((one, [1, 2]), (other, [3])):  # both know of no collection when they make one
        collections._kept._catch_up = lambda: None
        collections.add("dogs", ids)
        del collections._kept._catch_up
    monkeypatch.setattr(_milvus_kept, "_logs", {})
    everything = Album.open(address).collections.all()
    assert {name: each.right for name, each in everything.items()} == {"dogs": (1, 2), "dogs (2)": (3,)}


def test_nothing_of_it_can_be_changed_but_by_a_load(address, tmp_path):
    made(tmp_path)
    load_album(tmp_path / "album", address)
    there = Album.open(address)
    for change in (lambda: there.remove([1]), there.unlearn, there.verify, there.model_vectors):
        with pytest.raises(ValueError, match="load it again"):
            change()


def test_a_server_that_is_away_is_told_in_a_sentence_after_a_while():
    pytest.importorskip("pymilvus")
    with pytest.raises(MilvusUnavailable, match="does not answer"):
        Album.open("milvus://127.0.0.1:9/one")


@pytest.mark.parametrize(
    "text", ["milvus://", "milvus://host:99999/a", "milvus://host/a b", "milvus://host/1a", "http://host/a"]
)
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"(?i)milvus"):
        MilvusAddress.of_album(text)


def test_several_graphs_are_searched_half_as_broadly_and_none_for_fewer_than_are_wanted():
    for shape in ((100_000, 512), (1_000_000, 128)):
        assert [breadth(limit, shape) for limit in (26, 116, 16_384)] == [128, 232, 32_768]
    assert [breadth(limit, (1_000_000, 512)) for limit in (26, 116, 16_384)] == [64, 116, 16_384]
