"""`bailey serve` while a daemon runs that a command started on demand: that one becomes the server, with its
sessions; what cannot be is refused, and then it goes on as before."""
import os
import re
import signal
import subprocess

import pytest

import daemon_fixture
import support
import tcp


def daemon_of(user=None):
    """One that commands start; the addresses are the server's own, so commands set none."""
    made = daemon_fixture.DaemonFixture(user, {"SANDBOX_POOL_SIZE": "0"})
    del made.env["SANDBOX_LISTEN"]
    return made


@pytest.fixture
def own():
    made = daemon_of()
    yield made
    made.close()


@pytest.fixture(params=["as we are", "ordinary"])
def any_own(request):
    made = daemon_of(support.ORDINARY_UID if request.param == "ordinary" and support.is_root() else None)
    yield made
    made.close()


class Serving:
    """`bailey serve` in the foreground; its standard error is collected in a file."""

    def __init__(self, own, *options, env=None):
        self.log = own.room.path / "serve.log"
        with open(self.log, "wb") as log:
            self.process = support.start("serve", *options, env={**own.env, **(env or {})}, user=own.user,
                                         room=own.room, stdout=log, stderr=log)
        # --listen went over it: a caller that still set it would ask for another daemon than this one
        own.env.pop("SANDBOX_LISTEN", None)

    def said(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern):
        support.wait_until(lambda: re.search(pattern, self.said()) or self.process.poll() is not None,
                           f"serve says {pattern}")
        found = re.search(pattern, self.said())
        assert found, (self.process.poll(), self.said())
        return found

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(support.PATIENCE)


def cell(own, code):
    return own.json("tool", "run_code", "-s", "work", support.json.dumps({"code": code}))["stdout"]


def test_sessions_and_variables_stay(any_own):
    own = any_own
    session = own.session("--name", "work")
    cell(own, "x = 41")
    before = own.info()
    running = own.json("tool", "sandbox_exec", "-s", "work", support.json.dumps(
        {"command": ["sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.05; done; echo went"], "background": True}))
    serving = Serving(own, "--listen", "127.0.0.1:0")
    port = int(serving.wait_for(r"listening on http://127\.0\.0\.1:(\d+)").group(1))
    key = serving.wait_for(r"bly_[0-9A-Za-z_.-]+").group(0)
    serving.wait_for("took over the daemon that was running")
    after = own.info()
    assert after["launcher_pid"] == before["launcher_pid"] and after["broker_pid"] != before["broker_pid"]
    assert cell(own, "print(x + 1)") == "42\n"
    own.ok("tool", "sandbox_write_file", "-s", "work", '{"file_path": "/tmp/go", "content": ""}')
    waited = own.json("tool", "sandbox_wait", support.json.dumps({"execution_id": running["execution_id"]}))
    assert waited["stdout"] == "went\n", waited
    connection = tcp.Connection(port)
    connection.request("GET", "/v1/templates", headers={"Authorization": f"Bearer {key}"})
    assert connection.getresponse().status == 200
    connection.close()
    assert "logs to its own standard error" in own.call("daemon", "log").stderr
    assert [one["id"] for one in own.json("session", "ls", "--json")["sessions"]] == [session]
    assert serving.end() == 0
    assert not own.is_running()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_its_end_is_the_daemons(own, number):
    own.session()
    serving = Serving(own, "--listen", "none")
    serving.wait_for("took over")
    serving.end(number)
    support.wait_until(lambda: support.reap_orphans() or not own.is_running(), "the daemon has ended")


def test_stop_ends_both(own):
    own.session()
    serving = Serving(own, "--listen", "none")
    serving.wait_for("took over")
    assert own.call("daemon", "stop", "--force").status == 0
    assert serving.process.wait(support.PATIENCE) == 0


def test_other_settings_hold(own):
    own.session("--name", "work")
    assert own.json("run", "--json", "-c", "1")["meta"]["resource_limits"]["timeout_s"] == 30
    serving = Serving(own, "--listen", "none", env={"SANDBOX_MAX_SESSIONS": "1"})
    serving.wait_for("took over")
    done = own.call("session", "new")
    assert done.status == 125 and "SANDBOX_MAX_SESSIONS" in done.stderr, done
    assert serving.end() == 0


def test_a_session_with_more_than_the_server_gives_keeps_it(own):
    """Its user made it before there was a server with limits; the next one is the server's."""
    more = {"SANDBOX_MEMORY_LIMIT": "2g"}
    own.ok("session", "new", "--name", "work", env=more)
    cell(own, "x = 41")
    serving = Serving(own, "--listen", "none")
    serving.wait_for("took over")
    assert own.json("session", "show", "work", "--json")["settings"]["SANDBOX_MEMORY_LIMIT"] == "2g"
    assert cell(own, "print(x + 1)") == "42\n"
    done = own.call("session", "new", env=more)
    assert done.status == 125 and "SANDBOX_MEMORY_LIMIT" in done.stderr and "1g" in done.stderr, done
    assert serving.end() == 0


