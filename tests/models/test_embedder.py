import copy
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from smoothap.data.image_set import ImageSet
from smoothap.models import Embedder
from smoothap.models.folder import _SEALED, read_description

SMALL = {"resnet18": 32, "vit_tiny_patch16_224": 32, "vit_small_patch14_dinov2": 28, "convnext_atto": 32}


@pytest.fixture(autouse=True)
def _same_weights():
    torch.manual_seed(0)


def small_model(dimension=16, **options):
    return Embedder("test_resnet", dimension, size=32, pretrained=False, **options)


def pictures(count, size=(40, 48)):
    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 256, (*size, 3), dtype=np.uint8)) for _ in range(count)]


@pytest.mark.parametrize("architecture", SMALL)
def test_any_network_gives_vectors_of_length_one(architecture):
    size = SMALL[architecture]
    model = Embedder(architecture, 24, size=size, pretrained=False).eval()
    vectors = model(torch.randn(3, 3, size, size))
    assert vectors.shape == (3, 24)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))


def test_the_embedding_is_the_linear_layer_on_the_backbone():
    model = small_model().eval()
    images = torch.randn(2, 3, 32, 32)
    linear = model.backbone(images) @ model.embedding.weight.T + model.embedding.bias
    torch.testing.assert_close(model(images), linear / linear.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("architecture", ["resnet18", "mobilenetv3_small_050"])
def test_without_a_dimension_the_features_are_the_vectors(architecture):
    model = Embedder(architecture, None, size=32, pretrained=False).eval()
    images = torch.randn(2, 3, 32, 32)
    features = model.backbone(images)
    assert model.dimension == features.shape[1]
    torch.testing.assert_close(model(images), nn.functional.normalize(features))
    assert len(model.parameter_groups(1e-5)) == 1


def test_training_leaves_frozen_statistics_and_moves_affine_weights():
    model = small_model().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameter_groups(1.0))
    model(torch.randn(4, 3, 32, 32))[:, 0].sum().backward()
    optimiser.step()
    after = model.state_dict()
    assert torch.equal(before["backbone.bn1.running_mean"], after["backbone.bn1.running_mean"])
    assert torch.equal(before["backbone.bn1.running_var"], after["backbone.bn1.running_var"])
    assert not torch.equal(before["backbone.bn1.weight"], after["backbone.bn1.weight"])


def test_statistics_move_when_they_are_not_frozen():
    model = small_model(freeze_batch_norm=False).train()
    model(torch.randn(4, 3, 32, 32))
    assert model.state_dict()["backbone.bn1.running_mean"].abs().sum() > 0


def test_parameter_groups_hold_every_parameter_once_at_its_rate():
    model = small_model()
    backbone, embedding = model.parameter_groups(1e-5, head_lr_multiplier=2)
    assert (backbone["lr"], embedding["lr"]) == (1e-5, 2e-5)
    assert {id(each) for each in embedding["params"]} == {id(each) for each in model.embedding.parameters()}
    assert len(backbone["params"]) + len(embedding["params"]) == len(list(model.parameters()))


def test_bytes_are_normalised_as_the_transform_says():
    model = small_model().eval()
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    torch.testing.assert_close(model(images), model(model.transform.normalise(images)))


def test_vectors_are_float32_under_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        vectors = small_model().eval()(torch.randn(2, 3, 32, 32))
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(2))


def test_files_images_sets_and_tensors_give_the_same_vectors(tmp_path):
    model, images = small_model(), pictures(5)
    paths = [tmp_path / f"{index}.png" for index in range(5)]
    for path, image in zip(paths, images, strict=True):
        image.save(path)
    vectors = model.embed(paths, batch_size=2)
    assert vectors.shape == (5, 16)
    assert (vectors.dtype, vectors.device.type, vectors.requires_grad) == (torch.float32, "cpu", False)
    assert not vectors.is_inference()
    labels = np.arange(5)
    image_set = ImageSet(
        "pictures", [str(path) for path in paths], labels, labels.astype(str), lambda row, _: images[row]
    )
    prepared = TensorDataset(torch.stack([model.transform.test(image) for image in images]), torch.arange(5))
    for same in ([str(path) for path in paths], images, image_set, prepared, DataLoader(prepared, batch_size=3)):
        torch.testing.assert_close(model.embed(same, batch_size=5), vectors)


