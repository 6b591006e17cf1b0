"""`smoothap train` and `smoothap evaluate`, as typed."""

import json
import os
import pickle
import re
import shlex
import signal

import numpy as np
import pytest
from guarantees import LONG
from photo_makers import pattern_folder
from safetensors.torch import load_file

from smoothap.benchmark.methods import METHODS
from smoothap.cli import app
from smoothap.cli._options import NOT_IMPROVED
from smoothap.losses import SmoothAP
from smoothap.metrics import evaluate
from smoothap.models import Embedder

SIDE = 24


@pytest.fixture
def photos(tmp_path):
    return pattern_folder(tmp_path / "photos", 16, 5)


@pytest.fixture
def vectors(tmp_path):
    random = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", random.normal(size=(40, 6)).astype(np.float32))
    np.save(tmp_path / "y.npy", np.arange(40) % 8)
    np.save(tmp_path / "g.npy", random.normal(size=(30, 6)).astype(np.float32))
    np.save(tmp_path / "gl.npy", np.arange(30) % 8)
    return tmp_path


def smoothap(*words):
    app([str(word) for word in words], result_action="return_value", exit_on_error=False)


def train(photos, out, *more, expected=(0, NOT_IMPROVED)):
    """Train for a step or two, which may well teach the network nothing."""
    code = exit_code(
        *("train", "--data", f"folder:{photos}", "--out", out, "--model", "test_resnet", "--weights", "none"),
        *("--size", SIDE, "--dimension", 16, "--device", "cpu", *more),
    )
    assert code in expected


def exit_code(*words):
    try:
        smoothap(*words)
    except SystemExit as ended:
        return ended.code
    return 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--milestones", 2), "--milestones is for --schedule steps: give both"),
        (("--preset", "paper", "--momentum", 0.5), "--momentum is for --optimiser sgd: give both"),
        (("--memory-after", 5), "memory_after is for past batches: give memory_size too"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(photos, tmp_path, words, sentence):
    with pytest.raises(ValueError, match=sentence):
        smoothap("train", *words, "--data", f"folder:{photos}", "--out", tmp_path / "run", "--weights", "none")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--feature-views", 2), "--feature-views is for --frozen"),
        (("recipes/sop_384.py", "--frozen"), "--frozen is for trainings without a recipe"),
        (("--frozen", "--feature-views", -1), "at least 0, not -1"),
        (("--frozen", "--dry-run"), "--dry-run is for trainings of the whole network"),
        (("--hidden", -1), "at least 1, or 0 for one linear layer"),
    ],
)
def test_options_of_frozen_trainings_that_make_no_sense_are_refused(photos, tmp_path, words, sentence):
    with pytest.raises(ValueError, match=sentence):
        smoothap("train", *words, "--data", f"folder:{photos}", "--out", tmp_path / "run", "--weights", "none")


@pytest.mark.parametrize("loss", METHODS if LONG else ("smooth-ap", "xbm", "divide-and-conquer", "softmax"))
def test_every_method_trains_by_its_name(photos, tmp_path, loss):
    options = ("--loss-option", "clusters=2") if loss == "divide-and-conquer" else ()
    train(photos, tmp_path / "run", "--steps", 2, "--loss", loss, *options)
    settings = json.loads((tmp_path / "run" / "checkpoint.json").read_text())["config"]
    assert settings["loss"].partition(":")[0] == loss
    assert settings["memory_size"] == (30 if loss == "xbm" else 0)


def test_options_reach_the_loss_and_belong_to_the_training(photos, tmp_path):
    words = ("--steps", 2, "--loss", "margin", "--loss-option", "beta=0.7", "--loss-option", "beta_rate=1e-9")
    train(photos, tmp_path / "run", *words)
    described = json.loads((tmp_path / "run" / "checkpoint.json").read_text())
    beta = load_file(tmp_path / "run" / described["tensors"])["loss.loss.beta"]
    assert beta.tolist() == pytest.approx([0.7] * 6)
    with pytest.raises(ValueError, match=r"loss was margin:beta=0\.7:beta_rate=1e-09 and is triplet"):
        train(photos, tmp_path / "run", "--steps", 2, "--loss", "triplet", "--resume")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--loss", "tripet"), r"no method called 'tripet'\. Did you mean triplet\?"),
        (("--loss", "softmax+triplet"), "--loss takes one method: smooth-ap, .*, not 'softmax.triplet'"),
        (("--loss", "triplet", "--loss-option", "m=1"), r"triplet has no option 'm'\. It has: margin\."),
        (("--loss", "triplet", "--loss-option", "margin"), "--loss-option takes KEY=VALUE, .*, not 'margin'"),
        (("--loss-option", "margin=1"), "--loss-option belongs to a loss: name it with --loss NAME"),
    ],
)
def test_a_loss_that_there_is_not_is_told_before_anything_runs(photos, tmp_path, words, message):
    with pytest.raises(ValueError, match=message):
        train(photos / "nowhere", tmp_path / "run", *words)


