"""`python`, `python3` and `pip` in a box are the interpreter that runs code there, whatever the host has in
/usr/bin; and the template that a box has when nobody names one."""
import json
import venv
import zipfile

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


def two_lines(text, *names):
    """What pip prints instead of asking an index: all that can be done, in two lines."""
    lines = text.splitlines()
    assert len(lines) == 2 and all(line.startswith("pip: ") for line in lines), text
    assert f"sandbox_install {json.dumps({'packages': list(names)})}" in lines[0], text
    assert "bailey install -s SESSION" in lines[0], text
    assert "SANDBOX_AUTO_INSTALL=true" in lines[1] and "bailey template build" in lines[1], text


@pytest.mark.parametrize("words,names", [
    (("pip", "install", "--break-system-packages", "castle"), ["castle"]),
    (("pip3", "install", "-U", "moat>=1", "castle[walls]==1.2"), ["moat>=1", "castle[walls]==1.2"]),
    (("pip", "-q", "--retries", "3", "download", "-d", "/tmp", "castle"), ["castle"]),
    (("pip", "wheel", "castle"), ["castle"]),
    (("pip", "install", "-r", "requirements.txt"), ["NAME"]),
    (("pip", "install", "$(reboot)"), ["NAME"]),
    (("python", "-m", "pip", "install", "castle"), ["castle"]),
    (("python3", "-m", "pip", "--retries", "2", "install", "-U", "moat>=1"), ["moat>=1"]),
    (("/usr/bin/python3", "-m", "pip", "install", "castle"), ["castle"]),
    (("python", "-c", "import subprocess as s, sys; sys.exit(s.call([sys.executable, '-m', 'pip', 'install', 'castle']))"), ["castle"]),
])
def test_pip_says_what_to_do_without_a_network(words, names):
    done = support.bailey("exec", "--", *words)
    assert (done.status, done.stdout) == (1, ""), done
    two_lines(done.stderr, *names)


@pytest.mark.parametrize("start", [("pip",), ("python", "-m", "pip")])
def test_pip_without_a_network_as_ever(start):
    if support.bailey("run", "-c", "import pip").status != 0:
        pytest.skip("the Python of this machine has no pip")
    version = said("run", "-c", "import pip; print(pip.__version__, pip.__file__.endswith('/pip/__init__.py'))")
    assert version.endswith(" True"), version
    assert said("exec", "--", *start, "--version").startswith(f"pip {version.split()[0]} ")
    assert "Name: pip\n" in said("exec", "--", *start, "show", "pip")
    assert said("exec", "--", *start, "list").splitlines()[0].split() == ["Package", "Version"]
    assert support.bailey("exec", "--", *start, "freeze").status == 0


NO_PIP = """python -m venv --without-pip /tmp/v && cd /tmp/v/lib/python*/site-packages && unzip -q /workspace/%s && /tmp/v/bin/python -c "
import glob, runpy, sys
sys.base_prefix, glob.glob, sys.argv = '/none', lambda _: [], ['pip'] + sys.argv[1:]
runpy.run_module('pip', run_name='__main__')" %s"""


@pytest.mark.parametrize("words,status,shown", [
    ("list", 0, "moat    1.0"), ("list --format json", 0, '[{"name": "moat", "version": "1.0"}]'), ("freeze", 0, "moat==1.0"),
    ("show moat", 0, "Name: moat\nVersion: 1.0"), ("show none", 1, ""), ("--version", 0, "pip of Bailey"),
    ("check", 1, ""),
])
def test_where_no_pip_is_found_ours_lists(room, words, status, shown):
    MOAT.write(room.work)
    code = NO_PIP.replace("unzip -q", "python -m zipfile -e").replace("%s &&", "%s . &&") % (MOAT.file_name, words)
    done = support.bailey("exec", "--file", MOAT.file_name, "--", "sh", "-c", code, room=room)
    assert done.status == status and shown in done.stdout, done


@pytest.mark.parametrize("start", [("pip",), ("python3", "-m", "pip")])
def test_pip_without_namespaces_too(start):
    done = support.bailey("exec", "--", *start, "install", "castle", deny=support.NO_NAMESPACES)
    assert (done.status, done.stdout) == (1, ""), done
    two_lines(done.stderr, "castle")


def test_pip_in_cells_says_the_same(daemon):
    session = daemon.session()["id"]
    for code in ("%pip install castle", "!pip install castle"):
        cell = daemon.post(f"/v1/sessions/{session}/code", {"code": code + "\n_exit_code"})
        assert cell["results"][0]["data"]["text/plain"] == "1", cell
        two_lines(cell["stderr"], "castle")
    daemon.end(session)


def test_pip_installs_a_wheel_that_is_in_the_box(room):
    MOAT.write(room.work)
    done = support.bailey("exec", "--file", MOAT.file_name, "--", "sh", "-c",
                          f"pip install --target /tmp/own ./{MOAT.file_name} && cat /tmp/own/moat.py", room=room)
    if "has no pip" in done.stderr:
        pytest.skip("the Python of this machine has no pip")
    assert done.status == 0 and done.stdout.endswith("depth = 41\n"), done
    asked = support.bailey("exec", "--", "pip", "install", "--help")
    assert asked.status == 0 and "Usage:" in asked.stdout, asked


def listed(reply):
    if "has no pip" in reply["stderr"]:
        pytest.skip("the Python of this machine has no pip")
    return {one["name"]: one["version"] for one in json.loads(reply["stdout"])}


LIST = ["pip", "list", "--format", "json"]


def test_pip_lists_what_was_installed_into_the_session(yard):
    session = yard.session(template="python")["id"]
    before = listed(yard.post(f"/v1/tools/sandbox_exec?session={session}", {"command": LIST}))
    yard.post(f"/v1/sessions/{session}/packages", {"packages": ["moat"]})
    after = listed(yard.post(f"/v1/tools/sandbox_exec?session={session}", {"command": LIST}))
    yard.end(session)
    assert after == {**before, "moat": "1.0"} and "moat" not in before


def test_pip_lists_what_an_environment_without_pip_has(room):
    folder = room.path / "own"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    env = {"SANDBOX_PYTHON": str(folder / "bin" / "python")}
    done = support.bailey("exec", "--", *LIST, env=env, room=room)
    assert listed({"stderr": done.stderr, "stdout": done.stdout}) == {}, done
    site = next(folder.glob("lib/python*/site-packages"))
    MOAT.write(room.work)
    with zipfile.ZipFile(room.work / MOAT.file_name) as wheel:
        wheel.extractall(site)
    done = support.bailey("exec", "--", *LIST, env=env, room=room)
    assert listed({"stderr": done.stderr, "stdout": done.stdout}) == {"moat": "1.0"}, done


def test_a_virtual_environment(room):
    folder = room.path / "own"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    env = {"SANDBOX_PYTHON": str(folder / "bin" / "python")}
    mine = said("run", "-c", WHO, env=env, room=room)
    assert mine.endswith(str(folder)), mine
    for name in NAMES:
        assert said("exec", "--", name, "-c", WHO, env=env, room=room) == mine


def test_a_virtual_environment_in_a_session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment") / "own"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    with serve.Daemon({"SANDBOX_PYTHON": str(folder / "bin" / "python")}) as running:
        session = running.session()["id"]
        mine = tool(running, "run_code", session, code=WHO)
        assert mine.endswith(str(folder)), mine
        for name in NAMES:
            assert tool(running, "sandbox_exec", session, command=[name, "-c", WHO]) == mine


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
