"""Searches over the API: against scikit-learn, plain numpy and the album in Python; mistakes in a sentence."""

import base64
import csv
import http
import io

import numpy as np
import pytest
from page_albums import LETTERS, MODEL, PixelAlbum, Pixels, empty_album, letter
from PIL import Image
from sklearn.metrics import average_precision_score, precision_recall_curve

from smoothap.album import Album
from smoothap.album.prepare import plain_jpeg
from smoothap.server import served_album as served_album_module
from smoothap.server.app import create_app


def png(image):
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def search(client, album="letters", **question):
    answer = client.post(f"/api/v1/albums/{album}/search", json={"statistics": True, **question})
    assert answer.status_code == 200, answer.text
    return answer.json()


def by_photo(client, content, album="letters", **options):
    answer = client.post(f"/api/v1/albums/{album}/search/photo", files={"image": content}, data=options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def numbers(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


def test_what_albums_there_are_and_what_they_can(client, connect, albums, album):
    assert client.get("/api/v1/albums").json()["albums"] == [
        {
            "name": "letters", "version": album.version, "photos": 96, "dimension": 64, "columns": [], "labelled": True,
            "takes_photos": True, "calibrated": False, "keeps": False, "people": False, "regions": False,
            "indexing": None, "problem": None,
        }
    ]  # fmt: skip
    both = connect(albums).get("/api/v1/albums").json()
    assert [each["takes_photos"] for each in both["albums"]] == [False, False]
    assert len(both["start"]) == 2


def test_an_album_goes_by_its_name(client):
    assert client.get("/api/v1/albums/letters").json()["name"] == "letters"
    answer = client.post("/api/v1/albums/0/search", json={"id": 1})
    assert (answer.status_code, answer.json()["detail"]) == (404, "There is no album '0': this server has letters.")


@pytest.mark.parametrize("photo", [0, 13, 95])
def test_the_ranking_and_its_average_precision_are_exact(client, album, photo):
    answer = search(client, id=photo, limit=200, rerank=False)
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
    whole = search(client, id=7, limit=200)["hits"]
    pages = [search(client, id=7, offset=offset, limit=40) for offset in (0, 40, 80)]
    assert [hit for page in pages for hit in page["hits"]] == whole
    assert [page["curve"] is None for page in pages] == [False, True, True]


def test_the_least_score_shortens_the_list_and_counts_what_is_right(client):
    whole = search(client, id=20, limit=200)["hits"]
    least = whole[9]["score"]
    answer = search(client, id=20, min_score=least - 1e-6)
    assert answer["total"] == 10
    assert answer["right_in_list"] == sum(hit["right"] for hit in whole[:10])
    assert search(client, id=20, min_score=1.0)["total"] == 0


def test_an_uploaded_photo_is_found_in_one_round_trip_and_asked_with_again_by_its_vector(client, album):
    content = png(letter("Q", "DejaVuSans"))
    answer = by_photo(client, content, limit=5, statistics="true")
    assert numbers(answer["query"]["vector"]) == pytest.approx(
        Pixels().embed([letter("Q", "DejaVuSans")])[0].numpy(), abs=1e-5
    )
    assert (answer["total"], answer["ranked"], len(answer["hits"])) == (96, 96, 5)
    assert [hit["label"] for hit in answer["hits"]][:3] == ["Q", "Q", "Q"]
    assert answer["hits"][0]["right"] is None
    assert answer["curve"] is None
    assert answer["preview"] is None
    rest = search(client, **answer["query"], offset=5, limit=91)
    assert [hit["rank"] for hit in rest["hits"]] == list(range(6, 97))
    assert search(client, **answer["query"], limit=5)["hits"] == answer["hits"]
    assert by_photo(client, content)["hits"][:5] == answer["hits"]  # without ranking the whole album
    assert rest["query"] == answer["query"]
    moved = search(client, **answer["query"], limit=5, wrong=[answer["hits"][4]["id"]])
    assert moved["hits"] != answer["hits"]
    assert moved["query"] == answer["query"]  # as it was before the marks


def test_the_server_shows_a_photo_that_the_browser_cannot(client):
    shown = by_photo(client, png(letter("Q", "DejaVuSans")), preview="true")["preview"]
    with Image.open(io.BytesIO(base64.b64decode(shown))) as image:
        assert (image.format, image.size) == ("JPEG", (120, 120))


def test_a_box_is_that_part_of_the_photo(client, album):
    drawn = letter("K", "DejaVuSans-Bold")
    answer = by_photo(client, png(drawn), box="0.25,0.1,0.5,0.6")
    wanted = Pixels().embed([drawn.crop((30, 12, 90, 84))])[0].numpy()
    assert numbers(answer["query"]["vector"]) == pytest.approx(wanted, abs=1e-4)
    own = search(client, id=5, box=[0.25, 0.1, 0.5, 0.6], limit=200)
    with Image.open(album.photo_path(5)) as photo:
        wanted = Pixels().embed([photo.crop((30, 12, 90, 84))])[0].numpy()
    assert numbers(own["query"]["vector"]) == pytest.approx(wanted, abs=1e-4)
    assert 5 not in [hit["id"] for hit in own["hits"]]
    assert own["curve"]["positives"] == 7
    assert search(client, id=5, **own["query"], limit=200) == own


def test_several_photos_are_one_query(client, album):
    answer = search(client, id=[0, 1, 9], limit=200)
    expected = album.search([0, 1, 9], k=200)
    assert [(hit["id"], hit["score"]) for hit in answer["hits"]] == [(hit.id, hit.score) for hit in expected]
    assert answer["curve"] is None  # they have two labels
    assert search(client, id=[0, 1], limit=200)["curve"]["positives"] == 6


def test_the_answer_is_that_of_the_album_in_python(client, album):
    for identity in (0, 17, len(album) - 1):
        expected = [(hit.id, hit.rank, hit.score, hit.path, hit.label) for hit in album.search(identity, k=7)]
        for statistics in (False, True):  # the nearest alone, or all of them ranked
            hits = search(client, id=identity, limit=7, statistics=statistics)["hits"]
            assert [(hit["id"], hit["rank"], hit["score"], hit["path"], hit["label"]) for hit in hits] == expected
            page = search(client, id=identity, offset=3, limit=4, statistics=statistics)["hits"]
            assert page == hits[3:]
        vector = album.vectors[identity].tolist()
        hits = search(client, vector=vector, limit=3)["hits"]
        assert [hit["id"] for hit in hits] == [hit.id for hit in album.search(np.array(vector, np.float32), k=3)]


def test_marks_move_the_nearest_as_they_move_the_ranking(client):
    marks = {"right": [3, 12], "wrong": [40]}
    ranked, nearest = (search(client, id=0, limit=50, statistics=each, **marks)["hits"] for each in (True, False))
    assert [(hit["id"], hit["score"]) for hit in nearest] == [(hit["id"], hit["score"]) for hit in ranked]


def test_groups_are_the_best_photo_of_each_with_counts(client, album):
    everything = album.search(3, everything=True)
    found = search(client, id=3, group_by="label", limit=100)
    best = {}
    for hit in everything:
        best.setdefault(hit.label, hit)
    assert [(each["group"], each["best"]["id"]) for each in found["groups"]] == [
        (name, hit.id) for name, hit in best.items()
    ]
    counts = {label: sum(hit.label == label for hit in everything) for label in LETTERS}
    assert {each["group"]: each["photos"] for each in found["groups"]} == counts
    assert found["hits"] == []
    assert search(client, id=3, group_by="label", offset=1, limit=2)["groups"] == found["groups"][1:3]


def test_what_is_marked_moves_the_search(client, album):
    plain = search(client, id=40, limit=200)
    wrong = next(hit["id"] for hit in plain["hits"] if not hit["right"])
    right = [hit["id"] for hit in plain["hits"] if hit["right"]][-2:]
    moved = search(client, id=40, limit=200, right=right, wrong=[wrong])
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
    client = connect({"letters": calibrated})
    answer = search(client, id=3, recall=0.8)
    assert answer["min_score"] == pytest.approx(calibration.ranked.score_for_recall(0.8))
    plain = search(client, id=3, recall=0.8, rerank=False)
    assert plain["min_score"] == pytest.approx(calibration.score_for_recall(0.8))
    assert answer["expected_recall"] >= 0.8
    assert 0 < answer["expected_precision"] <= 1
    assert answer["total"] < 95


def test_the_two_albums_name_each_photo_in_both(connect, albums):
    client = connect(albums)
    one, other = albums
    photo = client.get(f"/api/v1/albums/{other}/photos/12").json()
    assert photo["twins"] == [12, 12]
    assert client.get(f"/api/v1/albums/{one}/photos/12").json()["path"] == photo["path"]


def test_the_first_comparison_is_of_the_median_gain(connect, albums):
    start = connect(albums).get("/api/v1/albums").json()["start"]

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
    listed = client.post("/api/v1/albums/a/search.csv", json={"id": 6})
    assert listed.headers["content-type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(listed.text, newline="")))
    assert rows[0] == ["rank", "score", "photo", "label"]
    assert len(rows) == 7
    assert all(not cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row[2:])
    assert any(row[2] == 'a,"b".jpg' for row in rows)


def test_names_that_are_no_text_do_not_stop_the_answer(connect):
    metadata = [{"path": "caf\udce9.jpg"}, {"path": "a\u202egpj.exe"}, {"path": "new\nline.jpg"}]
    client = connect({"odd": Album.from_arrays(np.eye(3), metadata)})
    paths = [each["path"] for each in client.get("/api/v1/albums/odd/photos").json()["photos"]]
    assert paths == ["caf\\udce9.jpg", "a\u202egpj.exe", "new\nline.jpg"]


def test_an_empty_album_answers(connect):
    client = connect({"letters": empty_album()})
    assert client.get("/api/v1/albums").json()["albums"][0]["photos"] == 0
    answer = client.get("/api/v1/albums/letters/photos").json()
    assert (answer["total"], answer["folded"], answer["photos"]) == (0, 0, [])
    assert client.post("/api/v1/albums/letters/search", json={"id": 0}).status_code == 404
    vector = base64.b64encode(np.ones(empty_album().vectors.shape[1], "<f4")).decode()
    for statistics in (True, False):
        assert search(client, vector=vector, statistics=statistics)["total"] == 0


@pytest.mark.parametrize(
    ("question", "status", "told"),
    [
        ({}, 422, "needs a query"),
        ({"id": 10**9}, 404, "no photo 1000000000"),
        ({"id": -1}, 422, "id"),
        ({"id": 1, "right": [10**9]}, 404, "no photo"),
        ({"id": 1, "recall": 0.9}, 409, "not calibrated"),
        ({"id": 1, "limit": 10**6}, 422, "limit"),
        ({"id": 1, "min_score": 7}, 422, "min_score"),
        ({"id": 1, "surprise": 7}, 422, "surprise"),
        ({"vector": "not base64!"}, 422, "base64"),
        ({"vector": base64.b64encode(b"12345").decode()}, 422, "base64"),
        ({"vector": base64.b64encode(bytes(4 * 64)).decode()}, 422, "zero"),
        ({"vector": base64.b64encode(np.full(64, np.nan, "<f4").tobytes()).decode()}, 422, "not finite"),
        ({"vector": base64.b64encode(np.ones(3, "<f4").tobytes()).decode()}, 422, "3 numbers"),
        ({"vector": [1.0, 2.0]}, 422, "has 2 numbers and the album's model gives 64"),
        ({"vector": [0.0] * 64}, 422, "zero or not finite"),
        ({"vector": [1e39] * 64}, 422, "zero or not finite"),
        ({"vector": base64.b64encode(np.ones(64, "<f4")).decode(), "model": "another"}, 409, "another model"),
        ({"id": [1, 2], "box": [0, 0, 0.5, 0.5]}, 422, "A box is a part of one photo"),
        ({"id": 1, "box": [0, 0, 0, 0]}, 422, "box"),
        ({"id": 1, "where": ["colour"]}, 422, "it is COLUMN=VALUE"),
        ({"id": 1, "group_by": "size"}, 422, "no column 'size'"),
        ([1], 422, "valid dictionary"),
    ],
)
def test_a_wrong_question_is_answered_in_a_sentence(client, question, status, told):
    answer = client.post("/api/v1/albums/letters/search", json=question)
    assert answer.status_code == status
    assert told in answer.json()["detail"]


def test_wrong_addresses_and_methods_are_answered_in_a_sentence(client):
    base = "/api/v1/albums"
    for method, address, status in [
        ("GET", "/nothing", 404), ("GET", "/docs", 404), ("GET", "/static/nothing.js", 404),
        ("GET", f"{base}/other/photos", 404), ("GET", f"{base}/letters/photos/96", 404),
        ("GET", f"{base}/letters/photos/96/thumbnail", 404), ("GET", f"{base}/letters/photos/zero", 422),
        ("DELETE", base, 405), ("GET", f"{base}/letters/search", 405),
    ]:  # fmt: skip
        answer = client.request(method, address)
        assert answer.status_code == status, address
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json() == {
            "type": "about:blank", "title": http.HTTPStatus(status).phrase, "status": status,
            "detail": answer.json()["detail"],
        }  # fmt: skip
        assert answer.json()["detail"].endswith(".")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"data": {"limit": "5"}}, "image: "),
        ({"files": {"image": b"no image"}}, "cannot be used"),
        ({"files": {"image": b"no image"}, "data": {"limit": "many"}}, "limit: "),
        ({"files": {"image": b"no image"}, "data": {"kk": "3"}}, "no parameter 'kk' here"),
        ({"files": {"other": b"x"}}, "image: "),
        ({"files": [("image", b"one"), ("image", b"other")]}, "one photo, not 2"),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data; boundary=x"}}, "image: "),
        ({"content": b"no form", "headers": {"content-type": "multipart/form-data; boundary=x"}}, "multipart"),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data"}}, "boundary"),
        *(({"files": {"image": b"x"}, "data": {"box": box}}, "box") for box in ("0,0,0,0", "2,0,1,1", "0,0,1", "a")),
    ],
)
def test_a_wrong_form_is_answered_in_a_sentence(client, form, words):
    answer = client.post("/api/v1/albums/letters/search/photo", **form)
    assert answer.status_code in (400, 422), answer.text
    assert words in answer.json()["detail"]


