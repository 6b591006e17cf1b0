import json

import numpy as np
import pytest
import torch

from smoothap.cli import app
from smoothap.data.transforms import Transform
from smoothap.models import Embedder, export
from smoothap.models.export import export_onnx

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = Embedder("test_resnet", 8, size=32, pretrained=False)
    model.transform = Transform(size=32, mean=(91, 104, 131), std=(1, 2, 3), channel_order="BGR", scale=1.0)
    return model


def test_the_command_writes_a_file_that_computes_what_torch_computes_for_any_batch(model, tmp_path, capsys):
    file = tmp_path / "model.onnx"
    app(["export", str(model.save(tmp_path / "model")), "--out", str(file)], result_action="return_value")
    assert "(n, 3, 32, 32), uint8 RGB -> embeddings (n, 8)" in capsys.readouterr().out
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for count in (1, 2, 7):
        images = np.random.default_rng(count).integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        with torch.inference_mode():
            expected = model.eval()(torch.from_numpy(images))
        (found,) = session.run(None, {"images": images})
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=1e-4)
    described = session.get_modelmeta().custom_metadata_map["transform"]
    assert Transform.from_dict(json.loads(described)) == model.transform


def test_a_file_that_differs_is_not_written_and_the_model_stays_as_it_is(model, tmp_path, monkeypatch):
    real = export._export

    def export_another_model(model, images, file):
        with torch.no_grad():
            model.embedding.bias += 0.1
        real(model, images, file)

    monkeypatch.setattr(export, "_export", export_another_model)
    before = model.train().embedding.bias.clone()
    with pytest.raises(ValueError, match="no file written"):
        export_onnx(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
    assert model.training
    assert torch.equal(model.embedding.bias, before)


def test_a_missing_extra_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(ValueError, match=r"needs onnxscript: pip install 'smoothap\[export\]'"):
        export_onnx(model, tmp_path / "model.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["tf_efficientnet_lite0", "resnet50", "vit_tiny_patch16_224", "convnext_atto"])
def test_networks_of_every_kind_are_exported(architecture, tmp_path):
    assert export_onnx(Embedder(architecture, size=64, pretrained=False), tmp_path / "model.onnx") <= 1e-4
