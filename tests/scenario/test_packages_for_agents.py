"""What an agent meets when a package is missing, through every door: the tool sandbox_install, and the hint
after a ModuleNotFoundError."""
import json
import subprocess

import pytest

import support
import wheels
from install import ALL, cell, gated, left_packages, names, packages, session, settings
from mcp_http import Legacy, Served, text_of

MISSING = "import {0}\n"
DOORS = ("cli", "rest", "mcp over http", "mcp over stdio")
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(path, *ALL)
    return path


@pytest.fixture(scope="module")
def yard(shelf):
    """A daemon that installs by request only, with a template that has PyWavelets."""
    with Served(settings(shelf, SANDBOX_AUTO_INSTALL="false", SANDBOX_INSTALL_DENY="Tower")) as running:
        running.post("/v1/templates", {"name": "waves", "packages": ["PyWavelets"], "warm_up": []})
        with session(running) as here:
            cell(running, here, "pass")
        yield running


@pytest.fixture(scope="module", params=DOORS)
def call(request, yard):
    """call(tool, session, **parameters): a dictionary, or the text that a model reads."""
    if request.param == "cli":
        def by_hand(tool, here, **parameters):
            done = yard.bailey("tool", *(("-s", here) if here else ()), tool, json.dumps(parameters))
            assert done.status == 0, done
            return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout
        yield by_hand
    elif request.param == "rest":
        yield lambda tool, here, **parameters: yard.post(
            f"/v1/tools/{tool}", parameters, **({"session": here} if here else {}))
    elif request.param == "mcp over http":
        conversation = Legacy(yard, is_local=True)
        yield lambda tool, here, **parameters: text_of(conversation.call(
            tool, {**parameters, **({"session": here} if here else {})}))
    else:
        process = support.start("mcp", env=yard.env, room=yard.room, stdin=subprocess.PIPE)

        def ask(method, params):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method,
                                            "params": params}).encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())["result"]
        ask("initialize", HANDSHAKE)
        yield lambda tool, here, **parameters: text_of(ask("tools/call", {
            "name": tool, "arguments": {**parameters, **({"session": here} if here else {})}}))
        process.communicate(timeout=support.PATIENCE)


def hint(reply):
    """The hint of a reply; of a text the line that is one, if there is any."""
    if isinstance(reply, dict):
        return reply.get("hint", "")
    return "".join(line for line in reply.splitlines(keepends=True) if line.startswith("[hint] "))


# --- the tool


def test_the_tool_installs_through_every_door(call, yard):
    with session(yard) as here:
        reply = call("sandbox_install", here, packages=["castle"])
        if isinstance(reply, dict):
            assert reply["success"] is True and names(reply["installed"]) == {"castle": "1.2", "moat": "1.0"}
        else:
            assert reply == "installed castle 1.2, moat 1.0\n", reply
        assert yard.python(here, "import castle; print(castle.walls)")["stdout"] == "42\n"
        again = call("sandbox_install", here, packages=["castle", "moat>=1"])
        assert (again["installed"] == [] if isinstance(again, dict) else "there already" in again), again


@pytest.mark.parametrize("wanted,code,words", [
    (["tower"], "install_denied", "may not be installed here"),
    (["--index-url=http://x"], "bad_input", ""),
    (["../../etc"], "bad_input", ""),
    (["x" * 5000], "bad_input", ""),
    ([], "bad_input", "packages"),
    (["moat"] * 65, "bad_input", "packages"),
    ("moat", "bad_input", "packages"),
])
def test_a_name_that_may_not_be_makes_no_session(yard, wanted, code, words):
    before = {one["id"] for one in yard.get("/v1/sessions")["sessions"]}
    reply = yard.post("/v1/tools/sandbox_install", {"packages": wanted}, session="never-made")
    assert reply["success"] is False and reply["code"] == code and words in reply["error"], reply
    assert {one["id"] for one in yard.get("/v1/sessions")["sessions"]} == before


def test_a_package_that_is_not_there_is_a_reply(call, yard):
    with session(yard) as here:
        reply = call("sandbox_install", here, packages=["no-such-package-here"])
        text = reply["error"] if isinstance(reply, dict) else reply
        assert "no-such-package-here" in text and "ERROR" not in text, text
        assert packages(yard, here) == []


