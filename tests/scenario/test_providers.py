"""
SANDBOX_TYPE: every value at every door. A value that is not in this build, or that nobody knows, is
refused with one sentence everywhere and makes no box; one that is there makes the box, and
meta.runtime names what made it; one whose provider does not answer says its promised sentence.
"""
import json
import re

import pytest

import mcp_http
import serve
import support

NO_BUILD = "SANDBOX_TYPE: the runtime '{}' is not in this build (there are: "
MCP_HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})


def known():
    """All values, in the words of the error for one that is none."""
    said = support.bailey("run", "-c", "1", env={"SANDBOX_TYPE": "chroot"}).stderr
    return re.search(r"\(allowed: ([a-z0-9_, ]+)", said).group(1).split(", ")


def built():
    said = support.bailey("run", "-c", "1", env={"SANDBOX_TYPE": "kubernetes"}).stderr
    return re.search(r"there are: ([a-z0-9_, ]+)\)", said).group(1).split(", ")


# Commands that make boxes, themselves or by the daemon that they start.
COMMANDS = [
    ("run", "-c", "print('ran')"),
    ("exec", "--", "echo", "ran"),
    ("tool", "run_python_code", json.dumps({"code": "print('ran')"})),
    ("session", "new"),
    ("session", "ls"),
    ("code", "-s", "mine", "-c", "print('ran')"),
    ("mcp",),
    ("serve",),
    ("template", "build", "data"),
    ("reload",),
]


def said_of_refusal(done, command):
    """What a refused command says. run_python_code never fails: its text is the error, on standard output."""
    if "run_python_code" in command:
        assert done.status == 0 and done.stdout.startswith("Error: ") and done.err == b"", done
        return done.stdout
    assert done.status == 125 and done.out == b"", done
    return done.stderr


def test_the_values_are_those_of_the_documentation():
    assert known()[:5] == ["local", "docker", "kubernetes", "url", "e2b"]
    assert built()[:3] == ["local", "docker", "url"]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", ["kubernetes", "e2b"])
def test_not_in_this_build_is_refused_by_every_command(room, name, command):
    env = {"SANDBOX_TYPE": name, "BAILEY_STATE_DIR": room.path / "state",
           "XDG_RUNTIME_DIR": room.path, "SANDBOX_LISTEN": "127.0.0.1:0"}
    done = support.bailey(*command, env=env, room=room, stdin=MCP_HELLO.encode() + b"\n")
    assert said_of_refusal(done, command).count(NO_BUILD.format(name)) == 1, done
    assert not (room.path / "state").exists(), "no daemon was started"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_unknown_value_is_refused_by_every_command(room, command):
    done = support.bailey(*command, env={"SANDBOX_TYPE": "chroot"}, room=room)
    said = said_of_refusal(done, command)
    assert "SANDBOX_TYPE: 'chroot' is not known (allowed: " + ", ".join(known()) in said, done


def test_in_the_file_as_in_the_environment(room):
    room.write("bailey.yaml", "sandbox:\n  type: e2b\n")
    done = support.bailey("run", "-c", "print('ran')", room=room)
    assert (done.status, done.out) == (125, b""), done
    assert NO_BUILD.format("e2b") in done.stderr, done


def test_those_who_only_show_the_configuration_show_it(room):
    done = support.bailey("config", "--json", env={"SANDBOX_TYPE": "e2b"}, room=room)
    assert done.status == 0 and done.json()["values"]["SANDBOX_TYPE"]["value"] == "e2b", done
    told = support.bailey("doctor", env={"SANDBOX_TYPE": "e2b"}, room=room)
    assert told.status == 1 and NO_BUILD.format("e2b") in told.stdout, told


def doors(server):
    """What each door of a daemon answers to a request for a box: (door, result or error)."""
    made = server.post("/v1/run", {"language": "python", "code": "print('ran')"})
    yield "run", made["meta"].get("error"), made["meta"]["runtime"]
    session = server.session()
    reply = server.call("POST", f"/v1/sessions/{session['id']}/exec", {"argv": ["echo", "ran"]})
    meta = reply.json().get("meta", {})
    yield "exec", reply.json().get("error") or meta.get("error"), meta.get("runtime")
    reply = server.call("POST", "/execute", {"code": "print('ran')", "language": "python"})
    yield "execute", None if reply.json().get("stdout") == "ran\n" else reply.json(), None
    for door in (mcp_http.Modern(server), mcp_http.Legacy(server)):
        told = door.call("sandbox_exec", {"command": ["echo", "ran"]})
        text = json.dumps(told)
        yield "mcp", text if "success\\\": false" in text or '"isError": true' in text else None, None


