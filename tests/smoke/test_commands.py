"""Every command of `bailey help` once, as a person types it: each has one result that is looked at.

COMMANDS is the table; a command that is not in it, or that its function does not call, fails a test.
"""
import json
import os
import shutil
import signal
import subprocess

import pytest

import support
import tcp
import daemon_fixture
from walk import furnished


class Place:
    """The command line of one daemon; a session in it and other daemons are made when they are asked for."""

    def __init__(self, daemon):
        self.daemon, self.room, self.made, self.yards = daemon, daemon.room, [], []

    def ok(self, *args, **rest):
        """A call that has to work; its standard output."""
        done = self.daemon.bailey(*args, **rest)
        assert done.status == 0, done
        return done.stdout

    def json(self, *args, **rest):
        return json.loads(self.ok(*args, "--json", **rest))

    @property
    def session(self):
        if not self.made:
            self.made.append(self.ok("session", "new").strip())
        return self.made[0]

    def own_daemon(self):
        """The folders of a daemon that is not running yet."""
        self.yards.append(daemon_fixture.DaemonFixture(env={"BAILEY_LOG": "info"}))
        return self.yards[-1]

    def close(self):
        for session in self.made:
            self.daemon.end(session)
        for each in self.yards:
            each.close()


@pytest.fixture(scope="module")
def daemon():
    with tcp.Server(**furnished()) as running:
        yield running


@pytest.fixture
def place(daemon):
    made = Place(daemon)
    yield made
    made.close()


# --- code in a box


def run(place):
    place.room.write("sum.py", "import sys\nprint(sum(map(int, sys.stdin)))\n")
    assert place.ok("run", "--stdin", "sum.py", stdin=b"40\n2\n") == "42\n"


def exec_(place):
    assert place.ok("exec", "--", "sh", "-c", "hostname; pwd") == "bailey\n/workspace\n"
    assert place.ok("exec", "-s", place.session, "--", "sh", "-c", "echo $((6 * 7))") == "42\n"


def tool(place):
    said = json.loads(place.ok("tool", "sandbox_exec", "-s", place.session, '{"command": ["echo", "hi"]}'))
    assert said["stdout"] == "hi\n" and said["session_id"] == place.session


# --- sessions


def session(place):
    made = place.ok("session", "new", "--name", "smoke").strip()
    assert place.json("session", "show", "smoke")["id"] == made
    place.ok("session", "extend", "smoke", "1h")
    assert made in place.ok("session", "ls", "-q")
    place.ok("session", "rm", "smoke")
    assert made not in place.ok("session", "ls", "-q")


def code(place):
    place.ok("code", "-s", place.session, "-c", "x = 6")
    assert place.ok("code", "-s", place.session, "-c", "x * 7") == "42\n"


def context(place):
    made = place.json("context", "new", "-s", place.session, "--name", "side")
    listed = place.json("context", "ls", "-s", place.session)["contexts"]
    assert [(each["id"], each["name"]) for each in listed] == [(made["id"], "side")], listed
    place.ok("context", "restart", "-s", place.session, "side")
    place.ok("context", "rm", "-s", place.session, "side")
    assert place.json("context", "ls", "-s", place.session)["contexts"] == []


def install(place):
    place.ok("install", "-s", place.session, "moat")
    assert place.ok("code", "-s", place.session, "-c", "import moat; moat.depth + 1") == "42\n"


def shell(place):
    status, seen = daemon_fixture.on_terminal(place.daemon, "shell", "-s", place.session, "--", "sh", "-i", steps=[
        (b"$ ", b"test -t 0 && echo ter\"\"minal\n"), (b"terminal", b"exit 5\n")])
    assert status == 5, seen


def port(place):
    assert place.json("port", "-s", place.session)["ports"] == []


def files(place):
    """cp, ls, cat and rm."""
    place.room.write("there.txt", "here and back\n")
    name = f"{place.session}:note.txt"
    place.ok("cp", "there.txt", name)
    assert "note.txt" in place.ok("ls", f"{place.session}:")
    assert place.ok("cat", name) == "here and back\n"
    place.ok("cp", name, "back.txt")
    assert (place.room.work / "back.txt").read_text() == "here and back\n"
    place.ok("rm", name)
    assert "note.txt" not in place.ok("ls", f"{place.session}:")


def outputs(place):
    place.ok("exec", "-s", place.session, "--", "sh", "-c", "echo a,b > /tmp/output/t.csv")
    only, = place.json("outputs", place.session)["outputs"]
    assert only["name"] == "t.csv" and only["bytes"] == 4, only


