"""The leak check of conftest.py: it sees what a test leaves, and nothing of a neighbour."""
import fcntl
import os
import subprocess
import tempfile

import own
import pytest
import support


def seen(before, word):
    return [what for what in support.snapshot() - before if word in what]


def test_a_process_is_seen():
    before = support.snapshot()
    process = subprocess.Popen(["sleep", "600"])
    try:
        assert seen(before, f"process {process.pid} ")
    finally:
        process.kill()
        process.wait()


def test_an_orphan_in_another_session_is_seen():
    before = support.snapshot()
    done = subprocess.run(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True)
    assert seen(before, f"process {done.stdout.strip()} ")
    os.kill(int(done.stdout), 9)
    support.wait_until(lambda: support.reap_orphans() or not seen(before, "process"), "it is gone")


def test_a_process_of_a_neighbour_is_not():
    assert not any(what.startswith(f"process {os.getppid()} ") for what in support.snapshot())


@pytest.fixture
def mounted(room):
    """A mount in this test run's namespace, or in its parent's."""
    place, left = room.work / "here", []
    place.mkdir()

    def mount(*prefix):
        done = subprocess.run([*prefix, "mount", "-t", "tmpfs", "none", place], capture_output=True)
        if done.returncode != 0:
            pytest.skip(f"no mount can be made here: {done.stderr.decode().strip()}")
        left.append([*prefix, "umount", place])

    yield mount
    for argv in left:
        subprocess.run(argv, check=True)


def mounts_at(before, room):
    return seen(before, f" {room.work / 'here'} tmpfs")


def test_a_mount_is_seen(room, mounted):
    before = support.snapshot()
    mounted()
    assert mounts_at(before, room)


def test_a_mount_that_a_box_does_not_keep_to_itself_is_seen(room, mounted):
    """A namespace made from this one passes its mounts on, unless it is told not to."""
    before = support.snapshot()
    place = room.work / "here"
    for how, is_kept in (("unchanged", False), ("private", True)):
        done = subprocess.run(["unshare", "--mount", "--propagation", how, "mount", "-t", "tmpfs", "none", place],
                              capture_output=True)
        if done.returncode != 0:
            pytest.skip(f"no mount can be made here: {done.stderr.decode().strip()}")
        assert bool(mounts_at(before, room)) != is_kept
        if not is_kept:
            subprocess.run(["umount", place], check=True)


def test_a_mount_of_a_neighbour_is_not(room, mounted):
    before = support.snapshot()
    mounted("nsenter", f"--mount=/proc/{os.getppid()}/ns/mnt")
    assert not mounts_at(before, room)


def test_a_control_group_is_seen_and_a_neighbours_is_not():
    if not own.groups:
        pytest.skip("no control group can be made here")
    before = support.snapshot()
    name = f"bailey-test-{os.getpid()}"
    for group in own.groups:
        ours, theirs = (os.path.join(folder, name) for folder in (group, os.path.dirname(group)))
        try:
            os.mkdir(ours)
            os.mkdir(theirs)
            assert seen(before, name) == [f"cgroup {ours}"]
        finally:
            for folder in (ours, theirs):
                os.rmdir(folder)


def test_a_control_group_of_another_user_is_a_neighbours(monkeypatch):
    """Also where this test run has no groups of its own, as an ordinary user's."""
    if not own.groups or not support.is_root():
        pytest.skip("needs a control group of another user: only root can make one")
    path = os.path.join(own.groups[0], f"bailey-test-{os.getpid()}")
    monkeypatch.setattr(own, "groups", [])
    before = support.snapshot()
    os.mkdir(path)
    try:
        assert seen(before, path) == [f"cgroup {path}"]
        os.chown(path, support.ORDINARY_UID, support.ORDINARY_UID)
        assert not seen(before, path)
    finally:
        os.rmdir(path)


def test_groups_of_boxes_are_in_the_test_runs_own():
    """Or the check looks where nothing is."""
    if not own.groups:
        pytest.skip("no control group can be made here")
    before = support.snapshot()
    process = support.start("exec", "--timeout", "600", "--", "/bin/sh", "-c", "echo stands; exec sleep 600")
    try:
        support.read_until(process.stdout, b"stands\n")
        assert seen(before, "cgroup ")
    finally:
        process.terminate()
        process.communicate(timeout=support.PATIENCE)


@pytest.fixture
def child():
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def test_a_folder_is_seen_and_a_neighbours_is_not(room, child):
    before = support.snapshot()
    (room.tmp / "left").mkdir()
    assert seen(before, "in TMPDIR")
    (room.tmp / "left").rmdir()
    top = os.environ.get("TMPDIR", "/tmp")
    for pid, is_ours in ((os.getppid(), False), (child, True)):
        name = os.path.join(top, f"bailey-n{own.pid_namespace()}-{pid}-box_test")
        with tempfile.TemporaryDirectory(dir=top) as path:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)  # or a neighbour's sweep takes it
            os.rename(path, name)
            try:
                assert bool(seen(before, name)) == is_ours
            finally:
                os.rename(name, path)
                os.close(lock)
