"""What E2B's clients expect on the wire and a server easily gets wrong, one by one, without a client's package."""
import base64
import contextlib
import hashlib
import http.client
import json
import struct

import install
import pytest
import tenants

pytestmark = pytest.mark.needs_namespaces


class Sandbox:
    """One sandbox, called as the packages call it."""

    def __init__(self, server, made):
        self.server, self.id, self.token = server, made["sandboxID"], made.get("envdAccessToken")

    def headers(self, port=49983, **more):
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port),
                **({"X-Access-Token": self.token} if self.token else {}), **more}

    def call(self, method, path, body=None, port=49983, **headers):
        return self.server.raw(method, path, body, {**self.headers(port), **headers})

    def unary(self, method, request, **headers):
        status, _, body = self.call("POST", f"/{method}", json.dumps(request), **{"Content-Type": "application/json", **headers})
        return status, json.loads(body)

    @contextlib.contextmanager
    def stream(self, method, request, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        body = json.dumps(request).encode()
        connection.request("POST", f"/{method}", struct.pack(">BI", 0, len(body)) + body,
                           {**self.headers(), "Content-Type": "application/connect+json", **headers})
        reply = connection.getresponse()
        assert (reply.status, reply.getheader("Content-Type")) == (200, "application/connect+json")
        yield envelopes(reply)
        connection.close()

    def start(self, command, **more):
        headers = more.pop("headers", {})
        return self.stream("process.Process/Start", {"process": {"cmd": "/bin/bash", "args": ["-c", command]}, **more},
                           **headers)


def envelopes(reply):
    """(flags, message) until the body ends; a body that breaks off raises http.client.IncompleteRead."""
    while True:
        head = reply.read(5)
        if not head:
            return
        flags, length = struct.unpack(">BI", head)
        yield flags, json.loads(reply.read(length))


class Server(tenants.Server):
    def __init__(self, env=None, **rest):
        super().__init__(env, **rest)
        self.e2b = self.bailey("key", "new", "--format", "e2b", "--quiet").stdout.strip()

    def raw(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, headers or {})
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        return reply.status, reply.headers, text

    def control(self, method, path, body=None, **headers):
        status, headers, text = self.raw(method, path, json.dumps(body) if body is not None else None,
                                         {"X-API-KEY": self.e2b, "Content-Type": "application/json", **headers})
        return status, headers, json.loads(text) if text else None

    def sandbox(self, path="/v2/sandboxes", **body):
        status, _, made = self.control("POST", path, {"templateID": "base", **body})
        assert status == 201, made
        return Sandbox(self, made)


@pytest.fixture(scope="module")
def server():
    with Server({"BAILEY_LOG": "info"}) as running:
        yield running


@pytest.fixture
def sandbox(server):
    made = server.sandbox()
    yield made
    server.control("DELETE", f"/sandboxes/{made.id}")


def test_a_key_in_e2bs_spelling_is_a_key_like_any_other(server):
    assert len(server.e2b) == 44 and server.e2b.startswith("e2b_") and int(server.e2b[4:], 16) >= 0
    for headers in ({"X-API-Key": server.e2b}, {"Authorization": f"Bearer {server.e2b}"}):
        assert server.raw("GET", "/v1/sessions", None, headers)[0] == 200
        assert server.raw("GET", "/v2/sandboxes", None, headers)[0] == 200
    assert server.raw("GET", "/v2/sandboxes", None, {"X-API-Key": server.e2b[:-1] + "0" * (server.e2b[-1] != "0")})[0] == 401
    assert server.e2b[20:] not in server.said()
    listed = [one for one in server.get("/v1/keys")["keys"] if server.e2b[4:20] == one["id"]]
    assert listed, "the first 16 digits are the id"
    again = server.post(f"/v1/keys/{server.e2b[4:20]}/rotate", {"grace_s": 600}, 200)["key"]
    assert again.startswith("e2b_") and again[4:20] == server.e2b[4:20] and again != server.e2b


def test_chunked_bodies_without_a_length_are_read(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/sandboxes", iter([b'{"templ', b'ateID":"base"}']),
                       {"X-API-KEY": server.e2b, "Content-Type": "application/json"}, encode_chunked=True)
    reply = connection.getresponse()
    assert reply.status == 201
    made = json.loads(reply.read())
    assert {"templateID", "sandboxID", "clientID", "envdVersion"} <= set(made)
    assert "envdAccessToken" not in made, "the old address gives a token only where `secure` asks for it"
    server.control("DELETE", f"/sandboxes/{made['sandboxID']}")


def test_errors_have_their_status_as_a_number_in_the_body(server):
    for method, path, status in (("GET", f"/sandboxes/{'0' * 32}", 404), ("DELETE", f"/sandboxes/{'0' * 32}", 404),
                                 ("POST", f"/sandboxes/{'0' * 32}/timeout", 404), ("POST", "/v3/templates", 501),
                                 ("POST", "/volumes", 501), ("GET", "/secrets", 501)):
        got, _, body = server.control(method, path, {} if method == "POST" else None)
        assert (got, body["code"]) == (status, status) and len(body["message"]) > 10, (path, body)
    status, _, body = server.control("GET", "/v2/sandboxes", **{"X-API-KEY": "e2b_" + "0" * 40})
    assert (status, body["code"]) == (401, 401)
    for body, word in (({}, "templateID"), ({"templateID": "base", "timeout": 0}, "timeout"),
                       ({"templateID": "base", "autoPauseMemory": False}, "memory"), ({"templateID": "base", "mcp": {"x": {}}}, "mcp")):
        status, _, told = server.control("POST", "/v2/sandboxes", body)
        assert status == 400 and word in told["message"], told


def test_what_is_not_here_says_so_in_a_sentence(server, sandbox):
    for method, path, words in (("POST", f"/sandboxes/{sandbox.id}/snapshots", "no snapshots"),
                                ("POST", f"/sandboxes/{sandbox.id}/fork", "no forks"), ("GET", "/snapshots", "no snapshots"),
                                ("PUT", f"/sandboxes/{sandbox.id}/network", "on the server"),
                                ("POST", "/v3/templates", "bailey template build"),
                                ("POST", "/v2/templates/t/builds/b", "bailey template build"),
                                ("GET", "/templates/aliases/a", "bailey template build"), ("POST", "/volumes", "no volumes"),
                                ("GET", "/volumes/v", "no volumes"), ("POST", "/secrets", "envVars")):
        status, _, body = server.control(method, path, None if method == "GET" else {})
        assert (status, body["code"]) == (501, 501) and words in body["message"], (path, body)


def test_both_generations_of_addresses_are_served(server):
    for prefix in ("", "/v2"):
        made = server.sandbox(prefix + "/sandboxes", secure=True, timeout=60)
        status, _, again = server.control("POST", f"{prefix}/sandboxes/{made.id}/connect", {"timeout": 60})
        assert status == 200 and again["sandboxID"] == made.id and again["envdAccessToken"] == made.token
        assert server.control("GET", f"/sandboxes/{made.id}")[0] == 200
        assert made.id in [one["sandboxID"] for one in server.control("GET", prefix + "/sandboxes")[2]]
        assert server.control("POST", f"/sandboxes/{made.id}/refreshes", {"duration": 100})[0] == 204
        assert server.control("GET", f"{prefix}/sandboxes/{made.id}/logs")[0] == 200
        assert server.control("DELETE", f"/sandboxes/{made.id}")[0] == 204
        assert server.control("DELETE", f"/sandboxes/{made.id}")[0] == 404


def test_a_stream_begins_with_start_and_ends_with_end_and_its_last_envelope(sandbox):
    with sandbox.start("printf 'h\\xc3'; printf '\\xa4' >&2; exit 3", stdin=False) as events:
        events = list(events)
    assert events[0][1]["event"]["start"]["pid"] > 1
    assert events[-1] == (2, {})
    end = events[-2][1]["event"]["end"]
    assert end == {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}
    pieces = {}
    for flags, message in events[1:-2]:
        assert flags == 0
        for name, data in message["event"]["data"].items():
            pieces[name] = pieces.get(name, b"") + base64.b64decode(data)
    assert pieces == {"stdout": b"h\xc3", "stderr": b"\xa4"}


def test_an_error_of_a_stream_is_its_last_envelope_and_of_a_unary_call_a_status(sandbox):
    with sandbox.stream("process.Process/Connect", {"process": {"pid": 99999}}) as events:
        [(flags, message)] = list(events)
    assert flags == 2 and message["error"]["code"] == "not_found"
    status, body = sandbox.unary("process.Process/SendSignal", {"process": {"pid": 99999}, "signal": "SIGNAL_SIGKILL"})
    assert (status, body["code"]) == (404, "not_found")
    status, body = sandbox.unary("filesystem.Filesystem/MakeDir", {"path": "/tmp"})
    assert (status, body["code"]) == (409, "already_exists")
    status, body = sandbox.unary("process.Process/NoSuch", {})
    assert (status, body["code"]) == (501, "unimplemented")


def test_signs_of_life_come_after_the_start(sandbox):
    with sandbox.start("read x", headers={"Keepalive-Ping-Interval": "1"}) as events:
        (_, first), (_, second) = next(events), next(events)
        assert "start" in first["event"] and second == {"event": {"keepalive": {}}}
        pid = first["event"]["start"]["pid"]
        assert sandbox.unary("process.Process/CloseStdin", {"process": {"pid": pid}}) == (200, {})
        assert list(events)[-1] == (2, {})


def test_a_process_is_ended_at_its_deadline_and_not_when_its_client_leaves(sandbox):
    with sandbox.start("exec sleep 1000") as events:
        pid = next(events)[1]["event"]["start"]["pid"]
    listed = sandbox.unary("process.Process/List", {})[1]["processes"]
    assert pid in [one["pid"] for one in listed]
    assert sandbox.unary("process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"}) == (200, {})
    with sandbox.stream("process.Process/Connect", {"process": {"pid": pid}}) as events:
        last = [message for _, message in events]
    assert last[-2]["event"]["end"]["status"] == "signal: terminated", "the end is told for a while"
    with sandbox.start("exec sleep 1000", headers={"Connect-Timeout-Ms": "200"}) as events:
        assert list(events)[-1][1]["error"]["code"] == "deadline_exceeded"


