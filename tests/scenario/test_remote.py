"""`bailey --url URL`: every command drives a server on another machine, or says that it cannot.

The client has a state folder and a runtime folder of its own, which stay empty: nothing falls back to this
machine. COMMANDS has a row for each command that the program knows."""
import http.server
import json
import subprocess
import threading
import types

import pytest

import daemon_fixture
import support
import tcp

EVERY = ["run", "sessions", "files", "metrics", "admin", "operator"]
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
    "name": "sandbox_exec", "arguments": {"command": ["echo", "from", "there"]}}}


class Client:
    """A user of another machine: the server's address and key, folders that must stay empty."""

    def __init__(self, server, key, **env):
        self.server, self.room, self.user = server, support.Room(), None
        self.url = f"{'https' if server.context else 'http'}://127.0.0.1:{server.port}"
        self.folders = [self.room.path / name for name in ("state", "run")]
        for folder in self.folders:
            folder.mkdir(mode=0o700)
        self.env = {"BAILEY_STATE_DIR": self.folders[0], "XDG_RUNTIME_DIR": self.folders[1],
                    "BAILEY_URL": self.url, "BAILEY_API_KEY": key, **env}

    def call(self, *args, env=None, **rest):
        return support.bailey(*args, env={**self.env, **(env or {})}, room=self.room, **rest)

    def ok(self, *args, **rest):
        done = self.call(*args, **rest)
        assert done.status == 0, done
        return done.stdout

    def json(self, *args, **rest):
        return json.loads(self.ok(*args, **rest))

    def is_untouched(self):
        return not [name for folder in self.folders for name in folder.iterdir()]


@pytest.fixture(scope="module")
def server():
    with tcp.Server({"SANDBOX_MEMORY_LIMIT": "512m"}) as running:
        yield running


@pytest.fixture(scope="module")
def full_key(server):
    return server.new_key(name="remote", scopes=EVERY)


@pytest.fixture
def there(server, full_key):
    """With the session `one`, which has no box before it is used."""
    client = Client(server, full_key)
    client.ok("session", "new", "--name", "one", "-q")
    yield client
    client.ok("session", "rm", "one")
    assert client.is_untouched()


# ---- every command

def run(there):
    done = there.call("run", "-c", "import sys; print(sys.argv[1]); sys.exit(3)", "--", "a b")
    assert (done.status, done.stdout) == (3, "a b\n"), done


def exec_(there):
    assert there.ok("exec", "--", "echo", "plain") == "plain\n"
    assert there.ok("exec", "-s", "one", "--stdin", "--", "cat", stdin=b"in\n") == "in\n"
    assert there.ok("exec", "-s", "one", "-d", "--", "sleep", "1000").startswith("s_")
    missing = there.call("exec", "--", "nosuch")
    assert missing.status == 127 and "nosuch" in missing.stderr, missing


def tool(there):
    assert there.json("tool", "run_python_code", '{"code": "print(7)"}')["output"] == "7\n"
    assert "sandbox_exec" in there.ok("tool", "--list")
    assert there.json("tool", "-s", "one", "sandbox_exec", '{"command": ["echo", "x"]}')["stdout"] == "x\n"


def session(there):
    there.room.write("sales.csv", "a,b\n1,2\n")
    made = there.ok("session", "new", "-q", "--data", "sales=sales.csv").strip()
    assert there.ok("exec", "-s", made, "--", "cat", "/tmp/data/sales.csv") == "a,b\n1,2\n"
    assert made in there.ok("session", "ls", "-q").split()
    assert there.json("session", "show", made, "--json")["tenant"] == "default"
    there.ok("session", "rm", made)


def code(there):
    there.ok("code", "-s", "one", "-c", "x = 41")
    assert there.ok("code", "-s", "one", "-c", "x + 1") == "42\n"


def context(there):
    assert there.json("context", "new", "-s", "one", "--name", "second", "--json")["name"] == "second"
    assert "second" in there.ok("context", "ls", "-s", "one")


def install(there):
    assert there.json("install", "-s", "one", "--json")["packages"] == []


def shell(there):
    status, seen = daemon_fixture.on_terminal(there, "shell", "-s", "one", steps=[
        (b"$ ", b"echo from-$((40 + 2)); exit 5\n")])
    assert status == 5 and b"from-42" in seen, seen


