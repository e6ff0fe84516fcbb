"""attack.py - what every attack shares: the ways a box is made, guest programs, canaries outside.

A guest program is Python after PRELUDE (raw system calls, errno names, one JSON line at the end)
or C compiled here and copied in. A canary is a secret outside the box that file permissions alone
would not protect: only isolation does. All output of a box is searched for the secret.
"""
import hashlib
import json
import os
import shutil
import pathlib
import secrets
import signal
import subprocess

import support

HERE = pathlib.Path(__file__).resolve().parent
WAYS = ("root", "ordinary", "refused", "root-refused")
WALLED = ("root", "ordinary")  # the ways with namespaces of their own
GROUP = 54322  # a supplementary group of the caller that the box must not keep


def denying(*what):
    """argv prefix: the rest runs on a kernel that refuses `what` (a row of deny.py)."""
    program = support.base() / "deny.py"  # any user has to read it, wherever the repository lies
    if not program.exists():
        shutil.copyfile(HERE / "deny.py", program)
        program.chmod(0o644)
    return ["/usr/bin/python3", str(program), ",".join(what), "--"]


def syscall_numbers(names):
    """The numbers of this architecture, from the C library's own headers."""
    source = "#include <sys/syscall.h>\n" + "".join(f"@{name}@ SYS_{name}\n" for name in names)
    text = subprocess.run(["cc", "-E", "-P", "-"], input=source, capture_output=True, text=True,
                          check=True).stdout
    numbers = {}
    for line in text.splitlines():
        if line.startswith("@"):
            name, value = line.split("@ ", 1)
            if value.strip().isdigit():
                numbers[name[1:]] = int(value)
    return numbers


# Numbers that an older <sys/syscall.h> lacks are the same on every architecture since 424.
NEWER = {"quotactl_fd": 443, "landlock_create_ruleset": 444, "memfd_secret": 447,
         "process_mrelease": 448, "map_shadow_stack": 453, "statmount": 457, "listmount": 458,
         "lsm_set_self_attr": 460, "open_tree_attr": 467}

CALLS = """
    acct add_key adjtimex bpf capset chroot clock_settime clone clone3 delete_module execveat
    fanotify_init finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter
    io_uring_register io_uring_setup ioctl ioperm iopl kcmp kexec_file_load kexec_load keyctl
    lookup_dcookie memfd_create migrate_pages mlockall mount mount_setattr move_mount move_pages
    mq_open msgget name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open
    personality pidfd_getfd pidfd_open pidfd_send_signal pivot_root prctl prlimit64
    process_vm_readv process_vm_writev ptrace quotactl reboot request_key sched_setaffinity
    sched_setattr sched_setscheduler seccomp semget setdomainname setgroups sethostname setns
    setpriority setresgid setresuid settimeofday setuid shmget socket socketpair splice swapoff
    swapon syslog umount2 unshare userfaultfd vhangup vmsplice
""".split()

_prelude = None

PRELUDE = r'''
import ctypes, errno, json, os, sys
NR = {numbers}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
found = {{}}

def raw(name, *args):
    """(result, errno) of a raw system call; a child that it makes ends at once."""
    ctypes.set_errno(0)
    args = [ctypes.c_ulong(a & (2**64 - 1)) if isinstance(a, int) else a for a in args]
    r = _libc.syscall(ctypes.c_long(NR[name]), *args)
    if r == 0 and name in ("clone", "clone3"):
        os._exit(0)
    return r, ctypes.get_errno()

def call(name, *args):
    r, number = raw(name, *args)
    return errno.errorcode.get(number, str(number)) if r == -1 else "ok"

def attempt(function, *args, **named):
    """The errno's name, or "ok"; what it returned is kept nowhere."""
    try:
        function(*args, **named)
        return "ok"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))

def opened(path, flags=os.O_RDONLY):
    def once():
        os.close(os.open(path, flags | os.O_NONBLOCK))
    return attempt(once)

def readable(path):
    """Its first bytes, or the errno's name."""
    try:
        with open(path, "rb") as f:
            return f.read(4096).decode("latin-1")
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))

def status_field(name, pid="self"):
    try:
        for line in open(f"/proc/{{pid}}/status"):
            if line.startswith(name + ":"):
                return line.split(":", 1)[1].strip()
    except OSError as e:
        return errno.errorcode.get(e.errno)

def output():
    """The folder that --out fetches: /tmp/output, unless there is no /tmp of its own."""
    path = os.environ.get("OUTPUT_DIR", "/tmp/output")
    os.makedirs(path, exist_ok=True)
    return path

def done():
    print(json.dumps(found))
    sys.stdout.flush()
'''


