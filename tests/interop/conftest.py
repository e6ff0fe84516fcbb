"""conftest.py - real clients from the cache, and a place with a daemon for them to reach."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
import support
from sdk_server import NEWEST_NODE
from serve import Connection

collect_ignore = ["clients"]  # run by the tests, with the clients' own packages


class Cutter:
    """Stands in front of the daemon's socket and cuts connections of `bailey mcp` on demand.

    `cut_next(word, when)`: the connection on which a client says `word` is cut, "before" the daemon
    gets that, or "after" it has answered and before the client hears it.
    """

    def __init__(self, path):
        self.path, self.real = path, path.with_suffix(".real")
        path.rename(self.real)
        self.rules, self.cuts = [], 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, word, when):
        self.rules.append((word.encode(), when))

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self.real))
            waits = threading.Event()  # the next answer is the one that is lost
            for source, target, is_client in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._copy, args=(source, target, is_client, waits),
                                 daemon=True).start()

    def _is_cut(self, data, is_client, waits):
        if not is_client:
            return waits.is_set() and b'"jsonrpc"' in data
        for rule in list(self.rules):
            if rule[0] in data:
                self.rules.remove(rule)
                if rule[1] == "before":
                    return True
                waits.set()
        return False

    def _copy(self, source, target, is_client, waits):
        try:
            while data := source.recv(1 << 20):
                if self._is_cut(data, is_client, waits):
                    self.cuts += 1
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        self.real.rename(self.path)


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
        self.cutter = None

    def cut_next(self, word, when):
        if not self.cutter:
            self.bailey("session", "ls")  # starts the daemon
            self.cutter = Cutter(self.socket)
        self.cutter.cut_next(word, when)

    def rest(self, method, path):
        connection = Connection(self.socket)
        connection.request(method, path)
        reply = json.loads(connection.getresponse().read() or b"null")
        connection.close()
        return reply

    def post(self, path, body):
        connection = Connection(self.socket)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = json.loads(connection.getresponse().read())
        connection.close()
        return reply

    def is_running(self, words):
        """Whether a command with these words runs in any session."""
        try:
            found = [p for s in self.rest("GET", "/v1/sessions")["sessions"]
                     for p in self.rest("GET", f"/v1/sessions/{s['id']}/processes")["processes"]]
        except OSError:  # nobody listens yet
            return False
        return any(words in " ".join(p["argv"]) and p["state"] == "running" for p in found)

    def kill_broker(self):
        status = json.loads(self.bailey("daemon", "status", "--json").stdout)
        os.kill(status["broker_pid"], signal.SIGKILL)
        return status["broker_pid"]

    def bailey(self, *args, **kwargs):
        return subprocess.run([support.BAILEY, *args], env=self.env, cwd=self.room.work,
                              capture_output=True, text=True, timeout=support.PATIENCE, **kwargs)

    def sessions(self):
        """Names or ids of those that live."""
        listed = support.json.loads(self.bailey("session", "ls", "--json").stdout)
        listed = listed["sessions"] if isinstance(listed, dict) else listed
        return [s["name"] or s["id"] for s in listed]

    def close(self):
        if self.cutter:
            self.cutter.close()
        self.bailey("daemon", "stop", "--force")
        shutil.rmtree(self.run, ignore_errors=True)
        self.room.remove()


@pytest.fixture
def place():
    support.need_sessions()
    made = Place()
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
