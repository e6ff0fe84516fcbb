"""The surroundings fail: full disks, folders that cannot be written, descriptors, streams."""
import json
import signal
import subprocess

import fault
import pytest
import support

HONEST = ("exec", "--json", "--file")


def in_full_disk(script, room, *args, size="64k", env=None):
    """bailey in a mount namespace of its own, where `disk` in its folder is a tiny tmpfs."""
    support.need_mounts()
    disk = room.work / "disk"
    disk.mkdir()
    prefix = ["unshare", "-m", "sh", "-c",
              f'mount -t tmpfs -o size={size},nr_inodes=64 none "$0" && cd "$0" && '
              f'{script} exec "$@"', disk]
    return fault.call([*prefix, *support.command(*args)], "full disk", room, env=env)


FILL = "cat /dev/zero > filler 2>/dev/null; "


def test_full_disk_under_artifacts():
    """The run is not affected; that nothing was stored is said."""
    ended = in_full_disk(FILL, support.Room(), "run", "--json", "-c", "print('ran')",
                         env={"SANDBOX_STORE_CODE": "always"})
    assert ended.result is not None and ended.result["stdout"] == "ran\n", ended
    assert ended.status == 0 and ended.result["exit_code"] == 0, ended
    text = (ended.err + json.dumps(ended.result["meta"])).lower()
    assert "no space" in text or "enospc" in text, ended


def test_full_disk_under_out():
    ended = in_full_disk("", support.Room(), "run", "--json", "--out", "out", "-c",
                         "import os\nos.makedirs('/tmp/output', exist_ok=True)\n"
                         "open('/tmp/output/big', 'wb').write(b'x' * 1000000)\nprint('ran')")
    assert ended.result is not None and ended.result["stdout"] == "ran\n", ended
    text = (ended.err + json.dumps(ended.result["meta"])).lower()
    assert "no space" in text or "enospc" in text, ended


def test_full_disk_leaves_no_half_file():
    support.need_mounts()
    room = support.Room()
    disk = room.work / "disk"
    disk.mkdir()
    script = ('mount -t tmpfs -o size=64k,nr_inodes=64 none "$0" && cd "$0" && '
              '"$@" >/dev/null 2>&1; find . -type f')
    code = "import os\nos.makedirs('/tmp/output', exist_ok=True)\n" \
           "open('/tmp/output/big', 'wb').write(b'x' * 1000000)"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, str(disk),
                           *support.command("run", "--out", "out", "-c", code)],
                          env=support.environment(room, {"SANDBOX_STORE_CODE": "always"}),
                          capture_output=True, text=True, timeout=fault.DEADLINE)
    assert "big" not in done.stdout, done.stdout
    assert ".tmp" not in done.stdout, done.stdout


@pytest.mark.parametrize("where", ["no-permission", "file", "missing-parent", "read-only"])
def test_out_folder_that_cannot_be_written(where):
    user = support.ORDINARY_UID
    room = support.Room(user)
    out = {"no-permission": "/root/out", "file": room.write("file", "x"),
           "missing-parent": room.work / "a" / "b" / "c", "read-only": "/proc/out"}[where]
    code = "import os\nos.makedirs('/tmp/output', exist_ok=True)\n" \
           "open('/tmp/output/x.txt', 'w').write('x')"
    ended = fault.call(support.command("run", "--json", "--out", out, "-c", code, user=user),
                       f"--out {where}", room)
    if where == "missing-parent" and ended.status == 0:
        assert (out / "x.txt").read_text() == "x", ended
        return
    assert ended.status == 125, ended
    text = ended.err + json.dumps(ended.result or {})
    assert str(out).split("/")[-1] in text, ended


def test_artifact_folder_that_cannot_be_written():
    room = support.Room()
    (room.work / "artifacts").write_text("a file where a folder should be")
    ended = fault.call(support.command("run", "--json", "-c", "print('ran')"),
                       "artifacts is a file", room, env={"SANDBOX_STORE_CODE": "always"})
    assert ended.status == 0 and ended.result["stdout"] == "ran\n", ended
    assert "artifact" in ended.err + json.dumps(ended.result["meta"]), ended


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1", "0 2", "1 2", "0 1 2"])
def test_closed_standard_streams(closed):
    """What opens next must not become a standard stream by accident."""
    room = support.Room()
    script = "exec " + " ".join(f"{fd}<&-" if fd == "0" else f"{fd}>&-" for fd in closed.split())
    ended = fault.call(["sh", "-c", script + '; exec "$@"', "sh",
                        *support.command("run", "--json", "-c", "print('ran')")],
                       f"closed {closed}", room)
    assert 0 <= ended.status < 128, ended
    if "1" not in closed:
        assert ended.result is not None and ended.result["stdout"] == "ran\n", ended
        assert ended.status == 0, ended


