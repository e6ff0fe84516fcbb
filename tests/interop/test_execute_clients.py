"""POST /execute, /v1 and /docs with what people call them by: curl, Python's httpx, Node's fetch."""
import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import support
import tcp

CLIENTS = Path(__file__).parent / "clients"
ORDER = {"code": "import os\ndata = open('in.txt').read()\nprint(data.upper())\n"
                 "open(os.environ['OUTPUT_DIR'] + '/out.txt', 'w').write(data * 2)\n",
         "files": {"folder/in.txt": base64.b64encode(b"hello").decode()},
         "timeout_seconds": 20, "requirements": []}


@pytest.fixture(scope="module")
def server():
    with tcp.Server() as running:
        running.url = f"http://127.0.0.1:{running.port}"
        yield running


def said(*command):
    """What a client printed: one JSON object."""
    done = subprocess.run(command, input=json.dumps(ORDER), capture_output=True, text=True,
                          timeout=support.PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(saw):
    got = saw["execute"]
    assert (got["status"], got["exit_code"], got["stdout"]) == ("success", 0, "HELLO\n"), got
    assert got["files_produced"] == {"out.txt": base64.b64encode(b"hellohello").decode()}
    assert got["truncated"] is False and got["language"] == "python"
    assert saw["health"]["status"] == "healthy" and saw["health"]["mode"] == "python"
    assert saw["exec"]["stdout"] == "hi\n" and saw["exec"]["exit_code"] == 0
    assert saw["ended"] == 200 and saw["docs"].startswith("text/html")
    assert {"/execute", "/health", "/v1/sessions"} <= set(saw["paths"])
    for (status, reply), wanted in ((saw["bad"], 400), (saw["refused"], 401)):
        assert status == wanted and isinstance(reply["error"], str), (status, reply)


def curl(server, method, path, data=None, key=True):
    """Status, type and body, as curl tells them; its own Content-Type is left as it is."""
    command = ["curl", "--silent", "--show-error", "--noproxy", "*", "--request", method,
               "--write-out", "\n%{http_code} %{content_type}"]
    if key:
        command += ["--header", f"Authorization: Bearer {server.key}"]
    if data is not None:
        command += ["--data-binary", "@-"]
    done = subprocess.run([*command, server.url + path], input=data, capture_output=True, text=True,
                          timeout=support.PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    body, _, told = done.stdout.rpartition("\n")
    status, _, kind = told.partition(" ")
    return int(status), kind, body


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed: tools/setup test installs it")
def test_curl(server):
    def good(*call):
        status, _, body = curl(server, *call)
        assert status in (200, 201), (call, status, body)
        return json.loads(body)
    order = json.dumps(ORDER)
    made = good("POST", "/v1/sessions", "{}")["id"]
    bad, refused = curl(server, "POST", "/execute", "{"), curl(server, "POST", "/execute", order, False)
    check({
        "execute": good("POST", "/execute", order), "health": good("GET", "/health"),
        "exec": good("POST", f"/v1/sessions/{made}/exec", '{"argv":["echo","hi"]}'),
        "ended": curl(server, "DELETE", f"/v1/sessions/{made}")[0],
        "docs": curl(server, "GET", "/docs")[1], "paths": list(good("GET", "/openapi.json")["paths"]),
        "bad": [bad[0], json.loads(bad[2])], "refused": [refused[0], json.loads(refused[2])],
    })


def test_httpx(server):
    done = subprocess.run([support.REPO / "tools" / "interop-setup", "httpx"], text=True,
                          capture_output=True, timeout=900, check=False)
    if done.returncode == 2:
        pytest.skip(f"PyPI cannot be reached: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    python = Path(done.stdout.strip().split("\n")[-1]) / "httpx" / "bin" / "python"
    check(said(python, CLIENTS / "execute.py", server.url, server.key))


def test_node_and_the_page(server, node):
    """Node's fetch; and the page of /docs does what a person does with it."""
    saw = said(node, CLIENTS / "execute.mjs", server.url, server.key)
    check(saw)
    page = saw["page"]
    assert page["calls"] == ["/openapi.json", "/execute"] and page["operations"] > 20
    assert page["body"]["files"] == {"a.txt": "aGVsbG8K"}, "the example of the document"
    status, _, shown = page["shown"].partition("\n\n")
    assert status.startswith("200 ") and json.loads(shown)["stdout"] == "hello\n\n", page
