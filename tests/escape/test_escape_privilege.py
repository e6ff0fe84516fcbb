"""docs/security.md, attacks 29-37, 39-42: namespaces, ids, capabilities, sockets, the filter, the terminal."""
import json
import os
import pty
import socket
import subprocess
import threading
from pathlib import Path

import attack
import pytest
import support
from attack import all_held, held

NO = ("EPERM", "ENOSYS")
FLAGS = {"NEWTIME": 0x80, "NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000,
         "NEWIPC": 0x8000000, "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}


def test_29_no_new_namespace_by_any_call(box):
    found = box.probe(f"""
import struct
FLAGS = {FLAGS!r}
FLAGS["ALL"] = sum(FLAGS.values()) & ~0x80
for name, flag in FLAGS.items():
    found["unshare " + name] = call("unshare", flag)
    if flag != 0x80:
        found["clone " + name] = call("clone", flag | 17, 0, 0, 0, 0)
        found["clone user+" + name] = call("clone", flag | 0x10000000 | 17, 0, 0, 0, 0)
    args = struct.pack("11Q", flag, 0, 0, 0, 17 if flag != 0x80 else 0, 0, 0, 0, 0, 0, 0)
    found["clone3 " + name] = call("clone3", args, len(args))
found["clone3 plain"] = call("clone3", struct.pack("11Q", 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)
""")
    held(found.pop("clone3 plain"), "ENOSYS")
    all_held(found, *NO)


def test_29_unshare_command_and_user_namespace(box):
    outcome = box.exec("unshare", "--user", "--map-root-user", "id")
    assert outcome.result["exit_code"] != 0 and "uid=0" not in outcome.result["stdout"], outcome


def test_30_setns(box, canary):
    found = box.probe(f"""
for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):
    for pid in ("self", "1", "{canary.pid}"):
        try:
            fd = os.open(f"/proc/{{pid}}/ns/{{kind}}", os.O_RDONLY)
        except OSError:
            continue
        found[f"{{pid}} {{kind}}"] = call("setns", fd, 0)
fd, number = raw("pidfd_open", os.getpid(), 0)
found["pidfd"] = call("setns", fd, 0x20000)
found["nothing"] = call("setns", -1, 0)
""")
    all_held(found, *NO)


STATUS_C = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
    unsigned head[2] = {0x20080522, 0}, data[6] = {0};
    int bounding = 0;
    syscall(SYS_capget, head, data);
    for (int cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1) bounding++;
    int changed = setuid(0), new_ns = unshare(CLONE_NEWUSER);
    printf("{\"uid\":%d,\"euid\":%d,\"gid\":%d,\"egid\":%d,\"caps\":%u,\"bounding\":%d,"
           "\"nnp\":%d,\"seccomp\":%d,\"setuid\":%d,\"unshare\":%d}\n",
           getuid(), geteuid(), getgid(), getegid(),
           data[0] | data[1] | data[2] | data[3] | data[4] | data[5], bounding,
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_SECCOMP),
           changed, new_ns);
    return 0;
}
"""


def assert_no_gain(status, box):
    assert status["uid"] == status["euid"] != 0 or not box.way.has_namespaces, status
    assert status["euid"] != 0 and status["egid"] != 0, status
    assert status["caps"] == 0 and status["nnp"] == 1 and status["seccomp"] == 2, status
    assert status["setuid"] == -1 and status["unshare"] == -1, status
    if box.way.name != "refused":  # only who has CAP_SETPCAP can empty it: not_held.py
        assert status["bounding"] == 0, status


def test_31_setuid_files_and_capabilities_give_nothing(box):
    program = box.compile(STATUS_C, "status")
    program.chmod(0o4755)
    found = box.probe("""
import subprocess
found["suid"] = attempt(os.chmod, "status", 0o6755)
found["xattr"] = attempt(os.setxattr, "status", "security.capability",
                         bytes.fromhex("0100000200ffffff00ffffff0000000000000000"))