def test_a_sandbox_that_ends_breaks_its_streams_and_answers_502(server):
    own = server.sandbox()
    assert own.call("GET", "/health")[0] == 204
    with own.start("sleep 1000") as events, own.stream("filesystem.Filesystem/WatchDir", {"path": "/tmp"}) as changes:
        next(events)
        assert next(changes) == (0, {"start": {}})
        server.control("DELETE", f"/sandboxes/{own.id}")
        for stream in (events, changes):
            with pytest.raises((http.client.IncompleteRead, ConnectionError, struct.error)):
                list(stream)
    for method, path in (("GET", "/health"), ("POST", "/process.Process/List"), ("GET", "/files?path=x")):
        status, _, body = own.call(method, path, "{}" if method == "POST" else None)
        assert status == 502, (path, body)
        assert json.loads(body) == {"sandboxId": own.id, "message": "The sandbox was not found", "code": 502}


def test_lines_of_code_are_ascii_and_never_empty(sandbox):
    status, headers, body = sandbox.call("POST", "/execute", json.dumps({"code": "print('€🙂')\n'x'", "context_id": None,
                                                                        "language": None, "env_vars": None}), port=49999)
    assert status == 200 and body.isascii() and b"\n\n" not in body
    lines = [json.loads(line) for line in body.splitlines()]
    assert [line["type"] for line in lines] == ["number_of_executions", "stdout", "result", "end_of_execution"]
    assert lines[1]["text"] == "€🙂\n" and lines[1]["timestamp"].endswith("Z")
    assert lines[2]["text"] == "x" and lines[2]["is_main_result"] is True
    assert sandbox.call("POST", "/execute", '{"code":"1","context_id":"c1","language":"python"}', port=49999)[0] == 400
    assert sandbox.call("POST", "/execute", '{"code":"1","context_id":"nope"}', port=49999)[0] == 404


