"""A recipe: one experiment as a plain Python file, which builds data, model, loss and batches by name."""

import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from torch import nn

from smoothap._core.distributed import Processes
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import Batches
from smoothap.models import Embedder
from smoothap.training.recipe_files import recipe_file
from smoothap.training.settings import Settings

Weights: TypeAlias = "bool | Path"  # True: the published ones, False: random ones, or a file


@dataclass(frozen=True)
class Recipe:
    """What to train on what and how; a recipe file ends in `recipe = Recipe(...)`.

    Each part is a function, so that nothing is read before the command line has been checked. `settings` is one
    training, or several by name, which are run one after the other, each in a folder of its name. `loss` is called with
    the settings and the training images, or with the settings alone if it takes no more; where the settings name a
    method (`Settings.loss`), that takes its place. `weights` says which
    file the training starts from where no published weights can be fetched by name: `--weights` must then be given.
    """

    data: Callable[[Path], Benchmark]
    model: Callable[[Weights], Embedder]
    loss: Callable[..., nn.Module] | None
    settings: "Settings | Mapping[str, Settings]"
    batches: Callable[[ImageSet, Settings, Processes], Batches] | None = None  # by default balanced over the classes
    before: Callable[[Weights], Embedder] | None = None  # the untrained network to compare with; by default `model`
    weights: str = ""

    def trainings(self) -> dict[str, Settings]:
        """The settings by name; a single training has the name ""."""
        return {"": self.settings} if isinstance(self.settings, Settings) else dict(self.settings)

    def varies(self) -> set[str]:
        """The settings in which the trainings differ."""
        first, *others = (settings.to_dict() for settings in self.trainings().values())
        return {name for name in first if any(other[name] != first[name] for other in others)}


def load_recipe(recipe_or_file: Path | str) -> Recipe:
    """The recipe of a Python file, or of `recipe:NAME`. The file is run, with all that this user may do: read it."""
    file = recipe_file(recipe_or_file)
    if file.suffix != ".py":
        raise ValueError(f"{file} is no Python file: a recipe ends in .py")
    recipe = runpy.run_path(str(file), run_name=f"smoothap_recipe_{file.stem}").get("recipe")
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{file} defines no recipe: it should end in recipe = Recipe(...), as recipe:sop-384 does")
    return recipe
