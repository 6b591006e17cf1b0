"""`smoothap compare` from end to end on small patterns: one table, resumed after a kill, failures as rows."""

import csv
import json
import operator
import os
import signal
import subprocess
import sys
import time

import pytest

from smoothap.benchmark.output import write_output
from smoothap.benchmark.processes import Task, TaskRunner
from smoothap.benchmark.run import RunFailed, RunResult
from smoothap.benchmark.runner import Comparison
from smoothap.cli import app
from smoothap.models.folder import read_model

NAMES = ("divide-and-conquer", "mic")


def smoothap(words):
    app(words, result_action="return_value", exit_on_error=False)


def table_lines(text):
    return [line for line in text.splitlines() if line.startswith("| ")]


@pytest.mark.usefixtures("in_this_process")
def test_one_command_makes_the_tables_the_page_and_the_results(words, tmp_path, capsys):
    more = {"methods": "smooth-ap,triplet", "seeds": 2, "trials": 2, "rounds": 1, "jobs": 2}
    smoothap(words(**more))
    printed = capsys.readouterr().out
    assert "2 methods, 8 trainings of 4 steps" in printed
    lines = table_lines(printed)
    assert [line.split("|")[1].strip() for line in lines] == [
        "Method", "-" * 18, "Untrained", "Smooth-AP", "Triplet, semi-hard",
    ]  # fmt: skip
    assert [name.strip() for name in lines[0].split("|")[2:-1]] == [
        "mAP", "to Smooth-AP", "Group", "mAP@R", "Recall@1", "Seconds", "Peak MB", "Steps", "Chosen",
    ]  # fmt: skip
    out = tmp_path / "out"
    results = json.loads((out / "results.json").read_text())
    assert [(run["method"], run["seed"]) for run in results["runs"]] == [
        (name, seed) for name in ("smooth-ap", "triplet") for seed in (0, 1)
    ]
    for run in results["runs"]:
        assert run["steps"] == 4
        assert [step for step, _, _ in run["curve"]] == [0, 2, 4]
        assert 0 == run["curve"][0][1] < run["curve"][1][1] < run["curve"][2][1] <= 1.1 * run["seconds"]
        assert run["peak_megabytes"] > 100
        assert run["values"] == results["chosen"][run["method"]][0]["values"]
    rows = results["tables"]["test"]
    for row, method in zip(rows[1:], ("smooth-ap", "triplet"), strict=True):
        tests = [run["test"]["test"] for run in results["runs"] if run["method"] == method]
        for name, key in (("mAP", "mean_average_precision"), ("mAP@R", "map_at_r")):
            assert row["metrics"][name]["value"] == pytest.approx(50 * sum(test[key] for test in tests))
        assert row["metrics"]["mAP"]["low"] < row["metrics"]["mAP"]["value"] < row["metrics"]["mAP"]["high"]
    apart = rows[2]["metrics"]["mAP"]["value"] - rows[1]["metrics"]["mAP"]["value"]
    assert rows[2]["differences"]["mAP"]["value"] == pytest.approx(apart)
    page = (out / "page.html").read_text()
    assert page.count("<svg") == 4
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert lines[3] in (out / "table.md").read_text()
    with (out / "table.csv").open() as file:
        assert [float(line["mAP"]) for line in csv.DictReader(file)] == [row["metrics"]["mAP"]["value"] for row in rows]
    latex = (out / "table.tex").read_text()
    assert latex.count(r"\\") == 4
    assert latex.count(r"$\pm$") == 10
    trials = list((out / "search" / "split-0" / "triplet").iterdir())
    assert len(trials) == 2
    assert sum((folder / "fold-0" / "model").exists() for folder in trials) == 1  # the others are not needed

    before = {file: file.stat().st_mtime_ns for file in out.rglob("result.json")}
    smoothap(words(**more))  # all of it is done
    assert {file: file.stat().st_mtime_ns for file in out.rglob("result.json")} == before
    assert table_lines(capsys.readouterr().out) == lines


@pytest.mark.usefixtures("in_this_process")
def test_a_file_of_settings_repeats_one_row_with_the_values_that_were_found(words, tmp_path, capsys):
    smoothap(words(methods="contrastive,triplet", trials=1, rounds=1, rate_only=True))
    (before,) = (line for line in table_lines(capsys.readouterr().out) if line.startswith("| Triplet"))
    again = [
        "compare",
        f"--repeat={tmp_path / 'out' / 'results.json'}",
        f"--out={tmp_path / 'again'}",
        "--device=cpu",
    ]
    smoothap([*again, "--methods=triplet"])
    (after,) = (line for line in table_lines(capsys.readouterr().out) if line.startswith("| Triplet"))
    assert after.split("|")[2].strip() == before.split("|")[2].strip()
    assert not (tmp_path / "again" / "search").exists()
    with pytest.raises(ValueError, match="--repeat says it all: leave --steps out"):
        smoothap([*again, "--steps=5"])
    with pytest.raises(ValueError, match="Say what to compare on: --data emoji"):
        smoothap(["compare", f"--out={tmp_path / 'none'}"])


