import numpy as np

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.own import folder
from smoothap.data.sheet import contact_sheet


def test_a_sheet_shows_the_images_of_both_splits(tmp_path, write_images):
    write_images(tmp_path, [f"{name}/{row}.png" for name in "abcd" for row in range(2)])
    benchmark = folder(tmp_path)
    shown = {tuple(pixel) for pixel in np.asarray(contact_sheet(benchmark)).reshape(-1, 3).tolist()}
    for part in (benchmark.train, benchmark.tests["test"]):
        for row in range(len(part)):
            assert part.read(row).getpixel((0, 0)) in shown


def test_an_unreadable_image_a_long_name_and_a_set_without_training_images_are_drawn_too(tmp_path, write_images):
    write_images(tmp_path, [f"{'long' * 20}/1.png", "two\nlines/1.png", "b/1.png"])
    (tmp_path / "b" / "1.png").write_bytes(b"no picture")
    test_only = Benchmark("toy", None, {"test": folder(tmp_path).tests["test"]})
    assert contact_sheet(test_only).mode == "RGB"
    assert contact_sheet(folder(tmp_path)).height > contact_sheet(test_only).height
