"""Does this machine compute right? A minute of checks on its own device, which `smoothap doctor --check` runs."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from smoothap.data.image_set import ImageSet
from smoothap.losses import BlackboxAP, RecallAtK, Roadmap, SmoothAP
from smoothap.metrics.known_answer import KNOWN, answer_here
from smoothap.models import Embedder, open_model
from smoothap.models.efficientnet_lite import ARCHITECTURE, packaged_weights
from smoothap.training.config import RunOptions, TrainingConfig
from smoothap.training.log import read_rows
from smoothap.training.loop import train
from smoothap.training.precision import score_noise

_SIDE = 64
_STEPS = 4
_TOLERANCE = 1e-3  # of a gradient in float32, beside the same in float64
Result = tuple[bool, str, float | None]  # of a check: whether it is right, what came out in a sentence, a number


def check_device(device: torch.device) -> list[dict[str, Any]]:
    """Everything that is checked, with its name, whether it is right, its result and its value.

    A check that raises is one that failed.
    """
    checks: dict[str, Callable[[torch.device], Result]] = {
        "loss": _check_loss,
        "evaluation": _check_evaluation,
        "training": _check_training,
        "16 bits": _check_noise,
        "speed": _check_speed,
    }
    results = []
    for name, check in checks.items():
        try:
            right, result, value = check(device)
        except Exception as error:  # whatever it is, the user is to see it among the other results
            right, result, value = False, f"{type(error).__name__}: {error}", None
        results.append({"name": name, "right": right, "result": result, "value": value})
    return results


def _check_loss(device: torch.device) -> Result:
    """Loss and gradient on the device, in float32, beside those of the CPU in float64."""
    worst = 0.0
    for loss in (SmoothAP(), BlackboxAP(), Roadmap(), RecallAtK()):
        exact = _value_and_gradient(loss, torch.float64, torch.device("cpu"))
        for mine, right in zip(_value_and_gradient(loss, torch.float32, device), exact, strict=True):
            worst = max(worst, float((mine - right).norm() / right.norm()))
    said = f"loss and gradient differ from those in float64 by {worst:.0e} at most"
    return worst <= _TOLERANCE, said, worst


def _value_and_gradient(loss: torch.nn.Module, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """Of 256 embeddings in 64 classes that overlap."""
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(256) % 64
    rows = torch.randn(64, 64, generator=random)[labels] + 1.5 * torch.randn(256, 64, generator=random)
    embeddings = rows.to(device, dtype).requires_grad_()
    value = loss(embeddings, labels.to(device))
    value.backward()
    assert embeddings.grad is not None
    return [tensor.detach().cpu().double() for tensor in (value, embeddings.grad)]


def _check_evaluation(device: torch.device) -> Result:
    right = answer_here(device) == KNOWN
    said = "gives its known results, to the last digit" if right else "gives other results than on every other machine"
    return right, f"a known set {said}", None


def _check_training(device: torch.device) -> Result:
    """A few steps in one go, and the same steps saved after the first and resumed: the same losses."""
    images, validation = _patterns(32), _patterns(8, seed=1)
    settings = TrainingConfig(batch_size=32, steps=_STEPS, learning_rate=1e-3, precision="float32")
    with tempfile.TemporaryDirectory() as folder:

        def losses(name: str, *minutes: float | None) -> list[float]:
            for limit in minutes:
                options = RunOptions(resume=True, minutes=limit, device=str(device))
                train(_small_network(), SmoothAP(), images, validation, settings, Path(folder, name), options)
            return [row["loss"] for row in read_rows(Path(folder, name)) if "loss" in row]

        difference = float(np.abs(np.subtract(losses("whole", None), losses("resumed", 0.0, None))).max())
    said = f"{_STEPS} steps, saved and resumed, have the losses of {_STEPS} steps in one go"
    return difference <= _TOLERANCE, f"{said}, to {difference:.0e}", difference


def _check_noise(device: torch.device) -> Result:
    """What 16 bits do to score differences: a result to know, which is right whatever it is."""
    model, images = _real_network(device), _photos(64).to(device)
    exact = _embedded(model, images, torch.float32)
    noise = {dtype: score_noise(exact, _embedded(model, images, dtype)) for dtype in (torch.float16, torch.bfloat16)}
    said = ", ".join(f"{value:.4f} in {str(dtype).removeprefix('torch.')}" for dtype, value in noise.items())
    return True, f"score differences of {ARCHITECTURE} are off by {said}", noise[torch.float16]


def _check_speed(device: torch.device) -> Result:
    """Images a second through forward and backward pass."""
    model, images = _real_network(device).train(), _photos(64).to(device)
    labels = (torch.arange(64) // 4).to(device)
    seconds: list[float] = []
    for _ in range(4):
        began = time.perf_counter()
        embeddings = model(images)
        gradient = torch.autograd.grad(SmoothAP()(embeddings, labels), list(model.parameters()))[0]
        gradient.sum().item()  # waits for the device
        seconds.append(time.perf_counter() - began)
    speed = len(images) / min(seconds[1:])
    return True, f"{ARCHITECTURE} trains on {speed:.0f} images a second at {_SIDE} x {_SIDE} pixels", speed


def _real_network(device: torch.device) -> Embedder:
    return open_model(ARCHITECTURE, size=_SIDE, weights=None if packaged_weights() else "none").to(device).eval()


def _small_network() -> Embedder:
    """The default network with random weights, which need not be fetched."""
    return open_model(ARCHITECTURE, dimension=32, size=_SIDE, weights="none", seed=0)


def _embedded(model: Embedder, images: Tensor, dtype: torch.dtype) -> Tensor:
    with torch.no_grad(), torch.autocast(images.device.type, dtype, enabled=dtype != torch.float32):
        return model(images)


def _photos(number: int) -> Tensor:
    """Images (n, 3, 64, 64), bytes, of soft coloured shapes."""
    return torch.from_numpy(_pixels(number // 4, seed=2)).permute(0, 3, 1, 2).contiguous()


def _patterns(classes: int, seed: int = 0) -> ImageSet:
    """A set of four images a class: a coarse pattern, and noise."""
    pixels = _pixels(classes, seed)
    return ImageSet(
        name="patterns",
        names=[f"{row}.png" for row in range(len(pixels))],
        labels=np.repeat(np.arange(classes), 4),
        class_names=[str(label) for label in range(classes)],
        read=lambda row, _=None: Image.fromarray(pixels[row]),
        recall_at=(1,),
    )


def _pixels(classes: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (classes, 1, 8, 8, 3)).repeat(_SIDE // 8, 2).repeat(_SIDE // 8, 3)
    noisy = coarse + random.normal(0, 40, (classes, 4, _SIDE, _SIDE, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8).reshape(-1, _SIDE, _SIDE, 3)
