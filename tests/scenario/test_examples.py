"""The examples that keep a session do what examples/README.md says, against a daemon of their own; and
the server's minute of the README is what one sees."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import support
import tcp
from daemon_fixture import DaemonFixture

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def own_daemon():
    own_daemon = DaemonFixture()
    yield own_daemon
    own_daemon.close()


def run(own_daemon, *argv):
    env = support.environment(own_daemon.room, {**own_daemon.env, "BAILEY": str(support.BAILEY)})
    done = subprocess.run([str(word) for word in argv], env=env, cwd=own_daemon.room.work,
                          capture_output=True, text=True, timeout=support.PATIENCE)
    assert done.returncode == 0, done
    return done.stdout


def documented(name):
    """What the transcript in examples/README.md shows for it."""
    text = (EXAMPLES / "README.md").read_text()
    begin = text.index(f"$ BAILEY=build/bailey examples/{name}\n")
    return text[begin:].split("\n", 1)[1].split("```")[0].split("\n\n")[0].strip()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: tools/setup test installs it")
def test_a_session_with_curl(own_daemon):
    assert run(own_daemon, "sh", EXAMPLES / "session.sh").strip() == documented("session.sh")
    assert own_daemon.json("session", "ls", "--json")["sessions"] == []


def test_a_session_with_http_client(own_daemon):
    assert run(own_daemon, sys.executable, EXAMPLES / "session.py").strip() == documented("session.py")
    assert own_daemon.json("session", "ls", "--json")["sessions"] == []


# --- the server's minute of the README


def minute(kind):
    """The blocks of one kind in that section."""
    text = (EXAMPLES.parent / "README.md").read_text()
    section = text[text.index("### A server in a minute"):].split("\n## ")[0].split("\n### ")[0]
    return re.findall(rf"^```{kind}\n(.*?)^```$", section, re.M | re.S)


@pytest.fixture(scope="module")
def server():
    with tcp.Server() as daemon:
        yield daemon


def as_typed(server, text):
    """With this server's address, and its key in the environment."""
    return text.replace("127.0.0.1:7070", f"127.0.0.1:{server.port}"), {
        **support.environment(server.room, server.env), "BAILEY_API_KEY": server.key}


def test_what_the_server_says_first(server):
    said = minute("console")[0].partition("\n")[2]
    shape = re.escape(said).replace("7070", r"\d+").replace(
        re.escape("bly_3f9a6c0e52d1b784.9c1f..."), r"bly_[0-9a-f]{16}\.[0-9a-f]{48}")
    assert re.match(shape, server.said()), server.said()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: tools/setup test installs it")
def test_the_readmes_curl(server):
    command, shown = minute("console")[1].split("\n")[:2]
    text, env = as_typed(server, command.removeprefix("$ ").replace("curl", "curl -sS"))
    done = subprocess.run(["sh", "-c", text], env=env, capture_output=True, text=True,
                          timeout=support.PATIENCE)
    assert done.returncode == 0 and done.stdout.startswith(shown.partition('"duration"')[0]), done


def test_the_readmes_python(server):
    text, env = as_typed(server, minute("python")[0])
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True,
                          timeout=support.PATIENCE)
    assert (done.returncode, done.stdout) == (0, "42\n"), done
    assert server.tcp("GET", "/v1/sessions").json()["sessions"] == []


def test_the_readmes_mcp_client(server):
    entry = json.loads(minute("json")[0])["mcpServers"]["bailey"]
    assert entry["url"] == "http://127.0.0.1:7070/mcp"
    header = entry["headers"]["Authorization"].replace("bly_...", server.key)
    reply = server.tcp("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"Authorization": header, "Accept": "application/json, text/event-stream"}, key=False)
    assert reply.status == 200 and reply.json()["result"]["serverInfo"]["name"] == "bailey", reply
