"""The account of unreadable images."""

import csv

import pytest

from smoothap.data.dataset import BadImages


def test_bad_images_are_counted_once_and_listed_with_their_reason(tmp_path):
    bad = BadImages("toy train", 1000, tmp_path / "reports" / "bad.csv")
    bad.write()
    assert not bad.report.exists()
    for name, reason in [("a, b.jpg", "empty"), ("new\nline.jpg", "truncated"), ("a, b.jpg", "empty")]:
        bad.add(name, reason)
    bad.write()
    assert len(bad) == 2
    with bad.report.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["image", "reason"], ["a, b.jpg", "empty"], ["new\nline.jpg", "truncated"]]


def test_a_name_that_is_no_utf8_is_listed_too(tmp_path):
    bad = BadImages("toy", 1000, tmp_path / "bad.csv")
    bad.add("caf\udce9.jpg", "empty")
    bad.write()
    assert "caf" in bad.report.read_text(encoding="utf-8")


@pytest.mark.parametrize(("total", "limit", "allowed"), [(1000, 0.01, 10), (99, 0.01, 0), (50, 0.1, 5), (3, 1.0, 2)])
def test_one_more_than_the_limit_is_an_error_that_names_the_report(total, limit, allowed, tmp_path):
    bad = BadImages("toy train", total, tmp_path / "bad.csv", limit)
    for number in range(allowed):
        bad.add(f"{number}.jpg", "empty")
    with pytest.raises(ValueError, match=f"{allowed + 1} of the {total:,} images of toy train") as caught:
        bad.add("last.jpg", "empty")
    assert str(caught.value).endswith(f"{bad.report} lists them: repair these files, or take them out of the set.")
    assert len(bad.report.read_text().splitlines()) == allowed + 2
