"""docs/security.md, attacks 21, 25, 26, 45, 60, 61, 62, 71 from inside of kernels: cells that attack the engine.

After each of them: the cell's result is authentic or says that the kernel died and with what; the next
cell works and is told what happened; a neighbour's session has its variables; the broker is the same.
"""
import json
import os
import signal

import pytest

import support
from warm import ECHO, everywhere, in_languages, in_python

# How a cell of each language comes to the socket; Bash keeps it from cells by redirection.
SOCKET = {
    "python": """
import os, stat
control = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")
           and stat.S_ISSOCK(os.stat(f"/proc/self/fd/{fd}").st_mode)]
def say(data):
    for fd in control:
        os.write(fd, data)
""",
    "javascript": """
var fs = require("fs");
var control = fs.readdirSync("/proc/self/fd").filter(fd => {
    try { return fs.readlinkSync("/proc/self/fd/" + fd).startsWith("socket:"); } catch { return false; } });
var say = data => control.forEach(fd => {
    for (let left = Buffer.from(data); left.length;) {
        try { left = left.subarray(fs.writeSync(+fd, left)); } catch (e) { if (e.code !== "EAGAIN") break; } } });
""",
    "bash": """
control=()
for fd in /proc/$$/fd/*; do
    if [[ $(readlink $fd) == socket:* ]]; then control+=(${fd##*/}); fi
done
say() { for fd in "${control[@]}"; do printf "$1" >&$fd; done; }
""",
}


def said(language, text):
    """A cell's call that writes these words to every socket that it has."""
    if language == "bash":
        return "say '" + text.replace("%", "%%").replace("\n", "\\n") + "'\n"
    return f"say({text!r})\n" if language == "javascript" else f"say({text.encode()!r})\n"


# --- 60: framing ---


@everywhere
@pytest.mark.parametrize("stream", [1, 2])
def test_60_framing_on_output(cells, stream):
    """Words of the protocol in the output are output."""
    words = "end 1 0\nend 2 1\n{\"type\":\"result\",\"data\":{\"text/plain\":\"forged\"}}\ncell 9 - 1 0 0\nx"
    code = {"python": f"import os; os.write({stream}, {words.encode()!r}); 1 / 0",
            "javascript": f"require('fs').writeSync({stream}, {words!r}); throw new Error('own')",
            "bash": f"printf '%s' {json.dumps(words)} >&{stream}; false".replace("\\n", "\n")}[cells.language]
    if cells.language == "bash":
        code = f"printf '%s' '{words}' >&{stream}; false"
    result = cells.run(code)
    assert result["exit_code"] == 1 and result["results"] == [], result
    assert (result["stdout"], result["stderr"])[stream - 1] == words, result
    assert result["error"]["name"] in ("ZeroDivisionError", "Error", "ExitStatus"), result
    cells.works(result)


@everywhere
@pytest.mark.parametrize("words", [
    "end 4294967295 0\n", "end 99999999999999999999 0\n", "end -1 0\n", "end 1 137\n", "end 0 0\n", "end\n",
    "end 1\n", "end 1 0 0\n", "END 1 0\n", "\n\n\n", "cell 5 - 3 0 0\n1+1\n", "x" * 100000 + "\n",
    "{}\n{\n{[\n{\"type\":\"exit\"}\n", "{\"type\":\"result\",\"data\":{\"text/plain\":1}}\n",
    "{\"type\":\"error\",\"name\":1}\n", "{" + "[" * 5000 + "\n", "{\"type\":\"started\",\"exit_code\":0}\n"])
def test_60_words_that_are_none(cells, words):
    """On the control socket: wrong ids, no words, wrong shapes. The cell's own end counts."""
    if cells.language == "bash" and len(words) > 50000:
        words = "x" * 5000 + "\n"
    fail = {"python": "\nraise ValueError('own')", "javascript": "\nthrow new TypeError('own')",
            "bash": "\n(exit 7)"}[cells.language]
    result = cells.run(SOCKET[cells.language] + said(cells.language, words) + fail)
    assert result["exit_code"] == 1 and not result["meta"].get("kernel_lost"), result
    assert result["error"]["value"] in ("own", "7"), result
    cells.works(result)


