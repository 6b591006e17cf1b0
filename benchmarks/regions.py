"""What parts of photos bring to search, and what they cost: products pasted into other photos, in known sizes.

    python benchmarks/regions.py [--data ../shared/data] [--region-size 160] [--large]

24 products are pasted into 12 photos each, at 20, 30, 50 and 70% of the photo's width, among others up to 1,100 photos;
and the same with three other products in every photo. The query is the picture that was pasted, or another photo of the
same product. Grocery Store (MIT) has the products, Caltech 101 (CC BY 4.0) the other photos. `recall@20` is the share
of the 12 that is in the first 20. `--large` times queries over 100,000 made-up photos, which take 1 GB on the disk.
"""

import argparse
import csv
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from smoothap import evaluate
from smoothap.album import Album, index_photos
from smoothap.album.regions import Basis, RegionStore
from smoothap.models import Embedder, open_model
from smoothap.models.regions import (
    PARTS,
    embed_with_maps,
    pooled,
    region_vectors,
    region_view,
    usual_size,
    whole_view,
)

SIZES = (20, 30, 50, 70)
PRODUCTS, PHOTOS_EACH, IN_ALL = 24, 12, 1100
OTHERS = 3  # products beside the one that is looked for
LONGER = 480  # pixels of a photo: those of Caltech 101 are small
WAYS: dict[str, dict[str, Any]] = {
    "whole photos": {"rerank": False}, "whole photos, reranked": {},
    "parts": {"space": "region", "rerank": False}, "parts, reranked": {"space": "region"},
}  # fmt: skip
WHOLE = 600  # photos of each set, for things that fill the photo


def canvas(file: Path) -> Image.Image:
    image = Image.open(file).convert("RGB")
    scale = LONGER / max(image.size)
    return image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BILINEAR)


def paste(photo: Image.Image, thing: Image.Image, share: float, draw: random.Random) -> None:
    """Put a picture anywhere into a photo, at a share of its width; at most as high as the photo."""
    width = photo.width * share
    width = min(width, photo.height * thing.width / thing.height)
    size = round(width), round(width * thing.height / thing.width)
    place = draw.randint(0, photo.width - size[0]), draw.randint(0, photo.height - size[1])
    photo.paste(thing.resize(size, Image.Resampling.BICUBIC), place)


def make_composites(data: Path, folder: Path) -> tuple[Path, list[Path], list[Path]]:
    """All photos, in a table that says in which gallery each is; and the two queries of each product."""
    draw = random.Random(0)
    classes = sorted(path for path in (data / "grocery" / "images").iterdir() if path.is_dir())
    products = draw.sample(classes, PRODUCTS)
    backgrounds = sorted((data / "caltech101" / "images").rglob("*.jpg"))
    draw.shuffle(backgrounds)
    pictures = {one: draw.sample(sorted(one.glob("*.jpg")), 2) for one in classes}
    others = [Image.open(pictures[one][0]).convert("RGB") for one in classes if one not in products]
    galleries = [f"{size}{kind}" for size in SIZES for kind in ("", "+")]
    rows = []
    folder.mkdir()

    def keep(photo: Image.Image, name: str, product: str, among: list[str]) -> None:
        photo.save(folder / name, quality=90)
        rows.append({"path": name, "product": product, **{one: "yes" if one in among else "no" for one in galleries}})

    def with_others(file: Path, place: int) -> Image.Image:
        photo, choice = canvas(file), random.Random(place)
        for other in choice.sample(others, OTHERS):
            paste(photo, other, choice.choice((0.2, 0.3, 0.4)), choice)
        return photo

    for place, file in enumerate(backgrounds[:IN_ALL]):
        if place < PRODUCTS * PHOTOS_EACH:
            product = products[place // PHOTOS_EACH]
            picture = Image.open(pictures[product][0]).convert("RGB")
            for size in SIZES:
                for kind in ("", "+"):
                    photo = with_others(file, place) if kind else canvas(file)
                    paste(photo, picture, size / 100, random.Random(1000 * place + size))
                    keep(photo, f"{place:04}-{size}{kind}.jpg", product.name, [f"{size}{kind}"])
        else:
            keep(canvas(file), f"{place:04}.jpg", "", [one for one in galleries if "+" not in one])
            keep(with_others(file, place), f"{place:04}+.jpg", "", [one for one in galleries if "+" in one])
    table = folder / "photos.csv"
    with table.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["path", "product", *galleries])
        writer.writeheader()
        writer.writerows(rows)
    return table, [pictures[one][0] for one in products], [pictures[one][1] for one in products]


