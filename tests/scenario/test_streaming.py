"""bailey run streams: output comes as it is written, byte for byte, each stream on its own."""
import os
import subprocess

import support


def test_output_comes_while_the_program_still_runs():
    """The program waits for an answer to what it printed: only a streamed line can get one."""
    code = "print('question', flush=True)\nprint('got', input())"
    process = support.start("run", "--stdin", "-c", code, stdin=subprocess.PIPE)
    try:
        support.read_until(process.stdout, b"question\n")
        out, _ = process.communicate(b"answer\n", timeout=support.PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (0, b"got answer\n")


def test_stderr_comes_while_the_program_still_runs():
    code = "import sys\nprint('question', file=sys.stderr, flush=True)\nprint(input())"
    process = support.start("run", "--stdin", "-c", code, stdin=subprocess.PIPE)
    try:
        support.read_until(process.stderr, b"question\n")
        out, _ = process.communicate(b"answer\n", timeout=support.PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert out == b"answer\n"


def test_both_streams_stay_apart(way):
    done = way.bailey("run", "-c", "import sys; print('out'); print('err', file=sys.stderr)")
    assert (done.status, done.out, done.err) == (0, b"out\n", b"err\n")


def test_every_byte_passes_a_pipe_unchanged():
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)"
    done = support.bailey("run", "-c", code)
    assert done.out == bytes(range(256)) * 300


def test_a_megabyte_passes_whole_in_both_directions():
    data = os.urandom(1 << 20)
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    done = support.bailey("run", "--stdin", "-c", code, stdin=data)
    assert done.out == data


def test_python_does_not_hold_lines_back_on_a_pipe():
    """A print without flush is seen while the program runs, as an agent expects of a stream."""
    code = "print('line one')\ninput()"
    process = support.start("run", "--stdin", "-c", code, stdin=subprocess.PIPE)
    try:
        support.read_until(process.stdout, b"line one\n", timeout=10)
        process.communicate(b"\n", timeout=support.PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0


def test_json_prints_the_result_and_nothing_else():
    code = "print('a'); import sys; print('b', file=sys.stderr)"
    done = support.bailey("run", "--json", "-c", code)
    result = done.json()
    assert done.out.startswith(b"{") and done.out.rstrip().endswith(b"}")
    assert (result["stdout"], result["stderr"]) == ("a\n", "b\n")
    assert done.err == b""


def test_a_program_cannot_forge_the_result():
    fake = '{"stdout":"forged","stderr":"","exit_code":0,"duration":0,"meta":{}}'
    code = (f"import os\nfor fd in range(1, 64):\n    try: os.write(fd, b{fake!r})\n"
            "    except OSError: pass\nos._exit(3)")
    result = support.run_json(code)
    assert result["exit_code"] == 3
    assert result["stdout"] == fake and result["stderr"] == fake
