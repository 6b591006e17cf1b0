"""Images of strangers are decoded in a process of their own, which is ended when it takes too long or too much."""

import os
import select
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from PIL import Image

from smoothap.data.reading import UnreadableImage
from smoothap.data.transforms import Transform
from smoothap.server.decoder_process import receive, send
from smoothap.server.schemas import ShareBox
from smoothap.server.settings import Limits

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class Decoder:
    """Bytes or a file -> an upright RGB image of bounded size, or `UnreadableImage`. One at a time; safe to share."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._is_used = False  # whether the process has decoded anything
        self._lock = threading.Lock()
        self._closed = False

    def decode(
        self, source: bytes | Path, *, box: ShareBox | None = None, side: int = 1024, view: Transform | None = None
    ) -> Image.Image:
        """The photo, or the part of it in the box, with no side longer than `side`; or what a network views of it."""
        content, path = (source, None) if isinstance(source, bytes) else (b"", str(source))
        described = None if view is None else view.to_dict()
        request = {"path": path, "box": box, "side": side, "view": described, "pixels": self._limits.pixels}
        with self._lock:
            if self._closed:
                raise UnreadableImage("photo", "the server is being stopped")
            while True:
                was_used = self._is_used
                answer, pixels = self._answer(request, content)
                if not answer.get("exhausted"):
                    break
                self._end()  # what it could not give back would be missing for the next photo
                if not was_used:  # else it was perhaps missing for this one, which a fresh process can read
                    break
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
        reason = "its decoder gave up on it"
        try:
            self._is_used = True
            send(process.stdin, request, content)
            if _answers(process.stdout, self._limits.decode_seconds):
                return receive(process.stdout)
            reason = f"it takes more than {self._limits.decode_seconds:g} seconds to decode"
        except (OSError, EOFError, ValueError):
            pass
        self._end()
        raise UnreadableImage("photo", reason)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            megabytes = self._limits.decode_megabytes, self._limits.most_decode_megabytes
            self._process = subprocess.Popen(
                [sys.executable, "-m", "smoothap.server.decoder_process", *map(str, megabytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the server, which then ends this process
            )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            for pipe in (self._process.stdin, self._process.stdout):
                _widen(pipe)
            self._process.stdout.readline()  # it is ready: the time of a photo does not count its start
        return self._process

    def _end(self) -> None:
        process, self._process, self._is_used = self._process, None, False
        if process is not None:
            process.kill()
            process.wait()
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError):  # bytes that the process did not take
                    pipe.close()


def _answers(stream: IO[bytes], seconds: float) -> bool:
    """Whether something comes within that time."""
    if not hasattr(select, "poll"):  # Windows: the limits of pixels and of memory have to do
        return True
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def _widen(pipe: IO[bytes]) -> None:
    """Let a photo pass in one go: each time that a pipe is full, both processes have to be woken."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # more than this user may have
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)


def _environment() -> dict[str, str]:
    """Where Python finds its modules, and nothing else that it need not know."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG", "LC_ALL") if name in os.environ}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OPENBLAS_NUM_THREADS": "1",  # each thread would take address space
        "OMP_NUM_THREADS": "1",
    }
