"""The model card of a model folder: README.md, for the people who get the folder, and for the hub's page."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from smoothap._core.files import write_atomically

CARD = "README.md"
_GENERATED = "<!-- smoothap writes this card whenever it saves the model. Take this line away to keep your own. -->"
_TEMPLATE = """---
library_name: smoothap
pipeline_tag: image-feature-extraction
tags:
- image-retrieval
- metric-learning
---
{generated}
# {architecture} for image retrieval

It turns an image into {numbers}. The larger the cosine of two vectors, the more alike the images are.

```python
from smoothap.models import Embedder

model = Embedder.from_pretrained("PATH OF THIS FOLDER, OR OWNER/NAME ON THE HUB")
vectors = model.embed(["photo.jpg", "another.jpg"])
```

- Network: {architecture} (timm), images of {size} x {size} pixels, transform `{transform}`
- Trained on: {data_set}
- Written by smoothap {smoothap}

## Measured

{measured}

## Before you rely on it

The numbers above are of the sets that are named, and of one training. Measure on images of your own:
`smoothap evaluate --model FOLDER --data folder:PHOTOS`. The licences of the training images and of the weights that the
training began with may limit what you can do with this model: state them here.
"""


def write_card(folder: Path, description: dict[str, Any]) -> None:
    """Write the card of a model with this description, unless somebody has written another."""
    file = folder / CARD
    if file.exists() and _GENERATED not in file.read_text(encoding="utf-8", errors="replace"):
        return
    write_atomically(file, card(description).encode())


def card(description: dict[str, Any]) -> str:
    """The text of the card."""
    transform, dimension, rows = description["transform"], description["dimension"], list(_rows(description["metrics"]))
    lines = ["Nothing was measured when the model was saved."]
    if rows:
        ranks = list(rows[0][1]["recall"])
        heads = ["set", "queries", "mAP", *[f"Recall@{k}" for k in ranks]]
        lines = [" | ".join(heads), " | ".join(["---"] + ["---:"] * (len(heads) - 1))]
        for name, report in rows:
            shares = [report["mean_average_precision"], *(report["recall"].get(k) for k in ranks)]
            values = ["" if share is None else f"{100 * share:.1f}" for share in shares]
            lines.append(" | ".join([name, f"{report['queries']:,}", *values]))
        lines = [f"| {line} |" for line in lines]
    return _TEMPLATE.format(
        generated=_GENERATED,
        architecture=description["architecture"],
        numbers="the backbone's features" if dimension is None else f"{dimension} numbers",
        size=transform["size"],
        transform=transform["name"],
        data_set=description["data_set"] or "not stated",
        smoothap=version("smoothap"),
        measured="\n".join(lines),
    )


def _rows(metrics: dict[str, Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The reports among what was measured, with what each is of, such as "after, emoji"."""
    for key, value in metrics.items():
        if isinstance(value, dict):
            inner = f"{name}, {key}" if name else str(key)
            if "mean_average_precision" in value:
                yield inner, value
            else:
                yield from _rows(value, inner)
