"""kill -9 of the broker at random moments under load: no session, command or byte is lost.

200 times in all, in five daemons beside each other (the pause before a broker that died early is
started again grows to a second). BROKER_KILLS and BROKER_SEED set count and seed by hand.
"""
import os
import random
import signal
import threading
import time

import load
import pytest
import serve
import support
from daemon import is_alive, launcher_of

DAEMONS = 5
SANITIZED = "ASAN_OPTIONS" in os.environ
KILLS = int(os.environ.get("BROKER_KILLS", 40 if SANITIZED else 200))
SEED = int(os.environ.get("BROKER_SEED", random.SystemRandom().getrandbits(32)))


def children(pid):
    """Of one thread; cheap enough to be asked all the time, unlike a walk over /proc."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


class Daemon(serve.Daemon):
    """One whose broker is killed; several run at once, so the leak check is the test's own."""

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(support.PATIENCE)

    @property
    def launcher(self):
        return launcher_of(self.process.pid)

    def broker(self):
        """The one that runs now; None between two. Boxes in the making are children too."""
        for pid in children(self.launcher):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if file.read() == b"bailey-engine\0broker\0":
                        return pid
            except (FileNotFoundError, ProcessLookupError):
                pass
        return None


class Scene:
    """One daemon, the load on it, and the one who kills."""

    wanted = KILLS // DAEMONS

    def __init__(self, number, **settings):
        self.random = random.Random(SEED + number)
        self.daemon = Daemon(**settings)
        self.launcher = self.daemon.launcher
        self.sessions = [self.daemon.session(name=f"s{i}")["id"] for i in range(2)]
        self.counters = [self.count(s) for s in self.sessions]
        self.pty = self.count(self.sessions[0], pty={"rows": 24, "columns": 80})
        for execution in (*self.counters, self.pty):  # what has begun may not be lost
            path = f"/v1/sessions/{execution.rpartition('.')[0]}/processes/{execution}"
            serve.polled(lambda: self.daemon.get(path), lambda p: p["stdout_bytes"] > 0, "it writes")
        seeds = iter(range(SEED + 1000 * number, SEED + 1000 * number + 100))
        self.streams = [load.Stream(self.daemon, next(seeds), e) for e in self.counters]
        self.workers = [load.Uploader(self.daemon, next(seeds), self.sessions[1]),
                        load.Creator(self.daemon, next(seeds)),
                        load.Starter(self.daemon, next(seeds), self.sessions[0]),
                        load.Beginner(self.daemon, next(seeds)),
                        load.Runner(self.daemon, next(seeds), self.sessions[1]),
                        load.Terminal(self.daemon, next(seeds), self.pty)]
        self.killed, self.problem = 0, None
        self.thread = threading.Thread(target=self.guarded, daemon=True)

    def count(self, session, **members):
        return self.daemon.background(session, "python3", "-c", load.COUNTER, timeout=0,
                                      **members)["execution_id"]

    def guarded(self):
        try:
            self.kill_and_settle()
        except BaseException as problem:  # the test raises it
            self.problem = problem

    def kill_and_settle(self):
        for worker in self.workers + self.streams:
            worker.start()
        while self.killed < self.wanted:
            self.kill_one()
        for worker in self.workers:
            worker.enough.set()
            worker.join(support.PATIENCE)
            assert not worker.is_alive(), f"{worker} hangs"
        self.check()

    def kill_one(self):
        """Mostly while it serves, sometimes while it takes over what another left."""
        support.wait_until(self.daemon.broker, "the broker is started again", 30)
        pid = self.daemon.broker()
        time.sleep(self.random.choice((0, 0.005, self.random.random() * 0.05,
                                       self.random.random() * 0.4)))
        os.kill(pid, signal.SIGKILL)
        self.killed += 1
        support.wait_until(lambda: not is_alive(pid), "it is dead")

    def check(self):
        info = self.workers[0].patiently(lambda: self.daemon.get("/v1/info"))
        assert info["generation"] == self.killed + 1, info
        assert self.daemon.launcher == self.launcher
        wrong = [w for worker in self.workers + self.streams for w in worker.wrong]
        assert not wrong, "\n".join(wrong)
        for session in self.sessions:
            assert self.daemon.get(f"/v1/sessions/{session}")["state"] == "ready"
            self.daemon.write(session, "/tmp/enough")
        for worker in self.workers:
            worker.settle()
        for execution, stream in zip(self.counters, self.streams):
            self.check_counter(execution, stream)
        ended = self.daemon.wait(self.pty)
        seen = self.daemon.output(self.pty, offset=0).body.replace(b"\r\n", b"\n")
        assert ended["exit_code"] == 7, ended
        lines = [line for line in seen.split(b"\n") if line.startswith(b"o ")]
        assert lines == [b"o %09d" % i for i in range(len(lines))], load.difference(
            b"\n".join(lines))
        assert b"end %d\n" % len(lines) in seen, seen[-200:]
        busy = [w for w in self.workers if w.turns == 0]
        assert not busy, f"no load: {busy}"

    def check_counter(self, execution, stream):
        ended = self.daemon.wait(execution)
        assert ended["exit_code"] == 7, ended
        out = self.daemon.output(execution, offset=0).body
        count = load.counted(out)
        assert count, f"{execution}: {load.difference(out)}"
        stream.join(support.PATIENCE)
        assert not stream.wrong, stream.wrong
        assert stream.exit and stream.exit["exit_code"] == 7, stream.exit
        assert stream.got["stdout"] == out, f"{execution}: {load.difference(stream.got['stdout'])}"
        assert stream.got["stderr"] == self.daemon.output(execution, "stderr", offset=0).body


@pytest.fixture(autouse=True)
def _swept(_nothing_is_left):
    yield
    support.reap_orphans()
    done = support.bailey("exec", "--", "/bin/true")  # takes the cgroups that a root start left
    assert done.status == 0, done


@pytest.mark.attack(64)
def test_broker_killed_under_load():
    scenes = []
    try:
        for number in range(DAEMONS):
            scenes.append(Scene(number))
        for scene in scenes:
            scene.thread.start()
        for scene in scenes:
            scene.thread.join(600)
            assert not scene.thread.is_alive(), f"hangs; BROKER_SEED={SEED}"
        problems = [repr(s.problem)[:3000] for s in scenes if s.problem]
        logs = [[line for line in s.daemon.said().splitlines() if "the broker " not in line][-20:]
                for s in scenes if s.problem]
        assert not problems, f"BROKER_SEED={SEED}: {problems} {logs}"
        assert sum(s.killed for s in scenes) == KILLS // DAEMONS * DAEMONS
        assert sum(w.lost for s in scenes for w in s.workers + s.streams) > 0, "nothing was hit"
    finally:
        for scene in scenes:
            for worker in scene.workers + scene.streams:
                worker.enough.set()
        for scene in scenes:
            scene.daemon.stop()
