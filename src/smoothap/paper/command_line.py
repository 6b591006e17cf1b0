"""The command that repeats an analysis, which stands beside its figures."""

import shlex
from collections.abc import Sequence
from typing import Any

_UNSAID = ("device", "workers", "folder")  # what changes no number
_REPEATED = ("model", "query")  # several are given one by one, not with commas between


def command_line(name: str, **options: Any) -> str:
    """`smoothap analyse NAME` with those of the analysis' arguments that have a value.

    >>> command_line("cost", model="resnet50", batch_sizes=(112, 224), seed=None, flip=False, device="cpu")
    'smoothap analyse cost --model resnet50 --batch-sizes 112,224 --no-flip'
    """
    words = ["smoothap", "analyse", name]
    for option, value in options.items():
        flag = option.replace("_", "-")
        if value is None or option in _UNSAID:
            continue
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
            continue
        several = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
        texts = [f"{part:g}" if isinstance(part, float) else str(part) for part in several]
        for text in texts if option in _REPEATED else [",".join(texts)]:
            words += [f"--{flag}", shlex.quote(text)]
    return " ".join(words)
