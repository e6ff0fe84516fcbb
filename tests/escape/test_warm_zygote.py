"""docs/security.md, attacks 71, 72 and what a zygote itself may do: fresh randomness, nothing of the last user, nobody on the host."""
import json
import os
import pathlib
import signal
import socket
import subprocess

import pytest

import data_template
import support
import warm

WAYS = {"split": None, "one-id": support.ORDINARY_UID}
NOTHING = "0" * 16

RANDOM = """
import json, os, random, secrets, tempfile, time, uuid, sys
numbers = {
    "random": random.random(), "bits": random.getrandbits(64), "a Random of its own": random.Random().random(),
    "SystemRandom": random.SystemRandom().random(), "uuid4": uuid.uuid4().hex, "secrets": secrets.token_hex(16),
    "urandom": os.urandom(16).hex(), "getrandom": os.getrandom(16).hex(), "mktemp": tempfile.mktemp(),
    "mkdtemp": tempfile.mkdtemp(), "uuid1 clock": uuid.uuid1().clock_seq,
    "shuffle": str(random.sample(range(10 ** 9), 8)),
}
if "numpy" in sys.modules:
    import numpy
    numbers["numpy.random"] = float(numpy.random.random())
    numbers["numpy RandomState"] = float(numpy.random.mtrand._rand.random_sample())
    numbers["numpy default_rng"] = float(numpy.random.default_rng().random())
print("RANDOM", json.dumps(numbers))
print("SHARED", json.dumps({"hash": hash("a word"), "pid": os.getpid()}))
"""
MAY_MEET = {"uuid1 clock"}  # 14 bits


@pytest.fixture(params=WAYS)
def daemon(request):
    if os.geteuid() != 0:
        pytest.skip("starts daemons as root and as an ordinary user: needs root")
    with warm.Daemon(WAYS[request.param]) as running:
        generation = running.get("/v1/info")["generation"]
        yield running
        assert running.get("/v1/info")["generation"] == generation, "the broker died"


def line(result, word):
    assert result["exit_code"] == 0, result
    found = [row for row in result["stdout"].splitlines() if row.startswith(word + " ")]
    return json.loads(found[-1].partition(" ")[2])


def all_distinct(rows):
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name not in MAY_MEET:
            assert len(set(values)) == len(values), (name, values)


# --- 72 ---


def test_72_children_of_one_zygote(daemon):
    """Kernels of one box, of another box and one-shot runs, all forked from the same memory."""
    sessions = [daemon.session()["id"] for _ in range(2)]
    results = [daemon.cell(session, RANDOM, context=daemon.context_of(session, "zygote"))
               for session in sessions for _ in range(3)]
    results += [daemon.run_of(RANDOM, "zygote") for _ in range(3)]
    rows = [line(result, "RANDOM") for result in results]
    all_distinct(rows)
    assert len(daemon.zygotes()) == 1, "it was about one"
    # The seed of str's hash is the interpreter's start's and cannot change: docs/kernels.md says so.
    assert len({line(result, "SHARED")["hash"] for result in results}) == 1
    in_one_box = [line(result, "SHARED")["pid"] for result in results[:3]]
    assert len(set(in_one_box)) == 3, in_one_box
    daemon.kill_zygotes()
    for session in sessions:
        after = daemon.cell(session, RANDOM, context=daemon.context_of(session, "zygote"))
        rows.append(line(after, "RANDOM"))
        assert line(after, "SHARED")["hash"] != line(results[0], "SHARED")["hash"], "another zygote"
        daemon.end(session)
    all_distinct(rows)


def test_72_the_pool():
    with warm.Daemon(pool=2) as daemon:
        rows = [line(daemon.run_of(RANDOM, "pool"), "RANDOM") for _ in range(6)]
        all_distinct(rows)


def test_72_numpy():
    """With the data template, where it is built already or can be."""
    data_template.state()
    with warm.Daemon(env=data_template.env()) as daemon:
        session, rows = daemon.session(template="data")["id"], []
        for _ in range(4):
            context = daemon.context_of(session, "zygote")
            loaded = daemon.cell(session, "import sys; print('numpy' in sys.modules)", context=context)
            assert loaded["stdout"] == "True\n", "it was forked with it"
            rows.append(line(daemon.cell(session, RANDOM, context=context), "RANDOM"))
        assert all("numpy.random" in row for row in rows), rows
        all_distinct(rows)
        daemon.end(session)


# --- 71 ---

