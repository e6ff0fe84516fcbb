"""mcp_http.py - a small client of MCP over HTTP for tests: any message, any header, over TCP or the
unix socket, in either era.

    with served() as server:
        modern = Modern(server)
        modern.call("sandbox_exec", {"command": ["true"]})
        legacy = Legacy(server)           # initialize; its headers go with every message
        with legacy.stream("tools/call", {...}) as events: ...
"""
import json
import re

import serve
import tcp

VERSION, LEGACY = "2026-07-28", "2025-11-25"
META = {"io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {}}
BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Served(serve.Daemon):
    """A daemon with its own address and the first key."""

    def __init__(self, env=None, **rest):
        super().__init__({"SANDBOX_LISTEN": "127.0.0.1:0", **(env or {})}, **rest)
        self.port = int(re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.said()).group(1))
        self.key = re.search(r"bly_[0-9A-Za-z_.-]+", self.said()).group(0)
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def new_key(self, *options):
        made = self.bailey("key", "new", "--json", *options)
        assert made.status == 0, made
        return re.search(r"bly_[0-9A-Za-z_.-]+", made.stdout).group(0)


class Door:
    """One way to /mcp: a key over TCP, or the socket without one."""
    path = "/mcp"

    def __init__(self, server, key=None, is_local=False):
        self.server, self.is_local = server, is_local
        self.auth = {} if is_local else {"Authorization": f"Bearer {key or server.key}"}

    def connect(self):
        if self.is_local:
            return serve.Connection(self.server.socket)
        return tcp.Connection(self.server.port, context=getattr(self.server, "context", None))

    def open(self, method, body, headers):
        """(connection, reply whose body was not read)"""
        connection = self.connect()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        connection.request(method, self.path, body, {**self.auth, **headers})
        return connection, connection.getresponse()

    def ask(self, method, body=None, headers=None):
        connection, reply = self.open(method, body, {**BOTH, **(headers or {})})
        try:
            return serve.Reply(reply.status, reply.headers, reply.read())
        finally:
            connection.close()


def answer_of(reply):
    """The response in a reply, JSON or a stream; earlier notifications are in `told`."""
    if reply.headers["Content-Type"].startswith("application/json"):
        return reply.json(), []
    said = [json.loads(line[6:]) for line in reply.body.decode().split("\n")
            if line.startswith("data: ") and line[6:]]
    return said[-1], said[:-1]


class Modern(Door):
    """2026-07-28: each request is independent."""

    def message(self, method, params=None, number=1, meta=None):
        params = {**(params or {}), "_meta": {**META, **(meta or {})}}
        headers = {**BOTH, "MCP-Protocol-Version": VERSION, "Mcp-Method": method}
        if "name" in params or "uri" in params:
            headers["Mcp-Name"] = params.get("name") or params["uri"]
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, headers

    def request(self, method, params=None, **rest):
        body, headers = self.message(method, params, **rest)
        reply = self.ask("POST", body, headers)
        assert reply.status == 200, reply
        return answer_of(reply)[0]

    def call(self, tool, arguments):
        return self.request("tools/call", {"name": tool, "arguments": arguments})["result"]

    def stream(self, method, params=None, **rest):
        body, headers = self.message(method, params, **rest)
        connection, reply = self.open("POST", body, headers)
        assert reply.status == 200, (reply.status, reply.read())
        return serve.Events(connection, reply)


class Legacy(Door):
    """A conversation."""

    def __init__(self, server, version=LEGACY, **rest):
        super().__init__(server, **rest)
        reply = self.ask("POST", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}})
        assert reply.status == 200, reply
        self.said, self.id = answer_of(reply)[0]["result"], reply.headers["Mcp-Session-Id"]
        self.headers = {**BOTH, "Mcp-Session-Id": self.id,
                        "MCP-Protocol-Version": self.said["protocolVersion"]}

    def tell(self, method, params=None):
        reply = self.ask("POST", {"jsonrpc": "2.0", "method": method, "params": params or {}},
                         self.headers)
        assert reply.status == 202 and reply.body == b"", reply

    def request(self, method, params=None, number=1):
        reply = self.ask("POST", {"jsonrpc": "2.0", "id": number, "method": method,
                                  "params": params or {}}, self.headers)
        assert reply.status == 200, reply
        return answer_of(reply)[0]

    def call(self, tool, arguments, **rest):
        return self.request("tools/call", {"name": tool, "arguments": arguments}, **rest)["result"]

    def stream(self, method, params=None, number=1):
        connection, reply = self.open("POST", {"jsonrpc": "2.0", "id": number, "method": method,
                                               "params": params or {}}, self.headers)
        assert reply.status == 200, (reply.status, reply.read())
        return Primed(connection, reply)

    def stream_only(self, method, params=None, number=1):
        """The same from a client that takes nothing but events."""
        self.headers, kept = {**self.headers, "Accept": "text/event-stream"}, self.headers
        try:
            return self.stream(method, params, number)
        finally:
            self.headers = kept

    def resume(self, last):
        connection, reply = self.open("GET", None, {**self.headers, "Accept": "text/event-stream",
                                                    "Last-Event-ID": last})
        assert reply.status == 200, (reply.status, reply.read())
        return Primed(connection, reply)


class Primed(serve.Events):
    """Events of which the first may be empty: only an id to come back with."""

    def next(self):
        fields = {}
        while True:
            line = self.reply.readline()
            if not line:
                return None
            line = line.decode().rstrip("\r\n")
            name, _, value = line.partition(":")
            if name:
                fields[name] = value[1:]
            elif "data" in fields:
                event = serve.Event(fields.get("event", "message"), fields.get("id"),
                                    json.loads(fields["data"]) if fields["data"] else None)
                self.seen.append(event)
                return event


def text_of(result):
    return result["content"][0]["text"]


def session_of(result):
    """The session that a result names."""
    return re.search(r"s_[0-9a-f]{32}", text_of(result)).group(0)
