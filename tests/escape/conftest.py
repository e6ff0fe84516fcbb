"""Fixtures of the escape suite: `way`, `box`, `canary`. Every test ends with a run that works."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import attack  # noqa: E402  (the path has to be there first)
import support  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "ways(*names): the ways a box is made in this test")


def pytest_generate_tests(metafunc):
    if "way" in metafunc.fixturenames and "escape" in metafunc.definition.path.parts:
        marker = metafunc.definition.get_closest_marker("ways")
        metafunc.parametrize("way", marker.args if marker else attack.WAYS, indirect=True)


@pytest.fixture
def way(request):
    if os.geteuid() != 0:
        pytest.skip("plays root, an ordinary user and a refusing kernel in turn: needs root")
    return support.ways()[request.param]


@pytest.fixture
def box(leaks, way):
    made = attack.Box(way)
    yield made
    made.end()


@pytest.fixture
def canary(box):
    made = attack.Canary(box)
    yield made
    try:
        made.is_whole()
    finally:
        made.end()
