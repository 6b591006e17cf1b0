import pytest
import torch

from smoothap import SmoothAP
from smoothap._core.precision import float32_networks, full_precision


def clustered(dtype, rows=96, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows // 4).repeat_interleave(4)
    centres = torch.randn(rows // 4, 32, generator=generator)
    return (centres[labels] + 1.5 * torch.randn(rows, 32, generator=generator)).to(dtype), labels


@pytest.mark.guarantee(4)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("tau", [0.1, 0.01])
@pytest.mark.parametrize("seed", range(5))
def test_half_precision_gradients_point_where_those_of_float64_do(core_path, dtype, tau, seed):
    embeddings, labels = clustered(dtype, seed=seed)
    exact = embeddings.double().requires_grad_()
    rounded = embeddings.requires_grad_()
    SmoothAP(tau)(exact, labels).backward()
    loss = SmoothAP(tau)(rounded, labels)
    loss.backward()
    assert loss.dtype == torch.float32
    assert rounded.grad.dtype == dtype
    assert rounded.grad.isfinite().all()
    assert torch.cosine_similarity(rounded.grad.double().flatten(), exact.grad.flatten(), dim=0) >= 0.999


@pytest.mark.parametrize("with_reference", [False, True])
def test_autocast_outside_changes_nothing_inside(core_path, with_reference):
    embeddings, labels = clustered(torch.float32)
    reference = {"ref_emb": embeddings, "ref_labels": labels, "self_index": torch.arange(96)} if with_reference else {}
    values = []
    for enabled in (False, True):
        leaf = embeddings.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = SmoothAP()(leaf, labels, **reference)
        loss.backward()
        values.append((loss, leaf.grad))
    assert torch.equal(values[0][0], values[1][0])
    assert torch.equal(values[0][1], values[1][1])


def test_full_precision_switches_fast_products_off_and_back_on():
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with full_precision("cpu"):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.guarantee(4)
def test_the_gradient_stays_finite_when_everything_is_already_right(core_path):
    embeddings = torch.eye(8).repeat_interleave(2, 0).requires_grad_()
    SmoothAP(0.001)(embeddings, torch.arange(8).repeat_interleave(2)).backward()
    assert embeddings.grad.isfinite().all()


def test_a_network_in_float32_is_not_rounded_to_tf32_and_the_users_choice_comes_back():
    convolutions = torch.backends.cudnn.conv
    before = convolutions.fp32_precision
    with float32_networks():
        assert (convolutions.fp32_precision, torch.backends.cuda.matmul.fp32_precision) == ("ieee", "ieee")
        with float32_networks(tf32=True):
            assert convolutions.fp32_precision == "tf32"
        assert convolutions.fp32_precision == "ieee"
    assert convolutions.fp32_precision == before
