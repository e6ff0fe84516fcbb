"""Scenario 3: an endless loop is killed at its timeout, leaves no zombie and keeps its output."""
import support

LOOP = "print('before the loop', flush=True)\nwhile True: pass"
ENOUGH = "3"  # seconds in which a busy machine gets to a program's first line


def test_endless_loop_is_killed_at_5_seconds_and_keeps_its_output():
    spins = "import time\nwhile time.process_time() < 0.05: pass\n" + LOOP
    result = support.run_json(spins, "--timeout", "5")
    assert result["exit_code"] == -1
    assert result.status == 124
    assert result["stdout"] == "before the loop\n"
    assert "timed out after 5 s" in result["stderr"]
    assert result.meta["timed_out"] is True
    assert result["duration"] >= 5
    assert result.meta["usage"]["cpu_ms"] >= 50  # it spun, and the kernel counted it


def test_a_timeout_leaves_no_process_not_even_a_zombie(way):
    before = set(support.descendants())
    result = way.run_json(LOOP, "--timeout", ENOUGH)
    left = {pid: what for pid, what in support.descendants().items() if pid not in before}
    assert left == {}
    assert (result["exit_code"], result.status) == (-1, 124)
    assert result["stdout"] == "before the loop\n"
    assert f"timed out after {ENOUGH} s" in result["stderr"]


def test_a_timeout_on_a_plain_command_line_is_124_and_says_so():
    done = support.bailey("run", "--timeout", ENOUGH, "-c", LOOP)
    assert done.status == 124
    assert done.out == b"before the loop\n"
    assert f"timed out after {ENOUGH} s" in done.stderr


def test_the_timeout_also_ends_what_ignores_every_signal():
    code = ("import signal, os\n"
            "for n in range(1, 65):\n"
            "    try: signal.signal(n, signal.SIG_IGN)\n"
            "    except (OSError, ValueError): pass\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
            "os.fork()\n"
            "while True: pass")
    result = support.run_json(code, "--timeout", "1")
    assert (result["exit_code"], result.meta["timed_out"]) == (-1, True)


def test_the_timeout_also_ends_what_has_stopped_itself(way):
    result = way.run_json("import os, signal\nprint('here', flush=True)\n"
                          "os.kill(os.getpid(), signal.SIGSTOP)", "--timeout", ENOUGH)
    assert (result["exit_code"], result["stdout"]) == (-1, "here\n")


def test_timeout_comes_from_the_environment_too():
    result = support.run_json("while True: pass", env={"SANDBOX_TIMEOUT_SEC": "1"})
    assert (result["exit_code"], result.meta["resource_limits"]["timeout_s"]) == (-1, 1)
