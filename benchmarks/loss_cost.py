"""What Smooth-AP costs, forward and backward, against the bare similarity product and against its peers.

    python benchmarks/loss_cost.py [--quick] [--plot loss_cost.png]

Every ratio compares candidates that took turns in this run. The product is `x @ x.T` with autograd.
"""

import argparse
from pathlib import Path

import torch
from side_by_side import milliseconds, peak_growth, ratio, take_turns
from torch import Tensor

from smoothap import Roadmap, SmoothAP, SupAP
from smoothap.paper.measured_losses import AuthorsSmoothAP

DIMENSION = 512
LIMITS = {(224, 4): 2.0, (384, 4): 2.0, (4096, 4): 1.2, (16384, 4): 1.2, (4096, 16): 1.8, (4096, 64): 4.0}


def balanced(batch: int, samples_per_class: int) -> tuple[Tensor, Tensor]:
    """Random embeddings and the labels of a class-balanced batch."""
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(batch, DIMENSION, generator=generator).requires_grad_()
    return embeddings, torch.arange(batch // samples_per_class).repeat_interleave(samples_per_class)


def product(embeddings: Tensor, upstream: Tensor) -> None:
    """The bare similarity product, forward and backward."""
    embeddings.grad = None
    (embeddings @ embeddings.T).backward(upstream)


def loss(function: torch.nn.Module, embeddings: Tensor, labels: Tensor) -> None:
    """A loss, forward and backward."""
    embeddings.grad = None
    function(embeddings, labels).backward()


def against_the_product(quick: bool) -> list[tuple[int, int, float, float, float]]:
    """Rows (batch, |P|, ms of the product, ms of the loss, ratio)."""
    sizes = [112, 224, 384, 1024, 4096] + ([] if quick else [16384])
    cases = [(batch, 4) for batch in sizes] + [(4096, each) for each in (8, 16, 64)]
    rows = []
    print(f"{'batch':>6} {'|P|':>4} {'product ms':>11} {'Smooth-AP ms':>13} {'ratio':>6}  aim")
    for batch, samples_per_class in cases:
        embeddings, labels = balanced(batch, samples_per_class)
        upstream = torch.randn(batch, batch)
        function = SmoothAP()
        candidates = {
            "product": lambda x=embeddings, up=upstream: product(x, up),
            "loss": lambda f=function, x=embeddings, y=labels: loss(f, x, y),
        }
        rounds, repeats = (40, 20) if batch < 1000 else (15, 2) if batch < 4000 else (9, 1) if batch < 10000 else (3, 1)
        seconds = take_turns(candidates, rounds, repeats)
        row = (
            batch,
            samples_per_class,
            milliseconds(seconds, "product"),
            milliseconds(seconds, "loss"),
            ratio(seconds, "loss", "product"),
        )
        aim = LIMITS.get((batch, samples_per_class))
        print(
            f"{batch:>6} {samples_per_class:>4} {row[2]:>11.2f} {row[3]:>13.2f} {row[4]:>6.2f}  "
            f"{f'<= {aim}' if aim else ''}",
            flush=True,
        )
        rows.append(row)
    return rows


def odd_batches() -> None:
    """Batches that once fell off a fast path, each as a multiple of the product, and the outlier of its own batch."""
    generator = torch.Generator().manual_seed(0)
    near = torch.randn(96, DIMENSION, generator=generator).repeat_interleave(4, 0)
    near = near + 0.5 * torch.randn(384, DIMENSION, generator=generator)
    opposite = near.clone()
    opposite[0] = -opposite[1]
    zipf = torch.multinomial(1 / torch.arange(1, 501, dtype=torch.float), 2048, True, generator=generator)
    fours, many = torch.arange(96).repeat_interleave(4), torch.arange(4).repeat_interleave(128)
    cases = {
        "384 of 4": (SmoothAP(), near, fours),
        "384 of 4, one opposite": (SmoothAP(), opposite, fours),
        "384 of 4, tau 0.005": (SmoothAP(0.005), near, fours),
        "384 of 4, tau 0.005, one opposite": (SmoothAP(0.005), opposite, fours),
        "512 of 128": (SmoothAP(), torch.randn(512, DIMENSION, generator=generator), many),
        "512 of 128, SupAP": (SupAP(), torch.randn(512, DIMENSION, generator=generator), many),
        "512 of 128, ROADMAP": (Roadmap(), torch.randn(512, DIMENSION, generator=generator), many),
        "2,048, zipf classes": (SmoothAP(), torch.randn(2048, DIMENSION, generator=generator), zipf),
        "2,000 of one class": (SmoothAP(), torch.randn(2000, DIMENSION, generator=generator), torch.zeros(2000).long()),
    }
    print("\nOdd batches, as a multiple of the product of the same batch, forward and backward")
    for name, (function, embeddings, labels) in cases.items():
        embeddings.requires_grad_()
        upstream = torch.randn(len(embeddings), len(embeddings))
        candidates = {
            "product": lambda x=embeddings, up=upstream: product(x, up),
            "loss": lambda f=function, x=embeddings, y=labels: loss(f, x, y),
        }
        seconds = take_turns(candidates, *((15, 3) if len(embeddings) < 1000 else (3, 1)))
        print(
            f"  {name:<36}{milliseconds(seconds, 'loss'):9.1f} ms{ratio(seconds, 'loss', 'product'):8.2f}", flush=True
        )


def large_memory() -> None:
    """256 queries against a memory of 60,000 vectors in 100 classes, as a multiple of the product with it."""
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(256, DIMENSION, generator=generator).requires_grad_()
    memory = torch.randn(60_000, DIMENSION, generator=generator)
    labels, memory_labels = (torch.randint(0, 100, (rows,), generator=generator) for rows in (256, 60_000))
    upstream = torch.randn(256, 60_000)

    def product_with_memory() -> None:
        queries.grad = None
        (queries @ memory.T).backward(upstream)

    def loss_with_memory() -> None:
        queries.grad = None
        SmoothAP()(queries, labels, ref_emb=memory, ref_labels=memory_labels).backward()

    seconds = take_turns({"product": product_with_memory, "loss": loss_with_memory}, rounds=5)
    name = "256 x 60,000, 600 positives each"
    print(f"  {name:<36}{milliseconds(seconds, 'loss'):9.1f} ms{ratio(seconds, 'loss', 'product'):8.2f}", flush=True)


def against_peers() -> None:
    """The authors' code and pytorch-metric-learning at batch 384, |P| = 4."""
    from pytorch_metric_learning.losses import FastAPLoss, SmoothAPLoss

    embeddings, labels = balanced(384, 4)
    candidates = {"ours": lambda: loss(SmoothAP(), embeddings, labels)}
    for name, peer in (("SmoothAPLoss", SmoothAPLoss()), ("FastAPLoss", FastAPLoss())):
        candidates[name] = lambda peer=peer: loss(peer, embeddings, labels)
    candidates["authors"] = lambda: loss(AuthorsSmoothAP(4), embeddings, labels)
    seconds = take_turns(candidates, rounds=5)
    print("\nBatch 384, |P| = 4, forward and backward")
    for name, label in (
        ("authors", "the authors' released code, B^3"),
        ("SmoothAPLoss", "pytorch-metric-learning SmoothAPLoss"),
        ("FastAPLoss", "pytorch-metric-learning FastAPLoss"),
    ):
        print(f"  {label:<38} {milliseconds(seconds, name):9.1f} ms, {ratio(seconds, name, 'ours'):7.1f}x ours")


def memory() -> None:
    """Growth of the peak of a fresh process by one forward and backward."""
    setup = (
        "import sys; sys.path.insert(0, {folder!r})\nimport torch, loss_cost\nfrom smoothap import SmoothAP\n"
        "x, y = loss_cost.balanced({batch}, 4)\n"
        "loss_cost.loss(SmoothAP(), *loss_cost.balanced(64, 4))  # what is loaded once is no growth\n"
        "loss_cost.loss(loss_cost.AuthorsSmoothAP(4), *loss_cost.balanced(16, 4))"
    )
    folder = str(Path(__file__).parent)
    ours = peak_growth(setup.format(folder=folder, batch=384), "loss_cost.loss(SmoothAP(), x, y)")
    authors = peak_growth(setup.format(folder=folder, batch=384), "loss_cost.loss(loss_cost.AuthorsSmoothAP(4), x, y)")
    large = peak_growth(setup.format(folder=folder, batch=16384), "loss_cost.loss(SmoothAP(), x, y)")
    print("\nGrowth of the process by one forward and backward")
    print(f"  batch 384: ours {ours:.1f} MB, the authors' code {authors:.0f} MB, {authors / max(ours, 0.1):.0f}x")
    print(f"  batch 16,384, d = 512: ours {large:.0f} MB (aim: at most 200)")


def plot(rows: list[tuple[int, int, float, float, float]], path: Path) -> None:
    """Time against batch size, both axes by powers."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    batches = [row for row in rows if row[1] == 4]
    axes.loglog([row[0] for row in batches], [row[2] for row in batches], "o--", color="#999999", label="x @ x.T alone")
    axes.loglog(
        [row[0] for row in batches], [row[3] for row in batches], "o-", color="#0072B2", label="Smooth-AP, |P| = 4"
    )
    others = [row for row in rows if row[1] != 4]
    axes.loglog(
        [row[0] for row in others],
        [row[3] for row in others],
        "s",
        color="#D55E00",
        label="|P| = " + ", ".join(str(row[1]) for row in others),
    )
    axes.set(xlabel="batch size", ylabel="forward and backward, ms", title="Cost of the loss, d = 512, float32, CPU")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
    print(f"\nPlot: {path}")


def main() -> None:
    """Print all comparisons."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="leave out batch 16,384")
    parser.add_argument("--plot", type=Path, help="write the plot here")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    rows = against_the_product(options.quick)
    odd_batches()
    large_memory()
    against_peers()
    memory()
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
