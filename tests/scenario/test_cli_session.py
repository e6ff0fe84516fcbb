"""Sessions from the command line: the daemon on demand, commands, terminals, files, lists."""
import json
import os
import re
import signal
import stat
import threading

import pytest
import support
from daemon_fixture import DaemonFixture, on_terminal, resized

PROMPT = b"$ "


@pytest.fixture
def own_daemon():
    own_daemon = DaemonFixture()
    yield own_daemon
    own_daemon.close()


@pytest.fixture
def session(own_daemon):
    return own_daemon.session()


@pytest.fixture(params=["root", "ordinary"])
def any_daemon(request):
    """A daemon of root, and one of an ordinary user."""
    if request.param == "root" and not support.is_root():
        pytest.skip("has to be started as root")
    ordinary = support.ORDINARY_UID if support.is_root() else None
    own_daemon = DaemonFixture(ordinary if request.param == "ordinary" else None)
    yield own_daemon
    own_daemon.close()


# --- the daemon ----------------------------------------------------------------------------------


def test_a_daemon_starts_when_it_is_needed_and_stops_when_told(any_daemon):
    assert any_daemon.call("daemon", "status").status == 3
    assert any_daemon.ok("session", "ls").startswith("ID")
    info = any_daemon.info()
    assert info["sessions"] == 0 and info["running"] is True and info["uptime"] >= 0
    assert info["socket"] == str(any_daemon.runtime / "bailey" / "engine.sock")
    for name in ("launcher_pid", "broker_pid"):
        os.kill(info[name], 0)
    mode = stat.S_IMODE(os.stat(info["socket"]).st_mode)
    assert (mode, stat.S_IMODE(os.stat(any_daemon.runtime / "bailey").st_mode)) == (0o600, 0o700)
    assert any_daemon.ok("daemon", "stop", "--force") == ""
    done = any_daemon.call("daemon", "status", "--json")
    assert done.status == 3 and done.json()["running"] is False


def test_without_a_runtime_folder_the_socket_is_in_the_state_folder(own_daemon):
    own_daemon.env["XDG_RUNTIME_DIR"] = None
    own_daemon.session()
    assert own_daemon.info()["socket"] == str(own_daemon.state / "run" / "engine.sock")


def test_clients_that_start_at_once_all_get_one_daemon(own_daemon):
    results = []
    threads = [threading.Thread(target=lambda: results.append(own_daemon.call("session", "new", "-q")))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [done.status for done in results] == [0] * 8, results
    assert own_daemon.info()["sessions"] == 8


def test_a_second_daemon_is_refused_with_the_first_one_named(own_daemon):
    """One with a socket of its own: else it takes over (test_serve_takes_over.py)."""
    own_daemon.session()
    done = own_daemon.call("serve", "--socket", own_daemon.runtime / "another.sock")
    assert done.status == 125
    assert "already running" in done.stderr and own_daemon.info()["socket"] in done.stderr
    assert re.search(r"pid \d+", done.stderr)


def test_a_socket_of_another_state_folder_is_not_taken_for_ours(own_daemon):
    own_daemon.session()
    other = own_daemon.room.give(own_daemon.room.path / "other")
    done = own_daemon.call("session", "ls", env={"BAILEY_STATE_DIR": other})
    assert done.status == 125 and "another state folder" in done.stderr


def test_a_daemon_in_the_foreground_is_found_by_its_state_folder(own_daemon):
    ready, told = os.pipe()
    os.set_inheritable(told, True)
    process = own_daemon.start("serve", "--socket", own_daemon.runtime / "mine.sock", "--ready-fd", told,
                               pass_fds=[told])
    os.close(told)
    with os.fdopen(ready) as pipe:
        assert pipe.readline() == "ready\n"
    assert own_daemon.info()["socket"] == str(own_daemon.runtime / "mine.sock")
    assert own_daemon.json("tool", "sandbox_exec", '{"command": ["true"]}')["exit_code"] == 0
    # MCP clients start it with few variables: XDG_RUNTIME_DIR may not be among them.
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    told = own_daemon.call("mcp", stdin=json.dumps(hello).encode() + b"\n")
    assert told.status == 0 and told.json()["result"]["serverInfo"]["name"] == "bailey", told
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=support.PATIENCE)
    assert (process.returncode, out) == (0, b""), err


def test_folders_that_others_may_write_are_refused(own_daemon):
    own_daemon.state.chmod(0o777)
    done = own_daemon.call("session", "ls")
    assert done.status == 125 and "others may write" in done.stderr
    own_daemon.state.chmod(0o700)


