"""tcp.py - a daemon with an address on loopback, asked over TCP with keys.

    with tcp.Server() as server:
        key = server.new_key(tenant="acme", scopes=["files"])
        server.tcp("GET", "/v1/info", key=key).status

    with tcp.Server(tls=tcp.certificate(folder, "localhost")) as server: ...      # the same over HTTPS
"""
import http.client
import json
import re
import ssl
import subprocess

import serve
import support


def certificate(folder, name):
    """A certificate for 127.0.0.1 and `name`, signed by itself: its file and its key's."""
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "1", "-subj", f"/CN={name}", "-addext",
                    f"subjectAltName=IP:127.0.0.1,DNS:{name}", "-out", paths[0], "-keyout", paths[1]],
                   check=True, capture_output=True)
    return paths


class Connection(http.client.HTTPConnection):
    """HTTP to a port of 127.0.0.1; HTTPS when there is a `context`."""

    def __init__(self, port, timeout=support.PATIENCE, context=None):
        super().__init__("127.0.0.1", port, timeout=timeout)
        self.context = context

    def connect(self):
        super().connect()
        if self.context:
            self.sock = self.context.wrap_socket(self.sock, server_hostname=self.host)


class Server(serve.Daemon):
    """`key` is the first one, made when it started. `tls`: files of a certificate and of its key; then
    `context` is what a client needs to trust it."""

    def __init__(self, env=None, tls=None, **rest):
        self.context = ssl.create_default_context(cafile=tls[0]) if tls else None
        with_tls = {"SANDBOX_TLS_CERTIFICATE": tls[0], "SANDBOX_TLS_KEY": tls[1]} if tls else {}
        super().__init__({"SANDBOX_LISTEN": "127.0.0.1:0", **with_tls, **(env or {})}, **rest)
        # In a room that was used before the log has those of an earlier one, too.
        address = rf"listening on {'https' if tls else 'http'}://127\.0\.0\.1:(\d+)"
        self.port = int(re.findall(address, self.said())[-1])
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
        connection = Connection(self.port, context=self.context)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return serve.Reply(reply.status, reply.headers, reply.read())
        finally:
            connection.close()
