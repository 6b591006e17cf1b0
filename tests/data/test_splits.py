import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.splits import held_out_classes, split_by_class, split_by_list


def image_set(labels: list[int], classes: int) -> ImageSet:
    return ImageSet(
        name="toy",
        names=[f"image {row}" for row in range(len(labels))],
        labels=np.array(labels, dtype=np.int64),
        class_names=[f"class {label}" for label in range(classes)],
        read=lambda row, _=None: Image.new("RGB", (1, 1), (row, 0, 0)),
    )


@st.composite
def sets(draw):
    classes = draw(st.integers(2, 12))
    extra = draw(st.lists(st.integers(0, classes - 1), max_size=30))
    labels = draw(st.permutations([*range(classes), *extra]))
    return image_set(labels, classes)


@given(sets(), st.integers(0, 5))
def test_no_class_is_on_both_sides_and_no_image_is_lost(images, seed):
    train, test = split_by_class(images, 0.5, seed)
    assert set(train.class_names).isdisjoint(test.class_names)
    assert sorted([*train.names, *test.names]) == sorted(images.names)
    assert test.classes == round(0.5 * images.classes)


@given(sets())
def test_each_image_keeps_its_label_and_its_pixels(images):
    label_of = {name: images.class_names[label] for name, label in zip(images.names, images.labels, strict=True)}
    for part in split_by_class(images, 0.5):
        for row, name in enumerate(part.names):
            assert part.class_names[part.labels[row]] == label_of[name]
            assert part.read(row).getpixel((0, 0))[0] == list(images.names).index(name)


@given(st.permutations([f"class {number}" for number in range(9)]), st.integers(0, 3))
def test_the_order_of_the_classes_does_not_move_the_split(names, seed):
    def chosen(order):
        return {name for name, out in zip(order, held_out_classes(order, 0.3, seed), strict=True) if out}

    assert chosen(names) == chosen(sorted(names))


def test_the_split_of_a_seed_is_the_same_on_every_machine():
    names = [f"class {number}" for number in range(8)]
    assert np.flatnonzero(held_out_classes(names, 0.25, 0)).tolist() == [1, 3]
    assert np.flatnonzero(held_out_classes(names, 0.25, 1)).tolist() != [1, 3]


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 0.01])
def test_a_fraction_that_leaves_a_side_empty_is_refused(fraction):
    with pytest.raises(ValueError, match="fraction"):
        held_out_classes(["a", "b", "c"], fraction, 0)


def test_a_list_names_the_test_classes(tmp_path):
    wanted = tmp_path / "test.txt"
    wanted.write_text("class 2\n\n class 0 \n")
    train, test = split_by_list(image_set([0, 1, 2, 0], 3), wanted)
    assert list(test.class_names) == ["class 0", "class 2"]
    assert list(train.names) == ["image 1"]


def test_train_validation_and_test_classes_are_disjoint():
    train, test = split_by_class(image_set(list(range(40)), 40), 0.5)
    kept, validation = Benchmark("toy", train, {"test": test}).train_and_validation(seed=3)
    sides = [set(side.class_names) for side in (kept, validation, test)]
    assert len(set.union(*sides)) == sum(map(len, sides)) == 40
    assert validation.classes == 5  # a quarter, where a tenth would be fewer than 10
    assert (kept.name, validation.name) == ("toy train", "toy validation")


def test_every_class_is_held_out_in_one_fold():
    benchmark = Benchmark("toy", image_set(list(range(11)), 11), {})
    parts = [benchmark.training_fold(fold, 4, seed=7) for fold in range(4)]
    held_out = [set(validation.class_names) for _, validation in parts]
    assert sorted(map(len, held_out)) == [2, 3, 3, 3]
    assert len(set.union(*held_out)) == 11
    for train, validation in parts:
        assert set(train.class_names) == set.union(*held_out) - set(validation.class_names)
    with pytest.raises(ValueError, match="2 to 5 folds of two classes or more, not in 6"):
        benchmark.training_fold(0, 6)
