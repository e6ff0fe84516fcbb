"""What the daemon's processes may do, read from outside: on the host they are nobody."""
import os
import subprocess
from pathlib import Path

import pytest
import serve
import support

NOTHING = "0000000000000000"
ALL_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
OWN_ID = support.ORDINARY_UID if support.is_root() else os.geteuid()

needs_root = pytest.mark.skipif(not support.is_root(), reason="plays root and an ordinary user")


def status(pid):
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return {key: value.split() for key, _, value in (line.partition(":") for line in lines)}


def namespace(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


class Family:
    """
    Stub, who waits for the egress proxy's work, launcher, broker, the zygotes, the warden of one
    session.
    """

    def __init__(self, daemon, session=None):
        self.session = session or daemon.session()["id"]
        daemon.exec(self.session, "true")
        self.supervisor = self.find(daemon.process.pid)
        below = {status(pid)["Name"][0]: pid for pid in self.children(self.supervisor)}
        if status(self.supervisor)["Uid"][0] == str(support.ORDINARY_UID) or not support.is_root():
            below.pop("host-keeper", None)  # with that user's id, as the others
        assert sorted(below) == ["egress-keeper", "launcher"], below
        self.launcher, self.keeper = below["launcher"], below["egress-keeper"]
        named = {pid: status(pid)["Name"] for pid in self.children(self.launcher)}
        self.wardens = [pid for pid, name in named.items() if name == ["warden"]]
        self.zygotes = [pid for pid in named if self.is_zygote(pid)]
        self.brokers = [pid for pid in named if pid not in self.wardens + self.zygotes]
        assert len(self.wardens) == 1 and len(self.brokers) == 1, named
        self.warden, self.broker = self.wardens[0], self.brokers[0]
        info = daemon.get("/v1/info")
        assert (info["launcher_pid"], info["broker_pid"]) == (self.launcher, self.broker), info

    @staticmethod
    def is_zygote(pid):
        return b"/bailey/driver/zygote.py" in Path(f"/proc/{pid}/cmdline").read_bytes()

    @staticmethod
    def children(pid):
        return [p for p, (parent, state, _) in support._processes().items()
                if parent == pid and state != "Z"]

    def find(self, pid):
        """The supervisor itself, below whatever started it."""
        while status(pid)["Name"] != ["bailey"]:
            below = self.children(pid)
            assert len(below) == 1, below
            pid = below[0]
        return pid

    def all(self):
        return [self.supervisor, self.keeper, self.launcher, self.broker, self.warden] + self.zygotes


def has_nothing_on_the_host(family):
    """Capabilities: none in supervisor and broker, and the launcher's are those of another namespace."""
    own = namespace("self", "user")
    assert namespace(family.supervisor, "user") == namespace(family.keeper, "user") == own
    for pid in (family.supervisor, family.keeper, family.broker):
        now = status(pid)
        assert {now[key][0] for key in ALL_SETS if key != "CapBnd"} == {NOTHING}, now
    for pid in (family.launcher, family.broker, family.warden):
        assert namespace(pid, "user") != own
    assert family.zygotes, "the daemon was to be warm"
    for pid in family.zygotes:  # in the engine's namespace, and without any right there
        assert namespace(pid, "user") == namespace(family.launcher, "user")
        assert {status(pid)[key][0] for key in ALL_SETS} == {NOTHING}, status(pid)
        assert status(pid)["Seccomp"] == ["2"], status(pid)
        assert namespace(pid, "mnt") not in (namespace("self", "mnt"), namespace(family.launcher, "mnt"))
    for pid in family.all():
        assert status(pid)["NoNewPrivs"] == ["1"], (pid, status(pid))
    for kind in ("pid", "mnt", "net", "ipc", "uts"):
        for pid in (family.launcher, family.broker, family.warden):
            assert namespace(pid, kind) != namespace("self", kind), (kind, pid)
        assert namespace(family.warden, kind) != namespace(family.launcher, kind)


def broker_is_confined(family):
    now = status(family.broker)
    assert now["Seccomp"] == ["2"], now
    if "Seccomp_filters" in now:
        above = int(status(family.launcher)["Seccomp_filters"][0])
        assert int(now["Seccomp_filters"][0]) >= above + 2, now
    devices = Path(f"/proc/{family.broker}/net/dev").read_text(encoding="ascii").splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    links = {}
    for fd in os.listdir(f"/proc/{family.broker}/fd"):
        try:
            links[fd] = os.readlink(f"/proc/{family.broker}/fd/{fd}")
        except OSError:
            pass  # closed meanwhile
    devices = [link for link in links.values() if link.startswith("/dev/")]
    assert set(devices) <= {"/dev/null", "/dev/urandom"}, links


def maps(pid, kind="uid"):
    """(inside, outside, count) rows."""
    text = Path(f"/proc/{pid}/{kind}_map").read_text(encoding="ascii")
    return [tuple(map(int, line.split())) for line in text.splitlines()]


@needs_root
def test_root_start_is_nobody_on_the_host():
    with serve.Daemon() as daemon:
        family = Family(daemon)
        has_nothing_on_the_host(family)
        broker_is_confined(family)
        for pid in (family.supervisor, family.keeper, family.broker):
            assert status(pid)["CapBnd"] == [NOTHING]
        ids = {}
        for pid in family.all():
            now = status(pid)
            assert len(set(now["Uid"] + now["Gid"])) == 1, now
            assert int(now["Uid"][0]) >= 65536 and now["Groups"] == [], now
            ids[pid] = int(now["Uid"][0])
        assert len({ids[p] for p in (family.launcher, family.broker, family.warden,
                                     family.keeper, family.zygotes[0])}) == 5, ids
        for kind in ("uid", "gid"):
            for _, outside, count in maps(family.launcher, kind):
                assert outside >= 65536 and count <= 65536, maps(family.launcher, kind)
        for pid in family.all():  # nobody among the users of this machine
            found = subprocess.run(["getent", "passwd", str(ids[pid])], capture_output=True)
            assert found.returncode == 2, found


@needs_root
def test_root_start_has_no_way_to_roots_files():
    """Tried with the launcher's own rights: its ids and its namespaces, capabilities and all."""
    with serve.Daemon() as daemon:
        family = Family(daemon)
        secret = daemon.room.path / "secret"
        secret.write_text("root's\n")
        secret.chmod(0o600)
        for pid in (family.launcher, family.broker):
            inside = next(first + int(status(pid)["Uid"][0]) - outside
                          for first, outside, count in maps(family.launcher)
                          if outside <= int(status(pid)["Uid"][0]) < outside + count)
            tried = subprocess.run(
                ["nsenter", f"--target={pid}", "--user", "--mount", f"--setuid={inside}",
                 f"--setgid={inside}", "cat", str(secret), "/etc/shadow"],
                capture_output=True, text=True)
            assert "root's" not in tried.stdout and "root:" not in tried.stdout, tried
            assert tried.stderr.count("Permission denied") == 2, tried


def test_ordinary_user_without_newuidmap():
    with serve.Daemon(user=OWN_ID if support.is_root() else None) as daemon:
        family = Family(daemon)
        has_nothing_on_the_host(family)
        broker_is_confined(family)
        for pid in (family.supervisor, family.launcher, family.broker):
            assert set(status(pid)["Uid"]) == {str(OWN_ID)}, status(pid)
        session = daemon.get(f"/v1/sessions/{family.session}")
        if not has_ranges():
            assert [count for _, _, count in maps(family.launcher)] == [1]
            assert "uid_split" in session["isolation"]["missing"], session
        assert {os.stat(p).st_uid for p in (daemon.state, daemon.socket)} == {OWN_ID}
        assert os.stat(daemon.socket).st_mode & 0o777 == 0o600
        assert os.stat(daemon.socket.parent).st_mode & 0o777 == 0o700


def has_ranges():
    if not os.path.exists("/usr/bin/newuidmap"):
        return False
    rows = Path("/etc/subuid").read_text(encoding="utf-8").splitlines()
    return any(row.startswith(f"{OWN_ID}:") for row in rows)


@needs_root
def test_ordinary_user_with_newuidmap(room, monkeypatch):
    if not (os.path.exists("/usr/bin/newuidmap") and os.path.exists("/etc/subuid")):
        pytest.skip("this machine has no newuidmap")
    named = Path("/etc/passwd").read_text(encoding="utf-8")  # newuidmap serves only known users
    given = {"passwd": named + f"tester:x:{OWN_ID}:{OWN_ID}::/:/bin/sh\n",
             "subuid": "tester:300000:2000\n", "subgid": "tester:300000:2000\n"}
    binds = "; ".join(f"mount --bind {room.write(name, text)} /etc/{name}"
                      for name, text in given.items())
    plain = support.command

    def in_own_mounts(*args, **named):
        """`bailey serve` where /etc/subuid and /etc/subgid have a row for this user."""
        if args[:1] != ("serve",):
            return plain(*args, **named)
        return ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
                f'{binds}; exec "$@"', "sh", *plain(*args, **named)]

    monkeypatch.setattr(support, "command", in_own_mounts)
    with serve.Daemon(user=OWN_ID) as daemon:
        family = Family(daemon)
        has_nothing_on_the_host(family)
        broker_is_confined(family)
        for pid in (family.supervisor, family.broker):
            assert set(status(pid)["Uid"]) == {str(OWN_ID)}, status(pid)
        session = daemon.get(f"/v1/sessions/{family.session}")
        assert "uid_split" in session["isolation"]["layers"], session
        for pid in (family.warden, *family.zygotes):
            assert 300000 <= int(status(pid)["Uid"][0]) < 302000, status(pid)


def test_guest_of_a_session_has_nothing():
    """The last in the row: ids, capabilities, filter and walls of a command."""
    with serve.Daemon() as daemon:
        session = daemon.session()["id"]
        running = daemon.background(session, "sleep", "1000", timeout=0)["execution_id"]
        family = Family(daemon, session)

        def asleep():
            return [p for p, what in support.alive(family.supervisor).items() if what.endswith(" sleep")]
        support.wait_until(asleep, "the command has become the program")
        sleeping = asleep()
        assert len(sleeping) == 1, sleeping
        now = status(sleeping[0])
        assert {now[key][0] for key in ALL_SETS} == {NOTHING}, now
        assert now["NoNewPrivs"] == ["1"] and now["Seccomp"] == ["2"], now
        if support.is_root():
            assert int(now["Uid"][0]) >= 65536, now
        daemon.asked("POST", f"/v1/sessions/{session}/processes/{running}/signal",
                     {"signal": "KILL"}, 200)
