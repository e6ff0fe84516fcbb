"""Bad input: a clear message that says what to do, the promised status, and nothing is run."""
import os
import shutil
import subprocess

import pytest
import support


def assert_bad(done, *words, status=125):
    assert (done.status, done.out) == (status, b""), done
    assert done.stderr.strip(), "no message at all"
    assert len(done.stderr.splitlines()) <= 12, "a wall of text"
    for word in words:
        assert word.lower() in done.stderr.lower(), (word, done)


def test_a_missing_file():
    assert_bad(support.bailey("run", "nowhere.py"), "nowhere.py")


def test_a_folder_instead_of_a_file(room):
    (room.work / "x.py").mkdir()
    done = support.bailey("run", "x.py", room=room)
    assert_bad(done, "x.py")
    assert "folder" in done.stderr or "directory" in done.stderr


def test_an_unreadable_file():
    way = support.ways()["ordinary"]
    room = way.room()
    path = room.write("closed.py", "print('ran')")
    path.chmod(0)
    assert_bad(way.bailey("run", "closed.py", room=room), "closed.py", "permission")


def test_a_file_that_never_ends():
    assert_bad(support.bailey("run", "/dev/zero"), "/dev/zero")


@pytest.mark.parametrize("code", ["", " ", "\n\n"], ids=["nothing", "blank", "newlines"])
def test_empty_code(code):
    if code:
        assert support.bailey("run", "-c", code).status in (0, 125)
    else:
        assert_bad(support.bailey("run", "-c", code), "empty")


def test_an_empty_file(room):
    room.write("empty.py", "")
    assert_bad(support.bailey("run", "empty.py", room=room), "empty")


def test_empty_standard_input():
    assert_bad(support.bailey("run", "-", stdin=b""), "empty")


def test_code_over_5_mb(room):
    room.write("large.py", "#" * ((5 << 20) + 1))
    assert_bad(support.bailey("run", "large.py", room=room), "large.py", "5")
    assert_bad(support.bailey("run", "-", stdin=b"#" * ((5 << 20) + 1)), "5")


def test_an_endless_standard_input_is_not_read_to_its_end():
    with open("/dev/zero", "rb") as zero:
        process = support.start("run", "-", stdin=zero)
        out, err = process.communicate(timeout=support.PATIENCE)
    assert (process.returncode, out) == (125, b"") and err


@pytest.mark.parametrize("by", ["file", "stdin"])
def test_nul_bytes(room, by):
    code = b"print('ran')\n\0"
    if by == "file":
        room.write("nul.py", code)
        done = support.bailey("run", "nul.py", room=room)
    else:
        done = support.bailey("run", "-", stdin=code)
    assert_bad(done, "NUL")


@pytest.mark.parametrize("option", ["--no-such-option", "--timeuot", "-Z"])
def test_an_unknown_option(option):
    assert_bad(support.bailey("run", option, "-c", "print('ran')"), option)


def test_a_mistyped_option_is_told_the_nearest():
    assert_bad(support.bailey("run", "--timeuot", "3", "-c", "print('ran')"), "--timeout")


@pytest.mark.parametrize("option", ["--timeout", "--memory", "--env", "--file", "--out", "-c",
                                    "--language"])
def test_an_option_without_its_value(option):
    assert_bad(support.bailey("run", option), option.lstrip("-"))


@pytest.mark.parametrize("value", ["0", "-1", "1000000000", "soon", "", "nan", "inf", "1e3x",
                                   "99999999999999999999999"])
def test_a_timeout_that_cannot_be(value):
    assert_bad(support.bailey("run", "--timeout", value, "-c", "print('ran')"), "timeout", value)


@pytest.mark.parametrize("option, value", [
    ("--memory", "12x"), ("--memory", "-1"), ("--memory", "1"), ("--memory", "0"),
    ("--memory", "18446744073709551616"), ("--disk", "0"), ("--disk", "much"), ("--pids", "0"),
    ("--pids", "1"), ("--pids", "many"), ("--cpus", "0"), ("--cpus", "-2"), ("--cpus", "x"),
    ("--max-output", "0"), ("--max-output", "-1"), ("--max-output", "9999999999"),
    ("--isolation", "none"), ("--isolation", ""),
])
def test_a_limit_that_cannot_be(option, value):
    assert_bad(support.bailey("run", option, value, "-c", "print('ran')"), option, value)