def test_contexts_need_no_token_and_everything_else_does(server, sandbox):
    bare = {"E2b-Sandbox-Id": sandbox.id, "E2b-Sandbox-Port": "49999"}
    assert server.raw("GET", "/contexts", None, bare)[0] == 200
    made = json.loads(server.raw("POST", "/contexts", "{}", bare)[2])
    assert made["cwd"] == "/home/user" and made["language"] == "python"
    assert server.raw("DELETE", f"/contexts/{made['id']}", None, bare)[0] == 200
    assert server.raw("GET", "/contexts", None, {**bare, "E2b-Sandbox-Id": sandbox.id[:8]})[0] == 502, "no shortened ids"
    for method, path in (("POST", "/execute"), ("POST", "/process.Process/List"), ("GET", "/envs")):
        status, _, body = server.raw(method, path, "{}" if method == "POST" else None, bare)
        assert status == 401, (path, body)
        assert json.loads(body)["code"] == 401


def test_headers_host_or_token_name_the_sandbox_whatever_the_path_says(server, sandbox):
    ours = server.raw("GET", "/health")
    assert ours[0] == 200 and json.loads(ours[2])["status"] == "healthy"
    assert sandbox.call("GET", "/health")[0] == 204
    assert server.raw("GET", "/health", None, {"X-Access-Token": sandbox.token})[0] == 204
    host = f"49983-{sandbox.id}.localhost:{server.port}"
    assert server.raw("GET", "/health", None, {"Host": host})[0] in (204, 403), "403: a name that SANDBOX_HOSTS does not have"
    status, _, body = sandbox.call("GET", "/metrics")
    assert status == 200 and json.loads(body)["mem_total"] > 0
    assert server.raw("POST", "/execute", '{"code":"print(1)"}', {"X-API-Key": server.e2b})[0] == 200


