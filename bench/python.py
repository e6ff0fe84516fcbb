# python.py - what is measured of warm Python: fresh boxes and cells over HTTP, beside bubblewrap, docker
# and a Jupyter kernel; boxes a second; memory; what 10,000 boxes leave. Plain data for
# python_report.py.
import json
import os
import re
import subprocess
import sys
import time

import furniture
import suites
from harness import Failed, busy_share, median
from peers import Docker, Serve
from sessions import (BARE, EXIT_0, HEALTH, TRUE, build_client, http, measure_calls, piped, rollup,
                      spawn)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fault"))
import remains  # noqa: E402

# What chooses the warm interpreter is the code's own import lines.
TIERS = {
    "base": "print('Hello')",
    "core": "import numpy, polars\nimport matplotlib.pyplot\nprint('Hello')",
    "data": "import numpy, polars\nimport matplotlib.pyplot\nimport seaborn, sklearn.cluster\n"
            "print('Hello')",
}
CONTAINER = "python"
WARM_WITHIN_S = 180
CELL = "1+1"

POOL = "POST /v1/run, pool"
NO_POOL = "POST /v1/run, no pool"
COLD = "POST /v1/run, no zygotes"
BWRAP = "bwrap python -c"
DOCKER = "docker exec python -c"
PYTHON_CELL = "a cell, python"
FAST_CELL = "a cell, python, outputs not looked at"
CLIENT_CELL = "a cell, python, from a client in Python"
JAVASCRIPT_CELL = "a cell, javascript"
BASH_CELL = "a cell, bash"
JUPYTER = "a cell, Jupyter kernel"


class World:
    """The daemons and peers that run beside each other, so that all is measured in one go."""

    def __init__(self, bench, found, python):
        self.bench = bench
        self.opened = []
        self.layer = self.docker = self.jupyter = state = None
        try:
            state = furniture.data_state(bench)
            self.layer = furniture.Layer(bench, state, python)
        except (Failed, OSError, subprocess.SubprocessError) as error:
            found["no_data"] = str(error)
        self.tiers = list(TIERS) if state else ["base"]
        try:
            self.jupyter = furniture.jupyter_python(bench, python)
        except (Failed, OSError, subprocess.SubprocessError) as error:
            found["no_jupyter"] = str(error)
        if self.layer:
            try:
                self.docker = self.open(Docker(bench))
                self.docker.start_container(CONTAINER, *self.layer.docker_options())
            except (Failed, OSError, subprocess.SubprocessError) as error:
                found["no_docker"] = str(error)
                self.docker = None
        self.state = state
        self.pooled = self.open(self.serve_too(SANDBOX_POOL_SIZE="8"))
        self.unpooled = self.open(self.serve_too(SANDBOX_POOL_SIZE="0"))
        self.second = self.open(self.serve_too(SANDBOX_POOL_SIZE="0"))
        self.cold = self.open(self.serve_too(SANDBOX_WARM="false", SANDBOX_POOL_SIZE="0"))

    def serve_too(self, **settings):
        if self.state:
            settings["SANDBOX_TEMPLATE"] = "data"
        return Serve(self.bench, settings, self.state)

    def open(self, server):
        self.opened.append(server)
        return server

    def close(self):
        while self.opened:
            self.opened.pop().close()


def run_body(code):
    return json.dumps({"code": code})


def run_way(serve, tier):
    return http(serve.socket, ("POST", "/v1/run", run_body(TIERS[tier]), '"stdout":"Hello\\n"'))


def warm_up(serve, tier):
    """Until a run of this tier is not cold any more: its zygote has imported everything."""
    deadline = time.monotonic() + WARM_WITHIN_S
    with serve.connect() as connection:
        while time.monotonic() < deadline:
            done = connection.ask("POST", "/v1/run", {"code": TIERS[tier]})
            if done["meta"]["warm"] != "cold":
                return
            time.sleep(0.1)
    raise Failed("no warm interpreter (%s) within %d s" % (tier, WARM_WITHIN_S))


