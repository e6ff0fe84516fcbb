"""
A container that gives no namespaces is its own only box: sessions, cells, tools, MCP and the server work in a plain
`docker run`, one session at a time, and nothing of a session is left behind. Each script below is typed in a new
container; it has this machine's Python and bailey installed.
"""
import json
import re

import pytest

import docker
import support
import test_readme

# How the container is started, and what Docker's API calls that.
KINDS = {
    "root": {},
    "ordinary": {"user": "1000:1000"},
    "root without capabilities": {"CapDrop": ["ALL"]},
    "restricted": {"user": "1000:1000", "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges"],
                   "ReadonlyRootfs": True, "Tmpfs": {"/tmp": ""}},
}
ENV = ("HOME=/tmp/home", "BAILEY_STATE_DIR=/tmp/state", "XDG_RUNTIME_DIR=/tmp/run", "SANDBOX_POOL_SIZE=0")
FOLDERS = "mkdir -m 700 /tmp/home /tmp/state /tmp/run && cd /tmp/home && "
PROMISED = {"/workspace", "/tmp", "/home/user"}
BUSY = "this container gives no namespaces, so it is the only box"
# The processes that are not the engine's, by who they belong to: of a guest whose id is GUEST nothing may be there.
OWNED = r"""
owned() { for p in /proc/[0-9]*; do while read -r a b _; do
    [ "$a" = Uid: ] && [ "$b" = "$1" ] && echo "process $p"; done < $p/status; done 2>/dev/null
    python3 - "$1" <<'X'
import os, sys
id = int(sys.argv[1])
for top, folders, files in os.walk("/"):
    if top in ("/proc", "/sys"):
        folders[:] = []
        continue
    for name in folders + files:
        path = os.path.join(top, name)
        try:
            if os.lstat(path).st_uid == id:
                print("file", path)
        except OSError:
            pass
for kind, fields in (("shm", (7, 9)), ("sem", (4, 6)), ("msg", (7, 9))):
    for line in open("/proc/sysvipc/" + kind).read().splitlines()[1:]:
        if any(line.split()[f] == str(id) for f in fields):
            print("ipc", kind, line)
X
}
"""


@pytest.fixture(scope="module")
def outer():
    running = docker.Dockerd()
    try:
        yield running
    finally:
        running.close()


