"""A session's life: how it begins, what it is called, what makes it end, and what is said then."""
import re

import pytest

import install
import serve
import support

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
MEMBERS = {"id", "name", "state", "created_at", "last_used_at", "expires_at", "idle_timeout_s",
           "ended_at", "end_reason", "env", "datasets", "running", "executions", "output_folder",
           "limits", "isolation"}


def ended(daemon, session):
    """Waits on the bus for the end of a session; the event's data."""
    with daemon.events("/v1/events", last=0) as events:
        return events.until("session.ended", lambda data: data["session_id"] == session).data


def test_a_session_shows_all_that_is_promised(daemon, session):
    new = daemon.get(f"/v1/sessions/{session}")
    assert MEMBERS <= set(new), MEMBERS - set(new)
    assert (new["state"], new["isolation"], new["executions"]) == ("new", None, 0)
    assert new["idle_timeout_s"] == 900 and new["ended_at"] is None and new["end_reason"] is None
    for member in ("created_at", "last_used_at", "expires_at"):
        assert TIME.match(new[member]), new
    assert daemon.exec(session, "true")["exit_code"] == 0
    used = daemon.get(f"/v1/sessions/{session}")
    assert (used["state"], used["executions"], used["running"]) == ("ready", 1, 0)
    assert set(used["isolation"]) == {"level", "layers", "missing"}
    assert session in [s["id"] for s in daemon.get("/v1/sessions")["sessions"]]


def test_a_session_is_found_by_name_and_shortened_id(daemon):
    made = daemon.session(name="analysis-1")
    try:
        for key in ("analysis-1", made["id"], made["id"][:12]):
            assert daemon.get(f"/v1/sessions/{key}")["id"] == made["id"]
        done = daemon.bailey("session", "show", made["id"][:12], "--json")
        assert done.status == 0 and done.json()["name"] == "analysis-1", done
    finally:
        daemon.end("analysis-1")


def test_a_shortened_id_that_fits_several_is_ambiguous():
    """Four digits are enough; so many sessions are made until two begin with the same four."""
    with serve.Daemon({"SANDBOX_MAX_SESSIONS": "3000"}) as daemon:
        starts = set()
        for _ in range(3000):
            made = daemon.session()["id"]
            assert daemon.get(f"/v1/sessions/{made[:8]}")["id"] == made
            if made[:6] in starts:
                break
            starts.add(made[:6])
        error = daemon.refused("GET", f"/v1/sessions/{made[:6]}", 409, "session_ambiguous")
        assert made[:6] in error["message"]
        done = daemon.bailey("session", "show", made[:6])
        assert done.status == 125 and done.out == b"" and done.stderr, done
        assert daemon.get(f"/v1/sessions/{made}")["id"] == made
        daemon.refused("GET", f"/v1/sessions/{made[:5]}", 404, "session_not_found")


def test_a_name_is_one_sessions(daemon):
    first = daemon.session(name="taken")
    error = daemon.refused("POST", "/v1/sessions", 409, "name_taken", {"name": "taken"})
    assert "taken" in error["message"]
    daemon.end("taken")
    second = daemon.session(name="taken")  # free again
    assert second["id"] != first["id"]
    assert daemon.get("/v1/sessions/taken")["id"] == second["id"]
    daemon.end("taken")


def test_a_tool_makes_the_session_it_names(daemon):
    reply = daemon.post("/v1/tools/sandbox_exec", {"command": ["echo", "x"]}, session="by-use")
    assert reply["stdout"] == "x\n" and "session_note" not in reply
    assert daemon.get("/v1/sessions/by-use")["id"] == reply["session_id"]
    daemon.end("by-use")
    again = daemon.post("/v1/tools/sandbox_exec", {"command": ["true"]}, session="by-use")
    assert again["session_id"] != reply["session_id"] and again["session_note"], again
    daemon.end("by-use")


