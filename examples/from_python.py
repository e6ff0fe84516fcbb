#!/usr/bin/env python3
# from_python.py - runs agent-written code from a Python program and acts on the one result.
#
#   BAILEY=build/bailey examples/from_python.py
import json
import os
import subprocess

BAILEY = os.environ.get("BAILEY", "bailey")


def run_python(code, timeout=10):
    """The one result of a run. It is there for every ending; only a broken bailey has none."""
    done = subprocess.run(
        [BAILEY, "run", "--json", "--timeout", str(timeout), "--memory", "256m", "-"],
        input=code.encode(), stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def describe(result):
    meta = result["meta"]
    if "error" in meta:
        return f"not run: {meta['error']['message']}"
    if meta["timed_out"]:
        return f"timed out, after printing {result['stdout']!r}"
    if meta["oom_killed"]:
        return f"out of memory (limit {meta['resource_limits']['memory_bytes'] >> 20} MB)"
    if result["exit_code"] != 0:
        return "failed: " + result["stderr"].strip().splitlines()[-1]
    return f"printed {result['stdout']!r}"


for code in ("print(sum(range(10)))",
             "print(1 / 0)",
             "print('so far', flush=True)\nwhile True: pass",
             "x = bytearray(10**9)",
             "import socket\nsocket.create_connection(('example.com', 80))"):
    result = run_python(code, timeout=1)
    print(f"{result['meta']['isolation']['level']:<9} {describe(result)}")
