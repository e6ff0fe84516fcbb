"""Limits are held, and the result says by which mechanism; usage comes from the kernel."""
import pytest
import support

MECHANISMS = {"cgroup-v2", "cgroup-v1", "rlimit", "watchdog (approximate)",
              "affinity (approximate)", "tmpfs", "engine", "container", "none"}


def test_every_limit_is_in_the_result(way):
    limits = way.run_json("pass", "--timeout", "9", "--memory", "200m", "--pids", "50", "--disk",
                          "20m", "--max-output", "3").meta["resource_limits"]
    assert limits["timeout_s"] == 9
    assert limits["memory_bytes"] == 200 << 20
    assert limits["pids"] == 50
    assert limits["disk_bytes"] == 20 << 20
    assert limits["output_bytes"] == 3072


def test_the_defaults_are_those_promised():
    limits = support.run_json("pass").meta["resource_limits"]
    assert (limits["timeout_s"], limits["memory_bytes"], limits["pids"], limits["disk_bytes"]) == (
        30, 1 << 30, 256, 512 << 20)


def test_proc_shows_the_machine_and_the_limits_are_named_elsewhere():
    """docs/limits.md says why /proc/meminfo is not replaced, and where the limits are instead."""
    with open("/proc/meminfo", encoding="ascii") as file:
        total = file.readline()
    result = support.run_json("print(open('/proc/meminfo').readline(), end='')", "--memory", "96m")
    assert result["stdout"] == total and result.meta["resource_limits"]["memory_bytes"] == 96 << 20, result
    assert "- Memory: 96m." in support.bailey("prompt", env={"SANDBOX_MEMORY_LIMIT": "96m"}).stdout


def test_each_mechanism_is_named_with_a_known_word(way):
    limits = way.run_json("pass", "--cpus", "1").meta["resource_limits"]
    by = {key: value for key, value in limits.items() if key.endswith("_by")}
    assert {"memory_by", "pids_by", "disk_by"} <= set(by)
    assert set(by.values()) <= MECHANISMS


def test_a_cgroup_that_is_claimed_is_also_a_layer(way):
    meta = way.run_json("pass").meta
    claimed = meta["resource_limits"]["memory_by"].startswith("cgroup")
    assert claimed == ("cgroup" in meta["isolation"]["layers"])


FORKS = """
import os, time
n = 0
try:
    while n < 500:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        n += 1
except OSError as e:
    print(e.errno)
print(n)
"""


def test_processes_are_limited(way):
    result = way.run_json(FORKS, "--pids", "20")
    if result.meta["resource_limits"]["pids_by"].startswith("watchdog"):
        assert (result["exit_code"], result.meta["signal"]) == (137, 9)  # ended, not held
    else:
        assert result["stdout"].split()[0] == "11", result  # EAGAIN
        # An rlimit counts all processes of the user: it is 20 above those that there were, and some may end meanwhile.
        slack = 20 if result.meta["resource_limits"]["pids_by"] == "rlimit" else 0
        assert int(result["stdout"].split()[1]) <= 20 + slack


def test_threads_count():
    code = ("import threading, time\nn = 0\n"
            "try:\n    while n < 500:\n"
            "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1\n"
            "except RuntimeError: pass\nprint(n, flush=True)\nimport os; os._exit(0)")
    result = support.run_json(code, "--pids", "20")
    assert 1 <= int(result["stdout"]) <= 20


def test_a_fork_bomb_ends_with_its_timeout(way):
    result = way.run_json("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
                          "--pids", "40", "--timeout", "1")
    is_watched = result.meta["resource_limits"]["pids_by"].startswith("watchdog")
    assert result["exit_code"] == (137 if is_watched else -1)
    assert way.run_json("print('next')")["stdout"] == "next\n"


