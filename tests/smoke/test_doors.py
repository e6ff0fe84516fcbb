"""Every door of README.md and every group of routes of /openapi.json once, over HTTP and behind our own TLS:
each has one result that is looked at.

ROUTES is the table of routes and DOORS that of doors; one that is missing there fails a test.
"""
import contextlib
import re

import pytest

import mcp_http
import serve
import support
import tcp
import tenants
import test_commands
import wsclient
from walk import furnished, group, is_about


@pytest.fixture(scope="module", params=["http", "https"])
def server(request, tmp_path_factory):
    tls = None
    if request.param == "https":
        tls = tcp.certificate(tmp_path_factory.mktemp("certificate"), "localhost")
    with tcp.Server(tls=tls, **furnished()) as running:
        yield running


class Caller(tenants.Caller):
    """A client over TCP with a key that has every scope."""

    def __init__(self, server):
        super().__init__(server, server.new_key(
            name="smoke", scopes=["run", "sessions", "files", "metrics", "admin", "operator"]))

    def ws(self, path):
        return wsclient.connect_tcp(("127.0.0.1", self.server.port), path, context=self.server.context,
                                    protocols=["bailey.v1", f"bailey.key.{self.text}"])


@pytest.fixture
def caller(server):
    return Caller(server)


@pytest.fixture
def session(caller):
    made = caller.session()["id"]
    yield made
    caller.end(made)


def outputs_of(events):
    """What came on standard output in events of a WebSocket."""
    return b"".join(serve.decoded(each["data"]) for each in events if each.get("event") == "stdout")


# --- REST: a function for each group of routes, with a key over TCP


def health(caller, session):
    assert caller.get("/healthz")["status"] == "ok"


def info(caller, session):
    assert caller.get("/v1/info")["version"] == support.bailey("version").stdout.split()[1]


def tools(caller, session):
    assert "sandbox_exec" in [each["name"] for each in caller.get("/v1/tools")["tools"]]
    said = caller.post("/v1/tools/sandbox_exec", {"command": ["echo", "hi"]}, session=session)
    assert said["stdout"] == "hi\n", said


def run(caller, session):
    done = caller.post("/v1/run", {"code": "print(6 * 7)"})
    assert (done["stdout"], done["exit_code"]) == ("42\n", 0), done


def sessions(caller, session):
    made = caller.session(name="smoke")["id"]
    assert {made, session} <= {each["id"] for each in caller.get("/v1/sessions")["sessions"]}
    assert caller.get(f"/v1/sessions/{made}")["name"] == "smoke"
    before = caller.get(f"/v1/sessions/{made}")["expires_at"]
    caller.post(f"/v1/sessions/{made}/extend", {"seconds": 9999})
    assert caller.get(f"/v1/sessions/{made}")["expires_at"] > before
    assert caller.post(f"/v1/sessions/{made}/pause")["state"] == "paused"
    assert caller.post(f"/v1/sessions/{made}/resume")["paused_at"] is None
    caller.end(made)
    assert caller.get(f"/v1/sessions/{made}")["state"] == "ended"


def commands(caller, session):
    assert caller.exec(session, "sh", "-c", "echo $((6 * 7))")["stdout"] == "42\n"
    started = caller.background(session, "cat", stdin=True)["execution_id"]
    where = f"/v1/sessions/{session}/processes"
    caller.asked("POST", f"{where}/{started}/stdin", b"typed\n", query={"end": "true"})
    assert caller.wait(started)["exit_code"] == 0
    assert caller.output(started).body == b"typed\n"
    assert started in [each["execution_id"] for each in caller.get(where)["processes"]]


def files(caller, session):
    caller.write(session, "/workspace/a", b"written")
    assert caller.read(session, "/workspace/a") == b"written"
    caller.post(f"/v1/sessions/{session}/files/move", {"from": "/workspace/a", "to": "/workspace/b"})
    listed = caller.get(f"/v1/sessions/{session}/files/list", path="/workspace")["entries"]
    assert [each["name"] for each in listed] == ["b"], listed


def datasets(caller, session):
    caller.asked("PUT", f"/v1/sessions/{session}/datasets/sales", b"a,b\n", 201)
    given, = caller.get(f"/v1/sessions/{session}/datasets")["datasets"]
    assert caller.exec(session, "cat", given["path"])["stdout"] == "a,b\n"


