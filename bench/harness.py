# harness.py - starts programs, times them, interleaves them, and does the arithmetic. Knows nothing
# about what is measured.
#
# A sample is the time from just before posix_spawn to the return of wait4. Both ends are the same
# for every program, so what the harness adds is in every row: the row of a bare /bin/true shows it.
import gc
import os
import random
import tempfile
import threading
import time

PACE_S = 0.2  # paced: a start every 200 ms, 5 a second, so that each one meets an idle kernel
SAMPLE_MEMORY_S = 0.005


class Failed(Exception):
    """A program that should have run did not."""


class Variant:
    """One program of an interleaved set."""

    def __init__(self, name, argv, env, role=None):
        self.name = name
        self.argv = argv
        self.env = env
        self.role = role  # "bailey", "bwrap" or "plain": what ratios are made of


class Harness:
    def __init__(self):
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.errors = tempfile.TemporaryFile()  # standard error of whatever runs
        self.failures = []
        self.order = random.Random(1)

    def spawn(self, argv, env, stdout=None, stdin=None):
        stdin = self.null if stdin is None else stdin
        stdout = self.null if stdout is None else stdout
        actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1),
                   (os.POSIX_SPAWN_DUP2, self.errors.fileno(), 2)]
        return os.posix_spawn(argv[0], argv, env, file_actions=actions)

    def forget_errors(self):
        self.errors.seek(0)
        self.errors.truncate()

    def read_errors(self):
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace").strip()

    def check(self, name, status):
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            raise Failed("%s ended with %d: %s" % (name, code, self.read_errors() or "no message"))

    def once(self, name, argv, env):
        """Nanoseconds of one run; Failed if it did not end with 0."""
        begin = time.perf_counter_ns()
        pid = self.spawn(argv, env)
        _, status, _ = os.wait4(pid, 0)
        end = time.perf_counter_ns()
        if status != 0:
            self.check(name, status)
        return end - begin

    def usable(self, variants):
        """Those that run at all; the others are failures, told once. Also warms caches."""
        good = []
        for variant in variants:
            try:
                self.forget_errors()
                for _ in range(3):
                    self.once(variant.name, variant.argv, variant.env)
                good.append(variant)
            except (Failed, OSError) as error:
                self.failures.append(str(error))
        return good

    def interleave(self, variants, rounds, is_paced):
        """{name: [ns of each round]}. Each round runs each variant once, in an order drawn anew, so
        that noise, and what one leaves to the kernel to clean up, hits all of them alike. A round
        in which one failed counts for none: the lists stay comparable element by element."""
        samples = {variant.name: [] for variant in variants}
        pace = Pace(is_paced)
        gc.collect()
        gc.disable()
        try:
            for _ in range(rounds):
                drawn = list(variants)
                self.order.shuffle(drawn)
                taken = {}
                for variant in drawn:
                    pace.wait()
                    try:
                        taken[variant.name] = self.once(variant.name, variant.argv, variant.env)
                    except Failed as error:
                        self.failures.append(str(error))
                        self.forget_errors()
                if len(taken) == len(variants):
                    for name, ns in taken.items():
                        samples[name].append(ns)
        finally:
            gc.enable()
        return samples

    def watched(self, name, argv, env, stdout=None):
        """(nanoseconds, peak bytes of the program, peak bytes of its children) of one run.

        The peak is VmHWM, looked at while the program runs. ru_maxrss would be wrong twice: it
        counts the harness's own pages, which the program had until exec, and those of every
        descendant, so the guest's too."""
        peak = PeakMemory()
        self.forget_errors()
        begin = time.perf_counter_ns()
        pid = self.spawn(argv, env, stdout)
        peak.start(pid)
        _, status, _ = os.wait4(pid, 0)
        end = time.perf_counter_ns()
        peak.stop()
        self.check(name, status)
        return end - begin, peak.own, peak.children

    def piped(self, name, argv, reader, env):
        """Nanoseconds of `argv | reader > /dev/null`."""
        self.forget_errors()
        out, into = os.pipe()
        begin = time.perf_counter_ns()
        pids = [self.spawn(argv, env, stdout=into), self.spawn(reader, env, stdin=out)]
        os.close(out)
        os.close(into)
        statuses = [os.wait4(pid, 0)[1] for pid in pids]
        end = time.perf_counter_ns()
        for status in statuses:
            self.check(name, status)
        return end - begin


class Pace:
    """Waits for the next tick; a program that outlives its tick moves the ones after it."""

    def __init__(self, is_paced):
        self.is_paced = is_paced
        self.next = time.monotonic() + PACE_S

    def wait(self):
        if not self.is_paced:
            return
        now = time.monotonic()
        if now < self.next:
            time.sleep(self.next - now)
        self.next = max(self.next, now) + PACE_S


class PeakMemory:
    """A thread that follows VmHWM of a process and of its direct children."""

    def __init__(self):
        self.own = 0
        self.children = 0
        self.is_over = threading.Event()
        self.thread = None

    def start(self, pid):
        self.thread = threading.Thread(target=self.follow, args=(pid,))
        self.thread.start()

    def stop(self):
        self.is_over.set()
        self.thread.join()

    def follow(self, pid):
        while not self.is_over.wait(SAMPLE_MEMORY_S):
            self.own = max(self.own, high_water(pid))
            try:
                with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
                    children = sum(high_water(int(child)) for child in file.read().split())
            except OSError:
                continue
            self.children = max(self.children, children)


def high_water(pid):
    try:
        with open("/proc/%d/status" % pid) as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0  # gone, or a zombie


def percentile(values, percent):
    """Nearest rank: always one of the values."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(1, rank) - 1]


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def busy_share(seconds):
    """How much of all cores was busy for this long, by /proc/stat; None where it cannot be told.
    The load average alone also counts processes that left long ago."""
    def read():
        with open("/proc/stat") as file:
            numbers = [int(word) for word in file.readline().split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]

    try:
        all_before, idle_before = read()
        time.sleep(seconds)
        all_after, idle_after = read()
    except OSError:
        return None
    elapsed = all_after - all_before
    return 1 - (idle_after - idle_before) / elapsed if elapsed else None
