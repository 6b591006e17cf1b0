"""Looking at photos in a real browser: large, filtered, stacked, and by keyboard."""

import hashlib
import re

import numpy as np
import pytest
from page_albums import MODEL, PixelAlbum, Pixels, write_letters
from page_server import served
from PIL import Image
from test_page_in_a_browser import ranked, scores, until

from smoothap.album import Album
from smoothap.album.copies import copies_in

pytestmark = pytest.mark.browser
CAMERAS = ["Canon EOS R6", "Apple iPhone 15 Pro"]


@pytest.fixture(scope="module")
def shots(tmp_path_factory):
    """Letters as photos: a folder for each, dates, cameras, and a copy of every face of A."""
    place = tmp_path_factory.mktemp("shots")
    known = []
    for letters in ("AQ", "K8"):
        for each in write_letters(place / "photos" / letters, letters):
            known.append({**each, "path": f"{letters}/{each['path']}", "label": None})
    for each in [photo for photo in known if "0041" in photo["path"]]:
        copy = each["path"].replace(".jpg", " copy.jpg")
        (place / "photos" / copy).write_bytes((place / "photos" / each["path"]).read_bytes())
        known.append({**each, "path": copy})
    for row, each in enumerate(known):
        file = place / "photos" / each["path"]
        each |= {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "bytes": file.stat().st_size}
        each |= {"camera": CAMERAS[row % 2], "taken": f"20{20 + row % 3}-06-15T12:30:00" if row % 4 else None}
    vectors = Pixels().embed([Image.open(place / "photos" / each["path"]) for each in known]).numpy()
    return PixelAlbum.from_arrays(vectors, known, place / "album", root=place / "photos", model=MODEL)


@pytest.fixture(scope="module")
def address(shots):
    with served({"shots": shots}, local=True) as port:
        yield f"http://127.0.0.1:{port}/"


def opened_anew(opened, address, **options):
    """The page with the photos in the order in which they came into the album."""
    page = opened(f"{address}{'&' if '#' in address else '#'}order=album", **options)
    page.wait_for_selector(".tile img")
    return page


def shown(page):
    return page.locator("#viewer-title").text_content()


def test_a_click_opens_the_photo_large_with_what_is_known_of_it(opened, address, keep_shot):
    page = opened_anew(opened, address)
    page.click(".tile[data-place='1'] .picture")
    until(page, "document.querySelectorAll('#viewer-facts dd').length > 3")
    assert shown(page) == "0041-DejaVuSans-Bold.jpg"
    facts = dict(
        zip(
            page.locator("#viewer-facts dt").all_text_contents(),
            page.locator("#viewer-facts dd").all_text_contents(),
            strict=True,
        )
    )
    assert facts["Folder"] == "AQ"
    assert facts["Taken"] == "June 15, 2021, 12:30"
    assert facts["Camera"] == "Apple iPhone 15 Pro"
    assert facts["Size"].startswith("120 × 120 pixels, ")
    assert facts["Copies"] == "1"
    keep_shot(page, "viewer")
    page.keyboard.press("ArrowRight")
    until(page, "document.getElementById('viewer-title').textContent === '0041-DejaVuSans-Oblique.jpg'")
    page.click("#viewer-before")
    until(page, "document.getElementById('viewer-title').textContent === '0041-DejaVuSans-Bold.jpg'")
    page.keyboard.press("Escape")
    until(page, "!document.getElementById('viewer').open")
    assert page.evaluate("document.activeElement.closest('.tile').dataset.place") == "1"
    assert page.locator("#query-image").is_hidden()  # looking is not searching


def test_zoom_by_key_wheel_and_button(opened, address):
    page = opened_anew(opened, address)
    page.click(".tile[data-place='0'] .picture")
    page.wait_for_selector("#viewer[open] #viewer-image[src]")
    scale = "new DOMMatrix(getComputedStyle(document.getElementById('viewer-image')).transform).a"
    page.keyboard.press("+")
    until(page, f"Math.abs({scale} - 1.5) < 0.01")
    page.click("#viewer-nearer")
    until(page, f"Math.abs({scale} - 2.25) < 0.01")
    page.mouse.move(300, 400)
    page.mouse.down()
    page.mouse.move(360, 380, steps=3)
    page.mouse.up()
    until(page, f"{scale.removesuffix('.a')}.e === 60")
    page.mouse.wheel(0, 100)
    until(page, f"{scale} < 2")
    page.keyboard.press("0")
    until(page, f"{scale} === 1")
    assert page.locator("#viewer-further").is_disabled()


