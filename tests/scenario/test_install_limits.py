"""Packages for sessions and runs: what may be installed, how much, how long, and who gives it up."""
import os
import threading

import pytest

import data_template
import serve
import support
import wheels
from install import (ALL, builds, cell, gated, kill_broker, left_packages, names, packages, run, session,
                     settings)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(path, *ALL)
    return path


# --- lists and limits


def test_allow_and_deny(shelf):
    with serve.Daemon(settings(shelf, SANDBOX_INSTALL_ALLOW="PYWAVELETS,castle,moat",
                               SANDBOX_INSTALL_DENY="MOAT")) as daemon, session(daemon) as here:
        for module in ("tower", "moat"):
            done = cell(daemon, here, f"import {module}")
            assert done["meta"]["install_error"]["code"] == "install_denied", done["meta"]
            assert module in done["meta"]["install_error"]["message"]
            done = run(daemon, f"import {module}")
            assert done["meta"]["install_error"]["code"] == "install_denied", done["meta"]
            daemon.refused("POST", f"/v1/sessions/{here}/packages", 403, "install_denied",
                           {"packages": [module]})
        # One that is denied does not come as somebody's need either.
        done = cell(daemon, here, "import castle")
        assert done["meta"]["install_error"]["code"] == "install_denied", done["meta"]
        assert "'moat'" in done["meta"]["install_error"]["message"]
        assert packages(daemon, here) == []
        assert not [name for name in os.listdir(daemon.state / "layers") if len(name) == 64]
        assert cell(daemon, here, "import pywt")["exit_code"] == 0


def test_size(shelf):
    with serve.Daemon(settings(shelf, SANDBOX_INSTALL_SIZE="2m")) as daemon, \
            session(daemon) as here:
        done = cell(daemon, here, "import large")
        assert done["meta"]["install_error"]["code"] == "too_large", done["meta"]
        assert "2 MB" in done["meta"]["install_error"]["message"]
        assert packages(daemon, here) == []
        done = cell(daemon, here, "import tower")
        assert done["exit_code"] == 0, done
        layers = [name for name in os.listdir(daemon.state / "layers") if len(name) == 64]
        assert len(layers) == 1


def test_the_size_is_measured_by_looking(shelf):
    """The folder that is being filled is open to the broker: an installation that it cannot measure is refused."""
    with wheels.Index(shelf) as index, serve.Daemon(gated(index)) as daemon, session(daemon) as here:
        index.gate.clear()
        waiting = threading.Thread(target=cell, args=(daemon, here, "import tower"))
        waiting.start()
        try:
            found = serve.polled(lambda: list((daemon.state / "layers").glob(".build-*")), len,
                                 "the installer's folder is there")
            assert found[0].stat().st_mode & 0o777 == 0o755
        finally:
            index.gate.set()
            waiting.join()


def test_time(shelf):
    with wheels.Index(shelf) as index, \
            serve.Daemon(gated(index, SANDBOX_INSTALL_TIMEOUT="2s")) as daemon, \
            session(daemon) as here:
        index.gate.clear()
        done = cell(daemon, here, "import tower")
        assert done["meta"]["install_error"]["code"] == "install_failed", done["meta"]
        assert "longer than 2 s" in done["meta"]["install_error"]["message"]
        done = run(daemon, "import tower")
        assert "longer than 2 s" in done["meta"]["install_error"]["message"]


PROBE = """
import os, socket
found = sorted(os.listdir('/sys/class/net')) if os.path.isdir('/sys/class/net') else ['lo']
for port in (3128, 443, 53):
    try:
        socket.create_connection(('127.0.0.1', port), 2)
        found.append(port)
    except OSError:
        pass
try:
    socket.create_connection(('%s', %d), 2)
    found.append('the index')
except OSError:
    pass
print(found, open('/proc/net/dev').read().count(':'))
"""


def test_while_it_is_fetched(shelf):
    """The session's box has no network; the context waits; Ctrl-C gives up, and nothing is left."""
    with wheels.Index(shelf) as index, serve.Daemon(gated(index)) as daemon, \
            session(daemon) as here:
        cell(daemon, here, "x = 1")
        index.gate.clear()
        events = daemon.events(f"/v1/sessions/{here}/code",
                               {"code": "print('first')\nimport castle"}, method="POST")
        started_ = events.until("started").data
        assert events.until("install").data == {"state": "installing", "package": "castle"}
        assert index.knocked.wait(support.PATIENCE)
        host, port = index.host.split(":")
        assert daemon.python(here, PROBE % (host, int(port)))["stdout"] == "['lo'] 1\n"
        process = daemon.get(f"/v1/sessions/{here}/processes/{started_['number']}")
        assert process["state"] == "running"
        contexts = daemon.get(f"/v1/sessions/{here}/contexts")["contexts"]
        assert contexts[0]["state"] == "busy"
        daemon.post(f"/v1/sessions/{here}/contexts/{contexts[0]['id']}/interrupt")
        end = events.until("exit").data
        events.close()
        assert end["meta"]["install_error"]["code"] == "cancelled", end["meta"]
        assert end["error"]["name"] == "ModuleNotFoundError" and end["stdout"] == "first\n"
        assert packages(daemon, here) == []
        index.gate.set()
        done = cell(daemon, here, "import castle; x + castle.walls")
        assert done["results"][0]["data"]["text/plain"] == "43"


