"""Write docs/openapi-v1.json, the description of the API: `python tools/write_openapi.py`."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from smoothap.album import Album
from smoothap.server.app import create_app

FILE = Path(__file__).parents[1] / "docs" / "openapi-v1.json"


def description() -> dict[str, Any]:
    """What the server itself says at /api/openapi.json."""
    return create_app({"album": Album.from_arrays(np.eye(2))}).openapi()


if __name__ == "__main__":
    FILE.write_text(json.dumps(description(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(FILE)
