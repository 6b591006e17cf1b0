import pytest

from smoothap._core.extras import ensure_torchvision
from smoothap.data.datasets import counts, faces
from smoothap.models import embedder
from smoothap.models.faces.iresnet import IResNet
from smoothap.models.weights import build_backbone

ensure_torchvision()
import timm  # noqa: E402


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """No test reads or writes the cache of the user who runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def any_counts(monkeypatch):
    """A tiny set is no partial copy here; the counts have tests of their own."""
    for module in (counts, faces):
        monkeypatch.setattr(module, "compare_counts", lambda *_, **__: [])


@pytest.fixture(params=["small networks", pytest.param("whole networks", marks=pytest.mark.slow)])
def networks(request, monkeypatch):
    """A small network under the name of the recipe's own, which is for the slow tests."""

    if request.param == "small networks":
        monkeypatch.setattr(embedder, "build_backbone", _small)
    return request.param


@pytest.fixture
def small_networks(monkeypatch):
    """The small network in every test, slow or not."""
    monkeypatch.setattr(embedder, "build_backbone", _small)


def _small(architecture, size=None, pretrained=True):
    network = build_backbone("test_resnet", pretrained=False)
    own = timm.get_pretrained_cfg(architecture)
    network.pretrained_cfg = IResNet.pretrained_cfg if own is None else own.to_dict()
    return network