def test_embedding_restores_the_mode_of_every_layer():
    model = small_model().train()
    model.backbone.layer1.eval()
    modes = [module.training for module in model.modules()]
    with pytest.raises(ValueError, match=r"gone\.png"):
        model.embed([*pictures(1), "gone.png"])
    model.embed(pictures(2))
    assert [module.training for module in model.modules()] == modes


def test_embedding_neither_uses_nor_moves_the_statistics_of_the_batch():
    model, images = small_model(freeze_batch_norm=False).train(), pictures(3)
    vectors = model.embed(images)
    torch.testing.assert_close(model.embed(images[:1]), vectors[:1])
    assert not any(name.endswith("running_mean") and value.any() for name, value in model.named_buffers())


def test_batches_come_back_with_their_tags_and_the_caller_keeps_its_own_modes():
    model = small_model(freeze_batch_norm=False).train()
    images = torch.randint(0, 256, (5, 3, 32, 32), dtype=torch.uint8)
    expected = copy.deepcopy(model).eval()(images).detach().numpy()
    for vectors, rows in model.embed_batches((images[rows], rows) for rows in ([0, 1], [2, 3, 4])):
        np.testing.assert_allclose(vectors, expected[rows], atol=1e-6)
        assert not torch.is_inference_mode_enabled()
        if rows == [2, 3, 4]:
            break
    assert all(module.training for module in model.modules())


def test_a_single_path_is_not_taken_for_a_list_of_letters():
    with pytest.raises(TypeError, match="several images"):
        small_model().embed("cat.jpg")


@pytest.mark.parametrize("images", [torch.rand(2, 3, 32, 32), [np.zeros((32, 32, 3), np.uint8)]])
def test_arrays_and_tensors_are_refused_with_the_way_to_give_them(images):
    with pytest.raises(TypeError, match=r"Image\.fromarray.*TensorDataset"):
        small_model().embed(images)


def test_a_saved_model_comes_back_bit_for_bit(tmp_path):
    model = small_model().eval()
    folder = model.save(tmp_path / "model", data_set="emoji", metrics={"mAP": 0.5})
    again = Embedder.load(folder)
    images = torch.randn(2, 3, 32, 32)
    assert torch.equal(model(images), again(images))
    assert (again.architecture, again.dimension, again.transform) == ("test_resnet", 16, model.transform)
    assert not again.training
    assert sorted(file.name for file in folder.iterdir()) == ["README.md", "model.json", "model.safetensors"]
    described = json.loads((folder / "model.json").read_text())
    assert (described["data_set"], described["metrics"]) == ("emoji", {"mAP": 0.5})
    assert described["smoothap"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimension": 17}, "17 dimensions"),
        ({"architecture": "resnet34"}, "missing: backbone"),
        ({"architecture": "hf-hub:somebody/something"}, "no network named"),
        ({"dimension": "16"}, "'dimension' is missing or of the wrong kind"),
        ({"transform": None}, "'transform' is missing or of the wrong kind"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(tmp_path, change, message):
    file = small_model().save(tmp_path) / "model.json"
    _SEALED.write(file, {**read_description(tmp_path), **change})
    with pytest.raises(ValueError, match=message):
        Embedder.load(tmp_path)


def test_a_folder_without_a_model_is_said_to_be_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors and model\.json"):
        Embedder.load(tmp_path)
    (small_model().save(tmp_path) / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="copy the whole folder"):
        Embedder.load(tmp_path)
