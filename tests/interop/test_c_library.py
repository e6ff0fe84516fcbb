"""libbailey, from programs in C and C++ that are compiled here: examples/c as a reader would run them, in
process and over a server, under Address- and UndefinedBehaviorSanitizer; its names; its installed files."""
import json
import os
import re
import shutil
import subprocess

import pytest
import support
from sdk_server import SdkServer

HEADER = support.REPO / "include" / "bailey.h"
SOURCES = support.REPO / "tests" / "interop" / "clients" / "c"
EXAMPLES = support.REPO / "examples" / "c"
BUILD = support.BAILEY.parent
SHARED, STATIC = BUILD / "src/lib/libbailey.so.0", BUILD / "src/lib/libbailey.a"
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Werror"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="libbailey is not built in this folder")


def output(*argv, env=None, status=0):
    done = subprocess.run([str(word) for word in argv], env=env, capture_output=True, text=True,
                          timeout=support.PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (status, ""), done
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Makes a program of a source, once."""
    folder = tmp_path_factory.mktemp("c")

    def make(source):
        program = folder / source.stem
        if not program.exists():
            compiler = ["g++", "-std=c++17"] if source.suffix == ".cc" else ["gcc", "-std=c11", "-D_GNU_SOURCE"]
            output(*compiler, *WARNINGS, *SANITIZED, f"-I{HEADER.parent}", source, "-o", program, SHARED,
                   f"-Wl,-rpath,{SHARED.parent}", "-pthread")
        return program

    return make


@pytest.fixture
def env(tmp_path):
    """Variables without a server, and without any program on PATH: nothing can be executed by its name."""
    room = support.Room()
    yield support.environment(room, {"PATH": str(tmp_path), "SANDBOX_PYTHON": "/usr/bin/python3"})
    room.remove()


@pytest.fixture(scope="module")
def server():
    with SdkServer() as running:
        yield running
        assert running.names() == []


# --- in process

def test_hello(programs, env):
    assert output(programs(EXAMPLES / "hello.c"), env=env) == "42\n"


def test_files_go_in_and_out(programs, env, tmp_path):
    table = support.REPO / "examples" / "sales.csv"
    lines = len(table.read_text().splitlines())
    assert output(programs(EXAMPLES / "files.c"), table, tmp_path, env=env) == f"{lines} lines\n"
    assert (tmp_path / "count.txt").read_text() == f"{lines}\n"


def test_an_event_loop_with_two_boxes(programs, env):
    assert output(programs(EXAMPLES / "events.c"), env=env) == "0\n1\n2\nexit code 0\nthe other: cancelled\n"


def test_c_plus_plus(programs, env):
    assert output(programs(SOURCES / "plus.cc"), env=env) == "from C++\n"


def test_a_program_with_threads_handlers_and_children_keeps_them(programs, env):
    assert output(programs(SOURCES / "threads.c"), env=env) == ""


def test_endings(programs, env):
    assert output(programs(SOURCES / "cases.c"), "endings", env=env).splitlines() == [
        "bash ok - -", "3 out", "err",
        "timeout ok - -", "timed out: 1",
        "memory Invalid argument bad_input memory: 'far too much' is not a size "
        "(allowed: 16m to 16t; e.g. 512m, 1g)",
        "colour Invalid argument bad_input colour: there is no such setting"]


def test_what_cannot_be_honoured_in_process_is_refused(programs, env):
    lines = output(programs(SOURCES / "cases.c"), "limits", env=env).splitlines()
    assert [line.split(" bad_")[0] for line in lines] == [
        "cwd Operation not supported", "type Invalid argument", "sandbox Operation not supported", "nothing Invalid argument",
        "not UTF-8 Invalid argument"]


def test_the_environment_configures_boxes_made_in_process(programs, env):
    program = programs(EXAMPLES / "hello.c")
    for name, value in {"SANDBOX_TYPE": "docker", "SANDBOX_MEMORY_LIMIT": "red"}.items():
        done = subprocess.run([program], env={**env, name: value}, capture_output=True, text=True,
                              timeout=support.PATIENCE, check=False)
        assert done.returncode == 1 and done.stderr.startswith("bad_config: ") and name in done.stderr, done


def test_abandoned_boxes_are_gone(programs, env):
    assert output(programs(SOURCES / "cases.c"), "abandoned", env=env).splitlines() == [
        "start ok - -", "done: 0, result: no", "start ok - -"]


def test_a_program_without_standard_error_makes_boxes(programs, env):
    assert output(programs(SOURCES / "cases.c"), "no_stderr", env=env) == "run ok - -\nout\nerr\n" * 2


def test_output_beyond_all_buffers_arrives(programs, env):
    assert output(programs(SOURCES / "cases.c"), "flood", env=env) == "flood ok - -\n3000000 kept less\n"


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_the_only_program_executed_is_the_one_in_memory(programs, env, tmp_path):
    trace = tmp_path / "trace"
    plain = tmp_path / "plain"  # LeakSanitizer does not work under ptrace(2)
    output("gcc", *WARNINGS, f"-I{HEADER.parent}", EXAMPLES / "hello.c", "-o", plain, SHARED,
           f"-Wl,-rpath,{SHARED.parent}")
    output(shutil.which("strace"), "-f", "-qq", "-e", "trace=execve,execveat", "-o", trace, plain, env=env)
    executed = [line.split(" ", 1)[1].strip() for line in trace.read_text().splitlines() if "exec" in line]
    assert executed[0].startswith("execve(") and str(plain) in executed[0]
    assert executed[1].startswith('execveat(4, ""'), executed
    assert not any("bailey" in line.split(",")[0] for line in executed[1:]), executed


# --- over a server

@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_a_session(programs, server, way):
    assert output(programs(EXAMPLES / "session.c"), env=server.client_env(way)) == "7\n27 bytes\n"


def test_the_daemon_of_the_user_is_found(programs, server):
    env = server.client_env("unix")
    del env["BAILEY_URL"]
    env["BAILEY_STATE_DIR"] = str(server.state)
    assert output(programs(EXAMPLES / "session.c"), env=env) == "7\n27 bytes\n"


def test_no_server_is_an_error_that_says_so(programs, env):
    done = subprocess.run([programs(EXAMPLES / "session.c")], env=env, capture_output=True, text=True,
                          timeout=support.PATIENCE, check=False)
    assert done.returncode == 1 and done.stderr.startswith("no_daemon: no server is named"), done


def test_an_event_loop_over_a_server(programs, server):
    assert output(programs(EXAMPLES / "events.c"), server.unix, env=server.client_env("unix")) == (
        "0\n1\n2\nexit code 0\nthe other: cancelled\n")


@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_calls_and_errors_of_a_server(programs, server, way):
    lines = output(programs(SOURCES / "cases.c"), "server", "env", env=server.client_env(way)).splitlines()
    assert lines == ["new ok - -", "connect ok - -", "write ok - -", "read ok - -", "2 1",
                     "read No such file or directory path_not_found there is no '/workspace/not there'",
                     "status 404", "call ok - -", "end ok - -"]


@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_the_environment_goes_along_to_a_server(programs, server, way):
    env = {**server.client_env(way), "SANDBOX_MEMORY_LIMIT": "77m", "SANDBOX_PYTHON": "python3"}
    env = env if way == "unix" else {**env, "SANDBOX_PYTHON": "/not/here"}  # not sent to another machine
    result = json.loads(output(programs(SOURCES / "cases.c"), "json", "env", env=env))
    assert result["meta"]["resource_limits"]["memory_bytes"] == 77 << 20
    assert "SANDBOX_MEMORY_LIMIT" in output(programs(SOURCES / "cases.c"), "json", "env",
                                            env={**env, "SANDBOX_MEMORY_LIMIT": "red"})


def test_a_wrong_key_is_unauthorized(programs, server):
    env = {**server.client_env("tcp"), "BAILEY_API_KEY": "wrong"}
    done = subprocess.run([programs(EXAMPLES / "session.c")], env=env, capture_output=True, text=True,
                          timeout=support.PATIENCE, check=False)
    assert done.returncode == 1 and done.stderr.startswith("unauthorized: "), done


def test_cancelling_ends_what_runs_and_keeps_the_session(programs, server):
    lines = output(programs(SOURCES / "cases.c"), "cancel", "env", env=server.client_env("unix")).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["cancelled", "cancelled", "then", "42"]
    assert lines[2] == "then ok - -" and "Operation canceled cancelled" in lines[0] + lines[1]


# --- docs/sdk.md

BLOCKS = re.findall(r"^```c\n(.*?)^```$", (support.REPO / "docs" / "sdk.md").read_text(), re.M | re.S)
PRINTED = ["42\n", "['1', '2', '3']\n"]


def test_every_block_of_the_page_is_known():
    assert len(BLOCKS) == len(PRINTED)


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_block_of_the_page(programs, server, tmp_path, number):
    source = tmp_path / f"block{number}.c"
    source.write_text(BLOCKS[number])
    assert output(programs(source), env=server.client_env("unix")) == PRINTED[number]


# --- names and installed files

def declared():
    return set(re.findall(r"\b(bailey_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)))


def names(*argv):
    return {line.split()[-1] for line in output("nm", "--defined-only", *argv).splitlines()
            if re.search(r" [TDRBWV] ", line)}


def test_the_shared_library_shows_what_the_header_declares_with_a_version():
    assert names("-D", SHARED) == {f"{name}@@BAILEY_0" for name in declared()}
    assert "SONAME" in output("readelf", "-d", SHARED)
    assert re.search(r"soname: \[libbailey\.so\.0\]", output("readelf", "-d", SHARED))


def test_the_static_library_shows_nothing_else():
    assert {name for name in names("-g", STATIC) if not name.startswith("DW.ref.")} == declared()


def test_the_library_needs_no_more_than_libcurl_and_jansson():
    needed = set(re.findall(r"NEEDED.*\[(\w[\w-]*)", output("readelf", "-d", SHARED)))
    assert {name for name in needed if not name.startswith(("libcurl", "ld-linux"))} == {"libjansson", "libc"}


def test_the_manual_names_every_function():
    text = (support.REPO / "docs" / "man" / "bailey.3").read_text()
    assert {name for name in declared() if f"{name}" not in text} == set()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    output("make", "--no-print-directory", "-s", "-C", support.REPO, "install-files", f"BUILD={BUILD}",
           f"DESTDIR={root}", "PREFIX=/usr", env={**os.environ, "MAKEFLAGS": ""})
    return root


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="pkg-config is not installed")
@pytest.mark.parametrize("kind", ["shared", "static"])
def test_pkg_config_of_the_installed_library(installed, env, tmp_path, kind):
    asked = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(installed),
             "PKG_CONFIG_LIBDIR": str(installed / "usr/lib/pkgconfig"),
             "PKG_CONFIG_SYSTEM_LIBRARY_PATH": "/", "PKG_CONFIG_SYSTEM_INCLUDE_PATH": "/"}
    static = ["--static"] if kind == "static" else []
    flags = output("pkg-config", *static, "--cflags", "--libs", "bailey", env=asked).split()
    if static:
        flags[flags.index("-lbailey")] = "-l:libbailey.a"
    program = tmp_path / "hello"
    output("gcc", EXAMPLES / "hello.c", *flags, "-o", program)
    assert output(program, env={**env, "LD_LIBRARY_PATH": str(installed / "usr/lib")}) == "42\n"
    assert ("libbailey" in output("readelf", "-d", program)) == (kind == "shared")


def test_header_library_and_manual_are_installed(installed):
    version = re.search(r"version: '(.*)'", (support.REPO / "meson.build").read_text()).group(1)
    for name in ("include/bailey.h", f"lib/libbailey.so.{version}", "lib/libbailey.so.0", "lib/libbailey.so",
                 "lib/libbailey.a", "lib/pkgconfig/bailey.pc", "share/man/man3/bailey.3"):
        assert (installed / "usr" / name).exists(), name
