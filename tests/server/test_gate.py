"""Who is let in: names, sites, tokens, and the headers that every answer carries."""

import io
import json
import re
from pathlib import Path

import httpx2
import pytest
from page_albums import pixel_album
from page_server import served

from smoothap import server
from smoothap.plots.palette import DARK, LIGHT
from smoothap.server.auth import COOKIE

ALBUMS = "/api/v1/albums"
STATIC = Path(server.__file__).parent / "static"
TOKEN = "a-long-secret-token"


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "127.0.0.1"])
def test_our_own_names_are_answered(client, host):
    assert client.get(ALBUMS, headers={"host": host}).status_code == 200


@pytest.mark.guarantee(17)
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "", "192.168.1.5:8000",
     "127.0.0.1@evil.example", "evil.example#127.0.0.1", "127.0.0.1/evil", "[::1", "localhost:8000:80", "0.0.0.0"],
)  # fmt: skip
def test_other_names_are_refused_so_that_no_rebound_name_reaches_us(client, host):
    for address in ("/", ALBUMS, "/api/v1/albums/letters/photos/1/image"):
        assert client.get(address, headers={"host": host}).status_code == 421


def test_beyond_this_machine_addresses_are_names_too_and_other_names_are_not(connect, album):
    client = connect({"a": album}, host="0.0.0.0", names=("shelf",), token=TOKEN)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    for host, status in (("192.168.1.5:8000", 200), ("shelf", 200), ("evil.example", 421)):
        assert client.get(ALBUMS, headers={"host": host, **bearer}).status_code == status


@pytest.mark.guarantee(17)
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "http://[::1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8000"},
    ],
)
def test_a_page_of_another_site_cannot_post(client, headers):
    assert client.post("/api/v1/albums/letters/search", json={"id": 1}, headers=headers).status_code == 403


def test_our_own_page_can_post(client):
    own = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert client.post("/api/v1/albums/letters/search", json={"id": 1}, headers=own).status_code == 200
    assert client.post("/api/v1/albums/letters/search", json={"id": 1}).status_code == 200


@pytest.mark.guarantee(17)
def test_a_page_of_another_site_cannot_show_our_pictures_but_can_link_to_us(client):
    cross = {"sec-fetch-site": "cross-site"}
    shown = client.get("/api/v1/albums/letters/photos/1/image", headers={**cross, "sec-fetch-mode": "no-cors"})
    assert shown.status_code == 403
    assert client.get("/", headers={**cross, "sec-fetch-mode": "navigate"}).status_code == 200


@pytest.fixture
def kept(tmp_path):
    album = pixel_album(tmp_path / "letters", path=tmp_path / "album")
    album.collections.add("dog", [1])
    return album


def operations(client):
    """Each operation of the API at an address: its method, and how far it is asked for what is there."""
    paths = client.get("/api/openapi.json").json()["paths"]
    assert len(paths) > 30
    for path, methods in paths.items():
        address = path.replace("{album}", "letters").replace("{form}", "csv")
        yield from ((method.upper(), re.sub(r"\{\w+\}", "1", address)) for method in methods)


