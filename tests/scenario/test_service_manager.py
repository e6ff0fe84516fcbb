"""What a service manager does with the server: it hears when it is ready, that it lives and that it
stops (NOTIFY_SOCKET, WATCHDOG_USEC), and it opens its sockets (LISTEN_FDS). The unit file's own
settings are tried as far as they can be without systemd."""
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import serve
import support

UNIT = support.REPO / "deploy" / "systemd" / "bailey.service"


def name_of(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


class Manager:
    """Starts the server as a manager would; `words` are what it said."""

    def __init__(self, name="notify", **env):
        self.room = support.Room()
        self.state, self.runtime = self.room.path / "state", self.room.path / "run"
        for folder in (self.state, self.runtime, self.runtime / "bailey"):
            folder.mkdir(mode=0o700)
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = str(self.room.path / name) if not name.startswith("@") else f"@{name[1:]}-{os.getpid()}"
        self.ear.bind("\0" + path[1:] if path.startswith("@") else path)
        self.ear.settimeout(support.PATIENCE)
        self.env = {"BAILEY_STATE_DIR": self.state, "XDG_RUNTIME_DIR": self.runtime,
                    "NOTIFY_SOCKET": path, "SANDBOX_POOL_SIZE": "0", "SANDBOX_LISTEN": "127.0.0.1:0",
                    **env}
        self.socket = self.runtime / "bailey" / "engine.sock"
        self.process = None

    def start(self, *prefix, sockets=(), pid="$$"):
        """By a shell: LISTEN_PID is the number of the process that becomes the server. By bash: dash
        knows no descriptor above 9."""
        fds = " ".join(f"{3 + i}<&{s.fileno()}" for i, s in enumerate(sockets))
        script = f'export LISTEN_PID={pid} LISTEN_FDS={len(sockets)}; exec "$@" {fds}'
        words = [*map(str, prefix), str(support.BAILEY), "serve"]
        self.process = subprocess.Popen(
            ["bash", "-c", script if sockets else 'exec "$@"', "bash", *words],
            env=support.environment(self.room, self.env), cwd=self.room.work,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            pass_fds=[s.fileno() for s in sockets])

    def heard(self):
        return self.ear.recv(4096).decode().split("\n")

    def until(self, word):
        while True:
            words = self.heard()
            if word in words:
                return words

    def get(self, path):
        connection = serve.Connection(self.socket)
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply.status, body

    def ended(self):
        """By itself: its status, and what it said."""
        said = self.process.communicate(timeout=support.PATIENCE)[1].decode()
        return self.process.returncode, said

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.ear.close()
        support.reap_orphans()
        assert support.bailey("exec", "--", "/bin/true").status == 0  # sweeps a root start's group
        self.room.remove()


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("name", ["notify", "@bailey-notify"])
def test_ready_and_stopping(name):
    with Manager(name) as manager:
        manager.start()
        words = manager.heard()
        assert words[0] == "READY=1" and words[1].startswith("STATUS=serving"), words
        assert manager.get("/healthz")[0] == 200, "it said ready before it was"
        manager.process.send_signal(signal.SIGTERM)
        assert manager.heard() == ["STOPPING=1"]
        status, said = manager.ended()
        assert status == 0, said


def test_a_start_that_fails_never_says_ready():
    with Manager(SANDBOX_MEMORY_LIMIT="nonsense") as manager:
        manager.start()
        status, said = manager.ended()
        assert status == 125 and "SANDBOX_MEMORY_LIMIT" in said, said
        manager.ear.settimeout(0)
        with pytest.raises(BlockingIOError):
            manager.heard()


@pytest.mark.needs_namespaces
def test_the_watchdog_is_fed_while_the_launcher_lives():
    with Manager(WATCHDOG_USEC="200000") as manager:
        manager.start()
        manager.until("READY=1")
        for _ in range(3):
            assert manager.heard() == ["WATCHDOG=1"]
        launcher = next(p for p, (parent, *_) in support._processes().items()
                        if parent == manager.process.pid and not name_of(p).endswith("-keeper"))
        os.kill(launcher, signal.SIGSTOP)
        try:
            manager.ear.settimeout(1)
            with pytest.raises(TimeoutError):  # what was on its way may still come
                for _ in range(3):
                    manager.heard()
        finally:
            os.kill(launcher, signal.SIGCONT)
        manager.ear.settimeout(support.PATIENCE)
        assert manager.heard() == ["WATCHDOG=1"]
        assert manager.end()[0] == 0


@pytest.mark.needs_namespaces
def test_somebody_elses_watchdog_is_not_fed():
    with Manager(WATCHDOG_USEC="100000", WATCHDOG_PID="1") as manager:
        manager.start()
        manager.until("READY=1")
        manager.process.send_signal(signal.SIGTERM)
        assert manager.heard() == ["STOPPING=1"]
        assert manager.ended()[0] == 0


def listening(path):
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen(8)
    return made


@pytest.mark.needs_namespaces
def test_a_socket_that_is_open_already():
    """Who connects before the start is served; the file stays the manager's."""
    with Manager() as manager:
        with listening(manager.socket) as opened:
            early = serve.Connection(manager.socket)
            early.request("GET", "/healthz")
            manager.start(sockets=[opened])
            assert early.getresponse().status == 200
            early.close()
            manager.until("READY=1")
            assert manager.end()[0] == 0
            assert manager.socket.is_socket()
            # The next one finds it as it was.
            manager.start(sockets=[opened])
            manager.until("READY=1")
            assert manager.get("/healthz")[0] == 200
            assert manager.end()[0] == 0


@pytest.mark.needs_namespaces
def test_sockets_of_another_process_are_left_alone():
    with Manager() as manager:
        other = manager.room.path / "other.sock"
        with listening(other) as opened:
            manager.start(sockets=[opened], pid="1")
            manager.until("READY=1")
            assert manager.get("/healthz")[0] == 200, "its own socket"
            assert manager.end()[0] == 0


def test_a_socket_that_is_none():
    with Manager() as manager:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wrong:
            wrong.bind(str(manager.socket))
            manager.start(sockets=[wrong])
            status, said = manager.ended()
            assert status == 125 and "no listening stream socket" in said, said


@pytest.mark.needs_namespaces
@pytest.mark.skipif(not support.is_root(), reason="the unit starts as root")
def test_the_capabilities_of_the_unit_are_enough():
    """Under exactly its bounding set, and without new privileges, boxes have all their walls."""
    unit = UNIT.read_text()
    caps = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.M).group(1).split()
    assert "NoNewPrivileges=yes" in unit.splitlines()
    bounding = ",".join(["-all", *("+" + c.removeprefix("CAP_").lower() for c in caps)])
    with Manager() as manager:
        manager.start("setpriv", "--bounding-set", bounding, "--inh-caps=-all", "--no-new-privs", "--")
        manager.until("READY=1")
        env = {k: v for k, v in manager.env.items() if k != "NOTIFY_SOCKET"}
        made = support.bailey("session", "new", env=env, room=manager.room)
        assert made.status == 0, made
        done = support.bailey("exec", "--json", "-s", made.stdout.strip(), "--", "/bin/true", env=env,
                              room=manager.room)
        free = support.exec_json("/bin/true")
        held = done.json()["meta"]["isolation"]
        assert held["level"] == "strict", held
        assert set(free["meta"]["isolation"]["layers"]) - set(held["layers"]) == set(), held
        assert manager.end()[0] == 0