def test_who_leaves_gives_it_up(shelf):
    """A client of REST, the command line by Ctrl-C, a session that ends."""
    with wheels.Index(shelf) as index, serve.Daemon(gated(index)) as daemon:
        index.gate.clear()
        with session(daemon) as here:
            for path, body in ((f"/v1/sessions/{here}/packages", {"packages": ["castle"]}),
                               (f"/v1/sessions/{here}/code", {"code": "import castle"})):
                index.knocked.clear()
                events = daemon.events(path, body, method="POST")
                assert index.knocked.wait(support.PATIENCE)
                events.close()
                support.wait_until(lambda: not builds(daemon), "it is given up")
            index.knocked.clear()
            asker = support.start("install", "-s", here, "castle", env=daemon.env, room=daemon.room)
            assert index.knocked.wait(support.PATIENCE)
            asker.send_signal(2)
            out, err = asker.communicate(timeout=support.PATIENCE)
            assert asker.returncode == 130 and b"interrupted: nothing was installed" in err
            support.wait_until(lambda: not builds(daemon), "it is given up")
            index.knocked.clear()
            events = daemon.events(f"/v1/sessions/{here}/packages", {"packages": ["castle"]},
                                   method="POST")
            assert index.knocked.wait(support.PATIENCE)
        assert events.until("error").data["error"]["code"] == "session_ended"
        events.close()
        support.wait_until(lambda: not builds(daemon) and not left_packages(daemon),
                           "nothing is left")


def test_a_run_that_nobody_waits_for(shelf):
    with wheels.Index(shelf) as index, serve.Daemon(gated(index)) as daemon:
        index.gate.clear()
        connection = serve.Connection(daemon.socket)
        connection.request("POST", "/v1/run", '{"code": "import castle"}',
                           {"Content-Type": "application/json"})
        assert index.knocked.wait(support.PATIENCE)
        connection.close()
        support.wait_until(lambda: not builds(daemon) and not left_packages(daemon),
                           "it is given up")


def test_no_network_is_said():
    env = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "SANDBOX_INDEX_HOSTS": "127.0.0.1:9",
           "SANDBOX_AUTO_INSTALL": "true"}
    with serve.Daemon(env) as daemon, session(daemon) as here:
        done = cell(daemon, here, "import castle")
        assert done["meta"]["install_error"]["code"] == "no_network", done["meta"]
        assert "cannot be reached" in done["meta"]["install_error"]["message"]
        done = daemon.post("/v1/tools/run_python_code", {"code": "import castle"})
        assert done["hint"].startswith("Packages cannot be fetched now."), done


def test_with_a_template(shelf):
    """Only what the template does not have is installed, and its versions stay."""
    with serve.Daemon(settings(shelf)) as daemon:
        daemon.post("/v1/templates", {"name": "wet", "packages": ["moat"], "warm_up": []})
        with session(daemon, template="wet") as here:
            done = cell(daemon, here, "import castle; castle.walls")
            assert names(done["meta"]["installed"]) == {"castle": "1.2"}, done
        done = run(daemon, "import castle; print(castle.walls)", template="wet")
        assert done["stdout"] == "42\n" and names(done["meta"]["installed"]) == {"castle": "1.2"}


def test_a_new_broker_knows_them(shelf):
    """It is killed: the session has its packages still, and what was installed is remembered."""
    with serve.Daemon(settings(shelf)) as daemon, session(daemon) as here:
        assert cell(daemon, here, "import castle")["exit_code"] == 0
        kill_broker(daemon)
        assert names(packages(daemon, here)) == {"castle": "1.2", "moat": "1.0"}
        assert cell(daemon, here, "import castle; castle.walls")["exit_code"] == 0
        done = cell(daemon, here, "import tower")
        assert names(done["meta"]["installed"]) == {"tower": "2.0"}, done
        assert cell(daemon, here, "import castle, tower")["exit_code"] == 0


def test_boxes_that_were_made_ahead(shelf):
    """Their folder of packages had another name when it was bound."""
    with serve.Daemon(settings(shelf, SANDBOX_POOL_SIZE="2")) as daemon:
        for _ in range(2):
            with session(daemon) as here:
                done = cell(daemon, here, "import castle; castle.walls")
                assert done["results"][0]["data"]["text/plain"] == "42", done
                assert daemon.python(here, "import castle; print(1)")["stdout"] == "1\n"
            assert run(daemon, "import castle; print(castle.walls)")["stdout"] == "42\n"
        support.wait_until(lambda: not left_packages(daemon), "its packages are gone")


LONG = """
import os, time
print('x' * 1000)
import castle
print('second', flush=True)
while not os.path.exists('/workspace/go'):
    time.sleep(0.05)
print('end')
"""


def test_a_new_broker_goes_on_with_the_second_time(shelf):
    with serve.Daemon(settings(shelf)) as daemon, session(daemon) as here:
        begun = daemon.post(f"/v1/sessions/{here}/code", {"code": LONG, "background": True}, 202)
        name = begun["execution_id"]
        support.wait_until(lambda: b"second" in daemon.output(name).body, "it runs again")
        kill_broker(daemon)
        daemon.write(here, "/workspace/go")
        with daemon.events(f"/v1/sessions/{here}/processes/{name}/events") as events:
            end = events.until("exit").data
        assert end["stdout"] == "x" * 1000 + "\nsecond\nend\n", end
        assert end["exit_code"] == 0 and end["error"] is None
        assert names(end["meta"]["installed"])["castle"] == "1.2"


def test_from_the_real_index():
    """As an agent meets it: a small package that many use."""
    with serve.Daemon({**data_template.host_settings(), "SANDBOX_AUTO_INSTALL": "true"}) as daemon, \
            session(daemon) as here:
        done = cell(daemon, here, "import emoji; emoji.emojize(':castle:')")
        if done["meta"].get("install_error", {}).get("code") == "no_network":
            pytest.skip(done["meta"]["install_error"]["message"])
        assert done["exit_code"] == 0 and "\U0001f3f0" in done["results"][0]["data"]["text/plain"]
        assert done["meta"]["installed"][0]["name"] == "emoji"
