import pytest
from guarantees import LONG
from second_device import MISSING, second_device


@pytest.fixture(params=["float64", "no float64"])
def any_second(request):
    """The second device as CUDA is, and as Apple's is."""
    if MISSING:
        pytest.skip(MISSING)
    with second_device(without_float64=request.param == "no float64") as device:
        yield device


@pytest.fixture(params=["float64", "no float64"] if LONG else ["no float64"])
def second_to_train_on(request):
    """The same for whole trainings, which take longer: what does without float64 does with it too."""
    if MISSING:
        pytest.skip(MISSING)
    with second_device(without_float64=request.param == "no float64") as device:
        yield device


@pytest.fixture
def second():
    """The second device, with float64."""
    if MISSING:
        pytest.skip(MISSING)
    with second_device() as device:
        yield device
