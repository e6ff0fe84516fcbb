# session_report.py - the tables of what sessions.py measured.
from harness import median, percentile
from report import MB, ms, noise_line, overhead_ns, ratio, table, verdict
from sessions import BARE, DOCKER_API, DOCKER_COMMAND, GIGABYTE, HEALTH, SESSION, TOOL

CALL_BUDGET_MS = 0.5
GROWTH_BUDGET_MB = 4
KB = 1e3

LIVE_NOTE = """\
Each row is seen by a client in C with one connection that stays open; *over fork+exec* is the
median of the differences round by round, so what the engine, the box and HTTP add to the program's
own start. The program in the box is looked for in PATH first, as in the issue's `["true"]`. A
command that writes something has its file made in the state folder, one for each stream: the same
call costs %s us at the median there (p95 %s), and elsewhere on the same ext4 as little as 15."""

DOCKER_NOTE = """\
Docker's own calls are create, start (until the stream ends) and inspect, over its socket from the
same client; the command is what people type. Its `true` is a static busybox, ours a dynamic one."""

BOX_NOTE = """\
The session's three requests by themselves, median ms: made
%s; first command, which makes the box
%s; deleted, until the box is gone
%s."""

TRANSFER_NOTE = """\
Python sends and receives, in blocks of 1 MB. The box's files are in memory, so the fair peer is the
pipe into a tmpfs; docker's are on disk. *Peak* is VmHWM, reset before each transfer (where that is
allowed)."""

MEMORY_NOTE = """\
*Private* is what would be free again if it went. *Charged* is what the kernel has on the box's
memory control group: the warden's own pages, its page tables and sockets, the box's tmpfs; the
namespaces and mounts are made before it joins and are not in it. The broker's growth up to 50 is
mostly its events and commands, which are bounded."""

RESTART_NOTE = """\
Each broker had lived for 10 s: one that dies sooner is started again after a pause. Loading its
libraries is a part of it that no session changes."""

SCALE_NOTE = """\
`GET /v1/sessions` answers with all of them, so it grows with what it says; the others should not."""


def call_table(calls):
    rows = []
    for pace, samples in calls.samples.items():
        bare = samples.get(BARE) or []
        for name, values in samples.items():
            row = [name, pace, len(values), ms3(median(values)), ms3(percentile(values, 95)),
                   ms3(percentile(values, 99)), ms3(min(values))]
            is_over = name not in (BARE, HEALTH)
            row += [ratio(median(values), median(bare)) if is_over else "-",
                    ms3(overhead_ns(values, bare)) if is_over else "-",
                    ms3(min(values) - min(bare)) if is_over else "-"]
            rows.append(row)
    return table(["ms", "pace", "rounds", "p50", "p95", "p99", "min", "p50 / fork+exec",
                  "over fork+exec", "over, min"], rows)


def ms3(ns):
    return "%.3f" % (ns / 1e6)


def call_budgets(found):
    """Rows for the table of budgets."""
    live = found.get("live")
    for pace, samples in live.samples.items() if live else ():
        over = overhead_ns(samples[TOOL], samples[BARE]) / 1e6
        least = (min(samples[TOOL]) - min(samples[BARE])) / 1e6
        yield ["`%s` in a live session, %s" % (TOOL, pace),
               "under %g ms over fork+exec" % CALL_BUDGET_MS,
               "%.2f ms by p50, %.2f by min" % (over, least), verdict(over < CALL_BUDGET_MS)]
    beside = found.get("beside_docker")
    for pace, samples in beside.samples.items() if beside else ():
        share = median(samples[DOCKER_API]) / median(samples[TOOL])
        typed = median(samples[DOCKER_COMMAND]) / median(samples[TOOL])
        yield ["the same beside docker exec, " + pace, "not slower",
               "docker %.0f times by its API, %.0f as a command" % (share, typed),
               verdict(share >= 1)]
    ways, rest = found.get("transfers", ([], None))
    for way in ways:
        if "files" in way.name:
            growth = (way.broker - rest["broker"]) / MB
            yield ["1 GB, " + way.name, "broker grows by under %d MB" % GROWTH_BUDGET_MB,
                   "%.1f MB" % growth, verdict(growth < GROWTH_BUDGET_MB)]


def box_note(calls):
    parts = []
    for pace in calls.samples:
        steps = calls.steps[(pace, SESSION)]
        parts.append(["%s (%s)" % (ms3(median([step[i] for step in steps])), pace)
                      for i in range(3)])
    return BOX_NOTE % tuple(", ".join(part[i] for part in parts) for i in range(3))


