#!/usr/bin/python3
# responses.py - what POST /v1/responses adds to the model server's own time, in the same run.
#
#   bench/responses.py [CALLS]          BAILEY=FILE: another program instead of build/bailey
#   BENCH_ONLY=responses bench/run      the same as a part of the bench
#
# The model server is the scripted one of the tests, in a process of its own. Each row asks it alone
# (plain Chat Completions, as many requests as the response makes) and through Bailey, by turns, and
# gives medians: what Bailey adds is the difference. The last row has 200 streams at once. Asserts
# nothing; the budget is 3 ms for a text answer and 6 ms with one code call in a live container.
import http.client
import json
import os
import statistics
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "tests"))

import model_server  # noqa: E402  (the path has to be there first)
from harness import Failed  # noqa: E402
from report import table  # noqa: E402

BUDGETS_MS = {"text": 3, "code": 6}
NOTE = """\
The model server is a scripted one in a process of its own. Each of %d rounds asks it alone, as often as the
response does, and through Bailey; the last column is what Bailey adds, storing the response included."""

TEXT = model_server.text("with ", "milk")
CODE = model_server.code("1+1", size=40)


class Client:
    def __init__(self, port, key=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.headers = {"Content-Type": "application/json"}
        if key:
            self.headers["Authorization"] = f"Bearer {key}"

    def ask(self, path, body):
        self.connection.request("POST", path, json.dumps(body), self.headers)
        reply = self.connection.getresponse()
        data = reply.read()
        assert reply.status == 200, data
        return data


def chat(messages, name):
    return {"model": name, "messages": messages, "stream": True,
            "stream_options": {"include_usage": True}}


USER = {"role": "user", "content": "Go"}
TURN = [USER, {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "call_1", "content": "2"}]


def compare(title, calls, alone, through):
    times = ([], [])
    for work in (alone, through):
        for _ in range(10):
            work()
    for _ in range(calls):
        for work, into in zip((alone, through), times):
            begin = time.perf_counter_ns()
            work()
            into.append((time.perf_counter_ns() - begin) / 1e6)
    return (title, *map(statistics.median, times))


def crowd(server, model, count=200):
    """All of them open before the first ends; the time from that moment to the last end."""
    model.script("crowd", [[{"begin": True}, {"wait": "crowd"}, *TEXT]])
    bad = []

    def one():
        client = Client(server.port, server.key)
        data = client.ask("/v1/responses", {"model": "crowd", "input": "Go", "stream": True})
        if b"response.completed" not in data:
            bad.append(data)
    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    while len(model.requests("crowd")) < count:
        time.sleep(0.05)
    begin = time.perf_counter()
    model.go("crowd")
    for thread in threads:
        thread.join()
    return count, count - len(bad), (time.perf_counter() - begin) * 1000


def gather(calls):
    """([(what, ms of the model server alone, ms through Bailey)], what crowd() gives)"""
    import tcp  # of the tests: it looks for the program when it is imported
    rows = []
    with model_server.Server() as model:
        model.script("text", [TEXT])
        model.script("code", [CODE, model_server.text("two")])
        with tcp.Server({"BAILEY_UPSTREAM_URL": model.url}) as server:
            alone, through = Client(model.port), Client(server.port, server.key)
            container = json.loads(through.ask("/v1/containers", {"name": "bench"}))["id"]
            tools = [{"type": "code_interpreter", "container": container}]

            def row(title, name, *turns, **more):
                def ask_alone():
                    for messages in turns:
                        alone.ask("/v1/chat/completions", chat(messages, name))

                def ask():
                    through.ask("/v1/responses", {"model": name, "input": "Go", **more})
                rows.append(compare(title, calls, ask_alone, ask))
            row("a text answer", "text", [USER])
            row("a text answer, streamed", "text", [USER], stream=True)
            row("a text answer, not stored", "text", [USER], store=False)
            row("one code call, live container", "code", [USER], TURN, tools=tools)
            row("one code call, streamed", "code", [USER], TURN, tools=tools, stream=True)
            return rows, crowd(server, model)


# ---- as a part of the bench ----

def measure(bench):
    bench.tell("responses: %d calls of each kind" % bench.response_calls)
    os.environ["BAILEY"] = bench.bailey
    try:
        measured = gather(bench.response_calls)
    except AssertionError as error:
        raise Failed("POST /v1/responses: %s" % error) from None
    count, complete, _ = measured[1]
    if complete < count:
        bench.harness.failures.append("responses: %d of %d streams" % (complete, count))
    return measured, bench.response_calls


def budgets(found):
    """Rows for the table of budgets."""
    for title, own, whole in found["responses"][0][0] if found.get("responses") else ():
        most = BUDGETS_MS["code" if "code" in title else "text"]
        yield ["POST /v1/responses, %s" % title, "p50 under %g ms beside the model server's" % most,
               "%.2f ms" % (whole - own), "met" if whole - own < most else "not met"]


def lines_of(rows, streams):
    count, complete, last_ms = streams
    return table(["median, ms", "the model server alone", "through Bailey", "added"],
                 [[title, "%.2f" % own, "%.2f" % whole, "%+.2f" % (whole - own)]
                  for title, own, whole in rows]) + [
        "", "%d streams at once: %d complete, the last %.0f ms after the model server went on." % (
            count, complete, last_ms)]


def render(found):
    if not found.get("responses"):
        return []
    measured, calls = found["responses"]
    return ["", "## POST /v1/responses", "", *lines_of(*measured), "", NOTE % calls]


if __name__ == "__main__":
    print("\n".join(lines_of(*gather(int(sys.argv[1]) if len(sys.argv) > 1 else 200))))
