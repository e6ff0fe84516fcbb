"""One tenant never sees or guesses another's session, file, output, event or count; its owner sees all."""
import json
import os
import signal

import pytest
import serve
import tenants


@pytest.fixture(scope="module")
def server():
    with tenants.Server() as running:
        yield running


@pytest.fixture(scope="module")
def two(server):
    """Two tenants; the first has a session with one of everything in it."""
    one, other = server.caller("one"), server.caller("other")
    made = one.session(name="work", datasets=[{"name": "table", "content": "a,b\n1,2\n"}])["id"]
    one.exec(made, "sh", "-c", "mkdir -p /tmp/output; echo secret >/tmp/output/report.txt; echo out")
    one.write(made, "/workspace/file.txt", b"secret")
    begun = one.background(made, "sh", "-c", "echo runs; exec sleep 1000")["execution_id"]
    serve.polled(lambda: one.asked("GET", f"/v1/sessions/{made}/processes/{begun}/output").body,
                 lambda written: b"runs" in written, "the command runs")
    yield one, other, made
    server.end(made)


# Every address with a session in it, with something that is there for its owner.
PLACES = [
    ("GET", "/v1/sessions/{id}", None),
    ("POST", "/v1/sessions/{id}/extend", {"seconds": 1}),
    ("DELETE", "/v1/sessions/{id}", None),
    ("POST", "/v1/sessions/{id}/pause", None),
    ("POST", "/v1/sessions/{id}/resume", None),
    ("GET", "/v1/sessions/{id}/ports", None),
    ("POST", "/v1/sessions/{id}/ports", {"port": 3000}),
    ("POST", "/v1/sessions/{id}/exec", {"argv": ["true"]}),
    ("GET", "/v1/sessions/{id}/processes", None),
    ("GET", "/v1/sessions/{id}/processes/1", None),
    ("GET", "/v1/sessions/{id}/processes/1/output", None),
    ("GET", "/v1/sessions/{id}/processes/1/events", None),
    ("POST", "/v1/sessions/{id}/processes/2/signal", {"signal": "KILL"}),
    ("POST", "/v1/sessions/{id}/processes/2/stdin", b"x"),
    ("POST", "/v1/sessions/{id}/processes/2/resize", {"rows": 10, "columns": 20}),
    ("GET", "/v1/sessions/{id}/files?path=/workspace/file.txt", None),
    ("PUT", "/v1/sessions/{id}/files?path=/workspace/file.txt", b"changed"),
    ("DELETE", "/v1/sessions/{id}/files?path=/workspace/file.txt", None),
    ("GET", "/v1/sessions/{id}/files/stat?path=/workspace/file.txt", None),
    ("GET", "/v1/sessions/{id}/files/list?path=/workspace", None),
    ("GET", "/v1/sessions/{id}/files/watch?path=/workspace", None),
    ("POST", "/v1/sessions/{id}/files/mkdir", {"path": "/workspace/folder"}),
    ("POST", "/v1/sessions/{id}/files/move", {"from": "/workspace/file.txt", "to": "/tmp/x"}),
    ("POST", "/v1/sessions/{id}/files/chmod", {"path": "/workspace/file.txt", "mode": "600"}),
    ("GET", "/v1/sessions/{id}/datasets", None),
    ("PUT", "/v1/sessions/{id}/datasets/other", b"a\n"),
    ("GET", "/v1/sessions/{id}/outputs", None),
    ("GET", "/v1/sessions/{id}/outputs/report.txt", None),
    ("GET", "/v1/sessions/{id}/events", None),
    ("GET", "/v1/sessions/{id}/ws", None),
    ("GET", "/v1/sessions/{id}/pty/ws", None),
    ("GET", "/v1/sessions/{id}/packages", None),
    ("POST", "/v1/sessions/{id}/packages", {"packages": ["six"]}),
    ("POST", "/v1/sessions/{id}/code", {"code": "1"}),
    ("POST", "/v1/sessions/{id}/codebox", {"code": "1"}),
    ("GET", "/v1/sessions/{id}/contexts", None),
    ("POST", "/v1/sessions/{id}/contexts", {}),
    ("POST", "/v1/sessions/{id}/contexts/c1/restart", None),
    ("POST", "/v1/sessions/{id}/contexts/c1/interrupt", None),
    ("DELETE", "/v1/sessions/{id}/contexts/c1", None),
]