def files(there):
    there.room.write("up.txt", "up\n")
    there.ok("cp", "up.txt", "one:kept/")
    assert "up.txt" in there.ok("ls", "one:kept")
    assert there.ok("cat", "one:kept/up.txt") == "up\n"
    there.ok("cp", "one:kept/up.txt", "down.txt")
    assert (there.room.work / "down.txt").read_text() == "up\n"
    there.ok("rm", "one:kept/up.txt")


def outputs(there):
    done = there.call("exec", "-s", "one", "--", "sh", "-c", "echo kept > /tmp/output/kept.txt")
    assert "saved on the server: /tmp/output/kept.txt" in done.stderr, done
    listed = there.call("outputs", "one")
    assert "/tmp/output/kept.txt" in listed.stdout and "bailey cp one:/tmp/output/" in listed.stderr, listed
    there.ok("cp", "one:/tmp/output/kept.txt", ".")
    assert (there.room.work / "kept.txt").read_text() == "kept\n"


def logs(there):
    ran = there.ok("exec", "-s", "one", "-d", "--", "echo", "logged").strip()
    there.server.get(f"/v1/sessions/one/processes/{ran.rpartition('.')[2]}?wait=60")
    assert there.ok("logs", ran) == "logged\n"


def events(there):
    assert "session.created" in there.ok("events")


def ps(there):
    there.ok("exec", "-s", "one", "-d", "--", "sleep", "1001")
    assert "sleep 1001" in there.ok("ps")


def template(there):
    assert "python" in there.ok("template", "ls", "-q").split()
    assert there.json("template", "show", "python", "--json")["name"] == "python"


def key(there):
    made = there.json("key", "new", "--json", "--name", "another")
    assert made["id"] in there.ok("key", "ls", "-q").split()
    there.ok("key", "rm", made["id"])


def audit(there):
    assert '"session.new"' in there.ok("audit", "query") or there.ok("audit", "tail")
    here = there.call("audit", "verify")
    assert here.status == 125 and "run it on the server's machine" in here.stderr, here


def prompt(there):
    assert "sandbox_exec" in there.ok("prompt")
    other = there.ok("prompt", env={"SANDBOX_MEMORY_LIMIT": "64m"})
    assert "512" in other and "64 MB" not in other, "the limits are the server's"


def ask(there):
    done = there.call("ask", "hi")
    assert done.status == 125 and "BAILEY_UPSTREAM_URL" in done.stderr, "this server has no model server"


