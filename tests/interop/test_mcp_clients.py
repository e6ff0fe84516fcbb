"""`bailey mcp` with the clients that people use: the official SDKs for Python and TypeScript, the
newest of both lines, and the Inspector's command line, in every era each of them speaks."""
import base64
import json
import subprocess
from pathlib import Path

import pytest
import support

CLIENTS = Path(__file__).parent / "clients"
LEGACY, MODERN = "2025-11-25", "2026-07-28"

# name, era as the client calls it, the version that has to come out of it
MATRIX = [
    ("mcp-py-new", "legacy", LEGACY),
    ("mcp-py-new", "auto", MODERN),
    ("mcp-py-new", MODERN, MODERN),
    ("mcp-py-old", "legacy", LEGACY),
    ("mcp-ts-new", "legacy", LEGACY),
    ("mcp-ts-new", "auto", MODERN),
    ("mcp-ts-new", MODERN, MODERN),
    ("mcp-ts-old", "legacy", LEGACY),
]
TOOLS = ["sandbox_exec", "sandbox_write_file", "sandbox_edit_file", "sandbox_wait",
         "run_python_code", "run_code", "sandbox_pause", "sandbox_install"]


def client_command(cache, node, name, era):
    scenario = CLIENTS / "scenario.json"
    if name.startswith("mcp-py"):
        return [cache / name / "bin" / "python", CLIENTS / "client.py", scenario, era]
    return [node, CLIENTS / "client.mjs", cache / name, scenario, era]


def text_of(result):
    return result["content"][0]["text"]


@pytest.fixture(scope="module")
def seen():
    """What each client saw: one conversation feeds many tests."""
    return {}


def converse(cache, node, place, name, era):
    """A whole conversation; a string says what went wrong."""
    try:
        done = subprocess.run([*client_command(cache, node, name, era), support.BAILEY, "mcp"],
                              env=place.env, cwd=place.room.work, capture_output=True, text=True,
                              timeout=120, check=False)
    except subprocess.TimeoutExpired as hung:
        return f"the client hung: {hung.stderr}"
    if done.returncode != 0:
        return done.stderr[-3000:] + done.stdout[-500:]
    return {**json.loads(done.stdout), "left": place.sessions()}


@pytest.fixture(params=MATRIX, ids=lambda row: f"{row[0]}-{row[1]}")
def saw(request, seen, cache, node, place):
    name, era, version = request.param
    if request.param not in seen:
        seen[request.param] = converse(cache, node, place, name, era)
    assert isinstance(seen[request.param], dict), seen[request.param]
    return {**seen[request.param], "wanted": version, "client": name, "era": era}


def test_handshake(saw):
    assert saw["version"] in (saw["wanted"], None)  # 1.x of TypeScript keeps it to itself
    if (saw["client"], saw["era"]) == ("mcp-py-new", MODERN):
        return  # asks nothing before its first call
    assert saw["server"] == "bailey"
    assert 0 < len(saw["instructions"]) < 2048


def test_tools(saw):
    assert [t["name"] for t in saw["tools"]] == TOOLS
    assert saw["tools"] == saw["tools_again"]
    for tool in saw["tools"]:
        assert tool["title"] and tool["description"]
        assert tool["inputSchema"]["properties"]["session"]["type"] == "string"
        assert set(tool["annotations"]) >= {"readOnlyHint", "destructiveHint"}
    assert saw["tools"][0]["inputSchema"]["properties"]["timeout"]["default"] == 50


def test_a_plot_is_a_picture_and_files_are_links(saw):
    assert not saw["written"].get("isError")
    content = saw["drawn"]["content"]
    assert "exit code 0" in text_of(saw["drawn"]) and "drawn" in text_of(saw["drawn"])
    pictures = [b for b in content if b["type"] == "image"]
    assert [p["mimeType"] for p in pictures] == ["image/png"]
    assert base64.b64decode(pictures[0]["data"]).startswith(b"\x89PNG\r\n")
    links = {b["name"]: b for b in content if b["type"] == "resource_link"}
    assert set(links) == {"plot.png", "table with blank.csv"}
    assert links["table with blank.csv"]["mimeType"] == "text/csv"
    assert links["table with blank.csv"]["size"] == 8


