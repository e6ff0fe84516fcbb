"""Hostile package code in a template's zygote: it reaches the boxes of its own tenant and template, and nobody else.

The package is native code (hoard.c) that the zygote loads because the template's tier names it. It keeps
every descriptor it ever sees and tries to signal, trace, read and enter every process of the engine. Two tenants and
the owner use that template, and others have boxes without it. Where there is one id only the kernel lets
it send signals, which docs/security.md says; nothing else.
"""
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


@pytest.fixture(scope="module")
def shelf():
    with tempfile.TemporaryDirectory() as name:  # an ordinary user's daemon reads it, too
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        native = folder / "hoard.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", native, HERE / "hoard.c", "-lpthread"], check=True)
        files = {"hoard/__init__.py": LOADER, "hoard/hoard.so": native.read_bytes()}
        wheels.folder(folder / "wheels", wheels.Wheel("hoard", "1.0", files))
        yield folder / "wheels"


@pytest.fixture(params=WAYS)
def server(request, shelf):
    if os.geteuid() != 0:
        pytest.skip("starts daemons as root and as an ordinary user: needs root")
    with tenants.Server({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf, "SANDBOX_POOL_SIZE": "0"},
                        user=WAYS[request.param]) as running:
        running.post("/v1/templates", {"name": "hoard", "packages": ["hoard"], "warm_up": [],
                                       "tiers": [{"name": "core", "modules": ["hoard"]}]})
        running.is_split = request.param == "split"
        yield running


class Box:
    """A session with a kernel from a zygote, and its user namespace."""

    def __init__(self, caller, **members):
        self.caller, self.id = caller, caller.session(**members)["id"]
        code = WARM if members else WARM.replace("hoard, ", "")
        found = serve.polled(lambda: self.cell(code), lambda done: done["meta"]["warm"] == "zygote",
                             "a zygote serves it", support.PATIENCE)
        self.namespace = found["stdout"].strip()

    def cell(self, code):
        context = self.caller.post(f"/v1/sessions/{self.id}/contexts", {}, 201)["id"]
        return self.caller.post(f"/v1/sessions/{self.id}/code", {"code": code, "context": context})


def engine(server):
    """Number in the engine -> (host's, user namespace) of all its processes."""
    found, namespace = {}, warm.namespace(server.get("/v1/info")["launcher_pid"], "pid")
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
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


def test_it_reaches_nobody_else(server):
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
    own = {}  # attacker -> user namespaces of the boxes it serves
    for number, (pid, namespace) in everybody.items():
        parent = re.search(r"PPid:\t(\d+)", warm.read(f"/proc/{pid}/status").decode())
        for attacker in attackers:
            if parent and int(parent.group(1)) == everybody[int(attacker)][0] and namespace in [b.namespace for b in boxes]:
                own.setdefault(attacker, set()).add(namespace)
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
        lost.append((attacker, what, target, warm.read(f"/proc/{pid}/comm")))
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
