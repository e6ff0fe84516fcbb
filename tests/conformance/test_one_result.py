"""
One result for every runtime (docs/result.md): the same table of programs and endings, run by each
runtime named in $BAILEY_RUNTIMES (default all), checked field by field and type by type.
"""
import re

import pytest
import support

INT, TEXT, BOOL = "int", "text", "bool"
META = {
    "runtime": TEXT, "execution_id": TEXT, "session_id": "text or null", "truncated": BOOL,
    "stdout_truncated": BOOL, "stderr_truncated": BOOL, "stdout_bytes": INT, "stderr_bytes": INT,
    "timed_out": BOOL, "oom_killed": BOOL, "disk_full": BOOL, "signal": "int or null",
    "blocked_imports": "texts", "output_files": "texts", "files": "list", "total_output_files": INT,
    "usage": "object",
    "resource_limits": "object", "isolation": "object",
}
USAGE = {"cpu_ms": "int or null", "max_rss_bytes": "int or null", "by": "text or null"}
LIMITS = {"timeout_s": "number", "timeout_by": TEXT, "memory_bytes": INT, "memory_by": TEXT,
          "pids": INT, "pids_by": TEXT, "cpu_by": TEXT, "disk_bytes": INT,
          "disk_inodes": "int or null", "disk_by": TEXT, "output_bytes": INT, "output_by": TEXT}
ISOLATION = {"level": TEXT, "layers": "texts", "missing": "texts"}
LAYERS = {"userns", "mountns", "pidns", "netns", "ipcns", "utsns", "cgroupns", "seccomp",
          "landlock", "cgroup", "no_new_privs", "caps", "uid_split", "proc", "overlay"}


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


CHECKS = {
    INT: is_int,
    TEXT: lambda v: isinstance(v, str),
    BOOL: lambda v: isinstance(v, bool),
    "number": lambda v: is_int(v) or isinstance(v, float),
    "text or null": lambda v: v is None or isinstance(v, str),
    "int or null": lambda v: v is None or is_int(v),
    "texts": lambda v: isinstance(v, list) and all(isinstance(x, str) for x in v),
    "list": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}


def assert_shape(value, shape, where):
    for name, kind in shape.items():
        assert name in value, f"{where}.{name} is missing"
        assert CHECKS[kind](value[name]), f"{where}.{name} is {value[name]!r}, not {kind}"


def assert_error(error):
    assert set(error) <= {"code", "message", "stage", "errno"}, error
    assert re.fullmatch(r"[a-z_]+", error["code"])
    assert isinstance(error["message"], str) and error["message"]
    assert isinstance(error.get("stage", ""), str)
    assert isinstance(error.get("errno", ""), (str, int))


def assert_schema(result, runtime):
    """Every field of 6.1, with its type, and what has to hold between them."""
    assert set(result) == {"stdout", "stderr", "exit_code", "duration", "meta"}
    assert isinstance(result["stdout"], str) and isinstance(result["stderr"], str)
    assert is_int(result["exit_code"])
    assert CHECKS["number"](result["duration"]) and result["duration"] >= 0
    meta = result["meta"]
    assert_shape(meta, META, "meta")
    assert_shape(meta["usage"], USAGE, "meta.usage")
    assert_shape(meta["resource_limits"], LIMITS, "meta.resource_limits")
    assert_shape(meta["isolation"], ISOLATION, "meta.isolation")
    assert meta["runtime"] == runtime
    assert meta["execution_id"] and meta["session_id"] is None
    assert meta["isolation"]["level"] in ("process", "standard", "strict")
    assert set(meta["isolation"]["layers"]) <= LAYERS
    assert set(meta["isolation"]["missing"]) <= LAYERS
    assert not set(meta["isolation"]["layers"]) & set(meta["isolation"]["missing"])
    assert_consistent(result, meta)


def assert_used(usage, has_run):
    """Somebody's word, or nobody's: never 0 for what is not known."""
    assert usage["by"] in (None, "engine", "docker", "warden"), usage
    assert (usage["by"] is None) is (usage["cpu_ms"] is None), usage
    assert usage["max_rss_bytes"] != 0, usage
    assert not has_run or usage["max_rss_bytes"] and usage["by"], usage


def assert_consistent(result, meta):
    assert_used(meta["usage"], has_run=not meta.get("error"))
    assert meta["truncated"] is (meta["stdout_truncated"] or meta["stderr_truncated"])
    for stream in ("stdout", "stderr"):
        is_over = meta[f"{stream}_bytes"] > meta["resource_limits"]["output_bytes"]
        assert meta[f"{stream}_truncated"] is is_over
    if meta["timed_out"]:
        assert result["exit_code"] == -1 and "timed out after" in result["stderr"]
    if meta["signal"] is not None and not meta["timed_out"]:
        assert result["exit_code"] == 128 + meta["signal"]
    if "error" in meta and meta["error"] is not None:
        assert_error(meta["error"])
        not_found = meta["error"]["code"] == "command_not_found"
        assert result["exit_code"] == (127 if not_found else 1)
        assert result["stderr"].endswith(meta["error"]["message"] + "\n")


