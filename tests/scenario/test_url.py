"""SANDBOX_TYPE=url: boxes are sessions of another Bailey, or runs of a server with POST /execute. What is
the same as with every runtime is in tests/conformance; here is what can happen between two machines."""
import base64
import datetime
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

import key_relay
import relay
import serve
import support
import tcp
import wheels


def url_env(address, key, **more):
    return {"SANDBOX_TYPE": "url", "SANDBOX_URL": address, "SANDBOX_URL_KEY": key or "", **more}


@pytest.fixture(scope="module")
def target():
    with tcp.Server() as server:
        yield server


@pytest.fixture(scope="module")
def gate(target):
    made = relay.Relay(target.port)
    yield made
    made.close()


@pytest.fixture(scope="module")
def near(target, gate):
    with serve.Daemon(url_env(gate.address, target.key)) as daemon:
        yield daemon


@pytest.fixture
def session(near):
    made = near.session()["id"]
    yield made
    near.end(made)


def run(env, code="print(6 * 7)", *options):
    return support.run_json(code, *options, env=env)


# --- where it ran, and the settings ---------------------------------------------------------------


def test_the_result_says_where_it_ran_and_what_held(target):
    there = target.exec(target.session(name="there")["id"], "true")["meta"]
    target.end("there")
    result = run(url_env(f"http://127.0.0.1:{target.port}", target.key))
    assert (result["stdout"], result["exit_code"]) == ("42\n", 0)
    assert result["meta"]["runtime"] == "url"
    assert result["meta"]["isolation"] == there["isolation"]
    assert target.get("/v1/sessions")["sessions"] == []


@pytest.mark.parametrize("env, words", [
    ({"SANDBOX_TYPE": "url"}, ["SANDBOX_URL"]),
    ({"SANDBOX_TYPE": "url", "SANDBOX_URL": "localhost:7070"}, ["SANDBOX_URL", "localhost:7070"]),
    ({"SANDBOX_TYPE": "url", "SANDBOX_URL": "http://a:1,http://b:2;weight=x"}, ["SANDBOX_URL", "weight=x"]),
    ({"SANDBOX_TYPE": "url", "SANDBOX_URL": "http://127.0.0.1:1"}, ["http://127.0.0.1:1"]),
    ({"SANDBOX_TYPE": "url", "SANDBOX_URL": "http://127.0.0.1:1", "SANDBOX_URL_KEY_FILE": "/nowhere"},
     ["SANDBOX_URL_KEY_FILE", "/nowhere"]),
    ({"SANDBOX_TYPE": "url", "SANDBOX_URL": "http://127.0.0.1:1", "SANDBOX_URL_CA_FILE": "/ca"},
     ["SANDBOX_URL_CA_FILE", "https://"]),
])
def test_a_wrong_setting_is_status_125_and_is_named(env, words):
    done = support.bailey("run", "-c", "print(1)", env=env)
    assert done.status == 125, done
    assert all(word in done.stderr for word in words), done


def test_a_template_is_the_default_there_or_the_one_that_is_named_here(tmp_path):
    wheels.folder(tmp_path / "shelf", wheels.Wheel("flag", "1.0", {"flag.py": "number = 1\n"}))
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "shelf")}
    with tcp.Server({**pip, "SANDBOX_TEMPLATE": "flags", "SANDBOX_POOL_SIZE": "0"}) as server:
        server.post("/v1/templates", {"name": "flags", "packages": ["flag"]})
        env = url_env(f"http://127.0.0.1:{server.port}", server.key)
        code = "try:\n    import flag\n    print('flags')\nexcept ImportError:\n    print('python')"
        assert run(env, code)["stdout"] == "flags\n"
        assert run({**env, "SANDBOX_TEMPLATE": "python"}, code)["stdout"] == "python\n"
        assert run(env, code, "--template", "flags")["stdout"] == "flags\n"
        done = support.bailey("run", "-c", code, env={**env, "SANDBOX_TEMPLATE": "nosuch"})
        assert done.status == 125 and "there is no template 'nosuch'" in done.stderr, done
        with serve.Daemon(env) as near:
            made = near.session()["id"]
            assert near.post(f"/v1/sessions/{made}/code", {"code": code})["stdout"] == "flags\n"
            near.end(made)


