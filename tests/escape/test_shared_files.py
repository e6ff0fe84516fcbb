"""Attacks through files that boxes share with the host and with each other (docs/security.md, attacks 82): watching
who uses them (inotify), and locks that reach out of the box.

Every box sees the host's programs through an overlay of its own, whose inodes nobody else has. A watch on
the box's own files has to work as ever.
"""
import fcntl
import json
import os
import subprocess

import pytest

import support
import warm

WAYS = {"split": None, "one-id": support.ORDINARY_UID}

# In a kernel, so that watches and locks stay between two cells. What is watched: folders with programs and
# libraries of the host, of the interpreter and of the template, and the files of /etc that a box has.
SET_UP = r"""
import ctypes, fcntl, glob, json, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
ALL = 0xfff
def watch(*paths):
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    numbers = {libc.inotify_add_watch(fd, path.encode(), ALL): path for path in paths}
    assert fd >= 0 and min(numbers) > 0, (fd, numbers, ctypes.get_errno())
    return fd, numbers
def events(fd, numbers):
    seen = []
    try:
        while data := os.read(fd, 65536):
            while data:
                number, mask, _, length = struct.unpack("iIII", data[:16])
                seen.append([numbers.get(number), mask, data[16:16 + length].rstrip(b"\0").decode()])
                data = data[16 + length:]
    except BlockingIOError:
        return seen
def shared():
    own = os.path.dirname(os.path.realpath(sys.executable))
    found = ["/usr/bin", "/usr/bin/env", "/usr/bin/true", "/usr/lib", own, sys.prefix, os.path.dirname(os.__file__),
             "/etc/ld.so.cache", "/etc/ssl/openssl.cnf", "/bailey/template", *glob.glob("/usr/lib/*/libc.so.6")]
    return [path for path in dict.fromkeys(found) if os.path.exists(path)]
"""


@pytest.fixture(params=WAYS, scope="module")
def daemon(request):
    if os.geteuid() != 0:
        pytest.skip("starts daemons as root and as an ordinary user: needs root")
    with warm.Daemon(WAYS[request.param]) as running:
        generation = running.get("/v1/info")["generation"]
        yield running
        assert running.get("/v1/info")["generation"] == generation, "the broker died"


@pytest.fixture
def boxes(daemon):
    """Two sessions, each with a kernel that is set up."""
    made = [daemon.session()["id"] for _ in range(2)]
    for session in made:
        said(daemon, session, SET_UP)
    yield made
    for session in made:
        daemon.end(session)


def said(daemon, session, code):
    result = daemon.cell(session, code)
    assert result["exit_code"] == 0, result
    return json.loads(result["stdout"] or "null")


def test_82_the_layer_holds(daemon, boxes):
    isolation = daemon.get(f"/v1/sessions/{boxes[0]}")["isolation"]
    assert "overlay" in isolation["layers"], isolation


def test_82_no_use_of_shared_files_is_seen(daemon, boxes):
    """Programs that the host and another box run, and files that they read, are named by no event."""
    one, other = boxes
    watched = said(daemon, one, "watching = watch(*shared()); print(json.dumps(shared()))")
    assert "/usr/bin" in watched and len(watched) > 5
    said(daemon, one, "events(*watching)")
    for path in watched:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                file.read(64)
    assert subprocess.run(["/usr/bin/true"]).returncode == 0
    assert subprocess.run(["/usr/bin/env", "true"]).returncode == 0
    assert daemon.exec(other, "/usr/bin/true")["exit_code"] == 0
    assert daemon.exec(other, "python3", "-c", "import json, sqlite3")["exit_code"] == 0
    said(daemon, other, "[open(path, 'rb').read(9) for path in shared() if os.path.isfile(path)]")
    assert said(daemon, one, "print(json.dumps(events(*watching)))") == []
    # The watch itself works: its own use is seen.
    own = said(daemon, one, "open('/usr/bin/env', 'rb').read(9); print(json.dumps(events(*watching)))")
    assert ["/usr/bin", "env"] in [[path, name] for path, _, name in own], own


def test_82_watching_its_own_files_works(daemon, boxes):
    names = said(daemon, boxes[0], """
os.makedirs("/workspace/w", exist_ok=True)
own = watch("/workspace/w", "/tmp", "/home/user")
open("/workspace/w/a", "w").write("1"); os.rename("/workspace/w/a", "/workspace/w/b"); open("/tmp/c", "w").close()
open("/home/user/d", "w").close()
print(json.dumps([name for _, _, name in events(*own)]))""")
    assert {"a", "b", "c", "d"} <= set(names), names


def locks(path, kind):
    """Whether the host gets the lock now."""
    with open(path, "rb") as file:
        try:
            if kind == "flock":
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_82_no_lock_leaves_the_box(daemon, boxes):
    """Neither the host nor another box waits for a lock of a guest, nor learns of it."""
    one, other = boxes
    take = """
files = [open(path, "rb") for path in shared() if os.path.isfile(path)]
for file in files: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print(json.dumps([file.name for file in files]))"""
    taken = said(daemon, one, take)
    assert "/usr/bin/env" in taken
    for path in taken:
        if not path.startswith("/bailey/"):
            assert locks(path, "flock") and locks(path, "lockf"), path
    assert said(daemon, other, take) == taken
    said(daemon, one, "[file.close() for file in files]")
    said(daemon, other, "[file.close() for file in files]")
    with open("/usr/bin/env", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert said(daemon, one, take) == taken, "a lock of the host is not seen"


def test_82_leases_do_not_stop_the_host(daemon, boxes):
    """A lease makes others who open the file for writing wait: on shared files none can be had, or it is the box's own."""
    said(daemon, boxes[0], """
held = [open(path, "rb") for path in shared() if os.path.isfile(path)]
for file in held:
    try:
        fcntl.fcntl(file, 1024, fcntl.F_RDLCK)
    except OSError:
        pass""")
    path = "/usr/bin/env"
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # EWOULDBLOCK: somebody has a lease
    os.close(fd)


def test_82_a_run_without_a_daemon():
    """Nothing of the host is bound itself but devices and the list of processors."""
    done = support.bailey("run", "--no-daemon", "--json", "-c", "print(open('/proc/self/mountinfo').read())")
    assert done.status == 0, done
    result = done.json()
    assert "overlay" in result["meta"]["isolation"]["layers"], result["meta"]["isolation"]
    rows = [line.split(" - ") for line in result["stdout"].splitlines() if line]
    shown = {before.split()[4]: after.split()[0] for before, after in rows}
    assert shown["/usr"] == "overlay", shown
    others = {path for path, kind in shown.items() if kind not in ("overlay", "tmpfs", "devpts", "proc")}
    assert all(path.startswith(("/dev/", "/proc/")) or path == "/sys/devices/system/cpu"
               for path in others), others
