#!/usr/bin/python3
# check.py - `make bench-check`: whether a change made Bailey much slower, in ten seconds.
#
#   bench/check.py [ROUNDS [CALLS]]
#
# Every figure is a ratio to a program that was started in the same rounds: /bin/true by fork and exec, and
# bubblewrap with the same program. Both become slower with the machine, so the ratios hold on a busy one, too,
# and the limits are generous: twice to three times what a quiet machine showed. A row above its limit in two
# passes says "slower", and the status is 1. For a few percent compare two builds with builds.py.
import os
import shutil
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import builds  # noqa: E402
import harness  # noqa: E402
import suites  # noqa: E402

PYTHON = [suites.SYSTEM_PYTHON, "-c", "print(1)"]
# What is measured, the program beside it, and the ratio above which it counts as slower.
ROWS = (
    ("exec -- /bin/true", "bwrap /bin/true", 2.0),
    ("fresh Python over HTTP", "bwrap python3", 0.8),
    ("GET /healthz", "/bin/true", 0.3),
    ("cell over HTTP", "/bin/true", 2.0),
    ("exec true in a session", "/bin/true", 4.5),
    ("run_code over MCP", "/bin/true", 2.0),
    ("session, cell, delete", "bwrap /bin/true", 5.0),
)


def peers(bench):
    """{name: a function that runs it once, in milliseconds}; without bubblewrap its rows are left out."""
    programs = {"/bin/true": ["/bin/true"]}
    bwrap = shutil.which("bwrap")
    if bwrap:
        programs["bwrap /bin/true"] = [bwrap, *suites.BWRAP_ARGS, "/bin/true"]
        programs["bwrap python3"] = [bwrap, *suites.BWRAP_ARGS, *PYTHON]
    return {name: lambda name=name, argv=argv: bench.once(name, argv, dict(os.environ)) / 1e6
            for name, argv in programs.items()}


def measure(build, runs, rounds, calls):
    """{name: the median of the medians of its rounds}, ours and the peers'."""
    figures = {}
    for _ in range(rounds):
        for name, run in runs.items():
            figures.setdefault(name, []).append(statistics.median(run() for _ in range(calls)))
        for name, (work, share) in builds.KINDS.items():
            figures.setdefault(name, []).append(builds.once(build, work, max(10, int(calls * share))))
    return {name: statistics.median(values) for name, values in figures.items()}


def judge(figures):
    """[(name, ms, peer, its ms, ratio, limit)] of the rows that could be measured."""
    return [(name, figures[name], peer, figures[peer], figures[name] / figures[peer], limit)
            for name, peer, limit in ROWS if peer in figures]


def status_of(rows):
    return 1 if any(ratio > limit for *_, ratio, limit in rows) else 0


def main(rounds=5, calls=20):
    program = os.path.abspath(os.environ.get("BAILEY") or os.path.join(HERE, "..", "build", "bailey"))
    folder = tempfile.mkdtemp(prefix="bailey-check-")
    build = None
    try:
        build = builds.Build(program, os.path.join(folder, "state"))
        runs = peers(harness.Harness())
        rows = judge(measure(build, runs, int(rounds), int(calls)))
        if status_of(rows):
            print("a row is above its limit: measured once more", file=sys.stderr)
            again = judge(measure(build, runs, int(rounds), int(calls)))
            rows = [min(pair, key=lambda row: row[4]) for pair in zip(rows, again)]
    finally:
        if build:
            build.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if not shutil.which("bwrap"):
        print("bubblewrap is not installed (tools/setup bench): its rows are left out", file=sys.stderr)
    print(f"| {'median of medians':24} |     ms | {'beside':15} |     ms | ratio | limit |        |")
    print(f"|{'-' * 26}|-------:|{'-' * 17}|-------:|------:|------:|--------|")
    for name, ours, peer, theirs, ratio, limit in rows:
        verdict = "slower" if ratio > limit else "kept"
        print(f"| {name:24} | {ours:6.3f} | {peer:15} | {theirs:6.3f} | {ratio:5.2f} | {limit:5.1f} | {verdict:6} |")
    return status_of(rows)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