def test_files_without_headers_are_found_by_their_signature(server, sandbox):
    assert sandbox.call("POST", "/files?path=a.txt", b"text", **{"Content-Type": "application/octet-stream"})[0] == 200
    def signed(path, operation, more=""):
        raw = f"{path}:{operation}:user:{sandbox.token}{':' + more if more else ''}"
        text = base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode().rstrip("=")
        return f"/files?path={path}&username=user&signature=v1_{text.replace('+', '%2B')}" + \
            (f"&signature_expiration={more}" if more else "")
    assert server.raw("GET", signed("a.txt", "read"))[::2] == (200, b"text")
    assert server.raw("GET", signed("a.txt", "write"))[0] == 401
    for path, message in ((signed("a.txt", "read", "1"), "signature is already expired"), ("/files?path=a.txt", "missing signature query parameter"),
                          ("/files?path=a.txt&username=user&signature=v1_x", "invalid signature")):
        status, _, body = server.raw("GET", path)
        assert (status, json.loads(body)["message"]) == (401, message)


def test_a_tenant_does_not_see_anothers_sandboxes(server, sandbox):
    other = server.caller("other").text
    for method, path in (("GET", f"/sandboxes/{sandbox.id}"), ("DELETE", f"/sandboxes/{sandbox.id}"),
                         ("POST", f"/v2/sandboxes/{sandbox.id}/connect")):
        assert server.raw(method, path, "{}" if method == "POST" else None, {"X-API-Key": other})[0] == 404
    assert sandbox.id not in server.raw("GET", "/v2/sandboxes", None, {"X-API-Key": other})[2].decode()


def test_a_token_ends_with_the_key_that_made_its_sandbox(server):
    key = server.post("/v1/keys", {"tenant": "gone", "format": "e2b"}, 201)
    _, _, text = server.raw("POST", "/v2/sandboxes", '{"templateID":"base"}', {"X-API-Key": key["key"]})
    own = Sandbox(server, json.loads(text))
    assert own.unary("process.Process/List", {})[0] == 200
    server.call("DELETE", f"/v1/keys/{key['id']}")
    assert own.unary("process.Process/List", {})[0] == 401
    server.end("s_" + own.id)