def test_an_ended_session_tells_why_and_when(daemon, session):
    daemon.exec(session, "true")
    gone = daemon.asked("DELETE", f"/v1/sessions/{session}").json()
    assert (gone["state"], gone["end_reason"]) == ("ended", "deleted") and TIME.match(gone["ended_at"])
    for method, path, body in (("POST", "exec", {"argv": ["true"]}), ("POST", "extend", {"seconds": 9}),
                               ("PUT", "files?path=/tmp/x", b"x"), ("DELETE", "", None),
                               ("GET", "files?path=/tmp/x", None), ("PUT", "datasets/d", b"x"),
                               ("POST", "files/mkdir", {"path": "/tmp/x"})):
        error = daemon.refused(method, f"/v1/sessions/{session}/{path}".rstrip("/"), 410,
                               "session_ended", body)
        assert error["reason"] == "deleted" and error["ended_at"] == gone["ended_at"], error
        assert "deleted" in error["message"]
    assert daemon.get(f"/v1/sessions/{session}")["end_reason"] == "deleted"
    everybody = daemon.get("/v1/sessions", all="true")["sessions"]
    assert session in [s["id"] for s in everybody]
    assert session not in [s["id"] for s in daemon.get("/v1/sessions")["sessions"]]
    reply = daemon.post("/v1/tools/sandbox_exec", {"command": ["true"]}, session=session)
    assert (reply["success"], reply["code"]) == (False, "session_ended"), reply
    done = daemon.bailey("exec", "-s", session, "--", "true")
    assert done.status == 125 and "deleted" in done.stderr, done


def test_the_environment_of_a_session_and_of_a_command(daemon):
    made = daemon.session(env={"A": "of the session", "B": "\u20ac=1 2", "C": ""})["id"]
    assert daemon.get(f"/v1/sessions/{made}")["env"] == {"A": "of the session", "B": "\u20ac=1 2",
                                                         "C": ""}
    show = ("import os; print(os.environ['A'], os.environ['B'], repr(os.environ.get('C')), "
            "os.environ.get('D'))")
    assert daemon.python(made, show)["stdout"] == "of the session \u20ac=1 2 '' None\n"
    own = daemon.python(made, show, env={"A": "own", "D": "d"})
    assert own["stdout"] == "own \u20ac=1 2 '' d\n"
    assert daemon.python(made, show)["stdout"].startswith("of the session")
    daemon.end(made)


def test_the_command_line_makes_one_with_everything(daemon):
    daemon.room.write("t.csv", "x\n7\n")
    done = daemon.bailey("session", "new", "--name", "cli", "--data", "t=t.csv", "--env", "K=V w",
                         "--json")
    assert done.status == 0, done
    made = done.json()
    assert made["name"] == "cli" and made["env"] == {"K": "V w"}
    done = daemon.bailey("exec", "-s", "cli", "--", "sh", "-c", 'cat /tmp/data/t.csv; echo "$K"; exit 3')
    assert (done.status, done.out) == (3, b"x\n7\nV w\n"), done
    listed = daemon.bailey("session", "ls", "--json").json()
    rows = listed["sessions"] if isinstance(listed, dict) else listed
    assert made["id"] in [s["id"] for s in rows]
    assert daemon.bailey("session", "extend", "cli", "100").status in (0, 125)
    assert daemon.bailey("session", "rm", "cli").status == 0
    assert daemon.bailey("session", "rm", "cli").status == 125


