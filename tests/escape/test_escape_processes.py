"""docs/security.md, attacks 17-28: descriptors, /proc, other processes, cgroups, daemons, bombs, limits."""
import os
import signal
import subprocess
from pathlib import Path

import attack
import own
import pytest
import support
from attack import all_held, held

NOT_THERE = ("ENOENT", "EACCES", "EPERM", "EROFS", "ENOTDIR")
DENIED = ("EPERM", "ESRCH")


def test_17_no_descriptor_but_the_three(box, canary):
    """A caller that leaks an open secret and a folder to bailey leaks nothing inside."""
    secret = os.open(canary.path, os.O_RDWR)
    folder = os.open(canary.folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        outcome = box.python("""
import fcntl
def is_open(fd):
    return attempt(fcntl.fcntl, fd, fcntl.F_GETFD) == "ok"
found["open"] = [fd for fd in range(3, 65536) if is_open(fd)]
try:
    names = os.listdir("/proc/self/fd")
    found["listed"] = sorted(int(n) for n in names if is_open(int(n)))
except OSError:
    found["listed"] = [0, 1, 2]
found["init"] = attempt(os.listdir, "/proc/1/fd")
found["parent"] = attempt(os.listdir, f"/proc/{os.getppid()}/fd")
found["links"] = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in range(3)
                  if os.path.exists("/proc/self/fd")}
found["cwd"] = os.getcwd()
found["up"] = []
fd = os.open(".", os.O_RDONLY)
for _ in range(20):
    fd = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd) if attempt(
        os.open, "..", os.O_RDONLY, dir_fd=fd) == "ok" else fd
found["up"] = attempt(os.stat, "HOST".lstrip("/"), dir_fd=fd)
done()
""".replace("HOST", str(canary.path)), pass_fds=(secret, folder))
    finally:
        os.close(secret)
        os.close(folder)
    found = outcome.found
    assert found["open"] == [] and found["listed"] == [0, 1, 2], outcome
    held(found["init"], "EACCES", "ENOENT", "EPERM")
    held(found["parent"], "EACCES", "ENOENT", "EPERM")
    held(found["up"], "ENOENT", "EACCES") if box.way.has_namespaces else None
    assert not any(str(canary.folder) in link for link in found["links"].values())


def test_18_working_folder_that_is_gone(box):
    gone = box.folder / "gone"
    gone.mkdir()
    box.room.give(gone)
    outcome = box.bailey("run", "--json", "-c", "import os; print(os.getcwd()); open('x', 'w')",
                         prefix=["sh", "-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh",
                                 gone])
    if outcome.status == 0:
        assert "gone" not in outcome.result["stdout"], outcome
    else:
        assert outcome.status == 125 and outcome.err.strip(), outcome


@pytest.mark.parametrize("target", ["/proc/self/fd/0/x", "/proc/self/cwd/x", "/proc/1/root/x",
                                    "../../x", "/etc/x", "/usr/bin/x", "/dev/x", "/"])
@pytest.mark.ways("root", "ordinary")
def test_18_files_are_copied_in_only_beneath_the_box(box, target):
    source = box.room.write("source.txt", "from the caller")
    outcome = box.bailey("run", "--json", "--file", f"{source}:{target}", "-c", "print(1)")
    assert outcome.status == 125, outcome
    assert outcome.err.strip() or outcome.error["message"], outcome
    assert not os.path.exists("/etc/x") and not os.path.exists("/usr/bin/x")


def test_19_runtime_cannot_be_overwritten(box):
    binary = Path(box.argv()[-1])
    before = attack.digest(binary), attack.digest("/usr/bin/python3")
    found = box.probe("""
import time
for path in ("/proc/self/exe", "/proc/1/exe", f"/proc/{os.getppid()}/exe", "/proc/thread-self/exe"):
    found[path] = opened(path, os.O_WRONLY)
    found["truncate " + path] = attempt(os.truncate, path, 0)
    found["path " + path] = "closed"
    try:
        fd = os.open(path, os.O_PATH)
        found["path " + path] = opened(f"/proc/self/fd/{fd}", os.O_WRONLY)
    except OSError:
        pass
# The 2019 way: a script whose interpreter is /proc/self/exe makes the runtime execute itself.
open("again", "w").write("#!/proc/self/exe\\n")
attempt(os.chmod, "again", 0o755)
pid = os.fork()
if pid == 0:
    attempt(os.execv, "./again", ["again"])
    os._exit(9)
os.waitpid(pid, 0)
""")
    all_held(found, "ETXTBSY", "EACCES", "ENOENT", "EROFS", "EPERM", "closed")
    assert (attack.digest(binary), attack.digest("/usr/bin/python3")) == before


def test_20_ptrace_and_friends_of_init_parent_and_host(box, canary):
    found = box.probe(f"""
import struct
buffer = ctypes.create_string_buffer(64)
iov = struct.pack("PN", ctypes.addressof(buffer), 64)
remote = struct.pack("PN", 0x400000, 64)
for who, pid in (("init", 1), ("parent", os.getppid() or 1), ("host", {canary.pid})):
    found[who + " attach"] = call("ptrace", 16, pid, 0, 0)
    found[who + " seize"] = call("ptrace", 0x4206, pid, 0, 0)
    found[who + " readv"] = call("process_vm_readv", pid, iov, 1, remote, 1, 0)
    found[who + " writev"] = call("process_vm_writev", pid, iov, 1, remote, 1, 0)
    found[who + " kcmp"] = call("kcmp", pid, os.getpid(), 2, 0, 0)
    fd, number = raw("pidfd_open", pid, 0)
    found[who + " getfd"] = errno.errorcode[number] if fd < 0 else call("pidfd_getfd", fd, 1, 0)
    found[who + " move_pages"] = call("move_pages", pid, 0, 0, 0, 0, 0)
    found[who + " prlimit"] = call("prlimit64", pid, 7, bytes(16), 0)
    found[who + " mem"] = opened(f"/proc/{{pid}}/mem", os.O_RDWR)
    found[who + " maps"] = opened(f"/proc/{{pid}}/maps")
    found[who + " environ"] = opened(f"/proc/{{pid}}/environ")
""")
    files = {name: found.pop(name) for name in list(found)
             if name.endswith((" mem", " maps", " environ"))}
    all_held(files, "EACCES", "EPERM", "ENOENT")
    all_held(found, *DENIED, "ENOSYS")


def test_21_signals_reach_only_the_own_tree(box, canary):
    outcome = box.python(f"""
import signal
child = os.fork()
if child == 0:
    signal.pause()
    os._exit(0)
found["host"] = attempt(os.kill, {canary.pid}, signal.SIGKILL)
found["init"] = attempt(os.kill, 1, signal.SIGKILL)
found["init stop"] = attempt(os.kill, 1, signal.SIGSTOP)
if os.getppid() > 1:
    found["parent"] = attempt(os.kill, os.getppid(), signal.SIGKILL)
found["all"] = attempt(os.kill, -1, signal.SIGKILL)
found["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done()
os._exit(7)
""")
    assert outcome.result["exit_code"] == 7 and outcome.status == 7, outcome
    assert outcome.meta["signal"] is None, outcome
    found = outcome.found
    held(found["host"], "ESRCH", "EPERM")
    # The kernel drops signals to a PID 1 from inside, and says "ok" where the ids are the same.
    held(found["init"], "EPERM", "ok" if box.way.has_namespaces else "EPERM")
    held(found.get("parent", "EPERM"), "EPERM")
    assert found["child"] == -signal.SIGKILL


def test_21_suicide_by_everything_is_reported(box, canary):
    outcome = box.python("""
import signal
print("partial", flush=True)
attempt(os.kill, 1, signal.SIGTERM)
os.kill(0, signal.SIGKILL)
""")
    assert outcome.result["exit_code"] == 128 + signal.SIGKILL, outcome
    assert outcome.meta["signal"] == signal.SIGKILL or outcome.meta["signal"] == "SIGKILL", outcome
    assert "partial" in outcome.result["stdout"]


def test_22_host_processes_are_invisible(box, canary):
    found = box.probe(f"""
texts = []
names = os.listdir("/proc") if attempt(os.listdir, "/proc") == "ok" else []
pids = [n for n in names if n.isdigit()]
for pid in set(pids) | {{"1", "{canary.pid}"}}:
    for name in ("cmdline", "environ", "comm", "status", "maps"):
        if pid != str(os.getpid()):
            texts.append(readable(f"/proc/{{pid}}/{{name}}"))
found["seen"] = " ".join(texts)
found["pids"] = len(pids)
found["canary"] = opened("/proc/{canary.pid}/cmdline")
""")
    assert canary.secret not in found["seen"]
    assert found["pids"] <= 8
    held(found["canary"], "ENOENT", "EACCES")


@pytest.mark.ways(*attack.WALLED)
def test_22_host_pids_do_not_exist_inside(box, canary):
    found = box.probe(f"""
found["stat"] = attempt(os.stat, "/proc/{canary.pid}")
found["kill"] = attempt(os.kill, {canary.pid}, 0)
found["sched"] = attempt(os.sched_getscheduler, {canary.pid})
found["pgid"] = attempt(os.getpgid, {canary.pid})
""")
    held(found["stat"], "ENOENT")
    for name in ("kill", "sched", "pgid"):
        held(found[name], "ESRCH", "EPERM")


def test_22_keyrings(box, canary):
    """A key in the caller's own keyring, readable by everything of that uid on the host."""
    add = ["/usr/bin/python3", "-c", f"""
import ctypes, os, sys
numbers = {attack.syscall_numbers(["add_key", "keyctl"])}
libc = ctypes.CDLL(None, use_errno=True)
secret = {canary.secret.encode()!r}
if libc.syscall(numbers["add_key"], b"user", b"bailey-canary", secret, len(secret), -4) < 0:
    sys.exit("add_key: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""]
    argv = box.argv("run", "--json", "-c", attack.prelude() + """
text = ctypes.create_string_buffer(64)
found["request"] = call("request_key", b"user", b"bailey-canary", 0, 0)
for name, ring in (("thread", -1), ("process", -2), ("session", -3), ("user", -4), ("both", -5)):
    found["get " + name] = call("keyctl", 0, ring, 0, 0, 0)
    found["read " + name] = call("keyctl", 11, ring, text, 64, 0)
    found["search " + name] = call("keyctl", 10, ring, b"user", b"bailey-canary", 0)
found["join"] = call("keyctl", 1, 0, 0, 0, 0)
found["add"] = call("add_key", b"user", b"planted", b"x", 1, -4)
found["keys"] = "bailey-canary" in readable("/proc/keys")
done()
""")
    # The key is added after the change of user, in front of whatever executes bailey.
    at = argv.index("--") + 1 if box.way.user is not None else 0
    argv[at:at] = add
    if argv[at + len(add)].endswith("setpriv"):
        argv[at + len(add)] = "/usr/bin/setpriv"
    done = subprocess.run(argv, env=box.environment(), cwd=box.folder, capture_output=True,
                          text=True, timeout=support.PATIENCE)
    if done.stderr.startswith("add_key: Operation not permitted"):
        pytest.skip("a container's filter refuses add_key(2): there is no key to be found")
    outcome = attack.Outcome(done.returncode, done.stdout, done.stderr)
    box.printed += [outcome.out, outcome.err]
    found = outcome.found
    assert found.pop("keys") is False
    all_held(found, "EPERM", "ENOSYS")


SYSCTLS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
           "/proc/sys/kernel/hostname", "/proc/sys/kernel/hotplug",
           "/proc/sys/vm/overcommit_memory",
           "/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register",
           "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled")


def test_23_kernel_settings(box):
    before = {path: attack.read(path) for path in SYSCTLS}
    found = box.probe(f"""
for path in {SYSCTLS!r} + ("/proc/sysrq-trigger", "/proc/1/oom_score_adj",
                           "/proc/irq/default_smp_affinity",
                           "/dev/mem", "/dev/kmsg", "/proc/mtrr"):
    found[path] = opened(path, os.O_WRONLY)
found["/sys"] = attempt(os.listdir, "/sys/kernel/mm")  # Docker has an empty folder over /sys/kernel
found["hostname"] = call("sethostname", b"pwned", 5)
found["domainname"] = call("setdomainname", b"pwned", 5)
""")
    for path in ("hostname", "domainname"):
        held(found.pop(path), "EPERM", "ENOSYS")
    all_held(found, *NOT_THERE)
    assert {path: attack.read(path) for path in SYSCTLS} == before


def test_24_cgroups_are_out_of_reach(box):
    agents = {path: path.read_bytes() for top, *_ in own.cgroup_mounts()
              for path in Path(top).glob("release_agent")}
    found = box.probe("""
found["files"] = []
for top in ("/sys/fs/cgroup", "/cgroup", "/proc/self/cgroup"):
    if os.path.isdir(top) and attempt(os.listdir, top) == "ok":
        found["files"] += os.listdir(top)
for name in ("release_agent", "notify_on_release", "cgroup.procs", "tasks", "memory.max",
             "memory/memory.limit_in_bytes", "pids/pids.max", "memory/release_agent",
             "memory/cgroup.procs", "unified/cgroup.procs"):
    found[name] = opened("/sys/fs/cgroup/" + name, os.O_WRONLY)
os.makedirs("cg", exist_ok=True)
found["mount"] = call("mount", b"cgroup", b"cg", b"cgroup", 0, b"memory")
found["mount2"] = call("mount", b"cgroup2", b"cg", b"cgroup2", 0, 0)
found["where"] = readable("/proc/self/cgroup")
""")
    assert found.pop("files") == []
    held(found.pop("mount"), "EPERM", "ENOSYS")
    held(found.pop("mount2"), "EPERM", "ENOSYS")
    where = found.pop("where")
    if box.way.has_namespaces:
        assert where in NOT_THERE or "bailey" not in where, where
    all_held(found, *NOT_THERE)
    assert agents == {path: path.read_bytes() for path in agents}


DAEMONS = r'''
import signal, subprocess, time
def daemon(kind):
    """A process that tries to outlive the run; it tells us when it is ready."""
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if kind == "deaf":
                for s in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                    signal.signal(s, signal.SIG_IGN)
            if kind == "reaper":
                libc = ctypes.CDLL(None)
                libc.prctl(36, 1, 0, 0, 0)
                for _ in range(3):
                    if os.fork() == 0:
                        if os.fork() != 0:
                            os._exit(0)
                        break
            for fd in (0, 1, 2):
                os.close(fd)
            os.write(w, b"x")
            if kind == "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            os.execv(sys.executable, [sys.executable, "-c",
                     "import signal; signal.pause()", MARKER, kind])
        os._exit(0)
    os.wait()
    os.close(w)
    found[kind] = os.read(r, 1).decode()
'''


def test_25_daemons_end_with_the_run(box):
    marker = "bailey-daemon-" + os.urandom(8).hex()
    code = f"MARKER = {marker!r}\n" + DAEMONS + """
for kind in ("plain", "deaf", "reaper", "stopped"):
    daemon(kind)
"""
    found = box.probe(code, "--timeout", "30")
    assert found == dict.fromkeys(("plain", "deaf", "reaper", "stopped"), "x")
    assert attack.pids_with(marker) == []


def test_25_daemons_end_with_a_timeout(box):
    marker = "bailey-daemon-" + os.urandom(8).hex()
    outcome = box.python(f"MARKER = {marker!r}\n" + DAEMONS + """
for kind in ("plain", "deaf", "reaper", "stopped"):
    daemon(kind)
done()
signal.pause()
""", "--timeout", "8")  # on a busy machine the daemons take seconds to come up
    assert outcome.meta["timed_out"] is True and outcome.status == 124, outcome
    assert len(outcome.found) == 4
    assert attack.pids_with(marker) == []


FORKS = """
import signal
children, answer = [], "ok"
while len(children) < 500:
    try:
        pid = os.fork()
    except OSError as e:
        answer = errno.errorcode[e.errno]
        break
    if pid == 0:
        signal.pause()
    children.append(pid)
found["answer"], found["children"] = answer, len(children)
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
if os.fork() == 0:
    os._exit(0)
os.wait()
"""


def most(box):
    """Without a group or namespace the kernel counts all of the uid: others that end make room."""
    return 32 if box.way.name != "refused" else 64


def test_26_forks_end_at_the_limit(box):
    found = box.probe(FORKS, "--pids", "32")
    held(found["answer"], "EAGAIN")
    assert 1 <= found["children"] <= most(box)


def test_26_threads_end_at_the_limit(box):
    found = box.probe("""
import threading
stop, made = threading.Event(), []
try:
    while len(made) < 500:
        t = threading.Thread(target=stop.wait)
        t.start()
        made.append(t)
    found["answer"] = "ok"
except RuntimeError as e:
    found["answer"] = str(e)
stop.set()
for t in made:
    t.join()
found["made"] = len(made)
""", "--pids", "32")
    assert "thread" in found["answer"]
    assert 1 <= found["made"] <= most(box)


def test_26_bombs_end_with_the_run(box):
    """A real bomb: every child forks on, none ever waits."""
    outcome = box.python("""
print("lit", flush=True)
while True:
    attempt(os.fork)
""", "--pids", "32", "--timeout", "2")
    assert outcome.meta["timed_out"] is True, outcome
    assert outcome.result["stdout"].startswith("lit\n")


def test_26_vfork_storm(box):
    program = box.compile(r"""
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int depth;
static int storm(void)
{
    pid_t pid = vfork();
    if (pid < 0) return errno;
    if (pid == 0) { depth++; int err = depth < 500 ? storm() : 0; _exit(err); }
    return 0;
}
int main(void) { int err = storm(); printf("%d\n", depth); return err ? 3 : 0; }
""", "storm")
    outcome = box.exec("./storm", options=("--file", program, "--pids", "32"))
    assert outcome.result["exit_code"] in (0, 3), outcome
    assert 1 <= int(outcome.result["stdout"]) <= most(box) + 1, outcome


def test_27_environment_has_only_what_was_declared(box, canary):
    host = {"OPENAI_API_KEY": canary.secret, "AWS_SECRET_ACCESS_KEY": canary.secret,
            "BAILEY_TOKEN": canary.secret, "SSH_AUTH_SOCK": "/tmp/" + canary.secret,
            "PYTHONPATH": "/tmp/" + canary.secret, "http_proxy": "http://" + canary.secret}
    found = box.probe("""
found["env"] = dict(os.environ)
found["init"] = readable("/proc/1/environ")
found["parent"] = readable(f"/proc/{os.getppid()}/environ")
""", "--env", "DECLARED=yes", env=host)
    env = found["env"]
    assert env["DECLARED"] == "yes"
    # What is left by this name is the box's own: `python -m pip`.
    modules = env.pop("PYTHONPATH", "/bin/modules")
    assert modules.endswith("/bin/modules") and canary.secret not in modules
    assert not set(host) & set(env)
    known = {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "PWD",
             "SHELL", "TERM", "DECLARED", "HOSTNAME", "OLDPWD", "SHLVL", "_", "OUTPUT_DIR"}
    extra = {name for name in env if name not in known
             and not name.startswith(("PYTHON", "MPL", "OMP_", "OPENBLAS_", "POLARS_", "MKL_",
                                      "NUMEXPR_", "RAYON_", "XDG_", "BAILEY_"))}
    assert extra == set(), env
    for who in ("init", "parent"):
        assert found[who] == "" or found[who] in NOT_THERE


def test_28_limits_and_priorities_cannot_be_raised(box):
    found = box.probe("""
import resource, struct
UNLIMITED = resource.RLIM_INFINITY
raised = []
for name in [n for n in dir(resource) if n.startswith("RLIMIT_")]:
    which = getattr(resource, name)
    soft, hard = resource.getrlimit(which)
    if hard != UNLIMITED:
        new = struct.pack("QQ", hard + 1, hard + 1)
        answer = call("prlimit64", 0, which, new, 0)
        found["raise " + name] = answer
found["nice"] = call("setpriority", 0, 0, -5)
found["fifo"] = call("sched_setscheduler", 0, 1, struct.pack("i", 10))
found["round robin"] = call("sched_setscheduler", 0, 2, struct.pack("i", 10))
deadline = struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10**6, 10**7, 10**7)
found["attr"] = call("sched_setattr", 0, deadline, 0)
before = os.sched_getaffinity(0)
outside = max(before) + 1
mask = bytearray(128)
mask[outside // 8] |= 1 << outside % 8
found["affinity"] = call("sched_setaffinity", 0, 128, bytes(mask))
found["same"] = os.sched_getaffinity(0) == before
found["init nice"] = call("setpriority", 0, 1, 10)
found["init limits"] = call("prlimit64", 1, 7, struct.pack("QQ", 1, 1), 0)
soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
found["memlock"] = hard if hard != UNLIMITED else -1
found["mlockall"] = call("mlockall", 3)
found["core"] = resource.getrlimit(resource.RLIMIT_CORE)[1]
""", "--memory", "256m")
    assert found.pop("same") is True
    memlock = found.pop("memlock")
    limited = ["ok"] if memlock >= 0 else []
    held(found.pop("mlockall"), "EPERM", "ENOSYS", "ENOMEM", "EAGAIN", *limited)
    assert found.pop("core") == 0
    held(found.pop("affinity"), "EINVAL", "EPERM", "ENOSYS")
    held(found.pop("nice"), "EACCES", "EPERM", "ENOSYS")
    held(found.pop("init nice"), "EPERM", "ESRCH", "EACCES", "ENOSYS")
    all_held(found, "EPERM", "ENOSYS")
