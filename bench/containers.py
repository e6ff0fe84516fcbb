# containers.py - what is measured of the Docker runtime: fresh containers, calls in a live session, what
# many runs leave; beside docker's command line and the package llm-sandbox. Plain data for
# containers_report.py.
import os
import subprocess
import sys
import time

import furniture
import suites
from harness import Failed, busy_share
from peers import CONTAINER, Docker, Serve
from sessions import (EXIT_0, HEALTH, build_client, count_fds, http, measure_calls, piped, resident,
                      spawn)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fault"))
import remains  # noqa: E402

CODE = "print('Hello')"
HELLO = '"stdout":"Hello\\n"'
WARM_WITHIN_S = 60
SETTLED_WITHIN_S = 60
PACE_S = 1.0        # of runs alone: the pool is filled again meanwhile
PACKAGE = "llm-sandbox[docker]"
ENV = "/usr/bin/env"
OURS = b"bailey-engine"

POOL = "POST /v1/run, pool of 2"
NO_POOL = "POST /v1/run, no pool"
COMMAND = "bailey run, no daemon"
DOCKER_RUN = "docker run --rm, python3 -c"
LLM_FRESH = "llm-sandbox: opened, run, closed"
LLM_POOL = "llm-sandbox, its pool (used again)"
EXEC = 'exec ["true"]'
CELL = "a cell: " + CODE
DOCKER_TRUE = "docker exec, true"
DOCKER_API = "docker exec, true, over its API"
DOCKER_PYTHON = "docker exec, python3 -c"
LLM_LIVE = "llm-sandbox: run in an open session"


class BaileyInDocker(Docker):
    """A dockerd whose image is what `bailey image build` makes."""

    image = "bailey-sandbox:latest"

    def __init__(self, bench):
        self.bailey = bench.bailey
        super().__init__(bench)

    def settings(self, **more):
        return {"SANDBOX_TYPE": "docker", "DOCKER_HOST": self.host, **more}

    def make_image(self, busybox):
        env = dict(self.env, BAILEY_STATE_DIR=os.path.join(self.folder, "state"), **self.settings())
        built = subprocess.run([self.bailey, "image", "build"], env=env, capture_output=True, text=True)
        if built.returncode != 0:
            raise Failed("bailey image build: " + built.stderr.strip()[-300:])


class World:
    """The daemons and peers that run beside each other, so that all is measured in one go."""

    def __init__(self, bench, found):
        self.bench = bench
        self.opened = []
        self.package = None
        try:
            self.package = furniture.venv_python(bench, suites.SYSTEM_PYTHON, "llm-sandbox", [PACKAGE])
            found["llm_sandbox_version"] = subprocess.run(
                [self.package, "-c", "from importlib.metadata import version as of; "
                 "print(of('llm-sandbox'))"], capture_output=True, text=True).stdout.strip()
        except (Failed, OSError) as error:
            found["no_llm_sandbox"] = str(error)
        bench.tell("dockerd, and its image")
        try:
            self.docker = self.open(BaileyInDocker(bench))
            self.pooled = self.open(Serve(bench, self.docker.settings()))
            self.unpooled = self.open(Serve(bench, self.docker.settings(DOCKER_POOL_SIZE="0")))
        except BaseException:
            self.close()
            raise

    def open(self, server):
        self.opened.append(server)
        return server

    def close(self):
        while self.opened:
            self.opened.pop().close()

    def command(self):
        """bailey run, where no daemon is found that could help."""
        state = os.path.join(self.docker.folder, "alone")
        words = ["%s=%s" % pair for pair in self.docker.settings(BAILEY_STATE_DIR=state).items()]
        return spawn(ENV, "-u", "XDG_RUNTIME_DIR", *words, self.bench.bailey, "run", "-c", CODE)

    def llm_sandbox(self, name, how):
        """[] or a way; it is a program that stays."""
        if not self.package:
            return []
        client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cell_client.py")
        return [(name, piped(self.package, client, "llm-sandbox", how, self.docker.host,
                             self.docker.image, CODE, "Hello\n"))]


def run_way(serve):
    return http(serve.socket, ("POST", "/v1/run", '{"code":"%s"}' % CODE, HELLO))