class Place:
    """One kind of container."""

    def __init__(self, dockerd, user="", env=(), **host):
        self.dockerd, self.user, self.env, self.host = dockerd, user, env, host

    def shell(self, script, env=()):
        done = self.dockerd.run_container(self.dockerd.use("inside"), ["bash", "-c", FOLDERS + script], self.user,
                                          (*ENV, *self.env, *env), **self.host)
        return done

    def ok(self, script, env=()):
        done = self.shell("set -e; " + script, env)
        assert done.status == 0, (done.status, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout


@pytest.fixture(params=KINDS)
def place(request, outer):
    made = Place(outer, **KINDS[request.param])
    made.kind = request.param
    return made


@pytest.fixture
def rooted(outer):
    return Place(outer)


def tool_calls(*calls):
    """Lines of an MCP client: the handshake, then these tools."""
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    lines += [{"jsonrpc": "2.0", "id": 2 + i, "method": "tools/call", "params": {"name": name, "arguments": given}}
              for i, (name, given) in enumerate(calls)]
    return "\n".join(map(json.dumps, lines))


# --- what works


def test_a_session_keeps_variables_files_and_outputs(place):
    out = place.ok("bailey session new --name a >/dev/null; bailey code -s a -c 'x = 41'; bailey code -s a -c 'x + 1';"
                   "bailey exec -s a -- sh -c 'echo kept > f && echo out > $OUTPUT_DIR/o.txt'; "
                   "bailey exec -s a -- cat f; bailey exec -s a -- sh -c 'exit 7' || echo status $?; "
                   "cat /tmp/state/output/*/o.txt; bailey session rm a; bailey session ls")
    assert out.splitlines()[:4] == ["42", "kept", "status 7", "out"], out
    assert " a " not in out


def test_the_result_says_what_holds_and_what_does_not(place):
    out = place.ok("bailey session new --name a >/dev/null; bailey code -s a --json -c 'import os; print(os.getuid())'")
    result = json.loads(out)
    isolation, limits = result["meta"]["isolation"], result["meta"]["resource_limits"]
    assert result["meta"]["runtime"] == "local" and isolation["level"] == "standard"
    assert {"seccomp", "landlock", "no_new_privs"} <= set(isolation["layers"])
    # An ordinary user of an unrestricted container cannot empty its bounding set, and needs not: no_new_privs.
    assert ("caps" in isolation["layers"]) == (place.kind != "ordinary")
    assert {"userns", "mountns", "pidns", "netns"} <= set(isolation["missing"])
    assert limits["memory_by"] == limits["disk_by"] == "watchdog (approximate)" and limits["pids_by"] == "rlimit"
    id = int(result["stdout"])
    assert id >= 65536 if place.kind == "root" else id == (1000 if place.user else 0)


def test_tools_over_mcp_reach_files_by_their_promised_names(place):
    words = tool_calls(("sandbox_write_file", {"file_path": "/tmp/job.py", "content": "print(6*7)"}),
                       ("run_python_code", {"code": "print('from a cell')"}))
    after = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
        "name": "sandbox_exec", "arguments": {"command": ["python3", "/tmp/job.py"]}}})
    out = place.ok(f"""cat > in <<'X'
{words}
X
cat > after <<'X'
{after}
X
mkfifo to; bailey mcp < to > said & exec 8> to; cat in >&8
until grep -q 'from a cell' said && grep -q bytes.written said; do sleep 0.05; done
cat after >&8; until grep -q '"id":9' said; do sleep 0.05; done
exec 8>&-; wait; cat said""")
    replies = {line["id"]: line for line in map(json.loads, out.splitlines())}
    assert "42" in replies[9]["result"]["content"][0]["text"], replies[9]


def test_the_server_answers_over_http(rooted):
    script = r'''
import json, os, re, subprocess, urllib.request
server = subprocess.Popen(["bailey", "serve", "--listen", "127.0.0.1:7070"], stderr=subprocess.PIPE, text=True)
for line in server.stderr:
    found = re.search(r"BAILEY_API_KEY=(\S+)", line)
    if found:
        os.environ["BAILEY_API_KEY"] = found.group(1)
    if "has the scopes" in line:
        break
'''
    example = next(text for kind, text in test_readme.BLOCKS if text.startswith("import json, os, urllib.request"))
    out = rooted.ok(f"cat > serve.py <<'X'\n{script}{example}print(bailey('POST', '/v1/run', "
                    "{'code': 'print(6*7)'})['stdout'])\nserver.terminate()\nserver.wait()\nX\npython3 serve.py")
    assert out.split() == ["42", "42"], out


@pytest.mark.parametrize("first", ["$ bailey session new --name agent", "$ bailey session new --name demo"])
def test_the_readmes_sessions_are_typed(place, first):
    """As tests/scenario/test_readme.py types them on this machine."""
    kind, text = next(block for block in test_readme.BLOCKS if block[1].startswith(first))
    place.host = {**place.host, "Binds": [f"{support.REPO}/examples:/examples:ro"]}
    if "ReadonlyRootfs" not in place.host:
        place.host["Binds"].append(f"{support.REPO}/examples:/opt/examples:ro")
    steps = list(test_readme.steps(kind, text))
    typed = "ln -s /examples examples; " + "".join(f"{command} 2>&1; echo '--- end'; " for command, _ in steps)
    said = place.ok(typed).split("--- end\n")
    for (command, shown), got in zip(steps, said):
        if place.kind != "root" and "sum.py" in command and "exec " in command and "NameError" in shown:
            assert "NameError" in got  # the folder has another name
            continue
        assert re.fullmatch(test_readme.pattern(shown), got.rstrip("\n") + "\n" if got else "", re.S) or re.fullmatch(
            test_readme.pattern(shown), got), (command, shown, got)


