"""Collections become pairs that belong together and pairs that do not."""

import numpy as np
import pytest
import torch

from smoothap.album import Album, Collection
from smoothap.album._learn_training import Lessons, _batch, _loss
from smoothap.losses import SmoothAP


def collection(name, right, wrong):
    return Collection(name, 0, lambda key: (right, wrong, ()))


def lessons(**collections):
    photos = Album.from_arrays(np.eye(12), {"path": [f"{row}.jpg" for row in range(12)]}).photos
    given = {name: collection(name, *marks) for name, marks in collections.items()}
    return Lessons.of(given, photos)


def test_photos_of_one_collection_belong_together_and_no_others():
    found = lessons(cats=((1, 2, 3), (7,)), dogs=((4, 5), ()), few=((9,), (8,)))
    assert found.names == ("cats", "dogs")  # one photo says nothing of another
    assert found.rows.tolist() == [1, 2, 3, 4, 5, 7]
    pairs = {
        (int(found.rows[one]), int(found.rows[other])) for one, other in zip(*found.together().nonzero(), strict=True)
    }
    assert pairs == {(a, b) for group in ((1, 2, 3), (4, 5)) for a in group for b in group if a != b}
    assert not found.together()[5].any()  # the photo marked as wrong is alone
    assert found.sizes.tolist() == [3, 2]


def test_a_photo_may_be_in_two_collections():
    found = lessons(cats=((1, 2, 3), ()), beach=((3, 4), ()))
    together = {(int(found.rows[a]), int(found.rows[b])) for a, b in zip(*found.together().nonzero(), strict=True)}
    assert (3, 4) in together
    assert (3, 1) in together
    assert (1, 4) not in together


def test_photos_that_left_the_album_are_left_out():
    assert lessons(cats=((1, 2, 99), (77,))).rows.tolist() == [1, 2]


@pytest.mark.parametrize("dogs", [(4, 5), (4, 5, 3)])
def test_the_loss_is_that_of_its_definition_also_where_photos_are_in_two_collections(dogs):
    found = lessons(cats=((1, 2, 3), (7,)), dogs=(dogs, ()))
    embeddings = torch.nn.functional.normalize(torch.randn(6 + 5, 4, generator=torch.manual_seed(0)), dim=1)
    loss = _loss(SmoothAP(0.1), embeddings, found)
    wanted, together = 0.0, found.together()
    for query in range(5):  # by the definition: photos that share no collection, and unmarked ones, are negatives
        scores = embeddings @ embeddings[query]
        above = torch.sigmoid((scores[None] - scores[:, None]) / 0.1)
        positives = [j for j in range(6) if together[query, j]]
        among = [1 + sum(float(above[i, j]) for j in positives if j != i) for i in positives]
        others = [sum(float(above[i, j]) for j in range(11) if j != query and j not in positives) for i in positives]
        wanted += 1 - np.mean([a / (a + o) for a, o in zip(among, others, strict=True)])
    assert abs(float(loss) - wanted / 5) < 1e-5


def test_folds_spread_every_collection_evenly():
    found = lessons(cats=((0, 1, 2, 3, 4), (10, 11)), dogs=((5, 6, 7, 8), ()))
    for seed in range(5):
        folds = found.folds(2, seed)
        for column in range(2):
            counts = np.bincount(folds[found.member[:, column]], minlength=2)
            assert abs(counts[0] - counts[1]) <= 1
        assert set(folds) == {0, 1}


def test_without_a_collection_its_photos_play_no_part():
    found = lessons(cats=((1, 2, 3), (7,)), dogs=((4, 5, 3), (8,)))
    left = found.without(np.array([False, True]))
    assert left.rows.tolist() == [1, 2, 7, 8]  # 3 is a dog too
    assert left.member.sum() == 2


def test_a_batch_of_many_photos_has_some_of_every_collection():
    photos = Album.from_arrays(np.eye(700), {"path": [f"{row}.jpg" for row in range(700)]}).photos
    many = Lessons.of({f"{n}": collection(f"{n}", tuple(range(30 * n, 30 * n + 30)), ()) for n in range(20)}, photos)
    batch = _batch(many, np.random.default_rng(0))
    assert len(batch) <= 360
    assert (many.member[batch].sum(axis=0) >= 4).all()
    assert len(set(batch.tolist())) == len(batch)
