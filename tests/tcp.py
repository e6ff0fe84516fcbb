"""tcp.py - a daemon with an address on loopback, asked over TCP with keys.

    with tcp.Server() as server:
        key = server.new_key(tenant="acme", scopes=["files"])
        server.tcp("GET", "/v1/info", key=key).status
"""
import http.client
import json
import re

import serve
import support


class Server(serve.Daemon):
    """`key` is the first one, made when it started."""

    def __init__(self, env=None, **rest):
        super().__init__({"SANDBOX_LISTEN": "127.0.0.1:0", **(env or {})}, **rest)
        # In a room that was used before the log has those of an earlier one, too.
        self.port = int(re.findall(r"listening on http://127\.0\.0\.1:(\d+)", self.said())[-1])
        found = re.search(r"bly_[0-9a-f]+\.[0-9a-f]+", self.said())
        self.key = found.group(0) if found else None

    def new_key(self, **members):
        return self.post("/v1/keys", members, 201)["key"]

    def tcp(self, method, path, body=None, headers=None, key=None):
        """One request; without `key` the first one is used, with False none."""
        headers = dict(headers or {})
        if key is not False:
            headers["Authorization"] = f"Bearer {key or self.key}"
        if isinstance(body, (dict, list)):
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=support.PATIENCE)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return serve.Reply(reply.status, reply.headers, reply.read())
        finally:
            connection.close()
