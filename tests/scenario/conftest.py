"""conftest.py - a daemon for each file of tests that asks for one, and sessions in it."""
import json

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


class Tools:
    """The tools of one session by one door: `bailey tool` or POST /v1/tools."""

    def __init__(self, daemon, session, door):
        self.daemon, self.session, self.door = daemon, session, door

    def call(self, tool, **parameters):
        """The reply; that there is one, also to a wrong call, is checked here."""
        if self.door == "rest":
            return self.daemon.post(f"/v1/tools/{tool}", parameters, session=self.session)
        done = self.daemon.bailey("tool", tool, "-", "-s", self.session,
                                  stdin=json.dumps(parameters).encode())
        assert done.status == 0, done
        return done.json()

    def run(self, *command, **parameters):
        return self.call("sandbox_exec", command=list(command), **parameters)

    def write(self, path, content):
        return self.call("sandbox_write_file", file_path=path, content=content)

    def edit(self, path, old, new):
        return self.call("sandbox_edit_file", file_path=path, old_string=old, new_string=new)


@pytest.fixture(params=["cli", "rest"])
def tools(request, daemon, session):
    return Tools(daemon, session, request.param)
