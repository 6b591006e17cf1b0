"""An album too long to hold at once, in a real browser."""

import numpy as np
import pytest
from page_server import served
from test_page_in_a_browser import until

from smoothap.album import Album

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def long_address():
    vectors = np.random.default_rng(0).normal(size=(30_000, 8))
    album = Album.from_arrays(vectors, [{"path": f"{row:05d}.jpg"} for row in range(30_000)])
    with served({"long": album}) as port:
        yield f"http://127.0.0.1:{port}/"


def test_a_long_list_exists_only_where_it_is_seen(opened, long_address):
    page = opened(long_address + "#order=album", expected=["404"])
    page.wait_for_selector(".tile[data-id='0']")
    few = page.evaluate("document.querySelectorAll('.tile').length")
    assert few < 300
    height = page.evaluate("document.documentElement.scrollHeight")
    page.evaluate(f"scrollTo(0, {height // 2})")
    until(page, "[...document.querySelectorAll('.tile')].some((tile) => Number(tile.dataset.id) > 10000)")
    assert page.evaluate("document.querySelectorAll('.tile').length") < 300
    middle = page.evaluate(
        "[...document.querySelectorAll('.tile')].find((tile) => tile.getBoundingClientRect().top > 0).dataset.place"
    )
    assert abs(int(middle) - 15_000) < 300
    assert page.evaluate("document.documentElement.scrollHeight") == pytest.approx(height, rel=0.02)
    places = page.evaluate("[...document.querySelectorAll('.tile')].map((tile) => Number(tile.dataset.place))")
    assert places == list(range(places[0], places[-1] + 1))
    page.locator(f".tile[data-place='{middle}'] .picture").focus()
    page.keyboard.press("End")
    until(page, "document.activeElement.closest('.tile')?.dataset.id === '29999'")
    page.keyboard.press("Home")
    until(page, "document.activeElement.closest('.tile')?.dataset.id === '0'")
    page.keyboard.press("ArrowDown")
    wide = int(page.evaluate("document.activeElement.closest('.tile').dataset.place"))
    assert wide == page.evaluate(
        "getComputedStyle(document.querySelector('.grid')).gridTemplateColumns.split(' ').length"
    )
    page.keyboard.press("Enter")
    until(page, f"document.getElementById('viewer-title').textContent === '{wide:05d}.jpg'")
