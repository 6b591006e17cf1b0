"""The protocol of a comparison, with trainings that are only pretended: who is tried how often, chosen, and paired."""

import json
from dataclasses import replace
from math import log

import pytest

from smoothap.benchmark import compare, read_plan
from smoothap.benchmark.methods import METHODS
from smoothap.benchmark.output import write_output
from smoothap.benchmark.processes import TaskRunner
from smoothap.benchmark.run import RunFailed, RunResult, TrainingRun

UNTRAINED = replace(METHODS["smooth-ap"], name="untrained")
BEST = 1e-3  # the rate at which every method does best, but for those of `BEYOND`


@pytest.fixture
def world(monkeypatch):
    """Trainings whose result follows from their values; `asked` has all of them in their order."""
    asked: list[TrainingRun] = []
    best = {}

    def result(run: TrainingRun, plan) -> RunResult | RunFailed:
        wanted = best.get(run.method.name, BEST)
        if wanted is None or ("failing" in best and best["failing"](run)):
            return RunFailed("the loss is nan")
        asked.append(run)
        good = 0.9 - 0.1 * abs(log(run.values["learning_rate"] / wanted)) + 0.001 * (run.seed % 1000)
        names = sorted(plan.open_benchmark(run.split).tests["test"].class_names)
        sums = [6 * good + 0.1 * number for number in range(len(names))]
        columns = {"names": names, "queries": [6] * len(names), "mAP": sums, "mAP@R": sums, "Recall@1": sums}
        report = {"mean_average_precision": good, "queries": 72, "skipped": 0, "recall": {"1": good}}
        return RunResult(
            run.method.name, run.split, run.seed, run.values, plan.steps, plan.steps, good, good, 1.0,
            ((0, 0.0, 0.1), (plan.steps, 1.0, good)), 100.0, {"test": report}, {"test": columns},
        )  # fmt: skip

    def finish(self, tasks):
        found = []
        for task in tasks:
            if isinstance(task.arguments[0], TrainingRun):
                found.append(result(*task.arguments))
            else:
                _, plan, split = task.arguments
                untrained = TrainingRun(task.folder, UNTRAINED, {"learning_rate": 1e-3}, split, plan.seed(split, 0))
                found.append(result(untrained, plan))
                asked.pop()
        return found

    monkeypatch.setattr(TaskRunner, "finish", finish)
    return asked, best


def trials(asked, method):
    return [run for run in asked if run.method.name == method and not run.test]


def finals(asked, method):
    return [run for run in asked if run.method.name == method and run.test]


def test_without_an_edge_every_method_gets_one_round_of_whole_trainings(world, plan):
    asked, _ = world
    plan = replace(plan, methods="smooth-ap,triplet", trials=6, rate_only=True, learning_rate=BEST, seeds=3)
    comparison = compare(plan)
    for outcome in comparison.rows:
        name = outcome.method.name
        tried = trials(asked, name)
        assert len(tried) == 6
        assert {run.config(plan).steps for run in tried} == {plan.steps}
        chosen = outcome.chosen[0].values["learning_rate"]
        assert chosen == min((run.values["learning_rate"] for run in tried), key=lambda rate: abs(log(rate / BEST)))
        assert {run.values["learning_rate"] for run in finals(asked, name)} == {chosen}
        assert outcome.chosen[0].edges == {}
    assert {run.seed for run in asked if not run.test} == {900}  # which no row of the table uses
    assert all(not run.test for run in asked[:12])


def test_a_number_that_is_fixed_is_in_every_training_and_is_not_searched(world, plan):
    asked, _ = world
    plan = replace(plan, methods="smooth-ap,smooth-ap:tau=0.1", trials=6, learning_rate=BEST, seeds=2)
    _, fixed = compare(plan).rows
    runs = [run for run in asked if run.method.name == fixed.method.name]
    assert {run.values["tau"] for run in runs} == {0.1}
    assert {run.loss().fixed["tau"] for run in runs} == {0.1}
    assert len({run.values["learning_rate"] for run in runs}) >= 6
    assert all(":" not in str(run.folder.relative_to(plan.out)) for run in runs)  # which Windows does not allow
    asked.clear()
    compare(replace(plan, trials=0, out=plan.out.with_name("unsearched")))
    assert {run.values["tau"] for run in asked if run.method.name == fixed.method.name} == {0.1}


def test_an_edge_of_one_method_gives_every_method_another_round(world, plan, capsys):
    asked, best = world
    best["triplet"] = 1e-5
    plan = replace(plan, methods="smooth-ap,triplet,fast-ap", trials=4, rounds=9, rate_only=True, learning_rate=BEST)
    comparison = compare(plan)
    counts = {name: len(trials(asked, name)) for name in ("smooth-ap", "triplet", "fast-ap")}
    assert len(set(counts.values())) == 1
    assert counts["triplet"] > 4
    assert "at an edge" in (printed := capsys.readouterr().out)
    assert "(Triplet, semi-hard: low learning_rate)" in printed
    assert 2e-6 < comparison.rows[1].chosen[0].values["learning_rate"] < 5e-5
    assert comparison.rows[1].chosen[0].edges == {}


def test_an_edge_that_is_left_when_the_rounds_are_over_is_marked(world, plan):
    _, best = world
    best["triplet"] = 1e-9
    plan = replace(plan, methods="smooth-ap,triplet", trials=4, rounds=2, rate_only=True, learning_rate=BEST)
    comparison = compare(plan)
    assert comparison.rows[1].chosen[0].edges == {"learning_rate": "low"}
    text = write_output(plan, comparison, "smoothap compare")
    row = next(line for line in text.splitlines() if line.startswith("| Triplet"))
    assert f"rate {comparison.rows[1].chosen[0].values['learning_rate']:g}* |" in row
    assert "* at an edge of what was tried" in text