found["status"] = json.loads(subprocess.run(["./status"], capture_output=True, text=True).stdout)
found["ambient"] = call("prctl", 47, 2, 13, 0, 0)
head = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)
found["capset"] = call("capset", head, b"\\xff" * 24)
found["keep"] = call("prctl", 28, 0x2f, 0, 0, 0)
found["nnp off"] = call("prctl", 38, 0, 0, 0, 0)
found["suids"] = []
for folder in ("/usr/bin", "/bin", "/usr/sbin", "/usr/lib/openssh"):
    for name in (os.listdir(folder) if attempt(os.listdir, folder) == "ok" else []):
        path = folder + "/" + name
        if attempt(os.stat, path) == "ok" and os.stat(path).st_mode & 0o6000:
            found["suids"].append([path, bool(os.statvfs(path).f_flag & os.ST_NOSUID)])
""", "--file", program)
    assert_no_gain(found["status"], box)
    held(found["xattr"], "EPERM", "EOPNOTSUPP", "ENOTSUP", "EACCES")
    held(found["ambient"], "EPERM", "EINVAL")
    held(found["capset"], "EPERM")
    held(found["keep"], "EPERM", "EINVAL")
    held(found["nnp off"], "EINVAL", "EPERM")
    if box.way.has_namespaces:
        assert all(nosuid for _, nosuid in found["suids"]), found["suids"]


def test_31_every_capability_set_is_empty(box):
    found = box.probe("""
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Groups",
             "Uid", "Gid"):
    found[name] = status_field(name)
libc = ctypes.CDLL(None)
found["nnp"], found["filter"] = libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0)
""")
    assert (found["nnp"], found["filter"]) == (1, 2)
    if found["NoNewPrivs"] not in ("1", None, "ENOENT", "EACCES"):
        pytest.fail(str(found))
    if found["NoNewPrivs"] == "1":
        assert found["Seccomp"] == "2"
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(found[name], 16) == 0, found
        if box.way.name != "refused":  # not_held.py
            assert int(found["CapBnd"], 16) == 0, found
    else:
        assert not box.way.has_namespaces, "a box with namespaces has a /proc here"


def test_32_ids_and_groups(box):
    found = box.probe("""
import struct
found["uids"], found["gids"] = os.getresuid(), os.getresgid()
found["groups"] = os.getgroups()
found["setuid"] = call("setuid", 0)
found["setresuid"] = call("setresuid", 0, 0, 0)
found["setresgid"] = call("setresgid", 0, 0, 0)
found["setgroups"] = call("setgroups", 1, struct.pack("I", 0))
found["drop groups"] = call("setgroups", 0, 0)
found["chown"] = attempt(lambda: (open("f", "w").close(), os.chown("f", 0, 0)))
""")
    assert 0 not in found["uids"] + found["gids"], found
    own = found["gids"][:1] if box.way.name == "docker" else []  # Docker names a user's own group again
    assert found["groups"] in ([], own), found
    for name in ("setuid", "setresuid", "setresgid", "chown"):
        held(found[name], "EPERM", "EINVAL")
    held(found["setgroups"], "EPERM", "EINVAL")


@pytest.mark.ways("ordinary", "refused")
def test_32_supplementary_group_gives_nothing(box, canary):
    """The caller is in a group that may read the secret; the guest may not, group or not."""
    os.chown(canary.path, 0, attack.GROUP)
    canary.path.chmod(0o640)
    argv = box.argv("run", "--json", "-c", attack.prelude() + f"""
