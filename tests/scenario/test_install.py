"""Packages for sessions: asked for by hand, and fetched when a module is missing."""
import http.client
import os
import threading

import pytest

import data_template
import serve
import support
import wheels

CASTLE = wheels.Wheel("castle", "1.2", {"castle/__init__.py": "import moat\nwalls = moat.depth + 1\n"},
                      ["moat>=1"])
MOAT = wheels.Wheel("moat", "1.0", {"moat.py": "depth = 41\n"})
TOWER = wheels.Wheel("tower", "2.0", {"tower.py": "height = 7\n"})
WAVES = wheels.Wheel("PyWavelets", "6.0", {"pywt.py": "kind = 'made by hand'\n"})
HOLLOW = wheels.Wheel("hollow", "1.0", {"something_else.py": ""})
LARGE = wheels.Wheel("large", "1.0", {"large.py": "x = '" + "brick " * 700000 + "'\n"})
ALL = (CASTLE, MOAT, TOWER, WAVES, HOLLOW, LARGE)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(path, *ALL)
    return path


def settings(shelf, **more):
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf, "SANDBOX_AUTO_INSTALL": "true", **more}


def started(daemon):
    """What a daemon starts with its first work is there: the egress proxy, warm interpreters."""
    with session(daemon) as here:
        assert cell(daemon, here, "import tower")["exit_code"] == 0
    run(daemon, "pass")
    support.wait_until(lambda: not left_packages(daemon), "nothing is left of it")
    return daemon


@pytest.fixture(scope="module")
def yard(shelf):
    """A daemon whose pip has no index but that folder, and that installs what is missing."""
    with serve.Daemon(settings(shelf)) as running:
        yield started(running)


@pytest.fixture(scope="module")
def manual(shelf):
    """The same, where nothing is installed unless somebody says so."""
    with serve.Daemon(settings(shelf, SANDBOX_AUTO_INSTALL="false",
                               SANDBOX_INSTALL_DENY="Tower")) as running:
        with session(running) as here:
            install(running, here, "moat")
            cell(running, here, "pass")
        yield running


class session:
    """One that is there for the block."""

    def __init__(self, daemon, **members):
        self.daemon, self.members = daemon, members

    def __enter__(self):
        self.id = self.daemon.session(**self.members)["id"]
        return self.id

    def __exit__(self, *_):
        self.daemon.end(self.id)


def cell(daemon, here, code, **members):
    return daemon.post(f"/v1/sessions/{here}/code", {"code": code, **members})


def run(daemon, code, **members):
    return daemon.post("/v1/run", {"code": code, **members})


def install(daemon, here, *packages):
    return daemon.post(f"/v1/sessions/{here}/packages", {"packages": list(packages)})


def packages(daemon, here):
    return daemon.get(f"/v1/sessions/{here}/packages")["packages"]


def names(listed):
    return {one["name"]: one["version"] for one in listed}


def left_packages(daemon):
    """Of sessions and runs; folders of boxes that are made ahead are the launcher's."""
    return [name for name in os.listdir(daemon.state / "packages") if not name.startswith("p_")]


# --- by hand


def test_by_hand(manual):
    with session(manual) as here:
        assert cell(manual, here, "import castle")["error"]["name"] == "ModuleNotFoundError"
        done = install(manual, here, "castle")
        assert names(done["installed"]) == {"castle": "1.2", "moat": "1.0"}
        assert len(done["layer"]) == 64 and done["ms"] >= 0
        # The interpreter that had not found it finds it now, and so does everybody after it.
        assert cell(manual, here, "import castle; castle.walls")["results"][0]["data"][
            "text/plain"] == "42"
        assert manual.python(here, "import castle; print(castle.walls)")["stdout"] == "42\n"
        assert names(packages(manual, here)) == {"castle": "1.2", "moat": "1.0"}
        assert install(manual, here, "castle")["installed"] == []


def test_by_hand_before_the_box_is_there(manual):
    with session(manual) as here:
        install(manual, here, "moat==1.0")
        assert manual.python(here, "import moat; print(moat.depth)")["stdout"] == "41\n"


