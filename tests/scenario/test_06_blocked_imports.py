"""Scenario 6: SANDBOX_BLOCK_DANGEROUS_IMPORTS reads Python's own parse tree before a run."""
import re

import pytest
import support

ON = {"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"}


def assert_blocked(result, *modules):
    assert (result["exit_code"], result.status) == (1, 126), result
    assert result["stdout"] == ""
    assert result["stderr"] == result.error["message"] + "\n"
    assert result.meta["blocked_imports"] == list(modules)
    assert result.error["code"] == "blocked_import"
    for module in modules:
        assert module in result.error["message"]
    assert result.error["message"] in result["stderr"], result  # who reads only stderr reads it too


def test_a_dangerous_import_is_not_run_and_the_error_helps(way):
    result = way.run_json("print('ran', flush=True)\nimport subprocess", env=ON)
    assert_blocked(result, "subprocess")
    assert re.search(r"\binstead\b|\buse\b", result.error["message"], re.I), result.error
    assert b"subprocess" in result.done.err  # and logged


def test_the_command_line_says_it_on_stderr_with_status_126():
    done = support.bailey("run", "-c", "import subprocess", env=ON)
    assert (done.status, done.out) == (126, b"")
    assert "subprocess" in done.stderr


FORMS = {
    "import os.path": ["os"],
    "import math, shutil": ["shutil"],
    "import socket as s": ["socket"],
    "from subprocess import run": ["subprocess"],
    "from os import path as p": ["os"],
    "__import__('socket')": ["socket"],
    "import importlib\nimportlib.import_module('shutil')": ["shutil"],
    "from importlib import import_module\nimport_module('shutil')": ["shutil"],
    "import importlib\nimportlib.import_module('os.path')": ["os"],
    "def f():\n    class A:\n        import socket": ["socket"],
    "if False:\n    import subprocess": ["subprocess"],
    "try:\n    import shutil\nexcept ImportError:\n    pass": ["shutil"],
    "f = lambda: __import__('subprocess')": ["subprocess"],
}


@pytest.mark.parametrize("code", FORMS, ids=lambda c: c.splitlines()[-1].strip())
def test_every_form_of_import_is_seen(code):
    assert_blocked(support.run_json(code, env=ON), *FORMS[code])


def test_all_of_them_are_named():
    result = support.run_json("import os\nimport socket\nimport os.path", env=ON)
    assert sorted(result.meta["blocked_imports"]) == ["os", "socket"]
    assert "os" in result.error["message"] and "socket" in result.error["message"]


@pytest.mark.parametrize("code", [
    "import math",
    "text = 'import subprocess'",
    "# import subprocess",
    "subprocess = 1",
    "class os: pass",
])
def test_what_only_looks_like_one_runs(code):
    result = support.run_json(code + "\nprint('ran')", env=ON)
    assert (result["exit_code"], result["stdout"]) == (0, "ran\n"), result
    assert result.meta["blocked_imports"] == []


def test_the_list_is_configurable():
    env = {**ON, "SANDBOX_BLOCKED_IMPORTS": "math, json"}
    assert_blocked(support.run_json("import json", env=env), "json")
    assert support.run_json("import subprocess; print(1)", env=env)["stdout"] == "1\n"


def test_only_the_doctor_says_that_it_is_off():
    said = support.bailey("doctor").stdout
    assert said.count("SANDBOX_BLOCK_DANGEROUS_IMPORTS") == 1, said
    assert "SANDBOX_BLOCK_DANGEROUS_IMPORTS" in support.bailey("doctor", "--json").json()["notice"]
    assert "SANDBOX_BLOCK_DANGEROUS_IMPORTS" not in support.bailey("doctor", env=ON).stdout
    done = support.bailey("run", "-c", "import os; print(1)")
    assert (done.out, done.err) == (b"1\n", b""), done


def test_it_is_off_unless_asked_for():
    result = support.run_json("import os, subprocess, shutil, socket; print('ran')")
    assert (result["stdout"], result.meta["blocked_imports"]) == ("ran\n", [])


def test_a_syntax_error_is_reported_as_one_also_when_checked():
    result = support.run_json("import subprocess\nfor", env=ON)
    assert (result["exit_code"], result.status) == (1, 1)
    assert "SyntaxError" in result["stderr"]
    assert result.meta["blocked_imports"] == []


def test_a_file_that_shadows_pythons_parser_does_not_fool_the_check(room):
    room.write("ast.py", "def parse(*a, **k): return None\ndef walk(t): return []\n")
    result = support.run_json("import subprocess", "--file", "ast.py", env=ON, room=room)
    assert_blocked(result, "subprocess")


def test_the_source_is_never_parsed_on_the_host(room):
    """A python started in the caller's folder would load these and leave a trace."""
    trap = f"open({str(room.work / 'trapped')!r}, 'w').close()\n"
    for name in ("ast.py", "sitecustomize.py", "usercustomize.py", "tokenize.py"):
        room.write(name, trap)
    result = support.run_json("import subprocess", room=room,
                              env={**ON, "PYTHONPATH": str(room.work)})
    assert_blocked(result, "subprocess")
    assert not (room.work / "trapped").exists()


def test_a_source_nested_too_deep_to_parse_is_a_failed_run_not_an_unchecked_one():
    env = {**ON, "SANDBOX_MAX_OUTPUT_KB": "1000"}
    result = support.run_json("x = " + "(" * 5000 + ")" * 5000 + "\nimport subprocess", env=env)
    assert result["exit_code"] == 1
    assert result["stdout"] == ""
    assert "Error" in result["stderr"] or result.error is not None
