"""
A one-shot run has one recipe, whoever drives it: the same table of runs without a daemon (the blocking
loop of the static program), in a daemon that starts the interpreter, and in one that has it warm. The
whole results are compared, and what SANDBOX_STORE_CODE stored, but for times, ids and what was used.
"""
import copy
import json

import pytest

import serve
import support

# Endings that need a limit get one that every run of the table has. `.mjs` files have a program that
# no kernel executes: it is found, and fails to start.
SETTINGS = {
    "SANDBOX_MEMORY_LIMIT": "128m", "SANDBOX_DISK_LIMIT": "4m", "SANDBOX_MAX_OUTPUT_KB": "4",
    "SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true", "SANDBOX_BLOCKED_IMPORTS": "subprocess,ctypes",
    "SANDBOX_STORE_CODE": "always", "SANDBOX_SUPPORTED_LANGUAGES": "python,javascript,bash",
}
NOT_A_PROGRAM = b"\177ELF" + b"\0" * 60

OUTPUT_FILES = """
import os
os.makedirs('/tmp/output/folder')
open('/tmp/output/folder/deep.txt', 'w').write('deep')
open('/tmp/output/plain.txt', 'w').write('plain')
os.symlink('/etc/passwd', '/tmp/output/link')
os.mkfifo('/tmp/output/pipe')
open('/tmp/output/.hidden', 'w')
open('/tmp/output/bailey.yaml', 'w')
os.truncate(os.open('/tmp/output/sparse', os.O_CREAT | os.O_WRONLY), 1 << 40)
"""

