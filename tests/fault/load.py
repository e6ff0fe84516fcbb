"""load.py - work that continues in a daemon while its broker is killed again and again.

Each worker is a thread that remembers what it was promised (`promised`) and checks at the end that
it is so (`settle`). What a client may see in between is one of: the answer, a connection that
ended, or an error that says it may be tried again. Anything else is kept in `wrong`.
"""
import http.client
import random
import threading
import time

import serve
import support

# A command that writes until it is told to stop: numbered lines in bursts on both streams, so that
# a byte that is lost, doubled or in the wrong place shows.
COUNTER = r"""
import os, sys, time
n = 0
out, err = 1, 2
def all_of(stream, data):
    while data:
        data = data[os.write(stream, data):]
while not os.path.exists("/tmp/enough"):
    burst = 1 + n * 7919 % 400 if n < 1000000 else 1  # 16 MiB of a stream are kept
    all_of(out, b"".join(b"o %09d\n" % i for i in range(n, n + burst)))
    all_of(err, b"".join(b"e %09d\n" % i for i in range(n, n + burst, 10)))
    n += burst
    time.sleep(0.01)
all_of(out, b"end %d\n" % n)
sys.exit(7)
"""

LOST = (OSError, http.client.HTTPException)  # the connection ended before the answer was there
# What may be answered by a broker that has just begun, for work that its predecessor had.
RETRYABLE = {"engine", "shutting_down", "cancelled", "box_lost"}


def counted(data):
    """How many lines a counter wrote, if these are exactly its bytes; None otherwise."""
    head, _, tail = data.rpartition(b"end ")
    try:
        count = int(tail)
    except ValueError:
        return None
    return count if head == b"".join(b"o %09d\n" % i for i in range(count)) else None


def difference(data):
    """Where a counter's output is not what it wrote, for the message of a failure."""
    for number, line in enumerate(data.split(b"\n")):
        if line != b"o %09d" % number:
            return f"line {number} of {len(data)} bytes: {line[:60]!r}"
    return "no difference"


class Worker(threading.Thread):
    """Calls `turn` repeatedly until it is stopped; failures are kept, not lost in the thread."""

    def __init__(self, daemon, seed):
        super().__init__(daemon=True)
        self.server, self.random = daemon, random.Random(seed)
        self.wrong, self.turns, self.lost = [], 0, 0
        self.enough = threading.Event()

    def run(self):
        while not self.enough.is_set():
            try:
                self.turn()
                self.turns += 1
            except LOST:
                self.lost += 1
            except Exception as problem:  # shown by the test, which has no other way to know
                self.wrong.append(f"{type(self).__name__}: {problem!r}"[:1500])
                return

    def answered(self, reply, *statuses):
        """Whether it is one of these; an error that may be tried again counts as lost."""
        if reply.status in statuses:
            return True
        assert reply.error["code"] in RETRYABLE, reply
        self.lost += 1
        return False

    def turn(self):
        raise NotImplementedError

    def settle(self):
        """Called when brokers live again."""

    def patiently(self, ask):
        """Asks until there is an answer."""
        deadline = time.monotonic() + support.PATIENCE
        while True:
            try:
                return ask()
            except LOST:
                assert time.monotonic() < deadline, "no broker answers"
                time.sleep(0.02)


class Uploader(Worker):
    """Files that are replaced: what is there is one whole version, the promised one or a newer."""

    def __init__(self, daemon, seed, session):
        super().__init__(daemon, seed)
        self.session, self.path = session, f"/workspace/upload-{seed}"
        self.promised = self.sent = 0

    def content(self, version):
        return b"%08d" % version * (8 + version % 5 * 8192)

    def turn(self):
        self.sent += 1
        reply = self.server.call("PUT", f"/v1/sessions/{self.session}/files",
                                 self.content(self.sent), query={"path": self.path})
        if self.answered(reply, 200, 201, 204):
            self.promised = self.sent
        self.look()

    def look(self):
        reply = self.server.call("GET", f"/v1/sessions/{self.session}/files",
                                 query={"path": self.path})
        if self.promised == 0 and reply.status == 404:
            return
        if not self.answered(reply, 200):
            return
        version = int(reply.body[:8])
        assert self.promised <= version <= self.sent, (self.promised, version, self.sent)
        assert reply.body == self.content(version), f"half of version {version}"

    def settle(self):
        self.patiently(self.look)
        left = self.server.asked("GET", f"/v1/sessions/{self.session}/files/list",
                                 query={"path": "/workspace"})
        odd = [e["name"] for e in left.json()["entries"] if not e["name"].startswith("upload-")]
        assert not odd, f"left of uploads that failed: {odd}"


