"""No way out of the album, and nothing private in what is served."""

import io
import itertools
import socket

import numpy as np
import pytest
from attackers import ask, connect, upload
from page_albums import MODEL, PixelAlbum, Pixels, letter
from page_server import served
from PIL import Image
from PIL.PngImagePlugin import PngInfo

SECRET = b"the-secret-outside-of-the-album"
_UP = [
    "../",
    "..%2f",
    "..%252f",
    "%2e%2e/",
    "%2e%2e%2f",
    "..\\",
    "..%5c",
    "..%c0%af",
    "%c0%ae%c0%ae/",
    "....//",
    "..;/",
]
_TARGETS = ["secret.txt", "etc/passwd", "photos/../secret.txt"]
_PLACES = ["/", "/api/v1/albums/letters/photos/", "/api/v1/albums/letters/photos/0/", "/api/v1/albums/", "/static/"]


def payloads():
    """At least 200 paths that try to leave."""
    climbing = [
        f"{place}{up * depth}{target}"
        for place, up, depth, target in itertools.product(_PLACES, _UP, (1, 6), _TARGETS[:2])
    ]
    photos, base = "/api/v1/albums/letters/photos", "/api/v1/albums"
    odd = [
        "/secret.txt", "//etc/passwd", "/%2fetc%2fpasswd", "/file:///etc/passwd", f"{photos}/%00/image",
        f"{photos}/0%00.jpg/image", f"{base}/-1/photos", f"{photos}/-1/image", f"{photos}/1e3/image",
        f"{photos}/0x1/image", f"{photos}/١/image", f"{photos}/photos%2fa.jpg/image", f"{photos}/%2e/image",
        "/page.html", "/server.py", "/static/", "/static/../app.py", "/static/%2e%2e/app.py", "/../server.py",
        "/static/../../etc/passwd", f"{photos}/99999999999999999999999/image",
    ]  # fmt: skip
    return climbing + [each.encode().decode("latin-1") for each in odd]


def raw(port, target):
    """A request with the target as it stands: (status, whole answer)."""
    with connect(port) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode("latin-1"))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return int(answer.split()[1]), answer


@pytest.mark.guarantee(17)
def test_two_hundred_paths_that_try_to_leave_find_nothing(server, folder, measured):
    (folder / "secret.txt").write_bytes(SECRET)
    assert len(payloads()) >= 200
    for target in payloads():
        status, answer = raw(server.port, target)
        assert 400 <= status < 500, target
        assert SECRET not in answer
        assert b"root:" not in answer
    measured(f"{len(payloads())} paths, 0 escapes")


@pytest.mark.guarantee(17)
def test_a_link_out_of_the_album_is_not_followed(tmp_path):
    (tmp_path / "photos").mkdir()
    letter("S", "DejaVuSans").save(tmp_path / "secret.png")
    (tmp_path / "photos" / "link.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "photos" / "folder").symlink_to(tmp_path)
    metadata = [{"path": "link.png"}, {"path": "folder/secret.png"}]
    album = PixelAlbum.from_arrays(np.eye(2, 64), metadata, root=tmp_path / "photos", model=MODEL)
    with served({"links": album}) as port:
        for photo, kind in itertools.product((0, 1), ("thumbnail", "image")):
            assert ask(port, "GET", f"/api/v1/albums/links/photos/{photo}/{kind}")[0] == 404
        body = b'{"id": 0, "box": [0, 0, 1, 1]}'
        assert ask(port, "POST", "/api/v1/albums/links/search", body, {"content-type": "application/json"})[0] == 404


@pytest.mark.guarantee(17)
@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "a/../../secret.png", "a\0.png"])
def test_an_album_takes_no_path_that_leaves_it(path):
    with pytest.raises(ValueError, match="no path below"):
        PixelAlbum.from_arrays(np.eye(1, 4), [{"path": path}])


def private_photo(kind):
    """A photo that says where it was taken, by whom, and holds its own larger self."""
    exif = Image.Exif()
    exif[0x010F], exif[0x013B], exif[0x9C9B] = "PRIVATE-CAMERA", "PRIVATE-NAME", "PRIVATE-TITLE".encode("utf-16-le")
    exif.get_ifd(0x8825).update({1: "N", 2: (51.0, 30.0, 12.0), 3: "W", 4: (0.0, 7.0, 39.0)})
    stream = io.BytesIO()
    options = {"exif": exif}
    if kind == "PNG":
        information = PngInfo()
        information.add_text("Comment", "PRIVATE-COMMENT")
        information.add_text("XML:com.adobe.xmp", "PRIVATE-XMP")
        options["pnginfo"] = information
    elif kind == "JPEG":
        options |= {"comment": b"PRIVATE-COMMENT", "icc_profile": b"PRIVATE-PROFILE" * 20, "xmp": b"PRIVATE-XMP"}
    letter("P", "DejaVuSans").save(stream, kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.guarantee(19)
def test_what_is_served_has_pixels_and_nothing_else(kind, tmp_path):
    content = private_photo(kind)
    assert b"PRIVATE" in content or b"P\0R\0I\0V" in content
    (tmp_path / "private.img").write_bytes(content)
    vector = Pixels().embed([letter("P", "DejaVuSans")]).numpy()
    album = PixelAlbum.from_arrays(vector, [{"path": "private.img"}], root=tmp_path, model=MODEL)
    with served({"private": album}) as port:
        for name in ("thumbnail", "image"):
            status, answer = ask(port, "GET", f"/api/v1/albums/private/photos/0/{name}")
            assert status == 200
            assert b"PRIVATE" not in answer
            assert b"Exif" not in answer
            with Image.open(io.BytesIO(answer)) as image:
                assert not image.getexif()
                assert set(image.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density", "dpi"}


@pytest.mark.guarantee(19)
def test_the_server_listens_on_this_machine_alone(server):
    listening = [each for each in server.process.net_connections("tcp") if each.status == "LISTEN"]
    assert {each.laddr.ip for each in listening} == {"127.0.0.1"}


@pytest.mark.guarantee(19)
def test_a_whole_visit_asks_no_other_host(monkeypatch, tmp_path):
    """Every name looked up and every connection made in this process while the page is used."""
    asked = []
    connect_for_real, look_up = socket.socket.connect, socket.getaddrinfo

    def connecting(self, address):
        asked.append(address[0] if isinstance(address, tuple) else address)
        return connect_for_real(self, address)

    def looking_up(host, *rest, **options):
        asked.append(host)
        return look_up(host, *rest, **options)

    monkeypatch.setattr(socket.socket, "connect", connecting)
    monkeypatch.setattr(socket, "getaddrinfo", looking_up)
    letter("P", "DejaVuSans").save(tmp_path / "a.png")
    vector = Pixels().embed([letter("P", "DejaVuSans")]).numpy()
    album = PixelAlbum.from_arrays(vector, [{"path": "a.png"}], root=tmp_path, model=MODEL)
    with served({"a": album}) as port:
        for path in ("/", "/static/page.js", "/api/v1/albums", "/api/v1/albums/a/photos/0/image"):
            assert ask(port, "GET", path)[0] == 200
        content = (tmp_path / "a.png").read_bytes()
        assert upload(port, "/api/v1/albums/a/search/photo", content)[0] == 200
    assert set(asked) == {"127.0.0.1"}
