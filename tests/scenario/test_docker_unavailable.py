"""
Promised scenario 7: no Docker daemon. A clear error and what to do; with SANDBOX_FALLBACK=local the
run happens locally and says so; never silently. And daemons that are there but cannot be used.
"""
import os
import socket

import pytest

import docker
import serve
import support

NOT_THERE = "Docker daemon not available"
REMEDY = "Set SANDBOX_TYPE=local or start Docker daemon"


def nowhere(room, **more):
    return {"SANDBOX_TYPE": "docker", "DOCKER_HOST": f"unix://{room.path}/nobody.sock", **more}


def assert_said(result, *more):
    assert result["exit_code"] == 1 and result["stdout"] == "", result
    assert result.error["code"] == "provider_unavailable", result
    for words in (NOT_THERE, REMEDY, *more):
        assert words in result.error["message"] and words in result["stderr"], result
    assert result.status == 125 and "fallback" not in result.meta, result


class Ran(dict):
    """A result that came over REST, as those of the command line are."""

    status = 125

    @property
    def meta(self):
        return self["meta"]

    @property
    def error(self):
        return self["meta"]["error"]


@pytest.mark.parametrize("command", [("run", "-c", "print('ran')"), ("exec", "--", "echo", "ran")])
def test_the_words(room, command):
    done = support.bailey(*command, env=nowhere(room), room=room)
    assert done.status == 125 and done.out == b"", done
    assert NOT_THERE in done.stderr and REMEDY in done.stderr, done


def test_the_result(room):
    result = support.run_json("print('ran')", env=nowhere(room), room=room)
    assert_said(result, f"{room.path}/nobody.sock")
    assert result.meta["runtime"] == "docker"


def test_a_socket_that_nobody_listens_on(room):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{room.path}/nobody.sock")
    assert_said(support.run_json("print(1)", env=nowhere(room), room=room))


def test_a_port_that_nobody_listens_on(room):
    with socket.socket() as taken:  # bound and not listening: refused, and nobody else's
        taken.bind(("127.0.0.1", 0))
        host = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        assert_said(support.run_json("print(1)", env={**nowhere(room), "DOCKER_HOST": host}, room=room))


@pytest.mark.parametrize("value", [None, "none"])
def test_nothing_falls_back_by_itself(room, value):
    assert_said(support.run_json("print('ran')", env=nowhere(room, SANDBOX_FALLBACK=value), room=room))


def test_with_a_fallback_the_run_is_local_and_says_so(room):
    result = support.run_json("print('ran')", env=nowhere(room, SANDBOX_FALLBACK="local"), room=room)
    assert (result["stdout"], result["exit_code"], result.error) == ("ran\n", 0, None), result
    assert result.meta["runtime"] == "local", result
    assert result.meta["fallback"]["from"] == "docker" and result.meta["fallback"]["to"] == "local"
    assert NOT_THERE in result.meta["fallback"]["reason"], result


def test_who_reads_no_json_is_told_of_a_fallback_too(room):
    env = nowhere(room, SANDBOX_FALLBACK="local")
    done = support.bailey("exec", "--", "echo", "ran", env=env, room=room)
    assert (done.status, done.out) == (0, b"ran\n"), done
    assert NOT_THERE in done.stderr and "local" in done.stderr, done


def test_what_a_container_cannot_have(room):
    """Said before Docker is asked for anything."""
    result = support.run_json("print(1)", "--template", "data", env=nowhere(room), room=room)
    assert result.error["code"] == "bad_input" and result.status == 125, result
    for words in ("bailey image build --template data", "DOCKER_IMAGE"):
        assert words in result.error["message"], result
    result = support.run_json("print(1)", env=nowhere(room, SANDBOX_ROOT=str(room.path)), room=room)
    assert result.error["code"] == "bad_config" and "DOCKER_IMAGE" in result.error["message"], result


def test_the_local_runtime_says_nothing_of_it():
    assert "fallback" not in support.run_json("pass").meta


def test_a_daemon_without_docker(room):
    """It serves, says for each box what is missing, and works as soon as Docker is there."""
    with serve.Daemon(nowhere(room)) as daemon:
        assert_said(Ran(daemon.post("/v1/run", {"code": "print(1)"})))
        made = daemon.session()["id"]
        assert_said(Ran(daemon.exec(made, "true")))
        reply = daemon.post("/v1/tools/sandbox_exec", {"command": ["true"]}, session=made)
        assert reply["success"] is False and NOT_THERE in reply["error"], reply
        done = daemon.bailey("run", "-c", "print(1)")
        assert done.status == 125 and NOT_THERE in done.stderr, done


