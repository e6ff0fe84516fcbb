"""A guest against its own session: forged frames, its warden, floods of output, ends that are none.

docs/security.md, attacks 17, 20, 21, 25, 59, 60, 61, 63 where a session makes them different from a single run.
"""
import json
import os
import socket

import pytest
import serve
import support


def test_63_nothing_is_lost_between_connections(daemon, session):
    """A client that leaves in the middle and comes back at its offset."""
    running = daemon.background(session, "sh", "-c", "seq 1 300000", timeout=0)["execution_id"]
    path = f"/v1/sessions/{session}/processes/{running}/events"
    got, last, finished, visits = b"", None, None, 0
    while finished is None:
        visits += 1
        with daemon.events(path, last=last) as events:
            for count, event in enumerate(events):
                if event.type == "stdout":
                    assert event.data["offset"] == len(got), (event, last)
                    got += serve.decoded(event.data)
                elif event.type == "exit":
                    finished = event.data
                last = event.id or last
                if count >= 3:
                    break
    assert visits > 2
    assert got == b"".join(b"%d\n" % i for i in range(1, 300001))
    assert finished["exit_code"] == 0 and finished["meta"]["stdout_bytes"] == len(got)


@pytest.mark.parametrize("last", ["999999999-0", "-1", "x", "18446744073709551616-0", "0",
                                  "0-0-0", "9223372036854775808-9223372036854775808", "%00"])
def test_63_ids_of_events_that_were_never_given(daemon, session, last):
    running = daemon.background(session, "echo", "one")["execution_id"]
    daemon.wait(running)
    reply = daemon.call("GET", f"/v1/sessions/{session}/processes/{running}/events", None,
                        {"Last-Event-ID": last, "Accept": "text/event-stream"})
    assert reply.status in (200, 400, 416), reply
    if reply.status == 200:
        assert reply.body.count(b"event: exit") == 1, "one end, and no invented output"
        assert b"one" in reply.body or b"event: stdout" not in reply.body, reply


def test_60_frames_on_every_descriptor(daemon, session):
    """What looks like a frame of the warden's is output, and descriptors beyond 2 are not there."""
    done = daemon.python(session, r"""
import json, os, struct, sys
fds = sorted(int(n) for n in os.listdir("/proc/self/fd"))
forged = b"".join(struct.pack("<BBHIQ", kind, 0, 8, number, 0) for kind in range(64)
                  for number in range(4))
for fd in range(3, 64):
    try:
        os.write(fd, forged)
    except OSError:
        pass
sys.stdout.buffer.write(forged)
sys.stderr.write(json.dumps({"exit_code": 0, "event": "exit", "fds": [f for f in fds if f > 3]}))
os._exit(9)
""")
    assert done["exit_code"] == 9 and done["meta"]["stdout_bytes"] == 64 * 4 * 16, done
    assert json.loads(done["stderr"])["fds"] == [], done


def test_20_the_warden_cannot_be_reached(daemon, session):
    done = daemon.python(session, r"""
import ctypes, json, os, signal
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGUSR1):
    try:
        os.kill(1, number)
    except OSError:
        pass
found["ptrace"] = libc.ptrace(16, 1, 0, 0) == 0
for name in ("mem", "environ", "maps", "exe", "fd", "fd/3", "root", "cwd", "syscall", "stack"):
    path = "/proc/1/" + name
    try:
        found[name] = bool(os.listdir(path) if name in ("fd", "root", "cwd") else
                           open(path, "rb").read(1))
    except OSError:
        found[name] = False
for name in ("mem", "oom_score_adj", "comm", "limits", "coredump_filter", "clear_refs"):
    try:
        open("/proc/1/" + name, "r+b").close()
        found["write " + name] = True
    except OSError:
        found["write " + name] = False
print(json.dumps(found))
""")
    found = json.loads(done["stdout"])
    assert not any(found.values()), {k: v for k, v in found.items() if v}
    assert daemon.exec(session, "echo", "still")["stdout"] == "still\n"


def test_21_kill_everything(daemon, session):
    """kill -1 ends what the guest has in its box, and the session goes on."""
    running = daemon.background(session, "sleep", "1000", timeout=0)["execution_id"]
    support.wait_until(lambda: daemon.get(
        f"/v1/sessions/{session}/processes/{running}")["state"] == "running", "it runs")
    done = daemon.exec(session, "sh", "-c", "kill -9 -1")
    assert done["meta"].get("error") is None, done
    assert daemon.wait(running)["signal"] in (9, "SIGKILL", "KILL"), daemon.wait(running)
    assert daemon.exec(session, "echo", "still")["stdout"] == "still\n"