class Creator(Worker):
    """Sessions by name: promised ones are there, others wholly or not at all, and never twice."""

    def __init__(self, daemon, seed):
        super().__init__(daemon, seed)
        self.kept, self.unsure, self.ended = {}, set(), set()

    def turn(self):
        name = f"made-{self.random.getrandbits(40):010x}"
        if len(self.kept) >= 6:
            gone = self.random.choice(sorted(self.kept))
            self.unsure.add(gone)
            self.kept.pop(gone)
            if self.answered(self.server.call("DELETE", f"/v1/sessions/{gone}"), 200):
                self.unsure.discard(gone)
                self.ended.add(gone)
        self.unsure.add(name)
        reply = self.server.call("POST", "/v1/sessions", {
            "name": name, "env": {"NAME": name},
            "datasets": [{"name": f"d{i}", "content": name * 1000} for i in range(3)]})
        if self.answered(reply, 201):
            self.unsure.discard(name)
            self.kept[name] = reply.json()["id"]

    def settle(self):
        alive = self.patiently(lambda: self.server.get("/v1/sessions"))["sessions"]
        names = [s["name"] for s in alive if (s["name"] or "").startswith("made-")]
        assert len(set(names)) == len(names), f"doubled: {names}"
        assert set(self.kept) <= set(names), f"lost: {set(self.kept) - set(names)}"
        assert not self.ended & set(names), f"came back: {self.ended & set(names)}"
        assert set(names) <= set(self.kept) | self.unsure, names
        for session in alive:
            if session["name"] in names:  # whole: it works, and has what it was given
                assert self.kept.get(session["name"], session["id"]) == session["id"]
                done = self.server.exec(session["id"], "sh", "-c", "echo $NAME")
                assert done["stdout"] == session["name"] + "\n", done
                done = self.server.exec(session["id"], "sh", "-c", "wc -c < /tmp/data/d2.csv")
                assert done["stdout"].strip() == str(1000 * len(session["name"])), done
                assert len(session["datasets"]) == 3, session
                self.server.end(session["id"])


class Starter(Worker):
    """Commands that end by themselves, in the background; each prints a unique word.

    A session remembers its last 1000 commands (LIMIT_EXECUTIONS): no more are started than are
    remembered, however fast the machine is.
    """

    MOST = 900
    LINES = "".join(f"{i}\n" for i in range(1, 2001))

    def __init__(self, daemon, seed, session):
        super().__init__(daemon, seed)
        self.session, self.promised, self.words = session, {}, set()

    def turn(self):
        if len(self.words) == self.MOST:
            self.enough.wait()
            return
        word = f"w{self.random.getrandbits(40):010x}"
        self.words.add(word)
        reply = self.server.call("POST", f"/v1/sessions/{self.session}/exec", {
            "argv": ["sh", "-c", "seq 1 2000; exit 3", word], "background": True})
        if self.answered(reply, 202):
            self.promised[reply.json()["execution_id"]] = word
        self.enough.wait(0.1)  # hundreds, not thousands

    def settle(self):
        path = f"/v1/sessions/{self.session}/processes"
        listed = [p for p in self.patiently(lambda: self.server.get(path))["processes"]
                  if p["argv"][-1] in self.words]
        seen = {}
        for process in listed:
            word = process["argv"][-1]
            assert word not in seen, f"doubled: {process} and {seen[word]}"
            seen[word] = process
        ids = {p["execution_id"]: p["argv"][-1] for p in listed}
        assert len(ids) == len(listed)
        for execution, word in self.promised.items():
            assert ids.get(execution) == word, f"lost: {execution}"
        for execution in ids:
            self.check(execution)

    def check(self, execution):
        found = self.server.wait(execution)
        if found["state"] == "failed":  # it was never started, and says so
            assert found["error"]["code"] in RETRYABLE, found
            assert found["stdout_bytes"] == 0, found
            return
        assert found["exit_code"] == 3, found
        reply = self.server.output(execution, offset=0)
        assert reply.body.decode() == self.LINES, (execution, len(reply.body))


