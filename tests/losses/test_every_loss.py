"""One set of checks for every loss, ours and those of pytorch-metric-learning; what a loss cannot do is in a table.

An entry of `CANNOT` is an expected failure: if the loss passes after all, the test fails, and the entry has to go.
"""

import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from guarantees import LONG
from torch.utils._python_dispatch import TorchDispatchMode
from wrapped_losses import CLASSES, DIMENSION, LABELS, WRAPPED

from smoothap._core.distributed import Processes
from smoothap.functional.indicators import Exponential, Linear
from smoothap.losses import BlackboxAP, BlackboxRecall, CalibrationLoss, RecallAtK, Roadmap, SmoothAP, SupAP
from smoothap.training.loop import loss_backward

OURS = {
    "smooth-ap": lambda: SmoothAP(0.05),
    "smooth-ap-linear": lambda: SmoothAP(indicator=Linear(0.3)),
    "smooth-ap-exponential": lambda: SmoothAP(indicator=Exponential(0.3)),
    "blackbox-ap": BlackboxAP,
    "blackbox-recall": BlackboxRecall,
    "sup-ap": lambda: SupAP(tau=0.05),
    "calibration": CalibrationLoss,
    "roadmap": Roadmap,
    "recall-at-k": lambda: RecallAtK(tau2=0.05),
}

_FLAT = "its gradient is not that of its value, which is flat: test_blackbox_ap.py has it"
_PER_CLASS = "it has a parameter for each class, and labels are their places"
_PROXIES = "it compares with a proxy for each class, and no row with another: there is no retrieval set"
_ALONE = "every row is compared with the proxies, also the only one of its class"
_PAIRS = "a negative pair costs by itself, whether or not its query has a positive"
_NO_REFERENCE = "the library has no ref_emb for it, and says so"
_ZEROS = "the library divides a zero row by a small number instead of refusing it"
CANNOT = {
    **{("gradient", name): _FLAT for name in ("blackbox-ap", "blackbox-recall")},
    **{
        ("order", name): "its miner draws at random, in the order of the rows"
        for name in ("margin", "triplet", "triplet-softhard")
    },
    **{("names", name): _PER_CLASS for name in ("margin", "proxy-nca", "softmax", "arcface")},
    **{("alone", name): _PAIRS for name in ("contrastive", "xbm", "calibration", "roadmap")},
    **{("alone", name): _ALONE for name in ("proxy-nca", "softmax", "arcface")},
    ("retrieval set", "fast-ap"): _NO_REFERENCE,
    ("retrieval set", "xbm"): "the memory is a term beside that of the batch, and has no gradient",
    **{("retrieval set", name): _PROXIES for name in ("proxy-nca", "softmax", "arcface")},
    **{("zero row", name): _ZEROS for name in WRAPPED},
}


def every(check):
    """Run the check with each loss; those of the table are expected to fail, for the reason given there."""
    losses = [
        pytest.param(name, marks=pytest.mark.xfail(reason=CANNOT[check, name], strict=True))
        if (check, name) in CANNOT
        else name
        for name in (*OURS, *WRAPPED)
    ]
    return pytest.mark.parametrize("name", losses)


def build(name, dtype=torch.float64):
    torch.manual_seed(7)
    return (OURS | WRAPPED)[name]().to(dtype)


def rows(seed=0, number=20, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(number, DIMENSION, generator=generator, dtype=dtype))


def value_of(loss, *given, **named):
    """The loss, with the same draws each time where it draws."""
    torch.manual_seed(3)
    return loss(*given, **named)


def with_gradient(loss, embeddings, labels, **named):
    embeddings = embeddings.clone().requires_grad_()
    value = value_of(loss, embeddings, labels, **named)
    return value.detach(), torch.autograd.grad(value, embeddings)[0]


@pytest.mark.guarantee(1)
@every("gradient")
def test_the_gradient_is_that_of_the_value(name):
    loss = build(name)
    embeddings = (rows() * torch.linspace(0.5, 2, len(LABELS))[:, None]).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: value_of(loss, x, LABELS), (embeddings,), eps=1e-7, atol=1e-5, fast_mode=not LONG
    )
    assert with_gradient(loss, embeddings.detach(), LABELS)[1].abs().max() > 1e-4


@every("order")
def test_any_order_of_rows_gives_the_same_loss_and_gradient(name):
    loss = build(name)
    value, gradient = with_gradient(loss, rows(), LABELS)
    order = torch.randperm(len(LABELS), generator=torch.Generator().manual_seed(1))
    other, other_gradient = with_gradient(loss, rows()[order], LABELS[order])
    assert torch.allclose(other, value, atol=1e-10)
    assert torch.allclose(other_gradient, gradient[order], atol=1e-10)


@every("names")
def test_any_whole_numbers_may_be_labels(name):
    names = torch.tensor([10**12, -7, 5, 0, -(10**15), 99])
    loss = build(name)
    assert torch.allclose(value_of(loss, rows(), names[LABELS]), value_of(loss, rows(), LABELS), atol=1e-10)


