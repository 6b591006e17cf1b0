"""Collections in a real browser: kept, there after a reload and in another tab, exported, undone, by key too."""

import csv
import io
import re
import time
import zipfile

import numpy as np
import pytest
from page_albums import MODEL, PixelAlbum, letter, pixel_album
from page_server import served

from smoothap.album.copies import copies_in

pytestmark = pytest.mark.browser


@pytest.fixture
def kept(tmp_path):
    """An album in a folder of its own, and its page."""
    album = pixel_album(tmp_path / "letters", path=tmp_path / "album")
    with served({"letters": album}) as port:
        yield album, f"http://127.0.0.1:{port}/"


def until(page, condition):
    """Wait for a condition; Playwright's own way evaluates text in the page, which the page's policy forbids."""
    end = time.monotonic() + 20
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"never came true: {condition}"
        page.wait_for_timeout(30)


def ranked(page):
    page.wait_for_selector(".tile .score")
    until(page, "!document.querySelector('.waiting')")


def choice(page):
    return page.locator("#collection-choice option:checked").text_content()


def counted(page, sentence):
    until(page, f"document.getElementById('collection-count').textContent === {sentence!r}")


def accept_name(page):
    """Take the name that is proposed for a new collection."""
    page.wait_for_selector("#naming[open]")
    with page.expect_response(re.compile("/collections$")):
        page.keyboard.press("Enter")


def right(album, name):
    return sorted(album.collections[name].right)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("trips/2016/sunset.jpg", "sunset"), ("Luna/IMG_1234.jpg", "Luna"), ("Luna/IMG-20220704-WA0001.jpg", "Luna"),
        ("DCIM/100CANON/IMG_1234.JPG", "IMG_1234"), ("IMG_1234.jpg", "IMG_1234"), ("2016/03.jpg", "03"),
    ],
)  # fmt: skip
def test_a_new_collection_is_named_after_the_file_or_its_folder_and_not_after_a_path(opened, tmp_path, path, name):
    photos = [path, "other.jpg", "third.jpg"]
    for photo, character in zip(photos, "ARG", strict=True):
        (tmp_path / photo).parent.mkdir(parents=True, exist_ok=True)
        letter(character, "DejaVuSans").save(tmp_path / photo)
    album = PixelAlbum.from_arrays(np.eye(3, 64), {"path": photos}, tmp_path / "album", root=tmp_path, model=MODEL)
    with served({"letters": album}) as port:
        page = opened(f"http://127.0.0.1:{port}/#photo=0")
        ranked(page)
        page.click(".tile:nth-child(1) .yes")
        page.wait_for_selector("#naming[open]")
        assert page.locator("#naming-name").input_value() == name


def test_photos_are_kept_and_still_there_after_a_reload(kept, opened, keep_shot):
    album, address = kept
    page = opened(address + "#photo=16")
    ranked(page)
    page.click(".tile:nth-child(1) .yes")  # no collection yet: one is made, named after the query
    accept_name(page)
    page.click(".tile:nth-child(2) .yes")
    page.click(".tile:nth-child(8) .no")
    counted(page, "3 photos, 1 marked as not belonging")
    keep_shot(page, "collection")
    first = int(page.locator(".tile:nth-child(1)").get_attribute("data-id"))
    page.reload()
    ranked(page)
    assert choice(page) == "G (3)"
    until(page, "document.querySelector('.tile:nth-child(1) .yes').getAttribute('aria-pressed') === 'true'")
    assert page.locator(".tile:nth-child(8) .no").get_attribute("aria-pressed") == "true"
    assert len(right(album, "G")) == 3
    assert {16, first} <= set(right(album, "G"))  # with the query, and what any other program sees
    page.click("#collection-show")
    until(page, "document.querySelectorAll('.tile').length === 3")
    assert page.get_by_text("3 photos in G").is_visible()
    keep_shot(page, "members")


def test_every_step_is_undone_by_button_and_by_key(kept, opened):
    album, address = kept
    album.collections.add("dog", [40, 41])
    page = opened(address + "#photo=16")
    ranked(page)
    page.select_option("#collection-choice", label="dog (2)")
    counted(page, "2 photos")
    page.click(".tile:nth-child(1) .yes")
    counted(page, "3 photos")
    page.click(".tile:nth-child(2) .no")
    counted(page, "3 photos, 1 marked as not belonging")
    page.click("#collection-undo")
    counted(page, "3 photos")
    assert page.locator(".tile:nth-child(2) .no").get_attribute("aria-pressed") == "false"
    page.keyboard.press("z")
    counted(page, "2 photos")
    assert right(album, "dog") == [40, 41]
    page.click("#collections-open")
    page.click("#collection-delete")
    until(page, "document.getElementById('collections-count').textContent === '0'")
    page.click("#collection-undo")
    until(page, "document.getElementById('collections-count').textContent === '1'")
    assert right(album, "dog") == [40, 41]


