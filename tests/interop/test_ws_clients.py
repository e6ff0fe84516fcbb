"""The WebSocket door with the clients that people use: npm's `ws`, Node's own, Python's `websockets`."""
import json
import subprocess
import sys
from pathlib import Path

import pytest
import support

CLIENTS = Path(__file__).parent / "clients"
sys.path.insert(0, str(Path(__file__).parent.parent / "scenario"))
from test_server_tcp import Server  # noqa: E402


@pytest.fixture(scope="module")
def server():
    with Server() as daemon:
        yield daemon


@pytest.mark.parametrize("client", ["ws", "node", "websockets"])
def test_a_command_and_a_terminal(server, cache, node, client):
    made = server.tcp("POST", "/v1/sessions", {}).json()["id"]
    url = server.urls[0].replace("http", "ws", 1)
    if client == "websockets":
        command = [cache / "ws-py" / "bin" / "python", CLIENTS / "ws.py", url, server.key, made]
    else:
        command = [node, CLIENTS / "ws.mjs", cache / "ws-js", url, server.key, made]
        command += ["own"] if client == "node" else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=support.PATIENCE,
                          check=False)
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout)
    assert saw["protocol"] == "bailey.v1" and saw["exit_code"] == 4 and saw["is_same"]
    assert saw["code"] == 1000 and saw["terminal_code"] == 1000
    assert "33 99" in saw["terminal"] and saw["terminal_exit"] == 6
    assert saw.get("without", 401) == 401
    server.end(made)
