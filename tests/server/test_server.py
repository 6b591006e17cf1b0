"""The API of the page: searches against scikit-learn and plain numpy, mistakes answered in a sentence."""

import base64
import csv
import io

import numpy as np
import pytest
from page_albums import LETTERS, MODEL, PixelAlbum, Pixels, empty_album, letter
from PIL import Image
from sklearn.metrics import average_precision_score, precision_recall_curve

from smoothap.album import Album
from smoothap.album.prepare import plain_jpeg
from smoothap.server import _served_album as served_album_module
from smoothap.server._server import create_app


def png(image):
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def search(client, album=0, **question):
    answer = client.post(f"/api/albums/{album}/search", json=question)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_albums_there_are_and_what_they_can(client, connect, albums):
    assert client.get("/api/albums").json()["albums"] == [
        {"name": "letters", "photos": 96, "labelled": True, "takes_photos": True, "calibrated": False, "keeps": False}
    ]
    both = connect(albums).get("/api/albums").json()
    assert [each["takes_photos"] for each in both["albums"]] == [False, False]
    assert len(both["start"]) == 2


@pytest.mark.parametrize("photo", [0, 13, 95])
def test_the_ranking_and_its_average_precision_are_exact(client, album, photo):
    answer = search(client, photo=photo, limit=200)
    vectors = np.asarray(album.vectors, np.float64)
    scores = np.delete(vectors @ vectors[photo], photo)
    labels = np.array([each.label for each in album.photos])
    right = np.delete(labels == labels[photo], photo)
    others = np.delete(np.arange(96), photo)
    assert answer["total"] == 95
    assert [hit["id"] for hit in answer["hits"]] == others[np.argsort(-scores, kind="stable")].tolist()
    assert [hit["score"] for hit in answer["hits"]] == pytest.approx(np.sort(scores)[::-1].tolist(), abs=1e-5)
    assert [hit["right"] for hit in answer["hits"]] == right[np.argsort(-scores, kind="stable")].tolist()
    curve = answer["curve"]
    assert curve["average_precision"] == pytest.approx(average_precision_score(right, scores), abs=1e-9)
    assert curve["positives"] == right.sum() == 7
    precision, recall, _ = precision_recall_curve(right, scores)
    points = {(round(float(r), 4), round(float(p), 4)) for p, r in zip(precision, recall, strict=True)}
    drawn = list(zip(curve["recall"], curve["precision"], strict=True))[1:]
    assert {(round(r, 4), round(p, 4)) for r, p in drawn} <= points
    area = sum(p * (r - before) for (r, p), before in zip(drawn, curve["recall"], strict=False))
    assert area == pytest.approx(curve["average_precision"], abs=2e-4)


def test_pages_of_a_ranking_make_up_the_whole(client):
    whole = search(client, photo=7, limit=200)["hits"]
    pages = [search(client, photo=7, offset=offset, limit=40) for offset in (0, 40, 80)]
    assert [hit for page in pages for hit in page["hits"]] == whole
    assert [page["curve"] is None for page in pages] == [False, True, True]


def test_the_least_score_shortens_the_list_and_counts_what_is_right(client):
    whole = search(client, photo=20, limit=200)["hits"]
    least = whole[9]["score"]
    answer = search(client, photo=20, minimum=least - 1e-6)
    assert answer["total"] == 10
    assert answer["right_in_list"] == sum(hit["right"] for hit in whole[:10])
    assert search(client, photo=20, minimum=1.0)["total"] == 0


def test_an_uploaded_photo_is_found_again(client):
    vector = client.post("/api/albums/0/embed", content=png(letter("Q", "DejaVuSans"))).json()["vector"]
    numbers = np.frombuffer(base64.b64decode(vector), "<f4")
    assert numbers == pytest.approx(Pixels().embed([letter("Q", "DejaVuSans")])[0].numpy(), abs=1e-5)
    answer = search(client, vector=vector)
    assert answer["total"] == 96
    assert answer["hits"][0]["label"] == "Q"
    assert answer["hits"][0]["right"] is None
    assert answer["curve"] is None


