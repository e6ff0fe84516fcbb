"""Colours: on terminals only, and none where NO_COLOR or TERM=dumb says so."""
import pytest
from daemon_fixture import DaemonFixture, on_terminal

HEADING, ERROR, END = b"\x1b[1m", b"\x1b[1;31m", b"\x1b[0m"


@pytest.fixture
def daemon():
    daemon = DaemonFixture()
    yield daemon
    daemon.close()


def shown(daemon, *args, **env):
    """What a terminal gets, with plain newlines."""
    return on_terminal(daemon, *args, env=env)[1].replace(b"\r\n", b"\n")


def plain(text):
    return text.replace(HEADING, b"").replace(ERROR, b"").replace(END, b"")


def test_headings_of_help_and_tables_and_errors_have_colours(daemon):
    text = shown(daemon, "help", "run")
    assert HEADING + b"Usage:" + END + b" bailey run " in text and HEADING + b"Options:" + END in text
    assert HEADING + b"Sessions:" + END in shown(daemon, "help")
    assert HEADING + b"To begin:" + END in shown(daemon)
    assert ERROR + b"bailey:" + END + b" unknown command" in shown(daemon, "nonsense")
    assert shown(daemon, "session", "ls").startswith(HEADING + b"ID ")
    assert ERROR + b"bailey:" + END + b" there is no session" in shown(daemon, "session", "show", "none")


CALLS = [("help", "run"), ("help",), (), ("nonsense",), ("session", "ls"), ("session", "show", "none")]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_there_are_none_where_they_are_not_wanted(daemon, env):
    for args in CALLS:
        coloured = shown(daemon, *args)
        assert b"\x1b" in coloured, args
        assert shown(daemon, *args, **env) == plain(coloured), args


def test_there_are_none_without_a_terminal(daemon):
    for args in CALLS:
        done = daemon.call(*args, env={"TERM": "xterm"})
        assert b"\x1b" not in done.out + done.err, args


def test_an_empty_no_color_does_not_count(daemon):
    assert HEADING in shown(daemon, "help", NO_COLOR="")
