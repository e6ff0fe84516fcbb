"""docs/security.md, attacks 1-15: files of the host, links, what is collected, disks, mounts, shared places."""
import ctypes
import os
import subprocess
from pathlib import Path

import attack
import pytest
import support
from attack import all_held, held

GONE = ("ENOENT", "EACCES")
NO_MOUNT = ("EPERM", "ENOSYS")


def test_01_host_files_cannot_be_read(box, canary):
    config = box.room.home / ".config" / "bailey"
    config.mkdir(parents=True)
    (config / "keys").write_text(canary.secret)
    (config / "keys").chmod(0o666)
    (box.folder / "beside.txt").write_text(canary.secret)
    found = box.probe(f"""
for path in ("/etc/shadow", "/etc/gshadow", "/root/.bashrc", {str(canary.path)!r},
             {str(config / "keys")!r}, {str(box.folder / "beside.txt")!r},
             "/proc/1/root/etc/shadow", "/proc/self/root/root/.bashrc",
             "../../../../../../{canary.path}"):
    found[path] = opened(path)
found["listed"] = attempt(os.listdir, {str(canary.folder)!r})
found["beside"] = os.path.exists("beside.txt")
found["written"] = opened({str(canary.path)!r}, os.O_WRONLY | os.O_APPEND)
found["made"] = opened({str(canary.folder / "new")!r}, os.O_WRONLY | os.O_CREAT)
found["removed"] = attempt(os.unlink, {str(canary.path)!r})
found["renamed"] = attempt(os.rename, {str(canary.path)!r}, "mine")
""")
    assert found.pop("beside") is False
    made = {name: found.pop(name) for name in ("made", "removed", "renamed")}
    all_held(found, *GONE)
    for answer in made.values():
        held(answer, *GONE, "EROFS", "EXDEV")


def test_01_what_belongs_to_a_host_file_cannot_be_changed(box, canary):
    """Landlock looks at contents and names only: mode, owner, times and attributes need more."""
    before = canary.path.stat()
    found = box.probe(f"""
path = {str(canary.path)!r}
found["chmod"] = attempt(os.chmod, path, 0o4777)
found["folder"] = attempt(os.chmod, os.path.dirname(path), 0o700)
found["chown"] = attempt(os.chown, path, os.getuid(), os.getgid())
found["utime"] = attempt(os.utime, path, (1, 1))
found["xattr"] = attempt(os.setxattr, path, "user.x", b"x")
found["truncate"] = attempt(os.truncate, path, 0)
""")
    all_held(found, *GONE, "EPERM", "EROFS", "ENOSYS", "ENOTSUP", "EOPNOTSUPP")
    after = canary.path.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime_ns) == \
           (before.st_mode, before.st_uid, before.st_mtime_ns)


@pytest.mark.ways("root-refused")
def test_01_root_without_namespaces_is_not_root_inside(box, canary):
    canary.path.chmod(0o600)
    found = box.probe(f"""
found["uid"], found["euid"] = os.getuid(), os.geteuid()
found["secret"] = opened({str(canary.path)!r})
""")
    canary.path.chmod(0o666)
    assert found["uid"] != 0 and found["euid"] != 0
    held(found["secret"], *GONE)


def test_03_symlink_to_a_host_file_is_not_fetched(box, canary):
    out = box.folder / "out"
    outcome = box.python(f"""
os.symlink({str(canary.path)!r}, output() + "/link")
os.symlink("/etc/passwd", output() + "/passwd")
os.symlink({str(canary.folder)!r}, output() + "/folder")
open(output() + "/plain.txt", "w").write("plain")
done()
""", "--out", out)
    assert outcome.result["exit_code"] == 0, outcome
    assert sorted(os.listdir(out)) == ["plain.txt"], outcome
    assert {"link", "passwd", "folder"} <= set(outcome.skipped()), outcome
    assert "link" in outcome.skipped()["link"]


