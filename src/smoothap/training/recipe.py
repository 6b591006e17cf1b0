"""A recipe: one experiment as a plain Python file, which names its data, model, loss, config and batches."""

import runpy
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from smoothap._core.distributed import joined_processes
from smoothap.data.benchmark import Benchmark
from smoothap.data.names import DATA
from smoothap.models import Embedder
from smoothap.training.config import HERE, RunOptions, TrainingConfig
from smoothap.training.finetune import BatchesOf, FineTuned, fine_tune
from smoothap.training.loss import Loss
from smoothap.training.recipe_files import recipe_file

Weights: TypeAlias = "bool | Path"  # True: the published ones, False: random ones, or a file


@dataclass(frozen=True)
class Recipe:
    """What to train on what and how; a recipe file ends in `recipe = Recipe(...)`.

    Data and networks are functions, so that nothing is read before the command line has been checked. Several
    trainings, which are run one after the other, each in a folder of its name, have a config or a loss by name, or
    both, and may have a model by name; `batches` by name are for those that have some. `weights` says which file the
    training starts from where no published weights can be fetched by name: `--weights` must then be given.
    """

    data: Callable[[Path], Benchmark]
    model: Callable[[Weights], Embedder] | Mapping[str, Callable[[Weights], Embedder]]
    loss: Loss | Mapping[str, Loss]
    config: TrainingConfig | Mapping[str, TrainingConfig]
    batches: BatchesOf | Mapping[str, BatchesOf] | None = None  # by default balanced over the classes
    before: Callable[[Weights], Embedder] | None = None  # the untrained network to compare with; by default `model`
    weights: str = ""

    def configs(self) -> dict[str, TrainingConfig]:
        """The config of each training by name; a single training has the name ""."""
        if not isinstance(self.config, TrainingConfig):
            return dict(self.config)
        return dict.fromkeys(self.loss, self.config) if isinstance(self.loss, Mapping) else {"": self.config}

    def varies(self) -> set[str]:
        """The fields of the config in which the trainings differ."""
        first, *others = (config.to_dict() for config in self.configs().values())
        return {name for name in first if any(other[name] != first[name] for other in others)}

    def trainings(
        self, weights: Weights = True, transform: Mapping[str, Any] | None = None
    ) -> dict[str, partial[FineTuned]]:
        """Each training by name: `fine_tune`, which still needs the data and a folder."""
        return {
            name: partial(
                fine_tune,
                model=partial(self.model[name] if isinstance(self.model, Mapping) else self.model, weights),
                before=None if self.before is None else partial(self.before, weights),
                transform=transform,
                config=config,
                loss=self.loss[name] if isinstance(self.loss, Mapping) else self.loss,
                batches=self.batches.get(name) if isinstance(self.batches, Mapping) else self.batches,
                fit_batch=False,
            )
            for name, config in self.configs().items()
        }

    def with_loss(self, name: str, loss: Loss) -> "Recipe":
        """The recipe with another loss; of one that compares losses, the training with the loss of this name alone."""
        if not isinstance(self.loss, Mapping):
            return replace(self, loss=loss)
        if name not in self.loss:
            raise ValueError(f"this recipe has no training with --loss {name}: it has {', '.join(self.loss)}")
        return replace(self, loss={name: loss}, config={name: self.configs()[name]})


def load_recipe(recipe_or_file: Path | str) -> Recipe:
    """The recipe of a Python file, or of `recipe:NAME`. The file is run, with all that this user may do: read it."""
    file = recipe_file(recipe_or_file)
    if file.suffix != ".py":
        raise ValueError(f"{file} is no Python file: a recipe ends in .py")
    recipe = runpy.run_path(str(file), run_name=f"smoothap_recipe_{file.stem}").get("recipe")
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{file} defines no recipe: it should end in recipe = Recipe(...), as recipe:sop-384 does")
    return recipe


def open_recipe(
    file: Path | str,
    data: str,
    *,
    weights: Weights = True,
    changes: Mapping[str, Any] | None = None,
    loss: tuple[str, Loss] | None = None,
) -> Recipe:
    """The recipe of a file with changes to its config, and another loss, by its name; an error says what clashes."""
    name, colon, path = data.partition(":")
    if colon and name in DATA and DATA[name].path and not Path(data).exists():
        raise ValueError(f"{file} says itself which set it is for: give the path alone, --data {path}.")
    recipe, changes = load_recipe(file), changes or {}
    recipe = recipe if loss is None else recipe.with_loss(*loss)
    clash = [f"--{name.replace('_', '-')}" for name in sorted(recipe.varies() & set(changes))]
    if clash:
        raise ValueError(f"{clash[0]} is what varies in a recipe: copy {file} and change it there")
    if recipe.weights and weights is True:
        raise ValueError(
            f"{file} starts from published weights that must be fetched by hand: {recipe.weights}. Give the file "
            "as --weights FILE (--weights none: random ones, to try the recipe out)"
        )
    changed = {name: replace(config, **changes) for name, config in recipe.configs().items()}
    return replace(recipe, config=changed[""] if list(changed) == [""] else changed)


def run_recipe(
    recipe: Recipe,
    data: str,
    out: Path | str,
    *,
    weights: Weights = True,
    transform: Mapping[str, Any] | None = None,
    test_on: Sequence[str | Benchmark] = (),
    options: RunOptions = HERE,
) -> Generator[tuple[str, FineTuned]]:
    """Every training of a recipe by its name, each when it is done; `data` is what the recipe opens, mostly a path."""
    benchmark, trainings = recipe.data(Path(data).expanduser()), recipe.trainings(weights, transform)
    data_name = data if data.partition(":")[0] in DATA else f"{benchmark.name}:{data}"
    with joined_processes() as processes:
        for number, (name, training) in enumerate(trainings.items(), 1):
            if name and processes.rank == 0:
                print(f"\n{name}: training {number} of {len(trainings)}")
            yield name, training(benchmark, Path(out) / name, test_on=test_on, data_name=data_name, options=options)
