"""Commands in a session: several at once, in the background, signalled, re-read, typed into."""
import threading

import pytest

import serve

MEMBERS = {"execution_id", "number", "argv", "state", "started_at", "ended_at", "exit_code", "signal",
           "timed_out", "background", "pty", "stdout_bytes", "stderr_bytes", "error"}


def process_of(daemon, execution):
    return daemon.get(f"/v1/sessions/{execution.rpartition('.')[0]}/processes/{execution}")


def address(execution, what):
    return f"/v1/sessions/{execution.rpartition('.')[0]}/processes/{execution}/{what}"


def read_until(daemon, execution, marker):
    """Waits by the stream of events until the output has a marker; all of it so far."""
    got = b""
    with daemon.events(address(execution, "events")) as events:
        for event in events:
            if event.type == "stdout":
                got += serve.decoded(event.data)
            if marker in got:
                return got
    raise AssertionError(f"{marker!r} did not come: {got!r}")


def test_the_one_result(daemon, session):
    result = daemon.exec(session, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 7)
    assert result["meta"]["session_id"] == session
    assert result["meta"]["execution_id"] == f"{session}.1"
    assert result["meta"]["resource_limits"]["timeout_s"] == 60


def test_working_folder_and_state_stay(daemon, session):
    assert daemon.exec(session, "pwd")["stdout"] == "/workspace\n"
    daemon.exec(session, "sh", "-c", "mkdir -p /tmp/sub; echo 1 > /tmp/sub/f")
    assert daemon.exec(session, "cat", "f", cwd="/tmp/sub")["stdout"] == "1\n"


def test_standard_input(daemon, session):
    assert daemon.exec(session, "cat", stdin="t\u00e4xt\n")["stdout"] == "t\u00e4xt\n"
    assert daemon.exec(session, "cat")["stdout"] == ""  # without it nothing is read
    large = "0123456789abcdef" * 65536
    result = daemon.exec(session, "sha256sum", stdin=large)
    assert result["stdout"].split()[0] == serve.sha256(large.encode())


def test_a_long_standard_input_is_stored_meanwhile(daemon, session):
    """By a thread: the command starts afterwards, may be ended before, and others do not wait."""
    large = "0123456789abcdef" * 900_000
    for _ in range(3):
        begun = daemon.background(session, "sha256sum", stdin=large)
        daemon.asked("POST", f"/v1/sessions/{session}/processes/{begun['execution_id']}/signal",
                     {"signal": "KILL"})
        assert daemon.exec(session, "echo", "next")["stdout"] == "next\n"
        assert daemon.wait(begun["execution_id"])["state"] in ("exited", "failed")
    begun = daemon.background(session, "sha256sum", stdin=large)
    daemon.wait(begun["execution_id"])
    assert daemon.output(begun["execution_id"]).body.split()[0].decode() == serve.sha256(large.encode())
    gone = daemon.session()["id"]
    daemon.background(gone, "cat", stdin=large)
    daemon.end(gone)  # its command may not have begun


def test_a_timeout_in_seconds(daemon, session):
    result = daemon.exec(session, "sh", "-c", "echo x; exec sleep 1000", timeout=0.5)
    assert (result["exit_code"], result["meta"]["timed_out"], result["stdout"]) == (-1, True, "x\n")
    assert process_of(daemon, result["meta"]["execution_id"])["timed_out"] is True


def test_a_signal_is_a_fact(daemon, session):
    result = daemon.exec(session, "sh", "-c", "kill -SEGV $$")
    assert (result["exit_code"], result["meta"]["signal"]) == (139, 11)


def test_a_program_that_is_not_there(daemon, session):
    result = daemon.exec(session, "no-such-program")
    assert result["exit_code"] == 127 and "no-such-program" in result["stderr"], result
    assert result["meta"]["error"]["code"] == "command_not_found", result
    daemon.write(session, "/tmp/plain", b"x", mode="0644")
    result = daemon.exec(session, "/tmp/plain")
    assert result["meta"]["error"]["code"] == "not_executable", result


