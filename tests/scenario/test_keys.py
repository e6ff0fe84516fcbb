"""API keys: made once, sent in two ways, with scopes and an end; what is wrong with one is not told."""
import json
import re
import socket
import threading

import mcp_http
import pytest
import serve
import support
import tenants
import wsclient


@pytest.fixture(scope="module")
def server():
    with tenants.Server() as running:
        yield running


@pytest.mark.attack(66)
def test_a_key_is_needed(server):
    for method, path, body in (("GET", "/v1/info", None), ("GET", "/v1/sessions", None),
                               ("POST", "/v1/sessions", {}), ("GET", "/v1/events", None),
                               ("POST", "/v1/run", {"code": "1"}), ("GET", "/v1/keys", None),
                               ("GET", "/v1/tools", None), ("GET", "/v1/templates", None)):
        reply = server.anybody().call(method, path, body)
        assert reply.status == 401, (path, reply)
        assert reply.error["code"] == "unauthorized"
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")


def test_health_is_open(server):
    assert server.anybody().call("GET", "/healthz").status == 200


@pytest.mark.attack(66)
def test_every_row_but_the_open_ones_needs_a_key(server):
    """From the document that describes them all: none was forgotten."""
    document = json.loads(server.bailey("openapi").stdout)
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    asked = 0
    for path, methods in document["paths"].items():
        for method, row in methods.items():
            if method == "parameters" or row["security"] == []:
                continue
            (scope,) = row["security"][0]["bearer"]
            assert scope in ("run", "sessions", "files", "metrics", "admin", "operator"), row
            reply = server.anybody().call(method.upper(), re.sub(r"{[^}]*}", "x", path))
            assert reply.status == 401, (method, path, reply)
            asked += 1
    assert asked > 40


def test_both_headers(server):
    key = server.caller("acme").text
    for headers in ({"Authorization": f"Bearer {key}"}, {"X_API_Key": key},
                    {"Authorization": f"bearer {key}"},
                    {"Authorization": f"Bearer {key}", "X_API_Key": key}):
        assert server.anybody(**headers).get("/v1/info")["version"]


def test_two_different_keys_are_refused(server):
    one, two = server.caller("acme").text, server.caller("acme").text
    server.anybody(Authorization=f"Bearer {one}", X_API_Key=two).refused(
        "GET", "/v1/info", 401, "unauthorized")


def raw_status(server, *headers, path="/v1/info"):
    """The status of a request with these header lines, which a library would join or refuse."""
    with socket.create_connection(("127.0.0.1", server.port), support.PATIENCE) as link:
        link.sendall("\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "Connection: close",
                                  "", ""]).encode())
        return int(link.makefile("rb").readline().split()[1])


@pytest.mark.attack(85)
def test_one_header_twice(server):
    """Which of two keys counts is for nobody to guess, whatever header they are in."""
    one, two = server.caller("acme").text, server.caller("other").text
    for name, prefix in (("Authorization", "Bearer "), ("X-API-Key", "")):
        pairs = {(one, one): 200, (one, two): 401, (two, one): 401, (one, "none"): 401,
                 ("none", one): 401}
        for keys, status in pairs.items():
            lines = [f"{name}: {prefix}{key}" for key in keys]
            assert raw_status(server, *lines) == status, lines
    offer = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
             f"Sec-WebSocket-Protocol: bailey.key.{two}"]
    assert raw_status(server, f"X-API-Key: {one}", *offer) == 401
    assert raw_status(server, f"Authorization: Bearer {one}", *offer) == 401


def test_a_number_has_one_text(server):
    caller = server.caller("acme", ["admin"])
    assert caller.call("GET", "/v1/audit?tail=1").status == 200
    for text in ("01", "001", "0x1", "+1", "1e0", "%201"):
        caller.refused("GET", f"/v1/audit?tail={text}", 400, "bad_input")


# --- an admin of one tenant, an operator of the whole server


def test_an_admin_has_its_own_tenant(server):
    acme, other = server.caller("acme", ["admin"]), server.caller("other")
    operator = server.caller("acme", ["operator"])
    assert {key["tenant"] for key in acme.get("/v1/keys")["keys"]} == {"acme"}
    assert {"acme", "other"} <= {key["tenant"] for key in operator.get("/v1/keys")["keys"]}
    never = acme.refused("DELETE", "/v1/keys/0123456789abcdef", 404, "key_not_found")
    for method, path in (("POST", f"/v1/keys/{other.key['id']}/rotate"),
                         ("DELETE", f"/v1/keys/{other.key['id']}")):
        error = acme.refused(method, path, 404, "key_not_found")
        assert error["message"] == never["message"].replace("0123456789abcdef", other.key["id"])
    for body in ({"tenant": "other"}, {"tenant": "default"}, {"scopes": ["operator"]},
                 {"scopes": ["run", "operator"], "tenant": "acme"}):
        acme.refused("POST", "/v1/keys", 403, "forbidden", body)
    for method, path in (("POST", f"/v1/keys/{operator.key['id']}/rotate"),
                         ("DELETE", f"/v1/keys/{operator.key['id']}")):
        acme.refused(method, path, 403, "forbidden")
    made = acme.post("/v1/keys", {"scopes": ["run", "admin"]}, 201)
    assert made["tenant"] == "acme"
    assert acme.post(f"/v1/keys/{made['id']}/rotate", {})["id"] == made["id"]
    acme.asked("DELETE", f"/v1/keys/{made['id']}")
    assert operator.post("/v1/keys", {"tenant": "other"}, 201)["tenant"] == "other"
    assert other.call("GET", "/v1/info").status == 200


