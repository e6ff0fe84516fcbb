"""kill -9 of launcher, supervisor or both: nothing goes on, the next start sweeps and says what ended."""
import os
import signal
import threading

import load
import pytest
import serve
import support
from daemon import is_alive, launcher_of

DYING = ("launcher", "stub", "both")


@pytest.fixture(autouse=True)
def _swept(_nothing_is_left):
    yield
    support.reap_orphans()
    done = support.bailey("exec", "--", "/bin/true")  # takes the cgroups that a root start left
    assert done.status == 0, done


class Daemon(serve.Daemon):
    """One that dies; its room stays for the next."""

    def launcher(self):
        return launcher_of(self.process.pid)

    def die(self, who):
        everybody = self.pids()
        pids = {"launcher": [self.launcher()], "stub": [self.process.pid],
                "both": [self.process.pid, self.launcher()]}[who]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        support.wait_until(lambda: not any(map(is_alive, everybody)), "everybody is gone", 30)
        self.process.wait(support.PATIENCE)
        return everybody


def engine_groups(pid):
    return {g for g in support.cgroups() if support.engine_name(pid) in g}


def contents(folder):
    return sorted(os.listdir(folder))


@pytest.mark.attack(64)
@pytest.mark.parametrize("who", DYING)
@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_killed_with_sessions_at_work(who, user):
    user = support.ORDINARY_UID if user == "ordinary" else None
    room = support.Room(user)
    mounts = support.mounts()
    first = Daemon(room=room, user=user)
    sessions = [first.session(name=f"n{i}", datasets=[{"name": "d", "content": "a,b\n"}])["id"]
                for i in range(3)]
    deleted = first.session()["id"]
    first.end(deleted)
    for session in sessions[:2]:  # the third has no box yet
        first.background(session, "python3", "-c", load.COUNTER, timeout=0)
        first.background(session, "sh", "-c", "setsid sleep 1000 & sleep 1000", timeout=0,
                         pty={"rows": 24, "columns": 80})
        first.write(session, "/workspace/file", b"x" * 100000)
    done = first.exec(sessions[0], "sh", "-c", "mkdir -p /tmp/output; echo kept > /tmp/output/k.txt")
    assert [f["name"] if isinstance(f, dict) else f for f in done["meta"]["output_files"]] == [
        "k.txt"]
    group = engine_groups(first.process.pid)
    first.die(who)
    assert support.mounts() == mounts

    with Daemon(room=room, user=user) as second:
        if user is None:
            assert not group & support.cgroups(), "the next start sweeps"
        assert second.get("/v1/sessions")["sessions"] == []
        ended = {s["id"]: s for s in second.get("/v1/sessions", all="true")["sessions"]}
        assert set(ended) == {*sessions, deleted}
        assert ended[deleted]["end_reason"] == "deleted"
        for session in sessions:
            assert ended[session]["end_reason"] == "engine_stopped", ended[session]
            assert ended[session]["ended_at"], ended[session]
            error = second.refused("POST", f"/v1/sessions/{session}/exec", 410, "session_ended",
                                   {"argv": ["true"]})
            assert error["reason"] == "engine_stopped" and error["ended_at"], error
        assert contents(second.state / "data") == [] == [
            n for n in contents(second.state / "logs") if n.startswith((".", "s_"))]
        kept = second.state / "output" / f"session_{sessions[0]}" / "k.txt"
        assert kept.read_text() == "kept\n"
        again = second.session(name="n0")["id"]  # the name is free
        assert second.exec(again, "echo", "works")["stdout"] == "works\n"


@pytest.mark.attack(64)
@pytest.mark.parametrize("who", DYING)
def test_killed_while_sessions_are_made(who):
    """Any moment of making and ending: no folder, group, mount or process stays."""
    room = support.Room()
    for turn in range(4):
        server = Daemon(room=room)
        stop = threading.Event()

        def make(server=server, stop=stop):
            while not stop.is_set():
                try:
                    made = server.call("POST", "/v1/sessions", {
                        "datasets": [{"name": "d", "content": "x" * 10000}]}).json()["id"]
                    server.call("POST", f"/v1/sessions/{made}/exec", {"argv": ["true"]})
                    server.call("DELETE", f"/v1/sessions/{made}")
                except (*load.LOST, ValueError, KeyError):
                    pass

        makers = [threading.Thread(target=make, daemon=True) for _ in range(3)]
        for maker in makers:
            maker.start()
        serve.polled(lambda: server.get("/v1/sessions", all="true")["sessions"],
                     lambda all_of_them: len(all_of_them) > 2 + turn * 7, "there is work")
        server.die(who)
        stop.set()
        for maker in makers:
            maker.join(support.PATIENCE)
            assert not maker.is_alive()
    with Daemon(room=room) as last:
        assert last.get("/v1/sessions")["sessions"] == []
        assert contents(last.state / "data") == []
        assert not [n for n in contents(last.state / "logs") if n.startswith((".", "s_"))]
