import os

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothap.data.datasets.listing import image_files
from smoothap.data.tables import label_by


def files(root):
    return image_files(root).to_pylist()


def test_images_are_listed_in_order_whatever_the_case_of_their_ending(tmp_path, write_images):
    write_images(tmp_path, ["b/2.JPG", "b/1.jpeg", "a/c/3.png"])
    (tmp_path / "a" / "notes.txt").touch()
    (tmp_path / "a" / "._3.png").touch()
    assert files(tmp_path) == ["a/c/3.png", "b/1.jpeg", "b/2.JPG"]


def test_links_are_followed_and_loops_end(tmp_path, write_images):
    write_images(tmp_path, ["elsewhere/1.jpg", "set/a/2.jpg"])
    (tmp_path / "set" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set" / "a" / "loop").symlink_to(tmp_path / "set")
    (tmp_path / "set" / "dangling").symlink_to(tmp_path / "nowhere")
    assert files(tmp_path / "set") == ["a/2.jpg", "linked/1.jpg"]


def test_a_name_that_is_not_utf8_is_one_line_and_the_others_are_listed(tmp_path, write_images):
    write_images(tmp_path, ["a/1.jpg", "b/2.jpg"])
    (tmp_path / "a" / os.fsdecode(b"caf\xe9.jpg")).touch()
    (tmp_path / "a" / os.fsdecode(b"caf\xe9.txt")).touch()
    (tmp_path / os.fsdecode(b"stra\xdfe")).mkdir()
    (tmp_path / os.fsdecode(b"stra\xdfe") / "3.jpg").touch()
    with pytest.warns(UserWarning, match="left out, for its name is not UTF-8: rename it") as told:
        assert files(tmp_path) == ["a/1.jpg", "b/2.jpg"]
    assert sorted(str(line.message).partition(": ")[2].partition(" is")[0] for line in told) == [
        "b'a/caf\\xe9.jpg'",
        "b'stra\\xdfe'",
    ]


@given(st.lists(st.text(max_size=4), min_size=1, max_size=30))
def test_labels_count_the_values_in_sorted_order(values):
    labels, names = label_by(pa.array(values, pa.string()))
    assert [names[label] for label in labels] == values
    assert list(names) == sorted(set(values))
