"""e2b_kit.py - a server for E2B's clients, and their tests run with a real package.

The files of clients/e2b are tests that the client's own Python or Node runs, because the packages
need an environment of their own; one run of them is one test here.
"""
import subprocess
from pathlib import Path

import sdk_server
import support
import tenants

CLIENTS = Path(__file__).parent / "clients" / "e2b"


class E2bServer(tenants.Server):
    def __init__(self, settings=None):
        super().__init__({"SANDBOX_AUTO_INSTALL": "false", **(settings or {})})
        self.url = f"http://127.0.0.1:{self.port}"
        done = self.bailey("key", "new", "--format", "e2b", "--quiet")
        self.e2b_key = done.stdout.strip()

    def environment(self, **more):
        return {**support.environment(self.room, {}), "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url,
                "E2B_API_KEY": self.e2b_key, "PYTHONDONTWRITEBYTECODE": "1", **more}


def run(server, command, **more):
    done = subprocess.run(command, env=server.environment(**more), cwd=server.room.path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def run_python(server, row, name, *options):
    """The tests of a file, with the packages of a row of tools/interop-setup."""
    python = sdk_server.interop_cache(row) / row / "bin" / "python"
    told = run(server, [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", *options,
                        str(CLIENTS / f"{name}.py")])
    for line in told.splitlines():
        if line.startswith("SKIPPED"):
            print(line)


def run_node(server, row, name):
    cache = sdk_server.interop_cache(row) / row
    run(server, ["node", "--test", str(CLIENTS / f"{name}.mjs")], E2B_PACKAGES=str(cache))
