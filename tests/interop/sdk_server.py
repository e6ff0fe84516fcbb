"""sdk_server.py - one server for a whole file of SDK tests: TCP with a key, unix socket, packages made by hand."""
import subprocess
from pathlib import Path

import install
import pytest
import support
import tenants
import wheels

NEWEST_NODE = "mcp-inspector/node_modules/node/bin/node"  # in the cache of tools/interop-setup
CLIENTS = support.REPO / "clients"


class SdkServer(tenants.Server):
    def __init__(self):
        room = support.Room()
        shelf = room.path / "wheels"
        wheels.folder(shelf, install.CASTLE, install.MOAT)
        super().__init__({**install.settings(shelf),
                          "SANDBOX_AUTO_INSTALL": "false"}, room=room)
        self.owns = True
        self.key = self.caller("sdk").text
        self.url = f"http://127.0.0.1:{self.port}"
        self.unix = f"unix://{self.socket}"

    def way(self, name):
        """url and key of "unix" or "tcp"."""
        return (self.unix, None) if name == "unix" else (self.url, self.key)

    def client_env(self, name="tcp", **more):
        """Variables for a client in a process of its own."""
        url, key = self.way(name)
        given = {"BAILEY_URL": url, **({"BAILEY_API_KEY": key} if key else {}), **more}
        return {**support.environment(self.room, given)}

    def names(self):
        """Ids of the sessions that live, of everybody."""
        return [one["id"] for one in self.get("/v1/sessions")["sessions"]]


def interop_cache(*rows):
    """The folder of tools/interop-setup with these rows in it; skips when the registries cannot be reached."""
    done = subprocess.run([support.REPO / "tools" / "interop-setup", *rows], capture_output=True,
                          text=True, timeout=900, check=False)
    if done.returncode == 2:
        pytest.skip(f"the package index cannot be reached: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().split("\n")[-1])


def newest_node():
    """The Node that npm brought for the Inspector: Debian 12 has 18, which newer packages do not run on."""
    return str(interop_cache("mcp-inspector") / NEWEST_NODE)
