"""`smoothap learn`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from smoothap.cli._options import NOT_IMPROVED

if TYPE_CHECKING:
    from smoothap.album import Learning
    from smoothap.metrics.bootstrap import Interval


def learn(
    album: Path,
    /,
    *,
    check: Annotated[bool, Parameter(negative=())] = False,
    undo: Annotated[bool, Parameter(negative=())] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Let an album learn from its collections which photos belong together, so that it finds more like them.

    It takes seconds and reads no photo: a projection of the album's vectors is trained with Smooth-AP. Before it is
    taken, cross-validation says what it does for photos and for things that were left out; if it does not help beyond
    doubt, the album stays as it is.

    Parameters
    ----------
    album
        The folder that smoothap index made, with at least five collections of four photos or more.
    check
        Say what learning would bring, and change nothing.
    undo
        Go back to the vectors as the model gave them. Collections stay.
    as_json
        Print what came of it as JSON.
    """
    from smoothap.album import Album

    if check and undo:
        raise ValueError("--check changes nothing and --undo takes back what was learnt: give one of them.")
    opened = Album.open(album)
    if undo:
        opened.unlearn()
        if as_json:
            print(json.dumps({"learnt": False}))
        else:
            again = f"smoothap learn {shlex.quote(str(album))}"
            print(f"{album} searches in the vectors of its model again. To learn once more: {again}")
        return
    from smoothap.album import learn as learn_from_collections

    learning = learn_from_collections(opened, check_only=check)
    print(json.dumps(_plain(learning), indent=1) if as_json else _text(learning, check, album))
    if not learning.learnt and not (check and learning.check is not None and learning.check.is_clear):
        sys.exit(NOT_IMPROVED)


def _text(learning: Learning, check: bool, place: Path) -> str:
    lines, album = [learning.reason], shlex.quote(str(place))
    if learning.learnt:
        lines.append(
            f"The album learnt from {learning.photos:,} photos in {learning.collections:,} collections, and searches "
            "with that from now on; new photos too."
        )
        if learning.check is not None and learning.check.calibration is not None:
            lines.append("What a score means was learnt anew, from the collections.")
        lines += [f"Next: smoothap serve {album}", f"      smoothap learn {album} --undo"]
    elif check and learning.check is not None and learning.check.is_clear:
        lines.append(f"Nothing was changed. Next: smoothap learn {album}")
    elif learning.check is not None:
        data, out = shlex.quote(f"album:{place}"), shlex.quote(str(Path("runs") / place.resolve().name))
        lines.append(f"Or train the whole network, which takes longer: smoothap train --data {data} --out {out}")
    return "\n".join(lines)


def _plain(learning: Learning) -> dict[str, Any]:
    check = learning.check
    values: dict[str, Any] = {
        "learnt": learning.learnt, "reason": learning.reason, "collections": learning.collections,
        "photos": learning.photos,
    }  # fmt: skip
    if check is not None:
        values |= {"before": check.before, "after": check.after, "strength": check.strength}
        values |= {"taught": _interval(check.taught), "untaught": _interval(check.untaught)}
    return values


def _interval(interval: Interval) -> dict[str, float]:
    return {"gain": interval.value, "low": interval.low, "high": interval.high}
