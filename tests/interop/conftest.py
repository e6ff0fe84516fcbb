"""conftest.py - real clients from the cache, and a place with a daemon for them to reach.

With BAILEY_FAKE_DAEMON=1 the daemon is fake_daemon.py: for work on the front alone.
"""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import support

from fake_daemon import FakeDaemon

NEWEST_NODE = "mcp-inspector/node_modules/node/bin/node"


class Place:
    """A room whose daemon has its own state folder and socket, with short paths."""

    def __init__(self):
        self.room = support.Room()
        self.run = Path(tempfile.mkdtemp(prefix="by-", dir="/tmp"))
        self.state = self.run / "state"
        self.state.mkdir(mode=0o700)
        self.socket = self.run / "bailey" / "engine.sock"
        self.env = support.environment(self.room, {"XDG_RUNTIME_DIR": self.run,
                                                   "BAILEY_STATE_DIR": self.state})
        self.fake = None

    def use_fake(self):
        self.fake = FakeDaemon(self.run / "fake", self.socket, self.state)
        self.fake.start()
        return self.fake

    def bailey(self, *args, **kwargs):
        return subprocess.run([support.BAILEY, *args], env=self.env, cwd=self.room.work,
                              capture_output=True, text=True, timeout=support.PATIENCE, **kwargs)

    def sessions(self):
        """Names or ids of those that live."""
        if self.fake:
            return [s.name or s.id for s in self.fake.sessions.values()]
        listed = support.json.loads(self.bailey("session", "ls", "--json").stdout)
        listed = listed["sessions"] if isinstance(listed, dict) else listed
        return [s["name"] or s["id"] for s in listed]

    def close(self):
        if self.fake:
            self.fake.close()
        else:
            self.bailey("daemon", "stop")
        shutil.rmtree(self.run, ignore_errors=True)
        self.room.remove()


@pytest.fixture
def place():
    is_fake = os.environ.get("BAILEY_FAKE_DAEMON")
    if not is_fake:
        support.need_sessions()
    made = Place()
    if is_fake:
        made.use_fake()
    yield made
    made.close()


@pytest.fixture
def fake_place():
    support.need_namespaces()  # its boxes are bubblewrap's
    made = Place()
    made.use_fake()
    yield made
    made.close()


@pytest.fixture(scope="session")
def cache():
    """The folder of tools/interop-setup; skips only when the registries cannot be reached."""
    if not shutil.which("npm"):
        pytest.skip("no npm: the TypeScript clients and the Inspector need it")
    done = subprocess.run([support.REPO / "tools" / "interop-setup"], capture_output=True,
                          text=True, timeout=900, check=False)
    if done.returncode == 2:
        pytest.skip(f"the registries cannot be reached: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().split("\n")[-1])


@pytest.fixture(scope="session")
def node(cache):
    """The Node that npm brought for the Inspector: new enough for everything here."""
    return cache / NEWEST_NODE