def prelude():
    global _prelude
    if _prelude is None:
        numbers = {**NEWER, **syscall_numbers(CALLS)}
        _prelude = PRELUDE.format(numbers=numbers)
    return _prelude


def compile_c(source, output, *flags):
    """A static program from C text or from a file beside this one."""
    if isinstance(source, pathlib.Path):
        command, text = ["cc", str(source)], None
    else:
        command, text = ["cc", "-x", "c", "-"], source
    made = subprocess.run(command + ["-O1", "-w", "-static", "-o", str(output), *flags], input=text,
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    os.chmod(output, 0o755)
    return output


class Outcome:
    """How a command of bailey's ended; `found` is the guest's last line of output as JSON."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        try:
            self.result = json.loads(self.out)
        except ValueError:
            self.result = None

    def __repr__(self):
        return f"status {self.status}\nstdout {self.out[-3000:]}\nstderr {self.err[-3000:]}"

    @property
    def meta(self):
        return self.result["meta"]

    @property
    def error(self):
        return (self.meta.get("error") or {})

    @property
    def layers(self):
        return set(self.meta["isolation"]["layers"])

    @property
    def missing(self):
        return set(self.meta["isolation"]["missing"])

    @property
    def found(self):
        assert self.result is not None, self
        lines = self.result["stdout"].strip().splitlines()
        assert lines, self
        return json.loads(lines[-1])

    def skipped(self):
        """Name to reason of what was not fetched from /tmp/output."""
        return {row["name"]: row["reason"] for row in self.meta.get("skipped_files", [])}

    def fetched(self):
        return {row["name"] if isinstance(row, dict) else row for row in self.meta["output_files"]}


class Box:
    """Runs of one way, in a separate room; remembers what they printed and must not print."""

    def __init__(self, way, refuse=()):
        self.way, self.room, self.refuse = way, way.room(), refuse
        self.uid = way.user or 0
        self.printed, self.secrets = [], []

    @property
    def folder(self):
        return self.room.work

    def environment(self, env=None):
        own = {"SANDBOX_STORE_CODE": "never", "SANDBOX_MAX_OUTPUT_KB": "256"}
        return support.environment(self.room, {**own, **(env or {})})

    def argv(self, *args):
        argv = support.command(*args, user=self.way.user, deny=self.way.deny)
        if self.refuse:
            at = len(argv) - len(args) - 1
            argv[at:at] = denying(*self.refuse)
        return argv

    def start(self, *args, env=None, cwd=None, **named):
        """A Popen; the caller ends it."""
        return subprocess.Popen(self.argv(*args), env=self.environment(env), cwd=cwd or self.folder,
                                **named)

    def bailey(self, *args, env=None, cwd=None, stdin=None, prefix=(), timeout=support.PATIENCE,
               **named):
        """To its end; `prefix` is an argv that executes the rest."""
        named.setdefault("stdin", subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        run = subprocess.Popen([*map(str, prefix), *self.argv(*args)], env=self.environment(env),
                               cwd=cwd or self.folder, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True, **named)
        try:
            out, err = run.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
            raise AssertionError(f"bailey hung for {timeout} s: {args[:-1]}") from None
        outcome = Outcome(run.returncode, out.decode(errors="replace"),
                          err.decode(errors="replace"))
        self.printed += [outcome.out, outcome.err]
        return outcome

    def python(self, code, *options, **named):
        """Guest code behind PRELUDE; the one result of a run."""
        outcome = self.bailey("run", "--json", *options, "-c", prelude() + code, **named)
        assert outcome.result is not None, outcome
        return outcome

    def probe(self, code, *options, **named):
        """The same; the program ended well and its findings are returned."""
        outcome = self.python(code + "\ndone()\n", *options, **named)
        assert outcome.result["exit_code"] == 0, outcome
        return outcome.found

    def exec(self, *args, options=(), **named):
        outcome = self.bailey("exec", "--json", *options, "--", *args, **named)
        assert outcome.result is not None, outcome
        return outcome

    def compile(self, source, name):
        """A static program in the room, for --file."""
        return self.room.give(compile_c(source, self.room.path / name))

    def works(self):
        """The next run: fresh, correct, with full isolation."""
        outcome = self.bailey("run", "--json", "-c", "print('next')")
        assert outcome.status == 0 and outcome.result["stdout"] == "next\n", outcome
        if not self.refuse:
            assert outcome.meta["isolation"]["level"] in ("standard", "strict"), outcome

    def end(self):
        for secret in self.secrets:
            assert not any(secret in text for text in self.printed), "the secret was seen inside"
        self.works()


class Canary:
    """A file, a process and a secret in both, which DAC alone would give to the guest's uid."""

    def __init__(self, box):
        self.secret = secrets.token_hex(16)
        box.secrets.append(self.secret)
        self.folder = box.room.path / "host"
        self.folder.mkdir()
        self.path = self.folder / "secret.txt"
        self.path.write_text(self.secret)
        for path, mode in ((self.folder, 0o777), (self.path, 0o666)):
            os.chown(path, box.uid, box.uid)
            os.chmod(path, mode)
        program = ["/usr/bin/env", "-i", f"CANARY={self.secret}", "/usr/bin/python3", "-c",
                   "import signal; signal.pause()", self.secret]
        if box.uid:
            program[:0] = ["setpriv", f"--reuid={box.uid}", f"--regid={box.uid}", "--clear-groups"]
        self.process = subprocess.Popen(program, stdin=subprocess.DEVNULL)
        # Its environment is there with its arguments, and those can be read without CAP_SYS_PTRACE.
        until(lambda: read(f"/proc/{self.process.pid}/cmdline").startswith(b"/usr/bin/python3\0"))

    @property
    def pid(self):
        return self.process.pid

    def is_whole(self):
        assert self.path.read_text() == self.secret, "the file outside was changed"
        assert os.stat(self.path).st_nlink == 1, "the file outside got another name"
        assert sorted(os.listdir(self.folder)) == ["secret.txt"], "something was written outside"
        assert self.process.poll() is None, "the process outside is gone"

    def end(self):
        self.process.kill()
        self.process.wait()


class Outside:
    """A canary on the host for the calls of sessions: only isolation protects it."""

    def __init__(self, room):
        self.secret = secrets.token_hex(16)
        self.folder = room / f"outside-{self.secret[:8]}"
        self.folder.mkdir()
        self.path = self.folder / "secret.txt"
        self.path.write_text(self.secret)
        for path, mode in ((room, 0o755), (self.folder, 0o777), (self.path, 0o666)):
            os.chmod(path, mode)

    def is_whole(self):
        assert self.path.read_text() == self.secret, "the file outside was changed"
        assert os.stat(self.path).st_mode & 0o7777 == 0o666, "its mode was changed"
        assert sorted(os.listdir(self.folder)) == ["secret.txt"], "something was written outside"

    def remove(self):
        shutil.rmtree(self.folder)


def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def until(condition, what="it happens", deadline=30):
    support.wait_until(condition, what, deadline)


def pids_with(marker):
    """Processes of this host that have the marker in their command line or environment."""
    marker, pids = marker.encode(), []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            if marker in read(f"/proc/{name}/cmdline"):
                pids.append(int(name))
    return pids


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def held(answer, *allowed):
    """The attack was answered as docs/security.md says."""
    assert answer in allowed, f"answered {answer}, not one of {', '.join(allowed)}"


def all_held(found, *allowed):
    """The same for every finding; all that were answered otherwise are named."""
    wrong = {name: answer for name, answer in found.items() if answer not in allowed}
    assert not wrong, f"not one of {', '.join(allowed)}: {wrong}"
