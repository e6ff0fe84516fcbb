"""`bailey run` where a daemon is running: its warm boxes are used, and nobody can tell but for the time."""
import json
import os
import signal
import socket
import threading

import pytest

import serve
import support

DEBUG = {"BAILEY_LOG": "debug"}
NOT_USED = "the daemon is not used"

# name of the file, its code, options, arguments
SAME = {
    "hello": ("t.py", "print('Hello')", (), ()),
    "words": ("my script.py", "import sys; print(sys.argv, __file__, sys.orig_argv[1:], sys.path[0])",
              (), ("a b", "--x", "é")),
    "exit": ("t.py", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", (), ()),
    "raises": ("boom.py", "def f():\n    1 / 0\nprint('before')\nf()\n", (), ()),
    "syntax": ("t.py", "print('never')\ndef (:\n", (), ()),
    "signal": ("t.py", "import os; print('x', flush=True); os.kill(os.getpid(), 11)", (), ()),
    "timeout": ("t.py", "print('part', flush=True)\nwhile True: pass", ("--timeout", "0.5"), ()),
    "bytes": ("t.py", "import os; os.write(1, bytes(range(256)) * 40); os.write(2, b'\\xc3')", (), ()),
    "flood": ("t.py", "import sys; sys.stdout.write('0123456789abcde\\n' * 200000)", (), ()),
    "leaves": ("t.py", "import os; os.makedirs('/tmp/output/d'); open('/tmp/output/d/a', 'w');"
               "os.symlink('/etc/passwd', '/tmp/output/l'); open('/tmp/output/b', 'w')", (), ()),
    "no module": ("t.py", "import nowhere_to_be_found", (), ()),
    "no input": ("t.py", "import sys; print(repr(sys.stdin.read()))", (), ()),
    "empty": ("t.py", "\n", (), ()),
    "memory": ("t.py", "print('x', flush=True); b = bytearray(4 << 30); print(len(b))", (), ()),
    "kept open": ("t.py", "import os\nif os.fork() == 0:\n    import time; time.sleep(60)\nprint(1)",
                  (), ()),
}

# Thread counts are told to what is imported in a warm interpreter, and its driver is in /bailey.
LOOK = """
import os
print(os.getuid(), os.getgid(), os.getgroups(), os.getcwd())
print(sorted(set(os.listdir('/')) - {'bailey'}), [n for n in sorted(os.environ) if '_THREADS' not in n])
print([line for line in open('/proc/self/status') if line[:3] in ('Cap', 'NoN', 'Sec')])
print(sorted(os.listdir('/workspace')), os.listdir('/tmp'), os.listdir('/tmp/data'))
"""


@pytest.fixture(scope="module")
def daemon():
    with serve.Daemon() as running:
        yield running


def run(daemon, *args, **rest):
    return daemon.bailey("run", *args, **rest)


def both(daemon, *args, **rest):
    return run(daemon, *args, **rest), run(daemon, "--no-daemon", *args, **rest)


def settled(result):
    """A result without what two runs never share."""
    meta = result["meta"]
    for name in ("execution_id", "usage", "warm"):
        meta.pop(name, None)
    result["duration"] = 0
    return result


def verbose(daemon, *args, **rest):
    """The same run, and what it says about the daemon."""
    done = support.bailey("run", *args, env={**daemon.env, **DEBUG}, room=daemon.room, **rest)
    said = [line for line in done.stderr.splitlines() if "debug: " in line]
    return done, said


def test_it_is_used(daemon):
    warm = run(daemon, "--json", "-c", "print(1)").json()
    assert warm["meta"]["warm"] in ("zygote", "pool"), warm
    alone = run(daemon, "--json", "--no-daemon", "-c", "print(1)").json()
    assert "warm" not in alone["meta"], alone
    shown = run(daemon, "--explain", "-c", "print(1)")
    assert f"started    {warm['meta']['warm']}" in shown.stderr, shown
    assert verbose(daemon, "-c", "print(1)")[1] == []


@pytest.mark.parametrize("what", SAME)
def test_words_and_status_are_the_same(daemon, what):
    name, code, options, words = SAME[what]
    daemon.room.write(name, code)
    there, here = both(daemon, *options, name, "--", *words)
    assert (there.status, there.out, there.err) == (here.status, here.out, here.err)


@pytest.mark.parametrize("what", SAME)
def test_results_are_the_same(daemon, what):
    name, code, options, words = SAME[what]
    daemon.room.write(name, code)
    there, here = both(daemon, "--json", *options, name, "--", *words)
    assert there.status == here.status
    assert there.err == here.err
    assert settled(there.json()) == settled(here.json())


def test_it_looks_the_same_from_inside(daemon):
    there, here = both(daemon, "-c", LOOK)
    assert there.status == here.status == 0, (there, here)
    assert there.stdout == here.stdout


@pytest.mark.parametrize("options", [
    ("--env", "A=b"), ("--memory", "2g"), ("--stdin",), ("--out", "there"), ("--timing",), ("--language", "bash")])
def test_what_it_would_not_do_the_same_way_is_done_here(daemon, options):
    done, said = verbose(daemon, "--json", *options, "-c", "exit")
    assert done.status == 0, done
    assert "warm" not in done.json()["meta"], done
    assert options == ("--timing",) or len(said) == 1 and NOT_USED in said[0], said
    quiet = run(daemon, *options, "-c", "exit")
    assert quiet.status == 0 and (options == ("--timing",) or quiet.err == b""), quiet


def test_limits_of_the_caller_are_no_reason_not_to_use_it(daemon):
    options = ("--memory", "512m", "--pids", "100", "--isolation", "strict", "--max-output", "20")
    done, said = verbose(daemon, "--json", *options, "-c", "import socket")
    limits = done.json()["meta"]["resource_limits"]
    assert done.json()["meta"]["warm"] and not said, (done, said)
    assert (limits["memory_bytes"], limits["disk_bytes"]) == (512 << 20, 256 << 20), done
    assert (limits["pids"], limits["output_bytes"]) == (100, 20 << 10), done
    env = {**daemon.env, "SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true", "SANDBOX_BLOCKED_IMPORTS": "json"}
    done = support.bailey("run", "--json", "-c", "import json", env=env, room=daemon.room)
    assert done.status == 126 and done.json()["meta"]["error"]["code"] == "blocked_import", done


def test_datasets_and_outputs(daemon):
    """Files in and out, beside a daemon that could have been asked."""
    daemon.room.write("sales.csv", "a,b\n1,2\n")
    code = "open('/tmp/output/copy.csv', 'w').write(open('/tmp/data/sales.csv').read())"
    for more in ((), ("--no-daemon",)):
        done = run(daemon, *more, "--file", "sales.csv:/tmp/data/sales.csv", "--out", "fetched", "-c",
                   code)
        assert done.status == 0, done
        fetched = daemon.room.work / "fetched" / "copy.csv"
        assert fetched.read_text() == "a,b\n1,2\n"
        fetched.unlink()


def test_another_interpreter_and_another_state_are_not_its(daemon):
    env = {**daemon.env, **DEBUG, "BAILEY_STATE_DIR": daemon.room.path / "other"}
    done = support.bailey("run", "--json", "-c", "print(1)", env=env, room=daemon.room)
    assert done.status == 0 and "warm" not in done.json()["meta"], done
    assert "state" in done.stderr, done
    env = {**daemon.env, **DEBUG, "SANDBOX_SUPPORTED_LANGUAGES": "python"}
    done = support.bailey("run", "-c", "print(1)", env=env, room=daemon.room)
    assert done.out == b"1\n" and "SANDBOX_SUPPORTED_LANGUAGES" in done.stderr, done


def test_stored_code_is_where_the_caller_is(daemon):
    """In his working folder, and not in the daemon's too."""
    store = daemon.room.work / "artifacts" / "executions"
    before = set(store.iterdir()) if store.exists() else set()
    assert run(daemon, "--json", "-c", "raise SystemExit(3)").json()["meta"]["warm"]
    new, = set(store.iterdir()) - before
    assert json.loads(new.read_text())["code"] == "raise SystemExit(3)"
    kept = daemon.state / "artifacts" / "executions"
    assert not kept.exists() or not list(kept.iterdir())


def start(daemon, *args, **rest):
    return support.start("run", *args, env=daemon.env, room=daemon.room, **rest)


def boxes(daemon):
    return [what for what in support.descendants(daemon.process.pid).values()
            if what.endswith(" warden")]


STAY = "import time; print('running', flush=True); time.sleep(600)"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_and_leaves_nothing(daemon, name):
    seen = []
    for more in ((), ("--no-daemon",)):
        process = start(daemon, *more, "--timeout", "300", "-c", STAY)
        support.read_until(process.stdout, b"running")
        process.send_signal(getattr(signal, name))
        _, err = process.communicate(timeout=support.PATIENCE)
        seen.append((process.returncode, err))
        support.wait_until(lambda: not boxes(daemon), "its box is gone")
    assert seen[0] == seen[1], seen
    assert seen[0][0] == 128 + getattr(signal, name)


def test_a_signal_in_json(daemon):
    seen = []
    for more in ((), ("--no-daemon",)):
        process = start(daemon, *more, "--json", "--timeout", "300", "-c",
                        "open('/tmp/there', 'w'); import time; print('part', flush=True); time.sleep(600)")
        support.wait_until(lambda: support.descendants(process.pid) or boxes(daemon), "it runs")
        support.wait_until(lambda: any("python" in what or "main.py" in what for root in
                                       (process.pid, daemon.process.pid) for what in
                                       support.descendants(root).values()), "its program runs")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=support.PATIENCE)
        seen.append((process.returncode, json.loads(out)["meta"]["error"]))
    assert seen[0] == seen[1], seen