def test_root_has_the_promised_paths(rooted):
    out = rooted.ok("bailey session new --name a >/dev/null; "
                    "bailey exec -s a -- sh -c 'pwd; echo $HOME $TMPDIR $OUTPUT_DIR; for f in /workspace /tmp /tmp/output"
                    " /tmp/data /home/user /mnt/data /dev/shm; do echo x > $f/x && cat $f/x; done'")
    assert out.split() == ["/workspace", "/home/user", "/tmp", "/tmp/output", *"xxxxxxx"]


def test_others_have_the_outputs_at_their_promised_path(outer):
    out = Place(outer, **KINDS["restricted"]).ok(
        "bailey session new --name a >/dev/null; bailey code -s a -c 'open(\"/tmp/output/o.txt\", \"w\").write(\"1\"); "
        "import os; print(os.environ[\"OUTPUT_DIR\"])'; cat /tmp/state/output/*/o.txt")
    assert "/tmp/bailey-" in out and out.splitlines()[-1].endswith("1")


# --- one


def test_a_second_session_is_refused_until_the_first_has_ended(place):
    done = place.shell("bailey session new --name a >/dev/null && bailey exec -s a -- true && "
                       "bailey session new --name b; echo status $?; "
                       "bailey session rm a && bailey session new --name b >/dev/null && bailey code -s b -c 6*7")
    assert done.stdout.split() == ["status", "125", "42"], done
    assert BUSY in done.stderr and "session rm" in done.stderr and "the session a " in done.stderr, done


def test_a_run_beside_a_session_is_made_without_it(place):
    assert place.ok("bailey session new --name a >/dev/null; bailey exec -s a -- true; "
                    "bailey run -c 'print(1)'") == "1\n"


def test_one_tenant(rooted):
    done = rooted.shell("bailey key new --tenant first && bailey key new --tenant first && "
                        "bailey key new --tenant second; echo status $?")
    assert done.stdout.splitlines()[-1] != "status 0", done
    assert done.stdout.count("bly_") == 2 and "one tenant" in done.stderr, done


def test_a_server_with_keys_of_two_tenants_does_not_start(outer):
    """As one that a machine with namespaces made."""
    profile = (support.REPO / "deploy" / "docker" / "seccomp.json").read_text()
    kept = {"Mounts": [{"Type": "volume", "Source": "state", "Target": "/tmp/state"}]}
    begin = "mkdir -m 700 /tmp/home /tmp/run; chmod 700 /tmp/state; "
    done = outer.run_container(outer.use("inside"), ["bash", "-c", begin + "bailey key new --tenant a && "
                               "bailey key new --tenant b && bailey daemon stop --force"], "", ENV,
                               SecurityOpt=["seccomp=" + profile], **kept)
    assert done.status == 0, done
    done = outer.run_container(outer.use("inside"), ["bash", "-c", begin + "exec bailey serve --listen 127.0.0.1:7070"],
                               "", ENV, **kept)
    assert done.status == 125 and "one tenant" in done.stderr and "'a' and of 'b'" in done.stderr, (
        done.status, done.stderr)


def test_strict_is_refused(place):
    done = place.shell("SANDBOX_ISOLATION=strict bailey session new; echo $?; "
                       "SANDBOX_ISOLATION=strict bailey serve --listen none; echo $?")
    assert done.stdout.split() == ["125", "126"] and done.stderr.count("need namespaces of their own") == 2, done


def test_it_is_never_chosen_where_namespaces_are_there(outer):
    """With our seccomp profile: sessions beside each other, each behind all walls."""
    profile = (support.REPO / "deploy" / "docker" / "seccomp.json").read_text()
    out = Place(outer, SecurityOpt=["seccomp=" + profile]).ok(
        "bailey session new --name a >/dev/null; bailey session new --name b >/dev/null; "
        "bailey exec -s a -- touch /workspace/f; bailey exec -s b -- ls /workspace; bailey code -s b --json -c 1")
    assert {"userns", "pidns", "netns"} <= set(json.loads(out)["meta"]["isolation"]["layers"]), out


