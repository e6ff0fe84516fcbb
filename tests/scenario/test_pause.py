"""A session is paused and resumed: nothing in it runs, nothing is lost, and everybody is told."""
import os
import signal

import pytest

import mcp_http
import serve
import support

pytestmark = pytest.mark.needs_namespaces

COUNTER = "import itertools\nfor i in itertools.count(): print(i, flush=True)"


def namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def status_of(pid):
    """The lines of /proc/PID/status; nothing for a process that is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return {}


def inside(daemon, marker):
    """State by name of all processes in the box of the command that has this word, its warden excepted."""
    pids = support.alive(daemon.process.pid)
    spaces = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if marker.encode() in file.read():
                    spaces.add(namespace(pid))
        except OSError:
            pass
    assert len(spaces) == 1, f"one box has {marker}: {spaces}"
    found = {}
    for pid in os.listdir("/proc"):
        if pid.isdigit() and namespace(pid) in spaces:
            status = status_of(pid)
            if status and status["NSpid"].split()[-1] != "1" and not status["State"].startswith(("Z", "X")):
                found[int(pid)] = status["State"][0]
    return found


def stopped(daemon, marker):
    """The same when all are stopped: one that had no turn on a CPU since the pause stops in its next one."""
    support.wait_until(lambda: set(inside(daemon, marker).values()) == {"T"}, "all are stopped")
    return inside(daemon, marker)


def started(daemon, execution):
    path = f"/v1/sessions/{execution.rpartition('.')[0]}/processes/{execution}"
    serve.polled(lambda: daemon.get(path), lambda p: p["stdout_bytes"] > 0, "it writes")
    return execution


def pause(daemon, session):
    paused = daemon.post(f"/v1/sessions/{session}/pause")
    assert paused["state"] == "paused" and paused["paused_at"], paused
    assert paused["paused_by"] == ("signals" if paused["isolation"] else None), paused
    return paused


def resume(daemon, session):
    resumed = daemon.post(f"/v1/sessions/{session}/resume")
    assert resumed["paused_at"] is None, resumed
    return resumed


def test_nothing_runs_in_a_paused_session_and_nothing_is_lost(daemon, session):
    """Commands, their children and warm interpreters stand still, and are the same ones afterwards."""
    daemon.post(f"/v1/sessions/{session}/code", {"code": "x = 6\nimport os\npid = os.getpid()"})
    counter = started(daemon, daemon.background(session, "python3", "-c", COUNTER + " # here-1", timeout=0)["execution_id"])
    child = started(daemon, daemon.background(
        session, "sh", "-c", "python3 -c '%s' & echo begun; wait" % COUNTER.replace("print(i, flush=True)", "pass"),
        timeout=0)["execution_id"])
    daemon.post(f"/v1/sessions/{session}/code", {"code": "while True: x += 1", "background": True}, 202)
    pause(daemon, session)
    states = stopped(daemon, "here-1")
    assert len(states) >= 4, states
    told = daemon.get(f"/v1/sessions/{session}/processes/{counter}")
    assert told["state"] == "running"
    assert [one["state"] for one in daemon.get("/v1/sessions")["sessions"] if one["id"] == session] == ["paused"]
    assert resume(daemon, session)["state"] == "ready"
    after = inside(daemon, "here-1")
    assert set(after) == set(states) and "T" not in after.values(), after
    path = f"/v1/sessions/{session}/processes/{counter}"
    serve.polled(lambda: daemon.get(path), lambda p: p["stdout_bytes"] > told["stdout_bytes"], "it goes on")
    daemon.post(f"/v1/sessions/{session}/contexts/c1/interrupt")
    kept = daemon.post(f"/v1/sessions/{session}/code", {"code": "(x > 6, pid == os.getpid())"})
    assert kept["results"][0]["data"]["text/plain"] == "(True, True)", kept
    for execution in (counter, child):
        daemon.post(f"/v1/sessions/{session}/processes/{execution}/signal", {"signal": "KILL"})


# The kernel's timers send SIGCONT to the process that armed them, stopped or not.
CONTINUES_ITSELF = """
import ctypes, signal, time
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("number", ctypes.c_int), ("how", ctypes.c_int), ("rest", ctypes.c_char * 48)]
libc = ctypes.CDLL(None)
signal.signal(signal.SIGCONT, lambda *_: None)
for seconds in range(1, 601):
    timer = ctypes.c_void_p()
    assert libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(Event(None, signal.SIGCONT, 0)), ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, ctypes.byref((ctypes.c_long * 4)(0, 0, seconds, 0)), None) == 0
