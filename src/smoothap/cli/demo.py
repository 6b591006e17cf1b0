"""`smoothap demo`."""

from __future__ import annotations

import sys
from pathlib import Path

from smoothap.cli._options import NOT_IMPROVED, check_folder, command
from smoothap.cli._printing import comparison


@command()
def demo(
    *,
    out: Path = Path("runs/demo"),
    minutes: float = 5,
    size: int = 80,
    seed: int = 0,
    serve: bool = False,
) -> None:
    """Train on half of the emoji for a few minutes and show what that does to finding the other half.

    Parameters
    ----------
    out
        The folder for the model, the results and the report. A training found there is resumed.
    minutes
        About how long to train on two cores, at 80 pixels.
    serve
        At the end, open the page that compares searches before and after, and stay until Ctrl-C.
    """
    if not minutes > 0:
        raise ValueError(f"minutes must be positive, such as 5, not {minutes}.")
    check_folder(out)
    from smoothap.cli._demo import run_demo
    from smoothap.training.finetune import Interrupted

    try:
        made = run_demo(out, minutes=minutes, size=size, seed=seed)
    except Interrupted as interrupted:
        print(f"{interrupted} To go on, repeat the command.")
        sys.exit(130)
    before, after = made.albums
    if made.tuned.verdict:
        print(f"\n{made.tuned.verdict}")
    print(
        f"\nOn {made.compared.images.classes} emoji that were not in the training:\n"
        f"{comparison(made.compared.before_report, made.compared.after_report, 'more minutes')}\n\n"
        f"Report  {made.page.resolve()}\n"
        f"Model   {made.model.resolve()}\n"
        f"Next    smoothap serve {before} {after}   (search before and after, side by side)\n"
        "        smoothap train --data folder:PATH --out runs/mine   (your own images, a folder for each class)\n"
        f"        smoothap evaluate --model {made.model} --data glyphs   (something it has never seen)"
    )
    if serve:
        from smoothap.cli.serve import serve as open_page

        open_page(str(before), str(after), port=0, open_page=True)
    if not made.tuned.improved:
        sys.exit(NOT_IMPROVED)
