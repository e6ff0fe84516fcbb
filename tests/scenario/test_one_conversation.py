"""One sandbox for one conversation: the session of calls that name none, by the command line, REST and MCP;
sessions that one call made; and what a model is told when its session has ended."""
import json

import pytest

import daemon_fixture
import mcp_http
import serve
import support
import tenants
from mcp_http import session_of, text_of

ENDED = ("ended", "ending")


def shell(command):
    return {"command": ["sh", "-c", command]}


def wait_ended(server, session):
    """Until it has ended by itself, with all its resources gone."""
    support.wait_until(lambda: server.get(f"/v1/sessions/{session}")["state"] == "ended", "it has ended")


# --- the command line

@pytest.fixture
def own():
    made = daemon_fixture.DaemonFixture()
    yield made
    made.close()


def test_bailey_tool_goes_on_in_the_session_default(own):
    first = own.call("tool", "run_code", json.dumps({"code": "x = 41"}))
    assert first.status == 0 and "made the session 'default' (s_" in first.stderr, first
    session = first.json()["meta"]["session_id"]
    second = own.call("tool", "run_code", json.dumps({"code": "print(x + 1)"}))
    assert second.json()["stdout"] == "42\n" and second.stderr == "", second
    wrote = own.call("tool", "sandbox_write_file", json.dumps({"file_path": "/tmp/a", "content": "here"}))
    assert wrote.json()["session_id"] == session and wrote.stderr == "", wrote
    read = own.json("tool", "sandbox_exec", json.dumps({"tool": "sandbox_exec",
                                                        "parameters": {"command": ["cat", "/tmp/a"]}}))
    assert (read["stdout"], read["session_id"]) == ("here", session)
    names = [one["name"] for one in own.json("session", "ls", "--json")["sessions"]]
    assert names == ["default"]


def test_a_session_that_is_named_is_the_one(own):
    own.ok("tool", "sandbox_exec", "-s", "a", json.dumps(shell("true")))
    own.ok("tool", "sandbox_exec", json.dumps({**shell("true"), "session": "b"}))
    begun = own.json("tool", "sandbox_exec", "-s", "a", json.dumps({**shell("echo waited"), "background": True}))
    waited = own.json("tool", "sandbox_wait", json.dumps({"execution_id": begun["execution_id"]}))
    assert waited["stdout"] == "waited\n", waited
    assert {one["name"] for one in own.json("session", "ls", "--json")["sessions"]} == {"a", "b"}


def test_a_default_that_ended_is_made_again_and_said(own):
    own.ok("tool", "sandbox_exec", json.dumps(shell("true")))
    own.ok("session", "rm", "default")
    again = own.call("tool", "sandbox_exec", json.dumps(shell("true")))
    assert "made the session 'default'" in again.stderr, again
    assert "it was deleted" in again.json()["session_note"], again


# --- pinned over HTTP

@pytest.fixture(scope="module")
def server():
    with mcp_http.Served() as running:
        yield running


@pytest.fixture(autouse=True)
def ended(leaks, request):
    """Sessions that stay on purpose end here."""
    yield
    if "server" in request.fixturenames:
        running = request.getfixturevalue("server")
        for session in running.get("/v1/sessions")["sessions"]:
            running.end(session["id"])


class ByQuery:
    path = "/mcp?session=pinned"


class ByHeader:
    def ask(self, method, body=None, headers=None):
        return super().ask(method, body, {"Bailey-Session": "pinned", **(headers or {})})


@pytest.mark.parametrize("pin", [ByQuery, ByHeader])
@pytest.mark.parametrize("era", [mcp_http.Modern, mcp_http.Legacy])
def test_connections_with_one_pin_are_one_conversation(server, pin, era):
    """As LangChain's adapter works: it opens a connection for each call."""
    client = type("Client", (pin, era), {})
    client(server).call("sandbox_write_file", {"file_path": "/tmp/a", "content": "kept"})
    client(server).call("run_code", {"code": "x = 41"})
    assert "kept" in text_of(client(server).call("sandbox_exec", shell("cat /tmp/a")))
    last = client(server).call("run_code", {"code": "print(x + 1)"})
    assert "42" in text_of(last)
    [only] = server.get("/v1/sessions")["sessions"]
    assert only["name"] == "pinned"
    # A call may still name another.
    client(server).call("sandbox_exec", {**shell("true"), "session": "another"})
    assert {one["name"] for one in server.get("/v1/sessions")["sessions"]} == {"pinned", "another"}