@pytest.mark.guarantee(17)
def test_whatever_the_api_has_is_refused_to_a_page_of_another_site(connect, kept):
    client, before = connect({"letters": kept}, write_token=TOKEN), kept.collections.version
    for method, address in operations(client):
        for headers in (
            {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, {"origin": "null"},
            {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
        ):  # fmt: skip
            if method == "GET" and "sec-fetch-site" not in headers:
                continue  # browsers send it with what a page reads
            assert client.request(method, address, json={}, headers=headers).status_code == 403, (method, address)
    assert kept.collections.version == before


@pytest.mark.guarantee(17)
def test_whatever_the_api_has_asks_for_the_token_where_there_is_one(connect, kept):
    open_one, guarded = connect({"letters": kept}), connect({"letters": kept}, token=TOKEN)
    before = kept.collections.version
    for method, address in operations(open_one):
        for headers in ({}, {"authorization": "Bearer wrong"}):
            assert guarded.request(method, address, json={}, headers=headers).status_code == 401, (method, address)
    assert kept.collections.version == before
    allowed = guarded.get("/api/v1/albums/letters/collections", headers={"authorization": f"Bearer {TOKEN}"})
    assert allowed.status_code == 200


def test_without_the_token_nothing_is_answered(connect, album):
    client = connect({"a": album}, token=TOKEN)
    for address in (
        "/",
        "/static/page.js",
        ALBUMS,
        "/api/openapi.json",
        "/nothing",
        "/?token=wrong-token-here",
    ):
        answer = client.get(address)
        assert answer.status_code == 401
        assert "token" in answer.json()["detail"]
        assert TOKEN not in answer.text
    wrong = {"authorization": "Bearer wrong", "cookie": f"{COOKIE}_8000=wrong; x=ä"}
    assert client.get(ALBUMS, headers={name: value.encode() for name, value in wrong.items()}).status_code == 401
    assert client.get(f"/static/page.js?token={TOKEN}").status_code == 401
    assert client.get(ALBUMS).headers["www-authenticate"] == "Bearer"


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(connect, album):
    client = connect({"a": album}, token=TOKEN)
    answer = client.get(f"/?token={TOKEN}", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert client.get(ALBUMS).status_code == 200
    client.cookies.clear()
    assert client.get(ALBUMS).status_code == 401
    assert client.get(ALBUMS, headers={"authorization": f"bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    "others",
    ['theme={"dark":true}', 'a="half', "=", "b=\\\"; c", "x=1, y=2", "ä=ö", f"{COOKIE}_8000=wrong", f"{COOKIE}_8001=x"],
)  # fmt: skip
def test_cookies_of_other_servers_on_this_machine_do_not_hide_ours(connect, album, others):
    client = connect({"a": album}, token=TOKEN)
    ours = f"{COOKIE}_8000={TOKEN}"
    for header, status in ((f"{others}; {ours}", 200), (f"{ours}; {others}", 200), (others, 401)):
        assert client.get(ALBUMS, headers={b"cookie": header.encode()}).status_code == status, header


def test_two_servers_on_one_machine_do_not_take_each_others_cookie(connect, album):
    names = [
        connect({"a": album}, f"http://127.0.0.1:{port}", token=TOKEN)
        .get(f"/?token={TOKEN}", follow_redirects=False)
        .headers["set-cookie"]
        .partition("=")[0]
        for port in (8000, 8001)
    ]
    assert names == [f"{COOKIE}_8000", f"{COOKIE}_8001"]


def test_every_answer_carries_the_policy(client):
    for answer in (
        client.get("/"), client.get("/nothing"), client.get(ALBUMS), client.get(f"{ALBUMS}/letters/photos/1/image"),
        client.get("/", headers={"host": "evil.example"}),
        client.post(f"{ALBUMS}/letters/search", content=b"x" * 300_000),
    ):  # fmt: skip
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.guarantee(19)
def test_the_page_asks_no_other_host_and_has_nothing_inline(client):
    for file in STATIC.iterdir():
        text = file.read_text()
        outside = [
            each for each in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", text) if "www.w3.org" not in each
        ]
        assert outside == []
    page = client.get("/").text
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=|javascript:", page)
    assert "innerHTML" not in "".join(file.read_text() for file in STATIC.glob("*.js"))


def test_the_page_has_the_colours_of_the_reports(client):
    style = client.get("/static/page.css").text
    for colours in (LIGHT, DARK):
        for name, colour in colours.items():
            assert f"--{name}: {colour};" in style


def test_programs_may_send_the_token_as_a_header_or_in_an_address_of_the_api(connect, album):
    client = connect({"a": album}, token=TOKEN)
    assert client.get(ALBUMS, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get(f"/api/v1/albums?token={TOKEN}").status_code == 200
    assert "set-cookie" not in client.get(f"/api/v1/albums?token={TOKEN}").headers
    schemes = client.get(f"/api/openapi.json?token={TOKEN}").json()["components"]["securitySchemes"]
    assert [(scheme["type"], scheme["scheme"]) for scheme in schemes.values()] == [("http", "bearer")]


def test_names_below_an_allowed_one_are_ours_and_no_others(connect, album):
    client = connect({"a": album}, names=("search", "*.shop.example"))
    for host, status in {
        "search:8126": 200, "SEARCH": 200, "www.shop.example": 200, "a.b.shop.example:80": 200, "shop.example": 421,
        "evilshop.example": 421, "shop.example.evil.org": 421, "*.shop.example": 200, ".shop.example": 421,
    }.items():  # fmt: skip
        assert client.get(ALBUMS, headers={"host": host}).status_code == status, host


def test_what_a_proxy_says_counts_only_if_it_is_trusted(album):
    told = {"x-forwarded-for": "6.6.6.6, 198.51.100.7, 10.9.9.9", "x-forwarded-proto": "https"}
    for proxies, address in (((), "127.0.0.1"), (("127.0.0.0/8", "10.0.0.0/8"), "198.51.100.7")):
        log = io.StringIO()
        with served({"a": album}, token=TOKEN, proxies=proxies, log=log) as port:
            page = f"http://127.0.0.1:{port}/?token={TOKEN}"
            answer = httpx2.get(page, headers=told, follow_redirects=False)
        assert answer.status_code == 303
        assert ("secure" in answer.headers["set-cookie"].lower()) is bool(proxies)
        assert json.loads(log.getvalue())["address"] == address


def test_below_a_base_path_everything_is_there(album):
    """A proxy takes the path off before it asks us."""
    with (
        served({"a": album}, token=TOKEN, base_path="/search") as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        answer = client.get(f"/?token={TOKEN}", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/search/")
        assert "path=/search/" in answer.headers["set-cookie"].lower()
        bearer = {"authorization": f"Bearer {TOKEN}"}
        for address in ("/", "/static/page.js", ALBUMS, "/metrics"):
            assert client.get(address, headers=bearer).status_code == 200, address
        assert client.get(f"/api/v1/albums?token={TOKEN}").status_code == 200
        assert client.get("/api/openapi.json", headers=bearer).json()["servers"] == [{"url": "/search"}]


def test_no_address_in_the_page_begins_at_the_top(client):
    page = client.get("/").text
    scripts = [client.get(f"/{name}").text for name in re.findall(r'"(static/\w+\.js)"', page)]
    assert scripts
    for text in [page, *(file.read_text() for file in STATIC.glob("*.js"))]:
        assert not re.findall(r"""["'`]/(?:api|page|icon)[/.]""", text)
