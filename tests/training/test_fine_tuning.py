"""Experiments from Python: the same training and the same numbers as the command gives."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from photo_makers import pattern_folder

from smoothap.cli import app
from smoothap.data.names import open_data
from smoothap.models import Embedder, open_model
from smoothap.training import finetune as fine_tuning
from smoothap.training.config import FROZEN, QUICK, RunOptions
from smoothap.training.evaluation import evaluate_benchmark, evaluate_model
from smoothap.training.finetune import fine_tune
from smoothap.training.loop import alone_in

NETWORK = {"model": "test_resnet", "weights": "none", "size": 24, "dimension": 16}
CPU = RunOptions(device="cpu")


@pytest.fixture
def photos(tmp_path):
    return pattern_folder(tmp_path / "photos", 16, 5)


def test_fine_tune_does_what_the_command_does(photos, tmp_path):
    tuned = fine_tune(
        f"folder:{photos}", tmp_path / "python", config=replace(QUICK, steps=3, seed=2), options=CPU, **NETWORK
    )
    options = {
        "data": f"folder:{photos}",
        "out": tmp_path / "command",
        "steps": 3,
        "seed": 2,
        "device": "cpu",
        **NETWORK,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    with suppress(SystemExit):  # of three steps, which need not teach it anything
        app(["train", *words], result_action="return_value", exit_on_error=False)
    by_python, by_command = (
        json.loads((tmp_path / name / "model" / "model.json").read_text()) for name in ("python", "command")
    )
    assert by_python["metrics"] == by_command["metrics"]
    assert tuned.steps == 3
    assert tuned.before["test"].mean_average_precision == _mean_average_precision(by_command, "before")
    assert tuned.after["test"].mean_average_precision == _mean_average_precision(by_command, "after")


def _mean_average_precision(model, side):
    return model["metrics"][side]["test"]["mean_average_precision"]


def test_too_few_classes_are_refused_before_features_are_computed(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="too few to learn from"):
        fine_tune(
            f"folder:{photos}", tmp_path / "run", frozen=True, config=replace(FROZEN, steps=1), test_fraction=0.9,
            options=CPU, **NETWORK,
        )  # fmt: skip
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("given", [None, 200])
def test_a_batch_shrinks_to_few_classes_and_says_so(photos, tmp_path, capsys, given):
    config = replace(QUICK, steps=1) if given is None else replace(QUICK, steps=1, batch_size=given)
    fine_tune(f"folder:{photos}", tmp_path / "run", config=config, options=CPU, **NETWORK)
    used = json.loads((tmp_path / "run" / "checkpoint.json").read_text())["config"]
    assert used["batch_size"] == 24  # 6 classes, 4 images of each
    asked = given or QUICK.batch_size
    assert f"Batches have 24 images, not {asked}: 4 of each of 6 classes." in capsys.readouterr().out


def test_before_and_after_see_the_same_views(photos, tmp_path, monkeypatch):
    seen, evaluate = [], fine_tuning.evaluate_benchmark
    monkeypatch.setattr(
        fine_tuning,
        "evaluate_benchmark",
        lambda model, *data, **how: seen.append(model.transform) or evaluate(model, *data, **how),
    )
    changes = {"name": "whole", "flip": False}
    settings = replace(QUICK, steps=1)
    fine_tune(f"folder:{photos}", tmp_path / "run", transform=changes, config=settings, options=CPU, **NETWORK)
    assert [(transform.name, transform.flip) for transform in seen] == [("whole", False)] * 2


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "smoothap" / "features"


def test_a_frozen_training_gives_a_whole_model_with_the_metrics_it_told(photos, tmp_path, cache, capsys):
    settings = replace(QUICK, steps=20, learning_rate=1e-2)
    tuned = fine_tune(
        f"folder:{photos}", tmp_path / "run", frozen=True, config=settings, hidden=4, options=CPU, **NETWORK
    )
    told = capsys.readouterr().out
    assert f"MB in {cache}, where the next training finds them." in told
    network = open_model(
        **{name: NETWORK[name] for name in ("weights", "size")}, name="test_resnet", seed=settings.seed
    )
    saved = Embedder.load(tmp_path / "run" / "model")
    for name, value in network.backbone.state_dict().items():
        assert torch.equal(saved.backbone.state_dict()[name], value)
    images = open_data(f"folder:{photos}").tests["test"]
    assert (saved.embed(images) == tuned.model.eval().embed(images)).all()
    report = evaluate_model(str(tmp_path / "run" / "model"), f"folder:{photos}", device="cpu")["test"]
    assert report.mean_average_precision == tuned.after["test"].mean_average_precision
    untrained = evaluate_benchmark(network, open_data(f"folder:{photos}"), unreadable=tmp_path / "bad.csv")["test"]
    assert untrained.mean_average_precision == tuned.before["test"].mean_average_precision


def is_refused(folder):
    """Whether another process would be refused this folder: another thread stands for it."""

    def enter():
        with alone_in(folder):
            pass

    with ThreadPoolExecutor(1) as thread:
        return isinstance(thread.submit(enter).exception(), ValueError)


def test_a_training_is_alone_in_its_folder_until_its_model_is_saved(photos, tmp_path, monkeypatch):
    seen, save, test = [], Embedder.save, fine_tuning.reports_on
    monkeypatch.setattr(
        Embedder, "save", lambda *given, **named: seen.append(is_refused(tmp_path / "run")) or save(*given, **named)
    )
    monkeypatch.setattr(
        fine_tuning,
        "reports_on",
        lambda *given, **named: seen.append(is_refused(tmp_path / "run")) or test(*given, **named),
    )
    fine_tune(f"folder:{photos}", tmp_path / "run", config=replace(QUICK, steps=1), options=CPU, **NETWORK)
    assert len(seen) >= 4  # where it starts from, tests after and before, and with the reports
    assert all(seen)
    assert not is_refused(tmp_path / "run")


def test_all_classes_can_be_trained_on_and_the_last_model_is_kept(photos, tmp_path, capsys):
    settings = replace(QUICK, steps=3, validation_fraction=0)
    tuned = fine_tune(f"folder:{photos}", tmp_path / "all", config=settings, test_fraction=0, options=CPU, **NETWORK)
    assert "16 classes to train on, 0 classes to pick the best epoch, 0 to test on" in capsys.readouterr().out
    assert (tuned.best_step, tuned.before, tuned.after, tuned.improved) == (3, {}, {}, True)
    description = json.loads((tmp_path / "all" / "model" / "model.json").read_text())
    assert description["metrics"]["validation mAP"] is None
    again = fine_tune(
        f"folder:{photos}",
        tmp_path / "all",
        config=settings,
        test_fraction=0,
        options=replace(CPU, resume=True),
        **NETWORK,
    )
    for name, weights in tuned.model.state_dict().items():
        assert torch.equal(weights, again.model.state_dict()[name])


def test_without_validation_the_test_classes_are_still_left_out(photos, tmp_path):
    settings = replace(QUICK, steps=2, validation_fraction=0)
    tuned = fine_tune(f"folder:{photos}", tmp_path / "run", config=settings, options=CPU, **NETWORK)
    assert tuned.after["test"].queries == 40
    assert tuned.best_step == 2
    shorter = fine_tune(f"folder:{photos}", tmp_path / "one", config=replace(settings, steps=1), options=CPU, **NETWORK)
    assert not torch.equal(tuned.model.embedding.weight, shorter.model.embedding.weight)


def test_nothing_to_test_on_is_told(photos, tmp_path):
    with pytest.raises(ValueError, match="has no test classes: hold some out, with a --test-fraction above 0"):
        evaluate_model("test_resnet", f"folder:{photos}", weights="none", test_fraction=0)


def test_images_with_several_labels_are_trained_on_and_tested(photos, tmp_path):
    files = sorted(photos.rglob("*.png")) or sorted(photos.rglob("*.jpg"))
    names = sorted({file.parent.name for file in files})
    rows = ["path,labels"]
    for file in files:
        number = names.index(file.parent.name)
        rows.append(f"{file.relative_to(tmp_path)},{number}" + (f";{number ^ 1}" if file == files[number] else ""))
    table = tmp_path / "table.csv"
    table.write_text("\n".join(rows))
    config = replace(QUICK, steps=2, batch_size=8, samples_per_class=2, memory_size=8, diagnose_every=1)
    tuned = fine_tune(f"csv:{table}", tmp_path / "out", **NETWORK, config=config, options=CPU)
    (report,) = tuned.after.values()
    assert report.queries > 0
    assert (tmp_path / "out" / "metrics.jsonl").read_text().count("approximation_error") == 2
