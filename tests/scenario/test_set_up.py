"""Set-up that tells the truth: tools/setup, tools/quietly and what `make run` says about a failure."""
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import support

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def run(*argv, **kwargs):
    return subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=support.PATIENCE,
                          check=False, **kwargs)


# ---- a distribution that we do not know ----

@pytest.fixture
def elsewhere(tmp_path):
    """A PATH without dpkg and apt, with the programs that every system has."""
    for name in ("sh", "sed", "dirname", "id", "env"):
        (tmp_path / name).symlink_to(shutil.which(name))
    return tmp_path


def test_an_unknown_distribution_gets_the_list_by_what_packages_provide(elsewhere):
    done = run(TOOLS / "setup", "run", env={"PATH": str(elsewhere)})
    assert done.returncode == 1 and done.stdout == "", done
    for what in ("a C compiler", "jansson: headers and static library", "libuv: headers", "ninja"):
        assert what in done.stderr, done
    assert "neither Debian nor Ubuntu" in done.stderr, done


def test_only_what_is_missing_is_listed(elsewhere):
    (elsewhere / "ninja").symlink_to("/bin/true")
    done = run(TOOLS / "setup", "run", env={"PATH": str(elsewhere)})
    assert done.returncode == 1 and "meson" in done.stderr, done
    assert "    ninja " not in done.stderr, done