@pytest.mark.parametrize("method, place, body", PLACES)
def test_not_there(two, method, place, body):
    """The same status and words as for one that never was, by id, beginning of an id, and name."""
    one, other, made = two
    never = "s_" + "0" * (len(made) - 2)
    for word, none in ((made, never), (made[:12], never[:12]), ("work", "wark")):
        got = other.call(method, place.format(id=word), body)
        nothing = other.call(method, place.format(id=none), body)
        assert got.status == nothing.status == 404, got
        assert got.error["code"] == "session_not_found"
        assert got.body.replace(word.encode(), b"X") == nothing.body.replace(none.encode(), b"X")
        assert sorted(got.headers) == sorted(nothing.headers)
    assert one.read(made, "/workspace/file.txt") == b"secret"


def test_every_address_with_a_session_is_in_the_list(server):
    """A row that is added later has to be tried here too."""
    document = json.loads(server.bailey("openapi").stdout)
    tried = {(method, place.split("?")[0].replace("/processes/1", "/processes/{execution}")
              .replace("/processes/2", "/processes/{execution}").replace("report.txt", "{name}")
              .replace("/other", "/{name}").replace("/c1", "/{context}"))
             for method, place, _ in PLACES}
    rows = {(method.upper(), path) for path, methods in document["paths"].items()
            for method in methods if "/sessions/{id}" in path}
    assert rows <= tried, rows - tried


def test_lists_and_counts(server, two):
    one, other, made = two
    assert [row["id"] for row in one.get("/v1/sessions")["sessions"]] == [made]
    assert other.get("/v1/sessions") == {"sessions": []}
    assert other.get("/v1/sessions", all="true") == {"sessions": []}
    assert one.get("/v1/info")["sessions"] == 1
    mine = other.get("/v1/info")
    assert mine["sessions"] == 0
    # Of the machine a tenant knows nothing either.
    assert not mine["socket"] and not mine["state"]
    assert mine["launcher_pid"] == mine["broker_pid"] == 0
    assert server.get("/v1/info")["sessions"] >= 1


def test_names_are_a_tenants_own(server, two):
    one, other, made = two
    one.refused("POST", "/v1/sessions", 409, "name_taken", {"name": "work"})
    mine = other.session(name="work")["id"]
    assert mine != made
    assert other.get("/v1/sessions/work")["id"] == mine
    assert one.get("/v1/sessions/work")["id"] == made
    other.end(mine)


def test_events(server, two):
    """Neither while they happen nor afterwards; and ids do not count what others do."""
    one, other, made = two
    with other.events("/v1/events") as theirs, server.events("/v1/events") as all_of_them:
        noise = [one.session()["id"] for _ in range(5)]
        for session in noise:
            one.end(session)
        mine = other.session()["id"]
        other.end(mine)
        theirs.until("session.ended")
        all_of_them.until("session.ended", lambda data: data["session_id"] == mine)
    assert {event.data["session_id"] for event in theirs.seen} == {mine}
    assert {made for made in noise} <= {event.data["session_id"] for event in all_of_them.seen}
    first = theirs.seen[0].id
    with other.events("/v1/events", last=1) as again:
        again.until("session.ended", lambda data: data["session_id"] == mine)
    # From the very beginning: what came before this test was its own too.
    known = {event.data["session_id"] for event in again.seen}
    assert mine in known and not known & {made, *noise}
    assert first in [event.id for event in again.seen]


def test_ended_sessions(server, two):
    one, other, _ = two
    made = one.session(name="short")["id"]
    one.end(made)
    one.refused("POST", f"/v1/sessions/{made}/exec", 410, "session_ended", {"argv": ["true"]})
    other.refused("POST", f"/v1/sessions/{made}/exec", 404, "session_not_found", {"argv": ["true"]})
    assert one.get(f"/v1/sessions/{made}/processes") == {"processes": []}
    other.refused("GET", f"/v1/sessions/{made}/processes", 404, "session_not_found")
    other.refused("GET", f"/v1/sessions/{made}", 404, "session_not_found")


def test_tools(two):
    one, other, made = two
    for word in (made, made[:12]):
        reply = other.post("/v1/tools/sandbox_exec", {"command": ["cat", "/workspace/file.txt"],
                                                      "session": word})
        assert reply["code"] == "session_not_found", reply
        assert "secret" not in json.dumps(reply)
    reply = other.post("/v1/tools/sandbox_wait", {"execution_id": f"{made}.1"})
    assert reply["code"] == "session_not_found", reply
    # A name is the tenant's own: another's of that name is not used, a new one is made.
    reply = other.post("/v1/tools/sandbox_exec", {"command": ["ls", "/workspace"],
                                                  "session": "work"})
    assert reply["session_id"] != made and "file.txt" not in reply["stdout"], reply
    other.end(reply["session_id"])


