"""The page in a real browser: every way to ask, to mark, to compare, and every way it can go wrong."""

import csv
import io
import json
import re
import time

import numpy as np
import pytest
from page_albums import letter
from page_server import served
from PIL import Image

from smoothap.album import Album

pytestmark = pytest.mark.browser


def upload(page, content, name="photo.png", kind="image/png"):
    page.set_input_files("#choose", {"name": name, "mimeType": kind, "buffer": content})


def png(image):
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def until(page, condition):
    """Wait for a condition; Playwright's own way evaluates text in the page, which the page's policy forbids."""
    end = time.monotonic() + 10
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"never came true: {condition}"
        page.wait_for_timeout(30)


def ranked(page):
    page.wait_for_selector(".facts .score")
    until(page, "!document.querySelector('.waiting')")


def scores(page):
    return [float(each) for each in page.locator(".score").all_text_contents()]


def labels(page, first=7):
    return page.locator(".name").all_text_contents()[:first]


def test_an_uploaded_photo_is_searched_with(opened, one, keep_shot):
    page = opened(one)
    page.wait_for_selector(".tile")
    keep_shot(page, "album")
    upload(page, png(letter("Q", "DejaVuSans-Bold", "#14324f")))
    ranked(page)
    assert labels(page, 3) == ["Q", "Q", "Q"]
    found = scores(page)
    assert found == sorted(found, reverse=True)
    assert page.locator("#query-image").evaluate("image => image.naturalWidth") == 120
    assert "has no label" in page.locator("#quality-note").text_content()
    assert page.locator("#mistake").is_hidden()
    keep_shot(page, "upload")


def test_find_under_a_photo_searches_with_it_and_back_goes_back(opened, one, keep_shot):
    page = opened(one)
    page.click(".tile:nth-child(1) .find")
    ranked(page)
    assert page.url.endswith("#photo=0")
    assert page.locator(".tile.right").count() == 7
    assert page.locator(".tile").first.get_attribute("aria-setsize") == "95"
    assert page.locator("#legend b").text_content().startswith("AP ")
    assert page.locator("#curves path.curve").get_attribute("d").startswith("M")
    keep_shot(page, "labelled")
    page.click(".tile:nth-child(2) .find")
    until(page, "location.hash !== '#photo=0'")
    ranked(page)
    page.go_back()
    until(page, "document.getElementById('query-name').textContent.includes('0041-DejaVuSans.jpg')")


def test_more_photos_come_as_one_scrolls(opened, one):
    page = opened(one + "#photo=5")
    ranked(page)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    until(page, "document.querySelector('.tile[data-place=\"94\"] .score') !== null")


def test_a_box_searches_with_a_part(opened, one, keep_shot):
    page = opened(one + "#photo=0")
    ranked(page)
    whole = scores(page)[:5]
    place = page.locator("#query-image").bounding_box()
    x, y, width, height = (place[name] for name in ("x", "y", "width", "height"))
    page.mouse.move(x + width * 0.2, y + height * 0.2)
    page.mouse.down()
    page.mouse.move(x + width * 0.8, y + height * 0.6, steps=4)
    with page.expect_response(re.compile("/search$")) as sent:
        page.mouse.up()
    ranked(page)
    box = sent.value.request.post_data_json["box"]
    assert box == pytest.approx([0.2, 0.2, 0.6, 0.4], abs=0.05)
    until(page, f"document.querySelector('.score').textContent !== '{whole[0]:.3f}'")
    assert page.locator("#box").is_visible()
    keep_shot(page, "box")
    page.click("#whole")
    until(page, f"document.querySelector('.score').textContent === '{whole[0]:.3f}'")
    assert page.locator("#box").is_hidden()


