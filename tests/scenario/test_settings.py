"""Settings belong to the caller: beside a running daemon with other values each of them is honoured
or refused by name, never dropped. Over the command line, REST and MCP (stdio and HTTP)."""
import json
import os
import re
import signal
import types

import daemon_fixture
import pytest
import serve
import support
import tcp
import wsclient


@pytest.fixture(scope="module")
def running():
    with serve.Daemon({"SANDBOX_STORE_CODE": "always"}) as one:
        yield one


@pytest.fixture
def daemon(running):
    """Its sessions end with each test."""
    yield running
    for session in running.get("/v1/sessions")["sessions"]:
        running.end(session["id"])


def header(**settings):
    return {"Bailey-Settings": json.dumps(settings)}


def new(daemon, *args, **env):
    done = daemon.bailey("session", "new", "-q", *args, env=env)
    assert done.status == 0, done
    return done.stdout.strip()


def shown(daemon, session):
    return daemon.get(f"/v1/sessions/{session}")


def refused(done, key, *values):
    assert done.status == 125, done
    for part in (key, *values):
        assert part in done.stderr, (part, done)


# ---- each key that belongs to a session: set by the environment, and seen in the session

OF_SESSIONS = {
    "SANDBOX_TYPE": ("local", None),
    "SANDBOX_FALLBACK": ("local", "none"),
    "SANDBOX_ISOLATION": ("standard", "strict"),
    "SANDBOX_MEMORY_LIMIT": ("96m", "97m"),
    "SANDBOX_CPU_LIMIT": ("0.5", "0.25"),
    "SANDBOX_PIDS_LIMIT": ("70", "71"),
    "SANDBOX_DISK_LIMIT": ("20m", "21m"),
    "SANDBOX_SESSION_IDLE": ("7m", "8m"),
    "SANDBOX_SESSION_MAX_AGE": ("2h", "3h"),
    "SANDBOX_TEMPLATE": ("python", "data"),
}
OF_CALLS = {"SANDBOX_TIMEOUT_SEC", "SANDBOX_MAX_OUTPUT_KB", "SANDBOX_BLOCK_DANGEROUS_IMPORTS",
            "SANDBOX_BLOCKED_IMPORTS", "SANDBOX_STORE_CODE", "SANDBOX_AUTO_INSTALL"}


def places():
    values = json.loads(support.bailey("config", "--json").stdout)["values"]
    return {key: value["place"] for key, value in values.items()}


def test_every_key_belongs_somewhere():
    found = places()
    assert {key for key, place in found.items() if place == "call"} == OF_CALLS
    sessions = {key for key, place in found.items() if place == "session"}
    # the last two: test_interpreters.py
    assert sessions - set(OF_SESSIONS) == {"DOCKER_CPU_LIMIT", "DOCKER_MEMORY_LIMIT", "SANDBOX_PYTHON", "SANDBOX_NODE"}
    assert set(found.values()) == {"call", "session", "daemon", "program"}


@pytest.mark.parametrize("key", OF_SESSIONS)
def test_a_session_has_the_value_of_who_made_it(daemon, key):
    value, other = OF_SESSIONS[key]
    session = new(daemon, **{key: value})
    assert shown(daemon, session)["settings"][key] == value
    # whoever sets the same may use it
    done = daemon.bailey("exec", "-s", session, "--", "true", env={key: value})
    assert done.status == 0, done
    for command in (("exec", "-s", session, "--", "true"), ("code", "-s", session, "-c", "1"),
                    ("tool", "sandbox_write_file", '{"file_path": "/tmp/a", "content": ""}', "-s", session)):
        if other is None:
            continue
        done = daemon.bailey(*command, env={key: other})
        if command[0] == "tool":
            reply = json.loads(done.stdout)
            said = json.dumps(reply)
            assert reply["success"] is False and all(word in said for word in (key, value, other)), reply
        else:
            refused(done, key, value, other, "make another session")
    # the command that looks at it, and the one that removes it, ask for nothing
    assert daemon.bailey("session", "show", session, env={key: other or value}).status == 0
    assert daemon.bailey("session", "rm", session, env={key: other or value}).status == 0


def test_limits_hold_in_the_box(daemon):
    session = new(daemon, "--memory", "96m", "--pids", "70")
    limits = shown(daemon, session)["limits"]
    assert limits["memory_bytes"] == 96 << 20 and limits["disk_bytes"] == 48 << 20
    assert limits["pids"] == 70, limits
    result = daemon.exec(session, "sh", "-c", "df -k /workspace | tail -1 | awk '{print $2}'")
    assert int(result["stdout"]) < 64 << 10, result  # the daemon's own is 512 MB
    assert result["meta"]["resource_limits"]["memory_bytes"] == 96 << 20, result


