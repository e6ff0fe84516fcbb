"""
Nothing is left and nobody else's is touched: containers of runs, of sessions, of a pool; after the
broker, the wall, the daemon or a one-shot run was killed.
"""
import os
import signal
import urllib.parse

import pytest

import serve
import support

WAIT_S = 30.0


def ours(dockerd, state="running"):
    return [one for one in dockerd.containers(bailey_engine=True) if one["State"] == state]


def gone(dockerd):
    support.wait_until(lambda: not dockerd.containers(bailey_engine=True), "our containers are gone",
                       WAIT_S)


def wall_of(daemon):
    """The process that speaks to Docker."""
    for pid in daemon.pids():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().split(b"\0")[:3] == [b"bailey-engine", b"host", b"docker"]:
                    return pid
        except OSError:
            pass
    raise AssertionError(f"no wall among {support.alive(daemon.process.pid)}")


def generation(daemon):
    try:
        return daemon.get("/v1/info")["generation"]
    except OSError:  # nobody listens for a moment
        return 0


def kill_broker(daemon):
    info = daemon.get("/v1/info")
    os.kill(info["broker_pid"], signal.SIGKILL)
    serve.polled(lambda: generation(daemon), lambda now: now > info["generation"], "a new broker")


def killed(daemon):
    """kill -9 of every process of it; they come to us as orphans."""
    pids = daemon.pids()
    daemon.kill()
    support.wait_until(lambda: support.reap_orphans() or not any(
        os.path.exists(f"/proc/{pid}") for pid in pids), "all of it is gone", WAIT_S)


@pytest.fixture
def strangers(dockerd):
    """Containers of others: one without labels, one of another engine and state folder."""
    image = dockerd.use("bare")
    made = [dockerd.make_container(image, ["sleep", "100000"]),
            dockerd.make_container(image, ["sleep", "100000"], {
                "bailey.engine": "another", "bailey.key": "theirs", "bailey.state": "0123456789abcdef"})]
    yield made
    for one in made:
        assert dockerd.inspect(one)["State"]["Running"] is True, "somebody else's was touched"
        dockerd.ask("DELETE", f"/containers/{one}?force=1")


def engines(dockerd, strangers):
    """Ours among those with a label."""
    return [one for one in dockerd.containers(bailey_engine=True) if one["Id"] not in strangers]


def test_twenty_runs_leave_nothing(clean_docker):
    """Containers, volumes, networks and layers; the fixture looks. Ten by a daemon, ten without."""
    image = clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))
    warden = {name for name in clean_docker.volumes() if name.startswith("bailey-warden-")}
    with serve.Daemon(image) as daemon:
        for number in range(10):
            made = daemon.session()["id"]
            assert daemon.exec(made, "echo", str(number))["stdout"] == f"{number}\n"
            daemon.end(made)
    for number in range(10):
        assert support.exec_json("echo", str(number), env=image)["stdout"] == f"{number}\n"
    now = {name for name in clean_docker.volumes() if name.startswith("bailey-warden-")}
    assert len(now) <= max(1, len(warden)), now


def make_volume(dockerd, name, **labels):
    dockerd.ask("POST", "/volumes/create", {"Name": name, "Labels": {
        label.replace("_", "."): value for label, value in labels.items()}})
    return name


def test_volumes_with_wardens_of_other_versions(clean_docker):
    """Ours by their label, and nobody has them: gone. Those of a container and of others stay."""
    image = clean_docker.use("bare")
    old, used = (make_volume(clean_docker, f"bailey-warden-{digit * 16}", bailey_volume=digit * 64)
                 for digit in "ab")
    theirs = {make_volume(clean_docker, "bailey-warden-of-somebody"),
              make_volume(clean_docker, "somebodys", bailey_volume="c" * 64)}
    user = clean_docker.make_container(image, ["sleep", "100000"], Binds=[f"{used}:/mnt:ro"])
    try:
        with serve.Daemon(clean_docker.env(DOCKER_IMAGE=image)) as daemon:
            made = daemon.session()["id"]
            assert daemon.exec(made, "echo", "works")["stdout"] == "works\n"
            support.wait_until(lambda: old not in clean_docker.volumes(), "the old one is gone", WAIT_S)
            daemon.end(made)
        assert {used, *theirs} <= clean_docker.volumes()
    finally:
        clean_docker.ask("DELETE", f"/containers/{user}?force=1")
        for name in clean_docker.volumes() & {old, used, *theirs}:
            clean_docker.ask("DELETE", f"/volumes/{name}?force=1")


@pytest.mark.parametrize("ending", [
    ("sh", "-c", "exit 3"), ("sh", "-c", "kill -9 $$"), ("sh", "-c", "sleep 1000 & sleep 1000"),
    ("no-such-program",), ("sh", "-c", "trap '' TERM INT HUP; kill -STOP $$")],
    ids=["status", "signal", "timeout", "not there", "stopped"])
