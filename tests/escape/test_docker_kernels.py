"""
The attacks of cells, behind Docker's wall: those of the other files that make sense in a container, as they are, and those
for which a container needs its own way. A container's zygote is one of the guest's processes, so kernels from it
are attacked like any other; zygotes outside of boxes and installer boxes are of the local runtime only.
"""
import json
import re
import sys
from pathlib import Path

import pytest

import attack
import runtimes
import serve
import support
import tenants
import test_kernel_attacks
import test_kernel_walls
import test_warm_zygote
import warm

for folder in ("load", "scenario", "../bench"):
    sys.path.insert(0, str((Path(__file__).resolve().parents[1] / folder).resolve()))
import stall  # noqa: E402  (the paths have to be there first)
import test_docker_clean  # noqa: E402
import test_quotas  # noqa: E402
import test_retention  # noqa: E402

ONLY_WAYS = runtimes.CONTAINERS
SAME = """
    test_60_framing_on_output test_60_words_that_are_none test_60_an_end_that_is_its_own test_60_an_endless_line
    test_60_a_flood_of_events test_60_it_reads_the_socket_itself test_60_it_shuts_the_socket
    test_60_it_sends_descriptors test_60_it_closes_what_it_prints_to
    test_61_it_exits test_61_it_forks_and_both_go_on test_61_a_forked_child_talks
    test_61_it_executes_another_program test_61_a_program_that_speaks_for_the_kernel
    test_62_stopped_by_a_command test_62_it_stops_itself test_21_killed_by_a_command
    test_25_a_daemon_that_stays test_26_it_eats_what_there_is test_45_the_driver_is_broken
    test_71_what_a_cell_leaves_in_its_kernel context"""
for name in SAME.split():
    globals()[name] = getattr(test_kernel_attacks, name)
test_17_what_programs_of_a_cell_hold = test_kernel_walls.test_17_what_programs_of_a_cell_hold
test_27_environment = test_kernel_walls.test_27_environment
test_59_output_without_end = test_kernel_walls.test_59_output_without_end
# The same with a number in their names, which are those of the table.
test_81_output_of_many_commands_stays_within_the_quota = (
    test_retention.test_output_of_many_commands_stays_within_the_quota)
test_81_output_over_the_quota_does_not_stop_the_command = (
    test_retention.test_output_over_the_quota_does_not_stop_the_command)
test_81_stored_code_counts = test_retention.test_stored_code_counts
test_83_cpu_of_what_is_given_up = test_quotas.test_cpu_of_what_is_given_up
test_83_cpu_of_what_still_runs = test_quotas.test_cpu_of_what_still_runs


@pytest.fixture(scope="module", params=runtimes.CONTAINERS, autouse=True)
def runtime(request):
    yield from runtimes.surround(request, request.param)


@pytest.fixture(scope="module")
def warm_daemon(runtime):
    with warm.Daemon(env={"DOCKER_POOL_SIZE": "2"}) as running:
        generation = running.get("/v1/info")["generation"]
        yield running
        assert running.get("/v1/info")["generation"] == generation, "the broker died"


@pytest.fixture  # not the module's: two daemons that end one after the other would see each other as a leak
def server():
    with tenants.Server({"SANDBOX_QUOTA_DISK": "8m", "SANDBOX_STORE_CODE": "always"}) as made:
        yield made


# --- 20, 29, 30, 31: the walls, from a kernel -----------------------------------------------------


def test_20_29_30_31_the_walls(warm_daemon):
    """On the warden, the zygote and the container's namespaces. Kernels of one session are not kept apart (docs/runtimes.md)."""
    session = ready(warm_daemon)
    pid = "import os; print(os.getpid())"
    kernels = {warm_daemon.cell(session, pid, **more)["stdout"].strip()
               for more in ({}, {"context": warm_daemon.context(session)}, {"context": warm_daemon.context(session)})}
    numbers = {**attack.NEWER, **attack.syscall_numbers(attack.CALLS)}
    result = warm_daemon.cell(session, test_kernel_walls.LOOK.replace("{numbers}", repr(numbers)),
                              context=warm_daemon.context(session), timeout=50)
    assert result["exit_code"] == 0, result
    found = {name: answer for name, answer in json.loads(result["stdout"].splitlines()[-1]).items()
             if name.split()[0] != "sibling" or name.split()[1] not in kernels}
    assert len({name.split()[1] for name in found if name.startswith("sibling")}) == 1, "the zygote"
    assert len([name for name in found if name.startswith("warden")]) > 20, found
    attack.all_held(found, "EPERM", "EACCES", "ENOSYS", "EROFS", "EINVAL", "ETXTBSY", "ENOENT", "ENOTDIR", "ENXIO",
                    "ELOOP", "ESRCH")
    warm_daemon.end(session)


# --- 71, 72: what kernels and containers have of each other --------------------------------------


def ready(daemon):
    """A session in a container that was started ahead, which has a zygote."""
    serve.polled(lambda: daemon.get("/v1/warm")["pool"], lambda pool: pool["boxes"] >= 1, "one is started ahead")
    return daemon.session()["id"]


