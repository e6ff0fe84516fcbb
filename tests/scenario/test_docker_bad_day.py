"""
Docker on a bad day: it dies in the middle of a run, its image is missing or of another architecture,
its disk is full. Each a clear error; a session that ended says why; nothing is left once it is back.
"""
import os
import signal
import threading

import pytest

import docker
import serve
import support


STOPPED = "the Docker daemon stopped"


@pytest.fixture(scope="module")
def mortal():
    """A daemon of this file alone, to be killed."""
    running = docker.Dockerd()
    try:
        running.use("bare")
        yield running
    finally:
        running.close()


@pytest.fixture
def own(mortal):
    """The same, alive and with nothing in it at the beginning of a test."""
    if mortal.pid is None:
        mortal.start_again()
    for one in mortal.containers():  # of a test that failed
        mortal.ask("DELETE", f"/containers/{one['Id']}?force=1", raw=True)
    return mortal


def env(running, **more):
    return running.env(DOCKER_IMAGE="bare:1", **more)


def until_it_runs(running, program):
    """A container of ours has such a process."""
    def has_it():
        found = [one["Id"] for one in running.containers(bailey_engine=True) if one["State"] == "running"]
        return any(program in line for one in found
                   for process in running.ask("GET", f"/containers/{one}/top")["Processes"]
                   for line in process)
    support.wait_until(has_it, f"{program} runs in a container", 30.0)


def test_dockerd_dies_in_the_middle_of_a_run(own):
    before = own.kept()
    process = support.start("exec", "--json", "--", "sh", "-c", "echo part; exec sleep 1000", env=env(own))
    until_it_runs(own, "sleep")
    own.kill()
    out, err = process.communicate(timeout=support.PATIENCE)
    result = support.Result(support.Done([], process.returncode, out, err, None))
    assert result["exit_code"] == 1 and result.status == 125, result
    assert result.error["code"] == "box_lost", result
    assert STOPPED in result.error["message"], result
    own.start_again()
    assert support.exec_json("echo", "works", env=env(own))["stdout"] == "works\n"
    assert not own.left_since(before), own.left_since(before)


def test_dockerd_dies_beneath_sessions(own):
    """What runs ends with a reason; the session says why; when Docker is back, new ones work, and
    what was left is gone."""
    before, ended = own.kept(), {}
    with serve.Daemon(env(own)) as daemon:
        made = daemon.session()["id"]
        daemon.exec(made, "true")
        begun = daemon.background(made, "sleep", "1000", timeout=0)
        daemon.write(made, "/tmp/f", b"x")
        waiting = threading.Thread(target=lambda: ended.update(daemon.wait(begun["execution_id"], 30)))
        waiting.start()
        own.kill()
        waiting.join()
        assert ended["state"] == "failed" and ended["error"]["code"] == "box_lost", ended
        assert STOPPED in ended["error"]["message"], ended
        found = serve.polled(lambda: daemon.get(f"/v1/sessions/{made}"),
                             lambda session: session["state"] == "ended", "the session has ended")
        assert found["end_reason"] == "provider_gone", found
        assert "provider_gone" in daemon.bailey("session", "ls", "--all").stdout
        error = daemon.refused("POST", f"/v1/sessions/{made}/exec", 410, "session_ended",
                               {"argv": ["true"]})
        assert error["reason"] == "provider_gone" and "provider_gone" in error["message"], error
        other = daemon.session()["id"]
        error = daemon.exec(other, "true")["meta"]["error"]
        assert error["code"] == "provider_unavailable", error
        assert "Docker daemon not available" in error["message"], error
        own.start_again()
        assert not own.left_since(before), "without a box being asked for"
        assert daemon.exec(other, "echo", "back")["stdout"] == "back\n"
        daemon.end(other)
        assert not own.left_since(before), own.left_since(before)


