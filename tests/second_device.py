"""A device without a GPU: its tensors live "elsewhere", and it refuses what a GPU refuses.

The data are CPU tensors that nothing outside can see. As on CUDA, an operation of this device's tensors with a CPU
tensor that has dimensions is an error, and so is `.numpy()`. As on Apple's device, float64 can be refused. What makes
the CPU wait for a GPU (`.item()`, `nonzero`, a boolean index, a copy to the CPU) is counted, and so are the
bytes of all tensors alive.
"""

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

from smoothap._core.devices import has_float64

NAME = "elsewhere"  # torch gives every module and tensor a method of this name
MISSING = "" if hasattr(backend_registration, "_setup_privateuseone_for_python_backend") else (
    f"torch {torch.__version__} cannot make a device in Python: 2.9 or newer can"
)  # fmt: skip

aten = torch.ops.aten
# A copy between devices is what these are for.
_BETWEEN_DEVICES = {aten.copy_.default, aten._to_copy.default, aten._copy_from.default}
# The shape of their result depends on the data, so that the CPU must wait for it.
_WAITS = {
    "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive",
    "aten::repeat_interleave", "aten::_local_scalar_dense", "aten::equal", "aten::bincount",
}  # fmt: skip


@dataclass
class Device:
    """What the device did so far, and what it is to refuse."""

    present: bool = False  # whether torch.accelerator finds it
    without_float64: bool = False
    waits: Counter[str] = field(default_factory=Counter)
    alive: dict[int, list[int]] = field(default_factory=dict)  # address -> bytes, tensors that share them
    live_bytes: int = 0
    peak_bytes: int = 0

    @property
    def place(self) -> torch.device:
        return torch.device(NAME, 0)

    def begin(self) -> None:
        """Count from here on."""
        self.waits.clear()
        self.peak_bytes = self.live_bytes

    def wait(self, reason: str) -> None:
        """Count one, by its reason and the line of the package that is to blame."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and "/smoothap/" not in frame.f_code.co_filename:
            frame = frame.f_back
        place = "" if frame is None else f" in {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        self.waits[f"{reason}{place}"] += 1

    def hold(self, tensor: "SecondTensor", inner: Tensor) -> None:
        storage = inner.untyped_storage()
        address = storage.data_ptr()
        if not address:
            return
        held = self.alive.setdefault(address, [storage.nbytes(), 0])
        held[1] += 1
        if held[1] == 1:
            self.live_bytes += held[0]
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        weakref.finalize(tensor, self.release, address)

    def release(self, address: int) -> None:
        held = self.alive[address]
        held[1] -= 1
        if not held[1]:
            self.live_bytes -= self.alive.pop(address)[0]


HERE = Device()


class SecondTensor(Tensor):
    """A tensor of the second device; its data are `inner`, which only the operations below may see."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "SecondTensor":
        assert type(inner) is Tensor
        if HERE.without_float64 and inner.dtype in (torch.float64, torch.complex128):
            raise TypeError("the second device has no float64, as Apple's has none: use float32 instead")
        with torch.inference_mode(False):  # torch knows no version of a wrapper that is an inference tensor
            tensor = Tensor._make_wrapper_subclass(
                cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
                dtype=inner.dtype, device=torch.device(NAME, 0),
            )  # fmt: skip
        tensor.inner = inner
        HERE.hold(tensor, inner)
        return tensor

    def __repr__(self, **_: Any) -> str:
        return f"SecondTensor({tuple(self.shape)}, {self.dtype})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        return _run(function, given, named or {})


def _run(function: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((given, named)) if isinstance(leaf, Tensor)]
    here = [tensor for tensor in tensors if isinstance(tensor, SecondTensor)]
    name = function._schema.name
    _refuse_foreign(function, tensors)
    if name in _WAITS or (name in ("aten::index", "aten::index_put_", "aten::index_put") and _has_mask(given[1])):
        HERE.wait(name)
    wrapped = {id(tensor.inner): tensor for tensor in here}
    target = named.get("device")
    if target is not None:
        named = {**named, "device": torch.device("cpu")}
    leaves_device = (target is not None and torch.device(target).type != NAME) or (
        function is aten.copy_.default and not isinstance(given[0], SecondTensor)
    )
    if leaves_device:
        HERE.wait("copy to the CPU")
    if function is aten._pin_memory.default:
        raise RuntimeError("cannot pin a tensor that is not on the CPU")
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)):
        result = function(*_inner(given), **_inner(named))

    def wrap(value: Any) -> Any:
        if not isinstance(value, Tensor) or leaves_device:
            return value
        if id(value) in wrapped:
            return wrapped[id(value)]
        return SecondTensor(value)

    for tensor in here:
        assert tensor.shape == tensor.inner.shape, f"{name} changed a shape in place, which this device does not know"
    if function is aten.copy_.default:
        return given[0]
    return tree_map(wrap, result)


