"""The options of a method, as `--loss-option KEY=VALUE` gives them: checked against what its function takes."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any


def checked_options(method: str, build: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, as numbers, under the names of the function's arguments; an error lists the options there are.

    An argument `lambda_`, which has to differ from a word of Python, is the option lambda.
    """
    known = known_options(build)
    for name in given:
        if name not in known:
            raise ValueError(f"{method} has no option {name!r}. It has: {', '.join(known) or 'none'}.")
    return {known[name].name: _number(name, value, known[name]) for name, value in given.items()}


def known_options(build: Callable[..., Any]) -> dict[str, Parameter]:
    """The options of a method by name."""
    named = (each for each in signature(build).parameters.values() if each.kind is Parameter.KEYWORD_ONLY)
    return {each.name.rstrip("_"): each for each in named}


def _number(name: str, value: Any, parameter: Parameter) -> Any:
    """The value as the argument takes it: a number, a whole number, or several of these."""
    several, whole = "tuple" in str(parameter.annotation), "int" in str(parameter.annotation)
    numbers = value if isinstance(value, tuple | list) else str(value).split(",") if several else [value]
    try:
        converted = [int(str(number)) if whole else float(number) for number in numbers]
    except (TypeError, ValueError):
        what = "whole numbers with commas" if several else "a whole number" if whole else "a number"
        raise ValueError(f"{name} must be {what}, such as {_shown(parameter.default)}, not {value!r}") from None
    return tuple(converted) if several else converted[0]


def _shown(default: Any) -> str:
    if default is None:
        return "50, by default that of the set"
    return ",".join(map(str, default)) if isinstance(default, tuple) else f"{default:g}"
