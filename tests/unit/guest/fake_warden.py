"""fake_warden.py - talks to a kernel as the warden does (docs/kernels.md): a socket, two pipes."""
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

GUEST = pathlib.Path(__file__).resolve().parents[3] / "guest"
PATIENCE = float(os.environ.get("KERNEL_PATIENCE", "60"))  # until a kernel counts as hung; never reached by one that works

COMMANDS = {
    "python": [os.environ.get("KERNEL_PYTHON", sys.executable), str(GUEST / "python" / "kernel.py")],
    "javascript": [os.environ.get("KERNEL_NODE", "node"), str(GUEST / "javascript" / "kernel.mjs")],
    "bash": ["bash", str(GUEST / "bash" / "kernel.bash")],
}


def missing(language):
    """Why this machine cannot run kernels of that language, or None."""
    program = COMMANDS[language][0]
    return None if shutil.which(program) else "no %s on this machine" % program


class Cell:
    """What came of one cell."""

    def __init__(self):
        self.stdout = self.stderr = b""
        self.events, self.others = [], []
        self.status = None  # None: the kernel ended first

    def of(self, kind):
        return [event for event in self.events if event["type"] == kind]

    @property
    def text(self):
        """Of the result's value."""
        results = self.of("result")
        return results[0]["data"]["text/plain"] if results else None

    @property
    def error(self):
        errors = self.of("error")
        assert len(errors) < 2, errors
        return errors[0] if errors else None


class Kernel:
    def __init__(self, language="python", command=None, cwd=None, env=None):
        self.folder = tempfile.mkdtemp(prefix="kernel-")
        ours, theirs = socket.socketpair()
        pipes = [os.pipe(), os.pipe()]
        command = list(command or COMMANDS[language])
        if language == "python":
            command.append(self.folder)
        environ = {"PATH": os.environ["PATH"], "HOME": self.folder, "LANG": "C.UTF-8",
                   "PYTHONDONTWRITEBYTECODE": "1"}
        environ.update(env or {})
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipes[0][1], stderr=pipes[1][1],
            preexec_fn=lambda: os.dup2(theirs.fileno(), 3), pass_fds=[3],
            cwd=cwd or self.folder, env=environ, start_new_session=True)
        theirs.close()
        for _, writer in pipes:
            os.close(writer)
        self.socket, self.out, self.err = ours, pipes[0][0], pipes[1][0]
        for fd in (self.out, self.err):
            os.set_blocking(fd, False)
        self.lines = b""
        self.number = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.socket.close()
        os.close(self.out)
        os.close(self.err)
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, code, stdin=None, env=None, flags=""):
        """The message of a cell; what does not fit into the socket is written while reading."""
        code = code if isinstance(code, bytes) else code.encode()
        text = stdin if isinstance(stdin, bytes) else (stdin or "").encode()
        given = env.items() if isinstance(env, dict) else env or ()
        pairs = b"".join(("%s=%s" % pair).encode() + b"\0" for pair in given)
        flags += "i" if stdin is not None else ""
        self.number += 1
        head = "cell %d %s %d %d %d\n" % (self.number, flags or "-", len(code), len(text), len(pairs))
        self.unsent = head.encode() + code + text + pairs

    def run(self, code, stdin=None, env=None, flags="", interrupt_at=None, interrupt_by="group"):
        """Runs a cell. SIGINT is sent once its stdout contains `interrupt_at`."""
        self.write(code, stdin, env, flags)
        return self.follow(interrupt_at, interrupt_by)

    def interrupt(self, by="group"):
        if by == "group":
            os.killpg(self.process.pid, signal.SIGINT)
        else:
            os.kill(self.process.pid, signal.SIGINT)

    def follow(self, interrupt_at=None, interrupt_by="group"):
        cell = Cell()
        open_fds = {self.out, self.err, self.socket.fileno()}
        deadline = time.monotonic() + PATIENCE
        while cell.status is None and open_fds:
            assert time.monotonic() < deadline, "hung: %r %r" % (cell.stdout[-500:], cell.stderr[-2000:])
            writable = [self.socket] if self.unsent else []
            ready, can_write, _ = select.select(sorted(open_fds), writable, [], 1.0)
            if can_write:
                try:
                    sent = self.socket.send(self.unsent[:1 << 16], socket.MSG_DONTWAIT)
                    self.unsent = self.unsent[sent:]
                except BlockingIOError:
                    pass
                except OSError:
                    self.unsent = b""
            self.read_outputs(cell, open_fds)
            if interrupt_at is not None and interrupt_at in cell.stdout:
                interrupt_at = None
                self.interrupt(interrupt_by)
            if self.socket.fileno() in ready:
                self.read_lines(cell, open_fds)
            elif not ready and self.process.poll() is not None:
                break
        self.read_outputs(cell, open_fds)
        return cell

    def read_outputs(self, cell, open_fds):
        for fd, name in ((self.out, "stdout"), (self.err, "stderr")):
            try:
                while fd in open_fds:
                    data = os.read(fd, 1 << 16)
                    setattr(cell, name, getattr(cell, name) + data)
                    if not data:
                        open_fds.discard(fd)
            except BlockingIOError:
                pass

    def read_lines(self, cell, open_fds):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            open_fds.discard(self.socket.fileno())
        parts = (self.lines + data).split(b"\n")
        self.lines = parts.pop()
        for line in parts:
            if line.startswith(b"{"):
                try:
                    cell.events.append(json.loads(line.decode("utf-8"), parse_constant=refuse))
                except ValueError:
                    cell.others.append(line)
            elif line in (b"end %d 0" % self.number, b"end %d 1" % self.number):
                cell.status = int(line[-1:])
            else:
                cell.others.append(line)

    def end(self):
        """Closes the kernel's descriptor 3; its exit status."""
        self.socket.close()
        return self.process.wait(PATIENCE)

    def wait(self):
        return self.process.wait(PATIENCE)


def refuse(constant):
    raise ValueError("%s is not JSON" % constant)
