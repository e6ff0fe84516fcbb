"""How often the broker parses and writes JSON for one call, counted in front of jansson by the
program bailey-engine-counted (tests/json_count.c).

A call has one parse, of the request, and one write, of the reply. What is counted apart, by the
function of the broker that asks for it:

  - the audit log's lines (audit_write),
  - the database row of an execution: argv and the cell's own column (execution_save,
    execution_record, cell_new, request_new),
  - the kernel's events, which are JSON lines of the guest (cell_event_parse).
"""
import bisect
import collections
import json
import shutil
import subprocess

import mcp_http
import pytest
import support
from serve import Daemon

ENGINE = support.BAILEY.parent / "bailey-engine-counted"
APART = {
    "audit": {"audit_write"},
    "row": {"execution_save", "execution_record", "cell_new", "session_cell", "request_new",
            "session_exec"},
    "kernel": {"cell_event_parse", "cell_event_within"},
}


def functions():
    """Where each function of the program begins, by its address."""
    listed = subprocess.run(["nm", "--defined-only", ENGINE], capture_output=True, text=True,
                            check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return sorted((int(address, 16), name.split(".")[0]) for address, kind, name in rows
                  if kind in "tT")


class Counter:
    """The lines of the daemon's log, with names instead of addresses."""

    def __init__(self, path):
        self.path, self.table = path, functions()
        self.addresses = [address for address, _ in self.table]
        self.at = 0

    def name(self, offset):
        return self.table[bisect.bisect_right(self.addresses, int(offset, 16)) - 1][1]

    def new(self):
        """(kind, callers) of what came since the last time."""
        text = self.path.read_text(errors="replace")
        lines, self.at = text[self.at:].splitlines(), len(text)
        return [(words[1], [self.name(offset) for offset in words[2:]])
                for words in (line.split() for line in lines) if words[:1] == ["json_count"]]

    def counted(self):
        """How often each kind of document was parsed or written, and who did what has no kind."""
        counts, calls = collections.Counter(), []
        for what, callers in self.new():
            kind = next((kind for kind, names in APART.items() if names & set(callers)), "call")
            counts[f"{kind} {what}"] += 1
            if kind == "call":
                calls.append((what, callers))
        return counts, calls


@pytest.fixture(scope="module")
def counted():
    """A daemon whose broker counts, and the counter."""
    support.need_sessions()
    room, bailey = support.Room(), support.BAILEY
    programs = room.path / "programs"
    programs.mkdir(mode=0o755)
    shutil.copy(bailey, programs / "bailey")
    shutil.copy(ENGINE, programs / "bailey-engine")
    support.BAILEY = programs / "bailey"
    try:
        with Daemon(room=room, env={"SANDBOX_POOL_SIZE": "0"}) as daemon:
            yield daemon, Counter(daemon.log)
    finally:
        support.BAILEY = bailey
        room.remove()


@pytest.fixture(autouse=True)
def ended(leaks, counted):
    yield
    for session in counted[0].get("/v1/sessions")["sessions"]:
        counted[0].end(session["id"])


def within_budget(counter):
    counts, calls = counter.counted()
    assert counts["call parse"] == 1, calls
    assert counts["call write"] == 1, calls
    return counts


def test_a_cell_over_rest(counted):
    daemon, counter = counted
    made = daemon.session()["id"]
    path = f"/v1/sessions/{made}/code"
    daemon.post(path, {"code": "x = 6"})  # the kernel is there from here on
    counter.new()
    reply = daemon.post(path, {"code": "x * 7"})
    assert reply["results"][0]["data"]["text/plain"] == "42"
    counts = within_budget(counter)
    assert counts["kernel parse"] >= 1 and counts["audit write"] >= 1 and counts["row write"] >= 1


def test_a_tool_over_mcp(counted):
    daemon, counter = counted
    client = mcp_http.Modern(daemon, is_local=True)
    first = client.call("sandbox_exec", {"command": ["echo", "one"], "session": "budget"})
    assert "one" in mcp_http.text_of(first)
    counter.new()
    second = client.call("sandbox_exec", {"command": ["echo", "two"], "session": "budget"})
    assert "two" in mcp_http.text_of(second)
    within_budget(counter)
    client.call("run_code", {"code": "x = 6", "session": "budget"})
    counter.new()
    third = client.call("run_code", {"code": "x * 7", "session": "budget"})
    assert "42" in mcp_http.text_of(third)
    within_budget(counter)


def test_a_tool_over_stdio(counted):
    daemon, counter = counted
    front = support.start("mcp", env=daemon.env, room=daemon.room, stdin=subprocess.PIPE)

    def call(number):
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call",
                   "params": {"name": "sandbox_exec",
                              "arguments": {"command": ["echo", f"n{number}"]}}}
        front.stdin.write((json.dumps(message) + "\n").encode())
        front.stdin.flush()
        answer = json.loads(front.stdout.readline())
        assert f"n{number}" in answer["result"]["content"][0]["text"]

    call(1)
    counter.new()
    call(2)
    within_budget(counter)
    front.communicate(timeout=support.PATIENCE)
