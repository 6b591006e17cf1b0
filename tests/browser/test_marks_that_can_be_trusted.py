"""Marks say what was meant: of what was seen, of the best copy, in the right collection; and no place is lost."""

import io
import re
import shutil

import numpy as np
import pytest
from page_albums import FACES, MODEL, PixelAlbum, Pixels, letter, write_letters
from page_server import served
from PIL import Image
from test_collections_in_a_browser import accept_name, choice, counted, kept, ranked, right, until  # noqa: F401

pytestmark = pytest.mark.browser


def said(page, text):
    """Wait until this is told on the screen."""
    page.locator("#status:not(.hidden-text)").get_by_text(text).wait_for()


@pytest.fixture
def copied(tmp_path):
    """Letters of which the first is there three times: as the camera named it, in a backup, and small."""
    root = tmp_path / "photos"
    known = write_letters(root, letters="ARGKQ&", faces=FACES[:4])
    for name, size in (("2023/IMG_0001.jpg", 120), ("Backup/IMG_0001.jpg", 120), ("sent/small.jpg", 60)):
        file = root / name
        file.parent.mkdir(exist_ok=True)
        letter("M", "DejaVuSans").resize((size, size)).save(file, quality=95)
        known.append({"path": name, "label": "M", "width": size, "height": size, "bytes": file.stat().st_size})
    shutil.copy(root / "2023/IMG_0001.jpg", root / "Backup/IMG_0001.jpg")
    vectors = Pixels().embed([Image.open(root / each["path"]) for each in known]).numpy()
    vectors[-3:] = vectors[-3]
    album = PixelAlbum.from_arrays(np.asarray(vectors), known, tmp_path / "album", root=root, model=MODEL)
    with served({"letters": album}) as port:
        yield album, f"http://127.0.0.1:{port}/"


def test_a_mark_on_a_stack_keeps_the_best_copy_and_says_so(copied, opened):
    album, address = copied
    best, backup, small = (
        album.photos.id_of(f"{name}.jpg") for name in ("2023/IMG_0001", "Backup/IMG_0001", "sent/small")
    )
    page = opened(address)
    stack = page.locator(f".tile[data-id='{best}']")
    stack.scroll_into_view_if_needed()
    assert stack.locator(".stack").text_content() == "+2"
    stack.locator(".yes").click()
    accept_name(page)
    said(page, "Kept 2023/IMG_0001.jpg, the best of 3 copies in M")
    assert right(album, "M") == [best]
    album.collections.mark("M", right=[backup], neither=[best])  # by somebody else, of another copy
    counted(page, "1 photo")
    until(page, f"document.querySelector('.tile[data-id=\"{best}\"] .yes').getAttribute('aria-pressed') === 'true'")
    with page.expect_response(re.compile("/next$")) as answered:
        page.click("#collection-next")
    offered = {one for hit in answered.value.json()["hits"] for one in (hit["id"], *hit["copies"])}
    assert not offered & {best, backup, small}


def test_the_first_mark_is_one_step_and_a_deleted_collection_comes_back(kept, opened):  # noqa: F811
    album, address = kept
    page = opened(address + "#photo=16")
    ranked(page)
    page.click(".tile:nth-child(1) .yes")
    accept_name(page)
    counted(page, "2 photos")
    page.click("#collection-undo")
    until(page, "document.getElementById('collections-count').textContent === '0'")
    assert dict(album.collections.all()) == {}
    page.click(".tile:nth-child(1) .yes")
    accept_name(page)
    counted(page, "2 photos")
    page.click("#collections-open")
    page.click("#collection-delete")
    said(page, "G is deleted. Undo brings it back.")
    assert dict(album.collections.all()) == {}
    page.click("#collection-undo")
    said(page, "Undone: deleted G")
    assert len(right(album, "G")) == 2