@pytest.mark.parametrize("call, words", [
    ("session new --template data", "a session has what the container has"),
    ("install -s a requests", "Install them into the container"),
    ("upgrade", "changes its program only by a new start"),
    ("port -s a", "has no network of its own"),
    ("port -s a 7171 --local 7272", "has no network of its own"),
])
def test_what_it_cannot_do_is_said(rooted, call, words):
    done = rooted.shell(f"bailey session new --name a >/dev/null && bailey exec -s a -- true && "
                        f"{'bailey session rm a && ' if '--template' in call else ''}bailey {call}")
    assert done.status != 0 and words in done.stderr, done


def test_a_root_folder_is_refused_and_not_left_out(rooted):
    done = rooted.shell("SANDBOX_ROOT=/usr bailey serve --listen none")
    assert done.status == 125 and "SANDBOX_ROOT" in done.stderr and "needs namespaces" in done.stderr, done


# --- what is left


PLANT = r"""
import os, subprocess
for folder in ("/workspace", "/tmp", "/tmp/output", "/tmp/data", "/home/user", "/mnt/data", "/dev/shm"):
    open(folder + "/planted", "w").write("x")
os.mkfifo("/tmp/fifo")
os.symlink("/etc/passwd", "/workspace/link")
for i in range(3):
    subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done"], start_new_session=True)
print(os.getuid())
"""
# By another process with the guest's id, since its filter refuses these to the guest itself.
PLANT_MORE = r"""
import ctypes, os, socket, subprocess, sys
id = int(sys.argv[1])
os.setgroups([]); os.setgid(id); os.setuid(id)
c = ctypes.CDLL(None, use_errno=True)
assert c.shmget(4711, 4096, 0o1600) >= 0 and c.semget(4711, 1, 0o1600) >= 0 and c.msgget(4711, 0o1600) >= 0
assert c.mq_open(b"/planted", 0o102, 0o600, None) >= 0
socket.socket(socket.AF_UNIX).bind("/tmp/socket")
os.makedirs("/tmp/deep/er/and")
os.chmod("/tmp/deep/er", 0)
subprocess.Popen(["setsid", "sleep", "1000"])
"""


def test_nothing_of_a_session_is_left(rooted):
    """Planted in every place that a guest may write to, with processes that ignore what they are asked."""
    out = rooted.ok(OWNED + f"""
cat > plant.py <<'X'
{PLANT}
X
cat > more.py <<'X'
{PLANT_MORE}
X
mkdir -m 700 /tmp/mine; echo mine > /tmp/mine/f
bailey session new --name a >/dev/null
id=$(bailey exec -s a -- id -u)
bailey code -s a plant.py >said 2>&1
python3 more.py $id
echo before $(owned $id | wc -l)
bailey session rm a
until ! owned $id | grep -q .; do sleep 0.1; [ $((n=n+1)) -lt 100 ] || break; done
owned $id; echo after
cat /tmp/mine/f; ls -A /tmp /workspace /home/user /mnt /bailey 2>&1 || true
bailey session new --name b >/dev/null; bailey exec -s b -- ls -A /workspace /tmp/output /home/user""")
    before, after = out.split("after\n")
    assert int(before.split()[1]) >= 15 and len(before.splitlines()) == 1, out
    assert after.startswith("mine\n") and "planted" not in after and "deep" not in after, out


def test_what_a_killed_keeper_left_is_gone_with_the_next_session(rooted):
    out = rooted.ok(OWNED + """
bailey session new --name a >/dev/null
id=$(bailey exec -s a -- id -u)
bailey exec -s a -- sh -c 'echo x > /workspace/left; echo x > /tmp/left; (setsid sleep 1000 &)'
for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = box-keeper ] && kill -9 ${p#/proc/}; done
bailey session rm a 2>/dev/null || true
until bailey session new --name b >/dev/null 2>&1; do sleep 0.1; done
bailey exec -s b -- ls -A /workspace /tmp
owned $id | grep -c left || true""")
    assert "left" not in out and out.splitlines()[-1] == "0", out