def test_settings_survive_a_broker_that_is_killed():
    with serve.Daemon() as daemon:
        session = new(daemon, SANDBOX_MEMORY_LIMIT="96m", SANDBOX_TIMEOUT_SEC="0.5")
        fresh = new(daemon, SANDBOX_PIDS_LIMIT="70")
        assert daemon.exec(session, "true")["exit_code"] == 0
        before = {one: shown(daemon, one)["settings"] for one in (session, fresh)}
        os.kill(daemon.get("/v1/info")["broker_pid"], signal.SIGKILL)
        daemon._wait_until_it_answers()
        assert {one: shown(daemon, one)["settings"] for one in (session, fresh)} == before
        refused(daemon.bailey("exec", "-s", session, "--", "true", env={"SANDBOX_MEMORY_LIMIT": "97m"}),
                "SANDBOX_MEMORY_LIMIT", "97m", "96m")
        assert daemon.exec(fresh, "true")["meta"]["resource_limits"]["pids"] == 70
        done = daemon.bailey("code", "-s", session, "-j", "-c", "import time; time.sleep(60)")
        assert json.loads(done.stdout)["meta"]["timed_out"] is True, done


def test_more_than_the_daemon_has_is_refused_by_name(daemon):
    for key, value in (("SANDBOX_MEMORY_LIMIT", "2g"), ("SANDBOX_PIDS_LIMIT", "300"),
                       ("SANDBOX_ISOLATION", "process")):
        refused(daemon.bailey("session", "new", env={key: value}), key, value, "start the daemon again")


# ---- each key that belongs to a call

def cell(daemon, session, code, **env):
    done = daemon.bailey("code", "-s", session, "-j", "-c", code, env=env)
    result = json.loads(done.stdout)
    assert "meta" in result, done
    return result


def test_keys_of_calls(daemon):
    session = new(daemon)
    assert cell(daemon, session, "import time; time.sleep(60)", SANDBOX_TIMEOUT_SEC="0.5")["meta"]["timed_out"]
    cut = cell(daemon, session, "print('x' * 5000)", SANDBOX_MAX_OUTPUT_KB="1")
    assert cut["meta"]["stdout_truncated"] and cut["meta"]["resource_limits"]["output_bytes"] == 1024
    assert not cell(daemon, session, "print('x' * 5000)")["meta"]["stdout_truncated"]
    blocked = cell(daemon, session, "import socket", SANDBOX_BLOCK_DANGEROUS_IMPORTS="true")
    assert blocked["meta"]["error"]["code"] == "blocked_import", blocked
    other = {"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true", "SANDBOX_BLOCKED_IMPORTS": "json"}
    assert cell(daemon, session, "import socket", **other)["exit_code"] == 0
    assert cell(daemon, session, "import json", **other)["meta"]["error"]["code"] == "blocked_import"
    assert cell(daemon, session, "import socket")["exit_code"] == 0


def test_a_command_has_the_callers_timeout(daemon):
    session = new(daemon)
    done = daemon.bailey("exec", "-s", session, "-j", "--", "sleep", "60", env={"SANDBOX_TIMEOUT_SEC": "0.5"})
    assert json.loads(done.stdout)["meta"]["timed_out"] is True, done
    # what the flag of the call says goes over it
    done = daemon.bailey("exec", "-s", session, "-t", "30", "--", "sleep", "0.7",
                         env={"SANDBOX_TIMEOUT_SEC": "0.5"})
    assert done.status == 0, done


def stored(daemon, mark):
    """Whether the audit, which is the daemon's, has the code."""
    lines = daemon.bailey("audit", "query", "--json").stdout
    return mark in lines


def test_code_is_stored_as_the_caller_says(daemon):
    session = new(daemon)
    cell(daemon, session, "'mark-kept'")
    cell(daemon, session, "'mark-never'", SANDBOX_STORE_CODE="never")
    support.wait_until(lambda: stored(daemon, "mark-kept"), "the audit has the line")
    assert not stored(daemon, "mark-never")


