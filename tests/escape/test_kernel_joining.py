"""Attacks on a kernel that is being forked into a box, by a guest that is there already (docs/security.md, attacks 20, 21).

Between the fork and its filter such a process is not dumpable: in a box of one id a guest could patch
it otherwise (57 of 200 tries won). It can be signalled, which costs the guest's own kernels
and nobody else.
"""
import json
import os

import pytest

import serve
import support
import warm

WAYS = {"split": None, "one-id": support.ORDINARY_UID}

# Looks at every new process until told to stop; prints what it could do to which.
HUNTER = r"""
import ctypes, errno, json, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
base = max(int(p) for p in os.listdir("/proc") if p.isdigit())
tries, won = {}, []
def note(pid, what, is_won):
    tries[what] = tries.get(what, 0) + 1
    if is_won:
        won.append([pid, what, open(f"/proc/{pid}/cmdline").read()])
def hunt(pid):
    for name, flags in (("mem", os.O_RDWR), ("mem", os.O_RDONLY), ("environ", os.O_RDONLY), ("auxv", os.O_RDONLY)):
        try:
            fd = os.open(f"/proc/{pid}/{name}", flags)
        except OSError as problem:
            if problem.errno != errno.ENOENT:
                note(pid, f"{name} {flags}", False)
            continue
        note(pid, f"{name} {flags}", True)
        os.close(fd)
    for name in ("exe", "root", "cwd", "ns/user", "fd/3", "fd/4"):
        try:
            os.readlink(f"/proc/{pid}/{name}")
            note(pid, name, True)
        except OSError as problem:
            if problem.errno != errno.ENOENT:
                note(pid, name, False)
    for name, number, args in CALLS:
        done = libc.syscall(number, *[pid if a == "pid" else a for a in args])
        if ctypes.get_errno() != errno.ESRCH or done >= 0:
            note(pid, name, done >= 0)
CALLS = (("ptrace attach", 101, (16, "pid", 0, 0)), ("ptrace seize", 101, (0x4206, "pid", 0, 0)),
         ("process_vm_writev", 311, ("pid", 0, 0, 0, 0, 0)), ("process_vm_readv", 310, ("pid", 0, 0, 0, 0, 0)),
         ("prlimit64", 302, ("pid", 7, 0, ctypes.create_string_buffer(16))),
         ("sched_setaffinity", 203, ("pid", 8, b"\1" + b"\0" * 7)), ("setpriority", 141, (0, "pid", 19)),
         ("kcmp", 312, ("pid", "pid", 0, 0, 0)), ("move_pages", 279, ("pid", 0, 0, 0, 0, 0)))
open("/workspace/hunting", "w").close()
while not os.path.exists("/workspace/stop"):
    for pid in range(base + 1, base + 4):
        hunt(pid)
    while os.path.exists(f"/proc/{base + 1}"):
        hunt(base + 1)
        base += 1
print(json.dumps({"tries": tries, "won": won}))
"""

# Sends a signal to the first new process that it can reach, and ends.
STOPPER = r"""
import os, signal, sys
base = max(int(p) for p in os.listdir("/proc") if p.isdigit())
open("/workspace/hunting", "w").close()
while True:
    for pid in range(base + 1, base + 6):
        try:
            os.kill(pid, getattr(signal, sys.argv[1]))
            sys.exit(print("hit"))
        except OSError:
            pass
"""


@pytest.fixture(params=WAYS)
def daemon(request):
    if os.geteuid() != 0:
        pytest.skip("starts daemons as root and as an ordinary user: needs root")
    with warm.Daemon(WAYS[request.param]) as running:
        generation = running.get("/v1/info")["generation"]
        yield running
        assert running.get("/v1/info")["generation"] == generation, "the broker died"


def begin(daemon, session, program, *args):
    execution = daemon.background(session, "python3", "-c", program, *args, timeout=0)["execution_id"]
    support.wait_until(lambda: daemon.call(
        "GET", f"/v1/sessions/{session}/files/stat",
        query={"path": "/workspace/hunting"}).status == 200, "it looks for them")
    return execution


@pytest.mark.parametrize("origin", ["zygote", "cold"])
def test_20_its_memory_is_never_open(daemon, origin):
    """Every new process of the box is looked at again and again from its first moment on."""
    session = daemon.session()["id"]
    daemon.exec(session, "true")
    execution = begin(daemon, session, HUNTER)
    came = 0
    for _ in range(60):
        if origin == "cold":
            daemon.kill_zygotes()
        context = daemon.context(session)
        result = daemon.cell(session, "1 + 1", context=context)
        assert result["results"][0]["data"]["text/plain"] == "2", result
        came += result["meta"]["warm"] == origin
        daemon.asked("DELETE", f"/v1/sessions/{session}/contexts/{context}")
    daemon.write(session, "/workspace/stop", b"")
    assert daemon.wait(execution)["exit_code"] == 0
    seen = json.loads(daemon.output(execution).body)
    assert came > 40, "it was about these"
    assert sum(seen["tries"].values()) > 500, seen
    assert seen["won"] == [], seen["won"][:20]
    daemon.end(session)


def test_21_stopping_it_harms_nobody_else(daemon):
    """A process that a guest stops on its way into the box does not cost the zygote, which others need."""
    session, other = daemon.session()["id"], daemon.session()["id"]
    daemon.context_of(other, "zygote")
    zygotes = daemon.zygotes()
    daemon.exec(session, "true")
    execution = begin(daemon, session, STOPPER, "SIGSTOP")
    result = daemon.cell(session, "6 * 7", context=daemon.context(session), timeout=2)
    assert daemon.wait(execution)["exit_code"] == 0
    if result["meta"]["timed_out"]:  # it was stopped when it had joined: an ordinary kernel that hangs
        assert result["meta"]["kernel_lost"], result
    else:
        assert result["results"][0]["data"]["text/plain"] == "42", result
    assert daemon.zygotes() == zygotes, "theirs and ours"
    assert daemon.cell(other, "1", context=daemon.context(other))["meta"]["warm"] == "zygote"
    for made in (session, other):
        daemon.end(made)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV", "SIGHUP", "SIGUSR1", "SIGCHLD"])
def test_21_ending_it_is_told(daemon, name):
    """Then it is started cold, or said to have died; the next cell works."""
    session = daemon.session()["id"]
    daemon.exec(session, "true")
    daemon.zygote()
    for _ in range(5):
        execution = begin(daemon, session, STOPPER, name)
        result = daemon.cell(session, "6 * 7", context=daemon.context(session), timeout=20)
        assert daemon.wait(execution)["exit_code"] == 0
        assert not result["meta"]["timed_out"], result
        if result["meta"].get("kernel_lost") or result["meta"].get("error"):
            assert result["exit_code"] != 0, result  # its value may have been told before
            assert [r["data"]["text/plain"] for r in result["results"]] in ([], ["42"]), result
        elif name == "SIGINT" and (result["error"] or {}).get("name") == "KeyboardInterrupt":
            assert result["exit_code"] == 1, result  # it had joined, and its cell had begun
        else:
            assert result["exit_code"] == 0 and result["results"][0]["data"]["text/plain"] == "42", result
        after = daemon.cell(session, "6 * 7", context=result["meta"]["context"])
        if after["meta"].get("kernel_lost"):  # the signal came when the first cell had ended
            after = daemon.cell(session, "6 * 7", context=result["meta"]["context"])
        assert after["results"][0]["data"]["text/plain"] == "42", after
        daemon.exec(session, "rm", "/workspace/hunting")
    daemon.end(session)