print("armed", flush=True)
while True: pass
"""


def test_a_guest_that_lets_the_kernel_continue_it_ends_its_session(daemon, session):
    with daemon.events("/v1/events") as events:
        started(daemon, daemon.background(session, "python3", "-c", CONTINUES_ITSELF, timeout=0)["execution_id"])
        pause(daemon, session)
        ended = events.until("session.ended")
        assert ended.data["reason"] == "box_lost", ended


def test_a_stopped_job_stays_stopped(daemon, session):
    """What a guest stopped itself is not continued by a resumption."""
    made = daemon.background(
        session, "sh", "-c", "sleep 1000 & kill -STOP $!; echo here-2; read line; kill -CONT $!; kill $!; echo over",
        stdin=True, timeout=0)["execution_id"]
    started(daemon, made)

    def states():  # the child may not be `sleep` yet
        found = {pid: status_of(pid).get("Name") for pid in inside(daemon, "here-2")}
        return sorted(status_of(pid)["State"][0] for pid, name in found.items() if name in ("sh", "sleep"))
    serve.polled(states, lambda all: all == ["S", "T"], "one is stopped and the other one reads")
    pause(daemon, session)
    assert states() == ["T", "T"]
    resume(daemon, session)
    serve.polled(states, lambda all: all == ["S", "T"], "what was stopped is not continued")
    daemon.asked("POST", f"/v1/sessions/{session}/processes/{made}/stdin", b"\n", 200)
    assert daemon.wait(made)["exit_code"] == 0 and daemon.output(made).body.endswith(b"over\n")


def test_calls_are_refused_and_name_the_way_out(daemon, session):
    cat = daemon.background(session, "cat", stdin=True, timeout=0)["execution_id"]
    daemon.write(session, "/workspace/a", content=b"a")
    daemon.post(f"/v1/sessions/{session}/code", {"code": "1"})
    pause(daemon, session)
    for method, path, body in (("POST", "exec", {"argv": ["true"]}), ("POST", "code", {"code": "1"}),
                               ("PUT", "files?path=/workspace/b", b"x"), ("GET", "files?path=/workspace/a", None),
                               ("GET", "files/list?path=/workspace", None), ("POST", "files/mkdir", {"path": "/tmp/x"}),
                               ("POST", f"processes/{cat}/signal", {"signal": "TERM"}),
                               ("POST", f"processes/{cat}/stdin", b"x"), ("POST", "contexts/c1/restart", None),
                               ("POST", "contexts/c1/interrupt", None), ("DELETE", "contexts/c1", None),
                               ("POST", "pause", None)):
        error = daemon.refused(method, f"/v1/sessions/{session}/{path}", 409, "session_paused", body)
        assert "resume" in error["message"] and session in error["message"], error
    reply = daemon.post("/v1/tools/sandbox_exec", {"command": ["true"]}, session=session)
    assert (reply["success"], reply["code"]) == (False, "session_paused"), reply
    done = daemon.bailey("exec", "-s", session, "--", "true")
    assert done.status == 125 and f"bailey session resume {session}" in done.stderr, done
    done = daemon.bailey("session", "resume", session)
    assert done.status == 0 and "is ready" in done.stderr, done
    assert daemon.read(session, "/workspace/a") == b"a"
    assert resume(daemon, session)["state"] == "ready", "one that is not paused stays as it is"
    daemon.post(f"/v1/sessions/{session}/processes/{cat}/signal", {"signal": "KILL"})


def test_the_tool_pauses_and_resumes_over_rest_and_mcp(daemon, session):
    daemon.post(f"/v1/sessions/{session}/code", {"code": "x = 1"})
    made = daemon.post("/v1/tools/sandbox_pause", {}, session=session)
    assert (made["success"], made["paused"]) == (True, True) and "resume" in made["hint"], made
    again = daemon.post("/v1/tools/sandbox_pause", {}, session=session)
    assert (again["success"], again["code"]) == (False, "session_paused"), again
    made = daemon.post("/v1/tools/sandbox_pause", {"resume": True}, session=session)
    assert (made["success"], made["paused"]) == (True, False), made
    nobody = daemon.post("/v1/tools/sandbox_pause", {"session": "never-made"})
    assert nobody["code"] == "session_not_found", "no session is made for it"
    unnamed = daemon.post("/v1/tools/sandbox_pause", {})
    assert unnamed["code"] == "bad_input" and "session" in unnamed["error"], unnamed
    modern, legacy = mcp_http.Modern(daemon, is_local=True), mcp_http.Legacy(daemon, is_local=True)
    assert "paused" in mcp_http.text_of(modern.call("sandbox_pause", {"session": session}))
    refused = modern.call("run_code", {"code": "x", "session": session})
    assert refused["isError"] and "sandbox_pause" in mcp_http.text_of(refused), refused
    assert "resumed" in mcp_http.text_of(modern.call("sandbox_pause", {"session": session, "resume": True}))
    assert "1" in mcp_http.text_of(modern.call("run_code", {"code": "x", "session": session}))
    legacy.call("run_code", {"code": "y = 2"})  # the conversation's own session
    assert "paused" in mcp_http.text_of(legacy.call("sandbox_pause", {}))
    assert "paused" in [one["state"] for one in daemon.get("/v1/sessions")["sessions"]]
    assert "resumed" in mcp_http.text_of(legacy.call("sandbox_pause", {"resume": True}))
    assert "2" in mcp_http.text_of(legacy.call("run_code", {"code": "y"}))
    legacy.ask("DELETE", None, legacy.headers)


def test_streams_and_waiting_calls_end_and_the_command_goes_on(daemon, session):
    made = started(daemon, daemon.background(session, "sh", "-c", "echo here; read line; echo $line", stdin=True,
                                             timeout=0)["execution_id"])
    with daemon.events(f"/v1/sessions/{session}/processes/{made}/events") as events:
        events.until("stdout")
        pause(daemon, session)
        kinds = [event.type for event in events]
    assert kinds[-1] == "closed" and "exit" not in kinds, kinds
    with daemon.events(f"/v1/sessions/{session}/processes/{made}/events") as events:
        kinds = [event.type for event in events]
    assert kinds == ["started", "stdout", "closed"], "what there is so far is told again"
    resume(daemon, session)
    daemon.asked("POST", f"/v1/sessions/{session}/processes/{made}/stdin", b"after\n", 200)
    assert daemon.wait(made)["exit_code"] == 0 and daemon.output(made).body == b"here\nafter\n"


def test_a_call_that_waits_is_told_which_command_goes_on(daemon, session):
    with daemon.events(f"/v1/sessions/{session}/events") as events:
        connection = daemon.connect()
        connection.request("POST", f"/v1/sessions/{session}/exec", '{"argv": ["sleep", "1000"], "timeout": 0}',
                           {"Content-Type": "application/json"})
        events.until("exec.started")
        pause(daemon, session)
        reply = connection.getresponse()
        error = serve.Reply(reply.status, reply.headers, reply.read()).error
        connection.close()
        assert (reply.status, error["code"]) == (409, "session_paused"), error
        events.until("session.paused")
    resume(daemon, session)
    path = f"/v1/sessions/{session}/processes/{error['execution_id']}"
    assert daemon.get(path)["state"] == "running", "the client that left did not end it"
    daemon.post(path + "/signal", {"signal": "KILL"})


def test_deadlines_stand_still(daemon, session):
    """A command with 4 s, paused for 5 s, has not timed out; another session's sleep is the clock."""
    other = daemon.session()["id"]
    daemon.exec(other, "true")
    made = daemon.background(session, "sh", "-c", "until [ -e go ]; do sleep 0.01; done", timeout=4)["execution_id"]
    pause(daemon, session)
    daemon.exec(other, "sleep", "5", timeout=60)
    resume(daemon, session)
    daemon.write(session, "/workspace/go")
    ended = daemon.wait(made)
    assert (ended["exit_code"], ended["timed_out"]) == (0, False), ended
    daemon.end(other)


