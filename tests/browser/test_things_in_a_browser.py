"""Things inside photos on the page: the switch, frames around what was found, and the part that is seen large."""

import numpy as np
import pytest
import torch
from page_albums import letter
from page_server import served
from PIL import Image
from test_accessibility import axe, serious  # noqa: F401 (a fixture)
from test_page_in_a_browser import until

from smoothap.album import index_photos
from smoothap.models import Embedder

pytestmark = pytest.mark.browser

PHOTOS = 70  # more than a page of the list
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
FRAMES = "(all) => all.map((one) => [one.style.left, one.style.top, one.style.width, one.style.height].map(parseFloat))"


@pytest.fixture(scope="module")
def shelves(tmp_path_factory):
    """An album of photos with a letter somewhere on coloured patches, and what is in them; every third is upright."""
    folder = tmp_path_factory.mktemp("shelves")
    torch.manual_seed(0)
    model = Embedder("test_resnet", None, size=64, pretrained=False).save(folder / "model")
    (folder / "photos").mkdir()
    for number in range(PHOTOS):
        draw = np.random.default_rng(number)
        size = (240, 320) if number % 3 == 0 else (320, 240)
        patches = Image.fromarray(draw.integers(60, 220, (6, 6, 3), dtype=np.uint8))
        photo = patches.resize(size, Image.Resampling.BICUBIC)
        thing = letter("AR&@"[number % 4], "DejaVuSans-Bold", size=110)
        photo.paste(thing, tuple(int(draw.integers(0, side - 110)) for side in size))
        photo.save(folder / f"photos/{number:02}.jpg", quality=92)
    return index_photos(folder / "photos", folder / "album", model=str(model), regions=True, progress=False).album


@pytest.fixture(scope="module")
def address(shelves):
    with served({"shelves": shelves}, local=True) as port:
        yield f"http://127.0.0.1:{port}/"


def names(page):
    return page.eval_on_selector_all(".tile .name", "(all) => all.map((one) => one.textContent)")


def frames(page):
    until(page, "[...document.querySelectorAll('.tile img')].every((one) => one.complete)")
    return page.eval_on_selector_all(".tile .frame", FRAMES)


def search_things(page, choice="Things in photos"):
    page.get_by_label(choice).check()
    until(page, "!document.querySelector('.waiting') && document.querySelector('.tile .score') !== null")


def shown_frame(photo, box):
    """Where the frame around a part of a photo is on its square tile, in percent."""
    longer = max(photo.width, photo.height)
    x, y, width, height = box
    across, down = (longer - photo.width) / 2, (longer - photo.height) / 2
    return [100 * value / longer for value in (x + across, y + down, width, height)]


def test_a_photo_of_the_album_finds_things_and_each_is_framed(shelves, address, opened, keep_shot):
    page = opened(f"{address}#photo=5")
    page.wait_for_selector(".tile .score")
    assert page.locator(".tile .frame").count() == 0
    search_things(page)
    page.wait_for_selector(".tile .frame")
    expected = shelves.search(5, k=12, space="region")
    assert names(page)[:12] == [hit.path for hit in expected]
    for frame, hit in zip(frames(page)[:12], expected, strict=True):
        assert frame == pytest.approx(shown_frame(shelves.photo(hit.id), hit.box), abs=0.5)
    assert "space=region" in page.url
    keep_shot(page, "things")
    search_things(page, "Whole photos")
    until(page, "!document.querySelector('.tile .frame')")
    assert "space" not in page.url


