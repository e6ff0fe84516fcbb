"""Every run, file change, key change and denial has its line in the audit, whichever door it came by.

Each row of the table does one thing with a trace of its own; its lines are found by that trace and
say who (tenant, key, request), what (hash, and the code where it is kept), how it ended and which
layers held.
"""
import hashlib
import json
import secrets

import pytest

import install
import mcp_http
import serve
import tenants
import wheels
import wsclient

PARENT = "00f067aa0ba902b7"
BAD = "print('x'); raise SystemExit(3)"
LAYERS = {"layers": lambda layers: "seccomp" in layers}
KEPT = {"code": BAD, "result": "error", "exit_code": 3, **LAYERS}


def code(text):
    return {"code_sha256": serve.sha256(text.encode())}


def words(*argv):
    return {"code_sha256": hashlib.sha256("".join(w + "\0" for w in argv).encode()).hexdigest()}


class World:
    """A server with an owner, a tenant that may everything it needs, and one that may little."""

    def __init__(self, server):
        self.server = server
        self.acme = server.caller("acme")
        self.admin = server.caller("office", ["operator"])
        self.little = server.caller("little", ["sessions"])
        self.session = self.acme.session()["id"]
        self.poor = self.little.session()["id"]
        install.install(self.acme, self.session, "PyWavelets")  # the first starts the proxy
        self.acme.exec(self.session, "ln", "-s", "/etc", "/workspace/out")
        self.port = server.port  # as mcp_http wants it


class Deed:
    """One row at work: its headers, and who does it."""

    def __init__(self, world, who):
        self.world, self.who = world, who
        self.trace = secrets.token_hex(16)
        self.request = f"row-{secrets.token_hex(4)}"
        self.headers = {"X-Request-Id": self.request,
                        "traceparent": f"00-{self.trace}-{PARENT}-01"}

    def rest(self, method, path, body=None, status=200):
        path = path.format(id=self.world.session, poor=self.world.poor)
        return self.who.asked(method, path, body, status, headers=self.headers)

    def execute(self, status=200, **body):
        return self.rest("POST", "/execute", body, status)

    def mcp(self, tool, **arguments):
        door = mcp_http.Modern(self.world, key=self.who.text)
        door.auth.update(self.headers)
        if tool != "run_python_code":
            arguments["session"] = self.world.session
        return door.call(tool, arguments)

    def ws(self, kind, session="session", **members):
        path = f"/v1/sessions/{getattr(self.world, session)}/ws"
        with wsclient.connect_tcp(("127.0.0.1", self.world.port), path,
                                  headers={**self.headers, **self.who.headers}) as ws:
            reply = ws.ask(kind, **members)
            ws.until("exit", reply["subscription"])

    def ws_refused(self, kind, **members):
        path = f"/v1/sessions/{self.world.poor}/ws"
        with wsclient.connect_tcp(("127.0.0.1", self.world.port), path,
                                  headers={**self.headers, **self.who.headers}) as ws:
            ws.refused(kind, **members)

    def pty(self):
        path = f"/v1/sessions/{self.world.session}/pty/ws"
        with wsclient.connect_tcp(("127.0.0.1", self.world.port), path,
                                  headers={**self.headers, **self.who.headers}) as ws:
            ws.send(b"exit 3\n")
            with pytest.raises(wsclient.Closed):
                while True:
                    ws.receive()


def full(deed):
    for _ in range(4):
        reply = deed.who.call("POST", "/v1/sessions", {}, deed.headers)
        if reply.status == 429:
            return
    raise AssertionError(reply)