def test_a_new_search_is_of_no_collection_and_one_from_a_collection_belongs_to_it(kept, opened):  # noqa: F811
    album, address = kept
    album.collections.add("Luna", [16, 17])
    page = opened(address)
    page.wait_for_selector(".tile[data-id]")
    page.select_option("#collection-choice", label="Luna (2)")
    until(page, "location.hash === '#in=1'")
    page.click(".tile[data-place='3'] .find")  # from all photos: of something else
    ranked(page)
    assert choice(page) == "none chosen"
    page.click(".tile:nth-child(1) .yes")
    page.wait_for_selector("#naming[open]")
    page.click("#naming-search")  # nothing is to be kept: asked once
    page.click(".tile:nth-child(2) .yes")
    until(page, "document.querySelectorAll('.yes[aria-pressed=true]').length === 2")
    assert page.locator("#naming").is_hidden()
    assert right(album, "Luna") == [16, 17]
    assert [*album.collections.all()] == ["Luna"]
    with page.expect_request(re.compile("/search$")) as asked:
        page.click("#again")
    assert len(asked.value.post_data_json["right"]) == 2
    page.select_option("#collection-choice", label="Luna (2)")
    page.click("#collection-show")
    until(page, "document.querySelectorAll('.tile').length === 2")
    page.click(".tile[data-place='0'] .find")  # from the collection
    ranked(page)
    assert choice(page) == "Luna (2)"
    page.click(".tile:nth-child(3) .yes")
    counted(page, "3 photos")


def test_back_reload_and_a_bookmark_find_the_place_the_filters_and_the_search(kept, opened):  # noqa: F811
    _, address = kept
    page = opened(address, viewport={"width": 1000, "height": 500})
    page.wait_for_selector(".tile[data-id]")
    page.click("#filter-details summary")
    page.uncheck("#filter-stacked")
    until(page, "location.hash === '#stacked=0'")
    page.wait_for_selector(".tile[aria-setsize='96']")
    page.evaluate("document.querySelector('.tile').scrollIntoView(); scrollBy(0, 2500)")
    page.wait_for_timeout(400)
    place = page.evaluate("history.state.place")
    assert place > 10
    page.locator(f".tile[data-place='{place + 4}'] .find").click()
    ranked(page)
    searched = page.evaluate("location.hash")
    assert searched.startswith("#photo=")
    page.evaluate("document.querySelector('.tile').scrollIntoView(); scrollBy(0, 1500)")
    page.wait_for_timeout(400)
    lower = page.evaluate("history.state.place")
    page.reload()
    ranked(page)
    until(page, f"history.state.place === {lower} && scrollY > 1000")
    assert page.is_checked("#filter-stacked") is False
    page.go_back()
    until(page, "document.querySelector('.score') === null && !document.querySelector('.waiting')")
    until(page, f"history.state.place === {place} && scrollY > 1000")
    page.go_forward()
    ranked(page)
    page.click("#leave")  # all photos: where one was
    until(page, "document.querySelector('.score') === null && !document.querySelector('.waiting')")
    until(page, f"history.state.place === {place}")
    other = page.context.new_page()
    other.goto(address + searched)
    ranked(other)
    assert other.is_checked("#filter-stacked") is False


def test_two_quick_uploads_end_with_the_second(kept, opened):  # noqa: F811
    _, address = kept
    page = opened(address, expected=("422",))
    page.wait_for_selector(".tile[data-id]")
    files = [{"name": f"{name}.png", "mimeType": "image/png", "buffer": content} for name, content in uploads()]
    for file in files:
        page.set_input_files("#choose", file)
    ranked(page)
    assert "Q.png" in page.locator("#query-name").text_content()
    assert page.locator("#mistake").is_hidden()


def uploads():
    stream = io.BytesIO()
    letter("Q", "DejaVuSans").save(stream, "PNG")
    return ("broken", b"no photo"), ("Q", stream.getvalue())


def test_a_heic_query_is_shown(kept, opened):  # noqa: F811
    heif = pytest.importorskip("pillow_heif")
    stream = io.BytesIO()
    heif.from_pillow(letter("Q", "DejaVuSans", size=240)).save(stream)
    _, address = kept
    page = opened(address)
    page.wait_for_selector(".tile[data-id]")
    page.set_input_files("#choose", {"name": "q.heic", "mimeType": "image/heic", "buffer": stream.getvalue()})
    ranked(page)
    until(page, "document.getElementById('query-image').naturalWidth === 240")