def test_every_ending_leaves_nothing(clean_docker, ending):
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))
    support.exec_json(*ending, options=("--timeout", "1"), env=env)


@pytest.mark.attack(64, runtime="docker")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_killed(clean_docker, strangers, number):
    """At once: the container's input is closed when who attached to it is gone."""
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))
    process = support.start("exec", "--timeout", "600", "--", "sh", "-c", "echo up; exec sleep 1000", env=env)
    support.read_until(process.stdout, b"up\n", WAIT_S)
    assert len(engines(clean_docker, strangers)) == 1
    process.send_signal(number)
    process.communicate(timeout=support.PATIENCE)
    support.wait_until(lambda: not engines(clean_docker, strangers), "the container is gone", WAIT_S)
    support.reap_orphans()


@pytest.mark.attack(64, runtime="docker")
def test_a_killed_broker_loses_nothing(clean_docker):
    with serve.Daemon(clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))) as daemon:
        made = daemon.session()["id"]
        daemon.exec(made, "sh", "-c", "echo kept > /tmp/kept")
        script = "n=0; while [ $n -lt 60 ]; do n=$((n+1)); echo $n; sleep 0.02; done"
        begun = daemon.background(made, "sh", "-c", script, timeout=0)["execution_id"]
        (before,) = ours(clean_docker)
        kill_broker(daemon)
        assert daemon.wait(begun)["exit_code"] == 0
        assert daemon.output(begun).body.split() == [b"%d" % n for n in range(1, 61)]
        assert daemon.exec(made, "cat", "/tmp/kept")["stdout"] == "kept\n"
        (after,) = ours(clean_docker)
        assert after["Id"] == before["Id"]
        daemon.end(made)
        gone(clean_docker)


def test_datasets_stay_in_the_container_of_a_killed_broker(clean_docker):
    """They are looked at, and not put again."""
    with serve.Daemon(clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))) as daemon:
        made = daemon.session(datasets=[{"name": "one", "content": "1\n"}])["id"]
        before = daemon.exec(made, "stat", "-c", "%i %s", "/tmp/data/one.csv")["stdout"]
        assert before.endswith(" 2\n"), before
        kill_broker(daemon)
        assert daemon.exec(made, "stat", "-c", "%i %s", "/tmp/data/one.csv")["stdout"] == before
        daemon.end(made)


def test_an_upgrade_loses_nothing(clean_docker):
    """The wall stays as it is: it speaks to the broker of the new program."""
    with serve.Daemon(clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))) as daemon:
        made = daemon.session()["id"]
        daemon.exec(made, "sh", "-c", "echo kept > /tmp/kept")
        begun = daemon.background(made, "sh", "-c", "read line; echo $line", stdin=True,
                                  timeout=0)["execution_id"]
        (before,), wall = ours(clean_docker), wall_of(daemon)
        done = daemon.bailey("upgrade")
        assert done.status == 0 and "has taken over" in done.stdout, done
        daemon.asked("POST", f"/v1/sessions/{made}/processes/{begun}/stdin", b"said\n",
                     query={"end": "true"})
        assert daemon.wait(begun)["exit_code"] == 0
        assert daemon.output(begun).body == b"said\n"
        assert daemon.exec(made, "cat", "/tmp/kept")["stdout"] == "kept\n"
        (after,) = ours(clean_docker)
        assert after["Id"] == before["Id"] and wall_of(daemon) == wall
        other = daemon.session()["id"]
        assert daemon.exec(other, "echo", "another")["stdout"] == "another\n"
        for one in (made, other):
            daemon.end(one)
        gone(clean_docker)


@pytest.mark.attack(64, runtime="docker")
def test_a_broker_that_dies_while_a_container_is_made(clean_docker):
    with serve.Daemon(clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))) as daemon:
        for _ in range(3):
            made = daemon.session()["id"]
            daemon.background(made, "true")
            kill_broker(daemon)
            assert daemon.exec(made, "echo", "on")["stdout"] == "on\n"
            daemon.end(made)
        gone(clean_docker)


@pytest.mark.attack(64, runtime="docker")
def test_a_killed_wall(clean_docker, strangers):
    """Its containers go at once. Sessions end and say why; the daemon has another wall, or none and
    says so, but it lives."""
    with serve.Daemon(clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))) as daemon:
        made = daemon.session()["id"]
        daemon.exec(made, "true")
        daemon.background(made, "sleep", "1000", timeout=0)
        os.kill(wall_of(daemon), signal.SIGKILL)
        support.wait_until(lambda: not engines(clean_docker, strangers), "the container is gone", WAIT_S)
        found = serve.polled(lambda: daemon.get(f"/v1/sessions/{made}"),
                             lambda session: session["state"] == "ended", "it has ended")
        assert found["end_reason"] == "box_lost", found
        works_again(daemon)


