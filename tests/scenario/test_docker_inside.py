"""
bailey inside a container of somebody else's: what a plain `docker run` leaves of it, what doctor says
there, and that its remedy is one. The container has this machine's Python and bailey installed.
"""
import glob
import json
import os
import re

import pytest

import docker
import support

PROFILE = support.REPO / "deploy" / "docker" / "seccomp.json"
COMPOSE = support.REPO / "deploy" / "docker" / "compose.yaml"
HOME = ("HOME=/tmp/home", "BAILEY_STATE_DIR=/tmp/state", "XDG_RUNTIME_DIR=/tmp/run")
FOLDERS = "mkdir -m 700 /tmp/home /tmp/state /tmp/run && "
REFUSED = "one session at a time: this container refuses namespaces"
WHO = "import os; print(os.getuid(), os.geteuid(), os.getgid(), os.getgroups())"
USERS = {"root": "", "ordinary": "1000:1000"}
WALLS = {"userns", "mountns", "pidns", "netns", "ipcns", "utsns", "cgroupns"}


class Inside:
    """One kind of container: bailey is called in a new one each time."""

    def __init__(self, dockerd, user="", **host):
        self.dockerd, self.user, self.host = dockerd, user, host
        self.image = dockerd.use("inside")

    def shell(self, script):
        return self.dockerd.run_container(self.image, ["sh", "-c", FOLDERS + script], self.user, HOME,
                                          **self.host)

    def bailey(self, *args):
        return self.dockerd.run_container(self.image, ["sh", "-c", FOLDERS + 'exec bailey "$@"', "sh", *args],
                                          self.user, HOME, **self.host)

    def doctor(self):
        done = self.bailey("doctor", "--json")
        assert done.status == 0, done
        return done.json()


def options(line):
    """The HostConfig that the options of a line of `docker run` stand for, as the command translates them."""
    words, host = line.split(), {"SecurityOpt": []}
    assert words[:2] == ["docker", "run"] and words[-1] == "...", line
    rest = words[2:-1]
    while rest:
        assert rest[0] == "--security-opt", line
        name, value = rest[1].split("=", 1)
        rest = rest[2:]
        if name == "systempaths":
            assert value == "unconfined"
            host.update(MaskedPaths=[], ReadonlyPaths=[])
        elif name == "seccomp":
            host["SecurityOpt"].append("seccomp=" + (support.REPO / value).read_text())
        else:
            host["SecurityOpt"].append(f"{name}={value}")
    return host


@pytest.fixture(scope="module")
def outer():
    """A dockerd without an image of boxes: the boxes here are bailey's own."""
    running = docker.Dockerd()
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(params=USERS)
def plain(request, outer):
    """`docker run` without options."""
    return Inside(outer, USERS[request.param])


@pytest.fixture(params=USERS)
def remedied(request, outer):
    """The same, started as doctor says."""
    line = Inside(outer, USERS[request.param]).doctor()["container"]["remedy"]
    return Inside(outer, USERS[request.param], **options(line))


# --- a plain container


def test_doctor_says_in_its_first_lines_where_it_is(plain):
    report, done = plain.doctor(), plain.bailey("doctor")
    lines = done.stdout.splitlines()
    assert lines[0] == "this is a Docker container (seen: /.dockerenv)", done
    assert lines[1] == report["sessions"]["reason"] and lines[1].startswith(REFUSED), done
    assert "EPERM" in lines[1]
    assert [line for line in lines[:5] if line.startswith("remedy: ")] == [
        "remedy: " + report["container"]["remedy"]], done
    assert any("'bailey doctor --seccomp-profile' prints it" in line for line in lines[:6]), done
    assert report["container"]["kind"] == "docker"
    assert report["sessions"]["ok"] is True and report["sessions"]["one"] is True
    assert (done.status, report["level"]) == (0, "standard")


