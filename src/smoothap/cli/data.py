"""`smoothap data check` and `smoothap data show`."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from smoothap._core.files import write_atomically
from smoothap.cli._options import AS_IT_IS, AsJson, Split, check_file, command
from smoothap.data.names import open_data
from smoothap.plots.text import text_table

if TYPE_CHECKING:
    from smoothap.data.check import Findings

app = App(
    name="data",
    help="Count, check and show sets of images.",
    help_epilogue="Examples:\n\n    smoothap data check emoji\n    smoothap data show folder:PHOTOS --out sheet.png",
)

_LISTED = 20  # unreadable files that are printed; --json prints all
_TOLERATED = 0.01  # the share of the images that may be unreadable


@app.command(help_epilogue="Examples:\n\n    smoothap data check emoji\n    smoothap data check sop:PATH --json")
@command()
def check(
    data: str,
    /,
    *,
    read: bool = True,
    as_json: AsJson = False,
    split: Split = AS_IT_IS,
) -> None:
    """Count a set's images and classes, read every image, and look for exact duplicates.

    Parameters
    ----------
    read
        Read the images; without it they are only counted.
    as_json
        Print the findings as JSON, with every unreadable file.
    """
    from smoothap.data.check import check as check_benchmark

    start = time.perf_counter()
    benchmark = open_data(data, **vars(split))
    listed = time.perf_counter() - start
    findings = check_benchmark(benchmark, read)
    seconds = {"listing": round(listed, 2), "in all": round(time.perf_counter() - start, 2)}
    if as_json:
        print(json.dumps({**asdict(findings), "seconds": seconds}, indent=2, ensure_ascii=False))
    else:
        _print(findings, seconds)
    failed = len(findings.unreadable or ())
    if failed > _TOLERATED * findings.images:
        raise ValueError(
            f"{failed:,} of {findings.images:,} images cannot be read, more than {_TOLERATED:.0%}: "
            "replace or remove the files listed above."
        )


@app.command(help_epilogue="Example:\n\n    smoothap data show folder:PHOTOS --out sheet.png")
@command()
def show(
    data: str,
    /,
    *,
    split: Split = AS_IT_IS,
    out: Path,
    classes: int = 6,
    images: int = 8,
) -> None:
    """Draw a contact sheet: some classes to train on, some to test on, a few images of each.

    Parameters
    ----------
    out
        The picture to write: .png, .jpg or .webp.
    classes
        How many classes of each split.
    images
        How many images of each class.
    """
    formats = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
    if out.suffix.lower() not in formats:
        raise ValueError(f"A contact sheet is a .png, .jpg or .webp file, not {out.name!r}.")
    if classes < 1 or images < 1:
        raise ValueError("A contact sheet needs at least one class and one image of each.")
    check_file(out, "sheet.png")
    benchmark = open_data(data, **vars(split))
    from smoothap.data.sheet import contact_sheet

    sheet = contact_sheet(benchmark, classes, images)
    print(write_atomically(out, lambda path: sheet.save(path, formats[out.suffix.lower()])))


def _print(findings: Findings, seconds: dict[str, float]) -> None:
    averaged = any(part.instances is not None for part in findings.parts)
    rows = [
        {"": part.name, "images": part.images, "classes": part.classes, "images per class: fewest": part.fewest,
         "median": part.median, "most": part.most, **({"instances": part.instances} if averaged else {})}
        for part in findings.parts
    ]  # fmt: skip
    print(text_table(rows))
    lines = [f"Warning: {warning}" for warning in findings.warnings]
    if findings.unreadable is not None:
        lines.append(f"Unreadable: {len(findings.unreadable):,}")
        lines += [f"  {image.name} ({image.part}): {image.reason}" for image in findings.unreadable[:_LISTED]]
        if len(findings.unreadable) > _LISTED:
            lines.append(f"  and {len(findings.unreadable) - _LISTED:,} more: --json lists all")
    if (duplicates := findings.duplicates) is not None:
        lines.append(
            f"Exact duplicates: {duplicates.across_the_split:,} test images are in train too, "
            f"{duplicates.under_two_labels:,} images have two labels, "
            f"{duplicates.within_a_class:,} repeat one of their class"
        )
        lines += [f"  {example}" for example in duplicates.examples]
    lines.append(f"Took {seconds['in all']:.1f} s, {seconds['listing']:.1f} s of it to list the files")
    print("\n".join(lines))
