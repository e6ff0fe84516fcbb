"""System call N fails, through every stage of bring-up: the real binary and strace's injection.

strace counts per process, so `when=N` fails the Nth call of each process: of bailey, of the warden,
of the guest. N rises until no process reaches it. The default run takes one error a call and few N;
FAULT_FULL=1 (make soak) takes every error and every N.
"""
import re
import shutil

import fault
import pytest
import support

# Calls of bring-up, of the protocol and of the end of a run, with how far the short run counts.
CALLS = {
    "clone3": 3, "clone": 3, "fork": 2, "vfork": 2, "unshare": 4, "setns": 3, "execve": 3,
    "mount": 12, "umount2": 4, "pivot_root": 2, "fsopen": 4, "fsconfig": 8, "fsmount": 4,
    "move_mount": 8, "open_tree": 8, "mount_setattr": 8, "chroot": 2,
    "open": 2, "openat": 10, "openat2": 5, "mkdirat": 6, "mkdir": 6, "symlinkat": 3, "symlink": 3,
    "mknodat": 3, "unlinkat": 3, "fchmod": 3, "fchown": 3, "chdir": 2, "fchdir": 2, "ftruncate": 2,
    "readlink": 3, "readlinkat": 3, "newfstatat": 4, "fstat": 4, "statfs": 2, "fstatfs": 2,
    "statx": 3, "getdents64": 3, "read": 8, "write": 10, "pread64": 2, "pwrite64": 2,
    "socketpair": 3, "socket": 2, "pipe2": 4, "pipe": 2, "dup2": 3, "dup3": 3, "fcntl": 6,
    "close_range": 3, "ioctl": 4, "memfd_create": 3, "eventfd2": 2, "timerfd_create": 2,
    "timerfd_settime": 3, "signalfd4": 3, "epoll_create1": 3, "epoll_ctl": 8, "epoll_wait": 4,
    "epoll_pwait": 4, "epoll_pwait2": 3, "poll": 4, "ppoll": 4, "sendmsg": 6, "recvmsg": 6,
    "sendto": 4, "recvfrom": 4, "getsockopt": 2, "setsockopt": 3,
    "sethostname": 2, "setdomainname": 2, "prctl": 10, "capset": 3, "capget": 3, "seccomp": 3,
    "landlock_create_ruleset": 3, "landlock_add_rule": 6, "landlock_restrict_self": 3,
    "setresuid": 3, "setresgid": 3, "setgroups": 3, "setuid": 2, "setgid": 2, "setsid": 2,
    "prlimit64": 6, "setrlimit": 3, "sched_setaffinity": 2, "sched_getaffinity": 2,
    "rt_sigaction": 4, "rt_sigprocmask": 4, "pidfd_open": 2, "pidfd_send_signal": 2, "kill": 2,
    "wait4": 3, "waitid": 3, "mmap": 6, "munmap": 2, "getrandom": 3, "umask": 2,
    "clock_gettime": 2, "keyctl": 2,
}
ERRORS = ("EPERM", "EINTR", "ENOSPC", "EMFILE", "EAGAIN")
# What the short run injects where EPERM is not the likely one.
LIKELY = {"read": "EINTR", "write": "ENOSPC", "openat": "EMFILE", "pipe2": "EMFILE",
          "clone": "EAGAIN", "clone3": "EAGAIN", "socketpair": "EMFILE", "epoll_create1": "EMFILE",
          "mkdir": "ENOSPC",
          "mkdirat": "ENOSPC", "sendmsg": "EAGAIN", "recvmsg": "EINTR", "poll": "EINTR",
          "ppoll": "EINTR", "epoll_wait": "EINTR", "epoll_pwait": "EINTR", "wait4": "EINTR",
          "waitid": "EINTR", "memfd_create": "EMFILE", "mmap": "EAGAIN", "fsmount": "EMFILE",
          "open_tree": "EMFILE", "setresuid": "EAGAIN", "fork": "EAGAIN", "getrandom": "EINTR"}