def test_an_admin_reads_its_own_audit(server):
    acme, other = server.caller("acme", ["admin"]), server.caller("other", ["sessions", "admin"])
    other.session()
    mine = [json.loads(line) for line in acme.call("GET", "/v1/audit").body.splitlines()]
    assert mine and {line["tenant"] for line in mine} <= {"acme"}
    acme.refused("GET", "/v1/audit?tenant=other", 403, "forbidden")
    theirs = other.call("GET", "/v1/audit?tenant=other&action=session.created").body
    assert len(theirs.splitlines()) == 1
    everybody = server.caller("acme", ["operator"]).call("GET", "/v1/audit").body
    assert {"acme", "other"} <= {json.loads(line).get("tenant") for line in everybody.splitlines()}


@pytest.mark.attack(86)
def test_metrics_name_no_other_tenant(server):
    """A key for metrics sees the whole server's numbers, and of names only its own tenant's."""
    for tenant in ("acme", "other"):
        server.caller(tenant).session()
    text = server.caller("acme", ["metrics"]).call("GET", "/metrics").body.decode()
    named = set(re.findall(r'tenant="([^"]*)"', text))
    assert named == {"acme"}, named
    assert "bailey_http_connections " in text
    text = server.caller("acme", ["metrics", "operator"]).call("GET", "/metrics").body.decode()
    assert {"acme", "other"} <= set(re.findall(r'tenant="([^"]*)"', text))


def wrong(key):
    prefix, _, secret = key.partition(".")
    last = "0" if secret[-1] != "0" else "1"
    other = "0" if prefix[-1] != "0" else "1"
    return [f"{prefix}.{secret[:-1]}{last}", f"{prefix[:-1]}{other}.{secret}", prefix, secret,
            f"{prefix}.", f"{key}0", "bly_", "nonsense", "bly_" + "0" * 16 + "." + "0" * 48]


def test_what_is_wrong_is_not_told(server):
    """Unknown, changed, expired, removed: the same status, headers and words."""
    good = server.caller("acme")
    expired = server.caller("acme", expires_s=1)
    removed = server.caller("acme")
    server.asked("DELETE", f"/v1/keys/{removed.key['id']}")
    serve.polled(lambda: expired.call("GET", "/v1/info").status, lambda got: got == 401,
                 "the key has expired")
    replies = [server.anybody(X_API_Key=text).call("GET", "/v1/info")
               for text in (*wrong(good.text), expired.text, removed.text)]
    assert {reply.status for reply in replies} == {401}
    assert len({reply.body for reply in replies}) == 1, {reply.body for reply in replies}
    assert len({reply.headers["WWW-Authenticate"] for reply in replies}) == 1
    assert good.call("GET", "/v1/info").status == 200


def test_other_schemes(server):
    key = server.caller("acme").text
    for text in (f"Basic {key}", key, "Bearer", "Bearer ", f"Bearer {key} {key}", f"Token {key}"):
        server.anybody(Authorization=text).refused("GET", "/v1/info", 401, "unauthorized")


@pytest.mark.attack(66)
def test_scopes(server):
    """Each kind of call with the one scope that it needs, and with all the others."""
    calls = {"run": ("POST", "/v1/run", {"code": "print(1)"}, 200),
             "sessions": ("GET", "/v1/sessions", None, 200),
             "files": ("GET", "/v1/sessions/none/outputs", None, 404),
             "admin": ("GET", "/v1/keys", None, 200),
             "operator": ("GET", "/v1/warm", None, 200)}
    names = [*calls, "metrics"]
    for scope, (method, path, body, status) in calls.items():
        assert server.caller("acme", [scope]).call(method, path, body).status == status, scope
        others = {scope, "operator"} if scope == "admin" else {scope}  # an operator is an admin
        reply = server.caller("acme", [name for name in names if name not in others]).call(
            method, path, body)
        assert reply.status == 403, (scope, reply)
        assert reply.error["code"] == "forbidden" and f"'{scope}'" in reply.error["message"]


