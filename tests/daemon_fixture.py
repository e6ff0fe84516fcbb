"""daemon_fixture.py - a private daemon for a test: its folders, calls of bailey that use it, and its end.

Each has a state folder and a runtime folder in its own room, so that daemons of several tests are
independent. The daemon is started on demand by the first call that needs one; close() ends it with
`bailey daemon stop` and then nothing of it may be left (the leak check of conftest.py sees it).
"""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import support


class DaemonFixture:
    def __init__(self, user=None, env=None):
        support.need_sessions(user)
        self.user = user
        self.room = support.Room(user)
        self.state, self.runtime = (self.room.path / n for n in ("state", "run"))
        for folder in (self.state, self.runtime):
            folder.mkdir(mode=0o700)
            self.room.give(folder)
        self.env = {"BAILEY_STATE_DIR": str(self.state), "XDG_RUNTIME_DIR": str(self.runtime),
                    "SANDBOX_LISTEN": "none",
                    **(env or {})}

    def call(self, *args, env=None, **kwargs):
        """Runs bailey to its end."""
        return support.bailey(*args, env={**self.env, **(env or {})}, user=self.user,
                              room=self.room, **kwargs)

    def ok(self, *args, **kwargs):
        """The same for a call that has to work; its standard output as text."""
        done = self.call(*args, **kwargs)
        assert done.status == 0, done
        return done.stdout

    def json(self, *args, **kwargs):
        done = self.call(*args, **kwargs)
        assert done.status == 0, done
        return done.json()

    def start(self, *args, **popen):
        """Starts bailey with pipes and comes back at once."""
        return support.start(*args, env=self.env, user=self.user, room=self.room, **popen)

    def session(self, *options):
        """A new session's id."""
        return self.ok("session", "new", *options).strip()

    def exec(self, session, *argv, options=(), **kwargs):
        return self.call("exec", "-s", session, *options, "--", *argv, **kwargs)

    def info(self):
        return self.json("daemon", "status", "--json")

    def is_running(self):
        return self.call("daemon", "status").status == 0

    def close(self):
        done = self.call("daemon", "stop", "--force")
        support.wait_until(lambda: support.reap_orphans() or not self.is_running(),
                           "the daemon is gone")
        support.reap_orphans()
        assert done.status == 0, done


def on_terminal(own_daemon, *args, steps=(), size=(24, 80), timeout=support.PATIENCE, argv=None, env=None):
    """
    Runs bailey, or the program of argv, with a terminal. Each step is (bytes to wait for, bytes to type or a function that
    gets the terminal). Returns (status, all bytes that came).
    """
    argv = argv or support.command(*args, user=own_daemon.user)
    env = support.environment(own_daemon.room, {**own_daemon.env, "TERM": "xterm", **(env or {})})
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(own_daemon.room.work)
            os.execvpe(argv[0], argv, env)
        finally:
            os._exit(111)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    seen, at, steps, deadline = b"", 0, list(steps), time.monotonic() + timeout
    try:
        while True:
            if steps and steps[0][0] in seen[at:]:
                marker, answer = steps.pop(0)
                at = seen.index(marker, at) + len(marker)
                if callable(answer):
                    answer(terminal)
                else:
                    os.write(terminal, answer)
                continue
            if not select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise AssertionError(f"waiting for {steps[:1]}; the terminal got {seen!r}")
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # EIO: nobody holds the other end any more
                piece = b""
            seen += piece
            if not piece:
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen
    finally:
        os.close(terminal)


def resized(rows, columns):
    """A step's answer: the terminal gets another size."""
    return lambda terminal: fcntl.ioctl(terminal, termios.TIOCSWINSZ,
                                        struct.pack("HHHH", rows, columns, 0, 0))
