"""Browsing in a real browser: by month, name and folder, by words; several photos at once; new ones by themselves."""

import re
import zipfile
from datetime import datetime

import numpy as np
import pytest
from page_albums import MODEL, PixelAlbum, Pixels, letter
from page_server import served
from PIL import Image
from test_page_in_a_browser import ranked, until

from smoothap.server.schemas import Indexing
from smoothap.server.served_album import ServedAlbum

pytestmark = pytest.mark.browser
SCREENS = {
    "desktop": {"viewport": {"width": 1440, "height": 900}},
    "laptop": {"viewport": {"width": 1280, "height": 720}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}
every_screen = pytest.mark.parametrize("screen", SCREENS)
MONTHS = [("June 2021", 12), ("May 2021", 12), ("March 2016", 12), ("Without a date", 4)]


def dated_letters(place):
    """Forty letters of which the camera dates 24, their names date twelve, and nothing dates four; where each is."""
    known = []
    for row, character in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghkmnpqrt"):
        month, day = 6 - row // 12, row % 12 + 1
        path = f"{'Léon/beach' if row % 2 else 'home'}/{row:02d}-{character}.jpg"
        if row // 12 == 2:
            path = f"phone/IMG-201603{day:02d}-WA00{row}.jpg"
        image = letter(character, "DejaVuSans")
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        image.save(place / path, quality=92)
        taken = datetime(2021, month, day, 9, 30).isoformat() if row < 24 else None
        known.append({"path": path, "width": 120, "height": 120, "taken": taken, "bytes": 2_000})
    return known


def dated_album(place):
    """Those in an album of a folder of its own."""
    known = dated_letters(place / "photos")
    vectors = Pixels().embed([Image.open(place / "photos" / each["path"]) for each in known]).numpy()
    return PixelAlbum.from_arrays(vectors, known, place / "album", root=place / "photos", model=MODEL)


@pytest.fixture(scope="module")
def album(tmp_path_factory):
    return dated_album(tmp_path_factory.mktemp("dated"))


@pytest.fixture(scope="module")
def address(album):
    with served({"dated": album}, local=True) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def own(tmp_path):
    """An album that a test may change, and its page."""
    album = dated_album(tmp_path)
    with served({"dated": album}, local=True) as port:
        yield album, f"http://127.0.0.1:{port}/"


def browsed(opened, address, screen="desktop", **options):
    page = opened(address, **SCREENS[screen], **options)
    page.wait_for_selector(".tile[data-id]")
    if page.locator("#welcome-close").is_visible():
        page.click("#welcome-close")
    return page


def control(page, identity):
    """A control, which is in the sheet on a narrow screen."""
    if not page.locator(identity).is_visible():
        page.click("#sheet-open")
    return page.locator(identity)


def close_sheet(page):
    if page.locator("#sheet-close").is_visible():
        page.click("#sheet-close")


def names_shown(page, number):
    """The file names of the first photos."""
    pictures = page.locator(".tile[data-id] .picture img")
    until(page, f"document.querySelectorAll('.tile[data-id]').length >= {number}")
    return [pictures.nth(place).get_attribute("alt").rpartition("/")[2] for place in range(number)]


def noted(page, text):
    until(page, f"document.querySelector('.column .note')?.textContent === {text!r}")


# ---- order


@every_screen
def test_photos_are_below_their_months_the_newest_first(opened, address, screen, keep_shot):
    page = browsed(opened, address, screen)
    keep_shot(page, f"months-{screen}")
    assert page.locator(".heading bdi").all_text_contents()[:2] == ["June 2021", "May 2021"]
    assert names_shown(page, 2) == ["11-L.jpg", "10-K.jpg"]
    control(page, "#jump")
    assert page.locator("#jump option").all_text_contents() == [f"{title} ({number})" for title, number in MONTHS]
    page.select_option("#jump", label="March 2016 (12)")
    close_sheet(page)
    until(page, "scrollY > 100")
    page.locator(".heading", has_text="March 2016").wait_for()
    heading = page.locator(".heading", has_text="March 2016").bounding_box()
    assert -2 <= heading["y"] < page.viewport_size["height"]
    assert page.locator(".tile[data-place='24'] img").get_attribute("alt").endswith("IMG-20160312-WA0035.jpg")


@every_screen
def test_the_order_is_in_the_address(opened, address, screen):
    page = browsed(opened, address, screen)
    control(page, "#order").select_option("name")
    close_sheet(page)
    until(page, "document.querySelector('.heading bdi').textContent === '0'")
    assert names_shown(page, 3) == ["00-A.jpg", "01-B.jpg", "02-C.jpg"]
    page.reload()
    page.wait_for_selector(".tile[data-id]")
    assert names_shown(page, 1) == ["00-A.jpg"]
    assert page.locator("#order").input_value() == "name"
    control(page, "#order").select_option("folder")
    close_sheet(page)
    until(page, "document.querySelector('.heading bdi').textContent === 'home'")
    page.go_back()
    until(page, "document.querySelector('.heading bdi').textContent === '0'")
    page.go_back()
    until(page, "document.querySelector('.heading bdi').textContent === 'June 2021'")
    assert "order" not in page.url


def test_keys_go_from_row_to_row_over_a_heading(opened, address):
    page = browsed(opened, address)
    page.locator(".tile[data-place='9'] .picture").focus()
    column = "document.activeElement.closest('.tile').getBoundingClientRect().left"
    place = "Number(document.activeElement.closest('.tile').dataset.place)"
    left = page.evaluate(column)
    page.keyboard.press("ArrowDown")
    assert page.evaluate(place) >= 12  # in the next month
    assert page.evaluate(column) == left
    page.keyboard.press("ArrowUp")
    assert page.evaluate(place) == 9


@every_screen
def test_names_are_looked_for_while_one_types(opened, address, screen):
    page = browsed(opened, address, screen)
    page.locator("#names").press_sequentially("leon b", delay=30)
    noted(page, "14 photos")
    until(page, "location.hash.includes('text=leon%20b')")
    page.reload()
    noted(page, "14 photos")
    assert page.locator("#names").input_value() == "leon b"
    page.fill("#names", "nothing like it")
    page.get_by_text("No photo or folder has “nothing like it” in its name.").wait_for()
    page.go_back()
    noted(page, "40 photos")
    assert page.locator("#names").input_value() == ""


def test_the_size_of_photos_is_remembered(opened, address):
    page = browsed(opened, address)
    wide = page.locator(".tile").first.bounding_box()["width"]
    page.locator("#size").fill("14")
    until(page, f"document.querySelector('.tile').getBoundingClientRect().width > {1.5 * wide}")
    page.reload()
    until(page, f"(document.querySelector('.tile')?.getBoundingClientRect().width ?? 0) > {1.5 * wide}")


def test_a_photo_says_what_dates_it(opened, address):
    page = browsed(opened, address)
    for place, text in (("0", "June 12, 2021, 09:30"), ("24", "March 12, 2016, dated by its file name")):
        page.locator(f".tile[data-place='{place}'] .picture").click()
        until(page, f"document.getElementById('viewer-facts').textContent.includes({text!r})")
        page.keyboard.press("Escape")


# ---- a phone


def test_photos_begin_high_on_a_phone_below_one_row_of_controls(opened, address):
    page = browsed(opened, address, "phone")
    assert page.locator(".tile").first.bounding_box()["y"] < 140
    controls = page.locator("#bar :is(input, button, .button):visible").all()
    boxes = [each.bounding_box() for each in controls if each.bounding_box()["width"] > 1]
    middles = [box["y"] + box["height"] / 2 for box in boxes]
    assert len(boxes) >= 3
    assert max(middles) - min(middles) <= 3
    assert page.locator("aside").is_hidden()
    page.tap("#sheet-open")
    for identity in ("#order", "#size", "#filters", "#collection", "#collections-open"):
        assert page.locator(identity).is_visible()
    assert page.evaluate("document.activeElement.id") == "sheet-close"
    page.tap(".tile[data-place='0'] .picture", force=True)  # beside the sheet
    until(page, "document.querySelector('aside').getBoundingClientRect().height === 0")


def test_a_phone_is_told_of_no_keys(opened, address):
    page = browsed(opened, address, "phone")
    page.tap("#sheet-open")
    assert page.locator("#keys-open").is_hidden()
    titles = page.locator("[title]").evaluate_all("all => all.map((each) => each.title + each.ariaLabel)")
    assert [title for title in titles if re.search(r"\((\w|Shift A|left arrow)\)", title)] == []
    assert "R on it" not in page.locator("#collection-count").text_content()


# ---- several at once


def chosen(page):
    return page.locator(".tile.selected").evaluate_all("all => all.map((each) => Number(each.dataset.place))")


@pytest.mark.parametrize("screen", ["desktop", "laptop"])
def test_photos_are_selected_with_shift_by_dragging_and_by_keys(opened, address, screen, keep_shot):
    page = browsed(opened, address, screen)
    page.locator(".tile[data-place='1'] .picture").click(modifiers=["Control"])
    assert chosen(page) == [1]
    page.locator(".tile[data-place='4'] .picture").click(modifiers=["Shift"])
    until(page, "document.querySelectorAll('.tile.selected').length === 4")
    assert chosen(page) == [1, 2, 3, 4]
    assert page.locator("#selection-count").text_content() == "4 photos selected"
    assert page.locator("#viewer").is_hidden()
    page.locator(".tile[data-place='6'] .picture").click(modifiers=["Control"])
    page.locator(".tile[data-place='7'] .picture").click(modifiers=["Shift"])
    until(page, "document.querySelectorAll('.tile.selected').length === 6")
    assert chosen(page) == [1, 2, 3, 4, 6, 7]
    keep_shot(page, f"selected-{screen}")
    page.keyboard.press("Escape")
    assert chosen(page) == []
    first, last = (page.locator(f".tile[data-place='{place}'] .picture").bounding_box() for place in (0, 2))
    page.mouse.move(first["x"] + 30, first["y"] + 30)
    page.mouse.down()
    page.mouse.move(last["x"] + 30, last["y"] + 30, steps=5)
    page.mouse.up()
    until(page, "document.querySelectorAll('.tile.selected').length === 3")
    assert page.locator("#viewer").is_hidden()
    page.click("#selection-clear")
    page.locator(".tile[data-place='2'] .picture").focus()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    until(page, "document.querySelectorAll('.tile.selected').length === 3")
    page.keyboard.press("v")  # the last one, no longer
    assert chosen(page) == [2, 3]
    page.keyboard.press("Escape")
    page.hover(".heading")
    page.get_by_role("button", name="Select all photos of June 2021").click()
    until(page, "document.getElementById('selection-count').textContent === '12 photos selected'")


def test_a_long_touch_selects(opened, address, keep_shot):
    page = browsed(opened, address, "phone")
    box = page.locator(".tile[data-place='1'] .picture").bounding_box()
    device = page.context.new_cdp_session(page)
    points = [{"x": box["x"] + 30, "y": box["y"] + 30}]
    device.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points})
    until(page, "document.querySelectorAll('.tile.selected').length === 1")
    device.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.tap(".tile[data-place='2'] .picture")
    until(page, "document.querySelectorAll('.tile.selected').length === 2")
    assert page.locator("#viewer").is_hidden()
    keep_shot(page, "selected-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.tap("#selection-clear")
    page.tap(".tile[data-place='2'] .picture")
    until(page, "document.getElementById('viewer').open")


def test_all_that_are_selected_are_kept_in_one_step(opened, own):
    album, address = own
    page = browsed(opened, address)
    page.locator(".tile[data-place='0'] .picture").click(modifiers=["Control"])
    page.locator(".tile[data-place='3'] .picture").click(modifiers=["Shift"])
    page.click("#selection-keep")
    page.wait_for_selector("#naming[open]")
    page.fill("#naming-name", "Luna")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('collection-count').textContent === '4 photos'")
    assert page.locator("#selection").is_hidden()
    page.locator(".tile[data-place='5'] .picture").click(modifiers=["Control"])
    page.locator(".tile[data-place='6'] .picture").click(modifiers=["Shift"])
    page.click("#selection-no")
    until(page, "document.getElementById('collection-count').textContent.includes('2 marked as not belonging')")
    assert len(album.collections["Luna"].wrong) == 2
    page.click("#collection-wrong")
    noted(page, "2 photos marked as not belonging to Luna")
    assert sorted(
        int(each) for each in page.locator(".tile").evaluate_all("all => all.map((each) => each.dataset.id)")
    ) == sorted(album.collections["Luna"].wrong)
    page.reload()
    noted(page, "2 photos marked as not belonging to Luna")
    page.click("#collection-undo")
    until(page, "document.getElementById('collection-count').textContent === '4 photos'")


def test_what_is_kept_is_faded_only_while_one_looks_for_more(opened, own):
    album, address = own
    album.collections.mark("Luna", right=[11, 10, 9])
    page = browsed(opened, address + "#in=1")
    opacity = "Number(getComputedStyle(document.querySelector('.tile.kept img')).opacity)"
    until(page, "document.querySelectorAll('.tile.kept').length === 3")
    assert page.evaluate(opacity) == 1
    page.click("#collection-show")
    noted(page, "3 photos in Luna")
    assert page.evaluate(opacity) == 1
    page.click(".tile .find")
    ranked(page)
    until(page, "document.querySelectorAll('.tile.kept').length === 2")
    assert page.evaluate(opacity) < 0.6


# ---- by itself


def taken_in(album, *names):
    """Take photos of new things into an album, as a second process does."""
    for place, name in enumerate(names):
        file = album.root / name
        file.parent.mkdir(exist_ok=True)
        letter("&@8%"[place], "DejaVuSerif", "#7a2048").save(file, quality=92)
    album.reopened().add([album.root / name for name in names], progress=False)


@every_screen
def test_photos_that_are_added_are_shown_by_themselves(opened, own, screen):
    album, address = own
    page = browsed(opened, address, screen)
    taken_in(album, "phone/IMG-20220704-WA0001.jpg", "phone/IMG-20220704-WA0002.jpg")
    page.get_by_text("2 photos added").wait_for()
    assert page.locator(".heading bdi").first.text_content() == "July 2022"
    noted(page, "42 photos")


def test_how_far_the_album_is_with_new_photos_is_told(opened, own, monkeypatch):
    _, address = own
    work = [Indexing(step="reading photos", done=1200, total=3358)]
    monkeypatch.setattr(ServedAlbum, "indexing", property(lambda _: work[0]))
    page = browsed(opened, address)
    page.get_by_text("Reading photos: 1,200 of 3,358").wait_for()
    assert page.locator("#indexing-share").evaluate("bar => bar.value") == pytest.approx(1200 / 3358)
    work[0] = None
    page.wait_for_selector("#indexing", state="hidden")


def test_an_empty_album_fills_while_one_looks_at_it(opened, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    album = PixelAlbum.from_arrays(np.zeros((0, 64)), [], tmp_path / "album", root=folder, model=MODEL)
    with served({"new": album}, local=True) as port:
        page = opened(f"http://127.0.0.1:{port}/")
        page.get_by_text("This album is empty").wait_for()
        taken_in(album, "IMG-20220704-WA0001.jpg", "IMG-20220704-WA0002.jpg")
        noted(page, "2 photos")
        assert page.locator(".heading bdi").text_content() == "July 2022"
        page.click(".tile .find")
        ranked(page)


def test_whoever_has_scrolled_goes_on_seeing_the_same_photos(opened, own):
    album, address = own
    page = browsed(opened, address, "laptop")
    page.evaluate("scrollTo(0, 655)")
    until(page, "document.querySelector('.tile[data-place=\"20\"] img') !== null")
    where = "document.querySelector('img[alt=\"home/20-U.jpg\"]')?.getBoundingClientRect().top"
    before = page.evaluate(where)
    page.wait_for_timeout(300)
    taken_in(album, "phone/IMG-20220704-WA0001.jpg", "phone/IMG-20220704-WA0002.jpg")
    page.get_by_text("2 photos added").wait_for()
    until(page, f"Math.abs({where} - {before}) <= 2")
    assert page.evaluate("scrollY") > 700  # below another month


def test_copies_stay_stacked_when_photos_come(opened, own):
    album, address = own
    page = browsed(opened, address)
    (album.root / "home/copy.jpg").write_bytes((album.root / "home/00-A.jpg").read_bytes())
    album.reopened().add([album.root / "home/copy.jpg"], progress=False)
    page.get_by_text("1 photo added").wait_for()
    noted(page, "40 photos and 1 copy")
    assert page.locator(".tile .stack").count() == 1
    taken_in(album, "phone/IMG-20220704-WA0001.jpg")
    noted(page, "41 photos and 1 copy")


# ---- out of the album


@pytest.fixture
def with_place(tmp_path):
    """An album of which the first photo says where it was taken, and its page."""
    album = dated_album(tmp_path)
    exif = Image.Exif()
    exif.get_ifd(0x8825)[1] = "N"
    letter("L", "DejaVuSans").save(album.root / "Léon/beach/11-L.jpg", quality=92, exif=exif)
    with served({"dated": album}, local=True) as port:
        yield album, f"http://127.0.0.1:{port}/"


def says_where(file):
    with Image.open(file) as image:
        return bool(image.getexif().get_ifd(0x8825))


@pytest.mark.parametrize("remove", [False, True])
def test_what_is_selected_is_copied_into_a_folder(opened, with_place, remove, monkeypatch, tmp_path):
    _, address = with_place
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    page = browsed(opened, address)
    page.locator(".tile[data-place='0'] .picture").click(modifiers=["Control"])
    page.locator(".tile[data-place='2'] .picture").click(modifiers=["Shift"])
    page.locator("#selection-no-places").set_checked(remove)
    page.click("#selection-export")
    page.get_by_text("Copied 3 photos into").wait_for()
    copied = {file.name: file for file in (tmp_path / "home").rglob("*.jpg")}
    assert set(copied) == {"11-L.jpg", "10-K.jpg", "09-J.jpg"}
    assert says_where(copied["11-L.jpg"]) is not remove


@pytest.mark.parametrize("local", [True, False])
def test_a_zip_says_where_photos_were_taken_on_this_computer_alone(opened, with_place, local, tmp_path):
    album, _ = with_place
    with served({"dated": album.reopened()}, local=local) as port:
        page = browsed(opened, f"http://127.0.0.1:{port}/")
        page.locator(".tile[data-place='0'] .picture").click(modifiers=["Control"])
        assert page.locator("#selection-places").is_visible() is local
        assert page.locator("#selection-export").is_visible() is local
        with page.expect_download() as downloaded:
            page.click("#selection-zip")
        with zipfile.ZipFile(downloaded.value.path()) as archive:
            (name,) = [each for each in archive.namelist() if each.endswith(".jpg")]
            archive.extract(name, tmp_path)
        assert says_where(tmp_path / name) is local


def test_a_collection_is_copied_into_a_folder(opened, with_place, monkeypatch, tmp_path):
    album, address = with_place
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    album.collections.mark("Luna", right=[11, 10])
    page = browsed(opened, address + "#in=1")
    page.click("#collections-open")
    page.check("#collection-no-places")
    page.click("#collection-export")
    page.locator("#collection-said", has_text="Copied 2 photos into").wait_for()
    copied = {file.name: file for file in (tmp_path / "home").rglob("*.jpg")}
    assert set(copied) == {"11-L.jpg", "10-K.jpg"}
    assert not says_where(copied["11-L.jpg"])


# ---- copies


@every_screen
def test_copies_are_looked_through(opened, own, screen, keep_shot):
    album, address = own
    names = ["home/00-A copy.jpg", "home/02-C copy.jpg"]
    for name in names:
        (album.root / name).write_bytes((album.root / name.replace(" copy", "")).read_bytes())
    album.reopened().add([album.root / name for name in names], progress=False)
    page = browsed(opened, address, screen)
    control(page, "#review").click()
    page.get_by_text("2 photos are there more than once").wait_for()
    keep_shot(page, f"copies-{screen}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#copies-list li").count() == 2
    first = page.locator("#copies-list li").first
    assert "The same picture" in first.text_content()
    assert "the best: 120 × 120 pixels" in first.locator("figcaption").first.text_content()
    page.reload()
    page.get_by_text("2 photos are there more than once").wait_for()
    first.get_by_role("button", name="Show the copies of").click()
    page.wait_for_selector("#stack[open]")
    page.locator("#stack-list li").last.get_by_text("Not a copy").click()
    page.get_by_text("1 photo is there more than once").wait_for()
    page.click("#copies-back")
    noted(page, "41 photos and 1 copy")
