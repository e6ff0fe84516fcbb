"""guest/python/kernel.py: what is particular to Python, without any package."""
import re
import subprocess
import sys

import pytest

import fake_warden

ADDRESS = re.compile("0x[0-9a-f]+")


@pytest.fixture
def kernel():
    with fake_warden.Kernel("python") as kernel:
        yield kernel


@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("x = 1\nx", "1"), ("'a'", "'a'"), ("None", None), ("1;", None), ("1 ; # muted", None),
    ("(1\n)", "1"), ("';'", "';'"), ("x = ';'\nx", "';'"), ("x = 3", None), ("if 1:\n    5", None),
    ("[1, 2]", "[1, 2]"), ("'\\0\\ud800'", "'\\x00\\ud800'"), ("\u00e9 = 'h\u00e9'\n\u00e9", "'h\u00e9'"),
    ("type('A', (), {'__repr__': lambda self: 'a\\0\\ud800'})()", "a\ufffd?"),
])
def test_result(kernel, code, text):
    cell = kernel.run(code)
    assert (cell.status, cell.text, cell.error) == (0, text, None)


def test_results_are_counted_and_kept(kernel):
    kernel.run("pass")
    assert kernel.run("40 + 1").of("result")[0]["count"] == 2
    assert kernel.run("_ + 1").text == "42"
    kernel.run("_ = 'mine'")
    kernel.run("5")
    assert kernel.run("_").text == "'mine'"


def test_future_statements_stay(kernel):
    kernel.run("from __future__ import annotations")
    assert kernel.run("def f(a: nosuchname): pass\nf.__annotations__").text == "{'a': 'nosuchname'}"


def test_await(kernel):
    assert kernel.run("import asyncio\nawait asyncio.sleep(0, 5)").text == "5"
    assert kernel.run("async def f():\n    return 6\nx = await f()\nx").text == "6"
    assert kernel.run("[i async for i in (j for j in ())]").status == 1
    assert kernel.run("asyncio.run(f())").text == "6"
    assert kernel.run("t = asyncio.get_event_loop().create_task(f())\nawait t").text == "6"


def test_await_that_fails_or_is_interrupted(kernel):
    cell = kernel.run("import asyncio\nasync def f():\n    1 / 0\nawait f()")
    assert cell.error["name"] == "ZeroDivisionError"
    assert "asyncio" not in cell.error["traceback"] and "line 4" in cell.error["traceback"]
    cell = kernel.run("x = 1\nprint('go')\nawait asyncio.sleep(1000)", interrupt_at=b"go")
    assert cell.error["name"] == "KeyboardInterrupt"
    assert kernel.run("await asyncio.sleep(0, x)").text == "1"


def test_traceback(kernel):
    kernel.run("def f(n):\n    return 1 / n")
    cell = kernel.run("# one\nf(0)")
    assert cell.error["traceback"].startswith(
        "Traceback (most recent call last):\n  Cell In[2], line 2\n    f(0)\n")
    assert "  Cell In[1], line 2, in f\n    return 1 / n\n" in cell.error["traceback"]
    assert cell.error["traceback"].endswith("ZeroDivisionError: division by zero\n")


def test_traceback_of_chains_and_groups(kernel):
    cell = kernel.run("try:\n    1 / 0\nexcept Exception:\n    raise KeyError('k')")
    assert "During handling" in cell.error["traceback"] and "line 2" in cell.error["traceback"]
    assert "kernel" not in cell.error["traceback"]


def test_syntax_error_shows_its_line(kernel):
    cell = kernel.run("x = 1\ny = = 2\n")
    assert cell.error["name"] == "SyntaxError"
    assert "Cell In[1], line 2\n    y = = 2\n" in cell.error["traceback"]
    assert "During handling" not in cell.error["traceback"]


def test_source_is_there_for_others(kernel):
    kernel.run("def f():\n    return 'source'")
    assert "return 'source'" in kernel.run("import inspect\nprint(inspect.getsource(f))").stdout.decode()


