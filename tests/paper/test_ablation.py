"""Table 5: which trainings it takes, and what is kept of them."""

import json

import numpy as np
import pytest
from scipy import stats

from smoothap.paper.ablation import AblationRun, _agreement, cell, runs_of


def test_one_thing_is_varied_at_a_time_and_the_middle_is_shared():
    cells = runs_of(("tau", "samples-per-class", "batch-size"), (0, 1, 2))
    middle = AblationRun()
    assert cells["tau", 0.01] == cells["samples-per-class", 4] == cells["batch-size", 128]
    for runs in cells.values():
        for run in runs:
            changed = [
                run.tau != middle.tau,
                run.samples_per_class != middle.samples_per_class,
                run.batch_size != middle.batch_size,
            ]
            assert sum(changed) <= 1
    distinct = {run for runs in cells.values() for run in runs}
    assert len(distinct) == 7 * 3 + 2
    assert [run.seed for run in cells["batch-size", 1024]] == [0]


def test_all_see_the_same_number_of_images_and_large_batches_go_in_two_passes():
    seen = {size: AblationRun(batch_size=size).settings(7680) for size in (64, 128, 256, 512, 1024)}
    assert all(abs(settings.steps * size - 7680) <= size / 2 for size, settings in seen.items())
    assert [seen[size].micro_batch_size for size in seen] == [None, None, None, 128, 128]
    assert len({(each.learning_rate, each.optimiser, each.schedule) for each in seen.values()}) == 1


def test_the_verdict_follows_the_order_of_the_means():
    like_the_paper = [
        cell("tau", 0.1, [0.3, 0.31]),
        cell("tau", 0.01, [0.5, 0.52]),
        cell("tau", 0.001, [0.4, 0.41]),
    ]
    assert "τ: 0.01 (51.0) > 0.001 (40.5) > 0.1 (30.5), the paper's order (every seed" in _agreement(like_the_paper, 9)
    other = [cell("tau", 0.1, [0.55]), cell("tau", 0.01, [0.5, 0.6]), cell("tau", 0.001, [0.9])]
    assert "not the paper's best, which is 0.01" in _agreement(other, 9)
    near = [cell("tau", 0.1, [0.5, 0.6]), cell("tau", 0.01, [0.55, 0.65]), cell("tau", 0.001, [0.1])]
    assert "the paper's best, another order behind it (the seeds of the best two overlap)" in _agreement(near, 9)


def test_a_cell_has_the_interval_of_students_t_over_its_seeds():
    results = [0.716, 0.737, 0.733]
    expected = stats.t.interval(0.95, 2, np.mean(results), stats.sem(results))
    row = cell("tau", 0.01, results)
    assert (row["mAP"] - row["95% ±"], row["mAP"] + row["95% ±"]) == pytest.approx(expected)
    assert np.isnan(cell("tau", 0.01, [0.5])["95% ±"])  # one seed says nothing about others


def test_a_finished_training_is_not_repeated_and_other_settings_are_refused(analyse, capsys):
    words = ("ablation", "--vary", "tau", "--batch-size", 16, "--seeds", 1)
    out = analyse(*words, "--images-seen", 32)
    results = sorted((out / "ablation").glob("*/result.json"))
    assert len(results) == 3
    assert not list((out / "ablation").glob("*/training"))
    first = json.loads((out / "ablation.json").read_text())
    assert [(row["value"], row["seeds"], row["paper VF2"]) for row in first["table"]] == [
        (0.1, 1, 0.824), (0.01, 1, 0.844), (0.001, 1, 0.839),
    ]  # fmt: skip
    kept = json.loads(results[0].read_text())
    results[0].write_text(json.dumps(kept | {"test_map": 0.125}))
    assert (
        0.125
        in json.loads((analyse(*words, "--images-seen", 32) / "ablation.json").read_text())["numbers"]["runs"].values()
    )
    with pytest.raises(ValueError, match="is of a run with other settings"):
        analyse(*words, "--images-seen", 48)


def test_too_few_images_or_classes_are_named_with_a_remedy(analyse, capsys):
    with pytest.raises(ValueError, match=r"No class of .* has 16 images.*--vary tau batch-size"):
        analyse("ablation", "--vary", "tau", "samples-per-class")
    with pytest.raises(ValueError, match="9 classes are too few for batches of 128: take --batch-size 36"):
        analyse("ablation", "--vary", "tau")
    with pytest.raises(ValueError, match="nothing called 'margin' to vary"):
        analyse("ablation", "--vary", "margin")
