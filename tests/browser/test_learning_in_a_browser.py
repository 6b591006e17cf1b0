"""Teaching an album on its page: it learns, searches change, and it forgets again."""

import numpy as np
import pytest
from page_albums import write_letters
from page_server import served

from smoothap.album import Album, learn

pytestmark = pytest.mark.browser


@pytest.fixture
def album(tmp_path, monkeypatch):
    """Letters that differ in a few directions, and drawings of each in louder ones; eight are in collections."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    metadata = write_letters(tmp_path / "photos")
    labels = np.unique([each["label"] for each in metadata], return_inverse=True)[1]
    random = np.random.default_rng(0)
    signal = random.normal(size=(12, 6))[labels] + 0.1 * random.normal(size=(len(labels), 6))
    vectors = np.concatenate([signal, 0.8 * random.normal(size=(len(labels), 24))], axis=1)
    made = Album.from_arrays(vectors, metadata, tmp_path / "album", root=tmp_path / "photos")
    for label in range(8):
        made.collections.add(
            metadata[np.flatnonzero(labels == label)[0]]["label"], np.flatnonzero(labels == label)[:6].tolist()
        )
    return made


def order(page):
    page.wait_for_selector(".facts .score")
    return page.eval_on_selector_all("#results img", "(all) => all.map((each) => each.src)")


def text(page, selector):
    return page.inner_text(selector)


def wait_for(page, condition):
    """Wait until a condition holds, however long learning takes on this machine."""
    while not page.evaluate(condition):
        page.wait_for_timeout(100)


def until_order(page, wanted):
    """Wait until the photos are shown in an order that is wanted: the page searches again by itself."""
    for _ in range(100):
        if wanted(order(page)):
            return
        page.wait_for_timeout(100)
    pytest.fail("the photos never came in that order")


def test_it_learns_and_forgets_on_the_page(album, opened, keep_shot):
    folder = album.collections.folder.parent
    with served({"letters": Album.open(folder)}) as port:
        page = opened(f"http://127.0.0.1:{port}/#photo=70")
        before = order(page)
        page.click("#collections-open")
        page.wait_for_selector("#learn:enabled")
        assert "From 8 collections the album can learn" in text(page, "#learning-note")
        assert page.is_hidden("#unlearn")
        keep_shot(page, "learning-before")
        page.click("#learn")
        page.wait_for_selector("#learning-share:not([hidden])")
        keep_shot(page, "learning-running")
        wait_for(page, "document.getElementById('learning-share').hidden")
        assert "Photos that were left out find the others of their collection" in text(page, "#learning-note")
        assert text(page, "#learning-state") == "The album searches with what it learnt."
        assert Album.open(folder).learnt is not None
        keep_shot(page, "learning-done")
        page.click("#collections .close")
        until_order(page, lambda now: now != before)
        after = order(page)
        keep_shot(page, "learning-after")
        page.reload()
        until_order(page, lambda now: now == after)
        page.click("#collections-open")
        page.wait_for_selector("#unlearn:enabled")
        assert text(page, "#learn") == "Learn again"
        page.click("#unlearn")
        page.wait_for_selector("#unlearn", state="hidden")
        page.click("#collections .close")
        until_order(page, lambda now: now == before)
        assert Album.open(folder).learnt is None


def test_with_few_collections_the_button_says_what_is_missing(album, opened, keep_shot):
    for name in [*album.collections.all()][:5]:
        album.collections.delete(name)
    with served({"letters": album}) as port:
        page = opened(f"http://127.0.0.1:{port}/")
        page.click("#collections-open")
        page.wait_for_selector("#learning-note:not(:empty)")
        assert "With 5 collections of 4 photos or more" in text(page, "#learning-note")
        assert "it has 3" in text(page, "#learning-note")
        assert page.is_disabled("#learn")
        keep_shot(page, "learning-few")
        page.close()  # before its server: pictures may still be on their way


def test_what_another_undoes_of_learning_is_seen(album, opened):
    folder = album.collections.folder.parent
    learn(album, progress=False)
    assert Album.open(folder).learnt is not None
    with served({"letters": Album.open(folder)}) as port:
        page = opened(f"http://127.0.0.1:{port}/#photo=70")
        before = order(page)
        wait_for(page, "!document.getElementById('unlearn').hidden")
        Album.open(folder).unlearn()
        until_order(page, lambda now: now != before)
        for _ in range(100):
            if page.evaluate("document.getElementById('unlearn').hidden"):
                return
            page.wait_for_timeout(100)
        pytest.fail("the page still says that the album has learnt")
