"""`smoothap album push`, and `search` with Milvus as the engine, as they are typed."""

import json
import uuid

import pytest
from drawn_people import drawn_finder, party_album
from milvus_servers import EVERY_MILVUS, address_of
from photo_makers import photo_folder, tiny_model

from smoothap.album import Album
from smoothap.album.engines.milvus_server import MilvusServer, MilvusUnavailable
from smoothap.cli import app
from smoothap.models.faces.people import PeopleFinder


def run(*words):
    with pytest.raises(SystemExit) as end:
        app([str(word) for word in words])
    return end.value.code or 0


@pytest.mark.parametrize("server", EVERY_MILVUS)
def test_an_album_is_pushed_and_searched_with_a_photo(server, request, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    photos, album = photo_folder(tmp_path / "photos", 12), tmp_path / "album"
    Album.create(album, tiny_model(tmp_path / "model"), photos).update(progress=False)
    address, photo = f"{address_of(request, server)}/t{uuid.uuid4().hex[:12]}", photos / "class1" / "001.png"
    with pytest.raises(FileNotFoundError, match="smoothap album push"):
        app(["search", str(album), str(photo), "--engine", address], result_action="return_value")
    assert run("album", "push", album, address) == 0
    assert f"12 photos at {address}" in capsys.readouterr().out
    assert run("album", "push", album, address) == 0
    assert "is up to date" in capsys.readouterr().out
    assert run("search", album, photo, "-k", "5", "--json", "--no-rerank") == 0
    wanted = json.loads(capsys.readouterr().out)
    for file in [*album.glob("vectors-*"), *album.glob("items-*")]:
        file.unlink()
    assert run("search", album, photo, "-k", "5", "--json", "--engine", address, "--no-rerank") == 0
    assert json.loads(capsys.readouterr().out) == wanted
    assert run("search", album, photo, "-k", "5", "--json", "--engine", address) == 0
    assert "no graph of neighbours" in json.loads(capsys.readouterr().out)["note"]
    page = tmp_path / "found.html"
    assert run("search", album, photo, "--folder", "class1", "--engine", address, "--html", page) == 0
    assert "4 of 12 photos pass the filter." in capsys.readouterr().out
    assert page.read_text().count("data:image/jpeg") == 4


def test_an_address_is_no_album(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no album"):
        app(["search", "milvus://127.0.0.1:9/one", "--id", "1"], result_action="return_value")


@pytest.mark.parametrize("server", EVERY_MILVUS)
def test_faces_are_pushed_where_that_is_said_and_forgotten(server, request, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(PeopleFinder, "open", staticmethod(drawn_finder))
    album = party_album(tmp_path).folder
    address = f"{address_of(request, server)}/t{uuid.uuid4().hex[:12]}"
    assert run("album", "push", album, address) == 0
    assert "faces are not sent" in capsys.readouterr().out
    assert run("album", "push", album, address, "--people") == 0
    assert f"Faces: sent 14, removed 0; 14 are at {address}" in capsys.readouterr().out
    assert run("search", album, "--id", 0, "--person", "-k", 5, "--json", "--engine", address) == 0
    there = json.loads(capsys.readouterr().out)
    assert run("search", album, "--id", 0, "--person", "-k", 5, "--json") == 0
    assert there["hits"] == json.loads(capsys.readouterr().out)["hits"]
    monkeypatch.setattr("smoothap.album.engines.milvus.PATIENCE", 0.2)

    def away(self, *asked, **options):
        raise MilvusUnavailable("It is away.")

    monkeypatch.setattr(MilvusServer, "ask", away)
    assert run("album", "people", album, "--forget") == 1
    said = capsys.readouterr()
    assert "Removed: 14 faces" in said.out
    assert f"Faces with their vectors are still at {address}" in said.err
