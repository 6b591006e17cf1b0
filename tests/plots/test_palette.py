from itertools import combinations

import numpy as np
import pytest

from smoothap.plots.palette import DARK, LIGHT

# What is left of red, green and blue light for those who lack a kind of cone: Machado, Oliveira, Fernandes 2009.
SIGHT = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ light.clip(1e-4, 1) / (0.9505, 1.0, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_query_right_and_wrong_can_be_told_apart(palette, sight):
    for one, other in combinations(("blue", "green", "red"), 2):
        distance = np.linalg.norm(lab(SIGHT[sight] @ linear(palette[one])) - lab(SIGHT[sight] @ linear(palette[other])))
        assert distance > 20, (one, other, distance)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["card", "paper"])
def test_everything_written_has_the_contrast_of_readable_text(palette, ground):
    def brightness(name: str) -> float:
        return float(linear(palette[name]) @ (0.2126, 0.7152, 0.0722)) + 0.05

    for name in ("ink", "soft", "blue", "green", "red"):
        low, high = sorted((brightness(name), brightness(ground)))
        assert high / low >= 4.5, name