def test_the_prompt_does_not_promise_the_packages_of_this_machine(tmp_path):
    """A template that is built here is not in a box of another machine."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "layers" / ("0" * 64)).mkdir(parents=True)
    (tmp_path / "templates" / "data.json").write_text(json.dumps({"layer": "0" * 64}))
    prompts = {kind: support.bailey("prompt", env={"BAILEY_STATE_DIR": str(tmp_path), "SANDBOX_TYPE": kind,
                                                   "SANDBOX_URL": "http://127.0.0.1:1"}).stdout
               for kind in ("local", "url")}
    assert "import polars" in prompts["local"] and prompts["url"] and "import polars" not in prompts["url"], prompts


@pytest.mark.parametrize("key", ["", "bly_0000000000000000.00"])
def test_a_wrong_key_is_status_125_with_the_key_and_the_address(target, key):
    address = f"http://127.0.0.1:{target.port}"
    done = support.bailey("run", "-c", "print(1)", env=url_env(address, key))
    assert done.status == 125, done
    assert "SANDBOX_URL_KEY" in done.stderr and address in done.stderr, done


def test_the_key_may_be_in_a_file_and_the_settings_in_yaml(target, tmp_path):
    (tmp_path / "key").write_text(target.key + "\n")
    config = tmp_path / "bailey.yaml"
    config.write_text(f"sandbox:\n  type: url\n  url: http://127.0.0.1:{target.port}\n"
                      f"  url_key_file: {tmp_path}/key\n")
    done = support.bailey("run", "--config", str(config), "-c", "print(6 * 7)")
    assert (done.status, done.stdout) == (0, "42\n"), done


def test_a_file_with_another_key_is_read_again(target, tmp_path):
    first, second = target.new_key(), target.new_key()
    (tmp_path / "key").write_text(first)
    env = {"SANDBOX_TYPE": "url", "SANDBOX_URL": f"http://127.0.0.1:{target.port}",
           "SANDBOX_URL_KEY_FILE": str(tmp_path / "key")}
    with serve.Daemon(env) as near:
        made = near.session()["id"]
        assert near.exec(made, "echo", "1")["stdout"] == "1\n"
        (tmp_path / "key").write_text(second)
        name = first.partition("_")[2].partition(".")[0]
        gone = [one["id"] for one in target.get("/v1/keys")["keys"] if name in one["id"]]
        assert len(gone) == 1, (name, gone)
        target.asked("DELETE", f"/v1/keys/{gone[0]}")
        assert near.exec(made, "echo", "2")["stdout"] == "2\n"
        near.end(made)


def test_only_the_provider_host_has_the_key(near, target, session):
    near.exec(session, "true")
    broker = near.bailey("daemon", "status", "--json").json()["broker_pid"]
    with open(f"/proc/{broker}/environ", "rb") as environ:
        assert target.key.encode() not in environ.read()
    assert target.key not in near.exec(session, "env")["stdout"]
    assert target.key not in near.bailey("config", "--json").stdout


def test_a_proxy_is_asked_where_one_is_set(target):
    seen = []
    with relay.Relay(target.port, seen) as proxy:
        done = run(url_env("http://nowhere.invalid:7070", target.key, SANDBOX_URL_PROXY=proxy))
        assert done.error is not None or done["stdout"] == "42\n", done
    assert b"http://nowhere.invalid:7070/v1/info" in b"".join(seen)


def test_doctor_says_what_answers(target):
    env = url_env(f"http://127.0.0.1:{target.port}", target.key)
    report = support.bailey("doctor", "--json", env=env).json()["url"]
    assert "no effect" not in support.bailey("config", env=env).stderr
    assert report["ok"] and report["kind"] == "bailey" and report["runtime"] == "local", report
    report = support.bailey("doctor", "--json", env={**env, "SANDBOX_URL_KEY": "no"}).json()["url"]
    assert not report["ok"] and "SANDBOX_URL_KEY" in report["problems"][0]["remedy"], report


# --- TLS ------------------------------------------------------------------------------------------


def test_tls_with_the_authority_in_a_file(tmp_path):
    certificate = tcp.certificate(tmp_path, "localhost")
    with tcp.Server(tls=certificate) as server:
        env = url_env(f"https://127.0.0.1:{server.port}", server.key,
                      SANDBOX_URL_CA_FILE=str(certificate[0]))
        assert run(env)["stdout"] == "42\n"
        del env["SANDBOX_URL_CA_FILE"]
        done = support.bailey("run", "-c", "print(1)", env=env)
        assert done.status == 125 and "SANDBOX_URL_CA_FILE" in done.stderr, done


@pytest.mark.skipif(os.geteuid() != 0, reason="another /etc/ssl/certs needs root")
def test_an_authority_of_the_system_is_none_where_a_file_is_set(tmp_path):
    certificate, other = tcp.certificate(tmp_path, "localhost"), tcp.certificate(tmp_path, "other")
    (tmp_path / "system").mkdir()
    shutil.copy(certificate[0], tmp_path / "system")
    subprocess.run(["openssl", "rehash", tmp_path / "system"], check=True, capture_output=True)
    trusting = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/ssl/certs && exec "$@"', tmp_path / "system"]
    with tcp.Server(tls=certificate) as server:
        env = {**os.environ, **url_env(f"https://127.0.0.1:{server.port}", server.key)}
        for authority, status in ((certificate[0], 0), (other[0], 125)):
            done = subprocess.run([*trusting, support.BAILEY, "run", "-c", "print(1)"], capture_output=True,
                                  text=True, env={**env, "SANDBOX_URL_CA_FILE": str(authority)}, check=False)
            assert done.returncode == status, done
        assert "SANDBOX_URL_CA_FILE" in done.stderr, done


def test_tls_where_the_server_has_none(target):
    done = support.bailey("run", "-c", "print(1)",
                          env=url_env(f"https://127.0.0.1:{target.port}", target.key))
    assert done.status == 125 and "http:// for https://" in done.stderr, done


# --- what is shown to belong together -------------------------------------------------------------


def test_a_session_is_one_there_and_ends_with_it(near, target):
    made = near.session()["id"]
    near.exec(made, "true")
    there = target.get("/v1/sessions")["sessions"]
    assert [one["name"].startswith("bailey-") for one in there] == [True], there
    near.end(made)
    support.wait_until(lambda: not target.get("/v1/sessions")["sessions"], "it ends there, too")


def test_a_session_is_not_postponed_further_than_it_was_used(near, target, session):
    """When the daemon dies while a program runs there, its session's age is what ends it."""
    near.exec(session, "true")

    def ends():
        there = target.get("/v1/sessions")["sessions"][0]
        return datetime.datetime.fromisoformat(there["age_limit_at"].replace("Z", "+00:00"))
    first = ends()
    support.wait_until(lambda: ends() != first, "it was postponed")
    assert ends() - first < datetime.timedelta(minutes=5), (first, ends())


