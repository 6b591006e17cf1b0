"""Write docs/openapi-v1.json, the description of the addresses for programs: `python tools/write_openapi.py`."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI

from smoothap.album import Album
from smoothap.server._server import create_app

FILE = Path(__file__).parents[1] / "docs" / "openapi-v1.json"


def description() -> dict[str, Any]:
    """What the server itself says at /api/openapi.json, of the addresses below /api/v1 alone."""
    app: Any = create_app({"album": Album.from_arrays(np.eye(2))})
    while not isinstance(app, FastAPI):  # below what checks, counts and bounds requests
        app = app.app
    whole = app.openapi()
    paths = {path: described for path, described in whole["paths"].items() if path.startswith("/api/v1/")}
    shapes, wanted = whole["components"]["schemas"], _named(paths)
    while more := {name for each in wanted for name in _named(shapes[each])} - wanted:
        wanted |= more
    kept = {name: shape for name, shape in shapes.items() if name in wanted}
    return {**whole, "paths": paths, "components": {**whole["components"], "schemas": kept}}


def _named(part: object) -> set[str]:
    """The names of the shapes that a part refers to."""
    return set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(part)))


if __name__ == "__main__":
    FILE.write_text(json.dumps(description(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(FILE)
