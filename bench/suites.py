# suites.py - what is measured: each function takes the bench and returns plain data for report.py.
import json
import os
import re
import shutil
import subprocess

from harness import Failed, Pace, Variant, busy_share, median

BWRAP_ARGS = """--unshare-all --die-with-parent --new-session --ro-bind /usr /usr
--symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev
--tmpfs /tmp --tmpfs /workspace --chdir /workspace --clearenv""".split()
HELLO = "print('Hello')"
LOOK_AROUND_S = 0.3
SYSTEM_PYTHON = "/usr/bin/python3"
GIGABYTE = 1 << 30

# Writes as many bytes as its argument says, in lines; then stays for a moment if asked to, so that
# the memory of those who look after it can be read.
WRITER = """import os, sys, time
block = (b"X" * 99 + b"\\n") * 650
left = int(sys.argv[1])
while left > 0:
    left -= os.write(1, block[:left])
time.sleep(float(sys.argv[2]))
"""

STAGE = re.compile(r"^\s*([0-9.]+) ms  (.+)$", re.M)


class Latency:
    """An interleaved set, measured at both paces: {pace: {name: [ns]}}."""

    def __init__(self, title, variants, note=None):
        self.title = title
        self.variants = variants
        self.note = note
        self.samples = {}
        self.noise = {}  # pace: share of the cores that others used just before and after

    def named(self, role):
        for variant in self.variants:
            if variant.role == role:
                return variant.name
        return None


def measure_latency(bench, latency, hot_rounds, paced_rounds):
    latency.variants = bench.harness.usable(latency.variants)
    for pace, rounds in (("back to back", hot_rounds), ("paced", paced_rounds)):
        bench.tell("%s, %s: %d rounds" % (latency.title, pace, rounds))
        before = busy_share(LOOK_AROUND_S)
        latency.samples[pace] = bench.harness.interleave(latency.variants, rounds, pace == "paced")
        after = busy_share(LOOK_AROUND_S)
        if before is not None and after is not None:
            latency.noise[pace] = (before + after) / 2
    return latency


def true_latency(bench):
    variants = [
        Variant("/bin/true", ["/bin/true"], bench.env, "plain"),
        Variant("bwrap /bin/true", bench.bwrap + ["/bin/true"], bench.env, "bwrap"),
        Variant("bailey exec -- /bin/true", [bench.bailey, "exec", "--", "/bin/true"], bench.env,
                "bailey"),
    ]
    return measure_latency(bench, Latency("/bin/true", variants), bench.hot_rounds,
                           bench.paced_rounds)


def prefixes_outside_usr(python):
    """Folders that bubblewrap has to bind for this interpreter."""
    code = "import sys; print(sys.base_prefix); print(sys.prefix)"
    out = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    return sorted({line for line in out.splitlines() if not (line + "/").startswith("/usr/")})


def python_latency(bench, python, env):
    """One interpreter by its own path, three ways; `env` makes bailey take the same."""
    binds = []
    for prefix in prefixes_outside_usr(python):
        binds += ["--ro-bind", prefix, prefix]
    variants = [
        Variant("python3 -c", [python, "-c", HELLO], bench.env, "plain"),
        Variant("bwrap python3 -c", bench.bwrap + binds + [python, "-c", HELLO], bench.env,
                "bwrap"),
        Variant("bailey run -c", [bench.bailey, "run", "--no-daemon", "-c", HELLO], env, "bailey"),
    ]
    return measure_latency(bench, Latency("Hello by %s" % bench.shown(python), variants),
                           bench.hot_rounds, bench.paced_rounds)