def test_the_next_command_tests_on_the_classes_that_were_left_out(photos, tmp_path, capsys):
    train(photos, tmp_path / "run", "--steps", 2, "--seed", 3, "--test-fraction", 0.25)
    told = capsys.readouterr().out
    (line,) = [each for each in told.splitlines() if each.startswith("Next: smoothap evaluate")]
    assert line.endswith("--test-fraction 0.25")
    smoothap(*shlex.split(line)[2:], "--json")
    found = json.loads(capsys.readouterr().out)["test"]["mean_average_precision"]
    saved = json.loads((tmp_path / "run" / "model" / "model.json").read_text())["metrics"]["after"]["test"]
    assert found == saved["mean_average_precision"]


def test_a_table_that_lists_each_file_twice_is_warned_of(photos, tmp_path, capsys):
    files = sorted(photos.rglob("*.png"))
    for times in (1, 2):
        lines = [f"{file.relative_to(tmp_path)},{file.parent.name}" for file in files * times]
        (tmp_path / "photos.csv").write_text("\n".join(["path,label", *lines]) + "\n")
        exit_code(
            *("train", "--data", f"csv:{tmp_path / 'photos.csv'}", "--out", tmp_path / f"run {times}", "--steps", 1),
            *("--model", "test_resnet", "--weights", "none", "--size", SIDE, "--dimension", 16, "--device", "cpu"),
        )
        trained = capsys.readouterr().out
        model = tmp_path / f"run {times}" / "model"
        smoothap("evaluate", "--model", model, "--data", f"csv:{tmp_path / 'photos.csv'}")
        for text in (trained, capsys.readouterr().out):
            warning = "Warning: 80 of 80 queries have an exact copy of themselves"
            assert (warning in text) == (times == 2)


def test_features_of_nothing_but_zeros_are_told_and_not_ranked(photos, tmp_path, capsys, monkeypatch):
    forward = Embedder.forward

    def blank(self, images):
        vectors = forward(self, images)
        return vectors if any(name.startswith("embedding") for name, _ in self.named_parameters()) else 0 * vectors

    monkeypatch.setattr(Embedder, "forward", blank)
    train(photos, tmp_path / "run", "--steps", 1)
    told = capsys.readouterr().out
    assert "test_resnet gives nothing but zeros for 40 of 40 images of 24 pixels" in told
    assert "before is the network with a random embedding layer" in told
    monkeypatch.setattr(Embedder, "forward", lambda self, images: 0 * forward(self, images))
    with pytest.raises(ValueError, match="give a larger --size"):
        smoothap("evaluate", "--model", tmp_path / "run" / "model", "--data", f"folder:{photos}")


def test_a_batch_of_one_class_is_refused(photos, tmp_path):
    with pytest.raises(ValueError, match="take at least 8"):
        train(photos, tmp_path / "run", "--batch-size", 4)


def test_an_interruption_says_how_to_go_on(photos, tmp_path, capsys, monkeypatch):
    forward = SmoothAP.forward

    def interrupting(self, *arguments, **further):
        os.kill(os.getpid(), signal.SIGINT)
        return forward(self, *arguments, **further)

    with monkeypatch.context() as patched:
        patched.setattr(SmoothAP, "forward", interrupting)
        train(photos, tmp_path / "run", "--steps", 3, expected=(130,))
    assert "Interrupted after step 1. To go on, repeat the command with --resume." in capsys.readouterr().out
    train(photos, tmp_path / "run", "--steps", 3, "--resume")
    assert re.search(r"is step \d of 3\.", capsys.readouterr().out)


def test_the_settings_of_the_paper_are_a_word_away(photos, tmp_path):
    train(photos, tmp_path / "run", "--steps", 1, "--preset", "paper", "--tau", 0.02)
    used = json.loads((tmp_path / "run" / "checkpoint.json").read_text())["config"]
    assert (used["learning_rate"], used["weight_decay"], used["optimiser"]) == (1e-5, 4e-5, "adam")
    assert used["head_init"] == "random"
    assert used["tau"] == 0.02
    assert used["batch_size"] == 24  # as many as 6 classes fill