def test_06_hard_link_to_a_file_outside(box, canary):
    found = box.probe(f"""
found["canary"] = attempt(os.link, {str(canary.path)!r}, "mine")
found["usr"] = attempt(os.link, os.path.realpath("/usr/bin/env"), "env")
found["self"] = attempt(os.link, "/proc/self/exe", "exe", follow_symlinks=True)
""")
    held(found["canary"], *GONE, "EXDEV", "EPERM")
    held(found["usr"], "EXDEV", "EPERM", "EACCES")
    held(found["self"], "EXDEV", "EPERM", "EACCES", "ENOENT")


def test_07_links_planted_where_the_engine_writes(box, canary):
    """A folder that was given to --out once is planted with links; the next run writes there."""
    out = box.folder / "out"
    out.mkdir()
    box.room.give(out)
    os.symlink(canary.path, out / "report.txt")
    os.symlink(canary.folder, out / "sub")
    os.symlink(canary.folder / "new", out / "dangling.txt")
    outcome = box.python("""
os.makedirs(output() + "/sub")
for name in ("report.txt", "dangling.txt", "sub/new.txt", "fine.txt"):
    open(output() + "/" + name, "w").write("guest")
done()
""", "--out", out)
    assert outcome.result["exit_code"] in (0, 1), outcome
    canary.is_whole()
    assert (out / "fine.txt").read_text() == "guest", outcome


def test_07_output_folder_replaced_by_a_link(box, canary):
    out = box.folder / "out"
    outcome = box.python(f"""
import shutil
where = output()
found["removed"] = attempt(shutil.rmtree, where)
found["linked"] = attempt(os.symlink, {str(canary.folder)!r}, where)
done()
""", "--out", out)
    assert outcome.result["exit_code"] in (0, 1), outcome
    assert not out.exists() or os.listdir(out) == [], outcome


def test_07_script_and_artifact_are_not_redirected(box, canary):
    """The script's own name and the artifact's folder, planted with links from inside."""
    outcome = box.python(f"""
for name in (sys.argv[0], "main.py", "stdout", "stderr", "meta.json", "artifacts"):
    attempt(os.unlink, name)
    found[name] = attempt(os.symlink, {str(canary.path)!r}, name)
done()
""", env={"SANDBOX_STORE_CODE": "always"})
    assert outcome.result["exit_code"] == 0, outcome
    stored = list((box.folder / "artifacts" / "executions").glob("*.json"))
    assert len(stored) == 1 and not stored[0].is_symlink()
    assert stored[0].stat().st_mode & 0o777 == 0o600


def test_08_odd_nodes_are_skipped_and_never_block(box, canary):
    out = box.folder / "out"
    outcome = box.python(f"""
import socket
os.chdir(output())
os.mkfifo("fifo")
found["socket"] = attempt(lambda: socket.socket(socket.AF_UNIX).bind("socket"))
os.symlink("/dev/zero", "zero")
os.symlink({str(canary.path)!r}, "link")
os.symlink("loop", "loop")
found["device"] = attempt(os.mknod, "device", 0o20666, os.makedev(1, 5))
found["disk"] = attempt(os.mknod, "disk", 0o60666, os.makedev(8, 0))
open("good.txt", "w").write("good")
done()
""", "--out", out)
    assert outcome.result["exit_code"] == 0, outcome
    held(outcome.found["device"], "EPERM", "EACCES", "ENOSYS")
    held(outcome.found["disk"], "EPERM", "EACCES", "ENOSYS")
    assert sorted(os.listdir(out)) == ["good.txt"]
    skipped = outcome.skipped()
    made = {"socket"} if outcome.found["socket"] == "ok" else set()
    assert set(skipped) == {"fifo", "zero", "link", "loop"} | made, outcome
    assert all(skipped.values()), "each says why"
    assert outcome.meta["total_output_files"] >= 1


FILL = r'''
def fill(path, piece=1 << 20, most=256 << 20):
    written = 0
    with open(path, "wb", buffering=0) as f:
        try:
            while written < most:
                written += f.write(b"x" * piece)
        except OSError as e:
            return errno.errorcode[e.errno], written
    return "ok", written
'''


