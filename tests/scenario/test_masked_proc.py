"""Inside an outer container that masks /proc a box goes without, says so, and works."""
import os
import subprocess

import pytest
import support

MASK = """set -e
mount -t tmpfs -o ro none /proc/acpi 2>/dev/null || mount -t tmpfs -o ro none /proc/fs
mount --bind /dev/null /proc/kcore 2>/dev/null || mount --bind /dev/null /proc/keys
exec "$@"
"""


def masked(*args, user=None):
    """bailey in new mount and pid namespaces whose /proc has masks, as in any container."""
    support.need_mounts()
    room = support.Room(user)
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
            "--propagation", "private", "sh", "-c", MASK, "sh", *support.command(*args, user=user)]
    done = subprocess.run(argv, env=support.environment(room), cwd=room.work, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=support.PATIENCE)
    return support.Done(argv, done.returncode, done.stdout, done.stderr, room)


def test_the_kernel_really_refuses_a_fresh_proc_there():
    """The premise: without it the tests below would prove nothing."""
    support.need_mounts()
    user = support.ORDINARY_UID
    argv = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private",
            "sh", "-c", MASK, "sh", "setpriv", f"--reuid={user}", f"--regid={user}",
            "--clear-groups", "unshare", "-Urmpf", "--mount-proc", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/")
    assert done.returncode != 0
    assert "not permitted" in done.stderr


@pytest.mark.parametrize("user", [support.ORDINARY_UID, None], ids=["ordinary", "root"])
def test_a_run_works_without_proc_and_says_so(user):
    code = ("import os, threading, tempfile, subprocess\n"
            "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
            "print(subprocess.check_output(['echo', 'child'], text=True), end='')\n"
            "print(os.path.exists('/proc/self'))")
    result = support.Result(masked("run", "--json", "-c", code, user=user))
    assert result["exit_code"] == 0, result
    has_proc = "proc" not in result.meta["isolation"]["missing"]
    assert result["stdout"] == f"thread\nchild\n{has_proc}\n"
    assert {"userns", "mountns", "pidns", "netns"} <= set(result.meta["isolation"]["layers"])
    if user is not None:
        assert not has_proc


def test_doctor_explains_it():
    done = masked("doctor", user=support.ORDINARY_UID)
    assert done.status == 0
    line = [l for l in done.stdout.splitlines() if "/proc" in l or l.split()[:1] == ["proc"]]
    assert line, done.stdout
    assert "mask" in done.stdout or "EPERM" in done.stdout or "container" in done.stdout


def test_the_host_proc_is_never_shown_instead():
    code = ("from os.path import exists\n"
            f"print(exists('/proc/{os.getpid()}'), exists('/proc/1/environ'))")
    result = support.Result(masked("run", "--json", "-c", code, user=support.ORDINARY_UID))
    assert result["stdout"] == "False False\n", result


def test_memory_is_watched_through_the_proc_outside():
    code = ("import time\nx = bytearray(400 << 20)\n"
            "for at in range(0, len(x), 4096): x[at] = 1\ntime.sleep(60)")
    result = support.Result(masked("run", "--json", "--memory", "64m", "--timeout", "30", "-c", code,
                                   user=support.ORDINARY_UID))
    assert result.meta["resource_limits"]["memory_by"].startswith("watchdog")
    assert result.meta["oom_killed"] and not result.meta["timed_out"], result