LEAVE = r"""
import ctypes, os, random, signal, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
for place in ("/tmp", "/workspace", "/home/user", "/dev/shm", "/var/tmp", "/run", "/tmp/output", "/home/user/.cache"):
    try:
        os.makedirs(place, exist_ok=True)
        open(place + "/MARK", "w").write("MARK")
    except OSError:
        pass
libc.shmget(0x4d41524b, 4096, 0o1666); libc.msgget(0x4d41524b, 0o1666); libc.semget(0x4d41524b, 1, 0o1666)
libc.mq_open(b"/MARK", os.O_CREAT | os.O_RDWR, 0o666, None)
kept = [socket.socket(socket.AF_UNIX), socket.socket()]
kept[0].bind("\0MARK"); kept[0].listen(1); kept[1].bind(("127.0.0.1", 54321)); kept[1].listen(1)
os.environ["MARK"] = "MARK"; os.umask(0o777); os.chdir("/tmp"); sys.path.insert(0, "/MARK")
sys.modules["MARK"] = sys; sys.MARK = random.MARK = 1; sys.setrecursionlimit(333)
signal.signal(signal.SIGUSR1, signal.SIG_IGN); signal.setitimer(signal.ITIMER_REAL, 1000)
random.seed(1); os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
libc.prctl(15, b"MARK")
import builtins; builtins.MARK = 1
if os.fork() == 0:
    os.setsid()
    libc.prctl(15, b"MARK")
    time.sleep(1000)
print("LEFT {}")
"""
LOOK = r"""
import builtins, ctypes, json, os, random, signal, socket, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for place in ("/tmp", "/workspace", "/home/user", "/dev/shm", "/var/tmp", "/run", "/tmp/output", "/home/user/.cache"):
    found["file " + place] = os.path.exists(place + "/MARK")
found["shm"] = libc.shmget(0x4d41524b, 0, 0) >= 0
found["msg"] = libc.msgget(0x4d41524b, 0) >= 0
found["sem"] = libc.semget(0x4d41524b, 0, 0) >= 0
found["mq"] = libc.mq_open(b"/MARK", os.O_RDWR) >= 0
found["abstract"] = socket.socket(socket.AF_UNIX).connect_ex("\0MARK") == 0
found["port"] = socket.socket().connect_ex(("127.0.0.1", 54321)) == 0
found["environment"] = "MARK" in os.environ or "MARK" in open("/proc/self/environ").read()
mask = os.umask(0o22)
found["umask"] = mask != 0o22
found["folder"] = os.getcwd() != "/workspace"
found["path"] = "/MARK" in sys.path
found["modules"] = "MARK" in sys.modules or hasattr(sys, "MARK") or hasattr(random, "MARK") or hasattr(builtins, "MARK")
found["recursion"] = sys.getrecursionlimit() == 333
found["handler"] = signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL
found["timer"] = signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0)
found["cores"] = len(os.sched_getaffinity(0)) != CORES
found["threads"] = threading.active_count() != 1
def named(pid):
    try:
        return "MARK" in open(f"/proc/{pid}/comm").read()
    except OSError:
        return False
found["processes"] = any(named(pid) for pid in os.listdir("/proc") if pid.isdigit())
found["others"] = len([p for p in os.listdir("/proc") if p.isdigit()]) > 2
found["random"] = random.random() == 0.13436424411240122  # the first after seed(1)
print("FOUND", json.dumps(found))
print("MODULES", json.dumps(sorted(sys.modules)))
"""


def look(cores=len(os.sched_getaffinity(0))):
    return LOOK.replace("CORES", str(cores))


@pytest.mark.parametrize("origin", ["zygote", "pool"])
def test_71_runs_see_nothing_of_each_other(origin):
    with warm.Daemon(pool=2 if origin == "pool" else 0) as daemon:
        modules = set()
        for _ in range(4):
            left = daemon.run_of(LEAVE, origin)
            assert left["exit_code"] == 0 and "LEFT" in left["stdout"], left
            seen = daemon.run_of(look(), origin)
            found = line(seen, "FOUND")
            assert not any(found.values()), {name for name, value in found.items() if value}
            modules.add(json.dumps(line(seen, "MODULES")))
        assert len(modules) == 1, "what is loaded is the same for everybody"


@pytest.mark.parametrize("origin", ["zygote", "pool"])
def test_71_sessions_see_nothing_of_each_other(origin):
    """One after the other, and beside each other."""
    with warm.Daemon(pool=2 if origin == "pool" else 0) as daemon:
        living = []
        for _ in range(3):
            first = daemon.session_of(origin)
            left = daemon.cell(first, LEAVE)
            assert "LEFT" in left["stdout"], left
            own = line(daemon.cell(first, look()), "FOUND")
            for name in ("file /tmp", "file /workspace", "shm", "abstract", "port", "environment", "modules", "processes"):
                assert own[name], (name, own)
            second = daemon.session_of(origin)
            found = line(daemon.cell(second, look()), "FOUND")
            assert not any(found.values()), {name for name, value in found.items() if value}
            daemon.end(first)
            third = daemon.session_of(origin)
            found = line(daemon.cell(third, look()), "FOUND")
            assert not any(found.values()), {name for name, value in found.items() if value}
            living += [second, third]
        for session in living:
            daemon.end(session)


