"""`smoothap compare` from end to end on small patterns: one table, resumed after a kill, failures as rows."""

import json
import operator
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from smoothap.cli import app
from smoothap.compare._run import RunFailed, RunResult
from smoothap.compare.output import write_output
from smoothap.compare.runner import _Runner
from smoothap.methods import METHODS
from smoothap.models.folder import read_model


def smoothap(words):
    app(words, result_action="return_value", exit_on_error=False)


def test_one_command_makes_the_table_the_page_and_the_results(words, tmp_path, capsys):
    more = {"methods": "smooth-ap", "seeds": 2, "search_steps": 1}
    smoothap(words(**more))
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("| ")]
    assert [line.split("|")[1].strip() for line in lines] == [
        "Method", "-" * 9, "Untrained", "Smooth-AP",
    ]  # fmt: skip
    out = tmp_path / "out"
    results = json.loads((out / "results.json").read_text())
    assert [(run["method"], run["seed"]) for run in results["runs"]] == [("smooth-ap", 0), ("smooth-ap", 1)]
    for run in results["runs"]:
        assert run["steps"] == 4
        assert [step for step, _ in run["curve"]] == [0, 2, 4]
        assert run["peak_megabytes"] > 100
        assert run["learning_rate"] in (5e-4 * 0.3, 5e-4, 5e-4 * 3)
    rows = results["tables"]["test"]
    values = [100 * run["test"]["test"]["mean_average_precision"] for run in results["runs"]]
    assert rows[1]["metrics"]["mAP"]["mean"] == pytest.approx(sum(values) / 2)
    assert rows[1]["metrics"]["mAP"]["spread"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    page = (out / "page.html").read_text()
    assert page.count("<svg") == 2
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert printed.splitlines()[-4].endswith("table.md")
    assert printed.splitlines()[-1].startswith("Next")
    assert lines[3] in (out / "table.md").read_text()

    before = {file: file.stat().st_mtime_ns for file in out.rglob("result.json")}
    smoothap(words(**more))  # all of it is done
    assert {file: file.stat().st_mtime_ns for file in out.rglob("result.json")} == before
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")] == lines


def test_the_table_and_the_page_warn_of_exact_copies(plan, tmp_path):
    def untrained(copies):
        recall = {"1": 0.5}
        report = {"mean_average_precision": 0.5, "recall": recall, "queries": 7, "skipped": 1, "copies": copies}
        return RunResult("untrained", test={"test": report})

    assert "Warning" not in write_output(plan, untrained(0), [], "smoothap compare")
    warning = "Warning: 6 of 8 queries have an exact copy of themselves"
    assert warning in write_output(plan, untrained(6), [], "smoothap compare")
    assert warning in (plan.out / "table.md").read_text()
    assert warning in (plan.out / "page.html").read_text()


def test_the_second_stage_starts_from_the_weights_of_the_first(words, tmp_path):
    smoothap(words(methods="softmax+contrastive"))
    runs = tmp_path / "out" / "runs"
    first = json.loads((runs / "softmax" / "seed-0" / "result.json").read_text())
    second = json.loads((runs / "softmax+contrastive" / "seed-0" / "result.json").read_text())
    assert second["curve"][0][1] == first["validation_map"]  # as good before its first step as the first at its best
    assert first["curve"][0][1] != first["validation_map"]
    final = [read_model(runs / name / "seed-0" / "model")[0] for name in ("softmax", "softmax+contrastive")]
    assert set(final[0]) == set(final[1])
    (_, row) = json.loads((tmp_path / "out" / "results.json").read_text())["tables"]["test"]
    assert row["steps"] == "4+4"
    assert "VGGFace2 mAP 82.8" in row["paper"]


def test_a_method_that_fails_is_a_row_that_says_why(words, tmp_path, capsys):
    smoothap(words(methods="divide-and-conquer,smooth-ap", dimension=12))
    rows = {line.split("|")[1].strip(): line for line in capsys.readouterr().out.splitlines() if line[:2] == "| "}
    assert "failed: an embedding of 12 numbers is too short for 8 slices" in rows["Divide and Conquer"]
    assert "failed" not in rows["Smooth-AP"]
    failures = json.loads((tmp_path / "out" / "results.json").read_text())["failures"]
    assert list(failures) == ["divide-and-conquer"]


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_same_results(words, tmp_path):
    more = {"methods": "mic,divide-and-conquer", "steps": 16, "validations": 8}
    command = [sys.executable, "-m", "smoothap", *words(**more)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    cut, out = tmp_path / "out" / "runs" / "divide-and-conquer" / "seed-0", tmp_path / "out"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    process = subprocess.Popen(command, **quiet)
    while not (cut / "checkpoint.json").is_file():
        assert process.poll() is None, "the comparison ended before it could be killed"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (out / "runs" / "mic" / "seed-0" / "result.json").is_file()
    assert not (cut / "result.json").is_file()
    time.sleep(0.5)
    before = (cut / "checkpoint.json").read_bytes()
    time.sleep(0.5)
    assert (cut / "checkpoint.json").read_bytes() == before  # its process ended with it
    subprocess.run(command, check=True, **quiet)
    subprocess.run([*command[:3], *words(**more, out=tmp_path / "whole")], check=True, **quiet)
    results = [json.loads((folder / "results.json").read_text())["runs"] for folder in (out, tmp_path / "whole")]
    for resumed, straight in zip(*results, strict=True):
        for name in ("method", "curve", "best_step", "test"):
            assert resumed[name] == straight[name]


def test_other_settings_are_not_mixed_into_a_comparison(words):
    smoothap(words(methods="smooth-ap"))
    with pytest.raises(ValueError, match=r"holds a comparison with other settings \(steps was 4 and is 5\)"):
        smoothap(words(methods="smooth-ap", steps=5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 64}, "needs 16 classes, and the set has 9"),
        ({"per_class": 1}, "per_class must be at least 2"),
        ({"seeds": 0}, "seeds must be at least 1, not 0"),
        ({"methods": "smoothap"}, "no method called 'smoothap'"),
    ],
)
def test_wrong_options_are_told_before_anything_runs(words, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        smoothap(words(**options))
    assert not (tmp_path / "out").exists()


def test_the_search_takes_the_best_rate(plan, monkeypatch):
    runner = _Runner(replace(plan, search_steps=1, learning_rate=0.1))
    middle, last = runner._plan.rates[1:]
    validation = {middle: 0.7, last: 0.7}
    monkeypatch.setattr(
        runner, "_searched", lambda method, rate: RunResult(method.name, last_validation_map=validation.get(rate, 0.5))
    )
    assert runner.rate(METHODS["smooth-ap"]) == middle


def test_a_process_that_is_killed_or_raises_is_a_reason_and_is_not_tried_twice(plan, tmp_path, capsys):
    runner = _Runner(plan)
    for work, arguments, reason in [
        (os._exit, (9,), "its process was killed, perhaps for want of memory"),
        (int, ("x",), "invalid literal for int"),
        (operator.truediv, (1, 0), "ZeroDivisionError: division by zero"),
    ]:
        for _ in range(2):
            with pytest.raises(RunFailed, match=reason):
                runner._finish(tmp_path / work.__name__, "a run", work, *arguments)
    assert capsys.readouterr().out.count("a run: failed") == 3


def test_an_interruption_in_a_process_interrupts_the_comparison(plan, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        _Runner(plan)._finish(tmp_path, "a run", signal.default_int_handler, signal.SIGINT, None)


def test_the_help_does_not_import_torch():
    run = "from smoothap.cli import app; app(['compare', '--help'], result_action='return_value')"
    code = f"import sys; {run}; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--search-steps" in result.stdout
    assert result.stdout.strip().endswith("False")