@pytest.mark.parametrize("code, name", [
    ("def f(): return f()\nf()", "RecursionError"),
    ("x = bytearray(1 << 62)", "MemoryError"),
    ("class A:\n    def __repr__(self): raise KeyError(1)\nA()", "KeyError"),
    ("class E(Exception):\n    def __str__(self): raise KeyError(1)\nraise E()", "E"),
    ("raise BaseException('b')", "BaseException"),
    ("raise GeneratorExit", "GeneratorExit"),
    ("int('9' * 100)\nimport sys\nsys.exit('text')", "SystemExit"),
    ("import sys\nsys.setrecursionlimit(60)\ndef f(): f()\nf()", "RecursionError"),
    ("class M(type):\n    __name__ = property(lambda c: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E",
     None),
])
def test_bad_ends_keep_the_kernel(kernel, code, name):
    kernel.run("x = 1")
    cell = kernel.run(code)
    assert cell.status == 1 and cell.error
    if name:
        assert cell.error["name"] == name
    assert kernel.run("x + 1").text is not None


def test_repr_that_never_ends_is_interrupted(kernel):
    cell = kernel.run("class A:\n    def __repr__(self):\n        print('go')\n        while 1: pass\nA()",
                      interrupt_at=b"go")
    assert cell.error["name"] == "KeyboardInterrupt"
    assert kernel.run("1").text == "1"


def test_interrupt_of_the_process_alone(kernel):
    cell = kernel.run("print('go')\nwhile True: pass", interrupt_at=b"go", interrupt_by="pid")
    assert cell.error["name"] == "KeyboardInterrupt"
    cell = kernel.run("!echo go; exec sleep 1000", interrupt_at=b"go", interrupt_by="pid")
    assert cell.error["name"] == "KeyboardInterrupt"


def test_interrupt_again_and_again(kernel):
    kernel.run("n = 0")
    for _ in range(50):
        cell = kernel.run("n += 1\nprint('go')\nwhile True: display(n)", interrupt_at=b"go")
        assert cell.error["name"] == "KeyboardInterrupt" and cell.others == []
    assert kernel.run("n").text == "50"


def test_huge_values_are_cut(kernel):
    for code in ("'x' * 5000000", "list(range(1000000))", "{i: i for i in range(1000000)}",
                 "b'x' * 5000000", "'\u00e9' * 1000000"):
        event = kernel.run(code).of("result")[0]
        assert event["truncated"] == ["text/plain"]
        assert len(event["data"]["text/plain"].encode()) in range((1 << 20) - 4, (1 << 20) + 1)
    assert "truncated" not in kernel.run("'x' * 1000").of("result")[0]


def test_too_many_displays(kernel):
    cell = kernel.run("for i in range(2000): display(i)\n1 / 0")
    assert len(cell.of("display")) == 999 and cell.error["name"] == "ZeroDivisionError"
    assert cell.stderr.count(b"left out") == 1
    assert len(kernel.run("display(1, 2)").of("display")) == 2


def test_display_forms(kernel):
    code = ("class R:\n"
            "    def _repr_html_(self): return '<b>'\n"
            "    def _repr_markdown_(self): return '**', {}\n"
            "    def _repr_svg_(self): return '<svg/>'\n"
            "    def _repr_png_(self): return b'png'\n"
            "    def _repr_jpeg_(self): return 'anBn'\n"
            "    def _repr_latex_(self): return '$x$'\n"
            "    def _repr_json_(self): return {'a': float('nan'), 'b': [1, None]}\n"
            "    def __repr__(self): return 'R'\n"
            "R()")
    assert kernel.run(code).of("result")[0]["data"] == {
        "text/plain": "R", "text/html": "<b>", "text/markdown": "**", "image/svg+xml": "<svg/>",
        "image/png": "cG5n", "image/jpeg": "anBn", "text/latex": "$x$",
        "application/json": {"a": None, "b": [1, None]}}
    assert kernel.run("display('<i>', mime='text/html')").of("display")[0]["data"] == {"text/html": "<i>"}
    cell = kernel.run("display({'text/html': '<u>', 'application/json': [1]}, raw=True)\ndisplay(R)")
    assert cell.of("display")[0]["data"] == {"text/html": "<u>", "application/json": [1]}
    assert list(cell.of("display")[1]["data"]) == ["text/plain"]
    cell = kernel.run("class M:\n    def _repr_mimebundle_(self, include, exclude):\n"
                      "        return {'text/html': 'm'}, {}\nM()")
    assert cell.of("result")[0]["data"]["text/html"] == "m"


