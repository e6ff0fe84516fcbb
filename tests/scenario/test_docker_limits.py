"""What a container may have: which of several limits wins, Docker's runtimes, Docker's network."""
import pytest

import docker
import relay
import serve
import support

M = 1 << 20


def made_of(dockerd, *options, status=0, **more):
    """The HostConfig of the container of a run with these settings, while it runs."""
    process = support.start("exec", *options, "--", "cat", env=dockerd.env(**more),
                            stdin=support.subprocess.PIPE)
    try:
        support.wait_until(lambda: process.poll() is not None or [
            one for one in dockerd.containers(bailey_engine=True) if one["State"] == "running"],
            "the container runs", 30.0)
        found = dockerd.containers(bailey_engine=True)
        assert found, process.communicate()
        return dockerd.inspect(found[0]["Id"])["HostConfig"]
    finally:
        process.communicate(b"", timeout=support.PATIENCE)
        support.wait_until(lambda: not dockerd.containers(bailey_engine=True), "it is gone")


# name: (options, environment, bytes of memory, nano CPUs)
LIMITS = {
    "defaults": ((), {}, 256 * M, 500_000_000),
    "sandbox": ((), {"SANDBOX_MEMORY_LIMIT": "300m", "SANDBOX_CPU_LIMIT": "0.25"}, 300 * M, 250_000_000),
    "docker before sandbox": ((), {
        "SANDBOX_MEMORY_LIMIT": "300m", "SANDBOX_CPU_LIMIT": "0.25",
        "DOCKER_MEMORY_LIMIT": "128m", "DOCKER_CPU_LIMIT": "0.75"}, 128 * M, 750_000_000),
    "a flag before both": (("--memory", "96m", "--cpus", "1"), {
        "SANDBOX_MEMORY_LIMIT": "300m", "SANDBOX_CPU_LIMIT": "0.25",
        "DOCKER_MEMORY_LIMIT": "128m", "DOCKER_CPU_LIMIT": "0.75"}, 96 * M, 1_000_000_000),
}


@pytest.mark.parametrize("who", LIMITS)
def test_who_wins(clean_docker, who):
    options, more, memory, cpus = LIMITS[who]
    host = made_of(clean_docker, *options, **more)
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (memory, memory, cpus), who
    assert sum(int(word[5:]) for place in host["Tmpfs"].values() for word in place.split(",")
               if word.startswith("size=")) > 0


def test_the_local_runtime_does_not_look_at_dockers(room):
    result = support.run_json("pass", env={"DOCKER_MEMORY_LIMIT": "64m", "DOCKER_CPU_LIMIT": "0.1"})
    assert result.meta["resource_limits"]["memory_bytes"] == 1 << 30, result


def test_a_disk_larger_than_the_memory_is_an_error(clean_docker):
    env = clean_docker.env(DOCKER_MEMORY_LIMIT="64m", SANDBOX_DISK_LIMIT="128m")
    result = support.run_json("pass", env=env)
    assert result.error["code"] == "bad_config" and result.status == 125, result
    assert "DOCKER_MEMORY_LIMIT" in result.error["message"], result


def test_memory_is_a_fact(clean_docker):
    code = "print('part', flush=True)\nx = b'x' * 500_000_000\nprint('survived')"
    result = support.run_json(code, env=clean_docker.env(DOCKER_MEMORY_LIMIT="96m"))
    assert (result["stdout"], result["exit_code"]) == ("part\n", 137), result
    assert result.meta["oom_killed"] is True and result.meta["signal"] == 9, result


def test_processes_are_limited_and_the_warden_survives(clean_docker):
    code = ("import os\npids = []\ntry:\n    while True:\n        pid = os.fork()\n"
            "        if pid == 0:\n            import signal; signal.pause()\n        pids.append(pid)\n"
            "except BlockingIOError:\n    print(len(pids) < 40)\n"
            "for p in pids: os.kill(p, 9)")
    result = support.run_json(code, "--pids", "40", env=clean_docker.env())
    assert (result["stdout"], result["exit_code"]) == ("True\n", 0), result


# --- what it used --------------------------------------------------------------------------------

BUSY = ("import time\nkept = b'x' * (40 << 20)\nend = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass")


def assert_busy(usage, by):
    assert usage["by"] == by and usage["cpu_ms"] >= 250 and usage["max_rss_bytes"] >= 40 * M, usage


def test_usage_is_the_kernels_word_where_docker_is_here(clean_docker):
    """The container's control group is found by its name, wherever Docker's processes are seen."""
    assert_busy(support.run_json(BUSY, env=clean_docker.env(DOCKER_CPU_LIMIT="all")).meta["usage"], "engine")


