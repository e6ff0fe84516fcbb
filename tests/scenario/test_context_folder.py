"""A context that begins in a folder of its own, warm or cold: the same folder, the same errors."""
import os
import signal

import pytest

import serve
import support

WHERE = "import os\nprint(os.getcwd())"


@pytest.fixture(scope="module", params=["true", "false"], ids=["warm", "cold"])
def daemon(request):
    with serve.Daemon({"SANDBOX_WARM": request.param}) as running:
        running.is_warm = request.param == "true"
        yield running


@pytest.fixture
def session(daemon):
    here = daemon.session()["id"]
    daemon.python(here, "1")  # there is a box
    yield here
    daemon.end(here)


def context(daemon, session, folder):
    return daemon.post(f"/v1/sessions/{session}/contexts", {"cwd": folder}, 201)["id"]


def cell(daemon, session, where, code):
    return daemon.post(f"/v1/sessions/{session}/code", {"code": code, "context": where})


def test_it_is_there_and_may_leave(daemon, session):
    daemon.exec(session, "mkdir", "-p", "/tmp/one two/ü")
    here = context(daemon, session, "/tmp/one two/ü")
    done = cell(daemon, session, here, WHERE)
    assert done["stdout"] == "/tmp/one two/ü\n", done
    assert done["meta"]["warm"] == ("zygote" if daemon.is_warm else "cold"), done
    assert done["execution_count"] == 1, done
    assert cell(daemon, session, here, "os.chdir('/workspace')")["exit_code"] == 0
    assert cell(daemon, session, here, WHERE)["stdout"] == "/workspace\n", "nobody brings it back"
    daemon.post(f"/v1/sessions/{session}/contexts/{here}/restart")
    assert cell(daemon, session, here, WHERE)["stdout"] == "/tmp/one two/ü\n"


def test_modules_of_that_folder(daemon, session):
    daemon.exec(session, "sh", "-c", "mkdir /tmp/mods; echo 'n = 5' >/tmp/mods/beside.py")
    here = context(daemon, session, "/tmp/mods")
    seen = cell(daemon, session, here, "import sys\nprint(sys.path[0] in ('', '/tmp/mods'))")["stdout"]
    done = cell(daemon, session, here, "import beside\nprint(beside.n)")
    assert (seen, done["stdout"]) == ("True\n", "5\n"), (seen, done)


@pytest.mark.parametrize("folder, word", [("/tmp/none", "No such file or directory"),
                                          ("/etc/passwd/x", "Not a directory"),
                                          ("/bailey/driver/kernel.py", "Not a directory")])
def test_one_that_is_not_there(daemon, session, folder, word):
    """Told the same each time, and it begins once there is one."""
    here = context(daemon, session, folder)
    for _ in range(2):
        said = cell(daemon, session, here, WHERE)
        assert (said["exit_code"], said["stdout"]) == (1, ""), said
        assert said["meta"]["error"]["code"] == "bad_input", said
        assert said["meta"]["error"]["message"] == f"the working folder: {word}", said
    if folder == "/tmp/none":
        daemon.exec(session, "mkdir", folder)
        assert cell(daemon, session, here, WHERE)["stdout"] == "/tmp/none\n"


def test_one_that_is_closed(daemon, session):
    """Nothing runs anywhere else instead."""
    daemon.exec(session, "mkdir", "-m", "000", "/tmp/closed")
    here = context(daemon, session, "/tmp/closed")
    for _ in range(2):
        said = cell(daemon, session, here, WHERE)
        assert (said["exit_code"], said["stdout"]) == (1, ""), said
        assert "Permission denied" in str(said["error"] or said["meta"]["error"]), said
    daemon.exec(session, "chmod", "755", "/tmp/closed")
    assert cell(daemon, session, here, WHERE)["stdout"] == "/tmp/closed\n"


def test_a_new_broker_knows_where_it_is():
    """A kernel that has been sent there and has left since stays where it is."""
    with serve.Daemon() as daemon:
        session = daemon.session()["id"]
        daemon.exec(session, "mkdir", "/tmp/first")
        here = context(daemon, session, "/tmp/first")
        assert cell(daemon, session, here, WHERE)["meta"]["warm"] == "zygote"
        cell(daemon, session, here, "os.chdir('/tmp')")
        old = daemon.get("/v1/info")["broker_pid"]
        os.kill(old, signal.SIGKILL)
        support.wait_until(lambda: broker(daemon) not in (None, old), "there is another broker")
        assert cell(daemon, session, here, WHERE)["stdout"] == "/tmp\n"


def broker(daemon):
    try:
        return daemon.get("/v1/info")["broker_pid"]
    except OSError:
        return None
