"""The OpenAPI document against the server that it describes: schemathesis makes the requests.

Over TCP with a key, and over the unix socket, where tests/relay.py stands between, as its clients know
TCP only. Streams that never end (events, watches, WebSockets) are left to the scenario tests.
"""
import json
import subprocess
from pathlib import Path

import install
import pytest
import relay
import support
import tenants
import wheels

# Examples for each address; with the boundary cases that is about 1500 requests, half a minute.
WAYS = {"tcp": 30, "socket": 5}

SETTINGS = """
[parameters]
"path.id" = "tried"
"path.execution" = "1"

[[operations]]
include-name = "GET /v1/audit"
parameters = { "query.follow" = false }

[[operations]]
include-name = "DELETE /v1/sessions/{id}"
parameters = { "path.id" = "nobody" }
"""


@pytest.fixture(scope="module")
def schemathesis():
    """The program from the cache; skips only when PyPI cannot be reached."""
    done = subprocess.run([support.REPO / "tools" / "interop-setup", "schemathesis"], text=True,
                          capture_output=True, timeout=900, check=False)
    if done.returncode == 2:
        pytest.skip(f"PyPI cannot be reached: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().split("\n")[-1]) / "schemathesis" / "bin" / "schemathesis"


class Server(tenants.Server):
    """Packages come from a folder, which has the one of the document's examples: no test waits for an index."""

    def __init__(self):
        room = support.Room()
        shelf = room.path / "wheels"
        wheels.folder(shelf, wheels.Wheel("tabulate", "0.9.0", {"tabulate.py": ""}))
        super().__init__({"SANDBOX_MAX_SESSIONS": 5000, **install.settings(shelf)}, room=room)
        self.owns = True


@pytest.mark.parametrize("way", WAYS)
def test_the_document_and_the_server_agree(schemathesis, way):
    with Server() as server, relay.Relay(server.socket) as relayed:
        daemon, address, key = server, relayed, []
        if way == "tcp":
            daemon = server.caller("tried", ["run", "sessions", "files", "metrics", "admin", "operator"])
            address = f"http://127.0.0.1:{server.port}"
            key = ["--header", f"Authorization: Bearer {daemon.text}"]
        daemon.session(name="tried")
        daemon.exec("tried", "echo", "output of the first")
        folder = server.room.path
        (folder / "openapi.json").write_bytes(server.bailey("openapi").out)
        (folder / "settings.toml").write_text(SETTINGS)
        done = subprocess.run(
            [schemathesis, "--config-file", folder / "settings.toml", "run",
             folder / "openapi.json", "--url", address, "--max-examples", str(WAYS[way]), *key,
             # In several threads ast.parse() of Python 3.11 fails now and then with a SystemError.
             "--phases", "examples,coverage,fuzzing", "--workers", "1", "--seed", "1",
             # Without a model server these two are a 503 (test_responses.py, test_chat.py have one).
             "--exclude-path-regex", "(events|watch|ws|/v1/responses|/v1/chat)$", "--request-timeout", "30",
             # Paths, names and programs have rules that no schema can say; who comes over the socket
             # is its owner, whatever key he sends.
             "--exclude-checks", "positive_data_acceptance" + ",ignored_auth" * (way == "socket"),
             "--generation-database", "none", "--no-color"],
            cwd=folder, env=support.environment(server.room), capture_output=True, text=True,
            timeout=400, check=False)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
        assert daemon.get("/v1/sessions/tried")["state"] == "ready"  # it has survived all that


def test_the_document_is_whole():
    document = json.loads(support.bailey("openapi").out)
    assert document["openapi"].startswith("3.1")
    table = (support.REPO / "docs" / "rest.md").read_text().split("## Addresses")[1].split("\n## ")[0]
    promised = [word.strip() for line in table.splitlines() if line.startswith("| `")
                for word in line.split("|")[1].replace("`", "").split(", ")]
    described = {f"{method.upper()} {path}" for path, methods in document["paths"].items()
                 for method in methods if method != "parameters"}
    named = {each.split("?")[0].replace("{name*}", "{name}") for each in promised}
    assert named == described


def test_every_operation_has_a_name_and_its_errors():
    document = json.loads(support.bailey("openapi").out)
    ids = []
    for methods in document["paths"].values():
        for method, operation in methods.items():
            if method == "parameters":
                continue
            ids.append(operation["operationId"])
            statuses = set(operation["responses"])
            assert statuses & {"101", "200", "201", "202"}, operation["operationId"]
    assert len(ids) == len(set(ids))


def test_what_an_ended_session_answers_is_in_the_document():
    """schemathesis has a session that lives: so every address is asked about one that does not."""
    with tenants.Server() as server:
        made = server.session(name="gone")["id"]
        server.exec(made, "true")
        server.end(made)
        undocumented = []
        for path, methods in server.get("/openapi.json")["paths"].items():
            if not path.startswith("/v1/sessions/{id}") or path.endswith("ws"):
                continue
            address = (path.replace("{id}", made).replace("{execution}", "1").replace("{context}", "c1")
                       .replace("{name}", "x"))
            for method, operation in methods.items():
                content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                query = {each["name"]: "/workspace" for each in operation["parameters"]
                         if each["in"] == "query" and each["required"]}
                reply = server.call(method.upper(), address, content.get("example"), query=query)
                if str(reply.status) not in operation["responses"]:
                    undocumented.append((operation["operationId"], reply.status, reply.body))
        assert undocumented == []


def test_the_examples_are_accepted():
    """Over TCP by a server with its defaults: what a person copies from /docs works."""
    with Server() as server:
        caller = server.caller("tried", ["run", "sessions", "files", "metrics", "admin", "operator"])
        rows = [(operation["operationId"] != "createSession", method.upper(), path, operation)
                for path, methods in server.get("/openapi.json")["paths"].items()
                for method, operation in methods.items()]
        refused, asked = [], 0
        for _, method, path, operation in sorted(rows, key=lambda row: row[:3]):  # the session first
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "example" not in content:
                continue
            address = (path.replace("/sessions/{id}", "/sessions/analysis").replace("{execution}", "1")
                       .replace("{context}", "c1").replace("{name}", "sandbox_exec").replace("{id}", "0"))
            asked += 1
            reply = caller.call(method, address, content["example"])
            # Not there yet, or only over the socket; never wrong.
            if not (reply.status < 300 or reply.status in (404, 409) or b"no_model_server" in reply.body
                    or (operation["operationId"] == "reload" and reply.status == 403)):
                refused.append((operation["operationId"], reply.status, reply.body))
        assert refused == [] and asked >= 20, (refused, asked)
