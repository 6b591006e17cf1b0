"""The page ranks by neighbourhood: the viewer names the photo a hit came in through, and a switch ranks plainly."""

import json

import pytest
from test_page_in_a_browser import until

pytestmark = pytest.mark.browser


def searched(opened, address, photo):
    page = opened(f"{address}#photo={photo}")
    until(page, "document.querySelectorAll('.tile .rank').length > 20")
    return page


def names(page):
    return page.locator(".tile .picture img").evaluate_all("images => images.map((image) => image.alt)")


def test_the_viewer_says_through_which_photo_a_hit_came_in(opened, one, keep_shot):
    page = searched(opened, one, 9)
    told = []
    page.click(".tile[data-place='0'] .picture")
    for place in range(40):
        until(page, f"document.getElementById('viewer-place').textContent.startsWith('{place + 1} of')")
        until(page, "document.querySelectorAll('#viewer-facts dd').length > 2")
        told += page.locator("#viewer-facts dt:text-is('Found through') + dd").all_text_contents()
        if told:
            break
        page.keyboard.press("ArrowRight")
    assert told
    assert told[0].endswith(".jpg, which it resembles")
    keep_shot(page, "found-through")


def test_a_switch_ranks_by_the_plain_score(opened, one):
    page = searched(opened, one, 9)
    ranked = names(page)
    shown = "JSON.stringify([...document.querySelectorAll('.tile .picture img')].map((image) => image.alt))"
    same = f"{shown} === {json.dumps(json.dumps(ranked, separators=(',', ':'), ensure_ascii=False))}"
    page.click("#filters summary")
    page.uncheck("#filter-rerank")
    until(page, f"document.querySelectorAll('.tile .rank').length > 20 && !({same})")
    page.check("#filter-rerank")
    until(page, same)
