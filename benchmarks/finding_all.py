"""How many photos one looks at until 95% of a thing is found: down one list, or as `What is missing?` offers them.

    python benchmarks/finding_all.py emoji folder:DATA/grocery/images folder:DATA/caltech101/images \\
        [--keep FOLDER] [--plot finding_all.png]

A simulated user has one photo of a thing and wants all others of its class, in an album of all photos of the set. It
looks at photos, twenty at a time, and says of each whether it is right. `one list` goes down the ranking of the first
photo, `search again` asks again with what is marked by now (Rocchio), `what is missing` looks at what `find_next`
offers. Classes are drawn at random among those of enough photos. On the way, the recall that is announced is compared
with the true one.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from labelled_vectors import all_vectors

from smoothap.album.finding_all import LEAST_RIGHT, LEAST_WRONG, Belonging, expected_missing
from smoothap.album.queries import corrected
from smoothap.plots.html import LIGHT

SHARE, BATCH = 0.95, 20
Range = tuple[float, float, float]  # the recall that is announced, its lowest and its highest value
Offer = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, Range | None]]
# From the rows marked right, those marked wrong and all others to the scores of these others, and the recall where one
# is announced.


@dataclass
class Hunt:
    """One user's way: how many photos were found after how many looks, and what recall was announced."""

    size: int
    found: list[int] = field(default_factory=list)  # after each look
    announced: list[tuple[float, float, float, float]] = field(default_factory=list)  # true, expected, lowest, highest

    def looks(self, share: float) -> int:
        """How many photos were looked at until this share of the class was found."""
        return int(np.searchsorted(self.found, np.ceil(share * self.size))) + 1


def hunt(labels: np.ndarray, first: int, offer: Offer) -> Hunt:
    """Look at photos in the order that is offered, until the share is found."""
    label = labels[first]
    way, right, wrong = Hunt(int((labels == label).sum())), [first], list[int]()
    unseen = np.ones(len(labels), bool)
    unseen[first] = False
    while len(right) < np.ceil(SHARE * way.size):
        others = np.flatnonzero(unseen)
        scores, announced = offer(np.array(right), np.array(wrong, np.int64), others)
        if announced is not None:
            way.announced.append((len(right) / way.size, *announced))
        for row in others[np.lexsort((others, -scores))[:BATCH]]:
            unseen[row] = False
            (right if labels[row] == label else wrong).append(int(row))
            way.found.append(len(right))
    return way


def offers(vectors: np.ndarray, first: int) -> dict[str, Offer]:
    """The ways to go on from a first photo."""
    one_ranking = vectors @ vectors[first]

    def one_list(_: np.ndarray, __: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, None]:
        return one_ranking[others], None

    def again(right: np.ndarray, wrong: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, None]:
        return (vectors @ corrected(vectors[first], vectors[right], vectors[wrong]))[others], None

    def missing(right: np.ndarray, wrong: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, Range | None]:
        chances, draws = Belonging(vectors, right, wrong, others).chances()
        if len(right) < LEAST_RIGHT or len(wrong) < LEAST_WRONG:
            return chances, None
        expected, few, many = (len(right) / (len(right) + each) for each in expected_missing(len(right), draws, None))
        return chances, (expected, many, few)

    return {"one list": one_list, "search again": again, "what is missing": missing}


def hunts(vectors: np.ndarray, labels: np.ndarray, firsts: list[int]) -> dict[str, list[Hunt]]:
    """The ways of all users, by what they go by."""
    ways: dict[str, list[Hunt]] = {}
    for first in firsts:
        for kind, offer in offers(vectors, first).items():
            ways.setdefault(kind, []).append(hunt(labels, first, offer))
        print(f"  {[some[-1].looks(SHARE) for some in ways.values()]} for {ways['one list'][-1].size}", flush=True)
    return ways


