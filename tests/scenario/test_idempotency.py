"""A POST that is sent again with its Idempotency-Key: the same reply, and nothing is done twice."""
import contextlib
import http.client
import json
import os
import signal
import sqlite3
import threading

import pytest

import serve
import support
import tenants
from support import wait_until


@pytest.fixture(scope="module")
def daemon():
    with serve.Daemon() as one:
        yield one


@pytest.fixture
def session(daemon):
    """One that is gone after the test."""
    made = daemon.session()["id"]
    yield made
    daemon.end(made)


def is_there(daemon, session, path):
    return daemon.call("GET", f"/v1/sessions/{session}/files", query={"path": path}).status == 200


def count(daemon, name):
    return [one["name"] for one in daemon.get("/v1/sessions")["sessions"]].count(name)


def ask(daemon, path, body, key, accept=None):
    headers = {"Idempotency-Key": key} if key is not None else {}
    if accept:
        headers["Accept"] = accept
    return daemon.call("POST", path, body, headers=headers)


def test_the_same_request_again_makes_no_second_session(daemon):
    first = ask(daemon, "/v1/sessions", {"name": "once"}, "make-once")
    again = ask(daemon, "/v1/sessions", {"name": "once"}, "make-once")
    assert first.status == again.status == 201, (first, again)
    assert again.body == first.body
    assert first.headers.get("Idempotent-Replayed") is None
    assert again.headers["Idempotent-Replayed"] == "true"
    assert count(daemon, "once") == 1
    daemon.end("once")


def test_a_command_runs_once(daemon, session):
    body = {"argv": ["sh", "-c", "echo x >> /workspace/log; wc -l < /workspace/log"]}
    said = [ask(daemon, f"/v1/sessions/{session}/exec", body, "exec-once").json()["stdout"]
            for _ in range(3)]
    assert said == ["1\n"] * 3
    assert ask(daemon, f"/v1/sessions/{session}/exec", body, "exec-again").json()["stdout"] == "2\n"


@pytest.mark.parametrize("path, body", [
    ("/v1/run", {"code": "print(2)"}), ("/v1/run", {"code": "print(1)", "timeout": 9}),
    ("/v1/sessions", {}), ("/v1/tools/run_python_code", {"code": "print(1)"})])
def test_another_request_with_the_key_is_refused(daemon, path, body):
    ask(daemon, "/v1/run", {"code": "print(1)"}, "one-request")
    reply = ask(daemon, path, body, "one-request")
    assert (reply.status, reply.error["code"]) == (422, "idempotency_key_reused"), reply


def test_a_large_body_is_compared_too(daemon):
    body = {"code": "print(1)", "stdin": "x" * 600_000}
    first = ask(daemon, "/v1/run", body, "large")
    assert ask(daemon, "/v1/run", body, "large").body == first.body
    body["stdin"] = body["stdin"][:-1] + "y"
    assert ask(daemon, "/v1/run", body, "large").status == 422


def test_one_under_way_is_409_and_its_reply_comes_later(daemon, session):
    body = {"argv": ["sh", "-c", "mkfifo /tmp/go; touch /tmp/there; cat /tmp/go; echo done"]}
    replies = []
    first = threading.Thread(target=lambda: replies.append(
        ask(daemon, f"/v1/sessions/{session}/exec", body, "slow")))
    first.start()
    wait_until(lambda: is_there(daemon, session, "/tmp/there"), "the command runs")
    reply = ask(daemon, f"/v1/sessions/{session}/exec", body, "slow")
    assert (reply.status, reply.error["code"]) == (409, "idempotency_key_running"), reply
    assert reply.headers["Retry-After"] == "1"
    daemon.exec(session, "sh", "-c", "echo now > /tmp/go")
    first.join()
    assert replies[0].json()["stdout"] == "now\ndone\n"
    assert ask(daemon, f"/v1/sessions/{session}/exec", body, "slow").body == replies[0].body


def test_a_request_that_failed_can_be_sent_again(daemon):
    path, body = "/v1/sessions/later/exec", {"argv": ["true"]}
    assert ask(daemon, path, body, "too-early").status == 404
    made = daemon.session(name="later")
    assert ask(daemon, path, body, "too-early").status == 200
    daemon.end(made["id"])


def test_a_wrong_body_does_not_use_the_key(daemon):
    assert ask(daemon, "/v1/run", {"cod": "print(1)"}, "mistyped").status == 400
    assert ask(daemon, "/v1/run", {"code": "print(1)"}, "mistyped").status == 200