def test_ids_that_are_secrets_are_not_in_log_and_metrics(server, sandbox):
    server.control("GET", f"/sandboxes/{sandbox.id}")
    sandbox.call("GET", "/contexts", port=49999)
    assert "/sandboxes/{id}" in server.said()
    assert sandbox.id not in server.said()
    assert sandbox.token not in server.said()
    assert sandbox.id not in server.call("GET", "/metrics").body.decode()


def test_sandboxes_are_there_after_a_restart_of_the_broker():
    with Server() as server:
        own = server.sandbox(metadata={"a": "b"}, timeout=500)
        with own.start("exec sleep 1000") as events:
            pid = next(events)[1]["event"]["start"]["pid"]
        own.call("POST", "/files?path=m.txt", b"x", **{"Content-Type": "application/octet-stream", "X-Metadata-Author": "me"})
        install.kill_broker(server)
        about = server.control("GET", f"/sandboxes/{own.id}")[2]
        assert about["metadata"] == {"a": "b"} and about["templateID"] == "base"
        assert about["envdAccessToken"] == own.token
        assert pid in [one["pid"] for one in own.unary("process.Process/List", {})[1]["processes"]]
        assert own.unary("filesystem.Filesystem/Stat", {"path": "m.txt"})[1]["entry"]["metadata"] == {"author": "me"}
        server.control("DELETE", f"/sandboxes/{own.id}")


# ---- what one request or client can make large ----

def test_a_folder_with_too_many_entries_is_an_error_that_says_so(sandbox):
    with sandbox.start("mkdir /tmp/many /tmp/few; cd /tmp/many; seq 10001 | xargs touch; cd ../few; seq 50 | xargs touch") as events:
        list(events)
    status, told = sandbox.unary("filesystem.Filesystem/ListDir", {"path": "/tmp/many", "depth": 1})
    assert (status, told["code"]) == (429, "resource_exhausted") and "more entries than one call lists" in told["message"], told
    status, told = sandbox.unary("filesystem.Filesystem/ListDir", {"path": "/tmp/few", "depth": 1})
    assert status == 200 and len(told["entries"]) == 50


def test_a_watcher_that_is_not_asked_ends_and_says_so(sandbox):
    status, made = sandbox.unary("filesystem.Filesystem/CreateWatcher", {"path": "/tmp", "recursive": False})
    assert status == 200
    with sandbox.start("cd /tmp; for i in $(seq 30); do echo > $i; done") as events:
        list(events)
    status, told = sandbox.unary("filesystem.Filesystem/GetWatcherEvents", made)
    assert status == 200 and {event["name"] for event in told["events"]} == {str(i) for i in range(1, 31)}
    assert sandbox.unary("filesystem.Filesystem/GetWatcherEvents", made) == (200, {"events": []})
    name = "n" * 200
    with sandbox.start(f"cd /tmp; for i in $(seq 3000); do echo > {name}; rm {name}; done") as events:
        list(events)
    status, told = sandbox.unary("filesystem.Filesystem/GetWatcherEvents", made)
    assert (status, told["code"]) == (429, "resource_exhausted") and "some are missing" in told["message"], told
    assert sandbox.unary("filesystem.Filesystem/GetWatcherEvents", made)[0] == 404, "it has ended"


def test_watchers_of_one_tenant_leave_room_for_others(server):
    own, other = server.sandbox(), server.caller("watching").text
    for _ in range(64):
        assert own.unary("filesystem.Filesystem/CreateWatcher", {"path": "/tmp"})[0] == 200
    status, told = own.unary("filesystem.Filesystem/CreateWatcher", {"path": "/tmp"})
    assert status == 429 and "most of a tenant" in told["message"], told
    theirs = Sandbox(server, json.loads(server.raw("POST", "/v2/sandboxes", '{"templateID":"base"}', {"X-API-Key": other})[2]))
    assert theirs.unary("filesystem.Filesystem/CreateWatcher", {"path": "/tmp"})[0] == 200
    for one in (own, theirs):
        server.end("s_" + one.id)


