"""Marks made while the server does not answer: kept in the tab, sent when it is back, and nothing else pretends."""

import re

import pytest
from page_albums import pixel_album
from page_server import served
from test_collections_in_a_browser import counted, kept, ranked, right, until  # noqa: F401

from smoothap.album import Album

pytestmark = pytest.mark.browser
QUIET = ("net::ERR", "Failed to load resource")


@pytest.fixture
def place(tmp_path):
    """The folder of an album with a collection, dog, that holds one photo."""
    album = pixel_album(tmp_path / "letters", path=tmp_path / "album")
    album.collections.add("dog", [40])
    return tmp_path / "album"


def opened_on_dog(opened, port):
    page = opened(f"http://127.0.0.1:{port}/#photo=16", expected=QUIET)
    ranked(page)
    page.select_option("#collection-choice", label="dog (1)")
    counted(page, "1 photo")
    return page


def identity(page, place):
    return int(page.locator(f".tile:nth-child({place})").get_attribute("data-id"))


def test_marks_made_while_the_server_is_stopped_are_there_when_it_runs_again(place, opened, keep_shot):
    with served({"letters": Album.open(place)}) as port:
        page = opened_on_dog(opened, port)
    page.click(".tile:nth-child(1) .yes")
    page.click(".tile:nth-child(2) .yes")
    page.click(".tile:nth-child(3) .no")
    page.click(".tile:nth-child(2) .yes")  # not after all
    page.get_by_text("3 photos marked meanwhile are kept in this tab").wait_for()
    counted(page, "2 photos, 1 marked as not belonging")
    keep_shot(page, "away")
    assert right(Album.open(place), "dog") == [40]
    with served({"letters": Album.open(place)}, port=port):
        page.wait_for_selector("#lost", state="hidden")
        until(page, "!JSON.stringify({...sessionStorage}).includes('marks')")
        dog = Album.open(place).collections["dog"]
        assert sorted(dog.right) == sorted([40, identity(page, 1)])
        assert dog.wrong == (identity(page, 3),)
        counted(page, "2 photos, 1 marked as not belonging")
        page.keyboard.press("z")  # each mark is a step of its own, as ever
        until(page, "document.getElementById('collection-count').textContent.startsWith('3 photos')")


def test_a_reload_asks_first_and_keeps_what_was_not_sent(kept, opened):  # noqa: F811
    album, address = kept
    album.collections.add("dog", [40])
    page = opened_on_dog(opened, address.rpartition(":")[2].strip("/"))
    page.context.set_offline(True)
    page.click(".tile:nth-child(1) .yes")
    page.click(".tile:nth-child(2) .no")
    page.get_by_text("2 photos marked meanwhile are kept in this tab").wait_for()
    page.route("**/marks", lambda route: route.abort())  # whatever the page tries by itself
    page.context.set_offline(False)
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.reload()
    page.unroute("**/marks")
    assert asked == ["beforeunload"]
    counted(page, "2 photos, 1 marked as not belonging")
    until(page, "!JSON.stringify({...sessionStorage}).includes('marks')")
    assert right(album, "dog") == sorted([40, identity(page, 1)])
    assert album.collections["dog"].wrong == (identity(page, 2),)
    page.reload()
    assert asked == ["beforeunload"]  # nothing is left that could be lost


def test_a_mark_whose_answer_was_lost_is_one_step(kept, opened):  # noqa: F811
    album, address = kept
    album.collections.add("dog", [40])
    page = opened_on_dog(opened, address.rpartition(":")[2].strip("/"))
    steps, lost = len(album.collections.steps()), []

    def lose_the_first_answer(route):
        answer = route.fetch()  # the server has done it
        if not lost:
            lost.append(answer.status)
            route.abort()
        else:
            route.fulfill(response=answer)

    page.route("**/marks", lose_the_first_answer)
    page.click(".tile:nth-child(1) .yes")
    page.wait_for_selector("#lost:not([hidden])")
    page.wait_for_selector("#lost", state="hidden")
    counted(page, "2 photos")
    until(page, "!JSON.stringify({...sessionStorage}).includes('marks')")
    assert lost == [200]
    assert len(album.collections.steps()) == steps + 1


def test_a_proxy_that_answers_for_a_server_that_is_away_is_no_server(kept, opened):  # noqa: F811
    album, address = kept
    album.collections.add("dog", [40])
    page = opened_on_dog(opened, address.rpartition(":")[2].strip("/"))
    page.route(re.compile("/api/"), lambda route: route.fulfill(status=502, body="Bad Gateway"))
    page.click(".tile:nth-child(1) .yes")
    page.get_by_text("1 photo marked meanwhile is kept in this tab").wait_for()
    page.unroute(re.compile("/api/"))
    page.wait_for_selector("#lost", state="hidden")
    until(page, "!JSON.stringify({...sessionStorage}).includes('marks')")
    assert right(album, "dog") == sorted([40, identity(page, 1)])


def test_marks_go_to_no_other_collection_of_the_same_number(place, tmp_path, opened):
    other = pixel_album(tmp_path / "others", path=tmp_path / "other")
    other.collections.add("cat", [1])
    assert other.collections["cat"].key == Album.open(place).collections["dog"].key
    with served({"letters": Album.open(place)}) as port:
        page = opened_on_dog(opened, port)
    page.click(".tile:nth-child(1) .yes")
    page.wait_for_selector("#lost-marks:not([hidden])")
    with served({"letters": other}, port=port):
        page.get_by_text("1 mark not kept: there is no collection dog here any more.").wait_for()
        assert right(other, "cat") == [1]
        assert page.locator("#collections-count").text_content() == "1"


def test_what_cannot_wait_says_that_it_was_not_done(kept, opened):  # noqa: F811
    album, address = kept
    album.collections.add("dog", [40])
    page = opened(address + "#photo=16", expected=QUIET)
    ranked(page)
    page.context.set_offline(True)
    page.click(".tile:nth-child(1) .yes")  # with no collection to keep it in, and none can be made
    page.wait_for_selector("#naming[open]")
    page.keyboard.press("Enter")
    page.get_by_text("The server does not answer, so this was not done.").wait_for()
    assert page.locator(".tile:nth-child(1) .yes").get_attribute("aria-pressed") == "false"
    page.click("#mistake-close")
    page.keyboard.press("z")
    page.get_by_text("The server does not answer, so this was not done.").wait_for()
    page.context.set_offline(False)
    page.wait_for_selector("#lost", state="hidden")
    assert [*album.collections.all()] == ["dog"]
    assert right(album, "dog") == [40]