def test_every_door_of_a_daemon_makes_boxes_and_names_what_made_them(room):
    with mcp_http.Served(room=room) as server:
        for door, error, runtime in doors(server):
            assert error is None, (door, error)
            assert runtime in ("local", None), (door, runtime)
        # a reload that would bring another one changes nothing
        done = server.bailey("reload", env={"SANDBOX_TYPE": "kubernetes"})
        assert done.status == 125 and NO_BUILD.format("kubernetes") in done.stderr, done
        again = server.post("/v1/run", {"language": "python", "code": "print('ran')"})
        assert again["meta"]["runtime"] == "local" and again["stdout"] == "ran\n", again


# (path, body): calls of a running daemon that make a box, each with the type in its body or in the header.
MCP_CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
    "name": "sandbox_exec", "arguments": {"command": ["echo", "ran"]}, "_meta": mcp_http.META}}
DAEMON_CALLS = {
    "session by body": ("/v1/sessions", {"type": None}),
    "run by body": ("/v1/run", {"code": "print('ran')", "type": None}),
    "session": ("/v1/sessions", {}),
    "run": ("/v1/run", {"code": "print('ran')"}),
    "tool": ("/v1/tools/sandbox_exec", {"command": ["echo", "ran"]}),
    "tool run_code": ("/v1/tools/run_code", {"code": "print('ran')"}),
    "tool run_python_code": ("/v1/tools/run_python_code", {"code": "print('ran')"}),
    "execute": ("/execute", {"code": "print('ran')", "language": "python"}),
    "mcp": ("/mcp", MCP_CALL),
}
TYPED = [("run", "-c", "print('ran')"), ("exec", "--", "echo", "ran"), ("session", "new"), ("mcp",),
         ("code", "-s", "mine", "-c", "print('ran')")]


@pytest.fixture(scope="module")
def running():
    with mcp_http.Served() as server:
        server.session(name="mine")
        yield server


def sentence(name):
    """Why a daemon without any settings refuses a type."""
    if name == "chroot":
        return "is not known (allowed: local"
    return "needs SANDBOX_URL" if name == "url" else NO_BUILD.format(name).partition(": ")[2]


@pytest.mark.parametrize("call", DAEMON_CALLS)
@pytest.mark.parametrize("name", ["kubernetes", "url", "e2b", "chroot"])
def test_a_running_daemon_refuses_it_at_every_door(running, name, call):
    """The same sentence whichever door asks, and no session is left."""
    path, body = DAEMON_CALLS[call]
    headers = {**mcp_http.BOTH, "MCP-Protocol-Version": mcp_http.VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "sandbox_exec"}
    if "type" in body:
        body = {**body, "type": name}
    else:
        headers["Bailey-Settings"] = json.dumps({"SANDBOX_TYPE": name})
    before = [one["id"] for one in running.get("/v1/sessions")["sessions"]]
    reply = running.call("POST", path, body, headers=headers)
    assert sentence(name) in reply.body.decode() and name in reply.body.decode(), reply
    assert b"ran\\n" not in reply.body, reply
    assert [one["id"] for one in running.get("/v1/sessions")["sessions"]] == before


@pytest.mark.parametrize("command", TYPED, ids=lambda command: command[0])
@pytest.mark.parametrize("name", ["kubernetes", "url", "e2b", "chroot"])
def test_by_flag_beside_a_running_daemon(running, name, command):
    done = running.bailey(command[0], *(["new"] if command[1:] == ("new",) else []), "--type", name,
                          *[word for word in command[1:] if word != "new"], stdin=MCP_HELLO.encode() + b"\n")
    assert sentence(name) in done.stderr + done.stdout and done.status == 125, done
    assert b"ran\n" not in done.out, done


def test_a_provider_that_does_not_answer_says_so_at_every_door(room):
    env = {"SANDBOX_TYPE": "docker", "DOCKER_HOST": f"unix://{room.path}/nobody.sock"}
    with mcp_http.Served(env, room=room) as server:
        for door, error, _ in doors(server):
            assert "Docker daemon not available" in json.dumps(error), (door, error)
            if isinstance(error, dict) and "code" in error and door != "execute":
                assert error["code"] == "provider_unavailable", (door, error)
                assert error["provider"] == "docker", (door, error)


def test_what_fell_back_is_named_by_what_made_it(room):
    env = {"SANDBOX_TYPE": "docker", "DOCKER_HOST": f"unix://{room.path}/nobody.sock",
           "SANDBOX_FALLBACK": "local"}
    with serve.Daemon(env, room=room) as daemon:
        ran = daemon.post("/v1/run", {"language": "python", "code": "print('ran')"})
        told = daemon.exec(daemon.session()["id"], "echo", "ran")
        for result in (ran, told):
            assert result["meta"]["runtime"] == "local", result
            assert result["meta"]["fallback"]["from"] == "docker", result
            assert result["meta"]["fallback"]["to"] == "local", result
