"""Several processes see one batch: loss and gradient equal those of one process, with real Gloo processes."""

import copy
import socket
import tempfile
from functools import partial

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from PIL import Image
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from smoothap._core.distributed import Processes, backends
from smoothap.data.dataset import ImageDataset
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.training.evaluation import evaluate_set
from smoothap.training.gradients import EmbeddingMemory, cached_gradient, loss_backward
from smoothap.training.head_init import start_as_projection

pytestmark = pytest.mark.alone

CASES = ("plain", "proxies", "pieces", "queue", "unequal shares")
# Uneven, and across the ranks; 2, 3 and 4 processes have equal shares of them, as our samplers see to.
LABELS = torch.tensor([0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5, 5, 1, 0, 2])


class ProxyLoss(nn.Module):
    """A loss with parameters of its own: one proxy for each class."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.proxies = nn.Parameter(torch.randn(6, 8, dtype=torch.float64))

    def forward(self, embeddings, labels):
        scores = embeddings @ nn.functional.normalize(self.proxies, dim=1).T
        return nn.functional.cross_entropy(scores * 5, labels)


def network():
    torch.manual_seed(3)
    layers = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 8))
    return layers.double()


def images():
    torch.manual_seed(4)
    return torch.randn(len(LABELS), 12, dtype=torch.float64)


def filled_queue():
    torch.manual_seed(6)
    queue = EmbeddingMemory(9, 8)
    queue.embeddings, queue.labels = torch.randn(9, 8, dtype=torch.float64), torch.arange(9) % 6
    return queue


def step(model, loss, pixels, processes, *, pieces, queue):
    """One step; the loss, the gradients of the model and those of the loss's own parameters."""
    backward = partial(loss_backward, loss, LABELS, processes=processes, memory=filled_queue() if queue else None)

    def embed(part):
        return nn.functional.normalize(model(part), dim=1)

    value = cached_gradient(model, embed, pixels, backward, pieces)[0] if pieces else backward(embed(pixels))
    gradients = [each.grad for each in [*model.parameters(), *loss.parameters()]]
    return [value.item(), *(each.numpy().copy() for each in gradients)]


def make_loss(case):
    return ProxyLoss() if case == "proxies" else SmoothAP(0.05)


def flags(case):
    return {"pieces": 3 if case == "pieces" else None, "queue": case == "queue"}


def share(rank, number, case):
    """This rank's part of the batch; the shares of `unequal shares` are of 1, 2, 3 images, and the rest."""
    if case == "unequal shares":
        return images().tensor_split([1, 3, 6][: number - 1])[rank]
    return images().chunk(number)[rank]


def report():
    """Embed and evaluate a set; each process takes its share."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (301, 24, 24, 3), dtype=np.uint8)
    labels = np.arange(301) % 43
    names = [str(row) for row in range(301)]
    everything = ImageSet("noise", names, labels, names[:43], lambda row, _=None: Image.fromarray(pixels[row]))
    torch.manual_seed(7)
    model = Embedder("test_resnet", 16, size=24, pretrained=False)
    return evaluate_set(model, everything, unreadable="unreadable.csv").to_json()


def projection_start():
    """The embedding layer that a training on noise would begin with, of a set with an image that cannot be read."""
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (150, 24, 24, 3), dtype=np.uint8)
    names = [str(row) for row in range(150)]

    def read(row, _=None):
        if row == 70:
            raise UnreadableImage(names[row], "damaged")
        return Image.fromarray(pixels[row])

    torch.manual_seed(8)
    model = Embedder("test_resnet", 16, size=24, pretrained=False)
    everything = ImageSet("noise", names, np.arange(150) % 30, names[:30], read)
    with tempfile.TemporaryDirectory() as folder:
        start_as_projection(model, ImageDataset(everything, model.transform, report=f"{folder}/unreadable.csv"))
    return model.embedding.weight.detach().numpy().tobytes() + model.embedding.bias.detach().numpy().tobytes()


def work(rank, number, port, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=number)
    try:
        found = {
            case: step(
                DistributedDataParallel(network()), make_loss(case), share(rank, number, case), Processes.here(),
                **flags(case),
            )
            for case in CASES
        }  # fmt: skip
        results[rank] = {**found, "report": report(), "projection": projection_start()}
    finally:
        dist.destroy_process_group()


def in_processes(number):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with multiprocessing.Manager() as manager:
        results = manager.dict()
        multiprocessing.spawn(work, (number, port, results), nprocs=number)
        return [results[rank] for rank in range(number)]


@pytest.fixture(scope="module")
def two_processes():
    return in_processes(2)


def assert_like_one_process(results, case):
    alone = step(network(), make_loss(case), images(), Processes(), **flags(case))
    for found in (each[case] for each in results):
        assert found[0] == pytest.approx(alone[0], abs=1e-10)  # the loss that is logged is not scaled
        assert len(found) == len(alone)
        for gradient, expected in zip(found[1:], alone[1:], strict=True):
            assert np.abs(expected).max() > 1e-4
            np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-10)


@pytest.mark.guarantee(7)
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_of_two_processes_equal_one(two_processes, case):
    assert_like_one_process(two_processes, case)


@pytest.mark.guarantee(7)
@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 4])
def test_loss_and_gradient_of_several_processes_equal_one(number):
    results = in_processes(number)
    for case in CASES:
        assert_like_one_process(results, case)
    assert {each["report"] for each in results} == {report()}


def test_the_report_of_two_processes_equals_that_of_one_to_the_last_digit(two_processes):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert [each["report"] for each in two_processes] == [report()] * 2
    finally:
        torch.set_num_threads(threads)


def test_two_processes_start_from_the_same_projection_as_one(two_processes):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert [each["projection"] for each in two_processes] == [projection_start()] * 2
    finally:
        torch.set_num_threads(threads)


def test_every_accelerator_gets_the_backend_that_torch_has_for_it(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert backends() == "cpu:gloo"
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    for name, backend in (("cuda", "nccl"), ("xpu", "xccl"), ("mps", "gloo")):
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda name=name: torch.device(name))
        if name in dist.Backend.default_device_backend_map:  # older torch knows fewer
            assert backends() == f"cpu:gloo,{name}:{backend}"


def test_the_oracle_bites():
    """Without its own rows in place, a process would send nothing back."""
    model, twin = network(), copy.deepcopy(network())
    step(model, SmoothAP(0.05), images(), Processes(), pieces=None, queue=False)
    SmoothAP(0.05)(nn.functional.normalize(twin(images()), dim=1), LABELS).backward()
    for mine, plain in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, plain.grad, rtol=0, atol=1e-14)
