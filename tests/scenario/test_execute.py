"""POST /execute and GET /health: what callers of that contract know, and what is better than there."""
import base64
import json

import pytest

import install
import serve
import support
import tcp
import wheels

MEMBERS = {"status", "stdout", "stderr", "exit_code", "execution_time_ms", "language", "truncated",
           "meta"}


def b64(data):
    return base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def server():
    with tcp.Server() as running:
        yield running


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(path, *install.ALL)
    return path


@pytest.fixture(scope="module")
def small(server, shelf):
    """
    Little output is kept, one call at once, some packages, and no key is asked for. It is built upon
    the other one so that it ends first: each looks for what it left.
    """
    with tcp.Server({"SANDBOX_MAX_CONCURRENT": "1", "SANDBOX_EXECUTE_OPEN": "true",
                     "SANDBOX_INSTALL_DENY": "tower", "SECRET_OF_THE_SERVER": "hunter2",
                     "BAILEY_CONFIG": None, **install.settings(shelf, SANDBOX_AUTO_INSTALL="false")},
                    room=configured("max_output_size: 1000")) as running:
        # The egress proxy stays with a daemon from its first installation on.
        assert execute(running, "import moat", requirements=["moat"])["exit_code"] == 0
        support.wait_until(lambda: not install.left_packages(running), "nothing is left of it")
        yield running
    running.room.remove()


def configured(line):
    """A room whose bailey.yaml has a setting of the provider."""
    room = support.Room()
    room.write("bailey.yaml",
               f"providers:\n  code_interpreter:\n    settings:\n      {line}\n".encode())
    return room


def execute(server, code, status=200, key=None, headers=None, **members):
    reply = server.tcp("POST", "/execute", {"code": code, **members}, headers, key)
    assert reply.status == status, reply
    return reply.json()


def error(reply, status):
    """The one shape of an error here."""
    assert reply.status == status, reply
    assert list(reply.json()) == ["error", "code"], reply
    assert all(isinstance(each, str) for each in reply.json().values()), reply
    return reply.json()["error"]


# --- the contract


def test_success(server):
    got = execute(server, "print('Hello')")
    assert set(got) == MEMBERS
    assert (got["status"], got["stdout"], got["stderr"], got["exit_code"]) == (
        "success", "Hello\n", "", 0)
    assert isinstance(got["execution_time_ms"], int)
    assert got["language"] == "python" and got["truncated"] is False
    assert got["meta"]["isolation"]["layers"]


def test_failing_code_is_an_answer(server):
    got = execute(server, "print('a'); raise SystemExit(3)")
    assert (got["status"], got["stdout"], got["exit_code"]) == ("error", "a\n", 3)
    got = execute(server, "1/0")
    assert got["status"] == "error" and got["exit_code"] == 1
    assert "ZeroDivisionError" in got["stderr"]
    # The name of the source is the contract's.
    assert "script.py" in got["stderr"]


def test_files_in_and_out(server):
    got = execute(
        server,
        "import os\n"
        "print(sorted(os.listdir('.')), os.getcwd() == os.path.dirname(os.path.abspath('in.bin')))\n"
        "out = os.environ['OUTPUT_DIR']\n"
        "data = open('in.bin', 'rb').read()\n"
        "open(out + '/back.bin', 'wb').write(data[::-1])\n"
        "open(out + '/.hidden', 'w').write('h')\n"
        "open(out + '/empty', 'w')\n"
        "os.mkdir(out + '/sub'); open(out + '/sub/deep', 'w').write('no')\n"
        "os.symlink('/etc/passwd', out + '/link')\n"
        "os.mkfifo(out + '/pipe')\n",
        files={"folder/../in.bin": b64(b"\0\1\xff" * 1000), "b.txt": b64(b"b")})
    assert got["exit_code"] == 0, got
    assert got["stdout"] == "['b.txt', 'in.bin', 'script.py'] True\n"
    assert {name: base64.b64decode(text) for name, text in got["files_produced"].items()} == {
        "back.bin": (b"\0\1\xff" * 1000)[::-1], ".hidden": b"h", "empty": b""}
    assert got["truncated"] is False


def test_no_files_no_member(server):
    assert "files_produced" not in execute(server, "pass")


def test_each_call_is_a_fresh_box(server):
    execute(server, "open('/tmp/x', 'w'); open('/workspace/y', 'w'); open('/tmp/output/z', 'w')")
    got = execute(server, "import os; print(os.listdir('/tmp'), os.listdir('/workspace'), "
                          "os.listdir('/tmp/output'))")
    assert "x" not in got["stdout"] and "'y'" not in got["stdout"] and "'z'" not in got["stdout"]


