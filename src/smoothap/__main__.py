"""`python -m smoothap` and the `smoothap` command: a sentence instead of a traceback when something is wrong."""

import os
import sys

# Read when torch is loaded: OpenMP threads that wait without spinning leave the cores to others on a small machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main() -> None:
    """Run the command line; the exit code is 0 for done, 1 for an error that was explained, 130 for Ctrl-C."""
    try:
        from smoothap.cli import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("cyclopts", "rich"):
            raise
        sys.exit(f"The command line needs {missing.name}: pip install 'smoothap[cli]'")
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, OSError) as error:
        sys.exit(f"smoothap: {error}")


if __name__ == "__main__":
    main()
