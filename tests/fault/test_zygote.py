"""Zygotes and the kernels that they fork into boxes: the walls, the statuses, and who survives whom."""
import ast
import json
import os
import re
import select
import signal
import sys
from pathlib import Path

import daemon
import pytest
import support
from daemon import Daemon, is_alive, status

PYTHON = os.path.realpath("/usr/bin/python3")
NOTHING = "0000000000000000"

# Run in a kernel and in a command of the same box: what must be the same of both.
PROBE = r"""
import ctypes, errno, json, os, resource
libc = ctypes.CDLL(None, use_errno=True)
def status():
    kept = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
            "Seccomp", "Seccomp_filters", "Umask", "SigBlk", "SigIgn", "Cpus_allowed", "THP_enabled")
    lines = dict(line.rstrip("\n").split(":", 1) for line in open("/proc/self/status"))
    return {key: lines.get(key, "").split() for key in kept}
def call(number, *arguments):
    ctypes.set_errno(0)
    done = libc.syscall(number, *arguments)
    return errno.errorcode.get(ctypes.get_errno(), "OK") if done < 0 else "OK"
def tries():
    found = {}
    for path in ("/usr/x", "/etc/x", "/dev/x", "/x", "/bailey/x", "/proc/sys/kernel/hostname"):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
            found[path] = "OK"
        except OSError as problem:
            found[path] = errno.errorcode[problem.errno]
    for name, number, arguments in (("unshare", 272, (0x10000000,)), ("setns", 308, (0, 0)),
            ("mount", 165, (0, 0, 0, 0, 0)), ("ptrace", 101, (0, 0, 0, 0)), ("keyctl", 250, (0, 0)),
            ("bpf", 321, (0, 0, 0)), ("setuid", 105, (0,)), ("setgroups", 116, (0, 0)),
            ("chroot", 161, (b"/",)), ("sethostname", 170, (b"x", 1)), ("kexec_load", 246, (0,) * 4),
            ("init_module", 175, (0, 0, 0)), ("userfaultfd", 323, (0,)), ("capset", 126, (0, 0)),
            ("perf_event_open", 298, (0,) * 5), ("io_uring_setup", 425, (1, 0)),
            ("open_by_handle_at", 304, (0, 0, 0)), ("kill_warden", 62, (1, 9))):
        found[name] = call(number, *arguments)
    return found
names = [n for n in dir(resource) if n.startswith("RLIMIT_")]
facts = {
    "status": status(),
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in names},
    "namespaces": {n: os.readlink("/proc/self/ns/" + n) for n in sorted(os.listdir("/proc/self/ns"))},
    "mounts": open("/proc/self/mountinfo").read(),
    "cgroup": open("/proc/self/cgroup").read(),
    "oom": open("/proc/self/oom_score_adj").read(),
    "tries": tries(),
    "cwd": os.getcwd(),
    "root": sorted(os.listdir("/")),
    "dumpable": libc.prctl(3, 0, 0, 0, 0),
    "securebits": libc.prctl(27, 0, 0, 0, 0),
    "death signal": (lambda n: (libc.prctl(2, ctypes.byref(n)), n.value))(ctypes.c_int(-1)),
    "session": os.getsid(0) == os.getpid() and os.getpgid(0) == os.getpid(),
    "interfaces": sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else [],
    "host name": os.uname().nodename,
}
print("FACTS", json.dumps(facts))
"""

# The same of both but for what a kernel is for.
DESCRIPTORS = r"""
import fcntl, os
for fd in range(1024):
    try:
        print(fd, os.readlink("/proc/self/fd/%d" % fd).split(":")[0], fcntl.fcntl(fd, fcntl.F_GETFD))
    except OSError:
        pass
"""


@pytest.fixture(autouse=True)
def _swept(_nothing_is_left):
    yield
    support.reap_orphans()
    daemon.sweep()


