"""Every recipe of the paper, as typed, on a tiny set in the format of its own: a few steps, small images."""

import ast
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_sets import (
    write_cars,
    write_ijbc,
    write_ijbc_aligned,
    write_inaturalist,
    write_sop,
    write_vehicle_id,
    write_vggface2,
)

from smoothap.cli import app
from smoothap.cli._options import NOT_IMPROVED
from smoothap.data.samplers import BalancedBatches, PairBatches, WholeClassPairs
from smoothap.models import embedder
from smoothap.models.weights import build_backbone
from smoothap.training import finetune as fine_tuning
from smoothap.training.loop import train
from smoothap.training.recipe import load_recipe

FOLDER = Path(__file__).parents[2] / "recipes"
FILES = sorted(FOLDER.glob("*.py"))


def smoothap(*words):
    app([str(word) for word in words], result_action="return_value", exit_on_error=False)


def run(name, data, out, *more, size=32, weights="none"):
    try:
        smoothap(
            *("train", FOLDER / f"{name}.py", "--data", data, "--out", out, "--weights", weights, "--device", "cpu"),
            *(("--size", size) if size else ()),
            *more,
        )
    except SystemExit as ended:
        if ended.code != NOT_IMPROVED:  # a step or two need not teach it anything
            raise


def described(out):
    settings = json.loads((out / "checkpoint.json").read_text())["config"]
    return settings, json.loads((out / "model" / "model.json").read_text())


@pytest.fixture
def batches_used(monkeypatch):
    """The batches that reach the loop of training."""
    used = []

    def spied(*arguments, batches, **further):
        used.append(batches)
        return train(*arguments, batches=batches, **further)

    monkeypatch.setattr(fine_tuning, "train", spied)
    return used


@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize("batch_size", [224, 384])
def test_sop(tmp_path, capsys, batch_size, batches_used):
    run(f"sop_{batch_size}", write_sop(tmp_path / "data"), tmp_path / "run", "--batch-size", 16, "--steps", 2)
    assert [len(each) for each in batches_used] == [30]  # 10 for each pair of 3 groups: hard negatives
    settings, model = described(tmp_path / "run")
    assert (settings["learning_rate"], settings["weight_decay"], settings["optimiser"]) == (1e-5, 4e-5, "adam")
    assert (model["architecture"], model["dimension"]) == ("resnet50.tv_in1k", 512)
    assert list(model["metrics"]["after"]["test"]["recall"]) == ["1", "10", "100", "1000"]
    told = capsys.readouterr().out
    assert "On unseen classes (test):" in told
    assert f"smoothap evaluate --model {tmp_path / 'run' / 'model'} --data sop:{tmp_path / 'data'}" in told


@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize("name", ["sop_recall_4000", "sop_vit_small"])
def test_past_the_paper(tmp_path, name):
    run(name, write_sop(tmp_path / "data"), tmp_path / "run", "--batch-size", 16, "--micro-batch-size", 8, "--steps", 2)
    _, model = described(tmp_path / "run")
    assert model["transform"]["name"] == "released"
    assert list(model["metrics"]["after"]["test"]["recall"]) == ["1", "10", "100", "1000"]


@pytest.mark.usefixtures("networks")
def test_cars_are_trained_with_smooth_ap_and_with_proxies_on_the_first_98_classes(tmp_path, capsys):
    run("cars", write_cars(tmp_path / "data"), tmp_path / "run", "--batch-size", 8, "--steps", 1)
    for name in ("smooth-ap", "proxy-nca"):
        settings, model = described(tmp_path / "run" / name)
        assert (settings["loss"], model["dimension"], model["transform"]["name"]) == (name, 512, "released")
        assert settings["images"] == 32
        report = model["metrics"]["after"]["test"]
        assert (list(report["recall"]), report["queries"]) == (["1", "2", "4", "8"], 16)
    assert "test, in %" in capsys.readouterr().out


@pytest.mark.usefixtures("networks")
def test_vehicle_id(tmp_path):
    options = ("--batch-size", 16, "--steps", 2, "--crops", "released", "--no-flip")
    run("vehicle_id_384", write_vehicle_id(tmp_path / "data"), tmp_path / "run", *options)
    _, model = described(tmp_path / "run")
    assert [model["transform"][name] for name in ("name", "size", "flip")] == ["released", 32, False]
    assert list(model["metrics"]["after"]) == ["small", "medium", "large"]