def test_deadline_ends_the_whole_tree(server):
    """A grandchild that holds the pipes does not hold the answer, and does not live on."""
    got = execute(server, "import subprocess, sys, time\n"
                          "print('so far', flush=True)\n"
                          "subprocess.Popen(['sh', '-c', 'sleep 1000 & sleep 1000'])\n"
                          "time.sleep(1000)\n", timeout_seconds=1)
    assert (got["status"], got["exit_code"], got["stdout"]) == ("error", -1, "so far\n")
    assert "timed out after 1 s" in got["stderr"]
    assert got["meta"]["timed_out"] is True
    assert server.get("/v1/sessions")["sessions"] == []


def test_the_deadline_is_not_in_the_way_of_stderr(server):
    got = execute(server, "import sys, time\nprint('mine', file=sys.stderr, flush=True)\n"
                          "time.sleep(1000)\n", timeout_seconds=1)
    assert got["stderr"] == "mine\n" and got["exit_code"] == -1


@pytest.mark.parametrize("seconds", [0, -5, None])
def test_no_timeout_means_thirty(server, seconds):
    got = execute(server, "pass", timeout_seconds=seconds)
    assert got["meta"]["resource_limits"]["timeout_s"] == 30


def test_an_absent_timeout_means_thirty_whatever_is_configured(small):
    for body, wanted in (({}, 30), ({"timeout_seconds": 7}, 7)):
        got = execute(small, "pass", key=False, **body)
        assert got["meta"]["resource_limits"]["timeout_s"] == wanted


def test_files_of_a_run_that_was_ended(server):
    """What was there before the deadline comes home, too."""
    got = execute(server, "import time\nopen('/tmp/output/a', 'w').write('so far')\ntime.sleep(1000)",
                  timeout_seconds=1)
    assert got["exit_code"] == -1 and got["meta"]["timed_out"] is True
    assert got["files_produced"] == {"a": b64(b"so far")}


def test_the_time_is_that_of_the_program(server):
    """Whole milliseconds, without what came before; at the deadline it was used up."""
    got = execute(server, "import time\ntime.sleep(1000)", timeout_seconds=1)
    assert got["execution_time_ms"] >= 1000


def test_content_types(server):
    """Callers of that contract do not have to send a good one: curl's -d says it is a form."""
    body = json.dumps({"code": "print(1)"}).encode()
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8"):
        reply = server.tcp("POST", "/execute", body, {"Content-Type": kind})
        assert reply.status == 200 and reply.json()["stdout"] == "1\n", reply
        assert reply.headers["Content-Type"] == "application/json"


def test_unknown_members_are_passed_over(server):
    assert execute(server, "print(1)", tool_name="x", env_name=["y"])["stdout"] == "1\n"


@pytest.mark.parametrize("word, code", [("bash", "echo $((40 + 2))"), ("shell", "echo 42")])
def test_languages(server, word, code):
    got = execute(server, code, language=word, requirements=["passed-over"])
    assert (got["stdout"], got["language"]) == ("42\n", "bash")


@pytest.mark.parametrize("language, code", [
    ("python", "import os\nprint(open('/proc/self/environ').read(), dict(os.environ))"),
    ("bash", "env; cat /proc/*/environ")])
def test_nothing_of_the_servers_environment(small, language, code):
    got = execute(small, code, key=False, language=language)
    assert "OUTPUT_DIR" in got["stdout"]
    assert "hunter2" not in got["stdout"] and "SANDBOX_" not in got["stdout"]
    assert str(small.state) not in got["stdout"]


def test_health(server):
    execute(server, "pass")
    reply = server.tcp("GET", "/health", key=False)
    assert reply.status == 200, reply
    got = reply.json()
    assert set(got) == {"status", "mode", "runtime_version", "capacity", "current_load",
                        "uptime_seconds"}
    assert (got["status"], got["mode"], got["current_load"]) == ("healthy", "python", 0)
    assert got["runtime_version"].startswith("Python 3.")
    assert got["capacity"] == 16 and got["uptime_seconds"] >= 0
    assert server.tcp("GET", "/health", key=False).json()["runtime_version"] == got["runtime_version"]


# --- requirements


def test_requirements(small):
    got = execute(small, "import castle, moat; print(castle.walls)", key=False,
                  requirements=["castle==1.2"], timeout_seconds=60)
    assert (got["stdout"], got["exit_code"]) == ("42\n", 0), got
    assert install.names(got["meta"]["requirements"]) == {"castle": "1.2", "moat": "1.0"}
    # The next call does not have them.
    assert execute(small, "import castle", key=False)["exit_code"] == 1
    support.wait_until(lambda: not install.left_packages(small), "nothing is left of it")


