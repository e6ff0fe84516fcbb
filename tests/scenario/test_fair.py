"""Tenants share the machine: shares of CPU time in the control groups' files, and the order of boxes.

Times are bench/fair.py's. Here is what has to hold on any machine: who waits, in which order, and what the
kernel was told.
"""
import os
import re
import threading

import pytest
import serve
import tenants

TENANT, LAUNCHER = 8192, 65536  # cpu.shares, of CGROUP_SHARE_TENANT and CGROUP_SHARE_LAUNCHER
SPIN = "while :; do :; done"


@pytest.fixture(scope="module")
def server():
    with tenants.Server({"SANDBOX_MAX_SESSIONS": "40"}) as running:
        yield running


def folders(pid):
    """{controller: folder of the process's v1 group}"""
    found = {}
    with open(f"/proc/{pid}/cgroup") as file:
        for line in file:
            _, names, path = line.strip().split(":", 2)
            for name in names.split(","):
                found[name] = path
    mounts = {}
    with open("/proc/self/mountinfo") as file:
        for line in file:
            words = line.split()
            if " - cgroup " in line:
                for name in words[-1].split(","):
                    mounts.setdefault(name, (words[4], words[3]))
    return {name: mounts[name][0] + path.removeprefix(mounts[name][1].rstrip("/"))
            for name, path in found.items() if name in mounts}


def cpu_folder(pid):
    folder = folders(pid).get("cpu")
    if not folder or not os.path.isdir(folder):
        pytest.skip("no cpu controller of v1 here: docs/scheduler.md says what is left")
    return folder


def shares(folder):
    with open(f"{folder}/cpu.shares") as file:
        return int(file.read())


def engine_folder(server):
    folder = os.path.dirname(cpu_folder(server.get("/v1/info")["broker_pid"]))
    assert os.path.basename(folder).endswith("-engine"), folder
    return folder


def box_shares(server):
    """{folder of a box: its share}, of those that have processes"""
    folder, found = engine_folder(server), {}
    for name in os.listdir(folder):
        try:
            if name.startswith("box-") and open(f"{folder}/{name}/tasks").read():
                found[name] = shares(f"{folder}/{name}")
        except OSError:
            pass  # it ended meanwhile
    return found


def metric(server, name, **labels):
    """A number of /metrics, 0 if nothing was counted."""
    text = server.asked("GET", "/metrics").body.decode()
    wanted = "".join(f'(?=[^}}]*{key}="{value}")' for key, value in labels.items())
    found = re.search(rf"^{name}(?:{{{wanted}[^}}]*}})? (\S+)$", text, re.M)
    return float(found.group(1)) if found else 0


def run(caller, code="pass"):
    return caller.call("POST", "/v1/run", {"code": code})


def test_the_launcher_and_the_broker_come_before_all_boxes(server):
    info = server.get("/v1/info")
    assert shares(cpu_folder(info["broker_pid"])) == LAUNCHER
    assert shares(cpu_folder(info["launcher_pid"])) == LAUNCHER


def test_a_tenant_that_is_alone_never_waits_and_has_whole_shares(server):
    alone = server.caller("alone")
    threads = [threading.Thread(target=run, args=(alone,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(8):
        assert run(alone).status == 200
    assert metric(server, "bailey_queue_wait_seconds_count", tenant="alone") == 0
    assert set(box_shares(server).values()) <= {TENANT}


def test_a_boxs_processes_are_in_a_group_with_a_share(server):
    one = server.caller("in-a-group")
    made = one.session()["id"]
    one.background(made, "sh", "-c", SPIN)
    serve.polled(lambda: box_shares(server), lambda found: TENANT in found.values(), "the box is there")
    server.end(made)


def test_a_tenants_share_is_divided_between_its_boxes_that_compute(server):
    many, one = server.caller("many"), server.caller("single")
    made = [many.session()["id"] for _ in range(4)]
    idle = [many.session()["id"] for _ in range(2)]
    for session in idle:
        many.exec(session, "true")
    for session in made:
        many.background(session, "sh", "-c", SPIN)
    single = one.session()["id"]
    one.background(single, "sh", "-c", SPIN)
    # The six of one tenant have a quarter each, for four of them compute; the other's has all of its own.
    serve.polled(lambda: sorted(box_shares(server).values()),
                 lambda found: found.count(TENANT // 4) == 6 and TENANT in found, "they are divided")
    server.end(single)
    for session in made[1:]:
        server.end(session)
    # Its tenant is alone again: nothing is divided.
    serve.polled(lambda: set(box_shares(server).values()), lambda found: found == {TENANT},
                 "they are whole again")
    for session in made[:1] + idle:
        server.end(session)


def test_who_has_had_nothing_goes_before_a_queue(server):
    """Counted in boxes: of 60 that wait, only those that are in service already come first."""
    flood, other = server.caller("queue-flood"), server.caller("queue-other")
    assert run(other).status == 200
    hold = other.session()["id"]
    other.background(hold, "true")
    done, ended = [], threading.Event()

    def ask():
        assert run(flood, "import time; time.sleep(0.2)").status == 200
        done.append(1)

    threads = [threading.Thread(target=ask) for _ in range(60)]
    for thread in threads:
        thread.start()
    serve.polled(lambda: metric(server, "bailey_queue_depth"), lambda depth: depth > 20, "many wait")
    before = len(done)
    assert run(other).status == 200
    between = len(done) - before
    left = 60 - len(done)
    ended.set()
    for thread in threads:
        thread.join()
    server.end(hold)
    assert len(done) == 60
    assert left > 0, "the one that came last was served last"
    assert between <= 30, between


def test_the_wait_of_a_tenant_is_its_own(server):
    """The metric of waiting has the tenant as label: a key sees its own only."""
    seen = server.caller("metrics-reader", scopes=["metrics"])
    text = seen.asked("GET", "/metrics").body.decode()
    assert "queue-flood" not in text
    assert metric(server, "bailey_queue_wait_seconds_count", tenant="queue-flood") > 0
