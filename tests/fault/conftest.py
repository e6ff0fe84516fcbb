"""Fixtures of the fault suite: every test here ends with the leak check."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(autouse=True)
def _nothing_is_left(leaks):
    if os.geteuid() != 0:
        pytest.skip("injects faults into processes of other ids: needs root")
