"""The answers to a search as one HTML file that needs nothing else."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smoothap.files import write_atomically
from smoothap.report.document import document
from smoothap.report.markup import Markup, element, joined, named

_STYLE = """\
body{margin:2rem auto;max-width:80rem;padding:0 1rem;font:16px/1.4 system-ui,sans-serif;
background:var(--paper);color:var(--ink)}
ol{display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:1rem;list-style:none;padding:0}
figure{margin:0}
img,.none{width:100%;aspect-ratio:1;object-fit:contain;background:#fff;border-radius:4px}
.none{display:grid;place-items:center;color:#666}
figcaption{font-size:.8rem;overflow-wrap:anywhere}
"""


@dataclass(frozen=True)
class Answer:
    """One photo that was found; `picture` is its JPEG, or None where it cannot be shown."""

    rank: int
    score: float
    path: str
    label: str | None
    picture: bytes | None


def write_hits(path: Path, asked: Sequence[str], answers: Sequence[Answer], note: str = "") -> Path:
    """Write a page of thumbnails, ranked, with the score of each."""
    names = [part for name in asked for part in (", ", named(Path(name).name))][1:]
    summary = f"{len(answers):,} photos, the most alike first. {note}"
    content = [
        element("h1", "Photos like ", *names),
        element("p", summary),
        element("ol", *(_figure(answer) for answer in answers)),
    ]
    title = "Photos like " + ", ".join(Path(name).name for name in asked)
    return write_atomically(path, document(title, *content, style=_STYLE))


def _figure(answer: Answer) -> Markup:
    text = f"Rank {answer.rank}: {answer.path}, score {answer.score:.3f}"
    if answer.picture is None:
        picture = element("div", "cannot be shown", class_="none")
    else:
        address = f"data:image/jpeg;base64,{base64.b64encode(answer.picture).decode()}"
        picture = element("img", src=address, alt=text, loading="lazy")
    label = joined(named(answer.label), " · ") if answer.label else ""
    caption = element("figcaption", element("b", f"{answer.score:.3f} "), label, named(answer.path))
    return element("li", element("figure", picture, caption))