def test_the_log_is_private_and_shown(own_daemon):
    own_daemon.session()
    os.kill(own_daemon.info()["broker_pid"], signal.SIGKILL)
    support.wait_until(lambda: "broker" in own_daemon.ok("daemon", "log"), "the log tells of it")
    assert stat.S_IMODE((own_daemon.state / "daemon.log").stat().st_mode) == 0o600


@pytest.mark.parametrize("args", [["daemon"], ["daemon", "restart"], ["session"],
                                  ["session", "nwe"], ["session", "show"],
                                  ["session", "ls", "--name", "x"], ["cp", "a", "b"],
                                  ["cp", "a:/x", "b:/y"], ["rm", "ab12"], ["cat", "/etc/passwd"],
                                  ["shell"], ["logs", "x"], ["outputs"], ["exec", "-d", "true"],
                                  ["exec", "--cwd", "/tmp", "true"]], ids=" ".join)
def test_wrong_arguments_are_told_and_start_nothing(own_daemon, args):
    done = own_daemon.call(*args)
    assert done.status == 125 and done.stderr.startswith("bailey: "), done
    assert not own_daemon.is_running()


# --- sessions ------------------------------------------------------------------------------------


def test_sessions_are_made_listed_shown_and_removed(any_daemon):
    named = any_daemon.session("--name", "work", "--env", "COLOUR=blue")
    other = any_daemon.session()
    table = any_daemon.ok("session", "ls")
    assert "work" in table and other[:10] in table
    listed = any_daemon.json("session", "ls", "--json")["sessions"]
    assert {s["id"] for s in listed} == {named, other}
    shown = any_daemon.json("session", "show", "work", "--json")
    assert shown["id"] == named and shown["env"] == {"COLOUR": "blue"}
    done = any_daemon.exec("work", "sh", "-c", "echo $COLOUR")
    assert (done.status, done.out) == (0, b"blue\n")
    assert any_daemon.ok("session", "rm", "work", other) == ""
    assert any_daemon.json("session", "ls", "--json")["sessions"] == []
    ended = any_daemon.json("session", "ls", "--all", "--json")["sessions"]
    assert {s["end_reason"] for s in ended} == {"deleted"}
    done = any_daemon.exec(named, "true")
    assert done.status == 125 and "ended" in done.stderr and "deleted" in done.stderr


def test_an_id_may_be_shortened_while_it_is_unique(own_daemon, session):
    assert own_daemon.exec(session[:8], "echo", "x").out == b"x\n"
    done = own_daemon.exec("s_nothing_like_it", "true")
    assert done.status == 125 and "no session" in done.stderr


def test_a_session_is_extended(own_daemon, session):
    before = own_daemon.json("session", "show", session, "--json")
    after = own_daemon.json("session", "extend", session, "2h", "--json")
    assert after["id"] == session and after["expires_at"] >= before["expires_at"]
    assert own_daemon.call("session", "extend", session, "soon").status == 125


def test_a_name_that_is_taken_is_refused(own_daemon):
    own_daemon.session("--name", "twice")
    done = own_daemon.call("session", "new", "--name", "twice")
    assert done.status == 125 and "twice" in done.stderr


# --- datasets ------------------------------------------------------------------------------------


def test_datasets_are_there_before_the_first_command(any_daemon):
    any_daemon.room.write("sales.csv", "a,b\n1,2\n", mode=0o600)
    session = any_daemon.session("--data", "sales 2024/q1=sales.csv")
    done = any_daemon.exec(session, "cat", "/tmp/data/sales_2024_q1.csv")
    assert (done.status, done.out) == (0, b"a,b\n1,2\n")
    assert any_daemon.exec(session, "touch", "/tmp/data/x").status != 0


@pytest.mark.parametrize("options, mention", [
    (["--data", "a b=x.csv", "--data", "a_b=x.csv"], "a_b.csv"),
    (["--data", "a=nosuch.csv"], "nosuch.csv"),
    (["--data", "a=."], "folder"),
], ids=["two names that become one", "no such file", "a folder"])
def test_bad_datasets_are_refused_before_anything_is_made(own_daemon, options, mention):
    own_daemon.room.write("x.csv", "1\n")
    done = own_daemon.call("session", "new", *options)
    assert done.status == 125 and mention in done.stderr
    assert own_daemon.json("session", "ls", "--json")["sessions"] == []


# --- exec ----------------------------------------------------------------------------------------


