"""Exact evaluation against the bare product of all scores, and against what others offer.

    python benchmarks/evaluate_speed.py [--rows 20000] [--peers 5000]
    python benchmarks/evaluate_speed.py --once 169396     one evaluation of that size, with the product before it
    python benchmarks/evaluate_speed.py --against ../older/src   another version of this package, in turns with this one

The product makes every score once, in tiles of the evaluator's size, and throws it away. FAISS (flat, k = 1,000) and
pytorch-metric-learning's AccuracyCalculator give fewer metrics, and truncated ones.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch
from side_by_side import milliseconds, peak_growth, ratio, take_turns

from smoothap import evaluate

DIMENSION, TILE = 512, 2048


def clustered(rows: int, samples_per_class: int, spread: float = 2.5) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors of classes that overlap, so that positives and negatives mix as in a real set."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(rows) // samples_per_class
    centres = torch.randn(int(labels.max()) + 1, DIMENSION, generator=generator)
    vectors = centres[labels] + spread * torch.randn(rows, DIMENSION, generator=generator)
    return torch.nn.functional.normalize(vectors), labels


def all_products(vectors: torch.Tensor) -> None:
    """Every score, tile by tile."""
    for top in range(0, len(vectors), TILE):
        for left in range(0, len(vectors), TILE):
            torch.mm(vectors[top : top + TILE], vectors[left : left + TILE].T)


def against_the_product(rows: int) -> None:
    """The two settings of the aims: 5 images a class (products) and 338 (faces)."""
    print(f"{rows:,} x {DIMENSION}, {torch.get_num_threads()} threads")
    for samples_per_class, aim in ((5, 1.3), (338, 1.5)):
        vectors, labels = clustered(rows, samples_per_class)
        candidates = {
            "product": lambda x=vectors: all_products(x),
            "evaluate": lambda x=vectors, y=labels: evaluate(x, y, progress=False),
        }
        seconds = take_turns(candidates, rounds=5)
        report = evaluate(vectors, labels, progress=False)
        print(
            f"  {samples_per_class:>3} a class: product {milliseconds(seconds, 'product'):7.0f} ms, evaluate "
            f"{milliseconds(seconds, 'evaluate'):7.0f} ms, ratio {ratio(seconds, 'evaluate', 'product'):.2f} (aim: at "
            f"most {aim}), mAP {100 * report.mean_average_precision:.1f}",
            flush=True,
        )


def odd_sets() -> None:
    """Sets that once were slow, as a multiple of the product: few classes, scores that tie in bulk or hardly differ."""
    generator = torch.Generator().manual_seed(0)
    near = torch.randn(200, 64, generator=generator).repeat_interleave(50, 0)
    one = torch.randn(1, 128, generator=generator)
    cases = {
        "10,000 codes of 64 times +-1": ((torch.randn(near.shape, generator=generator) + near).sign(), 50),
        "10,000 x 128, all within 1e-6": (one + 1e-6 * torch.randn(10_000, 128, generator=generator), 5),
    }
    for classes in (10, 2):
        centres = torch.randn(classes, 128, generator=generator).repeat_interleave(20_000 // classes, 0)
        vectors = centres + 2.5 * torch.randn(20_000, 128, generator=generator)
        cases[f"20,000 x 128, {classes} classes"] = torch.nn.functional.normalize(vectors), 20_000 // classes
    print("Odd sets, as a multiple of the product")
    for name, (vectors, samples_per_class) in cases.items():
        labels = torch.arange(len(vectors)) // samples_per_class
        candidates = {
            "product": lambda x=vectors: all_products(x),
            "evaluate": lambda x=vectors, y=labels: evaluate(x, y, progress=False),
        }
        seconds = take_turns(candidates, rounds=3)
        print(
            f"  {name:<36}{milliseconds(seconds, 'evaluate'):9.0f} ms{ratio(seconds, 'evaluate', 'product'):8.2f}",
            flush=True,
        )


def against_peers(rows: int) -> None:
    """FAISS flat search and pytorch-metric-learning's calculator on the same vectors."""
    import faiss
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    vectors, labels = clustered(rows, 5)
    array = vectors.numpy()
    calculator = AccuracyCalculator(include=("mean_average_precision",), k=rows - 1)

    def search() -> None:
        index = faiss.IndexFlatIP(DIMENSION)
        index.add(array)
        index.search(array, min(1000, rows))

    candidates = {
        "evaluate": lambda: evaluate(vectors, labels, progress=False),
        "faiss": search,
        "calculator": lambda: calculator.get_accuracy(vectors, labels),
    }
    seconds = take_turns(candidates, rounds=2)
    print(f"{rows:,} x {DIMENSION}, 5 a class")
    print(f"  evaluate, all metrics over the full ranking      {milliseconds(seconds, 'evaluate'):8.0f} ms")
    for name, label in (
        ("faiss", "FAISS flat, first 1,000, no metrics"),
        ("calculator", "AccuracyCalculator, mAP, k = N - 1"),
    ):
        print(f"  {label:<48} {milliseconds(seconds, name):8.0f} ms, {ratio(seconds, name, 'evaluate'):5.1f}x ours")


