import pytest

from smoothap.plots.text import class_words, figure_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("U+1F600", "U+1F600 grinning face"),
        ("U+1F1E9-U+1F1EA", "U+1F1E9-U+1F1EA flag DE"),
        ("U+1F468-U+200D-U+1F469", "U+1F468-U+200D-U+1F469 man, woman"),
        ("U+0023-U+FE0F-U+20E3", "U+0023-U+FE0F-U+20E3 number sign, combining enclosing keycap"),
        ("U+1F3F4-U+E0067-U+E0062-U+E007F", "U+1F3F4-U+E0067-U+E0062-U+E007F waving black flag, GB"),
        ("é", "é latin small letter e with acute"),
        ("a", "a"),
        ("U+1F600 and more", "U+1F600 and more"),
        ("日本", "日本"),
        ("", ""),
    ],
)
def test_code_points_and_letters_have_their_unicode_name_beside_them(name, words):
    assert class_words(name) == words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("U+1F600", "grinning face"),
        ("\U0001fa90", "ringed planet"),
        ("mug", "mug"),
        ("a\u202eb", "latin small letter a, right-to-left override, latin small letter b"),
        ("x" * 100, "x" * 69 + "…"),
    ],
)
def test_a_figure_has_only_letters_that_its_font_can_draw(name, words):
    assert figure_words(name, 70) == words
