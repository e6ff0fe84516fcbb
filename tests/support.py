"""support.py - what black-box suites share: running the binary, the ways to run it, leak checks.

The binary under test is $BAILEY (default build/bailey of this repository). Each call gets a room of
its own (working folder, HOME, TMPDIR) and a small environment, so that nothing of the tester's
machine is picked up by accident and everything that is left behind is seen.
"""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

import pytest
from pathlib import Path

import own

REPO = Path(__file__).resolve().parent.parent
BAILEY = Path(os.environ.get("BAILEY", REPO / "build" / "bailey")).absolute()
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ORDINARY_UID = 12345  # has no entry in /etc/passwd: nothing may depend on one
PATIENCE = 60.0  # seconds until a call counts as hung; never reached by a run that works

# Instrumented builds need these; they change nothing for others.
PASSED_ON = ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "GCOV_PREFIX", "GCOV_PREFIX_STRIP",
             "LLVM_PROFILE_FILE")


def is_root():
    return os.geteuid() == 0


# --- rooms ---------------------------------------------------------------------------------------


class Room:
    """A working folder, a HOME and a TMPDIR for calls of bailey; owned by `user` when given."""

    def __init__(self, user=None):
        self.path = Path(tempfile.mkdtemp(prefix="room-", dir=base()))
        self.user = usual(user)
        self.work, self.home, self.tmp = (self.path / n for n in ("work", "home", "tmp"))
        os.chmod(self.path, 0o755)
        for folder in (self.work, self.home, self.tmp):
            folder.mkdir()
            self.give(folder)
        rooms.append(self)

    def give(self, path):
        """Hands a path (made by us) to the room's user."""
        if self.user is not None and is_root():
            os.chown(path, self.user, self.user)
        return path

    def write(self, name, content=b"", mode=0o644):
        """A file in the working folder."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return self.give(path)

    def left_in_tmp(self):
        return sorted(str(p) for p in self.tmp.rglob("*")) if self.tmp.exists() else []

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


rooms = []  # those of the running test; conftest.py empties it
surroundings = {}  # what every call has in its environment meanwhile, as a suite that changes the runtime
usual_user = None  # who calls are made by meanwhile, where a test names nobody; None: who runs the tests
_base = None


def usual(user):
    return usual_user if user is None else user


def base():
    """One world-readable folder for everything of this test run."""
    global _base
    if _base is None:
        _base = Path(tempfile.mkdtemp(prefix="yard-"))
        os.chmod(_base, 0o755)
    return _base


def remove_base():
    if _base is not None:
        shutil.rmtree(_base, ignore_errors=True)


_reachable = None


def reachable_binary():
    """A copy of the binary that any user may execute, wherever the repository is."""
    global _reachable
    if _reachable is None:
        _reachable = base() / "bin" / "bailey"
        _reachable.parent.mkdir(mode=0o755, exist_ok=True)
        for program in (BAILEY, BAILEY.with_name("bailey-engine")):
            if program.exists():
                shutil.copyfile(program, _reachable.with_name(program.name))
                _reachable.with_name(program.name).chmod(0o755)
    return _reachable


def fault_build():
    """The program of $BAILEY_FAULT, or of a build beside the tree's own: allocations can fail in it,
    and it is linked with the rows that only tests have (tests/door)."""
    given = os.environ.get("BAILEY_FAULT")
    if given:
        return Path(given).absolute()
    with open(REPO / "tools" / "build") as lock:  # one worker builds, the others wait for it
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["tools/build", "build-fault", "-Dfault=true", "-Dtest_rows=true"],
                              cwd=REPO, env={**os.environ, "TARGETS": "bailey bailey-engine"},
                              capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return REPO / "build-fault" / "bailey"


def environment(room, env=None):
    """The small environment of a call; `env` adds to it, a value of None takes away."""
    full = {"PATH": PATH, "HOME": str(room.home), "TMPDIR": str(room.tmp), "LANG": "C.UTF-8"}
    full.update({k: os.environ[k] for k in PASSED_ON if k in os.environ})
    full.update(surroundings)
    for key, value in (env or {}).items():
        if value is None:
            full.pop(key, None)
        else:
            full[key] = str(value)
    return full


# --- calling -------------------------------------------------------------------------------------


class Done:
    """What a call left: `status`, `out` and `err` as bytes, `stdout` and `stderr` as text."""

    def __init__(self, args, status, out, err, room):
        self.args, self.status, self.out, self.err, self.room = args, status, out, err, room

    @property
    def stdout(self):
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def stderr(self):
        return self.err.decode("utf-8", "surrogateescape")

    def json(self):
        """The one JSON value on standard output; anything around it is a failure."""
        try:
            return json.loads(self.out.decode("utf-8"))
        except ValueError as problem:
            raise AssertionError(f"stdout is not one JSON value ({problem}): {self!r}") from None

    def __repr__(self):
        return (f"<status {self.status}; stdout {self.out[:2000]!r}; stderr {self.err[:2000]!r}; "
                f"argv {[str(a)[:200] for a in self.args]}>")


class Result(dict):
    """The parsed result of a --json run, with the exit status of the command line beside it."""

    def __init__(self, done):
        super().__init__(done.json())
        self.done, self.status = done, done.status

    @property
    def meta(self):
        return self["meta"]

    @property
    def error(self):
        return self["meta"].get("error")


def command(*args, user=None, deny=()):
    """The argv of a call: as `user` (a uid) through setpriv, with system calls denied."""
    user = usual(user)
    argv = [str(reachable_binary() if user is not None or deny else BAILEY), *map(str, args)]
    if deny:
        argv = [str(denier()), *deny, "--", *argv]
    if user is not None and user != os.geteuid():
        argv = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", *argv]
    return argv


def start(*args, env=None, user=None, cwd=None, room=None, deny=(), **popen):
    """Starts bailey with pipes and comes back at once; the caller waits or kills it."""
    room = room or Room(user)
    settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    settings.update(popen)
    return subprocess.Popen(command(*args, user=user, deny=deny), env=environment(room, env),
                            cwd=cwd or room.work, **settings)


def bailey(*args, stdin=None, env=None, user=None, cwd=None, timeout=PATIENCE, room=None, deny=()):
    """Runs bailey to its end. `stdin` is bytes (None: /dev/null)."""
    room = room or Room(user)
    process = start(*args, env=env, user=user, cwd=cwd, room=room, deny=deny,
                    stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
    try:
        out, err = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"bailey hung for {timeout} s: "
                             f"{Done(process.args, None, out, err, room)!r}") from None
    if not deny and args[:1] != ("doctor",) and any(words in out + err for words in REFUSED_NAMESPACES):
        need_sessions(user)
    return Done(process.args, process.returncode, out, err, room)


# --- what this machine refuses -------------------------------------------------------------------

# What bailey says where namespaces are refused: a call that says so has not shown what the test asks.
REFUSED_NAMESPACES = (b"sessions need namespaces of their own",
                      b"needs namespaces, and they are refused here",
                      b"need namespaces, and they are refused here",
                      b"gives no namespaces, so")
_refusals = {}


def session_refusal(user=None):
    """Why sessions do not work for this user here, from `bailey doctor`, which tries; None:
    sessions work. A plain container refuses them."""
    user = usual(user)
    if user not in _refusals:
        _refusals[user] = bailey("doctor", "--json", user=user).json()["sessions"]["reason"]
    return _refusals[user]


def need_sessions(user=None):
    """Skips the test, with the reason, where sessions do not work."""
    reason = session_refusal(user)
    if reason:
        pytest.skip(reason)


def need_namespaces(user=None):
    """The same for a test that needs a box with namespaces, or makes one by itself."""
    reason = session_refusal(user)
    if reason:
        pytest.skip(reason.replace("sessions need namespaces of their own", "the test needs namespaces"))


def need_mounts():
    """Skips a test that mounts something by itself where that is refused."""
    if not is_root():
        pytest.skip("has to be started as root (to mount)")
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none",
                           tempfile.gettempdir()], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"the test mounts file systems, which is refused here ({done.stderr.strip()})")


def run_json(code, *options, **kwargs):
    """`bailey run --json OPTIONS -c CODE`, parsed."""
    return Result(bailey("run", "--json", *options, "-c", code, **kwargs))


def exec_json(*argv, options=(), **kwargs):
    """`bailey exec --json OPTIONS -- ARGV`, parsed."""
    return Result(bailey("exec", "--json", *options, "--", *argv, **kwargs))


def on_terminal(*args, room=None, until=None, then=b"", timeout=PATIENCE, env=None):
    """
    Runs bailey with a pseudo terminal as all its standard streams. When `until` has appeared,
    `then` is typed, or called. Returns (status as of waitstatus_to_exitcode, all bytes the terminal
    got).
    """
    room = room or Room()
    argv, env = command(*args), environment(room, {"TERM": "xterm", **(env or {})})
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(room.work)
            os.execve(argv[0], argv, env)
        finally:
            os._exit(111)
    seen, deadline = b"", time.monotonic() + timeout
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    try:
        while True:
            if not select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError(f"bailey hung on a terminal, which got {seen!r}")
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # EIO: nobody holds the other end any more
                piece = b""
            seen += piece
            if until and until in seen:
                then() if callable(then) else os.write(terminal, then)
                until = None
            if not piece:
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen
    finally:
        os.close(terminal)


def read_until(stream, marker, timeout=PATIENCE):
    """Reads a pipe until `marker` (bytes) has come; returns all that was read."""
    seen, deadline = b"", time.monotonic() + timeout
    while marker not in seen:
        ready, _, _ = select.select([stream], [], [], max(0, deadline - time.monotonic()))
        piece = os.read(stream.fileno(), 65536) if ready else b""
        if not piece:
            raise AssertionError(f"{marker!r} did not come; got {seen!r}")
        seen += piece
    return seen


# --- the ways to run -----------------------------------------------------------------------------

NO_MOUNTS = ("mount", "umount2", "pivot_root", "open_tree", "move_mount", "fsopen", "fsconfig",
             "fsmount", "fspick", "mount_setattr")
NO_NAMESPACES = ("unshare", "setns", "clone-namespaces", "clone3", "chroot", *NO_MOUNTS)
NO_LANDLOCK = ("landlock_create_ruleset",)


def denier():
    """The launcher that denies system calls and then executes: compiled once from denier.c."""
    program = base() / "bin" / "denier"
    if not program.exists():
        program.parent.mkdir(mode=0o755, exist_ok=True)
        subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", program,
                        Path(__file__).parent / "denier.c"], check=True)
        program.chmod(0o755)
    return program


class Way:
    """One way to run bailey: as which user, and what the kernel refuses."""

    def __init__(self, name, user=None, deny=()):
        self.name, self.user, self.deny = name, user, tuple(deny)

    @property
    def has_namespaces(self):
        return not self.deny and session_refusal(self.user) is None

    def _laid_over(self, kwargs):
        kwargs.setdefault("user", self.user)
        kwargs.setdefault("deny", self.deny)
        return kwargs

    def room(self):
        return Room(self.user)

    def bailey(self, *args, **kwargs):
        return bailey(*args, **self._laid_over(kwargs))

    def start(self, *args, **kwargs):
        return start(*args, **self._laid_over(kwargs))

    def run_json(self, code, *options, **kwargs):
        return run_json(code, *options, **self._laid_over(kwargs))

    def exec_json(self, *argv, **kwargs):
        return exec_json(*argv, **self._laid_over(kwargs))

    def __repr__(self):
        return self.name


def ordinary_user(*args, **kwargs):
    """bailey as a made-up unprivileged uid; as we are when we are not root ourselves."""
    return bailey(*args, user=ORDINARY_UID if is_root() else os.geteuid(), **kwargs)


def without_namespaces(*args, **kwargs):
    """bailey where the kernel refuses namespaces and mounts."""
    return bailey(*args, deny=NO_NAMESPACES, **kwargs)


def ways():
    """Root (when we are), an ordinary user, and refused namespaces as either."""
    ordinary = ORDINARY_UID if is_root() else os.geteuid()
    return {
        "root": Way("root"),
        "ordinary": Way("ordinary", ordinary),
        "refused": Way("refused", ordinary, NO_NAMESPACES),
        "root-refused": Way("root-refused", None, NO_NAMESPACES),
    }


# --- what is left --------------------------------------------------------------------------------

# As sys/owner.c names their maker: its pid namespace, and its pid there.
MADE = re.compile(r"bailey-n(?P<namespace>\d+)-(?P<pid>\d+)-")
BOX_FOLDER = re.compile(MADE.pattern + "box_")  # boxes/private.c


def _read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _processes():
    """pid -> (parent, state, name) of every process."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            head, _, tail = _read(f"/proc/{entry}/stat").rpartition(b")")
            if tail:
                state, parent = tail.split()[:2]
                found[int(entry)] = (int(parent), state.decode(), head.partition(b"(")[2].decode(
                    "utf-8", "replace"))
    return found


