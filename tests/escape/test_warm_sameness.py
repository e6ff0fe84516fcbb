"""A process that a zygote forked into a box has what a cold one has, and nothing else (issue 5, section 6).

One probe (sameness_probe.py) runs as a command, in a cold kernel, in a zygote's kernel and in one-shot
runs, cold, by a zygote and from the pool; in boxes of two ids and of one. Everything it saw is compared. What
may differ is in DIFFERS, with the reason, and nothing may differ that is not there.
"""
import os
import re

import pytest

import support
import warm

WAYS = {"split": None, "one id": support.ORDINARY_UID}
THREADS = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_MAX_THREADS",
           "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"}
NO_CAPS = ["0" * 16]

# Path of a fact (a pattern): why it may differ between two processes of one box.
DIFFERS = {
    "parent": "the parent of a zygote's kernel is outside of the box, which is shown as 0",
    "cmdline": "each is started in its own way; what it may say is checked below",
    "auxiliary/1[1-4]": "ids at the exec, which was the zygote's; the kernel's own are in `ids`",
    "environ/[A-Z]+_(NUM|MAX)_THREADS": "libraries read them when a zygote imports them",
    "proc environ": "that of the exec; a kernel's own are in `environ`",
    "maps/names": "a zygote has imported more; each has to be a file of the box, checked below",
    "maps/strange": "the native part of a zygote is not in boxes; checked below",
    "descriptors/25[0-3]": "a kernel's socket and its copies of 0-2; checked below",
    "interpreter/executable": "a command finds python3 by PATH, a kernel is started by its full name",
    "interpreter/path": "of a program the first entry is its folder, of a cell an empty string",
}

# Where there is one id: what a zygote's filter refuses besides.
ONE_ID = {
    "calls/pidfd of 1": "the way into every box of the engine, all of which have that id; ENOSYS in a zygote's kernels",
}

# The same between two boxes: which box it is.
OTHER_BOX = {
    "world/namespaces/.*": "each box has its own; checked below",
    "world/first/mountinfo": "mounts with their numbers; compared without them in `mounts`",
    "proc/[ug]id_map": "each box has its own ids",
    "mounts": "names of the box's folders and its ids are in them; compared without them below",
}
# Between a session's box and a run's: how it is furnished.
OTHER_KIND = {
    "world/bailey": "a run has no folder for packages",
    "environ/PYTHONPATH": "the same",
}


