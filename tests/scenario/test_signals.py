"""Ctrl-C, SIGTERM and SIGHUP leave nothing; after kill -9 the rest goes with the next command."""
import os
import signal
import time

import pytest
import support

# Says that it runs, with a daemon and a deaf child beside it, then waits for ever.
STAY = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(3600)
    os._exit(0)
os.wait()
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
open('file', 'w').write('x' * 1000)
print('running', flush=True)
time.sleep(3600)
"""


def running(way, *options, room=None, **kwargs):
    process = way.start("run", "--timeout", "600", *options, "-c", STAY, room=room, **kwargs)
    support.read_until(process.stdout, b"running")
    return process


def below(process):
    """What runs beneath a process, before anything is sent to it."""
    return set(support.descendants(process.pid))


def has_python(process):
    return any("python" in what for what in support.descendants(process.pid).values())


def gone(pids):
    return not pids & set(support.alive())


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_run_and_leaves_nothing(way, name):
    process = running(way)
    inside = below(process)
    assert inside
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=support.PATIENCE)
    assert process.returncode != 0
    assert gone(inside)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_second_signal_changes_nothing(name):
    way = support.ways()["root" if support.is_root() else "ordinary"]
    process = running(way)
    inside = below(process)
    process.send_signal(getattr(signal, name))
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=support.PATIENCE)
    assert process.returncode != 0 and gone(inside)


def test_ctrl_c_at_a_terminal():
    status, seen = support.on_terminal("run", "--timeout", "600", "-c", STAY, until=b"running",
                                       then=b"\x03")
    assert status not in (0, 124), seen


def test_a_cancelled_json_run_still_says_what_happened():
    process = support.start("run", "--json", "--stdin", "--timeout", "600", "-c",
                            "import sys; print('part', flush=True); sys.stdin.read()",
                            stdin=-1)
    # --json prints nothing until the end: the run is known to be there when its processes are
    support.wait_until(lambda: has_python(process), "a python beneath bailey")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=support.PATIENCE)
    assert process.returncode != 0
    result = support.Done([], process.returncode, out, err, None).json()
    assert result["meta"]["error"]["code"] == "cancelled"


def test_a_cancelled_run_leaves_no_half_written_output(room):
    process = running(support.Way("here"), "--out", "got", room=room)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=support.PATIENCE)
    left = [p for p in room.work.rglob("*") if p.is_file() and "artifacts" not in p.parts]
    assert left == []


def moments(count, spread):
    """Busy waits of 0 to `spread` seconds: no marker exists inside bring-up, so many are tried."""
    for number in range(count):
        yield lambda start=time.perf_counter, wait=spread * number / count: spin(start() + wait)


def spin(until):
    while time.perf_counter() < until:
        pass


def test_a_signal_during_bring_up_ends_the_run_at_once():
    """Not at its timeout: the program must not go on after the caller has said stop."""
    for wait in moments(60, 0.03):
        process = support.start("run", "--timeout", "600", "-c", "import time; time.sleep(3600)")
        wait()
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        finally:
            process.kill()
            process.wait()
        assert process.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)


def sweep(way, before, room):
    """The next command, with the same TMPDIR; then nothing of the killed one may be left."""
    assert way.exec_json("/bin/true", room=room)["exit_code"] == 0
    support.reap_orphans()
    left = support.left_since(before)
    assert left == []


def test_after_kill_9_processes_and_mounts_go_at_once_the_rest_with_the_next_command(way, leaks):
    room = way.room()
    process = running(way, room=room)
    inside = below(process)
    assert inside
    process.kill()
    process.communicate(timeout=support.PATIENCE)
    support.wait_until(lambda: gone(inside), f"processes {inside} are gone")
    assert support.mounts() <= leaks
    sweep(way, leaks, room)


def test_after_kill_9_of_the_whole_group_too(way, leaks):
    room = way.room()
    process = running(way, room=room, start_new_session=True)
    inside = below(process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=support.PATIENCE)
    support.wait_until(lambda: gone(inside), f"processes {inside} are gone")
    sweep(way, leaks, room)


def test_kill_9_during_bring_up_is_swept_as_well(leaks):
    way = support.ways()["root" if support.is_root() else "ordinary"]
    room = way.room()
    for wait in moments(40, 0.03):
        process = way.start("run", "-c", "import time; time.sleep(3600)", room=room)
        wait()
        process.kill()
        process.communicate(timeout=support.PATIENCE)
    support.wait_until(lambda: gone(set(support.descendants())), "everything beneath us is gone")
    sweep(way, leaks, room)


def test_the_sweep_spares_a_run_that_is_alive(way):
    process = running(way)
    other = way.exec_json("/bin/true")
    assert other["exit_code"] == 0
    assert process.poll() is None
    inside = below(process)
    assert not gone(inside)
    process.terminate()
    process.communicate(timeout=support.PATIENCE)


def test_a_box_does_not_outlive_a_warden_that_was_killed():
    """Kill what is directly beneath bailey: the run ends with an error, not with a hang."""
    process = support.start("run", "--json", "--stdin", "--timeout", "600", "-c",
                            "import sys; sys.stdin.read()", stdin=-1)
    support.wait_until(lambda: has_python(process), "a python beneath bailey")
    inside = below(process)
    for pid in sorted(inside):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    out, err = process.communicate(timeout=support.PATIENCE)
    result = support.Done([], process.returncode, out, err, None).json()
    assert result["exit_code"] != 0
    assert process.returncode not in (0, 124)
    # Without a pid namespace the killed guest is ours now, whenever it gets to its end.
    support.wait_until(lambda: support.reap_orphans() or not inside & set(support.descendants()),
                       f"processes {inside} are gone")
