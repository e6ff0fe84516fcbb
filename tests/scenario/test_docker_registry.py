"""
An image that is not there comes from its registry (a real one, on loopback), and whoever waits sees
how far it is; when it does not come the error says why and what to do. And other runtimes below
Docker, by name.
"""
import os
import shutil
import signal
import socket
import tempfile
import threading

import pytest

import docker
import registry
import serve
import support

NAME = "team/bare"
CARELESS = """#!/usr/bin/python3
import json, os, sys
if "create" in sys.argv:
    path = os.path.join(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    with open(path) as file:
        config = json.load(file)
    config["linux"]["resources"] = {"devices": config["linux"]["resources"]["devices"]}
    with open(path, "w") as file:
        json.dump(config, file)
os.execvp("runc", ["runc", *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def careless():
    """A runtime that does not limit what it runs, whatever Docker asks for: its path."""
    folder = tempfile.mkdtemp(prefix="yard-runtime-")
    path = os.path.join(folder, "careless")
    with open(path, "w") as file:
        file.write(CARELESS)
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def own(careless):
    """A dockerd of this file alone: images are removed from it all the time."""
    crun = shutil.which("crun", path=support.PATH)
    assert crun, "no crun on this machine: tools/setup test installs it"
    running = docker.Dockerd(options=("--add-runtime", f"crun={crun}",
                                      "--add-runtime", f"careless={careless}"))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def source(own):
    """A registry with one image, that Docker itself does not have."""
    running = registry.Registry()
    try:
        running.digest = registry.push(own, own.use("bare"), f"{running.address}/{NAME}:1")
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def gates(source):
    gate = registry.Gate(source)
    yield gate
    gate.close()


@pytest.fixture
def gate(own, gates):
    """Open, in front of a registry whose image Docker does not have."""
    if own.pid is None:
        own.start_again()
    for image in own.ask("GET", "/images/json"):
        own.ask("DELETE", f"/images/{image['Id']}?force=1")
    own.made.clear()
    gates.hold()
    gates.open()
    yield gates
    gates.open()


def wanted(own, gate, **more):
    return own.env(DOCKER_IMAGE=f"{gate.address}/{NAME}:1", **more)


def is_there(own, gate):
    return f"{gate.address}/{NAME}:1" in own.images()


# --- it comes ------------------------------------------------------------------------------------


def test_an_image_that_is_missing_comes(own, gate):
    """Who reads a log finds few lines; who asked once more finds none."""
    done = support.bailey("exec", "--", "echo", "works", env=wanted(own, gate))
    assert (done.status, done.stdout) == (0, "works\n"), done
    lines = done.stderr.splitlines()
    assert len(lines) <= 4 and all(f"{gate.address}/{NAME}:1" in line for line in lines), done
    assert "pulling" in lines[0] and "MB" in lines[-1] and "\x1b" not in done.stderr, done
    assert is_there(own, gate)
    done = support.bailey("exec", "--", "echo", "works", env=wanted(own, gate))
    assert (done.status, done.stdout, done.stderr) == (0, "works\n", ""), done


@pytest.mark.parametrize("options", [("--quiet",), ("--json",)], ids=lambda value: value[0])
def test_who_wants_no_words_gets_none(own, gate, options):
    done = support.bailey("exec", *options, "--", "echo", "works", env=wanted(own, gate))
    assert (done.status, done.stderr) == (0, "") and "works" in done.stdout, done


def test_a_terminal_sees_how_far_it_is(own, gate):
    gate.hold()
    status, seen = support.on_terminal("exec", "--", "echo", "works", env=wanted(own, gate),
                                       until=b" MB", then=gate.open)
    assert status == 0, seen
    line, _, rest = seen.partition(b" MB")
    assert f"pulling {gate.address}/{NAME}:1: ".encode() in line, seen
    cleared, _, after = rest.rpartition(b"\r\x1b[K")
    assert after == b"works\r\n", "the line is gone, and what was asked for is there"
    assert b"\n" not in cleared, seen


def test_a_digest(own, gate, source):
    image = f"{gate.address}/{NAME}@{source.digest}"
    result = support.exec_json("echo", "works", env=own.env(DOCKER_IMAGE=image))
    assert result["stdout"] == "works\n", result
    (found,) = own.ask("GET", "/images/json")
    assert found["RepoDigests"] == [image], found


def test_without_a_tag_it_is_the_latest(own, gate):
    """And not all that there are."""
    result = support.exec_json("echo", "ran", env=own.env(DOCKER_IMAGE=f"{gate.address}/{NAME}"))
    assert result.error["code"] == "image_not_found", result
    assert not own.images() and any(path.endswith("/latest") for _, path in gate.asked), gate.asked


# --- it does not ---------------------------------------------------------------------------------


def assert_not_there(result, image, *words):
    assert result["exit_code"] == 1 and result["stdout"] == "" and result.status == 125, result
    assert result.error["code"] == "image_not_found", result
    for text in (f"image '{image}' is not there", *words):
        assert text in result.error["message"], result


@pytest.mark.parametrize("name", [f"{NAME}:2", "team/none:1", f"{NAME}@sha256:{'0' * 64}"],
                         ids=["tag", "name", "digest"])
def test_what_a_registry_does_not_have(own, gate, name):
    image = f"{gate.address}/{name}"
    assert_not_there(support.exec_json("echo", "ran", env=own.env(DOCKER_IMAGE=image)), image,
                     "its registry does not have it", "bailey image build", "DOCKER_IMAGE")


def test_a_registry_that_nobody_reaches(own, gate):
    with socket.socket() as taken:  # bound and not listening: refused, and nobody else's
        taken.bind(("127.0.0.1", 0))
        image = f"127.0.0.1:{taken.getsockname()[1]}/{NAME}:1"
        assert_not_there(support.exec_json("echo", "ran", env=own.env(DOCKER_IMAGE=image)), image,
                         "its registry cannot be reached", "bailey image build", "DOCKER_IMAGE")


def test_a_registry_that_wants_credentials(own, gate):
    closed = registry.Registry(is_closed=True)
    try:
        image = f"{closed.address}/{NAME}:1"
        result = support.exec_json("echo", "ran", env=own.env(DOCKER_IMAGE=image))
    finally:
        closed.close()
    assert_not_there(result, image, "its registry wants credentials", "docker login",
                     f"docker pull {image}")


def test_who_asked_goes_away(own, gate):
    """Ctrl-C: Docker does not go on with what nobody waits for. It would share what it still has."""
    gate.hold()
    process = support.start("exec", "--", "echo", "ran", env=wanted(own, gate))
    assert gate.held.wait(support.PATIENCE)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=support.PATIENCE)
    assert out == b"" and process.returncode != 0 and b"in time" not in err, err
    assert_starts_anew(own, gate)


def assert_starts_anew(own, gate):
    first = gate.pulls()
    process = support.start("exec", "--", "echo", "works", env=wanted(own, gate))
    support.wait_until(lambda: len(gate.pulls()) > len(first), "the layer is asked for again", 30.0)
    gate.open()
    out, err = process.communicate(timeout=support.PATIENCE)
    assert out == b"works\n", err


def test_docker_dies_in_the_middle(own, gate):
    gate.hold()
    process = support.start("exec", "--json", "--", "echo", "ran", env=wanted(own, gate))
    assert gate.held.wait(support.PATIENCE)
    own.kill()
    out, err = process.communicate(timeout=support.PATIENCE)
    result = support.Result(support.Done([], process.returncode, out, err, None))
    assert result.error["code"] == "provider_unavailable", result
    assert "Docker daemon not available" in result.error["message"], result
    own.start_again()


# --- a daemon ------------------------------------------------------------------------------------


def test_sessions_wait_for_one_pull(own, gate):
    gate.hold()
    with serve.Daemon(wanted(own, gate)) as daemon:
        made, results = [daemon.session()["id"] for _ in range(3)], []
        threads = [threading.Thread(target=lambda one=one: results.append(daemon.exec(one, "echo", one)))
                   for one in made]
        threads[0].start()
        assert gate.held.wait(support.PATIENCE)
        for thread in threads[1:]:
            thread.start()
        serve.polled(lambda: [daemon.get(f"/v1/sessions/{one}")["state"] for one in made],
                     lambda states: set(states) == {"starting"}, "all of them wait")
        gate.open()
        for thread in threads:
            thread.join()
        assert sorted(result["stdout"] for result in results) == sorted(f"{one}\n" for one in made)
        assert len(gate.pulls()) == len(set(gate.pulls())), "each layer came once"
        for one in made:
            daemon.end(one)


def test_a_pull_that_takes_longer_than_a_client_waits(own, gate):
    """It is told so, with how far it is; the pull goes on, and the session is as good as before."""
    gate.hold()
    with serve.Daemon(wanted(own, gate, DOCKER_PULL_WAIT="1s")) as daemon:
        made = daemon.session()["id"]
        error = daemon.exec(made, "true")["meta"]["error"]
        assert error["code"] == "busy", error
        for words in (f"{gate.address}/{NAME}:1", "still being pulled"):
            assert words in error["message"], error
        assert gate.held.wait(support.PATIENCE)
        error = daemon.post("/v1/run", {"code": "1"})["meta"]["error"]
        assert error["code"] == "busy" and " MB" in error["message"], error
        gate.open()
        support.wait_until(lambda: is_there(own, gate), "it came without being asked for again", 30.0)
        result = daemon.exec(made, "echo", "works")
        assert result["stdout"] == "works\n", result
        assert len(gate.pulls()) == len(set(gate.pulls())), "each layer came once"
        daemon.end(made)


def generation(daemon):
    try:
        return daemon.get("/v1/info")["generation"]
    except OSError:  # nobody listens for a moment
        return 0


def test_a_broker_that_dies_meanwhile(own, gate):
    """The next one has the wall at once, and does not wait for what the first was asked for."""
    gate.hold()
    with serve.Daemon(wanted(own, gate, DOCKER_PULL_WAIT="1s")) as daemon:
        daemon.background(daemon.session()["id"], "true")
        assert gate.held.wait(support.PATIENCE)
        info = daemon.get("/v1/info")
        os.kill(info["broker_pid"], signal.SIGKILL)
        serve.polled(lambda: generation(daemon), lambda now: now > info["generation"], "a new broker")
        made = daemon.session()["id"]
        error = daemon.exec(made, "true")["meta"]["error"]
        assert error["code"] == "busy" and "still being pulled" in error["message"], error
        gate.open()
        support.wait_until(lambda: is_there(own, gate), "it came", 30.0)
        assert daemon.exec(made, "echo", "works")["stdout"] == "works\n"
        assert len(gate.pulls()) == len(set(gate.pulls())), "each layer came once"
        daemon.end(made)


def test_a_daemon_that_ends_meanwhile(own, gate):
    gate.hold()
    with serve.Daemon(wanted(own, gate)) as daemon:
        made = daemon.session()["id"]
        daemon.background(made, "true")
        assert gate.held.wait(support.PATIENCE)
    assert not is_there(own, gate)
    assert_starts_anew(own, gate)


def test_a_daemon_has_its_image_before_it_is_asked(own, gate):
    """Boxes made ahead are a reason to pull."""
    with serve.Daemon(wanted(own, gate, DOCKER_POOL_SIZE="1")):
        support.wait_until(lambda: [one for one in own.containers(bailey_engine=True)
                                    if one["State"] == "running"], "one is ready", 60.0)


# --- DOCKER_RUNTIME ------------------------------------------------------------------------------


def test_another_runtime(own):
    env = own.env(DOCKER_IMAGE=own.use("plain"))
    usual = support.run_json("import os; print(os.getuid())", env=env)
    result = support.run_json("import os; print(os.getuid())", env={**env, "DOCKER_RUNTIME": "crun"})
    assert (result["stdout"], result["exit_code"]) == ("1000\n", 0), result
    assert result.meta["isolation"] == usual.meta["isolation"], result
    assert result.meta["resource_limits"] == usual.meta["resource_limits"], result
    with serve.Daemon({**env, "DOCKER_RUNTIME": "crun"}) as daemon:
        made = daemon.session()["id"]
        cells = f"/v1/sessions/{made}/code"
        assert daemon.post(cells, {"code": "x = 6"})["exit_code"] == 0
        (container,) = own.containers(bailey_engine=True)
        assert own.inspect(container["Id"])["HostConfig"]["Runtime"] == "crun"
        assert daemon.post(cells, {"code": "print(7 * x)"})["stdout"] == "42\n"
        big = daemon.exec(made, "python3", "-c", "x = b'x' * (1 << 30)")
        assert big["meta"]["oom_killed"] is True, big
        daemon.end(made)


def test_a_runtime_that_holds_no_limits(own):
    """As gVisor's with --ignore-cgroups: Docker says that they are there, and the result does not."""
    env = own.env(DOCKER_IMAGE=own.use("bare"), DOCKER_RUNTIME="careless")
    result = support.exec_json("echo", "ran", env=env)
    assert (result["stdout"], result["exit_code"]) == ("ran\n", 0), result
    with serve.Daemon(env) as daemon:
        sessions = [daemon.session()["id"] for _ in range(2)]  # the first asks, the second knows
        for meta in (result.meta, *(daemon.exec(one, "true")["meta"] for one in sessions)):
            assert "cgroup" in meta["isolation"]["missing"], meta
            assert {meta["resource_limits"][f"{what}_by"] for what in ("memory", "pids", "cpu")} == {"none"}
        for container in own.containers(bailey_engine=True):
            assert own.inspect(container["Id"])["HostConfig"]["Memory"] > 0, "so says Docker"
        for one in sessions:
            daemon.end(one)


def test_a_runtime_that_docker_does_not_have(own):
    env = own.env(DOCKER_IMAGE=own.use("plain"), DOCKER_RUNTIME="no-such-runtime")
    result = support.run_json("print(1)", env=env)
    assert result["exit_code"] == 1 and result.status == 125, result
    assert result.error["code"] == "bad_config", result
    for words in ("DOCKER_RUNTIME", "'no-such-runtime'", "crun", "runc"):
        assert words in result.error["message"], result
    with serve.Daemon(env) as daemon:
        made = daemon.session()["id"]
        error = daemon.exec(made, "true")["meta"]["error"]
        assert error["code"] == "bad_config" and "crun" in error["message"], error
    done = support.bailey("doctor", env=env)
    assert "no-such-runtime" in done.stdout and "crun" in done.stdout, done