def test_a_session_without_a_box_and_one_that_ends(daemon):
    made = daemon.session(name="boxless")["id"]
    pause(daemon, made)
    done = daemon.bailey("session", "ls")
    assert [line for line in done.stdout.splitlines() if "boxless" in line and "paused" in line], done
    assert resume(daemon, made)["state"] == "new"
    assert daemon.exec(made, "true")["exit_code"] == 0
    done = daemon.bailey("session", "pause", "boxless", "--json")
    assert done.status == 0 and done.json()["state"] == "paused", done
    daemon.end(made)
    daemon.refused("POST", f"/v1/sessions/{made}/resume", 410, "session_ended")


def test_limits_of_their_own():
    with serve.Daemon({"SANDBOX_MAX_SESSIONS": "1", "SANDBOX_MAX_PAUSED_SESSIONS": "1",
                       "SANDBOX_PAUSED_TIME": "1h"}) as daemon:
        first = daemon.session()["id"]
        daemon.exec(first, "true")
        pause(daemon, first)
        second = daemon.session()["id"]  # a paused one is not live
        error = daemon.refused("POST", f"/v1/sessions/{second}/pause", 429, "too_many_sessions")
        assert "SANDBOX_MAX_PAUSED_SESSIONS" in error["message"]
        error = daemon.refused("POST", f"/v1/sessions/{first}/resume", 429, "too_many_sessions")
        assert "SANDBOX_MAX_SESSIONS" in error["message"]
        text = daemon.call("GET", "/metrics").body.decode()
        assert 'bailey_paused_sessions{tenant="local"} 1' in text and 'bailey_sessions{tenant="local"} 1' in text, text
        daemon.end(second)
        resume(daemon, first)
        assert daemon.exec(first, "true")["exit_code"] == 0


