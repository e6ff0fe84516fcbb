"""guest/bash/kernel.bash: what is particular to Bash."""
import pytest

import fake_warden


@pytest.fixture
def kernel():
    with fake_warden.Kernel("bash") as kernel:
        yield kernel


def test_everything_of_a_shell_is_kept(kernel):
    kernel.run("declare -A m=([k]=v); declare -i n=5; a=(1 2 '3 4'); export E=e; cd /; set -o pipefail\n"
               "shopt -s nullglob; alias hi='echo hello'; readonly R=1; exec 7>&1; local_function() { echo in; }")
    cell = kernel.run("echo ${m[k]} $((n += 1)) ${#a[@]} $(printenv E) $PWD; hi; local_function; echo fd >&7\n"
                      "shopt -q nullglob; echo $?; [[ $SHELLOPTS == *pipefail* ]]; echo $?")
    assert cell.stdout == b"v 6 3 e /\nhello\nin\nfd\n0\n0\n"


@pytest.mark.parametrize("code, status", [
    ("exit 3; echo no", "3"), ("f() { exit 4; }; f; echo no", "4"), ("eval 'exit 5'; echo no", "5"),
    ("source /dev/stdin <<< 'exit 6'; echo no", "6"), ("while :; do for i in 1; do exit 7; done; done", "7"),
    ("exit 256", None), ("exit", None), ("false; exit", "1"), ("exit x", "2"), ("exit -1", "255"),
    ("set -e; false; echo no", "1"), ("set -e\nf() { false; echo no; }\nf\necho no", "1"),
    ("set -euo pipefail; false | true; echo no", "1"), ("set -u; echo $nosuch; echo no", "1"),
    ("set -e; if false; then :; fi; false || true; echo yes", None), (": ${nosuch:?gone}; echo no", None),
    ("(exit 9)", "9"), ("false", "1"), ("nosuchcommand", "127"), ("echo $((1 / 0)); echo no", "1"),
    ("trap 'echo err' ERR; false", "1"), ("! true", "1"), ("break", None), ("continue", None), ("kill -l 99", "1"),
])
def test_endings(kernel, code, status):
    kernel.run("x=41")
    cell = kernel.run(code)
    assert b"no\n" not in cell.stdout
    if status is not None:
        assert cell.status == 1 and (cell.error["name"], cell.error["value"]) == ("ExitStatus", status)
    elif "gone" not in code:
        assert (cell.status, cell.events) == (0, [])
    cell = kernel.run("set +eu; echo $((x + 1))")
    assert cell.stdout == b"42\n"


def test_options_of_one_cell_hold_in_the_next(kernel):
    kernel.run("set -e")
    assert kernel.run("false\necho no").stdout == b""
    assert kernel.run("set +e; false; echo yes").stdout == b"yes\n"
    assert kernel.run("false; echo yes").stdout == b"yes\n"


def test_line_of_the_failure(kernel):
    kernel.run("f() {\n  false\n}")
    assert "Cell In[2], line 3" in kernel.run("\n\nf").error["traceback"]
    assert "Cell In[3], line 2" in kernel.run("set -e\nf\necho no").error["traceback"]
    assert kernel.run("set +e\n\n'").stderr.startswith(b"bash: eval: line ")


def test_interrupt_unwinds_everything(kernel):
    kernel.run("n=0")
    for code in ("f() { while :; do g; done; }; g() { eval 'echo go; while :; do :; done'; }; f",
                 "source /dev/stdin <<< 'echo go; while :; do :; done'; echo no",
                 "for i in {1..1000000}; do echo go; (sleep 0.01); done"):
        cell = kernel.run("((n += 1))\n" + code, interrupt_at=b"go")
        assert cell.status == 1 and cell.error["name"] == "Interrupted"
        assert b"no\n" not in cell.stdout and cell.stderr == b""
    assert kernel.run("echo $n").stdout == b"3\n"


def test_own_trap_of_a_cell_holds_for_that_cell(kernel):
    cell = kernel.run("trap 'echo caught; done=1' INT; echo go; until [[ $done ]]; do :; done", interrupt_at=b"go")
    assert cell.status == 0 and cell.stdout == b"go\ncaught\n"
    cell = kernel.run("echo go; while :; do :; done", interrupt_at=b"go")
    assert cell.error["name"] == "Interrupted"


def test_exec_redirections_are_for_one_cell(kernel):
    assert kernel.run("exec >file 2>&1 <file; echo hidden").stdout == b""
    assert kernel.run("cat file; echo seen").stdout == b"hidden\nseen\n"


def test_exec_of_a_command_ends_the_kernel(kernel):
    assert kernel.run("exec sh -c 'exit 5'").status is None
    assert kernel.wait() == 5


def test_input_is_exact(kernel):
    assert kernel.run("wc -c", stdin="abc").stdout.strip() == b"3"
    assert kernel.run("cat", stdin="a\\b\n\n  c").stdout == b"a\\b\n\n  c"
    assert kernel.run("cat; echo end").stdout == b"end\n"
    assert kernel.run("cat", stdin="x" * 1000000).stdout == b"x" * 1000000


def test_environment(kernel):
    cell = kernel.run("echo \"$A\"; printenv B; echo $LC_ALL", env={"A": "x\ny", "B": "\u00e9", "LC_ALL": "C"})
    assert cell.stdout == "x\ny\n\u00e9\nC\n".encode()
    assert kernel.run("echo ${A-unset} ${LC_ALL-unset}").stdout == b"unset unset\n"
    assert kernel.run("echo $PROMPT_COMMAND$1-x y", env={"not a name": "1", "PROMPT_COMMAND": "x"}).status == 0


@pytest.mark.parametrize("code", [
    "PROMPT_COMMAND=", "IFS=abc", "read() { :; }; printf() { :; }; eval() { :; }; trap() { :; }; kill() { :; }",
    "alias builtin=false eval=false trap=false", "set -f; set -x; set -v", "shopt -s failglob extglob nocasematch",
    "LC_ALL=de_DE.UTF-8", "trap 'false' DEBUG; trap - DEBUG", "unset PATH", "TMOUT=1", "set -o noclobber",
    "unset -f exit", "enable -n echo", "PS1='$(exit 3)'", "ulimit -n 300", "exec 250>&-; exec 251>&-",
    "trap 'echo bye' EXIT", "set -- a b c", "BASH_ENV=/nosuch", "set -T", "declare -r x=1; x=2",
])
def test_sabotage(kernel, code):
    assert kernel.run(code).status in (0, 1)
    cell = kernel.run("echo 'a b'; false", env={"A": "b"}, stdin="x")
    assert b"a b\n" in cell.stdout and cell.status == 1
    assert kernel.run("true").status == 0


def test_bytes_of_code_are_kept(kernel):
    assert kernel.run("echo 'h\u00e9 \\\\ \t' | od -An -c | tr -d ' \n'").stdout == b"h303251\\\\\\t\\n"
    assert kernel.run("cat <<'X'\na $b `c`\nX").stdout == b"a $b `c`\n"
    assert kernel.run("#!/bin/bash\necho '}'; echo \\\n").stdout == b"}\n\n"
