"""What runs in the decoder's own process: it reads strangers' images under a limit of memory and sends back pixels.

A request is a line of JSON and the bytes that it announces; so is the answer. It can write no file, and it imports
nothing but Pillow, pi-heif and numpy, so that it is small and starts in a third of a second.
"""

import contextlib
import json
import mmap
import sys
from pathlib import Path
from typing import IO, Any

from PIL import Image

from smoothap.data.reading import UnreadableImage, image_head, load_all_formats, read_image
from smoothap.data.transforms import Transform

try:
    import resource
except ImportError:  # Windows: the limits of pixels and seconds still hold
    resource = None

_KEPT_PIXELS = 16_000_000  # of a larger photo, a smaller copy: a tenth of 50 megapixels still has 400 pixels a side
_BYTES_PER_PIXEL = 18  # while a format is decoded that cannot be decoded smaller: WebP holds four copies of its pixels
# More pixels to a byte than any large photo has: a WebP or AVIF of the night sky, a PNG of a drawing.
_LOSSY_PIXELS_PER_BYTE, _PLAIN_PIXELS_PER_BYTE = 400, 20


class MemoryLimit:
    """Bounds the memory of this process, beyond what it has when idle, by what an image may need."""

    def __init__(self, megabytes: int, most_megabytes: int) -> None:
        self._least, self._most = megabytes * 1_000_000, most_megabytes * 1_000_000
        self._idle = 0
        if resource is None:
            return
        with contextlib.suppress(OSError):  # should the machine run out of memory, this process goes and not the server
            Path("/proc/self/oom_score_adj").write_text("1000")
        with contextlib.suppress(OSError):
            self._idle = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self.allow(None)

    def is_short(self) -> bool:
        """Whether an image has left so much behind that the next one would not find enough."""
        self.allow(0)
        try:
            mmap.mmap(-1, self._least // 2).close()  # asked for and not touched, which takes no time
        except OSError:
            return True
        return False

    def allow(self, pixels: int | None) -> None:
        """As much as an image of that many pixels needs, or with None the most that any may have."""
        room = self._most if pixels is None else min(self._least + pixels * _BYTES_PER_PIXEL, self._most)
        if resource is not None and self._idle:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_AS, (self._idle + room, self._idle + self._most))


def main() -> None:
    """Answer requests until the input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    # Every decoder is loaded now, while memory is not limited yet.
    load_all_formats()
    Image.new("RGB", (8, 8)).resize((4, 4), Image.Resampling.BICUBIC)
    memory = MemoryLimit(*map(int, sys.argv[1:]))
    answers.write(b"ready\n")
    answers.flush()
    with contextlib.suppress(EOFError):
        while True:
            _answer(*receive(requests), answers, memory)


def send(stream: IO[bytes], message: dict[str, Any], content: bytes) -> None:
    """Send a message and the bytes that belong to it."""
    stream.write(json.dumps({**message, "bytes": len(content)}).encode() + b"\n" + content)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """The next message and the bytes that belong to it; EOFError where the other side has ended."""
    if not (line := stream.readline()):
        raise EOFError
    message = json.loads(line)
    content = stream.read(message["bytes"])
    if len(content) != message["bytes"]:
        raise EOFError
    return message, content


def decode(request: dict[str, Any], content: bytes, memory: MemoryLimit) -> Image.Image:
    """The part of the photo that is asked for: as a network views it, or with no side longer than `side`."""
    box, side = request["box"], int(request["side"])
    transform = None if request["view"] is None else Transform.from_dict(request["view"])
    source = content if request["path"] is None else Path(request["path"])
    memory.allow(None)  # some formats take memory for all pixels when their head is read
    head = image_head(source)
    pixels = head.width * head.height
    _refuse_bomb(source, pixels)
    memory.allow(pixels)
    # Of a part, as many pixels as of a whole photo: then the whole is read that much larger.
    share = 1.0 if box is None else max(min(box[2], box[3]), 0.05)
    enough = round((side if transform is None else transform.enough_pixels(train=False)) / share)
    image = read_image(source, shorter_side=enough, pixel_limit=request["pixels"], most_pixels=_KEPT_PIXELS)
    if box is not None:
        left, top, width, height = box  # shares of the image
        x0, x1 = (round(edge * image.width) for edge in (left, left + width))
        y0, y1 = (round(edge * image.height) for edge in (top, top + height))
        image = image.crop((x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)))
    if transform is not None:
        return transform.test_view(image)
    image.thumbnail((side, side), Image.Resampling.BICUBIC)
    return image


def _refuse_bomb(source: bytes | Path, pixels: int) -> None:
    """Refuse what holds next to nothing and yet has to be decoded whole; a JPEG has not: it is decoded smaller."""
    if isinstance(source, bytes):
        head, size = source[:12], len(source)
    else:
        with source.open("rb") as file:
            head, size = file.read(12), source.stat().st_size
    lossy = head[:4] == b"RIFF" or head[4:8] in (b"ftyp", b"jP  ")
    most = size * (_LOSSY_PIXELS_PER_BYTE if lossy else _PLAIN_PIXELS_PER_BYTE)
    if head[:2] != b"\xff\xd8" and pixels > max(_KEPT_PIXELS, most):
        raise UnreadableImage("photo", f"{pixels:,} pixels in {size:,} bytes, which is no photo")


def _answer(request: dict[str, Any], content: bytes, answers: IO[bytes], memory: MemoryLimit) -> None:
    pixels = b""
    try:
        image = decode(request, content, memory)
        pixels = image.tobytes()
        answer: dict[str, Any] = {"size": image.size}
    except (UnreadableImage, MemoryError) as error:
        exhausted = isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError) or memory.is_short()
        reason = "it needs more memory than is allowed: make it smaller" if exhausted else error.reason
        answer = {"error": reason, "exhausted": exhausted}
    send(answers, answer, pixels)


if __name__ == "__main__":
    main()