def lookup_latency(bench, python):
    """What it costs that bailey finds the interpreter itself; and what a shim in PATH costs."""
    told = dict(bench.env, SANDBOX_PYTHON=python)
    run = [bench.bailey, "run", "--no-daemon", "-c", HELLO]
    variants = [
        Variant("bailey run -c, told the interpreter", run, told),
        Variant("bailey run -c, finds it itself", run, bench.env),
    ]
    note = "Reported only. "
    in_path = shutil.which("python3", path=bench.env.get("PATH"))
    if in_path and os.path.realpath(in_path) != os.path.realpath(python):
        variants.append(Variant("python3 -c, as PATH has it", [in_path, "-c", HELLO], bench.env))
        note += "`python3` of PATH here is %s, a wrapper or another interpreter." % (
            bench.shown(in_path))
    return measure_latency(bench, Latency("Finding the interpreter", variants, note),
                           bench.lookup_rounds[0], bench.lookup_rounds[1])


def doctor(bench):
    out = subprocess.run([bench.bailey, "doctor", "--json"], env=bench.env, capture_output=True,
                         text=True)
    try:
        return json.loads(out.stdout)
    except ValueError:
        raise Failed("bailey doctor --json: " + (out.stderr.strip() or "no JSON"))


def stages(bench):
    """[(stage, {pace: median ms})] in the order of the program, then the time around them."""
    rows = {}
    argv = [bench.bailey, "exec", "--timing", "--", "/bin/true"]
    for pace_name, rounds in (("back to back", bench.stage_rounds), ("paced", bench.paced_rounds)):
        bench.tell("stages, %s: %d rounds" % (pace_name, rounds))
        pace = Pace(pace_name == "paced")
        for _ in range(rounds):
            pace.wait()
            bench.harness.forget_errors()
            wall = bench.harness.once("bailey exec --timing", argv, bench.env) / 1e6
            found = [(name, float(ms)) for ms, name in
                     STAGE.findall(bench.harness.read_errors())]
            total = sum(ms for name, ms in found if name != "in all")
            found.append(("the rest: start, request, program, result, removal", wall - total))
            found.append(("wall clock around the process", wall))
            for name, ms in found:
                rows.setdefault(name, {}).setdefault(pace_name, []).append(ms)
    return [(name, {pace: median(values) for pace, values in by_pace.items()})
            for name, by_pace in rows.items()]


def v1_folders():
    """Our own group's folder in the v1 hierarchies of memory and pids; Failed says why not."""
    with open("/proc/self/cgroup") as file:
        own = {}
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            own.update((controller, path) for controller in controllers.split(","))
    folders = []
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    for controller in ("memory", "pids"):
        for words in mounts:
            kind, _, options = words[words.index("-") + 1:][:3]
            if kind != "cgroup" or controller not in options.split(","):
                continue
            root, point, path = words[3], words[4], own.get(controller, "/")
            if root != "/" and not (path + "/").startswith(root + "/"):
                continue
            below = path if root == "/" else path[len(root):]
            folders.append(os.path.normpath(point + "/" + below))
            break
        else:
            raise Failed("the %s controller is not on v1 here" % controller)
    for folder in folders:
        if not os.access(folder, os.W_OK):
            raise Failed("no permission to make a group in " + folder)
    return sorted(set(folders))


def cgroup_entry(bench):
    """({(way, pace): [ns]}, None), or (None, why it was skipped)."""
    try:
        folders = v1_folders()
    except (Failed, OSError) as error:
        return None, str(error)
    program = os.path.join(bench.scratch, "cgroup_entry")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cgroup_entry.c")
    compiler = os.environ.get("CC", "cc").split()
    built = subprocess.run(compiler + ["-std=gnu17", "-O2", "-o", program, source],
                           capture_output=True, text=True)
    if built.returncode != 0:
        raise Failed("compiling cgroup_entry.c: " + built.stderr.strip())
    bench.tell("entering a v1 cgroup: %d rounds after idle" % bench.cgroup_rounds)
    ran = subprocess.run([program, str(bench.cgroup_rounds), "200"] + folders,
                         capture_output=True, text=True)
    if ran.returncode == 77:
        return None, ran.stdout.strip().splitlines()[-1]
    if ran.returncode != 0:
        raise Failed("cgroup_entry ended with %d: %s" % (ran.returncode, ran.stderr.strip()))
    samples = {}
    for line in ran.stdout.splitlines():
        way, pace, ns = line.split()
        samples.setdefault((way, pace), []).append(int(ns))
    return samples, None