def test_two_at_once_both_stay(manual):
    """Each has all that the one before it brought."""
    with session(manual) as here:
        threads = [threading.Thread(target=install, args=(manual, here, name))
                   for name in ("moat", "PyWavelets", "hollow")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(names(packages(manual, here))) == {"moat", "PyWavelets", "hollow"}
        assert manual.python(here, "import moat, pywt, something_else; print('all')")[
            "stdout"] == "all\n"


def test_the_command_line(manual):
    with session(manual) as here:
        done = manual.bailey("install", "-s", here, "castle")
        assert done.status == 0 and "installed castle 1.2, moat 1.0" in done.stderr, done
        assert "installing castle==1.2" in done.stderr  # progress
        done = manual.bailey("install", "-s", here, "-q", "moat")
        assert (done.status, done.out, done.err) == (0, b"", b""), done
        done = manual.bailey("install", "-s", here, "--json", "PyWavelets")
        assert names(done.json()["installed"]) == {"PyWavelets": "6.0"}
        listed = manual.bailey("install", "-s", here)
        assert listed.stdout.split() == ["PACKAGE", "VERSION", "castle", "1.2", "moat", "1.0",
                                         "PyWavelets", "6.0"]
        done = manual.bailey("install", "-s", here, "tower")
        assert done.status == 125 and "may not be installed here" in done.stderr, done
        done = manual.bailey("install", "castle")
        assert done.status == 125 and "-s needs a session" in done.stderr, done


def test_progress_as_events(manual):
    with session(manual) as here:
        with manual.events(f"/v1/sessions/{here}/packages", {"packages": ["moat"]},
                           method="POST") as events:
            assert names(events.until("installed").data["installed"]) == {"moat": "1.0"}
        assert any(event.type == "progress" and "moat" in event.data["line"]
                   for event in events.seen)
        with manual.events(f"/v1/sessions/{here}/packages", {"packages": ["no-such-thing"]},
                           method="POST") as events:
            assert events.until("error").data["error"]["code"] == "install_failed"


@pytest.mark.parametrize("packages_, status, code", [
    ([], 400, "bad_input"),
    (["--index-url=http://x"], 400, "bad_input"),
    (["x @ file:///etc/passwd"], 400, "bad_input"),
    (["moat; touch /tmp/x"], 400, "bad_input"),
    (["moat\ntower"], 400, "bad_input"),
    (["a" * 300], 400, "bad_input"),
    (["TOWER"], 403, "install_denied"),
    (["tower==2.0"], 403, "install_denied"),
    (["no-such-thing"], 409, "install_failed"),
    (["moat>=7"], 409, "install_failed"),
])
def test_what_is_refused(manual, packages_, status, code):
    with session(manual) as here:
        manual.refused("POST", f"/v1/sessions/{here}/packages", status, code,
                       {"packages": packages_})
        assert packages(manual, here) == []


def test_a_session_that_is_not_there(manual):
    manual.refused("POST", "/v1/sessions/nobody/packages", 404, "session_not_found",
                   {"packages": ["moat"]})
    manual.refused("GET", "/v1/sessions/nobody/packages", 404, "session_not_found")


def test_nothing_is_installed_by_itself(manual):
    with session(manual) as here:
        done = cell(manual, here, "import moat")
        assert done["error"]["name"] == "ModuleNotFoundError"
        assert "installed" not in done["meta"] and "install_error" not in done["meta"]
    done = run(manual, "import moat")
    assert done["exit_code"] == 1 and "install_error" not in done["meta"]


# --- when a module is missing: a session


def test_a_cell_runs_again(yard):
    with session(yard) as here, session(yard) as other:
        done = cell(yard, here, "print('begin')\nimport castle\nx = castle.walls\nx")
        assert done["exit_code"] == 0 and done["error"] is None, done
        assert done["stdout"] == "begin\n"  # of the second time, and only that
        assert [one["data"]["text/plain"] for one in done["results"]] == ["42"]
        assert names(done["meta"]["installed"]) == {"castle": "1.2", "moat": "1.0"}
        assert done["meta"]["install_note"] == "installed castle 1.2 and ran the code again"
        assert done["meta"]["kernel"] == "new"
        # It stays, for cells, contexts and commands; and nobody else has it.
        again = cell(yard, here, "import castle; x + castle.walls")
        assert again["results"][0]["data"]["text/plain"] == "84"
        assert "installed" not in again["meta"]
        assert yard.exec(here, "python3", "-c", "import castle; print(1)")["stdout"] == "1\n"
        assert names(packages(yard, here)) == {"castle": "1.2", "moat": "1.0"}
        assert packages(yard, other) == []
        assert yard.exec(other, "python3", "-c", "import castle")["exit_code"] == 1


def test_a_second_package_joins_the_first(yard):
    with session(yard) as here:
        assert cell(yard, here, "import castle")["exit_code"] == 0
        done = cell(yard, here, "import pywt; pywt.kind")
        assert names(done["meta"]["installed"]) == {"PyWavelets": "6.0"}, done
        assert done["meta"]["install_note"].startswith("installed pywavelets 6.0 ")
        assert done["results"][0]["data"]["text/plain"] == "'made by hand'"
        assert cell(yard, here, "import castle, pywt, moat")["exit_code"] == 0


def test_once_and_no_more(yard):
    """The second time lacks another one: that is its result."""
    with session(yard) as here:
        done = cell(yard, here, "import moat\nimport tower")
        assert names(done["meta"]["installed"]) == {"moat": "1.0"}
        assert done["error"]["value"] == "No module named 'tower'"
        assert cell(yard, here, "import moat\nimport tower")["exit_code"] == 0


def test_input_and_variables_are_given_again(yard):
    with session(yard) as here:
        done = cell(yard, here, "import os\na = input()\nimport moat\nprint(a, os.environ['WORD'])",
                    stdin="line\n", env={"WORD": "word"})
        assert done["stdout"] == "line word\n", done


def test_events_of_a_cell_that_runs_again(yard):
    """The exception of the first time is told to nobody."""
    with session(yard) as here:
        with yard.events(f"/v1/sessions/{here}/code", {"code": "print('x')\nimport castle\n1"},
                         method="POST") as events:
            end = events.until("exit").data
        kinds = [event.type for event in events.seen]
        assert "error" not in kinds and kinds.count("started") == 1, kinds
        told = [event.data for event in events.seen if event.type == "install"]
        assert [one["state"] for one in told] == ["installing", "installed"], told
        assert told[0]["package"] == "castle" and names(told[1]["installed"])["castle"] == "1.2"
        assert end["stdout"] == "x\n" and end["results"][0]["data"]["text/plain"] == "1"


def test_the_command_line_says_so(yard):
    with session(yard) as here:
        done = yard.bailey("code", "-s", here, "-c", "import castle; castle.walls")
        assert (done.status, done.stdout) == (0, "42\n"), done
        assert "installing castle" in done.stderr
        assert "installed castle 1.2 and ran the code again" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("code, module, word", [
    ("import no_such_thing", "no_such_thing", "no-such-thing"),
    ("import hollow", "hollow", "hollow"),
    ("import msilib", "msilib", "standard library"),
    ("import google", "google", "shared by many"),
    ("import json.nothing", "json.nothing", "standard library"),
])
def test_the_first_result_stands(yard, code, module, word):
    with session(yard) as here:
        done = cell(yard, here, "print('once')\n" + code)
        assert done["stdout"] == "once\n" and done["exit_code"] == 1
        assert done["error"]["name"] == "ModuleNotFoundError"
        if module == "hollow":  # it is there, and was run with; only the module is not in it
            assert names(done["meta"]["installed"]) == {"hollow": "1.0"}
            done = cell(yard, here, code)
        assert done["meta"]["install_error"]["code"] == "install_failed", done["meta"]
        assert word in done["meta"]["install_error"]["message"]
        assert done["meta"]["install_note"].startswith(f"the module '{module}' is missing and was")
        assert cell(yard, here, "1")["exit_code"] == 0


def test_what_lies_in_the_workspace_is_not_looked_for(yard):
    """Names that many use for files of their own are names of packages too."""
    with session(yard) as here:
        yard.write(here, "/workspace/tower.py", b"height = 1\n")
        done = cell(yard, here, "import os, sys\nos.chdir('/tmp')\nsys.path.remove('')\nimport tower")
        assert "of yours in /workspace" in done["meta"]["install_error"]["message"], done
        assert packages(yard, here) == []


@pytest.mark.parametrize("value", [
    "No module named 'castle'; touch /tmp/x", "No module named '--index-url=http://x'",
    "No module named 'castle moat'", "No module named '../castle'", "No module named ''",
    "No module named 'castle'\\nNo module named 'moat'", "castle", "No module named 'cästle'"])
def test_a_name_that_is_none(yard, value):
    """What code makes up: nothing is fetched, and nothing goes wrong."""
    with session(yard) as here:
        done = cell(yard, here, f'raise ModuleNotFoundError("{value}")')
        assert done["error"]["name"] == "ModuleNotFoundError"
        assert "installed" not in done["meta"] and "install_error" not in done["meta"]
        assert packages(yard, here) == []


def test_a_made_up_error_installs_a_package_and_nothing_else(yard):
    with session(yard) as here:
        done = cell(yard, here, "raise ModuleNotFoundError(\"No module named 'castle'\")")
        assert names(done["meta"]["installed"])["castle"] == "1.2"
        assert done["exit_code"] == 1 and done["error"]["value"] == "No module named 'castle'"


def test_what_is_caught_is_not_fetched(yard):
    with session(yard) as here:
        done = cell(yard, here, "try:\n import castle\nexcept ImportError: print('without')")
        assert done["stdout"] == "without\n" and "installed" not in done["meta"]


def test_other_languages_have_no_modules_of_python(yard):
    with session(yard) as here:
        done = cell(yard, here, "echo \"No module named 'castle'\" >&2; false", language="bash")
        assert done["exit_code"] == 1 and "install_error" not in done["meta"]


def test_nothing_is_left_of_a_session(yard):
    with session(yard) as here:
        assert cell(yard, here, "import castle")["exit_code"] == 0
        assert here in left_packages(yard) and here + ".json" in left_packages(yard)
    support.wait_until(lambda: not left_packages(yard), "its packages are gone")


# --- when a module is missing: a run


def test_a_run_has_it_in_its_second_box(yard):
    done = run(yard, "import sys\nprint(sys.stdin.read().strip())\nimport castle\n"
                     "print(castle.walls)", stdin="given\n")
    assert (done["exit_code"], done["stdout"], done["stderr"]) == (0, "given\n42\n", ""), done
    assert names(done["meta"]["installed"]) == {"castle": "1.2", "moat": "1.0"}
    assert done["meta"]["install_note"] == "installed castle 1.2 and ran the code again"
    support.wait_until(lambda: not left_packages(yard), "its packages are gone")


def test_a_run_again_does_not_fetch_again(yard):
    """The layer is kept for a while."""
    first = run(yard, "import castle")
    layers = {name for name in os.listdir(yard.state / "layers") if len(name) == 64}
    second = run(yard, "import castle; print(1)")
    assert first["exit_code"] == second["exit_code"] == 0 and second["stdout"] == "1\n"
    assert layers == {name for name in os.listdir(yard.state / "layers") if len(name) == 64}


@pytest.mark.parametrize("code, word", [("import no_such_thing", "no-such-thing"),
                                        ("import msilib", "standard library")])
def test_a_run_whose_first_result_stands(yard, code, word):
    done = run(yard, "print('once')\n" + code)
    assert done["exit_code"] == 1 and done["stdout"] == "once\n"
    assert "ModuleNotFoundError" in done["stderr"]
    assert word in done["meta"]["install_error"]["message"], done["meta"]
    assert not left_packages(yard)


def test_a_run_with_a_module_of_its_own(yard):
    """As far as anybody can look: a box with no output goes with its program."""
    done = run(yard, "open('tower.py', 'w').close()\nopen('/tmp/output/x', 'w').close()\n"
                     "import sys\nsys.path.remove('/workspace')\nimport tower")
    assert "of yours in /workspace" in done["meta"]["install_error"]["message"], done


def test_a_run_that_only_prints_it(yard):
    """The last line and the status both say so, or nothing is looked for."""
    line = "ModuleNotFoundError: No module named 'castle'"
    done = run(yard, f"import sys; print(\"{line}\", file=sys.stderr)")
    assert done["exit_code"] == 0 and "installed" not in done["meta"]
    done = run(yard, f"import sys; print(\"{line}\", file=sys.stderr); print(1, file=sys.stderr); "
                     "sys.exit(1)")
    assert done["exit_code"] == 1 and "installed" not in done["meta"]


# --- tools


def test_tools_tell_the_agent(yard):
    done = yard.post("/v1/tools/run_python_code", {"code": "import castle; print(castle.walls)"})
    note = "installed castle 1.2 and ran the code again"
    assert done["success"] and done["output"] == f"42\n[{note}]\n" and done["note"] == note, done
    done = yard.post("/v1/tools/run_python_code", {"code": "import no_such_thing"})
    assert "was not installed" in done["output"] and "was not installed" in done["note"]
    assert done["hint"] == "Check the module's name, or write it without that module."
    done = yard.post("/v1/tools/run_code", {"code": "import castle; print(castle.walls)"})
    assert done["stdout"] == "42\n" and done["note"] == note
    with session(yard) as here:
        done = yard.post("/v1/tools/run_code", {"code": "import castle; castle.walls",
                                                "session": here})
        assert done["note"] == note and names(done["meta"]["installed"])["castle"] == "1.2"


# --- lists and limits


def test_allow_and_deny(shelf):
    with serve.Daemon(settings(shelf, SANDBOX_INSTALL_ALLOW="Py_Wavelets,castle,moat",
                               SANDBOX_INSTALL_DENY="MOAT")) as daemon, session(daemon) as here:
        for module in ("tower", "moat"):
            done = cell(daemon, here, f"import {module}")
            assert done["meta"]["install_error"]["code"] == "install_denied", done["meta"]
            assert module in done["meta"]["install_error"]["message"]
            done = run(daemon, f"import {module}")
            assert done["meta"]["install_error"]["code"] == "install_denied", done["meta"]
            daemon.refused("POST", f"/v1/sessions/{here}/packages", 403, "install_denied",
                           {"packages": [module]})
        assert packages(daemon, here) == []


def test_size(shelf):
    with serve.Daemon(settings(shelf, SANDBOX_INSTALL_SIZE="2m")) as daemon, \
            session(daemon) as here:
        done = cell(daemon, here, "import large")
        assert done["meta"]["install_error"]["code"] == "too_large", done["meta"]
        assert "2 MB" in done["meta"]["install_error"]["message"]
        assert packages(daemon, here) == []
        assert cell(daemon, here, "import tower")["exit_code"] == 0
        layers = [name for name in os.listdir(daemon.state / "layers") if len(name) == 64]
        assert len(layers) == 1


def gated(index, **more):
    return {"PIP_INDEX_URL": index.url, "SANDBOX_INDEX_HOSTS": index.host,
            "SANDBOX_AUTO_INSTALL": "true", **more}


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


def builds(daemon):
    return [name for name in os.listdir(daemon.state / "layers") if name.startswith(".build-")]


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


def kill_broker(daemon):
    """And waits for the next one."""
    before = daemon.get("/v1/info")
    os.kill(before["broker_pid"], 9)

    def is_back():
        try:
            return daemon.get("/v1/info")["generation"] > before["generation"]
        except (OSError, http.client.HTTPException, AssertionError):
            return False
    support.wait_until(is_back, "the next broker")


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
