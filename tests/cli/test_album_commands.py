"""`smoothap index`, `search` and `duplicates`, as a user runs them."""

import json
import shlex
import shutil

import pytest
from photo_makers import photo_bytes, photo_folder, tiny_model
from safetensors.torch import save_file

from smoothap.album import Album
from smoothap.cli import app
from smoothap.models.weights import build_backbone


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    tiny_model(folder / "model")
    photos = photo_folder(folder / "photos", 24, classes=8)
    (photos / "copy <b>\u202e.png").write_bytes((photos / "class0" / "000.png").read_bytes())
    (photos / "bad.jpg").write_bytes(b"bad")
    return folder


@pytest.fixture(autouse=True)
def own_cache(place, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))


def run(capsys, *arguments):
    app([str(argument) for argument in arguments], result_action="return_value")
    return capsys.readouterr().out


@pytest.fixture
def album(place, capsys):
    options = ["--labels", "folders"]
    if not (place / "album").exists():
        options += ["--model", place / "model"]
    run(capsys, "index", place / "photos", "--out", place / "album", *options)
    return place / "album"


def test_index_says_what_it_did(place, album, capsys):
    report = json.loads(run(capsys, "index", place / "photos", "--out", album, "--json"))
    assert (report["photos"], report["unchanged"], report["added"]) == (25, 25, 0)
    assert list(report["unreadable"]) == ["bad.jpg"]


def test_shards_are_left_by_batch_systems_and_inserted_by_one_machine(place, capsys, tmp_path):
    out = tmp_path / "album"
    for number in (1, 2):
        words = ("index", place / "photos", "--out", out, "--model", place / "model", "--shard", f"{number}/2")
        assert "Run this without --shard on one machine, to insert all shards." in run(capsys, *words)
        assert len(list((out / "shards").glob("*.parquet"))) == number
    assert not (out / "album.db").exists()
    words = ("index", place / "photos", "--out", out, "--model", place / "model", "--labels", "folders", "--json")
    report = json.loads(run(capsys, *words))
    assert (report["photos"], report["added"], list(report["unreadable"])) == (25, 25, ["bad.jpg"])
    assert [file.name for file in (out / "shards").iterdir()] == ["known.parquet"]
    with pytest.raises(ValueError, match="there is no shard 3/2"):
        run(capsys, "index", place / "photos", "--out", out, "--shard", "3/2")
    with pytest.raises(ValueError, match="A shard is embedded by one process, and no more is done"):
        run(capsys, *words, "--shard", "1/2")


def test_search_prints_a_table_json_and_a_page(place, album, capsys):
    photo = place / "photos" / "class0" / "000.png"
    table = run(capsys, "search", album, photo, "-k", 3, "--html", place / "hits.html")
    assert "class0/000.png" in table
    assert "\u202e" not in table
    page = (place / "hits.html").read_text()
    assert page.count("<li>") == 3
    assert page.count("data:image/jpeg") == 3
    assert "copy &lt;b&gt;\\u202e.png" in page
    answer = json.loads(run(capsys, "search", album, photo, "-k", 3, "--json"))["hits"]
    assert [hit["rank"] for hit in answer] == [1, 2, 3]
    assert answer[0]["score"] == pytest.approx(1, abs=1e-4)
    everything = json.loads(run(capsys, "search", album, "--id", 1, "--all", "--json"))["hits"]
    assert len(everything) == 24


