"""Depthwise convolution with our own weight gradient: torch's results, whatever the shape, the same for any threads."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import conv2d

from smoothap.models import Embedder, fast_layers
from smoothap.models.fast_layers import Geometry, convolve, weight_and_bias_gradient
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
    geometry = Geometry(shape["stride"], shape["padding"], shape["dilation"], len(weight))
    output = conv2d(images, weight, bias, *geometry)
    gradient = torch.randn_like(output)
    expected = torch.autograd.grad(output, (weight, bias), gradient)
    computed = weight_and_bias_gradient(images, gradient, weight.shape[2:], geometry)
    for ours, theirs in zip(computed, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def channels_last(*shape):
    values = torch.randn(*shape, dtype=torch.float64)
    return values.contiguous(memory_format=torch.channels_last).requires_grad_()


@pytest.mark.parametrize("activation", [None, nn.ReLU(inplace=True), nn.ReLU6(inplace=True), nn.Hardswish()])
@pytest.mark.parametrize(
    ("weight", "geometry"),
    [
        ((4, 1, 3, 3), Geometry((2, 1), (1, 1), (1, 1), 4)),
        ((4, 1, 5, 5), Geometry((2, 1), (2, 2), (1, 1), 4)),
        ((4, 1, 7, 7), Geometry((1, 1), (3, 3), (1, 1), 4)),
        ((6, 4, 1, 1), Geometry()),
        ((6, 2, 3, 3), Geometry((1, 1), (1, 1), (1, 1), 2)),
    ],
)
def test_the_whole_backward_pass_has_the_slopes_of_the_function(weight, geometry, activation):
    torch.manual_seed(0)
    bias = torch.randn(weight[0], dtype=torch.float64, requires_grad=True)
    inputs = channels_last(3, 4, 2, 5), channels_last(*weight), bias
    assert fast_layers._is_on_cpu(*inputs[:2])
    expected = conv2d(*inputs, *geometry)
    expected = expected if activation is None else activation(expected * 1)
    torch.testing.assert_close(convolve(*inputs, geometry, activation), expected)
    assert torch.autograd.gradcheck(lambda *given: convolve(*given, geometry, activation), inputs)
    assert torch.autograd.gradgradcheck(lambda *given: convolve(*given, geometry, activation), inputs)


def test_the_bits_do_not_depend_on_the_number_of_threads():
    shape = {"images": 37, "channels": 40, "side": (6, 6), "kernel": (5, 5), "seed": 3}
    images, weight = layer(shape, torch.float32)
    geometry = Geometry((1, 1), (2, 2), (1, 1), 40)
    gradient = torch.randn_like(conv2d(images, weight, None, *geometry))
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 16):
            torch.set_num_threads(threads)
            results.append(weight_and_bias_gradient(images, gradient, weight.shape[2:], geometry))
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


def test_which_gradient_is_taken_follows_from_the_shapes():
    images, small = torch.zeros(2, 8, 9, 9), torch.zeros(2, 8, 2, 2)
    three, five, one = (torch.zeros(8, 1, side, side) for side in (3, 5, 1))
    depthwise = Geometry(groups=8)
    assert not fast_layers._has_our_gradient(images, three, depthwise)
    assert fast_layers._has_our_gradient(small, three, depthwise)
    assert fast_layers._has_our_gradient(images, five, depthwise)
    assert not fast_layers._has_our_gradient(images, five, Geometry())
    assert fast_layers._is_product(one, Geometry(), 100)
    assert not fast_layers._is_product(one, Geometry(), 100_000)
    assert not fast_layers._is_product(one, Geometry(stride=(2, 2)), 100)
    last = images.contiguous(memory_format=torch.channels_last)
    assert fast_layers._is_on_cpu(last, five)
    assert not fast_layers._is_on_cpu(images, five)
    assert not fast_layers._is_on_cpu(last.bfloat16(), five)


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


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ReLU6, nn.Hardswish, nn.SiLU])
@pytest.mark.parametrize("weight", [(6, 4, 1, 1), (4, 1, 5, 5), (6, 4, 3, 3)])
def test_a_fused_activation_gives_what_it_gives_by_itself(weight, activation):
    torch.manual_seed(0)
    images = (8 * torch.randn(2, 4, 9, 8)).contiguous(memory_format=torch.channels_last)
    weights, bias = torch.randn(weight), torch.randn(weight[0])
    geometry = Geometry(padding=(weight[2] // 2,) * 2, groups=4 // weight[1])
    with torch.inference_mode():
        fused = convolve(images, weights, bias, geometry, activation())
        alone = activation()(conv2d(images, weights, bias, *geometry))
    torch.testing.assert_close(fused, alone, rtol=1e-5, atol=1e-4)


def test_the_backward_pass_of_the_default_network_copies_no_map():
    """A gradient in another layout than the features is copied, layer by layer: that was a third of a step."""
    model = Embedder(dimension=None, size=64, pretrained=False)
    images = torch.randn(4, 3, 64, 64).contiguous(memory_format=torch.channels_last)
    loss = model(images).sum()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        loss.backward()
    copied = [
        event.input_shapes[0]
        for event in profile.events()
        if event.name == "aten::copy_" and len(event.input_shapes[0]) == 4 and event.input_shapes[0][0] == 4
    ]
    assert len(copied) <= 6, copied  # of the mean, and of the borders that TensorFlow's padding adds
