"""
Warm Python in containers: one that was started ahead has a zygote inside, and every kernel of its
session is forked from that, as clean and as confined as a new interpreter; without it kernels come
all the same, and say so.
"""
import json
import os
import signal

import pytest

import serve
import support

WAIT_S = 60.0
# hash() of a text is seeded when an interpreter starts: those that are forked from one have the same.
LOOK = """
import glob, json, os, random, sys
def zygotes():
    # Kernels have its name; but it is not dumpable, and nobody else is allowed to look into it.
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with open(path) as file:
            if "/bailey/driver/zygote.py" in file.read():
                try:
                    os.listdir(os.path.dirname(path) + "/fd")
                except PermissionError:
                    yield int(path.split("/")[2])
def status(*names):
    with open("/proc/self/status") as file:
        lines = dict(line.rstrip().split(":", 1) for line in file)
    return {name: lines.get(name, "").strip() for name in names}
print(json.dumps({"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "seed": hash("yard"),
                  "group": os.getpgid(0), "random": random.random(), "folder": os.getcwd(), "x": "x" in globals(),
                  "word": os.environ.get("WORD"), "zygotes": list(zygotes()),
                  "fds": sorted(int(name) for name in os.listdir("/proc/self/fd")),
                  "modules": "_zygote" in sys.modules, "score": open("/proc/self/oom_score_adj").read(),
                  "status": status("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
                                   "NoNewPrivs", "Seccomp", "Seccomp_filters", "SigBlk", "SigIgn", "Umask")}))
x = 1
"""


class Session:
    """One in a container that was started ahead."""

    def __init__(self, daemon):
        serve.polled(lambda: daemon.get("/v1/warm")["pool"], lambda pool: pool["boxes"] >= 1,
                     "one is started ahead", WAIT_S)
        self.daemon = daemon
        self.path = f"/v1/sessions/{daemon.session(env={'WORD': 'spoken'})['id']}"

    def cell(self, code, **members):
        return self.daemon.post(f"{self.path}/code", {"code": code, **members})

    def look(self, warm, **members):
        """What a kernel's first cell sees of itself, and that it was started so."""
        done = self.cell(LOOK, **members)
        assert done["exit_code"] == 0, done
        assert done["meta"]["warm"] == warm, done
        return json.loads(done["stdout"])

    def restart(self):
        context = self.daemon.get(f"{self.path}/contexts")["contexts"][0]["id"]
        self.daemon.post(f"{self.path}/contexts/{context}/restart")

    def end(self):
        self.daemon.end(self.path.rpartition("/")[2])


@pytest.fixture(scope="module")
def daemon(dockerd):
    before = dockerd.kept()
    with serve.Daemon(dockerd.env(DOCKER_POOL_SIZE="1", DOCKER_CPU_LIMIT="all")) as running:
        yield running
    assert not dockerd.left_since(before)


@pytest.fixture
def session(daemon):
    one = Session(daemon)
    yield one
    one.end()


def generation(daemon):
    try:
        return daemon.get("/v1/info")["generation"]
    except OSError:  # nobody listens for a moment
        return 0


def check_clean(seen):
    """Nobody's before, the warden's child, in a session and a group of its own."""
    assert not seen["x"] and not seen["modules"], seen
    assert seen["parent"] == 1 and seen["session"] == seen["group"] == seen["pid"], seen
    assert (seen["word"], seen["folder"]) == ("spoken", "/workspace"), seen


def test_every_kernel_is_forked_and_clean(session):
    first = session.look("pool")
    assert len(first["zygotes"]) == 1, first
    session.restart()
    second = session.look("zygote")
    other = session.daemon.post(f"{session.path}/contexts", {"cwd": "/tmp"}, 201)["id"]
    third = session.look("zygote", context=other)
    assert third.pop("folder") == "/tmp"
    kernels = [first, second, {**third, "folder": "/workspace"}]
    for seen in kernels:
        check_clean(seen)
        assert seen["zygotes"] == first["zygotes"], seen
    assert len({seen["seed"] for seen in kernels}) == 1, kernels
    assert len({seen["random"] for seen in kernels}) == len({seen["pid"] for seen in kernels}) == 3, kernels


def test_one_has_the_walls_of_the_other(session):
    """Forked or new: the same ids, rights, filters, descriptors and signals."""
    forked = session.look("pool")
    session.cell(f"os.kill({forked['zygotes'][0]}, 9)")
    session.restart()
    fresh = session.look("cold")
    assert forked["status"]["NoNewPrivs"] == "1" and forked["status"]["Seccomp"] == "2", forked
    assert forked["status"]["CapEff"].strip("0") == "" and forked["status"]["Umask"] == "0022", forked
    for name in ("status", "fds", "score"):
        assert forked[name] == fresh[name], (name, forked, fresh)


