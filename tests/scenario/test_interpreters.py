"""A session and a run have the interpreter that their caller names (SANDBOX_PYTHON, SANDBOX_NODE), beside
others of the same daemon. Its folders are in that box only; what cannot be had is an error with the key."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import types
from pathlib import Path

import daemon_fixture
import install
import pytest
import serve
import support
import tcp
import wheels

WHERE = "import sys; print(sys.prefix)"
PYTHON = "/usr/bin/python3"


def header(**settings):
    return {"Bailey-Settings": json.dumps({key: str(value) for key, value in settings.items()})}


def environment(folder):
    """A virtual environment with a module of its own; the path of its Python."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder], check=True)
    packages = next((folder / "lib").glob("python3*")) / "site-packages"
    (packages / "only_here.py").write_text("word = 'found'\n")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def place():
    """A folder that the daemon's ids can enter, with two environments."""
    folder = Path(tempfile.mkdtemp(prefix="interpreters-", dir=support.base()))
    folder.chmod(0o755)
    yield types.SimpleNamespace(path=folder, one=environment(folder / "one"), two=environment(folder / "two"))
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def running():
    with serve.Daemon() as one:
        yield one


@pytest.fixture
def daemon(running):
    yield running
    for session in running.get("/v1/sessions")["sessions"]:
        running.end(session["id"])


def new(daemon, **env):
    done = daemon.bailey("session", "new", "-q", env=env)
    assert done.status == 0, done
    return done.stdout.strip()


def prefix(daemon, session):
    reply = daemon.post(f"/v1/sessions/{session}/code", {"code": WHERE})
    assert reply["exit_code"] == 0, reply
    return reply["stdout"].strip()


def test_sessions_of_one_daemon_have_the_interpreters_of_their_callers(daemon, place):
    usual = new(daemon)
    named = {python: new(daemon, SANDBOX_PYTHON=python) for python in (place.one, place.two)}
    for python, session in named.items():
        folder = str(python.parent.parent)
        assert prefix(daemon, session) == folder
        assert daemon.get(f"/v1/sessions/{session}")["settings"]["SANDBOX_PYTHON"] == str(python)
        assert str(python) in daemon.bailey("session", "show", session).stdout
        # the commands of the box are the same interpreter
        for name in ("python", "python3"):
            done = daemon.exec(session, name, "-c", "import sys, only_here; print(only_here.word, sys.prefix)")
            assert done["stdout"] == f"found {folder}\n", done
    own = daemon.get(f"/v1/sessions/{usual}")["settings"]["SANDBOX_PYTHON"]
    assert own not in map(str, named) and prefix(daemon, usual) not in {str(p.parent.parent) for p in named}
    assert daemon.exec(usual, own, "-c", "print(1)")["stdout"] == "1\n"


def test_its_folders_are_in_that_box_only(daemon, place):
    usual, named = new(daemon), new(daemon, SANDBOX_PYTHON=place.one)
    assert daemon.exec(named, "test", "-e", str(place.one))["exit_code"] == 0
    assert daemon.exec(named, "test", "-e", str(place.two))["exit_code"] == 1
    assert daemon.exec(usual, "test", "-e", str(place.one))["exit_code"] == 1
    listed = daemon.exec(named, "ls", str(place.path))
    assert listed["stdout"].split() == ["one"], listed
    written = daemon.exec(named, "touch", str(place.one.parent / "evil"))
    assert written["exit_code"] == 1 and "Read-only" in written["stderr"], written


