#!/usr/bin/python3
# builds.py - by itself: two builds of Bailey beside each other, before and after a change.
#
#   bench/builds.py OLD NEW [ROUNDS [CALLS]]       OLD and NEW: the two programs `bailey`
#
# Each build serves from a state folder of its own. In every round both make the same CALLS calls of every
# kind, and who begins alternates; a round's figure is the median of its calls, a build's the median of its
# rounds. The allowance is 3 % or the spread of the old build's own rounds, whichever is more; a row beyond
# it says "slower" and the status is 1. Run it on a quiet machine: two builds at load 10 tell nothing.
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ALLOWED = 0.03


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("bailey")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Build:
    """A program and its daemon."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        os.mkdir(folder)
        socket_path = os.path.join(folder, "bailey", "engine.sock")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BAILEY_", "SANDBOX_"))}
        self.env = {**kept, "BAILEY_STATE_DIR": os.path.join(folder, "state"), "XDG_RUNTIME_DIR": folder,
                    "SANDBOX_LISTEN": "none"}
        os.mkdir(self.env["BAILEY_STATE_DIR"])
        with open(os.path.join(folder, "log"), "w") as log:
            self.process = subprocess.Popen([program, "serve"], env=self.env, stdout=log, stderr=log)
        self.connection = Connection(socket_path)
        until = time.monotonic() + 60
        while True:
            try:
                self.ask("GET", "/healthz")
                break
            except OSError:
                self.connection.close()
                if time.monotonic() > until or self.process.poll() is not None:
                    sys.exit(f"{program} does not serve; its log is {log.name}")
                time.sleep(0.05)
        while not all(one["ready"] for one in self.ask("GET", "/v1/warm")["zygotes"]):
            time.sleep(0.05)
        self.session = self.ask("POST", "/v1/sessions", {})["id"]
        self.cell()
        self.mcp = subprocess.Popen([program, "mcp"], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True)
        self.rpc("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": "bench", "version": "1"}})
        self.mcp.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.tool()

    def ask(self, method, target, body=None):
        headers = {"Content-Type": "application/json"} if body is not None else {}
        self.connection.request(method, target, None if body is None else json.dumps(body), headers)
        reply = self.connection.getresponse().read()
        return json.loads(reply) if reply else None

    def rpc(self, method, params):
        self.mcp.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
        self.mcp.stdin.flush()
        while True:
            reply = json.loads(self.mcp.stdout.readline())
            if reply.get("id") == 1:
                assert "result" in reply, reply
                return reply["result"]

    # --- what is measured

    def exec(self):
        subprocess.run([self.program, "exec", "--", "/bin/true"], env=self.env, check=True)

    def health(self):
        self.ask("GET", "/healthz")

    def missing(self):
        self.ask("GET", "/v1/sessions/none")

    def run(self):
        assert self.ask("POST", "/v1/run", {"code": "print(1)"})["stdout"] == "1\n"

    def cell(self):
        done = self.ask("POST", f"/v1/sessions/{self.session}/code", {"code": "print(1)"})
        assert done["stdout"] == "1\n", done

    def command(self):
        assert self.ask("POST", f"/v1/sessions/{self.session}/exec", {"argv": ["true"]})["exit_code"] == 0

    def life(self):
        made = self.ask("POST", "/v1/sessions", {})["id"]
        self.ask("POST", f"/v1/sessions/{made}/code", {"code": "1"})
        self.ask("DELETE", f"/v1/sessions/{made}")

    def tool(self):
        self.rpc("tools/call", {"name": "run_code", "arguments": {"code": "print(1)"}})

    def stop(self):
        self.mcp.stdin.close()
        self.mcp.wait()
        self.process.terminate()
        self.process.wait()


KINDS = {"exec -- /bin/true": (Build.exec, 1), "GET /healthz": (Build.health, 5), "a 404": (Build.missing, 5),
         "fresh Python over HTTP": (Build.run, 1), "cell over HTTP": (Build.cell, 5),
         "exec true in a session": (Build.command, 2), "session, cell, delete": (Build.life, 0.5),
         "run_code over MCP": (Build.tool, 5)}


def once(build, work, calls):
    times = []
    for _ in range(calls):
        begin = time.perf_counter_ns()
        work(build)
        times.append((time.perf_counter_ns() - begin) / 1e6)
    return statistics.median(times)


def main(old, new, rounds=5, calls=100):
    folder = tempfile.mkdtemp(prefix="bailey-builds-")
    figures = {name: ([], []) for name in KINDS}
    builds = []
    try:
        for program, name in ((old, "old"), (new, "new")):
            builds.append(Build(os.path.abspath(program), os.path.join(folder, name)))
        for turn in range(int(rounds)):
            for name, (work, share) in KINDS.items():
                for which in ((0, 1), (1, 0))[turn % 2]:
                    figures[name][which].append(once(builds[which], work, max(20, int(int(calls) * share))))
            print(f"round {turn + 1} of {rounds}", file=sys.stderr)
    finally:
        for build in builds:
            build.stop()
        shutil.rmtree(folder, ignore_errors=True)
    slower = 0
    print(f"| {'median of medians, ms':24} |    old |    new | ratio | allowed | verdict |")
    print(f"|{'-' * 26}|-------:|-------:|------:|--------:|---------|")
    for name, (before, after) in figures.items():
        first, second = statistics.median(before), statistics.median(after)
        allowed = 1 + max(ALLOWED, (max(before) - min(before)) / first)
        verdict = "slower" if second / first > allowed else "kept"
        slower += verdict == "slower"
        print(f"| {name:24} | {first:6.3f} | {second:6.3f} | {second / first:5.3f} | {allowed:7.3f} | {verdict:7} |")
    return 1 if slower else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: bench/builds.py OLD NEW [ROUNDS [CALLS]]")
    sys.exit(main(*sys.argv[1:]))