# ---- fresh boxes ----

def fresh(bench, world, tier):
    """Ours only, many rounds."""
    ways = [(BARE, spawn(TRUE)),
            (HEALTH, http(world.pooled.socket, ("GET", "/healthz", "", "ok"))),
            (POOL, run_way(world.pooled, tier)), (NO_POOL, run_way(world.unpooled, tier))]
    return measure_calls(bench, "print('Hello') in a fresh box: %s" % tier, ways, bench.warm_rounds[0],
                         bench.warm_rounds[1])


def beside(bench, world, tier):
    """With the slow ones, few rounds."""
    ways = [(POOL, run_way(world.pooled, tier)), (NO_POOL, run_way(world.unpooled, tier)),
            (COLD, run_way(world.cold, tier))]
    if world.layer:
        ways.append((BWRAP, spawn(*world.layer.bwrap(bench, TIERS[tier]))))
    if world.docker:
        ways.append((DOCKER, spawn(*world.docker.command, "exec", CONTAINER, world.layer.python,
                                   "-c", TIERS[tier])))
    return measure_calls(bench, "The same beside others: %s" % tier, ways, bench.slow_rounds[0],
                         bench.slow_rounds[1])


# ---- cells ----

def cell_request(language, **more):
    body = json.dumps(dict({"code": CELL if language != "bash" else ":", "language": language},
                           **more))
    return "POST", "/v1/sessions/cells/code", body, EXIT_0


def cells(bench, world):
    serve = world.pooled
    with serve.connect() as connection:
        connection.ask("POST", "/v1/sessions", {"name": "cells"})
    client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cell_client.py")
    asked = cell_request("python")
    ways = [(HEALTH, http(serve.socket, ("GET", "/healthz", "", "ok"))),
            (PYTHON_CELL, http(serve.socket, asked)),
            (FAST_CELL, http(serve.socket, cell_request("python", collect=False))),
            (JAVASCRIPT_CELL, http(serve.socket, cell_request("javascript"))),
            (BASH_CELL, http(serve.socket, cell_request("bash"))),
            (CLIENT_CELL, piped(suites.SYSTEM_PYTHON, client, "http", serve.socket, *asked[1:]))]
    if world.jupyter:
        ways.append((JUPYTER, piped(world.jupyter, client, "jupyter", CELL)))
    found = [measure_calls(bench, "A cell in a live session", ways, bench.warm_rounds[0],
                           bench.warm_rounds[1])]
    if world.docker:
        run = spawn(*world.docker.command, "exec", CONTAINER, world.layer.python, "-c", CELL)
        ways = [way for way in ways if way[0] in (PYTHON_CELL, JUPYTER)] + [(DOCKER, run)]
        found.append(measure_calls(bench, "A cell beside docker exec", ways,
                                   bench.docker_rounds[0], bench.docker_rounds[1]))
    with serve.connect() as connection:
        connection.ask("DELETE", "/v1/sessions/cells")
    return found


# ---- many at once ----

