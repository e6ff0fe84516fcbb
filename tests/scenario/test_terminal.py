"""What the guest prints to a terminal is made harmless, unless --raw; a pipe gets every byte."""
import pytest
import support

NASTY = {
    "colour": b"\x1b[31m",
    "title": b"\x1b]0;owned\x07",
    "clipboard": b"\x1b]52;c;ZXZpbA==\x07",
    "device report": b"\x1b[6n",
    "bell": b"\x07",
    "backspaces": b"safe\x08\x08\x08\x08evil",
    "shift out": b"\x0e",
    "c1 csi as utf-8": b"\xc2\x9b31m",
    "c1 osc as a byte": b"\x9d0;owned\x9c",
    "delete": b"\x7f",
}
HARMFUL = (b"\x1b", b"\x07", b"\x08", b"\x0e", b"\x7f", b"\xc2\x9b", b"\x9d", b"\x9c", b"\x9b")


def program(data, stream="stdout"):
    return (f"import sys; sys.{stream}.buffer.write(b'<<' + {data!r} + b'>>')\n"
            f"sys.{stream}.buffer.flush()")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("name", NASTY)
def test_control_sequences_do_not_reach_a_terminal(name, stream):
    status, seen = support.on_terminal("run", "-c", program(NASTY[name], stream))
    assert status == 0
    shown = seen[seen.index(b"<<"):seen.index(b">>") + 2]
    for harmful in HARMFUL:
        assert harmful not in shown, shown


def test_raw_lets_them_through():
    _, seen = support.on_terminal("run", "--raw", "-c", program(NASTY["colour"]))
    assert b"<<\x1b[31m>>" in seen


def test_a_sequence_cut_in_two_writes_is_caught_too():
    code = ("import os\nfor b in b'<<\\x1b]0;owned\\x07\\xc2\\x9b31m>>': os.write(1, bytes([b]))")
    _, seen = support.on_terminal("run", "-c", code)
    for harmful in HARMFUL:
        assert harmful not in seen, seen


def test_text_lines_and_tabs_are_as_they_were():
    code = "print('a\\tb\\nhäßlich 日本 €')"
    status, seen = support.on_terminal("run", "-c", code)
    assert status == 0
    assert "a\tb\r\nhäßlich 日本 €\r\n".encode() in seen  # the terminal adds the \r


def test_utf8_cut_in_two_writes_is_whole_again():
    code = "import os\nfor b in '日本€ß'.encode(): os.write(1, bytes([b]))"
    _, seen = support.on_terminal("run", "-c", code)
    assert "日本€ß".encode() in seen


def test_a_pipe_gets_them_unchanged():
    data = b"".join(NASTY.values())
    assert support.bailey("run", "-c", program(data)).out == b"<<" + data + b">>"


def test_exec_is_sanitised_too():
    _, seen = support.on_terminal("exec", "--", "/usr/bin/printf", "<<\\033[31m>>")
    assert b"\x1b" not in seen and b"<<" in seen and b">>" in seen


def test_the_guest_has_no_hold_of_the_callers_terminal():
    code = ("import os, sys\n"
            "print([os.isatty(n) for n in range(3)])\n"
            "try: os.open('/dev/tty', os.O_RDWR); print('opened')\n"
            "except OSError: print('no terminal')")
    _, seen = support.on_terminal("run", "-c", code)
    assert b"[False, False, False]" in seen and b"no terminal" in seen


def test_error_messages_do_not_carry_control_sequences_either():
    status, seen = support.on_terminal("run", "no\x1b[31msuch\x07file.py")
    assert status == 125
    seen = seen.removeprefix(b"\x1b[1;31mbailey:\x1b[0m ")  # our own
    assert b"\x1b" not in seen and b"\x07" not in seen