def test_an_album_without_a_model_says_so(connect, albums):
    name = next(iter(albums))
    content = {"image": png(letter("A", "DejaVuSans"))}
    answer = connect(albums).post(f"/api/v1/albums/{name}/search/photo", files=content)
    assert answer.status_code == 409
    assert "no model" in answer.json()["detail"]


def test_three_albums_are_too_many(album):
    with pytest.raises(ValueError, match="compares two"):
        create_app({"a": album, "b": album, "c": album})


def test_every_photo_of_the_album_has_a_thumbnail_and_an_image(client):
    for kind, side in (("thumbnail", 256), ("image", 1024)):
        answer = client.get(f"/api/v1/albums/letters/photos/9/{kind}")
        assert answer.headers["content-type"] == "image/jpeg"
        with Image.open(io.BytesIO(answer.content)) as image:
            assert max(image.size) <= side
            assert image.format == "JPEG"
    assert len(LETTERS) * 8 == client.get("/api/v1/albums/letters/photos").json()["total"]


def test_a_picture_is_stripped_of_all_that_travels_with_it():
    image = letter("A", "DejaVuSans")
    image.info["comment"] = b"PRIVATE"  # Pillow would write it again
    assert b"PRIVATE" not in plain_jpeg(image, 92)


@pytest.mark.parametrize("kept", [6_400_000, 10])
def test_marked_photos_stay_and_every_page_counts_the_whole_ranking(connect, album, kept, monkeypatch):
    monkeypatch.setattr(served_album_module, "_SCORES_KEPT", kept)  # with few, each page is ranked again
    client = connect({"letters": album})
    plain = search(client, id=40, limit=200, rerank=False)["hits"]
    marks = {"wrong": [hit["id"] for hit in plain[:3]], "right": [plain[9]["id"]], "rerank": False}
    direction = album.vectors[40] + album.vectors[marks["right"]].mean(0) - 0.5 * album.vectors[marks["wrong"]].mean(0)
    others = np.delete(np.arange(96), 40)
    scores = (album.vectors @ (direction / np.linalg.norm(direction)))[others]
    labels = np.array([each.label for each in album.photos])
    right = labels[others] == labels[40]
    pages = [search(client, id=40, offset=offset, limit=40, **marks) for offset in (0, 40, 80)]
    search(client, id=41)
    listed = [hit for page in pages for hit in page["hits"]]
    assert {hit["id"] for hit in listed} == set(others.tolist())
    assert [hit["rank"] for hit in listed] == list(range(1, 96))
    assert [hit["score"] for hit in listed] == pytest.approx(np.sort(scores)[::-1].tolist(), abs=1e-5)
    assert pages[0]["curve"]["average_precision"] == pytest.approx(average_precision_score(right, scores), abs=1e-9)
    assert {page["total"] for page in pages} == {95}
    assert {(page["lowest"], page["highest"]) for page in pages} == {(listed[-1]["score"], listed[0]["score"])}
    least = listed[49]["score"]
    for offset in (0, 40, 80):
        page = search(client, id=40, offset=offset, limit=40, min_score=least, **marks)
        assert page["hits"] == listed[offset : min(offset + 40, 50)]
        assert page["total"] == 50
        assert page["right_in_list"] == sum(hit["right"] for hit in listed[:50])
    found = {hit.id for hit in album.search(40, everything=True, **marks)}
    assert found == set(others.tolist()) - set(marks["wrong"])


