import json

import numpy as np
import pytest

from smoothap import Report, evaluate


def sample(labels=(0, 0, 1, 1, 2)):
    embeddings = np.random.default_rng(0).standard_normal((len(labels), 4))
    return evaluate(embeddings, list(labels), recall_at=(1, 2))


def test_a_saved_report_loads_as_it_was(tmp_path):
    report = sample()
    report.save(tmp_path / "report.json")
    loaded = Report.load(tmp_path / "report.json")
    assert loaded.to_json() == report.to_json()
    assert loaded.recall == report.recall
    assert np.array_equal(loaded.average_precision, report.average_precision, equal_nan=True)
    assert loaded.first_hit_rank.dtype == report.first_hit_rank.dtype


def test_a_report_without_queries_is_strict_json_too(tmp_path):
    report = sample(range(3))
    report.save(tmp_path / "report.json")
    json.loads((tmp_path / "report.json").read_text(), parse_constant=pytest.fail)
    assert np.isnan(Report.load(tmp_path / "report.json").mean_average_precision)


def test_it_prints_as_a_table_of_percentages():
    text = str(sample())
    assert "mAP " in text
    assert "Recall@2" in text
    assert "without a positive" in text
    assert f"{100 * sample().mean_average_precision:.2f}" in text


def test_a_file_that_is_no_report_is_refused(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="not a saved report"):
        Report.load(tmp_path / "other.json")
