# fair.py - whether tenants share the machine: one who floods beside others. One table, docs/scheduler.md has it.
#
# A bound that is met because somebody was slowed is not met, so each row has what the other side kept,
# and what is compared was measured in turns: alone, beside, alone, beside.
import json
import os
import subprocess
import threading
import time

from harness import Failed, median, percentile
from server import KINDS, SETTINGS, TcpServe, read_wrk, wrk_words
from sessions import Calls, build_client, http, run_client

PACE_MS = 25         # between two calls of the one who behaves well
ROUNDS = 30          # of its calls in a part
BUSY_CLIENTS = 8     # of one who is busy or floods
SELDOM_S = 10
SPARE_NS = 5e6
HOGS = 4
RUN = ("POST", "/v1/run", '{"code":"print(1)"}')
EXEC = ("POST", "/v1/sessions/live/exec", '{"argv":["true"],"collect":false}')
INFO = ("GET", "/v1/info", "")
VICTIMS = (KINDS[1], KINDS[4], KINDS[5], KINDS[2])
HOG = ("import os,time\nend = time.monotonic() + %f\nwhile time.monotonic() < end: pass\n"
       "print(time.process_time())")


class Load:
    """One tenant's requests, back to back over some connections, from begin() to end()."""

    def __init__(self, bench, caller, request, clients):
        self.bench, self.caller, self.clients = bench, caller, clients
        self.request = request
        self.process = None

    def begin(self, seconds):
        method, target, body = self.request
        script = os.path.join(self.bench.scratch, "load-%d.lua" % id(self))
        with open(script, "w") as file:
            file.write("wrk.method = '%s'\nwrk.body = '%s'\n" % (method, body) + CPU_SCRIPT)
        self.process = subprocess.Popen(
            wrk_words(self.caller.serve.port, target, self.clients, seconds, self.caller.key, script),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def end(self):
        """(requests a second that were answered with 2xx, CPU ms that their replies tell)"""
        text = self.process.communicate(timeout=120)[0]
        rate = read_wrk("load", text)
        cpu = [line.split()[1] for line in text.splitlines() if line.startswith("cpu_ms ")]
        good = rate.requests_s * (1 - rate.refused / max(1, rate.requests))
        return good, sum(float(ms) for ms in cpu)


# Sums what the results say of CPU time, if they do.
CPU_SCRIPT = r"""
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init(args) cpu = 0 end
function response(status, headers, body)
  local ms = string.match(body, '"cpu_ms":%s*(%d+)')
  if ms then cpu = cpu + tonumber(ms) end
end
function done(summary, latency, requests)
  for _, thread in ipairs(threads) do print("cpu_ms " .. thread:get("cpu")) end
end
"""


class Hogs:
    """Programs that compute, each in a session of its own; its rate is CPU seconds a second."""

    def __init__(self, caller, count=HOGS):
        self.caller, self.names = caller, ["hog-%d" % i for i in range(count)]
        with caller.connect() as connection:
            there = [found["name"] for found in connection.ask("GET", "/v1/sessions")["sessions"]]
            for name in self.names:
                if name not in there:
                    caller.serve.session(connection, name)

    def begin(self, seconds):
        self.seconds, self.used = seconds, []
        self.threads = [threading.Thread(target=self.run, args=(name,)) for name in self.names]
        for thread in self.threads:
            thread.start()

    def run(self, name):
        with self.caller.connect() as connection:
            said = connection.ask("POST", "/v1/sessions/%s/exec" % name, {
                "argv": ["python3", "-S", "-c", HOG % self.seconds], "collect": False,
                "timeout": self.seconds + 60})
        self.used.append(float(said["stdout"]))

    def end(self):
        for thread in self.threads:
            thread.join()
        if len(self.used) < len(self.names):
            raise Failed("a program that computes failed")
        return sum(self.used) / self.seconds, 1000 * sum(self.used)


def together(seconds, *loads):
    """[(rate, CPU ms)] of loads that ran at the same time."""
    for load in loads:
        load.begin(seconds)
    return [load.end() for load in loads]


def share(values, index):
    return 100 * values[index] / max(1e-9, sum(values))


def row(what, bound, figure, is_met):
    return [what, bound, figure, "met" if is_met else "not met"]


# ---- (a) and (b) and (d): rates ----

class Seldom:
    """A tenant with one call every SELDOM_S."""

    def __init__(self, caller):
        self.caller, self.stop = caller, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def run(self):
        with self.caller.connect() as connection:
            while True:
                connection.ask(RUN[0], RUN[1], json.loads(RUN[2]))
                if self.stop.wait(SELDOM_S):
                    return


def busy_beside_seldom(bench, serve, callers):
    busy = Load(bench, callers[0], RUN, BUSY_CLIENTS)
    kept = []
    seconds = bench.fair_seconds + 2
    for _ in range(bench.fair_parts):
        alone = together(seconds, busy)[0][0]
        with Seldom(callers[1]):
            beside = together(seconds, busy)[0][0]
        kept.append((beside / alone, alone, beside))
    ratio, alone, beside = sorted(kept)[len(kept) // 2]
    return [row("a: a busy tenant beside one with a call every %d s" % SELDOM_S, "keeps 95 %",
                "%.0f %% (%.0f / s of %.0f)" % (100 * ratio, beside, alone), ratio >= 0.95)]


def two_floods(bench, serve, callers, clients, bound, text):
    """Two tenants' boxes: [rows], with the throughput of both beside that of one alone."""
    loads = [Load(bench, caller, RUN, count) for caller, count in zip(callers, clients)]
    one = Load(bench, callers[0], RUN, sum(clients))
    boxes, cpu, whole = [], [], []
    for _ in range(bench.fair_parts):
        alone = together(bench.fair_seconds, one)[0][0]
        found = together(bench.fair_seconds, *loads)
        rates = [rate for rate, _ in found]
        boxes.append(share(rates, 1))
        cpu.append(share([ms for _, ms in found], 1))
        whole.append((sum(rates) / alone, sum(rates), alone))
    ratio, rate, alone = sorted(whole)[len(whole) // 2]
    name = "two floods, %d and %d connections" % clients
    return [row("b: %s: the second's boxes" % name, text, "%.1f %%" % median(boxes),
                bound[0] <= median(boxes) <= bound[1]),
            row("b: %s: the second's CPU time" % name, text, "%.1f %%" % median(cpu),
                bound[0] <= median(cpu) <= bound[1]),
            row("d: %s: boxes of both beside one flood's" % name, "90 %",
                "%.0f %% (%.0f / s of %.0f)" % (100 * ratio, rate, alone), ratio >= 0.9)]


def three_with_hogs(bench, serve, callers):
    hogs = [Hogs(caller) for caller in callers]
    shares = []
    for _ in range(bench.fair_parts):
        used = [rate for rate, _ in together(bench.fair_seconds, *hogs)]
        shares.append([share(used, i) * len(used) for i in range(len(used))])
    worst = [max(abs(part - 100) for part in parts) for parts in shares]
    middle = shares[worst.index(sorted(worst)[len(worst) // 2])]
    return [row("b: three tenants with %d programs each that compute" % HOGS,
                "each 90 to 110 % of a third", ", ".join("%.0f %%" % part for part in middle),
                sorted(worst)[len(worst) // 2] <= 10)]


def one_hog_beside_many(bench, serve, callers):
    """A row that is not promised in numbers, but is what shares are for."""
    pair = Hogs(callers[0], 1), Hogs(callers[1], HOGS)
    shares = [share([rate for rate, _ in together(bench.fair_seconds, *pair)], 0)
              for _ in range(bench.fair_parts)]
    return [row("b: one program that computes beside %d of another tenant" % HOGS, "45 to 55 %",
                "%.1f %%" % median(shares), 45 <= median(shares) <= 55)]


# ---- (c): one who behaves well beside each kind of flood ----

def victim_calls(bench, caller, rounds):
    calls = Calls("fairness", [(name, http(caller.way, step)) for name, step in VICTIMS])
    run_client(bench, calls, "paced", rounds, PACE_MS)
    return calls.samples["paced"]


def add(samples, more):
    for name, ns in more.items():
        samples.setdefault(name, []).extend(ns)


def beside_flood(bench, serve, victim, name, load):
    """The victim's calls alone and beside the flood; the flood alone and beside the victim."""
    alone, beside, rates = {}, {}, []
    rounds = min(ROUNDS, bench.fair_rounds)
    seconds = int(rounds * len(VICTIMS) * PACE_MS / 1000) + 2
    for _ in range(0, bench.fair_rounds, rounds):
        add(alone, victim_calls(bench, victim, rounds))
        flood_alone = together(seconds, load)[0][0]
        load.begin(seconds)
        time.sleep(0.3)
        add(beside, victim_calls(bench, victim, rounds))
        rates.append((load.end()[0], flood_alone))
    kept = sum(rate for rate, _ in rates) / sum(rate for _, rate in rates)
    rows = []
    for call, _ in VICTIMS:
        before, after = percentile(alone[call], 99), percentile(beside[call], 99)
        most = max(2 * before, before + SPARE_NS)
        rows.append(row("c: beside a flood of %s: %s" % (name, call),
                        "p99 under %.1f ms (alone %.1f)" % (most / 1e6, before / 1e6),
                        "p99 %.1f ms, p50 %.2f (alone %.2f)" % (
                            after / 1e6, median(beside[call]) / 1e6, median(alone[call]) / 1e6),
                        after <= most))
    rows.append(row("c: that flood of %s beside it" % name, "keeps 80 %", "%.0f %% (%.1f / s)" % (
        100 * kept, median([rate for rate, _ in rates])), kept >= 0.8))
    return rows


def floods(bench, caller):
    return (("boxes", Load(bench, caller, RUN, BUSY_CLIENTS)),
            ("commands", Load(bench, caller, EXEC, BUSY_CLIENTS)),
            ("cheap requests", Load(bench, caller, INFO, BUSY_CLIENTS)),
            ("programs that compute", Hogs(caller)))


# ---- all ----

def measure(bench):
    """[rows of the table]"""
    rows, only = [], os.environ.get("BENCH_FAIR", "abc")
    with TcpServe(bench, SETTINGS) as serve:
        callers = [serve.caller(name) for name in ("one", "two", "three")]
        for caller in callers[:2]:
            caller.session("live")
        parts = (
            ("a", lambda: busy_beside_seldom(bench, serve, callers)),
            ("b", lambda: two_floods(bench, serve, callers, (BUSY_CLIENTS, BUSY_CLIENTS), (45, 55),
                                     "45 to 55 %")),
            ("b", lambda: two_floods(bench, serve, callers, (3, 1), (40, 60), "at least 40 %")),
            ("b", lambda: three_with_hogs(bench, serve, callers)),
            ("b", lambda: one_hog_beside_many(bench, serve, callers)),
        )
        for letter, part in parts:
            if letter in only:
                bench.tell("fairness, part %s" % letter)
                rows += part()
        for name, load in floods(bench, callers[0]) if "c" in only else ():
            bench.tell("fairness beside a flood of %s: %d samples of each call" % (
                name, bench.fair_rounds))
            rows += beside_flood(bench, serve, callers[1], name, load)
    return rows


def measure_built(bench):
    """(rows of the table, samples of each call)"""
    bench.client = build_client(bench)
    return measure(bench), bench.fair_rounds