def test_a_file_of_the_caller_counts_too(daemon, tmp_path):
    room = daemon.room.path / "callers.yaml"
    room.write_text("sandbox:\n  memory_limit: 96m\n  timeout_sec: 0.5\n")
    daemon.room.give(room)
    session = new(daemon, "--config", str(room))
    assert shown(daemon, session)["settings"]["SANDBOX_MEMORY_LIMIT"] == "96m"
    done = daemon.bailey("code", "--config", str(room), "-s", session, "-j", "-c",
                         "import time; time.sleep(60)")
    assert json.loads(done.stdout)["meta"]["timed_out"] is True, done
    # a flag goes over the environment, and that over the file
    session = new(daemon, "--config", str(room), "--memory", "98m", SANDBOX_MEMORY_LIMIT="97m")
    assert shown(daemon, session)["settings"]["SANDBOX_MEMORY_LIMIT"] == "98m"


# ---- keys of the daemon

OF_DAEMONS = {"SANDBOX_MAX_SESSIONS": "3", "SANDBOX_QUOTA_RUNS": "2", "SANDBOX_INTERPRETERS": "/opt/nowhere/python3",
              "SANDBOX_WARM": "false", "SANDBOX_STOP_GRACE": "1s", "SANDBOX_SUPPORTED_LANGUAGES": "python"}


@pytest.mark.parametrize("key", OF_DAEMONS)
def test_a_key_of_the_daemon_is_refused_by_name(daemon, key):
    session = new(daemon)
    env = {key: OF_DAEMONS[key]}
    for command in (("session", "new"), ("exec", "-s", session, "--", "true"),
                    ("code", "-s", session, "-c", "1"), ("tool", "sandbox_exec", '{"command": ["true"]}')):
        refused(daemon.bailey(*command, env=env), key, OF_DAEMONS[key], "start the daemon again")
    done = daemon.bailey("mcp", env=env, stdin=b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n')
    assert key in json.loads(done.stdout)["error"]["message"], done


def test_the_daemons_own_value_is_no_difference(daemon):
    done = daemon.bailey("session", "new", env={"SANDBOX_STOP_GRACE": "5000ms", "DOCKER_HOST": "tcp://nowhere:1"})
    assert done.status == 0, done


# ---- every command

# S: a session, E: an ended command of it, F: a file here, T: a folder with a template. Those that do something with the daemon: a setting of theirs is honoured or refused.
WORKING = ["exec -s S -- true", "tool sandbox_exec {} -s S", "tool run_code {} -s S", "session new", "code -s S -c 1",
           "context new -s S", "install -s S nothing", "shell -s S -- true", "ask hi", "cp F S:/tmp/f", "template build T",
           "template ls", "template show python", "template verify mine", "mcp --session S --template python"]
# Those that look or take away: with whatever settings somebody has, they can be used.
LOOKING = ["session ls", "session show S", "session extend S 1m", "context ls -s S", "ls S:/tmp", "outputs S",
           "events --json -s S", "ps", "key ls", "daemon status", "audit query", "cp S:/tmp/gone F.2", "cat S:/tmp/gone",
           "openapi", "doctor", "logs E", "port -s S", "rm S:/tmp/gone", "session rm S"]
# Those that use no daemon, or are about its settings themselves.
ALONE = {"run", "serve", "image", "upgrade", "reload", "prompt", "config", "version", "help", "completion", "man"}


@pytest.fixture
def words(daemon):
    """The words of a command, with the names of things that exist."""
    session = new(daemon)
    folder = daemon.room.path / "furnished"
    folder.mkdir(exist_ok=True)
    (folder / "template.yaml").write_text("name: mine\npackages: []\n")
    file = daemon.room.path / "note"
    file.write_text("note")
    for path in (folder, file):
        daemon.room.give(path)
    daemon.exec(session, "touch", "/tmp/gone")
    ended = daemon.exec(session, "echo", "said")["meta"]["execution_id"]
    names = {"S": session, "F": str(file), "T": str(folder), "E": ended, "{}": "{}"}

    def put(word):
        head, colon, tail = word.partition(":")
        return names.get(word) or (names[head] + colon + tail if colon and head in names else
                                   word.replace("F.", names["F"] + "."))
    return lambda command: [put(word) for word in command.split()]


def test_every_command_is_in_one_of_the_lists():
    known = re.findall(r"^  ([a-z]+) {2,}", support.bailey("help").stdout.partition("Exit status")[0], re.M)
    listed = {line.split()[0] for line in WORKING + LOOKING} | ALONE
    assert set(known) == listed, set(known) ^ listed


@pytest.mark.parametrize("command", WORKING)
def test_a_command_that_works_honours_or_refuses(daemon, words, command):
    env = {"SANDBOX_MAX_SESSIONS": "3"}
    if command.startswith("shell"):
        place = types.SimpleNamespace(user=daemon.user, room=daemon.room, env={**daemon.env, **env})
        status, said = daemon_fixture.on_terminal(place, *words(command))
        said = said.decode()
    else:
        done = daemon.bailey(*words(command), env=env)
        status, said = done.status, done.stdout + done.stderr
    assert status == 125 and "SANDBOX_MAX_SESSIONS" in said and "'3'" in said, (status, said)


@pytest.mark.parametrize("command", ["exec -s S -- true", "code -s S -c 1", "context new -s S", "cp F S:/tmp/f",
                                     "install -s S nothing"])
def test_a_command_that_works_meets_the_sessions_own(daemon, words, command):
    refused(daemon.bailey(*words(command), env={"SANDBOX_PIDS_LIMIT": "71"}), "SANDBOX_PIDS_LIMIT", "71", "256")


@pytest.mark.parametrize("command", LOOKING)
def test_a_command_that_looks_asks_for_nothing(daemon, words, command):
    done = daemon.bailey(*words(command), env={"SANDBOX_MAX_SESSIONS": "3", "SANDBOX_PIDS_LIMIT": "71"})
    assert done.status == 0, done


# ---- MCP

def call(number, name, **arguments):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": {"name": name, "arguments": arguments}}


HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize",
         "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"}}}


