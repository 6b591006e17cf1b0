"""Faces and parts of photos in an album that is searched in Milvus: the same hits as with all vectors here."""

import shutil
import uuid
from dataclasses import asdict

import numpy as np
import pytest
import torch
from drawn_people import draw, drawn_finder
from milvus_servers import EVERY_MILVUS, address_of
from PIL import Image

from smoothap.album import Album, index_photos
from smoothap.album.engines.milvus import MilvusUnavailable
from smoothap.album.engines.milvus_push import push
from smoothap.album.engines.milvus_server import MilvusAddress, MilvusServer
from smoothap.album.faces import FaceRecord, FaceStore
from smoothap.album.regions import RegionStore
from smoothap.models import Embedder
from smoothap.models.faces.people import PeopleFinder
from smoothap.models.regions import PARTS

NAMES = ("Anna", "Bob", "Chris", "Dana", "Emil", "Fay")


@pytest.fixture
def address(request, monkeypatch):
    """A name of its own for each test, taken away afterwards."""
    monkeypatch.setattr("smoothap.album.engines.milvus_push._LINGER", 0.0)
    place = MilvusAddress.parse(f"{address_of(request, request.param)}/t{uuid.uuid4().hex[:12]}")
    yield str(place)
    server = MilvusServer(place)
    for alias in (place.name, *(f"{place.name}_smoothap_{space}" for space in ("face", "region")), f"{place.name}x"):
        if server.behind(alias) is not None:
            server.ask("drop_alias", alias)
    for name in collections_at(str(place)):
        server.ask("drop_collection", name)


