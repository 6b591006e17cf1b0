"""Write docs/analyses/index.md from the numbers that `smoothap paper` saved beside it.

Run: python tools/write_analyses.py [FOLDER]; the analyses in FOLDER are copied there first.
"""

import json
import shutil
import sys
from pathlib import Path

from smoothap.plots.text import text_table

HERE = Path(__file__).parents[1] / "docs" / "analyses"
# In this order, each with what a reader should know of how it was measured.
NOTES = {
    "indicator": (
        "The curves need no data. The columns AP_e and terms with a slope come from one batch of 128 emoji, "
        "embedded by the untrained network. You can train with any of these relaxations, for example with "
        "`SmoothAP(indicator=Linear(0.2))` (from `smoothap.functional.indicators`)."
    ),
    "tightness": (
        "Each training is one epoch on emoji at 64 pixels, with 128 images in a step. The three trainings have the "
        "same first weights, views and batches. AP_e is the mean over the queries of the batch, before the step. The "
        "second figure and the last rows of the table are about the same batches of the training at tau 0.01: AP as "
        "FastAP's histogram has it, and as Blackbox AP ranks with its margin."
    ),
    "operating-region": (
        "As in the paper, an epoch is trained for each batch size, with all else equal and from the same first "
        "weights: here on emoji at 64 pixels, with four images of each class. A share is the mean over the batches of "
        "that epoch. One line counts the full m x m matrix as the paper does, including the query and i = j, the other "
        "leaves those out."
    ),
    "ablation": (
        "This is on glyphs, because the emoji set has at most seven images of each class. Every training sees the "
        "same number of images, so a training with a larger batch has fewer steps. The interval (95%, "
        "Student's t) is over the seeds alone. Batches above 256 were trained with one seed only, in two passes."
    ),
    "ablation-emoji": "The temperature on emoji, whose classes have at most seven images, with one seed and 40 steps.",
    "cost": (
        "We measured on two CPU cores, the paper on a GPU. The tensors of the authors' code grow with the cube of "
        "the batch size, so we left it out above 512."
    ),
    "triplet-example": (
        "The paper gives the order of eight scores, but no values; ours are 0.02 apart. In the right column of the "
        "first figure only s1 moves. The second figure looks at a real batch. It takes all negatives that rank "
        "above a positive and sorts them into fifths by the AP gained if the negative no longer did so. It then "
        "shows which share of its gradient each loss spends on each fifth."
    ),
}
HEAD = """# The paper's analyses, from our own runs

This page shows you what the loss does, in the paper's analyses made again with our own code. You can make each figure
again with the command under it, also with your own images (`--data folder:PHOTOS`):

```
smoothap paper indicator
```

Our runs use emoji and glyphs and the network EfficientNet-Lite0, on two CPU cores. The paper uses Stanford Online
Products and faces. You can therefore compare orders and the shapes of curves, but not numbers. The numbers of each
figure are in the JSON file beside it.

These words come up in all sections:

- AP is Average Precision, and mAP its mean over the queries. AP_e is the error of the smoothed AP, |smoothed AP - AP|.
- tau (τ) is the temperature of the sigmoid: the smaller it is, the closer the smoothed AP is to AP.
- B is the number of images in a batch (the paper also writes m or M), and |P| the number of images of each class in it.
- D is the difference of two scores, and G the sigmoid that replaces the step at D = 0.

[Queries and classes before and after](queries.md) have a page of their own.
"""


def section(name: str, note: str) -> list[str]:
    """One analysis: figures, command, what the paper says and what ours shows, and the table."""
    saved = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    others = tuple(other for other in NOTES if other != name and other.startswith(name))
    figures = [
        figure
        for figure in sorted(HERE.glob(f"{name}*.png"), key=lambda figure: figure.stem)  # the analysis's own name first
        if not (others and figure.name.startswith(others))
    ]
    title = saved["title"] + (" (emoji)" if name.endswith("-emoji") else "")
    lines = ["", f"## {title}", ""]
    for figure in figures:
        lines += [f"![{title}]({figure.name})", ""]
    lines += [f"    {saved['command']}", "", note, "", f"**The paper.** {saved['paper']}", ""]
    lines += [
        f"**Ours.** {saved['agreement']}",
        "",
        *([text_table(saved["table"], markdown=True)] if saved["table"] else []),
    ]
    return lines


def main() -> None:
    """Copy what is newer, then write the page."""
    for given in map(Path, sys.argv[1:]):
        for name in NOTES:
            for file in given.glob(f"{name}*"):
                if file.is_file():
                    shutil.copy(file, HERE / file.name)
    lines: list[str] = [HEAD.strip()]
    for name, note in NOTES.items():
        if (HERE / f"{name}.json").exists():
            lines += section(name, note)
    (HERE / "index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