def ports(caller, session):
    """A server in the sandbox, with the key and by a signed link."""
    assert caller.get(f"/v1/sessions/{session}/ports")["ports"] == []
    serving = "cd /tmp && echo hi >hi.txt && exec python3 -u -m http.server --bind 127.0.0.1 8000"
    started = caller.background(session, "sh", "-c", serving)["execution_id"]
    path = f"/v1/sessions/{session}/processes/{started}"
    serve.polled(lambda: caller.get(path), lambda process: process["stdout_bytes"] > 0, "it listens")
    port, = caller.get(f"/v1/sessions/{session}/ports")["ports"]
    assert caller.asked("GET", port["url"] + "hi.txt").body == b"hi\n"
    link = caller.post(f"/v1/sessions/{session}/ports", {"port": 8000}, 201)["url"]
    assert caller.server.tcp("GET", link + "hi.txt", key=False).body == b"hi\n"
    caller.post(f"{path}/signal", {"signal": "KILL"})


def artifacts(caller, session):
    """An output, its artifact, and the signed link that needs no key."""
    caller.exec(session, "sh", "-c", "echo a,b > /tmp/output/t.csv")
    made, = caller.get(f"/v1/sessions/{session}/outputs")["outputs"]
    assert caller.asked("GET", f"/v1/sessions/{session}/outputs/t.csv").body == b"a,b\n"
    assert made["id"] in [each["id"] for each in caller.get("/v1/artifacts")["artifacts"]]
    link = caller.post(f"{made['url']}/link", {}, 201)["url"]
    reply = caller.server.tcp("GET", link, key=False)
    assert (reply.status, reply.body) == (200, b"a,b\n"), reply
    assert caller.server.tcp("GET", made["url"], key=False).status == 401


def events(caller, session):
    """Server-sent events: the output of a command, and the list of events from an id on."""
    body = {"argv": ["echo", "streamed"]}
    with caller.events(f"/v1/sessions/{session}/exec", body, method="POST") as stream:
        assert serve.decoded(stream.until("stdout").data) == b"streamed\n"
        stream.until("exit")
    with caller.events(f"/v1/sessions/{session}/events", last=0) as stream:
        began = stream.until("exec.started")
        ended = stream.until("exec.exited")
    with caller.events("/v1/events", last=began.id) as stream:
        assert stream.until("exec.exited", lambda data: data["session_id"] == session).id == ended.id


def websocket(caller, session):
    """A command and a cell over one connection."""
    with caller.ws(f"/v1/sessions/{session}/ws") as ws:
        reply = ws.ask("exec", argv=["sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x"])
        seen = ws.until("exit", reply["subscription"])
        assert outputs_of(seen) == b"x" * 100000
    with caller.ws("/v1/ws") as ws:
        reply = ws.ask("cell", session=session, code="print(6 * 7)")
        assert outputs_of(ws.until("exit", reply["subscription"])) == b"42\n"


def terminal(caller, session):
    ws = caller.ws(f"/v1/sessions/{session}/pty/ws?rows=30&columns=100")
    with contextlib.closing(ws):
        assert ws.receive()["type"] == "started"
        ws.send(b"stty size; exit 5\n")
        got = b""
        while isinstance(piece := ws.receive(), bytes):
            got += piece
        assert b"30 100" in got and piece["exit_code"] == 5, (got, piece)


def keys(caller, session):
    made = caller.post("/v1/keys", {"tenant": "acme", "scopes": ["run"]}, 201)
    assert made["id"] in [each["id"] for each in caller.get("/v1/keys")["keys"]]

    def status(method, path, body=None):
        return caller.server.tcp(method, path, body, key=made["key"]).status
    assert status("POST", "/v1/run", {"code": "1"}) == 200
    assert status("GET", "/v1/sessions") == 403  # not among its scopes
    caller.asked("DELETE", f"/v1/keys/{made['id']}")
    assert status("POST", "/v1/run", {"code": "1"}) == 401


def code(caller, session):
    caller.post(f"/v1/sessions/{session}/code", {"code": "x = 6"})
    cell = caller.post(f"/v1/sessions/{session}/code", {"code": "x * 7"})
    assert cell["results"][0]["data"]["text/plain"] == "42", cell
    assert len(caller.get(f"/v1/sessions/{session}/contexts")["contexts"]) == 1


def packages(caller, session):
    caller.post(f"/v1/sessions/{session}/packages", {"packages": ["moat"]})
    listed = caller.get(f"/v1/sessions/{session}/packages")["packages"]
    assert [(each["name"], each["version"]) for each in listed] == [("moat", "1.0")], listed
    assert caller.python(session, "import moat; print(moat.depth)")["stdout"] == "41\n"


def templates(caller, session):
    assert caller.post("/v1/templates", {"name": "mine", "packages": ["moat"]})["state"] == "built"
    done = caller.post("/v1/run", {"code": "import moat; print(moat.depth)", "template": "mine"})
    assert done["stdout"] == "41\n", done
    caller.asked("DELETE", "/v1/templates/mine")


def warm(caller, session):
    assert "zygotes" in caller.get("/v1/warm")


