"""Data sets by name: what NAME or NAME:PATH stands for, for commands and Python users alike."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothap._core.extras import remedy

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoothap.data.benchmark import Benchmark


class DataSet(NamedTuple):
    """A set by name. Packages add their own as entry points of the group `smoothap.datasets`, as our albums do."""

    opener: str | Callable[..., Benchmark]  # a function, or module:function of `data.datasets`, imported when used
    path: str  # what PATH is, or "" where the set needs none
    options: tuple[tuple[str, Any], ...] = ()
    chooses_split: bool = False  # whether the user chooses the test classes; else the set comes with its split
    drawn: bool = False  # whether a hash with a seed says which classes are for the test


DATA = {
    "emoji": DataSet("emoji:emoji", "", drawn=True),
    "emoji:skin-tones": DataSet("emoji:emoji", "", (("skin_tones", True),), drawn=True),
    "emoji:ordered": DataSet("emoji:emoji", "", (("ordered", True),)),
    "glyphs": DataSet("glyphs:glyphs", "", drawn=True),
    "sop": DataSet("published:sop", "the folder with Ebay_train.txt"),
    "vehicle-id": DataSet("published:vehicle_id", "the folder with train_test_split"),
    "vehicle-id-gallery": DataSet("published:vehicle_id_gallery", "the folder with train_test_split"),
    "inaturalist": DataSet("published:inaturalist", "the folder with train_val2018"),
    "inaturalist-json": DataSet("published:inaturalist_json", "the folder with train2018.json and val2018.json"),
    "vggface2": DataSet("faces:vggface2", "the folder with train, test and bb_landmark"),
    "vggface2-aligned": DataSet("faces:vggface2", "the folder with train, test and bb_landmark", (("aligned", True),)),
    "ijbc": DataSet("faces:ijbc", "the folder with protocols or meta"),
    "ijbc-aligned": DataSet("faces:ijbc", "the folder with meta", (("aligned", True),)),
    "cub": DataSet("published:cub", "the folder with images.txt"),
    "cars": DataSet("published:cars", "the folder with cars_annos.mat or devkit"),
    "in-shop": DataSet("published:in_shop", "the folder with list_eval_partition.txt or Eval"),
    "folder": DataSet("own:folder", "a folder with a folder of images for each class", chooses_split=True, drawn=True),
    "csv": DataSet("own:table", "a CSV file with the columns path and label", chooses_split=True, drawn=True),
    "parquet": DataSet("own:table", "a Parquet file with the columns path and label", chooses_split=True, drawn=True),
}


def open_data(
    spec: str,
    *,
    test_fraction: float | None = None,
    test_classes: Path | None = None,
    columns: str | None = None,
    split: int = 0,
) -> Benchmark:
    """The benchmark that NAME[:PATH] stands for, such as `emoji`, `sop:/data/sop` or `folder:photos`.

    `test_fraction` and `test_classes` (a file of class names) choose the test classes of the user's own images; the
    other sets come with their split. `columns` says what the columns of a table are called, such as
    "path=image_path,label=product_id". A `split` above 0 is another draw of the classes, for comparisons that repeat
    theirs: commands share the draw 0, so that what one of them trained on no other takes for unseen.
    """
    name, colon, path = spec.partition(":")
    if spec in DATA:
        name, path = spec, ""
    further = entry_points(group="smoothap.datasets")
    if name not in DATA and name not in further.names:
        known = ", ".join([*DATA, *further.names])
        raise ValueError(f"There is no data set called {name!r}.{_data_hint(spec)} Known: {known}.")
    data: DataSet = DATA[name] if name in DATA else further[name].load()
    if data.path and not path:
        raise ValueError(f"{name} needs a path: {name}:PATH, where PATH is {data.path}.")
    if colon and path and not data.path:
        raise ValueError(f"{name} takes no path, but {spec!r} gives one.")
    options = dict(data.options)
    if data.chooses_split:
        options |= {"name": Path(path).name, "test_classes": test_classes}
        if test_fraction is not None:
            options["test_fraction"] = test_fraction
    elif test_fraction is not None or test_classes is not None:
        raise ValueError(
            f"{name} comes with its split: the test classes can be chosen for album, {_listed('chooses_split')}."
        )
    if columns is not None and data.opener != "own:table":
        raise ValueError(f"{name} has no columns to name: --columns is for csv and parquet.")
    if columns is not None:
        options["columns"] = columns
    if split and (not data.drawn or test_classes is not None):
        raise ValueError(
            f"{name} has one split of its classes here: others can be drawn for album, {_listed('drawn')}, without "
            "--test-classes."
        )
    if split:
        options["seed"] = split
    try:
        opener = data.opener
        if isinstance(opener, str):
            module, _, function = opener.partition(":")
            opener = getattr(import_module(f"smoothap.data.datasets.{module}"), function)
        return opener(Path(path).expanduser(), **options) if data.path else opener(**options)
    except ModuleNotFoundError as missing:
        if (install := remedy(missing.name)) is None:
            raise
        raise ValueError(f"The set {name} needs {str(missing.name).partition('.')[0]}: {install}") from missing


def _listed(kind: str) -> str:
    *first, last = (name for name, data in DATA.items() if getattr(data, kind))
    return f"{', '.join(first)} and {last}"


def _data_hint(spec: str) -> str:
    """The question whether something else was meant: a path without its word, or a name that is spelled nearly so."""
    name, place = spec.partition(":")[0], Path(spec).expanduser()
    if place.suffix.lower() in (".csv", ".parquet"):
        return f" Did you mean {place.suffix.lower()[1:]}:{spec}?"
    if "/" in name or "\\" in name or place.is_dir():
        return f" Did you mean folder:{spec}?"
    near = difflib.get_close_matches(name, DATA, 1)
    return f" Did you mean {near[0]}?" if near else ""