def test_resources(saw):
    assert saw["no_resources"] == []
    assert {r["name"] for r in saw["resources"]} == {"plot.png", "table with blank.csv"}
    read = {r["uri"].rsplit("/", 1)[1]: r for r in saw["read"]}
    assert read["table%20with%20blank.csv"]["text"] == "a,b\n1,2\n"
    assert base64.b64decode(read["plot.png"]["blob"]).startswith(b"\x89PNG")
    codes = [-32602] if saw["wanted"] == MODERN else [-32002]
    if saw["client"] == "mcp-ts-new":
        codes = [-32602]  # it makes one of both codes
    assert saw["missing"]["code"] in codes, saw["missing"]
    assert saw["templates"][0]["uriTemplate"] == "sandbox://{session}/{+path}"


def test_prompt(saw):
    assert "sandbox_exec" in saw["prompt"]["messages"][0]["content"]["text"]


def test_failures_are_results(saw):
    text = text_of(saw["failed"])
    assert "exit code 3" in text and "before\n[stderr]\ntrouble" in text
    assert not saw["failed"].get("isError")
    assert saw["bad_path"]["isError"] is True
    assert "Invalid path" in text_of(saw["bad_path"])
    assert saw["unknown"]["code"] == -32602, saw["unknown"]


def test_python(saw):
    assert "42" in text_of(saw["python"])


def test_calls_run_beside_each_other(saw):
    assert ["waited" in text_of(saw["parallel"][0]), "went" in text_of(saw["parallel"][1])] == [
        True, True]


def test_progress_comes_while_it_runs(saw):
    told = [t[0] for t in saw["progress"]["told"]]
    assert told and told == sorted(set(told))
    assert "over" in text_of(saw["progress"]["result"])
    assert "step one" in saw["progress"]["told"][-1][1]


def test_cancellation_ends_the_command(saw):
    if saw["client"] == "mcp-py-old":
        pytest.skip("Python SDK 1.x tells no server that a call was cancelled")
    assert "gone" in text_of(saw["cancelled"])


def test_nothing_is_left(saw):
    assert saw["left"] == []


# --- the Inspector's command line ------------------------------------------------------------


@pytest.fixture(params=["legacy", "auto", "modern"])
def inspect(request, cache, node, place):
    """Calls the Inspector with a method; returns (status, JSON or text)."""
    program = cache / "mcp-inspector/node_modules/.bin/mcp-inspector"

    def call(*flags):
        path = f"{node.parent}:{place.env['PATH']}"
        # It starts servers with an environment of its own making.
        given = [w for k in ("XDG_RUNTIME_DIR", "BAILEY_STATE_DIR") for w in
                 ("-e", f"{k}={place.env[k]}")]
        done = subprocess.run([node, program, "--cli", support.BAILEY, "mcp", "--session", "shared",
                               "--", *given, *flags, "--protocol-era", request.param, "--format",
                               "json"],
                              env={**place.env, "PATH": path}, cwd=place.room.work,
                              capture_output=True, text=True, timeout=120, check=False)
        try:
            return done.returncode, json.loads(done.stdout)["result"]
        except (ValueError, KeyError):
            return done.returncode, done.stdout + done.stderr

    return call


def test_inspector_lists(inspect):
    status, listed = inspect("--method", "tools/list", "--strict")
    assert status == 0, listed
    status, listed = inspect("--method", "tools/list")
    assert status == 0, listed
    assert [t["name"] for t in listed["tools"]] == TOOLS
    status, listed = inspect("--method", "resources/templates/list")
    assert status == 0 and listed["resourceTemplates"]
    status, listed = inspect("--method", "prompts/list")
    assert status == 0 and listed["prompts"]


def test_inspector_calls_in_a_named_session(inspect, place):
    """Each call is a process of its own: what stays between them is the named session."""
    command = json.dumps({"command": ["sh", "-c", "mkdir -p /tmp/output; echo 7 > "
                                                  "/tmp/output/seven.txt; echo written"]})
    status, result = inspect("--method", "tools/call", "--tool-name", "sandbox_exec",
                             "--tool-args-json", command)
    assert status == 0, result
    assert "written" in text_of(result)
    status, result = inspect("--method", "resources/list")
    assert status == 0, result
    uri = result["resources"][0]["uri"]
    status, result = inspect("--method", "resources/read", "--uri", uri)
    assert status == 0 and result["contents"][0]["text"] == "7\n", result
    assert place.sessions() == ["shared"]


def test_inspector_sees_tool_errors(inspect):
    status, result = inspect("--method", "tools/call", "--tool-name", "sandbox_write_file",
                             "--tool-args-json", '{"file_path":"/etc/x","content":""}')
    assert status == 5, result