@pytest.mark.parametrize("era", [mcp_http.Modern, mcp_http.Legacy])
def test_the_end_of_a_conversation_leaves_a_pinned_session(server, era):
    client = type("Client", (ByQuery, era), {})(server)
    client.call("sandbox_exec", shell("true"))
    if era is mcp_http.Legacy:
        assert client.ask("DELETE", None, client.headers).status in (200, 204)
    assert [one["name"] for one in server.get("/v1/sessions")["sessions"]] == ["pinned"]


@pytest.mark.parametrize("path, headers", [("/mcp?session=", {}), ("/mcp?session=" + "n" * 200, {}),
                                           ("/mcp?session=a", {"Bailey-Session": "b"})])
def test_a_pin_that_cannot_be_is_refused(server, path, headers):
    client = mcp_http.Modern(server)
    client.path = path
    body, own_headers = client.message("tools/list")
    reply = client.ask("POST", body, {**own_headers, **headers})
    assert reply.status == 400 and "session" in reply.json()["error"]["message"], reply


def test_a_pinned_id_is_never_replaced(server):
    made = server.session()["id"]
    client = mcp_http.Modern(server, is_local=True)
    client.path = f"/mcp?session={made}"
    assert session_of(client.call("sandbox_exec", shell("true"))) == made
    server.end(made)
    result = client.call("sandbox_exec", shell("true"))
    assert result["isError"] and "ended" in text_of(result), result
    assert server.get("/v1/sessions")["sessions"] == []


def test_rest_takes_the_header_too():
    with tenants.Server() as running:
        one, other = running.caller("one"), running.caller("other")
        pinned = {"Bailey-Session": "mine"}

        def call(caller, headers=pinned, path="/v1/tools/sandbox_exec"):
            return caller.call("POST", path, shell("echo -n x >> /tmp/a; cat /tmp/a"), headers=headers).json()

        assert [call(one)["stdout"], call(one)["stdout"]] == ["x", "xx"]
        assert call(other)["stdout"] == "x", "a name is one for each key's tenant"
        assert call(one, {"Bailey-Session": "else"})["stdout"] == "x"
        reply = one.call("POST", "/v1/tools/sandbox_exec?session=else", shell("true"), headers=pinned)
        assert reply.status == 400 and "different sessions" in reply.error["message"], reply


# --- sessions that one call made

def alone(server):
    return server.post("/v1/tools/sandbox_exec", shell("true"))["session_id"]


def test_a_session_of_one_call_goes_first():
    with serve.Daemon({"SANDBOX_MAX_SESSIONS": "3"}) as running:
        kept = running.session(name="kept")["id"]
        first = alone(running)
        assert running.get(f"/v1/sessions/{first}")["idle_timeout_s"] == 60
        used = alone(running)
        # Whoever works on in one has a session like any other.
        running.post("/v1/tools/sandbox_exec", {**shell("true"), "session": used})
        assert running.get(f"/v1/sessions/{used}")["idle_timeout_s"] > 60
        third = alone(running)
        wait_ended(running, first)
        assert running.get(f"/v1/sessions/{first}")["end_reason"] == "room_needed"
        named = running.session(name="named")["id"]
        wait_ended(running, third)
        assert {one["id"] for one in running.get("/v1/sessions")["sessions"]} == {kept, used, named}
        reply = running.post("/v1/tools/sandbox_exec", shell("true"))
        assert reply["code"] == "too_many_sessions", reply


def test_one_that_works_stays():
    with serve.Daemon({"SANDBOX_MAX_SESSIONS": "1"}) as running:
        begun = running.post("/v1/tools/sandbox_exec", {**shell("sleep 1000"), "background": True})
        reply = running.post("/v1/tools/sandbox_exec", shell("true"))
        assert reply["code"] == "too_many_sessions", reply
        assert running.get(f"/v1/sessions/{begun['session_id']}")["running"] == 1


def test_the_quota_of_a_tenant_too():
    with tenants.Server({"SANDBOX_QUOTA_SESSIONS": "1"}) as running:
        one, other = running.caller("one"), running.caller("other")
        theirs = alone(other)
        first, second = alone(one), alone(one)
        wait_ended(running, first)
        assert {entry["id"] for entry in running.get("/v1/sessions")["sessions"]} == {theirs, second}


# --- the session has ended meanwhile