@support.not_with_counters
def test_closed_stdin_with_stdin_wanted():
    room = support.Room()
    ended = fault.call(["sh", "-c", 'exec 0<&-; exec "$@"', "sh", *support.command(
        "run", "--json", "--stdin", "-c", "import sys; print(repr(sys.stdin.read()))")],
        "closed stdin", room)
    if ended.status == 0:
        assert ended.result["stdout"] == "''\n", ended
    else:
        fault.assert_clear(ended)


def test_code_from_closed_stdin():
    ended = fault.call(["sh", "-c", 'exec 0<&-; exec "$@"', "sh", *support.command("run", "-")],
                       "code from closed stdin", support.Room())
    assert ended.status == 125 and ended.err.strip(), ended


@pytest.mark.parametrize("count", [*range(3, 24), 32, 64])
def test_few_descriptors(count):
    """RLIMIT_NOFILE: from nothing at all to plenty."""
    room = support.Room()
    ended = fault.call(["prlimit", f"--nofile={count}", *support.command(
        *HONEST, f"{fault.honest()}:/workspace/honest", "--", "./honest")],
        f"nofile {count}", room)
    if ended.status == 127 and "error while loading" in ended.err:
        return  # a dynamic (sanitizer) build: its loader needs descriptors before we do
    fault.assert_right_or_clear(ended)
    # Without namespaces a box is a folder of TMPDIR; its removal needs descriptors, else the next
    # command sweeps it.
    if support.session_refusal():
        assert support.bailey("exec", "--", "/bin/true", room=room).status == 0
    if count >= 64:
        assert ended.status == 0, ended


@pytest.mark.parametrize("tmpdir", ["/nonexistent/folder", "", "relative", "/proc", "/etc/passwd"])
@pytest.mark.parametrize("name", ["root", "refused"])
def test_odd_tmpdir(tmpdir, name):
    way = support.ways()[name]
    room = way.room()
    done = way.bailey("run", "--json", "-c", "print('ran')", room=room,
                      env={"TMPDIR": tmpdir, "SANDBOX_STORE_CODE": "never"})
    if done.status == 0:
        assert done.json()["stdout"] == "ran\n", done
    else:
        assert done.status in (125, 126), done
        text = done.stderr + done.stdout
        assert "TMPDIR" in text or tmpdir in text, done


@support.not_with_counters
@pytest.mark.parametrize("limit", ["--nproc=0", "--fsize=0", "--data=3000000", "--stack=262144",
                                   "--memlock=0", "--sigpending=0", "--msgqueue=0",
                                   "--as=200000000"])
def test_small_limits_of_the_caller(limit):
    """
    The limits bailey was started with: right, or an error. (With less than about 2.4 MB of data the
    kernel cannot load the program.)
    """
    room = support.Room()
    ended = fault.call(["prlimit", limit, *support.command(
        *HONEST, f"{fault.honest()}:/workspace/honest", "--", "./honest")], limit, room)
    assert ended.status >= 0, ended
    if ended.status != 0:
        fault.assert_right_or_clear(ended, guest_may_fail=True)


@pytest.mark.parametrize("signals", ["INT", "TERM", "HUP"])
def test_ended_from_outside(signals):
    """Ctrl-C and friends while the guest runs: said as cancelled, nothing left."""
    run = support.start("run", "--json", "--timeout", "60", "-c",
                        "import os, signal\nos.write(1, b'partial')\nsignal.pause()")
    support.wait_until(lambda: len(support.alive(run.pid)) >= 2, "the guest runs", 30)
    run.send_signal(getattr(signal, "SIG" + signals))
    out, err = run.communicate(timeout=support.PATIENCE)
    assert run.returncode != 0
    if out.strip():
        assert json.loads(out)["meta"]["error"]["code"] == "cancelled", out


def test_kill_9_at_any_moment():
    """Processes and mounts are gone at once, cgroups and folders with the next command."""
    for delay in range(0, 40, 1 if fault.FULL else 4):
        room = support.Room()
        run = support.start("exec", "--", "/bin/sh", "-c", "sleep 600 & sleep 600", room=room)
        # Steps of bring-up are microseconds; spread the kill over them by how often we looked.
        for _ in range(delay * 50):
            support._read("/proc/self/stat")
        run.kill()
        run.communicate()
        support.wait_until(lambda: not support.alive(run.pid), "processes are gone")
    # We adopt what bailey did not live to reap; the next command sweeps its cgroup and folders.
    support.wait_until(lambda: not support.alive(), "processes are gone")
    support.reap_orphans()
    for room in list(support.rooms):  # a folder is swept by a command with the same TMPDIR
        assert support.bailey("exec", "--", "/bin/true", room=room).status == 0
