"""load.py - 1,000 clients and 500 open streams at once against one server: for `make load`.

Starts `bailey serve` on loopback with four tenants and quotas, and keeps it busy for LOAD_SECONDS
(600) with at least 10,000 requests of all kinds (callers.py) and with streams that disconnect and resume
(streams.py). Fails when a reply was wrong or an error was not a quota's, when something is left (processes,
control groups, mounts, descriptors, folders), when the memory of broker or launcher grew
(watch.py), or when the broker was not the same all the time.

    LOAD_SECONDS   how long; 30 shows that everything works; memory is then only reported
    LOAD_CLIENTS   1000
    LOAD_STREAMS   500
    LOAD_REQUESTS  10000: at least
"""
import asyncio
import collections
import os
import random
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "fault"), str(ROOT / "bench")]
import callers  # noqa: E402  (the path has to be there first)
import client  # noqa: E402
import harness  # noqa: E402
import own  # noqa: E402
import remains  # noqa: E402
import soak  # noqa: E402
import streams  # noqa: E402
import support  # noqa: E402
import tenants  # noqa: E402
import watch  # noqa: E402

TENANTS, SESSIONS_EACH, GREEDY = 4, 5, 10
REMEMBERED = 1000  # LIMIT_EXECUTIONS of each session, LIMIT_ENDED_SESSIONS
SHOWN = 20
TOLD_EACH_S = 30
JUDGED_S = 300  # in less than this not every connection has been used often enough to be full-grown
GAP_S = 15.0  # between two requests of a client, at the mean: a connection is kept for 75
SETTINGS = {
    "SANDBOX_MAX_SESSIONS": "400", "SANDBOX_MEMORY_LIMIT": "256m", "SANDBOX_DISK_LIMIT": "64m",
    "SANDBOX_SESSION_IDLE": "2h", "SANDBOX_QUOTA_RUNS": "80", "SANDBOX_QUOTA_REQUESTS": "200",
    "SANDBOX_QUOTA_SESSIONS": "60", "SANDBOX_MAX_CONCURRENT": "16", "SANDBOX_POOL_SIZE": "4",
    "SANDBOX_STORE_CODE": "never",
}


def setting(name, default):
    return int(os.environ.get(name) or default)


class Tenant:
    def __init__(self, caller):
        self.key, self.caller = caller.text, caller
        self.sessions, self.tickers = [], {}

    def furnish(self):
        for _ in range(SESSIONS_EACH):
            made = self.caller.post("/v1/sessions", {}, 201)["id"]
            ticker = self.caller.post(f"/v1/sessions/{made}/exec", {
                "argv": ["python3", "-c", streams.TICKER], "background": True, "timeout": 0}, 202)
            self.sessions.append(made)
            self.tickers[made] = ticker["execution_id"]


