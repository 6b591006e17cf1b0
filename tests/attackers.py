"""What an attacker has: plain sockets that say what they like, and images made to hurt."""

import http.client
import io
import socket
import struct
import time
import zlib

from page_albums import letter
from PIL import Image


def photo_bytes(character="A"):
    stream = io.BytesIO()
    letter(character, "DejaVuSans").save(stream, "PNG")
    return stream.getvalue()


BOUNDARY = {"content-type": "multipart/form-data; boundary=x"}


def form_of(content, path="a.png"):
    """A form with a photo in it."""
    head = f'--x\r\ncontent-disposition: form-data; name="image"; filename="{path}"\r\n\r\n'
    return head.encode() + content + b"\r\n--x--\r\n"


def upload(port, address, content, timeout=30):
    """Send a photo as browsers do: (status, body)."""
    return ask(port, "POST", address, form_of(content), BOUNDARY, timeout)


def ask(port, method, path, body=None, headers=None, timeout=30):
    """An honest request: (status, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def comes(condition, seconds=60):
    """Whether this becomes true within some time."""
    end = time.monotonic() + seconds
    while not (true := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return true


def head(path, **headers):
    """The head of a POST."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1"]
    if path.endswith("/photo"):
        lines.append("Content-Type: multipart/form-data; boundary=x")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def status_of(connection, timeout=15):
    """The status that comes back on a raw connection; None where it is closed without one."""
    connection.settimeout(timeout)
    answer = b""
    try:
        while b"\r\n" not in answer:
            part = connection.recv(4096)
            if not part:
                break
            answer += part
    except ConnectionError:
        pass
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else None


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 20)


def send_chunked(port, path, total, chunk=bytes(1 << 20)):
    """Send `total` bytes in chunks until the server has enough: (status, bytes sent)."""
    with connect(port) as connection:
        start, sent = form_of(b"").removesuffix(b"\r\n--x--\r\n"), 0
        connection.sendall(head(path, Transfer_Encoding="chunked") + b"%x\r\n%s\r\n" % (len(start), start))
        try:
            while sent < total:
                connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                sent += len(chunk)
            connection.sendall(b"0\r\n\r\n")
        except OSError:
            pass
        return status_of(connection), sent


def png_of(width, height, data=None, *, depth=8, colour=2, chunks=()):
    """A PNG whose head says what it likes; `data` is its compressed pixels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    for kind, inside in chunks:
        content += chunk(kind, inside)
    return content + chunk(b"IDAT", zlib.compress(b"\0" * 1000) if data is None else data) + chunk(b"IEND", b"")


def zeros(count):
    """`count` zeros, compressed a piece at a time."""
    squeeze = zlib.compressobj(1)
    pieces = [squeeze.compress(bytes(1 << 20)) for _ in range(count >> 20)]
    return b"".join(pieces) + squeeze.compress(bytes(count & ((1 << 20) - 1))) + squeeze.flush()


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def hostile_images():
    """name -> bytes: bombs, lies, halves, and files that are something else; none of them is a photo."""
    noise = Image.effect_noise((256, 256), 80).convert("RGB")
    whole = {kind: saved(noise, kind) for kind in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "JPEG2000")}
    found = {
        "bomb of 400 megapixels": png_of(20_000, 20_000, zeros(20_000 * 60_001 // 8), colour=0),
        "bomb of 49 megapixels, 16 bits": png_of(7000, 7000, zeros(7000 * (7000 * 8 + 1)), depth=16, colour=6),
        "bomb of 49 megapixels with alpha": png_of(7000, 7000, zeros(7000 * (7000 * 4 + 1)), colour=6),
        "largest sides": png_of(2**31 - 1, 2**31 - 1),
        "one row of two thousand million": png_of(2**31 - 1, 1),
        "no width": png_of(0, 100),
        "text bomb": png_of(10, 10, zeros(310), chunks=[(b"zTXt", b"k\0\0" + zeros(60_000_000))]),
        "profile bomb": png_of(10, 10, zeros(310), chunks=[(b"iCCP", b"k\0\0" + zeros(60_000_000))]),
        "endless data": png_of(64, 64, zeros(60_000_000) * 2, colour=6)[:-40],
        "palette missing": png_of(64, 64, colour=3),
        "unknown colour": png_of(64, 64, colour=5),
        "gif of 65535 x 65535": b"GIF89a\xff\xff\xff\xff\x80\0\0" + bytes(6) + b",\0\0\0\0\xff\xff\xff\xff\0\x08\0;",
        "bmp with a vast width": b"BM"
        + struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 54, 40, 2**31 - 1, 2, 1, 24, *[0] * 6),
        "bmp of height minus 2^31": b"BM"
        + struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 54, 40, 2, -(2**31), 1, 24, *[0] * 6),
        "ppm that says too much": b"P6 100000 100000 255\n" + bytes(1000),
        "ppm of many digits": b"P6 " + b"9" * 100_000 + b" 1 255\n",
        "tiff in a loop": b"II*\0\x08\0\0\0\1\0\0\1\3\0\1\0\0\0\1\0\0\0\x08\0\0\0",
        "tiff of a million tags": b"II*\0\x08\0\0\0\xff\xff" + bytes(100_000),
        "tiff with a vast strip": b"II*\0\x08\0\0\0\3\0"
        + struct.pack("<HHII", 256, 4, 1, 60_000)
        + struct.pack("<HHII", 257, 4, 1, 60_000)
        + struct.pack("<HHII", 273, 4, 1, 2**31)
        + bytes(4),
        "jpeg of 65500 x 65500": whole["JPEG"].replace(b"\x01\x00\x01\x00\x03", b"\xff\xdc\xff\xdc\x03", 1),
        "webp with a wrong length": whole["WEBP"][:4] + b"\xff\xff\xff\xff" + whole["WEBP"][8:40],
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        "html": b"<!doctype html><script>alert(1)</script>",
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n",
        "pdf": b"%PDF-1.7\n1 0 obj<<>>endobj\n",
        "pickle": b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94.",
        "zip": b"PK\3\4" + bytes(100),
        "elf": b"\x7fELF" + bytes(200),
        "nothing": b"",
        "zeros": bytes(100_000),
        "text": b"a photo, honestly" * 100,
        "gzip": b"\x1f\x8b\x08" + bytes(50),
    }
    for kind, content in whole.items():
        found[f"half of a {kind}"] = content[: len(content) // 3]
        found[f"the head of a {kind}"] = content[:24]
        if kind != "PPM":
            found[f"a {kind} whose inside is noise"] = content[:20] + bytes(range(256)) * 20
    return found
