"""conftest.py - one sandbox for a whole file of tests, and one for a test that ends it."""
import pytest
from e2b import Sandbox


@pytest.fixture(scope="module")
def sandbox():
    made = Sandbox.create()
    yield made
    made.kill()


@pytest.fixture
def own():
    """A sandbox that the test may end."""
    made = Sandbox.create(timeout=120)
    yield made
    made.kill()