# --- the zygote itself ---


def status(pid):
    rows = dict(row.split(":", 1) for row in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: value.split() for name, value in rows.items()}


def kernel_answers(program, pid, uid):
    """How a program ends that tries to open a path with just this id."""
    return subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all",
                           "--bounding-set=-all", "/usr/bin/python3", "-c", program, str(pid)],
                          capture_output=True, text=True, check=False)


def test_a_zygote_is_nobody_on_the_host(daemon, outside_secret):
    pid = daemon.zygote()
    support.wait_until(lambda: status(pid)["Seccomp"] and len(os.listdir(f"/proc/{pid}/fd")) >= 6, "it has begun")
    now = status(pid)
    assert now["CapPrm"] == now["CapEff"] == now["CapBnd"] == [NOTHING], now
    assert now["CapInh"] == now["CapAmb"] == [NOTHING] and now["NoNewPrivs"] == ["1"], now
    assert now["Seccomp"] == ["2"], now
    assert len(now["NSpid"]) == 2 and now["NSpid"][0] == str(pid), now
    launcher = daemon.get("/v1/info")["launcher_pid"]
    for kind in ("user", "pid"):  # it owns boxes that are children of these
        assert warm.namespace(pid, kind) == warm.namespace(launcher, kind) != warm.namespace("self", kind)
    for kind in ("mnt", "uts", "ipc", "net"):
        assert warm.namespace(pid, kind) not in (warm.namespace(launcher, kind), warm.namespace("self", kind))
    ids = set(now["Uid"] + now["Gid"])
    assert ids == {str(daemon.user)} if daemon.user else len(ids) == 1 and int(*ids) >= 65536, now
    if not daemon.user:
        assert ids.isdisjoint(status(launcher)["Uid"]), "nor is it the launcher"
        assert now["Groups"] == [], now
    # What that id may do on the host: nothing that is root's.
    tried = kernel_answers("import sys; print(open(sys.argv[1]).read())", outside_secret, next(iter(ids)))
    assert tried.returncode != 0 and "PermissionError" in tried.stderr, tried
    # Its root has neither that file nor the state folder.
    root = pathlib.Path(f"/proc/{pid}/root")
    for path in (outside_secret, daemon.state, daemon.socket, "/etc/shadow", "/root", "/sys/fs"):
        assert not os.path.lexists(str(root) + str(path)), path
    # And of /proc itself.
    numbers = [name for name in os.listdir(root / "proc") if name.isdigit()]
    assert numbers == [] and (root / "proc/self/comm").read_text() == pathlib.Path(f"/proc/{pid}/comm").read_text()


@pytest.fixture
def outside_secret(room):
    path = room.path / "root-only"
    path.write_text("secret")
    path.chmod(0o600)
    return path


