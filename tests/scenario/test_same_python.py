"""`python`, `python3` and `pip` in a box are the interpreter that runs code there, whatever the host has in
/usr/bin; and the template that a box has when nobody names one."""
import json
import venv

import pytest

import serve
import support
import wheels

WHO = "import sys; print(sys.version.split()[0], sys.prefix)"
NAMES = ("python", "python3")
MOAT = wheels.Wheel("moat", "1.0", {"moat.py": "depth = 41\n"})


@pytest.fixture(scope="module")
def daemon():
    with serve.Daemon() as running:
        yield running


def said(*args, **named):
    done = support.bailey(*args, **named)
    assert done.status == 0, done
    return done.stdout.strip()


def tool(daemon, name, session, **parameters):
    reply = daemon.post(f"/v1/tools/{name}?session={session}", parameters)
    assert reply["exit_code"] == 0, reply
    return reply["stdout"].strip()


@pytest.mark.parametrize("name", NAMES)
def test_a_command_finds_the_interpreter_of_run(name):
    assert said("exec", "--", name, "-c", WHO) == said("run", "--no-daemon", "-c", WHO)


@pytest.mark.parametrize("name", NAMES)
def test_bash_finds_it_too(name):
    assert said("run", "-l", "bash", "-c", f"{name} -c '{WHO}'") == said("run", "-c", WHO)


@pytest.mark.parametrize("name", NAMES)
def test_without_namespaces_too(name):
    mine = said("run", "-c", WHO, deny=support.NO_NAMESPACES)
    assert said("exec", "--", name, "-c", WHO, deny=support.NO_NAMESPACES) == mine
    assert mine.split()[0] == said("run", "-c", WHO).split()[0]


def test_pip_is_that_interpreters(room):
    has_pip = support.bailey("run", "-c", "import pip").status == 0
    if not has_pip:
        pytest.skip("the Python of this machine has no pip")
    where = said("run", "-c", "import pip; print(pip.__file__.rpartition('/')[0])")
    for words in (("pip", "--version"), ("pip3", "--version")):
        assert where in said("exec", "--", *words)


def test_pip_says_what_to_do_without_a_network():
    done = support.bailey("exec", "--", "pip", "install", "--break-system-packages", "no-such-package")
    if "has no pip" in done.stderr:
        pytest.skip("the Python of this machine has no pip")
    assert done.status != 0 and "sandbox_install" in done.stderr, done


def test_a_virtual_environment(room):
    folder = room.path / "own"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    env = {"SANDBOX_PYTHON": str(folder / "bin" / "python")}
    mine = said("run", "-c", WHO, env=env, room=room)
    assert mine.endswith(str(folder)), mine
    for name in NAMES:
        assert said("exec", "--", name, "-c", WHO, env=env, room=room) == mine


def test_in_a_session(daemon):
    session = daemon.session()["id"]
    mine = tool(daemon, "run_code", session, code=WHO)
    for name in NAMES:
        assert tool(daemon, "sandbox_exec", session, command=[name, "-c", WHO]) == mine
        assert tool(daemon, "run_code", session, code="import subprocess\nprint(subprocess.run("
                    f"['{name}', '-c', {WHO!r}], capture_output=True, text=True, check=True).stdout)") == mine
    daemon.end(session)


def test_a_path_of_a_box_may_not_be_ours():
    done = support.bailey("exec", "--", "sh", "-c", "echo x > /bailey/bin/python")
    assert done.status != 0 and "Read-only" in done.stderr, done


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    """A daemon whose pip has one wheel, with a template called data."""
    shelf = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(shelf, MOAT)
    with serve.Daemon({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf, "SANDBOX_WARM": "false"}) as running:
        running.post("/v1/templates", {"name": "first", "warm_up": []})  # the first installer starts the proxy
        yield running


def test_auto_is_data_where_it_is_built(yard):
    plain = yard.session()
    assert plain["template"] == "python"
    yard.end(plain["id"])
    assert yard.bailey("run", "-c", "import moat").status == 1
    yard.post("/v1/templates", {"warm_up": [], "name": "data", "packages": ["moat"]})
    made = yard.session()
    assert made["template"] == "data"
    for options in ((), ("--no-daemon",), ("--template", "auto")):
        done = yard.bailey("run", *options, "-c", "import moat; print(moat.depth)")
        assert (done.status, done.stdout) == (0, "41\n"), done
    assert yard.bailey("run", "--template", "python", "-c", "import moat").status == 1
    # Its interpreter is `python` too, and pip lists what it has.
    assert tool(yard, "sandbox_exec", made["id"], command=["python", "-c", "import moat; print(moat.depth)"]) == "41"
    listed = yard.post(f"/v1/tools/sandbox_exec?session={made['id']}",
                       {"command": ["pip", "list", "--format", "json"]})
    yard.end(made["id"])
    if "has no pip" in listed["stderr"]:
        pytest.skip("the Python of this machine has no pip")
    assert {one["name"] for one in json.loads(listed["stdout"])} == {"moat"}, listed


def test_auto_needs_no_namespaces(yard):
    yard.post("/v1/templates", {"warm_up": [], "name": "data", "packages": ["moat"]})
    done = yard.bailey("run", "--no-daemon", "-c", "print(7)", deny=support.NO_NAMESPACES)
    assert (done.status, done.stdout) == (0, "7\n"), done
    done = yard.bailey("run", "--no-daemon", "--template", "data", "-c", "print(7)", deny=support.NO_NAMESPACES)
    assert done.status == 126 and "templates need namespaces" in done.stderr, done


def test_auto_is_no_templates_name(yard):
    assert "may not be 'auto'" in yard.post("/v1/templates", {"name": "auto", "packages": []}, 400)["error"]["message"]
