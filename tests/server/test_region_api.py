"""Searches for things inside photos under /api/v1: the part that was found, pages, marks, and what is refused."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from smoothap.album import index_photos
from smoothap.models import Embedder


@pytest.fixture(scope="module")
def parted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parted")
    torch.manual_seed(0)
    model = Embedder("test_resnet", None, size=64, pretrained=False).save(folder / "model")
    (folder / "photos").mkdir()
    for number in range(12):
        patches = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(patches).resize((160, 120), Image.Resampling.NEAREST).save(folder / f"photos/{number}.png")
    return index_photos(folder / "photos", folder / "album", model=str(model), regions=True, progress=False).album


@pytest.fixture(scope="module")
def asking(connect, parted):
    client = connect({"parted": parted})
    return lambda **request: client.post("/api/v1/albums/parted/search", json={"space": "region", **request})


def test_a_search_by_id_answers_what_the_album_does_with_boxes_as_shares(asking, parted):
    answer = asking(id=3, limit=5).json()
    expected = parted.search(3, k=5, space="region")
    assert [(hit["id"], hit["score"]) for hit in answer["hits"]] == [(hit.id, hit.score) for hit in expected]
    for hit, other in zip(answer["hits"], expected, strict=True):
        assert hit["box"] == pytest.approx(
            [other.box[0] / 160, other.box[1] / 120, other.box[2] / 160, other.box[3] / 120]
        )
    assert answer["total"] == 11


def test_a_photo_from_elsewhere_is_asked_with_again_by_its_query(connect, asking, parted):
    stream = io.BytesIO()
    Image.open(parted.photo_path(5)).save(stream, "PNG")
    client = connect({"parted": parted})
    form = {"space": "region", "limit": 4, "box": "0.25,0.25,0.5,0.5"}
    answer = client.post("/api/v1/albums/parted/search/photo", data=form, files={"image": stream.getvalue()}).json()
    expected = parted.search(parted.photo_path(5), k=8, box=(40, 30, 80, 60), space="region")
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in expected[:4]]
    rest = asking(vector=answer["query"]["vector"], model=answer["query"]["model"], offset=4, limit=4).json()
    assert [hit["id"] for hit in rest["hits"]] == [hit.id for hit in expected[4:]]
    assert [hit["rank"] for hit in rest["hits"]] == [5, 6, 7, 8]


def test_parts_of_photos_filters_and_marks(asking, parted):
    part = asking(id=5, box=[0.25, 0.25, 0.5, 0.5], limit=20).json()
    assert sorted(hit["id"] for hit in part["hits"]) == [number for number in range(12) if number != 5]
    marked = asking(id=5, wrong=[part["hits"][0]["id"]], limit=20).json()
    assert part["hits"][0]["id"] not in {hit["id"] for hit in marked["hits"]}
    least = part["hits"][3]["score"]
    assert asking(id=5, box=[0.25, 0.25, 0.5, 0.5], min_score=least).json()["total"] == 4


def test_what_parts_do_not_have_is_refused(asking, connect, parted, album):
    assert asking().status_code == 422
    assert asking(id=3, stacked=True).status_code == 422
    assert asking(id=[1, 2], box=[0, 0, 0.5, 0.5]).status_code == 422
    assert asking(id=999).status_code == 404
    client = connect({"parted": parted})
    listed = client.post("/api/v1/albums/parted/search.csv", json={"id": 1, "space": "region"})
    assert len(listed.text.splitlines()) == 12
    without = connect({"letters": album}).post("/api/v1/albums/letters/search", json={"id": 1, "space": "region"})
    assert 400 <= without.status_code < 500
    assert "--regions" in without.json()["detail"]


def test_an_album_says_whether_it_knows_parts_and_their_scores_are_counted(asking, connect, parted, album):
    listed = connect({"parted": parted, "letters": album}).get("/api/v1/albums").json()["albums"]
    assert {each["name"]: each["regions"] for each in listed} == {"parted": True, "letters": False}
    answer = asking(id=3, limit=20, statistics=True).json()
    scores = [hit["score"] for hit in answer["hits"]]
    assert (answer["ranked"], answer["lowest"], answer["highest"]) == (11, min(scores), max(scores))
