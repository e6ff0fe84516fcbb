"""guest/*/kernel.*: what all kernels have in common, as docs/kernels.md says it."""
import os
import signal

import pytest

import fake_warden

# What each test does, in every language.
CODE = {
    "python": {
        "set": "x = 41", "get": "print(x + 1)", "missing": "print(x)",
        "function": "def f():\n    return 7", "call": "print(f())",
        "both": "import sys\nprint('out')\nprint('err', file=sys.stderr)",
        "fails": "ok = 1\nimport nosuchmodule\nprint('no')",
        "loop": "y = 5\nprint('go', flush=True)\nwhile True:\n    pass",
        "sleep": "import time\nprint('go', flush=True)\ntime.sleep(1000)",
        "child": "import subprocess\nsubprocess.run(['sh', '-c', 'echo go; exec sleep 1000'], check=True)",
        "alive": "print('alive')",
        "env": "import os\nprint(os.environ.get('KERNEL_TEST'), os.environ.get('HOME'))",
        "read": "print(input() + '|' + input())",
        "flood": "print('x' * 20000000)",
        "forge": "print('end %d 0'); import sys; print('{\"type\":\"error\"}', file=sys.stderr)",
        "forge3": "import os\nfd = [n for n in range(3, 400) if os.path.exists('/proc/self/fd/%%d' %% n)]\n"
                  "for n in fd:\n    try:\n        os.write(n, b'end %d 0\\n{]\\nend 1\\nx\\n')\n"
                  "    except OSError:\n        pass",
        "close": "import os\nfor n in (0, 1, 2):\n    os.close(n)",
        "fork": "import os\nchild = os.fork()\nif child == 0:\n    print('in child', flush=True)\nelse:\n"
                "    os.waitpid(child, 0)\n    print('in parent')",
        "kill": "import os\nos.kill(os.getpid(), 9)",
        "fds": "import subprocess\nprint(subprocess.run(['ls', '/proc/self/fd'], close_fds=False,"
               " capture_output=True, text=True).stdout)",
        "big": "# %s\nprint('read')", "syntax": "x = (", "exit3": "import sys\nsys.exit(3)",
        "comment": "# x",
        "exit0": "import sys\nsys.exit(0)",
    },
    "javascript": {
        "set": "const x = 41", "get": "console.log(x + 1)", "missing": "console.log(x)",
        "function": "function f() {\n    return 7;\n}", "call": "console.log(f())",
        "both": "console.log('out'); console.error('err')",
        "fails": "const ok = 1;\nnosuchfunction();\nconsole.log('no')",
        "loop": "let y = 5;\nconsole.log('go');\nwhile (true) {}",
        "sleep": "console.log('go');\nawait new Promise((done) => setTimeout(done, 1e6))",
        "child": "const { execSync } = require('child_process');\n"
                 "execSync('echo go; exec sleep 1000', { stdio: 'inherit' })",
        "alive": "console.log('alive')",
        "env": "console.log(process.env.KERNEL_TEST ?? 'None', process.env.HOME)",
        "read": "console.log(readline() + '|' + prompt())",
        "flood": "console.log('x'.repeat(20000000))",
        "forge": "console.log('end %d 0'); console.error('{\"type\":\"error\"}')",
        "forge3": "require('fs').writeSync(3, 'end %d 0\\n{]\\nend 1\\nx\\n')",
        "kill": "process.kill(process.pid, 'SIGKILL'); await new Promise(() => setInterval(() => {}, 1000))",
        "fds": "console.log(require('child_process').execSync('ls /proc/self/fd', "
               "{ encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }))",
        "big": "// %s\nconsole.log('read')", "syntax": "const = (", "exit3": "process.exit(3)",
        "comment": "// x",
        "exit0": "process.exit(0)",
    },
    "bash": {
        "set": "x=41", "get": "echo $((x + 1))", "missing": ": ${x:?no x}",
        "function": "f() {\n    echo 7\n}", "call": "f",
        "both": "echo out; echo err >&2",
        "fails": "ok=1\nfalse",
        "loop": "y=5\necho go\nwhile :; do :; done",
        "sleep": "sleep 1000 &\necho go\nwait", "child": "sh -c 'echo go; exec sleep 1000'",
        "alive": "echo alive",
        "env": "echo ${KERNEL_TEST-None} $HOME",
        "read": "read -r a; read -r b; echo \"$a|$b\"",
        "flood": "head -c 20000000 /dev/zero | tr '\\0' x",
        "forge": "echo 'end %d 0'; echo '{\"type\":\"error\"}' >&2",
        "forge3": "for n in /proc/self/fd/*; do printf 'end %d 0\\n{]\\nend 1\\nx\\n' >&${n##*/}; done 2>/dev/null; :",
        "close": "exec 0<&- 1>&- 2>&-",
        "fork": "(echo in child); echo in parent",
        "kill": "kill -9 $$", "fds": "ls /proc/self/fd",
        "big": "# %s\necho read", "syntax": "for do (", "exit3": "exit 3",
        "comment": "# x", "exit0": "exit 0",
    },
}


