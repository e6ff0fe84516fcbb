"""terminals.py - sandbox.pty: terminals."""
import pytest
from e2b import CommandExitException
from e2b.sandbox.commands.command_handle import PtySize


def read_until(handle, word):
    text = b""
    for _, _, data in handle:
        text += data or b""
        if word in text:
            return text
    raise AssertionError(text)


def test_a_terminal_is_one(sandbox):
    handle = sandbox.pty.create(PtySize(rows=30, cols=100), envs={"ABC": "123"}, cwd="/tmp")
    sandbox.pty.send_stdin(handle.pid, b"tty; stty size; echo =$ABC=; pwd; echo $TERM; echo do''ne\n")
    text = read_until(handle, b"done\r\n")
    for wanted in (b"/dev/pts/", b"30 100", b"=123=", b"/tmp", b"xterm-256color"):
        assert wanted in text, text
    sandbox.pty.resize(handle.pid, PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(handle.pid, b"stty size; echo ag''ain\n")
    assert b"40 120" in read_until(handle, b"again\r\n")
    sandbox.pty.send_stdin(handle.pid, b"exit 0\n")
    handle.wait()


def test_a_terminal_is_killed(sandbox):
    handle = sandbox.pty.create(PtySize(rows=24, cols=80))
    assert sandbox.pty.kill(handle.pid) is True
    with pytest.raises(CommandExitException):
        handle.wait()
    assert sandbox.pty.kill(handle.pid) is False


def test_a_terminals_input_cannot_be_closed(sandbox):
    handle = sandbox.pty.create(PtySize(rows=24, cols=80))
    with pytest.raises(Exception, match="Ctrl-D"):
        sandbox.commands.close_stdin(handle.pid)
    sandbox.pty.kill(handle.pid)