def test_all_shown_and_all_above_a_score_are_kept_by_key(kept, opened):
    album, address = kept
    album.collections.create("dog")
    page = opened(address + "#photo=16")
    ranked(page)
    page.select_option("#collection-choice", label="dog (0)")
    page.locator("#slider").evaluate(
        "slider => { slider.value = 0.9; slider.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    page.wait_for_selector("#keep-above", state="visible")
    until(page, "document.querySelectorAll('.tile').length < 60")
    shown = page.locator(".tile").count()
    wrong = int(page.locator(".tile:nth-child(2)").get_attribute("data-id"))
    page.click(".tile:nth-child(2) .no")
    page.locator(".picture[tabindex='0']").focus()
    with page.expect_response(re.compile("/keep$")):
        page.keyboard.press("Shift+A")
    counted(page, f"{shown} photos, 1 marked as not belonging")  # with the query, without what is wrong
    assert wrong not in right(album, "dog")
    page.keyboard.press("z")
    counted(page, "0 photos, 1 marked as not belonging")
    with page.expect_response(re.compile("/marks$")):
        page.keyboard.press("a")
    counted(page, f"{shown - 1} photos, 1 marked as not belonging")


def test_photos_that_were_never_on_the_screen_are_not_marked_with_those_that_were(kept, opened):
    album, address = kept
    album.collections.create("dog")
    page = opened(address + "#photo=16", viewport={"width": 1280, "height": 600})
    ranked(page)
    page.select_option("#collection-choice", label="dog (0)")
    loaded = page.locator(".tile[data-id]").count()
    seen = seen_tiles(page)
    assert 3 < len(seen) < loaded
    assert page.locator(".keep-shown").text_content() == f"Keep the {len(seen)} shown"
    with page.expect_response(re.compile("/marks$")):
        page.keyboard.press("a")
    kept_ones = set(right(album, "dog"))
    assert kept_ones == seen
    assert page.locator(".tile.flash").count() == len(seen)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_selector(".tile[data-id][aria-posinset='81']")
    until(page, "!document.querySelector('.tile.empty')")
    seen = seen_tiles(page)
    assert seen - kept_ones
    page.wait_for_timeout(300)
    with page.expect_response(re.compile("/marks$")):
        page.keyboard.press("x")
    assert set(album.collections["dog"].wrong) == seen - kept_ones


def seen_tiles(page):
    """The ids of the tiles that are on the screen as a whole, as the browser lays them out."""
    edges = page.eval_on_selector_all(
        ".tile[data-id]",
        "tiles => tiles.map(tile => { const box = tile.getBoundingClientRect();"
        " return [Number(tile.dataset.id), box.top, box.bottom]; })",
    )
    height = page.viewport_size["height"]
    return {identity for identity, top, bottom in edges if top >= 0 and bottom <= height}


def test_what_goes_wrong_in_a_dialog_is_told_in_it(kept, opened, keep_shot):
    album, address = kept
    album.collections.create("dog")
    page = opened(address, expected=["Failed to load resource"])
    page.click("#collections-open")
    page.fill("#collection-name", "dog")
    page.click("#collection-create button")
    page.locator("dialog[open] #mistake").get_by_text("There is a collection 'dog' already").wait_for()
    keep_shot(page, "taken-name")
    page.click("#collections .close")
    page.locator("body > #mistake").wait_for()


def test_another_tab_and_another_program_are_seen(kept, opened):
    album, address = kept
    album.collections.add("dog", [40])
    first = opened(address + "#photo=16")
    ranked(first)
    first.select_option("#collection-choice", label="dog (1)")
    until(first, "location.hash === '#photo=16&in=1'")
    second = first.context.new_page()
    second.goto(first.url)
    ranked(second)
    assert choice(second) == "dog (1)"  # the choice is in the address
    second.click(".tile:nth-child(4) .yes")
    until(first, "document.querySelector('.tile:nth-child(4) .yes').getAttribute('aria-pressed') === 'true'")
    counted(first, "2 photos")
    album.collections.mark("dog", wrong=[50])
    album.collections.rename("dog", "Rex")
    for page in (first, second):
        counted(page, "2 photos, 1 marked as not belonging")
        assert choice(page) == "Rex (2)"
    for page, place in ((first, 6), (second, 7), (first, 8), (second, 9)):
        page.click(f".tile:nth-child({place}) .yes")  # both at once
    until(first, "document.getElementById('collection-count').textContent.startsWith('6 photos')")
    assert len(right(album, "Rex")) == 6


def test_a_step_that_the_page_was_not_told_of_is_not_undone(kept, opened):
    album, address = kept
    page = opened(address, expected=("ERR_FAILED",))
    page.route("**/api/v1/events", lambda route: route.abort())  # which tell what others do
    page.reload()
    page.wait_for_selector(".tile")
    page.wait_for_selector("#collection:not([hidden])")
    album.collections.add("mine", [3])
    page.keyboard.press("z")
    page.wait_for_selector("#mistake:not([hidden])")
    assert "Nothing to undo" in page.inner_text("#mistake")
    assert right(album, "mine") == [3]


def test_photos_and_lists_are_exported_and_taken_in(kept, opened, tmp_path, keep_shot):
    album, address = kept
    album.collections.add("my dog", [0, 5, 9])
    page = opened(address)
    page.click("#collections-open")
    page.click("#collections-list button")
    until(page, "document.getElementById('collection-zip').textContent.includes(',')")
    size = page.locator("#collection-zip").text_content()
    keep_shot(page, "collections")
    with page.expect_download() as saved:
        page.click("#collection-zip")
    assert saved.value.suggested_filename == "my dog.zip"
    content = saved.value.path().read_bytes()
    assert size == f"Photos as a zip, {len(content) / 1000:.1f} kB"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) == 3
    with page.expect_download() as saved:
        page.click("#collection-csv")
    table = saved.value.path().read_text()
    assert [row["path"] for row in csv.DictReader(table.splitlines())] == [album.photo(one).path for one in (0, 5, 9)]
    (tmp_path / "cats.csv").write_text(f"{table.replace('my dog', 'cats')}cats,right,nowhere.jpg,,\n")
    page.set_input_files("#collection-import", tmp_path / "cats.csv")
    page.get_by_text("Taken in: cats: 3 photos. 1 photo not in this album, such as nowhere.jpg.").wait_for()
    assert right(album, "cats") == [0, 5, 9]
    page.fill("#collection-name", "made here")
    page.click("#collection-create button")
    until(page, "document.getElementById('collections-count').textContent === '3'")
    until(page, "document.querySelector('#collection-choice option:checked').textContent === 'made here (0)'")