@pytest.mark.parametrize("how", ["legacy", "named"])
def test_the_model_is_told_what_is_gone(how):
    with mcp_http.Served() as running:
        client = (mcp_http.Legacy if how == "legacy" else mcp_http.Modern)(running)
        if how == "named":
            client.path = "/mcp?session=mine"
        client.call("sandbox_exec", shell("echo kept > /tmp/a"))
        [before] = running.get("/v1/sessions")["sessions"]
        running.end(before["id"])
        result = client.call("sandbox_exec", shell("cat /tmp/a"))
        text = text_of(result)
        assert "the earlier session has ended (it was deleted)" in text, text
        assert "files, variables, environment, installed packages and running commands are gone" in text, text
        assert "No such file" in text, "the call itself was done, in the new one"
        assert "has ended" not in text_of(client.call("sandbox_exec", shell("true"))), "said once"


def test_a_named_session_gets_its_datasets_and_template_again():
    with serve.Daemon({"SANDBOX_WARM": "false"}) as running:
        running.post("/v1/templates", {"name": "own", "packages": [], "warm_up": [], "env": {"FROM": "own"}})
        made = running.session(name="mine", template="own", idle_timeout_s=1, env={"K": "v"}, datasets=[
            {"name": "a", "content": "x\n7\n"}, {"name": "b", "content": "y\n8\n"}])
        wait_ended(running, made["id"])
        assert running.get(f"/v1/sessions/{made['id']}")["end_reason"] == "idle"
        again = running.post("/v1/tools/sandbox_exec",
                             shell("cat /tmp/data/a.csv /tmp/data/b.csv; echo $FROM $K"), session="mine")
        assert again["stdout"] == "x\n7\ny\n8\nown\n", again  # values of variables are forgotten with their session
        assert again["session_id"] != made["id"]
        note = again["session_note"]
        assert "it was idle too long" in note and "template 'own'" in note and "environment" in note, note
        assert "the same datasets: /tmp/data/a.csv, /tmp/data/b.csv" in note, note
        shown = running.get("/v1/sessions/mine")
        assert [one["name"] for one in shown["datasets"]] == ["a", "b"] and shown["template"] == "own"
        # Deleted by somebody: then they are gone too.
        running.end("mine")
        last = running.post("/v1/tools/sandbox_exec", shell("ls /tmp/data"), session="mine")
        assert last["stdout"] == "" and "datasets" not in last["session_note"], last
        assert list((running.state / "data").glob(again["session_id"])) == []


def test_a_successor_has_what_its_caller_sets():
    """And what the session before it had for all else: unless that was deleted, which is how a person begins anew."""
    with serve.Daemon({"SANDBOX_WARM": "false"}) as running:
        def call(**settings):
            done = running.bailey("tool", "-s", "mine", "sandbox_exec", json.dumps(shell("true")), env=settings)
            assert done.status == 0, done
            return done.json()

        def shown(*keys):
            return [running.get("/v1/sessions/mine")["settings"][f"SANDBOX_{key}"] for key in keys]

        wait_ended(running, running.session(name="mine", limits={"memory": "256m", "pids": 99}, idle_timeout_s=1)["id"])
        second = call(SANDBOX_MEMORY_LIMIT="128m", SANDBOX_SESSION_IDLE="1s")
        assert shown("MEMORY_LIMIT", "SESSION_IDLE", "PIDS_LIMIT") == ["128m", "1s", "99"], second
        wait_ended(running, second["session_id"])
        refused = call(SANDBOX_TEMPLATE="nosuch")
        assert refused["success"] is False and "there is no template 'nosuch'" in refused["error"], refused
        assert running.get("/v1/sessions")["sessions"] == [], "none was made without it"
        call(SANDBOX_TYPE="local", SANDBOX_SESSION_IDLE="10m")
        assert shown("PIDS_LIMIT", "SESSION_IDLE") == ["99", "10m"]
        running.end("mine")
        call()
        assert shown("MEMORY_LIMIT", "PIDS_LIMIT", "SESSION_IDLE") == ["1g", "256", "15m"]


def test_datasets_that_wait_give_way():
    """They count for the tenant's disk, and go when it needs the room."""
    with tenants.Server({"SANDBOX_QUOTA_DISK": "64k"}) as running:
        one = running.caller("one")
        waiting = one.session(name="old", idle_timeout_s=1, datasets=[{"name": "a", "content": "x" * 40000}])
        wait_ended(running, waiting["id"])
        assert len(list((running.state / "data").glob(waiting["id"]))) == 1
        one.session(name="new", datasets=[{"name": "b", "content": "y" * 40000}])
        assert list((running.state / "data").glob(waiting["id"])) == []
        reply = one.post("/v1/tools/sandbox_exec", shell("ls /tmp/data"), session="old")
        assert reply["stdout"] == "" and "datasets" not in reply["session_note"], reply