@every("singletons")
def test_the_only_row_of_its_class_does_no_harm(name):
    loss = build(name)
    labels = torch.where(torch.arange(len(LABELS)) == 5, 5, torch.where(LABELS == 5, 4, LABELS))  # row 5 is alone
    value, gradient = with_gradient(loss, rows(), labels)
    assert value.isfinite()
    assert gradient.isfinite().all()


@every("alone")
def test_a_batch_in_which_nobody_has_a_positive_asks_nothing(name):
    value, gradient = with_gradient(build(name), rows(number=CLASSES), torch.arange(CLASSES))
    assert value == 0
    assert (gradient == 0).all()


@pytest.mark.guarantee(1)
@every("retrieval set")
def test_the_gradient_to_a_retrieval_set_is_that_of_the_value(name):
    if ("gradient", name) in CANNOT:
        pytest.xfail(CANNOT["gradient", name])
    loss = build(name)
    queries, items = rows(1, 7).requires_grad_(), rows(2, 12).requires_grad_()
    item_labels = torch.arange(12) % CLASSES

    def value(first, second):
        return value_of(loss, first, LABELS[:7], ref_emb=second, ref_labels=item_labels)

    assert torch.autograd.gradcheck(value, (queries, items), eps=1e-7, atol=1e-5, fast_mode=not LONG)


@pytest.mark.guarantee(1)
@pytest.mark.parametrize("tau", [0.1, 0.01])
@pytest.mark.parametrize(
    "make",
    [
        lambda tau: SmoothAP(tau),
        lambda tau: SmoothAP(tau, include_query=True),
        lambda tau: SmoothAP(tau, reduction="none"),
        lambda tau: SmoothAP(indicator=Linear(tau)),
        lambda tau: SmoothAP(indicator=Exponential(max(tau, 0.05))),  # its least scale
        lambda tau: SupAP(tau=tau),
        lambda tau: RecallAtK(tau2=tau),
    ],
    ids=["smooth-ap", "include-query", "none", "linear", "exponential", "sup-ap", "recall-at-k"],
)
def test_gradients_are_right_at_both_temperatures(make, tau):
    embeddings = rows(5, 12).requires_grad_()
    loss = make(tau).double()
    # at tau 0.01 the slope changes over 0.01: the difference quotient must stay well inside
    assert torch.autograd.gradcheck(lambda x: loss(x, LABELS[:12]), (embeddings,), eps=1e-7, atol=1e-5, rtol=1e-3)


@every("retrieval set")
def test_the_batch_as_its_own_retrieval_set_is_the_batch(name):
    loss = build(name)
    value, gradient = with_gradient(loss, rows(), LABELS)
    embeddings = rows().requires_grad_()
    self_index = torch.arange(len(LABELS))
    other = value_of(loss, embeddings, LABELS, ref_emb=embeddings.clone(), ref_labels=LABELS, self_index=self_index)
    assert torch.allclose(other, value, atol=1e-10)
    assert torch.allclose(torch.autograd.grad(other, embeddings)[0], gradient, atol=1e-10)


@every("retrieval set")
def test_a_retrieval_set_of_other_rows_gets_a_gradient(name):
    loss = build(name)
    queries, items = rows(1, 7).requires_grad_(), rows(2, 30).requires_grad_()
    item_labels = torch.arange(30) % CLASSES
    value_of(loss, queries, LABELS[:7], ref_emb=items, ref_labels=item_labels).backward()
    assert queries.grad.abs().max() > 0
    assert items.grad.abs().max() > 0


