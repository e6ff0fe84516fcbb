"""tenants.py - a server with TCP and keys, and its clients: one `Caller` for each key.

    with tenants.Server({"SANDBOX_QUOTA_RUNS": "1"}) as server:
        acme = server.caller("acme")
        made = acme.session()["id"]          # everything that serve.Daemon has, over TCP with the key
        server.get("/v1/sessions")           # the owner, over the unix socket
"""
import json
import socket

import serve
import support
import tcp

SCOPES = ["run", "sessions", "files"]


class KeyConnection(tcp.Connection):
    """HTTP over TCP, or HTTPS; each request has the caller's headers."""

    def __init__(self, port, headers, timeout, context=None):
        super().__init__(port, timeout, context)
        self.own = headers

    def request(self, method, url, body=None, headers=None, **rest):
        super().request(method, url, body, {**self.own, **(headers or {})}, **rest)


class Caller(serve.Daemon):
    """A client with a key (`text`; None: without a key)."""

    def __init__(self, server, text, members=None):  # no daemon of its own
        self.server, self.text, self.key = server, text, members
        self.headers = {"Authorization": f"Bearer {text}"} if text else {}

    def connect(self, timeout=support.PATIENCE):
        return KeyConnection(self.server.port, self.headers, timeout,
                             getattr(self.server, "context", None))


def free_port():
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


class Server(serve.Daemon):
    """`bailey serve` on its own address; `addresses`: more of them."""

    def __init__(self, env=None, addresses=(), **rest):
        self.port = free_port()
        listen = ",".join([f"127.0.0.1:{self.port}", *addresses])
        super().__init__({"SANDBOX_LISTEN": listen, **(env or {})}, **rest)

    def caller(self, tenant, scopes=None, **members):
        made = self.post("/v1/keys", {"tenant": tenant, "scopes": scopes or SCOPES, **members}, 201)
        return Caller(self, made["key"], made)

    def anybody(self, **headers):
        """Without a key, or with these headers (`X_API_Key` is X-API-Key)."""
        caller = Caller(self, None)
        caller.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return caller

    def audit(self):
        """Lines of the audit, oldest first."""
        text = (self.state / "logs" / "audit.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]