@pytest.fixture(scope="module")
def camera_shot(tmp_path_factory):
    """An album of one photo as a camera makes them, and a small one."""
    place = tmp_path_factory.mktemp("camera")
    grain = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    known = []
    for name, size in (("a.jpg", (4000, 3000)), ("b.jpg", (80, 60))):
        Image.fromarray(grain).resize(size).save(place / name)
        known.append({"path": name, "width": size[0], "height": size[1], "sha256": f"{size[0]:064x}"})
    album = Album.from_arrays(np.eye(2), known, place / "album", root=place)
    with served({"camera": album}, local=True) as port:
        yield f"http://127.0.0.1:{port}/"


WIDE = "document.getElementById('viewer-image').naturalWidth"


def test_a_photo_that_is_looked_at_from_near_has_all_its_pixels(opened, camera_shot):
    page = opened_anew(opened, camera_shot)
    page.click(".tile[data-place='0'] .picture")
    until(page, f"{WIDE} === 1024")
    before = page.locator("#viewer-image").bounding_box()
    page.wait_for_timeout(500)
    assert page.evaluate(WIDE) == 1024  # as many as the screen shows
    page.keyboard.press("+")
    until(page, f"{WIDE} === 4000")
    page.keyboard.press("0")
    until(page, "document.getElementById('viewer-scale').textContent === 'Fit'")
    assert page.locator("#viewer-image").bounding_box() == before
    page.keyboard.press("ArrowRight")
    until(page, f"{WIDE} === 80")
    until(
        page, "document.getElementById('viewer-image').clientWidth === 240"
    )  # enlarged, and not to the screen's width
    page.keyboard.press("+")
    page.wait_for_timeout(500)
    assert page.evaluate(WIDE) == 80  # there are no more


def test_the_wheel_zooms_to_where_the_pointer_is_and_the_photo_cannot_be_lost(opened, camera_shot):
    page = opened_anew(opened, camera_shot)
    page.click(".tile[data-place='0'] .picture")
    until(page, f"{WIDE} === 1024 && document.getElementById('viewer-image').clientWidth > 900")
    box = page.locator("#viewer-image").bounding_box()
    x, y = box["x"] + 0.25 * box["width"], box["y"] + 0.25 * box["height"]
    page.mouse.move(x, y)
    for _ in range(5):
        page.mouse.wheel(0, -100)
    until(page, "document.getElementById('viewer-scale').textContent === '249%'")
    box = page.locator("#viewer-image").bounding_box()
    assert (x - box["x"]) / box["width"] == pytest.approx(0.25, abs=0.002)
    assert (y - box["y"]) / box["height"] == pytest.approx(0.25, abs=0.002)
    for _ in range(6):
        page.mouse.move(100, 400)
        page.mouse.down()
        page.mouse.move(900, 400, steps=2)
        page.mouse.up()
    left = page.locator("#viewer-image").bounding_box()["x"]
    assert left <= page.evaluate("document.getElementById('viewer-stage').clientWidth") - 59


def test_fingers_zoom_and_turn_pages(opened, camera_shot):
    page = opened_anew(opened, camera_shot, has_touch=True, viewport={"width": 390, "height": 800})
    page.tap(".tile[data-place='0'] .picture")
    until(page, f"{WIDE} === 1024 && document.getElementById('viewer-title').textContent === 'a.jpg'")
    device = page.context.new_cdp_session(page)

    def touch(kind, *points):
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
        device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", (150, 200))
    touch("touchStart", (150, 200), (250, 200))
    for apart in (60, 70, 80, 90, 100):
        touch("touchMove", (200 - apart, 200), (200 + apart, 200))
    touch("touchEnd")
    until(page, "document.getElementById('viewer-scale').textContent === '200%'")
    page.keyboard.press("0")
    touch("touchStart", (300, 200))
    for x in (250, 200, 150, 100):
        touch("touchMove", (x, 205))
    touch("touchEnd")
    until(page, "document.getElementById('viewer-title').textContent === 'b.jpg'")


