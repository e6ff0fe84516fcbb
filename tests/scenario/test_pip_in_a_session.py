"""`pip install` that a guest types in a session with SANDBOX_AUTO_INSTALL goes to the engine's installer, however
pip is started."""
import base64
import os
import venv

import pytest

import serve
import support
import wheels
from install import ALL, cell, install, kill_broker, left_packages, names, packages, run, session, settings

SUBPROCESS = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', 'pip', 'install', 'moat']))"
DEBIAN = "/usr/bin/python3"  # may have python3-pip or not


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(path, *ALL)
    return path


@pytest.fixture(scope="module")
def yard(shelf):
    with serve.Daemon(settings(shelf, SANDBOX_INSTALL_DENY="tower")) as running:
        with session(running) as here:  # the first installation starts the proxy, the first cell an interpreter
            install(running, here, "hollow")
            cell(running, here, "pass")
        yield running


def test_a_command(yard):
    with session(yard) as here:
        done = yard.exec(here, "pip", "install", "-q", "castle>=1")
        assert done["exit_code"] == 0 and "Successfully installed castle-1.2 moat-1.0" in done["stdout"], done
        assert yard.python(here, "import castle; print(castle.walls)")["stdout"] == "42\n"
        assert names(packages(yard, here)) == {"castle": "1.2", "moat": "1.0"}
        done = yard.exec(here, "sh", "-c", "printf '# mine\\nmoat==1.0  # the same\\n' > r.txt; pip3 install -r r.txt")
        assert done["exit_code"] == 0 and "Requirement already satisfied" in done["stdout"], done
        assert yard.exec(here, "ls", "/tmp/.bailey-install")["stdout"] == ""


@pytest.mark.parametrize("words", [
    ["python", "-m", "pip", "install", "moat"], ["python3", "-m", "pip", "install", "--user", "moat"],
    ["python", "-c", SUBPROCESS], [DEBIAN, "-m", "pip", "install", "moat"], ["python", "-m", "pip", "-q", "install", "moat"],
    ["sh", "-c", "python -m venv --without-pip /tmp/v && /tmp/v/bin/python -m pip install moat"],
    ["sh", "-c", "python -m venv /tmp/v && . /tmp/v/bin/activate && pip install moat"],
], ids=lambda words: " ".join(words)[:40])
def test_pip_as_a_module_of_any_python(yard, words):
    if words[0] == DEBIAN and not os.path.exists(DEBIAN):
        pytest.skip(f"this machine has no {DEBIAN}")
    with session(yard) as here:
        done = yard.exec(here, *words)
        if "ensurepip" in done["stderr"]:
            pytest.skip("the Python of this machine cannot put pip into a virtual environment")
        assert done["exit_code"] == 0 and "Successfully installed moat-1.0" in done["stdout"], done
        assert yard.exec(here, words[0] if words[0] == DEBIAN else "python", "-c", "import moat")["exit_code"] == 0
        assert names(packages(yard, here)) == {"moat": "1.0"}


def test_the_module_of_a_host_virtual_environment(shelf, tmp_path):
    venv.create(tmp_path / "mine", with_pip=False)
    with serve.Daemon(settings(shelf, SANDBOX_PYTHON=tmp_path / "mine" / "bin" / "python")) as daemon:
        with session(daemon) as here:
            done = daemon.exec(here, "python", "-m", "pip", "install", "moat")
            assert done["exit_code"] == 0 and "moat-1.0" in done["stdout"], done
            done = daemon.exec(here, "python", "-m", "pip", "list")
            assert done["exit_code"] == 0 and "moat" in done["stdout"], done


def test_a_cell_has_the_same_module(yard):
    with session(yard) as here:
        done = cell(yard, here, SUBPROCESS.replace("sys.exit", "print") + "\nimport moat\nmoat.depth")
        assert done["results"][0]["data"]["text/plain"] == "41", done


@pytest.mark.parametrize("line", ["%pip install moat", "!pip install moat"])
def test_a_cell(yard, line):
    with session(yard) as here:
        done = cell(yard, here, f"{line}\nimport moat\nmoat.depth, _exit_code")
        assert done["results"][0]["data"]["text/plain"] == "(41, 0)", done