def test_only_an_operator_builds_templates(server):
    """All tenants use the same ones."""
    caller = server.caller("acme", ["run", "sessions", "files", "metrics", "admin"])
    caller.refused("POST", "/v1/templates", 403, "forbidden", {"name": "x"})
    caller.refused("DELETE", "/v1/templates/data", 403, "forbidden")
    assert caller.get("/v1/templates")["templates"]
    assert all("used_by" not in one for one in caller.get("/v1/templates")["templates"])


def test_rotation(server):
    caller = server.caller("acme")
    place = f"/v1/keys/{caller.key['id']}/rotate"
    second = tenants.Caller(server, server.post(place, {"grace_s": 600})["key"])
    for one in (caller, second):
        assert one.call("GET", "/v1/info").status == 200
    third = tenants.Caller(server, server.post(place, {})["key"])
    for one in (caller, second):
        assert one.call("GET", "/v1/info").status == 401
    assert third.call("GET", "/v1/info").status == 200
    assert third.text.partition(".")[0] == caller.text.partition(".")[0]


def test_bad_input(server):
    for body, field in (({"tenant": "No Tenant"}, "tenant"), ({"tenant": "-a"}, "tenant"),
                        ({"name": "n" * 200}, "name"), ({"scopes": ["root"]}, "scopes[0]"),
                        ({"scopes": []}, "scopes"), ({"expires_s": 0}, "expires_s")):
        error = server.refused("POST", "/v1/keys", 400, "bad_input", body)
        assert error["field"] == field, error
    server.refused("POST", "/v1/keys", 400, "unknown_parameter", {"tenants": "a"})
    server.refused("DELETE", "/v1/keys/0123456789abcdef", 404, "key_not_found")
    server.refused("POST", "/v1/keys/0123456789abcdef/rotate", 404, "key_not_found", {})


def test_the_owners_tenant_is_his_own(server):
    """A key of it would be the owner without his socket."""
    error = server.refused("POST", "/v1/keys", 400, "bad_input", {"tenant": "local"})
    assert error["field"] == "tenant" and "owner" in error["message"]
    refused = server.bailey("key", "new", "--tenant", "local")
    assert refused.status == 125 and "owner" in refused.stderr, refused
    assert all(key["tenant"] != "local" for key in server.get("/v1/keys")["keys"])


# How a key stops being good, and what it is called in the body that makes it.
def remove(server, key):
    server.asked("DELETE", f"/v1/keys/{key.key['id']}")


def rotate(server, key):
    server.post(f"/v1/keys/{key.key['id']}/rotate", {})


def rotate_with_grace(server, key):
    server.post(f"/v1/keys/{key.key['id']}/rotate", {"grace_s": 0.2})


def wait(server, key):
    """It expires by itself."""


@pytest.mark.attack(66)
@pytest.mark.parametrize("end, members", [(remove, {}), (rotate, {}), (rotate_with_grace, {}),
                                          (wait, {"expires_s": 3})])
def test_what_is_open_ends_with_its_key(server, end, members):
    """Streams of events, of a program, of MCP, and WebSockets; those of another key go on."""
    other, key = server.caller("acme"), server.caller("acme", **members)
    run = {"code": "print('up', flush=True)\nwhile True: pass", "timeout": 1000}
    opened = [key.events("/v1/events"), key.events("/v1/run", run, method="POST")]
    opened[1].until("stdout")
    spoken = mcp_http.Legacy(server, key=key.text)
    connection, reply = spoken.open("GET", None, {**spoken.headers, "Accept": "text/event-stream"})
    assert reply.status == 200
    address = ("127.0.0.1", server.port)
    sockets = [wsclient.connect_tcp(address, "/v1/ws", headers=one.headers) for one in (key, other)]
    with other.events("/v1/events") as theirs:
        end(server, key)
        for events in opened:
            assert events.until("closed").data["code"] == "unauthorized"
            assert events.next() is None
            events.close()
        assert b"data: {" not in reply.read()  # to its end
        connection.close()
        with pytest.raises(wsclient.Closed) as closed:
            sockets[0].receive()
        assert closed.value.code == 1008 and "key" in closed.value.reason
        assert sockets[1].ask("ping")
        server.end(other.session()["id"])
        theirs.until("session.ended")
    for one in sockets:
        one.sock.close()


def test_a_grace_goes_on(server):
    key = server.caller("acme")
    with key.events("/v1/events") as events:
        server.post(f"/v1/keys/{key.key['id']}/rotate", {"grace_s": 3600})
        server.end(key.session()["id"])
        events.until("session.ended")


HEADS = {"content": "Content-Length: 100000000\r\n", "chunked": "Transfer-Encoding: chunked\r\n",
         "expect": "Content-Length: 100000000\r\nExpect: 100-continue\r\n"}


