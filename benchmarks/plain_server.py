"""The plainest search service that one would write instead: FastAPI, timm and a flat FAISS index.

    python benchmarks/plain_server.py VECTORS.npy PORT NETWORK SIZE THREADS

`benchmarks/serve_speed.py` starts it beside `smoothap serve`. It answers POST /photo with a photo, /vector with a
vector as JSON, and /id?id=. THREADS is how many torch and FAISS use for one request.
"""

import io
import sys
from typing import Any

import faiss
import numpy as np
import torch
import uvicorn
from fastapi import Body, FastAPI
from PIL import Image

from smoothap._core.extras import ensure_torchvision

ensure_torchvision()  # which timm imports, and which may be built for another torch

import timm  # noqa: E402
import timm.data  # noqa: E402

file, port, network, size, threads = sys.argv[1:]
torch.set_num_threads(int(threads))
faiss.omp_set_num_threads(int(threads))
vectors = np.load(file)
index = faiss.IndexFlatIP(vectors.shape[1])
index.add(vectors)
model: Any = timm.create_model(network, pretrained=False, num_classes=0).eval()
head = torch.nn.Linear(model.num_features, vectors.shape[1]).eval()
options: Any = {**timm.data.resolve_model_data_config(model), "input_size": (3, int(size), int(size))}
transform: Any = timm.data.create_transform(**options)
app = FastAPI()


def nearest(vector: np.ndarray, k: int) -> dict[str, list[dict[str, float]]]:
    """The best k rows for a vector."""
    scores, rows = index.search(vector.reshape(1, -1).astype(np.float32), k)
    return {"hits": [{"id": int(row), "score": float(score)} for row, score in zip(rows[0], scores[0], strict=True)]}


@app.post("/photo")
def by_photo(body: bytes = Body(media_type="image/jpeg"), k: int = 20) -> dict[str, list[dict[str, float]]]:
    """What looks like the photo in the body."""
    with torch.inference_mode():
        image = transform(Image.open(io.BytesIO(body)).convert("RGB"))
        return nearest(torch.nn.functional.normalize(head(model(image[None]))).numpy(), k)


@app.post("/vector")
def by_vector(vector: list[float], k: int = 20) -> dict[str, list[dict[str, float]]]:
    """What lies near a vector."""
    return nearest(np.array(vector), k)


@app.post("/id")
def by_id(id: int, k: int = 20) -> dict[str, list[dict[str, float]]]:
    """What looks like one of the photos."""
    return nearest(vectors[id], k)


uvicorn.run(app, port=int(port), log_level="warning")