def test_a_box_on_the_query_is_looked_for_inside_photos(shelves, address, opened):
    page = opened(f"{address}#photo=5&space=region")
    page.wait_for_selector(".tile .frame")
    page.focus("#stage")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('part=')")
    until(page, "!document.querySelector('.waiting')")
    photo = shelves.photo(5)
    box = (round(0.21 * photo.width), round(0.25 * photo.height), photo.width // 2, photo.height // 2)
    assert names(page)[:12] == [hit.path for hit in shelves.search(5, k=12, box=box, space="region")]
    before = names(page)
    page.reload()
    page.wait_for_selector(".tile .frame")
    assert names(page) == before


def test_a_photo_from_elsewhere_and_a_part_of_it(shelves, address, opened, tmp_path, keep_shot):
    page = opened(address)
    page.wait_for_selector(".tile .picture")
    page.get_by_label("Things in photos").check()  # before there is a query
    letter("R", "DejaVuSans-Bold", size=200).save(tmp_path / "thing.png")
    page.set_input_files("#choose", tmp_path / "thing.png")
    page.wait_for_selector(".tile .frame")
    whole = shelves.search(tmp_path / "thing.png", k=PHOTOS, space="region")
    assert names(page)[:12] == [hit.path for hit in whole[:12]]
    keep_shot(page, "things-upload")
    stage = page.locator("#query-image").bounding_box()
    page.mouse.move(stage["x"] + 0.2 * stage["width"], stage["y"] + 0.2 * stage["height"])
    page.mouse.down()
    page.mouse.move(stage["x"] + 0.8 * stage["width"], stage["y"] + 0.8 * stage["height"], steps=4)
    page.mouse.up()
    until(page, "!document.getElementById('whole').hidden && !document.querySelector('.waiting')")
    keep_shot(page, "things-upload-box")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    until(page, f"document.querySelector('.tile[data-place=\"{PHOTOS - 1}\"] .frame') !== null")  # the next page


def test_back_leads_from_things_to_whole_photos_and_things_stay_when_another_photo_is_searched(address, opened):
    page = opened(f"{address}#photo=5")
    page.wait_for_selector(".tile .score")
    whole = names(page)
    search_things(page)
    page.wait_for_selector(".tile .frame")
    things = names(page)
    page.locator(".tile .find").first.click()
    until(page, "!location.hash.includes('photo=5&') && location.hash.includes('space=region')")
    until(page, "!document.querySelector('.waiting')")
    assert page.is_checked("#space-region")
    page.go_back()
    until(page, f"document.querySelector('.tile .name').textContent === '{things[0]}'")
    assert names(page) == things
    search_things(page, "Whole photos")
    assert names(page) == whole


def test_filters_scores_and_marks_work_among_things(shelves, address, opened):
    page = opened(f"{address}#photo=5&space=region")
    page.wait_for_selector(".tile .frame")
    first = page.locator(".tile").first
    path = first.locator(".name").inner_text()
    first.locator(".no").click()
    page.click("#naming-search")  # keep nothing
    page.click("#again")
    until(page, f"document.querySelector('.tile .name').textContent !== '{path}'")
    until(page, "!document.querySelector('.waiting')")
    wrong = next(hit.id for hit in shelves.search(5, k=1, space="region"))
    assert names(page)[:12] == [hit.path for hit in shelves.search(5, wrong=[wrong], k=12, space="region")]
    before = page.eval_on_selector("#slider", "(slider) => [slider.min, slider.max].map(Number)")
    assert -0.5 < before[0] < before[1] <= 1
    tenth = float(page.locator(".tile .score").nth(9).inner_text()) - 0.006
    page.eval_on_selector("#slider", f"(s) => {{ s.value = {tenth}; s.dispatchEvent(new Event('input')); }}")
    until(page, "!document.querySelector('.waiting') && document.querySelectorAll('.tile').length < 15")
    assert page.locator(".tile").count() >= 10
    with page.expect_download() as download:
        page.get_by_text("CSV", exact=True).first.click()
    lines = download.value.path().read_text().splitlines()
    assert len(lines) - 1 == page.locator(".tile").count()


def test_the_viewer_frames_what_was_found_and_shows_it_large(shelves, address, opened, keep_shot):
    page = opened(f"{address}#photo=5&space=region")
    page.wait_for_selector(".tile .frame")
    hits = shelves.search(5, k=30, space="region")
    place = next(place for place, hit in enumerate(hits) if hit.box[2] * hit.box[3] < 0.4 * 320 * 240)
    page.locator(".tile .picture").nth(place).click()
    page.wait_for_selector("#viewer-match:not([hidden])")
    until(page, "document.getElementById('viewer-image').clientWidth > 50")
    box, photo = hits[place].box, shelves.photo(hits[place].id)

    def is_around_the_part():
        image, frame = (page.locator(each).bounding_box() for each in ("#viewer-image", "#viewer-match"))
        assert (frame["x"] - image["x"]) / image["width"] == pytest.approx(box[0] / photo.width, abs=0.01)
        assert frame["height"] / image["height"] == pytest.approx(box[3] / photo.height, abs=0.01)
        return frame

    small = is_around_the_part()
    keep_shot(page, "things-large")
    page.get_by_role("button", name="What was found").click()
    near = is_around_the_part()
    stage = page.locator("#viewer-stage").bounding_box()
    assert near["width"] > 1.3 * small["width"]
    assert near["x"] + near["width"] / 2 == pytest.approx(stage["x"] + stage["width"] / 2, abs=2)
    page.wait_for_timeout(400)
    keep_shot(page, "things-near")
    page.keyboard.press("t")
    assert is_around_the_part()["width"] == pytest.approx(small["width"], abs=1)
    page.click("#viewer-part")  # which begins with what was found
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('part=') && location.hash.includes('space=region')")


def test_where_the_album_knows_no_parts_nothing_is_shown(one, opened):
    page = opened(f"{one}#photo=3&space=region")
    page.wait_for_selector(".tile .score")
    assert page.is_hidden("#spaces")
    assert page.locator(".tile .frame").count() == 0
    page.click(".tile .picture")
    page.wait_for_selector("#viewer-facts dd")
    assert page.is_hidden("#viewer-near")


def test_on_a_phone_things_are_found_framed_and_seen_large(address, opened, keep_shot):
    page = opened(f"{address}#photo=5", **PHONE)
    page.wait_for_selector(".tile .score")
    search_things(page)
    page.wait_for_selector(".tile .frame")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep_shot(page, "things-phone")
    page.locator(".tile .picture").nth(4).tap()
    page.wait_for_selector("#viewer-match:not([hidden])")
    until(page, "document.getElementById('viewer-image').clientWidth > 50")
    keep_shot(page, "things-phone-large")
    page.get_by_role("button", name="What was found").tap()
    page.wait_for_timeout(400)
    keep_shot(page, "things-phone-near")
    page.tap("#viewer-close")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_on_the_screens_of_things(address, opened, axe, scheme, keep_shot):  # noqa: F811
    page = opened(f"{address}#photo=5&space=region", color_scheme=scheme)
    page.wait_for_selector(".tile .frame")
    keep_shot(page, f"things-{scheme}")
    assert serious(page, axe) == []
    page.locator(".tile .picture").first.click()
    page.wait_for_selector("#viewer-facts dd")
    assert serious(page, axe) == []
