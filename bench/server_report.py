# server_report.py - the tables of what server.py measured.
from harness import median, percentile
from report import MB, noise_line, ratio, table, verdict
from server import CLIENTS, FAIR_PACE_MS, FLOODERS, KINDS, SOCKET, STREAMS, TCP, VICTIMS
from sessions import GIGABYTE

FAIR_BUDGET = 2
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
Another tenant's calls, one every %d ms, alone and, in turns with that, while %d connections of one
who floods ask back to back. Quotas of both: 4 runs at once, 200 requests a second. *Refused* are those
of the flood that got 429 or 503. p99 of few samples is nearly the maximum: the share of the busy
machine is in it."""


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


def fairness_table(found):
    rows = []
    for fair in found:
        for name, _ in VICTIMS:
            alone, beside = fair.alone[name], fair.beside[name]
            rows.append([fair.flood, name, len(beside), ms3(median(alone)),
                         ms3(percentile(alone, 99)), ms3(median(beside)),
                         ms3(percentile(beside, 99)), "%.2f" % fair.ratio(name),
                         "%.0f / s" % fair.requests_s(), "%.0f %%" % (100 * fair.refused())])
        alone, beside = fair.together()
        rows.append([fair.flood, "all of them", len(beside), ms3(median(alone)),
                     ms3(percentile(alone, 99)), ms3(median(beside)), ms3(percentile(beside, 99)),
                     "%.2f" % (percentile(beside, 99) / percentile(alone, 99)),
                     "%.0f / s" % fair.requests_s(), "%.0f %%" % (100 * fair.refused())])
    return table(["a flood of", "the other's call", "rounds", "alone p50", "p99", "beside p50", "p99",
                  "p99 ratio", "flood", "refused"], rows)


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
    for fair in found.get("fairness", ()):
        alone, beside = fair.together()
        whole = percentile(beside, 99) / percentile(alone, 99)
        worst = max(fair.ratio(name) for name, _ in VICTIMS)
        yield ["another tenant's p99 beside a flood of %s" % fair.flood,
               "at most %d times" % FAIR_BUDGET, "%.1f times" % whole, verdict(whole <= FAIR_BUDGET)]
        yield ["the same, of the one call that suffers most", "at most %d times" % FAIR_BUDGET,
               "%.1f times" % worst, verdict(worst <= FAIR_BUDGET)]


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
    if found.get("fairness"):
        lines += ["", "## The server: one tenant floods", ""] + fairness_table(found["fairness"])
        lines += ["", FAIR_NOTE % (FAIR_PACE_MS, FLOODERS)]
    return lines
