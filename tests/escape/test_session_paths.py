"""docs/security.md, attacks 2, 3, 4, 18 on sessions: odd paths and links in every call that takes a path."""
import json

import calls
import pytest

OUTSIDE = {
    "empty": b"",
    "dots": b"..",
    "above": b"../../../../etc/passwd",
    "root": b"/",
    "etc": b"/etc/passwd",
    "above workspace": b"/workspace/../etc/passwd",
    "above tmp": b"/tmp/../../../etc/passwd",
    "above by a folder": b"/workspace/folder/../../etc/passwd",
    "like workspace": b"/workspaceother/file",
    "like tmp": b"/tmpother",
    "proc": b"/proc/self/environ",
    "proc root": b"/proc/1/root/etc/passwd",
    "descriptor": b"/proc/self/fd/3",
    "device": b"/dev/null",
    "NUL": b"/workspace/own\0/../../etc/passwd",
    "NUL at the end": b"/workspace/own\0",
    "4096 bytes": b"/workspace/" + b"x" * 4085,
    "5000 bytes": b"/workspace/" + b"y/" * 2500,
    "a long name": b"/workspace/" + b"z" * 256,
}
SHELL = r"""
set -e; cd /workspace; echo own > own; mkdir folder; echo in > folder/in
ln -s /etc/passwd to_file; ln -s /etc to_folder; ln -s OUTSIDE to_host; ln -s FOLDER to_host_folder
ln -s /proc/self/root/etc/passwd to_proc; ln -s /proc/1/root to_proc_root
ln -s /proc/self/cwd/../etc to_cwd
ln -s ../../../../etc/passwd climbing; ln -s ../etc climbing_folder; ln -s loop loop
ln -s /dev/zero to_device; ln -s to_folder twice
"""
FINAL = ("to_file", "to_folder", "to_host", "to_host_folder", "to_proc", "to_proc_root", "to_cwd",
         "climbing", "climbing_folder", "loop", "to_device", "twice")
BEHIND = ("to_folder/passwd", "to_folder/hostname", "to_host_folder/secret.txt", "to_host_folder/new",
          "to_proc_root/etc/passwd", "to_proc_root/workspace/own", "climbing_folder/passwd",
          "to_cwd/passwd", "twice/passwd", "to_file/x", "loop/x")
# These look at, replace or remove the link itself, as they should: nothing behind it is touched.
OF_THE_LINK = {"stat", "remove", "remove all", "move from", "move to", "write", "tool write"}


@pytest.fixture
def planted(daemon, session, outside):
    script = SHELL.replace("OUTSIDE", str(outside.path)).replace("FOLDER", str(outside.folder))
    done = daemon.exec(session, "sh", "-c", script)
    assert done["exit_code"] == 0, done
    return session


def own_file(daemon, session):
    daemon.write(session, "/workspace/own", b"own\n")


def passwd(daemon, session):
    return daemon.exec(session, "sha256sum", "/etc/passwd", "/etc/hostname")["stdout"]


@pytest.mark.parametrize("call", calls.ALL)
def test_02_paths_outside(daemon, planted, outside, call):
    before = passwd(daemon, planted)
    for name, path in OUTSIDE.items():
        own_file(daemon, planted)
        reply = calls.ALL[call](daemon, planted, path)
        assert not calls.was_done(reply), (name, reply)
        assert b"root:" not in reply.body and outside.secret.encode() not in reply.body, (name, reply)
    assert passwd(daemon, planted) == before
    assert daemon.read(planted, "/workspace/own") == b"own\n"


@pytest.mark.parametrize("call", calls.ALL)
def test_02_odd_names_stay_inside(daemon, planted, call):
    """A trailing slash, doubled ones, what is no UTF-8: refused, or what it says beneath the root."""
    before = passwd(daemon, planted)
    for path in (b"/workspace/", b"/tmp/", b"//workspace//folder//in", b"/workspace/./folder/./in",
                 b"/workspace/own/", b"/workspace/folder/", b"/workspace/\xff\xfe\xfd",
                 b"/workspace/\xc0\xaf..\xc0\xafetc", b"/workspace/\xed\xa0\x80",
                 b"/workspace/new\nline", b"/workspace/\x1b[31mred", b"/workspace/..."):
        own_file(daemon, planted)
        calls.was_done(calls.ALL[call](daemon, planted, path))  # no 500, no crash
    assert passwd(daemon, planted) == before
    assert daemon.exec(planted, "sh", "-c", "cd /; ls -d /workspace /tmp")["exit_code"] == 0


@pytest.mark.parametrize("call", calls.ALL)
def test_03_links_at_the_end(daemon, planted, outside, call):
    before = passwd(daemon, planted)
    for name in FINAL:
        own_file(daemon, planted)
        reply = calls.ALL[call](daemon, planted, b"/workspace/" + name.encode())
        assert b"root:" not in reply.body and outside.secret.encode() not in reply.body, (name, reply)
        if call not in OF_THE_LINK:
            assert not calls.was_done(reply), (name, reply)
        outside.is_whole()
    assert passwd(daemon, planted) == before