def test_a_paused_session_is_paused_there(near, target, session):
    near.exec(session, "true")
    near.post(f"/v1/sessions/{session}/pause")
    assert [one["paused_by"] is not None for one in target.get("/v1/sessions")["sessions"]] == [True]
    near.post(f"/v1/sessions/{session}/resume")
    assert near.exec(session, "echo", "on")["stdout"] == "on\n"


def test_ports_are_refused_and_the_session_goes_on(near, session):
    near.exec(session, "true")
    near.refused("GET", f"/v1/sessions/{session}/ports", 502, "port_closed")
    near.refused("GET", f"/v1/sessions/{session}/ports/8000/", 502, "port_closed")
    assert near.exec(session, "echo", "on")["stdout"] == "on\n"


def test_a_client_that_does_not_read_stops_the_program_there(near, session):
    code = ("import os\nfor i in range(3000):\n    os.write(1, b'x' * 100000)\n"
            "    open('n', 'w').write(str(i))")
    seen = []

    def stands_still():
        seen.append(near.exec(session, "cat", "n")["stdout"])
        return len(seen) > 5 and seen[-1] and len(set(seen[-5:])) == 1
    with near.events(f"/v1/sessions/{session}/exec", method="POST",
                     body={"argv": ["python3", "-c", code], "timeout": 0}):
        support.wait_until(stands_still, "the program waits for its reader")
        assert int(seen[-1]) < 2999, seen[-5:]


# --- a connection that is lost, and is back -------------------------------------------------------