def measure(album: Album, queries: list[Path], gallery: str, **options: Any) -> tuple[float, float]:
    """Recall@20 and mAP of the products in one gallery."""
    recalls, precisions, products = [], [], album.photos.values_of("product")
    for query in queries:
        hits = album.search(query, everything=True, where={gallery: "yes"}, **options)
        product = products[album.photos.rows_of([hit.id for hit in hits])] == query.parent.name
        assert product.sum() == PHOTOS_EACH
        recalls.append(product[:20].sum() / PHOTOS_EACH)
        precisions.append(np.mean(np.arange(1, PHOTOS_EACH + 1) / (np.flatnonzero(product) + 1)))
    return float(np.mean(recalls)), 100 * float(np.mean(precisions))


def print_composites(album: Album, own: list[Path], another: list[Path]) -> None:
    galleries = [f"{size}{kind}" for kind in ("", "+") for size in SIZES]
    # Of one photo the album has a version for each size: whole photos are ranked in albums of a gallery alone, so that
    # neighbourhoods have no other versions in them.
    albums = {}
    for gallery in galleries:
        rows = np.flatnonzero(album.photos.values_of(gallery) == "yes")
        records = [{"path": photo.path, "columns": photo.columns} for photo in album.photos.at(rows)]
        albums[gallery] = Album.from_arrays(album.vectors[rows], records, model=album.embedder())
    for name, queries in (("the picture that was pasted", own), ("another photo of the product", another)):
        print(f"\nQuery: {name}. recall@20 / mAP; + has three other products in every photo")
        print(f"{'':24}" + "".join(f"{gallery}%".rjust(14) for gallery in galleries))
        for way, options in WAYS.items():
            searched = {gallery: album if "space" in options else albums[gallery] for gallery in galleries}
            found = [measure(searched[gallery], queries, gallery, **options) for gallery in galleries]
            print(f"{way:24}" + "".join(f"{recall:.2f} / {ap:4.1f}".rjust(14) for recall, ap in found), flush=True)


def print_cost(model: Embedder, size: int) -> None:
    """The network's time for a photo, as a whole at the network's own size, and with its parts."""
    image = Image.new("RGB", (640, 480))
    whole, view = torch.stack([model.transform.test(image)] * 64), region_view(image, size)
    seen = whole_view(image, model.transform)[1]

    def pool_the_same_pass() -> None:
        ((_, maps, _),) = embed_with_maps(model, [(whole, None)])
        pooled(model, maps, [seen] * 64)

    shared = size == model.transform.size
    works = (
        lambda: list(model.embed_batches([(whole, None)])),
        pool_the_same_pass if shared else lambda: region_vectors(model, [view] * 64),
    )
    taken: tuple[list[float], list[float]] = [], []
    for _ in range(6):  # by turns; the first time sets things up
        for work, seconds_of in zip(works, taken, strict=True):
            began = time.perf_counter()
            work()
            seconds_of.append((time.perf_counter() - began) / 64)
    seconds = [float(np.median(one[1:])) for one in taken]
    seconds[1] -= seconds[0] if shared else 0
    times = (seconds[0] + seconds[1]) / seconds[0]
    print(
        f"\nNetwork: {1000 * seconds[0]:.1f} ms a photo, and {1000 * seconds[1]:.1f} ms more for its {PARTS} parts at "
        f"{size} pixels: {times:.2f} times the time. {PARTS * (min(256, model.dimension) + 4):,} bytes a photo."
    )