@in_languages("python", "javascript")
def test_60_an_end_that_is_its_own(cells):
    """A cell may say its own end early, and nobody else's: what it does then is the next one's."""
    for status in (0, 1):
        code = SOCKET[cells.language] + {
            "python": f"for n in range(1, 200): say(b'end %d {status}\\n' % n)\nprint('late')",
            "javascript": f"for (let n = 1; n < 200; n++) say(`end ${{n}} {status}\\n`)\nconsole.log('late')",
        }[cells.language]
        result = cells.run(code)
        assert result["exit_code"] in (0, 1) and result["meta"]["signal"] is None, result
        assert not result["meta"]["timed_out"] and not result["meta"]["oom_killed"], result
        for _ in range(200):  # words that are left may end the next cells too: of this kernel, and by 0 or 1
            after = cells.run(ECHO[cells.language].format("mine"))
            assert after["exit_code"] in (0, 1) and after["meta"]["signal"] is None, after
            if after["stdout"].endswith("mine\n"):
                break
        cells.daemon.post(f"/v1/sessions/{cells.session}/contexts/{after['meta']['context']}/restart")
        fresh = cells.run(ECHO[cells.language].format("fresh"))
        assert fresh["stdout"] == "fresh\n" and fresh["meta"]["kernel"] == "new", fresh
        cells.works(fresh)


@in_languages("python", "javascript")
def test_60_an_endless_line(cells):
    """32 MB without an end: bounded in the warden and in the broker, and said to be cut."""
    code = SOCKET[cells.language] + {
        "python": "say(b'{\"type\":\"display\",\"data\":{\"text/plain\":\"')\nfor _ in range(512): say(b'x' * 65536)\n"
                  "say(b'\\n')\nprint('on')",
        "javascript": "say('{\"type\":\"display\",\"data\":{\"text/plain\":\"');\n"
                      "for (let i = 0; i < 512; i++) say(Buffer.alloc(65536, 'x'));\n"
                      "say('\\n'); console.log('on')"}[cells.language]
    result = cells.run(code, timeout=50)
    assert not result["meta"]["timed_out"], result["meta"]
    assert len(json.dumps(result)) < 40 << 20
    cells.works(result)


@in_languages("python", "javascript")
def test_60_a_flood_of_events(cells):
    """More than a cell may show; the daemon answers others meanwhile."""
    event = '{"type":"display","data":{"text/plain":"' + "y" * 1000 + '"}}\n'
    code = SOCKET[cells.language] + {
        "python": f"for _ in range(100): say({event.encode()!r} * 1000)\nprint('on')",
        "javascript": f"let many = Buffer.from({event!r}.repeat(1000));\n"
                      "for (let i = 0; i < 100; i++) say(many);\n"
                      "console.log('on')"}[cells.language]
    begun = cells.daemon.post(f"/v1/sessions/{cells.session}/code", {
        "code": code, "language": cells.language, "background": True, "timeout": 50}, 202)
    asked = cells.daemon.cell(cells.neighbour, "print(kept)")
    assert asked["stdout"] == "41\n", asked
    ended = cells.daemon.wait(begun["execution_id"], 55)
    assert ended["exit_code"] == 0, ended
    cells.works({"meta": {}})


@in_python
def test_60_it_reads_the_socket_itself(cells):
    """A thread that takes the next cell's message away: the kernel dies or that cell ends at its deadline."""
    first = cells.run(SOCKET["python"] + """
import threading
threading.Thread(target=lambda: os.read(control[0], 1 << 20), daemon=True).start()
""")
    assert first["exit_code"] == 0, first
    for _ in range(100):  # kernel and thread both wait for a message: which of them gets it, Linux decides
        result = cells.run("print('eaten?')", timeout=1)
        if result["exit_code"] != 0:
            break
        assert result["stdout"] == "eaten?\n", result
    assert result["meta"]["timed_out"] or result["meta"]["kernel_lost"], result
    assert result["stdout"] == "", result
    cells.works(result)


@in_python
def test_60_it_shuts_the_socket(cells):
    for code in ("import socket; socket.socket(fileno=os.dup(control[0])).shutdown(2)",
                 "[os.close(fd) for fd in control]", "os.dup2(os.open('/dev/zero', 0), control[0])",
                 "os.closerange(3, 4096)", "os.dup2(1, control[0])", "os.set_blocking(control[0], False)"):
        result = cells.run(SOCKET["python"] + code + "\nprint('said')")
        assert "said" in result["stdout"], (code, result)
        if not result["meta"].get("kernel_lost"):
            assert result["exit_code"] in (0, 1), (code, result)
        after = cells.works(result)
        assert after["meta"]["warm"] in ("zygote", "cold"), after


