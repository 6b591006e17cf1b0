"""Marking many photos at once marks those that were whole on the screen, wherever one looks and however large it is."""

import random
import re

import pytest
from guarantees import short_or_long
from test_collections_in_a_browser import kept, ranked, right, seen_tiles, until  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.guarantee(25)]
SIZES = ((1280, 600), (1600, 1000), (700, 900), (390, 844))


@pytest.mark.parametrize("seed", range(short_or_long(2, 12)))
def test_what_is_marked_at_once_is_what_is_whole_on_the_screen(kept, opened, seed):  # noqa: F811
    album, address = kept
    album.collections.create("dog")
    choose, marked = random.Random(seed), set()
    width, height = SIZES[seed % len(SIZES)]
    page = opened(address + f"#photo=16&in={album.collections['dog'].key}", viewport={"width": width, "height": height})
    ranked(page)
    ever = seen_tiles(page)
    for _ in range(5):
        page.evaluate(f"scrollTo(0, {choose.random()} * document.body.scrollHeight)")
        page.wait_for_timeout(400)  # as somebody looks who has stopped scrolling
        until(page, "!document.querySelector('.tile.empty')")
        seen, said = seen_tiles(page), (set(right(album, "dog")), set(album.collections["dog"].wrong))
        ever |= seen
        if not seen - set.union(*said):
            continue
        key, of = choose.choice((("a", 0), ("x", 1)))
        with page.expect_response(re.compile("/marks$")):
            page.keyboard.press(key)
        now = set(right(album, "dog")), set(album.collections["dog"].wrong)
        new = now[of] - said[of]
        assert new <= ever, "marked, and not seen"
        assert seen - set.union(*said) <= new, "seen, and not marked"
        assert now[1 - of] == said[1 - of]
        marked |= new
    assert marked
