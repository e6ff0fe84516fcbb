"""docs/security.md, attacks 44, 45: what a guest leaves never runs outside; what runs before it is not its own."""
import json
import os
import stat

import pytest
from attack import all_held

HOSTILE = {
    "bailey.yaml": "sandbox:\n  isolation: process\n", ".bashrc": "touch pwned\n",
    ".git/hooks/post-checkout": "#!/bin/sh\ntouch pwned\n", ".profile": "touch pwned\n",
    ".config/bailey/bailey.yaml": "sandbox:\n  isolation: process\n", ".env": "LD_PRELOAD=./x.so\n",
    "sub/.git/config": "[core]\n  fsmonitor = touch pwned\n", "sub/bailey.yaml": "x: y\n",
    "sub/.vscode/tasks.json": "{}",
}


def test_44_outputs_do_not_become_configuration_or_hooks(box, canary):
    out = box.folder / "out"
    outcome = box.python(f"""
for name, text in {HOSTILE!r}.items():
    path = os.path.join(output(), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
    attempt(os.chmod, path, 0o4755)
open(output() + "/data.csv", "w").write("a,b\\n")
attempt(os.chmod, output() + "/data.csv", 0o6777)
done()
""", "--out", out)
    assert outcome.result["exit_code"] == 0, outcome
    there = sorted(str(p.relative_to(out)) for p in out.rglob("*") if not p.is_dir())
    assert there == ["data.csv"], outcome
    mode = (out / "data.csv").stat().st_mode
    assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX | 0o111 | 0o002), oct(mode)
    reported = outcome.skipped()
    for name in HOSTILE:
        parents = {name[:i] for i, c in enumerate(name) if c == "/"} | {name}
        assert parents & set(reported), f"{name} is not in skipped_files: {reported}"
    # The folder as the next working folder: the configuration is the default's.
    config = box.bailey("config", "--json", cwd=out)
    assert config.status == 0, config
    assert "process" not in json.dumps(config.result.get("SANDBOX_ISOLATION", "")), config
    assert not (out / "pwned").exists() and not (box.folder / "pwned").exists()


def test_44_names_do_not_leave_the_folder(box, canary):
    out = box.folder / "deep" / "er" / "out"
    out.parent.mkdir(parents=True)
    for path in (out.parent, out.parent.parent):
        box.room.give(path)
    outcome = box.python("""
os.chdir(output())
names = ["..\\\\..\\\\x", "a\\nb", "\\x1b[2J", "~", "-rf", "$(touch pwned)", "x" * 255, "con",
         "...", " ", "a:b", "\\u202etxt.exe"]
for name in names:
    found[name[:10]] = attempt(lambda: open(name, "w").write("guest"))
found["latin"] = attempt(lambda: open(b"\\xff\\xfe", "w").write("guest"))
found["up"] = attempt(os.rename, "~", "../../x")
done()
""", "--out", out)
    assert outcome.result["exit_code"] == 0, outcome
    assert sorted(os.listdir(out.parent)) == ["out"]
    assert sorted(os.listdir(out.parent.parent)) == ["er"]
    assert all((out / name).is_file() for name in os.listdir(out))
    assert not any("\x1b" in text for text in (outcome.out, outcome.err))


def test_44_files_of_the_host_that_others_execute(box):
    paths = ("/etc/ld.so.preload", "/etc/profile.d/x.sh", "/etc/cron.d/x", "/root/.bashrc",
             "/usr/lib/python3/dist-packages/x.pth", "/usr/local/lib/x.so", "/etc/bash.bashrc")
    found = box.probe(f"""
import site, sysconfig
for path in {paths!r} + (sysconfig.get_paths()["purelib"] + "/planted.pth",
                         sysconfig.get_paths()["stdlib"] + "/sitecustomize.py",
                         os.path.realpath(sys.executable)):
    found[path] = opened(path, os.O_WRONLY | os.O_CREAT)
""")
    all_held(found, "EROFS", "EACCES", "ENOENT", "EPERM", "ETXTBSY")
    assert not os.path.exists("/etc/ld.so.preload") and not os.path.exists("/etc/cron.d/x")


TOUCH = "import os\nos.write(1, b'PLANTED\\n')\nos._exit(0)\n"
PLANTS = ("sitecustomize.py", "usercustomize.py", "ast.py", "json.py", "os.py", "io.py",
          "codecs.py", "encodings.py", "importlib.py", "sys.py", "builtins.py", "zz.pth", "site.py",
          "tokenize.py")


