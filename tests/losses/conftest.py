"""Every test of the losses begins with an empty compiler."""

import sys

import pytest


@pytest.fixture(autouse=True)
def fresh_compiler():
    """torch.compile gives up on a function after eight versions of it, whichever tests asked for them."""
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.reset()