HALVES = """
import os, sys, time
for i in range(20000):
    print("line", i)
sys.stdout.flush()
while not os.path.exists("/workspace/go"):
    time.sleep(0.01)
for i in range(20000, 40000):
    print("line", i)
"""
WHOLE = "".join(f"line {i}\n" for i in range(40000)).encode()


def first_half(near, begun):
    half = WHOLE.index(b"line 20000\n")
    support.wait_until(lambda: len(near.output(begun["execution_id"]).body) == half, "half of it came")


def test_output_goes_on_where_a_cut_connection_broke(near, gate, session):
    begun = near.background(session, "python3", "-c", HALVES, timeout=0)
    first_half(near, begun)
    gate.is_shut, before = True, gate.turned_away
    gate.cut()
    support.wait_until(lambda: gate.turned_away > before, "it tries to come back")
    gate.is_shut = False
    near.write(session, "/workspace/go")
    assert near.wait(begun["execution_id"])["exit_code"] == 0
    assert near.output(begun["execution_id"]).body == WHOLE


def test_a_cell_keeps_its_variables_over_a_cut(near, gate, session):
    path = f"/v1/sessions/{session}/code"
    assert near.post(path, {"code": "x = 6"})["exit_code"] == 0
    gate.cut()
    assert near.post(path, {"code": "x * 7"})["results"][0]["data"]["text/plain"] == "42"


def test_a_command_is_begun_once_when_the_reply_is_lost(near, gate, session):
    near.exec(session, "true")
    gate.is_shut, before = True, gate.turned_away
    gate.cut()
    begun = near.background(session, "sh", "-c", "echo once >> /workspace/count", timeout=0)
    support.wait_until(lambda: gate.turned_away > before, "it tries")
    gate.is_shut = False
    assert near.wait(begun["execution_id"])["exit_code"] == 0
    assert near.read(session, "/workspace/count") == b"once\n"


@pytest.fixture(scope="module")
def moody(target, near):
    """A relay whose `refuse` says what the server answers with a status of its own, and a daemon behind it.
    `near` looks for processes that are left when it ends, so this one ends first."""
    assert near
    made = key_relay.KeyRelay(target.port, target.key)
    with serve.Daemon(url_env(f"http://127.0.0.1:{made.port}", "k")) as daemon:
        made.near = daemon
        yield made
    made.__exit__()


@pytest.fixture
def relayed(moody):
    made = moody.near.session()["id"]
    moody.near.exec(made, "true")
    yield made
    moody.refuse = lambda method, path: None
    moody.near.end(made)


def test_a_program_whose_input_is_refused_is_ended_and_says_why(moody, relayed):
    moody.refuse = lambda method, path: 429 if "/stdin" in path else None
    done = moody.near.exec(relayed, "cat", stdin="lost")
    assert done["exit_code"] != 0 and "refused standard input" in done["stderr"], done


def test_a_signal_that_the_server_cannot_take_now_comes_later(moody, relayed):
    begun = moody.near.background(relayed, "sleep", "1000", timeout=0)
    refused = []

    def refuse(_, path):
        if path.endswith("/signal") and len(refused) < 2:
            return refused.append(path) or 503
        return None
    moody.refuse = refuse
    moody.near.post(f"/v1/sessions/{relayed}/processes/{begun['execution_id']}/signal", {"signal": 9})
    assert moody.near.wait(begun["execution_id"])["exit_code"] == 137 and len(refused) == 2


def test_another_broker_goes_on_with_what_runs(target):
    with serve.Daemon(url_env(f"http://127.0.0.1:{target.port}", target.key)) as near:
        session = near.session()["id"]
        another_broker(near, session)
        near.end(session)


def another_broker(near, session):
    begun = near.background(session, "python3", "-c", HALVES, timeout=0)
    path = f"/v1/sessions/{session}/code"
    near.post(path, {"code": "x = 6"})
    first_half(near, begun)
    broker = near.bailey("daemon", "status", "--json").json()["broker_pid"]
    os.kill(broker, signal.SIGKILL)

    def is_back():
        try:
            return near.call("GET", f"/v1/sessions/{session}").status == 200
        except OSError:
            return False
    support.wait_until(is_back, "another broker answers")
    near.write(session, "/workspace/go")
    assert near.wait(begun["execution_id"])["exit_code"] == 0
    assert near.output(begun["execution_id"]).body == WHOLE
    assert near.post(path, {"code": "x * 7"})["results"][0]["data"]["text/plain"] == "42"