def hosts(daemon):
    """The provider hosts that run."""
    def words(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return file.read().split(b"\0")
        except OSError:
            return []
    return [pid for pid in daemon.pids() if words(pid)[1:3] == [b"host", b"docker"]]


@pytest.fixture
def usual():
    """A daemon of an ordinary user and another type, and the address where Docker is not yet."""
    room = support.Room(support.ORDINARY_UID if support.is_root() else None)
    with serve.Daemon({"DOCKER_HOST": f"unix://{room.path}/fake.sock"}, room=room, user=room.user) as daemon:
        yield daemon
    room.remove()


def test_docker_that_comes_later_needs_no_restart(usual):
    """Until a session needs it, no process for Docker runs."""
    made = usual.session(type="docker")["id"]
    assert usual.exec(usual.session()["id"], "true")["exit_code"] == 0
    assert not hosts(usual)
    assert_said(Ran(usual.exec(made, "true")))
    assert len(hosts(usual)) == 1
    fake = docker.FakeDockerd(usual.room.path, version("1.24"))
    try:
        os.chmod(fake.path, 0o666)
        result = Ran(usual.exec(made, "true"))
        assert "too old" in result.error["message"], result
    finally:
        fake.close()


def test_a_broker_that_is_killed_before_docker_is_needed(usual):
    """The channel of a broker that is gone does not start the host, and the next one's does."""
    made = usual.session(type="docker")["id"]
    os.kill(usual.get("/v1/info")["broker_pid"], 9)
    usual._wait_until_it_answers()
    assert_said(Ran(usual.exec(made, "true")))
    assert len(hosts(usual)) == 1


@pytest.mark.skipif(not support.is_root(), reason="needs root, whose start gives up its rights")
def test_a_root_start_without_docker_keeps_nothing_of_roots_for_it(room):
    """The error says what to do, and that is enough."""
    env = {"DOCKER_HOST": f"unix://{room.path}/fake.sock"}
    with serve.Daemon(env, room=room) as daemon:
        made = daemon.session(type="docker")["id"]
        fake = docker.FakeDockerd(room.path, version("1.24"))
        try:
            assert not hosts(daemon)
            message = Ran(daemon.exec(made, "true")).error["message"]
            for words in (NOT_THERE, "this daemon was started without Docker", "Start Docker", "bailey daemon stop",
                          "systemctl restart bailey", "SANDBOX_TYPE=docker"):
                assert words in message, message
            assert daemon.bailey("daemon", "stop", "--force").status == 0
            with serve.Daemon(env, room=room) as again:
                reached = Ran(again.exec(again.session(type="docker")["id"], "true"))
                assert "too old" in reached.error["message"], reached
        finally:
            fake.close()


def test_a_daemon_with_a_fallback(room):
    with serve.Daemon(nowhere(room, SANDBOX_FALLBACK="local")) as daemon:
        made = daemon.session()["id"]
        result = daemon.exec(made, "echo", "ran")
        assert result["stdout"] == "ran\n" and result["meta"]["runtime"] == "local", result
        assert NOT_THERE in result["meta"]["fallback"]["reason"], result
        result = daemon.post(f"/v1/sessions/{made}/code", {"code": "print(6 * 7)"})
        assert result["stdout"] == "42\n" and "fallback" in result["meta"], result
        one = daemon.post("/v1/run", {"code": "print(1)"})
        assert one["stdout"] == "1\n" and "fallback" in one["meta"], one
        daemon.end(made)


# --- there, and of no use ------------------------------------------------------------------------


@pytest.mark.skipif(not support.is_root(), reason="needs root, to be somebody else")
def test_a_socket_without_permission(dockerd):
    assert os.stat(dockerd.socket).st_mode & 0o007 == 0
    result = support.run_json("print(1)", env=dockerd.env(), user=support.ORDINARY_UID)
    assert_said(result, "ermission", dockerd.socket)


def version(number):
    return {"Version": "1.2.3", "ApiVersion": number, "MinAPIVersion": "1.12", "Os": "linux", "Arch": "amd64"}


def test_an_api_that_is_too_old(room):
    fake = docker.FakeDockerd(room.path, version("1.24"))
    try:
        env = {"SANDBOX_TYPE": "docker", "DOCKER_HOST": fake.host}
        result = support.run_json("print(1)", env=env, room=room)
        assert result.error["code"] == "provider_unavailable" and result.status == 125, result
        for words in ("too old", "1.24", "1.41", "SANDBOX_TYPE=local"):
            assert words in result.error["message"], result
        assert not [line for line in fake.asked if line.startswith("POST")], fake.asked
        result = support.run_json("print(1)", env={**env, "SANDBOX_FALLBACK": "local"}, room=room)
        assert result["stdout"] == "1\n" and "too old" in result.meta["fallback"]["reason"], result
    finally:
        fake.close()


@pytest.mark.parametrize("answer", [
    {"ApiVersion": "nonsense"}, {"ApiVersion": ""}, {"ApiVersion": "99999999999999999999.1"},
], ids=["nonsense", "empty", "huge"])
def test_somebody_who_is_not_docker(room, answer):
    fake = docker.FakeDockerd(room.path, answer)
    try:
        result = support.run_json("print(1)", env={"SANDBOX_TYPE": "docker", "DOCKER_HOST": fake.host},
                                  room=room)
        assert result["exit_code"] == 1 and result.error["code"] == "provider_unavailable", result
    finally:
        fake.close()


@pytest.mark.parametrize("host", ["/var/run/docker.sock", "ftp://host", "unix://relative", "tcp://"])
def test_an_address_that_is_none(host):
    result = support.run_json("print(1)", env={"SANDBOX_TYPE": "docker", "DOCKER_HOST": host})
    assert result.error["code"] == "bad_config" and "DOCKER_HOST" in result.error["message"], result
    assert result.status == 125


def test_the_doctor_shows_what_is_missing_and_what_is_there(room, dockerd):
    done = support.bailey("doctor", env=nowhere(room), room=room)
    assert NOT_THERE in done.stdout + done.stderr, done
    done = support.bailey("doctor", env=dockerd.env(), room=room)
    about = dockerd.ask("GET", "/info")
    for words in (about["ServerVersion"], about["Driver"], about["CgroupDriver"], "runc"):
        assert words in done.stdout, (words, done)
    done = support.bailey("doctor", env=dockerd.env(DOCKER_IMAGE=docker.MISSING), room=room)
    assert docker.MISSING in done.stdout and "bailey image build" in done.stdout, done
