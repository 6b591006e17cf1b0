"""Options that several commands take: each means the same everywhere, and its help is written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Data = Annotated[str, Parameter(help="NAME or NAME:PATH, such as emoji, sop:PATH or folder:PATH.")]
Weights = Annotated[
    str | None,
    Parameter(
        help="A .safetensors or .pth file for the network in place of the published weights, or none for random ones."
    ),
]
Size = Annotated[int, Parameter(help="The side of the images in pixels.")]
NetworkSize = Annotated[int | None, Parameter(help="The side of the images in pixels, for a network by its timm name.")]
TestName = Annotated[str | None, Parameter(help="Which of the set's test protocols; by default the first.")]
TestFraction = Annotated[
    float | None, Parameter(help="The share of the classes to test on, for folder, csv and parquet; by default half.")
]
TestClasses = Annotated[
    Path | None,
    Parameter(help="A file that names the classes to test on, one a line, for folder, csv and parquet."),
]
Device = Annotated[str | None, Parameter(help="Such as cpu or cuda; by default cuda where there is one.")]
Workers = Annotated[int, Parameter(help="Processes that read images; 0 reads them in this one.")]
FigureFolder = Annotated[Path, Parameter(help="The folder for the figures and the numbers.")]
