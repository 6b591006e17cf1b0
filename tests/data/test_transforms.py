"""The two transforms against torchvision's own."""

import numpy as np
import pytest
import torch
from PIL import Image

from smoothap._core.extras import ensure_torchvision
from smoothap.data.transforms import IMAGENET_MEAN, IMAGENET_STD, SENET, Transform

ensure_torchvision()
from torchvision.transforms import v2  # noqa: E402


def photo(width, height):
    small = np.random.default_rng(width).integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def ruler(width, height):
    """Red says how far to the right a pixel lies, green how far down, in parts of 250."""
    across, down = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    pixels = np.stack([across / width * 250, down / height * 250, across * 0], axis=-1)
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def as_array(image):
    return np.asarray(v2.functional.pil_to_tensor(image)).astype(int)


SHAPES = [(300, 200), (200, 300), (256, 256), (97, 61), (500, 333)]


@pytest.mark.parametrize(("size", "resized"), [(224, 256), (64, 73), (112, 128), (96, 110)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["paper", "released"])
def test_the_test_view_is_torchvisions_resize_and_centre_crop(name, shape, size, resized):
    image = photo(*shape)
    crop = v2.Compose([v2.Resize((resized, resized) if name == "paper" else resized), v2.CenterCrop(size)])
    view = Transform(name, size).test(image)
    assert (view.shape, view.dtype) == ((3, size, size), torch.uint8)
    assert np.abs(view.numpy().astype(int) - as_array(crop(image))).max() <= 1


def test_the_papers_train_views_are_all_crops_of_the_resized_image_and_their_mirrors():
    image, transform = photo(120, 90), Transform("paper", 16)
    resized = as_array(image.resize((18, 18), Image.Resampling.BILINEAR))
    crops = [resized[:, y : y + 16, x : x + 16] for y in range(3) for x in range(3)]
    possible = np.stack(crops + [crop[:, :, ::-1] for crop in crops])
    seen = []
    for position in range(400):
        view = transform.train(image, (0, 0, position)).numpy().astype(int)
        distance = np.abs(possible - view).max(axis=(1, 2, 3))
        assert distance.min() <= 1
        seen.append(distance.argmin())
    counts = np.bincount(seen, minlength=18)
    assert counts.min() > 8  # 22 of each are expected, with a deviation of 4.6
    assert counts.max() < 40


@pytest.mark.parametrize(("shape", "min_crop_area"), [((200, 150), 0.08), ((150, 200), 0.5), ((600, 100), 0.08)])
def test_the_released_train_views_are_spread_like_torchvisions(shape, min_crop_area):
    image, transform = ruler(*shape), Transform("released", 8, min_crop_area=min_crop_area)
    crop = v2.RandomResizedCrop(8, scale=(min_crop_area, 1), antialias=True)
    reference = v2.Compose([crop, v2.RandomHorizontalFlip()])
    torch.manual_seed(0)
    ours = np.stack([transform.train(image, (0, 0, position)).numpy() for position in range(1500)]).astype(float)
    theirs = np.stack([as_array(reference(image)) for _ in range(1500)]).astype(float)

    def summary(views):
        left, right = views[:, 0, :, 0].mean(1), views[:, 0, :, -1].mean(1)
        upper, lower = views[:, 1, 0].mean(1), views[:, 1, -1].mean(1)
        width, height = np.abs(right - left) / 250, (lower - upper) / 250
        return np.stack([width, height, width * height, (left + right) / 500, (upper + lower) / 500, left > right])

    ours, theirs = summary(ours), summary(theirs)
    error = np.sqrt(ours.var(1) / 1500 + theirs.var(1) / 1500) + 2e-3  # our part is not rounded to whole pixels
    assert (np.abs(ours.mean(1) - theirs.mean(1)) < 4 * error).all()
    assert (np.abs(ours.std(1) - theirs.std(1)) < 0.02).all()


@pytest.mark.parametrize("name", ["paper", "released"])
def test_a_view_depends_on_seed_epoch_and_position_alone(name):
    image, transform = photo(120, 90), Transform(name, 64)
    view = transform.train(image, (1, 2, 3))
    np.random.seed(5)
    torch.manual_seed(5)
    assert torch.equal(view, transform.train(image, (1, 2, 3)))
    for other in ((0, 2, 3), (1, 0, 3), (1, 2, 0), (3, 2, 1)):
        assert not torch.equal(view, transform.train(image, other))


@pytest.mark.parametrize("name", ["paper", "released"])
def test_a_tiny_or_very_long_image_still_gives_a_square(name):
    for shape in ((1, 1), (2, 500), (500, 2)):
        image = Image.new("RGB", shape, (10, 20, 30))
        for view in (Transform(name).test(image), Transform(name).train(image, (0, 0, 0))):
            assert view.shape == (3, 224, 224)
            assert (view.float().mean((1, 2)) - torch.tensor([10.0, 20.0, 30.0])).abs().max() < 1e-3


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", ["paper", "released"])
def test_an_image_of_enough_pixels_gives_nearly_the_view_of_the_whole_one(name, train):
    transform, image = Transform(name, 32), photo(100, 76).resize((800, 608), Image.Resampling.BICUBIC)
    for position in range(5):
        seed = (0, 0, position)
        enough = transform.enough_pixels(train, seed)
        assert enough <= transform.enough_pixels(train)
        smaller = image.reduce(max(factor for factor in (1, 2, 4, 8) if 608 // factor >= enough))
        assert smaller.width < image.width
        views = [transform.train(source, seed) if train else transform.test(source) for source in (image, smaller)]
        assert (views[0].float() - views[1].float()).abs().mean() < 3


def test_normalising_a_batch_is_torchvisions_normalise():
    images = torch.randint(0, 256, (4, 3, 16, 16), dtype=torch.uint8)
    expected = v2.Normalize(IMAGENET_MEAN, IMAGENET_STD)(images.float() / 255)
    torch.testing.assert_close(Transform().normalise(images), expected, atol=1e-6, rtol=1e-6)
    assert images.dtype == torch.uint8


def test_senet_takes_blue_green_red_less_their_means():
    images = torch.tensor([200, 100, 50], dtype=torch.uint8).view(1, 3, 1, 1)
    expected = torch.tensor([50 - 91.4953, 100 - 103.8827, 200 - 131.0912])
    torch.testing.assert_close(SENET.normalise(images).flatten(), expected)


def test_a_face_for_senet_is_the_whole_box_in_training_and_test():
    """The paper: crops "resized to 224 x 224"; nothing of the extended box is cut away."""
    image = photo(90, 120)
    resized = torch.from_numpy(np.array(image.resize((224, 224), Image.Resampling.BILINEAR))).permute(2, 0, 1)
    assert torch.equal(SENET.test(image), resized)
    for position in range(6):
        view = SENET.train(image, (0, 0, position))
        assert torch.equal(view, resized) or torch.equal(view, resized.flip(2))


@pytest.mark.parametrize(
    "wrong", [{"name": "fast"}, {"channel_order": "GRB"}, {"size": 0}, {"size": 10_001}, {"min_crop_area": 1.5}]
)
def test_a_wrong_setting_is_an_error_that_shows_it(wrong):
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        Transform(**wrong)


def test_the_whole_image_loses_nothing_and_is_mirrored_half_of_the_time():
    image, transform = photo(16, 16), Transform("whole", 16)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    assert torch.equal(transform.test(image), pixels)
    views = [transform.train(image, (0, 0, position)) for position in range(40)]
    mirrored = sum(torch.equal(view, pixels.flip(2)) for view in views)
    assert mirrored + sum(torch.equal(view, pixels) for view in views) == 40
    assert 8 < mirrored < 32


def test_nothing_is_mirrored_where_a_mirror_image_is_another_thing():
    image, transform = photo(16, 16), Transform("whole", 16, flip=False)
    views = [transform.train(image, (0, 0, position)) for position in range(40)]
    assert all(torch.equal(view, transform.test(image)) for view in views)
