"""Scenario 4: output over the limit is cut exactly there, counted to the end, in flat memory."""
import os
import subprocess

import pytest
import support

LINES = "for _ in range(100000): print('X' * 100)"
MARK = "... (output truncated)"


def body(text):
    """The kept text before the mark; the mark may begin a line of its own."""
    assert text.endswith(MARK), text[-80:]
    return text[:-len(MARK)]


def test_100000_lines_are_cut_at_the_limit(way):
    result = way.run_json(LINES, env={"SANDBOX_MAX_OUTPUT_KB": "10"})
    whole = ("X" * 100 + "\n") * 102
    assert body(result["stdout"]) in (whole[:10240], whole[:10240] + "\n")
    meta = result.meta
    assert meta["truncated"] and meta["stdout_truncated"] and not meta["stderr_truncated"]
    assert meta["stdout_bytes"] == 100000 * 101
    assert meta["resource_limits"]["output_bytes"] == 10240
    assert (result["exit_code"], result.status) == (0, 0)


def test_the_default_limit_is_10_kb():
    assert support.run_json("pass").meta["resource_limits"]["output_bytes"] == 10240


def test_stderr_has_a_limit_of_its_own():
    code = "import sys; print('out'); sys.stderr.write('e' * 3000)"
    result = support.run_json(code, env={"SANDBOX_MAX_OUTPUT_KB": "1"})
    assert result["stdout"] == "out\n"
    assert result["stderr"] == "e" * 512 + "\n... (output truncated)\n" + "e" * 512
    assert result.meta["stderr_truncated"] and not result.meta["stdout_truncated"]
    assert result.meta["truncated"]
    assert result.meta["stderr_bytes"] == 3000


@pytest.mark.parametrize("size, cut", [(1023, False), (1024, False), (1025, True)])
def test_the_limit_is_exact(size, cut):
    result = support.run_json(f"print('y' * {size}, end='')", env={"SANDBOX_MAX_OUTPUT_KB": "1"})
    assert result.meta["stdout_truncated"] is cut
    assert result.meta["stdout_bytes"] == size
    text = body(result["stdout"]).rstrip("\n") if cut else result["stdout"]
    assert text == "y" * min(size, 1024)


def test_a_streaming_run_is_not_cut():
    done = support.bailey("run", "-c", LINES, env={"SANDBOX_MAX_OUTPUT_KB": "1"})
    assert (done.status, done.out) == (0, (b"X" * 100 + b"\n") * 100000)


def peak(*args):
    """Status, bytes on stdout and peak memory of a run, its own children included."""
    process = support.start(*args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    got = 0
    while piece := os.read(process.stdout.fileno(), 1 << 20):
        got += len(piece)
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, got, usage.ru_maxrss * 1024


def flood(gigabytes):
    return ("import os\n"
            "block = b'z' * (1 << 20)\n"
            f"for _ in range({gigabytes} * 1024):\n"
            "    left = memoryview(block)\n"
            "    while left: left = left[os.write(1, left):]\n")


SIZES = [1, 10] if os.environ.get("BAILEY_TEST_LONG") else [1]  # 10 GB takes a while


@pytest.mark.parametrize("gigabytes", SIZES)
def test_gigabytes_of_output_cost_flat_memory(gigabytes):
    _, _, little = peak("run", "--json", "-c", "b = b'z' * (1 << 20)")
    status, _, much = peak("run", "--json", "--timeout", "600", "-c", flood(gigabytes))
    assert status == 0
    assert much - little < 32 << 20, f"{little} bytes for no output, {much} for the flood"


def test_gigabytes_of_output_are_counted():
    result = support.run_json(flood(1), "--timeout", "600")
    assert result.meta["stdout_bytes"] == 1 << 30
    assert result.meta["stdout_truncated"]


def test_a_flood_does_not_delay_the_kill():
    result = support.run_json("import os\nwhile True: os.write(1, b'z' * 65536)", "--timeout", "1")
    assert (result["exit_code"], result.meta["timed_out"]) == (-1, True)
    assert result.meta["stdout_truncated"]


def test_a_reader_that_does_not_read_cannot_stop_the_timeout():
    """Nobody reads the pipe: the program ends at its deadline; what was taken is there to read."""
    process = support.start("run", "--timeout", "1", "-c", "while True: print('z' * 1000)")
    try:
        running = lambda: any("python" in w for w in support.descendants(process.pid).values())
        support.wait_until(running, "a python beneath bailey")
        support.wait_until(lambda: not running(), "the program is killed")
        out, _ = process.communicate(timeout=support.PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 124
    assert set(out) == set(b"z\n")


def test_a_reader_that_leaves_ends_the_run():
    process = support.start("run", "-c", "while True: print('z' * 1000)")
    support.read_until(process.stdout, b"zzz")
    process.stdout.close()
    try:
        process.wait(support.PATIENCE)
    finally:
        process.kill()
        process.stderr.close()
        process.wait()
    assert process.returncode != 0
