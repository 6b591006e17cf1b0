import pytest
from markupsafe import Markup

from smoothap.plots.html import escaped, write_page
from smoothap.plots.text import visible


def test_text_is_escaped_and_markup_is_not():
    assert escaped("<b>") == "&lt;b&gt;"
    assert escaped(Markup("<i></i>")) == "<i></i>"


def test_an_attribute_cannot_be_left(tmp_path):
    answer = {"rank": 1, "score": 0.5, "path": "\"' onload=x>", "label": None, "address": "data:image/jpeg;base64,"}
    content = {"title": "a.png", "names": ["a.png"], "answers": [answer], "note": ""}
    text = write_page(tmp_path / "hits.html", "plots/hits.html", **content).read_text()
    assert 'alt="Rank 1: &#34;&#39; onload=x&gt;, score 0.500"' in text


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u2069", "\u200f", "\x00", "\x85", "\udcff"])
def test_characters_that_act_on_their_surroundings_are_shown(character):
    assert visible(f"a{character}b") == escaped(f"a{character}b") == f"a\\u{ord(character):04x}b"
