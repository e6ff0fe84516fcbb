"""docs/security.md, attacks 7, 8, 9 on sessions: what is planted where outputs are collected, hostile names."""
import json
import os

import pytest

PLANTED = r"""
import os, socket, json
os.makedirs("/tmp/output/sub", exist_ok=True)
os.chdir("/tmp/output")
def put(name, text="x"):
    with open(name, "w") as f:
        f.write(text)
put("plain.txt", "plain"); put("sub/deep.csv", "deep")
os.symlink("/etc/passwd", "passwd.txt"); os.symlink(OUTSIDE, "host.txt")
os.symlink(FOLDER, "folder"); os.symlink("plain.txt", "alias.txt")
os.symlink("loop.txt", "loop.txt"); os.symlink("/proc/self/mem", "mem.txt")
os.mkfifo("fifo.txt")
s = socket.socket(socket.AF_UNIX); s.bind("socket.txt")
nodes = []
for kind in (0o020000, 0o060000):
    try:
        os.mknod("device%o.txt" % kind, kind | 0o666, os.makedev(1, 5)); nodes.append(kind)
    except OSError:
        pass
with open("sparse.csv", "w") as f:
    f.truncate(1 << 40)
print(json.dumps(nodes))
"""


def collected(daemon, session):
    """Everything below the session's folder outside, and whether it is a plain file there."""
    top = daemon.state / "output" / f"session_{session}"
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, top)] = (os.path.islink(path), os.path.isfile(path),
                                                 os.path.isdir(path))
    return found


@pytest.mark.parametrize("door", ["exec", "tool"])
def test_08_what_is_no_file(daemon, session, outside, door):
    code = PLANTED.replace("OUTSIDE", repr(str(outside.path))).replace(
        "FOLDER", repr(str(outside.folder)))
    if door == "exec":
        done = daemon.python(session, code)
        assert done["exit_code"] == 0, done
    else:
        done = daemon.post("/v1/tools/sandbox_exec", {"command": ["python3", "-c", code]},
                           session=session)
        assert done["exit_code"] == 0, done
    found = collected(daemon, session)
    assert set(found) - {"sub"} == {"plain.txt", "sub/deep.csv"}, found
    assert not any(is_link for is_link, _, _ in found.values()), found
    listed = daemon.get(f"/v1/sessions/{session}/outputs")["outputs"]
    skipped = {o["name"]: o["skipped"] for o in listed if o["path"] is None}
    for name in ("passwd.txt", "host.txt", "alias.txt", "loop.txt", "mem.txt"):
        assert skipped.get(name) == "symbolic link", (name, skipped)
    assert skipped.get("fifo.txt") == "fifo" and skipped.get("socket.txt") == "socket", skipped
    assert skipped.get("sparse.csv"), skipped
    text = json.dumps(done) + json.dumps(listed)
    assert outside.secret not in text and "root:" not in text


NAMES = [b"..txt", b"...", b"-rf.txt", b"a\\b.txt", b"a\nb.txt", b"\x1b[31mred.txt", b"\xff\xfe.txt",
         b"%2e%2e%2fx.txt", b"..%2fx.txt", b"~.txt", b"$(id).txt", b"`id`.txt", b"con.txt ",
         b" .txt", b"x" * 251 + b".txt", "\u202etxt.exe".encode(), b"index.db", b".hidden.txt",
         b"<script>.txt", b"'.txt", b'".txt', b"a:b.txt", b"sub dir.txt"]


def test_07_hostile_names_stay_in_the_folder(daemon, session, outside):
    code = f"""
import os
os.makedirs(b"/tmp/output/" + b"d" * 100, exist_ok=True)
for name in {NAMES!r}:
    open(b"/tmp/output/" + name, "w").write("named")
at = b"/tmp/output"
for i in range(60):
    at += b"/deep"
    os.mkdir(at)
    open(at + b"/file.txt", "w").write("deep")
"""
    before = sorted(os.listdir(daemon.state)), sorted(os.listdir(daemon.state / "output"))
    for _ in range(4):  # at most 20 a time
        assert daemon.python(session, code.replace("os.mkdir(at)", "os.makedirs(at, exist_ok=True)")
                             )["exit_code"] == 0
    assert sorted(os.listdir(daemon.state)) == before[0]
    new = set(os.listdir(daemon.state / "output")) - set(before[1])
    assert new <= {f"session_{session}"}, new
    for name, (is_link, is_file, is_dir) in collected(daemon, session).items():
        assert not is_link and (is_file or is_dir), name
    listed = daemon.get(f"/v1/sessions/{session}/outputs")
    top = str(daemon.state / "output" / f"session_{session}") + "/"
    for output in listed["outputs"]:
        if output["path"]:
            assert os.path.realpath(output["path"]).startswith(os.path.realpath(top)), output


