"""The warden dies: at every step of the protocol, and in the middle of a run."""
import json
import os
import signal
import subprocess

import fault
import pytest
import support

MOST = 400
pytestmark = pytest.mark.needs_namespaces  # the warden is found as the first of a pid namespace

PARTIAL = ["/bin/sh", "-c", "echo partial; echo more >&2; cat /dev/null; exit 0"]


def killed_at(step, room, *args, env=None):
    report = room.path / "report"
    argv = [fault.compiled("killer"), step, report, "--",
            *support.command("exec", "--json", "--timeout", "30", *args)]
    ended = fault.call(argv, f"warden killed at step {step}", room, env=env)
    return report.read_text().strip(), ended


def assert_lost(ended):
    """A box that is gone is called so, before it was ready as a failed one."""
    fault.assert_clear(ended)
    assert ended.status == 125, ended
    assert ended.result is not None, ended
    assert ended.error["code"] in ("box_lost", "box_failed"), ended
    if ended.error["code"] == "box_lost":
        assert "lost" in ended.error["message"], ended
    if ended.result["exit_code"] == 0:  # it was lost behind the program's end
        assert ended.error["code"] == "box_lost", ended


def test_warden_dies_at_every_step():
    """In the short run all of the first forty steps; a later one has seen the output already."""
    seen = []
    for step in range(1, MOST if fault.FULL else 41):
        room = support.Room()
        reached, ended = killed_at(step, room, "--", *PARTIAL)
        if reached == "not reached":
            assert ended.status == 0 and ended.result["stdout"] == "partial\n", ended
            break
        if ended.status == 0:  # it had said everything by then
            assert ended.result["stdout"] == "partial\n" and not ended.error, ended
            assert ended.result["stderr"] == "more\n", ended
        else:
            assert_lost(ended)
            assert "partial\n".startswith(ended.result["stdout"].split("... ")[0]), ended
            seen.append(ended)
        room.remove()
    assert any(ended.error["code"] == "box_lost" for ended in seen), "no step lost the box"


def test_warden_dies_while_files_are_copied():
    room = support.Room()
    big = room.write("big.bin", os.urandom(1 << 20))
    for step in range(1, 80, 1 if fault.FULL else 6):
        reached, ended = killed_at(step, room, "--file", big, "--", "/bin/true")
        if reached == "not reached":
            break
        if ended.status != 0:
            assert_lost(ended)
    big.unlink()


def test_warden_dies_while_outputs_are_fetched():
    room = support.Room()
    out = room.work / "out"
    command = ["/bin/sh", "-c",
               "mkdir -p /tmp/output; head -c 1000000 /dev/zero >/tmp/output/z.bin"]
    for step in range(1, 120, 1 if fault.FULL else 8):
        reached, ended = killed_at(step, room, "--out", out, "--", *command)
        files = sorted(os.listdir(out)) if out.exists() else []
        assert files in ([], ["z.bin"]), f"{files}: {ended}"
        if files:
            assert (out / "z.bin").stat().st_size == 1000000, "half a file under its own name"
            (out / "z.bin").unlink()
        if reached == "not reached":
            break
        if ended.status != 0:
            assert_lost(ended)


def children(pid):
    return [int(word) for word in support._read(f"/proc/{pid}/task/{pid}/children").split()]


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def runs(pid, name):
    """Whether a process of that name runs beneath."""
    return any(support._read(f"/proc/{child}/comm") == name.encode() + b"\n"
               for child in descendants(pid))


def warden_of(pid):
    """The child that is PID 1 of the innermost namespace."""
    for child in descendants(pid):
        for line in open(f"/proc/{child}/status"):
            if line.startswith("NSpid:") and len(line.split()) > 2 and line.split()[-1] == "1":
                return child
    raise AssertionError("no warden found")


def test_partial_output_survives_a_lost_box():
    room = support.Room()
    run = support.start("exec", "--stdin", "--timeout", "60", "--", "/bin/sh", "-c",
                        "echo partial; cat", room=room, stdin=subprocess.PIPE)
    support.read_until(run.stdout, b"partial\n")
    os.kill(warden_of(run.pid), signal.SIGKILL)
    _, err = run.communicate(timeout=support.PATIENCE)
    assert run.returncode == 125, err
    assert b"lost" in err, err


def test_partial_output_is_in_the_result():
    """Two lines, each gone from its pipe before the next; the first has been sent on by then."""
    room = support.Room()
    code = """
import array, fcntl, os, signal, termios, time
def drained():
    left = array.array("i", [0])
    fcntl.ioctl(1, termios.FIONREAD, left)
    return left[0] == 0
for line in (b"one\\n", b"two\\n"):
    os.write(1, line)
    while not drained():
        time.sleep(0.001)
import ctypes
ctypes.CDLL(None).prctl(15, b"all-said", 0, 0, 0)
signal.pause()
"""
    run = support.start("run", "--json", "--timeout", "60", "-c", code, room=room)

    support.wait_until(lambda: runs(run.pid, "all-said"), "the guest has said all", 30)
    os.kill(warden_of(run.pid), signal.SIGKILL)
    out, err = run.communicate(timeout=support.PATIENCE)
    result = json.loads(out)
    assert result["stdout"].startswith("one\n"), result
    assert result["meta"]["error"]["code"] == "box_lost", result
    assert run.returncode == 125


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGSEGV, signal.SIGTERM])
def test_warden_that_stops_or_crashes(number):
    """A stopped warden answers nothing: the engine's own deadline still ends the run."""
    room = support.Room()
    run = support.start("exec", "--json", "--timeout", "3", "--", "/bin/sh", "-c",
                        "echo partial; sleep 1000", room=room)
    support.wait_until(lambda: runs(run.pid, "sleep"), "the guest runs", 30)
    os.kill(warden_of(run.pid), number)
    out, err = run.communicate(timeout=support.PATIENCE)
    result = json.loads(out)
    if result["meta"]["timed_out"]:
        assert run.returncode == 124 and result["exit_code"] == -1, result
    else:
        assert run.returncode == 125 and result["meta"]["error"]["code"] == "box_lost", result