def test_picture_that_is_too_large_is_left_out(kernel):
    cell = kernel.run("class P:\n    def _repr_png_(self): return b'x' * 9000000\nP()")
    event = cell.of("result")[0]
    assert event["truncated"] == ["image/png"] and list(event["data"]) == ["text/plain"]


def test_shell_lines(kernel):
    kernel.run("name = 'w'")
    assert kernel.run("!echo hi {name} {nosuch} >&2; echo $((1 + 1))").stdout == b"2\n"
    assert kernel.run("for i in range(2):\n    !echo {i}").stdout == b"0\n1\n"
    assert kernel.run("x = !printf 'a\\nb'\nx").text == "['a', 'b']"
    assert kernel.run("!exit 3\n_exit_code").text == "3"
    assert kernel.run("!yes | head -1").stderr == b""
    assert kernel.run("s = '''\n!not a command\n'''\ns").text == "'\\n!not a command\\n'"
    assert kernel.run("!echo it's \"\nx = 1").status == 0
    assert kernel.run("!cat", stdin="given").stdout == b"given"


def test_magics(kernel):
    assert kernel.run("%matplotlib inline\n1").text == "1"
    for code, word in (("%conda install x", "bailey install"), ("%%bash\nls", "!"), ("x = 1\n%time x", "%time")):
        cell = kernel.run(code)
        assert cell.error["name"] == "SyntaxError" and word in cell.error["value"]
    assert kernel.run("5 % 3\n% 2").error["value"].startswith("invalid syntax")


def test_the_pip_magic_is_the_pip_of_the_path(kernel, tmp_path):
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\necho pip got \"$@\"\nexit 4\n")
    pip.chmod(0o755)
    assert kernel.run(f"import os\nos.environ['PATH'] = '{tmp_path}:' + os.environ['PATH']").status == 0
    cell = kernel.run("name = 'castle'\n%pip install 'moat>=1' {name}\n_exit_code")
    assert (cell.stdout, cell.text) == (b"pip got install moat>=1 castle\n", "4")
    assert kernel.run("%%pip list").error["name"] == "SyntaxError"


def test_no_input_says_so(kernel):
    for code in ("input('Name? ')", "import sys\nsys.stdin.read()", "for line in sys.stdin: pass",
                 "sys.stdin.buffer.read()"):
        cell = kernel.run(code)
        assert cell.error["name"] == "NoInputError" and "no standard input" in cell.error["value"]
    assert kernel.run("try:\n    input()\nexcept EOFError:\n    print('eof')").stdout == b"eof\n"
    assert kernel.run("exit()").status == 0


def test_input_in_all_its_ways(kernel):
    assert kernel.run("import sys\nsys.stdin.read()", stdin="a\nb").text == "'a\\nb'"
    assert kernel.run("import os\nos.read(0, 10)", stdin=b"\xff\0x").text == "b'\\xff\\x00x'"
    assert kernel.run("input()", stdin="").error["name"] == "EOFError"
    assert kernel.run("input()").error["name"] == "NoInputError"


@pytest.mark.parametrize("code", [
    "import sys\nsys.stdout = sys.stderr = sys.stdin = None",
    "import sys\nsys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
    "import sys\nsys.stdout.detach()",
    "import io, sys\nsys.stdout = io.StringIO()",
    "import builtins\nfor n in dir(builtins):\n    if n not in ('True', 'None', 'False', '__import__'):\n"
    "        try: setattr(builtins, n, None)\n        except Exception: pass",
    "import json, os\njson.dumps = os.write = os.read = os.getpid = os._exit = lambda *a: 1 / 0",
    "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)",
    "import sys\nsys.settrace(lambda *a: 1 / 0)",
    "import sys\nsys.setprofile(lambda *a: None)",
    "import sys\nfor m in list(sys.modules):\n    if m not in ('sys', 'builtins'): del sys.modules[m]",
    "import linecache, traceback\nlinecache.cache = None\ntraceback.TracebackException = None",
    "import os\nos.closerange(3, 100)",
    "globals().clear()",
    "import gc\ngc.collect()",
    "import os\nos.chdir('/'); os.umask(0)",
    "import sys\nsys.path.clear(); sys.meta_path.clear(); sys.argv = None",
    "import threading\nthreading.Thread(target=lambda: print('late')).start()",
    "import os\nos.environ.clear()",
    "raise KeyboardInterrupt",
])
def test_sabotage(kernel, code):
    """A cell that breaks things for itself does not break the kernel's own work."""
    kernel.run("x = 41")
    cell = kernel.run(code)
    assert cell.status in (0, 1)
    assert kernel.process.poll() is None
    cell = kernel.run("x = 1 + 1\nx")
    assert cell.status == 0 and cell.text == "2"
    cell = kernel.run("import sys\nsys.__stdout__.write('seen\\n')\n1 / 0")
    assert cell.error["name"] == "ZeroDivisionError" or "builtins" in code
    cell = kernel.run("sys.__stdout__.write('go\\n')\nwhile True: pass", interrupt_at=b"go")
    assert cell.error["name"] == "KeyboardInterrupt" or "builtins" in code