def with_ties(rows: int) -> None:
    """Ties in bulk beside the same number of rows without: each pair of them is left open by every product."""
    for samples_per_class in (5, 338):
        vectors, labels = clustered(rows, samples_per_class)
        generator = torch.Generator().manual_seed(1)
        halves = torch.cat([vectors[: rows // 2]] * 2)[torch.randperm(rows // 2 * 2, generator=generator)]
        three = vectors[torch.randint(0, 3, (rows,), generator=generator)]
        candidates = {
            "no ties": lambda x=vectors, y=labels: evaluate(x, y, progress=False),
            "half are copies": lambda x=halves, y=labels: evaluate(x, y[: len(x)], progress=False),
            "3 distinct vectors": lambda x=three, y=labels: evaluate(x, y, progress=False),
        }
        seconds = take_turns(candidates, rounds=3)
        for name in ("half are copies", "3 distinct vectors"):
            print(
                f"  {samples_per_class:>3} a class, {name}: {milliseconds(seconds, name):7.0f} ms, "
                f"{ratio(seconds, name, 'no ties'):.2f} times without ties (aim: at most 3)",
                flush=True,
            )


_WORKER = """
import sys, time
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from evaluate_speed import clustered
from smoothap import evaluate
for line in sys.stdin:
    vectors, labels = clustered(*map(int, line.split()))
    evaluate(vectors, labels, progress=False)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        evaluate(vectors, labels, progress=False)
        print(time.perf_counter() - start, flush=True)
        if _.strip() == "last":
            break
"""


def against(source: str, rows: int, rounds: int = 5) -> None:
    """This version and another, each in a process of its own, in turns."""
    here = str(Path(__file__).parent)
    places = {"other": source, "this": str(Path(here).parent / "src")}
    command = [sys.executable, "-c", _WORKER]
    workers = {
        name: subprocess.Popen([*command, place, here], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name, place in places.items()
    }

    def ask(name: str, words: str) -> str:
        worker = workers[name]
        assert worker.stdin is not None
        assert worker.stdout is not None
        print(words, file=worker.stdin, flush=True)
        return worker.stdout.readline()

    for samples_per_class, aim in ((5, 1.15), (338, 1.4)):
        seconds: dict[str, list[float]] = {name: [] for name in workers}
        for name in workers:
            ask(name, f"{rows} {samples_per_class}")
        for number in range(rounds):
            for name in workers:
                seconds[name].append(float(ask(name, "last" if number == rounds - 1 else "again")))
        print(
            f"{rows:,} rows, {samples_per_class:>3} a class: other {milliseconds(seconds, 'other'):7.0f} ms, this "
            f"{milliseconds(seconds, 'this'):7.0f} ms, ratio {ratio(seconds, 'this', 'other'):.2f} (aim against the "
            f"version before certified ranks: at most {aim})",
            flush=True,
        )
    for worker in workers.values():
        worker.kill()


def memory(rows: int) -> None:
    """Growth of a fresh process over the embeddings, at the faces' 338 a class."""
    setup = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nimport evaluate_speed\n"
        f"from smoothap import evaluate\nx, y = evaluate_speed.clustered({rows}, 338)\n"
        "evaluate(x[:800], y[:800], progress=False)"
    )
    growth = peak_growth(setup, "evaluate(x, y, progress=False)")
    print(f"memory above the embeddings, {rows:,} rows, 338 a class: {growth:.0f} MB (aim: at most 1,000)")


def once(rows: int) -> None:
    """One evaluation at the faces' 338 a class, whatever its size, beside one product of all scores."""
    vectors, labels = clustered(rows, 338)
    start = time.perf_counter()
    all_products(vectors)
    between = time.perf_counter()
    report = evaluate(vectors, labels)
    product, ours = between - start, time.perf_counter() - between
    print(
        f"{rows:,} x {DIMENSION}, 338 a class: product {product:,.0f} s, evaluate {ours:,.0f} s, ratio "
        f"{ours / product:.2f}, mAP {100 * report.mean_average_precision:.1f}",
        flush=True,
    )
    memory(rows)


def main() -> None:
    """Print all comparisons."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--peers", type=int, default=5_000)
    parser.add_argument("--once", type=int)
    parser.add_argument("--against", help="the src folder of another version")
    options = parser.parse_args()
    if options.against:
        against(options.against, options.rows)
        return
    if options.once:
        once(options.once)
        return
    against_the_product(options.rows)
    with_ties(options.rows)
    odd_sets()
    against_peers(options.peers)
    memory(options.rows)


if __name__ == "__main__":
    main()