def test_seeds_are_paired_over_methods_and_differ_between_splits(world, plan):
    asked, _ = world
    plan = replace(plan, methods="smooth-ap,triplet", seeds=3, splits=2)
    comparison = compare(plan)
    pairs = {(run.split, run.seed) for run in finals(asked, "smooth-ap")}
    assert pairs == {(run.split, run.seed) for run in finals(asked, "triplet")}
    assert len(pairs) == len({seed for _, seed in pairs}) == 6
    text = write_output(plan, comparison, "smoothap compare")
    assert "over seeds, splits and test classes" in text
    (row,) = json.loads((plan.out / "results.json").read_text())["tables"]["test"][2:]
    assert row["differences"]["mAP"]["value"] == pytest.approx(0)
    assert row["spread"]["seeds"] == pytest.approx(0.1)
    assert row["group"] == "a"


def test_a_second_stage_is_searched_when_the_first_is_settled_and_has_a_control(world, plan):
    asked, best = world
    best["softmax"] = 1e-5
    plan = replace(plan, methods="softmax+smooth-ap", trials=4, rounds=5, rate_only=True, learning_rate=BEST)
    comparison = compare(plan)
    assert [outcome.method.name for outcome in comparison.rows] == ["softmax+smooth-ap", "smooth-ap+smooth-ap"]
    assert {outcome.method.name for outcome in comparison.first_stages} == {"softmax", "smooth-ap"}
    last = max(place for place, run in enumerate(asked) if run.method.name == "softmax" and not run.test)
    first = min(place for place, run in enumerate(asked) if run.method.name == "softmax+smooth-ap")
    assert last < first
    rate = next(outcome for outcome in comparison.first_stages if outcome.method.name == "softmax").chosen[0].values
    for run in trials(asked, "softmax+smooth-ap") + finals(asked, "softmax+smooth-ap"):
        assert f"/softmax/learning_rate={rate['learning_rate']:g}/" in run.start.as_posix()
    assert all(result.seconds == 2 for outcome in comparison.rows for result in outcome.results)


def test_a_method_whose_trials_all_fail_is_a_row_that_says_why_and_so_is_what_starts_from_it(world, plan):
    _, best = world
    best["softmax"] = None
    plan = replace(plan, methods="smooth-ap,softmax,softmax+smooth-ap", trials=2)
    failures = {outcome.method.name: outcome.failure for outcome in compare(plan).rows}
    assert failures == {
        "smooth-ap": "",
        "softmax": "the loss is nan",
        "softmax+smooth-ap": "Softmax, normalised, which it starts from, failed: the loss is nan",
        "smooth-ap+smooth-ap": "",
    }


def test_a_trial_is_judged_by_the_mean_of_its_folds(world, plan):
    asked, _ = world
    plan = replace(plan, methods="smooth-ap", trials=3, folds=3, rounds=1, batch_size=8)
    comparison = compare(plan)
    tried = trials(asked, "smooth-ap")
    assert len(tried) == 9
    assert [run.fold for run in tried[:3]] == [0, 1, 2]
    assert [run.seed for run in tried[:3]] == [900, 901, 902]
    best = comparison.rows[0].chosen[0].trials
    assert len(best) == 3
    first = 0.9 - 0.1 * abs(log(tried[0].values["learning_rate"] / BEST))
    assert best[0].validation_map == pytest.approx(first + 0.901)


def test_a_trial_with_a_fold_that_failed_is_not_chosen(world, plan):
    asked, best = world
    plan = replace(plan, methods="smooth-ap", trials=3, folds=3, rounds=1, batch_size=8)
    compare(plan)
    rates = sorted(
        {run.values["learning_rate"] for run in trials(asked, "smooth-ap")}, key=lambda rate: abs(log(rate / BEST))
    )
    best["failing"] = lambda run: run.fold == 1 and run.values["learning_rate"] == rates[0]
    comparison = compare(plan)
    assert comparison.rows[0].chosen[0].values["learning_rate"] == rates[1]


def test_one_file_makes_the_comparison_again_or_one_row_of_it_without_a_search(world, plan, tmp_path):
    asked, _ = world
    plan = replace(plan, methods="smooth-ap,triplet", trials=3, seeds=2)
    first = compare(plan)
    write_output(plan, first, "smoothap compare")
    again = replace(plan, **read_plan(plan.out / "compare.json"), out=tmp_path / "again")
    assert again == replace(plan, out=tmp_path / "again")
    row = replace(plan, **read_plan(plan.out / "results.json"), out=tmp_path / "row")
    asked.clear()
    comparison = compare(replace(row, methods="triplet"))
    assert not trials(asked, "triplet")
    assert [run.values for run in finals(asked, "triplet")] == [first.rows[1].chosen[0].values] * 2
    assert comparison.rows[0].results == first.rows[1].results
    with pytest.raises(ValueError, match=r"is no compare\.json or results\.json of a comparison"):
        read_plan(plan.out / "table.csv")
    (tmp_path / "other.json").write_text('{"name": 1}')
    with pytest.raises(ValueError, match="it has name"):
        read_plan(tmp_path / "other.json")


def test_more_rounds_seeds_and_methods_can_be_added_but_nothing_else_changed(world, plan):
    compare(replace(plan, methods="smooth-ap", trials=2))
    compare(replace(plan, methods="smooth-ap,triplet", trials=2, seeds=2, rounds=3))
    with pytest.raises(ValueError, match=r"other settings \(trials was 2 and is 3\)"):
        compare(replace(plan, methods="smooth-ap", trials=3))