class Warm(Daemon):
    """A daemon with zygotes; `python` is the one that they run."""

    def __init__(self, way, *binds, env=None, python=PYTHON, **more):
        self.kernels = 10
        super().__init__(way, *binds, env={"ZYGOTE": python, **(env or {})}, **more)

    def states(self):
        """tier -> what is said of its zygote."""
        rows = re.findall(r"zygote tier (\d+) ready (\d) pid (\d+) forks (\d+) memory (\d+)",
                          self.ask("look"))
        return {int(tier): {"ready": ready == "1", "forks": int(forks), "memory": int(memory)}
                for tier, ready, _, forks, memory in rows}

    def wait_ready(self, tier=0):
        support.wait_until(lambda: self.states().get(tier, {}).get("ready"),
                           f"the zygote of tier {tier} is ready")

    def kernel(self, box, tier=0):
        """A kernel's id, once the zygote of its tier is warm."""
        self.kernels += 1
        said = []

        def given():
            said[:] = self.ask("kernel", box, self.kernels, tier).split()
            assert said[0] == "kernel", said
            return said[3] == "0"

        support.wait_until(given, f"a kernel of tier {tier} is given: {said}")
        return self.kernels

    def run(self, box, kernel, code, word="cell"):
        """What it wrote, without the line of its end."""
        answer = self.ask(word, box, kernel, code=code)
        output, _, end = answer.rpartition("\n")
        assert end.startswith(("exited", "none", "lost")), answer
        return output.strip(), end

    def value(self, box, kernel, expression):
        output, _ = self.run(box, kernel, f"print(repr({expression}))")
        return ast.literal_eval(output)

    def status_of(self, box, kernel):
        return int(self.ask("ended", box, kernel).split()[2])


def facts(output):
    return json.loads(output[output.index("FACTS ") + 6:].splitlines()[0])


def test_a_kernel_has_the_walls_of_a_command(walled):
    running = Warm(walled)
    box, layers, _, _ = running.make("one")
    kernel = running.kernel(box)
    warm, _ = running.run(box, kernel, PROBE)
    cold, _ = running.run(box, 0, PROBE, "cold")
    warm, cold = facts(warm), facts(cold)
    assert set(warm) == set(cold)
    for name in warm:
        assert warm[name] == cold[name], name
    assert warm["status"]["Uid"] == ["1000"] * 4 and warm["status"]["CapBnd"] == [NOTHING]
    assert warm["status"]["NoNewPrivs"] == ["1"] and warm["status"]["Seccomp"] == ["2"]
    assert warm["oom"].strip() == "500" and warm["dumpable"] == 1
    if "uid_split" in layers:
        assert warm["status"]["Groups"] == []
    own, _ = running.run(box, kernel, DESCRIPTORS)
    program, _ = running.run(box, kernel, f"import subprocess\n_ = subprocess.run(['/usr/bin/python3', "
                                          f"'-c', {DESCRIPTORS!r}], close_fds=False)")
    assert [line.split()[:2] for line in own.splitlines()][:3] == [
        ["0", "/dev/null"], ["1", "pipe"], ["2", "pipe"]], own
    assert {line.split()[1] for line in own.splitlines()} == {"/dev/null", "pipe", "socket"}, own
    assert all(line.split()[2] == "1" for line in own.splitlines()[3:]), own  # close-on-exec
    assert [line.split()[0] for line in program.splitlines()] == ["0", "1", "2"], program
    assert running.end() == (0, "")


def test_it_says_nothing_of_the_host(walled):
    running = Warm(walled)
    box, *_ = running.make("one")
    kernel = running.kernel(box)
    told, _ = running.run(box, kernel, "print([open('/proc/self/' + n).read() for n in "
                                       "('environ', 'cmdline', 'maps')])")
    environ, cmdline, maps = ast.literal_eval(told)
    assert cmdline.split("\0")[:2] == [PYTHON, "/bailey/driver/zygote.py"]
    for text in (environ, maps):
        assert str(running.room.path) not in text and "bailey-engine" not in text
    names = {line.split("=")[0] for line in environ.split("\0") if line}
    cold, _ = running.run(box, 0, "import os; print(list(os.environ))", "cold")
    extra = names - set(ast.literal_eval(cold)) - {n for n in names if n.endswith("_THREADS")}
    assert not extra, extra
    files = {line.split(None, 5)[5] for line in maps.splitlines() if len(line.split(None, 5)) == 6}
    assert all(n.startswith(("/usr/", "/lib", "/bailey/driver/", "[")) for n in files), files
    assert running.value(box, kernel, "__import__('os').readlink('/proc/self/exe')[:9]") == "/usr/bin/"
    assert running.end() == (0, "")


