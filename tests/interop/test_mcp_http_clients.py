"""/mcp with what people use: the official conformance suite in its scored sets of both eras, and the
official SDKs for Python and TypeScript over HTTP with a key."""
import base64
import contextlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from key_relay import KeyRelay
from mcp_http import Served

CLIENTS = Path(__file__).parent / "clients"
LEGACY, MODERN = "2025-11-25", "2026-07-28"
MATRIX = [
    ("mcp-py-new", "legacy", LEGACY),
    ("mcp-py-new", "auto", MODERN),
    ("mcp-py-old", "legacy", LEGACY),
    ("mcp-ts-new", "legacy", LEGACY),
    ("mcp-ts-new", "auto", MODERN),
    ("mcp-ts-old", "legacy", LEGACY),
]
# Of any server, without fixtures.
PLAIN = {LEGACY: ["server-initialize", "ping", "logging-set-level", "tools-list", "resources-list",
                  "server-sse-multiple-streams", "dns-rebinding-protection",
                  "server-session-lifecycle"],
         MODERN: ["tools-list", "resources-list", "server-sse-multiple-streams",
                  "sep-2164-resource-not-found", "dns-rebinding-protection",
                  "http-header-validation"]}
# How many a release has frozen; of the others the suite says itself that they do not count.
SCORED = {LEGACY: 30, MODERN: 37}


@pytest.fixture(scope="module")
def suite(cache, node):
    """Runs the suite in server mode. It sends no key: it is shown a relay that adds one."""
    program = cache / "mcp-conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js"

    def run(port, *flags):
        done = subprocess.run([node, program, "server", "--url", f"http://127.0.0.1:{port}/mcp",
                               *flags], capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout + done.stderr
    return run


def port_of(env, relays):
    server = relays.enter_context(Served(env))
    return relays.enter_context(KeyRelay(server.port, server.key))


@pytest.fixture(scope="module")
def fixtures():
    """The port of a server with what only tests ask for."""
    with contextlib.ExitStack() as relays:
        yield port_of({"BAILEY_MCP_CONFORMANCE_FIXTURES": "1"}, relays)


@pytest.fixture(scope="module")
def plain():
    """The port of a server as it is."""
    with contextlib.ExitStack() as relays:
        yield port_of({}, relays)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_scored_scenarios(suite, fixtures, version):
    status, said = suite(fixtures, "--requirements", version)
    assert status == 0, said[-8000:]
    results, _, others = said.partition("Not scored for")
    unscored = re.findall(r"^ +[✓✗] (\S+) \(", others, re.M)
    scored = {name: (mark, int(failed)) for mark, name, failed in
              re.findall(r"^([✓✗]) (\S+): \d+ passed, (\d+) failed", results, re.M)
              if name not in unscored}
    assert len(scored) == SCORED[version], said[-4000:]
    assert set(scored.values()) == {("✓", 0)}, said[-4000:]


@pytest.mark.parametrize("version,name", [(v, n) for v, names in PLAIN.items() for n in names])
def test_any_server(suite, plain, version, name):
    status, said = suite(plain, "--scenario", name, "--spec-version", version)
    assert status == 0, said[-8000:]


# --- the SDKs


@pytest.fixture(scope="module")
def server():
    with Served() as served:
        yield served


@pytest.fixture(scope="module")
def seen():
    """What each client saw: one conversation feeds many tests."""
    return {}


def converse(cache, node, server, name, era, session):
    scenario = CLIENTS / "scenario.json"
    command = [cache / name / "bin" / "python", CLIENTS / "client.py"] \
        if name.startswith("mcp-py") else [node, CLIENTS / "client.mjs", cache / name]
    # 2026-07-28 has no conversation: who wants to go on names a session.
    named = [session] if era == "auto" else []
    try:
        done = subprocess.run([*command, scenario, era, server.url, server.key, *named],
                              capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired as hung:
        return f"the client hung: {hung.stderr}"
    if done.returncode != 0:
        return done.stderr[-3000:] + done.stdout[-500:]
    return json.loads(done.stdout)


@pytest.fixture(params=MATRIX, ids=lambda row: f"{row[0]}-{row[1]}")
def saw(request, seen, cache, node, server):
    name, era, version = request.param
    if request.param not in seen:
        seen[request.param] = converse(cache, node, server, name, era, f"of-{name}")
    assert isinstance(seen[request.param], dict), seen[request.param]
    return {**seen[request.param], "wanted": version, "client": name}


def text_of(result):
    return result["content"][0]["text"]


def test_handshake_and_tools(saw):
    assert saw["version"] in (saw["wanted"], None)
    assert saw["server"] == "bailey"
    assert len(saw["tools"]) == 8 and saw["tools"] == saw["tools_again"]


def test_results(saw):
    pictures = [b for b in saw["drawn"]["content"] if b["type"] == "image"]
    assert base64.b64decode(pictures[0]["data"]).startswith(b"\x89PNG\r\n")
    assert "exit code 3" in text_of(saw["failed"]) and not saw["failed"].get("isError")
    assert saw["bad_path"]["isError"] is True
    assert saw["unknown"]["code"] == -32602
    assert "42" in text_of(saw["python"])
    assert "waited" in text_of(saw["parallel"][0]) and "went" in text_of(saw["parallel"][1])


def test_resources(saw):
    read = {r["uri"].rsplit("/", 1)[1]: r for r in saw["read"]}
    assert read["table%20with%20blank.csv"]["text"] == "a,b\n1,2\n"
    if saw["wanted"] == LEGACY:
        assert {r["name"] for r in saw["resources"]} == {"plot.png", "table with blank.csv"}
    else:
        assert saw["resources"] == []


def test_progress_and_cancellation(saw):
    assert saw["progress"]["told"] and "step one" in saw["progress"]["told"][-1][1]
    assert "over" in text_of(saw["progress"]["result"])
    if saw["client"] != "mcp-py-old":  # 1.x tells no server that a call was cancelled
        assert "gone" in text_of(saw["cancelled"])