def test_a_list_to_download_has_every_photo(connect):
    rows = 1_000  # more than a page may have
    vectors = np.random.default_rng(0).standard_normal((rows, 2)).astype(np.float32)
    album = Album.from_arrays(vectors, {"path": [f"{row}.jpg" for row in range(rows)]})
    client = connect({"letters": album})
    listed = client.post("/api/v1/albums/letters/search.csv", json={"id": 7, "limit": 5}).text.splitlines()[1:]
    assert {line.split(",")[2] for line in listed} == {f"{row}.jpg" for row in range(rows) if row != 7}
    least = search(client, id=7, offset=500, limit=1)["hits"][0]["score"]
    short = client.post("/api/v1/albums/letters/search.csv", json={"id": 7, "min_score": least}).text.splitlines()[1:]
    assert short == listed[: search(client, id=7, min_score=least)["total"]]
    assert len(short) >= 501


def test_equal_scores_count_against_the_right_ones(connect):
    vectors = np.repeat(np.eye(3, dtype=np.float32) + 0.1, [4, 5, 3], axis=0)
    labels = list("aaxa") + list("xaxxx") + list("xax")
    client = connect({"letters": Album.from_arrays(vectors, {"label": labels})})
    curve = search(client, id=0)["curve"]
    right = np.array([label == "a" for label in labels[1:]])
    expected = average_precision_score(right, [3] * 3 + [1] * 8)
    assert curve["average_precision"] == pytest.approx(expected, abs=1e-12)
    assert (curve["recall"], curve["precision"]) == ([0, 0.5, 1], [0.66667, 0.66667, 0.36364])


def test_a_long_answer_is_compressed_for_clients_that_take_it(client):
    question = {"id": 3, "limit": 90}
    answers = [
        client.post("/api/v1/albums/letters/search", json=question, headers={"accept-encoding": encoding})
        for encoding in ("gzip", "identity")
    ]
    assert [answer.headers.get("content-encoding") for answer in answers] == ["gzip", None]
    assert answers[0].json() == answers[1].json()
    assert int(answers[0].headers["content-length"]) < len(answers[1].content) / 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "The body is no JSON, from its letter 1 on: "),
        (b"\xff", "The body cannot be read: send JSON, in UTF-8."),
        (b'{"id": 1.5}', "id: Input should be a valid integer, "),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_in_plain_words(client, body, said):
    answer = client.post("/api/v1/albums/letters/search", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert answer.json()["detail"].startswith(said)
