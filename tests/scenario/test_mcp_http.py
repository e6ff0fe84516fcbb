"""MCP over HTTP at /mcp: both eras over TCP with a key and over the unix socket without one; whose a
conversation is, what leaving and coming back mean, and how everything that is wrong is refused."""
import base64
import json
import socket

import pytest
from mcp_http import BOTH, LEGACY, META, VERSION, Door, Legacy, Modern, Served, answer_of, \
    session_of, text_of

WAITS = "echo step one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo released"
TOOLS = ["sandbox_exec", "sandbox_write_file", "sandbox_edit_file", "sandbox_wait",
         "run_python_code", "run_code"]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def server():
    with Served() as served:
        yield served


@pytest.fixture(params=["tcp", "socket"])
def way(request):
    """How the door is reached."""
    return {"is_local": request.param == "socket"}


def shell(command, **more):
    return {"command": ["sh", "-c", command], **more}


def code_of(reply):
    """The code of the JSON-RPC error that a refusal is."""
    body = reply.json()
    assert body["jsonrpc"] == "2.0" and body["error"]["message"], reply
    return body["error"]["code"]


# --- 2026-07-28


def test_modern_requests(server, way):
    modern = Modern(server, **way)
    told = modern.request("server/discover")["result"]
    assert told["resultType"] == "complete" and told["supportedVersions"] == [VERSION]
    listed = modern.request("tools/list")["result"]
    assert [t["name"] for t in listed["tools"]] == TOOLS
    assert "a new one" in listed["tools"][0]["inputSchema"]["properties"]["session"]["description"]
    assert "42" in text_of(modern.call("run_python_code", {"code": "print(6 * 7)"}))


def test_a_modern_call_without_a_session_makes_one_and_names_it(server, way):
    modern = Modern(server, **way)
    first = modern.call("sandbox_exec", shell("echo one > /tmp/f; cat /tmp/f"))
    second = modern.call("sandbox_exec", shell("cat /tmp/f"))
    assert "one" in text_of(first) and "exit code 1" in text_of(second)
    assert session_of(first) != session_of(second)
    third = modern.call("sandbox_exec", shell("cat /tmp/f", session=session_of(first)))
    assert "one" in text_of(third) and session_of(third) == session_of(first)


def test_modern_files(server, way):
    modern = Modern(server, **way)
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(64)).decode()
    made = modern.call("sandbox_exec", shell(
        f"mkdir -p /tmp/output/sub; echo {png} | base64 -d > /tmp/output/p.png; "
        "echo a,b > /tmp/output/sub/t.csv; echo noise"))
    kinds = [b["type"] for b in made["content"]]
    assert kinds == ["text", "image", "resource_link", "resource_link"], made
    base = f"sandbox://{session_of(made)}/"
    for uri, text in ((base + "sub/t.csv", "a,b\n"), (base + ".log/1/stdout", "noise\n")):
        read = modern.request("resources/read", {"uri": uri})["result"]["contents"][0]
        assert read["text"] == text, read
    folder = modern.request("resources/read", {"uri": base + "tmp/output"})["result"]["contents"][0]
    assert folder["mimeType"] == "inode/directory" and "p.png" in folder["text"]
    missing = modern.request("resources/read", {"uri": base + "not.there"})
    assert missing["error"]["code"] == -32602 and missing["error"]["data"]["uri"].endswith("there")
    assert modern.request("resources/list")["result"]["resources"] == []


def test_progress_makes_a_stream(server, way):
    modern = Modern(server, **way)
    made = modern.call("sandbox_exec", shell("true"))
    where = session_of(made)
    with modern.stream("tools/call", {"name": "sandbox_exec",
                                      "arguments": shell(WAITS, session=where)},
                       number="long", meta={"progressToken": "t"}) as events:
        told = events.next()
        assert told.id is None
        assert told.data["method"] == "notifications/progress"
        assert told.data["params"]["progressToken"] == "t"
        assert "step one" in told.data["params"]["message"]
        modern.call("sandbox_exec", shell("touch /tmp/go", session=where))
        *_, last = events
        assert last.data["id"] == "long" and "released" in text_of(last.data["result"])


