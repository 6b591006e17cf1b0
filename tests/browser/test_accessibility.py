"""An automatic check of every screen, light and dark: axe-core finds nothing serious in it.

axe-core comes from npm when these tests are run, and is kept nowhere in the project.
"""

import json
import shutil
import subprocess
import tarfile

import pytest
from test_looking import address, opened_anew, shots  # noqa: F401 (fixtures)
from test_page_in_a_browser import ranked, until

pytestmark = pytest.mark.browser
VERSION = "4.10.3"


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The source of axe-core."""
    folder = tmp_path_factory.mktemp("axe")
    if shutil.which("npm") is None:
        pytest.skip("no npm, which fetches axe-core: apt-get install npm")
    command = ["npm", "pack", f"axe-core@{VERSION}", "--silent"]
    fetched = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f"axe-core could not be fetched: {' '.join(command)} in a terminal says why")
    with tarfile.open(folder / f"axe-core-{VERSION}.tgz") as package:
        return package.extractfile("package/axe.min.js").read().decode()


def serious(page, axe):
    """What is serious or critical on the screen, in words."""
    page.evaluate(axe)
    found = page.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then((found) => JSON.stringify(found.violations))"
    )
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
        for each in json.loads(found)
        if each["impact"] in ("serious", "critical")
    ]


def large(page):
    page.click(".tile[data-place='1'] .picture")
    until(page, "document.querySelectorAll('#viewer-facts dd').length > 3")


def stack(page):
    page.locator(".tile .stack").first.click()
    page.wait_for_selector("#stack[open]")


def filters(page):
    page.click("#filter-details summary")
    page.select_option("#filter-folder", "K8")
    until(page, "document.getElementById('filter-count').textContent === '1'")


def found(page):
    page.click(".tile[data-place='0'] .find")
    ranked(page)
    page.click(".tile[data-place='0'] .yes")
    page.wait_for_selector("#naming[open]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#naming", state="hidden")
    page.click(".tile[data-place='1'] .no")
    until(page, "document.querySelector('.tile .no[aria-pressed=true]') !== null")


def part(page):
    large(page)
    page.keyboard.press("p")


def selected(page):
    page.locator(".tile[data-place='0'] .picture").click(modifiers=["Control"])
    page.wait_for_selector("#selection:not([hidden])")


def by_name(page):
    page.select_option("#order", "name")
    page.wait_for_selector(".heading")


def copies(page):
    page.click("#review")
    page.wait_for_selector("#copies-list li")


SCREENS = {
    "selected": selected, "by name": by_name, "copies": copies,
    "first visit": lambda page: None, "large": large, "part": part, "stack": stack, "filters": filters, "found": found,
    "keys": lambda page: page.click("#keys-open"), "collections": lambda page: page.click("#collections-open"),
}  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_serious_is_found_on_any_screen(opened, address, axe, screen, scheme, keep_shot):  # noqa: F811
    page = opened_anew(opened, address, color_scheme=scheme)
    SCREENS[screen](page)
    until(page, "!document.querySelector('.waiting')")
    keep_shot(page, f"{screen}-{scheme}".replace(" ", "-"))
    assert serious(page, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_on_a_phone(opened, address, axe, scheme, keep_shot):  # noqa: F811
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = opened_anew(opened, address, color_scheme=scheme, **phone)
    assert serious(page, axe) == []
    page.tap("#sheet-open")
    keep_shot(page, f"sheet-{scheme}")
    assert serious(page, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_where_two_albums_are_compared(opened, two, axe, scheme):
    page = opened(two, color_scheme=scheme)
    ranked(page)
    assert serious(page, axe) == []


def test_the_check_bites(opened, address, axe):  # noqa: F811
    page = opened_anew(opened, address)
    page.evaluate("document.querySelector('.tile .picture').append(document.createElement('img'))")
    page.evaluate("document.getElementById('draw').textContent = ''; document.getElementById('draw').title = ''")
    assert any(sentence.startswith("button-name") for sentence in serious(page, axe))