@pytest.mark.ways(*attack.WALLED)
def test_10_disk_fills_at_its_limit(box):
    found = box.probe(FILL + """
found["write"], found["bytes"] = fill("big")
os.unlink("big")
fd = os.open("allocated", os.O_WRONLY | os.O_CREAT)
found["fallocate"] = attempt(os.posix_fallocate, fd, 0, 1 << 30)
os.close(fd)
os.unlink("allocated")
for place in ("/tmp/x", "/dev/shm/x", os.path.expanduser("~/x")):
    found[place] = fill(place)[0]
    os.unlink(place)
open("after", "w").write("still writable")
""", "--disk", "16m", "--memory", "128m")
    assert found["bytes"] <= 16 << 20
    for name in ("write", "fallocate", "/tmp/x", "/dev/shm/x"):
        held(found[name], "ENOSPC", "EDQUOT")


@pytest.mark.ways("refused", "root-refused")
def test_10_disk_is_watched_without_a_filesystem_of_its_own(box):
    """No tmpfs can be had: a watchdog ends what goes too far, and says so."""
    outcome = box.python(FILL + """
import signal
found["write"], found["bytes"] = fill("big", most=2 << 30)
done()
signal.pause()
""", "--disk", "16m", "--memory", "256m", "--timeout", "60")
    assert outcome.meta["disk_full"] is True or '"ENOSPC"' in outcome.result["stdout"], outcome
    assert outcome.meta["timed_out"] is False, outcome


@pytest.mark.ways(*attack.WALLED)
def test_10_inode_flood(box):
    found = box.probe("""
made = 0
try:
    while made < 200000:
        os.close(os.open(f"f{made}", os.O_CREAT | os.O_WRONLY))
        made += 1
    found["flood"] = "ok"
except OSError as e:
    found["flood"] = errno.errorcode[e.errno]
found["made"] = made
""", "--disk", "16m", "--memory", "256m")
    held(found["flood"], "ENOSPC", "EDQUOT")
    assert found["made"] < 20000


def test_10_deep_tree_is_gone_afterwards(box):
    """Ten thousand folders in each other; the leak check sees that they are gone."""
    # A hundred chains, each moved to the end of the next one: Landlock goes up to the root at each
    # mkdir, so that one chain of ten thousand takes seconds of CPU time.
    outcome = box.python("""
depth = 0
try:
    for chain in range(100):
        os.mkdir(f"chain{chain}")
        path = f"chain{chain}"
        for _ in range(99):
            path += "/d"
            os.mkdir(path)
        if chain:
            os.rename(f"chain{chain - 1}", path + "/d")
        depth += 100
    found["end"] = "ok"
except OSError as e:
    found["end"] = errno.errorcode[e.errno]
found["depth"] = depth
done()
""", "--disk", "256m", "--memory", "512m")
    if box.way.deny and outcome.result["exit_code"] != 0:
        # What is too deep to be measured there counts as more than any limit.
        assert outcome.meta["disk_full"] and outcome.meta["signal"] == 9, outcome
        return
    held(outcome.found["end"], "ok", "ENOSPC", "EDQUOT")
    assert outcome.found["depth"] > 1000


def test_10_sparse_file_costs_nothing_outside(box):
    """A terabyte of nothing in the output folder, which is a disk of 64 MB here."""
    support.need_mounts()
    out = box.folder / "out"
    out.mkdir()
    small_disk = ["unshare", "-m", "sh", "-c",
                  'mount -t tmpfs -o size=64m,mode=777 none "$0" && "$@"; s=$?; '
                  'echo "used $(du -sm "$0" | cut -f1)" >&2; exit $s', out]
    outcome = box.python("""
sparse = os.open(output() + "/sparse", os.O_CREAT | os.O_RDWR)
found["sparse"] = attempt(os.truncate, sparse, 1 << 40)
found["deep"] = attempt(os.makedirs, output() + "/d" * DEPTH)
open(output() + "/real.txt", "w").write("real")
done()
""".replace("DEPTH", "50" if box.way.deny else "500"), "--out", out, "--disk", "16m", prefix=small_disk)
    assert int(outcome.err.split("used ")[1]) <= 17, outcome
    assert "real.txt" in outcome.fetched(), outcome
    if outcome.found["sparse"] == "ok":
        assert "sparse" in outcome.skipped(), outcome
    else:
        held(outcome.found["sparse"], "ENOSPC", "EDQUOT", "EFBIG")


