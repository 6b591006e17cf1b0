"""Depthwise convolution with our own weight gradient: torch's results, whatever the shape, the same for any threads."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import conv2d

from smoothap.models import Embedder, fast_layers
from smoothap.models.fast_layers import convolve, weight_and_bias_gradient
from smoothap.numerics.threads import numba_is_there

pytestmark = pytest.mark.skipif(not numba_is_there(), reason="the loop is compiled by numba")

shapes = st.fixed_dictionaries(
    {
        "images": st.integers(1, 11),
        "channels": st.integers(1, 9),
        "side": st.tuples(st.integers(1, 9), st.integers(1, 9)),
        "kernel": st.tuples(st.sampled_from([1, 2, 3, 5, 7]), st.sampled_from([1, 3, 4, 5, 7])),
        "stride": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "padding": st.tuples(st.integers(0, 4), st.integers(0, 4)),
        "dilation": st.tuples(st.integers(1, 2), st.integers(1, 2)),
        "seed": st.integers(0, 1000),
    }
)


def layer(shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(shape["seed"])
    images = torch.randn(shape["images"], shape["channels"], *shape["side"], generator=generator, dtype=dtype)
    weight = torch.randn(shape["channels"], 1, *shape["kernel"], generator=generator, dtype=dtype)
    return images, weight


def fits(shape):
    return all(
        side + 2 * padding >= dilation * (kernel - 1) + 1
        for side, padding, dilation, kernel in zip(
            shape["side"], shape["padding"], shape["dilation"], shape["kernel"], strict=True
        )
    )


@given(shapes.filter(fits))
@settings(max_examples=60, deadline=None)
def test_the_gradients_are_torchs_for_any_shape(shape):
    images, weight = layer(shape)
    weight.requires_grad_()
    bias = torch.zeros(len(weight), dtype=weight.dtype, requires_grad=True)
    how = shape["stride"], shape["padding"], shape["dilation"]
    output = conv2d(images, weight, bias, *how, groups=len(weight))
    gradient = torch.randn_like(output)
    expected = torch.autograd.grad(output, (weight, bias), gradient)
    computed = weight_and_bias_gradient(images, gradient, weight.shape[2:], *how)
    for ours, theirs in zip(computed, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_the_whole_backward_pass_has_the_slopes_of_the_function(kernel):
    generator = torch.Generator().manual_seed(0)
    images, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)
        for shape in ((3, 4, 2, 5), (4, 1, kernel, kernel), (4,))
    )
    how = (2, 1), (kernel // 2, kernel // 2), (1, 1)
    assert fast_layers._has_our_gradient(images, weight, 4)
    assert torch.autograd.gradcheck(lambda *inputs: convolve(*inputs, *how, 4), (images, weight, bias))
    assert torch.autograd.gradgradcheck(lambda *inputs: convolve(*inputs, *how, 4), (images, weight, bias))


def test_the_bits_do_not_depend_on_the_number_of_threads():
    shape = {"images": 37, "channels": 40, "side": (6, 6), "kernel": (5, 5), "seed": 3}
    images, weight = layer(shape, torch.float32)
    how = (1, 1), (2, 2), (1, 1)
    gradient = torch.randn_like(conv2d(images, weight, None, *how, groups=40))
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 16):
            torch.set_num_threads(threads)
            results.append(weight_and_bias_gradient(images, gradient, weight.shape[2:], *how))
    finally:
        torch.set_num_threads(before)
    for weight_gradient, bias_gradient in results[1:]:
        assert torch.equal(weight_gradient, results[0][0])
        assert torch.equal(bias_gradient, results[0][1])


@pytest.mark.parametrize("network", ["tf_efficientnet_lite0", "mobilenetv3_small_050", "convnext_atto"])
def test_a_network_learns_the_same_with_torchs_gradient(network, monkeypatch):
    torch.manual_seed(0)
    model = Embedder(network, 8, size=48, pretrained=False).double()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    images, target = torch.randn(5, 3, 48, 48).double(), torch.randn(5, 8)
    gradients = []
    used = []
    own = fast_layers.weight_and_bias_gradient
    monkeypatch.setattr(fast_layers, "weight_and_bias_gradient", lambda *what: used.append(1) or own(*what))
    for numba in (True, False):
        monkeypatch.setattr(fast_layers, "numba_is_there", lambda numba=numba: numba)
        model.zero_grad()
        torch.manual_seed(1)
        (model(images) * target).sum().backward()
        gradients.append({name: weight.grad.clone() for name, weight in model.named_parameters()})
        assert used, "this network was to use our gradient"
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-6, atol=1e-8, msg=name)


def test_torchs_gradient_is_taken_where_it_is_the_faster_one():
    images, small = torch.zeros(2, 8, 9, 9), torch.zeros(2, 8, 2, 2)
    three, five = (torch.zeros(8, 1, side, side, requires_grad=True) for side in (3, 5))
    assert not fast_layers._has_our_gradient(images, three, 8)
    assert fast_layers._has_our_gradient(small, three, 8)
    assert fast_layers._has_our_gradient(images, five, 8)
    assert not fast_layers._is_on_cpu(images.bfloat16(), five)
    with torch.no_grad():
        assert not fast_layers._has_our_gradient(images, five, 8)


@given(shapes.filter(fits))
@settings(max_examples=20, deadline=None)
def test_tensorflows_padding_is_timms(shape):
    from timm.layers.conv2d_same import Conv2dSame

    images, weight = layer(shape, torch.float32)
    how = {"stride": shape["stride"], "dilation": shape["dilation"], "groups": len(weight), "bias": False}
    ours, theirs = (
        kind(len(weight), len(weight), shape["kernel"], **how) for kind in (fast_layers.SamePadding, Conv2dSame)
    )
    theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours(images), theirs(images))


def test_a_convolution_of_one_by_one_is_a_product_with_torchs_values_and_gradients():
    torch.manual_seed(0)
    images, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 5, 4, 6), (7, 5, 1, 1), (7,))
    )
    last = images.contiguous(memory_format=torch.channels_last)
    how = (1, 1), (0, 0), (1, 1), 1
    assert fast_layers._is_product(last, weight, *how[:2], 1)
    ours, theirs = convolve(last, weight, bias, *how), conv2d(images, weight, bias, *how)
    assert ours.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(ours, theirs)
    gradient = torch.randn_like(theirs)
    for one, other in zip(
        torch.autograd.grad(ours, (images, weight, bias), gradient),
        torch.autograd.grad(theirs, (images, weight, bias), gradient),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_relu6_in_place_has_the_gradient_of_torchs_and_keeps_no_copy():
    values = torch.tensor([-1.0, 0.0, 1e-3, 3.0, 5.999, 6.0, 7.0], dtype=torch.float64, requires_grad=True)
    ours, theirs = fast_layers.relu6(values * 1), torch.nn.functional.relu6(values)
    assert torch.equal(ours, theirs)
    gradient = torch.randn_like(values)
    assert torch.equal(*(torch.autograd.grad(result, values, gradient)[0] for result in (ours, theirs)))
    features = values * 1
    assert fast_layers.relu6(features).data_ptr() == features.data_ptr()
    inner = torch.tensor([-1.0, 1.0, 3.0, 8.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda given: fast_layers.relu6(given * 1), inner)
