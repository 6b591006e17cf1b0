"""The weights of an iresnet50 in an ONNX file, with batch norms folded away or not, and as torch's exporter has it."""

import contextlib
import io

import pytest
import torch
from test_iresnet import published_state

from smoothap.models import Embedder
from smoothap.models.faces.iresnet import IResNet

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    network = IResNet()
    network.load_state_dict(published_state())
    return network.eval()


class Writer:
    """Writes the layers of a network as ONNX nodes under names that tell nothing, as exporters do."""

    def __init__(self, state, folded):
        self.state, self.folded = state, folded
        self.nodes, self.arrays = [], []

    def array(self, values):
        name = str(len(self.arrays) + 500)
        self.arrays.append(onnx.numpy_helper.from_array(values.contiguous().numpy(), name))
        return name

    def node(self, kind, source, *values, **attributes):
        inputs = [source, *map(self.array, values)]
        self.nodes.append(onnx.helper.make_node(kind, inputs, [f"out{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def norm(self, name, source):
        parts = (self.state[f"{name}.{part}"] for part in ("weight", "bias", "running_mean", "running_var"))
        return self.node("BatchNormalization", source, *parts, epsilon=1e-5)

    def layer(self, kind, name, norm, source, **attributes):
        """A convolution or the last layer, with the batch norm behind it or folded into it."""
        weight, bias = self.state[f"{name}.weight"], self.state.get(f"{name}.bias")
        if not self.folded:
            biases = () if bias is None else (bias,)
            return self.norm(norm, self.node(kind, source, weight, *biases, **attributes))
        scale = self.state[f"{norm}.weight"] / (self.state[f"{norm}.running_var"] + 1e-5).sqrt()
        shift = self.state[f"{norm}.bias"] - self.state[f"{norm}.running_mean"] * scale
        shape = (-1, *[1] * (weight.ndim - 1))
        folded_bias = shift if bias is None else shift + bias * scale
        return self.node(kind, source, weight * scale.view(shape), folded_bias, **attributes)

    def prelu(self, name, source):
        return self.node("PRelu", source, self.state[f"{name}.weight"].view(-1, 1, 1))

    def write(self, path):
        top = self.prelu("prelu", self.layer("Conv", "conv1", "bn1", "images", pads=[1] * 4))
        for stage, blocks in enumerate((3, 4, 14, 3), start=1):
            for block in range(blocks):
                name, strides = f"layer{stage}.{block}", [2, 2] if block == 0 else [1, 1]
                if block == 0:  # before the others: the order of two branches is the exporter's choice
                    aside = self.layer("Conv", f"{name}.downsample.0", f"{name}.downsample.1", top, strides=strides)
                else:
                    aside = top
                inner = self.layer("Conv", f"{name}.conv1", f"{name}.bn2", self.norm(f"{name}.bn1", top), pads=[1] * 4)
                inner = self.prelu(f"{name}.prelu", inner)
                inner = self.layer("Conv", f"{name}.conv2", f"{name}.bn3", inner, pads=[1] * 4, strides=strides)
                top = self.node("Add", inner)
                self.nodes[-1].input.append(aside)
        self.layer("Gemm", "fc", "features", self.node("Flatten", self.norm("bn2", top)), transB=1)
        graph = onnx.helper.make_graph(self.nodes, "faces", [], [], self.arrays)
        onnx.save(onnx.helper.make_model(graph), path)
        return path


def assert_the_same_vectors(file, network):
    read = Embedder("iresnet50", None, pretrained=file).backbone.eval()
    faces = torch.randn(2, 3, 112, 112)
    with torch.no_grad():
        expected = network(faces)
        torch.testing.assert_close(read(faces), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("folded", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_network_is_read_back_whether_batch_norms_are_folded_or_not(network, tmp_path, folded):
    assert_the_same_vectors(Writer(network.state_dict(), folded).write(tmp_path / "faces.onnx"), network)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_torch_exports_is_read_back(network, tmp_path):
    pytest.importorskip("onnxscript")
    with contextlib.redirect_stdout(io.StringIO()):
        faces = torch.zeros(1, 3, 112, 112)
        torch.onnx.export(network, (faces,), tmp_path / "faces.onnx", external_data=False, dynamo=True)
    assert_the_same_vectors(tmp_path / "faces.onnx", network)


def test_another_network_is_refused(network, tmp_path):
    writer = Writer(network.state_dict(), folded=True)
    writer.layer("Conv", "conv1", "bn1", "images")
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph(writer.nodes, "x", [], [], writer.arrays)),
        tmp_path / "other.onnx",
    )
    with pytest.raises(ValueError, match=r"other.onnx does not fit iresnet50: no PRelu of \(64,\) for prelu"):
        Embedder("iresnet50", None, pretrained=tmp_path / "other.onnx")


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "half.onnx").write_bytes(b"\x08\x07\x12\xff")
    with pytest.raises(ValueError, match=r"half.onnx is not a whole ONNX file"):
        Embedder("iresnet50", None, pretrained=tmp_path / "half.onnx")