def test_cpu_is_shared_when_limited():
    """A tenth of a core for a second of wall time is far less than a second of CPU time."""
    result = support.run_json("while True: pass", "--cpus", "0.1", "--timeout", "2")
    if result.meta["resource_limits"].get("cpu_by", "none").startswith("cgroup"):
        assert result.meta["usage"]["cpu_ms"] < 1500
    else:
        pytest.skip("no cpu cgroup here: " + str(result.meta["resource_limits"].get("cpu_by")))


def test_usage_comes_from_the_kernel(way):
    idle = way.run_json("pass").meta["usage"]
    busy = way.run_json("import time\nx = b'x' * 60_000_000\n"
                        "while time.process_time() < 0.4: pass").meta["usage"]
    assert busy["cpu_ms"] >= 400
    assert busy["max_rss_bytes"] >= 60_000_000
    assert idle["cpu_ms"] < busy["cpu_ms"]
    assert 0 < idle["max_rss_bytes"] < busy["max_rss_bytes"]


def test_usage_includes_children():
    code = ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time\\n"
            "while time.process_time() < 0.4: pass'])")
    assert support.run_json(code).meta["usage"]["cpu_ms"] >= 400


def test_the_duration_covers_the_program(way):
    result = way.run_json("import time; time.sleep(0.3)")
    assert result["duration"] >= 0.3


def test_disk_is_part_of_memory(walled):
    """Memory and files together do not fit, though each alone would."""
    code = ("with open('/dev/shm/f', 'wb') as f:\n"
            "    for _ in range(40): f.write(b'x' * (1 << 20))\n"
            "print('disk', flush=True)\n"
            "x = b'x' * (40 << 20)\nprint('both')")
    result = walled.run_json(code, "--memory", "64m", "--disk", "48m", "--timeout", "20")
    if not result.meta["resource_limits"]["memory_by"].startswith("cgroup"):
        pytest.skip("no memory cgroup here: a watchdog counts processes only")
    assert result["stdout"] == "disk\n"
    assert result.meta["oom_killed"]


@pytest.mark.parametrize("flag, value", [("--memory", "1G"), ("--memory", "1073741824"),
                                         ("--memory", "1048576k")])
def test_sizes_may_be_written_as_usual(flag, value):
    assert support.run_json("pass", flag, value).meta["resource_limits"]["memory_bytes"] == 1 << 30


@pytest.mark.attack(83)
@pytest.mark.needs_namespaces
def test_cpu_time_agrees_with_what_the_guest_measures(walled):
    """Two processes that spin for three seconds each. The guest asks the kernel too: within 5 %."""
    spin = "import time\nwhile time.process_time() < 3.0: pass\n"
    code = ("import os, subprocess, sys\n"
            f"both = [subprocess.Popen([sys.executable, '-c', {spin!r}]) for _ in range(2)]\n"
            "[child.wait() for child in both]\n"
            "print(sum(os.times()[:4]))")
    result = walled.run_json(code, "--timeout", "120")
    inside_ms = 1000 * float(result["stdout"])
    assert round(inside_ms) >= 5900, result  # the kernel counts times() in ticks of 10 ms
    assert abs(result.meta["usage"]["cpu_ms"] - inside_ms) <= 0.05 * inside_ms, result


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("left", ["waited for", "left behind"])
def test_cpu_time_is_that_of_every_process(left):
    """Also of one that outlives the program and dies with the box, for which nobody waits."""
    burn = "import time, sys\nwhile time.process_time() < 1.0: pass\nprint('done', flush=True)\n"
    if left == "left behind":
        burn += "time.sleep(1000)"
    code = (f"import subprocess\nchild = subprocess.Popen(['python3', '-c', {burn!r}], "
            "stdout=subprocess.PIPE, start_new_session=True)\n"
            "child.stdout.readline()\n" + ("child.wait()" if left == "waited for" else ""))
    result = support.exec_json("python3", "-c", code)
    assert result["exit_code"] == 0, result
    assert 1000 <= result["meta"]["usage"]["cpu_ms"] <= 1300, result