def test_a_reply_of_events_is_not_kept_and_not_done_again(daemon, session):
    body = {"argv": ["sh", "-c", "echo x >> /workspace/log"]}
    path = f"/v1/sessions/{session}/exec"
    assert ask(daemon, path, body, "events", "text/event-stream").status == 200
    reply = ask(daemon, path, body, "events", "text/event-stream")
    assert (reply.status, reply.error["code"]) == (409, "idempotent_reply_gone"), reply
    assert daemon.exec(session, "cat", "/workspace/log")["stdout"] == "x\n"


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "\xe4"])
def test_a_key_that_cannot_be_one_is_named(daemon, key):
    reply = ask(daemon, "/v1/run", {"code": "print(1)"}, key)
    assert (reply.status, reply.error["code"]) == (400, "bad_input"), reply
    assert reply.error["field"] == "Idempotency-Key"


def test_with_its_session_the_reply_goes_and_its_environment_too(daemon):
    body = {"env": {"TOKEN": "sesame-4711"}}
    made = ask(daemon, "/v1/sessions", body, "secret")
    assert b"sesame-4711" in made.body and ask(daemon, "/v1/sessions", body, "secret").body == made.body
    daemon.end(made.json()["id"])

    def is_gone():
        again = ask(daemon, "/v1/sessions", body, "secret")
        return again.status == 409 and again.error["code"] == "idempotent_reply_gone"
    wait_until(is_gone, "the reply is gone")
    wait_until(lambda: not any(b"sesame-4711" in file.read_bytes()
                               for file in daemon.state.rglob("index.db*")), "nothing is on the disk")


def test_replies_survive_the_broker_and_lost_requests_are_named():
    with serve.Daemon() as daemon:
        made = ask(daemon, "/v1/sessions", {"name": "kept"}, "kept")
        session = made.json()["id"]
        body = {"argv": ["sh", "-c", "touch /tmp/there; sleep 600"]}

        def slow():
            with pytest.raises((OSError, http.client.HTTPException)):
                ask(daemon, f"/v1/sessions/{session}/exec", body, "lost")
        thread = threading.Thread(target=slow)
        thread.start()
        wait_until(lambda: is_there(daemon, session, "/tmp/there"), "the command runs")
        os.kill(daemon.get("/v1/info")["broker_pid"], signal.SIGKILL)
        thread.join()

        def answers():
            try:
                return daemon.call("GET", "/healthz").status == 200
            except OSError:
                return False
        wait_until(answers, "another broker answers")
        assert ask(daemon, "/v1/sessions", {"name": "kept"}, "kept").body == made.body
        reply = ask(daemon, f"/v1/sessions/{session}/exec", body, "lost")
        assert (reply.status, reply.error["code"]) == (409, "idempotent_reply_gone"), reply
        assert "the server stopped" in reply.error["message"]


def test_what_a_client_began_that_left_is_not_begun_again(daemon, session):
    path, body = f"/v1/sessions/{session}/exec", {"argv": ["sh", "-c", "echo x >> /workspace/log; sleep 600"]}
    connection = daemon.connect()
    connection.request("POST", path, json.dumps(body),
                       {"Idempotency-Key": "left", "Content-Type": "application/json"})
    wait_until(lambda: is_there(daemon, session, "/workspace/log"), "the command runs")
    connection.close()
    wait_until(lambda: ask(daemon, path, body, "left").error["code"] == "idempotent_reply_gone",
               "the client is missed")
    assert "left before its reply" in ask(daemon, path, body, "left").error["message"]
    assert daemon.read(session, "/workspace/log") == b"x\n"


def test_keys_belong_to_the_caller():
    with tenants.Server() as server:
        one, two = server.caller("one"), server.caller("two")
        body = {"code": "import uuid; print(uuid.uuid4())"}
        said = [ask(caller, "/v1/run", body, "same").json()["stdout"] for caller in (one, one, two)]
        assert said[0] == said[1] != said[2]


def test_what_is_kept_has_a_maximum_whatever_the_order_of_requests():
    """Two keys of one tenant and one of another: the other sends every sixteenth request."""
    size = 200_000
    room = support.Room()
    with tenants.Server({"SANDBOX_MAX_OUTPUT_KB": "220"}, room=room) as server:
        state = server.state
        callers = [server.caller("acme"), server.caller("acme"), server.caller("other")]
        sessions = [caller.session()["id"] for caller in callers]
        body = {"argv": ["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x"]}
        for number in range(16 * 8):
            which = 2 if number % 16 == 15 else number % 2
            reply = ask(callers[which], f"/v1/sessions/{sessions[which]}/exec", body, f"k{number}")
            assert reply.status == 200 and len(reply.body) > size
    with contextlib.closing(sqlite3.connect(next(state.rglob("index.db")))) as index:
        kept = dict(index.execute("SELECT substr(owner, 1, instr(owner, '/') - 1), sum(length(data)) FROM reply GROUP BY 1"))
    room.remove()
    assert kept["other"] > 7 * size, "its own are fewer"
    assert kept["acme"] < (16 << 20) + 16 * (256 << 10), "of all keys of a tenant, 16 MiB and what came since"
