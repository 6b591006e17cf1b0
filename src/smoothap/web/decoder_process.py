"""What runs in the decoder's own process: it reads strangers' images under a limit of memory and sends back pixels.

A request is a line of JSON and the bytes that it announces; so is the answer. It can write no file, and it imports
nothing but Pillow and numpy, so that it is small and starts in a third of a second.
"""

import contextlib
import json
import sys
from pathlib import Path
from typing import IO, Any

from PIL import Image

from smoothap.data.reading import UnreadableImage, read_image


def main() -> None:
    """Answer requests until the input ends."""
    megabytes, requests, answers = int(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    # Every decoder is loaded now, while memory is not limited yet.
    Image.init()
    Image.new("RGB", (8, 8)).resize((4, 4), Image.Resampling.BICUBIC)
    _limit_memory(megabytes)
    answers.write(b"ready\n")
    answers.flush()
    with contextlib.suppress(EOFError):
        while True:
            _answer(*receive(requests), answers)


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


def decode(request: dict[str, Any], content: bytes) -> Image.Image:
    """The part of the photo that is asked for, no side longer than `side`."""
    box, side = request["box"], int(request["side"])
    # Of a part, as many pixels as of a whole photo: then the whole is read that much larger.
    share = 1.0 if box is None else max(min(box[2], box[3]), 0.05)
    source = content if request["path"] is None else Path(request["path"])
    image = read_image(source, shorter_side=round(side / share), pixel_limit=int(request["pixels"]))
    if box is not None:
        left, top, width, height = box  # shares of the image
        x0, x1 = (round(edge * image.width) for edge in (left, left + width))
        y0, y1 = (round(edge * image.height) for edge in (top, top + height))
        image = image.crop((x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)))
    image.thumbnail((side, side), Image.Resampling.BICUBIC)
    return image


def _answer(request: dict[str, Any], content: bytes, answers: IO[bytes]) -> None:
    pixels = b""
    try:
        image = decode(request, content)
        pixels = image.tobytes()
        answer: dict[str, Any] = {"size": image.size}
    except (UnreadableImage, MemoryError) as error:
        reason = "" if isinstance(error.__cause__, MemoryError) else getattr(error, "reason", "")
        answer = {"error": reason or "it needs more memory than is allowed: make it smaller"}
    send(answers, answer, pixels)


def _limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the limits of pixels and seconds still hold
        return
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + megabytes * 1_000_000
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