@pytest.mark.usefixtures("in_this_process")
def test_the_layer_behind_a_frozen_network_is_compared_on_its_features(words, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    smoothap([*words(methods="smooth-ap,softmax+smooth-ap"), "--frozen"])
    assert "the layer behind a frozen network" in capsys.readouterr().out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert not results["failures"]
    assert results["settings"]["frozen"]
    assert not (tmp_path / "out" / "images").exists()
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 2  # of the training images, and of those to test on


def test_a_training_that_is_stopped_before_its_end_is_not_judged(words, capsys):
    smoothap(words(methods="triplet", trials=1, rounds=1, minutes=1e-6))
    (row,) = (line for line in table_lines(capsys.readouterr().out) if line.startswith("| Triplet"))
    assert "failed: --minutes stopped it after 1 of 4 steps, too early to judge it" in row


def test_the_table_and_the_page_warn_of_exact_copies(plan):
    def untrained(copies):
        columns = {name: [0.5, 1] for name in ("mAP", "mAP@R", "Recall@1")}
        report = {"mean_average_precision": 0.5, "recall": {"1": 0.5}, "queries": 7, "skipped": 1, "copies": copies}
        by_class = {"test": {"names": ["one", "two"], "queries": [3, 4], **columns}}
        return Comparison([RunResult("untrained", test={"test": report}, by_class=by_class)], [], [])

    assert "Warning" not in write_output(plan, untrained(0), "smoothap compare")
    warning = "Warning: 6 of 8 queries have an exact copy of themselves"
    assert warning in write_output(plan, untrained(6), "smoothap compare")
    assert warning in (plan.out / "table.md").read_text()
    assert warning in (plan.out / "page.html").read_text()


@pytest.mark.usefixtures("in_this_process")
def test_the_second_stage_starts_from_the_weights_of_the_first(words, tmp_path):
    smoothap(words(methods="softmax+contrastive"))
    runs = tmp_path / "out" / "runs" / "split-0"
    rate = "learning_rate=0.0005"
    folders = [
        runs / name / "+".join([rate] * (1 + name.count("+"))) / "seed-0" for name in ("softmax", "softmax+contrastive")
    ]
    first, second = (json.loads((folder / "result.json").read_text()) for folder in folders)
    assert second["curve"][0][2] == first["validation_map"]  # as good before its first step as the first at its best
    assert first["curve"][0][2] != first["validation_map"]
    final = [read_model(folder / "model")[0] for folder in folders]
    assert set(final[0]) == set(final[1])
    (_, row, control) = json.loads((tmp_path / "out" / "results.json").read_text())["tables"]["test"]
    assert row["steps"] == control["steps"] == "4+4"
    assert control["name"] == "contrastive+contrastive"
    assert "VGGFace2:" in (tmp_path / "out" / "page.html").read_text()


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_same_results(words, tmp_path):
    more = {"methods": ",".join(reversed(NAMES)), "steps": 16, "validations": 8}
    command = [sys.executable, "-m", "smoothap", *words(**more)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    out = tmp_path / "out"
    cut, before_it = (out / "runs" / "split-0" / name / "learning_rate=0.0005" / "seed-0" for name in NAMES)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    process = subprocess.Popen(command, **quiet)
    while not (cut / "checkpoint.json").is_file():
        assert process.poll() is None, "the comparison ended before it could be killed"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (before_it / "result.json").is_file()
    assert not (cut / "result.json").is_file()
    time.sleep(0.5)
    before = (cut / "checkpoint.json").read_bytes()
    time.sleep(0.5)
    assert (cut / "checkpoint.json").read_bytes() == before  # its process ended with it
    subprocess.run(command, check=True, **quiet)
    subprocess.run([*command[:3], *words(**more, out=tmp_path / "whole")], check=True, **quiet)
    results = [json.loads((folder / "results.json").read_text())["runs"] for folder in (out, tmp_path / "whole")]
    for resumed, straight in zip(*results, strict=True):
        for name in ("method", "best_step", "test"):
            assert resumed[name] == straight[name]
        looks = [[(step, value) for step, _, value in run["curve"]] for run in (resumed, straight)]
        assert looks[0] == looks[1]


@pytest.mark.usefixtures("in_this_process")
def test_other_settings_are_not_mixed_into_a_comparison(words):
    smoothap(words(methods="smooth-ap"))
    with pytest.raises(ValueError, match=r"holds a comparison with other settings \(steps was 4 and is 5\)"):
        smoothap(words(methods="smooth-ap", steps=5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 64}, "needs 16 classes, and the set has 9"),
        ({"samples_per_class": 1}, "samples_per_class must be a whole number from 2 on, not 1"),
        ({"seeds": 0}, "seeds must be a whole number from 1 to 900, not 0"),
        ({"folds": 7}, "12 classes can be held out in 2 to 6 folds of two classes or more, not in 7"),
        ({"methods": "smoothap"}, "no method called 'smoothap'"),
    ],
)
def test_wrong_options_are_told_before_anything_runs(words, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        smoothap(words(**options))
    assert not (tmp_path / "out").exists()


def test_other_images_are_not_mixed_into_a_comparison(plan, photos):
    plan.check_folder()
    plan.check_folder()
    moved = sorted(photos.rglob("*.png"))[0]
    moved.rename(moved.with_name("renamed.png"))
    with pytest.raises(ValueError, match=r"holds a comparison of other images or classes than folder:.* has now"):
        plan.check_folder()


def test_a_process_that_is_killed_or_raises_is_a_reason_and_is_not_tried_twice(plan, tmp_path, capsys):
    runner = TaskRunner(plan)
    for work, arguments, reason in [
        (os._exit, (9,), "its process was killed, perhaps for want of memory"),
        (int, ("x",), "invalid literal for int"),
        (operator.truediv, (1, 0), "ZeroDivisionError: division by zero"),
    ]:
        for _ in range(2):
            (failed,) = runner.finish([Task(tmp_path / work.__name__, "a run", work, arguments)])
            assert isinstance(failed, RunFailed)
            assert reason in str(failed)
    assert capsys.readouterr().out.count("a run: failed") == 3


def test_an_interruption_in_a_process_interrupts_the_comparison(plan, tmp_path):
    tasks = [Task(tmp_path / str(number), "a run", signal.default_int_handler, (2, None)) for number in range(2)]
    with pytest.raises(KeyboardInterrupt):
        TaskRunner(plan).finish(tasks)