def by_call(yard, here, wanted, *words):
    """A command whose caller sets the key."""
    return yard.bailey(*words[:1], "-s", here, *words[1:], env={"SANDBOX_AUTO_INSTALL": wanted})


PIP = ("exec", "--", "python", "-m", "pip", "install", "moat")
CELL = ("code", "-c", "!pip install moat\n_exit_code")


@pytest.mark.parametrize("words", [PIP, CELL], ids=["command", "cell"])
def test_the_setting_is_that_of_the_call(yard, words):
    """As for modules that are missing: whatever the session was made with."""
    with session(yard) as here:
        done = by_call(yard, here, "false", *words)
        assert "Installing" not in done.stdout and "SANDBOX_AUTO_INSTALL=true" in done.stderr, done
        assert len(done.stderr.splitlines()) == 2 and packages(yard, here) == [], done
        assert "moat-1.0" in by_call(yard, here, "true", *words).stdout
    made = yard.bailey("session", "new", env={"SANDBOX_AUTO_INSTALL": "false"}).stdout.strip()
    assert by_call(yard, made, "false", *words).stdout in ("", "1\n")
    assert "moat-1.0" in by_call(yard, made, "true", *words).stdout
    yard.end(made)


def test_the_next_broker_knows_what_calls_may(shelf):
    with serve.Daemon(settings(shelf, SANDBOX_AUTO_INSTALL="false")) as daemon:
        heard, other = (daemon.session()["id"] for _ in range(2))
        assert by_call(daemon, heard, "true", *PIP).status == 0
        assert daemon.exec(other, "true")["exit_code"] == 0
        kill_broker(daemon)
        for here in (heard, other):
            assert "SANDBOX_AUTO_INSTALL=true" in by_call(daemon, here, "false", *PIP).stderr
            assert by_call(daemon, here, "true", *PIP).status == 0


def test_a_command_of_a_call_with_the_setting_may_install_whatever_else_runs(yard):
    made = yard.bailey("session", "new", env={"SANDBOX_AUTO_INSTALL": "false"}).stdout.strip()
    yard.background(made, "sleep", "1000")
    assert by_call(yard, made, "true", *PIP).status == 0
    yard.end(made)


@pytest.mark.parametrize("words,reason", [
    (["tower"], "may not be installed here"), (["no-such-package-here"], "no-such-package-here"),
    (["moat @ http://127.0.0.1/x.whl"], "ERROR: "), (["moat;import_os"], "ERROR: "), (["moat"] * 65, "64"),
])
def test_what_may_not_be_installed(yard, words, reason):
    with session(yard) as here:
        done = yard.exec(here, "pip", "install", *words)
        assert done["exit_code"] == 1 and reason in done["stderr"], done
        assert packages(yard, here) == []


def test_an_error_of_the_installers_pip_is_marked_once(yard):
    with session(yard) as here:
        done = yard.exec(here, "pip", "install", "no-such-package-here")
        assert done["stderr"].startswith("ERROR: ") and "ERROR: ERROR:" not in done["stderr"], done


def test_what_was_installed_cannot_be_uninstalled_and_says_so(yard):
    with session(yard) as here:
        done = yard.exec(here, "sh", "-c", "pip install moat && python -m pip uninstall -y moat")
        assert done["exit_code"] == 1 and len(done["stderr"].splitlines()) == 1, done
        assert "'moat' cannot be uninstalled: /bailey/packages is read-only" in done["stderr"], done
        assert yard.exec(here, "python", "-c", "import moat")["exit_code"] == 0


def test_what_the_engine_does_not_do_is_said(yard):
    with session(yard) as here:
        for words in (("install", "--target", "/tmp/x", "moat"), ("download", "moat")):
            done = yard.exec(here, "pip", *words)
            assert done["exit_code"] == 1 and "sandbox_install" in done["stderr"], done


def test_it_goes_on_after_the_broker_was_replaced(shelf):
    with serve.Daemon(settings(shelf)) as daemon, session(daemon) as here:
        assert daemon.exec(here, "true")["exit_code"] == 0
        kill_broker(daemon)
        done = daemon.exec(here, "pip", "install", "moat")
        assert done["exit_code"] == 0 and "moat-1.0" in done["stdout"], done


