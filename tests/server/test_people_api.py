"""People over HTTP: groups, names, marks, questions, faces of photos, drawn boxes and searches by face."""

import io
import shutil
import threading

import numpy as np
import pytest
from drawn_people import COLOURS, draw, drawn_finder, party_album
from PIL import Image

from smoothap.album.joining import join_albums
from smoothap.models.faces.people import PeopleFinder


@pytest.fixture
def party(tmp_path, monkeypatch):
    monkeypatch.setattr(PeopleFinder, "open", staticmethod(drawn_finder))
    return party_album(tmp_path)


@pytest.fixture
def client(connect, party):
    return connect({"party": party})


BASE = "/api/v1/albums/party"


def get(client, path, **params):
    answer = client.get(f"{BASE}/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(client, path, status=200, **body):
    answer = client.post(f"{BASE}/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def names_of(answer):
    return {hit["path"].removesuffix(".png") for hit in answer["hits"]}


def person_in(client, photo, place=0):
    return get(client, f"photos/{photo}/faces")["faces"][place]["person"]


def sizes(client, **params):
    return [one["photos"] for one in get(client, "people", **params)["people"]]


def add_somebody_like_anna(party, monkeypatch):
    """A face that may be hers, and is not certainly."""
    monkeypatch.setitem(COLOURS, "Fay", (185, 50, 200))
    draw(party.root / "alike.png", "Fay", seed=90, noise=0)
    party.update(progress=False)


def test_groups_come_with_cover_count_and_name_the_named_first(client):
    listed = get(client, "people")
    assert [one["photos"] for one in listed["people"]] == [6, 4, 2, 2]
    assert all(one["name"] is None and one["photos"] == one["faces"] for one in listed["people"])
    chris = person_in(client, 8)
    answer = client.put(f"{BASE}/people/{chris['number']}/name", json={"name": " Chris  "})
    assert answer.json()["person"]["name"] == "Chris"
    after = get(client, "people", min_photos=3)
    assert [(one["name"], one["photos"]) for one in after["people"]] == [("Chris", 2), (None, 6), (None, 4)]
    assert (after["rarer"], after["strangers"], after["undo"]) == (1, 0, "2 photos of  Chris  ")
    assert after["version"] != listed["version"]
    assert len(get(client, "people", offset=1, limit=2)["people"]) == 2


def test_the_photos_of_a_person_come_ranked_each_once_with_the_face(client):
    anna = person_in(client, 0)
    answer = post(client, f"people/{anna['number']}/photos")
    assert names_of(answer) == {"0", "1", "2", "3", "6", "9"}
    assert answer["total"] == 6
    scores = [hit["score"] for hit in answer["hits"]]
    assert scores == sorted(scores, reverse=True)
    boxes = {hit["path"]: hit["box"] for hit in answer["hits"]}
    assert boxes["3.png"] == pytest.approx([48 / 200, 8 / 120, 12 / 200, 12 / 120])
    rest = post(client, f"people/{anna['number']}/photos", offset=4, limit=10)
    assert [hit["rank"] for hit in rest["hits"]] == [5, 6]


def test_marks_put_faces_in_and_out_and_undo_takes_each_back(client):
    anna = person_in(client, 0)
    hits = post(client, f"people/{anna['number']}/photos")["hits"]
    first = hits[0]
    said = post(client, f"people/{anna['number']}/marks", wrong=[first["face"]])
    number = said["person"]["number"]
    assert said["person"]["photos"] == 5
    assert first["face"] not in {hit["face"] for hit in post(client, f"people/{number}/photos")["hits"]}
    missing = post(client, f"people/{number}/photos", missing=True)
    assert first["face"] not in {hit["face"] for hit in missing["hits"]}  # which was said not to be them
    back = post(client, f"people/{number}/marks", neither=[first["face"]])
    assert back["person"]["photos"] == 6
    chosen = {hit["face"]: hit["said"] for hit in post(client, f"people/{number}/photos")["hits"]}
    assert chosen[first["face"]] is None
    assert set(chosen.values()) == {None, True}
    assert post(client, "people/undo")["said"] == "Undone: 1 face not marked"
    assert person_in(client, 1)["photos"] in (5, 6)
    post(client, "people/undo")
    assert sizes(client) == [6, 4, 2, 2]
    assert "nothing to undo" in post(client, "people/undo", status=409)["detail"]


def test_what_was_said_is_undone_through_any_process_and_also_after_a_restart(client, connect, party):
    anna = person_in(client, 0)["number"]
    client.put(f"{BASE}/people/{anna}/name", json={"name": "Anna"})
    post(client, f"people/{anna}/stranger")
    other = connect({"party": type(party).open(party.folder)})
    assert get(other, "people")["undo"] == "A stranger"
    assert post(other, "people/undo")["undo"] == "6 photos of Anna"
    assert person_in(client, 0)["name"] == "Anna"
    type(party).open(party.folder).people.no_face([0])  # something that is said elsewhere is no step of this page
    assert get(client, "people")["undo"] is None
    assert "nothing to undo" in post(client, "people/undo", status=409)["detail"]


def test_a_page_takes_back_only_the_step_that_it_knows_as_the_last(client):
    anna, bea = person_in(client, 0)["number"], person_in(client, 4)["number"]
    assert anna != bea
    seen = client.put(f"{BASE}/people/{anna}/name", json={"name": "Anna"}).json()  # by one page
    client.put(f"{BASE}/people/{bea}/name", json={"name": "Bea"})  # by another
    assert "elsewhere since" in post(client, "people/undo", version=seen["version"], status=409)["detail"]
    assert "elsewhere since" in post(client, "people/undo", version="none", status=409)["detail"]
    assert person_in(client, 4)["name"] == "Bea"
    known = get(client, "people")
    assert post(client, "people/undo", version=known["version"])["said"].endswith("of Bea")
    assert person_in(client, 0)["name"] == "Anna"


def test_what_another_says_in_the_middle_of_a_step_is_no_part_of_it(party):
    one, other = party.people, type(party).open(party.folder).people
    anna, bea = one.faces_of(0)[0][2].number, one.faces_of(4)[0][2].number

    def say():
        with other.step("Bea"):
            other.name(bea, "Bea")

    says = threading.Thread(target=say)
    with one.step("Anna"):
        one.name(anna, "Anna")
        says.start()
        says.join(0.5)
    says.join()
    assert one.undo() == "Bea"
    assert (one.group(anna).name, one.group(bea).name) == ("Anna", None)
    assert one.undo() == "Anna"


def test_a_face_whose_name_is_refused_is_not_drawn(client, party):
    before = [one["id"] for one in get(client, "photos/0/faces")["faces"]]
    box = [0.6, 0.1, 0.2, 0.3]
    assert "1 to 200 letters" in post(client, "photos/0/faces", box=box, name=" ", status=422)["detail"]
    assert [one["id"] for one in get(client, "photos/0/faces")["faces"]] == before
    drawn = post(client, "photos/0/faces", box=box, name="Bea")
    assert drawn["person"]["name"] == "Bea"
    assert len(get(client, "photos/0/faces")["faces"]) == len(before) + 1
    assert post(client, "people/undo", version=drawn["version"])["said"].startswith("Undone: Bea")


def test_where_the_album_is_read_only_a_name_is_refused_in_a_sentence(client):
    anna = person_in(client, 0)["number"]
    connection = client.app.state.parts.albums._albums[0].album.face_space().store.database._connection
    connection.execute("PRAGMA query_only=ON")
    answer = client.put(f"{BASE}/people/{anna}/name", json={"name": "Anna"})
    assert answer.status_code == 403
    assert "cannot be written here" in answer.json()["detail"]
    assert not answer.json()["detail"].startswith("[Errno")


def test_what_is_missing_of_a_person_is_offered_most_alike_first_and_taken_in(client, party, monkeypatch):
    add_somebody_like_anna(party, monkeypatch)
    asked = next(each for each in get(client, "people/questions") if each["one"]["photos"] == 1)
    other = asked["other"]
    assert other["photos"] == 6
    assert 0.3 < asked["score"] < 0.5
    missing = post(client, f"people/{other['number']}/photos", missing=True)
    assert "alike" in names_of(missing)
    face = next(hit["face"] for hit in missing["hits"] if hit["path"] == "alike.png")
    assert post(client, f"people/{other['number']}/photos", missing=True, seen=[face])["total"] == missing["total"] - 1
    grown = post(client, f"people/{other['number']}/marks", right=[face])
    assert grown["person"]["photos"] == other["photos"] + 1


def test_a_question_that_is_answered_is_not_asked_again(client, party, monkeypatch):
    add_somebody_like_anna(party, monkeypatch)
    asked = next(each for each in get(client, "people/questions") if each["one"]["photos"] == 1)
    pair = [asked["one"]["number"], asked["other"]["number"]]
    post(client, "people/different", faces=pair)
    assert pair not in [[each["one"]["number"], each["other"]["number"]] for each in get(client, "people/questions")]
    post(client, "people/undo")
    merged = post(client, "people/merge", faces=pair)
    assert merged["person"]["photos"] == asked["one"]["photos"] + asked["other"]["photos"]
    assert "Two groups" in post(client, "people/different", status=422, faces=[pair[0]])["detail"]


def test_groups_are_merged_split_and_put_away(client):
    bob, chris = person_in(client, 4), person_in(client, 8)
    post(client, "people/merge", faces=[bob["number"], chris["number"]])
    assert sizes(client) == [6, 5, 2]
    anna = post(client, f"people/{person_in(client, 0)['number']}/photos")["hits"]
    post(client, "people/split", faces=[hit["face"] for hit in anna[:2]])
    assert sizes(client) == [5, 4, 2, 2]
    post(client, f"people/{person_in(client, 8, 1)['number']}/stranger")
    assert sizes(client) == [5, 4, 2]
    assert sizes(client, strangers=True) == [2]
    dana = get(client, "people", strangers=True)["people"][0]
    client.put(f"{BASE}/people/{dana['number']}/name", json={"name": "Dana"})  # whom somebody knows after all
    assert sizes(client) == [2, 5, 4, 2]
    assert sizes(client, strangers=True) == []


def test_what_is_no_face_is_in_no_photo_and_no_search(client):
    faces = get(client, "photos/3/faces")["faces"]
    assert len(faces) == 2
    assert faces[0]["box"][2] > faces[1]["box"][2]
    post(client, "people/no-face", faces=[faces[0]["id"]])
    assert [one["id"] for one in get(client, "photos/3/faces")["faces"]] == [faces[1]["id"]]
    assert "3" not in names_of(post(client, "search", id=4, space="face", limit=2, rerank=False))
    assert client.get(f"{BASE}/people/{faces[0]['id']}").status_code == 404


def test_a_box_drawn_where_no_face_was_found_is_a_face_for_ever(client, party):
    assert get(client, "photos/7/faces")["faces"] == []
    box = [0.5, 0.5, 0.12, 0.2]
    said = post(client, "photos/7/faces", box=box, name="Gus")
    assert (said["person"]["name"], said["person"]["photos"]) == ("Gus", 1)
    (face,) = get(client, "photos/7/faces")["faces"]
    assert face["box"] == pytest.approx(box)
    store = party.face_space().store
    store.drop(party.photos.ids.tolist())  # as if all were looked at again
    party.find_people(progress=False)
    (again,) = get(client, "photos/7/faces")["faces"]
    assert again["id"] != face["id"]
    assert (again["box"], again["person"]["name"]) == (pytest.approx(box), "Gus")
    assert party.find_people(progress=False) == 0
    post(client, "people/no-face", faces=[again["id"]])  # and no more, once that is said
    store.drop(party.photos.ids.tolist())
    party.find_people(progress=False)
    assert get(client, "photos/7/faces")["faces"] == []


def test_a_drawn_face_is_undone_and_one_that_is_there_is_not_drawn_twice(client):
    post(client, "photos/7/faces", box=[0.5, 0.5, 0.12, 0.2])
    post(client, "people/undo")
    assert get(client, "photos/7/faces")["faces"] == []
    before = get(client, "photos/0/faces")["faces"]
    post(client, "photos/0/faces", box=[8 / 200, 8 / 120, 25 / 200, 25 / 120], name="Anna")
    after = get(client, "photos/0/faces")["faces"]
    assert [one["id"] for one in after] == [one["id"] for one in before]
    assert after[0]["person"]["name"] == "Anna"


def test_the_picture_of_a_face_is_cut_from_its_photo_and_kept_by_no_browser(client, party):
    face = get(client, "photos/4/faces")["faces"][0]
    answer = client.get(f"{BASE}/faces/{face['id']}/picture")
    assert answer.headers["cache-control"] == "no-store"
    picture = np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGB"), float)
    middle = picture[picture.shape[0] // 2, picture.shape[1] // 2]
    assert middle == pytest.approx(COLOURS["Bob"], abs=30)
    (party.root / "5.png").unlink()  # from the small picture then
    gone = get(client, "photos/5/faces")["faces"][0]
    assert client.get(f"{BASE}/faces/{gone['id']}/picture").status_code == 200
    assert client.get(f"{BASE}/faces/9999/picture").status_code == 404


def test_a_search_by_face_takes_a_photo_a_face_a_box_and_a_vector(client, party):
    largest = post(client, "search", id=3, space="face", limit=3, rerank=False, statistics=True)
    assert names_of(largest) == {"2", "4", "5"}
    assert largest["ranked"] == largest["total"] == 8
    assert largest["hits"][0]["box"] is not None
    second = post(client, "search", id=3, space="face", face=2, limit=5, rerank=False)
    assert names_of(second) == {"0", "1", "2", "6", "9"}
    boxed = post(
        client, "search", id=3, space="face", box=[46 / 200, 6 / 120, 15 / 200, 15 / 120], limit=5, rerank=False
    )
    assert names_of(boxed) == names_of(second)
    again = post(client, "search", id=3, space="face", limit=5, rerank=False, **second["query"])
    assert [hit["id"] for hit in again["hits"]] == [hit["id"] for hit in second["hits"]]
    above = post(client, "search", id=0, space="face", min_score=0.8)
    assert names_of(above) == {"1", "2", "3", "6", "9"}
    assert "no face was found in it" in post(client, "search", status=422, id=7, space="face")["detail"]
    assert "space=face" in post(client, "search", status=422, id=3, face=2)["detail"]
    assert (
        "another model"
        in post(client, "search", status=409, **{**second["query"], "model": "x"}, space="face")["detail"]
    )
    drawn = post(client, "search", id=7, space="face", box=[0.1, 0.1, 0.3, 0.3], limit=3)
    assert len(drawn["hits"]) == 3


def test_a_photo_from_elsewhere_is_searched_by_face(client, party, tmp_path):
    photo = draw(tmp_path / "query.png", "Chris", "Anna*", seed=77)
    for options, wanted in (({}, {"5", "8"}), ({"face": "2"}, {"0", "1", "2", "3", "6", "9"})):
        answer = client.post(
            f"{BASE}/search/photo", files={"image": photo.read_bytes()},
            data={"space": "face", "limit": len(wanted), "rerank": "false", **options},
        )  # fmt: skip
        assert names_of(answer.json()) == wanted
    boxed = client.post(
        f"{BASE}/search/photo", files={"image": photo.read_bytes()},
        data={"space": "face", "limit": 6, "box": "0.23,0.05,0.1,0.15", "rerank": "false"},
    )  # fmt: skip
    assert names_of(boxed.json()) == {"0", "1", "2", "3", "6", "9"}


def test_what_a_search_by_face_finds_is_kept_in_a_collection_and_listed(client):
    post(client, "collections", name="Anna")
    key = get(client, "collections")["collections"][0]["key"]
    post(client, f"collections/{key}/keep", id=0, space="face", min_score=0.8)
    assert set(get(client, f"collections/{key}")["right"]) == {0, 1, 2, 3, 6, 9}
    lines = client.post(f"{BASE}/search.csv", json={"id": 0, "space": "face", "min_score": 0.8}).text.splitlines()
    assert len(lines) == 6


def test_an_album_that_shows_no_people_says_so_everywhere(connect, party):
    hidden = connect({"party": type(party).open(party.folder, people=False)})
    assert hidden.get(BASE).json()["people"] is False
    for path in ("people", "people/questions", "people/0", "photos/0/faces", "faces/0/picture"):
        answer = hidden.get(f"{BASE}/{path}")
        assert answer.status_code == 409
        assert "shows no people" in answer.json()["detail"]
    assert hidden.post(f"{BASE}/search", json={"id": 0, "space": "face"}).status_code == 422


def test_once_people_are_forgotten_the_server_knows_nothing_of_them(client, party):
    face = person_in(client, 0)["cover"]
    assert client.get(f"{BASE}/faces/{face}/picture").status_code == 200
    type(party).open(party.folder).forget_people()
    assert client.get(f"{BASE}/faces/{face}/picture").status_code == 409
    assert client.get(BASE).json()["people"] is False


def test_forgetting_leaves_no_byte_of_what_was_said_and_seen_on_the_page(connect, party, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with (tmp_path / "access.jsonl").open("w") as log:
        client = connect({"party": party}, log=log)
        anna = person_in(client, 0)["number"]
        client.put(f"{BASE}/people/{anna}/name", json={"name": "Anna Of The Page"})
        post(client, "photos/7/faces", box=[0.5, 0.5, 0.12, 0.2], name="Gus Of The Page")
        post(client, "search", id=0, space="face")
        for face in range(15):
            client.get(f"{BASE}/faces/{face}/picture")
        faces = party.face_space().faces(party)
        vectors = [faces.vectors[row].tobytes() for row in range(len(faces))]
        log.flush()
    secrets = [b"Of The Page", *vectors]
    shutil.copytree(party.folder, tmp_path / "other", ignore=shutil.ignore_patterns("people"))
    join_albums([party.folder, tmp_path / "other"], tmp_path / "joined")  # which takes no people over
    assert not type(party).open(tmp_path / "joined").has_people

    def there():
        return b"".join(file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file())

    before = there()
    assert len(vectors) == 15
    assert all(secret in before for secret in secrets)
    type(party).open(party.folder).forget_people()
    after = there()
    assert not any(secret in after for secret in secrets)
    assert client.get(f"{BASE}/people").status_code == 409
