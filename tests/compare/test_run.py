"""What the methods share: the weights they start from, the batches, the validation classes; and what stays theirs."""

from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import torch
from PIL import Image

from smoothap.cli.names import open_methods
from smoothap.compare.held_images import held, hold
from smoothap.compare.run import Conditions, Run, prepare
from smoothap.experiments import open_data, open_model
from smoothap.training.settings import QUICK


def test_all_methods_share_weights_and_batches(photos, tmp_path):
    conditions = Conditions(
        partial(open_data, f"folder:{photos}"), partial(open_model, "test_resnet", size=24, weights="none"),
        32, True, tmp_path / "images",
    )  # fmt: skip
    settings = replace(QUICK, steps=4, batch_size=16, seed=5)
    weights, drawn = [], []
    for method in open_methods("all"):
        if method.name == "divide-and-conquer":
            continue  # its batches come from its clusters
        run = Run(tmp_path / method.name, method, settings, 2)
        ready = prepare(run, conditions, method)
        batches = ready.parts.batches or ready.problem.batches
        drawn.append(list(chain.from_iterable(batches.draws(epoch) for epoch in range(2))))
        weights.append(torch.cat([value.flatten().double() for value in ready.model.state_dict().values()]))
        assert len(ready.benchmark.train_and_validation(5)[1].class_names) == 3
    assert len(drawn) == 19
    assert all(each == drawn[0] for each in drawn)
    assert all(torch.equal(each, weights[0]) for each in weights)


def test_held_images_are_the_images(photos, tmp_path):
    (photos / "thing 0" / "0.png").write_bytes(b"no image")
    Image.new("RGB", (7, 31), "red").save(photos / "thing 1" / "0.png")
    model = open_model("test_resnet", size=24, weights="none")
    benchmark = open_data(f"folder:{photos}")
    hold(benchmark, model.transform, tmp_path / "images")
    again = held(open_data(f"folder:{photos}"), tmp_path / "images")
    for images, kept in ((benchmark.train, again.train), (benchmark.tests["test"], again.tests["test"])):
        for row in range(len(images)):
            if str(images.names[row]).endswith("thing 0/0.png"):
                continue
            np.testing.assert_array_equal(np.asarray(images.read(row)), np.asarray(kept.read(row)))