def rate(bench, serves, tier, clients):
    """Boxes a second of so many clients, spread over the daemons, each its own process."""
    kind, words = zip(*[run_way(serve, tier) for serve in serves])
    rounds = max(4, bench.rate_boxes // clients)
    argvs = [[bench.client, str(rounds), "0"] + kind[i % len(serves)] + [POOL]
             + words[i % len(serves)] for i in range(clients)]
    begin = time.monotonic()
    running = [subprocess.Popen(argv, env=bench.env, stdout=subprocess.PIPE, text=True)
               for argv in argvs]
    lines = [line for process in running for line in process.communicate()[0].splitlines()]
    seconds = time.monotonic() - begin
    if any(process.returncode for process in running):
        raise Failed("%d clients, %s: one failed" % (clients, tier))
    # The rounds that only warm are boxes too.
    made = clients * (rounds + 3)
    pooled = sum(line.endswith(" pool") for line in lines)
    return made / seconds, pooled / len(lines)


def rates(bench, world):
    """({(tier, way, clients): (boxes a second, share from the pool)}, share of busy cores before)"""
    ways = (("pool", [world.pooled]), ("no pool", [world.unpooled]),
            ("no pool, two engines", [world.unpooled, world.second]))
    found = {}
    noise = busy_share(suites.LOOK_AROUND_S)
    for tier in world.tiers:
        warm_up(world.second, tier)
        bench.tell("boxes a second: %s" % tier)
        for clients in bench.rate_clients:
            for name, serves in ways:
                if clients >= len(serves):
                    found[(tier, name, clients)] = rate(bench, serves, tier, clients)
    return found, noise


# ---- where the time goes ----

MOMENTS = re.compile(r"debug: box \d+ tier (\d+) from zygote:(.*) of which:(.*)")
STEP = re.compile(r" ([^;]+?) (\d+);")
CELL_TIME = "the program, by its warden (part of the run)"
WALL = "wall clock of the call"
SHOWN_STEPS_MS = 0.02  # shorter steps of making a box are left out


def take_apart(log, walls, durations):
    """{name: median ms} of the boxes that this part of the log tells about."""
    moments, steps = {}, {}
    for line in log.splitlines():
        found = MOMENTS.search(line)
        if not found:
            continue
        for into, text in ((moments, found.group(2)), (steps, found.group(3))):
            for name, us in STEP.findall(text):
                into.setdefault(name, []).append(int(us) / 1000)
    parts = {name: median(values) for name, values in moments.items()}
    parts["in all"] = sum(parts.values())
    parts[WALL] = median(walls)
    parts[CELL_TIME] = median(durations)
    for name, values in steps.items():
        if median(values) >= SHOWN_STEPS_MS:
            parts["of making it: " + name] = median(values)
    return parts


def stages(bench, world):
    """{tier: {name: median ms}} of runs without pool, by the launcher's own clock."""
    found = {}
    with world.serve_too(BAILEY_LOG="debug", SANDBOX_POOL_SIZE="0") as serve:
        log = os.path.join(serve.folder, "log")
        for tier in world.tiers:
            warm_up(serve, tier)
            bench.tell("where the time goes: %s" % tier)
            walls, durations = [], []
            with serve.connect() as connection:
                offset = os.path.getsize(log)
                for _ in range(bench.stage_rounds):
                    begin = time.perf_counter_ns()
                    done = connection.ask("POST", "/v1/run", {"code": TIERS[tier]})
                    walls.append((time.perf_counter_ns() - begin) / 1e6)
                    durations.append(done["duration"] * 1000)
            with open(log) as file:
                file.seek(offset)
                found[tier] = take_apart(file.read(), walls, durations)
    return found


# ---- memory ----

COLLECTED = "import gc\ngc.collect()\n"


def private(pids):
    """(private bytes, PSS) of these together."""
    rolls = [rollup(pid) for pid in pids]
    return (sum(roll["Private_Dirty"] + roll["Private_Clean"] for roll in rolls),
            sum(roll["Pss"] for roll in rolls))


class Held:
    """What one box of a tier has: private bytes and PSS, of kernel and warden, unused and then."""

    def __init__(self, kernel, warden):
        self.unused = private([kernel]), private([warden])
        self.collected = None


def zygotes_of(serve, tier):
    """The zygotes of a tier: one for each template."""
    zygotes = remains.zygotes(serve.info()["launcher_pid"])
    found = [pid for pid, number in zygotes.items() if number == list(TIERS).index(tier)]
    if not found:
        raise Failed("there is no zygote of %s" % tier)
    return found


def kernels_of(serve, tier):
    return [kernel for pid in zygotes_of(serve, tier) for kernel in remains.children(pid)]


def warden_of(serve, kernel):
    """Whoever is PID 1 where this one lives."""
    space = os.readlink("/proc/%d/ns/pid" % kernel)
    for pid in remains.children(serve.info()["launcher_pid"]):
        try:
            if os.readlink("/proc/%d/ns/pid" % pid) == space:
                return pid
        except OSError:
            continue
    raise Failed("a kernel without a warden")


def session_memory(serve, tier, template):
    """A session's kernel that nobody used, then after a cell that collects."""
    with serve.connect() as connection:
        before = kernels_of(serve, tier)
        connection.ask("POST", "/v1/sessions", {"name": "memory", "template": template})
        connection.ask("POST", "/v1/sessions/memory/exec", {"argv": ["true"]})
        time.sleep(0.5)
        new = set(kernels_of(serve, tier)) - set(before)
        if len(new) != 1:
            raise Failed("a session of %s has %d kernels" % (template, len(new)))
        kernel = new.pop()
        warden = warden_of(serve, kernel)
        held = Held(kernel, warden)
        connection.ask("POST", "/v1/sessions/memory/code", {"code": COLLECTED})
        held.collected = private([kernel]), private([warden])
        connection.ask("DELETE", "/v1/sessions/memory")
    return held


def pool_memory(world):
    """{tier: [(kernel, warden)]} of the boxes that wait in the pool, in bytes."""
    found = {}
    for tier in world.tiers:
        for kernel in kernels_of(world.pooled, tier):
            try:
                warden = warden_of(world.pooled, kernel)
                found.setdefault(tier, []).append((private([kernel]), private([warden])))
            except (OSError, Failed):
                continue  # it went in this moment
    return found


def memory(bench, world):
    found = {"sessions": {}, "zygotes": {}, "pool": pool_memory(world)}
    bench.tell("memory")
    for tier in world.tiers:
        warm_up(world.unpooled, tier)
        zygote = zygotes_of(world.unpooled, tier)[0]
        found["zygotes"][tier] = private([zygote]) + (rollup(zygote)["Rss"],)
    # A session has its template's last tier.
    last = world.tiers[-1]
    found["sessions"][last] = session_memory(world.unpooled, last, "data" if world.layer else "python")
    if last != "base":
        warm_plain(world.unpooled)
        found["sessions"]["base"] = session_memory(world.unpooled, "base", "python")
    return found


def warm_plain(serve):
    deadline = time.monotonic() + WARM_WITHIN_S
    with serve.connect() as connection:
        while time.monotonic() < deadline:
            done = connection.ask("POST", "/v1/run", {"code": "1", "template": "python"})
            if done["meta"]["warm"] != "cold":
                return
            time.sleep(0.1)


# ---- what is left ----

def left(bench, world):
    """remains.Soak of as many runs as the bench has time for; `make soak` has 10,000."""
    bench.tell("%d boxes from the pool, and what they leave" % bench.left_runs)
    return remains.soak(world.pooled, [TIERS[tier] for tier in world.tiers], bench.left_runs)


def measure(bench, found, attempt, python):
    """Everything of warm Python into `found`, each part by itself."""
    bench.client = build_client(bench)
    world = World(bench, found, python)
    try:
        if "cgroup" not in found:
            attempt(bench, found, "cgroup", suites.cgroup_entry)
        found["fresh"], found["beside"] = {}, {}
        for tier in world.tiers:
            for serve in (world.pooled, world.unpooled):
                warm_up(serve, tier)
            attempt(bench, found["fresh"], tier, fresh, world, tier)
            attempt(bench, found["beside"], tier, beside, world, tier)
        attempt(bench, found, "cells", cells, world)
        attempt(bench, found, "rates", rates, world)
        attempt(bench, found, "warm_stages", stages, world)
        attempt(bench, found, "memory", memory, world)
        attempt(bench, found, "left", left, world)
    finally:
        world.close()
