"""A compared method as an object: how it is built, what of it is tuned, and the paper's own results for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter as Argument
from inspect import signature
from math import inf
from typing import Any

from smoothap.training.loss import LossParts, TrainingSetup


@dataclass(frozen=True)
class Parameter:
    """A number that a method is built with, by the name of its option, or a setting of the training such as tau.

    Trials draw it between `low` and `high`, evenly or, where it is `logarithmic`, evenly in its logarithm. A range that
    turns out too narrow is moved, but never below `least` or above `most`, beyond which the number has no meaning.
    """

    name: str
    low: float
    high: float
    logarithmic: bool = True
    whole: bool = False
    least: float = 0.0
    most: float = inf

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")


@dataclass(frozen=True)
class PaperResult:
    """A row of the paper: metrics by name, in per cent, on the paper's own data set."""

    table: int
    data_set: str
    metrics: Mapping[str, float]
    note: str = ""


@dataclass(frozen=True)
class Method:
    """One row of a comparison, and a loss for `fine_tune`: called with a setup, it builds what the training needs.

    `start` is the method whose trained weights it is fine-tuned from, if any, and `alone` itself without that; `fixed`
    are options that were given, which no search changes.
    """

    name: str
    title: str
    settings: str  # in words, for the page
    build: Callable[..., LossParts]  # of a `TrainingSetup`; its named arguments are the method's options
    tuned: tuple[Parameter, ...]  # options that a comparison searches
    paper: tuple[PaperResult, ...] = ()
    start: "Method | None" = None
    alone: "Method | None" = None
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, setup: TrainingSetup) -> LossParts:
        """The loss with its fixed options, and what else it brings to the training."""
        return replace(self.build(setup, **self._arguments(self.fixed)), name=self.name)

    @property
    def stages(self) -> "tuple[Method, ...]":
        """The methods that are trained one after the other, this one last; each starts from the one before it."""
        return (self,) if self.start is None else (*self.start.stages, self)

    def with_options(self, **options: Any) -> "Method":
        """This method with some of its options fixed, as a row of its own: numbers, or words that are numbers."""
        arguments = self._arguments(options)
        fixed = dict(zip(options, arguments.values(), strict=True))
        words = ", ".join(f"{name} {_shown(value)}" for name, value in fixed.items())
        return replace(
            self,
            name=":".join([self.name, *(f"{name}={_shown(value, 12)}" for name, value in fixed.items())]),
            title=f"{self.title}, {words}" if words else self.title,
            settings=words or self.settings,
            tuned=tuple(parameter for parameter in self.tuned if parameter.name not in fixed),
            paper=() if words else self.paper,
            fixed={**self.fixed, **fixed},
        )

    def with_values(self, values: Mapping[str, float]) -> "Method":
        """This row with the values that a search has found for it."""
        return replace(self, fixed=values)

    def after(self, first: "Method", paper: tuple[PaperResult, ...] = ()) -> "Method":
        """This method as fine-tuning of a network that `first` has trained, the "+" of Table 4."""
        return replace(
            self,
            name=f"{first.name}+{self.name}",
            title=f"{first.title} + {self.title}",
            settings=f"from the weights trained with {first.title}; {self.settings}",
            paper=paper,
            start=first,
            alone=self,
        )

    def control(self) -> "Method":
        """The last loss in all stages: as many steps, started as often."""
        last = control = self.alone or self
        for _ in self.stages[1:]:
            control = last.after(control)
        return control

    def _arguments(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options as numbers, under the names of the builder's arguments; an error lists the options there are.

        An argument `lambda_`, which has to differ from a word of Python, is the option lambda.
        """
        named = (each for each in signature(self.build).parameters.values() if each.kind is Argument.KEYWORD_ONLY)
        known = {each.name.rstrip("_"): each for each in named}
        for name in options:
            if name not in known:
                raise ValueError(f"{self.name} has no option {name!r}. It has: {', '.join(known) or 'none'}.")
        return {known[name].name: _number(name, value, known[name]) for name, value in options.items()}


def _number(name: str, value: Any, parameter: Argument) -> Any:
    """The value as the argument takes it: a number, a whole number, or several of these."""
    several, whole = "tuple" in str(parameter.annotation), "int" in str(parameter.annotation)
    numbers = value if isinstance(value, tuple | list) else str(value).split(",") if several else [value]
    try:
        converted = [int(str(number)) if whole else float(number) for number in numbers]
    except (TypeError, ValueError):
        what = "whole numbers with commas" if several else "a whole number" if whole else "a number"
        raise ValueError(f"{name} must be {what}, such as {_example(parameter)}, not {value!r}") from None
    return tuple(converted) if several else converted[0]


def _shown(value: Any, digits: int = 6) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else f"{value:.{digits}g}"


def _example(argument: Argument) -> str:
    return "50, by default that of the set" if argument.default is None else _shown(argument.default)