def descendants(of=None):
    """Processes beneath `of` (default: us), zombies too, as {pid: "state name"}."""
    everybody, mine = _processes(), set()
    root = of or os.getpid()
    for pid in everybody:
        chain, at = [], pid
        while at in everybody and at != root and at not in mine:
            chain.append(at)
            at = everybody[at][0]
        if at == root or at in mine:
            mine.update(chain)
    return {pid: " ".join(everybody[pid][1:]) for pid in mine}


def alive(of=None):
    """The descendants that are more than a zombie."""
    return {pid: what for pid, what in descendants(of).items() if not what.startswith("Z")}


def reap_orphans():
    """
    Takes the exit of processes that came to us as orphans. A run that ended by itself has reaped
    its own, so the leak check looks before it calls this; after kill -9 they come here.
    """
    known = {p.pid for p in getattr(subprocess, "_active", ())}
    for pid, what in descendants().items():
        if what.startswith("Z") and pid not in known:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def _pid_namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def _is_zygote(pid, everybody):
    """A zygote of a live daemon: one that has ended was replaced, with another pid. A kernel whose zygote has
    ended is the launcher's child too, but is in a box."""
    parent = everybody.get(pid, (0, "", ""))[0]
    return (everybody.get(parent, (0, "", ""))[2] == "launcher"
            and b"/bailey/driver/zygote.py" in _read(f"/proc/{pid}/cmdline")
            and _pid_namespace(pid) == _pid_namespace(parent))