@in_python
def test_60_it_sends_descriptors(cells):
    """SCM_RIGHTS over its socket: nobody takes them, and the warden does not run out of them. Linux refuses
    more of them (ETOOMANYREFS) while the warden on a busy machine has not read those before."""
    result = cells.run(SOCKET["python"] + """
import array, errno, socket
s = socket.socket(fileno=os.dup(control[0]))
fds = array.array("i", [os.open("/dev/null", 0)] * 200)
sent = 0
while sent < 100:
    try:
        s.sendmsg([b"\\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        sent += 1
    except OSError as problem:
        if problem.errno != errno.ETOOMANYREFS:
            raise
        os.sched_yield()
print("sent")
""")
    assert result["stdout"] == "sent\n", result
    cells.works(result)
    for _ in range(3):
        assert cells.command("true")["exit_code"] == 0


# --- 45: what the driver uses ---

BROKEN = {
    "builtins": "import builtins\nfor n in list(vars(builtins)):\n    if n not in ('__import__', 'print', '__build_class__'): "
                "delattr(builtins, n)",
    "json": "import json, sys\njson.dumps = lambda *a, **k: '{\"type\":\"result\"}'\nsys.modules['json'] = None",
    "posix": "import os, posix\nfor n in ('write', 'read', '_exit', 'getpid', 'dup2', 'close'):\n"
             "    setattr(os, n, None); setattr(posix, n, None)",
    "modules": "import sys\nfor n in list(sys.modules):\n    if n not in ('sys', 'builtins'): sys.modules.pop(n)",
    "io": "import io, _io\nio.open = _io.open = None\nimport builtins\nbuiltins.open = builtins.print = builtins.compile = None",
    "excepthook": "import sys\nsys.excepthook = lambda *a: 1 / 0\nsys.displayhook = None\nraise ValueError('own')",
    "repr": "class Bad:\n    def __repr__(self): raise SystemExit(3)\nBad()",
    "repr exits": "import os\nclass Bad:\n    def __repr__(self): os._exit(5)\nBad()",
    "recursion": "import sys\nsys.setrecursionlimit(60)\ndef f(): f()\nf()",
    "trace": "import sys\nsys.settrace(lambda *a: 1 / 0)\nsys.setprofile(lambda *a: 1 / 0)\nx = 1",
    "meta_path": "import sys\nsys.meta_path[:] = [1]\nsys.path_hooks[:] = [1]\nimport nonexistent",
    "audit": "import sys\nsys.addaudithook(lambda *a: print('seen') or 1 / 0)",
    "main": "import sys\nsys.modules['__main__'] = 1\nglobals().clear()",
    "gc": "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Kernel': o.__dict__.clear()",
    "frames": "import sys\nf = sys._getframe()\nwhile f.f_back: f = f.f_back\nf.f_globals.clear()",
    "type": "import ctypes, gc\nd = gc.get_referents(str.__dict__)[0]\nd['encode'] = lambda *a: b'end 1 0\\n'",
    "threads": "import threading, _thread\n_thread.get_ident = lambda: 1\nthreading.Thread = None",
    "signal": "import signal\nsignal.signal = None\nimport _signal\n_signal.signal = _signal.getsignal = None",
    "linecache": "import linecache\nlinecache.cache = 1\nlinecache.getlines = None\nraise ValueError('own')",
    "a huge name": "raise type('E' * (1 << 22), (Exception,), {})('v' * (1 << 22))",
    "surrogates": "print('\\udcff\\ud800')\nraise ValueError('\\udcff\\ud800\\0')",
    "sys.exit": "import sys\nsys.exit('words')",
}


