"""People on the page: the tab, every answer in it, all photos of a person, and the faces of a photo that is large."""

import pytest
from drawn_people import COLOURS, draw, drawn_finder, party_album
from page_server import served
from test_accessibility import axe, serious  # noqa: F401 (a fixture)
from test_page_in_a_browser import until

from smoothap.models.faces.people import PeopleFinder

pytestmark = pytest.mark.browser


@pytest.fixture
def party(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(PeopleFinder, "open", staticmethod(drawn_finder))
    return party_album(tmp_path)


@pytest.fixture
def somebody_like_anna(party, monkeypatch):
    """A face that may be hers, and is not certainly."""
    monkeypatch.setitem(COLOURS, "Fay", (185, 50, 200))
    draw(party.root / "alike.png", "Fay", seed=90, noise=0)
    party.update(progress=False)


@pytest.fixture
def page(party, opened):
    with served({"party": party}, local=True) as port:
        shown = opened(f"http://127.0.0.1:{port}/#people=1")
        shown.wait_for_selector(".person")
        yield shown
        shown.close()


def counts(page):
    return page.eval_on_selector_all(".person .facts", "(all) => all.map((one) => Number.parseInt(one.textContent))")


def wait_for_counts(page, *wanted):
    every = "[...document.querySelectorAll('.person .facts')].map((one) => parseInt(one.textContent))"
    until(page, f"{every}.join() === '{','.join(map(str, wanted))}'")


def name(page, place, text):
    page.locator(".person input").nth(place).fill(text)
    page.keyboard.press("Enter")


def names(page):
    return page.eval_on_selector_all(".person input", "(all) => all.map((one) => one.value)")


def open_person(page, place):
    page.locator(".person .cover").nth(place).click()
    page.wait_for_selector(".tile .frame")


def shown_photos(page):
    return set(page.eval_on_selector_all(".tile .name", "(all) => all.map((one) => one.textContent)"))


def photos(*numbers):
    return {f"{number}.png" for number in numbers}


def test_groups_have_a_cover_a_count_and_a_field_for_a_name(page, keep_shot):
    assert counts(page) == [6, 4, 2, 2]
    until(page, "[...document.querySelectorAll('.cover img')].every((one) => one.naturalWidth > 10)")
    keep_shot(page, "people")
    assert page.get_attribute("#tab-people", "aria-current") == "page"
    page.click("#tab-photos")
    page.wait_for_selector(".tile .picture")
    assert page.is_hidden("#people")
    page.go_back()
    page.wait_for_selector(".person")
    assert page.is_hidden("#results")


def test_a_group_is_named_and_the_name_is_on_disk_and_undone(page, party):
    name(page, 1, "Bob")
    until(page, "document.querySelector('.person input').value === 'Bob'")
    assert counts(page) == [4, 6, 2, 2]
    assert party.people.named("Bob").photos
    page.click("#people-undo")
    until(page, "document.querySelector('.person input').value === ''")
    with pytest.raises(ValueError, match="Nobody in this album is named"):
        party.people.named("Bob")


def test_the_name_of_somebody_makes_two_groups_one(page):
    name(page, 0, "Anna")
    until(page, "document.querySelector('.person input').value === 'Anna'")
    name(page, 1, "Anna")
    wait_for_counts(page, 8, 2, 2)


def test_chosen_groups_are_merged_and_that_is_undone(page):
    assert page.is_hidden("#people-merge")
    for place in (2, 3):
        page.locator(".person .choose").nth(place).click()
    assert page.inner_text("#people-merge") == "Merge the 2 chosen"
    page.click("#people-merge")
    wait_for_counts(page, 6, 4, 3)
    page.click("#people-undo")
    wait_for_counts(page, 6, 4, 2, 2)


def test_a_stranger_is_put_away_and_comes_back_with_a_name(page):
    page.locator(".person").nth(1).get_by_text("Stranger").click()
    wait_for_counts(page, 6, 2, 2)
    page.get_by_text("Strangers (1)").click()
    wait_for_counts(page, 4)
    name(page, 0, "Bob")
    until(page, "document.querySelectorAll('.person').length === 0")
    page.get_by_text("Back to all people").click()
    wait_for_counts(page, 4, 6, 2, 2)
    assert names(page)[0] == "Bob"


def test_what_is_no_face_is_gone_until_that_is_undone(page, party):
    page.locator(".person").nth(2).get_by_text("No face").click()
    wait_for_counts(page, 6, 4, 2)
    page.click("#people-undo")
    wait_for_counts(page, 6, 4, 2, 2)


def test_one_click_shows_all_photos_of_a_person_ranked_with_the_face_framed(page, keep_shot):
    open_person(page, 0)
    assert shown_photos(page) == photos(0, 1, 2, 3, 6, 9)
    scores = page.eval_on_selector_all(".tile .score", "(all) => all.map((one) => Number(one.textContent))")
    assert scores == sorted(scores, reverse=True)
    assert page.inner_text("#person-count") == "6 photos"
    small = page.locator(".tile", has_text="3.png").locator(".frame").bounding_box()
    picture = page.locator(".tile", has_text="3.png").locator("img").bounding_box()
    assert (small["x"] - picture["x"]) / picture["width"] == pytest.approx(48 / 200, abs=0.02)
    keep_shot(page, "person")
    page.fill("#person-name", "Anna")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('person-title').textContent === 'Anna'")
    page.reload()
    until(page, "document.getElementById('person-title').textContent === 'Anna'")
    assert page.locator(".tile .yes[aria-pressed=true]").count() == 6
    assert page.evaluate("Number(getComputedStyle(document.querySelector('.tile.kept img')).opacity)") == 1


def test_a_photo_that_is_not_of_them_is_taken_out_and_back_in(page, party):
    open_person(page, 0)
    first = page.locator(".tile").first
    path = first.locator(".name").inner_text()
    first.locator(".no").click()
    until(page, "document.querySelector('.tile .no').getAttribute('aria-pressed') === 'true'")
    assert page.inner_text("#person-count") == "5 photos"
    page.click("#person-show")
    until(page, "document.querySelectorAll('.tile').length === 5")
    assert path not in shown_photos(page)
    page.click("#person-undo")
    until(page, "document.querySelectorAll('.tile').length === 6")
    assert path in shown_photos(page)


def test_photos_that_are_one_other_person_are_split_off(page):
    open_person(page, 0)
    page.locator(".tile .no").nth(4).click()
    until(page, "document.querySelectorAll('.tile .no[aria-pressed=true]').length === 1")
    page.locator(".tile .no").nth(5).click()
    page.get_by_text("Split off the 2 ✗ as one person").click()
    until(page, "document.querySelectorAll('.tile').length === 2")
    assert page.inner_text("#person-count") == "2 photos"
    page.click("#person-all")
    wait_for_counts(page, 4, 4, 2, 2, 2)


@pytest.mark.usefixtures("somebody_like_anna")
def test_what_is_missing_is_asked_and_an_answer_takes_it_in(page, keep_shot):
    name(page, 0, "Anna")
    until(page, "document.querySelector('.person input').value === 'Anna'")
    open_person(page, 0)
    page.click("#person-next")
    until(page, "[...document.querySelectorAll('.tile .name')].some((one) => one.textContent === 'alike.png')")
    assert shown_photos(page).isdisjoint(photos(0, 1, 2, 3, 6, 9))
    keep_shot(page, "person-missing")
    page.locator(".tile", has_text="alike.png").locator(".yes").click()
    until(page, "document.getElementById('person-count').textContent === '7 photos'")
    page.keyboard.press("c")
    until(page, "document.querySelectorAll('.tile').length === 7")
    page.keyboard.press("m")
    until(page, "!document.querySelector('.tile .yes[aria-pressed=true]')")
    assert "alike.png" not in shown_photos(page)


SHOWN = "[...document.querySelectorAll('#people-question:not([hidden]) img')].map((one) => one.src).join()"


@pytest.mark.usefixtures("somebody_like_anna")
@pytest.mark.parametrize("button", ["#question-yes", "#question-no", "#question-later"])
def test_a_question_is_answered_and_the_next_one_comes(page, party, button, keep_shot):
    asked = party.people.questions()
    page.wait_for_selector("#people-question")
    if button == "#question-later":
        keep_shot(page, "people-question")
    for _ in asked:
        if page.is_hidden("#people-question"):
            break
        before = page.evaluate(SHOWN)
        page.click(button)
        until(page, f"{SHOWN} !== {before!r}")
    until(page, "document.getElementById('people-question').hidden")
    left, groups = party.people.questions(), len(party.people.groups())
    if button == "#question-later":
        assert left == asked
    else:
        assert left == []
        assert groups < 5 if button == "#question-yes" else groups == 5


def look(page, photo):
    page.click("#tab-photos")
    page.wait_for_selector(".tile .picture")
    page.click("#filter-details summary")
    page.uncheck("#filter-stacked")  # to this model the photos look alike
    page.locator(".tile", has_text=photo).locator(".picture").click()
    page.wait_for_selector("#viewer[open]")


def test_a_photo_that_is_large_shows_its_faces_with_their_names(page, keep_shot):
    name(page, 0, "Anna")
    until(page, "document.querySelector('.person input').value === 'Anna'")
    look(page, "3.png")
    page.wait_for_selector("#viewer .face")
    assert page.locator("#viewer .face").count() == 2
    assert page.locator("#viewer .face bdi").all_inner_texts() == ["", "Anna"]
    image, face = (page.locator(each).bounding_box() for each in ("#viewer-image", "#viewer .face >> nth=1"))
    assert (face["x"] - image["x"]) / image["width"] == pytest.approx(48 / 200, abs=0.01)
    page.locator("#viewer-people input").first.fill("Bob f+-")  # whose letters are keys of the photo elsewhere
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#viewer .face bdi').textContent === 'Bob f+-'")
    keep_shot(page, "viewer-faces")
    page.locator("#viewer .face").nth(1).click()
    until(page, "document.getElementById('person-title').textContent === 'Anna'")
    assert page.locator("#viewer[open]").count() == 0


def test_the_frames_follow_the_photo_when_it_is_made_larger(page):
    look(page, "3.png")
    page.wait_for_selector("#viewer .face")
    page.click("#viewer-nearer")
    image, face = (page.locator(each).bounding_box() for each in ("#viewer-image", "#viewer .face >> nth=1"))
    assert (face["x"] - image["x"]) / image["width"] == pytest.approx(48 / 200, abs=0.01)
    assert face["width"] / image["width"] == pytest.approx(12 / 200, abs=0.01)


def test_a_face_of_the_large_photo_is_none(page, party):
    look(page, "3.png")
    page.wait_for_selector("#viewer .face")
    page.locator("#viewer-people li").first.get_by_text("✗").click()
    until(page, "document.querySelectorAll('#viewer .face').length === 1")
    assert len(party.people.faces_of(3)) == 1


def test_a_box_is_drawn_where_no_face_was_found(page, party, keep_shot):
    look(page, "7.png")
    until(page, "!document.getElementById('viewer-nobody').hidden")
    page.click("#viewer-draw")
    assert page.inner_text("#viewer-draw") == "This is a face"
    for key in ("ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    keep_shot(page, "viewer-draw")
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer .face")
    until(page, "document.activeElement.closest('#viewer-people') !== null")
    page.keyboard.type("Gus")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#viewer .face bdi')?.textContent === 'Gus'")
    (face,) = party.people.faces_of(7)
    assert face[1] == pytest.approx((0.36 * 200, 0.31 * 120, 40, 36), abs=1.5)
    assert party.people.named("Gus").photos == (7,)


def test_a_photo_from_elsewhere_is_searched_for_the_person_in_it(page, tmp_path):
    page.set_input_files("#choose", draw(tmp_path / "query.png", "Chris", "Anna*", seed=77))
    page.wait_for_selector(".tile .frame")
    assert page.is_checked("#space-face")  # since people were looked at
    assert page.locator(".tile .name").all_inner_texts()[:2] in (["5.png", "8.png"], ["8.png", "5.png"])
    page.check("#space-photo")
    until(page, "!document.querySelector('.waiting') && !document.querySelector('.tile .frame')")


def test_a_photo_without_a_face_stays_and_a_box_may_be_drawn(party, opened):
    with served({"party": party}) as port:
        page = opened(f"http://127.0.0.1:{port}/#photo=7&space=face", expected=("422",))
        page.wait_for_selector("#mistake:not([hidden])")
        assert "no face was found in it: draw a box, or search for the whole photo" in page.inner_text("#mistake-text")
        page.focus("#stage")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Enter")
        page.wait_for_selector(".tile .frame")
        assert page.is_hidden("#mistake")
        page.close()


def test_where_people_are_not_shown_there_is_no_tab(party, opened):
    with served({"party": type(party).open(party.folder, people=False)}) as port:
        page = opened(f"http://127.0.0.1:{port}/#people=1")
        page.wait_for_selector(".tile")
        assert page.is_hidden("#tabs")
        assert page.is_hidden("#spaces")
        page.click(".tile .picture")
        page.wait_for_selector("#viewer-facts dd")
        assert page.is_hidden("#viewer-faces-side")
        page.close()


SCREENS = {
    "people": lambda page: None,
    "person": lambda page: open_person(page, 0),
    "large": lambda page: (look(page, "3.png"), page.wait_for_selector("#viewer .face")),
}


@pytest.mark.usefixtures("somebody_like_anna")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_serious_is_found_on_the_screens_of_people(party, opened, axe, screen, scheme, keep_shot):  # noqa: F811
    with served({"party": party}, local=True) as port:
        page = opened(f"http://127.0.0.1:{port}/#people=1", color_scheme=scheme)
        page.wait_for_selector(".person")
        page.wait_for_selector("#people-question")
        SCREENS[screen](page)
        until(page, "!document.querySelector('.waiting')")
        keep_shot(page, f"people-{screen}-{scheme}")
        assert serious(page, axe) == []
        page.close()


def test_on_a_phone_the_tab_fits_the_screen(party, opened, keep_shot):
    with served({"party": party}, local=True) as port:
        page = opened(f"http://127.0.0.1:{port}/#people=1", viewport={"width": 390, "height": 844})
        page.wait_for_selector(".person")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        keep_shot(page, "people-phone")
        open_person(page, 0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.close()
