# containers_report.py - the tables of what containers.py measured, and the budget they are held against.
from containers import (CELL, COMMAND, DOCKER_API, DOCKER_PYTHON, DOCKER_RUN, DOCKER_TRUE, EXEC,
                        LLM_FRESH, LLM_LIVE, LLM_POOL, NO_POOL, PACE_S, POOL)
from harness import median, percentile
from python_report import share_pooled, times
from report import MB, noise_line, table, verdict

# The budgets, and what users are promised.
WARM_MS, COLD_MS = 50, 2000

ALONE_NOTE = """\
One run after the other over HTTP, from a client in Python (0.3 ms of it): from the request to the whole
reply. *Over the program* is the call's time less the program's own, as the result has it (`duration`,
from the warden's clock in the container), run by run; a cold program starts its interpreter within it. *Paced* is one every %g s, so that the pool of 2 is
full again; back to back it is not, and a run waits for a container to be made. Containers have Docker's
default limits of ours: half a core, 256 MB."""

FRESH_NOTE = """\
In turns, so the pool is filled again while the others run. All have the same image and no network.
`docker run` has none of our limits and hardening. `llm-sandbox` (%s) runs its containers as root, without
its own setup (a virtual environment and an upgrade of pip from the network for each container, which
there is none of here) and with SIGKILL as its stop signal (else closing waits for 10 s): all that makes it faster.
Its pool gives a container to the next one as the last one left it; ours are never used again."""

LIVE_NOTE = """\
Docker's own calls over its API are create, start (until the stream ends) and inspect. A cell of ours runs in an
interpreter that keeps its variables; `docker exec` and `llm-sandbox` start one each time."""

LEFT_NOTE = """\
%d runs in %.0f s by four clients, %d of them wrong, %.0f %% from the pool. The columns
with the daemon have its pool's two containers (each with a layer of its own and one that initialises it);
the one that is always there is the bench's, and the volume holds the warden. Resident memory of the process
that speaks to Docker: %s; of the broker: %s."""


def ms1(value):
    return "%.1f" % value if value >= 10 else "%.2f" % value


def alone_table(runs):
    return table(["ms", "pace", "rounds", "min", "p50", "p95", "over the program: min", "p50", "p95",
                  "from the pool"], [
        [one.name, one.pace, len(one.walls), ms1(min(one.walls)), ms1(median(one.walls)),
         ms1(percentile(one.walls, 95)), ms1(min(one.overs)), ms1(median(one.overs)),
         ms1(percentile(one.overs, 95)),
         "%.0f %%" % (100 * sum(word == "pool" for word in one.warm) / len(one.warm))]
        for one in runs])


def busy_line(runs):
    shares = ["%s, %s %.0f %%" % (one.name, one.pace, 100 * one.busy) for one in runs
              if one.busy is not None]
    return "Cores busy with other things just before: %s." % "; ".join(shares)


def beside_table(calls, ours, peers):
    """peers: [(name, how its column begins)]; each says how many times as long it takes."""
    rows = []
    has_pool = any("pool" in said for said in calls.warm.values())
    for pace, samples in calls.samples.items():
        there = [(name, title) for name, title in peers if name in samples]
        for name, values in samples.items():
            row = [name, pace, len(values), ms1(min(values) / 1e6), ms1(median(values) / 1e6),
                   ms1(percentile(values, 95) / 1e6)]
            row += [times(median(samples[peer]), median(values)) if name in ours else "-"
                    for peer, _ in there]
            rows.append(row + ([share_pooled(calls, pace, name)] if has_pool else []))
    header = ["ms", "pace", "rounds", "min", "p50", "p95"] + [title + " takes" for _, title in there]
    return table(header + (["from the pool"] if has_pool else []), rows)


def beside_part(calls, ours, peers, note):
    lines = ["", "## " + calls.title, ""] + beside_table(calls, ours, peers)
    return lines + (["", noise_line(calls)] if calls.noise else []) + (["", note] if note else [])


def left_table(left):
    rows = []
    for name in left.after.counts:
        rows.append([name] + [look.counts.get(name, "-") for look in (
            left.first, left.before, left.after, left.gone)])
    return table(["", "before the daemon", "with it", "after %d runs" % left.soak.runs,
                  "after the daemon"], rows)


def grown(left, who):
    return "%.1f MB before, %.1f after" % (left.before.memory[who] / MB, left.after.memory[who] / MB)


def budgets(found):
    """Rows for the table of budgets."""
    for one in found.get("container_runs", ()):
        if one.name == POOL and one.pace == "paced":
            over = median(one.overs)
            yield ["Docker, warm container, " + one.pace, "under %d ms over the program" % WARM_MS,
                   "%.1f ms by p50, %.1f by min" % (over, min(one.overs)), verdict(over < WARM_MS)]
    calls = found.get("container_fresh")
    for pace, samples in calls.samples.items() if calls else ():
        for name in (NO_POOL, COMMAND):
            took = median(samples[name]) / 1e6
            yield ["Docker, %s, %s" % (name, pace), "under %d s" % (COLD_MS // 1000), "%.0f ms" % took,
                   verdict(took < COLD_MS)]
    left = found.get("container_left")
    if left:
        yield ["Docker, %d runs" % left.soak.runs, "nothing left", "; ".join(left.what) or "nothing",
               verdict(not left.what and not left.soak.wrong)]


def render(found):
    lines = []
    if found.get("no_containers"):
        lines += ["", "## Docker", "", "Left out: %s." % found["no_containers"]]
    if found.get("container_runs"):
        runs = found["container_runs"]
        lines += ["", "## Docker: runs alone", ""] + alone_table(runs)
        lines += ["", busy_line(runs), "", ALONE_NOTE % PACE_S]
    if found.get("container_fresh"):
        lines += beside_part(found["container_fresh"], (POOL, NO_POOL, COMMAND), (
            (DOCKER_RUN, "docker run"), (LLM_FRESH, "llm-sandbox"), (LLM_POOL, "its pool")),
            FRESH_NOTE % found.get("llm_sandbox_version", "left out"))
    if found.get("no_llm_sandbox"):
        lines += ["", "llm-sandbox was left out: %s." % found["no_llm_sandbox"]]
    for calls, peers, note in zip(found.get("container_live", ()), ((), (
            (DOCKER_API, "docker's API"), (DOCKER_TRUE, "docker exec true"),
            (DOCKER_PYTHON, "docker exec python3"), (LLM_LIVE, "llm-sandbox"))), ("", LIVE_NOTE)):
        lines += beside_part(calls, (EXEC, CELL), peers, note)
    left = found.get("container_left")
    if left:
        soak = left.soak
        lines += ["", "## Docker: what many runs leave", ""] + left_table(left)
        lines += ["", LEFT_NOTE % (soak.runs, soak.seconds, soak.wrong, 100 * soak.pooled / soak.runs,
                                   grown(left, "wall"), grown(left, "broker"))]
    return lines