@pytest.mark.parametrize("line", ["PUT /v1/sessions/x/files?path=/tmp/x", "POST /v1/run",
                                  "POST /v1/sessions", "PUT /v1/sessions/x/datasets/x",
                                  "POST /execute", "POST /mcp"])
def test_nobody_sends_a_body_without_a_key(server, line):
    """The answer is there before a byte of it, and nobody takes the rest."""
    for head in HEADS.values():
        for key in ("", "Authorization: Bearer bly_nonsense\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), support.PATIENCE) as sock:
                sock.sendall(f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
                             f"Content-Type: application/json\r\n{head}{key}\r\n".encode())
                answer = b"".join(iter(lambda: sock.recv(65536), b""))  # it is closed
            assert answer.startswith(b"HTTP/1.1 401 "), answer
            assert b"\r\nWWW-Authenticate: Bearer" in answer, answer


def test_a_small_body_is_answered_on_the_same_connection(server):
    """A client that sends first and reads then gets its 401, and may go on."""
    connection = server.anybody().connect()
    for _ in range(3):
        connection.request("POST", "/v1/run", b'{"code": "1"}', {"Content-Type": "application/json"})
        reply = connection.getresponse()
        assert reply.status == 401
        reply.read()
    connection.close()


def test_command_line(server):
    made = server.bailey("key", "new", "--tenant", "cli", "--scopes", "run,sessions", "--name",
                         "for a test", "--expires", "24h", "--json").json()
    assert made["tenant"] == "cli" and made["scopes"] == ["run", "sessions"] and made["expires_at"]
    caller = tenants.Caller(server, made["key"])
    assert caller.get("/v1/sessions") == {"sessions": []}
    listed = server.bailey("key", "ls")
    assert made["id"] in listed.stdout and "for a test" in listed.stdout
    # Its text is shown once.
    for command in (("key", "ls"), ("key", "ls", "--json")):
        said = server.bailey(*command).stdout
        assert made["key"] not in said and made["key"].partition(".")[2] not in said
    text = server.bailey("key", "rotate", made["id"], "-q").stdout.strip()
    assert caller.call("GET", "/v1/sessions").status == 401
    assert tenants.Caller(server, text).call("GET", "/v1/sessions").status == 200
    assert server.bailey("key", "rm", made["id"]).status == 0
    assert tenants.Caller(server, text).call("GET", "/v1/sessions").status == 401
    gone = server.bailey("key", "rm", made["id"])
    assert gone.status != 0 and "there is no key" in gone.stderr
    wrong_word = server.bailey("key", "nwe")
    assert wrong_word.status == 125 and "bailey key new" in wrong_word.stderr


def test_no_text_of_a_key_is_kept(server):
    """Not in the index, not in the log, not in the audit."""
    key = server.caller("acme")
    assert key.call("GET", "/v1/info").status == 200
    secret = key.text.partition(".")[2].encode()
    for path in [*server.state.rglob("*"), server.log]:
        if path.is_file():
            assert secret not in path.read_bytes(), path


def test_audit_of_keys_and_refusals(server):
    key = server.caller("audited", ["run"])
    key.refused("GET", "/v1/sessions", 403, "forbidden")
    server.anybody(X_API_Key="bly_wrong").refused("GET", "/v1/info", 401, "unauthorized")
    lines = server.audit()
    made = [line for line in lines if line["action"] == "key" and line["key_id"] == key.key["id"]]
    assert [line["change"] for line in made] == ["new"] and made[0]["key_tenant"] == "audited"
    denied = [line for line in lines if line["action"] == "denied"]
    assert any(line.get("tenant") == "audited" and line["key"] == key.key["id"] and
               line["error"] == "forbidden" for line in denied)
    assert denied[-1]["error"] == "unauthorized" and "tenant" not in denied[-1]
    assert "bly_wrong" not in json.dumps(lines)


def test_keys_survive_a_broker():
    with tenants.Server() as server:
        key = server.caller("acme")
        before = server.get("/v1/info")
        serve.support.os.kill(before["broker_pid"], serve.signal.SIGKILL)

        def answers():
            try:
                return key.call("GET", "/v1/info").status
            except OSError:
                return None
        assert serve.polled(answers, lambda status: status is not None, "a new broker") == 200


def test_many_at_once(server):
    """A key that is removed while others use theirs."""
    statuses = []

    def ask(key):
        for _ in range(50):
            statuses.append(key.call("GET", "/v1/info").status)
    threads = [threading.Thread(target=ask, args=(server.caller("acme"),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    doomed = server.caller("acme")
    server.asked("DELETE", f"/v1/keys/{doomed.key['id']}")
    doomed.refused("GET", "/v1/info", 401, "unauthorized")
    for thread in threads:
        thread.join()
    assert statuses == [200] * 200
