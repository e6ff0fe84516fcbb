"""daemon.py - the daemon's processes under a test: tests/broker_stub.c, started and asked."""
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import support

PROGRAM = support.BAILEY.parent / "broker_stub"
LAYERS = ["userns", "mountns", "pidns", "netns", "ipcns", "utsns", "cgroupns", "seccomp",
          "landlock", "cgroup", "no_new_privs", "caps", "uid_split", "proc", "overlay"]


def status(pid):
    """/proc/PID/status as a dictionary."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.split() for key, _, value in (line.partition(":") for line in lines)}


def name_of(pid):
    """Empty for one that has ended since it was listed."""
    try:
        return status(pid)["Name"][0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def launcher_of(stub):
    """Besides it the supervisor may have one more child, which waits until the egress proxy is needed."""
    found = [p for p in children(stub) if not name_of(p).endswith("-keeper")]
    assert len(found) == 1, found
    return found[0]


def is_alive(pid):
    try:
        return status(pid)["State"][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    return [p for p, (parent, state, _) in support._processes().items()
            if parent == pid and state != "Z"]


def program():
    """A copy that any user may execute."""
    copy = support.base() / "daemon" / "broker_stub"
    if not copy.exists():
        copy.parent.mkdir(mode=0o755, exist_ok=True)
        shutil.copyfile(PROGRAM, copy)
        copy.chmod(0o755)
    return copy


class Daemon:
    """One that runs; `stub`, `launcher` and `broker` are host pids."""

    def __init__(self, way, *binds, env=None, prefix=(), room=None, waits=True):
        if not way.deny:
            support.need_sessions(way.user)
        self.room = room or way.room()
        self.state = self.room.path / "state"
        if not self.state.exists():
            self.state.mkdir(mode=0o700)
            self.room.give(self.state)
        self.socket = self.state / "socket"
        argv = [program(), self.state, self.socket, *binds]
        if way.deny:
            argv = [support.denier(), *way.deny, "--", *argv]
        if way.user is not None and way.user != os.geteuid():
            argv = ["setpriv", f"--reuid={way.user}", f"--regid={way.user}", "--clear-groups", "--",
                    *argv]
        self.process = subprocess.Popen([*map(str, prefix), *map(str, argv)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE,
                                        env=support.environment(self.room, env))
        self.stub = self.process.pid
        self.said = None
        if waits:
            self.said = self.process.stdout.readline().decode()
            assert self.said == "ready\n", (self.said, self.process.communicate()[1])

    @property
    def launcher(self):
        return launcher_of(self.stub)

    @property
    def broker(self):
        found = [p for p in children(self.launcher) if p not in self.wardens + self.zygotes]
        assert len(found) == 1, found
        return found[0]

    @property
    def zygotes(self):
        return [p for p in children(self.launcher) if name_of(p).startswith("python")]

    @property
    def wardens(self):
        return [p for p in children(self.launcher) if name_of(p) == "warden"]

    def everybody(self):
        return [self.stub, self.launcher, *children(self.launcher)]

    def ask(self, *words, code=""):
        """One line to the broker, one line back; "" when it is gone before it has answered."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(support.PATIENCE)
            client.connect(str(self.socket))
            client.sendall((" ".join(map(str, words)) + "\n" + code).encode())
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while True:
                try:
                    piece = client.recv(4096)
                except ConnectionResetError:
                    piece = b""
                if not piece:
                    return answer.decode().strip()
                answer += piece

    def make(self, key):
        """Makes a box; (number, layers, missing)."""
        before = set(self.wardens)
        words = self.ask("make", key).split()
        assert words[0] == "made", words
        new = set(self.wardens) - before
        assert len(new) == 1, new
        return int(words[2]), names(int(words[4], 16)), names(int(words[6], 16)), new.pop()

    def end(self, number=signal.SIGTERM):
        """Ends it; the status and what it said."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        _, err = self.process.communicate(timeout=support.PATIENCE)
        return self.process.returncode, err.decode()


def names(bits):
    return [name for bit, name in enumerate(LAYERS) if bits & 1 << bit]


def mask(layers):
    return sum(1 << LAYERS.index(name) for name in layers)


def sweep():
    """The next command removes what a root start leaves on the host and may not remove itself."""
    done = support.bailey("exec", "--", "/bin/true")
    assert done.status == 0, done