def test_a_box_on_an_upload_sends_the_part(opened, one):
    page = opened(one)
    upload(page, png(letter("K", "DejaVuSans")))
    ranked(page)
    page.locator("#stage").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowDown")
    with page.expect_response(re.compile(r"/search/photo")) as sent:
        page.keyboard.press("Enter")
    assert sent.value.ok
    sent_again = []
    page.on("request", lambda request: sent_again.append(request.url) if "/search/photo" in request.url else None)
    page.keyboard.press("Escape")
    page.wait_for_selector("#box", state="hidden")
    ranked(page)
    assert sent_again == []  # the whole photo was sent before


def test_marks_change_the_search(opened, one, keep_shot):
    page = opened(one + "#photo=40")
    ranked(page)
    assert page.locator("#again").is_disabled()
    page.locator(".tile.right .yes").first.click()
    page.locator(".tile.wrong .no").first.click()
    assert page.locator("#again").text_content() == "Search again: 1 right, 1 wrong"
    keep_shot(page, "marks")
    with page.expect_request(re.compile("/search$")) as sent:
        page.click("#again")
    asked = sent.value.post_data_json
    assert len(asked["right"]) == len(asked["wrong"]) == 1
    ranked(page)
    assert page.locator(f".tile[data-id='{asked['right'][0]}'] .yes").get_attribute("aria-pressed") == "true"
    page.click("#clear")
    until(page, "document.getElementById('again').disabled")


