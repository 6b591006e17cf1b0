"""Where a backbone's weights come from: an installed package, timm's download, or a local file."""

import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.torch_version import TorchVersion

from smoothap.models import efficientnet_lite
from smoothap.models.faces.iresnet import IResNet
from smoothap.models.faces.iresnet_onnx import state_of_onnx

_PROBE_SECONDS = 3.0
_NAMES_SHOWN = 6


def build_backbone(architecture: str, size: int | None = None, pretrained: bool | Path | str = True) -> nn.Module:
    """A network by its timm name, or "iresnet50", without a classifier: images (n, 3, h, w) -> (n, features).

    `pretrained` is True for the published weights, False for random ones, or a .safetensors or .pth file; for iresnet50
    a .onnx file too. `size` is the side of the images, which networks with position embeddings must know.
    """
    packaged = None
    if architecture == efficientnet_lite.ARCHITECTURE:
        backbone, packaged = efficientnet_lite.EfficientNetLite0(), efficientnet_lite.packaged_weights()
    elif architecture == "iresnet50":
        backbone = IResNet()
    else:
        from smoothap.models.timm_networks import timm_backbone  # takes seconds

        backbone = timm_backbone(architecture, size)
    if pretrained is True and packaged is not None:
        load_state(backbone, efficientnet_lite.to_timm_names(_unpickle(packaged), backbone), packaged)
    elif pretrained is True:
        file = downloaded_weights(architecture, published_settings(backbone))
        load_state(backbone, read_state(file), file)
    elif pretrained is not False:
        is_onnx = isinstance(backbone, IResNet) and Path(pretrained).suffix == ".onnx"
        state = state_of_onnx(Path(pretrained)) if is_onnx else read_state(pretrained)
        load_state(backbone, _backbone_alone(state), pretrained)
    return backbone


def published_settings(backbone: nn.Module) -> dict[str, Any]:
    """What timm says of the published weights: "mean", "std", "input_size", "classifier", where they are."""
    return dict(getattr(backbone, "pretrained_cfg", {}))


def read_state(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, or of a .pth file, which only a torch whose safe loader is sound may open."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"No weight file at {path}")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise ValueError(f"{path} is not a whole safetensors file ({error}): fetch it again") from error
    if path.suffix not in (".pth", ".pt", ".bin"):
        raise ValueError(f"{path}: weights are read from .safetensors or .pth files, those of iresnet50 from .onnx too")
    if TorchVersion(torch.__version__) < "2.10":  # TorchVersion knows that 2.10 comes after 2.9
        raise ValueError(
            f"{path} is a pickle, and torch {torch.__version__} cannot open one safely: use torch 2.10 or newer, or "
            "convert the file to .safetensors"
        )
    return _unpickle(path)


def _backbone_alone(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """What belongs to the backbone in the weights of a model that this package saved; other weights as they are."""
    if not all(name.startswith(("backbone.", "embedding.")) for name in state):
        return state
    return {name.removeprefix("backbone."): value for name, value in state.items() if name.startswith("backbone.")}


def _unpickle(path: Path) -> dict[str, Tensor]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a stranger's bytes may make the reader raise anything
        reason = str(error).splitlines()[0] if str(error) else "it ends too early"
        raise ValueError(f"{path} does not hold tensors alone, or is damaged: {reason}") from error
    for wrapper in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{path} holds something other than one tensor per name")
    return {name.removeprefix("module."): value for name, value in content.items()}


def load_state(module: nn.Module, state: dict[str, Tensor], source: Path | str) -> None:
    """Put `state` into `module`; a classifier is dropped, any other name or shape that does not fit is an error."""
    to_current_names = getattr(sys.modules[type(module).__module__], "checkpoint_filter_fn", None)
    if to_current_names is not None:  # timm's own: older names, and position embeddings for another image size
        with suppress(Exception):  # it trips over files of other networks, of which the comparison below tells more
            state = cast("dict[str, Tensor]", to_current_names(dict(state), module))
    classifiers = published_settings(module).get("classifier") or ()
    classifiers = (classifiers,) if isinstance(classifiers, str) else tuple(classifiers)
    heads = tuple(f"{name}." for name in classifiers)
    wanted = module.state_dict()
    given = {name: value for name, value in state.items() if name in wanted or not name.startswith(heads)}
    missing = [name for name in wanted if name not in given and not name.endswith("num_batches_tracked")]
    unknown = [name for name in given if name not in wanted]
    shapes = [
        f"{name} {tuple(given[name].shape)} for {tuple(wanted[name].shape)}"
        for name in wanted
        if name in given and given[name].shape != wanted[name].shape
    ]
    faults = {"missing": missing, "not known": unknown, "of another shape": shapes}
    listed = [f"{len(names)} {fault}: {_first(names)}" for fault, names in faults.items() if names]
    if listed:
        raise ValueError(f"{source} does not fit {type(module).__name__}; {'; '.join(listed)}")
    module.load_state_dict(given, strict=False)


def _first(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def downloaded_weights(architecture: str, configuration: dict[str, Any]) -> Path:
    """The published weight file, from the cache or the network; without a network the error comes within seconds."""
    from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache

    how = "as --weights FILE, in Python as pretrained=PATH (random weights: --weights none, pretrained=False)"
    repository = configuration.get("hf_hub_id")
    if not repository:
        raise ValueError(f"No weights of {architecture} are published where they can be fetched: give a file {how}")
    name = configuration.get("hf_hub_filename") or "model.safetensors"
    cached = try_to_load_from_cache(repository, name)
    if isinstance(cached, str):
        return Path(cached)
    if constants.HF_HUB_OFFLINE or not _answers(constants.ENDPOINT):
        raise ConnectionError(
            f"The weights of {architecture} are not on this machine and {constants.ENDPOINT} does not answer. Fetch "
            f"{constants.ENDPOINT}/{repository}/resolve/main/{name} elsewhere and give the file {how}"
        )
    return Path(hf_hub_download(repository, name))


def _answers(address: str) -> bool:
    """Whether a web address answers within a few seconds; in a thread, because a name lookup knows no time limit."""
    answered: list[bool] = []

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_PROBE_SECONDS).close()
        except urllib.error.HTTPError as refusal:
            refusal.close()
        except OSError:
            return
        answered.append(True)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PROBE_SECONDS)
    return bool(answered)