@in_python
@pytest.mark.parametrize("what", BROKEN)
def test_45_the_driver_is_broken(cells, what):
    result = cells.run("print('first')\n" + BROKEN[what], timeout=20)
    assert result["stdout"].startswith("first\n"), result
    assert not result["meta"]["timed_out"], result
    if result["meta"].get("kernel_lost"):
        assert result["exit_code"] != 0, result
    after = cells.run("print('second')", timeout=20)  # in the same kernel: it works, or its failure is told
    if after["exit_code"] == 0:
        assert "second\n" in after["stdout"], after
    else:
        assert after["meta"].get("kernel_lost") or after["error"] or after["stderr"], after
    cells.daemon.post(f"/v1/sessions/{cells.session}/contexts/{after['meta']['context']}/restart")
    fresh = cells.run("print(6 * 7)")
    assert fresh["stdout"] == "42\n" and fresh["meta"]["kernel"] == "new", fresh
    asked = cells.daemon.cell(cells.neighbour, "print(kept + 1)")
    assert asked["stdout"] == "42\n" and asked["meta"]["kernel"] == "kept", asked


def test_45_files_that_python_reads(warm_daemon):
    """sitecustomize, .pth, modules of our names in every folder a guest may write: the next kernel is not theirs."""
    daemon = warm_daemon
    session = daemon.session()["id"]
    daemon.exec(session, "sh", "-c", """
        for where in /workspace /tmp /home/user /home/user/.local/lib/python3.*/site-packages; do
            mkdir -p "$where"
            for name in sitecustomize usercustomize kernel kernel_values json os random zygote _zygote posix; do
                echo 'print("HIJACKED"); import os; os._exit(9)' > "$where/$name.py"
            done
            echo 'import os; os._exit(9)' > "$where/x.pth"
        done""")
    for origin in ("zygote", "cold"):
        context = daemon.context_of(session, origin)
        result = daemon.cell(session, "print('own')\n[1, {'a': 2}]", context=context)
        assert result["stdout"] == "own\n" and result["exit_code"] == 0, result
        assert result["results"][0]["data"]["text/plain"] == "[1, {'a': 2}]", result
        failed = daemon.cell(session, "def f():\n    return 1 / 0\nf()", context=context)
        assert failed["error"]["name"] == "ZeroDivisionError" and "HIJACKED" not in failed["stdout"], failed
    daemon.end(session)


# --- 61, 21: its process ---


@everywhere
@pytest.mark.parametrize("number", [n for n in range(1, 32) if n not in (
    signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT, signal.SIGCHLD,
    signal.SIGURG, signal.SIGWINCH)])
def test_61_it_signals_itself(cells, number):
    code = {"python": f"import os, time\nos.kill(os.getpid(), {number})\ntime.sleep(0.05)\nprint('alive')",
            "javascript": f"process.kill(process.pid, {number}); await new Promise(r => setTimeout(r, 50));"
                          "console.log('alive')",
            "bash": f"kill -{number} $$; sleep 0.05; echo alive"}[cells.language]
    result = cells.run(code, timeout=20)
    if result["meta"].get("kernel_lost") and cells.language == "javascript" and result["error"]:
        # It survived the signal, but Node's process.kill() had ended what runs cells, and it is told.
        assert result["exit_code"] == 1 and result["error"]["name"] in ("KernelError", "Interrupted"), result
        assert "status 1" in cells.works(result)["meta"]["kernel_note"]
    elif result["meta"].get("kernel_lost"):
        assert result["meta"]["signal"] == number and result["exit_code"] == 128 + number, result
        assert f"signal {number}" in cells.works(result)["meta"]["kernel_note"]
    else:
        assert result["stdout"] == "alive\n" or result["exit_code"] == 1, result
        cells.works(result)


@everywhere
@pytest.mark.parametrize("status", [0, 1, 9, 137, 255])
def test_61_it_exits(cells, status):
    code = {"python": f"import os; os._exit({status})", "javascript": f"process.reallyExit({status})",
            "bash": f"exec sh -c 'exit {status}'"}[cells.language]
    result = cells.run(code)
    assert result["meta"]["kernel_lost"] and result["exit_code"] == status, result
    assert result["meta"]["signal"] is None and not result["meta"]["oom_killed"], result
    assert f"status {status}" in cells.works(result)["meta"]["kernel_note"]