def test_memory_12x_says_what_is_allowed():
    assert_bad(support.bailey("run", "--memory", "12x", "-c", "print('ran')"), "12x", "m")
    assert "512m" in support.bailey("run", "--memory", "12x", "-c", "1").stderr


@pytest.mark.parametrize("language", ["cobol", "", "Python3", "typescript"])
def test_an_unknown_language(language):
    done = support.bailey("run", "--language", language, "-c", "print('ran')")
    assert_bad(done, *(["JavaScript"] if language == "typescript" else ["python", "bash"]))


def test_two_sources_at_once(room):
    room.write("a.py", "print('ran')")
    assert_bad(support.bailey("run", "-c", "print('ran')", "a.py", room=room))


def test_no_source_at_all():
    assert_bad(support.bailey("run"), "-c")


def test_no_python_on_the_machine(room):
    """A mount namespace in which no folder of PATH has a python."""
    support.need_mounts()
    tools = room.path / "tools"
    tools.mkdir()
    for name in ("sh", "true", "env"):
        shutil.copy(f"/usr/bin/{name}", tools / name)
    hide = 'mount --bind "$2" /usr/local/bin && mount --bind "$1" /usr/bin && shift 2 && exec "$@"'
    (room.path / "empty").mkdir()
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", hide, "sh", tools,
            room.path / "empty", *support.command("run", "-c", "print('ran')")]
    done = subprocess.run(argv, env=support.environment(room), cwd=room.work, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=support.PATIENCE)
    assert_bad(support.Done(argv, done.returncode, done.stdout, done.stderr, room), "python",
               "install")


@pytest.fixture
def full_disk(room):
    """A working folder on a file system without a byte left."""
    support.need_mounts()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", room.work], check=True)
    try:
        with open(room.work / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 512)
    except OSError:
        pass
    yield room
    subprocess.run(["umount", room.work], check=True)


def test_a_full_disk_under_the_state_folder(full_disk):
    """The run is not affected; that its artifact could not be kept is said."""
    done = support.bailey("run", "-c", "print('ran')", room=full_disk,
                          env={"SANDBOX_STORE_CODE": "always"})
    assert (done.status, done.out) == (0, b"ran\n")
    assert "artifact" in done.stderr and "space" in done.stderr.lower()
    files = [p.name for p in full_disk.work.rglob("*") if p.is_file()]
    assert files == ["filler"]


def test_a_full_disk_under_out(full_disk):
    code = "open('/tmp/output/a', 'wb').write(b'x' * 100000)"
    done = support.bailey("run", "--out", "got", "-c", code, room=full_disk)
    assert "space" in done.stderr.lower()
    assert done.status == 125
    assert [p.name for p in full_disk.work.rglob("*") if p.is_file()] == ["filler"]


def closing(fd):
    return lambda: os.close(fd)


def test_a_closed_stdin_is_no_reason_not_to_run():
    process = support.start("run", "-c", "import sys; print('ran', sys.stdin and sys.stdin.read())",
                            preexec_fn=closing(0))
    out, err = process.communicate(timeout=support.PATIENCE)
    assert (process.returncode, out) == (0, b"ran \n"), err


def test_a_closed_stdin_as_source():
    process = support.start("run", "-", preexec_fn=closing(0))
    out, err = process.communicate(timeout=support.PATIENCE)
    assert (process.returncode, out) == (125, b"")
    assert b"standard input" in err or b"stdin" in err


@support.not_with_counters
def test_a_closed_stdin_that_was_to_be_passed_on():
    process = support.start("run", "--stdin", "-c", "print(repr(input()))", preexec_fn=closing(0))
    out, err = process.communicate(timeout=support.PATIENCE)
    assert (process.returncode, out) == (125, b"") or b"EOFError" in err
    assert b"standard input" in err or b"stdin" in err or b"EOFError" in err