# name: (language, code, what else POST /v1/run is told)
TABLE = {
    "python": ("python", "print('Hello')", {}),
    "bash": ("bash", "echo $((6 * 7)); echo oops >&2", {}),
    "no output": ("python", "pass", {}),
    "own status": ("python", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", {}),
    "own status of bash": ("bash", "exit 200", {}),
    "exception": ("python", "def f():\n    1 / 0\nprint('before')\nf()\n", {}),
    "syntax error": ("python", "print('never')\ndef (:\n", {}),
    "syntax error of bash": ("bash", "if then\n", {}),
    "arguments": ("python", "import sys; print(sys.argv, __file__)",
                  {"arguments": ["a b", "--x", "-", "é", ""]}),
    "arguments of bash": ("bash", 'printf "<%s>" "$0" "$@"', {"arguments": ["a b", "--", "*"]}),
    "its own name": ("python", "import sys, os; print(sys.argv, os.listdir('/workspace'))",
                     {"name": "my script.py"}),
    "a hidden name": ("bash", 'echo "$0"; ls -A', {"name": ".x.sh"}),
    "environment": ("python", "import os; print(os.environ['K'], os.environ['E'], os.environ['HOME'])",
                    {"env": {"K": "a = b", "E": "", "HOME": "/tmp"}}),
    "environment of bash": ("bash", 'echo "$K|$PATH"', {"env": {"K": "v"}}),
    "no input": ("python", "import sys; print(repr(sys.stdin.read()))", {}),
    "input": ("python", "import sys; print(repr(sys.stdin.read()))", {"stdin": "one\ntwo é\n"}),
    "input of bash": ("bash", "read -r a; echo $a; wc -c", {"stdin": "first\n" + "x" * 300000}),
    "input that nobody reads": ("bash", "echo done", {"stdin": "x" * 300000}),
    "signal": ("python", "import os; print('x', flush=True); os.kill(os.getpid(), 11)", {}),
    "signal of bash": ("bash", "kill -9 $$", {}),
    "timeout": ("python", "print('part', flush=True)\nwhile True: pass", {"timeout": 0.5}),
    "timeout of bash": ("bash", "echo part; sleep 600", {"timeout": 0.5}),
    "memory": ("bash", "echo x; python3 -c 'b = bytearray(1 << 30)'; echo $?", {}),
    "memory of python": ("python", "print('x', flush=True); b = b'x' * (1 << 30)", {}),
    "disk full": ("python", "open('f', 'wb').write(b'x' * (64 << 20))", {}),
    "output over the limit": ("python", "import sys\nsys.stdout.write('0123456789abcde\\n' * 4000)\n"
                              "sys.stderr.write('é' * 5000)", {}),
    "bytes that are no text": ("python", "import os; os.write(1, bytes(range(256))); os.write(2, b'\\xc3')",
                               {}),
    "blocked import": ("python", "import os\nimport subprocess\nfrom ctypes import CDLL\n", {}),
    "blocked import of another language": ("bash", "import subprocess 2>/dev/null || echo fine", {}),
    "code that cannot be checked": ("python", "-" * 200000 + "1", {}),
    "module that is missing": ("python", "import nowhere_to_be_found", {}),
    "output files": ("python", OUTPUT_FILES, {}),
    "many output files": ("bash", "cd /tmp/output && for i in $(seq 300); do ln -s x $i; done", {}),
    "output folder removed": ("bash", "touch /tmp/output/a; rm -r /tmp/output", {}),
    "a process that stays": ("bash", "sleep 600 >/dev/null 2>&1 & echo started", {}),
    "code larger than the disk": ("bash", "#" * (9 << 19), {}),
    "a program that does not start": ("javascript", "console.log(1)", {}),
}


@pytest.fixture(scope="module")
def settings():
    room = support.Room()
    room.write("node/include/node/node.h")
    program = room.write("node/bin/node", NOT_A_PROGRAM, mode=0o755)
    yield {**SETTINGS, "SANDBOX_NODE": str(program)}
    room.remove()


@pytest.fixture(scope="module", params=["cold", "warm"])
def daemon(request, settings):
    warm = {"SANDBOX_WARM": "false"} if request.param == "cold" else {}
    with serve.Daemon(env={**settings, **warm}) as running:
        yield running


@pytest.fixture(scope="module")
def direct(settings):
    """What each row's result is without a daemon, done once for both daemons."""
    results = {}
    room = support.Room()

    def run(name):
        if name not in results:
            result = run_direct(room, settings, *TABLE[name])
            results[name] = result, stored(room.work / "artifacts", result)
        return copy.deepcopy(results[name])

    yield run
    room.remove()


def run_direct(room, settings, language, code, told):
    default = {"python": "main.py", "bash": "main.sh", "javascript": "main.mjs"}[language]
    options = ["--no-daemon", "--json", "--language", language]
    path = str(room.write(told.get("name", default), code.encode()))
    for name, value in told.get("env", {}).items():
        options += ["--env", f"{name}={value}"]
    if "timeout" in told:
        options += ["--timeout", str(told["timeout"])]
    if "stdin" in told:
        options += ["--stdin"]
    return support.bailey("run", *options, path, "--", *told.get("arguments", []), env=settings,
                          room=room, stdin=told.get("stdin", "").encode()).json()


def stored(folder, result):
    """What was stored of it; None: nothing."""
    for path in (folder / "executions").glob("*.json"):
        found = json.loads(path.read_text())
        if found["result"]["meta"]["execution_id"] == result["meta"]["execution_id"]:
            return found
    return None


def settled(result):
    """A result without what two runs never share."""
    for name in ("execution_id", "usage", "warm"):
        result["meta"].pop(name, None)
    result.pop("duration")
    return result


def settled_file(found):
    if found:
        settled(found["result"])
        found = {name: value for name, value in found.items() if name in ("code", "language", "env", "result")}
    return found


@pytest.mark.parametrize("row", TABLE)
def test_the_results_are_the_same(daemon, direct, row):
    support.need_namespaces()
    language, code, told = TABLE[row]
    there = daemon.post("/v1/run", {"language": language, "code": code, **told})
    there_stored = stored(daemon.state / "artifacts", there)
    here, here_stored = direct(row)
    assert settled(there) == settled(here)
    assert settled_file(there_stored) == settled_file(here_stored)


def test_an_interpreter_that_is_missing_is_told_the_same(settings):
    """Without a daemon in a result, by a daemon in a refusal."""
    env = {**settings, "SANDBOX_NODE": "/nowhere/node"}
    with serve.Daemon(env={**env, "SANDBOX_WARM": "false"}) as daemon:
        refused = daemon.refused("POST", "/v1/run", 409, "no_interpreter",
                                 {"language": "javascript", "code": "1"})
    error = support.run_json("1", "--no-daemon", "--language", "javascript", env=env)["meta"]["error"]
    assert (error["code"], error["message"]) == ("no_interpreter", refused["message"])
