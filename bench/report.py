# report.py - turns what suites.py measured into tables: Markdown that reads well in a terminal too.
from harness import median, percentile

OVERHEAD_BUDGET_MS = 10
MEMORY_BUDGET_MB = 4
MB = 1e6


def table(header, rows):
    """Columns padded to one width; all but the first are aligned to the right."""
    cells = [header] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]

    def line(row):
        padded = [row[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]]
    return [line(cells[0]), "| " + " | ".join(rule) + " |"] + [line(row) for row in cells[1:]]


def ms(ns):
    return "%.2f" % (ns / 1e6)


def ratio(ours, theirs):
    return "%.2f" % (ours / theirs) if theirs else "-"


def overhead_ns(ours, plain):
    """The median of the differences round by round: what disturbed a whole round cancels out."""
    return median([a - b for a, b in zip(ours, plain)])


def latency_table(latency):
    rows = []
    for pace, samples in latency.samples.items():
        peer = samples.get(latency.named("bwrap")) or []
        plain = samples.get(latency.named("plain")) or []
        for variant in latency.variants:
            values = samples[variant.name]
            if not values:
                continue
            row = [variant.name, pace, len(values), ms(median(values)), ms(percentile(values, 95)),
                   ms(percentile(values, 99)), ms(min(values))]
            is_compared = peer and values is not peer
            row.append(ratio(median(values), median(peer)) if is_compared else "-")
            row.append(ratio(min(values), min(peer)) if is_compared else "-")
            is_over = plain and values is not plain
            row.append(ms(overhead_ns(values, plain)) if is_over else "-")
            row.append(ms(min(values) - min(plain)) if is_over else "-")
            rows.append(row)
    header = ["ms", "pace", "rounds", "p50", "p95", "p99", "min", "p50 / bwrap", "min / bwrap",
              "over plain", "over plain, min"]
    if not latency.named("plain"):
        header, rows = header[:7], [row[:7] for row in rows]
    return table(header, rows)


def noise_line(latency):
    shares = ["%s %.0f %%" % (pace, 100 * share) for pace, share in latency.noise.items()]
    return "Cores busy with other things just before and after: %s." % ", ".join(shares)


def verdict(is_met):
    return "met" if is_met else "not met"


def true_budget(latency):
    ours, peer = latency.named("bailey"), latency.named("bwrap")
    budget = "not slower than bwrap"
    for pace, samples in latency.samples.items():
        what = "`bailey exec -- /bin/true`, " + pace
        if not ours or not peer or not samples[ours]:
            yield [what, budget, "not measured", "-"]
            continue
        p50 = median(samples[ours]) / median(samples[peer])
        least = min(samples[ours]) / min(samples[peer])
        yield [what, budget, "%.2f times by p50, %.2f by min" % (p50, least), verdict(p50 <= 1)]


def python_budget(latency):
    ours, plain = latency.named("bailey"), latency.named("plain")
    budget = "under %d ms over plain" % OVERHEAD_BUDGET_MS
    for pace, samples in latency.samples.items():
        what = "%s, %s" % (latency.title, pace)
        if not ours or not plain or not samples[ours]:
            yield [what, budget, "not measured", "-"]
            continue
        over = overhead_ns(samples[ours], samples[plain]) / 1e6
        least = (min(samples[ours]) - min(samples[plain])) / 1e6
        yield [what, budget, "%.2f ms by p50, %.2f by min" % (over, least),
               verdict(over < OVERHEAD_BUDGET_MS)]


def memory_budget(outputs, size):
    for output in outputs:
        if output.is_ours and output.ns:
            peak = (output.own + output.children) / MB
            yield ["%s of output, %s" % (size, output.name.split("(")[1].rstrip(")")),
                   "under %d MB of ours" % MEMORY_BUDGET_MB, "%.1f MB" % peak,
                   verdict(peak < MEMORY_BUDGET_MB)]


def budgets(found):
    import session_report  # it uses the tables of this file
    import containers_report
    import e2b_sdk
    import python_report
    import responses
    import server_report
    rows = list(session_report.call_budgets(found)) + list(python_report.budgets(found))
    rows += server_report.budgets(found)
    rows += containers_report.budgets(found)
    rows += responses.budgets(found)
    rows += e2b_sdk.budgets(found)
    if found.get("true"):
        rows += true_budget(found["true"])
    for latency in found.get("python", []):
        rows += python_budget(latency)
    if found.get("output"):
        rows += memory_budget(found["output"][0], "1 GB")
    if found.get("long_output"):
        rows += memory_budget(found["long_output"].values(), "10 GB")
    return table(["what", "budget", "measured", ""], rows)


def stage_table(stages):
    rows = [[name] + ["%.3f" % by_pace[pace] if pace in by_pace else "-"
                      for pace in ("back to back", "paced")] for name, by_pace in stages]
    return table(["median ms", "back to back", "paced"], rows)


