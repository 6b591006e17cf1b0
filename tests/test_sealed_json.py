"""What was sealed comes back; whatever else stands in the file is refused by its name, the cause and the remedy."""

import json

import pytest

from smoothap._core.sealed_json import SealedJson

PLAIN = SealedJson("a thing", {"count": int, "note": (str, type(None))}, "Copy it again")
NUMBERED = SealedJson("a thing", {"count": int}, "Copy it again", checksum="sha256", format=3)
OLDER = SealedJson("a thing", {"count": int}, "Copy it again", older=True)


@pytest.mark.parametrize("sealed", [PLAIN, NUMBERED, OLDER])
def test_what_was_written_is_read(tmp_path, sealed):
    values = {"count": 1, "note": None, "more": {"b": [1.5], "a": "\u00e4"}}
    sealed.write(tmp_path / "thing.json", values)
    assert sealed.read(tmp_path / "thing.json") == values


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "7", '"count"', "{}", '{"count": 1}', "[" * 100_000, '{"count": NaN}']
)
def test_what_was_not_sealed_is_refused(tmp_path, text):
    (tmp_path / "thing.json").write_text(text)
    with pytest.raises(ValueError, match=r"thing\.json is damaged: its checksum differs\. Copy it again"):
        PLAIN.read(tmp_path / "thing.json")


@pytest.mark.parametrize(("values", "name"), [({"count": "1", "note": ""}, "count"), ({"count": 1}, "note")])
def test_a_field_that_is_missing_or_of_another_kind_is_named(tmp_path, values, name):
    PLAIN.write(tmp_path / "thing.json", values)
    with pytest.raises(ValueError, match=f"does not describe a thing: '{name}' is missing or of the wrong kind. Copy"):
        PLAIN.read(tmp_path / "thing.json")


def test_another_format_is_told(tmp_path):
    (tmp_path / "thing.json").write_text(NUMBERED.text({"count": 1}).replace('"format": 3', '"format": 4'))
    with pytest.raises(ValueError, match=r"is of format 4, and this version of smoothap reads format 3"):
        NUMBERED.read(tmp_path / "thing.json")


def test_a_file_from_before_there_were_checksums_is_read_where_there_are_such(tmp_path):
    (tmp_path / "thing.json").write_text(json.dumps({"count": 1}))
    assert OLDER.read(tmp_path / "thing.json") == {"count": 1}


def test_a_number_that_json_does_not_have_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        PLAIN.write(tmp_path / "thing.json", {"count": float("inf")})
    assert not list(tmp_path.iterdir())
