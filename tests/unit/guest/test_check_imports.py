"""guest/python/check_imports.py: run as it runs in a box, with this interpreter."""
import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "guest" / "python" / "check_imports.py"


def check(tmp_path, code, rules="os,subprocess,shutil,socket"):
    source = tmp_path / "main.py"
    source.write_bytes(code if isinstance(code, bytes) else code.encode())
    done = subprocess.run([sys.executable, "-I", "-S", str(SCRIPT), str(source), rules],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0
    # Python 3.8 and older say this from C, beside the MemoryError
    assert done.stderr in (b"", b"s_push: parser stack overflow\n")
    assert done.stdout.endswith(b"\n") and done.stdout.count(b"\n") == 1
    return json.loads(done.stdout.decode("ascii"))


def blocked(tmp_path, code, **kwargs):
    answer = check(tmp_path, code, **kwargs)
    assert answer["syntax_error"] is None
    return [(row["module"], row["line"], row["import"]) for row in answer["blocked"]]


@pytest.mark.parametrize("code, expected", [
    ("import subprocess", [("subprocess", 1, "import subprocess")]),
    ("import os.path", [("os", 1, "import os.path")]),
    ("import os as o", [("os", 1, "import os as o")]),
    ("import sys, os, json, shutil",
     [("os", 1, "import os"), ("shutil", 1, "import shutil")]),
    ("from os import path, sep", [("os", 1, "from os import path, sep")]),
    ("from os.path import join", [("os", 1, "from os.path import join")]),
    ("from os import *", [("os", 1, "from os import *")]),
    ("__import__('os')", [("os", 1, '__import__("os")')]),
    ("__import__(name='os')", [("os", 1, '__import__("os")')]),
    ("import importlib\nimportlib.import_module('os.path')",
     [("os", 2, 'importlib.import_module("os.path")')]),
    ("import importlib as i\ni.import_module(name='os')", [("os", 2, 'i.import_module("os")')]),
    ("import importlib.util\nimportlib.import_module('os')",
     [("os", 2, 'importlib.import_module("os")')]),
    ("from importlib import import_module\nimport_module('socket')",
     [("socket", 2, 'import_module("socket")')]),
    ("from importlib import import_module as get\nget('socket')", [("socket", 2, 'get("socket")')]),
    ("from importlib import *\nimport_module('socket')", [("socket", 2, 'import_module("socket")')]),
    ("import importlib\nimportlib.__import__('os')", [("os", 2, 'importlib.__import__("os")')]),
    ("import builtins\nbuiltins.__import__('os')", [("os", 2, 'builtins.__import__("os")')]),
    ("import builtins as b\nb.__import__('os')", [("os", 2, 'b.__import__("os")')]),
    ("from builtins import __import__ as f\nf('os')", [("os", 2, 'f("os")')]),
    ("__builtins__.__import__('os')", [("os", 1, '__builtins__.__import__("os")')]),
    ("def f():\n  def g():\n    import os\n", [("os", 3, "import os")]),
    ("try:\n  import json\nexcept E:\n  import os\nelse:\n  import socket\nfinally:\n  import shutil",
     [("os", 4, "import os"), ("socket", 6, "import socket"), ("shutil", 8, "import shutil")]),
    ("if 0:\n  import os\n", [("os", 2, "import os")]),
    ("class A:\n  x = [__import__('os') for _ in ()]\n", [("os", 2, '__import__("os")')]),
    ("f = lambda: __import__('os')", [("os", 1, '__import__("os")')]),
    ("async def f():\n  async with __import__('os') as x: pass\n", [("os", 2, '__import__("os")')]),
    ("__import__('o' 's')", [("os", 1, '__import__("os")')]),
    ("import\tos; import os", [("os", 1, "import os"), ("os", 1, "import os")]),
])
def test_sees(tmp_path, code, expected):
    assert blocked(tmp_path, code) == expected


@pytest.mark.parametrize("code", [
    "", "\n", "# import os", "'import os'", "import osx, ossaudio", "import mypackage.os",
    "from mypackage import os", "from . import os", "from .os import path", "from ..os import x",
    "import_module('os')", "importlib.reload('os')", "other.import_module('os')",
    "__import__(name)", "__import__()", "__import__(b'os')", "__import__(1)", "__import__(*a)",
    "import importlib\nimportlib.import_module('.os', 'mypackage')",
    "import importlib.util as i\ni.import_module('os')",
    "from .importlib import import_module\nimport_module('os')",
    "os = 1\nos.path",
])
def test_leaves_alone(tmp_path, code):
    assert blocked(tmp_path, code) == []


def test_dotted_rule_blocks_only_that(tmp_path):
    code = "import os\nimport os.path\nfrom os import path\nfrom os import sep\nimport os.pathx\n"
    found = blocked(tmp_path, code, rules="os.path")
    assert [line for _, line, _ in found] == [2, 3]
    assert {module for module, _, _ in found} == {"os.path"}


def test_empty_rules_block_nothing(tmp_path):
    assert blocked(tmp_path, "import os", rules=",") == []


def test_in_the_order_of_lines(tmp_path):
    found = blocked(tmp_path, "def f():\n  import os\nimport socket\n")
    assert [line for _, line, _ in found] == [2, 3]


def test_number_and_length_are_bounded(tmp_path):
    found = blocked(tmp_path, "import os\n" * 5000)
    assert len(found) == 100
    found = blocked(tmp_path, "import os." + "a" * 100000)
    assert len(found[0][2]) == 200


def test_names_beyond_ascii(tmp_path):
    code = "import \u540d\u524d\n"
    assert blocked(tmp_path, code, rules="\u540d\u524d") == [
        ("\u540d\u524d", 1, "import \u540d\u524d")]
    assert blocked(tmp_path, "__import__('os.\U0001f600\"\\\\')")[0][2] == \
        '__import__("os.\U0001f600"\\")'


@pytest.mark.parametrize("code, line", [
    ("import os\nif\n", 2), ("def f(:\n", 1), ("x = 'abc\n", 1), ("\n  x\n y\n", 2),
    ("# coding: nonsense\n", None), (b"x = '\xff'\n", None),
])
def test_syntax_error(tmp_path, code, line):
    answer = check(tmp_path, code)
    assert answer["blocked"] == []
    assert answer["syntax_error"]["message"]
    if line is not None:
        assert answer["syntax_error"]["line"] == line


def test_nul_byte_is_reported(tmp_path):
    answer = check(tmp_path, b"import os\0\n")
    assert "error" in answer or answer["syntax_error"]["message"]


@pytest.mark.parametrize("code", [
    "(" * 5000 + ")" * 5000,
    "-" * 50000 + "1",
    "x" + ".a" * 50000,
    "x = " + "+".join("1" * 50000),
    "".join("  " * i + "if 1:\n" for i in range(90)) + "  " * 90 + "import os\n",
], ids=["parentheses", "minus", "attributes", "sum", "blocks"])
def test_deep_nesting_is_an_answer(tmp_path, code):
    answer = check(tmp_path, code)
    assert answer.get("error") or answer["syntax_error"] or "blocked" in answer


def test_deep_code_is_looked_into(tmp_path):
    code = "".join(" " * i + "if 1:\n" for i in range(60)) + " " * 60 + "import os\n"
    assert blocked(tmp_path, code) == [("os", 61, "import os")]


def test_code_is_not_executed(tmp_path):
    canary = tmp_path / "canary"
    assert blocked(tmp_path, "open(%r, 'w')\nimport os\n" % str(canary)) == [("os", 2, "import os")]
    assert not canary.exists()


def test_warnings_do_not_show(tmp_path):
    assert blocked(tmp_path, "x = '\\d'\nassert (1, 'x')\nimport os\n") == [("os", 3, "import os")]


def test_module_beside_the_code_is_not_used(tmp_path):
    (tmp_path / "sys.py").write_text("raise SystemExit(9)")
    (tmp_path / "encodings.py").write_text("raise SystemExit(9)")
    assert blocked(tmp_path, "# coding: latin-1\nimport os\n") == [("os", 2, "import os")]


def test_missing_file_is_an_answer(tmp_path):
    done = subprocess.run([sys.executable, "-I", "-S", str(SCRIPT), str(tmp_path / "none"), "os"],
                          stdout=subprocess.PIPE, check=False)
    assert "none" in json.loads(done.stdout.decode())["error"]


def test_wrong_number_of_arguments():
    done = subprocess.run([sys.executable, "-I", "-S", str(SCRIPT)], stderr=subprocess.PIPE,
                          check=False)
    assert done.returncode == 2
    assert b"usage" in done.stderr
