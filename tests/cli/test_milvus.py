"""`smoothap album push`, `search` and `collection` with an album in Milvus, as they are typed."""

import json
import shutil
import uuid

import pytest
from milvus_servers import EVERY_MILVUS, address_of
from photo_makers import photo_folder, tiny_model

from smoothap.album import Album
from smoothap.cli import app


def run(*words):
    with pytest.raises(SystemExit) as end:
        app([str(word) for word in words])
    assert end.value.code in (0, None)


@pytest.mark.parametrize("server", EVERY_MILVUS)
def test_an_album_is_loaded_and_searched_with_a_photo(server, request, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    photos, album = photo_folder(tmp_path / "photos", 12), tmp_path / "album"
    made = Album.create(album, tiny_model(tmp_path / "model"), photos)
    made.update(progress=False)
    address = f"{address_of(request, server)}/t{uuid.uuid4().hex[:12]}"
    run("album", "push", album, address)
    assert f"12 photos at {address}" in capsys.readouterr().out
    run("album", "push", album, address)
    assert "is up to date" in capsys.readouterr().out
    run("search", album, photos / "class1" / "001.png", "-k", "5", "--json")
    wanted = json.loads(capsys.readouterr().out)
    shutil.rmtree(album)
    run("search", address, photos / "class1" / "001.png", "-k", "5", "--json")
    assert json.loads(capsys.readouterr().out) == wanted
    run("search", address, photos / "class1" / "001.png", "--folder", "class1", "--html", tmp_path / "found.html")
    assert "4 of 12 photos pass the filter." in capsys.readouterr().out
    assert (tmp_path / "found.html").read_text().count("data:image/jpeg") == 4
