"""MCP over HTTP at /mcp: both eras over TCP with a key and over the unix socket without one; whose a
conversation is, what leaving and coming back mean, and how everything that is wrong is refused."""
import base64
import json
import socket

import pytest
import serve
import wsclient
from mcp_http import BOTH, LEGACY, META, VERSION, Door, Legacy, Modern, Served, answer_of, \
    session_of, text_of

WAITS = "echo step one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo released"
TOOLS = ["sandbox_exec", "sandbox_write_file", "sandbox_edit_file", "sandbox_wait",
         "run_python_code", "run_code", "sandbox_pause", "sandbox_install"]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def server():
    with Served() as served:
        yield served


@pytest.fixture(autouse=True)
def ended(leaks, server):
    """What a call made stays for later calls that name it, until it was idle for long: here it ends."""
    yield
    for session in server.get("/v1/sessions")["sessions"]:
        server.end(session["id"])


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


def progress_with(events, text):
    """The first notice of progress that shows this line."""
    for event in events:
        assert event.data["method"] == "notifications/progress", event
        if text in event.data["params"]["message"]:
            return event
    raise AssertionError(f"no progress with '{text}': {events.seen}")


# --- 2026-07-28


def test_modern_requests(server, way):
    modern = Modern(server, **way)
    told = modern.request("server/discover")["result"]
    assert told["resultType"] == "complete" and told["supportedVersions"] == [VERSION]
    listed = modern.request("tools/list")["result"]
    assert [t["name"] for t in listed["tools"]] == TOOLS
    assert "a new one" in listed["tools"][0]["inputSchema"]["properties"]["session"]["description"]
    assert "42" in text_of(modern.call("run_python_code", {"code": "print(6 * 7)"}))
    body, headers = modern.message("tools/list")  # what belongs to the other era is not looked at
    reply = modern.ask("POST", body, {**headers, "Mcp-Session-Id": "nobody", "Last-Event-ID": "x"})
    assert reply.status == 200 and "Mcp-Session-Id" not in reply.headers


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
        told = progress_with(events, "step one")
        assert told.id is None
        assert told.data["params"]["progressToken"] == "t"
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


def test_who_leaves_takes_along_what_nobody_knows(server):
    """A session that only the answer would have named."""
    modern = Modern(server)
    body, headers = modern.message("tools/call", {
        "name": "sandbox_exec", "arguments": shell("sleep 1000")})
    connection = modern.connect()
    connection.request("POST", "/mcp", json.dumps(body), {**modern.auth, **headers})

    def count(wanted):
        return serve.polled(lambda: server.get("/v1/sessions")["sessions"],
                            lambda listed: len(listed) == wanted, f"{wanted} sessions")
    count(1)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    count(0)


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


def test_a_name_may_be_base64_and_blanks_do_not_count(server):
    modern = Modern(server)
    body, headers = modern.message("tools/call", {"name": "run_python_code",
                                                  "arguments": {"code": "print(1)"}})
    headers["Mcp-Name"] = f"=?base64?{base64.b64encode(b'run_python_code').decode()}?="
    assert modern.ask("POST", body, headers).status == 200
    blanks = {name: f" {value} \t" for name, value in headers.items() if name.startswith("M")}
    assert modern.ask("POST", body, {**headers, **blanks}).status == 200
    legacy = Legacy(server)
    assert legacy.ask("POST", PING, {**legacy.headers, "Mcp-Session-Id": f" {legacy.id} "}
                      ).status == 200


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
    for wrong in ({}, {"method": "notifications/x"}, {"jsonrpc": "2.0", "id": 1, "result": {}}):
        assert modern.ask("POST", wrong, headers).status == 400, wrong
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
    assert "1\n" in text_of(second)
    (made,) = [each["id"] for each in server.get("/v1/sessions")["sessions"]]
    assert made not in text_of(first).splitlines()[0] + text_of(second)  # the conversation has it
    listed = legacy.request("resources/list")["result"]["resources"]
    assert [r["name"] for r in listed] == ["f.txt"]
    assert legacy.ask("DELETE", headers=legacy.headers).status == 204
    assert legacy.ask("POST", PING, legacy.headers).status == 404
    found = server.get(f"/v1/sessions/{made}")
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
    legacy.call("sandbox_exec", shell("mkdir -p /tmp/output; echo secret > /tmp/output/f"))
    (where,) = [each["id"] for each in server.get("/v1/sessions")["sessions"]]
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
        told = progress_with(events, "step one")
    legacy.call("sandbox_exec", shell("touch /tmp/go"), number=6)
    with legacy.resume(told.id) as events:
        *between, last = events
    assert all(e.data["method"] == "notifications/progress" for e in between)
    assert last.data["id"] == 5 and "released" in text_of(last.data["result"])
    # once more from the beginning: the same events, none twice
    with legacy.resume(primed.id) as again:
        assert [e.data for e in again][-1] == last.data
    numbers = [int(e.id.partition("-")[2]) for e in again.seen]
    assert numbers == list(range(1, len(numbers) + 1)), again.seen
    assert [e.id for e in again.seen][-len(between) - 2:] == \
        [told.id, *[e.id for e in between], last.id]
    with legacy.resume(last.id) as nothing:
        assert list(nothing) == []


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