found["canary"] = opened({str(canary.path)!r})
found["groups"] = os.getgroups()
done()
""")
    argv[argv.index("--clear-groups")] = f"--groups={box.uid},{attack.GROUP}"
    done = subprocess.run(argv, env=box.environment(), cwd=box.folder, capture_output=True,
                          text=True)
    outcome = attack.Outcome(done.returncode, done.stdout, done.stderr)
    box.printed.append(outcome.out)
    held(outcome.found["canary"], "ENOENT", "EACCES")
    assert attack.GROUP not in outcome.found["groups"] or box.way.name == "refused"  # not_held.py


@pytest.mark.ways("root")
def test_32_files_belong_to_the_box_id_on_the_host(box):
    marker = "bailey-owner-" + os.urandom(8).hex()
    run = box.start("run", "--stdin", "-c", "import sys; open('mine', 'w'); print(1, flush=True);"
                    "sys.stdin.read()", "--", marker, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert run.stdout.readline() == b"1\n"
        guests = [pid for pid in attack.pids_with(marker) if pid != run.pid]
        owners = {os.stat(f"/proc/{pid}/root/workspace/mine").st_uid for pid in guests
                  if os.path.exists(f"/proc/{pid}/root/workspace/mine")}
        assert len(owners) == 1, guests
        owner = owners.pop()
        assert owner != 0 and owner >= 100000, "an id of the box, nobody on the host"
    finally:
        run.communicate()


def test_33_socket_families(box):
    found = box.probe("""
import socket
rows = {"NETLINK": (16, 3, 0), "NETLINK netfilter": (16, 3, 12), "PACKET": (17, 3, 0x300),
        "PACKET dgram": (17, 2, 0x300), "VSOCK": (40, 1, 0), "ALG": (38, 5, 0), "XDP": (44, 3, 0),
        "INET raw": (2, 3, 1), "INET6 raw": (10, 3, 58), "KEY": (15, 3, 2), "BLUETOOTH": (31, 3, 1),
        "CAN": (29, 3, 1), "TIPC": (30, 1, 0), "RDS": (21, 5, 0), "KCM": (41, 2, 0),
        "SMC": (43, 1, 0), "QIPCRTR": (42, 2, 0), "MCTP": (45, 2, 0), "X25": (9, 5, 0),
        "AX25": (3, 5, 0)}
for name, (family, kind, protocol) in rows.items():
    found[name] = call("socket", family, kind, protocol)
    found[name + " cloexec"] = call("socket", family, kind | 0o2000000 | 0o4000, protocol)
found["pair"] = call("socketpair", 16, 3, 0, ctypes.create_string_buffer(8))
""")
    all_held(found, "EAFNOSUPPORT", "EPERM")


def test_33_ports_and_sockets_of_the_host(box, canary):
    """A port, an abstract and a path socket of the host: nobody from inside connects."""
    listeners = [socket.socket(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
    listeners[0].bind(("127.0.0.1", 0))
    listeners[1].bind("\0" + "bailey-canary-abstract")
    path = str(box.room.path / "service")
    listeners[2].bind(path)
    os.chmod(path, 0o777)
    came = []

    def serve(listener):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            came.append(listener)
            peer.close()

    threads = [threading.Thread(target=serve, args=(one,)) for one in listeners]
    for listener, thread in zip(listeners, threads):
        listener.listen()
        thread.start()
    try:
        found = box.probe(f"""
import socket
port = {listeners[0].getsockname()[1]}
def to(family, address, kind=socket.SOCK_STREAM):
    def once():
        with socket.socket(family, kind) as s:
            s.settimeout(5)
            s.connect(address)
            if kind == socket.SOCK_DGRAM:
                s.send(b"x")
    return attempt(once)
