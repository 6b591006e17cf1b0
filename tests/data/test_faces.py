import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from smoothap.data.datasets.faces import ARCFACE_POINTS, align, read_box, similarity
from smoothap.data.reading import UnreadableImage


@pytest.fixture
def write(tmp_path):
    def write(image, name="face.png"):
        image.save(tmp_path / name)
        return tmp_path / name

    return write


def test_the_box_is_extended_by_1_3_about_its_centre(write):
    image = Image.new("RGB", (300, 300))
    image.paste((255, 0, 0), (85, 85, 215, 215))
    crop = read_box(write(image), np.array([100, 100, 100, 100]))
    assert crop.size == (130, 130)
    assert crop.getextrema() == ((255, 255), (0, 0), (0, 0))


def test_a_box_outside_of_the_image_makes_it_unreadable(write):
    with pytest.raises(UnreadableImage, match="outside"):
        read_box(write(Image.new("RGB", (10, 10))), np.array([50, 50, 5, 5]))


@given(st.floats(0.2, 5), st.floats(-3.1, 3.1), st.floats(-200, 200), st.floats(-200, 200))
def test_a_similarity_is_recovered_exactly(scale, angle, right, down):
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    moved = ARCFACE_POINTS @ turn.T + [right, down]
    expected = np.concatenate([turn, [[right], [down]]], axis=1)
    np.testing.assert_allclose(similarity(ARCFACE_POINTS, moved), expected, atol=1e-8)


def test_landmarks_land_where_arcface_wants_them():
    places = np.array([[140, 120], [200, 130], [165, 165], [135, 190], [185, 200]], dtype=np.float32)
    back = similarity(ARCFACE_POINTS, places)
    image = Image.new("RGB", (300, 300))
    for x, y in ARCFACE_POINTS @ back[:, :2].T + back[:, 2]:
        image.paste((255, 255, 255), (round(x) - 3, round(y) - 3, round(x) + 4, round(y) + 4))
    aligned = np.asarray(align(image, places.reshape(10)))
    assert aligned.shape == (112, 112, 3)
    for x, y in ARCFACE_POINTS:
        assert aligned[round(y), round(x)].min() > 200
    assert aligned[:20].max() == 0