def metrics(caller, session):
    tenant = caller.get(f"/v1/sessions/{session}")["tenant"]
    counter = f'bailey_results_total{{kind="exec",result="error",tenant="{tenant}"}}'

    def count():
        text = caller.asked("GET", "/metrics").body.decode()
        return sum(map(int, re.findall(f"^{re.escape(counter)} (\\d+)$", text, re.M)))
    before = count()
    caller.exec(session, "false")
    assert count() == before + 1


def audit(caller, session):
    caller.exec(session, "sh", "-c", "exit 7")
    lines = caller.asked("GET", "/v1/audit", query={"session": session}).body.decode().splitlines()
    assert any('"exit_code":7' in line for line in lines), lines


def reload(caller, session):
    """On the unix socket only: the command `reload` does the work there."""
    body = {"settings": {"SANDBOX_QUOTA_SESSIONS": "1"}}
    caller.refused("POST", "/v1/reload", 403, "forbidden", body)
    assert "SANDBOX_QUOTA_SESSIONS" not in caller.server.bailey("reload").stdout


def execute(caller, session):
    done = caller.post("/execute", {"code": "print(6 * 7)"})
    assert (done["status"], done["stdout"]) == ("success", "42\n"), done
    assert caller.get("/health")["status"] == "healthy"


def paper(caller, session):
    """The OpenAPI document and its page need no key."""
    told = caller.server.tcp("GET", "/openapi.json", key=False).json()
    assert told["openapi"].startswith("3.") and "/v1/run" in told["paths"]
    page = caller.server.tcp("GET", "/docs", key=False)
    assert page.headers["Content-Type"].startswith("text/html") and b"</html>" in page.body


def containers(caller, session):
    """An uploaded file in a container, and back."""
    form = (b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="t.txt"\r\n\r\nhello\r\n--x--\r\n')
    file = caller.call("POST", "/v1/files", form, {"Content-Type": "multipart/form-data; boundary=x"}).json()
    assert caller.get(f"/v1/files/{file['id']}")["bytes"] == 5, file
    made = caller.post("/v1/containers", {"name": "smoke", "file_ids": [file["id"]]})
    one, = caller.get(f"/v1/containers/{made['id']}/files")["data"]
    read = caller.asked("GET", f"/v1/containers/{made['id']}/files/{one['id']}/content")
    assert (one["path"], read.body) == ("/mnt/data/t.txt", b"hello"), one
    for path in (f"/v1/containers/{made['id']}", f"/v1/files/{file['id']}"):
        assert caller.call("DELETE", path).status == 200


def codebox(caller, session):
    told = caller.post(f"/v1/sessions/{session}/codebox", {"code": "6 * 7"})
    assert told == {"type": "text", "content": "42"}, told


def models(caller, session):
    """Without a model server: an error that says how to have one."""
    for path, body in (("/v1/responses", {"input": "hi"}), ("/v1/chat", {"message": "hi"})):
        reply = caller.call("POST", path, body)
        assert reply.status >= 400 and "BAILEY_UPSTREAM_URL" in reply.json()["error"]["message"], reply


ROUTES = {
    "/healthz": health, "/v1/info": info, "/v1/tools": tools, "/v1/run": run,
    "/v1/sessions": sessions, "/v1/sessions/{id}": sessions, "/v1/sessions/{id}/extend": sessions,
    "/v1/sessions/{id}/pause": sessions, "/v1/sessions/{id}/resume": sessions,
    "/v1/sessions/{id}/exec": commands, "/v1/sessions/{id}/processes": commands,
    "/v1/sessions/{id}/files": files, "/v1/sessions/{id}/datasets": datasets,
    "/v1/sessions/{id}/outputs": artifacts, "/v1/artifacts": artifacts,
    "/v1/sessions/{id}/ports": ports,
    "/v1/sessions/{id}/events": events, "/v1/events": events,
    "/v1/sessions/{id}/ws": websocket, "/v1/ws": websocket, "/v1/sessions/{id}/pty": terminal,
    "/v1/sessions/{id}/code": code, "/v1/sessions/{id}/contexts": code,
    "/v1/sessions/{id}/codebox": codebox, "/v1/containers": containers, "/v1/files": containers,
    "/v1/responses": models, "/v1/chat": models,
    "/v1/sessions/{id}/packages": packages, "/v1/templates": templates, "/v1/warm": warm,
    "/v1/keys": keys, "/metrics": metrics, "/v1/audit": audit, "/v1/reload": reload,
    "/execute": execute, "/health": execute, "/openapi.json": paper, "/docs": paper,
}


@pytest.mark.parametrize("walk", dict.fromkeys(ROUTES.values()), ids=lambda walk: walk.__name__)
def test_route(caller, session, asked, walk):
    walk(caller, session)
    for wanted in (path for path, function in ROUTES.items() if function is walk):
        assert any(is_about(path, wanted) for path in asked), (wanted, asked)


def test_every_route_is_walked(server):
    groups = {group(path) for path in server.get("/openapi.json")["paths"]}
    assert groups == set(ROUTES), "a row of ROUTES for each group of routes of /openapi.json"


# --- doors that are no route, or more than one


def test_socket(server):
    """REST and WebSocket on the unix socket need no key; over TCP the same address does."""
    made = server.session()["id"]
    assert server.exec(made, "echo", "hi")["stdout"] == "hi\n"
    with wsclient.connect(server, f"/v1/sessions/{made}/ws") as ws:
        reply = ws.ask("exec", argv=["echo", "hi"])
        assert outputs_of(ws.until("exit", reply["subscription"])) == b"hi\n"
    assert server.tcp("GET", f"/v1/sessions/{made}", key=False).status == 401
    server.end(made)


@pytest.mark.parametrize("is_local", [True, False], ids=["socket", "tcp"])
def test_modern_mcp(server, is_local):
    modern = mcp_http.Modern(server, is_local=is_local)
    assert "sandbox_exec" in [each["name"] for each in modern.request("tools/list")["result"]["tools"]]
    made = modern.call("sandbox_exec", {"command": ["sh", "-c", "echo $((6 * 7))"]})
    assert "42" in mcp_http.text_of(made), made
    server.end(mcp_http.session_of(made))


@pytest.mark.parametrize("is_local", [True, False], ids=["socket", "tcp"])
def test_legacy_mcp(server, is_local):
    """A conversation: the second call finds the file of the first."""
    legacy = mcp_http.Legacy(server, is_local=is_local)
    legacy.tell("notifications/initialized")
    legacy.call("sandbox_exec", {"command": ["sh", "-c", "echo kept > /tmp/note"]})
    assert "kept" in mcp_http.text_of(legacy.call("sandbox_exec", {"command": ["cat", "/tmp/note"]}))
    reply = legacy.ask("DELETE", None, legacy.headers)
    assert reply.status in (200, 204), reply


def test_e2b(server):
    """What E2B's SDKs send: a sandbox, code in it, its end."""
    key = {"X-API-Key": server.bailey("key", "new", "--format", "e2b").stdout.strip()}
    made = server.tcp("POST", "/sandboxes", {"templateID": "base", "secure": True}, key, key=False).json()
    headers = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49999",
               "X-Access-Token": made["envdAccessToken"]}
    lines = server.tcp("POST", "/execute", {"code": "6 * 7"}, headers, key=False).body
    assert b'"text":"42"' in lines.replace(b" ", b""), lines
    assert server.tcp("DELETE", f"/sandboxes/{made['sandboxID']}", None, key, key=False).status == 204


