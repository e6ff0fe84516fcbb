"""Bad input over TCP, door by door: each answers in its own shape, with a stable code, what is wrong
and what to do; and a browser's page gets nowhere."""
import http.client
import json
import re
import time

import pytest

import serve
import support
import tcp
import wsclient
from mcp_http import BOTH, Modern
from wsclient import BINARY, FIN, TEXT

JSON = {"Content-Type": "application/json"}
DEEP = "[" * 5000 + "]" * 5000
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def server():
    with tcp.Server() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def expired(server):
    """A key whose time is over."""
    key = server.new_key(tenant="acme", expires_s=1, scopes=["run", "sessions", "files"])
    serve.polled(lambda: server.tcp("GET", "/v1/sessions", key=key).status,
                 lambda status: status == 401, "the key has expired")
    return key


@pytest.fixture(scope="module")
def session(server):
    """One with a box, which left an output."""
    made = server.tcp("POST", "/v1/sessions", {}).json()["id"]
    done = server.tcp("POST", f"/v1/sessions/{made}/exec", {"argv": [
        "sh", "-c", "mkdir -p /tmp/output; echo hello > /tmp/output/a.txt"]}).json()
    assert done["exit_code"] == 0, done
    yield made
    assert server.tcp("DELETE", f"/v1/sessions/{made}").status == 200


# --- the shapes


def of_rest(reply):
    """(code, field, message) of {"error": {"code", "message", "field"?, ...}}."""
    assert reply.headers["Content-Type"] == "application/json", reply
    return reply.error["code"], reply.error.get("field"), reply.error["message"]


def of_execute(reply):
    """{"error": TEXT, "code"}: the field stands at the beginning of the text."""
    whole = reply.json()
    assert set(whole) == {"error", "code"} and isinstance(whole["error"], str), whole
    found = re.match(r"([A-Za-z_\-]+)(\[\d+\])?: ", whole["error"])
    return whole["code"], found and found.group(1), whole["error"]


def of_mcp(reply):
    """An error of JSON-RPC."""
    whole = reply.json()
    assert whole["jsonrpc"] == "2.0" and "result" not in whole, whole
    return whole["error"]["code"], None, whole["error"]["message"]


REST, EXECUTE, MCP = "/v1/run", "/execute", "/mcp"
SHAPES = {REST: of_rest, EXECUTE: of_execute, MCP: of_mcp}


def refused(server, path, status, code, body=None, headers=None, method="POST", field=None, says="",
            key=None):
    """A call that has to be refused so; the reply."""
    headers = {**(BOTH if path == MCP else JSON), **(headers or {})}
    reply = server.tcp(method, path, body, headers, key=key)
    assert reply.status == status, reply
    assert reply.headers["X-Request-Id"], reply
    got, about, message = SHAPES.get(path, of_rest)(reply)
    assert got == code and (field is None or about == field), reply
    assert says in message and len(message) > 10, reply
    return reply


# --- malformed, nested, of the wrong type


@pytest.mark.parametrize("path, code", [(REST, "bad_json"), (EXECUTE, "bad_json"), (MCP, -32700)])
@pytest.mark.parametrize("text", ["{", '{"code": "x",}', DEEP, '{"code":' + DEEP + "}",
                                  b'{"code": "\xff"}', '{"code": "\\ud800"}', "\0", "nonsense",
                                  '{"a":1}{"b":2}', '{"code":' + "9" * 5000 + "}"],
                         ids=lambda text: repr(text[:16]))
def test_what_is_no_json(server, path, code, text):
    refused(server, path, 400, code, text)


def test_bad_json_has_its_place(server):
    error = refused(server, REST, 400, "bad_json", '{\n "code": 1 2}').error
    assert (error["line"], error["column"] > 1) == (2, True), error
    assert "line 2" in refused(server, EXECUTE, 400, "bad_json", '{\n "code": 1 2}').json()["error"]


