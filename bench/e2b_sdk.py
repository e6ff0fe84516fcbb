#!/usr/bin/python3
# e2b_sdk.py - calls of E2B's Python package at Bailey's E2B door, beside the same call over Bailey's REST.
#
#   bench/e2b_sdk.py [CALLS]          BAILEY=FILE: another program instead of build/bailey
#   BENCH_ONLY=e2b bench/run      the same as a part of the bench
#
# The package (a row of tools/interop-setup) needs an interpreter of its own: this file runs itself
# with that one, `e2b_sdk.py --client CALLS`, and gets its rows as JSON. A row makes both calls by turns
# and gives medians. Asserts nothing; the budgets are 10 ms for Sandbox.create(), 3 ms for
# run_code("1") and 5 ms for commands.run("true").
import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "tests"), os.path.join(HERE, "..", "tests", "interop")]

BUDGETS_MS = {"Sandbox.create()": 10, 'run_code("1")': 3, 'commands.run("true")': 5}
CROWD = 100
BYTES = 10 * 1000 * 1000
NOTE = """\
Medians of %d calls by turns, over TCP with a key. REST makes a session's box with its first command; E2B's door at once,
so a session and a command stand beside `Sandbox.create()`. `files.write` and `files.read` move 10 MB. E2B writes of its
own service that a sandbox starts in under 200 ms in the client's region: a number of theirs, from their pages, for
another kind of machine."""


# ---- with the package ----

class Rest:
    def __init__(self, port, key):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.headers = {"Authorization": f"Bearer {key}"}

    def ask(self, method, path, body=None):
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        self.connection.request(method, path, data, {**self.headers, "Content-Type": kind})
        reply = self.connection.getresponse()
        told = reply.read()
        assert reply.status < 300, told
        return told


def timed(work):
    """Milliseconds, and what it gave."""
    begin = time.perf_counter_ns()
    made = work()
    return (time.perf_counter_ns() - begin) / 1e6, made


def compare(title, calls, rest, sdk, after=lambda made: None):
    """(title, ms over REST, ms with the package); `after` is not timed."""
    times = ([], [])
    for count in range(calls + 5):
        for work, into in zip((rest, sdk), times):
            ms, made = timed(work)
            after(made)
            if count >= 5:
                into.append(ms)
    return (title, *map(statistics.median, times))


def crowd(sandbox_class):
    """How many of 100 sandboxes at once ran code, and milliseconds until the last did."""
    good, begin = [], time.perf_counter()

    def one():
        made = sandbox_class.create()
        if made.run_code("6 * 7").text == "42":
            good.append(made)
    threads = [threading.Thread(target=one) for _ in range(CROWD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = (time.perf_counter() - begin) * 1000
    for made in good:
        made.kill()
    return CROWD, len(good), took


def client(calls):
    from e2b_code_interpreter import Sandbox
    rest = Rest(int(os.environ["BENCH_PORT"]), os.environ["E2B_API_KEY"])
    blob = os.urandom(BYTES)

    def make():
        made = json.loads(rest.ask("POST", "/v1/sessions", {}))["id"]
        rest.ask("POST", f"/v1/sessions/{made}/exec", {"argv": ["true"]})
        return made

    def end(made):
        rest.ask("DELETE", f"/v1/sessions/{made if isinstance(made, str) else 's_' + made.sandbox_id}")
    rows = [compare("Sandbox.create()", calls, make, Sandbox.create, end)]
    sandbox, session = Sandbox.create(), make()
    here = f"/v1/sessions/{session}"

    def move():
        rest.ask("PUT", here + "/files?path=/tmp/blob", blob)
        assert rest.ask("GET", here + "/files?path=/tmp/blob") == blob

    def move_by_sdk():
        sandbox.files.write("/tmp/blob", blob)
        assert sandbox.files.read("/tmp/blob", format="bytes") == blob
    rows.append(compare('run_code("1")', calls, lambda: rest.ask("POST", here + "/code", {"code": "1"}),
                        lambda: sandbox.run_code("1")))
    rows.append(compare('commands.run("true")', calls, lambda: rest.ask(
        "POST", here + "/exec", {"argv": ["/bin/bash", "-l", "-c", "true"]}), lambda: sandbox.commands.run("true")))
    rows.append(compare("files.write, files.read", max(calls // 10, 3), move, move_by_sdk))
    end(session)
    sandbox.kill()
    print(json.dumps([rows, crowd(Sandbox)]))


# ---- with the server ----

def gather(calls):
    """(rows of compare(), what crowd() gives)"""
    import e2b_kit  # of the tests: it looks for the program when it is imported
    import sdk_server
    python = sdk_server.interop_cache("e2b-py-new") / "e2b-py-new" / "bin" / "python"
    with e2b_kit.E2bServer({"SANDBOX_MAX_SESSIONS": str(CROWD + 10)}) as server:
        done = subprocess.run([python, os.path.abspath(__file__), "--client", str(calls)], text=True,
                              env=server.environment(BENCH_PORT=str(server.port)), capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]
    rows, streams = json.loads(done.stdout)
    return [tuple(row) for row in rows], tuple(streams)


def measure(bench):
    from harness import Failed
    bench.tell("E2B's package: %d calls of each kind" % bench.e2b_calls)
    os.environ["BAILEY"] = bench.bailey
    try:
        measured = gather(bench.e2b_calls)
    except BaseException as error:  # pytest's skip is none of Exception
        raise Failed("E2B's package: %s" % error) from None
    count, complete, _ = measured[1]
    if complete < count:
        bench.harness.failures.append("E2B's package: %d of %d sandboxes" % (complete, count))
    return measured, bench.e2b_calls


def budgets(found):
    """Rows for the table of budgets."""
    for title, _, ms in found["e2b"][0][0] if found.get("e2b") else ():
        if title in BUDGETS_MS:
            yield ["E2B's package, %s" % title, "p50 under %g ms" % BUDGETS_MS[title], "%.2f ms" % ms,
                   "met" if ms < BUDGETS_MS[title] else "not met"]


def lines_of(rows, streams):
    from report import table
    return table(["median, ms", "over REST", "E2B's package"],
                 [[title, "%.2f" % rest, "%.2f" % sdk] for title, rest, sdk in rows]) + [
        "", "%d sandboxes at once, each with a cell: %d complete, the last after %.0f ms." % streams]


def render(found):
    if not found.get("e2b"):
        return []
    measured, calls = found["e2b"]
    return ["", "## E2B's package", "", *lines_of(*measured), "", NOTE % calls]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client(int(sys.argv[2]))
    else:
        print("\n".join(lines_of(*gather(int(sys.argv[1]) if len(sys.argv) > 1 else 100))))