# A wait has one error that can happen to us. (No brk: the real one answers with the old break,
# never with an error, and the C library takes an injected one for an address.)
ONLY = {"wait4": ("EINTR",), "waitid": ("EINTR",)}
MOST = 400  # no process of ours makes more calls of a kind in one run

CASES = [(name, error) for name in CALLS for error in ONLY.get(name, ERRORS)
         if fault.FULL or error == LIKELY.get(name, "EPERM")]


@pytest.fixture(scope="session", autouse=True)
def strace():
    if not shutil.which("strace"):
        pytest.skip("strace is not installed: tools/setup test installs it")


def injected(name, error, when, room, user=None, prefix=()):
    """One run with a fault; whether any process got there, and how the run ended."""
    log = room.path / "strace.log"
    argv = support.command("exec", "--json", "--file", f"{fault.honest()}:/workspace/honest",
                           "--timeout", "10", "--", "./honest", user=user)
    tracer = ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={name}", "-e", "signal=none",
              "-e", f"inject={name}:error={error}:when={when}"]
    ended = fault.call([*tracer, *map(str, prefix), *argv], f"{name} {error} when={when}", room)
    hit = "(INJECTED)" in log.read_text(errors="replace")
    return hit, ended


@pytest.mark.parametrize("name, error", CASES, ids=lambda v: v)
def test_system_call_fails(name, error):
    most = MOST if fault.FULL else CALLS[name]
    for when in range(1, most + 1):
        room = support.Room()
        hit, ended = injected(name, error, when, room)
        # The guest's own writes, its start and its memory may be what failed.
        fault.assert_right_or_clear(ended, guest_may_fail=hit)
        assert hit or ended.status == 0, ended
        left = room.left_in_tmp()
        assert left == [], f"{ended.what} left {left}"
        room.remove()
        if not hit:
            break


def removal_failed(room):
    """Whether the fault was in the removal of the folder: it comes to the N-th call of each process, so to
    that of bailey too when it cleans up after a box that did not get further either. Only there a folder is
    opened as a path and then by itself (base/folder.c)."""
    opened = re.compile(r'openat\((AT_FDCWD, "[^"]*-box_[^"/]*", [^)]*O_PATH|\d+, "\."|\d+, "[^"]*", [^)]*O_PATH)')
    return any("(INJECTED)" in line and opened.search(line)
               for line in (room.path / "strace.log").read_text(errors="replace").splitlines())


@pytest.mark.parametrize("name, error", [("openat", "EMFILE"), ("flock", "ENOLCK"), ("chown", "EPERM")])
def test_a_private_folder_is_not_left(name, error):
    """Where namespaces are refused a box is a folder in TMPDIR: one that cannot be used is removed."""
    refused = [support.denier(), *support.NO_NAMESPACES, "--"]
    for when in range(1, 25):
        room = support.Room()
        hit, ended = injected(name, error, when, room, prefix=refused)
        fault.assert_right_or_clear(ended, guest_may_fail=hit)
        if removal_failed(room):  # then it goes with the next command
            assert support.without_namespaces("exec", "--", "/bin/true", room=room).status == 0
        left = room.left_in_tmp()
        assert left == [], f"{ended.what} left {left}"
        room.remove()
        if not hit:
            break


def test_nothing_injected_is_a_plain_success():
    """The harness itself: without a fault the run is right under strace."""
    hit, ended = injected("reboot", "EPERM", 1, support.Room())
    assert not hit and ended.status == 0 and fault.assert_truthful(ended), ended


@pytest.mark.parametrize("name, layer", [("landlock_create_ruleset", "landlock"),
                                         ("landlock_restrict_self", "landlock"),
                                         ("seccomp", "seccomp")])
def test_layer_that_always_fails_is_not_claimed(name, layer):
    hit, ended = injected(name, "EPERM", "1+", support.Room())
    fault.assert_right_or_clear(ended)
    if ended.status == 0:
        assert layer not in ended.result["meta"]["isolation"]["layers"], ended
    assert hit and (ended.status != 0 or layer != "seccomp"), ended
