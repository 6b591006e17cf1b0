"""A new embedding layer that starts as a projection of the training images' features."""

import json

import numpy as np
import pytest
import torch

from smoothap.data.dataset import ImageDataset
from smoothap.metrics import evaluate
from smoothap.models import Embedder
from smoothap.models.embedding import embed_set
from smoothap.training import head_init
from smoothap.training.head_init import projection, start_as_projection
from smoothap.training.log import read_rows


def classes_in_noise(classes, samples_per_class, seed, features=40):
    """Features whose first half tells classes apart, and whose second half is loud and tells nothing."""
    random = np.random.default_rng(seed)
    middles = random.normal(size=(classes, features // 2)).repeat(samples_per_class, 0)
    quiet = middles + random.normal(scale=0.3, size=middles.shape)
    loud = random.normal(scale=1.5, size=middles.shape)
    return np.concatenate([quiet, loud], 1) + 5, np.arange(classes).repeat(samples_per_class)


def mean_average_precision(features, labels):
    return evaluate(features.astype(np.float32), labels, recall_at=(1,)).mean_average_precision


def test_the_projection_finds_unseen_classes_better_than_the_features_themselves():
    weight, bias = projection(*classes_in_noise(30, 6, seed=0), dimension=40)
    features, labels = classes_in_noise(30, 6, seed=1)
    assert mean_average_precision(features @ weight.T + bias, labels) > mean_average_precision(features, labels) + 0.3


@pytest.mark.parametrize(
    ("images", "classes", "dimension"), [(3, 2, 16), (12, 12, 16), (30, 5, 64)], ids=["few", "one of each", "wide"]
)
def test_there_are_as_many_directions_as_there_can_be_however_few_the_images(images, classes, dimension):
    features = np.random.default_rng(0).normal(size=(images, 40))
    weight, bias = projection(features, np.arange(images) % classes, dimension)
    assert weight.shape == (min(dimension, 40), 40)
    assert bias.shape == (len(weight),)
    assert np.linalg.matrix_rank(weight) == len(weight)
    np.testing.assert_allclose((features @ weight.T + bias).mean(0), 0, atol=1e-9)


def test_principal_components_know_no_classes(small_model, pattern_set, tmp_path):
    model = small_model(dimension=4)
    dataset = ImageDataset(pattern_set(), model.transform, report=tmp_path / "bad.csv")
    start_as_projection(model, dataset, "components")
    features = embed_set(model, dataset, features=True).vectors.astype(np.float64)
    _, _, directions = np.linalg.svd(features - features.mean(0))
    cosines = np.abs((model.embedding.weight.detach().numpy() * directions[:4]).sum(1))
    np.testing.assert_allclose(cosines, 1, atol=1e-4)
    assert model.head_init == "components"


def test_a_training_starts_from_the_projection_and_says_so(run, tmp_path):
    run("random", steps=1)
    _, model = run("projected", steps=1, head_init="projection")
    started, random = (read_rows(tmp_path / name)[0]["validation_map"] for name in ("projected", "random"))
    assert started > random
    assert model.head_init == "projection"
    described = json.loads((tmp_path / "projected" / "model" / "model.json").read_text())
    assert described["head_init"] == "projection"
    assert json.loads((tmp_path / "random" / "model" / "model.json").read_text())["head_init"] == "random"
    assert json.loads((tmp_path / "projected" / "checkpoint.json").read_text())["config"]["head_init"] == ("projection")
    assert Embedder.load(tmp_path / "projected" / "model").head_init == "projection"


def test_a_layer_that_was_trained_is_not_replaced(run, small_model, tmp_path):
    small_model(seed=5).save(tmp_path / "trained")
    trained = Embedder.load(tmp_path / "trained")
    before = trained.embedding.weight.detach().clone()
    run("further", model=trained, steps=1, to_beat=1.0, head_init="projection")
    assert torch.equal(trained.embedding.weight, before)


def test_a_training_that_goes_on_does_not_look_at_the_features_again(run, tmp_path, monkeypatch):
    whole, model = run("whole", epochs=2, head_init="projection")
    run("cut", epochs=2, head_init="projection", minutes=1e-9)  # ends after one step
    monkeypatch.setattr(head_init, "embed_set", None)
    result, resumed = run("cut", epochs=2, head_init="projection", resume=True)
    assert result == whole
    assert resumed.head_init == "projection"
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in resumed.state_dict().items())


def test_directions_without_variance_are_the_same_however_the_scatter_was_rounded():
    """Fewer images than dimensions: a library may return anything for the directions that no image varies in."""
    random = np.random.default_rng(0)
    features, labels = random.standard_normal((24, 64)), np.arange(24) // 3
    weight, bias = projection(features, labels, 48)
    order = random.permutation(24)  # sums in another order, as other threads have them
    again, bias_again = projection(features[order] * (1 + 1e-15), labels[order], 48)
    assert np.abs(weight - again).max() < 1e-6
    assert np.abs(bias - bias_again).max() < 1e-6
    assert np.linalg.matrix_rank(weight) == 48