def test_a_reader_that_leaves_ends_it(daemon):
    process = start(daemon, "--timeout", "300", "-c", "while True: print('x' * 1000)")
    support.read_until(process.stdout, b"xxx")
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=support.PATIENCE)
    assert (process.returncode, err) == (128 + signal.SIGPIPE, b"")
    support.wait_until(lambda: not boxes(daemon), "its box is gone")


def test_a_reader_that_pauses_holds_the_program(daemon):
    """Nothing is lost, however late it is read, and nobody keeps it all meanwhile."""
    lines = 2_000_000
    process = start(daemon, "-c", f"import sys\nfor n in range({lines}): sys.stdout.write('%9d\\n' % n)\n"
                                  "print('end', file=sys.stderr)", "--timeout", "300")
    support.read_until(process.stdout, b"1000\n")
    err = threading.Thread(target=process.stderr.read)
    err.start()
    last = support.read_until(process.stdout, b"%9d\n" % (lines - 1))
    assert last.endswith(b"%9d\n" % (lines - 1))
    assert process.wait(support.PATIENCE) == 0
    err.join()
    process.stdout.close()
    process.stderr.close()


def test_output_comes_while_it_runs(daemon):
    process = start(daemon, "--timeout", "300", "-c", STAY)
    support.read_until(process.stdout, b"running")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=support.PATIENCE)


