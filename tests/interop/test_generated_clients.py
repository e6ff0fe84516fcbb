"""Clients that generators write from /openapi.json of a running server, used against that server.

openapi-python-client and openapi-typescript (with openapi-fetch) are what people use to get a client for a
language or a style that our own SDKs do not have. What they cannot read they leave out: so the clients are
really used, and the compiler checks the types.
"""
import json
import os
import re
import shutil
import subprocess

import pytest
import support
import tenants

from sdk_server import interop_cache

CLIENTS = support.REPO / "tests" / "interop" / "clients"

# What both programs print: the same session, through generated types.
EXPECTED = {
    "created": "generated", "datasets": ["/tmp/data/sales.csv"], "value": "84", "state": "ready",
    "lines": "2\n", "listed": ["generated"], "file": "hello\n", "refused": "session_not_found",
    "ended": "ended", "left": [],
}


@pytest.fixture(scope="module")
def server():
    with tenants.Server() as running:
        running.key = running.caller("generated").text
        yield running


@pytest.fixture(scope="module")
def document(server, tmp_path_factory):
    """What the server says at /openapi.json, as a file."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_text(json.dumps(server.get("/openapi.json")))
    return path


def run(*command, cwd, server=None):
    """Its output; it must succeed. `server`: the one that it is to use."""
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
    if server:
        env.update(BAILEY_URL=f"http://127.0.0.1:{server.port}", BAILEY_API_KEY=server.key)
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, text=True, capture_output=True,
                          timeout=support.PATIENCE, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def test_a_python_client_is_generated_and_used(server, document, tmp_path):
    programs = interop_cache("openapi-py") / "openapi-py" / "bin"
    (tmp_path / "settings.yaml").write_text("post_hooks: []\n")
    said = run(programs / "openapi-python-client", "generate", "--path", document, "--meta", "none", "--config",
               tmp_path / "settings.yaml", "--output-path", tmp_path / "bailey_client", cwd=tmp_path)
    # It knows no lines of JSON: the one reply that it leaves out.
    assert re.findall(r"(?:WARNING|ERROR) parsing (.+) within", said) == ["GET /v1/audit"], said
    assert "Unsupported content_type application/x-ndjson" in said
    shutil.copy(CLIENTS / "generated.py", tmp_path)
    printed = run(programs / "python", "generated.py", cwd=tmp_path, server=server)
    assert json.loads(printed) == EXPECTED


def test_a_typescript_client_is_generated_and_used(server, document, tmp_path):
    if not shutil.which("npm"):
        pytest.skip("no npm: the generator is a package that it fetches")
    modules = interop_cache("openapi-ts") / "openapi-ts" / "node_modules"
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    node = shutil.which("node")
    run(node, modules / "openapi-typescript" / "bin" / "cli.js", document, "-o", "api.d.ts", cwd=tmp_path)
    shutil.copy(CLIENTS / "generated.ts", tmp_path)
    # The compiler checks what the program says about the types, and refuses to write it otherwise.
    run(node, modules / "typescript" / "bin" / "tsc", "--strict", "--noEmitOnError", "--target", "es2022", "--module",
        "nodenext", "--lib", "es2022,dom", "generated.ts", cwd=tmp_path)
    assert json.loads(run(node, "generated.js", cwd=tmp_path, server=server)) == EXPECTED