@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize("batch_size", [224, 384])
def test_inaturalist(tmp_path, batch_size):
    data = write_inaturalist(tmp_path / "data")
    run(f"inaturalist_{batch_size}", data, tmp_path / "run", "--batch-size", 16, "--steps", 2)
    settings, model = described(tmp_path / "run")
    assert settings["head_lr_multiplier"] == 2
    assert list(model["metrics"]["after"]["test"]["recall"]) == ["1", "4", "16", "32"]


@pytest.mark.usefixtures("networks")
def test_faces_with_senet50_are_tested_on_both_sets(tmp_path, capsys):
    data, ijbc = write_vggface2(tmp_path / "data"), write_ijbc(tmp_path / "ijbc")
    run("faces_senet50", data, tmp_path / "run", "--batch-size", 8, "--steps", 2, "--test-on", f"ijbc:{ijbc}")
    _, model = described(tmp_path / "run")
    assert list(model["metrics"]["after"]) == ["test", "ijbc test"]
    assert model["metrics"]["after"]["ijbc test"]["queries"] == 10  # a video is one instance
    assert model["transform"]["channel_order"] == "BGR"
    assert "On unseen classes (ijbc test):" in capsys.readouterr().out


@pytest.fixture(scope="session")
def arcface_weights(tmp_path_factory):
    """Random weights whose batch norms know the size of what passes, without which 50 layers overflow."""
    torch.manual_seed(0)
    network = build_backbone("iresnet50", pretrained=False).train()
    with torch.no_grad():
        network(torch.rand(4, 3, 112, 112) * 2 - 1)
        network(torch.rand(4, 3, 112, 112) * 2 - 1)
    file = tmp_path_factory.mktemp("weights") / "backbone.safetensors"
    save_file(network.state_dict(), file)
    return file


def test_faces_with_arcface_are_tested_on_both_sets(tmp_path, networks, request):
    weights = "none" if networks == "small networks" else request.getfixturevalue("arcface_weights")
    data, ijbc = write_vggface2(tmp_path / "data"), write_ijbc_aligned(tmp_path / "ijbc")
    further = ("--batch-size", 8, "--steps", 1, "--test-on", f"ijbc-aligned:{ijbc}")
    run("faces_arcface", data, tmp_path / "run", *further, size=None, weights=weights)
    _, model = described(tmp_path / "run")
    assert (model["architecture"], model["dimension"], model["transform"]["size"]) == ("iresnet50", None, 112)
    assert list(model["metrics"]["after"]) == ["test", "ijbc-aligned test"]


@pytest.mark.usefixtures("networks")
def test_an_arcface_network_trained_from_nothing_is_the_start_of_the_next(tmp_path):
    data = write_vggface2(tmp_path / "data")
    run("faces_arcface_start", data, tmp_path / "start", "--batch-size", 8, "--steps", 1, size=None)
    settings, model = described(tmp_path / "start")
    assert (settings["loss"], settings["weight_decay"], model["freeze_batch_norm"]) == ("arcface:factor=1", 5e-4, False)
    weights = tmp_path / "start" / "model" / "model.safetensors"
    run("faces_arcface", data, tmp_path / "next", "--batch-size", 8, "--steps", 1, size=None, weights=weights)
    assert described(tmp_path / "next")[1]["freeze_batch_norm"] is True


@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize(
    ("name", "people", "options", "folders"),
    [
        ("ablation_tau", 6, ("--batch-size", 8), ["tau-0.1", "tau-0.01", "tau-0.001"]),
        ("ablation_positives", 12, ("--batch-size", 32), ["positives-4", "positives-8", "positives-16"]),
        ("ablation_batch_size", 76, ("--micro-batch-size", 128), ["batch-64", "batch-128", "batch-256"]),
    ],
)
def test_an_ablation_is_three_trainings_and_a_table(tmp_path, capsys, name, people, options, folders):
    data = write_vggface2(tmp_path / "data", people)
    run(name, data, tmp_path / "run", *options, "--steps", 1, "--epochs", 1, size=16)
    assert all((tmp_path / "run" / folder / "model" / "model.json").is_file() for folder in folders)
    table = capsys.readouterr().out.rpartition("test, in %")[2]
    assert re.findall(r"^(\S+)(?: +\d+\.\d)+$", table, re.MULTILINE) == folders