def test_a_client_that_is_killed_leaves_nothing(daemon):
    process = start(daemon, "--timeout", "300", "-c", STAY)
    support.read_until(process.stdout, b"running")
    process.kill()
    process.communicate(timeout=support.PATIENCE)
    support.wait_until(lambda: not boxes(daemon), "its box is gone")


def test_a_daemon_that_is_killed_is_told():
    with serve.Daemon() as daemon:
        process = start(daemon, "--timeout", "300", "-c", STAY)
        support.read_until(process.stdout, b"running")
        daemon.kill()
        _, err = process.communicate(timeout=support.PATIENCE)
        assert process.returncode == 125
        assert b"the daemon went away in the middle of the run" in err, err
        done, said = verbose(daemon, "-c", "print('here')")
        assert done.out == b"here\n" and NOT_USED in said[0], (done, said)


def test_a_broker_that_is_killed_is_told():
    with serve.Daemon() as daemon:
        process = start(daemon, "--timeout", "300", "--json", "-c", STAY)
        support.wait_until(lambda: boxes(daemon), "it runs")
        os.kill(daemon.get("/v1/info")["broker_pid"], signal.SIGKILL)
        out, _ = process.communicate(timeout=support.PATIENCE)
        assert process.returncode == 125
        assert json.loads(out)["meta"]["error"]["code"] == "no_daemon", out
        serve.polled(lambda: run(daemon, "--json", "-c", "print(1)").json()["meta"].get("warm"),
                     lambda warm: warm, "it is used again")


ANSWERS = {
    "nothing": b"",
    "an older daemon": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}",
    "one word": b"HELLO\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Type: te",
    "too long a head": b"HTTP/1.1 200 OK\r\n" + b"A: %s\r\n" % (b"x" * 100) * 2000,
}


def run_beside(room, answer, **env):
    """A run while somebody who is no daemon has the socket and says this; None: says nothing."""
    state, runtime = room.path / "state", room.path / "run"
    (runtime / "bailey").mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(runtime / "bailey" / "engine.sock"))
        listener.listen(4)

        def serve_one():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 20)
                connection.sendall(answer)
        other = threading.Thread(target=serve_one)
        if answer is not None:
            other.start()
        done = support.bailey("run", "-c", "print('here')", room=room, env={
            **env, "BAILEY_STATE_DIR": state, "XDG_RUNTIME_DIR": runtime})
        if answer is not None:
            other.join()
    return done


@pytest.mark.parametrize("answer", [*ANSWERS, "silence"])
def test_whoever_else_is_on_the_socket(room, answer):
    """The run is done here, whatever the other says or does not say."""
    done = run_beside(room, ANSWERS.get(answer), **DEBUG)
    assert done.status == 0 and done.out == b"here\n", done
    assert NOT_USED in done.stderr, done


def test_half_a_run_is_no_result(room):
    done = run_beside(room, b"HTTP/1.0 200 OK\r\n\r\nevent: stdout\n"
                            b'data: {"data":"half","encoding":"utf8"}\n\n')
    assert done.status == 125 and done.out == b"half", done
    assert b"--no-daemon" in done.err, done


def test_none_is_started(room):
    env = {"BAILEY_STATE_DIR": room.path / "state", "XDG_RUNTIME_DIR": room.path / "run"}
    done = support.bailey("run", "-c", "print(1)", room=room, env=env)
    assert done.out == b"1\n" and done.err == b"", done
    assert not (room.path / "state").exists() and not (room.path / "run").exists()


def test_several_at_once(daemon):
    runs = [start(daemon, "-c", f"print({n})") for n in range(8)]
    assert [process.communicate(timeout=support.PATIENCE)[0] for process in runs] == [
        b"%d\n" % n for n in range(8)]