@pytest.mark.parametrize("call", calls.ALL)
def test_04_links_on_the_way(daemon, planted, outside, call):
    before = passwd(daemon, planted)
    for name in BEHIND:
        own_file(daemon, planted)
        reply = calls.ALL[call](daemon, planted, b"/workspace/" + name.encode())
        assert not calls.was_done(reply), (name, reply)
        assert b"root:" not in reply.body and outside.secret.encode() not in reply.body, (name, reply)
        outside.is_whole()
    assert passwd(daemon, planted) == before


def test_03_links_that_stay_inside_work(daemon, session):
    """Confined, not forbidden: a relative link beneath the root is followed."""
    daemon.exec(session, "sh", "-c", "cd /workspace; echo in > file; ln -s file link")
    assert daemon.read(session, "/workspace/link") == b"in\n"


@pytest.mark.parametrize("path", ["/proc/self/fd/3", "/proc/self/fd/0", "/proc/1/cwd",
                                  "/proc/1/root", "/proc/self/cwd", "/workspace/gone",
                                  "/workspace/file", "../..", "relative", "",
                                  "/workspace/" + "x" * 5000])
def test_18_working_folders(daemon, session, path):
    daemon.exec(session, "sh", "-c", "mkdir /workspace/gone; rmdir /workspace/gone; "
                                     "echo > /workspace/file")
    reply = daemon.call("POST", f"/v1/sessions/{session}/exec", {
        "argv": ["sh", "-c", "pwd -P; ls -a . ; cat /proc/self/mountinfo | head -0"], "cwd": path})
    if reply.status == 200 and not reply.json()["meta"].get("error"):
        seen = reply.json()["stdout"].splitlines()
        assert seen[0].split("/")[1] in ("", "workspace", "tmp", "home", "proc"), reply
        inside = daemon.exec(session, "sh", "-c", f"ls -a '{seen[0]}'")["stdout"].splitlines()
        assert "/proc/" in path or sorted(seen[1:]) == sorted(inside), "a folder of another place"
    else:
        assert reply.status in (200, 400, 403, 404, 409, 413), reply


def test_18_a_folder_that_leads_out(daemon, session, outside):
    """By a link of the guest's: the command sees the box, whatever the name says."""
    daemon.exec(session, "ln", "-s", str(outside.folder), "/workspace/link")
    reply = daemon.call("POST", f"/v1/sessions/{session}/exec", {
        "argv": ["ls", "-la"], "cwd": "/workspace/link"})
    assert b"secret.txt" not in reply.body, reply


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", ".hidden", "", "x" * 300, "a\x00b",
                                  "a\nb", "../../index/index.db", "con\x1b"])
def test_02_names_of_datasets(daemon, session, outside, name):
    import urllib.parse
    quoted = urllib.parse.quote(name, safe="")
    reply = daemon.call("PUT", f"/v1/sessions/{session}/datasets/{quoted}", b"a\n")
    assert reply.status < 500, reply
    body = json.dumps({"datasets": [{"name": name, "content": "a\n"}]})
    made = daemon.call("POST", "/v1/sessions", body)
    assert made.status < 500, made
    if made.status == 201:
        daemon.end(made.json()["id"])
    # What is being removed has another name until it is gone (session/tree.c).
    placed = {p.name for p in (daemon.state / "data").iterdir() if not p.name.startswith(".gone-")}
    alive = {s["id"] for s in daemon.get("/v1/sessions")["sessions"]}
    assert placed <= alive, placed - alive
    assert all("/" not in p.name and not p.is_symlink()
               for p in (daemon.state / "data" / session).iterdir()) \
        if (daemon.state / "data" / session).exists() else True


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/shadow", "../etc/passwd", "/", "",
                                  "/proc/self/environ"])
def test_02_datasets_by_a_path_of_the_host(daemon, outside, path):
    """Only folders that the configuration lists, and there are none here."""
    for asked in (path, str(outside.path)):
        reply = daemon.call("POST", "/v1/sessions", {"datasets": [{"name": "d", "path": asked}]})
        assert 400 <= reply.status < 500, reply
        assert outside.secret.encode() not in reply.body


@pytest.mark.parametrize("name", ["..", "../../index/index.db", "%2e%2e/%2e%2e/index/index.db",
                                  "..%2f..%2findex%2findex.db", "/etc/passwd", "%00", "a%00b", "%ff",
                                  "x" * 5000, "", ".", "a/../../../index/index.db"])
def test_02_names_of_outputs(daemon, session, name):
    daemon.exec(session, "sh", "-c", "mkdir -p /tmp/output/a; echo out > /tmp/output/a/o.txt")
    reply = daemon.call("GET", f"/v1/sessions/{session}/outputs/{name}")
    assert reply.status in (200, 400, 403, 404, 414), reply
    assert b"SQLite" not in reply.body and b"root:" not in reply.body, reply
    if reply.status == 200:
        assert name in ("", "."), reply