def test_what_is_not_kept_cannot_be_asked_for(server):
    """An id that never was, of nothing, of another conversation: none of it shows anything."""
    legacy, other = Legacy(server), Legacy(server)
    headers = {**BOTH, "Accept": "text/event-stream"}
    with legacy.stream_only("tools/call", {"name": "sandbox_exec",
                                           "arguments": shell("echo mine")}) as events:
        *_, last = events
    assert "mine" in text_of(last.data["result"])
    first = last.id.partition("-")[0] + "-0"
    for number in ("77-1", "1", "-", "x-y", "1-99999999999999999999", f"{first}9", "../1-1"):
        reply = legacy.ask("GET", None, {**legacy.headers, "Last-Event-ID": number})
        assert (reply.status, code_of(reply)) == (400, -32600), (number, reply)
    reply = other.ask("GET", None, {**other.headers, "Last-Event-ID": first})
    assert (reply.status, code_of(reply)) == (400, -32600)
    with legacy.resume(first) as events:
        assert [e.data for e in events] == [last.data]
    # and what may not be listened to at all
    for conversation, status in (({}, 405), ({"Mcp-Session-Id": "nobody"}, 404)):
        reply = legacy.ask("GET", None, {**headers, **conversation})
        assert (reply.status, code_of(reply)) == (status, -32600), reply
    reply = legacy.ask("GET", None, {**legacy.headers, "Accept": "application/json"})
    assert (reply.status, code_of(reply)) == (406, -32600)