def test_who_leaves_a_modern_call_ends_it(server, way):
    modern = Modern(server, **way)
    where = session_of(modern.call("sandbox_exec", shell("true")))
    body, headers = modern.message("tools/call", {
        "name": "sandbox_exec",
        "arguments": shell("echo $$ > /tmp/pid.new; mv /tmp/pid.new /tmp/pid; sleep 1000",
                           session=where)})
    connection = modern.connect()
    connection.request("POST", "/mcp", json.dumps(body), {**modern.auth, **headers})
    modern.call("sandbox_exec", shell("while [ ! -e /tmp/pid ]; do sleep 0.02; done",
                                      session=where))
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    gone = modern.call("sandbox_exec", shell(
        "pid=$(cat /tmp/pid); while [ -e /proc/$pid ] && ! grep -q State:.*Z /proc/$pid/status; "
        "do sleep 0.02; done; echo gone", session=where))
    assert "gone" in text_of(gone)


# header, value instead of the right one (None: left out), code; in the order of the checks
@pytest.mark.parametrize("header,value,code", [
    ("MCP-Protocol-Version", None, -32020),
    ("MCP-Protocol-Version", "2025-06-18", -32020),
    ("MCP-Protocol-Version", "2031-01-01", -32020),
    ("Mcp-Method", None, -32020),
    ("Mcp-Method", "Tools/call", -32020),
    ("Mcp-Name", None, -32020),
    ("Mcp-Name", "sandbox_wait", -32020),
    ("Mcp-Name", "=?base64?!!?=", -32020),
])
def test_headers_repeat_the_body(server, header, value, code):
    modern = Modern(server)
    body, headers = modern.message("tools/call", {"name": "sandbox_exec", "arguments": {}})
    headers = {k: v for k, v in headers.items() if k != header}
    reply = modern.ask("POST", body, headers if value is None else {**headers, header: value})
    assert (reply.status, code_of(reply)) == (400, code), reply
    assert reply.json()["id"] == 1


def test_a_name_may_be_base64(server):
    modern = Modern(server)
    body, headers = modern.message("tools/call", {"name": "run_python_code",
                                                  "arguments": {"code": "print(1)"}})
    headers["Mcp-Name"] = f"=?base64?{base64.b64encode(b'run_python_code').decode()}?="
    assert modern.ask("POST", body, headers).status == 200


def test_modern_refusals(server):
    modern = Modern(server)
    body, headers = modern.message("tools/list")
    other = {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    reply = modern.ask("POST", {**body, "params": {"_meta": other}},
                       {**headers, "MCP-Protocol-Version": "2031-01-01"})
    assert (reply.status, code_of(reply)) == (400, -32022)
    assert reply.json()["error"]["data"] == {"supported": [VERSION], "requested": "2031-01-01"}
    reply = modern.ask("POST", {**body, "params": {}}, headers)
    assert (reply.status, code_of(reply)) == (400, -32602)
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "x"):
        body, headers = modern.message(method)
        reply = modern.ask("POST", body, headers)
        assert (reply.status, code_of(reply)) == (404, -32601), method
    assert modern.request("tools/call", {"name": "nothing"})["error"]["code"] == -32602
    assert modern.call("sandbox_write_file", {"file_path": "/etc/x", "content": ""})["isError"]
    reply = modern.ask("POST", {"jsonrpc": "2.0", "method": "notifications/x"}, headers)
    assert (reply.status, reply.body) == (202, b"")
    for method in ("GET", "DELETE"):
        reply = modern.ask(method)
        assert reply.status == 405 and "POST" in reply.headers["Allow"], reply


# --- 2025-11-25 and before


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", LEGACY])
def test_a_conversation_has_a_session_of_its_own(server, way, version):
    legacy = Legacy(server, version, **way)
    assert legacy.said["protocolVersion"] == version
    legacy.tell("notifications/initialized")
    assert legacy.request("ping")["result"] == {}
    first = legacy.call("sandbox_exec", shell("mkdir -p /tmp/output; echo 1 > /tmp/output/f.txt"))
    second = legacy.call("sandbox_exec", shell("cat /tmp/output/f.txt"))
    assert session_of(first) == session_of(second)
    listed = legacy.request("resources/list")["result"]["resources"]
    assert [r["name"] for r in listed] == ["f.txt"]
    assert legacy.ask("DELETE", headers=legacy.headers).status == 204
    assert legacy.ask("POST", PING, legacy.headers).status == 404
    found = server.get(f"/v1/sessions/{session_of(first)}")
    assert found["state"] in ("ending", "ended")


