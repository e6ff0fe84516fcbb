# python_report.py - the tables of what python.py measured, and the budgets they are held against.
from harness import median, percentile
from python import BWRAP, DOCKER, JUPYTER, NO_POOL, POOL, PYTHON_CELL
from report import MB, noise_line, ratio, table, verdict
from session_report import ms3
from sessions import BARE, HEALTH

# The budgets.
POOL_P50_MS, POOL_P99_MS = 2, 10
NO_POOL_P50_MS = {"base": 4, "core": 8, "data": 12}
TIMES_FASTER = 50
CELL_MS = {"back to back": 0.5, "paced": 1.0}
RATES = {"base": 400, "core": 300, "data": 150}
IDLE_MB = 4

FRESH_NOTE = """\
Seen by a client in C with one connection that stays open: from the request to the whole reply, which
comes when the program has ended and what the box used is known; the box ends meanwhile. *From the pool* is what the replies say of themselves. The box has all
layers; the program is the template's Python with the modules that its import lines name."""

BESIDE_NOTE = """\
bubblewrap and the container have the same interpreter, the same packages and Matplotlib's list of
fonts, bound read-only, and no limits, filter or Landlock. *No zygotes* is our box with a Python that
starts and imports like theirs."""

CELL_NOTE = """\
Jupyter's round trip is jupyter_client's and ends when the kernel has said that it is idle, so when
all results are there; the client is Python, so ours stands there from a client in Python too. Bash
runs `:`, the others `1+1`, and its value is in the reply."""

RATE_NOTE = """\
Each client is a process that asks for one fresh box after the other over HTTP, on the same cores. The
engine keeps one zygote for a template and tier and cannot be told to keep two: *two engines* is the
same load on two daemons, so two zygotes, launchers and brokers. %s"""

STAGE_NOTE = """\
By the launcher's own clock (`BAILEY_LOG=debug`), one run after the other; each line is the time since
the one before. *Run* is from the broker's word that the box stands to the zygote's word of the
kernel's end: the broker's cell, the warden, the program, Python's end, the kernel's removal of its
memory, the reaping. The steps of making a box are behind the clone, in part at the same time."""

MEMORY_NOTE = """\
Private is Private_Clean + Private_Dirty of smaps_rollup. *Unused*: the session's box stands, its kernel
was forked and has run no cell. *Collected*: after a cell with gc.collect(). A session has its
template's last tier; boxes in the pool of every tier are below, the median of each."""


def share_pooled(calls, pace, name):
    said = calls.warm.get((pace, name))
    return "%.0f %%" % (100 * sum(word == "pool" for word in said) / len(said)) if said else "-"


def call_rows(calls, peer):
    rows = []
    for pace, samples in calls.samples.items():
        other = samples.get(peer)
        for name, values in samples.items():
            is_compared = other and name not in (peer, BARE, HEALTH)
            rows.append([name, pace, len(values), ms3(min(values)), ms3(median(values)),
                         ms3(percentile(values, 99)),
                         times(median(other), median(values)) if is_compared else "-",
                         times(min(other), min(values)) if is_compared else "-",
                         share_pooled(calls, pace, name)])
    return rows


def times(theirs, ours):
    return "%.0f" % (theirs / ours) if theirs >= 10 * ours else ratio(theirs, ours)