def test_a_box_is_that_part_of_the_photo(client, album):
    drawn = letter("K", "DejaVuSans-Bold")
    vector = client.post("/api/albums/0/embed?box=0.25,0.1,0.5,0.6", content=png(drawn)).json()["vector"]
    part = drawn.crop((30, 12, 90, 84))
    wanted = Pixels().embed([part])[0].numpy()
    assert np.frombuffer(base64.b64decode(vector), "<f4") == pytest.approx(wanted, abs=1e-4)
    own = client.post("/api/albums/0/photos/5/part", json={"box": [0.25, 0.1, 0.5, 0.6]}).json()["vector"]
    with Image.open(album.photo_path(5)) as photo:
        wanted = Pixels().embed([photo.crop((30, 12, 90, 84))])[0].numpy()
    assert np.frombuffer(base64.b64decode(own), "<f4") == pytest.approx(wanted, abs=1e-4)
    answer = search(client, photo=5, vector=own, limit=200)
    assert 5 not in [hit["id"] for hit in answer["hits"]]
    assert answer["curve"]["positives"] == 7


def test_what_is_marked_moves_the_search(client, album):
    plain = search(client, photo=40, limit=200)
    wrong = next(hit["id"] for hit in plain["hits"] if not hit["right"])
    right = [hit["id"] for hit in plain["hits"] if hit["right"]][-2:]
    moved = search(client, photo=40, limit=200, right=right, wrong=[wrong])
    rank = {hit["id"]: hit["rank"] for hit in plain["hits"]}
    new_rank = {hit["id"]: hit["rank"] for hit in moved["hits"]}
    assert new_rank[wrong] > rank[wrong]
    assert all(new_rank[each] < rank[each] for each in right)
    direction = album.vectors[40] + album.vectors[right].mean(0) - 0.5 * album.vectors[wrong]
    scores = album.vectors @ (direction / np.linalg.norm(direction))
    assert moved["hits"][0]["score"] == pytest.approx(np.delete(scores, 40).max(), abs=1e-5)


def test_recall_is_asked_for_by_calibration(connect, tmp_path, album):
    metadata = [{"path": each.path, "label": each.label} for each in album.photos]
    calibrated = PixelAlbum.from_arrays(album.vectors, metadata, root=album.root, model=MODEL)
    labels = np.array([each.label for each in album.photos])
    calibration = calibrated.calibrate(album.vectors, labels, "itself")
    client = connect({"calibrated": calibrated})
    answer = search(client, photo=3, recall=0.8)
    assert answer["minimum"] == pytest.approx(calibration.score_for_recall(0.8))
    assert answer["expected_recall"] >= 0.8
    assert 0 < answer["expected_precision"] <= 1
    assert answer["total"] < 95


def test_the_two_albums_name_each_photo_in_both(connect, albums):
    client = connect(albums)
    photo = client.get("/api/albums/1/photos/12").json()
    assert photo["twins"] == [12, 12]
    assert client.get("/api/albums/0/photos/12").json()["name"] == photo["name"]


def test_the_first_comparison_is_of_the_median_gain(connect, albums):
    start = connect(albums).get("/api/albums").json()["start"]

    def gain(photo):
        found = []
        for album in albums.values():
            vectors, labels = album.vectors, np.array([each.label for each in album.photos])
            others = np.arange(96) != photo
            right = labels[others] == labels[photo]
            found.append(average_precision_score(right, (vectors @ vectors[photo])[others]))
        return found[1] - found[0]

    gains = sorted(gain(photo) for photo in range(96))
    assert gain(start[0]) == pytest.approx(gains[48], abs=1e-6)