def warm_up(serve):
    """Until a run comes from the pool."""
    deadline = time.monotonic() + WARM_WITHIN_S
    with serve.connect() as connection:
        while time.monotonic() < deadline:
            if connection.ask("POST", "/v1/run", {"code": CODE})["meta"]["warm"] == "pool":
                return
            time.sleep(0.5)
    raise Failed("no container from the pool within %d s" % WARM_WITHIN_S)


# ---- runs alone ----

class Runs:
    """Of one way and pace, in milliseconds: the call, and what of it was not the program."""

    def __init__(self, name, pace):
        self.name, self.pace = name, pace
        self.walls, self.overs, self.warm = [], [], []
        self.busy = None


def take_runs(serve, name, pace, rounds):
    runs = Runs(name, pace)
    runs.busy = busy_share(suites.LOOK_AROUND_S)
    with serve.connect() as connection:
        for _ in range(rounds):
            if pace == "paced":
                time.sleep(PACE_S)
            begin = time.perf_counter()
            done = connection.ask("POST", "/v1/run", {"code": CODE})
            wall = time.perf_counter() - begin
            if done["stdout"] != "Hello\n":
                raise Failed("%s: %r" % (name, done))
            runs.walls.append(1e3 * wall)
            runs.overs.append(1e3 * (wall - done["duration"]))
            runs.warm.append(done["meta"]["warm"])
    return runs


def alone(bench, world):
    """[Runs], ours only: nobody else's containers in between."""
    found = []
    for name, serve, factor in ((POOL, world.pooled, 2), (NO_POOL, world.unpooled, 1)):
        for pace, rounds in zip(("back to back", "paced"), bench.container_rounds):
            bench.tell("%s, alone, %s: %d rounds" % (name, pace, factor * rounds))
            if serve is world.pooled:
                warm_up(serve)
                time.sleep(PACE_S)
            found.append(take_runs(serve, name, pace, factor * rounds))
    return found


# ---- beside others ----

def fresh(bench, world):
    ways = [(POOL, run_way(world.pooled)), (NO_POOL, run_way(world.unpooled)),
            (COMMAND, world.command()),
            (DOCKER_RUN, spawn(*world.docker.command, "run", "--rm", "--network", "none",
                               world.docker.image, "python3", "-c", CODE))]
    ways += world.llm_sandbox(LLM_FRESH, "fresh") + world.llm_sandbox(LLM_POOL, "pool")
    return measure_calls(bench, "Docker: print('Hello') in a fresh container", ways,
                         *bench.container_rounds)


def session_ways(serve):
    session = "/v1/sessions/live"
    return [(HEALTH, http(serve.socket, ("GET", "/healthz", "", "ok"))),
            (EXEC, http(serve.socket, ("POST", session + "/exec", '{"argv":["true"],"collect":false}',
                                       EXIT_0))),
            (CELL, http(serve.socket, ("POST", session + "/code",
                                       '{"code":"%s","collect":false}' % CODE, HELLO)))]


def live(bench, world):
    """[Calls]: ours alone, and beside the others, which leave the kernel much to clean up."""
    with world.unpooled.connect() as connection:
        world.unpooled.session(connection, "live")
    ours = session_ways(world.unpooled)
    found = [measure_calls(bench, "Docker: calls in a live session", ours, bench.hot_rounds,
                           bench.paced_rounds)]
    docker = world.docker
    api = http(docker.socket,
               ("POST", "/containers/%s/exec" % CONTAINER,
                '{"Cmd":["true"],"AttachStdout":true,"AttachStderr":true}', '"Id"'),
               ("POST", "/exec/{id}/start", '{"Detach":false,"Tty":false}', ""),
               ("GET", "/exec/{id}/json", "", '"ExitCode":0'))
    ways = ours[1:] + [
        (DOCKER_API, api), (DOCKER_TRUE, spawn(*docker.command, "exec", CONTAINER, "true")),
        (DOCKER_PYTHON, spawn(*docker.command, "exec", CONTAINER, "python3", "-c", CODE))]
    ways += world.llm_sandbox(LLM_LIVE, "live")
    found.append(measure_calls(bench, "Docker: the same beside others", ways, *bench.docker_rounds))
    with world.unpooled.connect() as connection:
        connection.ask("DELETE", "/v1/sessions/live")
    return found


# ---- what is left ----

def descendants(pid):
    found = []
    for child in remains.children(pid):
        found += [child] + descendants(child)
    return found


def wall_of(serve):
    """The process that speaks to Docker."""
    for pid in descendants(serve.process.pid):
        if remains.words_of(pid)[:2] == [OURS, b"docker"]:
            return pid
    raise Failed("no process of the daemon speaks to Docker")