def test_a_training_that_improves_nothing_says_so_and_keeps_the_network(photos, tmp_path, capsys):
    hopeless = ("--steps", 2, "--learning-rate", 1e-12)
    train(photos, tmp_path / "run", *hopeless, expected=(NOT_IMPROVED,))
    printed = capsys.readouterr().out
    assert "The training did not improve the network: no step ranked the validation classes better" in printed
    assert "Try more steps or epochs, a lower learning rate" in printed
    assert "smoothap export" not in printed
    described = json.loads((tmp_path / "run" / "model" / "model.json").read_text())
    assert described["metrics"]["improved"] is False
    assert described["metrics"]["best step"] == 0


def test_too_few_classes_are_told(photos, tmp_path):
    (tmp_path / "few").mkdir()
    for name in ("thing 0", "thing 1", "thing 2", "thing 3"):
        (photos / name).rename(tmp_path / "few" / name)
    with pytest.raises(ValueError, match="has 2 classes to train on, too few"):
        train(tmp_path / "few", tmp_path / "run")


def test_evaluate_of_files(vectors, capsys):
    smoothap("evaluate", "--embeddings", vectors / "x.npy", "--labels", vectors / "y.npy", "--recall-at", "1,5",
             "--json", "--out", vectors / "report.json")  # fmt: skip
    metrics = json.loads(capsys.readouterr().out)
    expected = evaluate(np.load(vectors / "x.npy"), np.load(vectors / "y.npy"), recall_at=(1, 5))
    assert metrics["mean_average_precision"] == expected.mean_average_precision
    assert metrics["recall"] == {"1": expected.recall[1], "5": expected.recall[5]}
    assert (vectors / "report.json").read_text() == json.dumps(json.loads(expected.to_json()), indent=1) + "\n"


def test_a_file_that_would_run_code_is_refused(vectors):
    np.save(vectors / "objects.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"objects.npy holds pickled Python objects, which can run code"):
        smoothap("evaluate", "--embeddings", vectors / "x.npy", "--labels", vectors / "objects.npy")
    (vectors / "bare.npy").write_bytes(pickle.dumps([1, 2, 3]))
    with pytest.raises(ValueError, match=r"bare.npy holds pickled Python objects"):
        smoothap("evaluate", "--embeddings", vectors / "bare.npy", "--labels", vectors / "y.npy")


def test_a_file_cut_short_is_told(vectors):
    content = (vectors / "x.npy").read_bytes()
    (vectors / "cut.npy").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"cut.npy is not a whole .npy file"):
        smoothap("evaluate", "--embeddings", vectors / "cut.npy", "--labels", vectors / "y.npy")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Give --embeddings and --labels, or --model and --data"),
        (("--embeddings", "x.npy"), "Vectors and labels go together"),
        (("--model", "somewhere"), "--model needs --data"),
        (("--embeddings", "x.npy", "--labels", "y.npy", "--recall-at", "1;2"), "'1;2' is not a list of positive whole"),
        (("--embeddings", "x.npy", "--labels", "y.npy", "--recall-at", "0,5"), "'0,5' is not a list of positive whole"),
        (("--embeddings", "x.npy", "--labels", "y.npy", "--data", "emoji"), "--data goes with --model"),
        (("--embeddings", "x.npy", "--labels", "y.npy", "--test-fraction", "0.5"), "--test-fraction goes with --model"),
        (
            ("--model", "m", "--data", "emoji", "--gallery", "x.npy", "--gallery-labels", "y.npy"),
            "--gallery goes with --embeddings",
        ),
        (("--embeddings", "x.txt", "--labels", "y.npy"), "are read from .npy files"),
    ],
)
def test_what_is_missing_is_told(words, message):
    with pytest.raises(ValueError, match=message):
        smoothap("evaluate", *words)


def test_evaluate_compares_with_another_evaluation(vectors, capsys):
    files = ("evaluate", "--embeddings", vectors / "x.npy", "--labels", vectors / "y.npy")
    smoothap(*files, "--out", vectors / "first.json")
    capsys.readouterr()
    np.save(vectors / "x.npy", np.load(vectors / "x.npy")[:, ::2].copy())
    smoothap(*files, "--against", vectors / "first.json")
    told = capsys.readouterr().out
    assert re.search(r"^mAP +[+-]\d+\.\d \([+-]\d+\.\d to [+-]\d+\.\d\), better for \d+% of the queries", told, re.M)
    smoothap(*files, "--against", vectors / "first.json", "--json")
    metrics = json.loads(capsys.readouterr().out)
    assert set(metrics["difference"]["mean_average_precision"]) == {"value", "low", "high", "won", "lost"}
    assert (
        metrics["interval_95"]["recall_at_1"][0] <= metrics["recall"]["1"] <= metrics["interval_95"]["recall_at_1"][1]
    )