def test_random_numbers_are_nobody_elses(walled):
    code = "[__import__('random').random(), __import__('uuid').uuid4().hex, " \
           "__import__('secrets').token_hex(), __import__('tempfile').mktemp()]"
    running = Warm(walled)
    box, *_ = running.make("one")
    other, *_ = running.make("two")
    seen = [running.value(where, running.kernel(where), code) for where in (box, box, other)]
    for column in zip(*seen):
        assert len(set(column)) == 3, column
    assert running.end() == (0, "")


def test_a_zygote_is_nobody_on_the_host():
    running = Warm(support.Way("root"))
    running.wait_ready()
    zygote, = running.zygotes
    now = status(zygote)
    assert now["CapPrm"] == now["CapEff"] == now["CapBnd"] == [NOTHING] and now["Seccomp"] == ["2"], now
    assert now["CapInh"] == now["CapAmb"] == [NOTHING] and now["NoNewPrivs"] == ["1"]
    assert len(set(now["Uid"] + now["Gid"])) == 1 and int(now["Uid"][0]) >= 65536
    launcher = running.launcher
    for kind in ("user", "pid"):  # boxes are children of these
        assert os.readlink(f"/proc/{zygote}/ns/{kind}") == os.readlink(
            f"/proc/{launcher}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    assert os.readlink(f"/proc/{zygote}/ns/mnt") != os.readlink(f"/proc/{launcher}/ns/mnt")
    held = {os.readlink(f"/proc/{zygote}/fd/{fd}").split(":")[0]
            for fd in os.listdir(f"/proc/{zygote}/fd") if int(fd) > 2}
    assert held <= {"socket", "anon_inode", "pidfd"} | {f"/proc/{zygote}/oom_score_adj"} | {
        h for h in held if h.endswith("oom_score_adj")}, held
    assert len([h for h in held if h == "socket"]) == 1
    assert running.end() == (0, "")


def test_statuses_are_the_systems(walled):
    running = Warm(walled)
    box, *_ = running.make("one")
    for code, wanted in (("import os; os._exit(42)", 42 << 8),
                         ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", signal.SIGKILL),
                         ("import os; os.abort()", signal.SIGABRT)):
        kernel = running.kernel(box)
        _, end = running.run(box, kernel, code)
        assert end.startswith("exited"), end
        assert running.status_of(box, kernel) & ~0x80 == wanted, code
    for code, wanted in (("print(1)", 0), ("raise SystemExit(7)", 7 << 8), ("1/0", 1 << 8)):
        kernel = running.kernel(box)
        running.run(box, kernel, code, "script")
        assert running.status_of(box, kernel) == wanted, code
    assert running.end() == (0, "")


def test_a_killed_zygote_is_replaced_and_loses_no_kernel(walled):
    running = Warm(walled)
    box, *_ = running.make("one")
    kernel = running.kernel(box)
    running.run(box, kernel, "x = 41")
    before, = running.zygotes
    os.kill(before, signal.SIGKILL)
    support.wait_until(lambda: not is_alive(before), "it is gone")
    assert running.value(box, kernel, "x + 1") == 42
    after = running.kernel(box)  # waits for the next one
    assert running.zygotes != [before]
    assert running.value(box, after, "'x' in globals()") is False
    running.run(box, kernel, "import os; os._exit(9)")
    assert running.status_of(box, kernel) == 9 << 8  # told by the launcher, which is its parent now
    code, said = running.end()
    assert code == 0 and "a zygote (tier 0) ended (signal 9)" in said, said


def test_a_box_ends_with_kernels_whose_zygote_is_gone(walled):
    running = Warm(walled)
    box, *_ = running.make("one")
    running.kernel(box)
    os.kill(running.zygotes[0], signal.SIGKILL)
    running.wait_ready()
    running.kernel(box)
    assert running.ask("end", box).split()[0] == str(box)
    support.wait_until(lambda: not running.wardens, "the box is gone")
    assert running.end()[0] == 0


def test_a_python_that_cannot_start_is_tried_again(walled):
    room = walled.room()
    folder = room.path / "bin"
    folder.mkdir(mode=0o755)
    broken = folder / "python3"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    room.give(folder)
    running = Warm(walled, folder, python=str(broken), room=room)
    box, *_ = running.make("one")
    assert running.ask("kernel", box, 5, 0).split() == ["kernel", str(box), "5", "-11"]
    support.wait_until(lambda: not running.states()[0]["ready"], "it is not ready")
    assert running.run(box, 0, "print(6 * 7)", "cold")[0] == "42"
    assert select.select([running.process.stderr], [], [], support.PATIENCE)[0], "it said nothing"
    code, said = running.end()
    assert code == 0 and "a zygote (tier 0) ended (status 3)" in said, said


def test_nothing_is_left_of_many(walled):
    running = Warm(walled)
    running.wait_ready()
    box, *_ = running.make("one")
    running.status_of(box, end_kernel(running, box))

    def counts():
        return [len(os.listdir(f"/proc/{pid}/fd")) for pid in
                (running.launcher, *running.zygotes, *running.wardens)]

    before = counts()
    memory = running.states()[0]["memory"]
    for _ in range(30):
        running.status_of(box, end_kernel(running, box))
    assert counts() == before
    assert running.states()[0]["memory"] < memory + (2 << 20)
    assert running.states()[0]["forks"] == 31
    said = running.ask("warm", 20, 0)
    assert said.startswith("warm 20 "), said
    support.wait_until(lambda: counts() == before, "what those boxes had is closed")
    zygote, = running.zygotes
    support.wait_until(lambda: not children_of(zygote), "it has no children")
    assert running.end() == (0, "")


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def end_kernel(running, box):
    kernel = running.kernel(box)
    running.run(box, kernel, "import os; os._exit(0)")
    return kernel


def make_layer(running_room, modules, tiers):
    """A template's layer as an installer leaves it: a virtual environment at /bailey/template."""
    name = "ab" * 32
    state = running_room.path / "state"
    layers = state / "layers"
    site = layers / name / "lib" / f"python{sys_version()}" / "site-packages"
    site.mkdir(parents=True)
    (layers / name / "bin").mkdir()
    (layers / name / "bin" / "python").symlink_to(PYTHON)
    (layers / name / "pyvenv.cfg").write_text(f"home = {os.path.dirname(PYTHON)}\n")
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)
    (layers / f"{name}.tiers").write_text(tiers)
    for folder, _, names in os.walk(state):
        os.chmod(folder, 0o755)
        for file in names:
            if not os.path.islink(f"{folder}/{file}"):
                os.chmod(f"{folder}/{file}", 0o644)
    os.chmod(state, 0o700)
    os.chmod(layers, 0o700)
    give_all(running_room, state)
    return name