@pytest.fixture
def elsewhere(clean_docker):
    """A Docker whose control groups are not looked for, because it is reached by TCP; what it was
    asked for, and its environment."""
    seen = []
    with relay.Relay(clean_docker.socket, seen) as address:
        yield seen, clean_docker.env(DOCKER_HOST=address.replace("http", "tcp"), DOCKER_CPU_LIMIT="all")


def was_asked_for_statistics(seen):
    return [piece for piece in seen if b"/stats" in piece]


def test_usage_is_the_wardens_word_where_docker_is_elsewhere(elsewhere):
    """And nobody waits for Docker's clock, which ticks once a second."""
    seen, env = elsewhere
    assert_busy(support.run_json(BUSY, env=env).meta["usage"], "warden")
    assert seen and not was_asked_for_statistics(seen)


def test_a_session_where_docker_is_elsewhere(elsewhere):
    seen, env = elsewhere
    with serve.Daemon(env=env) as daemon:
        made = daemon.session()["id"]
        assert_busy(daemon.exec(made, "python3", "-c", BUSY)["meta"]["usage"], "warden")
        cell = daemon.post(f"/v1/sessions/{made}/code", {"code": BUSY})
        assert cell["meta"]["usage"]["by"] == "warden" and cell["meta"]["usage"]["cpu_ms"] >= 250, cell
        daemon.end(made)
        run = daemon.post("/v1/run", {"code": BUSY})
        assert_busy(run["meta"]["usage"], "warden")
        dark = daemon.post("/v1/run", {"code": "import os, signal; os.kill(os.getpid(), 9)"})
        assert dark["exit_code"] == 137 and dark["meta"]["oom_killed"] is False, dark
        memory = daemon.post("/v1/run", {"code": "x = b'x' * 500_000_000"})
        assert memory["exit_code"] == 137 and memory["meta"]["oom_killed"] is True, memory
    assert not was_asked_for_statistics(seen)


def test_what_never_ran_used_nothing_that_anybody_knows():
    result = support.run_json("1", env={"SANDBOX_TYPE": "docker", "DOCKER_HOST": "unix:///nowhere"})
    assert result.error["code"] == "provider_unavailable", result
    assert result.meta["usage"] == {"cpu_ms": None, "max_rss_bytes": None, "by": None}, result


# --- Docker's runtimes ---------------------------------------------------------------------------


def test_a_runtime_is_passed_through(clean_docker):
    assert made_of(clean_docker, DOCKER_RUNTIME="runc")["Runtime"] == "runc"


def test_a_runtime_that_docker_does_not_know(clean_docker):
    result = support.run_json("print(1)", env=clean_docker.env(DOCKER_RUNTIME="no-such-runtime"))
    assert result["exit_code"] == 1 and result["stdout"] == "" and result.status == 125, result
    assert "DOCKER_RUNTIME" in result.error["message"], result
    assert "no-such-runtime" in result.error["message"], result


# --- the network ---------------------------------------------------------------------------------


def test_docker_network_on_is_the_daemons_own():
    """A daemon with a bridge, in a network namespace of its own: nothing leaves this machine."""
    running = docker.Dockerd(network=True)
    try:
        show = ("sh", "-c", "cat /proc/net/dev /proc/net/route")
        env = running.env(DOCKER_IMAGE=running.use("bare"))
        result = support.exec_json(*show, env=env)
        assert "eth0" not in result["stdout"] and "lo:" in result["stdout"], result
        assert "netns" in result.meta["isolation"]["layers"], result
        result = support.exec_json(*show, env={**env, "DOCKER_NETWORK_ENABLED": "true"})
        assert "eth0" in result["stdout"] and result["exit_code"] == 0, result
        assert "netns" in result.meta["isolation"]["missing"], "said, not silent"
        gateway = running.ask("GET", "/networks/bridge")["IPAM"]["Config"][0]
        assert gateway.get("Subnet"), gateway
    finally:
        running.close()


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key, value", [
    ("DOCKER_MEMORY_LIMIT", "much"), ("DOCKER_CPU_LIMIT", "-1"), ("DOCKER_NETWORK_ENABLED", "perhaps"),
    ("DOCKER_POOL_SIZE", "-1"), ("DOCKER_POOL_SIZE", "many"), ("DOCKER_IMAGE", "two words"),
    ("DOCKER_IMAGE", "a/../../b?x=1"), ("DOCKER_RUNTIME", "two words"),
])
def test_a_bad_value_names_the_key(key, value):
    result = support.run_json("1", env={"SANDBOX_TYPE": "docker", "DOCKER_HOST": "unix:///nowhere",
                                        key: value})
    assert result.error["code"] == "bad_config" and result.status == 125, result
    assert key in result.error["message"], result
