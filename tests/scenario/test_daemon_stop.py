"""`bailey daemon stop` with live sessions: it asks, or wants --force, and says what it ended."""
import os
import signal

import pytest

import daemon_fixture
import support


@pytest.fixture
def own():
    made = daemon_fixture.DaemonFixture()
    yield made
    made.close()


def test_without_sessions_it_just_stops(own):
    own.ok("session", "ls")
    done = own.call("daemon", "stop")
    assert (done.status, done.stdout, done.stderr) == (0, "", ""), done


def test_live_sessions_need_force(own):
    session = own.session("--name", "work")
    done = own.call("daemon", "stop")
    assert done.status == 125, done
    assert f"1 live session would end, with all files: work ({session})" in done.stderr, done
    assert "--force" in done.stderr and own.is_running(), done
    told = own.call("daemon", "stop", "--json")
    assert told.status == 125 and session in told.json()["error"]["message"], told
    assert own.is_running()
    other = own.session()
    done = own.call("daemon", "stop", "--force")
    assert done.status == 0 and done.stdout == "", done
    assert "ended 2 sessions: " in done.stderr and f"work ({session})" in done.stderr and other in done.stderr, done
    assert not own.is_running()


def test_json_lists_what_ended(own):
    session = own.session()
    told = own.json("daemon", "stop", "--force", "--json")
    assert told["stopped"] is True and told["ended_sessions"] == [session], told


@pytest.mark.parametrize("answer, status", [(b"n\n", 1), (b"\n", 1), (b"y\n", 0)])
def test_on_a_terminal_it_asks(own, answer, status):
    session = own.session()
    ended, seen = daemon_fixture.on_terminal(own, "daemon", "stop", steps=[(b"[y/N] ", answer)])
    assert ended == status and session.encode() in seen, (ended, seen)
    assert own.is_running() == (status == 1)
    assert (b"was not stopped" in seen) == (status == 1), seen
    assert (b"ended 1 session" in seen) == (status == 0), seen


def test_sigterm_never_asks(own):
    own.session()
    os.kill(own.info()["launcher_pid"], signal.SIGTERM)
    support.wait_until(lambda: support.reap_orphans() or not own.is_running(), "it has ended")
