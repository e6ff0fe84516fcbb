# server_report.py - the tables of what server.py measured.
import fair
from harness import median, percentile
from report import MB, noise_line, ratio, table, verdict
from server import CLIENTS, KINDS, SOCKET, STREAMS, TCP
from sessions import GIGABYTE

SPEED_BUDGET_MBS = 500
# Budgets: [(call, pace, percentile, ms)]
CALL_BUDGETS = ((KINDS[2][0], "back to back", 50, 2), (KINDS[2][0], "back to back", 99, 10),
                (KINDS[5][0], "back to back", 50, 0.5), (KINDS[5][0], "paced", 50, 1))

CALLS_NOTE = """\
One connection that stays open, a client in C. Over TCP each request carries a key, which is looked up
and compared as everywhere; the unix socket's owner needs none."""
RATES_NOTE = """\
`wrk` with one thread and %d connections; of %s rounds in turns the one in the middle. nginx is one
process without threads, as the broker is, and sends a file from memory."""
FAIR_NOTE = """\
What is compared was measured in turns. A *flood* asks back to back over %d connections, without quotas;
beside it another tenant makes a call every %d ms, %d of each kind. A bound that is met by slowing the
others is not met, so each flood has a row of what it kept. p99 of few samples is nearly the maximum:
the share of the busy machine is in it. [The scheduler](../docs/scheduler.md) says how it works."""


def ms3(ns):
    return "%.3f" % (ns / 1e6)


def calls_table(calls):
    rows = []
    for pace, samples in calls.samples.items():
        for name, _ in KINDS:
            own, far = samples[name + SOCKET], samples[name + TCP]
            rows.append([name, pace, len(far), ms3(median(own)), ms3(percentile(own, 99)),
                         ms3(median(far)), ms3(percentile(far, 99)), ms3(min(far)),
                         ratio(median(far), median(own))])
    return table(["ms", "pace", "rounds", "socket p50", "p99", "TCP p50", "p99", "min",
                  "p50 / socket"], rows)


def rates_table(rates):
    peer = rates[0] if rates[0].name.startswith("nginx") else None
    return table(["%d clients" % CLIENTS, "requests / s", "p50 ms", "p99 ms", "of nginx"], [
        [rate.name, "%.0f" % rate.requests_s, ms3(rate.p50_ns), ms3(rate.p99_ns),
         ratio(rate.requests_s, peer.requests_s) if peer and rate is not peer else "-"]
        for rate in rates])


def speed(way):
    return GIGABYTE / MB / (median(way.ns) / 1e9)


def transfers_table(ways):
    return table(["1 GB over TCP", "rounds", "MB/s", "CPU s of the broker", "peak MB, broker"], [
        [way.name, len(way.ns), "%.0f" % speed(way)]
        + (["-", "-"] if "nginx" in way.name else
           ["%.2f" % (median(way.cpu_ns) / 1e9), "%.1f" % (way.broker / MB)]) for way in ways])


def streams_table(found):
    return table(["broker, MB", "without", "with %d" % STREAMS, "KB each"], [
        [kind, "%.1f" % (before / MB), "%.1f" % (after / MB),
         "%.1f" % ((after - before) / STREAMS / 1e3)] for kind, (before, after) in found.items()])


def budgets(found):
    """Rows for the table of budgets."""
    calls = found.get("server_calls")
    for name, pace, percent, most in CALL_BUDGETS if calls else ():
        if pace in calls.samples:
            took = percentile(calls.samples[pace][name + TCP], percent) / 1e6
            yield ["%s, TCP with a key, %s" % (name, pace), "p%d under %g ms" % (percent, most),
                   "%.2f ms" % took, verdict(took < most)]
    for way in found.get("server_transfers", ()):
        if "nginx" not in way.name:
            yield ["1 GB over TCP, " + way.name, "over %d MB/s" % SPEED_BUDGET_MBS,
                   "%.0f MB/s" % speed(way), verdict(speed(way) > SPEED_BUDGET_MBS)]


def render(found):
    lines = []
    if found.get("server_calls"):
        calls = found["server_calls"]
        lines += ["", "## " + calls.title, ""] + calls_table(calls)
        lines += ["", noise_line(calls)] if calls.noise else []
        lines += ["", CALLS_NOTE]
    if found.get("server_rates"):
        lines += ["", "## The server: requests a second", ""] + rates_table(found["server_rates"])
        lines += ["", RATES_NOTE % (CLIENTS, "several")]
    if found.get("no_nginx"):
        lines += ["", "nginx was left out: %s." % found["no_nginx"]]
    if found.get("server_transfers"):
        lines += ["", "## The server: 1 GB over TCP with a key", ""]
        lines += transfers_table(found["server_transfers"])
    if found.get("server_streams"):
        lines += ["", "## The server: memory with open streams", ""]
        lines += streams_table(found["server_streams"])
    if found.get("fair"):
        rows, rounds = found["fair"]
        lines += ["", "## Tenants share the machine", ""]
        lines += table(["what", "bound", "measured", ""], rows)
        lines += ["", FAIR_NOTE % (fair.BUSY_CLIENTS, fair.PACE_MS, rounds)]
    return lines
