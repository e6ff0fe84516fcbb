"""The box: private folders, a read-only root, own hostname and ids, no network, few variables."""
import functools
import json
import os
import socket
import subprocess

import pytest
import support

FACTS = r"""
import json, os, socket, errno
def tried(f, *a):
    try: f(*a); return 'ok'
    except OSError as e: return errno.errorcode.get(e.errno, str(e.errno))
def write(path):
    with open(path, 'w') as f: f.write('x')
def status(key):
    for line in open('/proc/self/status'):
        if line.startswith(key + ':'): return line.split(':', 1)[1].strip()
def connect(family, kind, address):
    s = socket.socket(family, kind); s.settimeout(3); s.connect(address)
facts = {
    'private': {d: tried(write, d + '/probe') for d in
                ('/tmp', '/workspace', '/home/user', '/dev/shm', '.')},
    'shared': {d: tried(write, d + '/probe') for d in
               ('/', '/usr', '/usr/bin', '/etc', '/dev', '/proc', '/proc/sys/kernel', '/var',
                '/home', '/root', '/lib', '/opt')},
    'sys': os.listdir('/sys') if tried(os.listdir, '/sys') == 'ok' else tried(os.listdir, '/sys'),
    'dev': sorted(os.listdir('/dev')) if tried(os.listdir, '/dev') == 'ok' else [],
    'hostname': os.uname().nodename,
    'uid': os.getuid(), 'gid': os.getgid(), 'groups': os.getgroups(),
    'environ': dict(os.environ), 'cwd': os.getcwd(), 'pid': os.getpid(),
    'fds': sorted(int(n) for n in range(3, 256) if tried(os.fstat, n) == 'ok'),
    'tcp': tried(connect, socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', PORT)),
    'udp': tried(connect, socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 53)),
    'udp6': tried(connect, socket.AF_INET6, socket.SOCK_DGRAM, ('2001:db8::1', 53)),
    'abstract': tried(connect, socket.AF_UNIX, socket.SOCK_STREAM, '\0canary-PORT'),
    'shadow': tried(open, '/etc/shadow'), 'host_home': tried(os.listdir, 'HOSTHOME'),
    'umask': os.umask(0o22),
}
if tried(open, '/proc/self/status') == 'ok':
    facts['status'] = {k: status(k) for k in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb',
                                              'NoNewPrivs', 'Seccomp', 'Groups')}
if tried(os.listdir, '/proc') == 'ok':
    facts['pids'] = [int(n) for n in os.listdir('/proc') if n.isdigit()]
print(json.dumps(facts))
"""


@functools.lru_cache(maxsize=None)
def facts(name):
    """What a program sees inside, asked once for each way."""
    way = support.ways()[name]
    with socket.create_server(("127.0.0.1", 0)) as host, socket.socket(socket.AF_UNIX) as canary:
        port = str(host.getsockname()[1])
        canary.bind("\0canary-" + port)
        canary.listen()
        room = way.room()
        (room.home / "canary").write_text("x")
        code = FACTS.replace("PORT", port).replace("HOSTHOME", str(room.home))
        result = way.run_json(code, env={"SECRET_TOKEN": "canary"}, room=room)
    assert result["exit_code"] == 0, result
    return json.loads(result["stdout"])


@pytest.fixture
def seen(way):
    return facts(way.name)


@pytest.fixture
def seen_walled(walled):
    return facts(walled.name)


def test_the_private_folders_can_be_written(seen_walled):
    assert set(seen_walled["private"].values()) == {"ok"}, seen_walled["private"]


def test_the_working_folder_can_be_written_in_every_way(seen):
    assert seen["private"]["."] == "ok"


def test_everything_else_is_read_only_or_absent(seen):
    assert "ok" not in seen["shared"].values(), seen["shared"]


def test_what_was_written_is_not_on_the_host(seen):
    for folder in ("/tmp", "/dev/shm", "/workspace", "/home/user"):
        assert not os.path.exists(f"{folder}/probe")