def test_a_session_that_was_ended_there_is_lost_here(near, target, session):
    near.exec(session, "true")
    begun = near.background(session, "sleep", "1000", timeout=0)
    there = target.get("/v1/sessions")["sessions"]
    target.end(there[0]["id"])
    support.wait_until(lambda: near.get(f"/v1/sessions/{session}")["state"] == "ended", "it has ended")
    assert near.get(f"/v1/sessions/{session}")["end_reason"] == "box_lost"
    assert begun["execution_id"] and "is lost" in near.said()


def test_a_server_that_died_ends_its_sessions_with_its_name():
    target = tcp.Server()
    with serve.Daemon(url_env(f"http://127.0.0.1:{target.port}", target.key)) as near:
        made = near.session()["id"]
        near.exec(made, "true")
        near.background(made, "sleep", "1000", timeout=0)
        target.kill()
        support.wait_until(lambda: near.get(f"/v1/sessions/{made}")["state"] == "ended",
                           "the session has ended", 60.0)
        ended = near.get(f"/v1/sessions/{made}")
        assert (ended["end_reason"], ended["provider"]) == ("provider_gone", "url"), ended
        other = near.session()["id"]
        refused = near.exec(other, "true")["meta"]["error"]
        assert (refused["code"], refused["provider"]) == ("provider_unavailable", "url"), refused
        assert f"127.0.0.1:{target.port}" in refused["message"], refused
        near.end(other)
    target.room.remove()


def test_what_a_killed_daemon_left_is_ended_by_the_next_one(target):
    room = support.Room()
    env = url_env(f"http://127.0.0.1:{target.port}", target.key)
    near = serve.Daemon(env, room=room)
    made = near.session()["id"]
    near.exec(made, "true")
    assert len(target.get("/v1/sessions")["sessions"]) == 1
    near.kill()
    # The provider host saw its end and has ended the session, unless it died first.
    with serve.Daemon(env, room=room):
        support.wait_until(lambda: not target.get("/v1/sessions")["sessions"], "nothing is left there")
    room.remove()


# --- several servers ------------------------------------------------------------------------------


def placed(near, count):
    """That many sessions with boxes."""
    made = [near.session()["id"] for _ in range(count)]
    for one in made:
        assert near.exec(one, "true")["exit_code"] == 0
    return made


def on(server):
    return len(server.get("/v1/sessions")["sessions"])


def test_sessions_go_where_the_load_is_least_for_the_weight(target):
    with tcp.Server({"SANDBOX_MAX_SESSIONS": "2"}) as other:
        # There is one key for all of them: here a relay puts the second one's own.
        with key_relay.KeyRelay(other.port, other.key) as port:
            addresses = f"http://127.0.0.1:{target.port};weight=2,http://127.0.0.1:{port}"
            with serve.Daemon(url_env(addresses, target.key)) as near:
                made = placed(near, 6)
                assert (on(target), on(other)) == (4, 2)
                made += placed(near, 2)  # the second one has no place left
                assert (on(target), on(other)) == (6, 2)
                for one in made:
                    near.end(one)
                support.wait_until(lambda: on(target) + on(other) == 0, "they have ended there")


def test_a_session_whose_creation_was_not_answered_is_ended(target):
    with tcp.Server() as other:
        relayed = key_relay.KeyRelay(other.port, other.key)
        lost = []
        relayed.lose = lambda method, path: (method, path) == ("POST", "/v1/sessions") and not lost.append(path)
        addresses = f"http://127.0.0.1:{relayed.port},http://127.0.0.1:{target.port}"
        with serve.Daemon(url_env(addresses, target.key)) as near:
            made = placed(near, 1)[0]
            assert len(lost) == 1 and on(target) == 1, lost
            support.wait_until(lambda: on(other) == 0, "the first one's is ended")
            near.end(made)
        relayed.__exit__()


