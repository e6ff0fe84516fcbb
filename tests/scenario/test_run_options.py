"""bailey run: sources, arguments, --env, --file, --out, --stdin, --language, --max-output."""
import hashlib
import os

import pytest
import support


# sources and arguments

def test_code_from_a_file(room):
    room.write("hello.py", "import sys\nprint(__name__, sys.argv)\n")
    done = support.bailey("run", "hello.py", "--", "a", "b c", "--timeout", room=room)
    assert done.status == 0
    assert done.stdout.startswith("__main__ ['")
    assert done.stdout.rstrip().endswith("hello.py', 'a', 'b c', '--timeout']")


def test_code_from_standard_input():
    done = support.bailey("run", "-", stdin=b"print('from stdin')")
    assert (done.status, done.out) == (0, b"from stdin\n")


def test_code_from_a_pipe_given_as_a_file(room):
    fifo = room.work / "pipe.py"
    os.mkfifo(fifo)
    process = support.start("run", str(fifo), room=room)
    try:
        fifo.write_text("print('through a fifo')")
        out, err = process.communicate(timeout=support.PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (out, process.returncode) == (b"through a fifo\n", 0) or (
        process.returncode == 125 and b"pipe.py" in err)


def test_arguments_behind_two_dashes_reach_the_program(way):
    done = way.bailey("run", "-c", "import sys; print(sys.argv[1:])", "--", "x", "", "-y", "é")
    assert done.stdout == "['x', '', '-y', 'é']\n"


def test_source_encoding_is_utf8():
    assert support.run_json("print('häßlich', '日本')")["stdout"] == "häßlich 日本\n"


def test_a_large_source_below_5_mb_runs(room):
    room.write("large.py", "#" + "x" * (4 << 20) + "\nprint('ran')\n")
    assert support.bailey("run", "large.py", room=room).out == b"ran\n"


# --env

def test_env_reaches_the_program(way):
    result = way.run_json("import os; print(os.environ['A'], os.environ['B'])", "--env", "A=1=2",
                          "--env", "B=two words")
    assert result["stdout"] == "1=2 two words\n"


def test_the_callers_environment_does_not(way):
    result = way.run_json("import os; print(os.environ.get('SECRET_TOKEN'))",
                          env={"SECRET_TOKEN": "canary"})
    assert result["stdout"] == "None\n"


@pytest.mark.parametrize("value", ["NOEQUALS", "=x", ""])
def test_a_malformed_env_is_bad_input(value):
    done = support.bailey("run", "--env", value, "-c", "pass")
    assert done.status == 125
    assert "--env" in done.stderr


# --file

def test_a_file_is_copied_into_the_working_folder(way):
    room = way.room()
    path = room.write("data.txt", "canary")
    code = "print(open('data.txt').read()); open('data.txt', 'w').write('changed')"
    result = way.run_json(code, "--file", "data.txt", room=room)
    assert (result["stdout"], result["exit_code"]) == ("canary\n", 0)
    assert path.read_text() == "canary"  # a copy


def test_a_file_can_be_given_another_place(walled):
    room = walled.room()
    room.write("data.txt", "canary")
    code = "print(open('in/d.txt').read(), open('/tmp/x').read())"
    result = walled.run_json(code, "--file", "data.txt:in/d.txt", "--file", "data.txt:/tmp/x",
                             room=room)
    assert result["stdout"] == "canary canary\n", result


def test_a_binary_file_arrives_whole(room):
    data = os.urandom(3 << 20)
    room.write("blob", data)
    code = "import hashlib; print(hashlib.sha256(open('blob', 'rb').read()).hexdigest())"
    result = support.run_json(code, "--file", "blob", room=room)
    assert result["stdout"].strip() == hashlib.sha256(data).hexdigest()


def test_the_box_user_owns_what_was_copied(walled):
    room = walled.room()
    room.write("data.txt", "x", mode=0o600)
    result = walled.run_json("import os; s = os.stat('data.txt'); print(s.st_uid == os.getuid())",
                             "--file", "data.txt", room=room)
    assert result["stdout"] == "True\n"


@pytest.mark.parametrize("place", ["../../etc/x", "/etc/x", "/usr/x", "/proc/self/x"])
def test_a_file_cannot_be_put_outside_the_private_folders(room, place):
    room.write("data.txt", "x")
    done = support.bailey("run", "--file", f"data.txt:{place}", "-c", "print('ran')", room=room)
    assert (done.status, done.out) == (125, b"")
    assert place in done.stderr or "data.txt" in done.stderr


def test_a_missing_file_is_bad_input():
    done = support.bailey("run", "--file", "nowhere.txt", "-c", "print('ran')")
    assert (done.status, done.out) == (125, b"")
    assert "nowhere.txt" in done.stderr


# --out

WRITE = ("import os\nos.makedirs('/tmp/output/deep', exist_ok=True)\n"
         "open('/tmp/output/a.csv', 'w').write('1,2\\n')\n"
         "open('/tmp/output/deep/b.bin', 'wb').write(bytes(range(256)) * 5000)\n")


def names(result):
    return sorted(f if isinstance(f, str) else f["name"] for f in result.meta["output_files"])


def test_out_fetches_what_the_code_left(walled):
    room = walled.room()
    (room.work / "got").mkdir()
    room.give(room.work / "got")
    result = walled.run_json(WRITE, "--out", "got", room=room)
    assert (room.work / "got" / "a.csv").read_text() == "1,2\n"
    assert (room.work / "got" / "deep" / "b.bin").read_bytes() == bytes(range(256)) * 5000
    assert result.meta["total_output_files"] == 2
    assert names(result) == ["a.csv", "deep/b.bin"]


@pytest.mark.needs_namespaces
def test_out_makes_the_folder(room):
    support.run_json(WRITE, "--out", "new", room=room)
    assert (room.work / "new" / "a.csv").exists()


@pytest.mark.needs_namespaces
def test_out_works_after_a_failure_too(room):
    result = support.run_json(WRITE + "1/0", "--out", "got", room=room)
    assert result["exit_code"] == 1
    assert names(result) == ["a.csv", "deep/b.bin"]


def test_out_with_nothing_left_is_no_error(room):
    result = support.run_json("pass", "--out", "got", room=room)
    assert (result.status, result.meta["total_output_files"]) == (0, 0)


@pytest.mark.needs_namespaces
def test_out_never_follows_a_link_on_either_side(room):
    outside = room.path / "outside.txt"
    outside.write_text("canary")
    got = room.work / "got"
    got.mkdir()
    (got / "a.csv").symlink_to(outside)
    code = WRITE + "os.symlink('/etc/passwd', '/tmp/output/link')\nos.mkfifo('/tmp/output/fifo')\n"
    result = support.run_json(code, "--out", "got", room=room)
    assert outside.read_text() == "canary"
    assert not (got / "link").exists() and not (got / "fifo").exists()
    assert (got / "deep" / "b.bin").exists(), result


def test_the_output_folder_is_there_already(walled):
    """The agent's code may write to /tmp/output without making it."""
    assert walled.run_json("open('/tmp/output/x', 'w').write('1')")["exit_code"] == 0


# --stdin

def test_stdin_is_empty_unless_asked_for(way):
    done = way.bailey("run", "-c", "import sys; print(repr(sys.stdin.read()))", stdin=b"canary\n")
    assert done.out == b"''\n"


def test_stdin_is_passed_when_asked_for(way):
    done = way.bailey("run", "--stdin", "-c", "import sys; print(sys.stdin.read())",
                      stdin="zwölf\n".encode())
    assert done.stdout == "zwölf\n\n"


def test_unread_stdin_does_not_hold_the_run_up():
    done = support.bailey("run", "--stdin", "-c", "print('done')", stdin=b"x" * (1 << 20))
    assert (done.status, done.out) == (0, b"done\n")


# --language

def test_bash(way):
    result = way.run_json("echo $((6*7)); echo oops >&2; exit 3", "--language", "bash")
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("42\n", "oops\n", 3)


def test_bash_arguments_and_pipes():
    code = 'printf "%s\\n" "$@" | sort'
    done = support.bailey("run", "--language", "bash", "-c", code, "--", "b", "a")
    assert (done.status, done.out) == (0, b"a\nb\n")


def test_bash_timeout_and_signal():
    result = support.run_json("echo part; while :; do :; done", "--language", "bash", "--timeout",
                              "1")
    assert (result["exit_code"], result["stdout"]) == (-1, "part\n")
    assert support.run_json("kill -TERM $$", "--language", "bash")["exit_code"] == 143


# --max-output

def test_max_output_beats_the_environment():
    result = support.run_json("print('x' * 5000)", "--max-output", "2",
                              env={"SANDBOX_MAX_OUTPUT_KB": "1"})
    assert result.meta["resource_limits"]["output_bytes"] == 2048
    assert result["stdout"].startswith("x" * 2048)
    assert "x" * 2049 not in result["stdout"]
