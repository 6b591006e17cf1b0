"""The metrics of a test class by class: what intervals over classes are made of."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smoothap.data.benchmark import Benchmark
from smoothap.metrics import Report


def sums_by_class(benchmark: Benchmark, reports: Mapping[str, Report]) -> dict[str, dict[str, list[Any]]]:
    """For each test protocol, its classes by name, how many queries each has, and the sum of every metric over them."""
    found = {}
    for protocol, report in reports.items():
        images = benchmark.tests[benchmark.averages.get(protocol, (protocol,))[0]]
        labels = images.labels if images.is_query is None else images.labels[images.is_query]
        found[protocol] = _sums(report, np.asarray(images.class_names)[np.unique(labels)].tolist())
    return found


def _sums(report: Report, names: Sequence[str]) -> dict[str, list[Any]]:
    counted = report.first_hit_rank > 0
    present, place = np.unique(report.classes[counted], return_inverse=True)
    columns = {
        "mAP": report.average_precision,
        "mAP@R": report.average_precision_at_r,
        **{f"Recall@{k}": report.first_hit_rank <= k for k in report.recall},
    }
    sums = {name: np.bincount(place, values[counted]).tolist() for name, values in columns.items()}
    return {"names": [names[number] for number in present], "queries": np.bincount(place).tolist(), **sums}