def test_descriptors_that_are_all_closed_end_the_kernel(kernel):
    assert kernel.run("import os\nos.closerange(0, 1000)").status is None
    assert kernel.wait() != 0


def test_fork_in_all_its_ways(kernel):
    assert kernel.run("import os\nif os.fork() == 0:\n    raise KeyError('child')\nos.wait()[1] >> 8").text == "1"
    assert kernel.run("if os.fork() == 0:\n    import sys\n    sys.exit(7)\nos.wait()[1] >> 8").text == "7"
    cell = kernel.run("if os.fork() == 0:\n    display(5)\n    os._exit(0)\nos.wait()[1]")
    assert cell.text == "0" and cell.of("display") == [] and cell.stdout == b"5\n"
    cell = kernel.run("import ctypes\nif ctypes.CDLL(None).fork() == 0:\n    x = 1\nelse: os.wait()\n")
    assert (cell.status, cell.others) == (0, [])
    cell = kernel.run("from multiprocessing import Pool, set_start_method\nset_start_method('fork')\n"
                      "def sq(n): return n * n\nwith Pool(2) as p:\n    r = p.map(sq, range(5))\nr")
    assert cell.text == "[0, 1, 4, 9, 16]"


def test_a_module_of_the_same_name_is_not_ours(kernel):
    cell = kernel.run("open('kernel_values.py', 'w').write('raise SystemExit(9)')\n"
                      "open('mine.py', 'w').write('x = 8')\nimport mine\n[mine.x]")
    assert cell.text == "[8]"
    assert kernel.run("import sys\n[p for p in sys.path if 'guest' in p]").text == "[]"


def test_words_are_written_though_a_cell_has_changed_str(kernel):
    cell = kernel.run("import ctypes, gc\nd = gc.get_referents(str.__dict__)[0]\n"
                      "d['encode'] = d['join'] = lambda *a: b'end 9 0\\n'\n"
                      "ctypes.pythonapi.PyType_Modified(ctypes.py_object(str))\n'encode' in str.__dict__")
    assert (cell.status, cell.text) == (0, "True")
    assert kernel.run("1 + 1").text == "2"


def test_threads_may_display(kernel):
    cell = kernel.run("import threading\ndef f(n):\n    for i in range(50): display(n)\n"
                      "t = [threading.Thread(target=f, args=('x' * 9000,)) for n in range(4)]\n"
                      "for i in t: i.start()\nfor i in t: i.join()")
    assert len(cell.of("display")) == 200 and cell.others == []


def test_code_that_is_not_utf8(kernel):
    assert kernel.run(b"x = '\xff'").error["name"] == "UnicodeDecodeError"
    assert kernel.run("\ufeff5").text == "5"
    assert kernel.run("x = 1\0").status == 1


# --- scripts -------------------------------------------------------------------------------------


def script(code, stdin=None, env=None):
    with fake_warden.Kernel("python") as kernel:
        cell = kernel.run(code, stdin=stdin, env=env, flags="s")
        status = kernel.wait()
        assert (cell.status, cell.events) == (None, [])
        assert cell.others in ([], [b"exit 1 %d" % status])  # the truth, if anything
        return cell, status, kernel.folder


def test_script_is_main():
    cell, status, folder = script(
        "import sys\nprint(__name__, __file__, sys.argv, sys.path[0], sys.modules['__main__'].__name__)")
    path = folder + "/main.py"
    assert status == 0
    assert cell.stdout.decode() == "__main__ %s %s %s __main__\n" % (path, [path], folder)