def test_several_commands_at_once(daemon, session):
    daemon.exec(session, "mkfifo", "/tmp/a", "/tmp/b")
    answers = {}

    def run(name, *argv):
        answers[name] = daemon.exec(session, *argv)
    # Each waits for the other: one after the other they would never end.
    threads = [threading.Thread(target=run, args=("one", "sh", "-c", "echo 1 > /tmp/a; cat /tmp/b")),
               threading.Thread(target=run, args=("two", "sh", "-c", "cat /tmp/a; echo 2 > /tmp/b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (answers["one"]["stdout"], answers["two"]["stdout"]) == ("2\n", "1\n"), answers


def test_background_list_signal(daemon, session):
    one = daemon.background(session, "sleep", "1000", timeout=0)
    two = daemon.background(session, "sh", "-c", "trap 'echo got; exit 5' USR1; echo ready; "
                            "while :; do sleep 0.02; done", timeout=0)
    assert MEMBERS <= set(one), MEMBERS - set(one)
    assert one["background"] is True and one["argv"] == ["sleep", "1000"]
    read_until(daemon, two["execution_id"], b"ready\n")
    listed = daemon.get(f"/v1/sessions/{session}/processes")["processes"]
    assert {p["execution_id"] for p in listed} == {one["execution_id"], two["execution_id"]}
    assert daemon.get(f"/v1/sessions/{session}")["running"] == 2
    assert daemon.post(address(one["execution_id"], "signal"), {"signal": "KILL"}) is not None
    assert daemon.post(address(two["execution_id"], "signal"), {"signal": 10}) is not None
    killed, left = daemon.wait(one["execution_id"]), daemon.wait(two["execution_id"])
    assert (killed["signal"], killed["exit_code"]) == (9, 137), killed
    assert (left["exit_code"], left["signal"]) == (5, None), left
    assert daemon.output(two["execution_id"]).body == b"ready\ngot\n"
    assert daemon.get(f"/v1/sessions/{session}")["running"] == 0
    error = daemon.refused("POST", address(one["execution_id"], "signal"), 409, "execution_ended",
                           {"signal": "TERM"})
    assert error["message"]


def test_a_signal_that_is_faster_than_the_program(daemon, session):
    """It may come before the exec: the end is the signal all the same."""
    daemon.exec(session, "true")  # there is a box: what is ended before has not begun
    for number in ("KILL", "TERM") * 10:
        begun = daemon.background(session, "sleep", "1000", timeout=0)["execution_id"]
        daemon.post(address(begun, "signal"), {"signal": number})
        ended = daemon.wait(begun)
        assert (ended["signal"], ended["error"]) == (9 if number == "KILL" else 15, None), ended


def test_a_number_names_an_execution_too(daemon, session):
    daemon.exec(session, "echo", "x")
    found = daemon.get(f"/v1/sessions/{session}/processes/1")
    assert (found["execution_id"], found["state"]) == (f"{session}.1", "exited")
    assert daemon.asked("GET", f"/v1/sessions/{session}/processes/1/output").body == b"x\n"


def test_a_wait_that_is_too_short_shows_it_running(daemon, session):
    begun = daemon.background(session, "sleep", "1000")
    found = daemon.get(f"/v1/sessions/{session}/processes/{begun['execution_id']}", wait="0.2")
    assert found["state"] == "running" and found["exit_code"] is None, found
    daemon.post(address(begun["execution_id"], "signal"), {"signal": "KILL"})
    assert daemon.wait(begun["execution_id"])["state"] == "exited"


def test_output_is_read_again_from_an_offset(daemon, session):
    code = "import os\nos.write(1, bytes(range(256)) * 4096)\nos.write(2, b'error')"
    begun = daemon.background(session, "python3", "-c", code)
    daemon.wait(begun["execution_id"])
    whole = bytes(range(256)) * 4096
    reply = daemon.output(begun["execution_id"])
    assert reply.body == whole
    assert (reply.headers["Bailey-Offset"], reply.headers["Bailey-Next-Offset"],
            reply.headers["Bailey-Total"], reply.headers["Bailey-Running"]) == (
                "0", str(len(whole)), str(len(whole)), "false")
    part = daemon.output(begun["execution_id"], offset=1000, length=10)
    assert part.body == whole[1000:1010] and part.headers["Bailey-Next-Offset"] == "1010"
    assert daemon.output(begun["execution_id"], offset=len(whole)).body == b""
    assert daemon.output(begun["execution_id"], "stderr").body == b"error"
    done = daemon.bailey("logs", session, begun["execution_id"])
    assert (done.status, done.out, done.err) == (0, whole, b"error")


def test_more_output_than_a_result_holds_is_kept(daemon, session):
    result = daemon.exec(session, "sh", "-c", "yes 0123456789 | head -c 3000000")
    assert result["meta"]["stdout_truncated"] is True
    assert result["meta"]["stdout_bytes"] == 3000000
    whole = daemon.output(result["meta"]["execution_id"]).body
    assert whole == (b"0123456789\n" * 300000)[:3000000]


def test_standard_input_later(daemon, session):
    begun = daemon.background(session, "cat", stdin=True)
    assert daemon.asked("POST", address(begun["execution_id"], "stdin"), b"first\n")
    read_until(daemon, begun["execution_id"], b"first\n")
    daemon.asked("POST", address(begun["execution_id"], "stdin"), b"\0\xffend", query={"end": "true"})
    assert daemon.wait(begun["execution_id"])["exit_code"] == 0
    assert daemon.output(begun["execution_id"]).body == b"first\n\0\xffend"
    daemon.refused("POST", address(begun["execution_id"], "stdin"), 409, "execution_ended", b"late")


def test_what_comes_before_the_box_is_there_is_not_lost(daemon):
    """A session's box is made by its first command: input, its end and a resize may be faster."""
    made = daemon.session()["id"]
    begun = daemon.background(made, "cat", stdin=True)
    daemon.asked("POST", address(begun["execution_id"], "stdin"), b"", query={"end": "true"})
    assert daemon.wait(begun["execution_id"])["exit_code"] == 0
    daemon.end(made)
    made = daemon.session()["id"]
    begun = daemon.background(made, "python3", "-c", "import os; input(); print(os.get_terminal_size())",
                              pty={"rows": 5, "columns": 5})
    daemon.post(address(begun["execution_id"], "resize"), {"rows": 50, "columns": 132})
    daemon.asked("POST", address(begun["execution_id"], "stdin"), b"\n")
    assert daemon.wait(begun["execution_id"])["exit_code"] == 0
    assert b"columns=132, lines=50" in daemon.output(begun["execution_id"]).body
    daemon.end(made)


def test_a_terminal_with_a_size_and_a_resize(daemon, session):
    code = ("import os, signal, sys\ndef size(*_):\n    at = os.get_terminal_size(0)\n"
            "    print(at.lines, at.columns, flush=True)\nsize()\n"
            "signal.signal(signal.SIGWINCH, size)\nprint('ready', flush=True)\n"
            "for line in sys.stdin:\n    print('<' + line.strip() + '>', flush=True)\n")
    begun = daemon.background(session, "python3", "-c", code, pty={"rows": 33, "columns": 77},
                              timeout=0)
    assert begun["pty"] is True
    got = read_until(daemon, begun["execution_id"], b"ready\r\n")
    assert got.startswith(b"33 77\r\n"), got
    daemon.post(address(begun["execution_id"], "resize"), {"rows": 50, "columns": 132})
    read_until(daemon, begun["execution_id"], b"50 132\r\n")
    daemon.asked("POST", address(begun["execution_id"], "stdin"), b"hello\n")
    got = read_until(daemon, begun["execution_id"], b"<hello>\r\n")
    assert b"50 132\r\n" in got, got
    daemon.asked("POST", address(begun["execution_id"], "stdin"), b"\x04")
    assert daemon.wait(begun["execution_id"])["exit_code"] == 0


def test_many_watch_one_terminal(daemon, session):
    begun = daemon.background(session, "cat", pty={"rows": 5, "columns": 9}, timeout=0)
    streams = [daemon.events(address(begun["execution_id"], "events")) for _ in range(5)]
    daemon.asked("POST", address(begun["execution_id"], "stdin"), b"all\n\x04")
    for stream in streams:
        with stream:
            parts = [event for event in stream if event.type in ("stdout", "exit")]
            got = b"".join(serve.decoded(e.data) for e in parts if e.type == "stdout")
            assert got.count(b"all\r\n") == 2, got  # the echo and cat's own
            assert parts[-1].type == "exit" and parts[-1].data["exit_code"] == 0


def test_control_c_reaches_what_runs_in_a_terminal(daemon, session):
    begun = daemon.background(session, "sh", "-c", "echo ready; exec sleep 1000",
                              pty={"rows": 24, "columns": 80})
    read_until(daemon, begun["execution_id"], b"ready")
    daemon.asked("POST", address(begun["execution_id"], "stdin"), b"\x03")
    assert daemon.wait(begun["execution_id"])["signal"] == 2


def test_a_resize_without_a_terminal(daemon, session):
    begun = daemon.background(session, "sleep", "1000")
    daemon.refused("POST", address(begun["execution_id"], "resize"), 409, "not_a_terminal",
                   {"rows": 5, "columns": 5})


# --- the stream of an exec -----------------------------------------------------------------------


def test_exec_as_a_stream(daemon, session):
    with daemon.events(f"/v1/sessions/{session}/exec", method="POST", body={
            "argv": ["sh", "-c", "echo out; echo err >&2; printf '\\377\\0'; exit 3"]}) as events:
        seen = list(events)
    assert seen[0].type == "started" and seen[0].data["execution_id"] == f"{session}.1"
    assert seen[-1].type == "exit" and seen[-1].data["exit_code"] == 3
    out = b"".join(serve.decoded(e.data) for e in seen if e.type == "stdout")
    err = b"".join(serve.decoded(e.data) for e in seen if e.type == "stderr")
    assert (out, err) == (b"out\n\xff\0", b"err\n")
    assert seen[-1].id == f"{len(out)}-{len(err)}"


def test_a_lost_stream_is_taken_up_where_it_broke(daemon, session):
    code = ("import os, sys\nfor n in range(2000):\n    os.write(1 + n % 2, b'%06d\\n' % n)\n"
            "    if n == 500: sys.stdin.read()\n")
    begun = daemon.background(session, "python3", "-c", code, stdin=True)
    got = {"stdout": b"", "stderr": b""}
    last, stop_at = None, [2, 5, 9, 10**9]
    for turn, limit in enumerate(stop_at):
        with daemon.events(address(begun["execution_id"], "events"), last=last) as events:
            for count, event in enumerate(events):
                if event.type in got:
                    assert event.data["offset"] == len(got[event.type]), "lost or twice"
                    got[event.type] += serve.decoded(event.data)
                    last = event.id
                    if count >= limit or (turn == 0 and got["stdout"]):
                        break
        if turn == 0:
            daemon.asked("POST", address(begun["execution_id"], "stdin"), b"", query={"end": "true"})
    assert got["stdout"] == b"".join(b"%06d\n" % n for n in range(0, 2000, 2))
    assert got["stderr"] == b"".join(b"%06d\n" % n for n in range(1, 2000, 2))


def test_a_client_that_leaves_ends_what_it_alone_waited_for(daemon, session):
    stream = daemon.events(f"/v1/sessions/{session}/exec", method="POST",
                           body={"argv": ["sleep", "1000"], "timeout": 0})
    execution = stream.until("started").data["execution_id"]
    stream.close()
    found = daemon.wait(execution)
    assert found["signal"] in (9, 15), found


def test_a_client_that_leaves_does_not_end_what_another_watches(daemon, session):
    stream = daemon.events(f"/v1/sessions/{session}/exec", method="POST",
                           body={"argv": ["cat"], "stdin": True, "timeout": 0})
    execution = stream.until("started").data["execution_id"]
    with daemon.events(address(execution, "events")) as other:
        other.until("started")
        stream.close()
        daemon.asked("POST", address(execution, "stdin"), b"on\n", query={"end": "true"})
        assert other.until("exit").data["stdout"] == "on\n"


def test_the_command_line_has_them(daemon, session):
    done = daemon.bailey("exec", "-s", session, "-d", "--", "sh", "-c", "echo kept; exec sleep 1000")
    assert done.status == 0, done
    listed = daemon.bailey("ps", "--json")
    assert listed.status == 0 and f"{session}.1" in listed.stdout, listed
    read_until(daemon, f"{session}.1", b"kept\n")
    assert daemon.bailey("logs", session, "1").out == b"kept\n"
    done = daemon.bailey("exec", "-s", session, "--", "cat", stdin=b"typed")
    assert done.status == 0, done


@pytest.mark.parametrize("argv", [["sh", "-c", "exit 0"], ["sh", "-c", "exit 200"],
                                  ["sh", "-c", "kill -9 $$"], ["nope"]])
def test_the_command_lines_status(daemon, session, argv):
    done = daemon.bailey("exec", "-s", session, "--", *argv)
    assert done.status == {"exit 0": 0, "exit 200": 200, "kill -9 $$": 137}.get(argv[-1], 127), done


def test_who_a_command_leaves_behind_may_go_on_writing(daemon, session):
    """A server started by a shell writes to a pipe whose command has ended: it is not killed by it."""
    daemon.exec(session, "sh", "-c", "(trap '' HUP; while [ ! -e /tmp/stop ]; do echo noise; echo x >> "
                "/tmp/turns; done; echo done > /tmp/left) & while [ ! -e /tmp/turns ]; do :; done")
    before = len(daemon.read(session, "/tmp/turns"))
    serve.polled(lambda: len(daemon.read(session, "/tmp/turns")), lambda size: size > before + 1000,
                 "it goes on")
    daemon.exec(session, "touch", "/tmp/stop")
    serve.polled(lambda: daemon.call("GET", f"/v1/sessions/{session}/files",
                                     query={"path": "/tmp/left"}).status,
                 lambda status: status == 200, "it ends by itself")
