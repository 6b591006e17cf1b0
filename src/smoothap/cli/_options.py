"""Options that several commands take: each means the same everywhere, and its help is written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from cyclopts import Parameter

if TYPE_CHECKING:
    import torch

Number = TypeVar("Number", int, float)
NOT_IMPROVED = 3  # the exit code of a training that did not improve the network

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
AlbumPlace = Annotated[
    str, Parameter(help="The folder that smoothap index made, or milvus://HOST:PORT/NAME, where album push brought it.")
]
AlbumFolder = Annotated[Path, Parameter(help="The folder that smoothap index made.")]
AsJson = Annotated[Flag, Parameter(name="--json", help="Print the results as JSON.")]
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
    float | None,
    Parameter(
        help="The share of the classes to test on, for folder, album, csv and parquet; by default half, for album a "
        "quarter."
    ),
]
TestClasses = Annotated[
    Path | None,
    Parameter(help="A file that names the classes to test on, one a line, for folder, album, csv and parquet."),
]
TableColumns = Annotated[
    str | None,
    Parameter(help="What the columns of a CSV or Parquet file are called, such as path=image_path,label=product_id."),
]
Device = Annotated[
    str | None, Parameter(help="Such as cpu, cuda or mps; by default the accelerator where there is one.")
]
Workers = Annotated[
    int | None,
    Parameter(
        help="Processes that read images; 0 reads them in this one.",
        show_default=lambda _: "on an accelerator the cores that are there, at most 16; on the CPU 0",
    ),
]
BatchSize = Annotated[int, Parameter(help="Images in a batch.")]
PerClass = Annotated[int, Parameter(help="Images of each class in a batch.")]
Tau = Annotated[float, Parameter(help="The temperature of the sigmoid.")]
Flip = Annotated[
    bool,
    Parameter(
        help="Mirror half of the images; not for things whose mirror image is another thing, such as arrows or letters."
    ),
]
Seed = Annotated[int, Parameter(help="Chooses everything that is left to chance.")]
FigureFolder = Annotated[Path, Parameter(help="The folder for the figures and the numbers.")]


def changes_of(
    config: Any, group: str, default: Callable[[str], str], first: Sequence[str] = (), without: Sequence[str] = ()
) -> type:
    """The fields of a dataclass as options, each None unless it is given; the docstring of the class is their help.

    `default` is what the help tells of a field's default; those that are not among the `first` stand in a group.
    """
    hints, options = get_type_hints(config), []
    for name in (each.name for each in fields(config) if each.name not in without):
        told = default(name)
        shown = Parameter(show_default=(lambda _, told=told: told) if told else False)
        place = Parameter() if name in first else Parameter(group=group)
        kind: Any = hints[name] | None
        options.append((name, Annotated[kind, shown, place], field(default=None)))
    made = make_dataclass(f"{config.__name__}Options", options, frozen=True, kw_only=True)
    made.__doc__, made.__module__ = config.__doc__, __name__  # cyclopts takes a class of the standard library as it is
    return Parameter(name="*")(made)


def given_in(options: Any) -> dict[str, Any]:
    """What was given of the options that `changes_of` made."""
    return {name: value for name, value in vars(options).items() if value is not None}


def number_list(text: str, kind: type[Number]) -> tuple[Number, ...]:
    """Positive numbers with commas between them."""
    try:
        numbers = tuple(map(kind, text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or not all(number > 0 for number in numbers):
        example = (
            "whole numbers with commas, such as 64,128" if kind is int else "numbers with commas, such as 0.1,0.01"
        )
        raise ValueError(f"{text!r} is not a list of positive {example}.")
    return numbers


def chosen_workers(workers: int | None, device: torch.device) -> int:
    """The number of processes that were asked for, or what is best for the device."""
    from smoothap._core.devices import default_workers

    if workers is not None and workers < 0:
        raise ValueError(f"--workers {workers}: give the number of processes that read images, 0 for none.")
    return default_workers(device) if workers is None else workers


def check_folder(out: Path, option: str = "--out") -> None:
    """See before the work that a folder can be made where its results are to go."""
    _check_parents(out, option)
    if out.exists() and not out.is_dir():
        raise ValueError(f"{option} {out} is a file: give a folder, which is made if it is not there.")


def check_file(out: Path, example: str, option: str = "--out") -> None:
    """See before the work that a file can be written where its results are to go."""
    _check_parents(out, option)
    if out.is_dir():
        raise ValueError(f"{option} {out} is a folder: give a file, such as {out / example}.")


def _check_parents(out: Path, option: str) -> None:
    above = next(parent for parent in out.absolute().parents if parent.exists())
    if not above.is_dir():
        raise ValueError(f"{option} {out} lies below {above}, which is a file: give another place.")


def check_network_options(model: str, **options: object) -> None:
    """Refuse what only a network by its timm name takes where `model` is the folder of a trained one."""
    for name, value in options.items():
        if value is not None and Path(model).is_dir():
            raise ValueError(
                f"--{name} is for a network by its timm name, and {model} is the folder of a trained model, which has "
                f"its own {name}: leave --{name} out."
            )


def key_values(words: Sequence[str], option: str) -> dict[str, str]:
    """What a repeated option gives in the form KEY=VALUE, by name."""
    for word in words:
        if not all(word.partition("=")):
            raise ValueError(f"{option} takes KEY=VALUE, such as margin=0.1, not {word!r}")
    return dict(word.split("=", 1) for word in words)