def _inner(values: Any) -> Any:
    return tree_map(lambda value: value.inner if isinstance(value, SecondTensor) else value, values)


def _refuse_foreign(function: Any, tensors: list[Tensor]) -> None:
    if function in _BETWEEN_DEVICES:
        return
    name = function._schema.name
    for tensor in tensors:
        if isinstance(tensor, SecondTensor) or not tensor.dim():
            continue
        if name.startswith("aten::index") and tensor.dtype in (torch.int64, torch.bool, torch.uint8):
            continue  # CUDA takes an index from the CPU too
        raise RuntimeError(
            f"{name}: Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and "
            f"{tensor.device}!"
        )


def _has_mask(indices: Any) -> bool:
    return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in tree_leaves(indices))


# The other factories, such as zeros, fill what `empty` gives them.
_FACTORIES = (
    "empty.memory_format", "empty_strided", "arange", "arange.start", "arange.start_step", "eye", "eye.m", "linspace",
    "randperm", "randperm.generator",
)  # fmt: skip
# What autocast computes in 16 bits, as on CUDA.
_ROUNDED = ("conv2d", "linear", "matmul", "mm", "addmm", "bmm")
_LIBRARIES: list[torch.library.Library] = []


def set_up() -> torch.device:
    """Register the device in this process, once."""
    if not _LIBRARIES:
        backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
        library = torch.library.Library("aten", "IMPL")
        for name in _FACTORIES:
            library.impl(name, _made_here(name), "PrivateUse1")
        autocast = torch.library.Library("_", "IMPL")
        autocast.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
        library.impl("_copy_from", _copy_here, "PrivateUse1")
        for name in _ROUNDED:
            library.impl(name, _rounded(getattr(aten, name).default), "AutocastPrivateUse1")
        _LIBRARIES.extend([library, autocast])
    return torch.device(NAME, 0)


def _copy_here(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """What `torch.tensor(values, device=...)` calls, with `__torch_dispatch__` switched off."""
    _inner(target).copy_(_inner(source))
    return target


def _made_here(name: str) -> Callable[..., Tensor]:
    packet, _, overload = name.partition(".")
    function = getattr(getattr(aten, packet), overload or "default")

    def make(*given: Any, **named: Any) -> Tensor:
        named.pop("pin_memory", None)
        return SecondTensor(function(*given, **{**named, "device": torch.device("cpu")}))

    return make


def _rounded(function: Any) -> Callable[..., Tensor]:
    """The function with its float32 arguments in the type of autocast."""
    without = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def run(*given: Any, **named: Any) -> Tensor:
        dtype = torch.get_autocast_dtype(NAME)
        shorter = lambda value: value.to(dtype) if isinstance(value, Tensor) and value.dtype == torch.float32 else value  # noqa: E731
        with torch._C._ExcludeDispatchKeyGuard(without):
            return function(*tree_map(shorter, given), **tree_map(shorter, named))

    return run


class _Module:
    """What torch asks the module of a device."""

    def __init__(self) -> None:
        self._rng = torch.Generator()

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return HERE.present

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        self._rng.manual_seed(seed)

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        HERE.peak_bytes = HERE.live_bytes

    def max_memory_allocated(self, device: Any = None) -> int:
        return HERE.peak_bytes

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


def load() -> None:
    """What torch calls when it is imported, for a process in which a package names this as its device."""
    set_up()
    HERE.present = True


def package(folder: Path) -> Path:
    """A folder to put on PYTHONPATH: torch finds this device there in every process, as it finds an installed one."""
    described = folder / f"{NAME}-1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1\n")
    (described / "entry_points.txt").write_text(f"[torch.backends]\n{NAME} = second_device:load\n")
    return folder


@contextmanager
def second_device(*, without_float64: bool = False) -> Generator[Device]:
    """The device, as the accelerator of this process, with its counts at zero; it refuses float64 on request."""
    set_up()
    HERE.present, HERE.without_float64 = True, without_float64
    HERE.begin()
    has_float64.cache_clear()
    try:
        yield HERE
    finally:
        HERE.present = HERE.without_float64 = False
        has_float64.cache_clear()