def background(place):
    """logs, ps and events of a command in the background."""
    started = place.ok("exec", "-d", "-s", place.session, "--", "sh", "-c", "echo said; exit 3").strip()
    done = place.daemon.bailey("logs", "-f", started)
    assert done.stdout == "said\n", done
    only, = place.json("ps", "--all", "-s", place.session)["processes"]
    assert (only["execution_id"], only["exit_code"]) == (started, 3), only
    told = [json.loads(line) for line in place.ok("events", "--json", "-s", place.session).splitlines()]
    assert [each["exit_code"] for each in told if each["type"] == "exec.exited"] == [3], told


def template(place):
    place.room.write("mine/template.yaml", "name: mine\npackages: [moat]\n")
    place.ok("template", "build", "mine")
    assert place.json("template", "show", "mine")["packages"] == [{"name": "moat", "version": "1.0"}]
    assert place.ok("run", "--template", "mine", "-c", "import moat; print(moat.depth)") == "41\n"
    assert "mine" in place.ok("template", "ls", "-q").split()
    place.ok("template", "verify", "mine")
    place.ok("template", "rm", "mine")
    assert "mine" not in place.ok("template", "ls", "-q").split()


def image(place):
    """Without Docker the error says what to do; `make test-docker` tests it with Docker."""
    nowhere = {"DOCKER_HOST": f"unix://{place.room.path}/nobody.sock"}
    for action in (["ls"], ["rm", "smoke"], ["build"]):
        done = place.daemon.bailey("image", *action, env=nowhere)
        assert done.status == 125 and "Docker daemon not available" in done.stderr, done
        assert "start Docker daemon" in done.stderr, done


# --- the daemon


def serve_(place):
    """In the foreground, until SIGTERM."""
    own = place.own_daemon()
    ready, told = os.pipe()
    process = own.start("serve", "--ready-fd", told, pass_fds=[told])
    os.close(told)
    try:
        with os.fdopen(ready) as pipe:
            assert pipe.readline() == "ready\n"
        info = own.info()
        assert (info["running"], info["state"]) == (True, str(own.state)), info
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 0, err


def key(place):
    made = place.json("key", "new", "--tenant", "acme", "--scopes", "run,sessions")
    listed = {each["id"]: each for each in place.json("key", "ls")["keys"]}
    assert listed[made["id"]]["tenant"] == "acme", listed

    def status(text):
        return place.daemon.tcp("GET", "/v1/sessions", key=text).status
    assert status(made["key"]) == 200
    turned = place.json("key", "rotate", made["id"])
    assert (status(turned["key"]), status(made["key"])) == (200, 401)
    place.ok("key", "rm", made["id"])
    assert status(turned["key"]) == 401


def upgrade(place):
    """To the same version: the broker is another one, and the session keeps its variables."""
    place.ok("code", "-s", place.session, "-c", "x = 6")
    before = place.daemon.get("/v1/info")
    assert "has taken over" in place.ok("upgrade")
    after = place.daemon.get("/v1/info")
    assert after["generation"] == before["generation"] + 1 and after["broker_pid"] != before["broker_pid"]
    assert place.ok("code", "-s", place.session, "-c", "x * 7") == "42\n"


def daemon_(place):
    """The daemon is started by the first command that needs it."""
    own = place.own_daemon()
    assert own.call("daemon", "status").status == 3
    own.session()
    status = own.info()
    assert (status["running"], status["sessions"], status["state"]) == (True, 1, str(own.state)), status
    assert "/v1/sessions" in own.ok("daemon", "log")
    own.ok("daemon", "stop", "--force")
    assert own.call("daemon", "status").status == 3


def audit(place):
    done = place.daemon.bailey("exec", "-s", place.session, "--", "sh", "-c", "exit 7")
    assert done.status == 7, done
    line, = map(json.loads, place.ok("audit", "query", "--action", "exec", "--session",
                                     place.session).splitlines())
    assert line["exit_code"] == 7, line
    assert json.loads(place.ok("audit", "tail").splitlines()[-1])["seq"] >= line["seq"]
    assert place.json("audit", "verify")["intact"] is True


def reload(place):
    """A quota comes into force, stays, and is raised again."""
    changed = place.json("reload", env={"SANDBOX_QUOTA_SESSIONS": "1"})
    assert "SANDBOX_QUOTA_SESSIONS" in changed["changed"], changed
    key = place.daemon.new_key(tenant="reloaded", scopes=["sessions"])
    replies = [place.daemon.tcp("POST", "/v1/sessions", {}, key=key) for _ in range(2)]
    assert [reply.status for reply in replies] == [201, 429], replies
    place.daemon.end(replies[0].json()["id"])
    assert place.json("reload")["changed"] == [], "a shell without the variable changes nothing"
    changed = place.json("reload", env={"SANDBOX_QUOTA_SESSIONS": "50"})
    assert "SANDBOX_QUOTA_SESSIONS" in changed["changed"], changed