def over_stdio(daemon, *messages, args=(), **env):
    """The replies to the messages, by id. Each is sent when the one before was answered."""
    name = f"s{os.urandom(4).hex()}"
    process = support.start("mcp", "--session", name, *args, env={**daemon.env, **env}, room=daemon.room,
                            user=daemon.user, stdin=-1, stdout=-1)
    replies = {}
    try:
        for message in (HELLO, *messages):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            while message["id"] not in replies:
                line = process.stdout.readline()
                assert line, "it ended"
                reply = json.loads(line)
                if "id" in reply:
                    replies[reply["id"]] = reply
    finally:
        process.stdin.close()
        process.wait()
    return name, replies


def test_mcp_over_stdio(daemon):
    name, replies = over_stdio(daemon, call(1, "run_code", code="import socket"),
                               call(2, "sandbox_exec", command=["true"]), args=("--pids", "70"),
                               SANDBOX_BLOCK_DANGEROUS_IMPORTS="true", SANDBOX_MEMORY_LIMIT="96m")
    assert "blocked" in json.dumps(replies[1]), replies
    assert replies[2]["result"].get("isError") is not True, replies
    settings = shown(daemon, name)["settings"]
    assert settings["SANDBOX_MEMORY_LIMIT"] == "96m" and settings["SANDBOX_PIDS_LIMIT"] == "70"
    # a second one with another value meets the same session
    process = daemon.bailey("mcp", "--session", name, "--memory", "97m",
                            stdin=json.dumps(HELLO).encode() + b"\n")
    assert process.status == 0, process


def test_the_prompt_over_mcp_has_the_callers_limits(daemon):
    asked = {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "sandbox"}}
    seen = []
    for env in ({"SANDBOX_MEMORY_LIMIT": "96m", "SANDBOX_PIDS_LIMIT": "70"}, {}):
        told = over_stdio(daemon, asked, **env)[1][1]["result"]["messages"][0]["content"]["text"]
        seen.append(re.search("Memory: .*", told)[0])
        assert seen[-1] == re.search("Memory: .*", daemon.bailey("prompt", env=env).stdout)[0], told
    assert seen[0] != seen[1], seen


