"""The one album of the server that is learning, if any, and how far it is.

It learns in a process of its own, so that searches are answered meanwhile:

    python -m smoothap.server.learning ALBUM

prints lines of JSON: the share that is done, and at the end what came of it in a sentence.
"""

import json
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from smoothap._core.progress import Progress, followed
from smoothap.album import Album, learn
from smoothap.album.learning import LEARNING

_ENDED = "The learning was ended before it was done, and the album is as it was: look at the server's own window."


@dataclass(frozen=True)
class LearningState:
    """How far the album in a folder is; `said` is what came of it, once it is done."""

    folder: Path | None = None
    running: bool = False
    share: float = 0.0
    said: str | None = None


class LearningJob:
    """Learns one album at a time, in a process of its own; safe to share between threads."""

    def __init__(self) -> None:
        self._state = LearningState()
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def state(self, album: Album) -> LearningState:
        """The state of this album's last learning, if that was the server's last."""
        state = self._state
        return state if state.folder == album.folder else LearningState()

    def forget(self, album: Album) -> None:
        """Say no more of what came of an album's last learning, which was undone."""
        with self._lock:
            if self._state.folder == album.folder and not self._state.running:
                self._state = LearningState()

    def start(self, album: Album) -> None:
        """Begin to learn; refused while any album does."""
        with self._lock:
            if self._closed or self._state.running:
                raise HTTPException(409, "An album is learning already: wait until it is done.")
            command = [sys.executable, "-m", "smoothap.server.learning", str(album.folder)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
            )
            self._state = LearningState(album.folder, running=True)
        threading.Thread(target=self._follow, args=(self._process,), name="learning", daemon=True).start()

    def close(self) -> None:
        """End what is going on: the album stays as it was."""
        with self._lock:
            self._closed = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        said = _ENDED
        with process, process.stdout as lines:
            for line in lines:
                with suppress(ValueError, AttributeError):  # what a library prints is none of our lines
                    news: dict[str, Any] = json.loads(line)
                    said = news.get("said", said)
                    self._state = replace(self._state, share=news.get("share", 1.0))
        self._state = replace(self._state, running=False, share=1.0, said=said)


def main() -> None:
    """Learn the album that is named as an argument."""

    def tell(line: Progress) -> None:
        if line.description == LEARNING:  # and not what is done on the way
            _say(share=line.done / line.total)

    try:
        with followed(tell):
            _say(said=learn(Album.open(sys.argv[1]), progress=False).reason)
    except (OSError, ValueError) as error:
        _say(said=str(error))


def _say(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