def test_dockerd_dies_beneath_a_pool(own):
    """What was made ahead is made again, and nothing of the first ones is left."""
    before = own.kept()

    def ready():
        return {one["Id"] for one in own.containers(bailey_engine=True) if one["State"] == "running"}
    with serve.Daemon(env(own, DOCKER_POOL_SIZE="2")) as daemon:
        support.wait_until(lambda: len(ready()) == 2, "two are ready", 30.0)
        first = ready()
        own.kill()
        own.start_again()
        daemon.before |= own.processes()
        made = daemon.session()["id"]
        assert daemon.exec(made, "echo", "works")["stdout"] == "works\n"
        daemon.end(made)
        support.wait_until(lambda: len(ready()) == 2 and not ready() & first, "two others are", 30.0)
    assert not own.left_since(before), own.left_since(before)


def test_dockerd_stops_as_a_person_stops_it(own):
    """SIGTERM: it ends its containers first."""
    with serve.Daemon(env(own)) as daemon:
        made = daemon.session()["id"]
        daemon.exec(made, "true")
        daemon.background(made, "sleep", "1000", timeout=0)
        own.kill(signal.SIGTERM)
        assert serve.polled(lambda: daemon.get(f"/v1/sessions/{made}"),
                            lambda session: session["state"] == "ended",
                            "the session has ended")["end_reason"] == "provider_gone"


def test_a_run_by_a_daemon_whose_docker_dies(own):
    """The one-shot run says so too."""
    done = {}
    ask = {"code": "import time; time.sleep(1000)", "timeout": 600}
    with serve.Daemon(own.env(DOCKER_IMAGE=own.use("plain"))) as daemon:
        waiting = threading.Thread(target=lambda: done.update(daemon.post("/v1/run", ask)))
        waiting.start()
        until_it_runs(own, "python")
        own.kill()
        waiting.join()
        assert done["meta"]["error"]["code"] == "box_lost", done
        assert STOPPED in done["meta"]["error"]["message"], done
        own.start_again()  # what it left is removed by who made it
        daemon.before |= own.processes()
        support.wait_until(lambda: not own.containers(), "the container is gone", 30.0)


def test_a_container_that_somebody_removes(own):
    with serve.Daemon(env(own)) as daemon:
        one, two = daemon.session()["id"], daemon.session()["id"]
        daemon.exec(one, "true")
        (container,) = own.containers(bailey_engine=True)
        daemon.exec(two, "true")
        daemon.background(one, "sleep", "1000", timeout=0)
        own.ask("DELETE", f"/containers/{container['Id']}?force=1")
        assert serve.polled(lambda: daemon.get(f"/v1/sessions/{one}"),
                            lambda session: session["state"] == "ended", "it has ended")[
                                "end_reason"] == "box_lost"
        assert daemon.exec(two, "echo", "unharmed")["stdout"] == "unharmed\n"
        daemon.end(two)


@pytest.mark.parametrize("by", ["run", "daemon"])
def test_a_run_whose_container_somebody_removes(own, by):
    """The error says that it went, and not that Docker did."""
    image, done = own.env(DOCKER_IMAGE=own.use("plain")), {}
    code = "import subprocess; subprocess.run(['sleep', '1000'])"

    def remove():
        until_it_runs(own, "sleep")
        (container,) = own.containers(bailey_engine=True)
        own.ask("DELETE", f"/containers/{container['Id']}?force=1")
    removing = threading.Thread(target=remove)
    removing.start()
    if by == "run":
        done = support.run_json(code, "--timeout", "600", env=image)
    else:
        with serve.Daemon(image) as daemon:
            done = daemon.post("/v1/run", {"code": code, "timeout": 600})
    removing.join()
    assert done["meta"]["error"]["code"] == "box_lost", done
    assert STOPPED not in done["meta"]["error"]["message"], done


def test_a_container_that_somebody_pauses_can_be_ended(own):
    with serve.Daemon(env(own)) as daemon:
        made = daemon.session()["id"]
        daemon.exec(made, "true")
        (container,) = own.containers(bailey_engine=True)
        own.ask("POST", f"/containers/{container['Id']}/pause")
        daemon.end(made)
        support.wait_until(lambda: not own.containers(), "the container is gone", 30.0)