def test_a_session_ends_with_its_keeper(rooted):
    """Without another session: the keeper is what would remove what the guest leaves."""
    out = rooted.ok(OWNED + """
bailey session new --name a >/dev/null
id=$(bailey exec -s a -- id -u)
bailey exec -s a -- sh -c '(setsid sleep 1000 &)'
for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = box-keeper ] && kill -9 ${p#/proc/}; done
until ! owned $id | grep -q ^process; do sleep 0.1; [ $((n=n+1)) -lt 100 ] || break; done
owned $id | grep ^process || echo none""")
    assert out == "none\n", out


def test_a_stopped_warden_does_not_outlive_the_daemon(rooted):
    """A guest with its warden's id can stop it where Landlock does not hold signals (before Linux 6.12)."""
    out = rooted.ok(OWNED + """
bailey session new --name a >/dev/null
id=$(bailey exec -s a -- id -u)
bailey exec -s a -- sh -c '(setsid sleep 1000 &)'
for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = warden ] && kill -STOP ${p#/proc/}; done
for p in /proc/[0-9]*; do case "$(tr '\\0' ' ' < $p/cmdline 2>/dev/null)" in "bailey-engine host container "*)
    kill -9 ${p#/proc/}; echo killed;; esac; done
until ! owned $id | grep -q .; do sleep 0.1; [ $((n=n+1)) -lt 100 ] || break; done
owned $id || true; echo none""")
    assert out == "killed\nnone\n", out


def test_what_was_there_before_is_there_after(rooted):
    """Empty folders with a promised name, links, and the modes of folders that others have."""
    out = rooted.ok("mkdir -p /tmp/output /tmp/cache /bailey; chmod 750 /tmp/output; chown 7:8 /tmp/output; "
                    "chmod 555 /tmp/cache; bailey session new --name a >/dev/null; "
                    "bailey exec -s a -- sh -c 'pwd; echo x > /tmp/output/x'; bailey session rm a; "
                    "until [ \"$(stat -c %u /tmp/output)\" = 7 ]; do sleep 0.1; [ $((n=n+1)) -lt 100 ] || break; done; "
                    "stat -c '%n %a %u %g' /tmp/output /tmp/cache; ls -A /tmp/output /bailey")
    assert out == ("/workspace\n/tmp/output 750 7 8\n/tmp/cache 555 0 0\n/bailey:\n\n/tmp/output:\n"), out


def test_a_link_of_others_is_not_taken_for_one_of_ours(outer):
    out = Place(outer, **KINDS["ordinary"]).ok("ln -s /not/yet /tmp/output; bailey session new --name a >/dev/null; "
                                               "bailey exec -s a -- true; bailey session rm a; readlink /tmp/output")
    assert out == "/not/yet\n", out


def test_promised_paths_need_a_tmp_with_the_sticky_bit(rooted):
    """Otherwise the guest could replace what others have in it."""
    out = rooted.ok("mkdir /tmp/others; chmod 777 /tmp; bailey session new --name a >/dev/null; "
                    "bailey exec -s a -- sh -c 'pwd; mv /tmp/others /tmp/stolen 2>/dev/null'  || true; ls -d /tmp/others")
    assert out.startswith("/tmp/bailey-") and out.endswith("\n/tmp/others\n"), out


def test_a_folder_that_is_in_use_is_not_given_to_the_guest(rooted):
    out = rooted.ok("echo mine > /workspace/mine; chmod 600 /workspace/mine; bailey session new --name a >/dev/null; "
                    "bailey exec -s a -- sh -c 'pwd; cat /workspace/mine; echo x > /workspace/x; echo y > y; cat y' "
                    "2>&1 || true; bailey session rm a; ls -A /workspace; stat -c %u /workspace")
    lines = out.split("\n")
    assert lines[0].startswith("/tmp/bailey-") and "y" in lines, out
    assert "mine" not in [line for line in lines[:-4]] and lines[-4:] == ["mine", "0", ""][-4:] or "mine\n0\n" in out, out