class Beginner(Worker):
    """A command that has to wait for its session's box: what was promised is known afterwards."""

    def __init__(self, daemon, seed):
        super().__init__(daemon, seed)
        self.promised = []

    def turn(self):
        reply = self.server.call("POST", "/v1/sessions", {})
        if not self.answered(reply, 201):
            return
        session = reply.json()["id"]
        reply = self.server.call("POST", f"/v1/sessions/{session}/exec", {
            "argv": ["sh", "-c", "echo begun"], "background": True})
        if self.answered(reply, 202):
            self.promised.append(reply.json()["execution_id"])
        if len(self.promised) > 5:
            self.check(self.promised[0])
            self.server.call("DELETE", "/v1/sessions/" + self.promised.pop(0).rpartition(".")[0])

    def check(self, execution):
        session = execution.rpartition(".")[0]
        reply = self.server.call("GET", f"/v1/sessions/{session}/processes/{execution}",
                                 query={"wait": 30})
        if not self.answered(reply, 200):
            raise OSError("again")
        found = reply.json()
        if found["state"] == "failed":
            assert found["error"]["code"] in RETRYABLE, found
        else:
            assert found["exit_code"] == 0 and found["stdout_bytes"] == 6, found

    def settle(self):
        for execution in self.promised:
            self.patiently(lambda: self.check(execution))


class Runner(Worker):
    """Commands that are waited for: the answer is right, or there is none."""

    def __init__(self, daemon, seed, session):
        super().__init__(daemon, seed)
        self.session, self.number = session, 0

    def turn(self):
        self.number += 1
        reply = self.server.call("POST", f"/v1/sessions/{self.session}/exec", {
            "argv": ["sh", "-c", f"cat; echo {self.number}"], "stdin": "in\n" * 100})
        if self.answered(reply, 200):
            result = reply.json()
            error = result["meta"].get("error")
            if error:
                assert error["code"] in RETRYABLE, result
            else:
                assert result["stdout"] == "in\n" * 100 + f"{self.number}\n", result
                assert result["exit_code"] == 0, result


class Stream(Worker):
    """A client that follows a counter and comes back where it was."""

    def __init__(self, daemon, seed, execution):
        super().__init__(daemon, seed)
        self.execution, self.last, self.exit = execution, None, None
        self.got = {"stdout": bytearray(), "stderr": bytearray()}  # added to without a copy

    def turn(self):
        session = self.execution.rpartition(".")[0]
        path = f"/v1/sessions/{session}/processes/{self.execution}/events"
        try:
            with self.server.events(path, last=self.last) as events:
                self.follow(events)
        except (AssertionError, ValueError) as problem:
            if "ended inside of an event" not in str(problem):  # a line that a kill cut
                raise
        self.lost += 1

    def follow(self, events):
        for event in events:
            if event.type in self.got:
                assert event.data["offset"] == len(self.got[event.type]), (event, self.last)
                self.got[event.type] += serve.decoded(event.data)
            elif event.type == "exit":
                self.exit = event.data
                self.enough.set()
                return
            self.last = event.id or self.last


class Terminal(Worker):
    """Resizes a command with a terminal, which writes all the time."""

    def __init__(self, daemon, seed, execution):
        super().__init__(daemon, seed)
        self.execution = execution

    def turn(self):
        session = self.execution.rpartition(".")[0]
        reply = self.server.call(
            "POST", f"/v1/sessions/{session}/processes/{self.execution}/resize",
            {"rows": self.random.randint(1, 200), "columns": self.random.randint(1, 200)})
        if reply.status == 409:  # it never ends by itself: say how it did
            path = f"/v1/sessions/{session}/processes/{self.execution}"
            found = self.server.get(path)
            said = self.server.call("GET", path + "/output").body[-300:]
            raise AssertionError(f"the command on a terminal ended: {found} {said!r}")
        self.answered(reply, 200, 204)
        self.enough.wait(0.05)