def give_all(room, top):
    for folder, folders, names in os.walk(top):
        for name in (*folders, *names):
            if not os.path.islink(f"{folder}/{name}"):
                room.give(Path(folder) / name)
    room.give(top)


def sys_version():
    found = re.search(r"python(\d+\.\d+)$", PYTHON)
    return found.group(1) if found else "%d.%d" % sys.version_info[:2]


def test_tiers_are_what_the_layer_says(walled):
    room = walled.room()
    (room.path / "state").mkdir(mode=0o700)
    layer = make_layer(room, {"heavy": "import os\nTOKEN = os.urandom(8)\n", "heavier": "", "bad": "1/0"},
                       "core heavy nosuch bad\n\ndata heavier\n")
    running = Warm(walled, room=room, env={"LAYER": layer})
    box, *_ = running.make("one")
    loaded = "[m for m in ('heavy', 'heavier', 'bad') if m in __import__('sys').modules]"
    for tier, wanted in ((0, []), (1, ["heavy"]), (2, ["heavy", "heavier"]), (7, ["heavy", "heavier"])):
        assert running.value(box, running.kernel(box, tier), loaded) == wanted, tier
    kernel = running.kernel(box, 1)
    assert running.value(box, kernel, "__import__('heavy').__file__").startswith("/bailey/template/")
    tokens = [running.value(box, number, "__import__('heavy').TOKEN")
              for number in (kernel, running.kernel(box, 1))]
    assert tokens[0] == tokens[1]  # it was imported once, before the fork
    assert running.value(box, kernel, "__import__('sys').prefix") == "/bailey/template"
    code, said = running.end()
    assert code == 0 and "nosuch of tier core is left out" in said and "bad of tier core" in said


def test_thread_counts_are_fixed(walled):
    running = Warm(walled)
    box, *_ = running.make("one")
    cores = len(os.sched_getaffinity(0))
    counts = running.value(box, running.kernel(box), "[__import__('os').environ[n] for n in "
                           "('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'POLARS_MAX_THREADS')]")
    assert len(set(counts)) == 1 and 1 <= int(counts[0]) and (
        int(counts[0]) == cores or int(counts[0]) == os.cpu_count()), counts
    assert running.end() == (0, "")
