"""The command that repeats an analysis, which stands beside its figures."""

import shlex
from typing import Any


def command_line(name: str, **options: Any) -> str:
    """`smoothap analyse NAME` with every option that has a value: a list repeats its option, a tuple has commas.

    >>> command_line("cost", model="resnet50", batch_sizes=(112, 224), seed=None, flip=False)
    'smoothap analyse cost --model resnet50 --batch-sizes 112,224 --no-flip'
    """
    words = ["smoothap", "analyse", name]
    for option, value in options.items():
        flag = option.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            for text in map(_text, value if isinstance(value, list) else [value]):
                words += [f"--{flag}", shlex.quote(text)]
    return " ".join(words)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