def test_a_server_that_does_not_answer_gets_none_and_one_that_died_loses_only_its_own(target):
    second = tcp.Server()
    relayed = key_relay.KeyRelay(second.port, second.key)
    addresses = f"http://127.0.0.1:1,http://127.0.0.1:{target.port},http://127.0.0.1:{relayed.port}"
    with serve.Daemon(url_env(addresses, target.key)) as near:
        made = placed(near, 4)
        assert (on(target), on(second)) == (2, 2)
        relayed.__exit__()  # nobody listens there any more
        second.kill()

        def ended():
            return [one for one in made if near.get(f"/v1/sessions/{one}")["state"] == "ended"]
        support.wait_until(lambda: len(ended()) == 2, "those of the dead server have ended", 60.0)
        for one in ended():
            assert near.get(f"/v1/sessions/{one}")["end_reason"] == "provider_gone"
        assert f"127.0.0.1:{relayed.port}" in near.said()
        alive = [one for one in made if one not in ended()]
        assert all(near.exec(one, "true")["exit_code"] == 0 for one in alive)
        alive += placed(near, 2)
        assert on(target) == 4
        for one in alive:
            near.end(one)
    second.room.remove()


# --- servers that are no Bailey -------------------------------------------------------------------


class Plain(http.server.BaseHTTPRequestHandler):
    """POST /execute as docs/execute.md has it, without walls; or, `garbage`, whatever."""

    def answer(self, status, reply):
        body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.server.garbage is not None:
            self.answer(200, self.server.garbage)
        else:
            self.answer(404, {"error": "not found"})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        if self.path != "/execute" or self.server.garbage is not None:
            self.answer(404, b"?")
            return
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (asked.get("files") or {}).items():
                with open(f"{folder}/{name}", "wb") as file:
                    file.write(base64.b64decode(text))
            program = {"python": [sys.executable, "-c"], "bash": ["bash", "-c"]}[asked["language"]]
            done = subprocess.run([*program, asked["code"]], cwd=folder, capture_output=True, text=True)
        self.answer(200, {"status": "success", "stdout": done.stdout, "stderr": done.stderr,
                          "exit_code": done.returncode, "execution_time_ms": 5,
                          "files_produced": self.server.more | {
                              "a.txt": base64.b64encode(b"made").decode(),
                              "large": base64.b64encode(bytes(2_000_000)).decode()}})

    def log_message(self, *_):
        pass


@pytest.fixture
def plain():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Plain)
    server.asked, server.garbage, server.more = [], None, {}
    server.env = url_env(f"http://127.0.0.1:{server.server_address[1]}", "k",
                         SANDBOX_ISOLATION="process")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_plain_server_runs_code_once(plain):
    result = run(plain.env, "print(6 * 7); raise SystemExit(3)")
    assert (result["stdout"], result["exit_code"]) == ("42\n", 3), result
    assert result["meta"]["runtime"] == "url" and result["meta"]["isolation"]["layers"] == []
    assert plain.asked[0]["language"] == "python" and "files" not in plain.asked[0]


def test_a_plain_server_gets_arguments_environment_and_other_files(plain, tmp_path):
    (tmp_path / "p.py").write_text("import os, sys\nprint(sys.argv[1:], os.environ['K'])\n")
    done = support.bailey("run", "--env", "K=v'w", str(tmp_path / "p.py"), "--", "a", "b c", env=plain.env)
    assert (done.status, done.stdout) == (0, "['a', 'b c'] v'w\n"), done
    done = support.bailey("exec", "--env", "K=v w", "sh", "-c", "echo $K \"$1\"", "-", "it's", env=plain.env)
    assert (done.status, done.stdout) == (0, "v w it's\n"), done


def test_what_a_plain_server_made_is_fetched(plain, tmp_path):
    done = support.bailey("run", "--out", str(tmp_path / "out"), "-c", "print(1)", env=plain.env)
    assert done.status == 0, done
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"made"
    assert (tmp_path / "out" / "large").read_bytes() == bytes(2_000_000)


def test_a_plain_server_that_sends_files_without_end_fills_no_memory(plain, tmp_path):
    plain.more = {"..": "AAAA", "a/b": "AAAA"} | {f"f{number}": "" for number in range(2000)}
    done = support.bailey("run", "--out", str(tmp_path / "out"), "-c", "print(1)", env=plain.env)
    assert done.status == 0 and "sent 2004 output files, and the first 1000" in done.stderr, done
    assert len(list((tmp_path / "out").iterdir())) <= 998