apart = set()  # processes of ours that have a life of their own, with all beneath: docker.py's


def processes():
    """Everything beneath us: orphans come to us too (own.py)."""
    found, everybody = descendants(), _processes()
    for root in apart & set(found):
        for pid in (root, *descendants(root)):
            found.pop(pid, None)
    return {f"process {pid} ({what[2:]})" for pid, what in found.items() if not _is_zygote(pid, everybody)}


def mounts():
    """Id, place and type: options are a file system's, which a neighbour may change. In a namespace
    that we could not leave, nothing beneath us can mount either."""
    found = set()
    if not own.has_mounts:
        return found
    for line in _read("/proc/self/mountinfo").decode().splitlines():
        left, _, right = line.partition(" - ")
        found.add(f"mount {left.split()[0]} {left.split()[4]} {right.split()[0]}")
    return found


def _somebody_elses(name):
    """Whether a name such as bailey-n4026531836-123-0 is that of a living process which is not ours,
    or of one in a pid namespace that no process of ours has."""
    made = MADE.match(name)
    if not made:
        return False
    namespace, pid, mine = made["namespace"], int(made["pid"]), descendants()
    if namespace == own.pid_namespace():
        return os.path.exists(f"/proc/{pid}") and pid not in mine
    return namespace not in {own.pid_namespace(one) for one in mine}