def test_72_kernels_of_one_container_and_of_others(warm_daemon):
    sessions = [ready(warm_daemon) for _ in range(2)]
    results = [warm_daemon.cell(session, test_warm_zygote.RANDOM, context=warm_daemon.context(session))
               for session in sessions for _ in range(3)]
    results += [warm_daemon.post("/v1/run", {"code": test_warm_zygote.RANDOM}) for _ in range(2)]
    assert any(result["meta"]["warm"] == "zygote" for result in results), "some are forked from the same memory"
    test_warm_zygote.all_distinct([test_warm_zygote.line(result, "RANDOM") for result in results])
    for session in sessions:
        warm_daemon.end(session)


def look(daemon, session):
    """What a first cell finds of the marks, without what a container always has: a zygote and its warden."""
    code = test_warm_zygote.look().replace("> 2", "> 4")
    return test_warm_zygote.line(daemon.cell(session, code), "FOUND")


def test_71_sessions_see_nothing_of_each_other(warm_daemon):
    """One after the other, and beside each other."""
    first = ready(warm_daemon)
    left = warm_daemon.cell(first, test_warm_zygote.LEAVE)
    assert "LEFT" in left["stdout"], left
    own = look(warm_daemon, first)
    for what in ("file /tmp", "file /workspace", "abstract", "port", "environment", "modules", "processes"):
        assert own[what], (what, own)
    second = ready(warm_daemon)
    found = look(warm_daemon, second)
    assert not any(found.values()), {what for what, value in found.items() if value}
    warm_daemon.end(first)
    third = ready(warm_daemon)
    found = look(warm_daemon, third)
    assert not any(found.values()), {what for what, value in found.items() if value}
    for session in (second, third):
        warm_daemon.end(session)


def test_71_runs_see_nothing_of_each_other(warm_daemon):
    left = warm_daemon.post("/v1/run", {"code": test_warm_zygote.LEAVE})
    assert left["exit_code"] == 0 and "LEFT" in left["stdout"], left
    seen = warm_daemon.post("/v1/run", {"code": test_warm_zygote.look().replace("> 2", "> 4")})
    found = test_warm_zygote.line(seen, "FOUND")
    assert not any(found.values()), {what for what, value in found.items() if value}


# --- 75: what is missing is told -----------------------------------------------------------------


def test_75_a_container_is_never_called_strict():
    done = support.bailey("run", "--json", "--isolation", "strict", "-c", "print(1)")
    assert done.status == 126 and "uid_split" in done.stdout + done.stderr, done


def test_75_what_is_told_to_hold_is_what_the_guest_finds():
    result = support.run_json("""
import json
fields = dict(line.rstrip().split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({name: fields[name].strip() for name in ("Seccomp", "NoNewPrivs", "CapEff", "CapBnd")}))
""")
    layers = result.meta["isolation"]["layers"]
    assert {"seccomp", "no_new_privs", "caps", "landlock"} <= set(layers), layers
    assert json.loads(result["stdout"]) == {"Seccomp": "2", "NoNewPrivs": "1", "CapEff": "0" * 16, "CapBnd": "0" * 16}


# --- 80: one guest sends as much as it can -------------------------------------------------------

GUESTS = (stall.one_large_event, stall.event_of_many_values, stall.event_of_many_keys, stall.many_events,
          stall.many_tiny_events, stall.much_output, stall.long_listing)


def warm_up(running):
    """Processes have what one session needs."""
    made = running.session()["id"]
    running.post(f"/v1/sessions/{made}/code", {"code": "1"})
    running.end(made)


def peak_mb(pid):
    """The most that it has had."""
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) / 1024


@pytest.mark.parametrize("attack", GUESTS, ids=lambda attack: attack.__name__)
def test_80_one_guest(attack):
    """The probe inside fails when /healthz or another tenant's cell is not answered with 200. The process that speaks to
    Docker stays small, too."""
    with tenants.Server(stall.SETTINGS) as running:
        broker = running.get("/v1/info")["broker_pid"]
        warm_up(running)
        wall = test_docker_clean.wall_of(running)
        before = peak_mb(wall)
        row = stall.measure(attack, running, 2)
        growth = peak_mb(wall) - before
        assert running.get("/v1/info")["broker_pid"] == broker, "it was another broker's memory"
    assert row.said != "failed" and row.count > 0, row.line()
    assert row.growth < stall.GROWTH_MB and growth < stall.GROWTH_MB, (row.line(), growth)


# --- 83: CPU time --------------------------------------------------------------------------------


def test_83_cpu_time_agrees_with_what_the_guest_measures():
    """Two processes that spin for two seconds each; the guest asks the kernel too: within 5 %."""
    spin = "import time\nwhile time.process_time() < 2.0: pass\n"
    result = support.run_json(
        "import os, subprocess, sys\n"
        f"both = [subprocess.Popen([sys.executable, '-c', {spin!r}]) for _ in range(2)]\n"
        "[child.wait() for child in both]\nprint(sum(os.times()[:4]))", "--timeout", "120")
    inside_ms = 1000 * float(result["stdout"])
    assert result.meta["usage"]["by"] == "engine" and round(inside_ms) >= 3900, result
    assert abs(result.meta["usage"]["cpu_ms"] - inside_ms) <= 0.05 * inside_ms, result