def test_much_output_of_a_plain_server_comes_whole(plain):
    done = support.bailey("run", "-c", "print('x' * 3_000_000)", env=plain.env)
    assert (done.status, len(done.out)) == (0, 3_000_001)


def test_a_plain_server_has_no_sessions_and_the_error_says_so(plain):
    with serve.Daemon(plain.env) as near:
        made = near.session()["id"]
        refused = near.exec(made, "true")["meta"]["error"]
        assert refused["code"] == "not_supported" and "SANDBOX_TYPE=url" in refused["message"], refused
        refused = near.post(f"/v1/sessions/{made}/code", {"code": "1"})["meta"]["error"]
        assert refused["code"] == "not_supported", refused
        near.refused("GET", f"/v1/sessions/{made}/files?path=/workspace/a", 501, "not_supported")
        near.end(made)
        done = near.post("/v1/run", {"code": "print(6 * 7)"})
        assert done["stdout"] == "42\n", done


def test_a_plain_server_refuses_a_template_that_is_named(plain):
    done = support.bailey("run", "-c", "print(1)", env={**plain.env, "SANDBOX_TEMPLATE": "data"})
    assert done.status != 0 and "SANDBOX_TEMPLATE=data" in done.stderr and plain.asked == [], done


def test_the_isolation_of_a_plain_server_is_not_believed(plain):
    done = support.bailey("run", "-c", "print(1)", env={**plain.env, "SANDBOX_ISOLATION": "standard"})
    assert done.status == 126 and "SANDBOX_ISOLATION=process" in done.stderr, done
    assert plain.asked == []


@pytest.mark.parametrize("garbage", [b"<html>hello</html>", b"\xff\x00", b"[]", b'{"version": 1}'])
def test_a_server_that_answers_with_something_else_is_named(plain, garbage):
    plain.garbage = garbage
    done = support.bailey("run", "-c", "print(1)", env=plain.env)
    assert done.status == 125 and "neither a Bailey nor" in done.stderr, done
    assert plain.env["SANDBOX_URL"] in done.stderr, done


def test_a_reply_of_any_length_is_cut_off_and_the_call_is_named(plain):
    plain.garbage = b" " * 2_000_000
    done = support.bailey("run", "-c", "print(1)", env=plain.env)
    assert done.status == 125 and "answered to GET /v1/info with more than" in done.stderr, done


def test_a_server_that_only_says_it_is_a_bailey_makes_no_box(plain):
    plain.garbage = json.dumps({"version": "0", "runtime": "local"}).encode()
    done = support.bailey("run", "-c", "print(1)", env=plain.env)
    assert done.status == 125 and "makes no sandbox" in done.stderr, done


class Leftovers(Plain):
    """A server with many sessions that have a name of the daemon's: how many calls end them at once."""

    def do_GET(self):
        names = [f"{self.server.prefix}{number}-1" for number in range(60)]
        self.answer(200, {"version": "1", "runtime": "local",
                          "sessions": [{"id": f"s_{at}", "name": name} for at, name in enumerate(names)]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.prefix = "-".join(asked.get("name", "").split("-")[:2]) + "-"
        self.answer(503, {"error": {"code": "busy", "message": "no"}})

    def do_DELETE(self):
        with self.server.lock:
            self.server.running += 1
            self.server.most = max(self.server.most, self.server.running)
        self.server.enough.wait(1)
        with self.server.lock:
            self.server.running -= 1
            self.server.ended.add(self.path)
        self.answer(204, b"")


def test_many_sessions_that_were_left_are_ended_a_few_at_a_time():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Leftovers)
    server.prefix, server.running, server.most, server.ended = "none-", 0, 0, set()
    server.lock, server.enough = threading.Lock(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = url_env(f"http://127.0.0.1:{server.server_address[1]}", "k")
    room = support.Room()
    with serve.Daemon(env, room=room) as near:  # says what the names begin with
        made = near.session()["id"]
        near.exec(made, "true")
        near.end(made)
    with serve.Daemon(env, room=room):
        support.wait_until(lambda: server.running, "it ends them")
        server.enough.wait(1)  # for more of them to come, which must not
        server.enough.set()
        support.wait_until(lambda: len(server.ended) == 60, "all are ended")
    assert server.most <= 8, server.most
    room.remove()
    server.shutdown()
    server.server_close()
