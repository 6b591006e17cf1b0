import pytest

from smoothap.report.markup import Markup, element, escaped, joined, named


def test_text_is_escaped_and_markup_is_not():
    assert element("p", "<b>", Markup("<i></i>")) == "<p>&lt;b&gt;<i></i></p>"
    assert joined("&", element("b", "&")) == "&amp;<b>&amp;</b>"


def test_an_attribute_cannot_be_left():
    assert element("img", alt="\"' onload=x>") == '<img alt="&quot;&#x27; onload=x&gt;">'


def test_names_of_attributes_are_those_of_html():
    assert element("a", "x", class_="y", aria_label="z") == '<a class="y" aria-label="z">x</a>'


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u2069", "\u200f", "\x00", "\x85", "\udcff"])
def test_characters_that_act_on_their_surroundings_are_shown(character):
    assert escaped(f"a{character}b") == f"a\\u{ord(character):04x}b"


def test_right_to_left_names_and_joined_emoji_stay_as_they_are():
    assert named("שלום") == "<bdi>שלום</bdi>"
    assert escaped("👨\u200d👩") == "👨\u200d👩"