def test_a_command_gives_its_output_and_its_status(own_daemon, session):
    done = own_daemon.exec(session, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.status, done.out, done.err) == (3, b"out\n", b"err\n")
    assert own_daemon.exec(session, "sh", "-c", "kill -TERM $$").status == 128 + 15
    assert own_daemon.exec(session, "no-such-program").status == 127


def test_files_stay_from_one_command_to_the_next(own_daemon, session):
    own_daemon.exec(session, "sh", "-c", "echo kept > file")
    assert own_daemon.exec(session, "cat", "file").out == b"kept\n"
    assert own_daemon.exec(session, "pwd", options=["--cwd", "/tmp"]).out == b"/tmp\n"


def test_the_result_in_json(own_daemon, session):
    done = own_daemon.exec(session, "echo", "x", options=["--json"])
    result = support.Result(done)
    assert result.status == 0 and result["stdout"] == "x\n"
    assert result.meta["session_id"] == session
    assert result.meta["execution_id"] == f"{session}.1"
    failed = own_daemon.call("exec", "-s", "nobody", "--json", "--", "true")
    assert failed.status == 125 and failed.json()["error"]["code"] == "session_not_found"


def test_every_byte_comes_through(own_daemon, session):
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 8000)"
    done = own_daemon.exec(session, "python3", "-c", code)
    assert done.status == 0 and done.out == bytes(range(256)) * 8000


def test_standard_input_is_streamed(own_daemon, session):
    data = os.urandom(3_000_000)
    done = own_daemon.exec(session, "cat", options=["--stdin"], stdin=data)
    assert done.status == 0 and done.out == data
    assert own_daemon.exec(session, "cat").out == b""  # without it there is none


def test_a_command_that_does_not_read_its_input_ends(own_daemon, session):
    done = own_daemon.exec(session, "sh", "-c", "exec 0<&-; echo deaf", options=["--stdin"],
                           stdin=b"x" * 2_000_000)
    assert (done.status, done.out) == (0, b"deaf\n")


def test_a_timeout_keeps_what_was_written(own_daemon, session):
    done = own_daemon.exec(session, "sh", "-c", "echo early; sleep 600", options=["--timeout", "1"])
    assert (done.status, done.out) == (124, b"early\n")
    assert "timed out after 1 s" in done.stderr


def test_what_is_said_at_the_end_fits_the_command(own_daemon):
    """A limit is that of the session, which another one can exceed; a cell cannot be detached."""
    made = own_daemon.session("--memory", "64m", "--disk", "8m")
    try:
        for words in (("exec", "-s", made, "--", "python3", "-c"), ("code", "-s", made, "-c")):
            done = own_daemon.call(*words, "x = bytearray(200 << 20)")
            assert "out of memory (limit 64m)" in done.stderr and "bailey session new --memory SIZE" in done.stderr, done
            done = own_daemon.call(*words, "open('/tmp/x', 'wb').write(b'x' * (12 << 20))")
            assert "bailey session new --disk SIZE" in done.stderr and "daemon" not in done.stderr, done
            own_daemon.ok("rm", f"{made}:/tmp/x")
            done = own_daemon.call(words[0], "-t", "1", *words[1:], "import time; time.sleep(60)")
            assert "timed out after 1 s; --timeout TIME" in done.stderr, done
            assert ("-d leaves it running" in done.stderr) is (words[0] == "exec"), done
    finally:
        own_daemon.ok("session", "rm", made)


@pytest.mark.parametrize("option", [["--memory", "1g"], ["--isolation", "strict"],
                                    ["--file", "x"], ["--out", "d"]], ids=lambda o: o[0])
def test_options_of_a_fresh_box_are_refused(own_daemon, session, option):
    done = own_daemon.exec(session, "true", options=option)
    assert done.status == 125 and option[0] in done.stderr


def test_ctrl_c_interrupts_the_guests_command(own_daemon, session):
    process = own_daemon.start("exec", "-s", session, "--", "sh", "-c",
                               "trap 'echo got it; exit 7' INT; echo up; while :; do sleep 0.05; done")
    support.read_until(process.stdout, b"up\n")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 130 and out == b"got it\n"
    assert b"interrupted" in err
    assert own_daemon.json("ps", "--json")["processes"] == []


