"""watch.py - memory and descriptors of a daemon's broker and launcher while load.py runs."""
import os

from harness import median  # of bench/

PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1e6
# The first part is not looked at: buffers, tables and histories fill up to their bounds then.
SETTLED = 0.4
GROWTH_MAX = 8 * MB  # between the first and the last tenth of the rest, of each process


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * PAGE


def slope(samples):
    """Bytes a second, by least squares."""
    middle_t = sum(t for t, _ in samples) / len(samples)
    middle = sum(size for _, size in samples) / len(samples)
    spread = sum((t - middle_t) ** 2 for t, _ in samples)
    return sum((t - middle_t) * (size - middle) for t, size in samples) / spread if spread else 0


class Memory:
    def __init__(self, who, pid):
        self.who, self.pid, self.samples = who, pid, []

    def look(self, at_s):
        try:
            self.samples.append((at_s, resident(self.pid)))
        except (OSError, IndexError):
            pass  # it is gone, which load.py sees by itself

    def now(self):
        return f"{self.who} {self.samples[-1][1] / MB:.1f} MB" if self.samples else self.who

    def report(self):
        """(a line, what is wrong or None)"""
        if len(self.samples) < 20:
            return f"{self.who}: too few samples", f"memory of the {self.who} could not be followed"
        settled = self.samples[int(len(self.samples) * SETTLED):]
        tenth = max(1, len(settled) // 10)
        begin = median([size for _, size in settled[:tenth]])
        end = median([size for _, size in settled[-tenth:]])
        line = (f"{self.who}: {self.samples[0][1] / MB:.1f} MB at first, {begin / MB:.1f} after "
                f"{100 * SETTLED:.0f} % of the time, {end / MB:.1f} at last, "
                f"{max(size for _, size in self.samples) / MB:.1f} at most; "
                f"{60 * slope(settled) / MB:+.2f} MB a minute")
        if end - begin > GROWTH_MAX:
            return line, f"memory of the {self.who} grew by {(end - begin) / MB:.1f} MB"
        return line, None
