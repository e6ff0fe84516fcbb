"""`pip install` that a guest types in a session with SANDBOX_AUTO_INSTALL goes to the engine's installer."""
import pytest

import serve
import support
import wheels
from install import ALL, cell, install, kill_broker, left_packages, names, packages, session, settings


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


@pytest.mark.parametrize("line", ["%pip install moat", "!pip install moat"])
def test_a_cell(yard, line):
    with session(yard) as here:
        done = cell(yard, here, f"{line}\nimport moat\nmoat.depth, _exit_code")
        assert done["results"][0]["data"]["text/plain"] == "(41, 0)", done


@pytest.mark.parametrize("words,reason", [
    (["tower"], "may not be installed here"), (["no-such-package-here"], "no-such-package-here"),
    (["moat @ http://127.0.0.1/x.whl"], "ERROR: "), (["moat;import_os"], "ERROR: "), (["moat"] * 65, "64"),
])
def test_what_may_not_be_installed(yard, words, reason):
    with session(yard) as here:
        done = yard.exec(here, "pip", "install", *words)
        assert done["exit_code"] == 1 and reason in done["stderr"], done
        assert packages(yard, here) == []


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
