# sessions.py - what is measured of the daemon: calls in a live session, making boxes, a broker's
# restart, files of 1 GB, many idle sessions. Each function returns plain data for session_report.py.
import os
import shutil
import subprocess
import time

from harness import Failed, busy_share, high_water
from peers import CONTAINER, IMAGE, Docker, Serve
from suites import GIGABYTE, LOOK_AROUND_S

PACE_MS = 200
GOOD_LIFE_S = 10.2
MANY = 200
BLOCK = 1 << 20
# 1 GB has to fit into the box, and the 200 into the daemon; a limit costs nothing until it is used.
SETTINGS = {"SANDBOX_MAX_SESSIONS": "300", "SANDBOX_MEMORY_LIMIT": "3g",
            "SANDBOX_DISK_LIMIT": "1500m"}
TRUE = shutil.which("true") or "/bin/true"
EXIT_0 = '"exit_code":0'


class Calls:
    """Ways to call that were measured together: {pace: {name: [ns]}}, and of each request."""

    def __init__(self, title, ways):
        self.title = title
        self.ways = ways  # [(name, words for call_latency)]
        self.samples = {}
        self.steps = {}
        self.warm = {}   # (pace, name): what each reply said of it
        self.noise = {}


def spawn(*argv):
    return ["--spawn"], list(argv)


def piped(*argv):
    return ["--pipe"], list(argv)


def http(path, *requests):
    """requests: (method, target, body, text that the reply has to hold)"""
    return ["--http"], [path] + [word for request in requests for word in request]


def build_client(bench):
    program = os.path.join(bench.scratch, "call_latency")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "call_latency.c")
    compiler = os.environ.get("CC", "cc").split()
    built = subprocess.run(compiler + ["-std=gnu17", "-O2", "-o", program, source],
                           capture_output=True, text=True)
    if built.returncode != 0:
        raise Failed("compiling call_latency.c: " + built.stderr.strip())
    return program


def run_client(bench, calls, pace, rounds, pace_ms=PACE_MS):
    argv = [bench.client, str(rounds), str(pace_ms if pace == "paced" else 0)]
    for name, (kind, words) in calls.ways:
        argv += kind + [name] + words
    before = busy_share(LOOK_AROUND_S)
    ran = subprocess.run(argv, env=bench.env, capture_output=True, text=True)
    after = busy_share(LOOK_AROUND_S)
    if ran.returncode != 0:
        raise Failed("%s: %s" % (calls.title, ran.stderr.strip()))
    samples = {name: [] for name, _ in calls.ways}
    for line in ran.stdout.splitlines():
        words = line.split()
        if not words[-1].isdigit():
            calls.warm.setdefault((pace, calls.ways[int(words[0])][0]), []).append(words.pop())
        number, ns, *steps = (int(word) for word in words)
        name = calls.ways[number][0]
        samples[name].append(ns)
        calls.steps.setdefault((pace, name), []).append(steps)
    calls.samples[pace] = samples
    if before is not None and after is not None:
        calls.noise[pace] = (before + after) / 2


def measure_calls(bench, title, ways, hot_rounds, paced_rounds):
    calls = Calls(title, ways)
    for pace, rounds in (("back to back", hot_rounds), ("paced", paced_rounds)):
        if rounds:
            bench.tell("%s, %s: %d rounds" % (title, pace, rounds))
            run_client(bench, calls, pace, rounds)
    return calls


# ---- calls ----

BARE = "fork+exec of /bin/true"
HEALTH = "GET /healthz, an empty call"
TOOL = 'sandbox_exec ["true"]'
DOCKER_API = "docker exec, over its API"
DOCKER_COMMAND = "docker exec, the command"


def tool_way(serve):
    return TOOL, http(serve.socket, ("POST", "/v1/tools/sandbox_exec?session=live",
                                     '{"command":["true"]}', EXIT_0))