def test_legacy_errors_are_answers(server):
    legacy = Legacy(server)
    assert legacy.request("server/nothing")["error"]["code"] == -32601
    assert legacy.request("tools/call", {"name": "nothing"})["error"]["code"] == -32602
    assert legacy.request("resources/read", {"uri": "sandbox://x/y"})["error"]["code"] == -32002
    assert legacy.request("ping", number="a\u00e9")["id"] == "a\u00e9"
    assert legacy.request("ping", number=(1 << 62) + 1)["id"] == (1 << 62) + 1
    for wrong in ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, {"id": 1, "method": "ping"},
                  {"jsonrpc": "2.0", "id": None, "method": "ping"},
                  {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
                  {"jsonrpc": "2.0", "id": 1, "method": 7}, {"jsonrpc": "2.0", "id": 1}, {}):
        reply = legacy.ask("POST", wrong, legacy.headers)
        assert (reply.status, code_of(reply)) == (400, -32600), (wrong, reply)
    twice = '{"jsonrpc":"2.0","id":1,"id":2,"method":"nothing","method":"ping"}'
    assert legacy.ask("POST", twice, legacy.headers).json() == {"jsonrpc": "2.0", "id": 2,
                                                                "result": {}}


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
    ('{"a":' * 65 + "1" + "}" * 65, {}, 400, -32700),
    ("[" * 2000000, {}, 400, -32700),
    ('{"jsonrpc":"2.0","id":1,"method":"ping"} x', {}, 400, -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', {}, 400, -32700),
    ([PING], {}, 400, -32600),
    ("7", {}, 400, -32600),
    (PING, {}, 400, -32600),
    (PING, {"Content-Type": "text/plain"}, 415, -32600),
    (PING, {"Content-Type": "application/jsonp"}, 415, -32600),
    (PING, {"Content-Type": "application/x-www-form-urlencoded"}, 415, -32600),
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


@pytest.mark.attack(67)
def test_a_foreign_page_is_refused(server):
    door = Modern(server)
    body, headers = door.message("tools/list")
    for name, value in (("Origin", "https://evil.example.com"), ("Origin", "null"),
                        ("Origin", f"http://evil.example.com:{server.port}"),
                        ("Origin", "http://127.0.0.1.evil.example.com"),
                        ("Host", "evil.example.com"), ("Host", f"evil.example.com:{server.port}"),
                        ("Host", "127.0.0.1.evil.example.com")):
        for method, sent in (("POST", body), ("GET", None), ("DELETE", None)):
            reply = door.ask(method, sent, {**headers, name: value})
            assert (reply.status, code_of(reply)) == (403, -32600), (method, name, value)
    for name, value in (("Origin", f"http://127.0.0.1:{server.port}"),
                        ("Host", f"localhost:{server.port}"), ("Host", "[::1]:7070")):
        assert door.ask("POST", body, {**headers, name: value}).status == 200, value


def test_a_conversation_is_behind_the_same_checks(server):
    legacy = Legacy(server)
    for method, sent in (("POST", PING), ("GET", None), ("DELETE", None)):
        reply = legacy.ask(method, sent, {**legacy.headers, "Origin": "https://evil.example.com"})
        assert (reply.status, code_of(reply)) == (403, -32600), method
        legacy.auth, kept = {}, legacy.auth
        reply = legacy.ask(method, sent, legacy.headers)
        assert (reply.status, code_of(reply)) == (401, -32600), method
        legacy.auth = kept
    assert legacy.request("ping")["result"] == {}
    assert legacy.ask("DELETE", headers=legacy.headers).status == 204
    for method, sent in (("POST", PING), ("GET", None), ("DELETE", None)):
        reply = legacy.ask(method, sent, legacy.headers)
        assert (reply.status, code_of(reply)) == (404, -32600), method


def test_what_no_handler_sees_is_refused_in_the_same_shape(server):
    door = Door(server)
    for method in ("PUT", "PATCH", "OPTIONS"):
        reply = door.ask(method, PING)
        assert (reply.status, code_of(reply)) == (405, -32600), method
        assert "POST" in reply.headers["Allow"]
    reply = door.ask("HEAD")
    assert (reply.status, reply.body) == (405, b"") and "POST" in reply.headers["Allow"]


def oversized(door, headers, pieces):
    """Sends the head of a POST, then pieces until the server has had enough."""
    connection = door.connect()
    connection.putrequest("POST", "/mcp")
    for name, value in {**BOTH, **door.auth, **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    try:
        for piece in pieces:
            connection.send(piece)
    except OSError:
        pass  # it has closed; what it said first is there to be read
    reply = connection.getresponse()
    try:
        return serve.Reply(reply.status, reply.headers, reply.read())
    finally:
        connection.close()


def test_a_body_has_a_largest_size(server):
    door, mib = Door(server), b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    for headers, pieces in (({"Content-Length": str(41 << 20), "Expect": "100-continue"}, []),
                            ({"Transfer-Encoding": "chunked"}, [*[mib] * 41, b"0\r\n\r\n"])):
        reply = oversized(door, headers, pieces)
        assert (reply.status, code_of(reply)) == (413, -32600), reply


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


# ---- the pipe of `bailey mcp`

def pipe(server, key, own=None):
    """A WebSocket at /mcp/pipe, as `bailey mcp --url` opens it."""
    query = f"?own={own}" if own else ""
    return wsclient.connect_tcp(("127.0.0.1", server.port), "/mcp/pipe" + query,
                                headers={"Authorization": f"Bearer {key}"})


def piped(ws, sequence, message):
    """The answer to a message, and the session of the connection's own that was told by then."""
    ws.send(f"m {sequence}\n{json.dumps(message)}".encode())
    own = None
    while True:
        head, _, text = ws.receive().decode().partition("\n")
        if head.startswith("s "):
            own = head.split()[2]
        if head == f"a {sequence}":
            return json.loads(text), own


def test_a_pipe_over_tcp_needs_a_key_and_keeps_to_its_tenant(server):
    with pytest.raises(wsclient.Refused) as refused:
        pipe(server, "bly_0.0")
    assert refused.value.status == 401
    ours, theirs = server.new_key("--tenant", "ours"), server.new_key("--tenant", "theirs")
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "sandbox_exec", "arguments": shell("cat kept || echo ours > kept")}}
    start = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    first = pipe(server, ours)
    piped(first, 1, start)
    _, own = piped(first, 2, call)
    assert server.get(f"/v1/sessions/{own}")["tenant"] == "ours"
    first.sock.close()  # lost: its session waits for the command to come back
    with pipe(server, theirs, own) as other:
        piped(other, 1, start)
        answer, _ = piped(other, 2, call)
        assert "ours" not in json.dumps(answer["result"]), answer
        other.send(b"e\n")
        with pytest.raises(wsclient.Closed):
            while other.receive():
                pass
    with pipe(server, ours, own) as again:
        piped(again, 1, start)
        answer, _ = piped(again, 2, call)
        assert "ours" in json.dumps(answer["result"]), answer
