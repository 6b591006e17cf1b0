"""`smoothap export`."""

from pathlib import Path
from typing import TYPE_CHECKING

from smoothap.cli._options import check_file, command

if TYPE_CHECKING:
    from smoothap.models import Embedder
    from smoothap.models.export import Exported


@command()
def export(
    model: str,
    /,
    *,
    out: Path = Path("model.onnx"),
    no_preprocessing: bool = False,
    photos: Path | None = None,
    limit: int = 200,
) -> None:
    """Write a model as one ONNX file, from a photo of any size to a vector, and check it against torch.

    Parameters
    ----------
    model
        The folder of a trained model, a timm name for its published weights, or an album, whose model it is then.
    out
        The file to write.
    photos
        A folder of photos of yours to check the file on; without it, made-up images are used.
    limit
        How many of the photos are used, spread over the folder.
    no_preprocessing
        Leave resizing and cropping out: the file takes squares of the network's size, and its metadata say how to make
        them.
    """
    check_file(out, "model.onnx")
    if limit < 1:
        raise ValueError(f"--limit is how many photos are used, at least 1, not {limit}.")
    from smoothap.models.export import export_onnx

    chosen = [] if photos is None else _spread(photos, limit)
    embedder = _opened(model)
    exported = export_onnx(embedder, out, photos=chosen, preprocessing=not no_preprocessing)
    size = embedder.transform.size
    takes = f"(n, 3, {size}, {size})" if no_preprocessing else "(n, height, width, 3) of any size"
    print(f"{out}: images {takes}, uint8 RGB -> embeddings (n, {embedder.dimension}), {exported.bytes / 1e6:,.1f} MB")
    if no_preprocessing:
        print(f"What is left to you: {embedder.transform.sentence()}")
    _print_check(exported, made_up=photos is None)


def _opened(model: str) -> "Embedder":
    from smoothap.models import open_model

    if (Path(model) / "album.db").is_file():
        from smoothap.album import Album

        return Album.open(model).embedder()
    return open_model(model).eval()


def _spread(folder: Path, count: int) -> list[Path]:
    from smoothap.album.walk import walk

    files = walk(folder).files
    step = max(1, len(files) // count)
    return [folder / file.path for file in files[::step][:count]]


def _print_check(exported: "Exported", made_up: bool) -> None:
    import numpy as np

    cosines, files = exported.cosines, exported.cosines_from_files
    what = "made-up images" if made_up else "photos"
    print(
        f"Checked on {len(cosines):,} {what}, {exported.seconds * 1e3:,.1f} ms each: from the same pixels the cosine "
        f"to torch is {cosines.min():.6f} or more, {np.median(cosines):.6f} in the median."
    )
    if files is not None:
        print(
            f"From files it is {files.min():.4f} or more, {np.median(files):.4f} in the median: an album reads a large "
            "JPEG at a reduced size, which is faster, and this file gets all pixels."
        )