def works_again(daemon):
    def tried():
        made = daemon.session()["id"]
        reply = daemon.call("POST", f"/v1/sessions/{made}/exec", {"argv": ["echo", "again"]})
        daemon.end(made)
        return reply
    serve.polled(tried, lambda reply: reply.status == 200 and reply.json()["stdout"] == "again\n",
                 "a session works again")


@pytest.mark.attack(64, runtime="docker")
def test_a_wall_that_dies_while_a_container_is_made(clean_docker, strangers):
    """At whatever moment: the next one removes what was begun. The volume is filled anew each time."""
    with serve.Daemon(clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))) as daemon:
        for moment in range(4):
            made = daemon.session()["id"]
            daemon.background(made, "sleep", "1000", timeout=0)
            if moment:
                support.wait_until(lambda: len(engines(clean_docker, strangers)) > 0,
                                   "something was made", WAIT_S)
            os.kill(wall_of(daemon), signal.SIGKILL)
            works_again(daemon)
            support.wait_until(lambda: not engines(clean_docker, strangers), "all of it is gone", WAIT_S)


@pytest.mark.attack(64, runtime="docker")
def test_a_killed_daemon(clean_docker, strangers):
    """kill -9 of all of it: containers are gone at once, or at the latest at the next start."""
    room = support.Room()
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))
    daemon = serve.Daemon(env, room=room)
    made = daemon.session()["id"]
    daemon.exec(made, "true")
    daemon.background(made, "sleep", "1000", timeout=0)
    killed(daemon)
    support.wait_until(lambda: not engines(clean_docker, strangers), "the container is gone", WAIT_S)
    with serve.Daemon(env, room=room) as daemon:
        other = daemon.session()["id"]
        assert daemon.exec(other, "echo", "next")["stdout"] == "next\n"
        daemon.end(other)


def test_what_an_earlier_engine_left_is_removed_at_the_next_start(clean_docker, strangers):
    """Containers with our state folder's label and an engine's that is gone, as a crash of Docker
    and of us at once leaves them, one of them the helper that fills the volume; made here by hand.
    Nobody asks for a box."""
    room = support.Room()
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))
    with serve.Daemon(env, room=room) as daemon:
        made = daemon.session()["id"]
        daemon.exec(made, "true")
        (one,) = engines(clean_docker, strangers)
        labels = clean_docker.inspect(one["Id"])["Config"]["Labels"]
        daemon.end(made)
    def leave(name=None, start=True):
        return clean_docker.make_container("bare:1", ["sleep", "100000"], {**labels, "bailey.engine": "gone"},
                                           start=start, name=name)
    (volume,) = [name for name in clean_docker.volumes() if name.startswith("bailey-warden-")]
    helper = volume.replace("warden", "fill")
    left = {leave(), leave(start=False), leave(helper, start=False)}
    with serve.Daemon(env, room=room) as daemon:
        support.wait_until(lambda: not left & {c["Id"] for c in clean_docker.containers()},
                           "what was left is gone", WAIT_S)
    leave(helper, start=False)
    with serve.Daemon(env, room=room) as daemon:
        made = daemon.session()["id"]
        assert daemon.exec(made, "echo", "next")["stdout"] == "next\n"
        daemon.end(made)


def test_two_engines_do_not_touch_each_other(clean_docker):
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))
    with serve.Daemon(env) as one:
        mine = one.session()["id"]
        one.exec(mine, "sh", "-c", "echo mine > /tmp/f")
        with serve.Daemon(env) as two:
            theirs = two.session()["id"]
            assert two.exec(theirs, "echo", "theirs")["stdout"] == "theirs\n"
            two.end(theirs)
        assert one.exec(mine, "cat", "/tmp/f")["stdout"] == "mine\n"
        assert support.exec_json("true", env=env)["exit_code"] == 0
        assert one.exec(mine, "cat", "/tmp/f")["stdout"] == "mine\n"
        one.end(mine)


# --- the pool ------------------------------------------------------------------------------------