found["loopback"] = to(socket.AF_INET, ("127.0.0.1", port))
found["any"] = to(socket.AF_INET, ("0.0.0.0", port))
found["mapped"] = to(socket.AF_INET6, ("::ffff:127.0.0.1", port))
found["abstract"] = to(socket.AF_UNIX, b"\\0bailey-canary-abstract")
found["path"] = to(socket.AF_UNIX, {path!r})
found["outside"] = to(socket.AF_INET, ("1.1.1.1", 53))
found["datagram"] = to(socket.AF_INET, ("1.1.1.1", 53), socket.SOCK_DGRAM)
found["metadata"] = to(socket.AF_INET, ("169.254.169.254", 80))
""")
    finally:
        for listener in listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for thread in threads:
            thread.join()
    assert came == [], "something inside reached the host"
    assert "ok" not in found.values(), found


DANGEROUS = {
    "bpf": "0, bytes(72), 72", "perf_event_open": "bytes(112), 0, -1, -1, 0", "userfaultfd": "0",
    "userfaultfd user": "1", "kexec_load": "0, 0, 0, 0", "kexec_file_load": "-1, -1, 0, 0, 0",
    "init_module": "0, 0, b''", "finit_module": "-1, b'', 0", "delete_module": "b'none', 0",
    "iopl": "3", "ioperm": "0, 1, 1", "swapon": "b'/none', 0", "swapoff": "b'/none'",
    "reboot": "0, 0, 0, 0", "acct": "b'/none'", "quotactl": "0, b'/none', 0, 0",
    "quotactl_fd": "-1, 0, 0, 0", "add_key": "b'user', b'x', b'x', 1, -3",
    "request_key": "b'user', b'x', 0, -3", "keyctl": "0, -3, 0", "settimeofday": "bytes(16), 0",
    "clock_settime": "0, bytes(16)", "adjtimex": "b'\\xff' * 208", "syslog": "3, bytes(64), 64",
    "lookup_dcookie": "0, 0, 0", "fanotify_init": "0, 0", "vhangup": "", "nfsservctl": "0, 0, 0",
    "open_by_handle_at": "-1, 0, 0", "kcmp": "1, 1, 0, 0, 0", "migrate_pages": "1, 0, 0, 0",
    "memfd_secret": "0", "lsm_set_self_attr": "100, bytes(32), 32, 0",
}


def test_34_dangerous_calls(box):
    lines = "\n".join(f"if {name.split()[0]!r} in NR: found[{name!r}] = call({name.split()[0]!r}, "
                      f"{args})" if args else f"found[{name!r}] = call({name!r})"
                      for name, args in DANGEROUS.items())
    found = box.probe(lines)
    assert len(found) > 25
    all_held(found, *NO)


def test_35_io_uring(box):
    found = box.probe("""
found["setup"] = call("io_uring_setup", 8, bytes(120))
found["enter"] = call("io_uring_enter", -1, 1, 0, 0, 0, 0)
found["register"] = call("io_uring_register", -1, 0, 0, 0)
""")
    all_held(found, "ENOSYS")


OTHER_ABI_C = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <unistd.h>
static long int80(long nr, long a)
{
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(0), "d"(0), "S"(0), "D"(0)
                     : "memory", "r8", "r9", "r10", "r11");
    return r;
}
static long x32(long nr, long a)
{
    long r = syscall(nr | 0x40000000, a, 0, 0);
    return r < 0 ? -errno : r;
}
static void attempt(const char *name, long (*how)(long, long), long nr, long arg)
{
    int p[2], status; long r = -9999;
    pipe(p);
    pid_t pid = fork();
    if (pid == 0) { r = how(nr, arg); write(p[1], &r, sizeof r); _exit(0); }
    waitpid(pid, &status, 0);
    close(p[1]);
    if (read(p[0], &r, sizeof r) != sizeof r) printf("%s killed %d\n", name, WTERMSIG(status));
    else printf("%s %ld\n", name, r);
    close(p[0]);
}
int main(void)
{
    setvbuf(stdout, 0, _IONBF, 0);
    attempt("int80-getpid", int80, 20, 0);
    attempt("int80-unshare", int80, 310, 0x10000000);
    attempt("int80-socketcall", int80, 102, 1);
    attempt("int80-mount", int80, 21, 0);
    attempt("x32-getpid", x32, 39, 0);
    attempt("x32-unshare", x32, 272, 0x10000000);
    attempt("x32-ptrace", x32, 521, 0);
    attempt("x32-execve", x32, 520, 0);
    return 0;
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="int 0x80 and x32 exist on x86-64 only")
def test_36_other_calling_conventions(box):
    program = box.compile(OTHER_ABI_C, "abi")
    outcome = box.exec("./abi", options=("--file", program))
    lines = dict(line.split(" ", 1) for line in outcome.result["stdout"].splitlines())
    assert len(lines) == 8, outcome
    for name, answer in lines.items():
        assert answer.startswith("killed") or answer == "-38", (name, answer)


def test_37_high_halves_of_arguments(box):
    found = box.probe(f"""
