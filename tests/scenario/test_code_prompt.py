"""`bailey code` on a terminal without code: a prompt for cells, with keys that edit the line and a history."""
import os
import stat

import pytest
from daemon_fixture import DaemonFixture, on_terminal


@pytest.fixture
def daemon():
    daemon = DaemonFixture()
    yield daemon
    daemon.close()


def typed(daemon, *args, steps, env=None, **more):
    """Each step is what is waited for and what is then typed; colours would be between the words."""
    return on_terminal(daemon, "code", *args, steps=steps, env={"NO_COLOR": "1", **(env or {})}, **more)


TERMINALS = pytest.mark.parametrize("terminal", ["xterm", "dumb"])  # dumb: the kernel edits the line


@TERMINALS
def test_statements_blocks_interrupts_and_the_end(daemon, terminal):
    status, seen = typed(daemon, env={"TERM": terminal}, steps=[
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


UP, LEFT, HOME = b"\x1b[A", b"\x1b[D", b"\x1b[H"


@pytest.fixture
def work(daemon):
    daemon.ok("session", "new", "-s", "work")
    return daemon


def test_keys_edit_the_line_and_choose_earlier_ones(work):
    status, seen = typed(work, "-s", "work", steps=[
        (b">>> ", b"prnt(6*70)" + LEFT * 8 + b"i\r"), (b"\r\n420\r\n", b""),
        (b">>> ", b"7*1000\r"), (b"\r\n7000\r\n", b""),
        (b">>> ", UP + UP + b"\x7f+1)\r"), (b"\r\n421\r\n", b""),
        (b">>> ", b"\x12*10\r"), (b"\r\n7000\r\n", b""),  # Ctrl-R
        (b">>> ", b"garbage\x03"),
        (b">>> ", b"\xc3\xa4 = 9\x7f8" + HOME + b"\x1b[C\x1b[C\x05\r"),
        (b">>> ", b"\xc3\xa4*1000\r"), (b"\r\n8000\r\n", b""),
        (b">>> ", b"\x04")])
    assert status == 0, seen


def test_a_pasted_text_is_one_cell(work):
    text = b"\x1b[200~def f(x):\r\ty = x\r\r\treturn y * 2\rprint(f(2100))\x1b[201~"
    status, seen = typed(work, "-s", "work", steps=[
        (b">>> ", text), (b"print(f(2100))", b"\r\r"), (b"\r\n4200\r\n", b""),
        (b">>> ", b"a = 1\rb = 2\rc = a + b + 6000\rc\r"), (b"\r\n6003\r\n", b""),  # a terminal without marks
        (b">>> ", b"\x04")])
    assert status == 0 and seen.count(b"\x1b[?2004h") == seen.count(b"\x1b[?2004l") == 1, seen


def test_the_history_is_a_private_file_and_comes_back(work):
    file = work.state / "code_history"
    status, seen = typed(work, "-s", "work", steps=[(b">>> ", b"11*1000\r"), (b"\r\n11000\r\n", b""), (b">>> ", b"\x04")])
    assert status == 0 and file.read_text() == "11*1000\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.stat().st_uid == os.geteuid()
    status, seen = typed(work, "-s", "work", steps=[(b">>> ", UP + b"\r"), (b"\r\n11000\r\n", b""), (b">>> ", b"\x04")])
    assert status == 0, seen


@pytest.mark.parametrize("args,env", [(["--no-history"], {}), ([], {"BAILEY_HISTORY": ""})])
def test_no_history_where_none_is_wanted(work, args, env):
    status, seen = typed(work, "-s", "work", *args, env=env, steps=[
        (b">>> ", b"11*1000\r"), (b"\r\n11000\r\n", b""),
        (b">>> ", UP + b"\r"), (b"\r\n11000\r\n", b""),  # of this prompt
        (b">>> ", b"\x04")])
    assert status == 0 and not (work.state / "code_history").exists(), seen


def test_another_file_and_one_that_cannot_be_used(work):
    mine = work.room.work / "mine"
    status, seen = typed(work, "-s", "work", env={"BAILEY_HISTORY": str(mine)}, steps=[(b">>> ", b"5\r"), (b">>> ", b"\x04")])
    assert status == 0 and mine.read_text() == "5\n", seen
    status, seen = typed(work, "-s", "work", env={"BAILEY_HISTORY": "/dev/null/x"}, steps=[
        (b"continuing without it", b""), (b">>> ", b"7*1000\r"), (b"\r\n7000\r\n", b""), (b">>> ", b"\x04")])
    assert status == 0 and b"/dev/null/x" in seen, seen


def test_output_without_a_newline_stays_visible(work):
    status, seen = typed(work, "-s", "work", steps=[
        (b">>> ", b"print('abc', end='')\r"), (b"abc\r\n", b""), (b">>> ", b"\x04")])
    assert status == 0, seen


def test_a_narrow_terminal_shows_a_part_of_the_line(work):
    line = b"print(" + b"1+" * 40 + b"4000)"
    status, seen = typed(work, "-s", "work", size=(24, 30), steps=[
        (b">>> ", line + b"\r"), (b"\r\n4040\r\n", b""), (b">>> ", b"\x04")])
    assert status == 0, seen