def mcp(there):
    process = support.start("mcp", env=there.env, room=there.room, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for message in (INITIALIZE, CALL):
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert answers[0]["result"]["serverInfo"]["name"] == "bailey", answers
    assert "from there" in answers[1]["result"]["content"][0]["text"], answers
    _, said = process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 0 and not said, said


def port(there):
    """That a connection goes through is in test_ports.py."""
    assert there.ok("port", "-s", "one") == ""


def openapi(there):
    assert there.json("openapi") == json.loads(there.server.tcp("GET", "/openapi.json", key=False).body)


def only_here(there):
    """Refused by one sentence, whatever else is on the line; nothing was started."""
    for name in HERE:
        for args in ((name,), (name, "--url", there.url), ("--url", there.url, name)):
            done = there.call(*args)
            assert done.status == 125 and len(done.stderr.splitlines()) == 1, done
            assert f"'bailey {name}' works on this machine only" in done.stderr, done
            assert there.url in done.stderr and "--url=" in done.stderr, done


def without_a_server(there):
    for name in NONE:
        assert there.ok(name, *(["bash"] if name == "completion" else [])) == support.bailey(
            name, *(["bash"] if name == "completion" else [])).stdout


HERE = ("serve", "upgrade", "daemon", "reload", "doctor", "config", "image")
NONE = ("version", "help", "completion", "man")
COMMANDS = {
    "run": run, "exec": exec_, "tool": tool, "session": session, "code": code, "context": context,
    "install": install, "shell": shell, "cp": files, "ls": files, "cat": files, "rm": files,
    "outputs": outputs, "logs": logs, "events": events, "ps": ps, "port": port, "template": template, "key": key,
    "audit": audit, "prompt": prompt, "ask": ask, "mcp": mcp, "openapi": openapi,
    **dict.fromkeys(HERE, only_here), **dict.fromkeys(NONE, without_a_server)}


@pytest.mark.parametrize("walk", dict.fromkeys(COMMANDS.values()), ids=lambda walk: walk.__name__.strip("_"))
def test_a_command_works_on_the_server_or_is_refused(there, walk):
    walk(there)


def test_every_command_has_a_verdict():
    assert set(support.bailey("help", "--names").stdout.split()) == set(COMMANDS)


# ---- a run of its own

def test_a_run_takes_files_and_input_there_and_brings_outputs_back(there):
    room = there.room
    room.write("data.txt", "seven")
    room.write("task.py", "import sys; open('/tmp/output/out.txt', 'w').write(open('data.txt').read() +"
                          " input()); print(sys.argv[1:])")
    done = there.call("run", "--file", "data.txt", "--stdin", "--out", "got", "task.py", "--", "x", stdin=b"!\n")
    assert (done.status, done.stdout) == (0, "['x']\n"), done
    assert (room.work / "got" / "out.txt").read_text() == "seven!"
    assert "fetched got/out.txt" in done.stderr, done
    assert there.ok("session", "ls", "-q").split() == [there.json("session", "show", "one", "--json")["id"]]


def test_a_result_in_json_is_the_servers(there):
    result = json.loads(there.ok("run", "--json", "-c", "print(1)"))
    assert result["stdout"] == "1\n" and result["meta"]["resource_limits"]["memory_bytes"] == 512 << 20, result
    result = json.loads(there.ok("exec", "--json", "--", "echo", "2"))
    assert result["stdout"] == "2\n", result


def test_an_interrupted_run_ends_on_the_server(there):
    process = support.start("run", "-c", "print('on', flush=True); import time; time.sleep(1000)",
                            env=there.env, room=there.room, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    process.terminate()
    _, said = process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 128 + 15, said


def test_settings_only_tighten_and_errors_name_the_key(there):
    small = there.json("run", "--json", "--memory", "64m", "-c", "pass")
    assert small["meta"]["resource_limits"]["memory_bytes"] == 64 << 20, small
    assert there.call("run", "--timeout", "1", "-c", "while True: pass").status == 124
    for args in (("run", "--memory", "8g", "-c", "pass"), ("exec", "--memory", "8g", "--", "true"),
                 ("session", "new", "--memory", "8g")):
        done = there.call(*args)
        assert done.status == 125 and "SANDBOX_MEMORY_LIMIT" in done.stderr, done
    for option in ("--no-daemon", "--timing"):
        done = there.call("run", option, "-c", "pass")
        assert done.status == 125 and option in done.stderr, done


def test_keys_of_this_machines_daemon_are_not_sent(there):
    assert there.ok("run", "-c", "print(1)", env={"SANDBOX_MAX_SESSIONS": "3"}) == "1\n"


# ---- naming the server

def test_options_may_stand_before_and_after_the_command(there):
    key, file = there.env["BAILEY_API_KEY"], there.room.write("key", there.env["BAILEY_API_KEY"] + "\n")
    bare = {"BAILEY_URL": None, "BAILEY_API_KEY": None}
    for args in (["--url", there.url, "--key", key, "run", "-c", "print(1)"],
                 ["run", f"--url={there.url}", f"--key-file={file}", "-c", "print(1)"],
                 ["--url", there.url, "run", "-c", "print(1)", "--key-file", file]):
        assert there.ok(*args, env=bare) == "1\n"
    assert there.ok("run", "-c", "print(1)", env={"BAILEY_API_KEY": None, "BAILEY_API_KEY_FILE": file}) == "1\n"
    assert there.call("ps", "--key", key, env={"BAILEY_API_KEY": "wrong"}).status == 0
    socket = there.server.socket
    assert there.call("ps", "--url", f"unix://{socket}", env=bare).status == 0


def test_an_empty_url_is_this_machine(there):
    place = daemon_fixture.DaemonFixture()
    try:
        done = place.call("--url=", "daemon", "status", env={"BAILEY_URL": there.url})
        assert done.status == 3, done
        assert place.call("--url=", "run", "-c", "print(1)", env={"BAILEY_URL": "http://127.0.0.1:1"}).stdout == "1\n"
    finally:
        place.close()


def test_a_key_is_not_in_the_arguments_of_the_other_program(there):
    process = support.start("--url", there.url, "--key", there.env["BAILEY_API_KEY"], "events", "-f",
                            env={**there.env, "BAILEY_API_KEY": None}, room=there.room,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline()
    with open(f"/proc/{process.pid}/cmdline", "rb") as file:
        words = file.read()
    process.terminate()
    process.communicate(timeout=support.PATIENCE)
    assert b"events" in words and b"bly_" not in words, words


@pytest.fixture(scope="module")
def other():
    """A web server that is not a Bailey."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404)
        do_POST = do_GET

        def log_message(self, *_):
            pass
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield types.SimpleNamespace(url=f"http://127.0.0.1:{web.server_port}")
    web.shutdown()
    web.server_close()


def test_errors_are_one_sentence_that_says_what_to_do(there, other):
    files_only = there.server.new_key(name="files", scopes=["files"])
    for env, said in (
            ({"BAILEY_URL": "http://127.0.0.1:1"}, "no server answers at http://127.0.0.1:1"),
            ({"BAILEY_URL": "http://no-such-host.invalid:1"}, "check the name in --url"),
            ({"BAILEY_URL": other.url}, "is not a Bailey"),
            ({"BAILEY_URL": there.url.replace("http:", "https:")}, "write http://"),
            ({"BAILEY_URL": "127.0.0.1:7070"}, "write http://HOST:PORT"),
            ({"BAILEY_API_KEY": None}, "BAILEY_API_KEY or --key-file"),
            ({"BAILEY_API_KEY": "bly_0.0"}, "BAILEY_API_KEY or --key-file"),
            ({"BAILEY_API_KEY": files_only}, "does not have the scope"),
            ({"BAILEY_API_KEY": None, "BAILEY_API_KEY_FILE": "/nowhere"}, "--key-file '/nowhere'")):
        for args in (("run", "-c", "print(1)"), ("exec", "--", "true"), ("ps",), ("session", "new"),
                     ("code", "-s", "one", "-c", "1"), ("mcp",)):
            done = there.call(*args, env=env, stdin=b"")
            assert done.status == 125 and said in done.stderr, (env, done)
            assert len(done.stderr.splitlines()) == 1 and not done.stdout, (env, done)
    assert there.is_untouched()


def test_messages_of_mcp_count_as_requests_and_end_with_the_key():
    with tcp.Server({"SANDBOX_QUOTA_REQUESTS": "1"}) as server:
        made = server.post("/v1/keys", {"name": "one"}, 201)
        there = Client(server, made["key"])
        process = support.start("mcp", env=there.env, room=there.room, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(100):
            process.stdin.write(json.dumps({**INITIALIZE, "id": number}).encode() + b"\n")
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(100)]
        refused = [one for one in answers if "error" in one]
        assert refused and "SANDBOX_QUOTA_REQUESTS" in refused[0]["error"]["message"], answers[-1]
        server.call("DELETE", f"/v1/keys/{made['id']}")
        process.stdin.write(json.dumps({**INITIALIZE, "id": 1000}).encode() + b"\n")
        process.stdin.flush()
        last = json.loads(process.stdout.readline())
        assert last["id"] == 1000 and "key" in last["error"]["message"], last
        process.communicate(timeout=support.PATIENCE)


# ---- TLS

def test_https_with_an_authority_of_its_own(tmp_path):
    with tcp.Server(tls=tcp.certificate(tmp_path, "localhost")) as server:
        there = Client(server, server.key)
        done = there.call("ps")
        assert done.status == 125 and "--ca-file" in done.stderr, done
        plain = there.call("ps", "--url", there.url.replace("https:", "http:"))
        assert plain.status == 125 and "write https://" in plain.stderr, plain
        missing = there.call("ps", "--ca-file", "/nowhere")
        assert missing.status == 125 and "--ca-file '/nowhere'" in missing.stderr, missing
        there.env["BAILEY_CA_FILE"] = tmp_path / "localhost.pem"
        there.ok("session", "new", "--name", "one", "-q")
        for walk in (run, code, files, shell, mcp):
            walk(there)
        there.room.write("big", "x" * 3_000_000)
        there.ok("cp", "big", "one:big")
        assert len(there.ok("cat", "one:big")) == 3_000_000
        assert there.is_untouched()