def test_a_paused_session_ends_at_its_limit_or_at_its_age():
    with serve.Daemon({"SANDBOX_PAUSED_TIME": "1s"}) as daemon, daemon.events("/v1/events") as events:
        made = daemon.session()["id"]
        daemon.exec(made, "true")
        pause(daemon, made)
        assert events.until("session.ended").data["reason"] == "paused"
    with serve.Daemon() as daemon, daemon.events("/v1/events") as events:
        made = daemon.session(max_age_s=3)["id"]
        pause(daemon, made)
        assert events.until("session.ended").data["reason"] == "age", "its age does not stand still"


def test_a_paused_session_survives_its_broker():
    with serve.Daemon() as daemon:
        session = daemon.session()["id"]
        daemon.post(f"/v1/sessions/{session}/code", {"code": "x = 41"})
        made = started(daemon, daemon.background(session, "python3", "-c", COUNTER + " # here-3", timeout=300)["execution_id"])
        pause(daemon, session)
        written = daemon.get(f"/v1/sessions/{session}/processes/{made}")["stdout_bytes"]
        info = daemon.get("/v1/info")
        os.kill(info["broker_pid"], signal.SIGKILL)

        def is_new():
            try:
                return daemon.get("/v1/info")["generation"] > info["generation"]
            except (OSError, AssertionError):
                return False
        support.wait_until(is_new, "another broker serves", 30)
        assert daemon.get(f"/v1/sessions/{session}")["state"] == "paused"
        assert set(inside(daemon, "here-3").values()) == {"T"}
        daemon.refused("POST", f"/v1/sessions/{session}/exec", 409, "session_paused", {"argv": ["true"]})
        resume(daemon, session)
        path = f"/v1/sessions/{session}/processes/{made}"
        serve.polled(lambda: daemon.get(path), lambda p: p["stdout_bytes"] > written, "it goes on")
        kept = daemon.post(f"/v1/sessions/{session}/code", {"code": "x + 1"})
        assert kept["results"][0]["data"]["text/plain"] == "42", kept
        daemon.post(path + "/signal", {"signal": "KILL"})
