"""`smoothap demo`."""

from __future__ import annotations

import sys
from pathlib import Path

from smoothap.cli._options import NOT_IMPROVED, check_folder, command


@command()
def demo(
    *, out: Path = Path("runs/demo"), minutes: float = 5, size: int = 80, seed: int = 0, serve: bool = False
) -> None:
    """Train on half of the emoji for a few minutes and show what that does to finding the other half.

    Parameters
    ----------
    out
        The folder for the model, the results and the report. A training found there is resumed.
    minutes
        About how long to train on two cores, at 80 pixels.
    size
        The side of the images in pixels.
    serve
        At the end, open the page that compares searches before and after, and stay until Ctrl-C.
    """
    if not minutes > 0:
        raise ValueError(f"minutes must be positive, such as 5, not {minutes}.")
    check_folder(out)
    from smoothap.cli._demo import run_demo
    from smoothap.training.finetune import Interrupted
    from smoothap.training.loop import alone_in

    try:
        with alone_in(out):
            improved = run_demo(out, minutes, size, seed)
    except Interrupted as interrupted:
        print(f"{interrupted} To go on, repeat the command.")
        sys.exit(130)
    if serve:
        from smoothap.cli.serve import serve as open_page

        open_page(out / "before", out / "after", port=0, open_page=True)
    if not improved:
        sys.exit(NOT_IMPROVED)