def differences(one, other, path=""):
    """(path, value, other value) of everything that is not the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}):
            yield from differences(one.get(name), other.get(name), f"{path}/{name}" if path else name)
    elif one != other:
        yield path, one, other


def explained(seen):
    return DIFFERS if seen["is split"] else {**DIFFERS, **ONE_ID}


def unexplained(one, other, *allowed):
    patterns = [re.compile(pattern) for rows in allowed for pattern in rows]
    return [row for row in differences(one, other)
            if not any(pattern.fullmatch(row[0]) for pattern in patterns)]


@pytest.fixture(scope="module", params=WAYS, ids=[w.replace(" ", "-") for w in WAYS])
def seen(request):
    """Name of a process to what the probe saw there."""
    if os.geteuid() != 0:
        pytest.skip("starts daemons as root and as an ordinary user: needs root")
    user, found = WAYS[request.param], {}
    with warm.Daemon(user) as daemon:
        session = daemon.session()["id"]
        found["isolation"] = daemon.exec(session, "true")["meta"]["isolation"]
        found["command"] = warm.facts(daemon.python(session, warm.PROBE))
        for origin in ("cold", "zygote"):
            context = daemon.context_of(session, origin)
            found[f"{origin} kernel"] = warm.facts(daemon.cell(session, warm.PROBE, context=context))
            found[f"{origin} run"] = warm.facts(daemon.run_of(warm.PROBE, origin))
        daemon.end(session)
    with warm.Daemon(user, pool=2) as daemon:
        session = daemon.session_of("pool")
        found["pool kernel"] = warm.facts(daemon.cell(session, warm.PROBE))
        found["pool run"] = warm.facts(daemon.run_of(warm.PROBE, "pool"))
        daemon.end(session)
    found["is split"] = request.param == "split"
    return found


KERNELS = ("cold kernel", "zygote kernel", "pool kernel")
RUNS = ("cold run", "zygote run", "pool run")


@pytest.mark.parametrize("other", ["cold kernel", "zygote kernel"])
def test_in_one_box(seen, other):
    """A command and the kernels beside it: in the same namespaces, with the same mounts."""
    left = unexplained(seen["command"], seen[other], explained(seen))
    assert not left, left
    assert seen["command"]["world"]["namespaces"] == seen[other]["world"]["namespaces"]


@pytest.mark.parametrize("one, other", [
    ("cold run", "zygote run"), ("cold run", "pool run"), ("zygote run", "pool run"),
    ("zygote kernel", "pool kernel"), ("cold kernel", "pool kernel")])
def test_in_two_boxes(seen, one, other):
    left = unexplained(seen[one], seen[other], explained(seen), OTHER_BOX)
    assert not left, left
    assert nameless(seen[one]["mounts"]) == nameless(seen[other]["mounts"])


@pytest.mark.parametrize("one, other", [
    ("command", "cold run"), ("command", "zygote run"), ("pool kernel", "pool run")])
def test_each_box_has_its_own_namespaces(seen, one, other):
    """Of boxes that lived at the same time: the numbers of those that are gone are given out again."""
    mine, theirs = (seen[name]["world"]["namespaces"] for name in (one, other))
    for kind in mine:
        if kind not in ("time", "time_for_children"):
            assert mine[kind] != theirs[kind], kind


def test_a_run_and_a_session(seen):
    left = unexplained(seen["command"], seen["pool run"], explained(seen), OTHER_BOX, OTHER_KIND)
    assert not left, left


def nameless(mounts):
    """Without the names of this box's own folders on the host, and the ids of their owner; as a set,
    because shares are mounted in either order."""
    return sorted(re.sub(r"\S*/(data|packages)/\S+|[ug]id=\d+", "-", row) for row in mounts)


@pytest.mark.parametrize("who", ["command", *KERNELS, *RUNS])
def test_walls(seen, who):
    """What is equal is also right: no comparison of two open doors."""
    found = seen[who]
    status = found["status"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert status[name] == NO_CAPS, (name, status)
    assert status["NoNewPrivs"] == ["1"] and status["Seccomp"] == ["2"], status
    assert status["Seccomp_filters"] == ["2"], status  # the warden's and the guest's
    assert found["ids"][:2] == [[1000] * 3, [1000] * 3], found["ids"]
    if seen["is split"]:
        assert found["ids"][2] == [], found["ids"]
        assert "uid_split" in seen["isolation"]["layers"]
    else:
        assert "uid_split" in seen["isolation"]["missing"]
    assert status["SigBlk"] == ["0" * 16] and status["SigPnd"] == ["0" * 16], status
    assert found["umask"] == 0o22 and found["cwd"] == "/workspace"
    assert found["proc"]["oom_score_adj"].strip() == "500"
    assert found["prctl"]["dumpable"] == 1 and found["prctl"]["keepcaps"] == 0
    assert found["prctl"]["death signal"] == [0, 0], "it does not depend on its parent's life"
    assert found["session"] == [True, True]
    assert found["interpreter"]["threads"] == found["interpreter"]["tasks"] == 1
    for name, value in found["raised"].items():
        if found["limits"][name][1] != -1:
            assert value in ("EPERM", "EINVAL"), (name, value)


REFUSED = ("EPERM", "ENOSYS", "EACCES", "EINVAL", "EBADF", "ESRCH", "EFAULT", "ENODEV", "ENOMEM",
           "EINTR", "the child died")
HARMLESS = {  # answered "ok" although it was tried, and why that is nothing
    "capset": "with a header of version 0 it asks which versions there are",
    "landlock abi": "asks for the version; rules only tighten",
    "pidfd of 1": "a handle gives nothing that a pid does not",
    "setfsuid": "answers with the old id and changes nothing",
    "prctl name": "its own name", "prctl keepcaps": "there is nothing to keep",
    "personality ask": "asks", "kill 1": "sent and ignored: pid 1 does not get what it does not handle",
    "tkill 1": "the same", "tgkill 1": "the same", "ioprio_set": "its own, downwards",
    "arch_prctl": "asks for the state of a processor's switch", "mlockall": "bounded by RLIMIT_MEMLOCK",
    "setgroups none": "no groups instead of none", "setpriority": "its own, if RLIMIT_NICE lets it",
    "sched_setscheduler": "its own, if RLIMIT_RTPRIO lets it",
}


@pytest.mark.parametrize("who", ["command", *KERNELS, *RUNS])
def test_calls_are_refused(seen, who):
    """docs/security.md, attacks 12, 20, 28-37, 41: each probed call has the answer that the walls promise."""
    calls = seen[who]["calls"]
    assert len(calls) > 100
    wrong = {name: answer for name, answer in calls.items()
             if answer not in REFUSED and answer is not None and not (answer == "ok" and name in HARMLESS)}
    assert not wrong, wrong
    for name in ("unshare user", "clone user", "setns own user", "mount", "ptrace attach", "bpf", "keyctl join",
                 "perf_event_open", "userfaultfd", "chroot"):
        assert calls[name] in ("EPERM", "ENOSYS"), (name, calls[name])
    assert calls["io_uring_setup"] == calls["clone3"] == "ENOSYS", calls
    sockets = {key: value for key, value in seen[who]["sockets"].items() if value == "ok"}
    assert set(sockets) <= {"1 1", "1 2", "2 1", "2 2", "10 1", "10 2", "pair"}, sockets
    for request in ("5412", "541c"):  # TIOCSTI, TIOCLINUX
        assert seen[who]["ioctls"][request] == "EPERM", seen[who]["ioctls"]


@pytest.mark.parametrize("who", ["command", *KERNELS, *RUNS])
def test_paths_are_refused(seen, who):
    """docs/security.md, attacks 1, 19, 22-24."""
    paths = seen[who]["paths"]
    written = {name for name, answer in paths.items() if name.startswith("write ") and answer == "ok"}
    assert written == {f"write {place}/x" for place in ("/tmp", "/workspace", "/home/user", "/dev/shm")} | (
        written & {"write /var/tmp/x", "write /run/x", "write /proc/self/mem"}), written
    for path in ("/etc/shadow", "/proc/kcore", "/proc/kmsg", "/proc/1/mem", "/proc/1/environ", "/proc/1/root",
                 "/proc/1/exe", "/proc/1/cwd", "/dev/mem", "/dev/kmsg", "/sys/fs/cgroup", "/root"):
        assert paths["read " + path] != "ok", path
    assert paths["lower oom"] != "ok" and paths["links of 1"] == [], paths


@pytest.mark.parametrize("who", ["command", *KERNELS, *RUNS])
def test_17_descriptors(seen, who):
    found = dict(seen[who]["descriptors"])
    links = {fd: link for fd, (link, _) in found.items()}
    assert links.pop("0").split(":")[0] in ("/dev/null", "pipe"), found
    assert links.pop("1") == "pipe:N" and links.pop("2") == "pipe:N", found
    if who in ("command", "cold run"):
        assert not links, found
    else:
        assert links == {"250": "socket:N", "251": "/dev/null", "252": "pipe:N", "253": "pipe:N"}, found
        for fd in links:
            assert int(found[fd][1], 8) & os.O_CLOEXEC, "programs that it starts do not get it"


@pytest.mark.parametrize("who", [*KERNELS, *RUNS])
def test_27_it_says_nothing_of_the_host(seen, who):
    """Of the interpreter's own files a cold guest sees the same names."""
    found, cold = seen[who], seen["command"]
    assert set(found["environ"]) - set(cold["environ"]) <= THREADS, found["environ"]
    names = {row.partition("=")[0] for row in found["proc environ"] if row}
    assert names - set(cold["environ"]) <= THREADS, names
    assert found["world"]["exe"] == cold["world"]["exe"]
    assert set(found["maps"]["strange"]) <= {"/bailey/driver/_zygote.so"}, found["maps"]
    allowed = ("/usr/", "/lib", "/bailey/", os.path.dirname(cold["world"]["exe"]) + "/")
    assert all(name.startswith(allowed) for name in found["maps"]["names"]), found["maps"]
    assert all(word == "" or word.isdigit() or word.startswith(("/usr/", "/bailey/driver/", "/workspace/"))
               or word in ("python3", "main.py") for word in found["cmdline"]), found["cmdline"]
