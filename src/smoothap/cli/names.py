"""The names of the compared methods."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smoothap.compare.methods import Method

METHODS = {  # name -> module:constant; NAME+NAME is two stages, the second from the weights of the first
    "smooth-ap": "smoothap.compare.methods:SMOOTH_AP",
    "fast-ap": "smoothap.compare.methods:FAST_AP",
    "blackbox-ap": "smoothap.compare.methods:BLACKBOX_AP",
    "contrastive": "smoothap.compare.methods:CONTRASTIVE",
    "triplet": "smoothap.compare.methods:TRIPLET",
    "margin": "smoothap.compare.methods:MARGIN",
    "proxy-nca": "smoothap.compare.methods:PROXY_NCA",
    "xbm": "smoothap.compare.methods:CROSS_BATCH_MEMORY",
    "divide-and-conquer": "smoothap.compare.methods:DIVIDE_AND_CONQUER",
    "mic": "smoothap.compare.methods:MIC",
    "roadmap": "smoothap.compare.methods:ROADMAP",
    "recall-at-k": "smoothap.compare.methods:RECALL_AT_K",
    "softmax": "smoothap.compare.methods:SOFTMAX",
    "arcface": "smoothap.compare.methods:ARCFACE",
}
TWO_STAGES = tuple(
    f"{first}+{then}" for first in ("softmax", "arcface") for then in ("contrastive", "triplet", "smooth-ap")
)  # Table 4


def open_methods(spec: str) -> tuple[Method, ...]:
    """The compared methods that a list such as `smooth-ap,fast-ap,softmax+triplet` stands for, or `all`."""
    names = [*METHODS, *TWO_STAGES] if spec == "all" else [name.strip() for name in spec.split(",") if name.strip()]
    if not names:
        raise ValueError(f"Name at least one method, such as --methods smooth-ap,fast-ap. Known: {', '.join(METHODS)}.")
    found: dict[str, Method] = {}
    for name in names:
        stages = [_open_method(stage) for stage in name.split("+")]
        method = stages[0]
        for stage in stages[1:]:
            method = stage.after(method)
        found.setdefault(method.name, method)
    return tuple(found.values())


def _open_method(name: str) -> Method:
    from smoothap.compare.methods import Method

    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"There is no method called {name!r}.{hint} Known: all, {', '.join(METHODS)}, or NAME+NAME.")
    module, _, constant = METHODS[name].partition(":")
    method = getattr(import_module(module), constant)
    assert isinstance(method, Method)
    return method