@pytest.mark.parametrize("name, word", [("no-such-thing-here", "no-such-thing-here"),
                                        ("tower", "tower"), ("moat==99", "moat")])
def test_requirements_that_cannot_be_had(small, name, word):
    got = execute(small, "print('never')", key=False, requirements=[name], timeout_seconds=60)
    assert (got["status"], got["exit_code"], got["stdout"]) == ("error", -1, "")
    assert word in got["stderr"]
    assert got["meta"]["error"]["code"] in ("install_failed", "install_denied")


def test_requirements_of_another_language(small):
    reply = small.tcp("POST", "/execute", {"code": "1", "language": "node", "requirements": ["moat"]},
                      key=False)
    assert error(reply, 400)


@pytest.mark.parametrize("name", ["", "-r /etc/passwd", "git+https://x/y", "../x", "a b", "x" * 300])
def test_bad_requirements(small, name):
    assert error(small.tcp("POST", "/execute", {"code": "pass", "requirements": [name]}, key=False),
                 400)


# --- limits


def test_output_is_cut_with_a_flag(small):
    got = execute(small, "print('x' * 5000)", key=False)
    assert got["truncated"] is True and got["exit_code"] == 0
    assert got["stdout"].startswith("x" * 1000) and "x" * 1001 not in got["stdout"]
    got = execute(small, "print('x' * 999)", key=False)
    assert got["truncated"] is False and got["stdout"] == "x" * 999 + "\n"


def test_files_are_cut_with_a_flag(small):
    got = execute(small, "open('/tmp/output/a', 'w').write('a' * 600)\n"
                         "open('/tmp/output/b', 'w').write('b' * 1001)\n", key=False)
    assert got["truncated"] is True
    assert set(got["files_produced"]) == {"a"}
    assert [each["name"] for each in got["meta"]["skipped_files"]] == ["b"]


def test_more_files_than_come_home(server):
    got = execute(server, "for i in range(1010): open(f'/tmp/output/{i}', 'w')")
    assert got["truncated"] is True and got["exit_code"] == 0
    assert len(got["files_produced"]) == 1000 and len(got["meta"]["skipped_files"]) == 10


def test_too_many_at_once(small):
    """The second of two is told so at once, and the place is free again afterwards."""
    def load():
        return small.tcp("GET", "/health", key=False).json()["current_load"]
    connection = serve.Connection(small.socket)
    connection.request("POST", "/execute", json.dumps({"code": "import time; time.sleep(1000)",
                                                       "timeout_seconds": 1000}))
    support.wait_until(lambda: load() == 1, "it runs")
    reply = small.tcp("POST", "/execute", {"code": "pass"}, key=False)
    assert error(reply, 429)
    assert int(reply.headers["Retry-After"]) >= 1
    connection.close()
    support.wait_until(lambda: load() == 0, "it has ended")
    assert execute(small, "pass", key=False)["exit_code"] == 0


# --- who may


def test_a_key_is_needed(server):
    for headers in ({}, {"Authorization": "Bearer bly_0.0"}, {"X-API-Key": "nonsense"}):
        reply = server.tcp("POST", "/execute", {"code": "print(1)"}, headers, key=False)
        assert error(reply, 401)
        assert "Bearer" in reply.headers["WWW-Authenticate"]
    reply = server.tcp("POST", "/execute", {"code": "print(1)"}, {"X-API-Key": server.key}, key=False)
    assert reply.status == 200, reply


def test_a_key_needs_the_scope(server):
    key = server.new_key(tenant="acme", scopes=["files"])
    assert "run" in error(server.tcp("POST", "/execute", {"code": "pass"}, key=key), 403)


def test_a_bad_key_is_bad_also_where_none_is_needed(small):
    assert error(small.tcp("POST", "/execute", {"code": "pass"}, key="bly_0.0"), 401)
    assert small.tcp("POST", "/execute", {"code": "pass"}, key=False).status == 200
    # Nothing else is open there.
    assert small.tcp("GET", "/v1/sessions", key=False).status == 401


@pytest.mark.attack(67)
def test_open_is_not_open_to_every_page(small):
    """No key is asked for, so a page of a stranger must not get here with its reader's browser."""
    body = json.dumps({"code": "print(1)"}).encode()
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
        assert error(small.tcp("POST", "/execute", body, {"Content-Type": "text/plain", **headers},
                               key=False), 403)


def test_the_open_tenant_is_a_tenant(small):
    """What it does is written down as its own."""
    got = execute(small, "print(1)", key=False)
    lines = small.asked("GET", "/v1/audit", query={"tenant": "open"}).body.splitlines()
    assert got["meta"]["execution_id"] in [json.loads(line).get("execution_id") for line in lines]


