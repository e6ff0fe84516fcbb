"""Two baileys that do not see each other's processes, over the same control groups (issue 13).

`make soak` does the first one with 2,000 runs each.
"""
import os
import subprocess

import own
import pytest
import support
from neighbour import NAMESPACE, Neighbour

RUNS = int(os.environ.get("TWO_RUNS", "60"))


@pytest.fixture
def before():
    if not own.groups:
        pytest.skip("no control group can be made here, so there is none to share")
    need_pid_namespace()
    return support.snapshot()


def groups(before, engine):
    return [what for what in support.snapshot() - before if what.startswith("cgroup") and
            what.endswith("-engine") == engine]


def test_many_runs_at_once(before):
    both = [Neighbour(RUNS), Neighbour(RUNS)]
    assert len({os.path.basename(what) for what in groups(before, True)}) == 2  # or they would not meet
    for one in both:
        one.begin()
    for one in both:
        found = one.wait(RUNS * 2 + 120)
        assert (found["runs"], found["wrong"]) == (RUNS, 0), (found, one.said())
    support.reap_orphans()
    assert support.left_since(before) == []


def test_a_command_of_the_machine_leaves_the_others_groups(before):
    """One after the other: the sweep comes when all groups of the other's boxes are there."""
    other = Neighbour(0)
    there = groups(before, True)
    assert there
    for _ in range(3):
        assert support.bailey("exec", "--", "/bin/true").status == 0
    assert groups(before, True) == there
    other.begin()
    assert other.wait(120)["wrong"] == 0


def test_what_a_killed_container_left_goes_with_the_next_command(before):
    """Its namespace is gone, and with it everybody who could know its pids."""
    other = Neighbour(0)
    assert groups(before, True)
    other.kill()
    assert groups(before, True)  # it could not clean up
    assert support.bailey("exec", "--", "/bin/true").status == 0
    assert support.left_since(before) == []


def boxes_in(room):
    return sorted(path.name for path in room.tmp.iterdir())


def need_pid_namespace():
    """Skips the test, with the reason, where a process cannot be started in a pid namespace."""
    done = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"two pid namespaces cannot be made here ({done.stderr.strip()})")


def test_private_folders_in_one_tmpdir():
    """Where namespaces are refused a box has a folder in TMPDIR, which containers may share."""
    need_pid_namespace()
    way, room = support.ways()["root-refused"], support.Room()
    argv = [*NAMESPACE, *support.command("exec", "--timeout", "600", "--", "/bin/sh", "-c",
                                         "echo stands; exec sleep 600", deny=way.deny)]
    other = subprocess.Popen(argv, env=support.environment(room), stdout=subprocess.PIPE)
    try:
        support.read_until(other.stdout, b"stands\n")
        there = boxes_in(room)
        assert len(there) == 1, there
        for _ in range(3):
            assert way.exec_json("/bin/true", room=room)["exit_code"] == 0
        assert boxes_in(room) == there
    finally:
        inside = set(support.descendants(other.pid))
        other.kill()
        other.communicate()
    support.wait_until(lambda: support.reap_orphans() or not inside & set(support.descendants()),
                       "its namespace is gone")
    assert boxes_in(room) == there
    assert way.exec_json("/bin/true", room=room)["exit_code"] == 0
    assert boxes_in(room) == []


def test_a_daemon_is_not_stopped_by_its_pid_in_another_namespace(before):
    """The state folder is shared, the pids are not: that pid may be any process here."""
    other = Neighbour(0)
    done = support.bailey("daemon", "stop", "--force", env=other.env, room=other.room)
    assert done.status != 0 and "another pid namespace" in done.stderr, done
    assert support.bailey("daemon", "status", env=other.env, room=other.room).status == 0
    other.begin()
    assert other.wait(120)["wrong"] == 0
