"""Hostile package code in a template's zygote: it reaches the boxes of its own tenant and template, and nobody else.

The package is native code (hoard.c) that the zygote loads because the template's tier names it. It keeps
every descriptor it ever sees and tries to signal, trace, read and enter every process of the engine. Two tenants and
the owner use that template, and others have boxes without it. Where there is one id only the kernel lets
it send signals, which docs/security.md says; nothing else.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile

import pytest

import serve
import support
import tenants
import warm
import wheels

WAYS = {"split": None, "one-id": support.ORDINARY_UID}
SIGNALS = {"kill"}
HERE = pathlib.Path(__file__).resolve().parent
LOADER = ("import ctypes, os\n"
          "if os.path.exists('/bailey/driver/_zygote.so'):  # not where it is built, nor in a box\n"
          "    native = ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'hoard.so'))\n")
WARM = "import hoard, os; print(os.readlink('/proc/self/ns/user'))"


# In the zygote, where the native module is, the line would say so.
PTH = ("import os, sys; sys.ran_in = getattr(sys, 'ran_in', []) + "
       "['zygote' if os.path.exists('/bailey/driver/_zygote.so') else 'box']\n")
CUSTOM = PTH.replace("ran_in", "custom_ran_in")
STRAY = ("import os, signal\n"
         "if os.path.exists('/bailey/driver/_zygote.so') and os.fork() == 0:\n"
         "    os.setsid()\n"
         "    if os.fork() == 0:\n"
         "        os.execv('/bin/sleep', ['stray-of-a-package', '1000'])\n"
         "    os._exit(0)\n")
# Its very first line tells what the process is by then.
EARLY = ("import json, os\n"
         "if os.path.exists('/bailey/driver/_zygote.so'):\n"
         "    rows = dict(row.split(':\\t', 1) for row in open('/proc/self/status').read().splitlines() if ':\\t' in row)\n"
         "    about = {name: rows[name] for name in ('CapEff', 'CapPrm', 'CapBnd', 'Seccomp', 'NoNewPrivs')}\n"
         "    about['environment'] = dict(os.environ)\n"
         "    about['folders'] = sorted(os.listdir('/bailey'))\n"
         "    about['state'] = os.path.exists(STATE)\n"
         "    os.write(2, ('EARLY ' + json.dumps(about)).encode())\n")
# A thread of native code: Python's own wait for the interpreter, which a zygote gives to nobody.
SPINNER_C = ("#include <pthread.h>\n"
             "static void *spin(void *none) { for (;;) __asm__ volatile(\"\"); return none; }\n"
             "__attribute__((constructor)) static void start(void)\n"
             "{ pthread_t thread; pthread_create(&thread, 0, spin, 0); }\n")
SPINNER = LOADER.replace("hoard.so", "spinner.so")
TALKER = ("import os, socket, threading\n"
          "if os.path.exists('/bailey/driver/_zygote.so'):\n"
          "    control = socket.socket(fileno=os.dup(3))\n"
          "    for number in range(5000):  # words, and what is none\n"
          "        control.send(b'\\4' + b'\\0' * 63 if number % 2 else b'x')\n")


@pytest.fixture(scope="module")
def shelf():
    with tempfile.TemporaryDirectory() as name:  # an ordinary user's daemon reads it, too
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        native = folder / "hoard.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", native, HERE / "hoard.c", "-lpthread"], check=True)
        spinner = folder / "spinner.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", spinner, "-lpthread"],
                       input=SPINNER_C, text=True, check=True)
        files = {"hoard/__init__.py": LOADER, "hoard/hoard.so": native.read_bytes()}
        wheels.folder(folder / "wheels", wheels.Wheel("hoard", "1.0", files),
                      wheels.Wheel("unnamed", "1.0", {"unnamed.py": "", "unnamed.pth": PTH + "unnamed_folder\n",
                                                      "unnamed_folder/found.py": "x = 42\n", "sitecustomize.py": CUSTOM}),
                      wheels.Wheel("early", "1.0", {"early.py": EARLY.replace("STATE", repr(str(folder)))}),
                      wheels.Wheel("stray", "1.0", {"stray.py": STRAY}),
                      wheels.Wheel("spinner", "1.0", {"spinner/__init__.py": SPINNER,
                                                      "spinner/spinner.so": spinner.read_bytes()}),
                      wheels.Wheel("talker", "1.0", {"talker.py": TALKER}))
        yield folder / "wheels"


@pytest.fixture(params=WAYS)
def server(request, shelf):
    if os.geteuid() != 0:
        pytest.skip("starts daemons as root and as an ordinary user: needs root")
    more = getattr(request.function, "settings", {})
    with tenants.Server({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf, "SANDBOX_POOL_SIZE": "0", **more},
                        user=WAYS[request.param]) as running:
        running.is_split = request.param == "split"
        yield running


def settings(**values):
    def keep(test):
        test.settings = values
        return test
    return keep


def build(server, name):
    server.post("/v1/templates", {"name": name, "packages": [name], "warm_up": [],
                                  "tiers": [{"name": "core", "modules": [name]}]})


class Box:
    """A session with a kernel from a zygote, and its user namespace."""

    def __init__(self, caller, **members):
        self.caller, self.id = caller, caller.session(**members)["id"]
        self.owner = (caller, members.get("template"))
        code = WARM.replace("hoard, ", members.get("template", "sys") + ", ")
        found = serve.polled(lambda: self.cell(code), lambda done: done["meta"]["warm"] == "zygote",
                             "a zygote serves it", support.PATIENCE)
        self.namespace = found["stdout"].strip()

    def cell(self, code):
        context = self.caller.post(f"/v1/sessions/{self.id}/contexts", {}, 201)["id"]
        return self.caller.post(f"/v1/sessions/{self.id}/code", {"code": code, "context": context})


def engine(server):
    """Number in the engine -> (host's, user namespace) of all its processes; other daemons have the same numbers."""
    found, namespace = {}, warm.namespace(server.get("/v1/info")["launcher_pid"], "pid")
    for name in support.descendants(server.process.pid):
        rows = dict(row.split(":", 1) for row in warm.read(f"/proc/{name}/status").decode().splitlines() if ":" in row)
        numbers = rows.get("NSpid", "").split()
        if len(numbers) > 1 and (warm.namespace(name, "pid") == namespace or len(numbers) > 2):
            found[int(numbers[1])] = (int(name), warm.namespace(name, "user"))
    return found


def ids_of(pid):
    return re.search(rb"Uid:(.*)", warm.read(f"/proc/{pid}/status") + b"Uid:").group(1).split()


def words(server, kind):
    """(attacker, ...) of each line of that kind."""
    return [tuple(row.split()) for row in re.findall(r"hoard (\d+ %s .*)" % kind, server.log.read_text(errors="replace"))]


def rounds(server, count):
    """Every attacker has tried everybody that often from now on."""
    def last():
        return {row[0]: int(row[2]) for row in words(server, "ROUND")}

    before = serve.polled(last, lambda seen: len(seen) > 0, "they attack", support.PATIENCE)
    serve.polled(last, lambda seen: all(seen[one] >= before[one] + count for one in before), "they have tried",
                 support.PATIENCE)


def its_boxes(boxes, everybody, attackers):
    """Attacker -> user namespaces of the boxes of its tenant and template.

    Whose it is, the boxes of its own kernels tell. A zygote that had to be replaced serves some of them only, and its
    successor the others, with the same id.
    """
    owners = {}
    for pid, namespace in everybody.values():
        parent = re.search(r"PPid:\t(\d+)", warm.read(f"/proc/{pid}/status").decode())
        for attacker in attackers:
            if parent and int(parent.group(1)) == everybody[int(attacker)][0]:
                owners.setdefault(attacker, set()).update(box.owner for box in boxes if box.namespace == namespace)
    assert all(len(found) <= 1 for found in owners.values()), ("one zygote serves two owners", owners)
    return {attacker: {box.namespace for box in boxes if box.owner in found} for attacker, found in owners.items()}


def test_77_package_code_reaches_no_other_box(server):
    build(server, "hoard")
    one, other = server.caller("one"), server.caller("other")
    boxes = [Box(one, template="hoard"), Box(one, template="hoard"), Box(other, template="hoard"),
             Box(server, template="hoard"), Box(other), Box(server)]
    rounds(server, 1)
    for box in boxes:  # descriptors come and go while it looks
        assert box.cell("print(6 * 7)")["stdout"] == "42\n"
    rounds(server, 2)
    everybody = engine(server)
    zygotes = {str(number) for number, (pid, _) in everybody.items() if pid in warm.Daemon.zygotes(server)}
    attackers = {row[0] for row in words(server, "ROUND")} & zygotes
    own = its_boxes(boxes, everybody, attackers)
    lost = []
    for attacker, _, what, target in words(server, "WON"):
        if attacker not in attackers or int(target) not in everybody:
            continue
        pid, namespace = everybody[int(target)]
        itself = everybody[int(attacker)][0]
        kin = warm.namespace(itself, "mnt") == warm.namespace(pid, "mnt")  # what it forked
        if server.is_split:  # and zygotes of other tiers of the same tenant and template
            kin = kin or ids_of(itself) == ids_of(pid)
        if kin or namespace in own.get(attacker, ()) or (what in SIGNALS and not server.is_split):
            continue
        name = warm.read(f"/proc/{pid}/comm")
        if name:  # else it has ended since, as what the attacker forked does: what it was cannot be asked
            lost.append((attacker, what, target, name))
    assert lost == []
    assert len(attackers) == 3, "one for each tenant"
    assert sorted(len(found) for found in own.values()) == [1, 1, 2], own
    numbers = {name: re.search(r"\d+", name).group() for found in own.values() for name in found}
    for kind in ("SAW", "ENTERED"):
        for attacker, _, what, inode in words(server, kind):
            assert what != "pidfd" or attacker not in attackers, "a pidfd of somebody"
            strangers = {numbers[name] for rival, found in own.items() if rival != attacker for name in found}
            strangers |= {re.search(r"\d+", box.namespace).group() for box in boxes[4:]}
            assert attacker not in attackers or inode not in strangers, (kind, attacker, inode)
    assert words(server, "ENTERED"), "it may enter its own: the attack works"
    for box in boxes:
        assert box.cell("print(6 * 7)")["stdout"] == "42\n"


def test_77_only_named_modules_run_in_a_zygote(server):
    """Lines of .pth files and sitecustomize run in kernels, as in cold ones; folders they name are on the path."""
    build(server, "unnamed")
    box = Box(server, template="unnamed")
    code = "import unnamed, found, sys; print(found.x, sys.ran_in, getattr(sys, 'custom_ran_in', None))"
    warmed = box.cell(code)
    assert warmed["meta"]["warm"] == "zygote" and warmed["exit_code"] == 0, warmed
    cold = server.exec(box.id, "python", "-c", code)
    assert warmed["stdout"] == cold["stdout"] and "zygote" not in warmed["stdout"], (warmed, cold)
    assert warmed["stdout"].startswith("42 ['box'") and warmed["stdout"].endswith("['box']\n"), warmed
    flags = "import unnamed, sys; print(list(sys.flags), sys.prefix, 'site' in sys.modules)"
    assert box.cell(flags)["stdout"] == server.exec(box.id, "python", "-c", flags)["stdout"]


@settings(PYTHONSTARTUP="/startup.py", PYTHONPATH="/nowhere", SECRET_OF_THE_HOST="x")
def test_77_the_walls_of_a_zygote_stand_before_the_first_line_of_a_package(server):
    """No capability and the filter; no variable of the server's; its own template and no folder of the host."""
    build(server, "early")
    Box(server.caller("one"), template="early")
    said = re.findall(r"EARLY (\{.*\})", server.log.read_text(errors="replace"))
    assert said, server.log.read_text(errors="replace")[-3000:]
    for about in map(json.loads, said):
        assert about["CapEff"] == about["CapPrm"] == "0" * 16, about
        assert about["CapBnd"] == "0" * 16 or not server.is_split, about
        assert about["Seccomp"] == "2" and about["NoNewPrivs"] == "1", about
        assert not {"PYTHONSTARTUP", "SECRET_OF_THE_HOST"} & set(about["environment"]), about
        assert about["environment"].get("PYTHONPATH") != "/nowhere", "only the box's own, for `python -m pip`"
        assert set(about["folders"]) <= {"bin", "driver", "template", "tiers"} and about["state"] is False, about


def strays():
    return [int(name) for name in os.listdir("/proc")
            if name.isdigit() and b"stray-of-a-package" in warm.read(f"/proc/{name}/cmdline")]


def test_77_what_package_code_leaves_behind_ends_with_its_zygote(server):
    """A process that left its session and its parents is found by its control group, or by its mounts."""
    build(server, "stray")
    Box(server, template="stray")
    assert len(strays()) == 1
    for pid in warm.Daemon.zygotes(server):
        os.kill(pid, 9)
    own = set(strays())
    support.wait_until(lambda: not own & set(strays()), "it is gone")


def test_77_a_zygote_that_prints_without_end_is_ended(server):
    """Words that nobody asked for cost the launcher little: then the zygote goes, and everybody else is served."""
    build(server, "talker")
    session = server.session(template="talker")["id"]
    for _ in range(3):
        context = server.post(f"/v1/sessions/{session}/contexts", {}, 201)["id"]
        done = server.post(f"/v1/sessions/{session}/code", {"code": "import talker; print(42)", "context": context})
        assert done["stdout"] == "42\n", done
    serve.polled(lambda: server.log.read_text(errors="replace"), lambda text: "sends too many messages, ending it" in text,
                 "it was ended", support.PATIENCE)
    assert server.post("/v1/run", {"code": "print(42)"})["stdout"] == "42\n"


@settings(SANDBOX_QUOTA_CPU="3")
def test_77_what_package_code_computes_in_a_zygote_counts_for_its_tenant(server):
    """A package leaves a thread running in the zygote: the quota of its tenant is used up, and of nobody else."""
    build(server, "spinner")
    one, other = server.caller("one"), server.caller("other")
    session, told = Box(one, template="spinner").id, []

    def ask():
        reply = one.call("POST", f"/v1/sessions/{session}/code", {"code": "import spinner; print(42)"})
        if reply.status == 200:
            told.append(reply.json()["meta"]["usage"]["cpu_ms"] or 0)
        return reply

    reply = serve.polled(ask, lambda reply: reply.status != 200, "its quota is used up", 20)
    assert reply.status == 429 and reply.error["quota"] == "cpu", reply
    assert sum(told) < 2000, "its cells alone used that much"
    assert other.post("/v1/run", {"code": "print(42)"})["stdout"] == "42\n"