def cgroup_table(samples):
    names = {"tasks": "itself, `0` into tasks (bailey's way)",
             "procs": "another one, its pid into cgroup.procs"}
    paces = {"hot": "back to back", "idle": "after 200 ms of idle"}
    rows = [[names[way], paces[pace], len(values), "%.3f" % (median(values) / 1e6),
             "%.3f" % (percentile(values, 95) / 1e6), "%.3f" % (min(values) / 1e6)]
            for (way, pace), values in samples.items()]
    return table(["ms to enter memory and pids", "pace", "rounds", "p50", "p95", "min"], rows)


def output_table(outputs, at_rest, gigabyte):
    pipe = next((output for output in outputs if "a pipe" in output.name and output.ns), None)
    rows = []
    for output in outputs:
        if not output.ns:
            continue
        row = [output.name, len(output.ns), "%.0f" % (gigabyte / MB / (median(output.ns) / 1e9)),
               ratio(median(output.ns), median(pipe.ns)) if pipe and output is not pipe else "-"]
        if output.is_ours:
            rest = at_rest[output.name]
            both = output.own + output.children
            row += ["%.2f" % (output.own / MB), "%.2f" % (output.children / MB),
                    "%+.2f" % ((both - rest.own - rest.children) / MB)]
        else:
            row += ["-", "-", "-"]
        rows.append(row)
    return table(["1 GB", "rounds", "MB/s", "time / pipe", "peak MB, bailey",
                  "peak MB, warden", "growth MB"], rows)


def long_output_table(long_output, outputs):
    rows = []
    short = {output.name: output for output in outputs}
    for name, output in long_output.items():
        before = short[name].own + short[name].children
        rows.append([name, "%.2f" % (output.own / MB), "%.2f" % (output.children / MB),
                     "%+.2f" % ((output.own + output.children - before) / MB)])
    return table(["10 GB", "peak MB, bailey", "peak MB, warden", "MB over 1 GB's"], rows)


NOTES = """\
A sample is the time from posix_spawn to the return of wait4, seen from one Python process; what
that adds is the same for all, and the row of the bare /bin/true shows it, harness and process
together. Each round runs every program once in an order drawn anew. *Paced* is one start every
200 ms. *over plain* is the median of the differences round by round. *min* comes closest to a
quiet machine; p99 of 40 rounds is the largest.

bubblewrap has every namespace unshared, a clear environment and its `--die-with-parent`; it has no
system call filter, no Landlock, no cgroup limits, no second user id, and exits as soon as it knows
the program's status, while bailey exits when the box is gone and its cgroup removed."""

STAGE_NOTE = """\
Engine and box work at the same time, so a stage may contain waiting for the other side."""

CGROUP_NOTE = """\
Part of the times above, printed apart: the second way is what a cgroup costs when somebody else
moves the process, and why bailey lets each process move itself."""

OUTPUT_NOTE = """\
*Peak* is VmHWM looked at every 5 ms; *growth* is over a run that writes 1000 bytes. Writing to
/dev/null copies nothing, so the fair peer of a captured stream is the pipe to cat."""


def render(found, machine, failures):
    import containers_report
    import e2b_sdk
    import python_report
    import responses
    import server_report
    import session_report
    lines = ["# Bench", "", "Written by `make bench`; nothing here is asserted by a test.", ""]
    lines += ["- %s: %s" % pair for pair in machine]
    lines += ["", "## Budgets", ""] + budgets(found)
    latencies = [found.get("true")] + found.get("python", []) + [found.get("lookup")]
    for latency in filter(None, latencies):
        lines += ["", "## " + latency.title, ""] + latency_table(latency)
        if latency.noise:
            lines += ["", noise_line(latency)]
        if latency.note:
            lines += ["", latency.note]
    if found.get("stages"):
        lines += ["", "## Where the time of `bailey exec -- /bin/true` goes", ""]
        lines += stage_table(found["stages"]) + ["", STAGE_NOTE]
    if found.get("cgroup"):
        samples, reason = found["cgroup"]
        lines += ["", "## Entering a v1 cgroup", ""]
        if samples:
            lines += cgroup_table(samples) + ["", CGROUP_NOTE]
        else:
            lines += ["Skipped: %s." % reason]
    if found.get("output"):
        outputs, at_rest, gigabyte = found["output"]
        lines += ["", "## 1 GB of output", ""] + output_table(outputs, at_rest, gigabyte)
        lines += ["", OUTPUT_NOTE]
        if found.get("long_output"):
            lines += ["", "## 10 GB of output", ""]
            lines += long_output_table(found["long_output"], outputs)
        else:
            lines += ["", "10 GB were not written: only with BENCH_FULL=1."]
    lines += session_report.render(found)
    lines += python_report.render(found)
    lines += server_report.render(found)
    lines += containers_report.render(found)
    lines += responses.render(found)
    lines += e2b_sdk.render(found)
    lines += ["", "## Notes", "", NOTES]
    if failures:
        lines += ["", "## Did not run", ""] + ["- " + failure for failure in failures]
    return "\n".join(lines) + "\n"