BLOCK = {"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"}
# name: (code, options, environment, what the result has to say)
TABLE = {
    "success": ("print('Hello')", [], {}, {"stdout": "Hello\n", "stderr": "", "exit_code": 0}),
    "nothing printed": ("pass", [], {}, {"stdout": "", "stderr": "", "exit_code": 0}),
    "stderr": ("import sys; sys.stderr.write('e')", [], {}, {"stderr": "e", "exit_code": 0}),
    "own exit code": ("raise SystemExit(42)", [], {}, {"exit_code": 42}),
    "exception": ("1/0", [], {}, {"exit_code": 1, "stderr has": "ZeroDivisionError"}),
    "syntax error": ("for", [], {}, {"exit_code": 1, "stderr has": "SyntaxError"}),
    "signal": ("import os; os.kill(os.getpid(), 15)", [], {}, {"exit_code": 143, "signal": 15}),
    "timeout": ("print('part', flush=True)\nwhile True: pass", ["--timeout", "1"], {},
                {"exit_code": -1, "stdout": "part\n", "timed_out": True,
                 "stderr has": "timed out after 1 s"}),
    "out of memory": ("x = b'x' * 500_000_000", ["--memory", "64m", "--disk", "16m"], {},
                      {"exit_code": 137, "oom_killed": True}),
    "disk full": ("open('f', 'wb').write(b'x' * (64 << 20))", ["--disk", "8m"], {},
                  {"exit_code": 1, "disk_full": True, "stderr has": "No space left"}),
    "truncated": ("print('x' * 3000)", ["--max-output", "1"], {},
                  {"exit_code": 0, "stdout_truncated": True, "truncated": True,
                   "stdout_bytes": 3001, "stdout has": "... (output truncated)"}),
    "invalid bytes": ("import os; os.write(1, b'a\\xffb')", [], {},
                      {"stdout": "a\ufffdb", "stdout_invalid_bytes": 1, "stdout_bytes": 3}),
    "blocked import": ("import subprocess", [], BLOCK,
                       {"exit_code": 1, "blocked_imports": ["subprocess"],
                        "error": "blocked_import"}),
    "environment": ("import os; print(os.environ['K'])", ["--env", "K=v"], {}, {"stdout": "v\n"}),
    "daemon": ("import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(3600)\n", [], {},
               {"exit_code": 0}),
    "bash": ("echo $((6 * 7))", ["--language", "bash"], {}, {"stdout": "42\n", "exit_code": 0}),
}


def assert_says(result, wanted):
    for name, value in wanted.items():
        if name.endswith(" has"):
            assert value in result[name[:-4]]
        elif name == "error":
            assert result["meta"]["error"]["code"] == value
        elif name in result:
            assert result[name] == value, name
        else:
            assert result["meta"][name] == value, name


@pytest.mark.parametrize("ending", TABLE)
def test_every_ending_is_the_one_result(runtime, ending):
    code, options, env, wanted = TABLE[ending]
    if ending == "disk full" and runtime == "local":
        support.need_namespaces()  # without, a watchdog ends the guest before ENOSPC
    result = support.run_json(code, *options, env={**env, "SANDBOX_TYPE": runtime})
    assert_schema(result, runtime)
    if ending == "out of memory" and result["meta"]["resource_limits"]["memory_by"] == "none":
        pytest.skip(f"nothing holds the memory limit of {runtime}, and its result says so")
    assert_says(result, wanted)
    if "error" not in wanted:
        assert result.error is None


def test_a_command_that_is_not_there_is_the_one_result(runtime):
    result = support.exec_json("no-such-program", env={"SANDBOX_TYPE": runtime})
    assert_schema(result, runtime)
    assert_says(result, {"exit_code": 127, "error": "command_not_found"})
    assert result["stderr"] == result.error["message"] + "\n"


@pytest.mark.needs_namespaces
def test_output_files_are_listed_alike(runtime, room):
    code = "open('/tmp/output/a.txt', 'w').write('abc')"
    result = support.run_json(code, "--out", "got", env={"SANDBOX_TYPE": runtime}, room=room)
    assert_schema(result, runtime)
    assert result.meta["total_output_files"] == 1
    assert result.meta["output_files"] == ["a.txt"]
    (entry,) = result.meta["files"]
    assert entry["name"] == "a.txt" and entry["bytes"] == 3
    assert entry["path"] == str(room.work / "got" / "a.txt")


def test_bad_input_is_the_one_result_too(runtime):
    result = support.Result(support.bailey("run", "--json", "nowhere.py",
                                           env={"SANDBOX_TYPE": runtime}))
    assert_schema(result, runtime)
    assert result.status == 125


def test_refusals_are_the_one_result_too():
    """Only here can a kernel refuse what makes a box; a container has been refused by Docker then."""
    result = support.run_json("print(1)", "--isolation", "strict", deny=support.NO_NAMESPACES,
                              env={"SANDBOX_TYPE": "local"})
    assert_schema(result, "local")
    assert_says(result, {"exit_code": 1, "error": "refused", "stdout": ""})