def test_a_run_of_every_door_has_it(daemon, place):
    folder, settings = str(place.one.parent.parent), header(SANDBOX_PYTHON=place.one)
    ran = daemon.asked("POST", "/v1/run", {"code": WHERE}, headers=settings).json()
    assert ran["stdout"] == f"{folder}\n", ran
    ran = daemon.asked("POST", "/execute", {"code": WHERE, "language": "python"}, headers=settings)
    assert folder in ran.body.decode(), ran
    for command in (("run", "-c", WHERE), ("tool", "run_python_code", json.dumps({"code": WHERE})),
                    ("code", "-s", new(daemon, SANDBOX_PYTHON=place.one), "-c", WHERE)):
        done = daemon.bailey(*command, env={"SANDBOX_PYTHON": place.one})
        assert done.status == 0 and folder in done.stdout, done
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
               "params": {"name": "run_code", "arguments": {"code": WHERE}}}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize",
             "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    head = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18", **settings}
    head["Mcp-Session-Id"] = daemon.asked("POST", "/mcp", hello, headers=head).headers["Mcp-Session-Id"]
    assert folder in daemon.asked("POST", "/mcp", message, headers=head).body.decode()
    process = support.start("mcp", env={**daemon.env, "SANDBOX_PYTHON": str(place.one)}, room=daemon.room,
                            user=daemon.user, stdin=-1, stdout=-1)
    try:
        for one in (hello, message):
            process.stdin.write(json.dumps(one).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        assert folder.encode() in answer, answer
    finally:
        process.stdin.close()
        process.wait()


def is_another_broker(daemon, before):
    try:
        return daemon.get("/v1/info")["broker_pid"] != before
    except (OSError, AssertionError):
        return False


def test_it_survives_a_restart_of_the_broker(place):
    with serve.Daemon() as daemon:
        session = new(daemon, SANDBOX_PYTHON=place.one)
        daemon.post(f"/v1/sessions/{session}/code", {"code": "x = 41"})
        before = daemon.get("/v1/info")["broker_pid"]
        os.kill(before, signal.SIGKILL)
        support.wait_until(lambda: is_another_broker(daemon, before), "another broker serves")
        assert daemon.get(f"/v1/sessions/{session}")["settings"]["SANDBOX_PYTHON"] == str(place.one)
        assert daemon.post(f"/v1/sessions/{session}/code", {"code": "print(x + 1)"})["stdout"] == "42\n"
        # a kernel of the new broker
        made = daemon.post(f"/v1/sessions/{session}/contexts", {"language": "python"}, 201)
        reply = daemon.post(f"/v1/sessions/{session}/code", {"code": WHERE, "context": made["id"]})
        assert reply["stdout"] == f"{place.one.parent.parent}\n", reply


def test_the_session_keeps_it(daemon, place):
    session = new(daemon, SANDBOX_PYTHON=place.one)
    for command in (("exec", "-s", session, "--", "true"), ("code", "-s", session, "-c", "1")):
        assert daemon.bailey(*command, env={"SANDBOX_PYTHON": place.one}).status == 0
        done = daemon.bailey(*command, env={"SANDBOX_PYTHON": place.two})
        assert done.status == 125, done
        for part in ("SANDBOX_PYTHON", str(place.one), str(place.two), "another session"):
            assert part in done.stderr, done


def test_a_name_is_found_as_the_command_finds_it(daemon, place):
    path = f"{place.one.parent}:{os.environ['PATH']}"
    session = new(daemon, SANDBOX_PYTHON="python", PATH=path)
    assert prefix(daemon, session) == str(place.one.parent.parent)
    error = daemon.refused("POST", "/v1/sessions", 400, "bad_input", {}, headers=header(SANDBOX_PYTHON="python"))
    assert "SANDBOX_PYTHON" in error["message"] and "absolute path" in error["message"], error


def use(daemon, **settings):
    """Of a session with these settings: why its first command could not start."""
    made = daemon.asked("POST", "/v1/sessions", {}, 201, headers=header(**settings)).json()
    reply = daemon.exec(made["id"], "true")
    assert (reply["exit_code"], reply["meta"]["error"]["code"]) == (1, "no_interpreter"), reply
    assert reply["stderr"].strip() == reply["meta"]["error"]["message"], reply
    return reply["stderr"]


@pytest.mark.parametrize("name", ["missing", "script", "link", "wide"])
def test_what_cannot_be_had_is_an_error_with_the_key(daemon, place, name):
    folder = place.path / f"bad-{name}"
    folder.mkdir(mode=0o755, exist_ok=True)
    path, why = folder / "python", ""
    if name == "missing":
        why = "no such file"
    elif name == "script":
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        why = "a script"
    elif name == "link":
        path.symlink_to(place.one)
        why = "is a link"
    else:  # a program whose folder has other things besides a Python
        (folder / "bin").mkdir()
        path = folder / "bin" / "python3"
        shutil.copy(os.path.realpath(PYTHON), path)
        why = "lib/python3"
    message = use(daemon, SANDBOX_PYTHON=path)
    assert "SANDBOX_PYTHON" in message and str(path) in message and why in message, message


def test_nothing_of_the_state_folder_is_an_interpreter():
    """The broker can write there: it must not choose what a box shows of the host."""
    with serve.Daemon(user=support.ways()["ordinary"].user) as daemon:
        python = environment(daemon.state / "output" / "venv")
        subprocess.run(["chown", "-Rh", f"{daemon.user or os.getuid()}", daemon.state / "output" / "venv"], check=True)
        message = use(daemon, SANDBOX_PYTHON=python)
        assert "SANDBOX_PYTHON" in message and "state folder" in message, message


def test_a_template_belongs_to_the_daemons_python(place):
    with serve.Daemon() as daemon:
        env = {"SANDBOX_PYTHON": str(place.one)}
        folder = daemon.room.path / "own"
        folder.mkdir(exist_ok=True)
        (folder / "template.yaml").write_text("name: mine\npackages: []\n")
        daemon.room.give(folder)
        done = daemon.bailey("template", "build", folder, env=env)
        assert done.status == 125 and "SANDBOX_PYTHON" in done.stderr and str(place.one) in done.stderr, done
        session = new(daemon, **env)  # "auto" is then the plain one
        assert daemon.get(f"/v1/sessions/{session}")["settings"]["SANDBOX_TEMPLATE"] == "python"
        assert daemon.bailey("template", "build", folder).status == 0
        done = daemon.bailey("session", "new", "--template", "mine", env=env)
        assert done.status == 125, done
        for part in ("SANDBOX_PYTHON", str(place.one), "daemon's Python"):
            assert part in done.stderr, done
        ran = daemon.asked("POST", "/v1/run", {"code": WHERE, "template": "mine"}, 400, headers=header(**env))
        assert "SANDBOX_PYTHON" in ran.error["message"], ran


def test_boxes_with_another_file_system_have_none_of_the_host(daemon, place):
    for path, more in (("/v1/sessions", {}), ("/v1/run", {"code": "1"})):
        error = daemon.refused("POST", path, 400, "bad_input", {"type": "docker", **more},
                               headers=header(SANDBOX_PYTHON=place.one))
        for part in ("SANDBOX_PYTHON", str(place.one), "image", "SANDBOX_TYPE=local"):
            assert part in error["message"], error


def test_another_node(daemon, place):
    node = shutil.which("node")
    if not node:
        pytest.skip("no Node.js here")
    folder = place.path / "node"
    for part in ("bin", "include/node"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "include/node/node.h").write_text("")
    program = folder / "bin/node"
    shutil.copy(os.path.realpath(node), program)
    session = new(daemon, SANDBOX_NODE=program)
    reply = daemon.post(f"/v1/sessions/{session}/code",
                        {"code": "console.log(process.execPath)", "language": "javascript"})
    assert reply["stdout"] == f"{program}\n", reply
    usual = new(daemon)
    reply = daemon.post(f"/v1/sessions/{usual}/code",
                        {"code": "console.log(process.execPath)", "language": "javascript"})
    assert reply["exit_code"] == 0 and reply["stdout"] != f"{program}\n", reply


# ---- who may name which

def test_over_the_network_only_those_of_the_configuration(place):
    with tcp.Server({"SANDBOX_INTERPRETERS": place.one}) as server:
        for path, more in (("/v1/sessions", {}), ("/v1/run", {"code": "1"})):
            reply = server.tcp("POST", path, more, headers=header(SANDBOX_PYTHON=place.two))
            assert reply.status == 400 and reply.error["code"] == "bad_input", reply
            for part in ("SANDBOX_PYTHON", str(place.two), "SANDBOX_INTERPRETERS"):
                assert part in reply.error["message"], reply
        reply = server.tcp("POST", "/v1/run", {"code": WHERE}, headers=header(SANDBOX_PYTHON=place.one))
        assert reply.json()["stdout"] == f"{place.one.parent.parent}\n", reply
        # the list is complete for local callers too
        done = server.bailey("session", "new", env={"SANDBOX_PYTHON": place.two})
        assert done.status == 125 and "SANDBOX_INTERPRETERS" in done.stderr, done
        session = new(server, SANDBOX_PYTHON=place.one)
        assert prefix(server, session) == str(place.one.parent.parent)


def test_without_a_list_a_caller_over_the_network_names_none(place):
    with tcp.Server() as server:
        reply = server.tcp("POST", "/v1/sessions", {}, headers=header(SANDBOX_PYTHON=place.one))
        assert reply.status == 400 and "SANDBOX_INTERPRETERS" in reply.error["message"], reply
        own = server.tcp("POST", "/v1/sessions", {}).json()["settings"]["SANDBOX_PYTHON"]
        assert server.tcp("POST", "/v1/sessions", {}, headers=header(SANDBOX_PYTHON=own)).status == 201


def test_a_listed_interpreter_has_to_be_there():
    room = support.Room()
    done = support.bailey("serve", "--state", room.path / "state", room=room,
                          env={"SANDBOX_INTERPRETERS": "/nowhere/bin/python3", "XDG_RUNTIME_DIR": room.path})
    assert done.status == 125 and "SANDBOX_INTERPRETERS" in done.stderr and "/nowhere" in done.stderr, done


def test_below_a_closed_home(place):
    """After a root start the launcher cannot enter it, so it has to be opened at the start."""
    closed = place.path / "closed"
    closed.mkdir(mode=0o700)
    python = environment(closed / "venv")
    for folder, names, files in os.walk(closed):
        for name in [folder, *(os.path.join(folder, n) for n in names + files)]:
            if support.usual(None) is not None:
                os.chown(name, support.usual(None), support.usual(None), follow_symlinks=False)
    with serve.Daemon() as daemon:
        if daemon.user is None and support.is_root():
            message = use(daemon, SANDBOX_PYTHON=python)
            for part in ("SANDBOX_PYTHON", str(python), f"SANDBOX_INTERPRETERS={python}", "daemon stop"):
                assert part in message, message
        else:
            assert prefix(daemon, new(daemon, SANDBOX_PYTHON=python)) == str(closed / "venv")
    with serve.Daemon({"SANDBOX_INTERPRETERS": python}) as daemon:
        session = new(daemon, SANDBOX_PYTHON=python)
        assert prefix(daemon, session) == str(closed / "venv")
        assert daemon.exec(session, "ls", str(closed))["stdout"].split() == ["venv"]


# ---- a daemon that a command started

def test_the_starters_interpreter_is_not_the_next_callers(place):
    own = daemon_fixture.DaemonFixture(env={"SANDBOX_POOL_SIZE": "0"})
    try:
        first = own.ok("session", "new", "-q", env={"SANDBOX_PYTHON": place.one}).strip()
        second = own.ok("session", "new", "-q").strip()
        said = [own.ok("code", "-s", one, "-c", WHERE).strip() for one in (first, second)]
        assert said[0] == str(place.one.parent.parent) and said[1] not in ("", said[0]), said
        alone = own.ok("run", "--no-daemon", "-c", WHERE).strip()
        assert said[1] == alone, (said, alone)
    finally:
        own.close()


# ---- packages

def test_packages_of_a_session_are_for_its_own_python(place, tmp_path):
    wheels.folder(tmp_path / "wheels", *install.ALL)
    with serve.Daemon(install.settings(tmp_path / "wheels", SANDBOX_AUTO_INSTALL="false")) as daemon:
        here = new(daemon, SANDBOX_PYTHON=place.one)
        done = install.install(daemon, here, "castle")
        assert install.names(done["installed"]) == {"castle": "1.2", "moat": "1.0"}, done
        reply = install.cell(daemon, here, "import castle, sys; print(castle.walls, sys.prefix)")
        assert reply["stdout"] == f"42 {place.one.parent.parent}\n", reply
        ran = daemon.asked("POST", "/v1/run", {"code": "import moat, sys; print(moat.depth, sys.prefix)"},
                           headers=header(SANDBOX_PYTHON=place.two, SANDBOX_AUTO_INSTALL="true")).json()
        assert ran["stdout"] == f"41 {place.two.parent.parent}\n", ran
