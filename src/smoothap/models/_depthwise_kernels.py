"""The weight gradient of a depthwise convolution as plain loops (extra `fast`); imported only when numba is there."""

import numpy as np

from smoothap.numerics.compiled import compiled


@compiled(fastmath={"contract"}, error_model="numpy")
def add_gradients(
    images: np.ndarray,
    gradients: np.ndarray,
    geometry: tuple[int, ...],
    weight: np.ndarray,
    bias: np.ndarray,
) -> None:
    """Add what some images (n, h, w, c) contribute to the gradient of the weight (kh, kw, c) and of the bias (c,).

    gradients (n, oh, ow, c) are those of the output; geometry has stride, padding and dilation, each down and across.
    """
    stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x = geometry
    number, height, width, channels = images.shape
    rows, columns = gradients.shape[1:3]
    for image in range(number):
        for tap_y in range(weight.shape[0]):
            for tap_x in range(weight.shape[1]):
                total = weight[tap_y, tap_x]
                for row in range(rows):
                    y = row * stride_y - padding_y + tap_y * dilation_y
                    if y < 0 or y >= height:
                        continue
                    for column in range(columns):
                        x = column * stride_x - padding_x + tap_x * dilation_x
                        if x < 0 or x >= width:
                            continue
                        pixel, gradient = images[image, y, x], gradients[image, row, column]
                        for channel in range(channels):
                            total[channel] += pixel[channel] * gradient[channel]
        for row in range(rows):
            for column in range(columns):
                gradient = gradients[image, row, column]
                for channel in range(channels):
                    bias[channel] += gradient[channel]