@pytest.mark.parametrize("fd", [1, 2])
def test_a_closed_output_does_not_end_up_elsewhere(room, fd):
    """Descriptors 1 and 2 must not be given to something else by accident."""
    room.write("data.txt", "canary")
    process = support.start("run", "--file", "data.txt", "-c",
                            "import sys; print('out'); print('err', file=sys.stderr)",
                            preexec_fn=closing(fd), room=room)
    process.communicate(timeout=support.PATIENCE)
    assert process.returncode in (0, 125)
    assert (room.work / "data.txt").read_text() == "canary"


def test_an_argument_list_that_is_too_long_is_said():
    done = support.bailey("run", "-c", "print('ran')", "--", *["x" * 100000] * 10)
    assert_bad(done)


def test_bad_input_leaves_the_working_folder_as_it_was(room):
    for args in (["run", "nowhere.py"], ["run", "-c", ""], ["run", "--timeout", "0", "-c", "1"]):
        support.bailey(*args, room=room)
    assert os.listdir(room.work) == []


@pytest.mark.parametrize("words", [
    ["run", "--json", "--timeout", "0", "-c", "1"], ["run", "-c", "1", "--memory", "12x", "--json"],
    ["run", "--json"], ["run", "--json", "--no-such-option", "-c", "1"], ["run", "-c", "--json"],
    ["exec", "--json"], ["exec", "--no-such-option", "--json", "--", "true"],
], ids=" ".join)
def test_with_json_bad_input_is_the_one_result(words):
    done = support.bailey(*words)
    if words == ["run", "-c", "--json"]:
        assert done.status == 1 and b"NameError" in done.err  # the source, not the option
        return
    assert (done.status, done.err) == (125, b""), done
    result = done.json()
    assert result["exit_code"] == 1
    assert result["meta"]["error"]["code"] == "bad_input"
    assert result["meta"]["error"]["message"]


def test_an_option_of_the_program_does_not_make_it_json():
    assert_bad(support.bailey("exec", "--no-such-option", "--", "true", "--json"),
               "--no-such-option")


def test_typescript_is_said_not_to_be_there(room):
    room.write("a.ts", "console.log('ran')")
    assert_bad(support.bailey("run", "a.ts", room=room), "TypeScript is not in this version")


@pytest.mark.parametrize("words", [["run", "-c", "print('ran')"],
                                   ["tool", "run_python_code", '{"code": "print(\'ran\')"}']],
                         ids=["run", "tool"])
def test_auto_install_without_a_daemon_is_refused_with_what_to_do(words):
    done = support.bailey(*words, env={"SANDBOX_AUTO_INSTALL": "true"})
    said = done.stdout if words[0] == "tool" else done.stderr
    assert done.status == (0 if words[0] == "tool" else 125), done
    for part in ("SANDBOX_AUTO_INSTALL", "daemon", "bailey session new", "SANDBOX_AUTO_INSTALL=false"):
        assert part in said, done
    assert "ran\n" not in done.stdout, done


def test_auto_install_is_about_python_only():
    done = support.bailey("run", "--language", "bash", "-c", "echo ran", env={"SANDBOX_AUTO_INSTALL": "true"})
    assert (done.status, done.out) == (0, b"ran\n"), done


def test_a_configuration_that_is_not_there_comes_with_what_to_do():
    assert_bad(support.bailey("run", "--config", "nofile.yaml", "-c", "1"), "nofile.yaml",
               "check the name")


def test_a_missing_module_comes_with_what_to_do():
    done = support.bailey("run", "-c", "import no_such_module_here")
    assert done.status == 1
    last = done.stderr.splitlines()[-1]
    assert "The module 'no_such_module_here' is missing" in last and "SANDBOX_PYTHON=" in last
    caught = "import sys\ntry:\n import no_such\nexcept ImportError: print('fine')"
    assert support.bailey("run", "-c", caught).err == b""


def test_a_script_whose_interpreter_is_missing_is_told_apart(room):
    room.write("odd", "#!/nowhere/interpreter\n").chmod(0o755)
    done = support.bailey("exec", "--file", "odd", "--", "./odd", room=room)
    assert_bad(done, "not the interpreter in its first line", status=127)
    assert done.stderr.count("interpreter in its first line") == 1, done
    assert "--file copies others in" in done.stderr
