"""The interpreter may live anywhere, also in a home folder that others may not enter."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
import support


@pytest.fixture(params=["root", "ordinary", "refused"])
def hidden(request):
    """A virtual environment in a 0700 folder, with a module and, beside it, somebody's secret."""
    if request.param == "root" and not support.is_root():
        pytest.skip("has to be started as root")
    way = support.ways()[request.param]
    room = way.room()
    home = room.path / "secret-home"
    home.mkdir(mode=0o700)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "venv"], check=True)
    packages = next((home / "venv" / "lib").glob("python3*")) / "site-packages"
    (packages / "only_here.py").write_text("word = 'found'\n")
    (home / "diary.txt").write_text("canary")
    for folder, names, files in os.walk(home):
        for name in [folder, *(os.path.join(folder, n) for n in names + files)]:
            if way.user is not None:
                os.chown(name, way.user, way.user, follow_symlinks=False)
    return way, room, home


@pytest.mark.needs_namespaces
def test_a_venv_in_a_closed_home_works(hidden):
    way, room, home = hidden
    code = "import sys, only_here; print(only_here.word, sys.prefix)"
    result = way.run_json(code, room=room, env={"SANDBOX_PYTHON": home / "venv/bin/python"})
    assert (result["exit_code"], result["stdout"]) == (0, f"found {home}/venv\n"), result


@pytest.mark.needs_namespaces
def test_nothing_else_of_that_home_is_seen(hidden):
    way, room, home = hidden
    code = (f"import os\ntry: print(open({str(home / 'diary.txt')!r}).read())\n"
            "except OSError: print('refused')\n"
            f"try: os.listdir({str(home)!r}); print(sorted(os.listdir({str(home)!r})))\n"
            "except OSError: print('refused')")
    result = way.run_json(code, room=room, env={"SANDBOX_PYTHON": home / "venv/bin/python"})
    assert "canary" not in result["stdout"] and "diary" not in result["stdout"]
    assert result["stdout"].startswith("refused\n"), result


@pytest.mark.needs_namespaces
def test_the_environment_cannot_be_written_from_inside(hidden):
    way, room, home = hidden
    code = ("import only_here\n"
            "try: open(only_here.__file__, 'a').write('evil'); print('written')\n"
            "except OSError: print('refused')")
    result = way.run_json(code, room=room, env={"SANDBOX_PYTHON": home / "venv/bin/python"})
    assert result["stdout"] == "refused\n"


def test_without_namespaces_the_closed_folder_is_named():
    """Root's guest has an id of its own, and nothing can be mounted where it may go: the error says which
    folder is in the way, and what it says to do works."""
    if not support.is_root():
        pytest.skip("has to be started as root: the guest of another user has that user's id")
    way = support.ways()["root-refused"]
    room = way.room()
    home = room.path / "secret-home"
    home.mkdir(mode=0o700)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "venv"], check=True)
    env = {"SANDBOX_PYTHON": home / "venv/bin/python"}
    done = way.bailey("run", "-c", "print('ran')", room=room, env=env)
    assert (done.status, done.out) == (125, b""), done
    assert f"chmod o+x '{home}'" in done.stderr and "SANDBOX_PYTHON=/usr/bin/python3" in done.stderr, done
    assert "make it executable" not in done.stderr, done
    assert way.run_json("pass", room=room, env=env).error["code"] == "no_interpreter"
    home.chmod(0o701)
    assert way.run_json("print('ran')", room=room, env=env)["stdout"] == "ran\n"


def pyenv_versions():
    return sorted(Path(os.path.expanduser("~/.pyenv/versions")).glob("3.*/bin/python3"))


def test_a_pyenv_under_a_closed_home_works():
    found = pyenv_versions()
    if not found:
        pytest.skip("this machine has no pyenv")
    python = found[-1]
    result = support.run_json("import sys, sqlite3, ssl; print(sys.prefix)",
                              env={"SANDBOX_PYTHON": python})
    assert result["stdout"] == f"{python.parent.parent}\n", result


def test_the_python_that_path_finds_is_the_one_that_runs():
    """With pyenv's shims first on PATH its python runs, as it would outside."""
    found = pyenv_versions()
    shims = Path(os.path.expanduser("~/.pyenv/shims"))
    if not found or not (shims / "python3").exists():
        pytest.skip("this machine has no pyenv shims")
    env = {"PATH": f"{shims}:{shims.parent / 'bin'}:{support.PATH}",
           "HOME": os.path.expanduser("~"), "PYENV_ROOT": str(shims.parent),
           "SANDBOX_TEMPLATE": "python"}
    code = "import sys; print(sys.version.split()[0], sys.prefix)"
    outside = subprocess.run(["python3", "-c", code], env={**os.environ, **env}, text=True, cwd="/",
                             capture_output=True, check=True).stdout
    assert support.run_json(code, env=env, cwd="/")["stdout"] == outside


def test_the_closed_home_is_closed_to_the_guest_also_with_pyenv():
    found = pyenv_versions()
    if not found:
        pytest.skip("this machine has no pyenv")
    home = os.path.expanduser("~")
    code = (f"import os\ntry: print([n for n in os.listdir({home!r}) if n != '.pyenv'])\n"
            "except OSError: print([])")
    result = support.run_json(code, env={"SANDBOX_PYTHON": found[-1]})
    assert result["stdout"] == "[]\n"


@pytest.mark.parametrize("python", ["/nowhere/python", "/etc/passwd", "/usr", "relative/python"])
def test_a_python_that_cannot_be_is_an_error_that_names_it(python):
    done = support.bailey("run", "-c", "print('ran')", env={"SANDBOX_PYTHON": python})
    assert (done.status, done.out) == (125, b"")
    assert python in done.stderr
