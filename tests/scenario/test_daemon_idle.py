"""A daemon that was started on demand leaves by itself; one that is needed does not."""
import json
import os
import select
import time

import pytest

import support
import daemon_fixture


@pytest.fixture
def idle_daemon():
    place = daemon_fixture.DaemonFixture(env={"BAILEY_DAEMON_IDLE": "1s"})
    yield place
    place.close()


def daemon_of(place):
    """A descriptor of the daemon: looking at it by bailey would be a client."""
    pid = json.loads((place.state / "daemon.json").read_text())["pid"]
    return os.pidfd_open(pid)


def has_left(daemon, seconds):
    ready, _, _ = select.select([daemon], [], [], seconds)
    return bool(ready)


def test_it_leaves_without_session_and_client(idle_daemon):
    session = idle_daemon.session()
    daemon = daemon_of(idle_daemon)
    idle_daemon.ok("session", "rm", session)
    assert has_left(daemon, 60)
    support.reap_orphans()  # who has not been buried does not count as gone
    assert not idle_daemon.is_running()
    assert idle_daemon.session().startswith("s_")  # and the next that needs one starts one


def test_it_stays_while_there_is_a_session(idle_daemon):
    session = idle_daemon.session()
    daemon = daemon_of(idle_daemon)
    assert not has_left(daemon, 3)
    assert idle_daemon.exec(session, "true").status == 0


def test_it_stays_while_clients_come(idle_daemon):
    idle_daemon.ok("session", "rm", idle_daemon.session())
    daemon = daemon_of(idle_daemon)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        idle_daemon.ok("session", "ls")
        assert not has_left(daemon, 0.1)
