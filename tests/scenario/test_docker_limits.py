"""What a container may have: which of several limits wins, Docker's runtimes, Docker's network."""
import pytest

import docker
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


def test_usage_is_dockers_own_word(clean_docker):
    code = ("import time\nkept = b'x' * (40 << 20)\nend = time.process_time() + 0.3\n"
            "while time.process_time() < end: pass")
    usage = support.run_json(code, env=clean_docker.env(DOCKER_CPU_LIMIT="all")).meta["usage"]
    assert usage["cpu_ms"] >= 250 and usage["max_rss_bytes"] >= 40 * M, usage


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
