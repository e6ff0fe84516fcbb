"""Boxes made ahead: nobody can tell, but for the time. Each test has a daemon of its own."""
import os

import pytest

import serve
import support

LOOK = """
import os, sys
print(sorted(os.listdir('/tmp')), sorted(os.listdir('/workspace')), sorted(os.listdir('/tmp/data')))
print(os.getuid(), os.getgid(), os.getgroups(), sorted(os.environ))
print([line for line in open('/proc/self/status') if line[:3] in ('Cap', 'NoN', 'Sec')])
print(sorted(line.split()[4] for line in open('/proc/self/mountinfo')))
"""


def wardens(daemon):
    return [pid for pid, what in support.descendants(daemon.process.pid).items()
            if what.endswith(" warden")]


@pytest.fixture
def daemon():
    with serve.Daemon({"SANDBOX_POOL_SIZE": "2", "SANDBOX_WARM": "false"}) as running:
        yield running


def test_sessions_are_the_same_with_and_without(daemon):
    """The first has to be made, the others wait already; all look alike from inside."""
    seen = []
    for turn in range(4):
        session = daemon.session()["id"]
        seen.append(daemon.python(session, LOOK)["stdout"])
        support.wait_until(lambda: len(wardens(daemon)) > turn + 1, "another stands ready")
    assert len(set(seen)) == 1, seen


def test_a_dataset_before_and_one_after(daemon):
    first = daemon.session()["id"]
    daemon.exec(first, "true")
    support.wait_until(lambda: len(wardens(daemon)) > 1, "another stands ready")
    session = daemon.session()["id"]
    daemon.asked("PUT", f"/v1/sessions/{session}/datasets/early", b"a\n1\n", 201)
    assert daemon.exec(session, "cat", "/tmp/data/early.csv")["stdout"] == "a\n1\n"
    daemon.asked("PUT", f"/v1/sessions/{session}/datasets/late", b"b\n2\n", 201)
    assert daemon.exec(session, "cat", "/tmp/data/late.csv")["stdout"] == "b\n2\n"
    assert daemon.exec(first, "ls", "/tmp/data")["stdout"] == ""
    daemon.end(session)
    support.wait_until(lambda: session not in os.listdir(daemon.state / "data"), "its data is gone")


def test_runs(daemon):
    """Each in a box that nobody had before."""
    for number in range(5):
        done = daemon.post("/v1/run", {
            "code": f"import os; print(os.path.exists('/tmp/x')); open('/tmp/x', 'w'); {number}"})
        assert done["stdout"] == "False\n", done
    support.wait_until(lambda: len(wardens(daemon)) == 2, "as many as may be stand ready")
    assert daemon.get("/v1/sessions")["sessions"] == []
