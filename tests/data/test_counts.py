import numpy as np
import pytest
from PIL import Image

from smoothap.data.datasets.counts import Counts, compare_counts
from smoothap.data.image_set import ImageSet


def image_set(images: int, classes: int) -> ImageSet:
    labels = np.arange(images) % classes
    return ImageSet("toy test", [""] * images, labels, [""] * classes, lambda row, _=None: Image.new("RGB", (1, 1)))


def test_the_paper_s_counts_bring_no_warning():
    assert compare_counts(image_set(6, 3), Counts(6, 3)) == []


def test_a_known_release_is_a_warning_that_says_so():
    (warning,) = compare_counts(image_set(6, 3), Counts(8, 2), Counts(6, 3))
    assert warning == (
        "toy test: found 6 images of 3 classes, the paper has 8 images of 2 classes "
        "(the public release differs from the paper)."
    )


def test_more_than_expected_is_a_warning():
    (warning,) = compare_counts(image_set(7, 3), Counts(6, 3))
    assert "found 7 images" in warning


@pytest.mark.parametrize("counts", [(5, 3), (6, 2)])
def test_less_than_the_paper_and_the_release_is_an_error(counts):
    with pytest.raises(ValueError, match=r"toy test is partial: found .*, expected 6 images of 3 classes"):
        compare_counts(image_set(*counts), Counts(6, 3))


def test_a_set_that_varies_by_protocol_only_warns():
    assert len(compare_counts(image_set(2, 1), Counts(6, 3), strict=False)) == 1