def engine_name(stub):
    """The control group of a daemon's boxes, by the pid of its stub as it is seen from here."""
    with open(f"/proc/{stub}/status") as file:
        inside = next(line.split()[-1] for line in file if line.startswith("NSpid:"))
    return f"bailey-n{own.pid_namespace(stub)}-{inside}-engine"


def group_tops():
    """Where control groups of this test run's boxes can be."""
    return own.groups or [point for point, *_ in own.cgroup_mounts()]


def _is_our_group(path):
    """Whether this test run made it. If the run has no control groups of its own, a group of another user
    belongs to another program: bailey's groups belong to the user who started it."""
    if own.groups:
        return True
    try:
        return os.stat(path).st_uid == os.geteuid() and not _somebody_elses(os.path.basename(path))
    except OSError:
        return False  # gone meanwhile


def cgroups():
    found = set()
    for top in group_tops():
        for folder, names, _ in os.walk(top):
            found.update(f"cgroup {folder}/{n}" for n in names
                         if n.startswith("bailey") and _is_our_group(os.path.join(folder, n)))
    return found


def folders():
    """In shared folders, those whose names say that no other program's process made them."""
    found = set()
    for top in {os.environ.get("TMPDIR", "/tmp"), "/tmp", "/dev/shm", "/run", "/var/tmp"}:
        try:
            found.update(f"folder {top}/{n}" for n in os.listdir(top)
                         if BOX_FOLDER.match(n) and not _somebody_elses(n))
        except OSError:
            pass
    for room in rooms:
        found.update(f"in TMPDIR: {path}" for path in room.left_in_tmp())
    return found


