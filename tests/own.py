"""own.py - surroundings of this test run's own, so that a leak check sees its things and no neighbour's.

Other programs of this machine, other daemons of bailey among them, make mounts, control groups and
processes all the time. settle() gives the test run

- the orphans of all that it starts (PR_SET_CHILD_SUBREAPER): its processes are those beneath it;
- a mount namespace: mounts of others do not appear in it, and because it is shared with the
  namespaces that are made from it, a mount that a box does not keep to itself does;
- control groups: bailey makes its groups below its own (v1) or in the nearest delegating one (v2),
  so whatever a test leaves is in `groups`.

What this machine refuses is left out: where no group can be made, bailey can make none either, and
without CAP_SYS_ADMIN nothing beneath us can change the mounts of this namespace. leave() undoes the
control groups; the rest ends with the process.
"""
import ctypes
import os
import re

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE, MS_SHARED = 0x4000, 1 << 18, 1 << 20
PREFIX = "yard-group-"
LEAF = "tests"  # v2: a group with members may not give controllers to its children
CONTROLLERS = ("memory", "pids", "cpu")

_libc = ctypes.CDLL(None, use_errno=True)
groups = []  # folders of this test run, one for each hierarchy
has_mounts = False  # a mount namespace of this test run's own
_homes = []  # the cgroup.procs that we came from, in the same order


# --- whose is it ---------------------------------------------------------------------------------


def begin_of(pid):
    """When a process began, in clock ticks since the boot, as text; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return None


def pid_namespace(pid="self"):
    """The number of a process's pid namespace, as text; None when it cannot be read."""
    try:
        return re.search(r"\d+", os.readlink(f"/proc/{pid}/ns/pid")).group()
    except OSError:
        return None


def mark(pid=None):
    """Names a process among all of this machine: pid namespace, pid and start time."""
    pid = pid or os.getpid()
    return [pid_namespace(), str(pid), begin_of(pid)]


def has_ended(words):
    """Whether the process of a mark() is gone. One of another pid namespace cannot be judged."""
    return len(words) == 3 and words[0] == pid_namespace() and begin_of(words[1]) != words[2]


# --- control groups ------------------------------------------------------------------------------


def cgroup_mounts():
    """(mount point, root of the mount, type, controllers) of each hierarchy."""
    with open("/proc/self/mountinfo") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            kind, _, options = right.split()[:3]
            if kind in ("cgroup", "cgroup2"):
                yield left.split()[4], left.split()[3], kind, set(options.split(","))


def own_groups():
    """{controllers of a hierarchy ("" is v2): path of our group in it}"""
    with open("/proc/self/cgroup") as file:
        return dict(line.rstrip("\n").split(":", 2)[1:] for line in file)


def _folder(point, root, path):
    if root != "/":
        if path != root and not path.startswith(root + "/"):
            return None
        path = path[len(root):]
    return (point + path).rstrip("/")


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)


def _words(path):
    try:
        with open(path) as file:
            return set(file.read().split())
    except OSError:
        return set()


def _remove(folder):
    """A group with all below it; one that has members stays."""
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            pass


def _sweep(parent):
    """Groups of test runs that were killed."""
    for name in os.listdir(parent):
        if name.startswith(PREFIX) and has_ended(name[len(PREFIX):].split("-")):
            _remove(os.path.join(parent, name))


def _weigh(group):
    """v1: a group weighs as much as one task beside it; a test run has a few at work."""
    path = os.path.join(group, "cpu.shares")
    if os.path.exists(path):
        _write(path, str(1024 * (os.cpu_count() or 1)))


def _enter(home, parent, is_v2):
    """Makes our group in `parent` and enters it; `home` is the group that we are in."""
    _sweep(parent)
    group = os.path.join(parent, PREFIX + "-".join(mark()))
    os.mkdir(group)
    try:
        inner = group
        if is_v2:
            given = _words(f"{parent}/cgroup.subtree_control") & set(CONTROLLERS)
            _write(f"{group}/cgroup.subtree_control", " ".join("+" + name for name in given))
            inner = os.path.join(group, LEAF)
            os.mkdir(inner)
        _weigh(group)
        _write(f"{inner}/cgroup.procs", str(os.getpid()))
    except OSError:
        _remove(group)
        raise
    groups.append(group)
    _homes.append(f"{home}/cgroup.procs")


def _delegating(folder, point):
    """v2: the nearest group that hands memory and pids on, as sys/cgroup.c looks for it."""
    while len(folder) >= len(point):
        if {"memory", "pids"} <= _words(f"{folder}/cgroup.subtree_control"):
            return folder
        folder = os.path.dirname(folder)
    return None


def _enter_groups():
    mine, v2 = own_groups(), None
    for point, root, kind, options in cgroup_mounts():
        if kind == "cgroup2":
            v2 = v2 or (point, root)
            continue
        for controllers, path in mine.items():
            here = set(controllers.split(","))
            if here & set(CONTROLLERS) and here <= options:
                folder = _folder(point, root, path)
                if folder and os.access(folder, os.W_OK):
                    _enter(folder, folder, False)
    if not groups and v2 and "" in mine:
        home = _folder(*v2, mine[""])
        parent = home and _delegating(home, v2[0])
        if parent and os.access(parent, os.W_OK):
            _enter(home, parent, True)


# --- all of it -----------------------------------------------------------------------------------


def become_subreaper():
    """Orphans of anything a test starts become our children, so none can hide behind init."""
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _own_mounts():
    global has_mounts
    if _libc.unshare(CLONE_NEWNS) != 0:
        return
    has_mounts = True
    for how in (MS_PRIVATE, MS_SHARED):
        if _libc.mount(b"none", b"/", None, MS_REC | how, None) != 0:
            raise OSError(ctypes.get_errno(), "mount(/): changing the propagation")


def settle():
    """Once, before the first thread and the first test."""
    become_subreaper()
    _own_mounts()
    try:
        _enter_groups()
    except OSError as problem:
        print(f"no control group of the tests' own ({problem}): neighbours are told by name", flush=True)
        leave()


def leave():
    """Back to the groups that we came from; ours go, with what tests left in them."""
    for group, home in zip(groups, _homes):
        try:
            _write(home, str(os.getpid()))
        except OSError:
            continue
        _remove(group)
    groups.clear()
    _homes.clear()