def print_whole_things(data: Path, folder: Path) -> None:
    """Search for things that fill the photo, in albums with and without parts."""
    print(f"\nThings that fill the photo, {WHOLE} photos of each set: mAP")
    for name in ("grocery", "caltech101"):
        files = sorted((data / name / "images").rglob("*.jpg"))
        files = [files[place] for place in np.linspace(0, len(files) - 1, WHOLE).astype(int)]
        table = folder / f"{name}.csv"
        table.write_text("path,label\n" + "".join(f"{file.resolve()},{file.parent.name}\n" for file in files))
        plain = index_photos(table, folder / f"{name}-plain", progress=False).album
        parted = index_photos(table, folder / f"{name}-parts", regions=True, progress=False).album
        values = []
        for album in (plain, parted):
            labels = np.unique(np.array(album.photos.labels()), return_inverse=True)[1]
            values.append(100 * evaluate(np.asarray(album.vectors), labels).mean_average_precision)
        values.append(100 * float(np.mean([_average_precision(parted, photo) for photo in parted.photos.ids[::4]])))
        print(f"{name:12} whole {values[0]:.2f}, whole of an album with parts {values[1]:.2f}, parts {values[2]:.2f}")


def _average_precision(album: Album, photo: int) -> float:
    hits = album.search(int(photo), everything=True, space="region", rerank=False)
    places = np.flatnonzero([hit.label == album.photo(int(photo)).label for hit in hits])
    return float(np.mean(np.arange(1, len(places) + 1) / (places + 1))) if len(places) else 1.0


def print_query_time(folder: Path, query: Path, number: int) -> None:
    """Queries over many photos, whose vectors and codes are made up; the median of five."""
    random_rows, model = np.random.default_rng(0), open_model("tf_efficientnet_lite0").eval()
    vectors = random_rows.standard_normal((number, model.dimension), np.float32)
    records = {"path": [f"{row}.jpg" for row in range(number)], "width": [640] * number, "height": [480] * number}
    album = Album.from_arrays(vectors, records, folder / "large", model="tf_efficientnet_lite0")
    parts, size = region_vectors(model, [region_view(Image.open(query).convert("RGB"), 358)])[0], usual_size(model)
    store, basis = RegionStore(folder / "large", create=True), Basis.learnt(parts)
    store.begin(album.store.settings().uid, size, basis, 128)
    for start in range(0, number, 1000):
        codes = random_rows.integers(-127, 128, (1000, PARTS, len(basis.directions) + 4), np.int8)
        norms = (codes[..., :-4].astype(np.int32) ** 2).sum(-1, keepdims=True, dtype=np.int32)
        codes[..., -4:] = norms.view(np.int8)
        store.put({start + place: (b"", one) for place, one in enumerate(codes)})
    print(f"\nA query by a photo over {number:,} photos, with its network:")
    for name, options in WAYS.items():
        if not options:  # it would be ranked plainly while all these photos are linked
            continue
        times = []
        for _ in range(7):
            began = time.perf_counter()
            album.search(query, **options)
            times.append(time.perf_counter() - began)
        print(f"{name:24} {1000 * float(np.median(times[2:])):.0f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--region-size", type=int)
    parser.add_argument("--large", action="store_true", help="only time queries over 100,000 photos")
    options = parser.parse_args()
    if not (options.data / "grocery").is_dir():
        sys.exit(f"{options.data} has no folders grocery and caltech101: give --data")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.large:
            print_query_time(folder, next((options.data / "grocery").rglob("*.jpg")), 100_000)
            return
        table, own, another = make_composites(options.data, folder / "photos")
        began = time.perf_counter()
        album = index_photos(table, folder / "album", regions=True, region_size=options.region_size).album
        print(f"{len(album):,} photos were indexed with their parts in {time.perf_counter() - began:.0f} s")
        print_composites(album, own, another)
        print_cost(open_model("tf_efficientnet_lite0").eval(), album.region_space().settings().size)
        print_whole_things(options.data, folder)


if __name__ == "__main__":
    main()
