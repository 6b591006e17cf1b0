"""A recipe: one experiment as a plain Python file, which builds data, model, loss and batches by name."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TypeAlias

from torch import nn

from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import Batches
from smoothap.distributed import Processes
from smoothap.models import Embedder
from smoothap.training.settings import Settings

Weights: TypeAlias = "bool | Path"  # True: the published ones, False: random ones, or a file


@dataclass(frozen=True)
class Recipe:
    """What to train on what and how; a recipe file ends in `recipe = Recipe(...)`.

    Each part is a function, so that nothing is read before the command line has been checked. `settings` is one
    training, or several by name, which are run one after the other, each in a folder of its name. `weights` says which
    file the training starts from where no published weights can be fetched by name: `--weights` must then be given.
    """

    data: Callable[[Path], Benchmark]
    model: Callable[[Weights], Embedder]
    loss: Callable[[Settings], nn.Module]
    settings: "Settings | Mapping[str, Settings]"
    batches: Callable[[ImageSet, Settings, Processes], Batches] | None = None  # by default balanced over the classes
    before: Callable[[Weights], Embedder] | None = None  # the untrained network to compare with; by default `model`
    weights: str = ""

    def trainings(self) -> dict[str, Settings]:
        """The settings by name; a single training has the name ""."""
        return {"": self.settings} if isinstance(self.settings, Settings) else dict(self.settings)

    def varies(self) -> set[str]:
        """The settings in which the trainings differ."""
        several = [each.to_dict() for each in self.trainings().values()]
        return {name for name in several[0] if any(each[name] != several[0][name] for each in several)}


def load_recipe(file: Path) -> Recipe:
    """The recipe of a Python file. The file is run, with all that this user may do: read it first."""
    if not file.is_file():
        raise ValueError(f"There is no recipe {file}: give a Python file, such as recipes/sop_384.py")
    name = f"smoothap_recipe_{file.stem}"
    specification = spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise ValueError(f"{file} is no Python file: a recipe ends in .py")
    module = module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look up the module they are defined in
    specification.loader.exec_module(module)
    recipe = getattr(module, "recipe", None)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{file} defines no recipe: it should end in recipe = Recipe(...), as recipes/sop_384.py does")
    return recipe