# --- images --------------------------------------------------------------------------------------


def test_an_image_that_is_missing(clean_docker):
    """No registry is reached from here: it says what was tried and what to do."""
    missing = clean_docker.env(DOCKER_IMAGE=f"127.0.0.1:9/{docker.MISSING}")
    result = support.run_json("print(1)", env=missing)
    assert result["exit_code"] == 1 and result.status == 125, result
    assert result.error["code"] == "image_not_found", result
    for words in (docker.MISSING, "bailey image build", "DOCKER_IMAGE"):
        assert words in result.error["message"], result
    fallback = support.run_json("print(1)", env={**missing, "SANDBOX_FALLBACK": "local"})
    assert fallback.error is None or fallback.error["code"] == "image_not_found", fallback
    assert fallback.error or fallback.meta["fallback"], "never silently"
    with serve.Daemon(missing) as daemon:
        error = daemon.post("/v1/run", {"code": "1"})["meta"]["error"]
        assert error["code"] == "image_not_found" and docker.MISSING in error["message"], error


def test_an_image_of_another_architecture(clean_docker):
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("foreign"))
    result = support.exec_json("echo", "ran", env=env)
    assert result["exit_code"] == 1 and result["stdout"] == "" and result.status == 125, result
    assert result.error["code"] == "image_unusable", result
    assert "architecture" in result.error["message"] and "s390x" in result.error["message"], result


def test_an_image_that_is_made_while_a_daemon_waits(own):
    """What was missing is looked for again at the next box."""
    with serve.Daemon(own.env(DOCKER_IMAGE="later:1")) as daemon:
        made = daemon.session()["id"]
        assert daemon.exec(made, "true")["meta"]["error"]["code"] == "image_not_found"
        own.ask("POST", "/images/bare:1/tag?repo=later&tag=1")
        assert daemon.exec(made, "echo", "there")["stdout"] == "there\n"
        daemon.end(made)


def test_the_wardens_volume_that_somebody_removes(own):
    """As `docker volume prune` does, or an engine of another version: it is filled again."""
    with serve.Daemon(env(own)) as daemon:
        made = daemon.session()["id"]
        assert daemon.exec(made, "echo", "works")["stdout"] == "works\n"
        daemon.end(made)
        support.wait_until(lambda: not own.containers(), "the container is gone")
        for name in own.volumes():
            own.ask("DELETE", f"/volumes/{name}?force=1")
        made = daemon.session()["id"]
        result = daemon.exec(made, "echo", "works")
        assert result["stdout"] == "works\n", result
        daemon.end(made)


# --- disks ---------------------------------------------------------------------------------------


@pytest.fixture
def small_disk():
    """A dockerd whose data is on a disk of 64 MB, with the image of one program on it."""
    running = docker.Dockerd(disk="64m")
    try:
        running.use("bare")
        yield running
    finally:
        running.close()


def test_dockers_disk_is_full(small_disk):
    """No room for a container: said so, and once there is room it works."""
    before = small_disk.kept()
    assert support.exec_json("echo", "works", env=env(small_disk))["stdout"] == "works\n"
    ballast = small_disk.fill_disk()
    result = support.exec_json("echo", "ran", env=env(small_disk))
    assert result["exit_code"] == 1 and result["stdout"] == "" and result.status == 125, result
    assert result.error["code"] == "disk_full", result
    assert "disk is full" in result.error["message"] and "Docker" in result.error["message"], result
    os.unlink(ballast)
    assert support.exec_json("echo", "works", env=env(small_disk))["stdout"] == "works\n"
    assert not small_disk.left_since(before), small_disk.left_since(before)


def test_the_boxs_own_disk_is_full(dockerd):
    result = support.run_json("open('f', 'wb').write(b'x' * (64 << 20))", "--disk", "8m",
                              env=dockerd.env())
    assert result["exit_code"] == 1 and result.meta["disk_full"] is True, result
    assert "No space left" in result["stderr"], result