def test_a_system_that_has_everything_is_left_alone(elsewhere):
    """All checks answered by stand-ins: nothing is installed and nothing is said."""
    for name in ("gcc", "make", "meson", "ninja", "pkg-config", "python3"):
        (elsewhere / name).symlink_to("/bin/true")
    done = run(TOOLS / "setup", "run", env={"PATH": str(elsewhere)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done


def test_the_build_stops_with_that_list(elsewhere):
    """Not with an error of the compiler."""
    for name in ("make", "bash", "mktemp", "cat"):
        (elsewhere / name).symlink_to(shutil.which(name))
    done = run("make", "build", cwd=TOOLS.parent, env={"PATH": str(elsewhere)})
    assert done.returncode == 2 and "libuv: headers" in done.stderr, done
    assert "meson setup" not in done.stdout + done.stderr, done


# ---- a Debian, without root ----

@pytest.fixture
def bare_debian(elsewhere):
    """A PATH of a Debian with no package, no list of packages and no sudo, and an ordinary user."""
    for name in ("grep", "tr", "head", "ls", "cat"):
        (elsewhere / name).symlink_to(shutil.which(name))
    (elsewhere / "id").unlink()
    for name, words in {"id": "echo 1000", "dpkg-query": "exit 1", "apt-get": "exit 1", "apt-cache": "",
                        "readlink": "exit 1"}.items():  # clang is not there
        (elsewhere / name).write_text(f"#!/bin/sh\n{words}\n")
        (elsewhere / name).chmod(0o755)
    return elsewhere


@pytest.mark.parametrize("group", ["run", "test"])
def test_without_root_the_command_is_printed_and_the_status_is_not_0(bare_debian, group):
    done = run(TOOLS / "setup", group, env={"PATH": str(bare_debian)})
    assert done.returncode == 1 and done.stdout == "", done
    (line,) = [line for line in done.stderr.splitlines() if "apt-get install" in line]
    assert line.startswith("    apt-get update && apt-get install -y"), done  # a container has no sudo
    packages = line.split("--no-install-recommends ")[1].split()
    assert "gcc" in packages and ("clang" in packages) is (group == "test"), done
    assert all(name.strip("-") == name and "--" not in name for name in packages), done


def test_without_root_the_command_has_sudo_where_there_is_one(bare_debian):
    (bare_debian / "sudo").symlink_to("/bin/true")
    done = run(TOOLS / "setup", "run", env={"PATH": str(bare_debian)})
    assert "    sudo apt-get update && sudo apt-get install -y" in done.stderr, done


# ---- no clang-format ----

def test_formatting_says_what_is_missing(elsewhere):
    """Not an error of xargs."""
    for name in ("make", "find", "xargs"):
        (elsewhere / name).symlink_to(shutil.which(name))
    done = run("make", "format", cwd=TOOLS.parent, env={"PATH": str(elsewhere)})
    assert done.returncode == 2 and "make format: clang-format-14 is not installed" in done.stderr, done
    assert "xargs" not in done.stderr, done


def test_the_style_check_without_it_says_that_it_skips(elsewhere, tmp_path_factory):
    """A copy of the script, whose other checks have nothing to say."""
    copy = tmp_path_factory.mktemp("style") / "tools"
    copy.mkdir()
    shutil.copy(TOOLS / "check-style", copy)
    for name in ("layers", "habits", "check-pages", "check-docs", "gen-clients"):
        (copy / name).symlink_to("/bin/true")
    done = run(copy / "check-style", env={"PATH": str(elsewhere)})
    assert done.returncode == 0 and done.stdout == "style: no problems found\n", done
    assert done.stderr == ("style: skipped: formatting is checked by clang-format-14, which is not installed\n"), done


# ---- progress ----

def test_the_status_and_the_end_of_the_output_of_a_command_that_failed(tmp_path):
    done = run(TOOLS / "quietly", "doing it", "sh", "-c", "echo first; echo reason >&2; exit 3",
               env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 3 and done.stdout == "", done
    assert "reason" in done.stderr and "doing it: failed with status 3" in done.stderr, done
    (log,) = tmp_path.iterdir()
    assert str(log) in done.stderr and log.read_text() == "first\nreason\n"


def test_a_short_command_that_works_says_nothing(tmp_path):
    done = run(TOOLS / "quietly", "doing it", "sh", "-c", "echo words",
               env={**os.environ, "TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
    assert not list(tmp_path.iterdir())


def test_a_long_command_shows_its_last_line(tmp_path):
    """The command goes on until its progress was seen."""
    seen = tmp_path / "seen"
    process = subprocess.Popen(
        [TOOLS / "quietly", "doing it", "sh", "-c",
         f"echo step one; until [ -e {seen} ]; do sleep 0.1; done"],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        assert line.startswith("doing it, ") and line.endswith(": step one\n"), line
    finally:
        seen.touch()
        assert process.wait(support.PATIENCE) == 0
        process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_command_too(tmp_path, number):
    pid_file = tmp_path / "pid"
    process = subprocess.Popen(
        [TOOLS / "quietly", "doing it", "sh", "-c", f"echo $$ > {pid_file}; exec sleep 1000"],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    support.wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), "the command runs")
    process.send_signal(number)
    assert process.wait(support.PATIENCE) == 128 + number
    process.stderr.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


# ---- make run ----

DOCTOR = {"container": None, "sessions": {"ok": True, "reason": ""}}
REFUSED = {"sessions": {"ok": False, "reason": "namespaces are refused here"}}
ONE = {"sessions": {"ok": True, "one": True, "reason": "namespaces are refused here"}}


@pytest.fixture
def stand_in(tmp_path):
    """A bailey whose commands end as a test wants: a function of the statuses of its calls."""
    def make(doctor=DOCTOR, **statuses):
        program = tmp_path / "bailey"
        cases = "".join(f'"{name}") echo "the error of {name}" >&2; exit {status} ;;\n'
                        for name, status in statuses.items())
        program.write_text(f'#!/bin/sh\nword=$1\n[ "$1$4" != run--file ] || word=analysis\n'
                           f'[ "$1$2" != templatebuild ] || word=build\n'
                           f"[ $1 != doctor ] || {{ echo '{json.dumps(doctor)}'; exit 0; }}\n"
                           f'case $word in\n{cases}esac\necho "did $word"\n')
        program.chmod(0o755)
        return run(TOOLS / "run-example", program)
    return make


def test_make_run_ends_well_when_both_parts_did(stand_in):
    done = stand_in()
    assert done.returncode == 0 and "did analysis" in done.stdout, done


def test_make_run_fails_when_its_second_part_failed(stand_in):
    done = stand_in(build=125)
    assert done.returncode == 1, done
    assert "the error of build" in done.stderr and "did analysis" not in done.stdout, done
    assert "index" not in done.stderr and "network" not in done.stderr, done


def test_make_run_fails_when_the_analysis_failed(stand_in):
    assert stand_in(analysis=3).returncode == 3


def test_make_run_fails_when_the_first_part_failed(stand_in):
    done = stand_in(run=125)
    assert done.returncode == 125 and "the error of run" in done.stderr, done


@pytest.mark.parametrize("container, remedy", [(None, "doctor"), ({"remedy": "docker run --this"},
                                                                "docker run --this")])
@pytest.mark.parametrize("sessions", [REFUSED, ONE])
def test_make_run_skips_what_the_machine_refuses_and_says_so(stand_in, container, remedy, sessions):
    done = stand_in(doctor={"container": container, **sessions}, build=125)
    assert done.returncode == 0 and "the error of build" not in done.stderr, done
    assert "skipped: namespaces are refused here" in done.stdout and remedy in done.stdout, done
    assert "did analysis" not in done.stdout, done