def test_scalebox(server):
    """What Scalebox's SDKs send: a sandbox, a file in it, its end."""
    key = {"X-API-KEY": server.bailey("key", "new").stdout.strip()}
    made = server.tcp("POST", "/v1/sandboxes", {"template": "base"}, key, key=False).json()["data"]
    token = {"X-Access-Token": made["envd_access_token"], "Authorization": "Bearer root"}
    told = server.tcp("POST", "/sandboxagent.Filesystem/MakeDir", {"path": "/home/user/new"}, token, key=False).json()
    assert told["entry"]["path"] == "/home/user/new", told
    assert server.tcp("GET", "/download/home/user/none", None, token, key=False).status == 404
    assert server.tcp("DELETE", f"/v1/sandboxes/{made['sandbox_id']}", None, key, key=False).status == 204


# Rows of the table "Doors" in README.md, and what goes through each.
DOORS = {
    "command line": test_commands.COMMANDS.values(),
    "MCP over stdio": [test_commands.mcp],
    "REST": [test_socket],
    "REST over TCP, HTTPS with a certificate": [sessions, commands, files],
    "server-sent events": [events],
    "WebSocket": [websocket, terminal],
    "MCP over HTTP": [test_modern_mcp, test_legacy_mcp],
    "E2B's SDKs": [test_e2b],
    "Scalebox's SDKs": [test_scalebox],
    "OpenAI's Responses": [models],
    "containers, files, chat": [containers, models],
    "POST /execute": [execute],
    "outputs by a signed link": [artifacts],
    "metrics": [metrics],
    "API documentation": [paper],
}


def test_every_door_is_walked():
    table = (support.REPO / "README.md").read_text().partition("### Doors")[2].partition("\n#")[0]
    cells = re.findall(r"^\| (.*?) \|", table, re.M)[1:]  # without the heading
    rows = [re.sub(r"\]\(.*?\)|[\[`]", "", cell) for cell in cells]
    assert rows == list(DOORS), "a row of DOORS for each door of README.md"
    walked = {*ROUTES.values(), *test_commands.COMMANDS.values(), *(
        value for name, value in globals().items() if name.startswith("test_"))}
    assert all(set(walks) and set(walks) <= walked for walks in DOORS.values())