HIGH = 1 << 32
for name, flag in {FLAGS!r}.items():
    found["unshare " + name] = call("unshare", flag | HIGH)
    if flag != 0x80:
        found["clone " + name] = call("clone", flag | 17 | HIGH, 0, 0, 0, 0)
for name, family in (("NETLINK", 16), ("PACKET", 17), ("VSOCK", 40), ("ALG", 38), ("XDP", 44)):
    found["socket " + name] = call("socket", family | HIGH, 3, 0)
found["socket raw"] = call("socket", 2, 3 | HIGH, 1)
found["socket raw both"] = call("socket", 2 | HIGH, 3 | HIGH, 1 | HIGH)
found["TIOCSTI"] = call("ioctl", 0, 0x5412 | HIGH, b"x")
found["TIOCLINUX"] = call("ioctl", 0, 0x541C | HIGH, b"x")
""")
    tty = {name: found.pop(name) for name in ("TIOCSTI", "TIOCLINUX")}
    all_held(tty, "EPERM", "ENOTTY", "EINVAL", "ENOSYS")
    all_held(found, "EPERM", "ENOSYS", "EINVAL", "EAFNOSUPPORT")


def test_37_personality(box):
    found = box.probe("""
found["now"] = raw("personality", 0xffffffff)[0]
for name, value in (("ADDR_NO_RANDOMIZE", 0x40000), ("READ_IMPLIES_EXEC", 0x400000),
                    ("MMAP_PAGE_ZERO", 0x100000), ("LINUX32", 8), ("all", 0xfffffffe)):
    found[name] = call("personality", value)
    found[name + " high"] = call("personality", value | 1 << 32)
found["then"] = raw("personality", 0xffffffff)[0]
""")
    assert found.pop("now") == 0 and found.pop("then") == 0, found
    all_held(found, "EPERM", "ENOSYS")


OWN_FILTER = r'''
import struct
def install(program, flags=0):
    code = b"".join(struct.pack("HBBI", *i) for i in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    fprog = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer))
    return raw("seccomp", 1, flags, fprog)
def returning(name, verdict):
    """Answers one call with a verdict and lets all others pass."""
    return [(0x20, 0, 0, 0), (0x15, 0, 1, NR[name]), (6, 0, 0, verdict), (6, 0, 0, 0x7fff0000)]
'''


def test_39_own_filter_weakens_nothing(box):
    """A guest has no filter of its own at all: their code counts against a limit of the whole host."""
    found = box.probe(OWN_FILTER + """
r, number = install([(6, 0, 0, 0x7fff0000)])
found["allow all"] = "ok" if r >= 0 else errno.errorcode[number]
found["unshare"] = call("unshare", 0x10000000)
found["bpf"] = call("bpf", 0, bytes(72), 72)
r, number = install(returning("mount", 0x00050000))
os.makedirs("at", exist_ok=True)
found["faked mount"] = call("mount", b"none", b"at", b"tmpfs", 0, 0)
open("at/same", "w").close()
found["device"] = os.stat("at").st_dev == os.stat(".").st_dev
r, number = install(returning("unshare", 0x7ff00000))
found["trace"] = call("unshare", 0x10000000)
""")
    held(found["allow all"], "EINVAL", "EPERM", "ENOSYS")
    held(found["unshare"], *NO)
    held(found["bpf"], *NO)
    held(found["faked mount"], "ok", *NO)
    held(found["trace"], *NO)
    assert found["device"] is True, "nothing was mounted"


def test_39_listener_weakens_nothing(box):
    """USER_NOTIF with CONTINUE on a call that the outer filter refuses."""
    found = box.probe(OWN_FILTER + """