def test_a_second_ctrl_c_kills_it(own_daemon, session):
    process = own_daemon.start("exec", "-s", session, "--", "sh", "-c",
                               "trap '' INT; echo up; while :; do sleep 0.05; done")
    support.read_until(process.stdout, b"up\n")
    process.send_signal(signal.SIGINT)
    support.read_until(process.stderr, b"Ctrl-C again kills it")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 130
    assert own_daemon.json("ps", "--json")["processes"] == []


def test_a_reader_that_leaves_ends_the_command(own_daemon, session):
    process = own_daemon.start("exec", "-s", session, "--", "yes")
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=support.PATIENCE) == 128 + signal.SIGPIPE
    process.stderr.close()
    support.wait_until(lambda: own_daemon.json("ps", "--json")["processes"] == [], "yes is gone")


def test_a_command_in_the_background(own_daemon, session):
    execution = own_daemon.ok("exec", "-s", session, "-d", "--", "sh", "-c",
                              "echo begun; while [ ! -e stop ]; do sleep 0.05; done; echo done"
                              ).strip()
    assert execution == f"{session}.1"
    support.wait_until(lambda: own_daemon.ok("logs", execution) == "begun\n", "it has begun")
    running = own_daemon.json("ps", "--json")["processes"]
    assert [p["execution_id"] for p in running] == [execution]
    assert running[0]["session_id"] == session
    assert "while" in own_daemon.ok("ps")
    follower = own_daemon.start("logs", "-f", session, "1")
    support.read_until(follower.stdout, b"begun\n")
    own_daemon.exec(session, "touch", "stop")
    out, err = follower.communicate(timeout=support.PATIENCE)
    assert (follower.returncode, out, err) == (0, b"done\n", b"")
    assert own_daemon.json("ps", "--json")["processes"] == []
    assert [p["exit_code"] for p in own_daemon.json("ps", "--all", "--json")["processes"]][-1] == 0


def test_a_broker_that_is_killed_loses_no_output(own_daemon, session):
    count = 400
    process = own_daemon.start("exec", "-s", session, "--", "sh", "-c",
                               f"i=0; while [ $i -lt {count} ]; do echo line $i; echo e $i >&2; "
                               "i=$((i+1)); sleep 0.005; done")
    seen = support.read_until(process.stdout, b"line 3\n")
    for _ in range(3):
        info = own_daemon.info()
        os.kill(info["broker_pid"], signal.SIGKILL)
        support.wait_until(lambda: own_daemon.info()["generation"] > info["generation"], "another one")
    out, err = process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 0
    assert seen + out == b"".join(b"line %d\n" % i for i in range(count))
    assert err == b"".join(b"e %d\n" % i for i in range(count))


def test_a_launcher_that_is_killed_is_told_at_once(own_daemon, session):
    process = own_daemon.start("exec", "-s", session, "--", "sh", "-c", "echo up; sleep 600")
    support.read_until(process.stdout, b"up\n")
    os.kill(own_daemon.info()["launcher_pid"], signal.SIGKILL)
    _, err = process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 125 and b"the daemon has ended" in err


# --- a terminal ----------------------------------------------------------------------------------


def test_a_shell_is_a_terminal_that_follows_the_window(own_daemon, session):
    status, seen = on_terminal(
        own_daemon, "shell", "-s", session, "--", "sh", "-i", size=(30, 100), steps=[
            (PROMPT, b"stty size; echo $TERM; test -t 0 && echo ter\"\"minal\n"),
            (b"30 100", b""), (b"xterm", b""), (b"terminal", b""),
            (PROMPT, resized(40, 120)),
            (b"", b"while [ \"$(stty size)\" != '40 120' ]; do sleep 0.05; done; echo lar\"\"ger\n"),
            (b"larger", b"exit 5\n")])
    assert status == 5, seen


def test_ctrl_c_goes_to_the_guest(own_daemon, session):
    status, seen = on_terminal(
        own_daemon, "shell", "-s", session, "--", "sh", "-i", steps=[
            # Said by who is to be interrupted: a shell between two commands may not hear it.
            (PROMPT, b"sh -c 'echo wa\"\"it; exec sleep 600'\n"), (b"wait", b"\x03"),
            (PROMPT, b"echo back\"\"again\n"), (b"backagain", b"exit\n")])
    assert b"backagain" in seen and status in (0, 130)


def test_the_detach_key_leaves_it_running_and_attach_returns(own_daemon, session):
    status, seen = on_terminal(
        own_daemon, "shell", "-s", session, "--", "sh", "-i", steps=[
            (PROMPT, b"mark=found; echo set\"\"up\n"), (b"setup", b"\x1dd")])
    assert status == 0 and b"--attach 1" in seen
    assert len(own_daemon.json("ps", "--json")["processes"]) == 1
    status, seen = on_terminal(
        own_daemon, "shell", "-s", session, "--attach", "1", steps=[
            (b"", b"echo $mark\"\"again\n"), (b"foundagain", b"exit 3\n")])
    assert status == 3, seen


