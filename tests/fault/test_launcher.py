"""The daemon's processes: what they may do, and who survives whom."""
import os
import signal

import daemon
import pytest
import support
from daemon import Daemon, is_alive, mask, status

NOTHING = "0000000000000000"


@pytest.fixture(autouse=True)
def _swept(_nothing_is_left):
    yield
    support.reap_orphans()
    daemon.sweep()


def gone(pids):
    support.wait_until(lambda: not any(map(is_alive, pids)), f"all of {pids} are gone")


def engine_groups(pid):
    return [g for g in support.cgroups() if support.engine_name(pid) in g]


def test_root_is_nobody_on_the_host():
    """Read from outside: ids and capabilities of supervisor, launcher, broker and box."""
    running = Daemon(support.Way("root"))
    _, layers, _, warden = running.make("one")
    ids = {name: int(status(pid)["Uid"][0])
           for name, pid in (("stub", running.stub), ("launcher", running.launcher),
                             ("broker", running.broker), ("warden", warden))}
    for pid in running.everybody():
        now = status(pid)
        assert len(set(now["Uid"] + now["Gid"])) == 1, now
        assert int(now["Uid"][0]) >= 65536 and now["Groups"] == [], now
        assert now["NoNewPrivs"] == ["1"], now
    assert len({ids["launcher"], ids["broker"], ids["warden"]}) == 3, ids
    for pid in (running.stub, running.broker):
        now = status(pid)
        assert {now[key][0] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
            NOTHING}, now
    own = os.readlink("/proc/self/ns/user")
    assert os.readlink(f"/proc/{running.stub}/ns/user") == own
    for kind in ("user", "pid", "mnt", "net", "ipc", "uts"):
        here = os.readlink(f"/proc/self/ns/{kind}")
        for pid in (running.launcher, running.broker, warden):
            assert os.readlink(f"/proc/{pid}/ns/{kind}") != here, (kind, pid)
    if "cgroup" in layers:  # counted like its boxes
        assert f"{support.engine_name(running.stub)}/launcher\n" in open(
            f"/proc/{running.launcher}/cgroup").read()
    mapped = open(f"/proc/{running.launcher}/uid_map").read().split()
    assert mapped[0] == "0" and int(mapped[1]) == ids["launcher"], mapped
    assert running.end() == (0, "")


def test_an_ordinary_user_stays_himself():
    running = Daemon(support.ways()["ordinary"])
    user = [str(support.ORDINARY_UID)] * 4
    for pid in (running.stub, running.launcher, running.broker):
        assert status(pid)["Uid"] == user
    for pid in (running.stub, running.broker):
        assert status(pid)["CapEff"] == [NOTHING] and status(pid)["NoNewPrivs"] == ["1"]
    assert {os.stat(running.state / n).st_uid for n in os.listdir(running.state)} == {
        support.ORDINARY_UID}
    assert running.end() == (0, "")
    assert not running.socket.exists()


def test_a_range_by_newuidmap():
    """An ordinary user with ids of his own: boxes have a pair each, the broker is the user."""
    room = support.Room(support.ORDINARY_UID)
    passwd = room.write("passwd", open("/etc/passwd").read() +
                        f"tester:x:{support.ORDINARY_UID}:{support.ORDINARY_UID}::/:/bin/sh\n")
    ranges = room.write("ranges", "tester:200000:1000\n")
    binds = "; ".join(f"mount --bind {a} {b}" for a, b in (
        (passwd, "/etc/passwd"), (ranges, "/etc/subuid"), (ranges, "/etc/subgid")))
    if not (os.path.exists("/etc/subuid") and os.path.exists("/usr/bin/newuidmap")):
        pytest.skip("this machine has no newuidmap")
    running = Daemon(support.ways()["ordinary"], room=room, prefix=[
        "unshare", "-m", "sh", "-c", f'{binds}; exec "$@"', "sh"])
    _, layers, _, first = running.make("one")
    _, _, _, second = running.make("two")
    assert "uid_split" in layers
    ids = [int(status(pid)["Uid"][0]) for pid in (first, second)]
    assert len(set(ids)) == 2 and all(200000 <= n < 201000 for n in ids), ids
    assert status(running.broker)["Uid"][0] == str(support.ORDINARY_UID)
    assert running.end() == (0, "")


def test_boxes_have_the_layers_of_one_shot_boxes(walled):
    once = walled.exec_json("/bin/true").meta["isolation"]
    running = Daemon(walled)
    _, layers, missing, _ = running.make("one")
    assert (layers, missing) == (once["layers"], once["missing"])
    assert running.end() == (0, "")


def test_refused_where_namespaces_are(refused):
    running = Daemon(refused, waits=False)
    said = running.process.stdout.read().decode()
    code, err = running.wait()
    assert code == 126 and "bailey run" in said and "bailey doctor" in said, (code, said, err)
    assert not running.socket.exists()


