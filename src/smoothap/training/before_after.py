"""A network before and after training, on the same images: what a training was good for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from smoothap.data.dataset import ImageDataset
from smoothap.data.decoded import decoded_once
from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.models import Embedder, open_model
from smoothap.models.embedding import Embedded, NoFeatures, embed_set
from smoothap.plots.rankings import BeforeAfter
from smoothap.training.evaluation import evaluate_embedded, instance_means

Measured = TypeVar("Measured")


def measure_untrained(
    measure: Callable[[Embedder], Measured], backbone: Callable[[], Embedder], new_layer: Callable[[], Embedder]
) -> tuple[Measured, str]:
    """What `measure` says of a network before its training, and a sentence where that needs one.

    The network before training is the backbone with its own features. For very small images these can be nothing but
    zeros, which cannot be ranked; then it is the network with a random embedding layer.
    """
    try:
        return measure(backbone()), ""
    except NoFeatures as blank:
        sentence = f"{blank} Until then, before is the network with a random embedding layer."
        return measure(new_layer()), sentence


def embed_before_and_after(
    before: Embedder, after: Embedder, images: ImageSet, *, unreadable: Path, workers: int = 0
) -> BeforeAfter:
    """Embed and evaluate a set by both models; `unreadable` is the file that will list what cannot be read."""
    held = decoded_once(images, after.transform)

    def embedded(model: Embedder) -> Embedded:
        views = held if model.transform == after.transform else decoded_once(images, model.transform)
        return embed_set(model, ImageDataset(views, model.transform, report=unreadable), workers=workers)

    sides = [embedded(before), embedded(after)]
    reports = [evaluate_embedded(side, images) for side in sides]
    kept = images.rows(sides[0].rows) if len(sides[0].rows) < len(images) else images
    vectors = [side.vectors for side in sides]
    if kept.instances is not None:
        means = [instance_means(rows, kept.instances) for rows in vectors]
        vectors, kept = [mean for mean, _ in means], replace(kept.rows(means[0][1]), instances=None)
    return BeforeAfter(kept, vectors[0], vectors[1], reports[0], reports[1])


def compare_with_untrained(
    data: str,
    model: str,
    *,
    before: str | None = None,
    weights: str | None = None,
    test: str | None = None,
    test_fraction: float | None = None,
    test_classes: Path | None = None,
    columns: str | None = None,
    seed: int = 0,
    device: str | None = None,
    workers: int = 0,
    folder: Path,
) -> BeforeAfter:
    """A test set as the trained model of a folder sees it and as another does: `before`, a folder or a timm name.

    Without `before` that is the same network before it was trained. A network by name sees the views of the trained
    one. `test` names one of the set's test protocols; `folder` receives the list of images that cannot be read.
    """
    if not Path(model).is_dir():
        raise ValueError(
            f"There is no model folder {model}: give the folder that smoothap train wrote, such as runs/mine/model."
        )
    benchmark = open_data(data, test_fraction=test_fraction, test_classes=test_classes, columns=columns).with_tests()
    if test is not None and test not in benchmark.tests:
        raise ValueError(f"{benchmark.name} has no test called {test!r}; it has {', '.join(benchmark.tests)}.")
    images = benchmark.tests[test or next(iter(benchmark.tests))]
    trained = open_model(model).to(device)

    def opened(dimension: int | None) -> Embedder:
        name = before or trained.architecture
        other = open_model(name, size=trained.transform.size, dimension=dimension, weights=weights, seed=seed)
        if before is None or not Path(before).is_dir():
            other.transform = trained.transform
        return other.to(device)

    def measure(other: Embedder) -> BeforeAfter:
        return embed_before_and_after(other, trained, images, unreadable=folder / "unreadable.csv", workers=workers)

    if before is not None:
        return measure(opened(None))
    compared, _ = measure_untrained(measure, lambda: opened(None), lambda: opened(trained.dimension))
    return compared
