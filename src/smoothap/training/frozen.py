"""Training of the embedding layer alone: the backbone is frozen, and its features are computed once for all trainings.

The sets of a benchmark hand out features in the place of pixels, and an `Embedder` without its backbone takes them. To
the training loop both look like any other set and model.
"""

from dataclasses import dataclass
from pathlib import Path

from smoothap.data.benchmark import Benchmark
from smoothap.models import Embedder

VIEWS = 4  # random ones of each training image, besides the test view


@dataclass(frozen=True, eq=False)
class Frozen:
    """A benchmark as a frozen backbone sees it, for any number of trainings of what comes behind the backbone.

    `benchmark` is the one that was given, with the same names, classes and protocols; its sets, and the parts that
    `train_and_validation` makes of them, hand out features of the backbone. `files` hold them.
    """

    benchmark: Benchmark
    backbone: Embedder
    files: tuple[Path, ...]

    def head(self, dimension: int | None, *, hidden: int = 0, seed: int = 0, saves_backbone: bool = True) -> Embedder:
        """A new embedding layer, drawn by the seed, as an `Embedder` that takes the features of `benchmark`.

        Without a `dimension` it gives the features themselves: the network before training. With `hidden`, a layer of so
        many hidden numbers is added to the linear one. `save` writes an ordinary model, backbone and layer, which opens
        and embeds images like any other; without `saves_backbone` it writes the layer alone, 2 MB in the place of 16,
        for the many models that nobody opens again.
        """
        raise NotImplementedError


def freeze(benchmark: Benchmark, backbone: Embedder, *, views: int = VIEWS, workers: int = 0) -> Frozen:
    """Compute the features that a backbone gives for the sets of a benchmark, or find them in the user's cache.

        frozen = freeze(open_data("emoji"), open_model("tf_efficientnet_lite0", size=64))
        images, validation = frozen.benchmark.train_and_validation(seed)
        model = frozen.head(512, seed=seed)
        train_and_test(model, loss, images, validation, FROZEN, folder, tests=[frozen.benchmark])

    Of each training image `views` random views are kept besides the test view, and a training draws one of them all
    wherever it would draw a random view. An embedding layer that `backbone` has plays no part. The features are
    computed on the device that the backbone is on, by all processes of torchrun together. Processes that start at the
    same time without finding any compute them each for itself, so call it once before you start several.
    """
    raise NotImplementedError
