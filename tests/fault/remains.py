"""remains.py - what a daemon has, counted before and after many fresh boxes: for soak.py and the bench.

Looks at one daemon only, so that others on this machine do not matter: its processes, their
descriptors, its control groups, its folders, mounts, and its zygotes' memory.
"""
import os
import threading
import time

SETTLED_WITHIN_S = 30
QUIET_S = 0.5
CLIENTS = 4
GROWTH_MAX = 1 << 20  # of a zygote's private memory: what a page table and a few slabs make of it


def children(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        pass
    return found


def words_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def zygotes(launcher):
    """{pid: tier} of this launcher's."""
    found = {}
    for pid in children(launcher):
        words = words_of(pid)
        if len(words) > 2 and words[1].endswith(b"zygote.py") and words[2].isdigit():
            found[pid] = int(words[2])
    return found


def memory_of(pid):
    """Anonymous memory in bytes; how much of it is private changes with the children that share it."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
    return 0


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def group_folders(pid):
    """Where the control groups of this process are, in whatever hierarchies there are."""
    with open(f"/proc/{pid}/cgroup") as file:
        groups = [line.rstrip("\n").split(":", 2) for line in file]
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    for _, controllers, path in groups:
        for words in mounts:
            kind, _, options = words[words.index("-") + 1:][:3]
            is_it = kind == "cgroup2" if not controllers else \
                kind == "cgroup" and controllers in (options, *options.split(",")) or \
                kind == "cgroup" and set(controllers.split(",")) <= set(options.split(","))
            if is_it and os.path.isdir(words[4] + path):
                yield words[4] + path
                break


def box_groups(launcher):
    """Control groups of boxes, beside and below those of the launcher."""
    seen = set()
    for folder in group_folders(launcher):
        top = os.path.dirname(folder)
        if "bailey" not in os.path.basename(top):
            top = folder
        if "bailey" in top:
            seen |= {name for name, _, _ in os.walk(top)}
    return len(seen)


def mounts(pid):
    """Of the mount namespace that this process has."""
    with open(f"/proc/{pid}/mountinfo") as file:
        return sum(1 for _ in file)


def folders(state, is_ahead):
    """Entries of the folders in which a box may have one: of prewarmed boxes, or of all others."""
    count = 0
    for name in ("data", "packages", "output", "artifacts"):
        path = os.path.join(state, name)
        if os.path.isdir(path):
            count += sum(entry.startswith("p_") == is_ahead for entry in os.listdir(path))
    return count


def of_each(function, pids):
    """{pid: answer} of those that are still there: one that was replaced may go at any time."""
    found = {}
    for pid in pids:
        try:
            found[pid] = function(pid)
        except OSError:
            continue
    return found


class Look:
    """What there is now. The connection that asks stays while it is counted: one that was just closed
    the broker may have for a moment still, and then it would seem to have one more than before."""

    def __init__(self, serve):
        with serve.connect() as connection:
            self.count(serve, connection.ask("GET", "/v1/info"))

    def count(self, serve, info):
        launcher, broker = info["launcher_pid"], info["broker_pid"]
        self.zygote_pids = zygotes(launcher)
        self.counts = {
            "processes below the launcher": len(children(launcher)),
            "kernels of zygotes": sum(len(children(pid)) for pid in self.zygote_pids),
            "descriptors of the launcher": descriptors(launcher),
            "descriptors of the broker": descriptors(broker),
            "descriptors of a zygote, at most": max(
                of_each(descriptors, self.zygote_pids).values(), default=0),
            "control groups": box_groups(launcher),
            "mounts": mounts(launcher),
            "folders of boxes": folders(serve.state, False),
            "folders of boxes made ahead": folders(serve.state, True),
        }
        self.memory = of_each(memory_of, self.zygote_pids)


class Soak:
    def __init__(self):
        self.runs = self.wrong = self.pooled = self.cold = 0
        self.seconds = 0.0
        self.before = self.after = None
        self.memory = {}  # zygote: its memory at the begin, after each thousand, at the end
        self.growth = {}  # zygote: bytes between the first and the last
        self.left = []


def run_many(serve, codes, runs, soak, tell=None):
    """Four clients at once; `tell` is called with the count after each thousand runs."""
    lock = threading.Lock()

    def work(numbers):
        with serve.connect() as connection:
            for number in numbers:
                done = connection.ask("POST", "/v1/run", {"code": codes[number % len(codes)]})
                with lock:
                    soak.runs += 1
                    soak.wrong += done["stdout"] != "Hello\n" or done["exit_code"] != 0
                    soak.pooled += done["meta"]["warm"] == "pool"
                    soak.cold += done["meta"]["warm"] == "cold"
                    if tell and soak.runs % 1000 == 0:
                        tell(soak.runs)

    threads = [threading.Thread(target=work, args=(range(i, runs, CLIENTS),))
               for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def settle(serve, before=None):
    """(look, what is left) once the pool is filled and nothing changes any more. Its size follows the
    demand, so boxes and what each of them has are not compared."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    last = None
    while True:
        now = Look(serve)
        left = compare(before, now) if before else []
        is_quiet = last is not None and now.counts == last.counts and \
            now.counts["kernels of zygotes"] == boxes(now)
        if (is_quiet and not left) or time.monotonic() > deadline:
            return now, left
        last = now
        time.sleep(QUIET_S)


def boxes(look):
    """Of the launcher's children: neither broker nor zygote."""
    return look.counts["processes below the launcher"] - len(look.zygote_pids) - 1


def compare(before, now):
    """What there is more of than the difference in boxes explains; [] when nothing is left."""
    more = max(0, boxes(now) - boxes(before))
    each = {"processes below the launcher": 1, "kernels of zygotes": 1,
            "descriptors of the launcher": 4, "control groups": 4, "folders of boxes": 2}
    once = {"descriptors of the broker": 2}  # connections of clients that have just gone
    zygotes_more = max(0, len(now.zygote_pids) - len(before.zygote_pids))
    left = []
    for name, count in now.counts.items():
        allowed = before.counts[name] + more * each.get(name, 0) + once.get(name, 0)
        if "launcher" in name:
            allowed += 2 * zygotes_more  # one that is replaced lives until its last kernel has gone
        if name.endswith("made ahead"):
            allowed = 2 * boxes(now)  # how many of them are for sessions follows the demand
        if count > allowed:
            left.append(f"{name}: {before.counts[name]} before, {count} after ({more} boxes more)")
    return left


def soak(serve, codes, runs, tell=None):
    """Runs fresh boxes in four clients at once; Soak reports what was left. Some runs come before: then the
    zygote is running, and one-time allocations are done."""
    found = Soak()
    run_many(serve, codes, min(500, max(50, runs // 4)), Soak())
    found.before, _ = settle(serve)

    def note(count):
        for pid, size in Look(serve).memory.items():
            found.memory.setdefault(pid, []).append(size)
        if tell:
            tell(count)

    note(0)
    begin = time.monotonic()
    run_many(serve, codes, runs, found, note)
    found.seconds = time.monotonic() - begin
    found.after, found.left = settle(serve, found.before)
    note(runs)
    found.growth = {pid: sizes[-1] - sizes[0] for pid, sizes in found.memory.items()}
    return found