def test_07_links_planted_outside_are_not_followed(daemon, session, outside):
    """Somebody of the host put a link where an output goes: replaced, not written through."""
    daemon.exec(session, "sh", "-c", "mkdir -p /tmp/output/sub; echo 1 > /tmp/output/a.txt; "
                                     "echo 1 > /tmp/output/sub/b.txt")
    top = daemon.state / "output" / f"session_{session}"
    os.unlink(top / "a.txt")
    os.symlink(outside.path, top / "a.txt")
    os.unlink(top / "sub" / "b.txt")
    os.rmdir(top / "sub")
    os.symlink(outside.folder, top / "sub")
    daemon.exec(session, "sh", "-c", "echo 22 > /tmp/output/a.txt; echo 22 > /tmp/output/sub/b.txt")
    outside.is_whole()


def test_08_swapped_while_it_is_collected(daemon, session, outside):
    """/tmp/output and a folder in it become links all the time; what comes out is the guest's own."""
    swapper = f"""
import ctypes, os
libc = ctypes.CDLL(None)
os.makedirs("/tmp/output/sub", exist_ok=True)
open("/tmp/output/sub/secret.txt", "w").write("guest")
os.symlink({str(outside.folder)!r}, "/tmp/other")
os.symlink("/etc", "/tmp/another")
while True:
    libc.renameat2(-100, b"/tmp/output/sub", -100, b"/tmp/other", 2)
    libc.renameat2(-100, b"/tmp/output/sub", -100, b"/tmp/another", 2)
"""
    running = daemon.background(session, "python3", "-c", swapper, timeout=0)["execution_id"]
    for _ in range(60):
        done = daemon.exec(session, "true")
        assert done["exit_code"] == 0 or done["meta"].get("error") is None, done
        for folder, _, files in os.walk(daemon.state / "output" / f"session_{session}"):
            for name in files:
                data = open(os.path.join(folder, name), "rb").read()
                assert outside.secret.encode() not in data and b"root:" not in data, name
    daemon.asked("POST", f"/v1/sessions/{session}/processes/{running}/signal", {"signal": "KILL"})
    daemon.wait(running)


def test_08_output_folder_is_a_link(daemon, session, outside):
    for target in (str(outside.folder), "/etc", "/proc/self", "/"):
        daemon.exec(session, "sh", "-c", f"rm -rf /tmp/output; ln -s {target} /tmp/output")
        done = daemon.exec(session, "true")
        assert done["exit_code"] == 0 and done["meta"]["output_files"] == [], done
    assert not any(is_file for _, is_file, _ in collected(daemon, session).values())


def test_09_copies_of_a_folder_with_links(daemon, session, outside, room):
    """`bailey cp` writes what the guest has below the place it was given, and follows nothing."""
    code = PLANTED.replace("OUTSIDE", repr(str(outside.path))).replace(
        "FOLDER", repr(str(outside.folder))).replace("f.truncate(1 << 40)", "pass")
    assert daemon.python(session, code, collect=False)["exit_code"] == 0
    to = daemon.room.work / "copy"
    done = daemon.bailey("cp", f"{session}:/tmp/output", to)
    assert outside.secret not in done.stdout + done.stderr
    for folder, folders, files in os.walk(to):
        for name in folders + files:
            path = os.path.join(folder, name)
            assert not os.path.islink(path), path
            if os.path.isfile(path):
                data = open(path, "rb").read()
                assert b"root:" not in data and outside.secret.encode() not in data, path