def test_a_zygote_holds_nothing(daemon):
    """Its one socket to the launcher, what it waits with, and its own score; nothing that listens."""
    session = daemon.session()["id"]
    daemon.context_of(session, "zygote")
    pid = daemon.zygote()
    held = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    kinds = sorted(link.split(":")[0] if ":" in link else link for fd, link in held.items() if fd > 2)
    score = f"/proc/{pid}/oom_score_adj"
    assert [kind for kind in kinds if kind != score and not kind.endswith("/oom_score_adj")] == [
        "anon_inode", "socket"], held
    assert held[0].endswith("/null") and held[1] == held[2] and held[1].startswith("pipe:"), held  # to the launcher
    sockets = {link for link in held.values() if link.startswith("socket:")}
    inode = next(iter(sockets))[8:-1]
    rows = [row.split() for row in pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
    own = [row for row in rows if row[6] == inode]
    assert all(row[4] == "0005" and row[5] == "03" and len(row) == 7 for row in own), own  # SEQPACKET, connected, no name
    for table in ("tcp", "tcp6", "udp", "udp6"):
        rows = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        assert not any(f" {inode} " in row for row in rows), rows
    threads = os.listdir(f"/proc/{pid}/task")
    assert len(threads) == 1, "it only imports"
    daemon.end(session)


INTO = """
import os, sys
base = "/proc/" + sys.argv[1] + "/"
for name in ("mem", "environ", "maps", "auxv", "exe", "root", "cwd", "ns/user", "fd/0", "fd/3"):
    for what in (lambda path: os.open(path, os.O_RDONLY), os.readlink):
        try:
            what(base + name)
        except OSError:
            continue
        print("open", name)
"""


def test_a_zygote_is_not_dumpable(daemon):
    """Whoever has its id on the host reads nothing of it; nobody in a box sees it at all."""
    pid = daemon.zygote()
    session = daemon.session()["id"]
    daemon.context_of(session, "zygote")
    uid = status(pid)["Uid"][0]
    if daemon.user is None:  # an ordinary user owns the namespaces of his own daemon, and may look into them
        tried = kernel_answers(INTO, pid, uid)
        assert tried.returncode == 0 and tried.stdout == "", tried
    seen = daemon.exec(session, "sh", "-c", "echo /proc/[0-9]*")["stdout"].split()
    assert 1 < len(seen) < 8, "the warden, two kernels, this shell"
    parents = daemon.cell(session, "import os; print(os.getppid())", context=daemon.context_of(session, "zygote"))
    assert parents["stdout"] == "0\n", parents
    daemon.end(session)


def test_the_namespace_of_a_dead_zygote_is_not_mistaken_for_a_box(daemon):
    """What a zygote left behind is found by its mount namespace where there are no control groups.

    The kernel gives the number of a namespace that is gone to the next one, which may be a box's: until the launcher
    has looked, nobody may get it.
    """
    launcher, pid = daemon.get("/v1/info")["launcher_pid"], daemon.zygote()
    daemon.warm_up()
    number = os.readlink(f"/proc/{pid}/ns/mnt")
    os.kill(launcher, signal.SIGSTOP)  # it does not know yet
    made = []
    try:
        os.kill(pid, signal.SIGKILL)
        support.wait_until(lambda: status(pid)["State"][0] == "Z", "the zygote has ended")
        for _ in range(100):
            made.append(subprocess.Popen(["unshare", "--mount", "sh", "-c", "readlink /proc/self/ns/mnt; read word"],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert number not in {one.stdout.readline().strip() for one in made}
    finally:
        os.kill(launcher, signal.SIGCONT)
        for one in made:
            one.communicate()
    assert daemon.post("/v1/run", {"code": "print(1)"})["stdout"] == "1\n"


def test_a_killed_zygote_is_replaced(daemon):
    """Nothing fails meanwhile; kernels that it made keep their variables, and their ends are told truly."""
    session = daemon.session()["id"]
    contexts = [daemon.context_of(session, "zygote") for _ in range(3)]
    for number, context in enumerate(contexts):
        daemon.cell(session, f"x = {number}", context=context)
    before = daemon.zygote()
    daemon.kill_zygotes()
    origins = set()
    for number in range(20):
        done = daemon.post("/v1/run", {"code": f"print({number})"})
        assert done["exit_code"] == 0 and done["stdout"] == f"{number}\n", done
        origins.add(done["meta"]["warm"])
    assert "cold" in origins, origins
    for number, context in enumerate(contexts):
        kept = daemon.cell(session, "print(x)", context=context)
        assert kept["stdout"] == f"{number}\n" and kept["meta"]["kernel"] == "kept", kept
    for context, code, note in ((contexts[0], "import os; os._exit(7)", "status 7"),
                                (contexts[1], "import os; os.kill(os.getpid(), 9)", "signal 9")):
        lost = daemon.cell(session, code, context=context)
        assert lost["meta"]["kernel_lost"] and lost["exit_code"] == (7 if "7" in note else 137), lost
        after = daemon.cell(session, "print(6 * 7)", context=context)
        assert after["stdout"] == "42\n" and note in after["meta"]["kernel_note"], after
    daemon.run_of("1", "zygote")
    assert daemon.zygote() != before
    daemon.end(session)


def test_a_stopped_zygote_fails_nobody(daemon):
    """It does not answer: whoever waits starts cold after a while, and it is replaced."""
    session = daemon.session()["id"]
    daemon.context_of(session, "zygote")
    pid = daemon.zygote()
    os.kill(pid, signal.SIGSTOP)
    context = daemon.context(session)
    done = daemon.cell(session, "print(6 * 7)", context=context)
    assert done["stdout"] == "42\n" and done["meta"]["warm"] == "cold", done
    support.wait_until(lambda: not warm.read(f"/proc/{pid}/cmdline"), "it was ended")
    daemon.context_of(session, "zygote")
    daemon.end(session)


def test_it_listens_nowhere(daemon):
    """No socket of a zygote can be connected to, from the host or from a box."""
    pid = daemon.zygote()
    rows = [row.split() for row in pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
    for name in {row[7] for row in rows if len(row) > 7 and row[7].startswith("@")}:
        with socket.socket(socket.AF_UNIX) as client:
            assert client.connect_ex("\0" + name[1:]) != 0, name
