"""scalebox_kit.py - a server for Scalebox's clients, and their tests run with a real package (see e2b_kit.py).

Its one address answers HTTPS and plain HTTP: the npm package uses both, the Python package HTTPS only.
"""
from pathlib import Path

import e2b_kit
import sdk_server
import support

CLIENTS = Path(__file__).parent / "clients" / "scalebox"


class ScaleboxServer(e2b_kit.E2bServer):
    def __init__(self, settings=None):
        room = support.Room()
        self.authority, certificate, key = e2b_kit.certified(room.path, "IP:127.0.0.1", "DNS:localhost")
        super().__init__({"SANDBOX_TLS_CERTIFICATE": certificate, "SANDBOX_TLS_KEY": key,
                          "SANDBOX_TLS_OPTIONAL": "true", **(settings or {})}, room=room)
        self.owns = True

    def environment(self, **more):
        trust = {name: str(self.authority) for name in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")}
        return super().environment(E2B_API_URL=None, E2B_SANDBOX_URL=None, E2B_API_KEY=None,
                                   SCALEBOX_API_URL=self.url, SCALEBOX_API_KEY=self.e2b_key,
                                   SBX_DOMAIN=f"127.0.0.1:{self.port}/v1", SBX_API_KEY=self.e2b_key, **trust, **more)


def run_python(server, row, name):
    python = sdk_server.interop_cache(row) / row / "bin" / "python"
    e2b_kit.run(server, [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CLIENTS / f"{name}.py")])


def run_node(server, row, name):
    cache = sdk_server.interop_cache(row) / row
    # The package leaves timers of 30 s behind, which would keep the process.
    e2b_kit.run(server, [sdk_server.newest_node(), "--test", "--test-force-exit", str(CLIENTS / f"{name}.mjs")],
                SCALEBOX_PACKAGES=str(cache))