def test_61_exits_while_children_run(daemon, session):
    """The command's end is its own; what it left ends with the session, and is not lost before."""
    done = daemon.exec(session, "sh", "-c", "(setsid sleep 1000 >/dev/null 2>&1 &) ; exit 4")
    assert done["exit_code"] == 4, done
    assert "sleep 1000" in daemon.exec(session, "sh", "-c",
                                       "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")["stdout"]
    before = support.alive(daemon.process.pid)
    assert any(what.endswith(" sleep") for what in before.values())
    daemon.end(session)
    left = [what for what in support.alive(daemon.process.pid).values() if what.endswith(" sleep")]
    assert left == []


def test_61_a_child_that_keeps_the_output_open(daemon, session):
    """The answer comes although somebody still holds the pipe; what he writes is not invented."""
    done = daemon.exec(session, "sh", "-c", "echo first; (setsid sleep 1000 &) ; exit 5")
    assert done["exit_code"] == 5 and done["stdout"] == "first\n", done


def test_59_output_without_an_end(daemon, session):
    """Gigabytes from one command: bounded on disk, counted, and others are served."""
    running = daemon.background(session, "head", "-c", "400000000", "/dev/zero",
                                timeout=0)["execution_id"]
    assert daemon.exec(session, "echo", "beside")["stdout"] == "beside\n"
    ended = daemon.wait(running, 60)
    assert ended["stdout_bytes"] == 400000000, ended
    logs = daemon.state / "logs" / session
    kept = sum(os.stat(logs / name).st_blocks * 512 for name in os.listdir(logs))
    assert kept < 128 << 20, kept
    daemon.refused("GET", f"/v1/sessions/{session}/processes/{running}/output", 416, "offset_gone",
                   query={"offset": 100000000, "length": 10})


def test_17_what_a_command_holds(daemon, session):
    """By REST, with a terminal and in the background: three descriptors, and no more."""
    look = "ls -l /proc/self/fd | awk '{print $(NF-2), $NF}' | tail -n +2; id -u; cat /proc/1/cmdline"
    for members in ({}, {"pty": {"rows": 24, "columns": 80}}, {"stdin": "x"}):
        done = daemon.exec(session, "sh", "-c", look, **members)
        held = {line.split()[0] for line in done["stdout"].splitlines() if "/" in line or ":" in line}
        assert held <= {"0", "1", "2", "3"}, done  # 3: the folder that ls itself reads


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"[" * 100000, b'{"argv":' + b"[" * 1000 + b"]" * 1000 + b"}",
    b'{"argv":["true"],"argv":["false"]}', b'{"argv":"true"}', b'{"argv":[]}', b'{"argv":[1]}',
    b'{"argv":["a\\u0000b"]}', b'{"argv":["true"],"timeout":1e999}',
    b'{"argv":["true"],"timeout":-1}', b'{"argv":["true"],"env":{"A=B":"x"}}',
    b'{"argv":["true"],"env":{"A":"x\\u0000y"}}', b'{"argv":["true"],"pty":{"rows":99999999}}',
    b'{"argv":["\xff"]}', b'{"argv":["' + b"x" * 3000000 + b'"]}'])
def test_68_bodies_that_are_none(daemon, session, body):
    reply = daemon.call("POST", f"/v1/sessions/{session}/exec", body,
                        {"Content-Type": "application/json"})
    assert 400 <= reply.status < 500 or reply.json()["meta"]["error"], reply


def test_68_clients_that_vanish(daemon, session):
    """In the head, in the body, before the answer, in the stream: nothing hangs on them."""
    whole = (f"POST /v1/sessions/{session}/exec HTTP/1.1\r\nHost: b\r\nContent-Length: 200\r\n"
             "Content-Type: application/json\r\n\r\n").encode()
    body = json.dumps({"argv": ["sleep", "1000"], "timeout": 100}).encode().ljust(200)
    for cut in (1, 20, len(whole) - 2, len(whole), len(whole) + 50, len(whole) + 200):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(daemon.socket))
            client.sendall((whole + body)[:cut])
    serve.polled(lambda: daemon.get(f"/v1/sessions/{session}")["running"], lambda n: n == 0,
                 "what only they waited for has ended")
    assert daemon.exec(session, "echo", "still")["stdout"] == "still\n"