def test_a_run_holds_by_landlock_and_the_guest_is_not_root(plain):
    result = support.Result(plain.bailey("run", "--json", "-c", WHO))
    assert (result.status, result["exit_code"]) == (0, 0), result
    assert {"seccomp", "landlock", "no_new_privs"} <= set(result.meta["isolation"]["layers"])
    uid, euid, gid, groups = result["stdout"].split(maxsplit=3)
    assert uid == euid == gid
    if plain.user:
        assert uid == "1000"
    else:
        assert int(uid) >= 65536 and groups == "[]\n", result["stdout"]


def test_what_runs_leave_behind(plain):
    done = plain.shell("for i in 1 2 3; do bailey run -c 'open(\"f\", \"w\")' || exit 1; done; "
                       "ls -A /tmp; cat /proc/[0-9]*/comm")
    assert done.status == 0, done
    assert not re.search("bailey|warden|python", done.stdout), done


def test_templates_need_namespaces_and_say_so(plain):
    """What works without is in test_docker_one_box.py."""
    done = plain.bailey("template", "build", "data")
    assert done.status == 125, done
    assert "gives no namespaces" in done.stderr and "bailey doctor" in done.stderr, done


def test_strict_is_refused_with_its_status(plain):
    done = plain.bailey("run", "--isolation", "strict", "-c", "print('ran')")
    assert (done.status, done.out) == (126, b""), done


def test_a_failing_program_still_fails(plain):
    assert plain.bailey("run", "-c", "raise SystemExit(7)").status == 7


def test_root_without_capabilities_is_like_any_user(outer):
    """Nobody's id can be given to the guest then; the result says that it has the caller's."""
    inside = Inside(outer, CapDrop=["ALL"])
    result = support.Result(inside.bailey("run", "--json", "-c", WHO))
    assert (result.status, result["stdout"].split()[0]) == (0, "0"), result
    assert {"uid_split"} <= set(result.meta["isolation"]["missing"])
    assert {"seccomp", "landlock", "caps"} <= set(result.meta["isolation"]["layers"])


def test_sys_admin_alone_is_not_enough(outer):
    """Docker's filter refuses pivot_root(2) with every capability: the next best way is taken, and said."""
    inside = Inside(outer, CapAdd=["SYS_ADMIN"])
    report = inside.doctor()
    assert "pivot_root: EPERM" in report["sessions"]["reason"], report["sessions"]
    assert inside.bailey("run", "-c", "print('ran')").stdout == "ran\n"
    done = inside.shell("SANDBOX_ISOLATION=strict bailey session new")
    assert done.status == 125 and "pivot root: EPERM" in done.stderr, done
    done = inside.shell("bailey session new --name a >/dev/null && bailey code -s a -c 6*7")
    assert (done.status, done.stdout) == (0, "42\n"), done


def test_a_container_with_ids_of_its_own():
    """--userns-remap: only 65536 ids are there, and the guest's is one of them, not root's."""
    running = docker.Dockerd(remap=3_000_000_000)
    try:
        done = Inside(running).bailey("run", "-c", WHO)
        assert done.status == 0 and 0 < int(done.stdout.split()[0]) < 65536, done
    finally:
        running.close()


# --- with the remedy


SESSION = ("s=$(bailey session new) && bailey exec -s $s -- sh -c 'echo kept > /workspace/f' && "
           "bailey exec -s $s -- cat /workspace/f && bailey code -s $s -c 'x = 41' && "
           "bailey code -s $s -c 'print(x + 1)' && ")


def test_sessions_work_as_doctor_promised(remedied):
    done = remedied.shell(SESSION + "bailey session rm $s && bailey daemon stop --force")
    assert done.status == 0, done
    assert "kept\n" in done.stdout and "42\n" in done.stdout, done


def test_boxes_have_all_walls(remedied):
    report = remedied.doctor()
    held = {row["name"] for row in report["layers"] if row["held"]}
    assert WALLS | {"seccomp", "landlock", "no_new_privs", "caps", "proc"} <= held, held
    assert ("uid_split" in held) == (remedied.user == "")
    assert report["sessions"] == {"ok": True, "reason": None}
    assert report["container"] == {"kind": "docker", "seen": "/.dockerenv", "remedy": None}
    assert "remedy: docker run" not in "\n".join(remedied.bailey("doctor").stdout.splitlines()[:4])


