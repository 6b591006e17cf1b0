"""Write docs/analyses/index.md from the numbers that `smoothap analyse` saved beside it.

Run: python tools/write_analyses.py [FOLDER]; the analyses in FOLDER are copied there first.
"""

import json
import shutil
import sys
from pathlib import Path

from smoothap.report.text_table import text_table

HERE = Path(__file__).parents[1] / "docs" / "analyses"
# In this order, each with what a reader should know of how it was measured.
NOTES = {
    "indicator": (
        "The curves need no data; the columns AP_e and terms with a slope are of one batch of 128 emoji under the "
        "network's own features. A user can train with any of them: `SmoothAP(indicator=Linear(0.2))`, from "
        "`smoothap.ranking.indicators`."
    ),
    "tightness": (
        "One epoch of 128 emoji at 64 pixels a step; the three trainings share first weights, views and batches. "
        "AP_e is the mean over the queries of the batch, before the step."
    ),
    "operating-region": (
        "The set is embedded once (forward only) by each network and batches are drawn as in an epoch of training,"
        " four images of a class; in the paper the network trains meanwhile. Solid and dashed lines count the full"
        " m x m matrix as the paper does, the query and i = j included; the dotted ones leave those out. The "
        "second network is the one that `smoothap analyse tightness` left at tau 0.01. Batches of 4,096 need more "
        "classes than the training half has, so the test images join in."
    ),
    "ablation": (
        "On glyphs, because emoji has at most seven images of a class; every training sees the same number of "
        "images, so a larger batch makes fewer steps. The deviation is over the seeds; a batch above 256 is "
        "trained once, in two passes."
    ),
    "ablation-emoji": "The temperature on emoji, whose classes have at most seven images: one seed, 40 steps.",
    "cost": (
        "Two CPU cores where the paper has a GPU. The authors' tensors grow with the cube of the batch and are "
        "left out above 512."
    ),
    "triplet-example": (
        "The paper gives the order of eight scores and no values: ours are 0.02 apart. The right column moves s1 "
        "alone, with all other scores held so that the order is the paper's. The second figure asks the same of a "
        "real batch: of all negatives that stand above a positive, sorted into fifths by the AP that undoing one "
        "is worth, which share of its gradient does each loss spend where?"
    ),
}
HEAD = """# The paper's analyses, from our own runs

Each figure comes from the command under it, with the numbers in the JSON file beside it. Ours are of emoji and glyphs
and an EfficientNet-Lite0 on two CPU cores, where the paper has Stanford Online Products or faces, so orders and shapes
can be compared, numbers cannot. [Queries and classes before and after](queries.md) have a page of their own.
"""


def section(name: str, note: str) -> list[str]:
    """One analysis: figures, command, what the paper says and what ours shows, and the table."""
    saved = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    others = tuple(other for other in NOTES if other != name and other.startswith(name))
    figures = [
        figure for figure in sorted(HERE.glob(f"{name}*.png")) if not (others and figure.name.startswith(others))
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