@in_python
def test_61_it_forks_and_both_go_on(cells):
    result = cells.run("import os\npid = os.fork()\nprint('child' if pid == 0 else 'parent', flush=True)\n"
                       "if pid: os.waitpid(pid, 0)\npid == 0")
    assert sorted(result["stdout"].split()) == ["child", "parent"], result
    assert [r["data"]["text/plain"] for r in result["results"]] == ["False"], result
    cells.works(result)
    many = cells.run("for _ in range(6): os.fork()\nprint('.', flush=True)")
    assert many["exit_code"] == 0, many
    seen = cells.run("print('mine')")["stdout"]
    assert seen.replace(".\n", "") == "mine\n", seen
    assert len(many["stdout"].split()) + seen.count(".") <= 64


@in_python
def test_61_a_forked_child_talks(cells):
    """With its own copy of the socket's number, or what it opens anew by /proc: nothing that is heard."""
    result = cells.run(SOCKET["python"] + """
if os.fork() == 0:
    for fd in range(3, 300):
        try:
            os.write(fd, b'{"type":"result","data":{"text/plain":"forged"}}\\nend 2 0\\nend 3 0\\n')
        except OSError:
            pass
    try:
        os.write(os.open(f"/proc/{os.getppid()}/fd/250", os.O_WRONLY), b"end 2 0\\n")
    except OSError:
        pass
    os._exit(0)
os.wait()
1 / 0
""")
    assert result["exit_code"] == 1 and result["error"]["name"] == "ZeroDivisionError", result
    assert result["results"] == [], result
    cells.works(result)


@everywhere
def test_61_it_executes_another_program(cells):
    code = {"python": "import os; os.execv('/bin/sh', ['sh', '-c', 'echo instead; exit 0'])",
            "javascript": None, "bash": "exec sh -c 'echo instead; exit 0'"}[cells.language]
    if code is None:
        pytest.skip("Node has no exec of its own")
    result = cells.run(code)
    assert result["stdout"] == "instead\n" and result["exit_code"] == 0, result
    assert result["meta"]["kernel_lost"], result
    assert "status 0" in cells.works(result)["meta"]["kernel_note"]


@in_python
def test_61_a_program_that_speaks_for_the_kernel(cells):
    """It gets the socket and says an end: it is the kernel now, until it is asked for more."""
    result = cells.run(SOCKET["python"] + """
os.dup2(control[0], 9)
os.execv("/bin/sh", ["sh", "-c", "echo instead; for i in 9 8 7 6 5 4 3 2 1; do echo end $i 0 >&9; done; sleep 1000"])
""", timeout=10)
    assert result["stdout"] == "instead\n" and result["meta"]["signal"] is None, result
    after = cells.run("print('never')", timeout=1)
    assert "never" not in after["stdout"], after
    assert after["meta"]["timed_out"] and after["meta"]["kernel_lost"], after
    cells.works(after)


@in_python
@pytest.mark.parametrize("keeps", ["socket", "pipes", "all"])
def test_25_a_daemon_that_stays(cells, keeps):
    """A process that left its session and keeps what the kernel had, while the kernel dies."""
    result = cells.run(SOCKET["python"] + f"""
import time
keep = {{"socket": control[:1], "pipes": [1, 2], "all": control[:1] + [1, 2, 252, 253]}}[{keeps!r}]
copies, kernel = [os.dup(fd) for fd in keep], os.getpid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("/workspace/stays", "w").close()
        while os.path.exists(f"/proc/{{kernel}}"):
            pass
        while True:
            for fd in copies:
                try:
                    os.write(fd, b"end 2 0\\nend 3 0\\nend 4 0\\n")
                except OSError:
                    pass
            time.sleep(0.01)
    os._exit(0)
while not os.path.exists("/workspace/stays"):
    pass
os._exit(4)
""", timeout=20)
    assert result["meta"]["kernel_lost"] and result["exit_code"] == 4, result
    after = cells.run("import time\nfor _ in range(20): time.sleep(0.01)\nprint('mine')\n1 / 0")
    assert after["meta"]["kernel"] == "replaced", after
    assert after["stdout"] == "mine\n" and after["error"]["name"] == "ZeroDivisionError", after
    cells.works(after)


@everywhere
def test_60_it_closes_what_it_prints_to(cells):
    code = {"python": "import os\nfor fd in (0, 1, 2): os.close(fd)\nos.open('/dev/null', os.O_RDONLY)",
            "javascript": "for (const fd of [0, 1, 2]) { try { require('fs').closeSync(fd) } catch {} }",
            "bash": "exec 0<&- 1>&- 2>&-"}[cells.language]
    cells.works(cells.run(code))