def test_the_version_may_be_left_out_and_must_be_known(server):
    legacy = Legacy(server)
    bare = {k: v for k, v in legacy.headers.items() if k != "MCP-Protocol-Version"}
    assert legacy.ask("POST", PING, bare).status == 200
    assert legacy.ask("POST", PING, {**bare, "MCP-Protocol-Version": "2001-01-01"}).status == 400
    assert legacy.ask("GET", None, {**bare, "MCP-Protocol-Version": "2001-01-01"}).status == 400


def test_nobody_else_has_the_conversation(server):
    legacy = Legacy(server)
    others = [Door(server, key=server.new_key()), Door(server, is_local=True),
              Door(server, key=server.new_key("--tenant", "other"))]
    never = legacy.ask("POST", PING, {**legacy.headers, "Mcp-Session-Id": "mcp_" + "0" * 32})
    for other in others:
        for method, body in (("POST", PING), ("GET", None), ("DELETE", None)):
            reply = other.ask(method, body, legacy.headers)
            assert reply.status == 404, (method, reply)
            if method == "POST":
                assert reply.body == never.body
    assert legacy.request("ping")["result"] == {}


def test_another_tenants_files_are_not_there(server):
    legacy = Legacy(server)
    where = session_of(legacy.call("sandbox_exec", shell("mkdir -p /tmp/output; "
                                                         "echo secret > /tmp/output/f")))
    other = Modern(server, key=server.new_key("--tenant", "stranger"))
    uri = f"sandbox://{where}/f"
    read = other.request("resources/read", {"uri": uri})
    never = other.request("resources/read", {"uri": uri.replace(where, "s_" + "0" * 32)})
    assert read["error"]["code"] == never["error"]["code"] == -32602
    assert read["error"]["message"].replace(where, "X") == \
        never["error"]["message"].replace("s_" + "0" * 32, "X")
    called = other.call("sandbox_exec", shell("cat /tmp/output/f", session=where))
    assert called["isError"] and "secret" not in str(called)
    waited = other.call("sandbox_wait", {"execution_id": f"{where}.1"})
    assert waited["isError"] and "secret" not in str(waited)


def test_leaving_is_no_cancellation_and_the_rest_is_asked_for(server, way):
    legacy = Legacy(server, **way)
    legacy.call("sandbox_exec", shell("true"))
    params = {"name": "sandbox_exec", "arguments": shell(WAITS), "_meta": {"progressToken": 7}}
    with legacy.stream("tools/call", params, number=5) as events:
        primed = events.next()
        assert primed.id and primed.data is None
        told = events.next()
        assert told.data["method"] == "notifications/progress"
    legacy.call("sandbox_exec", shell("touch /tmp/go"), number=6)
    with legacy.resume(told.id) as events:
        *between, last = events
    assert all(e.data["method"] == "notifications/progress" for e in between)
    assert last.data["id"] == 5 and "released" in text_of(last.data["result"])
    # once more from the beginning: the same events, none twice
    with legacy.resume(primed.id) as events:
        again = list(events)
    assert [e.id for e in again] == [told.id, *[e.id for e in between], last.id]
    assert legacy.ask("GET", None, {**legacy.headers, "Last-Event-ID": "77-1"}).status == 400


def test_a_notification_cancels(server, way):
    legacy = Legacy(server, **way)
    legacy.call("sandbox_exec", shell("true"))
    command = shell("echo $$ > /tmp/pid.new; mv /tmp/pid.new /tmp/pid; sleep 1000")
    with legacy.stream("tools/call", {"name": "sandbox_exec", "arguments": command}, number=5) as ev:
        legacy.call("sandbox_exec", shell("while [ ! -e /tmp/pid ]; do sleep 0.02; done"))
        legacy.tell("notifications/cancelled", {"requestId": 5, "reason": "enough"})
        assert not [e for e in ev if e.data]  # no answer, but an end
    gone = legacy.call("sandbox_exec", shell(
        "pid=$(cat /tmp/pid); while [ -e /proc/$pid ] && ! grep -q State:.*Z /proc/$pid/status; "
        "do sleep 0.02; done; echo gone"))
    assert "gone" in text_of(gone)