def test_metadata_of_files_has_a_maximum_for_a_sandbox(sandbox):
    metadata = {f"X-Metadata-{i}": "x" * 250 for i in range(15)}
    binary = {"Content-Type": "application/octet-stream"}
    stored = 0
    while sandbox.call("POST", f"/files?path=f{stored}", b"x", **binary, **metadata)[0] == 200:
        stored += 1
        assert stored < 100, "256 KB in all"
    assert stored > 50
    status, _, told = sandbox.call("POST", "/files?path=more", b"x", **binary, **metadata)
    assert status == 507 and "256 KB in all" in json.loads(told)["message"], told
    assert sandbox.call("POST", "/files?path=f0", b"y", **binary, **metadata)[0] == 200, "in the place of its own"
    assert sandbox.call("POST", "/files?path=plain", b"y", **binary)[0] == 200


def test_one_upload_has_a_maximum_of_files(sandbox):
    def form(count):
        return "".join(f'--b\r\nContent-Disposition: form-data; name="file"; filename="/tmp/form/{i}"\r\n\r\nx\r\n'
                       for i in range(count)) + "--b--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    status, _, told = sandbox.call("POST", "/files", form(1001), **kind)
    assert status == 400 and "at most 1000 files" in json.loads(told)["message"], told
    status, _, told = sandbox.call("POST", "/files", form(200), **kind)
    assert status == 200 and len(json.loads(told)) == 200


def test_a_commands_tag_has_a_maximum(sandbox):
    with sandbox.start("true", tag="x" * 1025) as events:
        assert "tag: at most 1024 bytes" in list(events)[-1][1]["error"]["message"]


def test_a_watch_that_wants_entries_gets_them(sandbox):
    sandbox.unary("filesystem.Filesystem/MakeDir", {"path": "entries"})
    request = {"path": "entries", "includeEntry": True}
    watcher = sandbox.unary("filesystem.Filesystem/CreateWatcher", request)[1]
    with sandbox.stream("filesystem.Filesystem/WatchDir", request) as changes:
        assert next(changes) == (0, {"start": {}})
        sandbox.call("POST", "/files?path=entries/a.txt", b"12345", **{"Content-Type": "application/octet-stream"})
        for _, message in changes:
            seen = message["filesystem"]
            entry = seen["entry"]
            assert (seen["name"], entry["path"], entry["type"]) == ("a.txt", "/home/user/entries/a.txt", "FILE_TYPE_FILE")
            if seen["type"] == "EVENT_TYPE_WRITE":
                assert entry["size"] == "5"
                break
        sandbox.unary("filesystem.Filesystem/Remove", {"path": "entries/a.txt"})
        assert next(change for _, change in changes if change["filesystem"]["type"] == "EVENT_TYPE_REMOVE") == {
            "filesystem": {"name": "a.txt", "type": "EVENT_TYPE_REMOVE"}}
    polled = sandbox.unary("filesystem.Filesystem/GetWatcherEvents", watcher)[1]["events"]
    assert [one["type"] for one in polled][-1] == "EVENT_TYPE_REMOVE" and "EVENT_TYPE_WRITE" in [one["type"] for one in polled]


def test_a_stream_ends_at_the_time_its_client_set_and_its_command_goes_on(sandbox):
    with sandbox.start("exec sleep 1000") as events:
        pid = next(events)[1]["event"]["start"]["pid"]
    selector = {"process": {"pid": pid}}
    for method, request in (("process.Process/Connect", selector), ("filesystem.Filesystem/WatchDir", {"path": "/tmp"})):
        with sandbox.stream(method, request, **{"Connect-Timeout-Ms": "100"}) as events:
            flags, last = list(events)[-1]
        assert (flags, last["error"]["code"]) == (2, "deadline_exceeded"), method
    assert pid in [one["pid"] for one in sandbox.unary("process.Process/List", {})[1]["processes"]]
    assert sandbox.unary("process.Process/SendSignal", {**selector, "signal": "SIGNAL_SIGKILL"}) == (200, {})