@in_python
def test_71_what_a_cell_leaves_in_its_kernel(cells):
    """Streams, handlers, umask, folder: the next cell of the same kernel prints and is interrupted all the same."""
    result = cells.run("""
import os, signal, sys, io
sys.stdout = sys.stderr = io.StringIO(); sys.stdin = None
signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
os.chdir("/"); os.umask(0o777)
""")
    assert result["exit_code"] == 0, result
    cells.works(result)
    stuck = cells.run("import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)", timeout=1)
    assert stuck["meta"]["timed_out"] and stuck["stdout"] == "begun\n", stuck
    cells.works(stuck)


# --- 62: deadlines ---


@everywhere
def test_62_stopped_by_a_command(cells):
    """SIGSTOP from a command of the same box: the engine's deadline holds, then the kernel is another one."""
    pid = cells.pid()
    assert cells.command("sh", "-c", f"kill -STOP {pid}")["exit_code"] == 0
    result = cells.run(ECHO[cells.language].format("stopped"), timeout=1)
    assert result["meta"]["timed_out"] and result["meta"]["kernel_lost"] and result["stdout"] == "", result
    cells.works(result)


@everywhere
def test_62_it_stops_itself(cells):
    code = {"python": "import os, signal\nprint('begun', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)",
            "javascript": "console.log('begun'); process.kill(process.pid, 'SIGSTOP')",
            "bash": "echo begun; kill -STOP $$"}[cells.language]
    for timeout in (1, 10):
        result = cells.run(code, timeout=timeout)
        assert result["meta"]["timed_out"], result
        if result["stdout"]:
            break  # else a busy machine had not begun with it in a second
    assert result["meta"]["kernel_lost"] and result["stdout"] == "begun\n", result
    cells.works(result)


@everywhere
@pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV", "HUP"])
def test_21_killed_by_a_command(cells, name):
    pid, number = cells.pid(), getattr(signal, "SIG" + name)
    assert cells.command("sh", "-c", f"kill -{name} {pid}")["exit_code"] == 0
    if name in ("TERM", "HUP") and cells.language == "bash":  # an interactive shell may outlive these
        pytest.skip("whether Bash dies of it is its own affair")
    support.wait_until(lambda: context(cells)["state"] == "dead", "its death was seen")
    assert f"signal {int(number)}" in context(cells)["note"], context(cells)
    cells.works({"meta": {"kernel_lost": True}})


def context(cells):
    found = [c for c in cells.daemon.get(f"/v1/sessions/{cells.session}/contexts")["contexts"]
             if c["language"] == cells.language]
    assert len(found) == 1, found
    return found[0]


@in_python
@pytest.mark.parametrize("code", [
    "import os\nwhile True:\n    if os.fork() == 0: os.setsid()",
    "import threading, time\nfor _ in range(10000): threading.Thread(target=time.sleep, args=(60,)).start()",
    "x = bytearray(1 << 40)", "import ctypes; ctypes.string_at(0)", "while True: pass",
    "import sys\nsys.setrecursionlimit(1 << 30)\ndef f(): return f()\nf()",
    "import signal, os\nsignal.signal(signal.SIGALRM, lambda *a: None)\nsignal.setitimer(0, 1e-6, 1e-6)\nwhile True: pass"],
    ids=["forks", "threads", "memory", "segfault", "spins", "deep", "timers"])
def test_26_it_eats_what_there_is(cells, code):
    result = cells.run(code, timeout=2)
    meta = result["meta"]
    assert result["exit_code"] != 0, result
    assert meta["timed_out"] or meta["oom_killed"] or meta.get("kernel_lost") or result["error"], result
    last = result
    for _ in range(3):  # processes that a fork bomb left may be in the way of the next kernel, and are told
        last = cells.run("print('next')", timeout=20)
        if last["stdout"] == "next\n":
            break
        assert last["meta"].get("kernel_lost") or last["meta"].get("error"), last
    asked = cells.daemon.cell(cells.neighbour, "print(kept + 1)")
    assert asked["stdout"] == "42\n" and asked["meta"]["kernel"] == "kept", asked
