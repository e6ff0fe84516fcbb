"""
Promised scenario 2: code in a container, network off, the container gone afterwards, the result of
the same shape. And what a running container is made of, read back from Docker and from inside.
"""
import json
import os

import pytest

import serve
import support

MEMORY, PIDS = 200 << 20, 77
INSIDE = r"""
import json, os, errno, socket
def tried(path, flags):
    try:
        os.close(os.open(path, flags)); return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
mounts = [line.split() for line in open("/proc/self/mountinfo")]
try:
    socket.create_connection(("192.0.2.1", 80), 5); network = "ok"
except OSError as e:
    network = errno.errorcode.get(e.errno, str(e))
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(),
    "caps": {k: status[k].strip() for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
    "no_new_privs": status["NoNewPrivs"].strip(), "seccomp": status["Seccomp"].strip(),
    "filters": int(status.get("Seccomp_filters", "2")),
    "root": tried("/new", os.O_CREAT | os.O_WRONLY), "etc": tried("/etc/passwd", os.O_WRONLY),
    "warden": tried("/bailey/bin/bailey", os.O_WRONLY),
    "places": {p: tried(p + "/new", os.O_CREAT | os.O_WRONLY) for p in ("/tmp", "/workspace", "/home/user")},
    "tmpfs": {p: os.statvfs(p).f_blocks * os.statvfs(p).f_frsize for p in ("/tmp", "/workspace", "/home/user")},
    "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]],
    "sys": [p for p in ("/sys/fs", "/sys/kernel", "/sys/class", "/sys/block", "/sys/module", "/sys/firmware")
            if os.path.isdir(p) and os.listdir(p)],
    "processors": tried("/sys/devices/system/cpu/online", os.O_RDONLY),
    "network": network, "devices": sorted(os.listdir("/dev")),
    "sockets": [p for p in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")
                if os.path.exists(p)],
    "mounted": sorted({m[4] for m in mounts}), "cwd": os.getcwd(), "name": os.uname().nodename,
    "environ": sorted(os.environ)}))
"""


@pytest.fixture(scope="module")
def daemon(dockerd):
    before = dockerd.kept()
    env = dockerd.env(SANDBOX_MEMORY_LIMIT=str(MEMORY), SANDBOX_PIDS_LIMIT=str(PIDS),
                      SANDBOX_DISK_LIMIT="64m", SANDBOX_CPU_LIMIT="0.75")
    with serve.Daemon(env) as running:
        yield running
    assert not dockerd.left_since(before), dockerd.left_since(before)


@pytest.fixture(scope="module")
def running(daemon, dockerd):
    """The container of a session, as Docker describes it."""
    made = daemon.session()["id"]
    daemon.exec(made, "true")
    (one,) = dockerd.containers(bailey_engine=True)
    yield dockerd.inspect(one["Id"])
    daemon.end(made)
    support.wait_until(lambda: one["Id"] not in {left["Id"] for left in dockerd.containers()},
                       "its container is gone")


@pytest.fixture(scope="module")
def inside(daemon):
    """What the guest finds in one."""
    made = daemon.session()["id"]
    result = daemon.python(made, INSIDE)
    assert result["exit_code"] == 0, result
    yield json.loads(result["stdout"])
    daemon.end(made)