def call_part(calls, peer, peer_name, note=None):
    header = ["ms", "pace", "rounds", "min", "p50", "p99", "p50: %s takes" % peer_name, "min",
              "from the pool"]
    rows = call_rows(calls, peer)
    if not any(peer in samples for samples in calls.samples.values()):
        header, rows = header[:6] + header[8:], [row[:6] + row[8:] for row in rows]
    if all(row[-1] == "-" for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    lines = ["", "## " + calls.title, ""] + table(header, rows)
    if calls.noise:
        lines += ["", noise_line(calls)]
    return lines + (["", note] if note else [])


# ---- budgets ----

def fresh_budgets(found):
    for tier, calls in found.get("fresh", {}).items():
        for pace, samples in calls.samples.items():
            pool, none = samples[POOL], samples[NO_POOL]
            p50, p99 = median(pool) / 1e6, percentile(pool, 99) / 1e6
            yield ["fresh %s box, pool, %s" % (tier, pace),
                   "p50 under %d ms, p99 under %d" % (POOL_P50_MS, POOL_P99_MS),
                   "%.2f and %.2f ms, min %.2f" % (p50, p99, min(pool) / 1e6),
                   verdict(p50 < POOL_P50_MS and p99 < POOL_P99_MS)]
            p50 = median(none) / 1e6
            yield ["fresh %s box, no pool, %s" % (tier, pace),
                   "p50 under %d ms" % NO_POOL_P50_MS[tier],
                   "%.2f ms, min %.2f" % (p50, min(none) / 1e6),
                   verdict(p50 < NO_POOL_P50_MS[tier])]
    for tier, calls in found.get("beside", {}).items():
        for pace, samples in calls.samples.items():
            if BWRAP not in samples:
                continue
            share = median(samples[BWRAP]) / median(samples[NO_POOL])
            pooled = median(samples[BWRAP]) / median(samples[POOL])
            yield ["fresh %s box beside bwrap python, %s" % (tier, pace),
                   "over %d times faster without pool" % TIMES_FASTER,
                   "%.0f times without, %.0f with pool" % (share, pooled),
                   verdict(share > TIMES_FASTER)]


def cell_budgets(found):
    for calls in found.get("cells", [])[:1]:
        for pace, samples in calls.samples.items():
            p50 = median(samples[PYTHON_CELL]) / 1e6
            yield ["a Python cell over HTTP, " + pace, "p50 under %g ms" % CELL_MS[pace],
                   "%.2f ms, min %.2f" % (p50, min(samples[PYTHON_CELL]) / 1e6),
                   verdict(p50 < CELL_MS[pace])]


def rate_budgets(found):
    rates, _ = found.get("rates") or ({}, None)
    for tier, least in RATES.items():
        best = max(((rate, name, clients) for (its, name, clients), (rate, _) in rates.items()
                    if its == tier and "two" not in name), default=None)
        if best:
            yield ["fresh %s boxes a second" % tier, "over %d" % least,
                   "%.0f (%s, %d clients)" % best, verdict(best[0] > least)]


def memory_budgets(found):
    for tier, held in (found.get("memory") or {}).get("sessions", {}).items():
        for what, (kernel, warden) in (("unused", held.unused), ("collected", held.collected)):
            both = (kernel[0] + warden[0]) / MB
            yield ["idle session, %s, %s" % (tier, what), "under %d MB of its own" % IDLE_MB,
                   "%.2f MB" % both, verdict(both < IDLE_MB)]


def left_budget(found):
    soak = found.get("left")
    if soak:
        yield ["%d boxes from the pool" % soak.runs, "nothing left",
               "; ".join(soak.left) or "nothing", verdict(not soak.left and not soak.wrong)]


def budgets(found):
    for rows in (fresh_budgets, cell_budgets, rate_budgets, memory_budgets, left_budget):
        yield from rows(found)


# ---- tables ----

def rate_table(rates):
    counts = sorted({clients for _, _, clients in rates})
    names = list(dict.fromkeys((tier, name) for tier, name, _ in rates))
    rows = []
    for tier, name in names:
        row = ["%s, %s" % (tier, name)]
        for clients in counts:
            rate, pooled = rates.get((tier, name, clients), (None, 0))
            row.append("-" if rate is None else "%.0f" % rate +
                       (" (%.0f %%)" % (100 * pooled) if name == "pool" else ""))
        rows.append(row)
    return table(["boxes a second (from the pool)"] + ["%d clients" % count for count in counts],
                 rows)


def mb(value):
    return "%.2f" % (value / MB)


def memory_tables(memory):
    rows = []
    for tier, held in memory["sessions"].items():
        for what, (kernel, warden) in (("unused", held.unused), ("collected", held.collected)):
            rows.append(["session, %s, %s" % (tier, what), mb(kernel[0]), mb(kernel[1]),
                         mb(warden[0]), mb(warden[1]), mb(kernel[0] + warden[0])])
    for tier, boxes in memory["pool"].items():
        middle = [median([box[i][k] for box in boxes]) for i in (0, 1) for k in (0, 1)]
        rows.append(["in the pool, %s (%d boxes)" % (tier, len(boxes))] + [mb(x) for x in middle] +
                    [mb(middle[0] + middle[2])])
    lines = table(["MB", "kernel, private", "PSS", "warden, private", "PSS", "both, private"], rows)
    lines += [""] + table(["MB", "private", "PSS", "RSS"],
                          [["zygote, " + tier] + [mb(value) for value in held]
                           for tier, held in memory["zygotes"].items()])
    everything = [box[0][0] + box[1][0] for boxes in memory["pool"].values() for box in boxes]
    return lines + ["", "The idle pool: %d boxes, %s MB private together." % (
        len(everything), mb(sum(everything)))]


def stage_table(stages):
    tiers = list(stages)
    names = list(dict.fromkeys(name for tier in tiers for name in stages[tier]))
    rows = [[name] + ["%.3f" % stages[tier][name] if name in stages[tier] else "-"
                      for tier in tiers] for name in names]
    return table(["median ms, no pool"] + tiers, rows)


def left_table(soak):
    rows = [[name, count, soak.after.counts[name]] for name, count in soak.before.counts.items()]
    lines = table(["", "before", "after"], rows)
    growth = ", ".join("%+.2f MB" % (value / MB) for value in soak.growth.values()) or "none lived"
    return lines + ["", "%d runs in %.0f s by four clients, %d of them wrong, %.0f %% from the pool. "
                    "Zygotes' anonymous memory grew by: %s. `make soak` has 10,000 of them." % (
                        soak.runs, soak.seconds, soak.wrong, 100 * soak.pooled / soak.runs, growth)]


def render(found):
    lines = []
    if found.get("no_data"):
        lines += ["", "## Warm Python", "", "Only base, without its peers: %s." % found["no_data"]]
    for tier, calls in found.get("fresh", {}).items():
        lines += call_part(calls, None, "", FRESH_NOTE if tier == "base" else None)
    for tier, calls in found.get("beside", {}).items():
        lines += call_part(calls, BWRAP, "bwrap", BESIDE_NOTE if tier == "base" else None)
    for i, calls in enumerate(found.get("cells", [])):
        lines += call_part(calls, DOCKER if i else JUPYTER, "docker" if i else "Jupyter",
                           None if i else CELL_NOTE)
    if found.get("no_jupyter"):
        lines += ["", "No Jupyter kernel: %s." % found["no_jupyter"]]
    if found.get("rates"):
        rates, noise = found["rates"]
        busy = "" if noise is None else "Cores busy with other things before: %.0f %%." % (100 * noise)
        lines += ["", "## Fresh boxes a second", ""] + rate_table(rates) + ["", RATE_NOTE % busy]
    if found.get("warm_stages"):
        lines += ["", "## Where the time of a warm run without pool goes", ""]
        lines += stage_table(found["warm_stages"]) + ["", STAGE_NOTE]
    if found.get("memory"):
        lines += ["", "## Memory of warm Python", ""] + memory_tables(found["memory"])
        lines += ["", MEMORY_NOTE]
    if found.get("left"):
        lines += ["", "## What many boxes leave", ""] + left_table(found["left"])
    return lines
