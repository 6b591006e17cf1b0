"""The programs of http.md and onnx.md run as they are there: Python, JavaScript and curl."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from doc_pages import PAGES
from page_albums import letter, pixel_album
from page_server import served
from photo_makers import photo_folder, tiny_model

from smoothap.album import Album
from smoothap.models import Embedder

TOKEN, WRITE = "a-long-secret-token", "another-secret-token"
HTTP, ONNX = (next(page for page in PAGES if page.file.stem == stem) for stem in ("http", "onnx"))
NODE = pytest.mark.skipif(shutil.which("node") is None, reason="node is not here, which runs the JavaScript")


@pytest.fixture
def service(tmp_path):
    """A server, the folder to run programs in, and the variables that they read."""
    album = pixel_album(tmp_path / "letters", letters="ARQ")
    letter("Q", "DejaVuSans").save(tmp_path / "photo.jpg")
    with served({"album": album}, token=TOKEN) as port:
        yield tmp_path, {**os.environ, "SEARCH": f"http://127.0.0.1:{port}", "SMOOTHAP_TOKEN": TOKEN}


def run(command, service):
    folder, environment = service
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_program_searches(service):
    (code,) = HTTP.blocks("python")
    lines = run([sys.executable, "-c", code], service).splitlines()
    assert len(lines) == 5
    assert lines[0].endswith("0051-DejaVuSans.jpg Q")


@NODE
def test_the_javascript_program_searches(service):
    (code,) = HTTP.blocks("javascript")
    (service[0] / "search.mjs").write_text(code)
    lines = run(["node", "search.mjs"], service).splitlines()
    assert len(lines) == 5
    assert lines[0].endswith("0051-DejaVuSans.jpg Q")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
def test_the_curl_commands_search_add_and_remove(tmp_path):
    search, by_id, write = HTTP.blocks("console")
    model = tiny_model(tmp_path / "model")
    Album.create(tmp_path / "album", model, photo_folder(tmp_path / "photos", 9)).update(progress=False)
    for name, seed in (("photo.jpg", "Q"), ("red.jpg", "R")):
        letter(seed, "DejaVuSans").save(tmp_path / name)
    options = {"token": TOKEN, "write_token": WRITE}
    with served({"album": Album.open(tmp_path / "album")}, **options) as port:
        environment = {**os.environ, "SMOOTHAP_TOKEN": TOKEN, "SMOOTHAP_WRITE_TOKEN": WRITE}
        answers = []
        for block in (search, by_id, write):
            for address in ("http://search.shop.example:8000", "http://localhost:8000"):
                block = block.replace(address, f"http://127.0.0.1:{port}")
            for command in block.replace("\\\n", "").splitlines():
                answers.append(
                    json.loads(run(["sh", "-c", command.replace("curl", "curl -s")], (tmp_path, environment)))
                )
    assert len(answers[0]["hits"]) == 5
    assert (answers[1]["min_score"], len(answers[1]["hits"])) == (0.3, min(answers[1]["total"], 5))
    assert answers[2]["refused"] == {}
    assert list(answers[2]["ids"]) == ["shoes/red.jpg"]
    assert answers[3]["id"] == 7


def test_the_answers_that_the_page_shows_are_of_the_shape_that_the_server_gives():
    from smoothap.server.schemas import SearchAnswer, Written

    for shape, shown in zip((SearchAnswer, Written), HTTP.blocks("json"), strict=True):
        assert shape.model_validate_json(shown).model_dump(exclude_unset=True) == json.loads(shown)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model as ONNX beside a photo, and torch's vector of the photo."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from smoothap.models.export import export_onnx

    folder = tmp_path_factory.mktemp("exported")
    letter("Q", "DejaVuSans", size=300).save(folder / "photo.jpg", quality=95, subsampling=0)
    model = Embedder("test_resnet", 8, size=32, pretrained=False).eval()
    export_onnx(model, folder / "model.onnx", progress=False)
    return folder, model.embed([folder / "photo.jpg"], progress=False)[0].numpy()


def test_the_python_program_for_onnx_computes_torch_s_vector(exported, monkeypatch, capsys):
    (code,) = ONNX.blocks("python")
    monkeypatch.chdir(exported[0])
    found = {}
    exec(compile(code, "onnx", "exec"), found)
    assert float(capsys.readouterr().out) == pytest.approx(1, abs=1e-5)
    assert found["vectors"][0] @ exported[1] > 0.99


@NODE
@pytest.mark.slow
def test_the_javascript_program_for_onnx_computes_torch_s_vector(exported, tmp_path):
    (code,) = ONNX.blocks("javascript")
    install = next(line for line in ONNX.spans() if line.startswith("npm install"))
    environment = (tmp_path, dict(os.environ))
    (tmp_path / "package.json").write_text('{"type": "module", "private": true}')
    done = subprocess.run(install.split(), cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("the npm registry cannot be reached from here")
    for name in ("photo.jpg", "model.onnx"):
        shutil.copy(exported[0] / name, tmp_path)
    (tmp_path / "embed.mjs").write_text(code)
    vector = np.array(json.loads(run(["node", "embed.mjs"], environment).splitlines()[-1]))
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4)
    assert vector @ exported[1] > 0.99