# --- bad input, each with its status


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"\"x\"", b"{\"code\":\"\xff\"}", b"{\"code\":1,\"code\":2}",
    b"{}", b'{"code":""}', b'{"code":null}', b'{"code":5}', b'{"code":["a"]}',
    b'{"code":"x","timeout_seconds":"5"}', b'{"code":"x","timeout_seconds":1.5}',
    b'{"code":"x","timeout_seconds":99999999}', b'{"code":"x","requirements":"a"}',
    b'{"code":"x","requirements":[1]}', b'{"code":"x","files":["a"]}',
    b'{"code":"x","files":{"a":"***"}}', b'{"code":"x","files":{"a":1}}',
    b'{"code":"x","files":{"..":""}}', b'{"code":"x","files":{"a/":""}}',
    b'{"code":"x","files":{"a/b":"","c/b":""}}', b'{"code":"x","files":{"script.py":""}}',
    b'{"code":"x","language":"cobol"}', b"[" * 5000 + b"]" * 5000,
], ids=lambda body: body[:40].decode(errors="replace"))
def test_bad_input(server, body):
    assert error(server.tcp("POST", "/execute", body, {"Content-Type": "application/json"}), 400)


def test_too_large(server):
    body = json.dumps({"code": "x" * (11 * 1024 * 1024)}).encode()
    assert error(server.tcp("POST", "/execute", body), 413)
    body = json.dumps({"code": "x" * (6 * 1024 * 1024)}).encode()
    assert error(server.tcp("POST", "/execute", body), 413)


def test_methods(server):
    reply = server.tcp("GET", "/execute")
    assert error(reply, 405) and reply.headers["Allow"] == "POST"
    reply = server.tcp("POST", "/health", {})
    assert error(reply, 405) and "GET" in reply.headers["Allow"]


@pytest.mark.parametrize("method, path", [("POST", "/execute"), ("GET", "/health"),
                                          ("GET", "/v1/sessions"), ("GET", "/nowhere"),
                                          ("POST", "/mcp"), ("GET", "/docs"), ("GET", "/metrics"),
                                          ("DELETE", "/execute")])
def test_another_doors_header(server, method, path):
    reply = server.tcp(method, path, {"code": "print(1)"} if method == "POST" else None,
                       {"E2b-Sandbox-Id": "abc"})
    assert reply.status in (404, 405, 502), reply
    got = reply.json()
    assert got["code"] in (reply.status, "not_found", "unimplemented", "method_not_allowed"), got
    assert got["message"] and "error" not in got, "the E2B door answers, in its own shape"


# --- who leaves, and what is written down


def test_a_caller_that_leaves_ends_its_run(server):
    connection = serve.Connection(server.socket)
    connection.request("POST", "/execute", json.dumps({"code": "import time; time.sleep(1000)",
                                                       "timeout_seconds": 1000}))
    support.wait_until(lambda: server.get("/health")["current_load"] == 1, "it runs")
    connection.close()
    support.wait_until(lambda: server.get("/health")["current_load"] == 0, "it has ended")


def test_openapi_and_docs(server):
    reply = server.tcp("GET", "/openapi.json", key=False)
    assert reply.status == 200, reply
    paths = reply.json()["paths"]
    assert {"post"} == set(paths["/execute"]) and {"get"} == set(paths["/health"])
    assert "/v1/artifacts/{id}" in paths
    assert paths["/execute"]["post"]["responses"]["400"]["content"]["application/json"]["schema"][
        "$ref"].endswith("ExecuteError")


def test_the_page_is_closed(server):
    """One file, nothing from elsewhere; only its own script and style run, named by their hashes."""
    reply = server.tcp("GET", "/docs", key=False)
    assert reply.status == 200, reply
    assert reply.headers["Content-Type"].startswith("text/html")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    page = reply.body.decode()
    policy = dict(part.strip().split(" ", 1) for part in
                  reply.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["frame-ancestors"] == "'none'" and policy["connect-src"] == "'self'"
    assert "unsafe" not in str(policy) and "http" not in str(policy) and "*" not in str(policy)
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        inside = page.split(f"<{tag}>")[1].split(f"</{tag}>")[0]
        assert page.count(f"<{tag}") == 1
        digest = base64.b64encode(bytes.fromhex(serve.sha256(inside.encode()))).decode()
        assert policy[name] == f"'sha256-{digest}'"
    for word in ("http:", "https:", "//", "@import", "url(", "<link", "<img", "<iframe", "onclick",
                 "style=", "innerHTML", "eval("):
        assert word not in page.replace("<!DOCTYPE", ""), word
