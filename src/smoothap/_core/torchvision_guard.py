"""Import torchvision even where its compiled part does not load beside a CPU build of torch.

torchvision's wheels from the package index want CUDA libraries; beside a CPU torch the import ends in
`RuntimeError: operator torchvision::nms does not exist`. Declaring the two missing operators lets the rest of
torchvision (and timm, which imports it) work; `torchvision.io` and `torchvision.ops.nms` stay out of reach.
Where torchvision loads by itself this does nothing.
"""

import importlib
import sys
import warnings

import torch

_MISSING_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []  # a Library takes its operators away when it is collected


def ensure_torchvision() -> None:
    """Make `import torchvision` and `import timm` work from here on; call it before either import."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to load image Python extension")
        try:
            importlib.import_module("torchvision")
        except RuntimeError as error:
            if "torchvision::nms" not in str(error):
                raise
            library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in _MISSING_OPERATORS:
                library.define(operator)
            _declared.append(library)
            for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
                del sys.modules[name]
            importlib.import_module("torchvision")
