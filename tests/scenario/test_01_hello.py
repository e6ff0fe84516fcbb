"""Scenario 1: print('Hello') gives its output, exit 0 and a measured duration, with no daemon."""
import time

import pytest
import support


def test_hello_comes_back_with_exit_0_and_a_duration(way):
    before = time.monotonic()
    result = way.run_json("print('Hello')")
    wall = time.monotonic() - before
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("Hello\n", "", 0)
    assert result.status == 0
    assert isinstance(result["duration"], float)
    assert 0 < result["duration"] <= wall  # of the program: a part of what the caller waited


def test_hello_on_a_plain_command_line():
    done = support.bailey("run", "-c", "print('Hello')")
    assert (done.status, done.out, done.err) == (0, b"Hello\n", b"")


def test_no_daemon_stays_behind():
    before = support.processes()
    support.run_json("print('Hello')")
    assert support.processes() - before == set()


@pytest.mark.needs_namespaces
def test_each_run_is_a_fresh_box(room):
    first = support.run_json("open('seen', 'w').write('1'); open('/tmp/seen', 'w').write('1')",
                             room=room)
    assert first["exit_code"] == 0, first
    code = "from os.path import exists\nprint(exists('seen'), exists('/tmp/seen'))"
    second = support.run_json(code, room=room)
    assert second["stdout"] == "False False\n"


def test_execution_ids_are_never_used_twice():
    ids = {support.run_json("pass").meta["execution_id"] for _ in range(3)}
    assert len(ids) == 3 and all(ids)