def test_11_handles_and_the_lower_layer(box, canary):
    program = Path(os.path.realpath("/usr/bin/env"))
    before = attack.digest(program)
    found = box.probe(f"""
handle = ctypes.create_string_buffer(136)
handle.raw = (128).to_bytes(4, sys.byteorder) + bytes(132)
mount_id = ctypes.c_int()
found["name_to_handle_at"] = call("name_to_handle_at", -100, b"/usr/bin/env", handle,
                                  ctypes.byref(mount_id), 0)
# The root of the host's filesystem: inode 2, generation 0, as in the old docker escape.
handle.raw = (8).to_bytes(4, sys.byteorder) + (1).to_bytes(4, sys.byteorder) + \\
             (2).to_bytes(8, sys.byteorder) + bytes(120)
here = os.open("/usr", os.O_RDONLY)
found["open_by_handle_at"] = call("open_by_handle_at", here, handle, 0)
found["write"] = opened({str(program)!r}, os.O_WRONLY)
found["create"] = opened("/usr/bin/planted", os.O_WRONLY | os.O_CREAT)
found["chmod"] = attempt(os.chmod, {str(program)!r}, 0o777)
found["etc"] = opened("/etc/planted", os.O_WRONLY | os.O_CREAT)
found["root"] = opened("/planted", os.O_WRONLY | os.O_CREAT)
""")
    held(found["name_to_handle_at"], "EPERM")
    held(found["open_by_handle_at"], "EPERM")
    for name in ("write", "create", "chmod", "etc", "root"):
        held(found[name], "EROFS", "EACCES", "EPERM")
    assert attack.digest(program) == before and not os.path.exists("/usr/bin/planted")


def test_12_mount_calls(box):
    found = box.probe("""
os.makedirs("at", exist_ok=True)
found["mount tmpfs"] = call("mount", b"none", b"at", b"tmpfs", 0, 0)
found["mount bind"] = call("mount", b"/", b"at", 0, 4096 | 16384, 0)
found["mount proc"] = call("mount", b"none", b"at", b"proc", 0, 0)
found["umount2"] = call("umount2", b"/usr", 2)
found["umount2 proc"] = call("umount2", b"/proc", 2)
found["move_mount"] = call("move_mount", -100, b"/usr", -100, b"at", 0)
found["fsopen"] = call("fsopen", b"tmpfs", 0)
found["fsconfig"] = call("fsconfig", -1, 6, 0, 0, 0)
found["fsmount"] = call("fsmount", -1, 0, 0)
found["fspick"] = call("fspick", -100, b"/", 0)
found["pivot_root"] = call("pivot_root", b".", b"at")
found["open_tree"] = call("open_tree", -100, b"/", 1)
found["open_tree_attr"] = call("open_tree_attr", -100, b"/", 1, 0, 0)
found["mount_setattr"] = call("mount_setattr", -100, b"/", 0x8000, bytes(32), 32)
""")
    all_held(found, *NO_MOUNT)