def test_from_the_large_photo_to_a_search_with_it_or_with_a_part(opened, address, keep_shot):
    page = opened_anew(opened, address)
    page.click(".tile[data-place='0'] .picture")
    until(page, "document.getElementById('viewer-title').textContent !== ''")
    page.click("#viewer-search")
    ranked(page)
    assert "#photo=0&" in page.url
    whole = scores(page)
    page.click(".tile[data-place='2'] .picture")
    until(page, "document.getElementById('viewer-facts').textContent.includes(', rank ')")
    page.keyboard.press("p")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowUp")
    keep_shot(page, "viewer-part")
    with page.expect_request(re.compile("/search$")) as sent, page.expect_response(re.compile("/search$")):
        page.keyboard.press("Enter")
    assert sent.value.post_data_json["box"] == pytest.approx([0.21, 0.25, 0.5, 0.46], abs=1e-4)
    ranked(page)
    assert page.locator("#box").is_visible()
    until(page, f"document.querySelectorAll('.score')[3].textContent !== '{whole[3]:.3f}'")
    page.click(".tile[data-place='2'] .picture")
    page.keyboard.press("p")
    page.keyboard.press("Escape")  # out of the part, then out of the photo
    assert page.locator("#viewer").is_visible()
    page.keyboard.press("Escape")
    until(page, "!document.getElementById('viewer').open")


def test_show_in_folder_is_there_for_this_computer_alone(opened, address, shots, monkeypatch):
    asked = []
    monkeypatch.setattr("smoothap.server.routes.photos.reveal", asked.append)
    page = opened_anew(opened, address)
    page.click(".tile[data-place='0'] .picture")
    until(page, "document.getElementById('viewer-title').textContent !== ''")
    page.click("#viewer-reveal")
    until(page, "document.getElementById('viewer-note').textContent.startsWith('Its folder opens')")
    assert [path.name for path in asked] == ["0041-DejaVuSans.jpg"]
    with served({"shots": shots}) as port:
        page = opened_anew(opened, f"http://127.0.0.1:{port}/")
        page.click(".tile[data-place='0'] .picture")
        until(page, "document.getElementById('viewer-title').textContent !== ''")
        assert page.locator("#viewer-reveal").is_hidden()


def test_marks_are_set_from_the_large_photo_too(opened, address):
    page = opened_anew(opened, address + "#photo=3")
    ranked(page)
    page.click(".tile[data-place='0'] .picture")
    until(page, "document.getElementById('viewer-title').textContent !== ''")
    page.keyboard.press("r")
    page.wait_for_selector("#naming[open]")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('viewer-yes').getAttribute('aria-pressed') === 'true'")
    page.keyboard.press("Escape")
    until(page, "document.querySelector('.tile[data-place=\"0\"] .yes').getAttribute('aria-pressed') === 'true'")
    page.locator(".tile[data-place='0'] .picture").focus()
    page.keyboard.press("r")
    until(page, "document.querySelector('.tile[data-place=\"0\"] .yes').getAttribute('aria-pressed') === 'false'")


def test_a_search_is_left_by_a_button_and_by_the_back_button(opened, address, shots):
    page = opened_anew(opened, address)
    everything = page.locator(".note:not(#people-note)").text_content()
    assert page.locator("#leave").is_hidden()
    page.click(".tile[data-place='3'] .find")
    ranked(page)
    page.go_back()
    noted(page, everything)
    assert page.locator("#query-image").is_hidden()
    assert page.locator("#controls").is_hidden()
    page.go_forward()
    ranked(page)
    page.click("#leave")
    noted(page, everything)
    assert page.url.endswith("#order=album")
    assert page.locator("#leave").is_hidden()
    assert page.evaluate("document.activeElement.id") == "draw"
    page.go_back()
    ranked(page)  # the search that was left


def noted(page, text):
    until(page, f"document.querySelector('.note:not(#people-note)').textContent === '{text}'")


