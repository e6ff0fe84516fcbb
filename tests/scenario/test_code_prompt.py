"""`bailey code` on a terminal without code: a prompt for cells."""
import pytest
from daemon_fixture import DaemonFixture, on_terminal


@pytest.fixture
def daemon():
    daemon = DaemonFixture()
    yield daemon
    daemon.close()


def typed(daemon, *args, steps):
    """Each step is what is waited for and what is then typed; colours would be between the words."""
    return on_terminal(daemon, "code", *args, steps=steps, env={"NO_COLOR": "1"})


def test_statements_blocks_interrupts_and_the_end(daemon):
    status, seen = typed(daemon, steps=[
        (b"made the session 'default'", b""),
        (b">>> ", b"x = 41\n"),
        (b">>> ", b"def f(y):\n"), (b"... ", b"    return x + y\n"), (b"... ", b"\n"),
        (b">>> ", b"f(1) * 1000\n"), (b"\r\n42000\r\n", b""),
        (b">>> ", b"1 / 0\n"), (b"ZeroDivisionError", b""),
        (b">>> ", b"import time; print(20 * 21); time.sleep(600)\n"), (b"\r\n420\r\n", b"\x03"),
        (b"KeyboardInterrupt", b""),
        (b">>> ", b"y = (1,\n"), (b"... ", b"\x03"),  # what was typed is forgotten
        (b">>> ", b"x + 4000\n"), (b"\r\n4041\r\n", b""),
        (b">>> ", b"\x04"),
    ])
    assert status == 0, seen
    assert daemon.ok("code", "-s", "default", "-c", "f(0)") == "41\n", "the interpreter is kept"


def test_the_session_may_be_named_and_must_exist(daemon):
    daemon.ok("session", "new", "-s", "work")
    status, seen = typed(daemon, "-q", "-s", "work", steps=[
        (b">>> ", b"z = 7\n"), (b">>> ", b"exit()\n")])
    assert status == 0 and b"bailey:" not in seen, seen
    assert daemon.ok("code", "-s", "work", "-c", "z") == "7\n", "exit() leaves the prompt alone"
    status, seen = typed(daemon, "-s", "none", steps=[])
    assert status == 125 and b"there is no session 'none'" in seen and b">>>" not in seen


def test_another_language(daemon):
    daemon.ok("session", "new", "-s", "work")
    status, seen = typed(daemon, "-s", "work", "-l", "bash", steps=[
        (b">>> ", b"n=6\n"), (b">>> ", b"echo $((n * 700))\n"), (b"\r\n4200\r\n", b""), (b">>> ", b"\x04")])
    assert status == 0, seen


def test_without_a_terminal_there_is_no_prompt(daemon):
    daemon.ok("session", "new", "-s", "work")
    done = daemon.call("code", "-s", "work", stdin=b"print(1)\n")
    assert done.status == 125 and "what to run?" in done.stderr and ">>>" not in done.stderr, done