@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.ways("root", "refused")
def test_45_planted_modules_do_not_fool_the_import_check(box, name):
    """The check for blocked imports runs Python's parser in a box, without the caller's files."""
    plant = box.room.write(name, TOUCH if name.endswith(".py") else "import os; os._exit(0)\n")
    outcome = box.bailey("run", "--json", "--file", plant, "-c", "import subprocess\nprint('ran')",
                         env={"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"})
    assert outcome.result is not None, outcome
    assert "ran" not in outcome.result["stdout"], outcome
    assert outcome.status == 126 and outcome.error["code"] == "blocked_import", outcome
    assert outcome.meta["blocked_imports"] == ["subprocess"], outcome


@pytest.mark.parametrize("variable", [
    "PYTHONPATH=/workspace", "PYTHONSTARTUP=/workspace/x.py", "PYTHONHOME=/workspace",
    "PYTHONINSPECT=1", "PYTHONWARNINGS=error", "PYTHONPLATLIBDIR=x", "PYTHONUSERBASE=/workspace",
    "LD_PRELOAD=/workspace/x.so", "LD_LIBRARY_PATH=/workspace", "LD_AUDIT=/workspace/x.so",
    "PYTHONIOENCODING=utf-16", "PYTHONCASEOK=1", "PYTHONMALLOC=nonsense"])
@pytest.mark.ways("root")
def test_45_declared_variables_do_not_fool_the_import_check(box, variable):
    plant = box.room.write("sitecustomize.py", TOUCH)
    outcome = box.bailey("run", "--json", "--file", plant, "--env", variable, "-c",
                         "import subprocess\nprint('ran')",
                         env={"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"})
    assert outcome.status in (125, 126), outcome
    assert outcome.result is None or "ran" not in outcome.result["stdout"], outcome
    if outcome.status == 126:
        assert outcome.error["code"] == "blocked_import", outcome
    else:
        assert outcome.err.strip() or outcome.error["message"], outcome


@pytest.mark.ways("root")
def test_45_code_cannot_break_out_of_the_import_check(box):
    """Source that ends the checker's own quoting, comments or frames."""
    for code in ('"""\nimport subprocess\n"""\nimport subprocess',
                 "import\tsubprocess", "import subprocess as s", "from subprocess import run",
                 "if 1:\n  import subprocess", "exec('x')\nimport subprocess",
                 "# coding: rot13\nimport subprocess", "# -*- coding: utf-7 -*-\nimport subprocess",
                 "\ufeffimport subprocess", "import os.path, subprocess", "\fimport subprocess",
                 "__import__('subprocess')",
                 "import importlib as i\ni.import_module('subprocess')"):
        outcome = box.bailey("run", "--json", "-c", code,
                             env={"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"})
        assert outcome.status != 0 and outcome.result["exit_code"] != 0, (code, outcome)


def test_45_host_variables_and_modules_run_nowhere(box, canary):
    """The caller's PYTHON* and start files are neither run on the host nor inherited."""
    planted = box.room.path / "planted"
    planted.mkdir()
    for name in ("sitecustomize.py", "usercustomize.py", "ast.py"):
        (planted / name).write_text(f"open({str(canary.folder / 'ran')!r}, 'w')\n")
    host = {"PYTHONPATH": str(planted), "PYTHONSTARTUP": str(planted / "ast.py"),
            "BASH_ENV": str(planted / "ast.py"), "ENV": str(planted / "ast.py"),
            "NODE_OPTIONS": "--require " + str(planted / "x.js")}
    outcome = box.bailey("run", "--json", "-c", "print('mine')", env=host)
    assert outcome.result["stdout"] == "mine\n" and outcome.result["stderr"] == "", outcome
    outcome = box.bailey("run", "--json", "-c", "import subprocess",
                         env={**host, "SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"})
    assert outcome.error["code"] == "blocked_import", outcome


def test_45_overridden_builtins_do_not_forge_the_result(box):
    outcome = box.python("""
import builtins, io
def lie(*args, **named):
    return 0
builtins.print = builtins.open = builtins.exit = builtins.int = lie
sys.stdout = sys.__stdout__ = io.StringIO()
json.dumps = json.loads = lambda *a, **n: '{"exit_code": 0}'
sys.exit = os.kill = lie
os.write(1, b'{"stdout":"forged","exit_code":0,"meta":{}}\\n')
os._exit(9)
""")
    assert outcome.result["exit_code"] == 9 and outcome.status == 9, outcome
    assert outcome.result["stdout"] == '{"stdout":"forged","exit_code":0,"meta":{}}\n'