def test_the_list_is_a_csv_that_no_spreadsheet_runs(connect, tmp_path):
    names = ['=cmd|"/C calc"!A0.jpg', "+1.jpg", "-2.jpg", "@sum.jpg", "\t=3.jpg", 'a,"b".jpg', "plain.jpg"]
    labels = ["=1+1", None, "x", "@y", "-z", "ok", "\r=2"]
    metadata = [{"path": name, "label": label} for name, label in zip(names, labels, strict=True)]
    vectors = np.random.default_rng(0).normal(size=(7, 4))
    client = connect({"a": Album.from_arrays(vectors, metadata)})
    listed = client.post("/api/albums/0/search.csv", json={"photo": 6})
    assert listed.headers["content-type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(listed.text, newline="")))
    assert rows[0] == ["rank", "score", "photo", "label"]
    assert len(rows) == 7
    assert all(not cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row[2:])
    assert any(row[2] == 'a,"b".jpg' for row in rows)


def test_names_that_are_no_text_do_not_stop_the_answer(connect):
    metadata = [{"path": "caf\udce9.jpg"}, {"path": "a\u202egpj.exe"}, {"path": "new\nline.jpg"}]
    client = connect({"odd": Album.from_arrays(np.eye(3), metadata)})
    names = [each["name"] for each in client.get("/api/albums/0/photos").json()["photos"]]
    assert names == ["caf\\udce9.jpg", "a\\u202egpj.exe", "new\\u000aline.jpg"]


def test_an_empty_album_answers(connect):
    client = connect({"nothing": empty_album()})
    assert client.get("/api/albums").json()["albums"][0]["photos"] == 0
    answer = client.get("/api/albums/0/photos").json()
    assert (answer["total"], answer["folded"], answer["photos"]) == (0, 0, [])
    assert client.post("/api/albums/0/search", json={"photo": 0}).status_code == 404
    vector = base64.b64encode(np.ones(empty_album().vectors.shape[1], "<f4")).decode()
    assert search(client, vector=vector)["total"] == 0


@pytest.mark.parametrize(
    ("question", "status", "told"),
    [
        ({}, 409, "needs a photo"),
        ({"photo": 10**9}, 404, "no photo 1000000000"),
        ({"photo": -1}, 422, "photo"),
        ({"photo": 1, "right": [10**9]}, 404, "no photo"),
        ({"photo": 1, "recall": 0.9}, 409, "not calibrated"),
        ({"photo": 1, "limit": 10**6}, 422, "limit"),
        ({"photo": 1, "minimum": 7}, 422, "minimum"),
        ({"photo": 1, "surprise": 7}, 422, "surprise"),
        ({"vector": "not base64!"}, 422, "base64"),
        ({"vector": base64.b64encode(b"12345").decode()}, 422, "base64"),
        ({"vector": base64.b64encode(bytes(4 * 64)).decode()}, 422, "zero"),
        ({"vector": base64.b64encode(np.full(64, np.nan, "<f4").tobytes()).decode()}, 422, "not finite"),
        ({"vector": base64.b64encode(np.ones(3, "<f4").tobytes()).decode()}, 422, "3 numbers"),
    ],
)
def test_a_wrong_question_is_answered_in_a_sentence(client, question, status, told):
    answer = client.post("/api/albums/0/search", json=question)
    assert answer.status_code == status
    assert told in answer.json()["error"]


def test_wrong_addresses_and_methods_are_answered_in_a_sentence(client):
    for method, address, status in [
        ("GET", "/nothing", 404),
        ("GET", "/api/albums/1/photos", 404),
        ("GET", "/api/albums/0/photos/96", 404),
        ("GET", "/api/albums/0/photos/96/thumbnail", 404),
        ("GET", "/api/albums/zero/photos", 422),
        ("DELETE", "/api/albums", 405),
        ("GET", "/api/albums/0/search", 405),
        ("GET", "/docs", 404),
    ]:
        answer = client.request(method, address)
        assert answer.status_code == status, address
        assert answer.json()["error"].endswith(".")


@pytest.mark.parametrize("box", ["0,0,0,0", "0.9.9,0,1,1", "2,0,1,1", "0,0,1", "nan,0,1,1", ".,.,.,."])
def test_a_wrong_box_is_refused(client, box):
    assert client.post(f"/api/albums/0/embed?box={box}", content=png(letter("A", "DejaVuSans"))).status_code == 422


def test_an_album_without_a_model_says_so(connect, albums):
    client = connect(albums)
    answer = client.post("/api/albums/0/embed", content=png(letter("A", "DejaVuSans")))
    assert answer.status_code == 409
    assert "no model" in answer.json()["error"]


def test_three_albums_are_too_many(album):
    with pytest.raises(ValueError, match="compares two"):
        create_app({"a": album, "b": album, "c": album})


def test_every_photo_of_the_album_has_a_thumbnail_and_an_image(client):
    for kind, side in (("thumbnail", 256), ("image", 1024)):
        answer = client.get(f"/api/albums/0/photos/9/{kind}")
        assert answer.headers["content-type"] == "image/jpeg"
        with Image.open(io.BytesIO(answer.content)) as image:
            assert max(image.size) <= side
            assert image.format == "JPEG"
    assert len(LETTERS) * 8 == client.get("/api/albums/0/photos").json()["total"]


def test_a_picture_is_stripped_of_all_that_travels_with_it():
    image = letter("A", "DejaVuSans")
    image.info["comment"] = b"PRIVATE"  # Pillow would write it again
    assert b"PRIVATE" not in plain_jpeg(image, 92)


@pytest.mark.parametrize("kept", [6_400_000, 10])
def test_marked_photos_stay_and_every_page_counts_the_whole_ranking(connect, album, kept, monkeypatch):
    monkeypatch.setattr(served_album_module, "_SCORES_KEPT", kept)  # with few, each page is ranked again
    client = connect({"letters": album})
    plain = search(client, photo=40, limit=200)["hits"]
    marks = {"wrong": [hit["id"] for hit in plain[:3]], "right": [plain[9]["id"]]}
    direction = album.vectors[40] + album.vectors[marks["right"]].mean(0) - 0.5 * album.vectors[marks["wrong"]].mean(0)
    others = np.delete(np.arange(96), 40)
    scores = (album.vectors @ (direction / np.linalg.norm(direction)))[others]
    labels = np.array([each.label for each in album.photos])
    right = labels[others] == labels[40]
    pages = [search(client, photo=40, offset=offset, limit=40, **marks) for offset in (0, 40, 80)]
    search(client, photo=41)
    listed = [hit for page in pages for hit in page["hits"]]
    assert {hit["id"] for hit in listed} == set(others.tolist())
    assert [hit["rank"] for hit in listed] == list(range(1, 96))
    assert [hit["score"] for hit in listed] == pytest.approx(np.sort(scores)[::-1].tolist(), abs=1e-5)
    assert pages[0]["curve"]["average_precision"] == pytest.approx(average_precision_score(right, scores), abs=1e-9)
    assert {page["total"] for page in pages} == {95}
    assert {(page["lowest"], page["highest"]) for page in pages} == {(listed[-1]["score"], listed[0]["score"])}
    least = listed[49]["score"]
    for offset in (0, 40, 80):
        page = search(client, photo=40, offset=offset, limit=40, minimum=least, **marks)
        assert page["hits"] == listed[offset : min(offset + 40, 50)]
        assert page["total"] == 50
        assert page["right_in_list"] == sum(hit["right"] for hit in listed[:50])
    found = {hit.id for hit in album.search(40, everything=True, **marks)}
    assert found == set(others.tolist()) - set(marks["wrong"])


def test_a_list_to_download_has_every_photo(connect):
    rows = 1_000  # more than a page may have
    vectors = np.random.default_rng(0).standard_normal((rows, 2)).astype(np.float32)
    album = Album.from_arrays(vectors, {"path": [f"{row}.jpg" for row in range(rows)]})
    client = connect({"large": album})
    listed = client.post("/api/albums/0/search.csv", json={"photo": 7, "limit": 5}).text.splitlines()[1:]
    assert {line.split(",")[2] for line in listed} == {f"{row}.jpg" for row in range(rows) if row != 7}
    least = search(client, photo=7, offset=500, limit=1)["hits"][0]["score"]
    short = client.post("/api/albums/0/search.csv", json={"photo": 7, "minimum": least}).text.splitlines()[1:]
    assert short == listed[: search(client, photo=7, minimum=least)["total"]]
    assert len(short) >= 501


def test_equal_scores_count_against_the_right_ones(connect):
    vectors = np.repeat(np.eye(3, dtype=np.float32) + 0.1, [4, 5, 3], axis=0)
    labels = list("aaxa") + list("xaxxx") + list("xax")
    client = connect({"copies": Album.from_arrays(vectors, {"label": labels})})
    curve = search(client, photo=0)["curve"]
    right = np.array([label == "a" for label in labels[1:]])
    expected = average_precision_score(right, [3] * 3 + [1] * 8)
    assert curve["average_precision"] == pytest.approx(expected, abs=1e-12)
    assert (curve["recall"], curve["precision"]) == ([0, 0.5, 1], [0.66667, 0.66667, 0.36364])
