"""`python -m smoothap` and the `smoothap` command: a sentence instead of a traceback when something is wrong."""

import os
import sys
import warnings
from difflib import get_close_matches
from io import TextIOWrapper

# Read when torch is loaded: OpenMP threads that wait without spinning leave the cores to others on a small machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _show(message: Warning | str, *place: object) -> None:
    """A warning as one line, without its place in the code."""
    sys.stderr.write(f"Warning: {message}\n")


def main() -> None:
    """Run the command line.

    Exits with 0: done, 1: an error, explained, 2: wrong arguments, 3: a training that was of no use, 130: interrupted.
    """
    warnings.showwarning = _show  # ty: ignore[invalid-assignment]
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # names of photos that the terminal's encoding does not have
    try:
        from smoothap._core.extras import remedy
        from smoothap._core.files import DiskFullError, is_full
        from smoothap.cli import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("cyclopts", "rich"):
            raise
        sys.exit(f"The command line needs {missing.name}: pip install 'smoothap[cli]'")
    if (asked := sys.argv[1:2]) and not asked[0].startswith("-") and asked[0] not in [*app]:
        # cyclopts would load every command to answer this, and with them torch
        near = get_close_matches(asked[0], [*app], 1)
        hint = f"did you mean {near[0]}?" if near else "smoothap --help lists the commands."
        sys.stderr.write(f"smoothap: there is no command {asked[0]!r}: {hint}\n")
        sys.exit(2)
    try:
        app(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as missing:
        if (install := remedy(missing.name)) is None:
            raise
        sys.exit(f"smoothap: this command needs {str(missing.name).partition('.')[0]}: {install}")
    except BrokenPipeError:  # the reader, such as `head`, has seen enough; nothing is left to say or to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError) as error:
        if is_full(error) and not isinstance(error, DiskFullError):
            sys.exit("smoothap: The disk is full: what was whole before stays. Make room, and repeat the command.")
        sys.exit(f"smoothap: {error}")


if __name__ == "__main__":
    main()