class World:
    """What all of them share: when it ends, and what happened."""

    def __init__(self, port):
        self.port, self.seconds = port, setting("LOAD_SECONDS", 600)
        self.clients = setting("LOAD_CLIENTS", 1000)
        self.streams = setting("LOAD_STREAMS", 500)
        self.requests = setting("LOAD_REQUESTS", 10000)
        self.ramp_s = min(20.0, self.seconds / 6)
        self.gap_s = min(GAP_S, 0.6 * self.seconds * self.clients / self.requests)
        self.stream_s = max(5.0, self.seconds / 10)  # a connection lives, at the mean
        self.ends_at = self.now() + self.seconds
        self.over = asyncio.Event()
        self.done, self.refused = collections.Counter(), collections.Counter()
        self.times = collections.defaultdict(list)
        self.wrong, self.wrong_count = [], 0
        self.again = 0  # sent again on a new connection: the server had closed the idle one
        self.open_streams, self.most_streams, self.most_clients = 0, 0, 0

    @staticmethod
    def now():
        return time.monotonic()

    def is_over(self):
        return self.over.is_set()

    async def rest(self, seconds):
        """Sleeps, or less when it is over."""
        try:
            await asyncio.wait_for(self.over.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    def count(self, kind, seconds):
        self.done[kind] += 1
        self.times[kind].append(seconds)

    def count_refused(self, code):
        self.refused[code] += 1

    def note(self, text):
        self.wrong_count += 1
        if len(self.wrong) < SHOWN:
            self.wrong.append(f"at {self.seconds - (self.ends_at - self.now()):.1f} s: {text}")


def inhabitants(world, all_tenants, greedy):
    """All clients, as coroutines."""
    seeds = random.Random(1)

    def one_of(kind, tenant):
        return kind(world, tenant, random.Random(seeds.getrandbits(64)))

    found = [one_of(callers.Caller, all_tenants[i % TENANTS]).live() for i in range(world.clients)]
    for share, kind in streams.SHARES:
        found += [one_of(kind, all_tenants[i % TENANTS]).live()
                  for i in range(share * world.streams // 500)]
    found += [callers.be_greedy(one_of(callers.Caller, greedy)) for _ in range(GREEDY)]
    return found


async def look_on(world, memories, server_streams):
    """Samples until the end, and then says that it is the end."""
    step = max(0.25, world.seconds / 400)
    began, asked, told_s = world.now(), False, 0
    while (left := world.ends_at - world.now()) > 0:
        at_s = world.now() - began
        for memory in memories:
            memory.look(at_s)
        if at_s - told_s >= TOLD_EACH_S:
            told_s += TOLD_EACH_S
            tell_progress(world, told_s, memories)
        world.most_streams = max(world.most_streams, world.open_streams)
        if not asked and left < world.seconds / 2:
            asked = True
            asyncio.get_running_loop().run_in_executor(None, server_streams)
        await asyncio.sleep(min(step, left))
    world.over.set()


async def live(world, all_tenants, greedy, memories, server_streams):
    tasks = [asyncio.create_task(one) for one in inhabitants(world, all_tenants, greedy)]
    tasks.append(asyncio.create_task(look_on(world, memories, server_streams)))
    finished, late = await asyncio.wait(tasks, timeout=world.seconds + client.PATIENCE_S)
    for task in late:
        task.cancel()
        world.note(f"did not come to an end: {task.get_coro().__qualname__}")
    for task in finished:
        if task.exception():
            world.note(f"{task.get_coro().__qualname__}: {task.exception()!r}")


def streams_of(server):
    """{kind: open ones} as the server counts them."""
    found = {}
    for line in server.call("GET", "/metrics").body.decode().splitlines():
        if line.startswith(("bailey_streams", "bailey_http_connections")):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def descriptors_of(pid):
    """How many of each kind a process has."""
    found = collections.Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[os.readlink(f"/proc/{pid}/fd/{name}").partition(":[")[0]] += 1
        except OSError:
            continue
    return found


def warm_up(server, caller):
    """What is allocated once has been before anything is counted."""
    for _ in range(20):
        made = caller.post("/v1/sessions", {}, 201)["id"]
        caller.exec(made, "true")
        caller.post(f"/v1/sessions/{made}/code", {"code": "1"}, 200)
        caller.call("DELETE", f"/v1/sessions/{made}")
        caller.post("/v1/run", {"code": "print(1)"}, 200)


async def fill_session(tenant, made, is_cell):
    """As many commands or cells as it remembers."""
    connection = client.Connection(tenant.caller.server.port, tenant.key)
    what, body = ("code", {"code": "1"}) if is_cell else ("exec", {"argv": ["true", "0123456789abcdef"]})
    for _ in range(REMEMBERED // 2):
        await connection.ask_until("POST", f"/v1/sessions/{made}/{what}", {**body, "collect": False})
    connection.close()


async def fill_ended(tenant, count):
    """Sessions that have ended."""
    connection = client.Connection(tenant.caller.server.port, tenant.key)
    for _ in range(count):
        made = (await connection.ask_until("POST", "/v1/sessions", {"env": {"A": "b"}})).json()["id"]
        await connection.ask_until("POST", f"/v1/sessions/{made}/exec", {
            "argv": ["printenv", "A"], "collect": False})
        await connection.ask_until("DELETE", f"/v1/sessions/{made}")
    connection.close()


async def fill(all_tenants):
    """
    What a server remembers would be filling up to its bounds all the time: it is full before memory
    is looked at, so that whatever grows then has none.
    """
    began = time.monotonic()
    await asyncio.gather(
        *(fill_session(tenant, made, is_cell) for tenant in all_tenants
          for made in tenant.sessions for is_cell in (False, True)),
        *(fill_ended(tenant, REMEMBERED // TENANTS) for tenant in all_tenants))
    print(f"load: {TENANTS * SESSIONS_EACH * REMEMBERED} commands and {REMEMBERED} ended sessions are "
          f"remembered after {time.monotonic() - began:.0f} s", flush=True)


def requests_of(world):
    return sum(world.done[kind.__name__] for _, kind in callers.KINDS)


def tell_progress(world, at_s, memories):
    print(f"load: {at_s:.0f} of {world.seconds} s: {requests_of(world)} requests done, "
          f"{world.open_streams} streams open, {sum(world.refused.values())} refused, "
          f"{world.wrong_count} wrong; " + ", ".join(memory.now() for memory in memories), flush=True)


def tell(world, told):
    total = requests_of(world)
    print(f"load: {world.seconds} s, {world.clients} clients, {world.most_streams} streams at once, "
          f"{total} requests done, {world.done['greedy']} of the greedy one, "
          f"{sum(world.refused.values())} refused {dict(world.refused)}, "
          f"{world.again} sent again (idle for {client.KEEP_S} s), {world.wrong_count} wrong")
    for kind, count in sorted(world.done.items()):
        times = world.times[kind]
        if any(times):
            print(f"  {kind:22} {count:6}  p50 {1000 * harness.median(times):8.1f} ms"
                  f"  p99 {1000 * harness.percentile(times, 99):8.1f}")
        else:
            print(f"  {kind:22} {count:6}")
    for line in told:
        print("  " + line)
    return total


def run(server):
    greedy = Tenant(server.caller("greedy"))
    all_tenants = [Tenant(server.caller(f"tenant-{i}")) for i in range(TENANTS)]
    warm_up(server, all_tenants[0].caller)
    served = soak.Served(server)
    before, _ = remains.settle(served)
    pids = server.get("/v1/info")
    descriptors = descriptors_of(pids["broker_pid"])
    for tenant in all_tenants:
        tenant.furnish()
    memories = [watch.Memory("broker", pids["broker_pid"]),
                watch.Memory("launcher", pids["launcher_pid"])]
    counted = {}

    async def begin():
        if setting("LOAD_SECONDS", 600) >= JUDGED_S:
            await fill(all_tenants)
        world = World(server.port)
        await live(world, all_tenants, greedy, memories, lambda: counted.update(streams_of(server)))
        return world

    world = asyncio.run(begin())
    for tenant in all_tenants:
        for made in tenant.sessions:
            server.call("DELETE", f"/v1/sessions/{made}")
    wrong = list(world.wrong)
    now, left = remains.settle(served, before)
    wrong += left
    if left:
        more = descriptors_of(pids["broker_pid"]) - descriptors
        wrong += [f"the broker has {count} more of {kind}" for kind, count in more.most_common(SHOWN)]
    after = server.get("/v1/info")
    if after["broker_pid"] != pids["broker_pid"]:
        wrong.append("the broker is another one than at first")
    if after["sessions"]:
        wrong.append(f"{after['sessions']} sessions are left")
    told = [f"{name}: {before.counts[name]} before, {count} after"
            for name, count in now.counts.items()]
    told += [f"in the middle the server counted {name} {value:.0f}" for name, value in counted.items()]
    for memory in memories:
        line, problem = memory.report()
        told.append(line)
        if problem and world.seconds >= JUDGED_S:
            wrong.append(problem)
    if tell(world, told) < world.requests:
        wrong.append(f"less than {world.requests} requests were done")
    if world.most_streams < world.streams * 0.9:
        wrong.append(f"never more than {world.most_streams} streams were open at once")
    return wrong


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    own.settle()
    before = support.snapshot()
    wrong = []
    try:
        with tenants.Server(SETTINGS) as server:
            wrong += run(server)
    except AssertionError as problem:  # what it finds left when it has stopped
        wrong.append(str(problem)[:1000])
    wrong += support.left_since(before, patience=10)
    for line in wrong[:2 * SHOWN]:
        print("  wrong: " + line)
    own.leave()
    support.remove_base()
    print("load: " + ("failed" if wrong else "nothing is wrong, nothing is left"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