def test_filters_choose_what_is_shown_and_searched(opened, address, shots, keep_shot):
    page = opened_anew(opened, address, expected=["422"])
    page.click("#filter-details summary")
    page.uncheck("#filter-stacked")
    noted(page, "40 photos")
    page.select_option("#filter-folder", "K8")
    noted(page, "16 photos")
    assert page.locator("#filter-count").text_content() == "1"
    page.select_option("#filter-camera", CAMERAS[0])
    noted(page, "8 photos")
    keep_shot(page, "filters")
    page.click(".tile[data-place='0'] .find")
    ranked(page)
    noted(page, "7 photos")  # the query is one of the eight
    page.click("#filter-clear")
    noted(page, "39 photos")
    page.fill("#filter-since", "2021-01-01")
    page.fill("#filter-until", "2021-12-31")
    right = sum(1 for photo in shots.photos if photo.taken is not None and photo.taken.year == 2021)
    query = shots.photo(int(re.search(r"#photo=(\d+)", page.url)[1])).taken
    noted(page, f"{right - (query is not None and query.year == 2021)} photos")
    assert "photos have no date" in page.locator("#filter-undated").text_content()
    page.fill("#filter-since", "2022-01-01")
    until(page, "!document.getElementById('mistake').hidden")
    assert "the earlier one first" in page.locator("#mistake-text").text_content()


def test_a_random_photo_is_one_of_those_that_pass(opened, address, shots):
    page = opened_anew(opened, address)
    page.click("#filter-details summary")
    page.select_option("#filter-folder", "K8")
    until(page, "document.getElementById('filter-count').textContent === '1'")
    assert page.locator("#draw").text_content() == "Random photo"
    for _ in range(3):
        with page.expect_response(re.compile("/search$")):
            page.click("#draw")
        ranked(page)
        identity = int(re.search(r"#photo=(\d+)", page.url)[1])
        assert shots.photo(identity).path.startswith("K8/")


def stacked_note(album):
    """What the page says of all photos, from the groups of copies."""
    folded = sum(len(group.photos) - 1 for group in copies_in(album))
    return f"{len(album) - folded} photos and {folded} copies"


def test_copies_are_stacked_taken_apart_and_told_to_be_none(opened, address, shots, keep_shot):
    page = opened_anew(opened, address)
    before = stacked_note(shots)
    noted(page, before)
    keep_shot(page, "stacked")
    page.locator(".tile .stack").first.click()
    page.wait_for_selector("#stack[open]")
    group = next(group for group in copies_in(shots) if 0 in {photo.id for photo in group.photos})
    assert page.locator("#stack-list li").count() == len(group.photos)
    sizes = page.locator("#stack-list li .soft").all_text_contents()
    assert sizes[0].startswith("120 × 120 pixels, ")
    best = [photo.path for photo in group.photos]
    assert page.locator("#stack-list bdi").all_text_contents() == best  # the best first
    keep_shot(page, "stack")
    page.locator("#stack-list li").last.get_by_text("Not a copy").click()
    page.keyboard.press("Escape")
    until(page, f"document.querySelector('.note:not(#people-note)').textContent !== '{before}'")
    assert stacked_note(shots) != before
    noted(page, stacked_note(shots))
    page.reload()
    page.wait_for_selector(".tile img")
    noted(page, stacked_note(shots))  # it is remembered
    page.locator(".tile:has(.stack) .picture").first.focus()
    page.keyboard.press("d")
    page.wait_for_selector("#stack[open]")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "picture"


def test_a_first_visit_explains_itself_once(opened, address, keep_shot):
    page = opened_anew(opened, address)
    assert page.locator("#welcome li").count() == 3
    assert page.locator("#welcome").is_visible()
    keep_shot(page, "welcome")
    page.click("#welcome-close")
    assert page.locator("#welcome").is_hidden()
    page.reload()
    page.wait_for_selector(".tile img")
    assert page.locator("#welcome").is_hidden()


def test_every_control_of_the_large_photo_is_reached_by_tab(opened, address):
    page = opened_anew(opened, address)
    page.locator(".tile[data-place='1'] .picture").focus()
    page.keyboard.press("Enter")
    until(page, "document.getElementById('viewer-title').textContent !== ''")
    reached = set()
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    wanted = page.locator("#viewer button:not([disabled]):visible").evaluate_all("all => all.map((each) => each.id)")
    assert len(wanted) >= 9
    assert set(wanted) <= reached


@pytest.mark.parametrize("width", [360, 700])
def test_a_narrow_screen_shows_the_large_photo_whole(opened, address, width, keep_shot):
    page = opened_anew(opened, address, viewport={"width": width, "height": 740})
    page.click("#welcome-close")
    page.click(".tile[data-place='0'] .picture")
    until(page, "document.querySelectorAll('#viewer-facts dd').length > 2")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.getElementById('viewer').scrollWidth <= innerWidth")
    box = page.locator("#viewer-image").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width + 1
    keep_shot(page, f"viewer-{width}")