def test_of_sys_only_the_processors_are_there(seen_walled):
    assert seen_walled["sys"] in ("ENOENT", [], ["devices"])


def test_dev_is_minimal(seen_walled):
    allowed = {"null", "zero", "full", "random", "urandom", "tty", "shm", "fd", "stdin", "stdout",
               "stderr", "pts", "ptmx", "mqueue"}
    assert set(seen_walled["dev"]) <= allowed
    assert {"null", "zero", "urandom", "shm"} <= set(seen_walled["dev"])


def test_the_hostname_is_its_own(seen_walled):
    assert seen_walled["hostname"] and seen_walled["hostname"] != os.uname().nodename


def test_the_guest_is_an_unprivileged_user_without_groups(seen_walled):
    assert seen_walled["uid"] != 0 and seen_walled["gid"] != 0
    assert set(seen_walled["groups"]) <= {seen_walled["gid"], 65534}


def test_the_guest_of_root_is_not_root_without_namespaces_either():
    if not support.is_root():
        pytest.skip("has to be started as root")
    seen = facts("root-refused")
    assert seen["uid"] != 0 and seen["gid"] != 0 and 0 not in seen["groups"]


def test_no_capability_in_any_set_and_no_new_privileges(seen):
    if "status" not in seen:
        pytest.skip("this box has no /proc to read it from")
    status = seen["status"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_the_bounding_set_is_empty(seen_walled):
    assert int(seen_walled["status"]["CapBnd"], 16) == 0


def test_no_descriptor_is_inherited(seen):
    assert seen["fds"] == []


def test_the_network_is_out_of_reach(seen):
    for what in ("tcp", "udp", "udp6", "abstract"):
        assert seen[what] != "ok", what


def test_host_files_are_out_of_reach(seen):
    assert seen["shadow"] in ("ENOENT", "EACCES", "EPERM")
    assert seen["host_home"] in ("ENOENT", "EACCES", "EPERM")


MODULES = "/bin/modules"  # `python -m pip` of a box


def test_the_environment_is_a_short_list(seen):
    assert "SECRET_TOKEN" not in seen["environ"]
    assert set(seen["environ"]) <= {
        "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TERM", "USER", "LOGNAME", "SHELL",
        "PWD", "TZ", "HOSTNAME", "OUTPUT_DIR", "MPLBACKEND", "PYTHONUNBUFFERED", "PYTHONUTF8",
        "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONPATH", "MPLCONFIGDIR", "XDG_CACHE_HOME"}
    assert seen["environ"].get("PYTHONPATH", MODULES).endswith(MODULES), "the caller's own is not there"


def test_home_and_working_folder_are_those_promised(seen_walled):
    assert seen_walled["environ"]["HOME"] == "/home/user"
    assert seen_walled["cwd"] == "/workspace"


def test_only_the_boxs_own_processes_are_visible(seen_walled):
    if "pids" not in seen_walled:
        pytest.skip("this box has no /proc to read it from")
    assert len(seen_walled["pids"]) <= 5 and max(seen_walled["pids"]) < 100
    assert seen_walled["pid"] in seen_walled["pids"]


@pytest.mark.needs_namespaces
def test_two_boxes_do_not_see_each_other(room):
    code = ("import os\nfor d in ('/tmp', '/dev/shm', '/workspace'):\n"
            "    open(d + '/mine', 'w').write('x')\nprint('written', flush=True)\ninput()")
    first = support.start("run", "--stdin", "-c", code, stdin=subprocess.PIPE, room=room)
    try:
        support.read_until(first.stdout, b"written")
        other = support.run_json("import os\nprint([os.path.exists(d + '/mine') for d in "
                                 "('/tmp', '/dev/shm', '/workspace')])")
        first.communicate(b"\n", timeout=support.PATIENCE)
    finally:
        first.kill()
        first.wait()
    assert other["stdout"] == "[False, False, False]\n"