def test_13_read_only_stays_read_only_and_masks_stay(box):
    found = box.probe("""
MS_REMOUNT, MS_BIND = 32, 4096
for path in (b"/", b"/usr", b"/proc", b"/etc", b"/dev"):
    found["remount " + path.decode()] = call("mount", b"none", path, 0, MS_REMOUNT | MS_BIND, 0)
for path in (b"/proc/kcore", b"/proc/keys", b"/proc/sysrq-trigger", b"/proc/sys"):
    found["unmask " + path.decode()] = call("umount2", path, 0)
found["write"] = opened("/usr/planted", os.O_WRONLY | os.O_CREAT)
for path in ("/proc/kcore", "/proc/kallsyms", "/proc/sched_debug", "/proc/timer_list",
             "/proc/keys"):
    text = readable(path)
    found["read " + path] = "" if len(text) < 12 and text.startswith("E") else text.strip()[:40]
""")
    held(found.pop("write"), "EROFS", "EACCES", "EPERM")
    symbols = found.pop("read /proc/kallsyms")
    assert not symbols or set(symbols.split()[0]) == {"0"}, symbols
    all_held({name: found[name] for name in found if name.startswith("read ")}, "")
    all_held({name: found[name] for name in found if not name.startswith("read ")}, *NO_MOUNT)


def test_14_chroot_with_a_kept_folder(box, canary):
    found = box.probe(f"""
os.mkdir("jail")
kept = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
found["chroot"] = call("chroot", b"jail")
os.fchdir(kept)
for _ in range(64):
    os.chdir("..")
found["again"] = call("chroot", b".")
found["canary"] = opened({str(canary.path)!r}.lstrip("/"))
found["shadow"] = opened("etc/shadow")
""")
    held(found["chroot"], "EPERM", "ENOSYS")
    held(found["again"], "EPERM", "ENOSYS")
    held(found["canary"], *GONE)
    held(found["shadow"], *GONE)


SHARE = r'''
KEY, NAME = {key}, b"/{name}"
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
def shared(create):
    flags = 0o1000 if create else 0
    found["shm"] = call("shmget", KEY, 4096, flags | 0o666)
    found["msg"] = call("msgget", KEY, flags | 0o666)
    found["sem"] = call("semget", KEY, 1, flags | 0o666)
    found["mqueue"] = call("mq_open", NAME[1:], os.O_RDWR | (os.O_CREAT if create else 0), 0o666, 0)
    for place in ("/dev/shm", "/tmp", "/var/tmp", "/workspace", "/dev/mqueue"):
        path = place + NAME.decode()
        found[place] = opened(path, os.O_RDWR | (os.O_CREAT if create else 0))
    import socket
    try:
        s = socket.socket(socket.AF_UNIX)
    except OSError as e:
        found["abstract"] = errno.errorcode[e.errno]
        return
    if create:
        found["abstract"] = attempt(s.bind, b"\0" + NAME)
        attempt(s.listen)
        globals()["kept"] = s
    else:
        found["abstract"] = attempt(s.connect, b"\0" + NAME)
'''
UNSEEN = ("ENOENT", "EACCES", "EPERM", "ENOSYS", "ECONNREFUSED", "EROFS")


def test_15_two_boxes_share_nothing(box):
    share = SHARE.format(key=0x0BA11E7, name="canary-of-a-sibling")
    first = box.start("run", "--stdin", "-c", attack.prelude() + share + """
shared(True)
done()
sys.stdin.read()
""", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        made = first.stdout.readline()
        assert b'"shm"' in made
        found = box.probe(share + "shared(False)")
    finally:
        first.communicate(timeout=support.PATIENCE)
    all_held(found, *UNSEEN)


def test_15_nothing_of_the_host_is_shared(box, canary):
    """System V memory, a queue and /dev/shm of the host, open to everybody."""
    libc = ctypes.CDLL(None, use_errno=True)
    key, name = 0x0BA11E8, "canary-of-the-host"
    segment = libc.shmget(key, 4096, 0o1666)
    queue = libc.msgget(key, 0o1666)
    shm = Path("/dev/shm") / name
    tmp = Path("/tmp") / name
    for path in (shm, tmp):
        path.write_text(canary.secret)
        path.chmod(0o666)
    try:
        found = box.probe(SHARE.format(key=key, name=name) + "shared(False)")
        assert shm.read_text() == canary.secret and tmp.read_text() == canary.secret
    finally:
        libc.shmctl(segment, 0, None)
        libc.msgctl(queue, 0, None)
        shm.unlink()
        tmp.unlink()
    all_held(found, *UNSEEN)
