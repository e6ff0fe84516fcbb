#!/usr/bin/python3
# boxes.py - what a box costs at the launcher, without a broker's or an interpreter's share: from MAKE
# to MADE, from END to ENDED, and how many a second, with the pool and without.
#
#   bench/boxes.py [BUILD_FOLDER] [--quick]
#
# The daemon is tests/broker_stub.c, whose broker does the asking. Back to back is a loop that does
# nothing with a box, so the pool has no time to be filled; "busy" leaves 5 ms between two, as much
# as a short run takes; "paced" is five a second. Asserts nothing; status 1 only if it did not run.
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 300
LATENCY = re.compile(r"made p50 (\d+) p99 (\d+) ended p50 (\d+) p99 (\d+) us, pooled (\d+)")
RATE = re.compile(r"(\d+) a second, pooled (\d+)")
POOLS = (0, 4)


class Daemon:
    """broker_stub in a folder of its own."""

    def __init__(self, program, pool):
        self.folder = tempfile.mkdtemp(prefix="bailey-bench-")
        state = os.path.join(self.folder, "state")
        os.mkdir(state, 0o700)
        self.path = os.path.join(state, "socket")
        self.process = subprocess.Popen([program, state, self.path], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, env={"POOL": str(pool)})
        if self.process.stdout.readline() != b"ready\n":
            sys.exit("the daemon did not start")

    def ask(self, line):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            client.connect(self.path)
            client.sendall(line.encode() + b"\n")
            return b"".join(iter(lambda: client.recv(4096), b"")).decode().strip()

    def end(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def measured(pattern, answer):
    found = pattern.search(answer)
    if not found:
        sys.exit("unexpected: " + answer)
    return [int(word) for word in found.groups()]


def latencies(daemon, title, pool, rounds, pause_ms):
    made, made_99, ended, ended_99, pooled = measured(
        LATENCY, daemon.ask("bench %d %d" % (rounds, pause_ms)))
    print("| %s | %d | %.2f | %.2f | %.2f | %.2f | %d of %d |" % (
        title, pool, made / 1000, made_99 / 1000, ended / 1000, ended_99 / 1000, pooled, rounds),
        flush=True)


def main():
    words = [word for word in sys.argv[1:] if word != "--quick"]
    scale = 1 if "--quick" in sys.argv else 10
    program = os.path.join(words[0] if words else os.path.join(HERE, "..", "build"), "broker_stub")
    print("| | pool | made p50 ms | p99 | ended p50 ms | p99 | from the pool |")
    print("|---|---|---|---|---|---|---|")
    rates = []
    for pool in POOLS:
        daemon = Daemon(os.path.abspath(program), pool)
        daemon.ask("bench 20 20")  # warm
        latencies(daemon, "back to back", pool, 200 * scale, 0)
        latencies(daemon, "busy", pool, 40 * scale, 5)
        latencies(daemon, "paced", pool, 5 * scale, 200)
        for width in (1, 4, 16):
            rates.append((pool, width, *measured(
                RATE, daemon.ask("flow %d %d" % (300 * scale, width)))))
        daemon.end()
    print("\n| at once | pool | boxes a second |\n|---|---|---|")
    for pool, width, rate, _ in sorted(rates, key=lambda row: row[1]):
        print("| %d | %d | %d |" % (width, pool, rate))


if __name__ == "__main__":
    main()