# name: (who, what is done, action of the line, what it says besides)
ROWS = {
    "rest run": ("acme", lambda d: d.rest("POST", "/v1/run", {"code": "print(1)"}), "run",
                 {"result": "ok", "code": None, **code("print(1)"), **LAYERS}),
    "rest run fails": ("acme", lambda d: d.rest("POST", "/v1/run", {"code": BAD}), "run", KEPT),
    "rest run too long": ("acme", lambda d: d.rest("POST", "/v1/run", {
        "code": "while True: pass", "timeout": 0.2}), "run", {"result": "timeout", **LAYERS}),
    "rest run blocked": ("acme", lambda d: d.rest("POST", "/v1/run", {"code": "import socket"}),
                         "run", {"result": "refused", "error": "blocked_import"}),
    "rest exec": ("acme", lambda d: d.rest("POST", "/v1/sessions/{id}/exec", {
        "argv": ["echo", "hi"]}), "exec", {"result": "ok", "argv": None, **words("echo", "hi"),
                                          **LAYERS}),
    "rest exec fails": ("acme", lambda d: d.rest("POST", "/v1/sessions/{id}/exec", {
        "argv": ["sh", "-c", "exit 4"]}), "exec", {
            "result": "error", "exit_code": 4, "argv": ["sh", "-c", "exit 4"], **LAYERS}),
    "rest cell": ("acme", lambda d: d.rest("POST", "/v1/sessions/{id}/code", {"code": "1 + 1"}),
                  "cell", {"result": "ok", "language": "python", **code("1 + 1"), **LAYERS}),
    "rest session": ("acme", lambda d: d.rest("DELETE", "/v1/sessions/" + d.rest(
        "POST", "/v1/sessions", {}, 201).json()["id"]), "session.created", {}),
    "rest session ends": ("acme", lambda d: d.rest("DELETE", "/v1/sessions/" + d.rest(
        "POST", "/v1/sessions", {}, 201).json()["id"]), "session.ended", {}),
    "rest file": ("acme", lambda d: d.rest("PUT", "/v1/sessions/{id}/files?path=/workspace/a", b"abc"),
                  "file", {"path": "/workspace/a", "change": "written", "bytes": 3, "result": "ok"}),
    "rest folder": ("acme", lambda d: d.rest("POST", "/v1/sessions/{id}/files/mkdir", {
        "path": f"/workspace/{d.request}"}), "file", {"result": "ok"}),
    "rest move": ("acme", lambda d: [
        d.who.write(d.world.session, "/workspace/m", b"x"),
        d.rest("POST", "/v1/sessions/{id}/files/move", {"from": "/workspace/m", "to": "/tmp/m"})],
        "file", {"path": "/tmp/m", "result": "ok"}),
    "rest chmod": ("acme", lambda d: [
        d.who.write(d.world.session, "/workspace/c", b"x"),
        d.rest("POST", "/v1/sessions/{id}/files/chmod", {"path": "/workspace/c", "mode": "0600"})],
        "file", {"path": "/workspace/c", "result": "ok"}),
    "rest remove": ("acme", lambda d: [
        d.who.write(d.world.session, "/workspace/r", b"x"),
        d.rest("DELETE", "/v1/sessions/{id}/files?path=/workspace/r")],
        "file", {"path": "/workspace/r", "change": "removed", "result": "ok"}),
    "rest dataset": ("acme", lambda d: d.rest("PUT", "/v1/sessions/{id}/datasets/d", b"a\n", 201),
                     "file", {"result": "ok", "bytes": 2}),
    "rest read only": ("acme", lambda d: d.rest(
        "PUT", "/v1/sessions/{id}/files?path=/tmp/data/x", b"x", 403), "denied",
        {"error": "read_only"}),
    "rest link out": ("acme", lambda d: d.rest(
        "PUT", "/v1/sessions/{id}/files?path=/workspace/out/x", b"x", 403), "denied",
        {"error": "path_refused"}),
    "rest install": ("acme", lambda d: d.rest("POST", "/v1/sessions/{id}/packages", {
        "packages": ["moat"]}), "install", {
            "result": "ok", "packages": ["moat"],
            "installed": lambda found: found[0]["name"] == "moat"}),
    "rest install denied": ("acme", lambda d: d.rest("POST", "/v1/sessions/{id}/packages", {
        "packages": ["tower"]}, 403), "denied", {"error": "install_denied"}),
    "rest cell installs": ("acme", lambda d: d.rest("POST", "/v1/sessions/{id}/code", {
        "code": "import castle"}), "install", {"result": "ok", "packages": ["castle"]}),
    "rest cell may not install": ("acme", lambda d: d.rest("POST", "/v1/sessions/{id}/code", {
        "code": "import tower"}), "install", {"result": "refused", "error": "install_denied"}),
    "rest run installs": ("acme", lambda d: d.rest("POST", "/v1/run", {"code": "import moat"}),
                          "install", {"result": "ok", "packages": ["moat"]}),
    "rest run may not install": ("acme", lambda d: d.rest("POST", "/v1/run", {
        "code": "import tower"}), "install", {"result": "refused", "error": "install_denied"}),
    "rest key": ("admin", lambda d: d.rest("POST", "/v1/keys", {"tenant": "t"}, 201), "key",
                 {"change": "new", "key_tenant": "t"}),
    "rest key turned": ("admin", lambda d: d.rest("POST", "/v1/keys/" + d.world.admin.post(
        "/v1/keys", {"tenant": "t"}, 201)["id"] + "/rotate", {}), "key", {"change": "rotate"}),
    "rest key removed": ("admin", lambda d: d.rest("DELETE", "/v1/keys/" + d.world.admin.post(
        "/v1/keys", {"tenant": "t"}, 201)["id"]), "key", {"change": "rm"}),
    "rest no scope": ("acme", lambda d: d.rest("GET", "/v1/keys", None, 403), "denied",
                      {"error": "forbidden", "path": "/v1/keys", "method": "GET"}),
    "rest no key": ("nobody", lambda d: d.rest("GET", "/v1/info", None, 401), "denied",
                    {"error": "unauthorized"}),
    "rest quota": ("little", full, "denied", {"error": "quota_exceeded", "quota": "sessions"}),
    "rest tool": ("acme", lambda d: d.rest("POST", "/v1/tools/run_python_code", {"code": BAD}), "run",
                  KEPT),
    "execute": ("acme", lambda d: d.execute(code="print(1)"), "run",
                {"result": "ok", **code("print(1)"), **LAYERS}),
    "execute fails": ("acme", lambda d: d.execute(code=BAD), "run", KEPT),
    "execute installs": ("acme", lambda d: d.execute(code="import moat", requirements=["moat"]),
                         "install", {"result": "ok", "packages": ["moat"]}),
    "execute may not install": ("acme", lambda d: d.execute(code="1", requirements=["tower"]),
                                "denied", {"error": "install_denied", "path": "/execute"}),
    "execute no scope": ("little", lambda d: d.execute(403, code="1"), "denied",
                         {"error": "forbidden"}),
    "execute no key": ("nobody", lambda d: d.execute(401, code="1"), "denied",
                       {"error": "unauthorized"}),
    "mcp run": ("acme", lambda d: d.mcp("run_python_code", code=BAD), "run", KEPT),
    "mcp exec": ("acme", lambda d: d.mcp("sandbox_exec", command=["sh", "-c", "exit 4"]), "exec",
                 {"result": "error", "exit_code": 4, **words("sh", "-c", "exit 4"), **LAYERS}),
    "mcp cell": ("acme", lambda d: d.mcp("run_code", code="2 + 2", language="python"), "cell",
                 {"result": "ok", **code("2 + 2"), **LAYERS}),
    "mcp file": ("acme", lambda d: d.mcp("sandbox_write_file", file_path="/tmp/w", content="abc"),
                 "file", {"path": "/tmp/w", "change": "written", "bytes": 3, "result": "ok"}),
    "mcp edit": ("acme", lambda d: [
        d.who.write(d.world.session, "/tmp/e", b"abc"),
        d.mcp("sandbox_edit_file", file_path="/tmp/e", old_string="b", new_string="bb")],
        "file", {"path": "/tmp/e", "change": "written", "bytes": 4, "result": "ok"}),
    "mcp tool": ("acme", lambda d: d.mcp("sandbox_exec", command=["true"]), "tool",
                 {"tool": "sandbox_exec", "result": "ok"}),
    "mcp denied": ("acme", lambda d: d.mcp("sandbox_write_file", file_path="/etc/x", content=""),
                   "denied", {"error": "path_invalid", "tool": "sandbox_write_file"}),
    "mcp no key": ("nobody", lambda d: d.rest("POST", "/mcp", {}, 401), "denied",
                   {"error": "unauthorized", "path": "/mcp"}),
    "ws exec": ("acme", lambda d: d.ws("exec", argv=["sh", "-c", "exit 4"]), "exec",
                {"result": "error", "argv": ["sh", "-c", "exit 4"], **LAYERS}),
    "ws cell": ("acme", lambda d: d.ws("cell", code="3 + 3"), "cell",
                {"result": "ok", **code("3 + 3"), **LAYERS}),
    "ws terminal": ("acme", Deed.pty, "exec", {"result": "error", "exit_code": 3, **LAYERS}),
    "ws no scope": ("little", lambda d: d.ws_refused("subscribe", what="files", path="/tmp"),
                    "denied", {"error": "forbidden", "method": "WS"}),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    shelf = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(shelf, *install.ALL)
    with tenants.Server(install.settings(
            shelf, SANDBOX_INSTALL_DENY="tower", SANDBOX_BLOCK_DANGEROUS_IMPORTS="true",
            SANDBOX_BLOCKED_IMPORTS="socket", SANDBOX_QUOTA_SESSIONS=3)) as server:
        made = World(server)
        made.nobody = server.anybody()
        yield made
        for row in server.get("/v1/sessions")["sessions"]:
            server.end(row["id"])


def fits(line, wanted):
    return all(line.get(name) is None if value is None else
               name in line and (value(line[name]) if callable(value) else line[name] == value)
               for name, value in wanted.items())


@pytest.mark.parametrize("name", ROWS)
def test_a_line(world, name):
    who, act, action, wanted = ROWS[name]
    deed = Deed(world, getattr(world, who))
    act(deed)

    def found():
        return [line for line in world.server.audit() if line.get("trace_id") == deed.trace]
    told = serve.polled(found, lambda lines: any(one["action"] == action for one in lines),
                        f"a line '{action}'")
    line = [one for one in told if one["action"] == action][-1]
    assert fits(line, wanted), (wanted, json.dumps(line))
    for one in told:
        assert one["request_id"] == deed.request and one["parent_id"] == PARENT, one
        assert "local" not in one, one
        if who != "nobody":
            assert (one["tenant"], one["key"]) == (deed.who.key["tenant"], deed.who.key["id"]), one
        else:
            assert "tenant" not in one and "key" not in one, one
    # One denial, one line; and what was begun has ended.
    assert len([one for one in told if one["action"] == "denied"]) == (action == "denied"), told
    if action in ("run", "exec", "cell"):
        assert [one["execution_id"] for one in told if one["action"] == action + ".started"] == [
            line["execution_id"]] or line.get("error") == "blocked_import", told


def test_the_chain_of_all_that_holds(world):
    done = world.server.bailey("audit", "verify", "--json")
    assert done.status == 0 and json.loads(done.out)["intact"], done
    assert len(json.loads(done.out)["hash"]) == 64


def test_over_the_socket_the_owner_is_local(world):
    made = world.server.bailey("key", "new", "--tenant", "cli", "--json")
    assert made.status == 0, made
    line = [one for one in world.server.audit() if one["action"] == "key"][-1]
    assert line["local"] and line["change"] == "new" and line["key_tenant"] == "cli", line
    text = json.loads(made.out)["key"]
    assert text.partition(".")[2] not in json.dumps(world.server.audit())
