"""conftest.py - a daemon for each file of tests that asks for one, and sessions in it."""
import pytest

import serve


@pytest.fixture(scope="module")
def daemon():
    """One for all tests of a file; it has to go at the end and leave nothing."""
    with serve.Daemon() as running:
        yield running


@pytest.fixture
def session(daemon):
    """The id of a session of this test alone."""
    made = daemon.session()["id"]
    yield made
    daemon.end(made)


@pytest.fixture(params=["cli", "rest"])
def tools(request, daemon, session):
    return serve.Tools(daemon, session, request.param)
