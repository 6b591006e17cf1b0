"""A model's test transform as a part of its ONNX graph: pixels of any size in, the square of the network out."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from smoothap.data.transforms import Transform

OPSET = 18  # the first whose Resize is antialiased, as Pillow's is


class _Graph:
    """Nodes in the order they are computed, and the constants that they take."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The name of what the operator makes of its inputs."""
        name = f"transform_{len(self.nodes)}_{operator.lower()}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def integers(self, *values: int) -> str:
        """The name of a constant (n,) int64."""
        name = "transform_" + "_".join(str(value) for value in values).replace("-", "minus")
        self.constants[name] = numpy_helper.from_array(np.array(values, np.int64), name)
        return name

    def resized(self, images: str, sizes: str) -> str:
        """Images (n, height, width, 3) in other sizes, as Pillow does it: what is outside of them counts nothing."""
        return self.add(
            "Resize", images, "", "", sizes, mode="linear", antialias=1, exclude_outside=1,
            coordinate_transformation_mode="half_pixel",
        )  # fmt: skip

    def half(self, whole: str) -> str:
        """Half of a whole number, rounded as Python does: x.5 to the even neighbour."""
        halved = self.add("Mul", self.add("Cast", whole, to=TensorProto.FLOAT), self._float(0.5))
        return self.add("Cast", self.add("Round", halved), to=TensorProto.INT64)

    def _float(self, value: float) -> str:
        name = f"transform_float_{value}"
        self.constants[name] = numpy_helper.from_array(np.array([value], np.float32), name)
        return name


def preprocessing_model(transform: Transform, ir_version: int) -> onnx.ModelProto:
    """`transform.test` as a model: "images" (n, height, width, 3) uint8 -> "pixels" (n, 3, size, size) uint8.

    Resized and then cropped are the same pixels that `Transform` cuts out in one step, up to a rounding of one level
    in a few of a thousand. Levels are rounded after each of two passes, so that their order matters: it is that of the
    Pillow that is installed.
    """
    graph, size = _Graph(), transform.size
    shape = graph.add("Shape", "images")
    count, height, width = (graph.add("Slice", shape, graph.integers(at), graph.integers(at + 1)) for at in range(3))
    side = graph.integers(transform.resized)
    down = across = side
    if transform.name == "released":  # the shorter side
        shorter = graph.add("Min", height, width)
        down, across = (graph.add("Div", graph.add("Mul", edge, side), shorter) for edge in (height, width))
    three = graph.integers(3)
    across_first = graph.add("Concat", count, height, across, three, axis=0)
    if _shrinks_tall_images_by_height_first():
        # As it does, whatever is cut out: if so much more of the height is saved than of the width.
        saved, other = (graph.add("Sub", edge, graph.integers(size)) for edge in (height, width))
        more = graph.add("Greater", saved, graph.add("Mul", other, graph.integers(2)))
        down_first = graph.add("Concat", count, down, width, three, axis=0)
        shrinks = graph.add("And", more, graph.add("Greater", height, graph.integers(size)))
        first = graph.resized("images", graph.add("Where", shrinks, down_first, across_first))
    else:
        first = graph.resized("images", across_first)
    resized = graph.resized(first, graph.add("Concat", count, down, across, three, axis=0))
    top, left = (graph.half(graph.add("Sub", edge, graph.integers(size))) for edge in (down, across))
    start = graph.add("Concat", top, left, axis=0)
    end = graph.add("Add", start, graph.integers(size))
    cut = graph.add("Slice", resized, start, end, graph.integers(1, 2))
    graph.nodes.append(helper.make_node("Transpose", [cut], ["pixels"], perm=[0, 3, 1, 2]))
    taken = helper.make_tensor_value_info("images", TensorProto.UINT8, ["n", "height", "width", 3])
    given = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", 3, size, size])
    whole = helper.make_graph(graph.nodes, "transform", [taken], [given], list(graph.constants.values()))
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=ir_version)


def _shrinks_tall_images_by_height_first() -> bool:
    """Whether Pillow chooses the order of its passes, as newer versions do, or begins with the width always."""
    pixels = np.random.default_rng(0).integers(0, 256, (90, 40, 3), dtype=np.uint8)
    image, by = Image.fromarray(pixels), Image.Resampling.BILINEAR
    chosen, *orders = (
        np.asarray(each, np.int16)
        for each in (
            image.resize((32, 32), by),
            image.resize((40, 32), by).resize((32, 32), by),
            image.resize((32, 90), by).resize((32, 32), by),
        )
    )
    down_first, across_first = (int((chosen != order).sum()) for order in orders)
    return down_first < across_first