def test_the_keyboard_is_enough(opened, one):
    page = opened(one + "#photo=40")
    ranked(page)
    page.locator(".picture[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("r")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("w")
    assert page.locator("#again").text_content() == "Search again: 1 right, 1 wrong"
    assert page.locator(".tile:nth-child(2) .yes").get_attribute("aria-pressed") == "true"
    with page.expect_response(re.compile("/search$")):
        page.keyboard.press("s")
    ranked(page)
    page.locator(".picture[tabindex='0']").focus()
    page.keyboard.press("f")
    until(page, "location.hash !== '#photo=40'")
    until(page, "document.activeElement === document.querySelector('.tile .picture')")
    page.keyboard.press("n")
    ranked(page)
    assert "photo" in page.locator("#status").text_content()


def test_the_slider_shortens_the_list(opened, one):
    page = opened(one + "#photo=8")
    ranked(page)
    with page.expect_response(re.compile("/search$")) as answered:
        page.locator("#slider").evaluate(
            "slider => { slider.value = 0.8; slider.dispatchEvent(new Event('input', {bubbles: true})); }"
        )
    total = answered.value.json()["total"]
    assert 0 < total < 60
    until(page, f"document.querySelector('.tile').getAttribute('aria-setsize') === '{total}'")
    assert min(scores(page)) >= 0.8
    assert page.locator("#slider-value").text_content() == "0.800"


def test_the_slider_asks_for_an_expected_recall(opened, calibrated, keep_shot):
    page = opened(calibrated + "#photo=8")
    ranked(page)
    with page.expect_response(re.compile("/search$")):
        page.locator("input[name=kind][value=recall]").check()
    totals = []
    for recall in (0.95, 0.6):
        with page.expect_response(re.compile("/search$")) as answered:
            page.locator("#slider").evaluate(
                "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input', {bubbles: true})); }",
                recall,
            )
        assert json.loads(answered.value.request.post_data)["recall"] == recall
        totals.append(answered.value.json()["total"])
        until(page, f"document.querySelector('.tile').getAttribute('aria-setsize') === '{totals[-1]}'")
        assert page.locator("#slider-value").text_content() == f"{recall:.0%}"
    assert 0 < totals[1] < totals[0] < 95
    assert page.get_by_text(re.compile(r"expected recall 6\d%, precision \d+%")).is_visible()
    keep_shot(page, "recall")


def test_the_list_is_downloaded(opened, one):
    page = opened(one + "#photo=16")
    ranked(page)
    with page.expect_download() as downloaded:
        page.click(".column header button:text('CSV')")
    rows = list(csv.reader(downloaded.value.path().read_text().splitlines()))
    assert len(rows) == 96
    assert [float(row[1]) for row in rows[1:6]] == pytest.approx(scores(page)[:5], abs=6e-4)


def test_two_albums_stand_side_by_side_with_both_curves(opened, two, keep_shot):
    page = opened(two, viewport={"width": 1400, "height": 900})
    ranked(page)
    assert page.locator(".column").count() == 2
    assert page.locator("#curves path.curve").count() == 2
    assert page.locator("#curves path.curve.before").count() == 1
    shown = [float(each[3:-1]) for each in page.locator("#legend b").all_text_contents()]
    assert len(shown) == 2
    assert shown[1] > shown[0]
    assert "A typical photo" in page.locator("#query-note").text_content()
    keep_shot(page, "compare")
    old = page.url
    page.click(".column.after .tile:nth-child(4) .find")
    until(page, f"location.href !== {old!r}")
    ranked(page)
    for side in ("before", "after"):
        assert page.locator(f".column.{side} .tile").first.get_attribute("aria-setsize") == "95"


@pytest.mark.parametrize("content", [b"this is no image", b""])
def test_a_bad_file_is_told(opened, one, content, keep_shot):
    page = opened(one, expected=("422",))
    upload(page, content, "holiday.jpg", "image/jpeg")
    page.wait_for_selector("#mistake:not([hidden])")
    assert "This photo cannot be used" in page.locator("#mistake-text").text_content()
    assert page.locator("#query-image").is_hidden()
    keep_shot(page, "bad-file")
    page.click("#mistake-close")
    page.click(".tile:nth-child(1) .find")
    ranked(page)


def test_a_file_that_is_too_large_is_told_without_sending_it(opened, one):
    page = opened(one)
    page.wait_for_selector(".tile")
    page.evaluate(
        """() => { const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(51e6)], "large.png", {type: "image/png"}));
        document.dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true})); }"""
    )
    page.wait_for_selector("#mistake:not([hidden])")
    assert "more than the 50 MB" in page.locator("#mistake-text").text_content()


def test_a_photo_is_taken_by_drop_and_by_paste(opened, one):
    content = list(png(letter("Z", "DejaVuSerif")))
    for event, field in (("DragEvent", "dataTransfer"), ("ClipboardEvent", "clipboardData")):
        page = opened(one)
        page.wait_for_selector(".tile")
        page.evaluate(
            f"""content => {{ const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(content)], "z.png", {{type: "image/png"}}));
            const kind = "{event}" === "DragEvent" ? "drop" : "paste";
            const options = {{bubbles: true, cancelable: true, {field}: transfer}};
            document.dispatchEvent(new {event}(kind, options)); }}""",
            content,
        )
        ranked(page)
        assert labels(page, 1) == ["Z"]


def test_an_empty_album_says_so(opened, nothing, keep_shot):
    page = opened(nothing)
    page.wait_for_selector(".message:not([hidden])")
    assert "This album is empty" in page.locator(".column .message").text_content()
    keep_shot(page, "empty")


def test_another_album_on_the_same_port_shows_its_own_names_and_pictures(opened, tmp_path):
    """Serve red, stop, serve blue: nothing of red may come out of the browser's memory."""
    shown = []

    def colour_and_name(page):
        page.wait_for_selector(".tile img")
        until(page, "document.querySelector('.tile img').naturalWidth > 0")
        colour = page.evaluate(
            "(() => { const canvas = document.createElement('canvas').getContext('2d');"
            " canvas.drawImage(document.querySelector('.tile img'), 0, 0);"
            " return [...canvas.getImageData(20, 20, 1, 1).data].slice(0, 3); })()"
        )
        return "red" if colour[0] > colour[2] else "blue", page.locator("#title").text_content()

    port = 0
    for name in ("red", "blue"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (60, 60), name).save(tmp_path / name / f"{name}.png")
        album = Album.from_arrays(np.eye(1, 4), [{"path": f"{name}.png"}], root=tmp_path / name)
        with served({name: album}, port=port) as port:
            if name == "red":
                page = opened(f"http://127.0.0.1:{port}/", expected=["net::ERR"])
            else:  # the page that was left open asks again by itself, and reloads
                page.wait_for_selector("#title:has-text('blue')")
            shown.append(colour_and_name(page))
        page.evaluate("fetch('/api/v1/albums').catch(() => {})")
        if name == "red":
            page.locator("#draw").click()
            page.wait_for_selector("#lost:not([hidden])")
    assert shown == [("red", "red"), ("blue", "blue")]


def test_a_lost_server_is_told_and_found_again(opened, one):
    page = opened(one, expected=("ERR_INTERNET_DISCONNECTED", "Failed to load"))
    page.wait_for_selector(".tile")
    page.context.set_offline(True)
    page.click(".tile:nth-child(1) .find")
    page.wait_for_selector("#lost:not([hidden])")
    page.context.set_offline(False)
    page.evaluate("document.getElementById('retry').click()")  # it goes by itself too, perhaps sooner
    page.wait_for_selector("#lost", state="hidden")


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_narrow_screen_shows_everything(opened, request, name, keep_shot):
    page = opened(request.getfixturevalue(name), viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.wait_for_selector(".tile")
    if name == "one":
        page.tap(".tile:nth-child(1) .find")
    ranked(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    keep_shot(page, f"phone-{name}")
    page.locator(".tile").first.scroll_into_view_if_needed()
    assert page.locator(".tile .yes").first.bounding_box()["height"] >= 30
    keep_shot(page, f"phone-{name}-photos")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_schemes(opened, two, scheme, keep_shot):
    page = opened(two, color_scheme=scheme, viewport={"width": 1400, "height": 900})
    ranked(page)
    contrast = page.evaluate(
        """() => { const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number)
            .map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const card = light(getComputedStyle(document.querySelector(".card")).backgroundColor);
        return ["#query-name", ".note", ".facts .rank", ".facts .score", "h2"].map((each) => {
            const ink = light(getComputedStyle(document.querySelector(each)).color);
            return (Math.max(ink, card) + 0.05) / (Math.min(ink, card) + 0.05); }); }"""
    )
    assert min(contrast) >= 4.5
    keep_shot(page, f"compare-{scheme}")


def test_every_picture_and_button_has_a_name(opened, two):
    page = opened(two)
    ranked(page)
    assert page.evaluate("[...document.images].filter((each) => each.checkVisibility() && !each.alt).length") == 0
    unnamed = """[...document.querySelectorAll("button")].filter((each) =>
        each.checkVisibility() && !each.textContent.trim() && !each.getAttribute("aria-label") &&
        !each.querySelector("img[alt]")).length"""
    assert page.evaluate(unnamed) == 0


def test_a_name_full_of_markup_is_text(opened, letters, browser):
    from page_albums import PixelAlbum, Pixels, MODEL  # noqa: I001
    from page_server import served

    names = ["<img src=x onerror=alert(1)>.jpg", "\"'><script>alert(1)</script>.jpg", "a\u202egpj.exe", "new\nline.jpg"]
    folder = letters / "hostile"
    images = [letter(each, "DejaVuSans") for each in "ABCD"]
    metadata = [{"path": name.replace("/", "∕"), "label": "<b>bold</b>"} for name in names]
    album = PixelAlbum.from_arrays(Pixels().embed(images).numpy(), metadata, root=folder, model=MODEL)
    with served({"<i>hostile": album}) as port:
        page = opened(f"http://127.0.0.1:{port}/#photo=0", expected=("404",))
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        ranked(page)
        assert page.locator("#results script, #results b b, #results i").count() == 0
        assert page.locator("h1").text_content() == "<i>hostile"
        assert labels(page, 1) == ["<b>bold</b>"]
        assert "\\u202e" in page.locator("#results").inner_html()
