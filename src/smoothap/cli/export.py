"""`smoothap export`."""

from pathlib import Path

from smoothap.cli._options import check_file


def export(model: Path, /, *, out: Path = Path("model.onnx")) -> None:
    """Write a trained model as one ONNX file and check it against torch.

    Parameters
    ----------
    model
        The folder of the model.
    out
        The file to write.
    """
    check_file(out, "model.onnx")
    from smoothap.models import Embedder
    from smoothap.models.export import export_onnx

    embedder = Embedder.load(model)
    difference = export_onnx(embedder, out)
    size = embedder.transform.size
    print(
        f"{out}: images (n, 3, {size}, {size}), uint8 RGB -> embeddings (n, {embedder.dimension})\n"
        f"The greatest difference from torch is {difference:.0e}."
    )