@pytest.mark.parametrize("path, body, code, field", [
    (REST, {}, "bad_input", "code"),
    (REST, {"code": 5}, "bad_input", "code"),
    (REST, {"code": "x", "timeout": "soon"}, "bad_input", "timeout"),
    (REST, {"code": "x", "timeout": -1}, "bad_input", "timeout"),
    (REST, {"code": "x", "language": "cobol"}, "bad_input", "language"),
    (REST, {"code": "x", "tmieout": 1}, "unknown_parameter", "tmieout"),
    (EXECUTE, {}, "bad_input", "code"),
    (EXECUTE, {"code": 5}, "bad_input", "code"),
    (EXECUTE, {"code": "x", "timeout_seconds": "soon"}, "bad_input", "timeout_seconds"),
    (EXECUTE, {"code": "x", "requirements": [3]}, "bad_input", "requirements"),
    (EXECUTE, {"code": "x", "files": {"a": "***"}}, "bad_input", "files"),
    (EXECUTE, {"code": "x", "language": "cobol"}, "bad_input", "language"),
    (MCP, [PING], -32600, None),
    (MCP, {"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600, None),
], ids=str)
def test_a_member_that_is_wrong(server, path, body, code, field):
    refused(server, path, 400, code, body, field=field)


def test_arguments_of_a_tool(server):
    """MCP: a tool that nobody knows, and a parameter: named, with what was probably meant."""
    modern = Modern(server)
    body, headers = modern.message("tools/call", {"name": "sandbox_exce", "arguments": {}})
    said = modern.ask("POST", body, headers).json()["error"]
    assert said["code"] == -32602 and "sandbox_exec" in said["message"], said
    result = modern.call("sandbox_exec", {"comand": ["true"]})
    assert result["isError"] is True and "comand" in str(result["content"]), result


# --- too large


@pytest.mark.parametrize("path, code, limit", [(REST, "too_large", 16 << 20),
                                               (EXECUTE, "too_large", 10 << 20),
                                               (MCP, -32600, 17 << 20)])
def test_too_large_a_body(server, path, code, limit):
    """Refused by its length, before a byte of it was sent; the answer says how much it may be."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=support.PATIENCE)
    connection.putrequest("POST", path)
    for name, value in {**BOTH, "Authorization": f"Bearer {server.key}", "Expect": "100-continue",
                        "Content-Length": str(limit + 1)}.items():
        connection.putheader(name, value)
    connection.endheaders()
    raw = connection.getresponse()
    reply = serve.Reply(raw.status, raw.headers, raw.read())
    connection.close()
    assert reply.status == 413 and SHAPES[path](reply)[0] == code, reply
    assert str(limit) in SHAPES[path](reply)[2], reply


def test_too_large_in_chunks(server):
    """One that does not say its length is cut off where it is too long."""
    piece = b" " * (1 << 20)
    reply = server.tcp("POST", EXECUTE, (piece for _ in range(11)))
    assert reply.status == 413 and of_execute(reply)[0] == "too_large", reply


@pytest.mark.parametrize("path, code", [(REST, "too_large"), (EXECUTE, "too_large"), (MCP, -32600)])
def test_too_long_a_line_or_header(server, path, code):
    for status, target, headers in ((414, path + "?" + "a" * 10_000, {}),
                                    (431, path, {"X-Long": "a" * 80_000})):
        reply = server.tcp("POST", target, "{}", {**BOTH, **headers})
        assert reply.status == status and SHAPES[path](reply)[0] == code, reply
        assert "at most" in SHAPES[path](reply)[2], reply


# --- wrong content type


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/xml", "text/html",
                                  "application/jsonp", "", "json"])
def test_another_content_type(server, kind):
    for path, code in ((REST, "unsupported_media_type"), (EXECUTE, "unsupported_media_type"),
                       (MCP, -32600)):
        reply = refused(server, path, 415, code, '{"code": "print(1)"}', {"Content-Type": kind},
                        says="application/json")
        assert path == MCP or SHAPES[path](reply)[1] == "Content-Type", reply


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8",
                                  "Application/JSON", "application/problem+json",
                                  "application/x-www-form-urlencoded"])
def test_a_content_type_that_is_fine(server, kind):
    """The last is what curl -d says when nobody says another."""
    for path in (REST, EXECUTE):
        reply = server.tcp("POST", path, '{"code": "print(6*7)"}', {"Content-Type": kind})
        assert reply.status == 200 and reply.json()["stdout"] == "42\n", reply


def test_text_is_text_for_rest_only(server):
    """fetch() sends text/plain by itself; the contract of /execute never looked."""
    refused(server, REST, 415, "unsupported_media_type", '{"code": "1"}', {"Content-Type": "text/plain"})
    assert server.tcp("POST", EXECUTE, '{"code": "1"}', {"Content-Type": "text/plain"}).status == 200


# --- wrong method, unknown route


@pytest.mark.parametrize("method, path, code, allow", [
    ("PATCH", "/v1/sessions", "method_not_allowed", {"GET", "HEAD", "POST"}),
    ("GET", REST, "method_not_allowed", {"POST"}),
    ("PUT", "/metrics", "method_not_allowed", {"GET", "HEAD"}),
    ("POST", "/v1/ws", "method_not_allowed", {"GET", "HEAD"}),
    ("GET", EXECUTE, "method_not_allowed", {"POST"}),
    ("DELETE", EXECUTE, "method_not_allowed", {"POST"}),
    ("PUT", MCP, -32600, {"POST", "GET", "HEAD", "DELETE"}),
    ("BREW", "/v1/sessions", "method_not_allowed", {"GET", "HEAD", "POST"}),
])
def test_another_method(server, method, path, code, allow):
    reply = refused(server, path, 405, code, method=method, says=method)
    assert set(reply.headers["Allow"].split(", ")) == allow, reply


@pytest.mark.parametrize("path, nearest", [
    ("/v1/sesions", "/v1/sessions"), ("/v1/session/demo/exec", "/v1/sessions/demo/exec"),
    ("/sessions", "/v1/sessions"), ("/v1/sessions/", "/v1/sessions"), ("/v1/rnu", "/v1/run"),
    ("/exectue", "/execute"), ("/mpc", "/mcp"), ("/metric", "/metrics"), ("/doc", "/docs"),
    ("/openapi.jsn", "/openapi.json"), ("/v1/sessions/demo/wss", "/v1/sessions/demo/ws"),
    ("/v1/artefacts/a_1/link", "/v1/artifacts/a_1/link"),
])
def test_an_unknown_address_has_a_nearest(server, path, nearest):
    error = refused(server, path, 404, "not_found", method="GET", says=nearest).error
    assert error["nearest"] == nearest, error


@pytest.mark.parametrize("path", ["/", "/elsewhere", "/v1/sessions/x/nothing-of-the-kind", "/v2/a/b/c",
                                  "/%00", "/..%2f..%2fetc", "/v1/../v1/run"])
def test_an_address_that_is_near_nothing(server, path):
    reply = server.tcp("GET", path)
    assert (reply.status, reply.error["code"]) in ((404, "not_found"), (400, "bad_input")), reply
    assert "nearest" not in reply.error, reply
    assert reply.status == 400 or "/openapi.json" in reply.error["message"], reply


# --- keys


@pytest.mark.parametrize("path, code", [(REST, "unauthorized"), (EXECUTE, "unauthorized"), (MCP, -32600)])
def test_an_expired_key(server, expired, path, code):
    for key in (expired, False, "bly_0.0"):
        reply = refused(server, path, 401, code, {"code": "print(1)"}, key=key, says="bailey key")
        assert reply.headers["WWW-Authenticate"].startswith("Bearer"), reply
        assert key is False or key not in reply.body.decode()


def test_an_expired_key_of_a_websocket(server, expired):
    for protocols in (["bailey.v1", f"bailey.key.{expired}"], None):
        with pytest.raises(wsclient.Refused) as answer:
            open_ws(server, protocols=protocols)
        assert (answer.value.status, answer.value.error["code"]) == (401, "unauthorized")
        assert expired not in answer.value.body.decode()


# --- WebSocket


def open_ws(server, path="/v1/ws", **rest):
    return wsclient.connect_tcp(("127.0.0.1", server.port), path, **rest)


@pytest.fixture(scope="module")
def ws(server, session):
    with open_ws(server, f"/v1/sessions/{session}/ws",
                 headers={"Authorization": f"Bearer {server.key}"}) as opened:
        yield opened


@pytest.mark.parametrize("text, code, field", [
    ("{", "bad_json", None), (DEEP, "bad_json", None), ('{"type":"ping","a":' + DEEP + "}", "bad_json", None),
    ("[]", "bad_input", None), ("{}", "bad_input", "type"), ('{"type":"pnig"}', "bad_input", "type"),
    ('{"type":"exec","argv":"true"}', "bad_input", "argv"),
    ('{"type":"exec","argv":["true"],"tmieout":1}', "unknown_parameter", "tmieout"),
    ('{"type":"subscribe","what":"all"}', "bad_input", "what"),
], ids=lambda text: str(text)[:30])
def test_words_of_a_websocket(ws, text, code, field):
    """An error about the message, and the connection goes on."""
    ws.send(text)
    said = ws.receive()
    assert said["type"] == "error" and said["error"]["code"] == code, said
    assert said["error"].get("field") == field and said["error"]["message"], said
    ws.ask("ping")


def test_the_nearest_word_of_a_websocket(ws):
    assert ws.refused("subscrbe", what="events")["nearest"] == "subscribe"
    assert ws.refused("exec", argv=["true"], tmieout=1)["nearest"] == "timeout"


@pytest.mark.parametrize("first, data, claim, code", [
    (FIN | TEXT, b"x", (16 << 20) + 1, 1009), (FIN | TEXT, b"x", 1 << 62, 1009),
    (FIN | BINARY, b"\0", None, 1003), (FIN | TEXT, b"\xff", None, 1007), (FIN | 3, b"", None, 1002),
])
def test_frames_of_a_websocket(server, session, first, data, claim, code):
    """Too large, bytes instead of text, no text, no frame: a close code of the protocol."""
    broken = open_ws(server, f"/v1/sessions/{session}/ws",
                     headers={"Authorization": f"Bearer {server.key}"})
    broken.send_frame(first, data, claim=claim)
    with pytest.raises(wsclient.Closed) as closed:
        broken.receive()
    assert closed.value.code == code, closed.value
    broken.vanish()


# --- signed links


def test_a_links_clock(server, session):
    """One whose time was over less than half a minute ago is taken: clocks differ. A time that was
    changed is not, in whichever direction."""
    [output] = server.tcp("GET", f"/v1/sessions/{session}/outputs").json()["outputs"]
    made = server.tcp("POST", output["url"] + "/link", {"seconds": 1})
    url = made.json()["url"]
    until = int(re.search(r"expires=(\d+)", url).group(1))
    for other in (until - 3600, until + 1, until + 3600, 0, 2**63, 2**64):
        reply = server.tcp("GET", url.replace(f"expires={until}", f"expires={other}"), key=False)
        assert (reply.status, reply.error["code"]) == (403, "link_expired"), reply
        assert "/link" in reply.error["message"], reply
    support.wait_until(lambda: time.time() > until + 1, "its time is over", 30)
    reply = server.tcp("GET", url, key=False)
    if time.time() < until + 30:
        assert reply.status == 200 and reply.body == b"hello\n", reply
    else:  # a machine this slow has shown the other half
        assert reply.status in (200, 403), reply


# --- browsers (docs/security.md, attacks 66-68)


PAGES = [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
         {"Origin": "file://"}, {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example"},
         {"Host": "localhost.evil.example:80"}]


@pytest.mark.parametrize("headers", PAGES, ids=str)
def test_a_page_gets_nowhere(server, headers):
    """Whatever the door and the method, with a good key too; and it may not read the answer."""
    for path, code in ((REST, "forbidden"), (EXECUTE, "forbidden"), (MCP, -32600)):
        reply = refused(server, path, 403, code, {"code": "print(1)"}, headers)
        assert not [name for name in reply.headers if name.startswith("Access-Control-")], reply
    for method, path in (("GET", "/v1/sessions"), ("DELETE", "/v1/sessions/x"), ("GET", "/metrics"),
                         ("GET", "/docs"), ("OPTIONS", REST)):
        assert server.tcp(method, path, headers=headers).status == 403
    with pytest.raises(wsclient.Refused) as answer:
        open_ws(server, headers={**headers, "Authorization": f"Bearer {server.key}"})
    assert answer.value.status == 403 and answer.value.error["code"] == "forbidden"


def test_cors_is_off(server):
    reply = server.tcp("OPTIONS", REST, headers={"Origin": f"http://127.0.0.1:{server.port}",
                                                 "Access-Control-Request-Method": "POST"}, key=False)
    assert not [name for name in reply.headers if name.startswith("Access-Control-")], reply
    reply = server.tcp("GET", "/v1/sessions", headers={"Origin": f"http://127.0.0.1:{server.port}"})
    assert reply.status == 200 and "Access-Control-Allow-Origin" not in reply.headers, reply


def test_nothing_of_it_was_run(server):
    """And the server is as it was."""
    assert server.tcp("GET", "/healthz", key=False).status == 200
    key = server.new_key(name="auditor", scopes=["operator"])
    lines = server.tcp("GET", "/v1/audit?action=denied", key=key).body.decode().splitlines()
    assert {json.loads(line)["error"] for line in lines} >= {"unauthorized", "forbidden"}
    assert not [line for line in lines if server.key in line]
