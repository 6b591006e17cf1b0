"""The loops of a depthwise convolution (extra `fast`); imported only when numba is there.

An image is a table of pixels (pixels, c), a weight a table of taps (taps, c). The result, the gradient of the image and
that of the weight are all sums of products of a row of one table with a row of another. Which rows, a `Sums` says:
part k is added to row targets[k], and its pairs of rows are pairs[starts[k]] to pairs[starts[k + 1] - 1].
"""

import numpy as np

from smoothap._core.threads import compiled

_options = {"fastmath": {"contract"}, "error_model": "numpy"}


@compiled(**_options)
def add_products(
    left: np.ndarray,
    right: np.ndarray,
    starts: np.ndarray,
    targets: np.ndarray,
    pairs: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Add the products of rows of `left` and `right` to the rows of `totals`, four at a time."""
    channels = totals.shape[1]
    for part in range(len(targets)):
        total = totals[targets[part]]
        pair, end = starts[part], starts[part + 1]
        while pair + 4 <= end:
            left_0, right_0 = left[pairs[pair, 0]], right[pairs[pair, 1]]
            left_1, right_1 = left[pairs[pair + 1, 0]], right[pairs[pair + 1, 1]]
            left_2, right_2 = left[pairs[pair + 2, 0]], right[pairs[pair + 2, 1]]
            left_3, right_3 = left[pairs[pair + 3, 0]], right[pairs[pair + 3, 1]]
            for channel in range(channels):
                total[channel] += (left_0[channel] * right_0[channel] + left_1[channel] * right_1[channel]) + (
                    left_2[channel] * right_2[channel] + left_3[channel] * right_3[channel]
                )
            pair += 4
        while pair < end:
            left_0, right_0 = left[pairs[pair, 0]], right[pairs[pair, 1]]
            for channel in range(channels):
                total[channel] += left_0[channel] * right_0[channel]
            pair += 1


@compiled(**_options)
def add_slopes(
    gradients: np.ndarray, results: np.ndarray, low: float, high: float, slopes: np.ndarray, total: np.ndarray
) -> None:
    """The gradients (pixels, c) where the result is between low and high, else 0; their sum is added to `total`."""
    for pixel in range(len(gradients)):
        gradient, result, slope = gradients[pixel], results[pixel], slopes[pixel]
        for channel in range(len(total)):
            flat = result[channel] <= low or result[channel] >= high  # not where it is NaN, which nothing may hide
            slope[channel] = slope.dtype.type(0) if flat else gradient[channel]
            total[channel] += slope[channel]


@compiled(**_options)
def add_rows(rows: np.ndarray, total: np.ndarray) -> None:
    """Add rows (pixels, c) to `total` (c,)."""
    for row in range(len(rows)):
        for channel in range(len(total)):
            total[channel] += rows[row, channel]


@compiled(**_options)
def convolve_images(
    images: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    low: float,
    high: float,
    starts: np.ndarray,
    targets: np.ndarray,
    pairs: np.ndarray,
    results: np.ndarray,
) -> None:
    """The results (n, pixels, c) of images (n, pixels, c), kept between low and high."""
    for image in range(len(images)):
        result = results[image]
        for pixel in range(len(result)):
            for channel in range(len(bias)):
                result[pixel, channel] = bias[channel]
        add_products(images[image], weight, starts, targets, pairs, result)
        for pixel in range(len(result)):
            for channel in range(len(bias)):
                if result[pixel, channel] < low:
                    result[pixel, channel] = low
                elif result[pixel, channel] > high:
                    result[pixel, channel] = high


@compiled(**_options)
def add_gradients(
    images: np.ndarray,
    weight: np.ndarray,
    results: np.ndarray,
    gradients: np.ndarray,
    low: float,
    high: float,
    image_starts: np.ndarray,
    image_targets: np.ndarray,
    image_pairs: np.ndarray,
    weight_starts: np.ndarray,
    weight_targets: np.ndarray,
    weight_pairs: np.ndarray,
    of_images: np.ndarray,
    of_weight: np.ndarray,
    of_bias: np.ndarray,
) -> None:
    """Add what some images (n, pixels, c) contribute to the gradient of the weight (taps, c) and of the bias (c,).

    Without results (n = 0) there is no activation. The gradient of the images goes into `of_images` (n, pixels, c),
    unless n = 0 there.
    """
    masked = np.empty(gradients.shape[1:], gradients.dtype)
    weights = np.zeros_like(of_weight)  # sums of its own: threads that write near each other wait for each other
    biases = np.zeros_like(of_bias)
    for image in range(len(images)):
        slopes = masked
        if len(results):
            add_slopes(gradients[image], results[image], low, high, slopes, biases)
        else:
            slopes = gradients[image]
            add_rows(slopes, biases)
        add_products(images[image], slopes, weight_starts, weight_targets, weight_pairs, weights)
        if len(of_images):
            of_images[image] = 0
            add_products(weight, slopes, image_starts, image_targets, image_pairs, of_images[image])
    of_weight += weights
    of_bias += biases