def test_a_shell_without_a_terminal_is_refused(own_daemon, session):
    done = own_daemon.call("shell", "-s", session)
    assert done.status == 125 and "terminal" in done.stderr


def test_output_on_a_terminal_is_harmless(own_daemon, session):
    _, seen = on_terminal(own_daemon, "exec", "-s", session, "--", "printf", r"a\033[2Jb\n")
    assert b"\x1b[2J" not in seen and b"\\x1b[2J" in seen


# --- files ---------------------------------------------------------------------------------------


def test_files_go_in_and_come_back(any_daemon):
    session = any_daemon.session()
    data = os.urandom(2_000_000)
    any_daemon.room.write("data.bin", data, mode=0o750)
    any_daemon.ok("cp", "data.bin", f"{session}:")
    any_daemon.ok("cp", "data.bin", f"{session}:/tmp/renamed")
    assert "0750" in any_daemon.ok("ls", f"{session}:data.bin")
    any_daemon.ok("cp", f"{session}:/tmp/renamed", "back.bin")
    back = any_daemon.room.work / "back.bin"
    assert back.read_bytes() == data and stat.S_IMODE(back.stat().st_mode) == 0o750
    assert any_daemon.call("cat", f"{session}:data.bin").out == data
    any_daemon.ok("rm", f"{session}:data.bin")
    assert "data.bin" not in any_daemon.ok("ls", session)


def test_standard_streams_may_be_copied(own_daemon, session):
    own_daemon.ok("cp", "-", f"{session}:/tmp/in", stdin=b"from a pipe")
    assert own_daemon.call("cp", f"{session}:/tmp/in", "-").out == b"from a pipe"


def test_folders_go_in_and_come_back(own_daemon, session):
    for name in ("tree/one", "tree/sub/two", "tree/sub/deep/three"):
        own_daemon.room.write(name, name)
    (own_daemon.room.work / "tree" / "empty").mkdir()
    os.symlink("/etc/passwd", own_daemon.room.work / "tree" / "link")
    done = own_daemon.call("cp", "tree", f"{session}:")
    assert done.status == 0 and "skipped" in done.stderr and "link" in done.stderr
    listed = own_daemon.json("ls", "--recursive", "--json", f"{session}:tree")["entries"]
    assert {e["name"] for e in listed} == {"one", "empty", "sub", "sub/two", "sub/deep",
                                           "sub/deep/three"}
    own_daemon.ok("cp", f"{session}:tree", "back")
    back = own_daemon.room.work / "back"
    assert (back / "sub" / "deep" / "three").read_text() == "tree/sub/deep/three"
    assert (back / "empty").is_dir() and not (back / "link").exists()
    done = own_daemon.call("rm", f"{session}:tree")
    assert done.status == 125 and "-r" in done.stderr
    own_daemon.ok("rm", "-r", f"{session}:tree")


def test_what_a_guest_made_cannot_lead_out_of_the_target(own_daemon, session):
    own_daemon.exec(session, "sh", "-c",
                    "mkdir t; ln -s /etc t/out; ln -s ../../.. t/up; echo x > t/ok; "
                    "mkdir 't/..a'; echo y > 't/..a/b'; printf z > \"$(printf 't/new\\nline')\"")
    done = own_daemon.call("cp", f"{session}:t", "back")
    assert done.status == 0, done
    found = sorted(str(p.relative_to(own_daemon.room.work)) for p in own_daemon.room.work.rglob("*"))
    assert found == ["back", "back/..a", "back/..a/b", "back/new\nline", "back/ok"]


def test_a_link_here_is_not_written_through(own_daemon, session):
    outside = own_daemon.room.path / "outside"
    outside.mkdir()
    own_daemon.exec(session, "sh", "-c", "mkdir -p t/sub; echo x > t/sub/file; echo y > t/top")
    (own_daemon.room.work / "back" / "t").mkdir(parents=True)
    os.symlink(outside, own_daemon.room.work / "back" / "t" / "sub")
    done = own_daemon.call("cp", f"{session}:t", "back")
    assert done.status == 125 and list(outside.iterdir()) == []