MASK = """set -e
mount -t tmpfs -o ro none /proc/acpi 2>/dev/null || mount -t tmpfs -o ro none /proc/fs
mount --bind /dev/null /proc/kcore 2>/dev/null || mount --bind /dev/null /proc/keys
exec "$@"
"""


@pytest.mark.parametrize("walled", ["root", "ordinary"], indirect=True)
def test_inside_a_container_that_masks_proc(walled):
    """No /proc of its own: the launcher finds its children in the container's."""
    prefix = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private",
              "sh", "-c", MASK, "sh"]
    running = Daemon(walled, prefix=prefix)
    running.stub = next(pid for pid, what in support.descendants(running.stub).items()
                        if what.endswith(" broker_stub"))
    number, layers, missing, _ = running.make("one")
    assert "userns" in layers and "proc" in missing
    assert ("uid_split" in layers) == (walled.name == "root")
    assert running.ask("usage", number).split()[0] == str(number)
    running.ask("quit")
    assert running.wait() == (0, "")
    again = Daemon(walled, room=running.room, prefix=prefix)  # the same number, inside
    assert int(again.ask("make", "two").split()[4], 16) == mask(layers)
    again.ask("quit")
    assert again.wait() == (0, "")


def test_no_network_and_only_the_promised_descriptors(walled):
    running = Daemon(walled)
    running.make("one")
    assert running.ask("fds").split() == [*"01234567", *map(str, range(10, 18))]
    for pid in (running.launcher, running.broker):
        devices = open(f"/proc/{pid}/net/dev").read().splitlines()[2:]
        assert [d.split(":")[0].strip() for d in devices] == ["lo"]
    assert running.end() == (0, "")


def test_a_killed_broker_loses_no_box(walled):
    running = Daemon(walled)
    boxes = {running.make(key)[0]: key for key in ("one", "two", "three")}
    wardens, launcher = sorted(running.wardens), running.launcher
    for generation in range(2, 6):
        broker = running.broker
        os.kill(broker, signal.SIGKILL)
        support.wait_until(lambda: not is_alive(broker), "the broker is gone")
        words = running.ask("list").split()
        assert words[:3] == ["generation", str(generation), "boxes"], words
        assert dict(w.split(":") for w in words[3:]) == {str(n): k for n, k in boxes.items()}
    assert sorted(running.wardens) == wardens and running.launcher == launcher
    number = sorted(boxes)[0]
    assert running.ask("end", number).split()[0] == str(number)
    assert len(running.wardens) == 2
    code, err = running.end()
    assert code == 0 and err.count("starting it again") == 4, err


@pytest.mark.parametrize("how", ["nonsense", "exit 0", "exit 7"])
def test_a_broker_that_misbehaves_is_started_again(how):
    running = Daemon(support.Way("root"))
    number, _, _, warden = running.make("one")
    broker = running.broker
    assert running.ask(how) == ""
    gone([broker])
    assert running.ask("list") == f"generation 2 boxes {number}:one"
    assert is_alive(warden)
    assert running.end()[0] == 0


@pytest.mark.parametrize("who", ["stub", "launcher"])
def test_a_killed_one_takes_everything_along(walled, who):
    running = Daemon(walled)
    for key in ("one", "two"):
        running.make(key)
    everybody = running.everybody()
    groups = engine_groups(running.stub)
    os.kill(getattr(running, who), signal.SIGKILL)
    gone(everybody)
    code, err = running.wait()
    assert code == (-signal.SIGKILL if who == "stub" else 125), (code, err)
    again = Daemon(walled, room=running.room)  # sweeps, and takes the socket that was left
    assert again.ask("list") == "generation 1 boxes"
    assert not set(groups) & support.cgroups()
    assert again.end() == (0, "")


def test_a_stopped_launcher_dies_with_its_stub():
    """The kernel's doing, not that of a loop which may be busy."""
    running = Daemon(support.Way("root"))
    running.make("one")
    everybody = running.everybody()
    os.kill(running.launcher, signal.SIGSTOP)
    os.kill(running.stub, signal.SIGKILL)
    gone(everybody)
    running.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_clean_stop(walled, number):
    running = Daemon(walled)
    running.make("one")
    everybody = running.everybody()
    assert running.end(number) == (0, "")
    assert not any(map(is_alive, everybody))


def test_a_broker_that_does_not_say_goodbye():
    running = Daemon(support.Way("root"), env={"STUBBORN": "1"})
    running.make("one")
    everybody = running.everybody()
    code, err = running.end()
    assert code == 0 and "did not stop in time" in err, err
    gone(everybody)


def test_quit():
    running = Daemon(support.Way("root"))
    running.make("one")
    everybody = running.everybody()
    running.ask("quit")
    assert running.wait() == (0, "")
    gone(everybody)


def test_a_broker_that_cannot_start(walled):
    running = Daemon(walled, env={"BROKEN": "1"}, waits=False)
    said = running.process.stdout.read().decode()
    code, err = running.wait()
    assert code == 125 and "the broker did not start (status 9)" in said, said
    assert "this broker was told to fail" in err