class Output:
    """Runs of one way to write many bytes."""

    def __init__(self, name):
        self.name = name
        self.ns = []
        self.own = 0       # peak bytes of the process itself
        self.children = 0  # of its direct children: bailey's warden
        self.is_ours = name.startswith("bailey")


def captured_bytes(path):
    with open(path) as file:
        return json.load(file)["meta"]["stdout_bytes"]


def write_output(bench, output, argv, size, linger):
    """One run of bailey; with --json it is asked whether all bytes arrived."""
    argv = argv + ["--", str(size), str(linger)]
    path = os.path.join(bench.scratch, "captured.json")
    is_captured = "--json" in argv
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        ns, own, children = bench.harness.watched(output.name, argv, bench.env,
                                                  stdout=fd if is_captured else None)
    finally:
        os.close(fd)
    if is_captured and captured_bytes(path) != size:
        raise Failed("%s counted %d of %d bytes" % (output.name, captured_bytes(path), size))
    output.ns.append(ns)
    output.own = max(output.own, own)
    output.children = max(output.children, children)


def output_ways(bench, python):
    """({name: run it once into this Output}, {name: argv of bailey})."""
    writer = os.path.join(bench.scratch, "writer.py")
    with open(writer, "w") as file:
        file.write(WRITER)
    binds = ["--ro-bind", writer, "/workspace/writer.py"]
    for prefix in prefixes_outside_usr(python):
        binds += ["--ro-bind", prefix, prefix]
    plain = [python, writer, str(GIGABYTE), "0"]
    boxed = bench.bwrap + binds + [python, "writer.py", str(GIGABYTE), "0"]
    cat = [shutil.which("cat") or "/bin/cat"]

    def discard(argv):
        return lambda output: output.ns.append(
            bench.harness.watched(output.name, argv, bench.env)[0])

    ways = {
        "python3 > /dev/null": discard(plain),
        "python3, a pipe, cat > /dev/null": lambda output: output.ns.append(
            bench.harness.piped(output.name, plain, cat, bench.env)),
        "bwrap python3 > /dev/null": discard(boxed),
    }
    run = [bench.bailey, "run", "--no-daemon", "--timeout", "10m"]
    ours = {"bailey run --json (captured)": run + ["--json", writer],
            "bailey run > /dev/null (streamed)": run + [writer]}
    for name, argv in ours.items():
        ways[name] = lambda output, argv=argv: write_output(bench, output, argv, GIGABYTE, 0)
    return ways, ours


def output_cost(bench, python):
    """([Output] of 1 GB each way, interleaved; {name: Output} of next to nothing; bailey's argv)"""
    ways, ours = output_ways(bench, python)
    at_rest = {name: Output(name) for name in ours}
    for name, argv in ours.items():
        write_output(bench, at_rest[name], argv, 1000, 0.3)
    outputs = {name: Output(name) for name in ways}
    bench.tell("1 GB of output: %d rounds" % bench.output_rounds)
    for _ in range(bench.output_rounds):
        for name, way in ways.items():
            try:
                way(outputs[name])
            except (Failed, OSError) as error:
                bench.harness.failures.append("%s: %s" % (name, error))
    return list(outputs.values()), at_rest, ours


def long_output(bench, ours):
    """{name: Output} of 10 GB: is our memory flat?"""
    found = {}
    for name, argv in ours.items():
        bench.tell("10 GB: " + name)
        found[name] = Output(name)
        write_output(bench, found[name], argv, 10 * GIGABYTE, 0)
    return found
