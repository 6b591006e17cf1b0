"""What was written comes back; whatever else is in the file is refused by its name, the cause and the remedy."""

import math

import pytest

from smoothap._core.files import ChecksummedJson

THING = ChecksummedJson("a thing", {"count": int, "note": (str, type(None))}, "Copy it again", format=3)
VALUES = {"count": 1, "note": None, "more": {"b": [1.5, math.inf], "a": "\u00e4"}}


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "7", '"count"', "{}", '{"count": 1}', "[" * 100_000, '{"count": NaN}']
)
def test_what_has_no_checksum_is_refused(tmp_path, text):
    (tmp_path / "thing.json").write_text(text)
    with pytest.raises(ValueError, match=r"thing\.json is damaged: its checksum differs\. Copy it again"):
        THING.read(tmp_path / "thing.json")


@pytest.mark.parametrize(("before", "after"), [("1", "2"), ("\n", ""), (": ", ":"), ("\n", "\n\n")])
def test_a_change_of_any_letter_is_refused(tmp_path, before, after):
    head, found, tail = THING.text(VALUES).partition('"count"')
    (tmp_path / "thing.json").write_text(head + found + tail.replace(before, after, 1))
    with pytest.raises(ValueError, match="its checksum differs"):
        THING.read(tmp_path / "thing.json")


@pytest.mark.parametrize(("values", "name"), [({"count": "1", "note": ""}, "count"), ({"count": 1}, "note")])
def test_a_field_that_is_missing_or_of_another_kind_is_named(tmp_path, values, name):
    THING.write(tmp_path / "thing.json", values)
    with pytest.raises(ValueError, match=f"does not describe a thing: '{name}' is missing or of the wrong kind. Copy"):
        THING.read(tmp_path / "thing.json")


def test_another_format_is_told(tmp_path):
    (tmp_path / "thing.json").write_text(THING.text(VALUES).replace('"format": 3', '"format": 4'))
    with pytest.raises(ValueError, match=r"is of format 4, and this version of smoothap reads format 3"):
        THING.read(tmp_path / "thing.json")
