"""Depthwise convolution with our own weight gradient: torch's results, whatever the shape, the same for any threads."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import conv2d, pad

from smoothap._core.threads import numba_is_there
from smoothap.models.cpu import convolution, depthwise
from smoothap.models.cpu.convolution import convolve
from smoothap.models.cpu.depthwise import NO_ACTIVATION, Geometry

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
        "further": st.tuples(st.integers(0, 2), st.integers(0, 2)),
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


def geometry_of(shape):
    return Geometry(shape["stride"], shape["padding"], shape["dilation"], shape["channels"], shape["further"])


@given(shapes.filter(fits), st.sampled_from([NO_ACTIVATION, (0.0, 6.0), (-0.5, 0.5)]))
@settings(max_examples=80, deadline=None)
def test_result_and_gradients_are_torchs_for_any_shape(shape, bounds):
    images, weight = (value.requires_grad_() for value in layer(shape))
    bias = torch.randn(len(weight), dtype=weight.dtype, requires_grad=True)
    geometry = geometry_of(shape)
    down, across = geometry.further
    expected = conv2d(pad(images, [0, across, 0, down]), weight, bias, *geometry[:4]).clamp(*bounds)
    result = depthwise.convolve(images.detach(), weight, bias, geometry, bounds)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    gradient = torch.randn_like(expected)
    given = {} if bounds == NO_ACTIVATION else {"result": result, "bounds": bounds}
    computed = depthwise.gradients(images, weight, gradient, geometry, **given, of_images=True)
    for ours, theirs in zip(computed, torch.autograd.grad(expected, (images, weight, bias), gradient), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    alone = depthwise.gradients(images, weight, gradient, geometry, **given, of_images=False)
    assert alone[0] is None
    assert torch.equal(alone[1], computed[1])


@pytest.mark.parametrize("where", ["result", "gradient"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_bad_number_is_not_hidden_by_an_activation(where, value):
    images = torch.ones(1, 2, 3, 3)
    weight, bias = torch.ones(2, 1, 3, 3), torch.zeros(2)
    geometry = Geometry(padding=(1, 1), groups=2)
    if where == "result":
        images[0, 0, 1, 1] = value
        result = depthwise.convolve(images, weight, bias, geometry, (0.0, 6.0))
        expected = nn.functional.relu6(conv2d(images, weight, bias, *geometry[:4]))
        torch.testing.assert_close(result, expected, equal_nan=True)
        return
    gradient = torch.ones(1, 2, 3, 3)
    gradient[0, 0, 1, 1] = value
    for activation in ({}, {"result": torch.ones(1, 2, 3, 3), "bounds": (0.0, 6.0)}):
        for slopes in depthwise.gradients(images, weight, gradient, geometry, **activation, of_images=True):
            assert not slopes.isfinite().all()


def channels_last(*shape):
    values = torch.randn(*shape, dtype=torch.float64)
    return values.contiguous(memory_format=torch.channels_last).requires_grad_()


@pytest.mark.parametrize("activation", [None, nn.ReLU6(inplace=True), nn.Hardswish()])
@pytest.mark.parametrize(
    ("weight", "geometry"),
    [
        ((4, 1, 3, 3), Geometry((2, 1), (1, 1), (1, 1), 4)),
        ((4, 1, 5, 5), Geometry((2, 1), (2, 2), (1, 1), 4)),
        ((4, 1, 7, 7), Geometry((1, 1), (3, 3), (1, 1), 4)),
        ((4, 1, 5, 5), Geometry((2, 2), (1, 1), (1, 1), 4, (1, 1))),
        ((6, 4, 3, 3), Geometry((2, 2), (0, 0), (1, 1), 1, (1, 1))),
        ((6, 4, 1, 1), Geometry()),
        ((6, 2, 3, 3), Geometry((1, 1), (1, 1), (1, 1), 2)),
    ],
)
def test_the_whole_backward_pass_has_the_slopes_of_the_function(weight, geometry, activation):
    torch.manual_seed(0)
    bias = torch.randn(weight[0], dtype=torch.float64, requires_grad=True)
    inputs = channels_last(3, 4, 2, 5), channels_last(*weight), bias
    assert convolution._is_on_cpu(*inputs[:2])
    down, across = geometry.further
    expected = conv2d(pad(inputs[0], [0, across, 0, down]), *inputs[1:], *geometry[:4])
    expected = expected if activation is None else activation(expected * 1)
    torch.testing.assert_close(convolve(*inputs, geometry, activation), expected)
    assert torch.autograd.gradcheck(lambda *given: convolve(*given, geometry, activation), inputs)
    if not isinstance(activation, nn.Hardswish):  # which is torch's own, behind the convolution
        assert torch.autograd.gradgradcheck(
            lambda *given: convolve(*given, geometry, activation), inputs, fast_mode=True
        )


def test_the_bits_do_not_depend_on_the_number_of_threads():
    shape = {"images": 37, "channels": 40, "side": (6, 6), "kernel": (5, 5), "seed": 3}
    images, weight = layer(shape, torch.float32)
    geometry = Geometry((1, 1), (2, 2), (1, 1), 40)
    gradient = torch.randn_like(conv2d(images, weight, None, *geometry[:4]))
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 16):
            torch.set_num_threads(threads)
            result = depthwise.convolve(images, weight, None, geometry, (0.0, 6.0))
            slopes = depthwise.gradients(images, weight, gradient, geometry, result, (0.0, 6.0), of_images=True)
            results.append([result, *slopes, *depthwise.slopes_and_sum(gradient, result, (0.0, 6.0))])
    finally:
        torch.set_num_threads(before)
    for values in results[1:]:
        assert all(torch.equal(value, first) for value, first in zip(values, results[0], strict=True))


def test_which_way_is_taken_follows_from_the_shapes():
    images, small = torch.zeros(8, 64, 9, 9), torch.zeros(8, 64, 2, 2)
    three, five, seven, one = (torch.zeros(64, 1, side, side) for side in (3, 5, 7, 1))
    depthwise, few = Geometry(groups=64), Geometry(groups=63)
    assert convolution._has_our_gradient(images, three, depthwise)
    assert not convolution._has_our_gradient(images[:, :63], three[:63], few)
    assert convolution._has_our_gradient(small[:, :63], three[:63], few)
    assert convolution._has_our_gradient(images[:, :63], five[:63], few)
    assert not convolution._has_our_gradient(images, five, Geometry())
    assert convolution._has_our_image_gradient(five, depthwise)
    assert not convolution._has_our_image_gradient(seven, depthwise)
    assert not convolution._has_our_image_gradient(five[:63], few)
    uneven = Geometry(groups=64, further=(0, 1))
    assert convolution._has_our_image_gradient(seven, uneven)
    assert convolution._is_our_result(images, five, uneven)
    assert not convolution._is_our_result(images[:7], five, uneven)
    assert not convolution._is_our_result(images, five, depthwise)
    assert convolution._is_product(one, Geometry(), 100)
    assert not convolution._is_product(one, Geometry(), 100_000)
    assert not convolution._is_product(one, Geometry(stride=(2, 2)), 100)
    last = images.contiguous(memory_format=torch.channels_last)
    assert convolution._is_on_cpu(last, five)
    assert not convolution._is_on_cpu(images, five)
    assert not convolution._is_on_cpu(last.bfloat16(), five)


@given(shapes.filter(fits))
@settings(max_examples=20, deadline=None)
def test_tensorflows_padding_is_timms(shape):
    from timm.layers.conv2d_same import Conv2dSame

    images, weight = layer(shape, torch.float32)
    how = {"stride": shape["stride"], "dilation": shape["dilation"], "groups": len(weight), "bias": False}
    ours, theirs = (
        kind(len(weight), len(weight), shape["kernel"], **how) for kind in (convolution.SamePadding, Conv2dSame)
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
        alone = activation()(conv2d(images, weights, bias, *geometry[:4]))
    torch.testing.assert_close(fused, alone, rtol=1e-5, atol=1e-4)
