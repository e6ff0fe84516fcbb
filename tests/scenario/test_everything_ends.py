"""Everything ends when the run ends: daemons, stopped processes, new sessions, whatever."""
import subprocess

import pytest
import support

# Each starts something that would live for an hour, tells that it lives, and exits.
STAYERS = {
    "double-forked daemon": """
import os, time
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(w, b'x'); time.sleep(3600)
    os._exit(0)
os.read(r, 1)
""",
    "daemon without streams": """
import os, time
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    os.write(w, b'x'); time.sleep(3600)
os.read(r, 1)
""",
    "stopped process": """
import os, signal, time
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP); time.sleep(3600)
os.waitpid(child, os.WUNTRACED)
""",
    "deaf to every signal": """
import os, signal, time
r, w = os.pipe()
if os.fork() == 0:
    for n in range(1, 65):
        try: signal.signal(n, signal.SIG_IGN)
        except (OSError, ValueError): pass
    os.write(w, b'x'); time.sleep(3600)
os.read(r, 1)
""",
    "shell background job": """
import subprocess
subprocess.run('setsid sleep 3600 & nohup sleep 3600 >/dev/null 2>&1 &', shell=True)
""",
    "subreaper with children": """
import ctypes, os, time
ctypes.CDLL(None).prctl(36, 1)
r, w = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.write(w, b'x'); time.sleep(3600)
for _ in range(3): os.read(r, 1)
""",
    "children that spin": """
import os
r, w = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.write(w, b'x')
        while True: pass
for _ in range(4): os.read(r, 1)
""",
    "running threads": """
import threading, time, os
threading.Thread(target=time.sleep, args=(3600,)).start()
print('left', flush=True); os._exit(5)
""",
}


@pytest.mark.parametrize("name", STAYERS)
def test_nothing_outlives_the_run(way, name):
    before = set(support.alive())
    result = way.run_json(STAYERS[name] + "print('left', flush=True)", "--timeout", "20")
    left = {pid: what for pid, what in support.alive().items() if pid not in before}
    assert left == {}
    assert result["stdout"] == "left\n"
    assert result["exit_code"] == (5 if name == "running threads" else 0)
    assert not result.meta["timed_out"]  # the exit of the program ends the run, not its children


@pytest.mark.parametrize("name", ["double-forked daemon", "stopped process"])
def test_nothing_outlives_a_timeout_either(way, name):
    before = set(support.alive())
    result = way.run_json(STAYERS[name] + "while True: pass", "--timeout", "1")
    assert result["exit_code"] == -1
    assert {p: w for p, w in support.alive().items() if p not in before} == {}


def test_a_child_that_keeps_writing_does_not_hold_the_result_open():
    code = ("import os\nr, w = os.pipe()\nif os.fork() == 0:\n"
            "    os.write(w, b'x')\n    while True: os.write(1, b'y' * 1000)\n"
            "os.read(r, 1)\n")
    result = support.run_json(code, "--timeout", "20")
    assert (result["exit_code"], result.meta["timed_out"]) == (0, False)


def test_what_was_written_before_the_exit_is_all_there():
    code = ("import os\nfor _ in range(20):\n    if os.fork() == 0:\n"
            "        os.write(1, b'child\\n'); os._exit(0)\n"
            "for _ in range(20): os.wait()\nos.write(1, b'z' * 60000)")
    result = support.run_json(code, "--max-output", "100")
    assert result["stdout"] == "child\n" * 20 + "z" * 60000


def test_killing_everything_inside_only_ends_the_box(walled):
    result = walled.run_json("import os, signal\nprint('before', flush=True)\n"
                             "os.kill(-1, signal.SIGKILL)\nos.kill(1, signal.SIGKILL)\n"
                             "print('after', flush=True)")
    assert result["stdout"].startswith("before\n")
    assert result["exit_code"] in (0, 1, 137), result
    assert walled.run_json("print('next')")["stdout"] == "next\n"


def test_killing_everything_where_namespaces_are_refused_reaches_nobody_else():
    """Run as an ordinary user beside a process of the same user: it has to survive."""
    way = support.ways()["refused"]
    room = way.room()
    argv = ["sleep", "3600"]
    if support.is_root():
        argv = ["setpriv", f"--reuid={way.user}", f"--regid={way.user}", "--clear-groups", *argv]
    bystander = subprocess.Popen(argv)
    try:
        way.run_json("import os, signal\n"
                     f"for target in ({bystander.pid}, -1):\n"
                     "    try: os.kill(target, signal.SIGKILL)\n"
                     "    except OSError: pass\n", room=room)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