import threading
fd, number = install(returning("unshare", 0x7fc00000), flags=8)
found["listener"] = "ok" if fd >= 0 else errno.errorcode[number]
if fd >= 0:
    def let_pass():
        notif = ctypes.create_string_buffer(80)
        if _libc.ioctl(fd, ctypes.c_ulong(0xc0502100), notif) == 0:
            answer = ctypes.create_string_buffer(notif.raw[:8] + struct.pack("qiI", 0, 0, 1))
            _libc.ioctl(fd, ctypes.c_ulong(0xc0182101), answer)
    threading.Thread(target=let_pass, daemon=True).start()
found["unshare"] = call("unshare", 0x10000000)
done()
os._exit(0)
""")
    held(found["listener"], "ok", "EPERM", "EBUSY", "ENOSYS", "EINVAL")
    held(found["unshare"], *NO)


@pytest.mark.parametrize("how", ["memfd", "execveat", "dev-fd", "loader", "preload"])
def test_40_other_ways_to_execute_gain_nothing(box, how):
    program = box.compile(STATUS_C, "status")
    outcome = box.python(f"""
how = {how!r}
if how in ("memfd", "execveat"):
    fd = raw("memfd_create", b"program", 0)[0]
    os.write(fd, open("status", "rb").read())
    if how == "memfd" and os.path.exists("/proc/self/fd"):
        os.execv(f"/proc/self/fd/{{fd}}", ["status"])
    argv = (ctypes.c_char_p * 2)(b"status", None)
    raw("execveat", fd, b"", argv, (ctypes.c_char_p * 1)(None), 0x1000)
elif how == "dev-fd":
    fd = os.open("status", os.O_RDONLY)
    os.set_inheritable(fd, True)
    path = f"/dev/fd/{{fd}}" if os.path.exists("/dev/fd/0") else f"status"
    os.execv(path, ["status"])
elif how == "loader":
    loader = next(p for p in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
                  if os.path.exists(p))
    os.execv(loader, [loader, os.path.abspath("/usr/bin/env"), "./status"])
elif how == "preload":
    os.environ["LD_PRELOAD"] = os.path.abspath("status")
    os.environ["LD_LIBRARY_PATH"] = os.getcwd()
    os.execv("./status", ["status"])
os._exit(3)
""", "--file", program)
    if outcome.result["exit_code"] == 0:
        assert_no_gain(outcome.found, box)
    else:
        assert outcome.result["exit_code"] in (1, 3, 126), outcome


TERMINAL = """
import fcntl, termios
for fd in (0, 1, 2):
    for name, request, argument in (("TIOCSTI", 0x5412, b"x"), ("TIOCLINUX", 0x541C, b"\\x0b"),
                                    ("TIOCCONS", 0x541D, b""), ("TIOCSCTTY", 0x540E, b""),
                                    ("TIOCNOTTY", 0x5422, b"")):
        found[f"{name} {fd}"] = call("ioctl", fd, request, ctypes.c_char_p(argument))
        found[f"{name} {fd} high"] = call("ioctl", fd, request | 1 << 32, ctypes.c_char_p(argument))
found["tty"] = opened("/dev/tty", os.O_RDWR)
found["console"] = opened("/dev/console", os.O_RDWR)
found["pts"] = [n for n in os.listdir("/dev/pts") if n.isdigit()] if attempt(
    os.listdir, "/dev/pts") == "ok" else []
