"""soak.py - SOAK_RUNS runs (10000), and what is there before and after: for `make soak`.

Runs bailey from one long-lived parent, two at a time, in turns of every kind of ending, and
compares processes, mounts, cgroups, folders and the parent's descriptors. Prints a short report;
the exit status is 1 when anything is left or a run ended in another way than it should.
"""
import concurrent.futures
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import support  # noqa: E402  (the path has to be there first)

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


def main():
    runs = int(os.environ.get("SOAK_RUNS", "10000"))
    support.become_subreaper()
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
    support.remove_base()
    return 1 if wrong or left or more else 0


if __name__ == "__main__":
    sys.exit(main())
