"""The table of methods: their names, two stages, and the paper's results for them."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from smoothap.benchmark.methods import METHODS, TWO_STAGES, open_methods
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches
from smoothap.models import open_model
from smoothap.training.config import TrainingConfig
from smoothap.training.loss import TrainingSetup


def test_names_of_methods():
    assert [method.name for method in open_methods("all")] == list(METHODS)
    everything = open_methods("triplet,all,two-stages")
    assert [method.name for method in everything] == list(dict.fromkeys(["triplet", *METHODS, *TWO_STAGES]))
    assert all(method.start is not None for method in everything[-6:])
    with pytest.raises(ValueError, match=r"no method called 'smoothap'\. Did you mean smooth-ap\?"):
        open_methods("smoothap")
    with pytest.raises(ValueError, match="Name at least one method"):
        open_methods(" ,")
    (three,) = open_methods("softmax+triplet+smooth-ap, softmax+triplet+smooth-ap")
    assert three.start is not None
    assert three.start.name == "softmax+triplet"


def test_options_are_numbers_under_the_names_of_the_method():
    assert METHODS["blackbox-ap"].with_options(**{"lambda": "2", "margin": 0.1}).fixed == {"lambda": 2.0, "margin": 0.1}
    assert METHODS["recall-at-k"].with_options(k="1,4").fixed == {"k": (1, 4)}
    assert METHODS["recall-at-k"].with_options(k=2).name == "recall-at-k:k=2"
    for name, options, complaint in [
        ("fast-ap", {"bin": "20"}, r"fast-ap has no option 'bin'\. It has: bins\."),
        ("fast-ap", {"bins": "2.5"}, r"bins must be a whole number, such as 50.*, not '2\.5'"),
        ("triplet", {"margin": "wide"}, r"margin must be a number, such as 0\.2, not 'wide'"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            METHODS[name].with_options(**options)
    with pytest.raises(ValueError, match=r"smooth-ap has no option 'margin'\. It has: tau\."):
        open_methods("smooth-ap:margin=1")


@pytest.mark.parametrize(
    ("images", "steps", "memory"), [(59_551, 35_000, (55_000, 1_000)), (40_000, 3_500, (40_000, 100))]
)
def test_the_memory_of_pairs_is_the_released_one_or_the_whole_set(images, steps, memory):
    rows = np.arange(images) // 4
    given = ImageSet("sop train", range(images), rows, range(rows[-1] + 1), lambda row: None)
    config = TrainingConfig(batch_size=64, steps=steps)
    parts = METHODS["xbm"](TrainingSetup(given, None, config, BalancedBatches(rows, 64, 4)))
    assert (parts.changes["memory_size"], parts.changes["memory_after"]) == memory


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_method_can_be_built_with_any_number_of_its_ranges(method):
    rows = np.repeat(np.arange(8), 4)
    images = ImageSet("set", [str(row) for row in rows], rows, [str(name) for name in range(8)], lambda row: None)
    batches = BalancedBatches(images.labels, 16, 4)
    model = open_model("test_resnet", size=24, weights="none", dimension=32)
    setup = TrainingSetup(images, model, TrainingConfig(batch_size=16, steps=4), batches)
    assert 1 <= len(method.tuned) <= 2
    for parameter in method.tuned:
        assert parameter.least <= parameter.low < parameter.high <= parameter.most
        for value in (parameter.low, parameter.high):
            found = {parameter.name: round(value) if parameter.whole else value}
            parts = method.with_values(found)(setup)
            vectors = normalize(torch.randn(16, 32, generator=torch.Generator().manual_seed(0)), dim=1)
            if method.name in ("mic", "divide-and-conquer"):
                continue  # they look at the network, and have tests of their own
            assert parts.loss(vectors, torch.from_numpy(rows[:16])).isfinite()
