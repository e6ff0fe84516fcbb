"""The result says how a run ended, for every ending, and nothing that is not so."""
import re
import signal

import pytest
import support

SMALL = ("--memory", "64m", "--disk", "16m")
FLAGS = ("timed_out", "oom_killed", "disk_full")


def assert_only(result, *flags):
    assert {f for f in FLAGS if result.meta[f]} == set(flags), result


def test_success(way):
    result = way.run_json("print('x')")
    assert (result["exit_code"], result.meta["signal"], result.error) == (0, None, None)
    assert_only(result)


def test_a_signal(way):
    result = way.run_json("import os; print('part', flush=True); os.abort()")
    assert result["exit_code"] == 128 + signal.SIGABRT
    assert result.meta["signal"] == signal.SIGABRT
    assert result["stdout"] == "part\n"
    assert_only(result)


def test_out_of_memory(way):
    code = "print('part', flush=True)\nx = b'x' * 500_000_000\nprint('survived')"
    result = way.run_json(code, *SMALL, "--timeout", "20")
    assert result.meta["oom_killed"] is True, result
    assert result["exit_code"] == 137 and result.meta["signal"] == signal.SIGKILL
    assert result["stdout"] == "part\n"
    assert not result.meta["timed_out"]
    assert result.meta["resource_limits"]["memory_bytes"] == 64 << 20


def test_out_of_memory_in_a_child_is_said_too(walled):
    code = ("import os\npid = os.fork()\n"
            "if pid == 0:\n    x = b'x' * 500_000_000\n    os._exit(0)\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
    result = walled.run_json(code, *SMALL, "--timeout", "20")
    assert result.meta["oom_killed"] is True, result


def test_a_kill_of_its_own_is_not_taken_for_out_of_memory(way):
    result = way.run_json("import os; os.kill(os.getpid(), 9)")
    assert (result["exit_code"], result.meta["signal"]) == (137, 9)
    assert_only(result)


def test_a_caught_memory_error_is_the_programs_own_affair():
    code = "try: x = bytearray(1 << 60)\nexcept MemoryError: print('caught')"
    result = support.run_json(code, *SMALL)
    assert (result["exit_code"], result["stdout"]) == (0, "caught\n")
    assert_only(result)


FILL = ("with open('big', 'wb') as f:\n"
        "    for _ in range(64): f.write(b'x' * (1 << 20)); f.flush()\n")


def test_disk_full(walled):
    result = walled.run_json(FILL, "--disk", "8m")
    assert result["exit_code"] == 1
    assert "No space left on device" in result["stderr"]
    assert_only(result, "disk_full")


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("place", ["/tmp/big", "/home/user/big", "/dev/shm/big"])
def test_disk_full_in_every_private_folder(place):
    result = support.run_json(FILL.replace("'big'", repr(place)), "--disk", "8m")
    assert result["exit_code"] == 1
    assert_only(result, "disk_full")


@pytest.mark.needs_namespaces
def test_disk_full_of_inodes():
    code = "for n in range(200000): open(f'f{n}', 'w').close()"
    result = support.run_json(code, "--disk", "4m")
    assert result["exit_code"] == 1
    assert "No space left on device" in result["stderr"]
    assert_only(result, "disk_full")


def test_disk_full_where_namespaces_are_refused(refused):
    """A watchdog holds the size there; it may end the run in place of an error inside."""
    code = FILL + "import time\ntime.sleep(20)"
    result = refused.run_json(code, "--disk", "8m", "--timeout", "25")
    assert result["exit_code"] != 0
    assert_only(result, "disk_full")


def test_a_disk_that_was_nearly_full_is_not_full():
    result = support.run_json("open('x', 'wb').write(b'x' * (4 << 20))", "--disk", "8m")
    assert result["exit_code"] == 0
    assert_only(result)


def test_timeout(way):
    code = "print('part', flush=True)\nimport time; time.sleep(60)"
    result = way.run_json(code, "--timeout", "1")
    assert (result["exit_code"], result["stdout"]) == (-1, "part\n")
    assert result["stderr"].rstrip().endswith("timed out after 1 s")
    assert_only(result, "timed_out")


def test_timeout_keeps_what_stderr_had():
    code = "import sys\nsys.stderr.write('warning\\n'); sys.stderr.flush()\nwhile True: pass"
    result = support.run_json(code, "--timeout", "1")
    assert result["stderr"].startswith("warning\n")
    assert "timed out after 1 s" in result["stderr"]


def test_refused(refused):
    result = refused.run_json("print(1)", "--isolation", "strict")
    assert (result["exit_code"], result.error["code"]) == (1, "refused")
    assert result["duration"] == 0
    assert_only(result)


def test_blocked_import():
    result = support.run_json("import os", env={"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"})
    assert (result["exit_code"], result.error["code"]) == (1, "blocked_import")
    assert_only(result)


def test_command_not_found():
    result = support.exec_json("no-such-program")
    assert (result["exit_code"], result.status) == (127, 127)
    assert result.error["code"] == "command_not_found"
    assert result.meta["signal"] is None


def test_bad_input_is_a_result_too_with_json():
    done = support.bailey("run", "--json", "nowhere.py")
    assert done.status == 125
    result = done.json()
    assert result["exit_code"] == 1
    assert "nowhere.py" in result["meta"]["error"]["message"]


@pytest.mark.parametrize("attempt", range(8))  # the report races with the end of the child
@pytest.mark.parametrize("call", ["pivot_root", "sethostname"])
def test_a_box_that_could_not_be_made_names_stage_and_errno(call, attempt):
    """Either the engine knows how to go without, and says so, or the failed stage is named."""
    result = support.run_json("print('ran')", deny=[call])
    if result.error is None:
        assert result.meta["isolation"]["missing"], result
        return
    assert (result["exit_code"], result["stdout"], result.status) == (1, "", 125)
    assert result.error["code"] == "box_failed"
    assert result.error["errno"] in ("EPERM", 1)
    assert re.search(r"\w: EPERM", result.error["message"]), result.error
    assert result.error["stage"] in result.error["message"]


def test_the_failed_stage_is_shown_on_the_command_line():
    result = support.run_json("print('ran')", deny=["sethostname"])
    if not result.error or result.error["code"] != "box_failed":
        pytest.skip("this engine goes without a hostname of its own")
    done = support.bailey("run", "-c", "print('ran')", deny=["sethostname"])
    assert done.status == 125
    assert f"{result.error['stage']}: EPERM" in done.stderr