@pytest.mark.usefixtures("networks")
def test_the_baselines_on_inaturalist_are_four_trainings_and_a_table(tmp_path, capsys, batches_used):
    options = ("--batch-size", 8, "--steps", 1)
    run("inaturalist_baselines", write_inaturalist(tmp_path / "data"), tmp_path / "run", *options)
    names = ["triplet-softhard", "proxy-nca", "fast-ap", "blackbox-ap"]
    table = capsys.readouterr().out.rpartition("test, in %")[2]
    assert re.findall(r"^(\S+)(?: +\d+\.\d){5}$", table, re.MULTILINE) == names  # mAP and Recall@1, 4, 16, 32
    assert [described(tmp_path / "run" / name)[0]["loss"] for name in names] == names
    labels = np.repeat(np.arange(8), 4)
    of_a_class = [each and np.bincount(labels[each.rows(0)[0]]).max() for each in batches_used]
    assert of_a_class == [None, 1, None, None]  # Proxy NCA has one image of a class, the others the usual four


@pytest.mark.usefixtures("networks")
def test_the_baselines_on_faces_are_tested_on_both_sets(tmp_path):
    data, ijbc = write_vggface2(tmp_path / "data"), write_ijbc(tmp_path / "ijbc")
    further = ("--batch-size", 8, "--steps", 1, "--test-on", f"ijbc:{ijbc}")
    run("faces_senet50_baselines", data, tmp_path / "run", *further)
    for name in ("contrastive", "triplet-softhard"):
        settings, model = described(tmp_path / "run" / name)
        assert settings["loss"] == name
        assert list(model["metrics"]["after"]) == ["test", "ijbc test"]


def test_the_baselines_on_aligned_faces_are_tested_on_both_sets(tmp_path, networks, request):
    weights = "none" if networks == "small networks" else request.getfixturevalue("arcface_weights")
    data, ijbc = write_vggface2(tmp_path / "data"), write_ijbc_aligned(tmp_path / "ijbc")
    further = ("--batch-size", 8, "--steps", 1, "--test-on", f"ijbc-aligned:{ijbc}")
    run("faces_arcface_baselines", data, tmp_path / "run", *further, size=None, weights=weights)
    for name in ("contrastive", "triplet-softhard"):
        settings, model = described(tmp_path / "run" / name)
        assert (settings["loss"], model["architecture"]) == (name, "iresnet50")
        assert list(model["metrics"]["after"]) == ["test", "ijbc-aligned test"]


@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize(
    ("name", "loss", "batches", "steps", "frozen"),
    [
        ("sop_baselines", "fast-ap", WholeClassPairs, 15, True),  # 5 and 10 for each pair of 3 groups
        ("sop_baselines", "blackbox-recall", PairBatches, 30, True),
        ("sop_baselines", "xbm", BalancedBatches, 3, False),
        ("sop_margin_baselines", "margin", type(None), None, True),
        ("sop_margin_baselines", "divide-and-conquer", type(None), None, True),
        ("sop_margin_baselines", "mic", type(None), None, True),
    ],
)
def test_a_baseline_on_sop_is_trained_alone_if_it_is_named(tmp_path, batches_used, name, loss, batches, steps, frozen):
    words = ("--loss", loss, "--batch-size", 16, "--steps", 2)
    run(name, write_sop(tmp_path / "data"), tmp_path / "run", *words)
    assert [type(each) for each in batches_used] == [batches]
    assert [each and len(each) for each in batches_used] == [steps]
    assert [folder.name for folder in (tmp_path / "run").iterdir()] == [loss]
    settings, model = described(tmp_path / "run" / loss)
    assert (settings["loss"], model["freeze_batch_norm"]) == (loss, frozen)
    assert model["dimension"] == (512 if loss in ("fast-ap", "blackbox-recall") else 128)


# From the code of each method, which the recipe names.
@pytest.mark.parametrize(
    ("name", "loss", "expected"),
    [
        ("sop_baselines", "fast-ap", {"batch_size": 256, "weight_decay": 0, "head_lr_multiplier": 10, "epochs": 30}),
        ("sop_baselines", "blackbox-recall", {
            "batch_size": 128, "weight_decay": 4e-4, "head_lr_multiplier": 3, "epochs": 80, "milestones": (35,),
            "memory_size": 384,
        }),
        ("sop_baselines", "xbm", {"batch_size": 64, "weight_decay": 5e-4, "learning_rate": 1e-4, "steps": 35_000}),
        ("sop_margin_baselines", "margin", {"batch_size": 112, "epochs": 40, "milestones": (30,), "by_size": False}),
        ("sop_margin_baselines", "divide-and-conquer", {"batch_size": 80, "epochs": 200, "weight_decay": 1e-4}),
        ("sop_margin_baselines", "mic", {"batch_size": 112, "epochs": 45, "milestones": (20, 35), "by_size": False}),
    ],
)  # fmt: skip
def test_a_baseline_has_the_settings_of_its_own_code(name, loss, expected):
    config = load_recipe(FOLDER / f"{name}.py").configs()[loss]
    assert {setting: getattr(config, setting) for setting in expected} == expected