def live_calls(bench, serve):
    target = "/v1/sessions/live/exec"
    ways = [
        (BARE, spawn(TRUE)),
        (HEALTH, http(serve.socket, ("GET", "/healthz", "", "ok"))),
        tool_way(serve),
        ('exec ["true"], outputs not looked at',
         http(serve.socket, ("POST", target, '{"argv":["true"],"collect":false}', EXIT_0))),
        ('exec ["echo","x"], the same',
         http(serve.socket, ("POST", target, '{"argv":["echo","x"],"collect":false}', EXIT_0))),
    ]
    return measure_calls(bench, "A command in a live session", ways, bench.hot_rounds,
                         bench.paced_rounds)


def docker_calls(bench, serve, docker):
    """docker exec leaves the kernel much to clean up, so that those beside it are slower than
    alone: a table of its own."""
    api = http(docker.socket,
               ("POST", "/containers/%s/exec" % CONTAINER,
                '{"Cmd":["true"],"AttachStdout":true,"AttachStderr":true}', '"Id"'),
               ("POST", "/exec/{id}/start", '{"Detach":false,"Tty":false}', ""),
               ("GET", "/exec/{id}/json", "", '"ExitCode":0'))
    ways = [(BARE, spawn(TRUE)), tool_way(serve), (DOCKER_API, api),
            (DOCKER_COMMAND, spawn(*docker.command, "exec", CONTAINER, "true"))]
    return measure_calls(bench, "Beside docker exec", ways, bench.docker_rounds[0],
                         bench.docker_rounds[1])


SESSION = "a session over the socket: made, true, deleted"


def box_calls(bench, serve, docker):
    ways = [
        (BARE, spawn(TRUE)),
        ("bwrap /bin/true", spawn(*bench.bwrap, "/bin/true")),
        ("bailey exec -- /bin/true", spawn(bench.bailey, "exec", "--", "/bin/true")),
        (SESSION, http(serve.socket, ("POST", "/v1/sessions", "{}", '"id"'),
                       ("POST", "/v1/sessions/{id}/exec",
                        '{"argv":["/bin/true"],"collect":false}', EXIT_0),
                       ("DELETE", "/v1/sessions/{id}", "", "ended"))),
    ]
    if docker:
        ways.append(("docker run --rm", spawn(*docker.command, "run", "--rm", "--network", "none",
                                              IMAGE, "true")))
    rounds = bench.docker_rounds if docker else (bench.stage_rounds, bench.paced_rounds)
    return measure_calls(bench, "A new box", ways, rounds[0], rounds[1])