@pytest.mark.parametrize("code", [
    "print('a')", "1 / 0", "def f():\n    raise KeyError('k')\ntry:\n    1 / 0\nexcept Exception:\n    f()",
    "import sys\nsys.exit(3)", "import sys\nsys.exit('text')", "import sys\nsys.exit(None)",
    "import sys\nsys.exit(-1)", "import sys\nsys.exit(256 + 7)", "raise SystemExit", "x = = 1",
    "import atexit\natexit.register(print, 'bye')\nprint('x', end='')",
    "import atexit\natexit.register(lambda: 1 / 0)\n",
    "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.2), print('t'))).start()\nprint('m')",
    "import sys\nsys.stderr.write('e'); sys.stdout.write('o')",
    "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\n1 / 0",
    "import sys\nsys.excepthook = None\n1 / 0",
    "input()", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile 1: pass",
    "import os\nos._exit(5)", "import os, signal\nos.kill(os.getpid(), 9)",
    "import os\nif os.fork() == 0: print('c', flush=True)\nelse: os.wait(); print('p')",
    "import sys\nsys.stdout.close()", "raise KeyboardInterrupt", "# coding: latin-1\nprint('\u00e9')",
    "import multiprocessing\nif __name__ == '__main__':\n    p = multiprocessing.Process(target=print, args=('c',))\n"
    "    p.start(); p.join()",
    "def f(): return f()\ntry:\n    f()\nexcept RecursionError:\n    print('deep')",
    "import concurrent.futures as c\nwith c.ThreadPoolExecutor() as e:\n    print(list(e.map(abs, [-1])))",
])
def test_script_ends_as_python_does(code, tmp_path):
    cell, status, folder = script(code)
    path = tmp_path / "main.py"
    path.write_text(code, encoding="utf-8")
    python = fake_warden.COMMANDS["python"][0]
    real = subprocess.run([python, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, cwd=tmp_path, check=False,
                          env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"})
    assert status == real.returncode
    assert cell.stdout == real.stdout
    said = cell.stderr.decode().replace(folder, str(tmp_path))
    assert ADDRESS.sub("0x", said) == ADDRESS.sub("0x", real.stderr.decode())


@pytest.mark.parametrize("code, said", [
    ("import sys\nsys.exit(3)", [b"exit 1 3"]), ("1 / 0", [b"exit 1 1"]), ("print(1)", [b"exit 1 0"]),
    ("import os\nos._exit(5)", []), ("raise KeyboardInterrupt", []),
    ("import os\nif os.fork() == 0: raise SystemExit(9)\nos.wait()", [b"exit 1 0"])])
def test_script_says_its_status_before_it_ends(code, said):
    assert script(code)[0].others == said


def test_script_says_nothing_to_a_file_in_place_of_its_descriptor(tmp_path):
    path = tmp_path / "mine"
    cell, status, _ = script(f"import os\nfd = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT)\n"
                             "for other in range(4, 300):\n    os.dup2(fd, other)\nraise SystemExit(3)")
    assert (status, cell.others, path.read_bytes()) == (3, [], b"")


def test_script_has_a_name_and_arguments():
    """Strings of the environment without a name; they are no variables."""
    env = [("", "my script.py"), ("A", "b"), ("", "a b"), ("", "="), ("", "")]
    cell, status, folder = script("import os, sys\nprint(sys.argv, __file__, os.environ['A'], '' in os.environ)\n"
                                  "print(os.listdir(sys.path[0]))\n1 / 0", env=env)
    path = folder + "/my script.py"
    assert status == 1
    assert cell.stdout.decode() == "%s %s b False\n['my script.py']\n" % (
        ["my script.py", "a b", "=", ""], path)
    assert 'File "%s", line 4' % path in cell.stderr.decode()


def test_script_input_and_environment():
    cell, status, _ = script("import os, sys\nprint(input(), os.environ['A'], repr(sys.stdin.read()))",
                             stdin="one\ntwo", env={"A": "b"})
    assert (status, cell.stdout) == (0, b"one b 'two'\n")


def test_importing_has_no_effect():
    code = ("import sys; before = set(sys.modules); sys.path.insert(0, %r); import kernel; "
            "print(sorted(m for m in set(sys.modules) - before if not m.startswith('_'))); "
            "kernel.preload()" % str(fake_warden.GUEST / "python"))
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"['kernel']\n"