def found_all(album, letters):
    """Whether of each photo it or a copy of it is kept."""
    kept = set(album.collections["Q"].right)
    stacks = [{photo.id for photo in group.photos} for group in copies_in(album)]
    return all(one in kept or any(one in stack and stack & kept for stack in stacks) for one in letters)


def test_what_is_missing_is_offered_until_nothing_is(kept, opened, keep_shot):
    album, address = kept
    letters = {photo.id for photo in album.photos if photo.label == "Q"}
    page = opened(address + f"#photo={min(letters)}")
    ranked(page)
    page.click(".tile:nth-child(1) .yes")
    accept_name(page)
    counted(page, "2 photos")
    with page.expect_response(re.compile("/next$")) as answered:
        page.click("#collection-next")
    assert answered.value.json()["recall"] is None
    until(
        page, "document.getElementById('found-note').textContent.startsWith('How much is missing can be said from 3')"
    )
    for _ in range(3):
        page.wait_for_selector(".tile")
        until(page, "!document.querySelector('.waiting')")
        for tile in page.locator(".tile").all()[:12]:
            if int(tile.get_attribute("data-id")) in letters:
                tile.locator(".yes").click()
        with page.expect_response(re.compile("/marks$")):
            page.keyboard.press("x")  # the rest do not belong
        with page.expect_response(re.compile("/next$")) as answered:
            page.keyboard.press("m")
        if found_all(album, letters):
            break
    assert found_all(album, letters)
    assert set(album.collections["Q"].right) <= letters
    # Eight photos may be too few for a range that says anything.
    until(page, r"/^(About \d+% is found|Too few marks)/.test(document.getElementById('found-note').textContent)")
    keep_shot(page, "missing")


def test_a_server_that_refuses_a_mark_takes_it_off_the_page(kept, opened, monkeypatch):
    album, address = kept
    album.collections.add("dog", [40])
    page = opened(address + "#photo=16", expected=["Failed to load resource"])
    ranked(page)
    page.select_option("#collection-choice", label="dog (1)")
    counted(page, "1 photo")

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("smoothap.album.collection_rows.write_mark", refused)
    page.click(".tile:nth-child(1) .yes")
    page.get_by_text("Permission denied): nothing changed").wait_for()
    monkeypatch.undo()
    counted(page, "1 photo")
    assert page.locator(".tile:nth-child(1) .yes").get_attribute("aria-pressed") == "false"