def test_a_listener_hears_the_end(server):
    legacy = Legacy(server)
    connection, reply = legacy.open("GET", None, {**legacy.headers, "Accept": "text/event-stream"})
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("text/event-stream")
    assert legacy.ask("DELETE", headers=legacy.headers).status == 204
    assert reply.read().replace(b":\n\n", b"") == b""
    connection.close()


# --- what is wrong


@pytest.mark.parametrize("body,headers,status,code", [
    ("{", {}, 400, -32700),
    ("", {}, 400, -32700),
    ("[" * 100, {}, 400, -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', {}, 400, -32700),
    ([PING], {}, 400, -32600),
    ("7", {}, 400, -32600),
    (PING, {}, 400, -32600),
    (PING, {"Content-Type": "text/plain"}, 415, -32600),
    (PING, {"Accept": "text/html"}, 406, -32600),
    (PING, {"Mcp-Session-Id": "nobody"}, 404, -32600),
])
def test_refusals(server, body, headers, status, code):
    reply = Door(server).ask("POST", body, headers)
    assert (reply.status, code_of(reply)) == (status, code), reply


def test_who_may_not(server):
    door = Door(server, key="bly_" + "0" * 16 + "." + "0" * 43)
    reply = door.ask("POST", PING)
    assert reply.status == 401 and reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert code_of(reply) == -32600
    door.auth = {}
    reply = door.ask("POST", PING)
    assert reply.status == 401 and "Authorization" in reply.json()["error"]["message"]
    low = Door(server, key=server.new_key("--scopes", "metrics"))
    reply = low.ask("POST", PING)
    assert reply.status == 403 and "run" in reply.json()["error"]["message"]


def test_a_foreign_page_is_refused(server):
    door = Modern(server)
    body, headers = door.message("tools/list")
    assert door.ask("POST", body, {**headers, "Origin": "https://evil.example.com"}).status == 403
    assert door.ask("POST", body, {**headers, "Host": "evil.example.com"}).status == 403
    assert door.ask("POST", body, {**headers, "Origin": f"http://127.0.0.1:{server.port}"}
                    ).status == 200


def test_what_no_handler_sees_is_refused_in_the_same_shape(server):
    door = Door(server)
    reply = door.ask("PUT", PING)
    assert (reply.status, code_of(reply)) == (405, -32600)
    assert "POST" in reply.headers["Allow"]
    connection = door.connect()
    connection.putrequest("POST", "/mcp")
    for name, value in {**BOTH, **door.auth, "Content-Length": str(41 << 20)}.items():
        connection.putheader(name, value)
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    reply = connection.getresponse()
    assert (reply.status, json.loads(reply.read())["error"]["code"]) == (413, -32600)
    connection.close()


def test_clients_that_know_less(server):
    """No Accept, or anything: JSON, also where progress was asked for."""
    modern = Modern(server)
    body, headers = modern.message("tools/call", {
        "name": "sandbox_exec", "arguments": {"command": ["echo", "plain"]}})
    for accept in ("*/*", "application/json", "application/*;q=0.5"):
        reply = modern.ask("POST", body, {**headers, "Accept": accept})
        assert reply.headers["Content-Type"].startswith("application/json")
        assert "plain" in text_of(answer_of(reply)[0]["result"])
    reply = modern.ask("POST", body, {**headers, "Accept": "text/event-stream"})
    assert reply.headers["Content-Type"].startswith("text/event-stream")
    assert "plain" in text_of(answer_of(reply)[0]["result"])


def test_fixtures_are_not_there(server):
    names = [t["name"] for t in Modern(server).request("tools/list")["result"]["tools"]]
    assert not [n for n in names if n.startswith("test_")]
