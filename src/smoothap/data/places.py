"""Where files lie that the user gave no place for: our cache, albums, and the folders of installed packages."""

import importlib.util
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from smoothap._core.files import write_atomically


def cache_folder() -> Path:
    """Where this package may keep what it can compute again: $XDG_CACHE_HOME/smoothap, or ~/.cache/smoothap."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smoothap"


def data_folder() -> Path:
    """Where this package keeps what users make and gave no place for: $XDG_DATA_HOME/smoothap, or ~/.local/share/..."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "smoothap"


def write_cache(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """`write_atomically` for the cache: a file that cannot be written there costs time, nothing else."""
    with suppress(OSError):
        write_atomically(path, content)


def package_folder(package: str) -> Path | None:
    """Where an installed package lies, found without importing it: that can take seconds."""
    spec = importlib.util.find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def font_folder() -> Path | None:
    """The fonts that matplotlib brings, where it is installed."""
    matplotlib = package_folder("matplotlib")
    return None if matplotlib is None else matplotlib / "mpl-data" / "fonts" / "ttf"