def test_a_broker_that_dies_later_is_started_again(own):
    own.session("--name", "work")
    cell(own, "x = 41")
    serving = Serving(own, "--listen", "127.0.0.1:0")
    serving.wait_for("took over")
    port = int(serving.wait_for(r"listening on http://127\.0\.0\.1:(\d+)").group(1))
    broker = own.info()["broker_pid"]
    os.kill(broker, signal.SIGKILL)
    support.wait_until(lambda: own.call("daemon", "status").status == 0 and own.info()["broker_pid"] != broker,
                       "another broker serves")
    assert cell(own, "print(x + 1)") == "42\n"
    connection = tcp.Connection(port)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    assert serving.end() == 0


@pytest.mark.parametrize("options, env, words", [
    (("--listen", "none"), {"SANDBOX_WARM": "false"}, "SANDBOX_WARM=true, not false"),
    (("--listen", "0.0.0.0:0"), {}, "bailey key new"),
])
def test_what_cannot_be_changes_nothing(own, options, env, words):
    session = own.session("--name", "work")
    cell(own, "x = 41")
    pid = own.info()["launcher_pid"]
    serving = Serving(own, *options, env=env)
    assert serving.process.wait(support.PATIENCE) == 125
    assert words in serving.said() and "goes on as before" in serving.said(), serving.said()
    assert own.info()["launcher_pid"] == pid
    assert cell(own, "print(x + 1)") == "42\n"
    assert own.json("session", "ls", "--json")["sessions"][0]["id"] == session
    assert own.call("daemon", "stop").status == 125, "its record is still there"
    assert own.call("daemon", "log").stderr == "", "it logs to its file again"


def test_the_advice_about_the_first_key_is_enough(own):
    """'bailey key new', then 'bailey serve' again: the daemon that the first one started is taken over."""
    refused = Serving(own, "--listen", "0.0.0.0:0")
    assert refused.process.wait(support.PATIENCE) == 125
    assert "make one with 'bailey key new', then start again" in refused.said(), refused.said()
    assert own.call("key", "new", "--name", "first").status == 0
    serving = Serving(own, "--listen", "0.0.0.0:0")
    serving.wait_for(r"listening on http://0\.0\.0\.0:(\d+)")
    assert serving.end() == 0


def test_an_address_in_use_changes_nothing(own):
    own.session("--name", "work")
    with subprocess.Popen(["python3", "-c", "import socket, sys\ns = socket.create_server(('127.0.0.1', 0))\n"
                           "print(s.getsockname()[1], flush=True)\nsys.stdin.read()"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as other:
        serving = Serving(own, "--listen", f"127.0.0.1:{int(other.stdout.readline())}")
        assert serving.process.wait(support.PATIENCE) == 125
        other.stdin.close()
    assert "another program has this port" in serving.said(), serving.said()
    assert own.is_running() and own.call("daemon", "stop").status == 125


def test_an_upgrade_keeps_what_was_taken_over(own):
    own.session("--name", "work")
    cell(own, "x = 41")
    serving = Serving(own, "--listen", "127.0.0.1:0")
    serving.wait_for("took over")
    port = int(serving.wait_for(r"listening on http://127\.0\.0\.1:(\d+)").group(1))
    assert "has taken over" in own.ok("upgrade")
    assert cell(own, "print(x + 1)") == "42\n"
    connection = tcp.Connection(port)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    assert serving.end() == 0


def test_a_server_is_not_taken_over(own):
    own.session()
    first = Serving(own, "--listen", "none")
    first.wait_for("took over")
    done = own.call("serve", "--listen", "none")
    assert done.status == 125 and "already running" in done.stderr, done
    assert first.end() == 0


def test_a_list_of_interpreters_holds_from_then_on(any_own):
    """After a root start the folders of the list could be opened only then, so the daemon goes on as before."""
    names = ("listed", "other")
    pythons = [any_own.room.path / name / "bin" / "python" for name in names]
    for python in pythons:
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", python.parent.parent], check=True)
    env = {"SANDBOX_PYTHON": str(pythons[1])}
    any_own.ok("session", "ls")  # starts it: the daemon's own Python is the usual one
    any_own.ok("session", "new", "--name", "work", env=env)
    where = "import sys; print(sys.prefix)"
    assert cell(any_own, where) == f"{pythons[1].parent.parent}\n"
    serving = Serving(any_own, "--listen", "none", env={"SANDBOX_INTERPRETERS": str(pythons[0])})
    if any_own.user is None and support.is_root():
        assert serving.process.wait(support.PATIENCE) == 125
        assert f"SANDBOX_INTERPRETERS={pythons[0]}" in serving.said() and "goes on as before" in serving.said()
        return
    serving.wait_for("took over")
    assert cell(any_own, where) == f"{pythons[1].parent.parent}\n"  # a session keeps what it has
    done = any_own.call("session", "new", env=env)
    assert done.status == 125 and "SANDBOX_INTERPRETERS" in done.stderr, done
    made = any_own.ok("session", "new", "-q", env={"SANDBOX_PYTHON": str(pythons[0])}).strip()
    assert any_own.ok("code", "-s", made, "-c", where) == f"{pythons[0].parent.parent}\n"
    assert serving.end() == 0
