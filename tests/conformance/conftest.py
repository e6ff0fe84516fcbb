"""conftest.py - the runtime that every call of bailey uses while a file of tests runs: each in turn."""
import pytest

import runtimes


@pytest.fixture(scope="module", params=runtimes.RUNTIMES)
def runtime(request):
    yield from runtimes.surround(request, request.param)
