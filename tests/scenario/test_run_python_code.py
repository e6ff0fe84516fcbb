"""run_python_code {code, timeout}: a compact text, never a failure of the tool itself."""
import json

import pytest
import support


def tool(parameters, *, by="argument", **kwargs):
    text = parameters if isinstance(parameters, str) else json.dumps(parameters)
    if by == "argument":
        return support.bailey("tool", "run_python_code", text, **kwargs)
    return support.bailey("tool", "run_python_code", stdin=text.encode(), **kwargs)


@pytest.mark.parametrize("by", ["argument", "stdin"])
def test_success_is_the_stdout_as_it_was(by):
    done = tool({"code": "print('Hello')"}, by=by)
    assert (done.status, done.out) == (0, b"Hello\n")


def test_an_exception_is_a_formatted_error_not_a_failure():
    done = tool({"code": "print('part')\nraise ValueError('Something went wrong')"})
    assert done.status == 0
    assert "part" in done.stdout
    assert "ValueError: Something went wrong" in done.stdout


def test_a_syntax_error_is_text_too():
    done = tool({"code": "for"})
    assert done.status == 0
    assert "SyntaxError" in done.stdout


def test_a_timeout_keeps_what_was_printed():
    done = tool({"code": "print('part', flush=True)\nwhile True: pass", "timeout": 1})
    assert done.status == 0
    assert "part" in done.stdout and "timed out after 1 s" in done.stdout


def test_the_timeout_comes_from_the_configuration_when_not_given():
    done = tool({"code": "while True: pass"}, env={"SANDBOX_TIMEOUT_SEC": "1"})
    assert "timed out after 1 s" in done.stdout


def test_running_out_of_memory_is_said():
    env = {"SANDBOX_MEMORY_LIMIT": "64m", "SANDBOX_DISK_LIMIT": "16m"}
    done = tool({"code": "x = b'x' * 500_000_000"}, env=env)
    assert done.status == 0
    assert "memory" in done.stdout.lower()


def test_a_blocked_import_is_text_that_names_it():
    done = tool({"code": "import subprocess"}, env={"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"})
    assert done.status == 0
    assert "subprocess" in done.stdout


def test_a_refused_box_is_text_that_says_what_is_missing():
    done = tool({"code": "print(1)"}, deny=support.NO_NAMESPACES,
                env={"SANDBOX_ISOLATION": "strict"})
    assert done.status == 0
    assert "userns" in done.stdout


def test_output_is_cut_at_the_limit():
    done = tool({"code": "print('X' * 50000)"}, env={"SANDBOX_MAX_OUTPUT_KB": "1"})
    assert "... (output truncated)" in done.stdout
    assert len(done.out) < 2048


@pytest.mark.parametrize("parameters, named", [
    ("{", "JSON"),
    ("[]", "object"),
    ({}, "code"),
    ({"code": 5}, "code"),
    ({"code": ""}, "code"),
    ({"code": "print(1)", "timeout": 0}, "timeout"),
    ({"code": "print(1)", "timeout": -1}, "timeout"),
    ({"code": "print(1)", "timeout": "soon"}, "timeout"),
    ({"code": "print(1)", "timeout": 10**9}, "timeout"),
], ids=str)
def test_wrong_parameters_are_explained(parameters, named):
    done = tool(parameters)
    assert done.status in (0, 125)
    assert named.lower() in (done.stdout + done.stderr).lower()


def test_each_call_is_a_fresh_box(room):
    tool({"code": "open('kept', 'w').write('1')"}, room=room)
    done = tool({"code": "import os; print(os.path.exists('kept'))"}, room=room)
    assert done.out == b"False\n"


def test_an_unknown_tool_is_bad_input():
    done = support.bailey("tool", "no_such_tool", "{}")
    assert done.status == 125
    assert "no_such_tool" in done.stderr and "run_python_code" in done.stderr