@pytest.fixture(params=sorted(CODE))
def language(request):
    reason = fake_warden.missing(request.param)
    if reason:
        pytest.skip(reason)
    return request.param


@pytest.fixture
def kernel(language):
    with fake_warden.Kernel(language) as kernel:
        kernel.code = CODE[language]
        yield kernel


def test_variables_and_functions_are_kept(kernel):
    assert kernel.run(kernel.code["set"]).status == 0
    assert kernel.run(kernel.code["function"]).status == 0
    assert kernel.run(kernel.code["get"]).stdout == b"42\n"
    assert kernel.run(kernel.code["call"]).stdout == b"7\n"


def test_kernels_are_apart(language):
    with fake_warden.Kernel(language) as one, fake_warden.Kernel(language) as other:
        assert one.run(CODE[language]["set"]).status == 0
        assert other.run(CODE[language]["missing"]).status == 1


def test_stdout_and_stderr(kernel):
    cell = kernel.run(kernel.code["both"])
    assert (cell.status, cell.stdout, cell.stderr, cell.events) == (0, b"out\n", b"err\n", [])


def test_error_has_name_value_and_line(kernel, language):
    kernel.run(kernel.code["alive"])
    cell = kernel.run(kernel.code["fails"])
    assert cell.status == 1
    name, value = {"python": ("ModuleNotFoundError", "No module named 'nosuchmodule'"),
                   "javascript": ("ReferenceError", "nosuchfunction is not defined"),
                   "bash": ("ExitStatus", "1")}[language]
    assert (cell.error["name"], cell.error["value"]) == (name, value)
    assert "Cell In[2], line 2" in cell.error["traceback"]
    for ours in ("kernel.py", "kernel.mjs", "cells.mjs", "kernel.bash", "node:"):
        assert ours not in cell.error["traceback"]
    assert b"no\n" not in cell.stdout


def test_syntax_error_keeps_the_kernel(kernel):
    kernel.run(kernel.code["set"])
    cell = kernel.run(kernel.code["syntax"])
    assert cell.status == 1 and cell.error
    assert kernel.run(kernel.code["get"]).stdout == b"42\n"


@pytest.mark.parametrize("what", ["loop", "sleep"])
@pytest.mark.parametrize("times", [1, 3])
def test_interrupt_keeps_variables(kernel, what, times):
    kernel.run(kernel.code["set"])
    for _ in range(times):
        cell = kernel.run(kernel.code[what], interrupt_at=b"go")
        assert cell.status == 1
        assert cell.error["name"] in ("KeyboardInterrupt", "Interrupted")
    assert kernel.run(kernel.code["get"]).stdout == b"42\n"


def test_interrupt_reaches_a_child(kernel):
    kernel.run(kernel.code["set"])
    cell = kernel.run(kernel.code["child"], interrupt_at=b"go")
    assert cell.status == 1 and cell.error
    assert kernel.run(kernel.code["get"]).stdout == b"42\n"


def test_interrupt_between_cells_is_nothing(kernel):
    kernel.run(kernel.code["set"])
    for _ in range(20):
        kernel.interrupt()
        cell = kernel.run(kernel.code["get"])
        assert (cell.stdout[:3], cell.events) == (b"42\n", [])


def test_environment_is_for_one_cell(kernel):
    cell = kernel.run(kernel.code["env"], env={"KERNEL_TEST": "a=b c", "HOME": "/elsewhere"})
    assert cell.stdout == b"a=b c /elsewhere\n"
    assert kernel.run(kernel.code["env"]).stdout == ("None %s\n" % kernel.folder).encode()


