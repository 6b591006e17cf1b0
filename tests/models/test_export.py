"""A model outside Python: from pixels of any shape to torch's vectors."""

import json

import numpy as np
import pytest
import torch
from photo_makers import photo_bytes
from PIL import Image

from smoothap.album import Album
from smoothap.cli import app
from smoothap.data.transforms import Transform
from smoothap.models import Embedder, export
from smoothap.models.export import export_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SHAPES = [
    (464, 348),
    (441, 348),
    (440, 348),
    (300, 230),  # by height first, as Pillow does from some ratio on
    (64, 64),
    (1, 1),
    (7, 300),
    (300, 7),
    (73, 74),
    (75, 73),
    (480, 641),
    (641, 480),
    (32, 32),
    (33, 1000),
]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = Embedder("test_resnet", 8, size=32, pretrained=False)
    model.transform = Transform(size=32, mean=(91, 104, 131), std=(1, 2, 3), channel_order="BGR", scale=1.0)
    return model


def picture(height, width, seed=0):
    random = np.random.default_rng(seed)
    small = Image.fromarray(random.integers(0, 256, (height // 9 + 2, width // 9 + 2, 3), dtype=np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


def session_of(file):
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", ["paper", "released", "whole"])
@pytest.mark.parametrize("size", [32, 64, 65, 224])
def test_the_graph_makes_of_an_image_of_any_shape_what_pillow_makes_of_it(name, size):
    from smoothap.models.onnx_preprocessing import preprocessing_model

    transform = Transform(name=name, size=size)
    session = session_of(preprocessing_model(transform, ir_version=10).SerializeToString())
    for number, (height, width) in enumerate(SHAPES):
        image = picture(height, width, number)
        (found,) = session.run(None, {"images": np.asarray(image)[None]})
        wrong = np.abs(found[0].astype(int) - transform.test(image).numpy())
        shrinks = (
            min(height, width) >= transform.resized
        )  # where a side grows, onnxruntime rounds its weights otherwise
        assert wrong.max() <= (1 if shrinks else 2), (height, width)
        assert (wrong > 0).mean() < (0.02 if shrinks else 0.1), (height, width)


def test_the_command_writes_the_model_of_an_album_that_takes_photos_of_any_size_in_any_batch(model, tmp_path, capsys):
    file, photos = tmp_path / "model.onnx", tmp_path / "photos"
    photos.mkdir()
    (photos / "0.png").write_bytes(photo_bytes(0))
    for number in range(1, 6):
        (photos / f"{number}.jpg").write_bytes(photo_bytes(number, form="JPEG"))
    (photos / "broken.jpg").write_bytes(b"\xff\xd8 no photo")
    album = Album.create(tmp_path / "album", model.save(tmp_path / "model"), photos)
    album.update(progress=False)
    capsys.readouterr()
    words = ["export", str(tmp_path / "album"), "--out", str(file), "--photos", str(photos)]
    app(words, result_action="return_value")
    printed = capsys.readouterr().out
    assert "(n, height, width, 3) of any size, uint8 RGB -> embeddings (n, 8)" in printed
    assert "Checked on 6 photos" in printed
    assert "From files" in printed
    session = session_of(file)
    pixels = np.asarray(Image.open(photos / "0.png").convert("RGB"))[None]
    (found,) = session.run(None, {"images": pixels})
    np.testing.assert_allclose(found[0], album.vectors[0], atol=2e-3)
    for count in (1, 2, 7):
        images = [picture(90, 120, number) for number in range(count)]
        expected = model.eval().embed(images, progress=False)
        (found,) = session.run(None, {"images": np.stack([np.asarray(image) for image in images])})
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=2e-3)
    described = session.get_modelmeta().custom_metadata_map
    assert Transform.from_dict(json.loads(described["transform"])) == model.transform


def test_the_bare_file_takes_squares_and_says_how_to_make_them(model, tmp_path, capsys):
    file = tmp_path / "bare.onnx"
    arguments = ["export", str(model.save(tmp_path / "model")), "--out", str(file), "--no-preprocessing"]
    app(arguments, result_action="return_value")
    assert "Resize the image to 37 x 37 pixels, bilinear and antialiased" in capsys.readouterr().out
    session = session_of(file)
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    with torch.inference_mode():
        expected = model.eval()(torch.from_numpy(images))
    (found,) = session.run(None, {"images": images})
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=1e-4)
    sentence = session.get_modelmeta().custom_metadata_map["sentence"]
    assert "cut out the 32 x 32 in its centre" in sentence
    assert "channels in the order BGR, mean 91 104 131, std 1 2 3" in sentence


def test_a_file_that_differs_is_not_written_and_the_model_stays_as_it_is(model, tmp_path, monkeypatch):
    real = export._network

    def export_another_model(model):
        with torch.no_grad():
            model.embedding.bias += 0.5
        network = real(model)
        with torch.no_grad():
            model.embedding.bias -= 0.5
        return network

    monkeypatch.setattr(export, "_network", export_another_model)
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
    exported = export_onnx(Embedder(architecture, size=64, pretrained=False), tmp_path / "model.onnx")
    assert exported.cosines.min() >= 0.9999