def test_a_filter_chooses_the_photos_that_are_ranked(place, album, capsys):
    question = ("search", album, "--id", 1, "--all")
    hits = json.loads(run(capsys, *question, "--folder", "class0", "--json"))["hits"]
    assert {hit["path"].partition("/")[0] for hit in hits} == {"class0"}
    assert "3 of 25 photos pass the filter." in run(capsys, *question, "--folder", "class0")
    said = run(capsys, *question, "--since", "2020", "--until", "2021-06")
    assert "Nothing was found." in said
    assert "0 of 25 photos pass the filter. 25 are dated by the time of their file, as neither" in said
    for option, value, reason in (
        ("--folder", "none", "'class0'"), ("--camera", "Canon", "none that is known"), ("--since", "May", "A day is"),
        ("--collection", "dog", "no collection 'dog'"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=reason):
            run(capsys, *question, option, value)


def test_feedback_box_and_several_photos(place, album, capsys):
    photos = [place / "photos" / "class0" / "000.png", place / "photos" / "class1" / "001.png"]
    answer = json.loads(run(capsys, "search", album, *photos, "--right", 3, "--wrong", 4, "--wrong", 5, "--json"))
    assert not {4, 5} & {hit["id"] for hit in answer["hits"]}
    assert run(capsys, "search", album, photos[0], "--box", "5,5,20,20", "--expand", 2, "--alpha", 0)
    with pytest.raises(ValueError, match="--box takes"):
        run(capsys, "search", album, photos[0], "--box", "5,5,20")
    with pytest.raises(ValueError, match=r"-10, ?6, ?10, ?20"):
        run(capsys, "search", album, photos[0], "--box", "-10,6,10,20")


def test_a_calibrated_album_answers_by_recall(place, album, capsys):
    with pytest.raises(ValueError, match="--calibrate"):
        run(capsys, "search", album, "--id", 1, "--recall", 0.9)
    labelled = photo_folder(place / "labelled", 80, classes=40)
    calibrated = run(capsys, "index", place / "photos", "--out", album, "--calibrate", f"folder:{labelled}")
    assert "of labelled, 25 classes" in calibrated  # 20 to test on and 5 to validate on: all that training leaves out
    report = json.loads(run(capsys, "search", album, "--id", 1, "--recall", 0.9, "--json"))
    assert report["expected"]["recall"] >= 0.9
    assert 0 <= report["expected"]["precision"] <= 1
    assert all(hit["score"] >= report["expected"]["score"] - 1e-6 for hit in report["hits"])
    assert "of the right photos" in run(capsys, "search", album, "--id", 1, "--recall", 0.9)


def test_what_a_program_reads_has_one_line_a_photo(album, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    lines = run(capsys, "search", album, "--id", 1, "-k", 3).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "3"]
    assert all(line.endswith(".png") for line in lines[1:4])


def test_labels_from_a_table(place, album, capsys, tmp_path):
    labels = place / "photos" / "labels.csv"
    labels.write_text("path,label\nclass1/001.png,mine\n")
    report = json.loads(run(capsys, "index", place / "photos", "--out", album, "--labels", labels, "--json"))
    assert report["relabelled"] >= 1
    hits = json.loads(run(capsys, "search", album, "--id", 0, "--all", "--json"))["hits"]
    assert [hit["path"] for hit in hits if hit["label"] == "mine"] == ["class1/001.png"]


def test_a_table_of_labels_has_paths_relative_to_its_folder(place, album, capsys, tmp_path):
    labels = place / "labels.csv"
    index = ("index", place / "photos", "--out", album, "--labels", labels)
    labels.write_text("path,label\nclass1/001.png,mine\nclass2/002.png,mine\n")
    with pytest.raises(
        ValueError, match=r"None of the 2 paths in .*labels.csv, such as 'class1/001.png', is a file below"
    ):
        run(capsys, *index)
    absolute = place / "photos" / "class1" / "009.png"
    labels.write_text(f"path,label\nphotos/class1/001.png,theirs\n{absolute},theirs\nphotos/none.png,theirs\n")
    run(capsys, *index[:-1], str(labels))
    (tmp_path / "link").symlink_to(place)
    for table in (labels, tmp_path / "link" / "labels.csv"):
        app([str(argument) for argument in (*index[:-1], table)], result_action="return_value")
        assert "1 paths in" in capsys.readouterr().err
        hits = json.loads(run(capsys, "search", album, "--id", 0, "--all", "--json"))["hits"]
        assert {hit["path"] for hit in hits if hit["label"] == "theirs"} == {"class1/001.png", "class1/009.png"}
    labels.write_text("path,label\nphotos/class1/001.png,one\nphotos/../photos/class1/001.png,two\n")
    with pytest.raises(ValueError, match=r"'class1/001.png' twice, with other values .*'one'.*'two'"):
        run(capsys, *index)


def test_duplicates_are_listed(place, album, capsys):
    report = json.loads(run(capsys, "album", "duplicates", album, "--score", 1, "--json"))
    assert [sorted(photo["path"] for photo in group) for group in report["exact"]] == [
        ["class0/000.png", "copy <b>\u202e.png"]
    ]
    assert report["near"] == []
    near = json.loads(run(capsys, "album", "duplicates", album, "--score", -1, "--json"))["near"]
    assert [len(group) for group in near] == [25]
    assert "\u202e" not in run(capsys, "album", "duplicates", album)
    for score in (2, -1.5, "nan"):
        with pytest.raises(ValueError, match="A score is a cosine, from -1 to 1"):
            run(capsys, "album", "duplicates", album, "--score", score)


def test_lesser_copies_are_moved_when_that_is_said_and_only_then(place, album, capsys, tmp_path):
    own, photos = shutil.copytree(album, tmp_path / "album"), shutil.copytree(place / "photos", tmp_path / "my photos")
    run(capsys, "index", photos, "--out", own)
    before, away = sorted(photos.rglob("*.png")), tmp_path / "taken away"
    said = run(capsys, "album", "duplicates", own, "--move", away)
    assert "1 copies" in said
    assert "Nothing was: say --yes" in said
    assert sorted(photos.rglob("*.png")) == before
    assert not away.exists()
    said = run(capsys, "album", "duplicates", own, "--move", away, "--yes")
    assert "1 copies were moved" in said
    undo = ["smoothap", "album", "duplicates", str(own), "--undo", str(away)]
    assert shlex.split(said.partition("Move them back: ")[2]) == undo  # as it can be pasted
    assert len(sorted(photos.rglob("*.png"))) == len(before) - 1
    assert "0 copies were moved" in run(capsys, "album", "duplicates", own, "--move", away, "--yes")
    said = run(capsys, "album", "duplicates", own, "--undo", away)
    assert "1 photos were moved back" in said
    assert shlex.split(said.partition("again: ")[2]) == ["smoothap", "index", str(photos), "--out", str(own)]
    assert sorted(photos.rglob("*.png")) == before
    with pytest.raises(ValueError, match="--yes and --near are about"):
        run(capsys, "album", "duplicates", own, "--yes")


def test_what_is_no_copy_is_not_listed_again(album, capsys, tmp_path):
    own = shutil.copytree(album, tmp_path / "album")
    (group,) = json.loads(run(capsys, "album", "duplicates", own, "--score", 1, "--json"))["exact"]
    assert (
        json.loads(run(capsys, "album", "duplicates", own, "--score", 1, "--not-copy", group[1]["id"], "--json"))[
            "exact"
        ]
        == []
    )
    assert json.loads(run(capsys, "album", "duplicates", own, "--score", 1, "--json"))["exact"] == []
    again = run(capsys, "album", "duplicates", own, "--score", 1, "--copy-again", group[1]["id"], "--json")
    assert len(json.loads(again)["exact"]) == 1


def test_what_is_missing_is_said(place, album, capsys, tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        run(capsys, "index", tmp_path / "none", "--out", tmp_path / "new", "--model", place / "model")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="Give a photo"):
        run(capsys, "search", album)
    with pytest.raises(ValueError, match="no photo 999"):
        run(capsys, "search", album, "--id", 999)
    with pytest.raises(ValueError, match="expand is how many"):
        run(capsys, "search", album, "--id", 0, "--expand", -1)
    with pytest.raises(ValueError, match="--labels takes"):
        run(capsys, "index", place / "photos", "--out", album, "--labels", "nothing.csv")
    (tmp_path / "x.jpg").write_bytes(photo_bytes(3, form="JPEG")[:100])
    with pytest.raises(ValueError, match=r"x\.jpg"):
        run(capsys, "search", album, tmp_path / "x.jpg")


def test_without_a_model_the_default_network_is_taken_and_named(place, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("smoothap.album.ingest.ARCHITECTURE", str(place / "model"))
    said = run(capsys, "index", place / "photos", "--out", tmp_path / "new")
    assert f"The network is {place / 'model'}, the default" in said
    assert "The network is" not in run(capsys, "index", place / "photos", "--out", tmp_path / "new")


def test_what_is_not_read_is_listed_by_kind_and_number(place, capsys, tmp_path):
    photos = photo_folder(tmp_path / "photos", 3)
    for name in ("a.mov", "b.MOV", "c.txt", "bad.heic", "bad.jpg"):
        (photos / name).write_bytes(b"bad")
    said = run(capsys, "index", photos, "--out", tmp_path / "album", "--model", place / "model")
    assert "Cannot be read: 1 .heic, 1 .jpg\n" in said
    assert "Not photos, going by their file names: 2 .mov, 1 .txt\n" in said
    listed = (tmp_path / "album" / "unreadable.csv").read_text()
    assert all(name in listed for name in ("a.mov", "b.MOV", "c.txt", "bad.heic", "bad.jpg"))
    report = json.loads(run(capsys, "index", photos, "--out", tmp_path / "album", "--json"))
    assert report["other files"] == {".mov": 2, ".txt": 1}


def test_an_album_is_made_only_of_photos_and_in_a_place_of_its_own(place, capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="There are no photos in"):
        run(capsys, "index", tmp_path / "empty", "--out", tmp_path / "new", "--model", place / "model")
    assert not (tmp_path / "new").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"is no album and holds other files, such as metrics\.jsonl: give a new"):
        run(capsys, "index", place / "photos", "--out", tmp_path / "run", "--model", place / "model")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["metrics.jsonl"]


def test_an_album_finds_the_network_again_whose_weights_came_from_a_file(place, capsys, tmp_path):
    weights = tmp_path / "weights.safetensors"
    save_file(build_backbone("test_resnet", pretrained=False).state_dict(), weights)
    network = ("--model", "test_resnet", "--size", 32, "--weights", weights)
    run(capsys, "index", place / "photos", "--out", tmp_path / "album", *network)
    assert "25 unchanged" in run(capsys, "index", place / "photos", "--out", tmp_path / "album", *network)
    with pytest.raises(ValueError, match="made by another model"):
        run(capsys, "index", place / "photos", "--out", tmp_path / "album", *network[:-1], "none")
    weights.unlink()
    photo = place / "photos" / "class0" / "000.png"
    answer = json.loads(run(capsys, "search", tmp_path / "album", photo, "-k", 1, "--json"))["hits"]
    assert answer[0]["score"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(("option", "value"), [("--size", 32), ("--weights", "none")])
def test_what_a_trained_model_has_already_is_refused(place, capsys, tmp_path, option, value):
    for words in (("index", place / "photos", "--out", tmp_path / "new"), ("evaluate", "--data", "emoji")):
        with pytest.raises(ValueError, match=f"has its own {option[2:]}: leave {option} out"):
            run(capsys, *words, "--model", place / "model", option, value)
    with pytest.raises(ValueError, match="--size and --weights say more of a --model"):
        run(capsys, "index", place / "photos", "--out", tmp_path / "new", option, value)
    assert not (tmp_path / "new").exists()


def test_an_album_whose_published_weights_cannot_be_fetched_says_what_can_be_done(
    place, album, capsys, monkeypatch, tmp_path
):
    def unreachable(_):
        raise ConnectionError("give the file as --weights FILE")  # which a search does not take

    published = shutil.copytree(album, tmp_path / "published")
    store = Album.open(published).store
    with store.writing():
        store.set(source="name:resnet18@64")
    monkeypatch.setattr("smoothap.album.identity.load_model", unreachable)
    with pytest.raises(ValueError, match=r"once with a network, or .*--model resnet18 --size 64 --weights FILE"):
        run(capsys, "search", published, place / "photos" / "class0" / "000.png")