@every("float16")
def test_float16_input_is_computed_in_float32(name):
    loss = build(name, torch.float32)
    half = rows(dtype=torch.float32).half()
    value, gradient = with_gradient(loss, half, LABELS)
    expected, expected_gradient = with_gradient(loss, half.float(), LABELS)
    assert value.dtype == torch.float32
    assert torch.allclose(value, expected, atol=1e-5)
    assert gradient.dtype == torch.float16
    assert torch.allclose(gradient.float(), expected_gradient, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("name", OURS)
def test_a_retrieval_set_of_another_precision_is_computed_in_the_better_one(name):
    loss = build(name)
    expected = loss(rows(1), LABELS, None, rows(2).half().double(), LABELS)
    sides = rows(1).requires_grad_(), rows(2).half().requires_grad_()
    value = loss(sides[0], LABELS, None, sides[1], LABELS)
    value.backward()
    assert value.dtype == torch.float64
    assert torch.allclose(value, expected, atol=1e-12)
    assert [side.grad.dtype for side in sides] == [torch.float64, torch.float16]
    assert loss(sides[1], LABELS, None, sides[0], LABELS).dtype == torch.float64


@pytest.mark.guarantee(5)
@every("nan")
@pytest.mark.parametrize("place", ["embeddings", "ref_emb"])
def test_nan_is_refused_by_row(name, place):
    broken = rows()
    broken[4, 2] = float("nan")
    given = (broken, LABELS) if place == "embeddings" else (rows(), LABELS, None, broken, LABELS)
    if place == "ref_emb" and name in WRAPPED:
        given = (rows(), LABELS, broken, LABELS)  # the library's wrapper takes no listed pairs
    with pytest.raises(ValueError, match=f"{place} has NaN or infinite values in row 4"):
        build(name)(*given)


@pytest.mark.guarantee(5)
@every("zero row")
def test_a_zero_row_is_refused_by_row(name):
    embeddings = rows()
    embeddings[6] = 0
    with pytest.raises(ValueError, match="all zeros in row 6"):
        build(name)(embeddings, LABELS)


FORMS = {
    "batch": lambda queries, items: (queries, LABELS),
    "reference": lambda queries, items: (queries, LABELS, None, items, LABELS),
    "reference alone": lambda queries, items: (queries.detach(), LABELS, None, items, LABELS),
    "self_index": lambda queries, items: (queries, LABELS, None, items, LABELS, torch.arange(len(LABELS))),
    "listed": lambda queries, items: (queries, None, tuple(torch.tensor([[1, 3, 4], [9, 7, 8], [0, 2, 5]]))),
}


@pytest.mark.guarantee(1)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("ask", ["backward", "grad"])
def test_a_gradient_penalty_is_refused_not_silently_nothing(name, form, ask):
    """Beside the loss itself, so that it would pass for a constant; torch raises if nothing else has a gradient."""
    leaves = [rows(1).requires_grad_(), rows(2).requires_grad_()]
    given = FORMS[form](*leaves)
    wanted = [leaf for leaf in leaves if any(leaf is tensor for tensor in given)]
    value = build(name)(*given)
    gradients = torch.autograd.grad(value, wanted, create_graph=True)
    penalised = value + 1000 * sum(gradient.pow(2).sum() for gradient in gradients)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        penalised.backward() if ask == "backward" else torch.autograd.grad(penalised, wanted[0])


class Largest(TorchDispatchMode):
    """Remembers how many numbers the largest tensor had that was made."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, torch.Tensor):
                self.numbers = max(self.numbers, made.untyped_storage().nbytes() // made.element_size())
        return result


@pytest.mark.parametrize(("batch", "samples_per_class"), [(1024, 4), (512, 64)])
@pytest.mark.parametrize("name", OURS)
def test_no_tensor_grows_with_the_cube_of_the_batch(name, batch, samples_per_class):
    labels = torch.arange(batch) % (batch // samples_per_class)
    embeddings = rows(4, batch, torch.float32).requires_grad_()
    loss = build(name, torch.float32)
    with Largest() as largest:
        loss(embeddings, labels).backward()
    assert batch < largest.numbers <= 1 << 22  # where the cubes are 2^30 and 2^27
    assert embeddings.grad.abs().max() > 0


def step(name, embeddings, processes):
    """The loss and the gradients of this process's rows and of the loss's own parameters."""
    loss = build(name)
    embeddings = embeddings.clone().requires_grad_()
    torch.manual_seed(3)
    value = loss_backward(loss, LABELS, embeddings, processes=processes)
    return [tensor.tolist() for tensor in (value, embeddings.grad, *(weight.grad for weight in loss.parameters()))]


def work(rank, number, port, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=number)
    try:
        share = rows().chunk(number)[rank]
        results[rank] = {name: step(name, share, Processes.here()) for name in (*OURS, *WRAPPED)}
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def two_processes():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with multiprocessing.Manager() as manager:
        results = manager.dict()
        multiprocessing.spawn(work, (2, port, results), nprocs=2)
        return [results[rank] for rank in range(2)]


@pytest.mark.alone
@pytest.mark.guarantee(7)
@every("two processes")
def test_two_processes_give_the_loss_and_gradient_of_one(two_processes, name):
    value, gradient, *parameters = (
        torch.tensor(numbers, dtype=torch.float64) for numbers in step(name, rows(), Processes())
    )
    parts = [[torch.tensor(numbers, dtype=torch.float64) for numbers in process[name]] for process in two_processes]
    for part in parts:
        assert torch.allclose(part[0], value, atol=1e-10)
        for mine, expected in zip(part[2:], parameters, strict=True):
            assert torch.allclose(mine, expected, atol=1e-10)
    # each process sends back twice its share, of which data-parallel training takes the mean
    assert torch.allclose(torch.cat([part[1] for part in parts]) / 2, gradient, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", OURS)
def test_torchs_default_dtype_plays_no_part(name, dtype):
    embeddings, labels = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) // 2
    expected = OURS[name]()(embeddings, labels)
    torch.set_default_dtype(dtype)
    try:
        assert torch.equal(OURS[name]()(embeddings, labels), expected)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", OURS)
def test_torchs_default_device_plays_no_part(name):
    embeddings, labels = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) // 2
    expected = OURS[name]()(embeddings, labels)
    with torch.device("meta"):
        assert torch.equal(OURS[name]()(embeddings, labels), expected)