@pytest.fixture
def party(tmp_path, monkeypatch):
    """An album that knows the people and the parts of forty photos in two folders."""
    monkeypatch.setattr(PeopleFinder, "open", staticmethod(drawn_finder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.manual_seed(0)
    model = Embedder("test_resnet", None, size=64, pretrained=False).save(tmp_path / "model")
    for number in range(40):
        people = NAMES[number % 6], NAMES[number // 6 % 6] + "*"
        draw(tmp_path / "photos" / f"f{number % 2}" / f"{number}.png", *people, seed=number)
    return index_photos(
        tmp_path / "photos", tmp_path / "album", model=str(model), people=True, regions=True, progress=False
    ).album


def opened(album, address):
    """The album in another folder, without the vectors of its photos."""
    folder = album.folder.parent / f"bare-{uuid.uuid4().hex[:6]}"
    shutil.copytree(album.folder, folder)
    for pattern in ("vectors-*", "items-*"):
        for file in folder.glob(pattern):
            file.unlink()
    return Album.open(folder, engine=address, root=album.root)


def collections_at(address):
    place = MilvusAddress.parse(address)
    return sorted(name for name in MilvusServer(place).ask("list_collections") if name.startswith(place.name))


def faces_at(address, space="face"):
    return [name for name in collections_at(address) if f"_smoothap_{space}_" in name]


def answers(hits):
    return [asdict(hit) for hit in hits]


every_milvus = pytest.mark.parametrize("address", EVERY_MILVUS, indirect=True)


@every_milvus
@pytest.mark.parametrize("space", ["region", "face"])
@pytest.mark.parametrize("rerank", [True, False])
def test_faces_and_parts_are_found_as_without_milvus(address, party, space, rerank, tmp_path):
    push(party, address)
    there = opened(party, address)
    assert there.searching.name == "milvus"
    party.collections.add("kept", range(0, 40, 3))
    there.collections.add("kept", range(0, 40, 3))
    for query in (5, party.photo_path(7), Image.open(party.photo_path(8)), [3, 9]):
        for options in (
            {"k": 7}, {"k": 50}, {"everything": True}, {"min_score": 0.5}, {"right": [1], "wrong": [2]},
            {"where": {"folder": "f1"}}, {"where": {"collection": "kept"}}, {"box": (46, 2, 40, 40)},
        ):  # fmt: skip
            if isinstance(query, list) and "box" in options:
                continue
            expected = answers(party.search(query, space=space, rerank=rerank, **options))
            assert answers(there.search(query, space=space, rerank=rerank, **options)) == expected
            assert expected


@every_milvus
def test_faces_are_sent_only_where_people_were_asked_for(address, party):
    assert push(party, address).people is None
    assert faces_at(address) == []
    done = push(party, address, people=True)
    assert (done.sent, done.people.photos, done.people.sent) == (0, 80, 80)
    assert len(faces_at(address)) == 1
    server = MilvusServer(MilvusAddress.parse(address))
    rows = server.rows(f"{server.address.name}_smoothap_face", "id >= 0", "id", "vector", "columns")
    faces = party.face_space().faces(party)
    assert {row["id"]: row["columns"]["photo"] for row in rows} == dict(
        zip(faces.ids.tolist(), faces.photos.tolist(), strict=True)
    )
    assert all((faces.vectors[int(faces.rows_of([row["id"]])[0])] == row["vector"]).all() for row in rows)
    assert push(party, address, people=True).people.sent == 0
    assert push(party, address).people is None  # and what was there is removed
    assert faces_at(address) == []
    assert party.forget_people().left == ()


@every_milvus
@pytest.mark.parametrize("rerank", [True, False])
def test_milvus_proposes_the_faces_and_the_hits_are_those_of_the_folder(address, party, rerank, monkeypatch):
    monkeypatch.setattr("smoothap.album.engines.milvus.FEW", 10)
    push(party, address, people=True)
    there, asked, ask = opened(party, address), [], MilvusServer.ask

    def watched(self, method, *arguments, **options):
        asked.append((method, *arguments[:1]))
        return ask(self, method, *arguments, **options)

    monkeypatch.setattr(MilvusServer, "ask", watched)
    for query in (5, party.photo_path(7), [3, 9]):
        for options in ({}, {"where": {"folder": "f1"}}, {"right": [1], "wrong": [2]}, {"expand": 2}, {"k": 30}):
            asked.clear()
            found = there.search(query, space="face", rerank=rerank, **{"k": 7, **options})
            expected = party.search(query, space="face", rerank=rerank, **{"k": 7, **options})
            assert answers(found) == answers(expected)
            assert any(method == "search" and "_smoothap_face_" in name for method, name in asked)
    asked.clear()
    assert answers(there.search(5, everything=True, space="face")) == answers(
        party.search(5, everything=True, space="face")
    )
    assert asked == []  # everything is ranked in the folder


@every_milvus
def test_parts_are_sent_where_regions_were_asked_for_and_only_what_changed(address, party):
    assert push(party, address).regions is None
    assert faces_at(address, "region") == []
    done = push(party, address, regions=True)
    assert (done.sent, done.regions.photos, done.regions.sent) == (0, 40 * PARTS, 40 * PARTS)
    server = MilvusServer(MilvusAddress.parse(address))
    regions = party.region_space().regions(party)
    rows = server.rows(f"{server.address.name}_smoothap_region", f"id >= {5 * PARTS} and id < {6 * PARTS}",
                       "id", "vector", "columns")  # fmt: skip
    assert sorted((row["id"], row["columns"]["photo"], row["columns"]["part"]) for row in rows) == [
        (5 * PARTS + part, 5, part) for part in range(PARTS)
    ]
    for row in rows:
        assert row["vector"] == pytest.approx(regions.vectors(5)[row["columns"]["part"]], abs=1e-6)
    assert push(party, address, regions=True).regions.sent == 0
    party.remove([5])
    again = push(party, address, regions=True).regions
    assert (again.sent, again.removed, again.photos) == (0, PARTS, 39 * PARTS)
    assert push(party, address).regions is None  # and what was there is removed
    assert faces_at(address, "region") == []
    assert len(faces_at(address, "photo")) == 1


@every_milvus
@pytest.mark.parametrize("rerank", [True, False])
def test_milvus_proposes_parts_and_the_hits_are_those_of_the_folder(address, party, rerank, monkeypatch):
    monkeypatch.setattr("smoothap.album.engines.milvus.FEW", 10)
    monkeypatch.setattr("smoothap.album.region_search._AGAIN", 8)
    push(party, address, regions=True)
    there, asked, ask = opened(party, address), [], MilvusServer.ask
    party.collections.add("kept", range(0, 40, 3))
    there.collections.add("kept", range(0, 40, 3))

    def watched(self, method, *arguments, **options):
        asked.append((method, *arguments[:1]))
        return ask(self, method, *arguments, **options)

    monkeypatch.setattr(MilvusServer, "ask", watched)
    for query in (5, party.photo_path(7), [3, 9]):
        for options in (
            {}, {"where": {"folder": "f1"}}, {"where": {"collection": "kept"}}, {"right": [1], "wrong": [2]},
            {"box": (46, 2, 40, 40)},
        ):  # fmt: skip
            if isinstance(query, list) and "box" in options:
                continue
            asked.clear()
            found = there.search(query, space="region", rerank=rerank, **{"k": 4, **options})
            expected = party.search(query, space="region", rerank=rerank, **{"k": 4, **options})
            assert answers(found) == answers(expected)
            assert len({hit.id for hit in found}) == 4
            assert any(method == "search" and "_smoothap_region_" in name for method, name in asked)
    asked.clear()
    for options in ({"everything": True}, {"min_score": 0.3}):  # for which the folder is searched
        assert answers(there.search(5, space="region", **options)) == answers(
            party.search(5, space="region", **options)
        )
    assert asked == []


@every_milvus
def test_parts_that_changed_after_the_push_are_searched_in_the_folder(address, party, monkeypatch):
    monkeypatch.setattr("smoothap.album.engines.milvus.FEW", 10)
    push(party, address, regions=True)
    there = opened(party, address)
    regions, store = there.region_space().regions(there), RegionStore(there.folder)
    store.put({8: (store.seen()[8], np.array(regions.codes[regions.slots[5]]))})  # those of photo 5
    there = Album.open(there.folder, engine=address, root=party.root)
    (first,) = there.search(5, k=1, space="region", rerank=False)
    assert (first.id, first.box[:2]) == (8, (0, 0))


@every_milvus
def test_a_removed_photo_loses_its_faces_there_and_until_then_the_folder_is_searched(address, party):
    push(party, address, people=True)
    gone = party.face_space().faces(party)
    gone = gone.ids[gone.photos == 5].tolist()
    party.remove([5])
    done = push(party, address, people=True)
    assert (done.removed, done.people.removed, done.people.photos) == (1, 2, 78)
    server = MilvusServer(MilvusAddress.parse(address))
    assert server.rows(f"{server.address.name}_smoothap_face", f"id in {gone}", "id") == []
    assert push(party, address).people is None
    there = opened(party, address)  # whose faces are not there any more
    assert answers(there.search(7, k=5, space="face")) == answers(party.search(7, k=5, space="face"))


@every_milvus
def test_a_face_that_was_drawn_after_the_push_is_found(address, party, monkeypatch):
    monkeypatch.setattr("smoothap.album.engines.milvus.FEW", 10)
    push(party, address, people=True)
    there = opened(party, address)
    faces = there.face_space().faces(there)
    vector = np.array(faces.vectors[int(faces.of_photo(5)[0])])
    FaceStore(there.folder).add(8, FaceRecord((100.0, 50.0, 20.0, 20.0), 1.0, vector))
    there = Album.open(there.folder, engine=address, root=party.root)
    assert 8 in {hit.id for hit in there.search(5, k=2, space="face", rerank=False)}


@every_milvus
def test_to_forget_people_removes_them_there_and_nothing_else(address, party):
    push(party, address, people=True)
    other = f"{address}x"
    push(party, other, people=True)
    assert len(faces_at(other)) == 1
    assert party.forget_people().left == ()
    assert faces_at(address) == []
    assert len([name for name in collections_at(address) if "_smoothap_photo_" in name]) == 2
    assert Album.open(party.folder, engine=address).search(3, k=3)


@every_milvus
def test_a_server_that_is_away_when_people_are_forgotten_is_named_with_the_remedy(address, party, monkeypatch):
    push(party, address, people=True)
    monkeypatch.setattr("smoothap.album.engines.milvus.PATIENCE", 0.2)
    ask = MilvusServer.ask

    def away(self, method, *arguments, **options):
        raise MilvusUnavailable(f"Milvus does not answer at {self.address.server}: start it, or try again later.")

    monkeypatch.setattr(MilvusServer, "ask", away)
    (sentence,) = party.forget_people().left
    assert f"are still at {address}, in the collections" in sentence
    assert "does not answer" in sentence
    assert f"smoothap album push ALBUM {address} without --people removes them" in sentence
    assert not (party.folder / "people").exists()
    monkeypatch.setattr(MilvusServer, "ask", ask)
    assert len(faces_at(address)) == 1
    push(party, address)  # as the sentence says
    assert faces_at(address) == []


@every_milvus
@pytest.mark.parametrize("space", ["people", "regions"])
def test_an_album_without_people_or_regions_is_told_before_anything_is_sent(address, party, space):
    party.forget_people()
    shutil.rmtree(party.folder / "regions")
    with pytest.raises(ValueError, match=f"knows no .* --{space}"):
        push(party, address, **{space: True})
    assert collections_at(address) == []
