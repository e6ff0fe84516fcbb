"""soak.py - SOAK_RUNS runs (10000), and what is there before and after: for `make soak`.

Runs bailey from one long-lived parent, two at a time, in turns of every kind of ending, and
compares processes, mounts, cgroups, folders and the parent's descriptors. Then as many fresh boxes
from the pool of a daemon, and what it has before and after, the memory of its zygotes too
(remains.py). Then two daemons in two pid namespaces at once, a fifth of the runs each (neighbour.py).
SOAK_ONLY=command, pool or two: one of them. Prints a short report; the exit status is 1 when anything
is left or a run ended in another way than it should.
"""
import concurrent.futures
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]
import neighbour  # noqa: E402  (the path has to be there first)
import own  # noqa: E402
import peers  # noqa: E402
import remains  # noqa: E402
import serve  # noqa: E402
import support  # noqa: E402

# argv of each kind, and the status it must have.
KINDS = (
    (("exec", "--", "/bin/true"), 0),
    (("exec", "--", "/bin/false"), 1),
    (("exec", "--", "/bin/sh", "-c", "kill -9 $$"), 137),
    (("exec", "--", "/bin/sh", "-c", "sleep 600 & setsid sleep 600 & exit 5"), 5),
    (("exec", "--json", "--", "/nowhere/none"), 127),
    (("exec", "--", "/bin/sh", "-c", "head -c 300000 /dev/zero"), 0),
    (("run", "-c", "print('Hello')"), 0),
)
RARE = ((("exec", "--timeout", "1", "--", "/bin/sleep", "600"), 124),)  # costs a second each


def kind_of(number):
    return RARE[0] if number % 500 == 499 else KINDS[number % len(KINDS)]


def once(number, room):
    args, wanted = kind_of(number)
    done = subprocess.run(support.command(*args), env=support.environment(
        room, {"SANDBOX_STORE_CODE": "never"}), cwd=room.work, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
    if done.returncode != wanted:
        return f"run {number} ({' '.join(args)}): status {done.returncode}, not {wanted}: " \
               f"{done.stderr[-300:]!r}"
    return None


def descriptors():
    return {name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{name}")}


def soak_command(runs):
    """Nothing but the command line; 1 when something is wrong."""
    room = support.Room()
    once(0, room)
    before, fds = support.snapshot(), descriptors()
    started, wrong = time.monotonic(), []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, problem in enumerate(pool.map(lambda n: once(n, room), range(runs))):
            if problem:
                wrong.append(problem)
            if (number + 1) % 1000 == 0:
                print(f"{number + 1} runs, {len(wrong)} wrong", flush=True)
    seconds = time.monotonic() - started
    left = support.left_since(before, patience=10)
    fds_now = descriptors()
    more = sorted(f"descriptor {fd}: {to}" for fd, to in fds_now.items() if fd not in fds)
    print(f"soak: {runs} runs in {seconds:.0f} s ({1000 * seconds / max(runs, 1):.1f} ms each), "
          f"{len(wrong)} wrong")
    for kind in ("process", "mount", "cgroup", "folder", "in TMPDIR"):
        print(f"  {kind:10} left: {sum(one.startswith(kind) for one in left)}")
    print(f"  descriptors of the parent: {len(fds)} before, {len(fds_now)} after")
    for line in (wrong + left + more)[:20]:
        print("  " + line)
    room.remove()
    return 1 if wrong or left or more else 0


class Served:
    """A daemon as remains.py wants it."""

    def __init__(self, daemon):
        self.socket, self.state = str(daemon.socket), str(daemon.state)

    def connect(self):
        return peers.Connection(self.socket)


def soak_pool(runs):
    """Fresh boxes of one daemon; 1 when it has more afterwards, or a zygote has grown."""
    before = support.snapshot()
    with serve.Daemon({"SANDBOX_POOL_SIZE": "8", "SANDBOX_STORE_CODE": "never"}) as daemon:
        found = remains.soak(Served(daemon), ["print('Hello')"], runs,
                             lambda count: count and print(f"{count} boxes", flush=True))
    left = found.left + support.left_since(before, patience=10)
    left += [f"zygote {pid}: {grown} bytes more" for pid, grown in found.growth.items()
             if grown > remains.GROWTH_MAX]
    print(f"soak: {found.runs} boxes in {found.seconds:.0f} s "
          f"({found.runs / max(found.seconds, 0.001):.0f} a second), {found.wrong} wrong, "
          f"{found.pooled} from the pool, {found.cold} cold")
    for name, count in found.before.counts.items():
        print(f"  {name:34} {count:5} before, {found.after.counts[name]:5} after")
    for pid, grown in found.growth.items():
        print(f"  memory of zygote {pid}: {grown / 1e6:+.2f} MB (of {found.memory[pid][0] / 1e6:.1f})")
    for line in left[:20]:
        print("  " + line)
    return 1 if found.wrong or left else 0


def soak_two(runs):
    """Two that do not see each other's processes, over the same control groups."""
    before, started = support.snapshot(), time.monotonic()
    both = [neighbour.Neighbour(runs), neighbour.Neighbour(runs)]
    for one in both:
        one.begin()
    found = [one.wait(runs * 2 + 600) for one in both]
    support.reap_orphans()
    left = support.left_since(before, patience=10)
    wrong = sum(one["wrong"] for one in found)
    print(f"soak: two pid namespaces, {' and '.join(str(one['runs']) for one in found)} runs in "
          f"{time.monotonic() - started:.0f} s, {wrong} wrong, {len(left)} left")
    for line in [line for one in found for line in one["shown"]] + left[:20]:
        print("  " + line)
    return 1 if wrong or left or any(one["runs"] != runs for one in found) else 0


def main():
    runs = int(os.environ.get("SOAK_RUNS", "10000"))
    only = os.environ.get("SOAK_ONLY")
    status = 0
    own.settle()
    if only in (None, "", "command"):
        status |= soak_command(runs)
    if only in (None, "", "pool"):
        status |= soak_pool(runs)
    if only in (None, "", "two"):
        status |= soak_two(runs // 5)
    own.leave()
    support.remove_base()
    return status


if __name__ == "__main__":
    sys.exit(main())