def test_the_daemon_takes_everything_with_it(place):
    out = place.ok("bailey session new --name a >/dev/null; bailey exec -s a -- sh -c '(setsid sleep 1000 &)'; "
                   "bailey daemon stop --force >/dev/null; "
                   "for p in /proc/[0-9]*; do cat $p/comm; done 2>/dev/null")
    assert "sleep" not in out.split() and "warden" not in out.split() and "box-keeper" not in out.split(), out


# --- what is out of reach

REACH = r"""
import ctypes, os, socket, subprocess
tried = 0
def fails(what, call):
    global tried
    tried += 1
    try:
        result = call()
    except (OSError, TypeError, subprocess.SubprocessError):
        return
    print("REACHED", what, result)
for family in range(46):
    for kind in (1, 2, 3, 5):
        fails(f"socket {family} {kind}", lambda: socket.socket(family, kind))
fails("datagram pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
a, b = socket.socketpair()
fails("connect", lambda: a.connect("/tmp/server"))
fails("bind", lambda: a.bind("/tmp/mine.sock"))
fails("listen", lambda: a.listen())
fails("sendto", lambda: a.sendto(b"x", "/tmp/server"))
for number in range(3, 64):
    try:
        inherited = socket.socket(fileno=os.dup(number))
    except OSError:
        continue
    for place in (("127.0.0.1", 7171), "/tmp/server"):
        fails(f"descriptor {number}", lambda: inherited.connect(place))
fails("bash", lambda: subprocess.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/7171"], check=True, stderr=-1))
c = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    def run():
        if getattr(c, name)(*args) == -1:
            raise OSError(ctypes.get_errno(), name)
        return "ok"
    return run
fails("io_uring", call("syscall", 425, 8, None))
fails("shmget", call("shmget", 1, 4096, 0o1600))
fails("msgget", call("msgget", 1, 0o1600))
fails("semget", call("semget", 1, 1, 0o1600))
fails("unshare", call("unshare", 0x10000000))
for path in ("/tmp/state", "/tmp/state/index", "/tmp/run", "/tmp/home", "/root", "/proc/1/environ", "/proc/self/environ",
             "/tmp/run/bailey/engine.sock", "/run", "/var", "/etc/shadow", "/"):
    fails(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path).read())
for pid in os.environ["PIDS"].split():
    fails(f"signal {pid}", lambda: os.kill(int(pid), 0))
    fails(f"ptrace {pid}", call("ptrace", 16, int(pid), 0, 0))
    fails(f"memory of {pid}", lambda: open(f"/proc/{pid}/mem", "rb").read(1))
print("tried", tried)
"""


def test_nothing_outside_of_the_box_can_be_reached(place):
    """Neither a server of the container, nor the engine's processes, files and socket."""
    out = place.ok(f"""cat > server.py <<'X'
import socket, time
a = socket.create_server(("127.0.0.1", 7171)); b = socket.socket(socket.AF_UNIX); b.bind("/tmp/server"); b.listen()
import os; os.chmod("/tmp/server", 0o777); open("ready", "w")
time.sleep(1000)
X
cat > reach.py <<'X'
{REACH}
X
python3 server.py & until [ -e ready ]; do sleep 0.05; done
bailey session new --name a >/dev/null; bailey exec -s a -- true
pids=; for p in /proc/[0-9]*; do case "$(cat $p/comm)" in python3|bailey*|launcher|memfd*|host-keeper|box-keeper|warden)
    pids="$pids ${{p#/proc/}}";; esac; done
bailey exec -s a --env PIDS="$pids" -- python3 -c "$(cat reach.py)"; kill %1""")
    assert "REACHED" not in out and int(out.split()[-1]) > 200, out
