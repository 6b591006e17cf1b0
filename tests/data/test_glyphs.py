import importlib.util
import time

import numpy as np
import pytest

from smoothap.data.datasets import glyphs as glyphs_module
from smoothap.data.datasets.glyphs import glyphs, renderings


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("glyphs")))
        first = renderings()
        start = time.perf_counter()
        second = renderings()
        return first, second, time.perf_counter() - start


def test_there_are_about_2900_characters(rendered):
    images, _, _ = rendered
    assert 2_800 < images.classes < 3_000
    assert len(images) > 28_000
    assert np.bincount(images.labels).min() >= 2


def test_characters_that_look_the_same_are_one_class(rendered):
    images, _, _ = rendered
    assert "A\N{GREEK CAPITAL LETTER ALPHA}\N{CYRILLIC CAPITAL LETTER A}" in images.class_names
    assert "B" in images.class_names[np.char.startswith(images.class_names, "B")][0]


def test_the_second_time_the_pictures_come_from_the_cache(rendered):
    first, second, seconds = rendered
    assert seconds < 2
    assert np.array_equal(first.names, second.names)
    assert first.read(77).tobytes() == second.read(77).tobytes()


def test_half_of_the_characters_are_for_the_test(rendered, monkeypatch):
    monkeypatch.setattr(glyphs_module, "renderings", lambda: rendered[0])
    benchmark = glyphs()
    assert abs(benchmark.train.classes - benchmark.tests["test"].classes) <= 1
    assert set(benchmark.train.class_names).isdisjoint(benchmark.tests["test"].class_names)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs matplotlib: pip install 'smoothap\[report\]'"):
        glyphs()