def test_a_pool_is_started_ahead_and_never_used_twice(clean_docker):
    """Every box is a container that nobody had before."""
    with serve.Daemon(clean_docker.env(DOCKER_POOL_SIZE="2")) as daemon:
        support.wait_until(lambda: len(ours(clean_docker)) == 2, "two are ready", WAIT_S)
        serve.polled(lambda: daemon.get("/v1/warm")["pool"],
                     lambda pool: (pool["size"], pool["boxes"]) == (2, 2), "the pool is shown")
        metrics = daemon.call("GET", "/metrics").body.decode()
        assert 'bailey_pool_boxes{state="wanted"} 2' in metrics, metrics
        ahead = {one["Id"] for one in ours(clean_docker)}
        used, marks = set(), []
        for _ in range(4):
            made = daemon.session()["id"]
            found = daemon.exec(made, "sh", "-c", "ls /tmp/mark 2>&1; echo x > /tmp/mark; cat /etc/hostname; "
                                "cat /proc/sys/kernel/random/uuid")
            marks.append(found["stdout"])
            assert "No such file" in found["stdout"] or "cannot access" in found["stdout"], found
            daemon.end(made)
            support.wait_until(lambda: len(ours(clean_docker)) >= 2, "it is filled again", WAIT_S)
            now = {one["Id"] for one in ours(clean_docker)}
            assert not used & now, "one that was used is still there"
            used |= ahead - now
            ahead = now
        assert used, "sessions took those that were ready"
        made = daemon.session()["id"]
        result = daemon.post(f"/v1/sessions/{made}/code", {"code": "print(6 * 7)"})
        assert result["stdout"] == "42\n", result
        daemon.end(made)
    gone(clean_docker)


def test_a_pool_is_filled_also_when_it_is_larger_than_what_is_made_at_once(clean_docker):
    """Two at a time; each begins to be ready with its kernel, and the next has to be begun then."""
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("plain"), DOCKER_POOL_SIZE="3")
    with serve.Daemon(env) as daemon:
        serve.polled(lambda: daemon.get("/v1/warm")["pool"],
                     lambda pool: (pool["size"], pool["boxes"]) == (3, 3), "all of it is there")


def test_a_pool_goes_with_its_daemon(clean_docker, strangers):
    room = support.Room()
    daemon = serve.Daemon(clean_docker.env(DOCKER_POOL_SIZE="2"), room=room)
    support.wait_until(lambda: len([one for one in ours(clean_docker) if one["Id"] not in strangers]) == 2,
                       "two are ready", WAIT_S)
    killed(daemon)
    support.wait_until(lambda: not engines(clean_docker, strangers), "they are gone", WAIT_S)
    assert support.bailey("exec", "--", "/bin/true").status == 0  # its empty cgroups go with the next


def test_a_run_uses_the_daemons_pool(clean_docker):
    with serve.Daemon(clean_docker.env(DOCKER_POOL_SIZE="1")) as daemon:
        support.wait_until(lambda: len(ours(clean_docker)) == 1, "one is ready", WAIT_S)
        result = support.Result(daemon.bailey("run", "--json", "-c", "print(6 * 7)"))
        assert result["stdout"] == "42\n" and result.meta["runtime"] == "docker", result
    gone(clean_docker)


@pytest.fixture
def wishing(clean_docker):
    """Images that want something for themselves: wishing("VOLUME /data") is the name of one."""
    made = []

    def make(wish):
        base = clean_docker.make_container(clean_docker.use("bare"), ["true"], start=False)
        made.append(f"wish-{len(made)}:1")
        clean_docker.ask("POST", "/commit?" + urllib.parse.urlencode(
            {"container": base, "repo": made[-1].split(":")[0], "tag": "1", "changes": wish}), {})
        clean_docker.ask("DELETE", f"/containers/{base}?force=1&v=1", raw=True)
        return made[-1]
    yield make
    for name in made:
        clean_docker.ask("DELETE", f"/images/{name}?force=1")


def test_an_image_executes_nothing_by_itself(clean_docker, wishing):
    """docs/security.md, attacks 70. Docker would run a health check in the box, past the warden and its filters."""
    image = wishing("HEALTHCHECK --interval=1s CMD touch /tmp/checked")
    assert "Healthcheck" in clean_docker.ask("GET", f"/images/{image}/json")["Config"]
    with serve.Daemon(clean_docker.env(DOCKER_IMAGE=image, DOCKER_POOL_SIZE="0")) as daemon:
        made = daemon.session()["id"]
        assert daemon.exec(made, "echo", "works")["stdout"] == "works\n"
        (one,) = clean_docker.containers(bailey_engine=True)
        seen = clean_docker.inspect(one["Id"])
        assert seen["Config"]["Healthcheck"]["Test"] == ["NONE"], seen["Config"]
        assert not seen["State"].get("Health"), seen["State"]
        daemon.end(made)


def test_an_image_has_no_disk_of_the_machine(clean_docker, wishing):
    """docs/security.md, attacks 70. A folder of Docker's for each VOLUME, without a limit; not even the helper makes one."""
    result = support.exec_json("true", env=clean_docker.env(DOCKER_IMAGE=wishing("VOLUME /var/data")))
    assert result["exit_code"] == 1 and result.error["code"] == "image_unusable", result
    assert "/var/data" in result.error["message"], result