def test_how_it_ends_is_seen(session):
    session.look("pool")
    session.cell("os._exit(7)")
    again = session.cell("print(1)")
    assert again["meta"]["warm"] == "zygote" and "status 7" in again["meta"]["kernel_note"], again
    session.cell("import os; os.kill(os.getpid(), 11)")
    again = session.cell("print(1)")
    assert again["meta"]["warm"] == "zygote" and "signal 11" in again["meta"]["kernel_note"], again
    gone = session.cell("while True: pass", timeout=1)
    assert gone["meta"]["timed_out"], gone
    session.cell("import subprocess; child = subprocess.Popen(['sleep', '1000'])")
    session.restart()  # with everybody that it started
    check_clean(session.look("zygote"))
    left = session.daemon.exec(session.path.rpartition("/")[2], "sh", "-c",
                               "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "sleep 1000" not in left["stdout"], left


def test_one_that_the_guest_ends_is_not_missed(session):
    first = session.look("pool")
    session.cell(f"os.kill({first['zygotes'][0]}, 9)")
    session.restart()
    second = session.look("cold")
    check_clean(second)
    assert second["zygotes"] == [] and second["seed"] != first["seed"], second
    session.cell("os._exit(1)")
    check_clean(session.look("cold"))


def test_a_folder_that_is_not_there(session):
    """Forked or new, it is told the same, and it begins once there is one."""
    zygote = session.look("pool")["zygotes"][0]
    for warm in ("zygote", "cold"):
        folder = f"/tmp/{warm}"
        here = session.daemon.post(f"{session.path}/contexts", {"cwd": folder}, 201)["id"]
        for _ in range(2):
            said = session.cell("print(1)", context=here)
            assert said["meta"]["error"]["message"] == "the working folder: No such file or directory", said
        session.cell(f"os.mkdir({folder!r})")
        seen = session.look(warm, context=here)
        assert (seen["folder"], seen["word"]) == (folder, "spoken"), seen
        session.cell(f"os.kill({zygote}, 9)")


# What these leave is looked for at the module's end: its daemon makes containers ahead meanwhile.


def test_it_outlives_its_broker(dockerd):
    with serve.Daemon(dockerd.env(DOCKER_POOL_SIZE="1", DOCKER_CPU_LIMIT="all")) as daemon:
        session = Session(daemon)
        session.look("pool")
        session.restart()
        first = session.look("zygote")
        info = daemon.get("/v1/info")
        os.kill(info["broker_pid"], signal.SIGKILL)
        serve.polled(lambda: generation(daemon), lambda now: now > info["generation"], "a new broker")
        again = session.look("zygote")
        assert again["x"] and (again["pid"], again["word"]) == (first["pid"], "spoken"), again
        session.restart()
        check_clean(session.look("zygote"))
        session.end()


def test_a_run_has_it_too(daemon):
    serve.polled(lambda: daemon.get("/v1/warm")["pool"], lambda pool: pool["boxes"] >= 1, "one is ready", WAIT_S)
    done = support.Result(daemon.bailey("run", "--json", "-c", LOOK))
    seen = json.loads(done["stdout"])
    assert done.meta["warm"] == "pool" and len(seen["zygotes"]) == 1 and seen["parent"] == 1, done


def test_none_where_memory_is_short(dockerd):
    with serve.Daemon(dockerd.env(DOCKER_POOL_SIZE="1", DOCKER_MEMORY_LIMIT="60m",
                                  DOCKER_CPU_LIMIT="all")) as daemon:
        session = Session(daemon)
        first = session.look("pool")
        assert first["zygotes"] == [], first
        session.restart()
        assert session.look("cold")["seed"] != first["seed"]
        session.end()


def test_none_in_an_image_without_python(dockerd):
    with serve.Daemon(dockerd.env(DOCKER_POOL_SIZE="1", DOCKER_IMAGE=dockerd.use("bare"))) as daemon:
        serve.polled(lambda: daemon.get("/v1/warm")["pool"], lambda pool: pool["boxes"] >= 1, "one is ready",
                     WAIT_S)
        made = daemon.session()["id"]
        seen = daemon.exec(made, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert seen["exit_code"] == 0 and "zygote" not in seen["stdout"], seen
        daemon.end(made)