def report(name: str, ways: dict[str, list[Hunt]]) -> None:
    """Print the looks of each way, and how true the announced recall was."""
    base = np.array([way.looks(SHARE) for way in ways["one list"]])
    print(f"{name}: {len(base)} users, classes of {np.median([way.size for way in ways['one list']]):.0f} (median)")
    for kind, some in ways.items():
        looks = np.array([way.looks(SHARE) for way in some])
        least = np.array([np.ceil(SHARE * way.size) - 1 for way in some])
        ratios = np.log(looks / base)
        off = 1.96 * ratios.std(ddof=1) / np.sqrt(len(ratios))
        share, low, high = np.exp(ratios.mean() + np.array([0, -off, off]))
        print(
            f"  {kind:<16} median {np.median(looks):6.0f}  mean {looks.mean():6.0f}  {share:.2f} ({low:.2f} to "
            f"{high:.2f}) of one list  more than it {np.mean(looks > base):4.0%}  for each photo found "
            f"{np.exp(np.log(looks / least).mean()):.1f}"
        )
    true, expected, lowest, highest = np.array([row for way in ways["what is missing"] for row in way.announced]).T
    inside = (lowest <= true) & (true <= highest)
    print(
        f"  announced recall: off by {np.abs(expected - true).mean():.3f} on average, the true one is in the range "
        f"{inside.mean():.0%} of the time, which is {np.mean(highest - lowest):.2f} wide"
    )


def plot(path: Path, results: dict[str, dict[str, list[Hunt]]]) -> None:
    """The share found by photos looked at for each photo of the class, the median user and the middle half."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    colours = {"one list": "soft", "search again": "blue", "what is missing": "green"}
    lines = {"one list": ":", "search again": "--", "what is missing": "-"}
    for axes, (name, ways) in zip(figure.subplots(1, len(results), squeeze=False)[0], results.items(), strict=True):
        longest = np.median([len(way.found) / way.size for way in ways["one list"]])  # after which its median rests
        steps = np.geomspace(0.5, 1.5 * longest, 160)
        for kind, some in ways.items():
            shares = np.array([[_share(way, step) for step in steps] for way in some])
            low, middle, high = np.quantile(shares, (0.25, 0.5, 0.75), axis=0)
            axes.plot(steps, 100 * middle, lines[kind], color=LIGHT[colours[kind]], label=kind, lw=2)
            axes.fill_between(steps, 100 * low, 100 * high, color=LIGHT[colours[kind]], alpha=0.12, lw=0)
        axes.axhline(100 * SHARE, color=LIGHT["line"], zorder=0)
        axes.set(xscale="log", xlim=(steps[0], steps[-1]), ylim=(0, 101), title=name)
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200) if tick <= steps[-1]]
        axes.minorticks_off()
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.spines[["top", "right"]].set_visible(False)
    axes = figure.axes[0]
    axes.set_ylabel("found, %")
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    figure.supxlabel("photos looked at for each photo of the class", fontsize=10)
    figure.savefig(path, dpi=150)


def _share(way: Hunt, step: float) -> float:
    place = min(round(step * way.size), len(way.found)) - 1
    return (way.found[place] if place >= 0 else 1) / way.size


def main() -> None:
    """Let users look in each set, and print what it took them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="*", default=["emoji"])
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    results = {}
    for data in options.data:
        vectors, labels = all_vectors(options.model, data, 64 if data == "emoji" else None, options.keep)
        sizes, random = np.bincount(labels), np.random.default_rng(0)
        enough = np.flatnonzero(sizes >= (7 if data == "emoji" else 20))
        chosen = random.permutation(enough)[: options.users]
        firsts = [int(random.choice(np.flatnonzero(labels == label))) for label in chosen]
        name = data if ":" not in data else Path(data.partition(":")[2]).parent.name
        name = {"grocery": "Grocery Store", "caltech101": "Caltech-101"}.get(name, name)
        print(f"{name}: {len(labels):,} photos of {len(sizes):,} classes", flush=True)
        results[name] = hunts(vectors, labels, firsts)
    for name, ways in results.items():
        report(name, ways)
    if options.plot is not None:
        plot(options.plot, results)


if __name__ == "__main__":
    main()