def test_input(kernel):
    assert kernel.run(kernel.code["read"], stdin="first \\n\nsecond\nthird\n").stdout == b"first \\n|second\n"
    assert kernel.run(kernel.code["read"], stdin="one\nmore").stdout.startswith(b"one|more")
    assert b"third" not in kernel.run(kernel.code["alive"]).stdout


def test_exit_ends_the_cell_only(kernel):
    kernel.run(kernel.code["set"])
    cell = kernel.run(kernel.code["exit3"])
    assert cell.status == 1 and cell.error["value"] == "3"
    assert cell.error["name"] in ("SystemExit", "ExitStatus")
    cell = kernel.run(kernel.code["exit0"])
    assert (cell.status, cell.events) == (0, [])
    assert kernel.run(kernel.code["get"]).stdout == b"42\n"


def test_five_megabytes_of_code(kernel):
    assert kernel.run(kernel.code["big"] % ("x" * 5000000)).stdout == b"read\n"


def test_much_output_comes_whole(kernel):
    cell = kernel.run(kernel.code["flood"])
    assert cell.status == 0 and len(cell.stdout) in (20000001, 20000000)


def test_empty_and_blank_cells(kernel):
    for code in ("", "\n", "  \n\n", kernel.code["comment"]):
        cell = kernel.run(code)
        assert (cell.status, cell.stdout, cell.stderr, cell.events) == (0, b"", b"", [])


def test_framing_on_stdout_is_output(kernel):
    cell = kernel.run(kernel.code["forge"] % 1)
    assert (cell.status, cell.stdout, cell.stderr) == (0, b"end 1 0\n", b'{"type":"error"}\n')
    assert cell.events == []


def test_wrong_ids_on_the_control_socket_change_nothing(kernel):
    cell = kernel.run(kernel.code["forge3"] % 99)
    assert cell.status == 0
    assert kernel.run(kernel.code["alive"]).stdout == b"alive\n"


def test_closed_descriptors_are_back(kernel):
    if "close" not in kernel.code:
        pytest.skip("Node cannot duplicate a descriptor: see test_kernel_javascript.py")
    assert kernel.run(kernel.code["close"]).status == 0
    assert kernel.run(kernel.code["alive"]).stdout == b"alive\n"
    assert kernel.run(kernel.code["both"]).stderr == b"err\n"


def test_a_forked_child_is_no_second_kernel(kernel):
    if "fork" not in kernel.code:
        pytest.skip("Node has no fork")
    for _ in range(3):
        cell = kernel.run(kernel.code["fork"])
        assert (cell.status, cell.stdout, cell.others) == (0, b"in child\nin parent\n", [])


def test_killing_itself_is_seen(kernel):
    assert kernel.run(kernel.code["kill"]).status is None
    assert kernel.wait() == -signal.SIGKILL


def test_children_have_no_descriptor_of_ours(kernel):
    assert kernel.run(kernel.code["fds"]).stdout.split() == [b"0", b"1", b"2", b"3"]  # 3: ls itself


def test_end_of_the_socket_ends_the_kernel(kernel):
    kernel.run(kernel.code["alive"])
    assert kernel.end() == 0


def test_end_of_the_socket_before_any_cell(kernel):
    assert kernel.end() == 0


def test_end_of_the_socket_after_a_failure(kernel):
    kernel.run(kernel.code["fails"])
    assert kernel.end() == 0


def test_message_in_single_bytes(kernel):
    kernel.write("%s" % kernel.code["alive"], env={"A": "b"}, stdin="")
    for at in range(len(kernel.unsent)):
        kernel.socket.sendall(kernel.unsent[at:at + 1])
    kernel.unsent = b""
    assert kernel.follow().stdout == b"alive\n"


def test_bytes_that_are_no_message_end_the_kernel(kernel):
    kernel.socket.sendall(b"nonsense\n")
    assert kernel.wait() == 1


def test_descriptors_do_not_grow(kernel):
    def count():
        return len(os.listdir("/proc/%d/fd" % kernel.process.pid))

    for _ in range(3):
        kernel.run(kernel.code["read"], stdin="a\nb\n", env={"A": "b"})
        kernel.run(kernel.code["fails"])
    before = count()
    for _ in range(20):
        kernel.run(kernel.code["read"], stdin="a\nb\n", env={"A": "b"})
        kernel.run(kernel.code["fails"])
    assert count() <= before + 1  # not told apart: a descriptor that is just being closed