"""


@pytest.mark.ways(*attack.WALLED)
def test_41_keys_cannot_be_typed_into_the_terminal(box):
    """bailey owns a controlling terminal; afterwards nothing waits in its input queue."""
    code = attack.prelude() + TERMINAL + "done()\n"
    argv, env = box.argv("run", "-c", code), box.environment({"TERM": "xterm"})
    pid, terminal = pty.fork()
    if pid == 0:
        # The shell that gets the terminal back: whatever was typed for it would be its next line.
        os.chdir(box.folder)
        script = ('stty -echo -icanon min 0 time 1; "$@"; '
                  'echo "typed:<$(dd bs=64 count=1 2>/dev/null)>"')
        os.execve("/bin/sh", ["sh", "-c", script, "sh", *argv], env)
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            piece = b""
        if not piece:
            break
        seen += piece
    os.waitpid(pid, 0)
    os.close(terminal)
    text = seen.decode(errors="replace")
    assert "typed:<>" in text, text
    found = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    assert found.pop("pts") == [], "no terminal of the host is in the box"
    held(found.pop("tty"), "ENXIO", "ENOENT", "EACCES", "EPERM")
    held(found.pop("console"), "ENXIO", "ENOENT", "EACCES", "EPERM")
    all_held(found, "EPERM", "ENOTTY", "EINVAL", "ENOSYS", "EIO")


def test_41_terminal_calls_are_refused(box):
    found = box.probe(TERMINAL + 'found.pop("pts")')
    for name in ("tty", "console"):
        held(found.pop(name), "ENXIO", "ENOENT", "EACCES", "EPERM")
    all_held(found, "EPERM", "ENOTTY", "EINVAL", "ENOSYS")


@pytest.mark.ways("root")
def test_41_escape_sequences_do_not_reach_the_terminal(box):
    bad = r"\x1b]0;owned\x07\x1b[2J\x1b[6n\x1bP+q544e\x1b\\\x9b31m\x1b]52;c;cm0=\x07\x08\r\x0c"
    code = f"print('before {bad} after', flush=True); import sys; sys.stderr.write('{bad}')"
    _, seen = support.on_terminal("run", "-c", code, room=box.room)
    assert b"before" in seen and b"after" in seen
    for byte in (b"\x1b", b"\x07", b"\x9b", b"\x08", b"\x0c"):
        assert byte not in seen, seen
    assert b"\xc2\x9b" not in seen, "C1 in UTF-8"
    _, seen = support.on_terminal("run", "--raw", "-c", code, room=box.room)
    assert b"\x1b]0;owned\x07" in seen


def test_42_known_kernel_routes(box):
    """Dirty Pipe, nf_tables in a user namespace, fsconfig's legacy overflow, packet fanout."""
    target = os.path.realpath("/usr/bin/env")
    before = attack.digest(target)
    found = box.probe(f"""
import socket
found["nf_tables"] = call("socket", 16, 3, 12)
found["user namespace"] = call("unshare", 0x10000000 | 0x40000000)
found["fsopen"] = call("fsopen", b"cgroup2", 0)
found["fsconfig"] = call("fsconfig", 0, 1, b"A" * 4095, b"", 0)
found["fanout"] = call("socket", 17, 3, 0x300)
found["userfaultfd"] = call("userfaultfd", 0)
found["keyring"] = call("add_key", b"user", b"x", b"x", 1, -3)
fd = os.open({target!r}, os.O_RDONLY)
r, w = os.pipe()
filled = 0
os.set_blocking(w, False)
while attempt(os.write, w, b"A" * 4096) == "ok":
    filled += 4096
while filled:
    filled -= len(os.read(r, min(filled, 65536)))
offset = ctypes.c_longlong(0)
call("splice", fd, ctypes.byref(offset), w, 0, 1, 0)
attempt(os.write, w, b"pwned")
found["page"] = open({target!r}, "rb").read(8).hex()
""")
    assert found.pop("page") == Path(target).read_bytes()[:8].hex()
    all_held(found, "EPERM", "ENOSYS", "EAFNOSUPPORT")
    assert attack.digest(target) == before