def test_runs(server, two):
    """A one-shot run is ended by its tenant only."""
    one, other, _ = two
    body = {"code": "print('up', flush=True)\nwhile True: pass"}
    with one.events("/v1/run", body, method="POST") as events:
        events.until("stdout")
        name = events.reply.headers["Bailey-Execution"]
        theirs = other.call("DELETE", f"/v1/run/{name}")
        nothing = other.call("DELETE", "/v1/run/" + name[:-1] + ("0" if name[-1] != "0" else "1"))
        assert theirs.status == nothing.status == 404
        assert theirs.error["code"] == nothing.error["code"] == "execution_not_found"
        assert one.call("DELETE", f"/v1/run/{name}").status == 202
        events.until("exit")


def test_the_owner_sees_all(server, two):
    one, other, made = two
    rows = {row["id"]: row for row in server.get("/v1/sessions")["sessions"]}
    assert rows[made]["tenant"] == "one"
    assert server.exec(made, "cat", "/workspace/file.txt")["stdout"] == "secret"
    listed = server.bailey("ps").stdout
    assert "TENANT" in listed and " one " in listed, listed
    own = server.session(name="the-owners")["id"]
    lines = server.bailey("session", "ls").stdout.splitlines()
    assert lines[0].split()[:3] == ["ID", "NAME", "TENANT"], lines
    assert any("the-owners  local " in line for line in lines) and any(" one " in line for line in lines), lines
    server.end(own)
    shown = server.bailey("ps", "--json").json()["processes"]
    assert any(row["tenant"] == "one" and row["session_id"] == made for row in shown)


def test_the_owners_own_is_not_a_tenants(server, two):
    one, _, _ = two
    own = server.session(name="mine")["id"]
    one.refused("GET", f"/v1/sessions/{own}", 404, "session_not_found")
    one.refused("GET", "/v1/sessions/mine", 404, "session_not_found")
    server.end(own)


def test_no_folder_of_the_host_is_told(server):
    """Neither where outputs are kept, nor where the state is: addresses instead."""
    one = server.caller("paths")
    picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    code = ("import base64, os; os.makedirs('/tmp/output', exist_ok=True); "
            f"open('/tmp/output/dot.png', 'wb').write(base64.b64decode('{picture}')); "
            "open('/tmp/output/text.txt', 'w').write('x')")
    said = []
    with one.events("/v1/events") as events:
        made = one.session()
        place = f"/v1/sessions/{made['id']}"
        said += [made, one.python(made["id"], code), one.get(f"{place}/outputs"), one.get(place),
                 one.get("/v1/sessions"), one.post(f"{place}/code", {"code": code}),
                 one.post("/v1/tools/sandbox_exec", {"command": ["python3", "-c", code + " * 2"],
                                                     "session": made["id"]}),
                 one.post("/v1/run", {"code": "1/0"}), one.get("/v1/info"),
                 one.get("/v1/templates"), one.get("/v1/tools"), one.get(f"{place}/packages")]
        said.append(events.until("visualization").data)
    told = json.dumps(said)
    assert str(server.state) not in told and str(server.runtime) not in told, said
    assert made["output_folder"] == f"{place}/outputs"
    saved = {row["name"]: row["path"] for row in said[2]["outputs"]}
    assert saved["text.txt"] == f"{place}/outputs/text.txt"
    assert one.asked("GET", saved["text.txt"]).body == b"x"
    one.end(made["id"])
    own = server.session()  # the owner knows the way
    assert own["output_folder"].startswith(str(server.state))
    server.end(own["id"])


def test_two_keys_of_a_tenant_share(server, two):
    one, _, made = two
    again = server.caller("one")
    assert again.get(f"/v1/sessions/{made}")["id"] == made


def test_after_another_broker():
    with tenants.Server() as server:
        one, other = server.caller("one"), server.caller("other")
        made = one.session()["id"]
        one.write(made, "/workspace/file.txt", b"secret")
        os.kill(server.get("/v1/info")["broker_pid"], signal.SIGKILL)

        def answers():
            try:
                return one.call("GET", f"/v1/sessions/{made}").status
            except OSError:
                return None
        assert serve.polled(answers, lambda status: status is not None, "a new broker") == 200
        assert one.get(f"/v1/sessions/{made}")["tenant"] == "one"
        other.refused("GET", f"/v1/sessions/{made}", 404, "session_not_found")
        assert other.get("/v1/sessions", all="true") == {"sessions": []}
        assert one.exec(made, "cat", "/workspace/file.txt")["stdout"] == "secret"
        one.end(made)


def test_audit_says_who(server, two):
    one, _, _ = two
    reply = one.post("/v1/tools/run_code", {"code": "print(1)", "language": "python"})
    assert reply, reply
    tool = [line for line in server.audit() if line["action"] == "tool"][-1]
    assert tool["tenant"] == "one" and tool["key"] == one.key["id"]