def test_root_shows_what_only_root_can_reach(outer):
    """Without CAP_SYS_ADMIN: a folder behind one that is closed to everybody but its owner. Templates of
    root's own state folder are such."""
    host = options(Inside(outer).doctor()["container"]["remedy"])
    done = Inside(outer, **host).shell(
        "mkdir -p /tmp/closed/root/bin && cp /usr/bin/bailey /tmp/closed/root/bin && "
        "chown -R 4711 /tmp/closed && chmod 700 /tmp/closed && "
        "bailey exec --root /tmp/closed/root -- /bin/bailey --version")
    assert done.status == 0 and done.stdout.startswith("bailey "), done


def test_a_masked_proc_is_all_that_is_missing_without_systempaths(outer):
    inside = Inside(outer, SecurityOpt=["seccomp=" + PROFILE.read_text()])
    report = inside.doctor()
    assert report["sessions"]["ok"] is True
    assert [row["name"] for row in report["layers"] if not row["held"] and row["name"] != "cgroup"] == ["proc"]
    assert "systempaths=unconfined" in report["container"]["remedy"]
    assert inside.shell(SESSION + "bailey daemon stop --force").status == 0


def test_the_server_needs_no_more_than_compose_gives(outer):
    """The capabilities of compose.yaml, and none besides; a killed daemon is followed by the next."""
    text = COMPOSE.read_text()
    given = re.findall(r"^      - ([A-Z_]+) +#|^      - ([A-Z_]+)$", text, re.M)
    added = [one or other for one, other in given]
    assert added and "SYS_ADMIN" not in added
    assert "seccomp=seccomp.json" in text or "seccomp=./seccomp.json" in text
    inside = Inside(outer, CapDrop=["ALL"], CapAdd=added, MaskedPaths=[], ReadonlyPaths=[], SecurityOpt=[
        "no-new-privileges", "seccomp=" + PROFILE.read_text()])
    done = inside.shell(SESSION + "bailey upgrade && bailey code -s $s -c 'print(x + 2)' && "
                        "kill -9 $(bailey daemon status --json | python3 -c '"
                        "import json, sys; print(json.load(sys.stdin)[\"launcher_pid\"])') && "
                        "while bailey daemon status >/dev/null; do :; done; "
                        + SESSION + "bailey daemon stop --force")
    assert done.status == 0, done
    assert done.stdout.count("42\n") == 2 and "43\n" in done.stdout, done


# --- the profile


def allowed(profile):
    """The calls that it lets through whatever their arguments."""
    return {name for entry in profile["syscalls"] for name in entry["names"]
            if entry["action"] == "SCMP_ACT_ALLOW" and not entry.get("args")}


def of_docker(outer):
    """The profile of a plain container, from what Docker has told its runtime."""
    made = outer.make_container(outer.use("inside"), ["sleep", "1000"])
    try:
        (path,) = glob.glob(os.path.join(outer.folder, "exec", "**", made, "config.json"), recursive=True)
        with open(path) as file:
            return json.load(file)["linux"]["seccomp"]
    finally:
        outer.ask("DELETE", f"/containers/{made}?force=1")


def test_the_profile_is_dockers_own_and_what_boxes_need(outer):
    ours, theirs = allowed(json.loads(PROFILE.read_text())), allowed(of_docker(outer))
    io_uring = {name for name in theirs if name.startswith("io_uring_")}
    assert theirs - ours <= io_uring | {"socket"}  # that one looks at its argument
    added = {name for entry in json.loads(PROFILE.read_text())["syscalls"]
             if entry.get("comment", "").startswith("bailey: ") for name in entry["names"]}
    assert {"clone", "unshare", "mount", "pivot_root"} <= added
    assert not added & theirs, "Docker allows these anyway"


@pytest.mark.parametrize("call", ["bpf", "perf_event_open", "keyctl", "kexec_load", "init_module", "userfaultfd",
                                  "io_uring_setup", "quotactl", "reboot", "swapon", "open_by_handle_at", "acct"])
def test_the_profile_opens_nothing_else(call):
    assert call not in allowed(json.loads(PROFILE.read_text()))
