"""Kernel memory that no control group counts: a guest cannot have it, or the box ends.

What each kind of kernel object takes of the machine is measured by tools/print-kernel-memory."""
import pathlib

import attack
import pytest

HOARD = pathlib.Path(__file__).parent / "kernel_hoard.c"

# What the filter refuses, and as what a kernel without it would.
REFUSED = {
    "acl": "Operation not supported", "xattr": "Operation not supported",
    "xattr_memfd": "Operation not supported", "ofd_lock": "Invalid argument",
    "socket_filter": "Protocol not available", "seccomp_filter": "Invalid argument",
    "udp_cork": "Invalid argument", "ipv6_options": "Protocol not available",
    "md5": "Protocol not available", "shared_policy": "Function not implemented",
    "policy": "Function not implemented", "lease": "Invalid argument", "posix_orphan": "Invalid argument",
    # IP_RECVERR succeeds, because resolvers set it, and queues nothing; hoard looks.
    "udp_errors": "Protocol not available", "udp_errors_large": "Protocol not available",
}
# What programs need, so it is counted by the warden; over its bound the box's programs end.
WATCHED = ["posix_lock", "flock_orphan", "flock_mapped", "tcp_backlog", "tcp_small", "splice", "time_wait"]


def hoard(box, kind, processes=4):
    program = box.compile(HOARD, "hoard")
    return box.bailey("exec", "--json", "--memory", "256m", "--disk", "16m", "--timeout", "60",
                      "--file", str(program), "--", "/workspace/hoard", kind, str(processes))


@pytest.mark.ways(*attack.WALLED)
@pytest.mark.parametrize("kind", REFUSED)
def test_76_uncounted_kernel_memory_is_refused(box, kind):
    outcome = hoard(box, kind)
    assert outcome.result["stdout"].startswith(f"full 0, last: {REFUSED[kind]}"), outcome
    assert outcome.meta["oom_killed"] is False, outcome


@pytest.mark.ways(*attack.WALLED)
@pytest.mark.parametrize("kind", WATCHED)
def test_76_uncounted_kernel_memory_is_watched(box, kind):
    if kind == "posix_lock" and box.way.name == "docker":
        pytest.skip("not held: /proc/locks of a container is hidden from its warden too (docs/security.md)")
    outcome = hoard(box, kind, 8)
    assert outcome.meta["oom_killed"] is True and outcome.meta["timed_out"] is False, outcome
    assert outcome.result["exit_code"] == 137 and "full" not in outcome.result["stdout"], outcome


@pytest.mark.ways(*attack.WALLED)
def test_76_ordinary_numbers_of_sockets_and_locks_are_no_attack(box):
    outcome = box.python("""
import fcntl, socket
server = socket.create_server(("127.0.0.1", 0), backlog=500)
pairs = []
for _ in range(400):
    one = socket.create_connection(server.getsockname())
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pairs.append((one, server.accept()[0]))
udp = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(100)]
with open("locked", "wb") as file:
    for at in range(0, 4000, 2):
        fcntl.lockf(file, fcntl.LOCK_EX, 1, at)
    import time; time.sleep(0.3)  # ticks of the warden's clock
print("fine")
""", "--memory", "256m", "--disk", "16m")
    assert outcome.result["stdout"] == "fine\n" and outcome.meta["oom_killed"] is False, outcome


@pytest.mark.ways(*attack.WALLED)
def test_76_copying_goes_on_without_attributes(box):
    """cp, tar, shutil and rsync meet EOPNOTSUPP and copy everything else."""
    outcome = box.python("""
import os, shutil, subprocess
os.makedirs("from/below")
open("from/below/file", "w").write("x")
os.chmod("from/below/file", 0o640)
subprocess.run(["cp", "-a", "from", "cp"], check=True)
subprocess.run("mkdir tar && tar -cf - -C from . | tar -xpf - -C tar", shell=True, check=True)
subprocess.run(["install", "-m", "600", "from/below/file", "installed"], check=True)
shutil.copytree("from", "shutil")
places = ["cp", "tar", "shutil"]
if shutil.which("rsync"):
    subprocess.run(["rsync", "-a", "from/", "rsync"], check=True)
    places.append("rsync")
for place in places:
    status = os.stat(f"{place}/below/file")
    assert status.st_mode & 0o777 == 0o640 and status.st_size == 1, place
print(*places)
""")
    assert outcome.result["stdout"].split()[:3] == ["cp", "tar", "shutil"], outcome
    if "rsync" not in outcome.result["stdout"]:
        pytest.skip("rsync is not installed; the others copied")


def test_82_proc_locks_is_hidden(box):
    """It showed locks of other boxes, by which two of them could talk."""
    found = box.probe("""
import fcntl
with open("mine", "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    try:
        found["seen"] = open("/proc/locks").read()
    except OSError as error:
        found["seen"] = ""
""")
    assert found["seen"] == "", found