def test_mcp_over_http(daemon):
    head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18"}
    settings = header(SANDBOX_MEMORY_LIMIT="96m")
    begun = daemon.asked("POST", "/mcp", HELLO, headers={**head, **settings})
    head["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
    reply = daemon.asked("POST", "/mcp", call(1, "sandbox_exec", command=["true"]), headers={**head, **settings})
    made = daemon.get("/v1/sessions")["sessions"][0]
    assert made["settings"]["SANDBOX_MEMORY_LIMIT"] == "96m", (reply, made)
    reply = daemon.asked("POST", "/mcp", call(2, "sandbox_exec", command=["true"]),
                         headers={**head, **header(SANDBOX_MEMORY_LIMIT="97m")})
    assert b"SANDBOX_MEMORY_LIMIT" in reply.body and b"96m" in reply.body, reply


# ---- WebSocket and POST /execute

def test_websocket(daemon):
    session = new(daemon, SANDBOX_MEMORY_LIMIT="96m")
    path = f"/v1/sessions/{session}/ws"
    with wsclient.connect(daemon, path, headers=header(SANDBOX_MEMORY_LIMIT="96m", SANDBOX_MAX_OUTPUT_KB="1",
                                                       SANDBOX_BLOCK_DANGEROUS_IMPORTS="true")) as ws:
        ended = ws.until("exit", ws.ask("exec", argv=["sh", "-c", "seq 5000"])["subscription"])[-1]["data"]
        assert ended["meta"]["resource_limits"]["output_bytes"] == 1024, ended
        ended = ws.until("exit", ws.ask("cell", code="import socket")["subscription"])[-1]["data"]
        assert ended["meta"]["error"]["code"] == "blocked_import", ended
    with wsclient.connect(daemon, path, headers=header(SANDBOX_MEMORY_LIMIT="97m")) as ws:
        for kind, words in (("exec", {"argv": ["true"]}), ("cell", {"code": "1"})):
            error = ws.refused(kind, **words)
            assert error["code"] == "setting_differs", error
            for part in ("SANDBOX_MEMORY_LIMIT", "97m", "96m", "another session"):
                assert part in error["message"], error
    with pytest.raises(wsclient.Refused) as caught:
        wsclient.connect(daemon, path, headers=header(SANDBOX_STOP_GRACE="1s"))
    assert caught.value.status == 409 and "SANDBOX_STOP_GRACE" in caught.value.error["message"], caught.value.error


def execute(daemon, code, status=200, **settings):
    return daemon.asked("POST", "/execute", {"code": code, "language": "python"}, status,
                        headers=header(**settings)).json()


def test_execute(daemon):
    got = execute(daemon, "print('x' * 5000)", SANDBOX_MEMORY_LIMIT="96m", SANDBOX_PIDS_LIMIT="70")
    assert got["meta"]["resource_limits"]["memory_bytes"] == 96 << 20, got
    assert got["meta"]["resource_limits"]["pids"] == 70, got
    got = execute(daemon, "import socket", SANDBOX_BLOCK_DANGEROUS_IMPORTS="true")
    assert got["meta"]["error"]["code"] == "blocked_import" and got["meta"]["error"]["message"] in got["stderr"], got
    for key, value in (("SANDBOX_STOP_GRACE", "1s"), ("SANDBOX_MEMORY_LIMIT", "4g"), ("SANDBOX_NONSENSE", "1"),
                       ("SANDBOX_TEMPLATE", "nosuch")):
        said = json.dumps(execute(daemon, "1", 400, **{key: value}))
        assert key in said or value in said, said


# ---- REST

def test_rest_takes_sizes_as_text_or_bytes(daemon):
    for memory in ("96m", 96 << 20):
        made = daemon.post("/v1/sessions", {"template": "python", "type": "local", "isolation": "standard",
                                            "limits": {"memory": memory, "cpus": 0.5, "pids": 70, "disk": "20m",
                                                       "timeout": 0.5}}, 201)
        limits = made["limits"]
        assert limits["memory_bytes"] == 96 << 20 and limits["disk_bytes"] == 20 << 20
        assert limits["pids"] == 70 and limits["cpu_millis"] == 500 and made["type"] == "local", made
        slow = daemon.post(f"/v1/sessions/{made['id']}/code", {"code": "import time; time.sleep(60)"})
        assert slow["meta"]["timed_out"] is True, slow


def test_rest_run_has_limits(daemon):
    result = daemon.post("/v1/run", {"code": "print(1)", "limits": {"memory": "96m", "pids": 70}})
    assert result["stdout"] == "1\n", result
    limits = result["meta"]["resource_limits"]
    assert limits["memory_bytes"] == 96 << 20 and limits["pids"] == 70, result
    slow = daemon.post("/v1/run", {"code": "import time; time.sleep(60)", "limits": {"timeout": 0.5}})
    assert slow["meta"]["timed_out"] is True, slow


def test_rest_refuses_by_name(daemon):
    for path, more in (("/v1/sessions", {}), ("/v1/run", {"code": "1"})):
        error = daemon.refused("POST", path, 400, "bad_input", {**more, "limits": {"memory": "lots"}})
        assert "SANDBOX_MEMORY_LIMIT" in error["message"], error
        error = daemon.refused("POST", path, 409, "setting_differs", {**more, "limits": {"memory": "4g"}})
        assert "SANDBOX_MEMORY_LIMIT" in error["message"] and "4g" in error["message"], error
        error = daemon.refused("POST", path, 400, "bad_input", {**more, "type": "kubernetes"})
        assert "kubernetes" in error["message"], error
    error = daemon.refused("POST", "/v1/sessions", 400, "bad_input", {}, headers=header(SANDBOX_MEMRY="1"))
    assert "SANDBOX_MEMRY" in error["message"], error
    error = daemon.refused("POST", "/v1/sessions", 400, "bad_input", {}, headers={"Bailey-Settings": "memory=1"})
    assert "Bailey-Settings" in error["message"], error


def test_the_document_has_the_refusal():
    document = json.loads(support.bailey("openapi").stdout)
    for path, way in (("/v1/sessions", "post"), ("/v1/run", "post"), ("/v1/sessions/{id}/exec", "post"),
                      ("/v1/sessions/{id}/code", "post"), ("/v1/sessions/{id}/contexts", "post"), ("/v1/templates", "get")):
        answer = document["paths"][path][way]["responses"]["409"]
        assert "setting_differs" in answer["description"], (path, answer)


def test_over_tcp_only_tighter():
    env = {"SANDBOX_MEMORY_LIMIT": "512m", "SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true", "SANDBOX_SESSION_IDLE": "5m",
           "SANDBOX_SESSION_MAX_AGE": "1h"}
    with tcp.Server(env) as server:
        made = server.tcp("POST", "/v1/sessions", {"limits": {"memory": "96m"}})
        assert made.status == 201 and made.json()["limits"]["memory_bytes"] == 96 << 20, made
        for settings in ({"SANDBOX_MEMORY_LIMIT": "600m"}, {"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "false"},
                         {"SANDBOX_STORE_CODE": "never"}, {"SANDBOX_AUTO_INSTALL": "true"},
                         {"SANDBOX_MAX_OUTPUT_KB": "100"}):
            reply = server.tcp("POST", "/v1/sessions", {}, headers=header(**settings))
            assert reply.status == 400 and next(iter(settings)) in reply.error["message"], (settings, reply)
        reply = server.tcp("POST", "/v1/run", {"code": "1", "limits": {"memory": "600m"}})
        assert reply.status == 400 and "512m" in reply.error["message"], reply
        for member, key, have in (("idle_timeout_s", "SANDBOX_SESSION_IDLE", "5m"),
                                  ("max_age_s", "SANDBOX_SESSION_MAX_AGE", "1h")):
            reply = server.tcp("POST", "/v1/sessions", {member: 80000})
            assert reply.status == 400 and reply.error["field"] == member, reply
            assert key in reply.error["message"] and have in reply.error["message"], reply
        made = server.tcp("POST", "/v1/sessions", {"idle_timeout_s": 60, "max_age_s": 600})
        assert made.status == 201 and made.json()["idle_timeout_s"] == 60, made
        where = f"/v1/sessions/{made.json()['id']}/extend"
        reply = server.tcp("POST", where, {"seconds": 80000})
        assert reply.status == 400 and reply.error["field"] == "seconds", reply
        assert "SANDBOX_SESSION_MAX_AGE" in reply.error["message"] and "1h" in reply.error["message"], reply
        assert server.tcp("POST", where, {"seconds": 3600}).status == 200
        # the socket is the server's own user's
        assert server.post("/v1/sessions", {"idle_timeout_s": 80000}, 201)["idle_timeout_s"] == 80000


# ---- a daemon that a command started: its starter is one caller of several

CALLERS = {
    "nothing": {},
    "less": {"SANDBOX_STORE_CODE": "always", "SANDBOX_MEMORY_LIMIT": "96m", "SANDBOX_PIDS_LIMIT": "70",
             "SANDBOX_TIMEOUT_SEC": "9", "SANDBOX_MAX_OUTPUT_KB": "1", "SANDBOX_CPU_LIMIT": "0.5",
             "SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true", "SANDBOX_SESSION_IDLE": "7m", "SANDBOX_TEMPLATE": "python"},
    "more": {"SANDBOX_MEMORY_LIMIT": "2g", "SANDBOX_PIDS_LIMIT": "300", "SANDBOX_ISOLATION": "process",
             "SANDBOX_MAX_OUTPUT_KB": "20", "SANDBOX_SESSION_MAX_AGE": "9h"},
}


@pytest.fixture
def started():
    """A place in which the first command starts the daemon."""
    own = daemon_fixture.DaemonFixture(env={"SANDBOX_POOL_SIZE": "0"})
    yield own
    own.close()


def told(own, env):
    """What `bailey config` tells this caller: all values, and those of its limits."""
    values = {key: one["value"] for key, one in own.json("config", "--json", env=env)["values"].items()}
    size = {"m": 1 << 20, "g": 1 << 30}
    limits = {f"{name}_bytes": int(values[f"SANDBOX_{name.upper()}_LIMIT"][:-1]) *
              size[values[f"SANDBOX_{name.upper()}_LIMIT"][-1]] for name in ("memory", "disk")}
    limits |= {"pids": int(values["SANDBOX_PIDS_LIMIT"]), "timeout_s": float(values["SANDBOX_TIMEOUT_SEC"]),
               "output_bytes": int(values["SANDBOX_MAX_OUTPUT_KB"]) * 1024}
    return values, limits


def limits_by_door(own, session, env):
    """The limits that a result of each door says it had."""
    asked = {"code": "print(6 * 7)"}
    yield own.json("code", "-s", session, "-j", "-c", asked["code"], env=env)
    yield own.json("tool", "run_code", "-s", session, json.dumps(asked), env=env)
    yield own.json("run", "--json", "-c", asked["code"], env=env)
    yield own.json("exec", "-s", session, "-j", "-t", str(told(own, env)[1]["timeout_s"]), "--", "echo", "42", env=env)
    connection = serve.Connection(own.info()["socket"])
    connection.request("POST", "/v1/run", json.dumps(asked), {"Content-Type": "application/json", **header(**env)})
    yield json.loads(connection.getresponse().read())
    connection.close()


def meets_its_own(own, name, env):
    values, limits = told(own, env)
    session = own.ok("session", "new", "-q", "--name", name, env=env).strip()
    for result in limits_by_door(own, session, env):
        assert result["stdout"] == "42\n", result
        had = result["meta"]["resource_limits"]
        if "SANDBOX_TIMEOUT_SEC" not in env:
            had["timeout_s"] = limits["timeout_s"]  # some doors have a default of their own
        assert {key: had[key] for key in limits} == limits, result
    over_mcp, replies = over_stdio(own, call(1, "sandbox_exec", command=["true"]), **env)
    assert replies[1]["result"].get("isError") is not True, replies
    for one in (session, over_mcp):
        has = own.json("session", "show", one, "--json", env=env)["settings"]
        for key in ("SANDBOX_TYPE", "SANDBOX_MEMORY_LIMIT", "SANDBOX_CPU_LIMIT", "SANDBOX_PIDS_LIMIT",
                    "SANDBOX_ISOLATION", "SANDBOX_SESSION_IDLE", "SANDBOX_SESSION_MAX_AGE"):
            assert has[key] == values[key], (one, key, has)
    done = own.call("code", "-s", session, "-j", "-c", "import socket", env=env).json()
    is_blocked = done["meta"].get("error", {}).get("code") == "blocked_import"
    assert is_blocked == (values["SANDBOX_BLOCK_DANGEROUS_IMPORTS"] == "true"), done
    own.json("code", "-s", session, "-j", "-c", f"'mark-{name}'", env=env)
    own.json("code", "-s", session, "-j", "-c", f"'after-{name}'", env={**env, "SANDBOX_STORE_CODE": "always"})
    support.wait_until(lambda: f"after-{name}" in own.ok("audit", "query", "--json"), "the audit has the line")
    is_stored = f"mark-{name}" in own.ok("audit", "query", "--json")
    assert is_stored == (values["SANDBOX_STORE_CODE"] == "always"), name


@pytest.mark.parametrize("order", ["less nothing more", "nothing more less", "more less nothing"])
def test_who_started_the_daemon_decides_nothing_for_others(started, order):
    for name in order.split():
        meets_its_own(started, name, CALLERS[name])


def test_the_starters_runtime_is_not_the_next_callers(started):
    elsewhere = {"SANDBOX_TYPE": "docker", "DOCKER_HOST": f"unix://{started.room.path}/docker.sock"}
    first = started.ok("session", "new", "-q", env=elsewhere).strip()
    second = started.ok("session", "new", "-q").strip()
    shown = {one: started.json("session", "show", one, "--json") for one in (first, second)}
    assert (shown[first]["type"], shown[second]["type"]) == ("docker", "local"), shown
    done = started.exec(first, "true", env=elsewhere)
    assert done.status == 125 and "Docker daemon not available" in done.stderr, done
    assert started.exec(second, "true").status == 0


def test_a_key_of_the_daemon_is_its_starters(started):
    started.ok("session", "new", env={"SANDBOX_MAX_SESSIONS": "1"})
    done = started.call("session", "new")
    assert done.status == 125 and "SANDBOX_MAX_SESSIONS" in done.stderr, done
    refused(started.call("session", "new", env={"SANDBOX_MAX_SESSIONS": "2"}), "SANDBOX_MAX_SESSIONS", "'2'", "'1'")


def test_reload_of_a_daemon_on_demand_leaves_callers_their_own(started):
    started.session()
    done = started.json("reload", "--json", env={"SANDBOX_MEMORY_LIMIT": "96m", "SANDBOX_QUOTA_RUNS": "6"})
    assert done["changed"] == ["SANDBOX_QUOTA_RUNS"] and "SANDBOX_MEMORY_LIMIT" not in done["restart"], done


# ---- reload

def test_reload_keeps_what_the_servers_environment_said():
    with serve.Daemon({"SANDBOX_QUOTA_RUNS": "5"}) as server:
        bare = {key: value for key, value in server.env.items() if key != "SANDBOX_QUOTA_RUNS"}
        done = support.bailey("reload", "--json", env=bare, room=server.room, user=server.user)
        assert done.status == 0 and json.loads(done.stdout)["changed"] == [], done
        done = server.bailey("reload", "--json", env={"SANDBOX_QUOTA_RUNS": "6"})
        assert json.loads(done.stdout)["changed"] == ["SANDBOX_QUOTA_RUNS"], done
        done = support.bailey("reload", "--json", env=bare, room=server.room, user=server.user)
        assert json.loads(done.stdout)["changed"] == [], done


def test_reload_reads_the_servers_file_from_anywhere():
    room = support.Room(support.usual(None))
    file = room.path / "server.yaml"
    file.write_text("sandbox:\n  quota_runs: 5\n")
    room.give(file)
    with serve.Daemon({"BAILEY_CONFIG": file}, room=room) as server:
        file.write_text("sandbox:\n  quota_runs: 6\n")
        bare = {key: value for key, value in server.env.items() if key != "BAILEY_CONFIG"}
        done = support.bailey("reload", "--json", env=bare, room=room, user=server.user)
        assert json.loads(done.stdout)["changed"] == ["SANDBOX_QUOTA_RUNS"], done
        file.write_text("sandbox: {}\n")
        done = support.bailey("reload", "--json", env=bare, room=room, user=server.user)
        assert json.loads(done.stdout)["changed"] == ["SANDBOX_QUOTA_RUNS"], done
    room.remove()


# ---- the same flags on each command that begins something

FLAGS = {"SANDBOX_MEMORY_LIMIT": ("--memory", "96m", "97m"), "SANDBOX_CPU_LIMIT": ("--cpus", "0.5", "0.25"),
         "SANDBOX_PIDS_LIMIT": ("--pids", "70", "71"), "SANDBOX_DISK_LIMIT": ("--disk", "20m", "21m"),
         "SANDBOX_TIMEOUT_SEC": ("--timeout", "0.5", None), "SANDBOX_TEMPLATE": ("--template", "python", "data"),
         "SANDBOX_TYPE": ("--type", "local", "docker"), "SANDBOX_ISOLATION": ("--isolation", "standard", "strict")}
GIVEN = [word for flag, value, _ in FLAGS.values() for word in (flag, value)]


def test_every_flag_of_session_new_and_of_mcp(daemon):
    named = over_stdio(daemon, call(1, "sandbox_exec", command=["true"]), args=GIVEN)[0]
    for session in (new(daemon, *GIVEN), named):
        settings = shown(daemon, session)["settings"]
        assert {key: settings[key] for key in FLAGS} == {key: row[1] for key, row in FLAGS.items()}
        assert cell(daemon, session, "import time; time.sleep(60)")["meta"]["timed_out"] is True


def test_every_flag_of_code(daemon):
    session = new(daemon, *GIVEN)
    assert daemon.bailey("code", "-s", session, *GIVEN, "-c", "print(1)").stdout == "1\n"
    for key, (flag, value, other) in FLAGS.items():
        if other:
            refused(daemon.bailey("code", "-s", session, flag, other, "-c", "1"), key, value, other)


@pytest.mark.parametrize("more", [(), ("--no-daemon",)])
def test_every_flag_of_run(daemon, more):
    result = json.loads(daemon.bailey("run", *more, *GIVEN, "--json", "-c", "import time; time.sleep(60)").stdout)
    limits = result["meta"]["resource_limits"]
    assert result["meta"]["timed_out"] is True and result["meta"]["runtime"] == "local", result
    assert (limits["memory_bytes"], limits["disk_bytes"], limits["pids"], limits["cpus"], limits["timeout_s"]) == (
        96 << 20, 20 << 20, 70, 0.5, 0.5), limits