def shape(value):
    """Names and types, as deep as they go."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in sorted(value.items())}
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def test_uname_in_a_container(clean_docker):
    code = "import os; print(os.uname())"
    result = support.run_json(code, env=clean_docker.env())
    assert result["exit_code"] == 0 and result.status == 0, result
    assert result["stdout"].startswith("posix.uname_result(sysname='Linux'"), result
    assert os.uname().nodename not in result["stdout"]
    assert result.meta["runtime"] == "docker" and "fallback" not in result.meta
    assert not clean_docker.left_since(set(clean_docker.kept()) - {
        f"container {c['Id'][:12]} {c['Names']} {c['State']}" for c in clean_docker.containers()})
    local = support.run_json(code, "--cpus", "0.5")
    assert shape(result) == shape(local)


def test_the_text_is_the_programs_own(clean_docker):
    done = support.bailey("run", "-c", "print('Hello')", env=clean_docker.env())
    assert (done.status, done.out, done.err) == (0, b"Hello\n", b""), done
    done = support.bailey("exec", "--stdin", "--", "sh", "-c", "cat; exit 7", stdin=b"in", env=clean_docker.env())
    assert (done.status, done.out) == (7, b"in"), done


def test_the_network_is_off(running, inside):
    assert running["HostConfig"]["NetworkMode"] == "none"
    assert set(running["NetworkSettings"]["Networks"]) <= {"none"}
    assert inside["interfaces"] == ["lo"] and inside["network"] == "ENETUNREACH", inside


def test_no_capability_and_no_way_to_one(running, inside):
    host = running["HostConfig"]
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and host["Privileged"] is False
    assert any(option in ("no-new-privileges", "no-new-privileges:true")
               for option in host["SecurityOpt"]), host["SecurityOpt"]
    assert set(inside["caps"].values()) == {"0" * 16}, inside
    assert inside["no_new_privs"] == "1"


def test_the_filter_is_ours(running, inside):
    (profile,) = [option.partition("=")[2] for option in running["HostConfig"]["SecurityOpt"]
                  if option.startswith("seccomp=")]
    profile = json.loads(profile)
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO", profile["defaultAction"]
    allowed = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" and
               not rule.get("args") for name in rule["names"]}
    assert "read" in allowed and not allowed & {
        "mount", "ptrace", "bpf", "io_uring_setup", "keyctl", "unshare", "setns", "perf_event_open",
        "userfaultfd", "open_by_handle_at", "init_module"}
    assert inside["seccomp"] == "2" and inside["filters"] >= 2, inside  # Docker's, and the warden's


def test_the_root_is_read_only(running, inside):
    assert running["HostConfig"]["ReadonlyRootfs"] is True
    assert inside["root"] in ("EROFS", "EACCES") and inside["etc"] in ("EROFS", "EACCES"), inside
    assert inside["warden"] in ("EROFS", "EACCES", "ETXTBSY"), inside


def test_what_can_be_written_has_a_size(running, inside):
    tmpfs = dict(running["HostConfig"]["Tmpfs"])
    assert "size=4096" in tmpfs.pop("/mnt").split(",")  # for the link /mnt/data
    assert set(tmpfs) == {"/tmp", "/workspace", "/home/user"}
    for place, options in tmpfs.items():
        words = options.split(",")
        assert f"size={64 << 20}" in words and {"nosuid", "nodev"} <= set(words), (place, options)
        assert inside["tmpfs"][place] == 64 << 20 and inside["places"][place] == "ok", inside


def test_nobody_in_it_is_root(running, inside):
    user = running["Config"]["User"].partition(":")[0]
    assert user.isdigit() and int(user) > 0, running["Config"]["User"]
    assert inside["uid"] == int(user) and inside["gid"] > 0 and 0 not in inside["groups"], inside


def test_limits(running):
    host = running["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == MEMORY, "no swap"
    assert host["NanoCpus"] == 750_000_000
    assert PIDS <= host["PidsLimit"] <= PIDS + 2, "the warden is one of them"


def test_nothing_of_the_host_is_in_it(running, inside):
    host = running["HostConfig"]
    assert not host["Devices"] and not host["DeviceRequests"] and not host["DeviceCgroupRules"]
    assert not host["Binds"] and not host["VolumesFrom"] and not host["Links"] and not host["ExtraHosts"]
    volumes = [m for m in running["Mounts"] if m["Type"] != "tmpfs"]
    assert [(m["Type"], m["RW"], m["Destination"]) for m in volumes] == [("volume", False, "/bailey")]
    assert volumes[0]["Name"].startswith("bailey-warden-")
    for mode in ("PidMode", "IpcMode", "UTSMode", "UsernsMode", "CgroupnsMode", "NetworkMode"):
        assert host[mode] in ("", "private", "none"), mode
    assert inside["sockets"] == []
    assert not {"kmsg", "mem", "sda", "vda", "kvm", "fuse"} & set(inside["devices"]), inside
    assert not {name for name in inside["environ"] if name.startswith(("DOCKER", "SANDBOX"))}


def test_proc_and_sys_are_masked(running, inside):
    host = running["HostConfig"]
    assert {"/proc/kcore", "/proc/keys", "/sys/firmware", "/sys/fs", "/sys/kernel"} <= set(host["MaskedPaths"])
    assert inside["sys"] == [], "nothing but processors"
    assert inside["processors"] == "ok", "as in a local box"
    assert {"/proc/sys", "/proc/sysrq-trigger"} <= set(host["ReadonlyPaths"])


def test_it_carries_labels_and_goes_by_itself(running, daemon):
    labels = running["Config"]["Labels"]
    assert {"bailey.engine", "bailey.key", "bailey.state"} <= set(labels), labels
    assert all(labels[name] for name in ("bailey.engine", "bailey.key", "bailey.state"))
    assert str(daemon.state) not in json.dumps(labels), "a hash of the folder, not the folder"
    assert running["HostConfig"]["AutoRemove"] is True
    assert running["HostConfig"]["RestartPolicy"]["Name"] in ("", "no")


def test_the_first_process_is_the_warden_and_hears_nobody(running, daemon):
    config = running["Config"]
    assert [*(config["Entrypoint"] or []), *config["Cmd"]] == ["/bailey/bin/bailey", "warden-inside"]
    assert config["Tty"] is False and config["OpenStdin"] is True and config["StdinOnce"] is True


def test_the_result_says_what_held(daemon, running):
    made = daemon.session()["id"]
    meta = daemon.exec(made, "true")["meta"]
    daemon.end(made)
    limits, isolation = meta["resource_limits"], meta["isolation"]
    assert meta["runtime"] == "docker"
    assert limits["memory_bytes"] == MEMORY and limits["pids"] == PIDS and limits["disk_bytes"] == 64 << 20
    assert (limits["memory_by"], limits["pids_by"], limits["cpu_by"], limits["disk_by"]) == (
        "container", "container", "container", "tmpfs"), limits
    assert {"mountns", "pidns", "netns", "ipcns", "utsns", "seccomp", "cgroup", "no_new_privs",
            "caps"} <= set(isolation["layers"]), isolation
    assert "uid_split" in isolation["missing"], "warden and guest share one id"
    assert isolation["level"] in ("standard", "strict"), isolation


def test_strict_is_refused_where_a_layer_is_missing(clean_docker):
    """All layers or nothing: one id for two is one layer less."""
    result = support.run_json("print(1)", "--isolation", "strict", env=clean_docker.env())
    assert (result["stdout"], result.error["code"], result.status) == ("", "refused", 126), result
    assert "uid_split" in result.error["message"], result


def test_any_userland_will_do(clean_docker):
    """An image of this machine's own programs, and one of a single static program."""
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("plain"))
    assert support.run_json("print(6 * 7)", env=env)["stdout"] == "42\n"
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))
    assert support.exec_json("sh", "-c", "echo $((6 * 7)); id -u", env=env)["stdout"] == "42\n1000\n"


