"""What is measured is what it says: the authors' arithmetic, times, and memory that grows with the cube."""

import json
import sys

import pytest
import torch
from oracles import authors_loss

from smoothap.losses import SmoothAP
from smoothap.paper.analysis import Start
from smoothap.paper.cost import cost, peak_megabytes
from smoothap.paper.measured_losses import AUTHORS, OURS, AuthorsSmoothAP, balanced

CPU = torch.device("cpu")


def test_the_authors_way_gives_the_authors_figure():
    embeddings, labels = balanced(24, CPU)
    embeddings = embeddings.detach()
    found = AuthorsSmoothAP()(embeddings, labels)
    assert float(found) == pytest.approx(float(authors_loss(embeddings, 4, 0.01)), abs=1e-5)
    assert float(found) == pytest.approx(float(SmoothAP(include_query=True)(embeddings, labels)), abs=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_sizes": (112, 10)}, "A batch of 10 cannot hold 4 images of each of two classes"),
        ({"batch_sizes": (4,)}, "A batch of 4 cannot hold"),
        ({"rounds": 0}, "Nothing is measured in 0 rounds"),
    ],
)
def test_what_cannot_be_measured_is_told_before_the_work(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        cost(
            Start(model="test_resnet", size=16), out=tmp_path, **({"batch_sizes": (8,), "backbone_rounds": 1} | options)
        )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process its own peak")
def test_the_authors_tensors_take_the_cube_of_the_batch(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "src")
    authors, ours = (peak_megabytes(name, 256, CPU) for name in (AUTHORS, OURS))
    assert authors > 256**3 * 4 / 2**20 > 10 * ours


def test_the_command_puts_the_papers_figures_beside_the_first_row(analyse, capsys, monkeypatch):
    monkeypatch.setattr("smoothap.paper.cost.peak_megabytes", lambda *_: 1.5)
    words = (
        "cost",
        "--model",
        "test_resnet",
        "--size",
        24,
        "--batch-sizes",
        112,
        516,
        "--rounds",
        1,
        "--device",
        "cpu",
    )
    out = analyse(*words, "--backbone-rounds", 1, with_data=False)
    rows = json.loads((out / "cost.json").read_text())["table"]
    first = [(row["loss"], row["paper loss ms"]) for row in rows if row["B"] == 112]
    assert first == [("Blackbox AP", 3.7), ("FastAP", 4.2), (AUTHORS, 6.6), (OURS, None)]
    assert [row["loss"] for row in rows if row["B"] == 516] == ["Blackbox AP", "FastAP", OURS]  # no cube of 516
    assert all(row["backbone ms"] > 0 and 0 < row["loss share"] < 1 for row in rows)
    assert rows[-1]["backbone ms"] == pytest.approx(rows[0]["backbone ms"] * 516 / 112)