def test_a_caller_that_leaves_cancels_the_installation(shelf):
    with wheels.Index(shelf) as index, Served(gated(index, SANDBOX_AUTO_INSTALL="false")) as daemon:
        here = daemon.session()["id"]
        index.gate.clear()
        connection = daemon.connect()
        connection.request("POST", f"/v1/tools/sandbox_install?session={here}",
                           json.dumps({"packages": ["moat"]}), {"Content-Type": "application/json"})
        assert index.knocked.wait(support.PATIENCE)
        connection.close()
        support.wait_until(lambda: '"error":"cancelled"' in audit(daemon), "the call is cancelled")
        index.gate.set()
        assert packages(daemon, here) == []
        daemon.end(here)
        support.wait_until(lambda: not left_packages(daemon), "nothing is left of it")


def audit(daemon):
    path = daemon.state / "logs" / "audit.jsonl"
    return path.read_text() if path.exists() else ""


def test_lists_show_it_only_where_packages_can_be_installed(yard):
    listed = {"GET /v1/tools": [tool["name"] for tool in yard.get("/v1/tools")["tools"]],
              "tools/list": [tool["name"] for tool in Legacy(yard).request("tools/list")["result"]["tools"]]}
    for where, tools in listed.items():
        assert tools[-1] == "sandbox_install", where
    for words in (("tool", "--list"), ("prompt",)):
        assert "sandbox_install" in yard.bailey(*words).stdout
        docker = support.bailey(*words, env={"SANDBOX_TYPE": "docker"})
        assert docker.status == 0 and "sandbox_install" not in docker.stdout, docker
        assert "sandbox_exec" in docker.stdout


# --- the hint


def run_exec(call, here, module):
    return call("sandbox_exec", here, command=["python3", "-c", MISSING.format(module)])


def run_exec_in_shell(call, here, module):
    return call("sandbox_exec", here, command=[
        "bash", "-c", f"python3 -c 'import {module}'; s=$?; echo and more >&2; exit $s"])


def run_module(call, here, module):
    return call("sandbox_exec", here, command=["python3", "-m", module])


def run_wait(call, here, module):
    begun = call("sandbox_exec", here, command=["python3", "-c", MISSING.format(module)], background=True)
    number = begun["execution_id"] if isinstance(begun, dict) else \
        f"{here}.{begun.split('execution_id: ')[1].split()[0].rpartition('.')[2]}"
    return call("sandbox_wait", here, execution_id=number)


def run_cell(call, here, module):
    return call("run_code", here, code=MISSING.format(module))


WAYS = [run_exec, run_exec_in_shell, run_module, run_wait, run_cell]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_missing_module_in_a_session(call, yard, way):
    with session(yard) as here:
        said = hint(way(call, here, "moat"))
        assert "The module 'moat' is missing." in said and "SANDBOX_AUTO_INSTALL=true" in said, said
        assert 'sandbox_install {"packages": ["moat"]} adds it to this session' in said, said
        said = hint(way(call, here, "pywt"))
        assert "The template 'waves' has it" in said and '["pywavelets"]' in said, said
        said = hint(way(call, here, "tower"))
        assert "may not be installed here" in said and "sandbox_install" not in said, said


@pytest.mark.parametrize("way", [run_exec, run_wait, run_cell], ids=lambda way: way.__name__)
def test_a_module_that_no_package_brings_has_no_such_hint(call, yard, way):
    with session(yard) as here:
        for module in ("winreg", "json.nothing"):  # of Windows; a part that is not there
            said = hint(way(call, here, module))
            assert "is missing" not in said and "sandbox_install" not in said, said


def test_a_missing_module_in_a_fresh_sandbox(call):
    said = hint(call("run_python_code", None, code=MISSING.format("moat")))
    assert "The module 'moat' is missing." in said and "to a fresh sandbox like this one" in said, said
    said = hint(call("run_python_code", None, code=MISSING.format("pywt")))
    assert "SANDBOX_TEMPLATE=waves" in said, said


def test_a_missing_module_of_bailey_run(yard):
    done = yard.bailey("run", "-c", MISSING.format("pywt"))
    said = done.stderr.splitlines()[-1]
    assert done.status == 1 and "SANDBOX_TEMPLATE=waves" in said and "SANDBOX_PYTHON=" in said, done
    assert "bailey install -s SESSION pywavelets" in said, said


def test_the_hint_is_not_for_code_that_works(call, yard):
    caught = "try:\n import moat\nexcept ImportError as why: import sys; print(repr(why), file=sys.stderr)"
    with session(yard) as here:
        for reply in (call("sandbox_exec", here, command=["python3", "-c", caught]),
                      call("run_code", here, code=caught)):
            assert "is missing" not in hint(reply), reply