def snapshot():
    return processes() | mounts() | cgroups() | folders()


def left_since(before, patience=3.0):
    """
    What exists now and did not before. What another bailey has for a moment is given time to disappear;
    what still exists after `patience` seconds has been left.
    """
    deadline = time.monotonic() + patience
    while True:
        left = snapshot() - before
        if not left or time.monotonic() > deadline:
            return sorted(left)
        time.sleep(0.02)


def end_new(before):
    """Ends what a failed test has left beneath us, so that the next test starts clean."""
    left = processes() - before
    for pid, what in alive().items():
        if f"process {pid} ({what[2:]})" in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def wait_until(is_true, what, timeout=30.0):
    """Polls until `is_true()`; fails with `what` after the deadline."""
    deadline = time.monotonic() + timeout
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {timeout} s: {what}")
        time.sleep(0.01)


def python_with(name, packages):
    """A Python with these packages, made once beside the binary with pip. Several workers of one test
    run may need it at once: one makes it, the others wait. Skips if it cannot be made."""
    folder = BAILEY.parent / name
    python = folder / "bin" / "python"
    works = [python, "-c", "import " + ", ".join(packages)]
    if not os.access(folder.parent, os.W_OK):
        pytest.skip(f"no interpreter with {', '.join(packages)}: {folder.parent} is not ours to write to")
    with open(folder.parent / (name + ".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if python.exists() and subprocess.run(works, capture_output=True).returncode == 0:
            return python
        for step in ([sys.executable, "-m", "venv", "--clear", "--without-pip", folder],
                     [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *packages]):
            try:
                done = subprocess.run(step, capture_output=True, text=True, timeout=300)
            except (OSError, subprocess.TimeoutExpired) as problem:
                pytest.skip(f"no interpreter with {', '.join(packages)}: {problem}")
            if done.returncode != 0:
                pytest.skip(f"no interpreter with {', '.join(packages)}: {done.stderr.strip()[-300:]}")
    return python


# The coverage build keeps its counters in a file of its own: it takes the lowest free descriptor,
# and limits on files and data hit it before they hit bailey.
not_with_counters = pytest.mark.skipif(
    "LLVM_PROFILE_FILE" in os.environ, reason="the coverage counters' own file is in the way")