# --- for agents


def prompt(place):
    said = place.ok("prompt")
    assert "sandbox_exec" in said and "/tmp/output" in said


def mcp(place):
    """A tool call over standard input and output."""
    process = support.start("mcp", env=place.daemon.env, room=place.room, stdin=subprocess.PIPE)

    def ask(number, method, **params):
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(support.read_until(process.stdout, b"\n"))
        assert answer["id"] == number, answer
        return answer["result"]

    try:
        said = ask(1, "initialize", protocolVersion="2025-11-25", capabilities={},
                   clientInfo={"name": "smoke", "version": "1"})
        assert said["serverInfo"]["name"] == "bailey", said
        assert "sandbox_exec" in [each["name"] for each in ask(2, "tools/list")["tools"]]
        done = ask(3, "tools/call", name="run_python_code", arguments={"code": "print(6 * 7)"})
        assert "42" in done["content"][0]["text"], done
    finally:
        _, err = process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 0, err


def openapi(place):
    assert json.loads(place.ok("openapi")) == place.daemon.get("/openapi.json")


# --- bailey itself


def doctor(place):
    """The level and the layers that it names are those of a run."""
    said = place.json("doctor")
    held = json.loads(place.ok("run", "--json", "-c", "pass"))["meta"]["isolation"]
    assert said["ok"] is True and said["level"] == held["level"], (said, held)
    assert sorted(each["name"] for each in said["layers"] if each["held"]) == sorted(held["layers"])


def config(place):
    row = place.json("config", env={"SANDBOX_TIMEOUT_SEC": "7"})["values"]["SANDBOX_TIMEOUT_SEC"]
    assert (row["value"], row["source"]) == ("7", "environment"), row


def version(place):
    assert place.ok("version").split()[:2] == ["bailey", place.daemon.get("/v1/info")["version"]]


def help_(place):
    assert place.ok("help", "run").startswith("Usage: bailey run ")


def completion(place):
    place.room.write("completion", place.ok("completion", "bash"))
    asked = "source ./completion; COMP_WORDS=(bailey vers); COMP_CWORD=1; _bailey; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", asked], cwd=place.room.work, capture_output=True, text=True)
    assert done.stdout.split() == ["version"], done
    assert "#compdef bailey" in place.ok("completion", "zsh")


def man(place):
    assert ".SH NAME" in place.ok("man") and "run source code" in place.ok("man", "run")


def ask(place):
    """Without a model server: one sentence that says how to have one."""
    done = place.daemon.bailey("ask", "What is 6 * 7?")
    assert done.status == 125 and "BAILEY_UPSTREAM_URL" in done.stderr, done


COMMANDS = {
    "run": run, "exec": exec_, "tool": tool,
    "session": session, "code": code, "context": context, "install": install, "shell": shell,
    "port": port,
    "cp": files, "ls": files, "cat": files, "rm": files, "outputs": outputs,
    "logs": background, "ps": background, "events": background,
    "template": template, "image": image,
    "serve": serve_, "key": key, "upgrade": upgrade, "daemon": daemon_, "audit": audit, "reload": reload,
    "prompt": prompt, "mcp": mcp, "ask": ask, "openapi": openapi,
    "doctor": doctor, "config": config, "version": version, "help": help_, "completion": completion,
    "man": man,
}


@pytest.mark.parametrize("walk", dict.fromkeys(COMMANDS.values()), ids=lambda walk: walk.__name__.strip("_"))
def test_command(place, called, walk):
    walk(place)
    assert called >= {name for name, function in COMMANDS.items() if function is walk}


def test_every_command_is_walked():
    names = support.bailey("help", "--names").stdout.split()
    assert set(names) == set(COMMANDS), "a row of COMMANDS for each command of `bailey help`"


LANGUAGES = {"python": ("x = 6", "print(x * 7)"), "javascript": ("var x = 6", "console.log(x * 7)"),
             "bash": ("x=6", "echo $((x * 7))")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_language(place, language):
    """In a fresh box, and in a session that keeps its variables."""
    first, second = LANGUAGES[language]
    if language == "javascript" and not shutil.which("node", path=support.PATH):
        pytest.skip("node is not installed on this machine")
    assert place.ok("run", "-l", language, "-c", f"{first}\n{second}") == "42\n"
    place.ok("code", "-s", place.session, "-l", language, "-c", first)
    assert place.ok("code", "-s", place.session, "-l", language, "-c", second) == "42\n"


def test_every_language_is_tried(daemon):
    assert set(daemon.get("/v1/info")["languages"]) <= set(LANGUAGES)