def test_an_image_without_python_says_so(clean_docker):
    env = clean_docker.env(DOCKER_IMAGE=clean_docker.use("bare"))
    result = support.run_json("print(1)", env=env)
    assert result["exit_code"] == 1 and result.error["code"] == "no_interpreter", result
    assert "bare:1" in result.error["message"] and "ython" in result.error["message"], result
    with serve.Daemon(env) as daemon:
        made = daemon.session()["id"]
        assert daemon.exec(made, "echo", "works")["stdout"] == "works\n"
        # only the box can know, so it is a result and no refusal
        result = daemon.post(f"/v1/sessions/{made}/code", {"code": "1", "language": "python"})
        error = result["meta"]["error"]
        assert result["exit_code"] == 1 and error["code"] == "no_interpreter", result
        assert "bare:1" in error["message"] and "ython" in error["message"], error
        assert daemon.exec(made, "echo", "still")["stdout"] == "still\n"
        daemon.end(made)


def test_python_is_the_interpreter_that_runs_code(daemon):
    """`python` and `python3` of a command are that of a cell; SANDBOX_TEMPLATE=auto is what the image has."""
    who = "import sys; print(sys.version.split()[0], sys.prefix)"
    made = daemon.session()["id"]
    mine = daemon.post("/v1/tools/run_code", {"code": who}, session=made)["stdout"]
    for name in ("python", "python3"):
        reply = daemon.post("/v1/tools/sandbox_exec", {"command": [name, "-c", who]}, session=made)
        assert (reply["exit_code"], reply["stdout"]) == (0, mine), reply
    daemon.end(made)


def test_a_server_in_a_container_is_reached_by_its_port(daemon):
    session = daemon.session()["id"]
    serving = "cd /tmp && echo hello >hello.txt && exec python3 -u -m http.server --bind 127.0.0.1 8000"
    started = daemon.background(session, "sh", "-c", serving)["execution_id"]
    path = f"/v1/sessions/{session}/processes/{started}"
    serve.polled(lambda: daemon.get(path), lambda process: process["stdout_bytes"] > 0, "it listens")
    assert [port["port"] for port in daemon.get(f"/v1/sessions/{session}/ports")["ports"]] == [8000]
    assert daemon.asked("GET", f"/v1/sessions/{session}/ports/8000/hello.txt").body == b"hello\n"
    assert daemon.call("GET", f"/v1/sessions/{session}/ports/8001/").error["code"] == "port_closed"
    daemon.end(session)