def test_two_sessions_never_see_each_other(daemon):
    one, two = (daemon.session()["id"] for _ in range(2))
    daemon.exec(one, "sh", "-c", "echo secret > /tmp/secret; echo secret > /dev/shm/secret")
    background = daemon.background(one, "sleep", "1000")
    seen = daemon.exec(two, "sh", "-c", "ls -A /tmp /workspace /dev/shm /home/user; "
                       "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "secret" not in seen["stdout"] and "sleep 1000" not in seen["stdout"], seen
    daemon.refused("GET", f"/v1/sessions/{two}/processes/{background['execution_id']}", 404,
                   "execution_not_found")
    daemon.refused("POST", f"/v1/sessions/{two}/processes/{background['execution_id']}/signal", 404,
                   "execution_not_found", {"signal": "KILL"})
    for each in (one, two):
        daemon.end(each)


# --- limits of its life --------------------------------------------------------------------------


def test_an_idle_session_ends(daemon):
    made = daemon.session(idle_timeout_s=1)["id"]
    daemon.exec(made, "true")
    data = ended(daemon, made)
    assert data["reason"] == "idle", data
    error = daemon.refused("POST", f"/v1/sessions/{made}/exec", 410, "session_ended",
                           {"argv": ["true"]})
    assert error["reason"] == "idle" and TIME.match(error["ended_at"])
    assert daemon.get(f"/v1/sessions/{made}")["end_reason"] == "idle"


def test_a_session_that_works_is_not_idle(daemon):
    made = daemon.session(idle_timeout_s=1)["id"]
    result = daemon.exec(made, "sleep", "2.5")
    assert result["exit_code"] == 0, result
    assert ended(daemon, made)["reason"] == "idle"


def test_a_session_ends_at_its_age(daemon):
    made = daemon.session(max_age_s=2)["id"]
    result = daemon.exec(made, "sh", "-c", "echo begun; exec sleep 1000", timeout=0)
    assert result["stdout"] == "begun\n" and result["exit_code"] != 0, result
    assert ended(daemon, made)["reason"] == "age"
    assert daemon.get(f"/v1/sessions/{made}")["end_reason"] == "age"


def test_extending_lets_it_live_longer(daemon):
    made = daemon.session(max_age_s=3, idle_timeout_s=600)
    longer = daemon.post(f"/v1/sessions/{made['id']}/extend", {"seconds": 600})
    assert longer["expires_at"] > made["expires_at"], (made, longer)
    other = daemon.session(max_age_s=3)["id"]  # younger: it has ended only after the first would
    assert ended(daemon, other)["reason"] == "age"
    assert daemon.exec(made["id"], "echo", "alive")["stdout"] == "alive\n"
    daemon.end(made["id"])


def test_the_configuration_sets_the_times():
    env = {"SANDBOX_SESSION_IDLE": "2s", "SANDBOX_SESSION_MAX_AGE": "4s"}
    with serve.Daemon(env) as daemon:
        one, two = daemon.session(), daemon.session(idle_timeout_s=60)
        assert (one["idle_timeout_s"], two["idle_timeout_s"]) == (2, 60)
        assert ended(daemon, one["id"])["reason"] == "idle"
        assert ended(daemon, two["id"])["reason"] == "age"


def test_there_are_only_so_many_sessions():
    with serve.Daemon({"SANDBOX_MAX_SESSIONS": "2"}) as daemon:
        assert daemon.get("/v1/info")["max_sessions"] == 2
        first, _ = daemon.session(idle_timeout_s=100)["id"], daemon.session(idle_timeout_s=500)
        error = daemon.refused("POST", "/v1/sessions", 429, "too_many_sessions", {"name": "third"})
        assert 0 < error["retry_after_s"] <= 100, error  # when the first may be idle
        assert "2" in error["message"]
        reply = daemon.call("POST", "/v1/sessions", {})
        assert int(reply.headers["Retry-After"]) > 0
        done = daemon.bailey("session", "new")
        assert done.status == 125 and done.stderr, done
        tool = daemon.post("/v1/tools/sandbox_exec", {"command": ["true"]}, session="fourth")
        assert (tool["success"], tool["code"]) == (False, "too_many_sessions"), tool
        daemon.end(first)
        daemon.session(name="third")


def test_a_restart_of_the_daemon_ends_sessions_and_says_so():
    room = support.Room()
    with serve.Daemon({"SANDBOX_STOP_GRACE": "1s"}, room=room) as daemon:
        made = daemon.session(name="before")["id"]
        daemon.exec(made, "sh", "-c", "mkdir -p /tmp/output; echo kept > /tmp/output/kept.txt")
        daemon.background(made, "sleep", "1000", timeout=0)
    with serve.Daemon(room=room) as daemon:
        found = daemon.get(f"/v1/sessions/{made}")
        assert (found["state"], found["end_reason"]) == ("ended", "engine_stopped"), found
        error = daemon.refused("POST", f"/v1/sessions/{made}/exec", 410, "session_ended",
                               {"argv": ["true"]})
        assert error["reason"] == "engine_stopped" and TIME.match(error["ended_at"])
        kept = daemon.asked("GET", f"/v1/sessions/{made}/outputs/kept.txt")
        assert kept.body == b"kept\n"
        new = daemon.session(name="before")  # the name is free
        assert new["id"] != made
    room.remove()


def test_work_gets_a_grace_time_when_the_daemon_stops():
    """What ends by itself in that time is collected; the daemon does not wait longer than needed."""
    code = ("import signal, sys, os, time\nos.makedirs('/tmp/output', exist_ok=True)\n"
            "def last(*_):\n    open('/tmp/output/last.txt', 'w').write('saved')\n    sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, last)\nprint('ready', flush=True)\ntime.sleep(1000)")
    with serve.Daemon({"SANDBOX_STOP_GRACE": "50s"}) as daemon:
        made = daemon.session()
        with daemon.events(f"/v1/sessions/{made['id']}/exec", method="POST",
                           body={"argv": ["python3", "-c", code], "timeout": 0}) as stream:
            stream.until("stdout")
            daemon.bailey("daemon", "stop", "--force")
            result = stream.until("exit").data
        assert (result["exit_code"], result["meta"]["total_output_files"]) == (0, 1), result
        daemon.process.wait(30)
        assert (support.Path(made["output_folder"]) / "last.txt").read_text() == "saved"
        assert daemon.said() == ""


def test_work_that_does_not_end_in_its_grace_time_is_killed():
    room = support.Room()
    with serve.Daemon({"SANDBOX_STOP_GRACE": "500ms"}, room=room) as daemon:
        made = daemon.session()["id"]
        with daemon.events(f"/v1/sessions/{made}/exec", method="POST", body={
                "argv": ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"],
                "timeout": 0}) as stream:
            stream.until("stdout")
            daemon.stop()
        assert daemon.said() == ""
    with serve.Daemon(room=room) as daemon:
        assert daemon.get(f"/v1/sessions/{made}")["end_reason"] == "engine_stopped"
    room.remove()


@pytest.mark.parametrize("how", ["ordinary"])
def test_an_ordinary_user_has_the_same(how):
    user = support.ORDINARY_UID if support.is_root() else None
    with serve.Daemon(user=user) as daemon:
        made = daemon.session(datasets=[{"name": "d", "content": "x\n"}])["id"]
        result = daemon.exec(made, "sh", "-c", "mkdir -p /tmp/output && cp /tmp/data/d.csv /tmp/output/")
        assert result["exit_code"] == 0 and result["meta"]["total_output_files"] == 1, result
        assert daemon.asked("GET", f"/v1/sessions/{made}/outputs/d.csv").body == b"x\n"


def test_a_session_over_its_quota_ends_and_its_outputs_stay():
    with serve.Daemon({"SANDBOX_SESSION_QUOTA": "1m"}) as daemon:
        session = daemon.session()["id"]
        daemon.exec(session, "sh", "-c", "head -c 900000 /dev/zero > /tmp/output/a.txt")
        result = daemon.exec(session, "sh", "-c", "head -c 900000 /dev/zero > /tmp/output/b.txt")
        assert result["exit_code"] == 0 and result["meta"]["total_output_files"] == 2, result
        ended = serve.polled(lambda: daemon.get(f"/v1/sessions/{session}"),
                             lambda found: found["state"] == "ended", "it ends")
        assert ended["end_reason"] == "over_quota", ended
        refused = daemon.refused("POST", f"/v1/sessions/{session}/exec", 410, "session_ended",
                                 {"argv": ["true"]})
        assert "over_quota" in str(refused), refused
        for name in ("a.txt", "b.txt"):
            kept = daemon.asked("GET", f"/v1/sessions/{session}/outputs/{name}").body
            assert kept == bytes(900000)


# --- its environment is forgotten


def files_with(daemon, text):
    """Files of the state folder that contain the text."""
    return sorted(path.name for path in daemon.state.rglob("*")
                  if path.is_file() and text.encode() in path.read_bytes())


def test_nothing_of_the_environment_stays_after_the_end():
    """Neither in a row, nor in a freed page, nor in the log of SQLite."""
    with serve.Daemon() as daemon:
        made = [daemon.session(env={"API_TOKEN": f"secret-of-{number}-" + "x" * 300})["id"]
                for number in range(20)]
        assert daemon.exec(made[0], "true")["exit_code"] == 0
        assert files_with(daemon, "secret-of-"), "while it lives a successor needs it"
        for session in made[:-1]:
            daemon.end(session)
        install.kill_broker(daemon)  # in the second in which it would have forgotten
        assert daemon.get(f"/v1/sessions/{made[0]}")["env"] == {}
        assert list(daemon.get(f"/v1/sessions/{made[-1]}")["env"]) == ["API_TOKEN"]
        for number in range(19):
            serve.polled(lambda text=f"secret-of-{number}-": files_with(daemon, text),
                         lambda found: not found, f"nothing has the secret of session {number}")
        daemon.end(made[-1])
        serve.polled(lambda: files_with(daemon, "secret-of-"), lambda found: not found,
                     "nothing has the secret of the last session")


def stored_bytes(daemon):
    """All that the index has on disk: its pages, free ones too, and its log."""
    return b"".join(path.read_bytes() for path in sorted(daemon.state.rglob("index.db*")) if path.is_file())


def test_values_of_its_environment_leave_the_index_with_it():
    """Not only its row: also pages that are free, and the log of the database."""
    with serve.Daemon() as daemon:
        value = "value-" + "3c9f1e7a" * 8
        made = daemon.session(env={"API_TOKEN": value})["id"]
        assert daemon.exec(made, "sh", "-c", 'test -n "$API_TOKEN"')["exit_code"] == 0
        assert value.encode() in stored_bytes(daemon), "a new broker would need it"
        daemon.end(made)
        serve.polled(lambda: stored_bytes(daemon), lambda stored: value.encode() not in stored,
                     "nothing of the environment is stored")