def test_one_daemon_for_a_state_folder(walled):
    running = Daemon(walled)
    second = Daemon(walled, room=running.room, waits=False)
    said = second.process.stdout.read().decode()
    assert second.wait()[0] == 125 and "already" in said
    assert running.ask("list") == "generation 1 boxes"
    assert running.end() == (0, "")


def test_a_box_that_ends_by_itself_is_noticed():
    running = Daemon(support.Way("root"))
    number, _, _, warden = running.make("one")
    os.kill(warden, signal.SIGKILL)
    support.wait_until(lambda: running.ask("list").endswith("boxes"), "the broker knows")
    assert running.ask("end", number).split()[0] == str(number)  # an unknown one is answered
    assert running.end() == (0, "")


def test_bad_limits_and_keys_are_not_the_launchers_end():
    running = Daemon(support.Way("root"))
    launcher, broker = running.launcher, running.broker
    assert running.ask("make", "../etc") == ""  # that is no key: the broker is ended
    gone([broker])
    assert running.ask("list") == "generation 2 boxes"
    assert running.launcher == launcher
    assert running.end()[0] == 0


def test_folders_that_others_may_not_enter(tmp_path_factory):
    """An interpreter's folder in a home of mode 0700 is in boxes; state folders are the broker's."""
    running_room = support.Room()
    home = running_room.path / "closed"
    (home / "tree").mkdir(parents=True)
    (home / "tree" / "file").write_text("inside\n")
    home.chmod(0o700)
    running = Daemon(support.Way("root"), home / "tree", room=running_room)
    _, _, _, warden = running.make("one")
    seen = f"/proc/{warden}/root{home}/tree/file"
    assert open(seen).read() == "inside\n"
    broker = int(status(running.broker)["Uid"][0])
    for name in ("index", "output", "artifacts", "data", "logs"):
        assert os.stat(running.state / name).st_uid == broker
    assert running.end() == (0, "")


def test_data_is_bound_and_later_data_appears(walled):
    """What the broker writes through its descriptor is in the box, read-only, and in no other."""
    running = Daemon(walled)
    assert running.ask("data", "one") == "one/0.csv"
    assert running.ask("data", "two") == "two/0.csv"
    _, _, _, warden = running.make("one")
    seen = f"/proc/{warden}/root/tmp/data"
    assert os.listdir(seen) == ["0.csv"] and open(f"{seen}/0.csv").read() == "a,b\n"
    assert running.ask("data", "one") == "one/1.csv"
    assert sorted(os.listdir(seen)) == ["0.csv", "1.csv"]
    with pytest.raises(OSError, match="Read-only"):
        open(f"{seen}/mine", "w")
    _, _, _, other = running.make("three")
    assert os.listdir(f"/proc/{other}/root/tmp/data") == []
    assert running.end() == (0, "")


def test_folders_are_handed_over_without_following(room):
    """Links and files with several names stay whose they are."""
    state = room.path / "state"
    (state / "output" / "deep").mkdir(parents=True)
    state.chmod(0o700)
    outside = room.path / "outside"
    outside.write_text("root's\n")
    os.symlink(outside, state / "output" / "link")
    os.link(outside, state / "output" / "deep" / "second_name")
    (state / "output" / "deep" / "file").write_text("x")
    running = Daemon(support.Way("root"), room=room)
    broker = int(status(running.broker)["Uid"][0])
    assert os.stat(outside).st_uid == 0
    assert os.lstat(state / "output" / "link").st_uid == 0
    assert os.stat(state / "output" / "deep" / "file").st_uid == broker
    assert os.stat(state / "output" / "deep").st_uid == broker
    assert running.end() == (0, "")


def test_two_daemons_of_root_have_ids_of_their_own():
    first, second = Daemon(support.Way("root")), Daemon(support.Way("root"))
    ids = [{int(status(p)["Uid"][0]) for p in d.everybody()} for d in (first, second)]
    assert not ids[0] & ids[1], ids
    assert first.end() == (0, "")
    third = Daemon(support.Way("root"), room=second.room, waits=False)
    assert third.wait()[0] == 125
    assert second.end() == (0, "")
    again = Daemon(support.Way("root"), room=second.room)  # its folders follow it to other ids
    broker = int(status(again.broker)["Uid"][0])
    assert os.stat(again.state / "index").st_uid == broker
    assert again.end() == (0, "")


def test_many_boxes_and_none_left():
    running = Daemon(support.Way("root"))
    for turn in range(3):
        numbers = [running.make(f"box_{i}")[0] for i in range(8)]
        ids = {status(p)["Uid"][0] for p in running.wardens}
        assert len(ids) == 8, "each has ids of its own"
        for number in numbers:
            running.ask("end", number)
        assert running.wardens == []
    # Its own, and the 16 numbers that it keeps for the listeners of a `bailey serve` that takes over.
    assert len(os.listdir(f"/proc/{running.launcher}/fd")) < 32 + 16
    assert running.end() == (0, "")
