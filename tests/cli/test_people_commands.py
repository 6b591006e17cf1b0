"""`smoothap index --people`, `search --person` and `album people`, as a user runs them."""

import json

import pytest
from drawn_people import draw, drawn_finder
from photo_makers import tiny_model

from smoothap.cli import app
from smoothap.models.faces.people import PeopleFinder


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(PeopleFinder, "open", staticmethod(drawn_finder))
    tiny_model(tmp_path / "model")
    for number, these in enumerate([("Anna",), ("Anna", "Bob*"), ("Bob",), ("Anna",)]):
        draw(tmp_path / "photos" / f"{number}.png", *these, seed=number)
    return tmp_path


def run(capsys, *arguments):
    app([str(argument) for argument in arguments], result_action="return_value")
    return capsys.readouterr().out


def test_from_a_folder_to_all_photos_of_a_friend_and_back_to_nothing(place, capsys):
    album = place / "album"
    said = run(capsys, "index", place / "photos", "--out", album, "--model", place / "model", "--people")
    assert f"People: 5 faces. Their boxes and vectors, which are biometric data, are in {album / 'people'}" in said
    found = run(capsys, "search", album, place / "photos" / "0.png", "--person", "-k", "3")
    assert {line.split()[-1] for line in found.splitlines()[1:]} == {"0.png", "1.png", "3.png"}
    assert "8,8,24,24" in found
    hits = json.loads(run(capsys, "search", album, place / "photos" / "1.png", "--person", "--face", "2", "--json"))[
        "hits"
    ]
    assert [hit["path"] for hit in hits[:2]] == ["1.png", "2.png"]
    assert hits[0]["box"] == [48, 8, 12, 12]
    listed = run(capsys, "album", "people", album)
    group = listed.splitlines()[1].split()[0]
    assert "Anna" in run(capsys, "album", "people", album, "--name", f"{group}=Anna")
    by_name = json.loads(run(capsys, "search", album, "--name", "Anna", "-k", "3", "--json"))["hits"]
    assert {hit["path"] for hit in by_name} == {"0.png", "1.png", "3.png"}
    gone = run(capsys, "album", "people", album, "--forget")
    assert gone.startswith("Removed: 5 faces with their vectors, 1 names, 3 marks")
    with pytest.raises(ValueError, match="This album knows no people"):
        run(capsys, "search", album, place / "photos" / "0.png", "--person")
    assert "knows nothing of people" in run(capsys, "album", "people", album, "--forget")


@pytest.mark.parametrize(
    ("words", "said"),
    [(("photo.png", "--name", "Anna"), "without a photo"), (("photo.png", "--face", "2"), "with --person")],
)
def test_options_that_do_not_go_together_are_refused(place, words, said):
    with pytest.raises(ValueError, match=said):
        app(["search", str(place / "album"), *words], result_action="return_value")


def test_without_people_nothing_of_them_is_kept_or_said(place, capsys):
    said = run(capsys, "index", place / "photos", "--out", place / "album", "--model", place / "model")
    assert "People" not in said
    assert not (place / "album" / "people").exists()


@pytest.mark.parametrize(
    ("options", "shown"),
    [((), True), (("--no-people",), False), (("--allow-host", "photos.example.org"), False),
     (("--trusted-proxy", "192.0.2.7"), False), (("--allow-host", "photos.example.org", "--people"), True)],
)  # fmt: skip
def test_people_are_shown_to_this_computer_and_to_others_only_if_that_is_said(
    place, capsys, monkeypatch, options, shown
):
    run(capsys, "index", place / "photos", "--out", place / "album", "--model", place / "model", "--people")
    served = []
    monkeypatch.setattr("smoothap.server.run.run_server", lambda albums, *_, **__: served.append(albums["album"]))
    run(capsys, "serve", place / "album", "--port", 0, "--token", "only-for-this-test", *options)
    assert served[0].has_people is shown
    assert served[0].reopened().has_people is shown