def test_a_page_goes_on_where_the_last_one_ended_even_if_that_sandbox_is_gone(server):
    wanted = "/v2/sandboxes?metadata=page%3Dyes"
    made = [server.sandbox(metadata={"page": "yes"}).id for _ in range(6)]
    for order in ("desc", "asc"):
        ids = [one["sandboxID"] for one in server.control("GET", f"{wanted}&order={order}")[2]]
        assert set(ids) <= set(made)
        _, headers, first = server.control("GET", f"{wanted}&limit=2&order={order}")
        assert [one["sandboxID"] for one in first] == ids[:2]
        server.control("DELETE", f"/sandboxes/{ids[1]}")
        token = headers["X-Next-Token"]
        _, headers, second = server.control("GET", f"{wanted}&limit=4&order={order}&nextToken={token}")
        assert [one["sandboxID"] for one in second] == ids[2:] and not headers["X-Next-Token"]
    assert server.control("GET", f"{wanted}&nextToken=what")[0] == 400
    for one in made:
        server.control("DELETE", f"/sandboxes/{one}")


def test_metrics_of_several_sandboxes(server, sandbox):
    other = server.sandbox()
    status, _, told = server.control("GET", f"/sandboxes/metrics?sandbox_ids={sandbox.id},{other.id},{'0' * 32}")
    assert status == 200 and set(told["sandboxes"]) == {sandbox.id, other.id}
    for one in told["sandboxes"].values():
        assert one["memTotal"] > 0 and one["timestampUnix"] > 0 and one["cpuCount"] > 0
    server.control("DELETE", f"/sandboxes/{other.id}")
    assert server.control("GET", f"/sandboxes/metrics?sandbox_ids={other.id}")[2] == {"sandboxes": {}}
    assert server.control("GET", "/sandboxes/metrics")[0] == 400
    inside = json.loads(sandbox.call("GET", "/metrics")[2])
    assert inside["mem_total_mib"] == inside["mem_total"] >> 20 and {"mem_used_mib", "mem_cache_mib"} <= set(inside)


def test_logs_say_what_was_started_and_how_it_ended(server, sandbox):
    with sandbox.start("exit 3", tag="x") as events:
        list(events)
    told = server.control("GET", f"/sandboxes/{sandbox.id}/logs")[2]
    started, ended = [one for one in told["logEntries"] if "exit 3" in one["fields"]["argv"]]
    assert (started["message"], ended["message"], ended["fields"]["exit_code"]) == ("process started", "process ended", "3")
    assert started["timestamp"] <= ended["timestamp"] and started["level"] == "info"
    assert [one["timestamp"] for one in told["logs"]] == sorted(one["timestamp"] for one in told["logs"])
    assert any("process started" in one["line"] and "exit 3" in one["line"] for one in told["logs"])
    assert server.control("GET", f"/v2/sandboxes/{sandbox.id}/logs")[2] == {"logs": told["logEntries"]}
    assert len(server.control("GET", f"/sandboxes/{sandbox.id}/logs?limit=1")[2]["logs"]) == 1
    assert server.control("GET", f"/sandboxes/{sandbox.id}/logs?start=99999999999999")[2]["logs"] == []


def test_clients_with_e2b_debug_share_a_sandbox_only_where_the_server_allows_it(server):
    bare = {"E2b-Sandbox-Id": "debug_sandbox_id", "Content-Type": "application/json"}
    assert server.raw("POST", "/process.Process/List", "{}", bare)[0] == 401
    with Server({"SANDBOX_E2B_DEBUG": "true"}) as debug:
        assert debug.raw("GET", "/health", None, bare)[0] == 204
        assert debug.raw("GET", "/health")[0] == 200, "a request that names no sandbox is not such a client's"
        own = Sandbox(debug, {"sandboxID": "debug_sandbox_id"})
        with own.start("echo x > shared") as events:
            list(events)
        host = {"Host": "localhost:49983"}
        assert debug.raw("GET", "/files?path=shared", None, host)[::2] == (200, b"x\n"), "clients before 2.15"
        assert debug.raw("POST", "/execute", '{"code":"open(\\"/home/user/shared\\").read()"}',
                         {"Host": "localhost:49999"})[2].count(b"end_of_execution") == 1
        assert len(debug.get("/v1/sessions")["sessions"]) == 1
        assert debug.raw("GET", "/health", None, {**bare, "Origin": "http://elsewhere.example"})[0] == 403