def file_making(serve):
    """Microseconds of making an empty file in the state folder, sorted: it differs a hundredfold
    between places of one ext4, and a command that writes something pays it once for a stream."""
    folder = os.path.join(serve.folder, "made")
    os.mkdir(folder)
    taken = []
    for i in range(200):
        begin = time.perf_counter_ns()
        fd = os.open(os.path.join(folder, str(i)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        taken.append((time.perf_counter_ns() - begin) / 1000)
        os.close(fd)
    shutil.rmtree(folder)
    return sorted(taken)


# ---- the broker's restart ----

def restarts(serve, rounds):
    """Nanoseconds from kill -9 of the broker to its successor's first answer. A broker that lived
    for less than 10 s is only started again after a pause, so each one may live that long."""
    taken = []
    for _ in range(rounds):
        time.sleep(GOOD_LIFE_S)
        pid = serve.info()["broker_pid"]
        begin = time.perf_counter_ns()
        os.kill(pid, 9)
        while True:
            try:
                with serve.connect() as connection:
                    if connection.ask("GET", "/v1/info")["broker_pid"] != pid:
                        break
            except (OSError, Failed):
                time.sleep(0.0002)
        taken.append(time.perf_counter_ns() - begin)
    return taken


# ---- 1 GB ----

def upload(serve):
    block = memoryview(bytes(range(256)) * (BLOCK // 256))
    with serve.connect() as connection:
        connection.send_head("PUT", "/v1/sessions/live/files?path=/workspace/big", GIGABYTE)
        for _ in range(GIGABYTE // BLOCK):
            connection.socket.sendall(block)
        status, length = connection.read_head()
        text = connection.file.read(length)
    if status >= 400:
        raise Failed("upload: %d %s" % (status, text.decode()[:300]))


def download(serve):
    room = memoryview(bytearray(BLOCK))
    with serve.connect() as connection:
        connection.send_head("GET", "/v1/sessions/live/files?path=/workspace/big", 0)
        status, length = connection.read_head()
        if status != 200 or length not in (0, GIGABYTE):
            raise Failed("download: status %d, %d bytes" % (status, length))
        left = GIGABYTE
        while left > 0:
            count = connection.file.readinto(room[:min(left, BLOCK)])
            if not count:
                raise Failed("download: %d bytes are missing" % left)
            left -= count


def forget_upload(serve):
    """Each one is a new file: a write replaces the old one only at its end, and two do not fit."""
    try:
        with serve.connect() as connection:
            connection.ask("DELETE", "/v1/sessions/live/files?path=/workspace/big")
    except Failed:
        pass  # there is none yet


def running_ns(pid):
    with open("/proc/%d/schedstat" % pid) as file:
        return int(file.read().split()[0])


def forget_peak(pid):
    try:
        with open("/proc/%d/clear_refs" % pid, "w") as file:
            file.write("5")
    except OSError:
        pass  # then it is the peak since the start


def shell(line):
    subprocess.run(["/bin/sh", "-c", line], check=True, stdout=subprocess.DEVNULL)


class Transfer:
    def __init__(self, name, run):
        self.name = name
        self.run = run
        self.ns = []
        self.broker = self.warden = 0  # peak bytes
        self.cpu_ns = []               # of both together


def transfers(bench, serve, docker):
    """([Transfer], {"broker": bytes at rest, "warden": ...})"""
    if available() < 6 * GIGABYTE:
        raise Failed("1 GB in three places needs 6 GB of free memory")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else bench.scratch
    file = os.path.join(memory, "bailey-bench-%d" % os.getpid())
    size = "%d" % GIGABYTE
    ways = [Transfer("in: head, a pipe, cat > tmpfs",
                     lambda: shell("head -c %s /dev/zero | cat > %s" % (size, file))),
            Transfer("in: PUT .../files", lambda: upload(serve)),
            Transfer("out: cat, a pipe, cat > /dev/null",
                     lambda: shell("cat %s | cat > /dev/null" % file)),
            Transfer("out: GET .../files", lambda: download(serve))]
    if docker:
        ways.insert(2, Transfer("in: docker cp, to its disk",
                                lambda: docker.run("cp", file, CONTAINER + ":/tmp/big")))
        ways.append(Transfer("out: docker cp, from its disk",
                             lambda: docker.run("cp", CONTAINER + ":/tmp/big", file + ".back")))
    pids = {"broker": serve.info()["broker_pid"], "warden": wardens(serve)[0]}
    rest = {who: resident(pid) for who, pid in pids.items()}
    bench.tell("1 GB in and out: %d rounds" % bench.output_rounds)
    try:
        for _ in range(bench.output_rounds):
            forget_upload(serve)
            for way in ways:
                for pid in pids.values():
                    forget_peak(pid)
                cpu_ns = sum(map(running_ns, pids.values()))
                begin = time.perf_counter_ns()
                way.run()
                way.ns.append(time.perf_counter_ns() - begin)
                way.cpu_ns.append(sum(map(running_ns, pids.values())) - cpu_ns)
                way.broker = max(way.broker, high_water(pids["broker"]))
                way.warden = max(way.warden, high_water(pids["warden"]))
    finally:
        for name in (file, file + ".back"):
            if os.path.exists(name):
                os.unlink(name)
    forget_upload(serve)
    return ways, rest


# ---- many sessions ----

def rollup(pid):
    """Bytes by name, of /proc/PID/smaps_rollup."""
    found = {}
    with open("/proc/%d/smaps_rollup" % pid) as file:
        for line in file:
            words = line.split()
            if words[-1] == "kB":
                found[words[0].rstrip(":")] = int(words[1]) * 1024
    return found


def resident(pid):
    return rollup(pid).get("Rss", 0)


def count_fds(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def wardens(serve):
    info = serve.info()
    launcher = info["launcher_pid"]
    with open("/proc/%d/task/%d/children" % (launcher, launcher)) as file:
        return [int(word) for word in file.read().split() if int(word) != info["broker_pid"]]


def available():
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def charged(pid):
    """Bytes that the kernel charges to the memory control group of this process; None: no group."""
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    with open("/proc/%d/cgroup" % pid) as file:
        groups = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, path in groups:
        for words in mounts:
            kind, _, options = words[words.index("-") + 1:][:3]
            is_v1 = kind == "cgroup" and "memory" in controllers.split(",") \
                and "memory" in options.split(",")
            name = "memory.usage_in_bytes" if is_v1 else "memory.current"
            if not is_v1 and not (kind == "cgroup2" and controllers == ""):
                continue
            try:
                with open(os.path.join(words[4] + path, name)) as file:
                    return int(file.read())
            except OSError:
                continue
    return None


def look(serve):
    """Memory and descriptors of everything that is ours, now."""
    info = serve.info()
    found = {"sessions": info["sessions"]}
    sums = [charged(pid) for pid in wardens(serve)]
    found["charged"] = None if None in sums else sum(sums)
    for who, pids in (("broker", [info["broker_pid"]]), ("launcher", [info["launcher_pid"]]),
                      ("warden", wardens(serve))):
        rolls = [rollup(pid) for pid in pids]
        found[who] = {
            "rss": sum(roll.get("Rss", 0) for roll in rolls),
            "pss": sum(roll.get("Pss", 0) for roll in rolls),
            "private": sum(roll.get("Private_Dirty", 0) + roll.get("Private_Clean", 0)
                           for roll in rolls),
            "fds": sum(count_fds(pid) for pid in pids),
        }
    return found


def scale_calls(bench, serve, title):
    ways = [
        (BARE, spawn(TRUE)),
        (HEALTH, http(serve.socket, ("GET", "/healthz", "", "ok"))),
        tool_way(serve),
        ("GET /v1/sessions", http(serve.socket, ("GET", "/v1/sessions", "", '"live"'))),
        ("GET .../processes, of one command",
         http(serve.socket, ("GET", "/v1/sessions/idle1/processes", "", "execution_id"))),
        ("GET .../processes, of 1000",
         http(serve.socket, ("GET", "/v1/sessions/busy/processes", "", "execution_id"))),
    ]
    return measure_calls(bench, title, ways, bench.stage_rounds, 0)


def many_sessions(bench, serve):
    """{"looks": [look at each step], "calls": {sessions: Calls}, "restarts": {sessions: [ns]}}"""
    found = {"looks": [], "calls": {}, "restarts": {}}
    with serve.connect() as connection:
        serve.session(connection, "busy")
        for _ in range(1000):
            connection.ask("POST", "/v1/sessions/busy/exec", {"argv": ["true"], "collect": False})
        made = 1
        serve.session(connection, "idle1")
        for count in (1, MANY // 4, MANY):
            while made < count:
                made += 1
                serve.session(connection, "idle%d" % made)
            time.sleep(0.5)
            found["looks"].append((count, look(serve)))
            found["calls"][count] = scale_calls(bench, serve, "%d idle sessions" % count)
    for count in (MANY, 1):
        if count == 1:
            with serve.connect() as connection:
                for number in range(2, MANY + 1):
                    connection.ask("DELETE", "/v1/sessions/idle%d" % number)
        bench.tell("restart of the broker with %d idle sessions" % count)
        found["restarts"][count] = restarts(serve, bench.restart_rounds)
    return found


def measure(bench, found, attempt):
    """Everything of the daemon into `found`, each part by itself."""
    bench.client = build_client(bench)
    docker = None
    try:
        docker = Docker(bench)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        found["no_docker"] = str(error)
    try:
        with Serve(bench, SETTINGS) as serve:
            with serve.connect() as connection:
                serve.session(connection, "live")
            found["file_us"] = file_making(serve)
            attempt(bench, found, "live", live_calls, serve)
            if docker:
                attempt(bench, found, "beside_docker", docker_calls, serve, docker)
            attempt(bench, found, "box", box_calls, serve, docker)
            attempt(bench, found, "transfers", transfers, serve, docker)
            attempt(bench, found, "many", many_sessions, serve)
    finally:
        if docker:
            docker.close()
