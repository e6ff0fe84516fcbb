"""The exit status of the command line is the program's own, or one of 124, 125, 126, 127."""
import signal

import pytest
import support


@pytest.mark.parametrize("code", [0, 1, 2, 42, 124, 125, 126, 127, 255])
def test_the_programs_own_status_is_ours(code):
    done = support.bailey("run", "-c", f"raise SystemExit({code})")
    assert done.status == code


def test_the_result_tells_a_collision_apart():
    own = support.run_json("raise SystemExit(124)")
    assert (own.status, own["exit_code"], own.meta["timed_out"]) == (124, 124, False)
    refused = support.run_json("raise SystemExit(126)")
    assert (refused.status, refused["exit_code"], refused.error) == (126, 126, None)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT", "SIGUSR1"])
def test_a_signal_is_128_plus_its_number(name):
    number = getattr(signal, name)
    result = support.run_json(f"import os; os.kill(os.getpid(), {int(number)})")
    assert (result.status, result["exit_code"], result.meta["signal"]) == (
        128 + number, 128 + number, number)


def test_exit_137_is_not_taken_for_a_signal():
    result = support.run_json("raise SystemExit(137)")
    assert (result["exit_code"], result.meta["signal"], result.meta["oom_killed"]) == (137, None,
                                                                                      False)


def test_timeout_is_124():
    assert support.bailey("run", "--timeout", "1", "-c", "while True: pass").status == 124


def test_bad_input_is_125():
    assert support.bailey("run", "--no-such-option", "-c", "pass").status == 125


def test_refused_isolation_is_126(refused):
    assert refused.bailey("run", "--isolation", "strict", "-c", "pass").status == 126


def test_blocked_import_is_126():
    env = {"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"}
    assert support.bailey("run", "-c", "import os", env=env).status == 126


def test_command_not_found_is_127():
    assert support.bailey("exec", "--", "no-such-program").status == 127


def test_the_status_is_the_same_in_all_ways(way):
    assert way.bailey("run", "-c", "raise SystemExit(7)").status == 7
    result = way.run_json("import os; os.kill(os.getpid(), 9)")
    assert (result["exit_code"], result.meta["signal"]) == (137, 9)