def test_arcface_starts_by_sgd_as_insightface_does():
    config = load_recipe(FOLDER / "faces_arcface_start.py").config
    assert (config.optimiser, config.learning_rate, config.momentum) == ("sgd", 0.1, 0.9)


def test_another_loss_takes_the_place_of_a_recipe_s(tmp_path, monkeypatch):
    monkeypatch.setattr(embedder, "build_backbone", lambda *_, **__: build_backbone("test_resnet", pretrained=False))
    words = ("--batch-size", 8, "--steps", 1, "--no-by-size", "--loss", "fast-ap")
    run("inaturalist_224", write_inaturalist(tmp_path / "data"), tmp_path / "run", *words)
    assert described(tmp_path / "run")[0]["loss"] == "fast-ap"


# From the paper, its supplement and the released code; epochs and drops of SOP and of the faces are our own choice.
@pytest.mark.parametrize(
    ("name", "batch_size", "epochs", "milestones", "factor"),
    [
        ("sop_224", 224, 161, (81, 121), 5),
        ("sop_384", 384, 94, (47, 70), 5),
        ("vehicle_id_384", 384, 400, (200, 300), 1),
        ("inaturalist_224", 224, 90, (40, 70), 2),
        ("inaturalist_384", 384, 90, (40, 70), 2),
        ("faces_senet50", 224, 5, (3, 4), 1),
        ("faces_arcface", 224, 5, (3, 4), 1),
    ],
)
def test_the_settings_are_those_that_the_recipe_states(name, batch_size, epochs, milestones, factor):
    settings = load_recipe(FOLDER / f"{name}.py").config
    assert (settings.batch_size, settings.epochs, settings.milestones) == (batch_size, epochs, milestones)
    assert (settings.learning_rate, settings.weight_decay, settings.optimiser) == (1e-5, 4e-5, "adam")
    assert (settings.tau, settings.samples_per_class, settings.head_lr_multiplier, settings.gamma) == (
        0.01,
        4,
        factor,
        0.3,
    )
    assert (settings.validation_fraction, settings.precision, settings.include_query) == (0, "float32", False)
    assert settings.by_size == name.startswith(("inaturalist", "vehicle"))  # one sampler for both in the released code


def test_each_ablation_changes_one_thing():
    changed = {file.stem: load_recipe(file).varies() for file in FOLDER.glob("ablation_*.py")}
    assert changed == {
        "ablation_tau": {"tau"},
        "ablation_positives": {"samples_per_class"},
        "ablation_batch_size": {"batch_size"},
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recipe_opens_with_the_paper_s_number_and_a_command_that_is_one(file):
    opening = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    parts = dict(re.findall(r"^(Paper|Run|Data|Weights) +(.*)$", opening, re.MULTILINE))
    assert set(parts) == {"Paper", "Run", "Data", "Weights"}
    program, *words = shlex.split(parts["Run"])
    named = f"recipe:{file.stem.replace('_', '-')}"
    assert (program, words[1]) == ("smoothap", named)
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert command.__name__ == "train"
    assert bound.args == (Path(named),)


def test_a_recipe_that_was_cut_short_is_gone_on_with(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(embedder, "build_backbone", lambda *_, **__: build_backbone("test_resnet", pretrained=False))
    words = ("inaturalist_224", write_inaturalist(tmp_path / "data"), tmp_path / "run", "--batch-size", 16)
    run(*words, "--steps", 3, "--minutes", 1e-9)
    assert "that of the last step, 1:" in capsys.readouterr().out
    with pytest.raises(ValueError, match="already holds a training: go on with --resume"):
        run(*words, "--steps", 3)
    run(*words, "--steps", 3, "--resume")
    assert "that of the last step, 3:" in capsys.readouterr().out


def test_weights_that_must_be_fetched_are_asked_for(tmp_path):
    with pytest.raises(ValueError, match=r"faces_senet50.py starts from .*senet50_256.pth .* as --weights FILE"):
        smoothap("train", FOLDER / "faces_senet50.py", "--data", tmp_path, "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--model", "resnet18"), "--model is for trainings without a recipe: copy .*ablation_tau.py"),
        (("--test-fraction", "0.5"), "--test-fraction is for trainings without a recipe"),
        (("--tau", "0.02"), "--tau is what varies in a recipe"),
    ],
)
def test_what_the_recipe_decides_is_not_an_option(tmp_path, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        run("ablation_tau", tmp_path, tmp_path / "run", *options)