def shims(docker):
    """Processes that hold a container of this dockerd; they are nobody's children."""
    folder = docker.folder.encode()
    return sum(b"containerd-shim" in words[0] and any(folder in word for word in words)
               for words in (remains.words_of(int(name)) for name in os.listdir("/proc")
                             if name.isdigit()) if words)


def groups(docker):
    """Control groups below dockerd's own, of one hierarchy."""
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    counts = [sum(1 for _ in os.walk(words[4] + docker.group)) for words in mounts
              if words[words.index("-") + 1] in ("cgroup", "cgroup2")]
    return max(counts, default=0)


def count_lines(text):
    return len(text.splitlines())


class Look:
    """What Docker has of anybody, and what our processes have."""

    def __init__(self, docker, serve=None):
        driver = docker.run("info", "--format", "{{.Driver}}").strip()
        volumes = docker.run("volume", "ls", "-q").split()
        self.counts = {
            "containers": count_lines(docker.run("ps", "-aq")),
            "volumes": len(volumes),
            "of them the warden's": sum(name.startswith("bailey-warden-") for name in volumes),
            "networks": count_lines(docker.run("network", "ls", "-q")),
            "images, with those without a name": count_lines(docker.run("images", "-aq")),
            "layers on disk": len(os.listdir(os.path.join(docker.folder, "data", driver))),
            "containers' shims": shims(docker),
            "control groups": groups(docker),
            "mounts": remains.mounts("self"),
        }
        self.memory = {}
        if serve:
            pids = {"wall": wall_of(serve), "broker": serve.info()["broker_pid"]}
            self.counts["processes of the daemon"] = len(descendants(serve.process.pid))
            for who, pid in pids.items():
                self.counts["descriptors, " + who] = count_fds(pid)
                self.memory[who] = resident(pid)


# Two connections that a client has just left, or that are kept for the next call, are nothing.
ALLOWED = {"descriptors, broker": 2, "descriptors, wall": 2}


class Left:
    def __init__(self):
        self.soak = remains.Soak()
        self.first = self.before = self.after = self.gone = None
        self.what = []


def compare(before, now):
    return ["%s: %d before, %d after" % (name, before.counts[name], count)
            for name, count in now.counts.items()
            if count > before.counts[name] + ALLOWED.get(name, 0)]


def settle(docker, serve=None, before=None):
    """(Look, what is left) once nothing moves any more."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    last = None
    while True:
        now = Look(docker, serve)
        left = compare(before, now) if before else []
        is_quiet = last is not None and now.counts == last.counts
        if (is_quiet and not left) or time.monotonic() > deadline:
            return now, left
        last = now
        time.sleep(remains.QUIET_S)


def left(bench, world):
    """A daemon of its own, so that what it leaves when it has gone can be seen too."""
    found = Left()
    docker = world.docker
    found.first, _ = settle(docker)
    with Serve(bench, docker.settings()) as serve:
        warm_up(serve)
        remains.run_many(serve, [CODE], max(8, bench.container_runs // 10), remains.Soak())
        time.sleep(PACE_S)
        found.before, _ = settle(docker, serve)
        bench.tell("%d runs by %d clients, and what they leave" % (bench.container_runs,
                                                                   remains.CLIENTS))
        begin = time.monotonic()
        remains.run_many(serve, [CODE], bench.container_runs, found.soak)
        found.soak.seconds = time.monotonic() - begin
        time.sleep(PACE_S)
        found.after, found.what = settle(docker, serve, found.before)
    found.gone, after_it = settle(docker, None, found.first)
    found.what += ["after the daemon: " + text for text in after_it]
    return found


def measure(bench, found, attempt):
    """Everything of the Docker runtime into `found`, each part by itself."""
    bench.client = build_client(bench)
    try:
        world = World(bench, found)
    except Failed as error:
        found["no_containers"] = str(error)
        return
    try:
        warm_up(world.pooled)
        attempt(bench, found, "container_runs", alone, world)
        attempt(bench, found, "container_fresh", fresh, world)
        attempt(bench, found, "container_live", live, world)
        # Their pools come and go by themselves.
        for serve in (world.pooled, world.unpooled):
            world.opened.remove(serve)
            serve.close()
        attempt(bench, found, "container_left", left, world)
    finally:
        world.close()
