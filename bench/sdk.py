#!/usr/bin/python3
# sdk.py - by itself: what the Python client adds to a call over plain http.client, in the same run.
#
#   bench/sdk.py [CALLS]          BAILEY=FILE: another program instead of build/bailey
#
# Both keep one connection to the same daemon's unix socket and make the same request; plain http.client
# parses the JSON too, because every user of it does. The rows of C are libbailey beside bytes on the socket (sdk_calls.c). Calls alternate one by one, so that whatever else
# the machine does meets both; rows are medians, because a neighbour's burst is no cost of ours. The two
# last rows are the CPU time of `import bailey` and of loading the blocking classes. Asserts nothing.
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

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "clients", "python", "src")
sys.path.insert(0, SOURCE)

import bailey  # noqa: E402  (the path has to be there first)

IMPORT = ("import time; t = time.process_time(); import bailey; a = time.process_time() - t; bailey.Sandbox;"
          "print(a * 1000, (time.process_time() - t) * 1000)")


class Plain(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("bailey")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def ask(self, method, target, body=None):
        headers = {"Content-Type": "application/json"} if body else {}
        self.request(method, target, json.dumps(body).encode() if body else None, headers)
        return json.loads(self.getresponse().read())


def compare(name, calls, plain, ours):
    times = ([], [])
    for work in (plain, ours):
        for _ in range(20):
            work()
    for _ in range(calls):
        for work, into in zip((plain, ours), times):
            begin = time.perf_counter_ns()
            work()
            into.append((time.perf_counter_ns() - begin) / 1e6)
    raw, sdk = map(statistics.median, times)
    print(f"| {name:24} | {raw:8.3f} | {sdk:8.3f} | {sdk - raw:+8.3f} | {sdk / raw:5.2f} |")


def measure(path, calls):
    plain = Plain(path)
    with bailey.Sandbox(url=f"unix://{path}") as sandbox:
        here = f"/v1/sessions/{sandbox.id}"
        sandbox.run_code("1")
        print("| median, ms               |    plain |      SDK |    added | ratio |")
        print("|--------------------------|---------:|---------:|---------:|------:|")
        compare("GET a session", calls, lambda: plain.ask("GET", here), sandbox.info)
        compare("a cell: 1+1", calls, lambda: plain.ask("POST", here + "/code", {"code": "1+1"}),
                lambda: sandbox.run_code("1+1"))
        compare("a command: true", calls, lambda: plain.ask("POST", here + "/exec", {"argv": ["true"]}),
                lambda: sandbox.commands.run(["true"]))
    plain.close()


def measure_c(path, program, scratch, calls):
    """libbailey beside HTTP written to the socket, if the library is built."""
    library = os.path.join(os.path.dirname(program), "src", "lib", "libbailey.so.0")
    if not os.path.exists(library):
        print("\nlibbailey is not built beside", program)
        return
    caller = scratch + "/sdk_calls"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-I" + os.path.join(HERE, "..", "include"), os.path.join(HERE, "sdk_calls.c"),
                    "-o", caller, library, "-Wl,-rpath," + os.path.dirname(library)], check=True)
    sys.stdout.flush()
    subprocess.run([caller, path, str(calls)], check=True)


def measure_import(scratch):
    env = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONPYCACHEPREFIX": scratch}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    rows = [subprocess.run([sys.executable, "-c", IMPORT], env=env, check=True, capture_output=True,
                           text=True).stdout.split() for _ in range(11)]
    lazy, whole = (statistics.median(float(row[at]) for row in rows[1:]) for at in (0, 1))
    print(f"\nimport bailey: {lazy:.1f} ms of CPU; with the blocking classes loaded: {whole:.1f} ms")


def main():
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    program = os.path.abspath(os.environ.get("BAILEY") or os.path.join(HERE, "..", "build", "bailey"))
    scratch = tempfile.mkdtemp(prefix="by-")
    env = {**os.environ, "BAILEY_STATE_DIR": scratch + "/s", "XDG_RUNTIME_DIR": scratch + "/r",
           "SANDBOX_LISTEN": "none"}
    os.mkdir(scratch + "/r", 0o700)
    try:
        subprocess.run([program, "session", "ls"], env=env, check=True, stdout=subprocess.DEVNULL)
        measure(scratch + "/r/bailey/engine.sock", calls)
        measure_c(scratch + "/r/bailey/engine.sock", program, scratch, calls)
        measure_import(scratch + "/pyc")
    finally:
        subprocess.run([program, "daemon", "stop", "--force"], env=env, check=False)
        shutil.rmtree(scratch, ignore_errors=True)


main()