def transfer_table(ways, rest):
    rows = []
    peers = {}
    for way in ways:
        direction = way.name.split(":")[0]
        peers.setdefault(direction, way)
        is_ours = "files" in way.name
        rows.append([way.name, len(way.ns), "%.0f" % (GIGABYTE / MB / (median(way.ns) / 1e9)),
                     "-" if way is peers[direction]
                     else ratio(median(way.ns), median(peers[direction].ns)),
                     "%.2f" % (median(way.cpu_ns) / 1e9) if is_ours else "-"]
                    + (["%.1f" % (way.broker / MB), "%+.1f" % ((way.broker - rest["broker"]) / MB),
                        "%.1f" % (way.warden / MB)] if is_ours else ["-"] * 3))
    return table(["1 GB", "rounds", "MB/s", "time / pipe", "CPU s of ours",
                  "peak MB, broker", "over its rest", "peak MB, warden"], rows)


def memory_table(looks):
    rows = []
    first_count, first = looks[0]
    for count, now in looks:
        more = count - first_count
        for who in ("broker", "launcher", "warden"):
            row = now[who]
            # Wardens: ours is divided by all that there are ("live" and "busy" have one too).
            each = "-"
            if who == "warden":
                each = "%.0f" % (row["private"] / now["sessions"] / KB)
            elif more:
                each = "%.1f" % ((row["private"] - first[who]["private"]) / more / KB)
            fds = "-"
            if who == "warden":
                fds = "%.0f" % (row["fds"] / now["sessions"])
            elif more:
                fds = "%.1f" % ((row["fds"] - first[who]["fds"]) / more)
            charged = "-"
            if who == "warden" and now["charged"] is not None:
                charged = "%.0f" % (now["charged"] / now["sessions"] / KB)
            rows.append([who + ("s" if who == "warden" else ""), count, "%.1f" % (row["rss"] / MB),
                         "%.1f" % (row["pss"] / MB), "%.1f" % (row["private"] / MB), each,
                         row["fds"], fds, charged])
    return table(["MB", "idle sessions", "RSS", "PSS", "private", "KB private each", "fds",
                  "fds each", "KB charged each"], rows)


def scale_table(by_count):
    names = list(next(iter(by_count.values())).samples["back to back"])
    rows = []
    for name in names:
        row = [name]
        for calls in by_count.values():
            values = calls.samples["back to back"][name]
            row += [ms3(median(values)), ms3(min(values))]
        rows.append(row)
    header = ["ms, back to back"]
    for count in by_count:
        header += ["p50, %d sessions" % count, "min"]
    return table(header, rows)


def restart_table(restarts):
    rows = [[str(count), len(values), ms(median(values)), ms(percentile(values, 95)),
             ms(min(values))] for count, values in sorted(restarts.items())]
    return table(["idle sessions (and two busy ones)", "rounds", "p50 ms", "p95", "min"], rows)


def calls_part(calls, note):
    lines = ["", "## " + calls.title, ""] + call_table(calls)
    if calls.noise:
        lines += ["", noise_line(calls)]
    return lines + (["", note] if note else [])


def render(found):
    lines = []
    if found.get("live"):
        us = found["file_us"]
        lines += calls_part(found["live"], LIVE_NOTE % ("%.0f" % median(us),
                                                        "%.0f" % percentile(us, 95)))
    if found.get("beside_docker"):
        lines += calls_part(found["beside_docker"], DOCKER_NOTE)
    elif found.get("no_docker"):
        lines += ["", "## Beside docker exec", "", "Skipped: %s." % found["no_docker"]]
    if found.get("box"):
        lines += calls_part(found["box"], box_note(found["box"]))
    if found.get("transfers"):
        ways, rest = found["transfers"]
        lines += ["", "## 1 GB into a box and out of it", ""] + transfer_table(ways, rest)
        lines += ["", TRANSFER_NOTE]
    if found.get("many"):
        many = found["many"]
        lines += ["", "## Idle sessions: memory and descriptors", ""] + memory_table(many["looks"])
        lines += ["", MEMORY_NOTE, "", "## Idle sessions: do calls stay as they are?", ""]
        lines += scale_table(many["calls"]) + ["", SCALE_NOTE]
        lines += ["", "## kill -9 of the broker, to the next answer", ""]
        lines += restart_table(many["restarts"]) + ["", RESTART_NOTE]
    return lines
