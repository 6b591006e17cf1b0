"""A model's test transform as a part of its ONNX graph: pixels of any size in, the square of the network out."""

import numpy as np
import onnx
from PIL import Image

from smoothap.data.transforms import Transform

OPSET = 18  # the first whose Resize is antialiased, as Pillow's is
# What is outside of an image counts nothing, as in Pillow.
_RESIZE = 'Resize <mode="linear", antialias=1, exclude_outside=1, coordinate_transformation_mode="half_pixel">'
_SQUARE = "down = Identity (side) across = Identity (side)"
_SHORTER_SIDE = """
    shorter = Min (height, width)
    height_sides = Mul (height, side) down = Div (height_sides, shorter)
    width_sides = Mul (width, side) across = Div (width_sides, shorter)"""
_ACROSS_FIRST = "first_sizes = Identity (across_sizes)"
# As Pillow does, whatever is cut out: if so much more of the height is saved than of the width.
_DOWN_FIRST = """
    height_saved = Sub (height, size) width_saved = Sub (width, size)
    width_twice = Mul (width_saved, two)
    more = Greater (height_saved, width_twice) shrinks = Greater (height, size)
    tall = And (more, shrinks)
    down_sizes = Concat <axis=0> (count, down, width, three)
    first_sizes = Where (tall, down_sizes, across_sizes)"""


def preprocessing_model(transform: Transform, ir_version: int) -> onnx.ModelProto:
    """`transform.test` as a model: "images" (n, height, width, 3) uint8 -> "pixels" (n, 3, size, size) uint8.

    Resized and then cropped are the same pixels that `Transform` cuts out in one step, up to a rounding of one level
    in a few of a thousand. Levels are rounded after each of two passes, so that their order matters: it is that of the
    Pillow that is installed. Half of a border is rounded as Python does: x.5 to the even neighbour.
    """
    size = transform.size
    model = onnx.parser.parse_model(f"""
<ir_version: {ir_version}, opset_import: ["" : {OPSET}]>
preprocessing (uint8[n, height, width, 3] images) => (uint8[n, 3, {size}, {size}] pixels)
<int64[1] size = {{{size}}}, int64[1] side = {{{transform.resized}}}, int64[1] zero = {{0}}, int64[1] one = {{1}},
 int64[1] two = {{2}}, int64[1] three = {{3}}, int64[2] down_and_across = {{1, 2}}, float[1] half = {{0.5}}>
{{
    shape = Shape (images)
    count = Slice (shape, zero, one) height = Slice (shape, one, two) width = Slice (shape, two, three)
    {_SHORTER_SIDE if transform.name == "released" else _SQUARE}
    across_sizes = Concat <axis=0> (count, height, across, three)
    {_DOWN_FIRST if _shrinks_tall_images_by_height_first() else _ACROSS_FIRST}
    first = {_RESIZE} (images, "", "", first_sizes)
    both_sizes = Concat <axis=0> (count, down, across, three)
    resized = {_RESIZE} (first, "", "", both_sizes)
    sides = Concat <axis=0> (down, across)
    borders = Sub (sides, size)
    float_borders = Cast <to=1> (borders)
    halves = Mul (float_borders, half)
    rounded = Round (halves)
    start = Cast <to=7> (rounded)
    end = Add (start, size)
    cut = Slice (resized, start, end, down_and_across)
    pixels = Transpose <perm=[0, 3, 1, 2]> (cut)
}}""")
    # Names that the network does not have too.
    return onnx.compose.add_prefix(model, "transform_", rename_inputs=False, rename_outputs=False)


def _shrinks_tall_images_by_height_first() -> bool:
    """Whether Pillow chooses the order of its passes, as newer versions do, or begins with the width always."""
    pixels = np.random.default_rng(0).integers(0, 256, (90, 40, 3), dtype=np.uint8)
    image, by = Image.fromarray(pixels), Image.Resampling.BILINEAR
    chosen = np.asarray(image.resize((32, 32), by))
    down_first, across_first = (
        int((chosen != np.asarray(image.resize(first, by).resize((32, 32), by))).sum())
        for first in ((40, 32), (32, 90))
    )
    return down_first < across_first
