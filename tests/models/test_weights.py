import threading
import time

import pytest
import torch
from safetensors.torch import save_file

from smoothap.models import Embedder, weights
from smoothap.models.weights import build_backbone


@pytest.fixture(scope="module")
def published():
    """A state dict in the layout of a published ResNet-18, classifier and all."""
    torch.manual_seed(0)
    state = build_backbone("resnet18", pretrained=False).state_dict()
    state = {name: torch.randn(value.shape) if value.is_floating_point() else value for name, value in state.items()}
    return {**state, "fc.weight": torch.randn(1000, 512), "fc.bias": torch.randn(1000)}


@pytest.mark.parametrize("wrapping", ["plain", "state_dict", "module"])
def test_local_files_of_both_kinds_load_without_their_classifier(tmp_path, published, wrapping):
    save_file(published, tmp_path / "weights.safetensors")
    content = {f"module.{name}": value for name, value in published.items()} if wrapping == "module" else published
    torch.save({"state_dict": content} if wrapping == "state_dict" else content, tmp_path / "weights.pth")
    for file in ("weights.safetensors", "weights.pth"):
        model = Embedder("resnet18", pretrained=tmp_path / file)
        assert torch.equal(model.backbone.state_dict()["layer4.1.conv2.weight"], published["layer4.1.conv2.weight"])


def test_names_and_shapes_that_do_not_fit_are_told(tmp_path, published):
    wrong = {**published, "extra.weight": torch.zeros(1), "conv1.weight": torch.zeros(64, 3, 3, 3)}
    del wrong["bn1.bias"]
    save_file(wrong, tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match="does not fit ResNet") as error:
        build_backbone("resnet18", pretrained=tmp_path / "weights.safetensors")
    for part in ("1 missing: bn1.bias", "1 not known: extra.weight", "conv1.weight (64, 3, 3, 3) for (64, 3, 7, 7)"):
        assert part in str(error.value)


def test_position_embeddings_are_adapted_to_the_image_size(tmp_path):
    state = build_backbone("vit_tiny_patch16_224", pretrained=False).state_dict()
    save_file(state, tmp_path / "weights.safetensors")
    backbone = build_backbone("vit_tiny_patch16_224", 64, tmp_path / "weights.safetensors")
    assert backbone(torch.randn(1, 3, 64, 64)).shape == (1, 192)


@pytest.mark.guarantee(14)
def test_an_old_torch_opens_no_pickle(tmp_path, published, monkeypatch):
    torch.save(published, tmp_path / "weights.pth")
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(ValueError, match=r"torch 2\.9\.1\+cpu cannot open one safely"):
        build_backbone("resnet18", pretrained=tmp_path / "weights.pth")


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pth"])
def test_a_truncated_file_is_refused_with_its_name(tmp_path, published, name):
    file = tmp_path / name
    (save_file if file.suffix == ".safetensors" else torch.save)(published, file)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match=name):
        build_backbone("resnet18", pretrained=file)


def test_a_missing_file_and_an_unknown_kind_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.safetensors"):
        build_backbone("resnet18", pretrained=tmp_path / "gone.safetensors")
    (tmp_path / "weights.pkl").write_bytes(b"")
    with pytest.raises(ValueError, match=r"\.safetensors or \.pth"):
        build_backbone("resnet18", pretrained=tmp_path / "weights.pkl")


def test_without_a_network_the_error_comes_at_once_and_names_the_file(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    start = time.monotonic()
    with pytest.raises(ConnectionError, match=r"timm/resnet50\.tv_in1k/resolve/main/model\.safetensors"):
        Embedder("resnet50.tv_in1k")
    assert time.monotonic() - start < 5


def test_a_host_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(weights, "_PROBE_SECONDS", 0.2)
    released = threading.Event()

    def never(*_, **__):
        released.wait(60)
        raise OSError

    monkeypatch.setattr(weights.urllib.request, "urlopen", never)
    assert not weights._answers("https://example.org")
    released.set()


def test_weights_in_the_cache_need_no_network(monkeypatch, tmp_path, published):
    save_file(published, tmp_path / "weights.safetensors")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: str(tmp_path / "weights.safetensors"))
    monkeypatch.setattr(weights, "_answers", lambda _: pytest.fail("asked the network"))
    assert torch.equal(build_backbone("resnet18").state_dict()["bn1.bias"], published["bn1.bias"])


def test_the_backbone_of_a_saved_model_is_a_start_for_another(tmp_path):
    trained = Embedder("test_resnet", 8, size=32, pretrained=False)
    trained.save(tmp_path / "model")
    again = Embedder("test_resnet", 4, size=32, pretrained=tmp_path / "model" / "model.safetensors")
    for name, values in trained.backbone.state_dict().items():
        assert torch.equal(values, again.backbone.state_dict()[name])