@pytest.mark.parametrize("args", [["ls", "{}:/etc"], ["cat", "{}:/etc/passwd"],
                                  ["cat", "{}:/tmp/../etc/passwd"], ["cat", "{}:/tmp/nosuch"],
                                  ["cat", "{}:/tmp"], ["rm", "{}:/tmp/nosuch"],
                                  ["cp", "nosuch", "{}:"], ["cp", "{}:/tmp/nosuch", "x"],
                                  ["cp", "here", "{}:/tmp/data/x"]], ids=" ".join)
def test_paths_that_cannot_be_are_told(own_daemon, session, args):
    own_daemon.room.write("here", "x")
    done = own_daemon.call(*[word.format(session) for word in args])
    assert done.status == 125 and done.stderr.startswith("bailey: "), done
    assert not (own_daemon.room.work / "x").exists()


def test_names_on_a_terminal_are_harmless(own_daemon, session):
    own_daemon.exec(session, "sh", "-c", "touch \"$(printf 'a\\033[2J\\nb')\"")
    listed = own_daemon.call("ls", session)
    assert b"\x1b" not in listed.out and b"\\x1b[2J\\x0ab" in listed.out


def test_outputs_are_saved_and_listed(own_daemon, session):
    done = own_daemon.exec(session, "sh", "-c", "mkdir -p /tmp/output/sub; echo a,b > /tmp/output/t.csv; "
                                          "echo note > /tmp/output/sub/n.txt")
    assert "saved" in done.stderr
    outputs = own_daemon.json("outputs", session, "--json")
    assert {o["name"] for o in outputs["outputs"]} == {"t.csv", "sub/n.txt"}
    path = next(o["path"] for o in outputs["outputs"] if o["name"] == "t.csv")
    assert path.startswith(str(own_daemon.state)) and path in own_daemon.ok("outputs", session)
    with open(path, encoding="utf-8") as file:
        assert file.read() == "a,b\n"


# --- events and tools ----------------------------------------------------------------------------


def test_events_tell_what_happened(own_daemon, session):
    own_daemon.exec(session, "true")
    lines = [json.loads(line) for line in own_daemon.ok("events", "--json").splitlines()]
    types = [e["type"] for e in lines]
    assert types[0] == "session.created" and "exec.started" in types and "exec.exited" in types
    assert own_daemon.ok("events", "-s", session).count("exec.exited") == 1


def test_events_are_followed_over_a_new_broker(own_daemon, session):
    follower = own_daemon.start("events", "--follow", "--json")
    support.read_until(follower.stdout, b"session.created")
    os.kill(own_daemon.info()["broker_pid"], signal.SIGKILL)
    own_daemon.exec(session, "true")
    support.read_until(follower.stdout, b"exec.exited")
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=support.PATIENCE)
    assert follower.returncode == 130


def test_tools_are_called_in_a_session(own_daemon, session):
    reply = own_daemon.json("tool", "sandbox_write_file", "-s", session,
                            '{"file_path": "/tmp/a.py", "content": "print(6 * 7)"}')
    assert reply["success"] is True
    reply = own_daemon.json("tool", "sandbox_exec", "-", "-s", session,
                            stdin=b'{"command": ["python3", "/tmp/a.py"]}')
    assert (reply["exit_code"], reply["stdout"]) == (0, "42\n")
    wrong = own_daemon.json("tool", "sandbox_exec", '{"comand": []}', "-s", session)
    assert wrong["success"] is False and "command" in wrong["error"]
    done = own_daemon.call("tool", "sandbox_exec", "{bad", "-s", session)
    assert done.status == 125 and "column" in done.stderr
    done = own_daemon.call("tool", "sandbox_exce", "{}", "-s", session)
    assert done.status == 125 and "sandbox_exec" in done.stderr


def test_the_list_of_tools_and_the_documents_need_no_daemon(own_daemon):
    names = {row["name"] for row in own_daemon.json("tool", "--list", "--json")["tools"]}
    assert {"sandbox_exec", "sandbox_write_file", "sandbox_edit_file"} <= names
    assert json.loads(own_daemon.ok("openapi"))["openapi"].startswith("3.1")
    assert "sandbox_edit_file" in own_daemon.ok("prompt")
    assert not own_daemon.is_running()


def test_one_shot_runs_need_no_daemon(own_daemon):
    assert own_daemon.call("exec", "--", "echo", "alone").out == b"alone\n"
    assert own_daemon.ok("tool", "run_python_code", '{"code": "print(1)"}') == "1\n"
    assert not own_daemon.is_running()
