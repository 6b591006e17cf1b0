"""Images of strangers are decoded in a process of their own, which is ended when it takes too long or too much."""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from PIL import Image

from smoothap.data.reading import UnreadableImage
from smoothap.web._decoder_process import receive, send
from smoothap.web._schemas import ShareBox
from smoothap.web.limits import Limits


class Decoder:
    """Bytes or a file -> an upright RGB image of bounded size, or `UnreadableImage`. One at a time; safe to share."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def decode(self, source: bytes | Path, *, box: ShareBox | None = None, side: int = 1024) -> Image.Image:
        """The photo, or the part of it in the box, with no side longer than `side`."""
        content, path = (source, None) if isinstance(source, bytes) else (b"", str(source))
        request = {"path": path, "box": box, "side": side, "pixels": self._limits.pixels}
        with self._lock:
            if self._closed:
                raise UnreadableImage("photo", "the server is being stopped")
            answer, pixels = self._answer(request, content)
            if answer.get("exhausted"):
                self._end()  # what it could not give back would be missing for the next photo
        if "error" in answer:
            raise UnreadableImage("photo", str(answer["error"]))
        return Image.frombytes("RGB", tuple(answer["size"]), pixels)

    def warm_up(self) -> None:
        """Start the process."""
        with self._lock:
            if not self._closed:
                self._running()

    def close(self) -> None:
        """End the process for good."""
        with self._lock:
            self._closed = True
            self._end()

    def _answer(self, request: dict[str, Any], content: bytes) -> tuple[dict[str, Any], bytes]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        too_slow = threading.Event()
        timer = threading.Timer(self._limits.decode_seconds, lambda: (too_slow.set(), process.kill()))
        timer.start()
        try:
            send(process.stdin, request, content)
            return receive(process.stdout)
        except (OSError, EOFError, ValueError):
            self._end()
            seconds = f"it takes more than {self._limits.decode_seconds:g} seconds to decode"
            reason = seconds if too_slow.is_set() else "its decoder gave up on it"
            raise UnreadableImage("photo", reason) from None
        finally:
            timer.cancel()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            megabytes = self._limits.decode_megabytes, self._limits.most_decode_megabytes
            self._process = subprocess.Popen(
                [sys.executable, "-m", "smoothap.web._decoder_process", *map(str, megabytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the server, which then ends this process
            )
            assert self._process.stdout is not None
            self._process.stdout.readline()  # it is ready: the time of a photo does not count its start
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError):  # bytes that the process did not take
                    pipe.close()


def _environment() -> dict[str, str]:
    """Where Python finds its modules, and nothing else that it need not know."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG", "LC_ALL") if name in os.environ}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OPENBLAS_NUM_THREADS": "1",  # each thread would take address space
        "OMP_NUM_THREADS": "1",
    }