def test_a_session_that_ends_meanwhile_leaves_nothing(shelf):
    with wheels.Index(shelf) as index, serve.Daemon({
            "PIP_INDEX_URL": index.url, "SANDBOX_INDEX_HOSTS": index.host, "SANDBOX_AUTO_INSTALL": "true"}) as daemon:
        here = daemon.session()["id"]
        index.gate.clear()
        daemon.background(here, "pip", "install", "moat")
        assert index.knocked.wait(support.PATIENCE)
        daemon.end(here)
        index.gate.set()
        support.wait_until(lambda: not left_packages(daemon), "nothing is left of it")


# --- one-shot runs

TYPED = "import os\nassert os.system('{} install castle') == 0\nimport castle\nprint(castle.walls)"


@pytest.mark.parametrize("how", ["pip", "pip3 -q", "python -m pip"])
def test_a_one_shot_run(yard, how):
    support.wait_until(lambda: not left_packages(yard), "nothing is left of runs before")
    done = run(yard, TYPED.format(how))
    assert done["exit_code"] == 0 and done["stdout"].endswith("castle-1.2 moat-1.0\n42\n"), done
    support.wait_until(lambda: not left_packages(yard), "nothing is left of it")


def test_a_one_shot_run_through_every_door(yard):
    code = TYPED.format("pip")
    text = yard.post("/v1/tools/run_python_code", {"code": code})
    assert "42" in (text if isinstance(text, str) else str(text)), text
    done = yard.post("/execute", {"code": code})
    assert done["exit_code"] == 0 and "\n42\n" in done["stdout"], done
    by_hand = yard.bailey("run", "-c", code)
    assert by_hand.status == 0 and by_hand.stdout.endswith("42\n"), by_hand
    shell = run(yard, "pip install moat && python -c 'import moat; print(moat.depth)'", language="bash")
    assert shell["exit_code"] == 0 and shell["stdout"].endswith("41\n"), shell


def test_a_one_shot_run_may_ask_twice_and_be_refused(yard):
    code = ("import subprocess as s\n"
            "for name in ('moat', 'tower', 'hollow', 'moat'):\n"
            "    r = s.run(['pip', 'install', name], capture_output=True, text=True)\n"
            "    print(r.returncode, (r.stdout + r.stderr).splitlines()[-1])\n"
            "import moat, something_else")
    done = run(yard, code)
    lines = done["stdout"].splitlines()
    assert done["exit_code"] == 0 and lines[0] == "0 Successfully installed moat-1.0", done
    assert lines[1].startswith("1 ") and "may not be installed here" in lines[1], done
    assert lines[2:] == ["0 Successfully installed hollow-1.0", "0 Requirement already satisfied"], done


def test_a_script_that_came_along_may_ask(yard):
    script = base64.b64encode(b"pip3 install moat\n").decode()
    done = yard.post("/execute", {"code": "import os\nos.system('sh s.sh')\nimport moat\nprint(moat.depth)",
                                  "files": {"s.sh": script}})
    assert done["exit_code"] == 0 and done["stdout"].endswith("41\n"), done


def test_a_command_that_runs_alone_says_what_is_possible(yard):
    done = yard.bailey("run", "-l", "bash", "-c", "pip install moat")
    assert done.status == 1 and "runs that a daemon carries out" in done.stderr, done


def test_a_one_shot_run_without_the_setting_says_what_is_possible(yard):
    done = yard.bailey("run", "-c", "import os; os.system('python -m pip install moat')", env={"SANDBOX_AUTO_INSTALL": "false"})
    assert "runs that a daemon carries out" in done.stderr and "sandbox_install" in done.stderr, done


def test_a_run_that_is_over_meanwhile_leaves_nothing(shelf):
    with wheels.Index(shelf) as index, serve.Daemon({
            "PIP_INDEX_URL": index.url, "SANDBOX_INDEX_HOSTS": index.host, "SANDBOX_AUTO_INSTALL": "true"}) as daemon:
        index.gate.clear()
        done = run(daemon, "import subprocess\nsubprocess.Popen(['pip', 'install', 'moat'])\n"
                   "import time\nwhile not time.sleep(0.05):\n    pass", timeout=3)
        assert done["meta"]["timed_out"] is True, done
        index.gate.set()
        support.wait_until(lambda: not left_packages(daemon), "nothing is left of it")
