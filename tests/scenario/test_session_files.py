"""Files of a session: every call, any size, any name, atomic, and changes as they happen."""
import hashlib
import http.client
import threading

import pytest

import serve

FILES = "/v1/sessions/{}/files"
ENTRY = {"name", "type", "bytes", "mode", "modified_at"}


def stat(daemon, session, path):
    return daemon.get(FILES.format(session) + "/stat", path=path)


def listing(daemon, session, path, **query):
    found = daemon.get(FILES.format(session) + "/list", path=path, **query)
    return {entry["name"]: entry for entry in found["entries"]}


def test_write_and_read(daemon, session):
    content = bytes(range(256)) * 3
    daemon.write(session, "/tmp/a.bin", content)
    assert daemon.read(session, "/tmp/a.bin") == content
    assert daemon.read(session, "/tmp/a.bin", offset=10, length=5) == content[10:15]
    assert daemon.read(session, "/tmp/a.bin", offset=760) == content[760:]
    assert daemon.read(session, "/tmp/a.bin", offset=5000) == b""
    assert daemon.exec(session, "stat", "-c", "%s %U", "/tmp/a.bin")["stdout"] == "768 user\n"


def test_an_empty_file(daemon, session):
    daemon.write(session, "/tmp/empty", b"")
    assert daemon.read(session, "/tmp/empty") == b""
    assert stat(daemon, session, "/tmp/empty")["bytes"] == 0


def test_stat(daemon, session):
    daemon.write(session, "/workspace/f", b"12345", mode="0640")
    entry = stat(daemon, session, "/workspace/f")
    assert ENTRY <= set(entry)
    assert (entry["name"], entry["type"], entry["bytes"], entry["mode"]) == ("f", "file", 5, "0640")
    assert entry["modified_at"].endswith("Z")
    assert stat(daemon, session, "/tmp")["type"] == "folder"
    daemon.exec(session, "sh", "-c", "ln -s f /workspace/l; mkfifo /workspace/p")
    assert stat(daemon, session, "/workspace/l")["type"] == "symlink"
    assert stat(daemon, session, "/workspace/p")["type"] == "other"


@pytest.mark.parametrize("mode, seen", [("0600", "600"), ("0755", "755"), ("0444", "444")])
def test_the_mode_of_a_new_file(daemon, session, mode, seen):
    daemon.write(session, "/tmp/f", b"x", mode=mode)
    assert daemon.exec(session, "stat", "-c", "%a", "/tmp/f")["stdout"].strip() == seen


def test_new_refuses_what_is_there(daemon, session):
    daemon.write(session, "/tmp/f", b"first", new="true")
    reply = daemon.call("PUT", FILES.format(session), b"second", query={"path": "/tmp/f", "new": "true"})
    assert (reply.status, reply.error["code"]) == (409, "path_exists")
    assert daemon.read(session, "/tmp/f") == b"first"
    daemon.write(session, "/tmp/f", b"third")
    assert daemon.read(session, "/tmp/f") == b"third"


def test_append_by_offset(daemon, session):
    """An upload in parts: each is written in place."""
    parts = [b"a" * 70000, b"b" * 3, b"c" * 100000]
    daemon.write(session, "/tmp/up", parts[0])
    inode = daemon.exec(session, "stat", "-c", "%i", "/tmp/up")["stdout"]
    at = len(parts[0])
    for part in parts[1:]:
        daemon.write(session, "/tmp/up", part, offset=at)
        at += len(part)
    assert daemon.read(session, "/tmp/up") == b"".join(parts)
    daemon.write(session, "/tmp/up", b"ZZ", offset=1)
    assert daemon.read(session, "/tmp/up", length=5) == b"aZZaa"
    assert stat(daemon, session, "/tmp/up")["bytes"] == at
    assert daemon.exec(session, "stat", "-c", "%i", "/tmp/up")["stdout"] == inode


def test_fifty_megabytes_up_and_down(daemon, session):
    block = bytes(range(256)) * 4096
    digest = hashlib.sha256()

    def body():
        for number in range(50):
            piece = number.to_bytes(4, "big") + block[4:]
            digest.update(piece)
            yield piece
    daemon.asked("PUT", FILES.format(session), body(), query={"path": "/tmp/big"})
    inside = daemon.exec(session, "sha256sum", "/tmp/big")
    assert inside["stdout"].split()[0] == digest.hexdigest()
    connection = serve.Connection(daemon.socket)
    connection.request("GET", FILES.format(session) + "?path=/tmp/big")
    reply, back = connection.getresponse(), hashlib.sha256()
    while True:
        piece = reply.read(1 << 20)
        if not piece:
            break
        back.update(piece)
    connection.close()
    assert (reply.status, back.hexdigest()) == (200, digest.hexdigest())


@pytest.mark.parametrize("part, length", [({}, 1000), ({"offset": 990}, 10), ({"length": 5}, 5), ({"offset": 2000}, 0)])
def test_the_reply_says_its_length_before_its_first_byte(daemon, session, part, length):
    daemon.write(session, "/tmp/f", bytes(1000))
    reply = daemon.asked("GET", FILES.format(session), query={"path": "/tmp/f", **part})
    assert (reply.headers["Content-Length"], len(reply.body)) == (str(length), length)
    assert "Transfer-Encoding" not in reply.headers


def test_a_file_that_shrinks_while_it_is_read_is_not_taken_for_whole(daemon, session):
    daemon.exec(session, "truncate", "-s", "300M", "/tmp/sparse")
    connection = serve.Connection(daemon.socket)
    connection.request("GET", FILES.format(session) + "?path=/tmp/sparse")
    reply = connection.getresponse()
    assert reply.getheader("Content-Length") == str(300 << 20)
    assert len(reply.read(1 << 20)) == 1 << 20
    daemon.exec(session, "truncate", "-s", "2M", "/tmp/sparse")
    with pytest.raises(http.client.IncompleteRead):
        reply.read()
    connection.close()


def test_a_reader_never_sees_half_a_replacement(daemon, session):
    daemon.write(session, "/tmp/f", b"0" * 100000)
    watcher = daemon.background(session, "python3", "-c", (
        "import os\nprint('on', flush=True)\nwhile not os.path.exists('/tmp/stop'):\n"
        "    data = open('/tmp/f', 'rb').read()\n"
        "    assert len(data) == 100000 and data == data[:1] * 100000, (len(data), data[:9])\n"))
    with daemon.events(f"/v1/sessions/{session}/processes/{watcher['execution_id']}/events") as events:
        events.until("stdout")
    seen = []

    def read():
        while len(seen) < 30:
            seen.append(daemon.read(session, "/tmp/f"))
    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30):
        daemon.write(session, "/tmp/f", b"%d" % (number % 10) * 100000)
    reader.join()
    daemon.write(session, "/tmp/stop")
    ended = daemon.wait(watcher["execution_id"])
    assert ended["exit_code"] == 0, daemon.output(watcher["execution_id"], "stderr")
    assert all(data == data[:1] * 100000 for data in seen)
    assert set(listing(daemon, session, "/tmp")) == {"data", "output", "f", "stop"}  # no rest


def test_an_upload_that_breaks_off_changes_nothing(daemon, session):
    daemon.write(session, "/tmp/f", b"whole")
    connection = serve.Connection(daemon.socket)
    connection.putrequest("PUT", FILES.format(session) + "?path=/tmp/f")
    connection.putheader("Content-Length", "100000")
    connection.endheaders(b"part" * 1000)
    connection.close()
    serve.polled(lambda: daemon.exec(session, "ls", "-A", "/tmp")["stdout"].split(),
                 lambda names: sorted(names) == ["data", "f", "output"], "only the old file is there")
    assert daemon.read(session, "/tmp/f") == b"whole"


def test_list_and_its_depth(daemon, session):
    daemon.exec(session, "sh", "-c", "mkdir -p /tmp/t/a/b/c; echo 1 > /tmp/t/f; echo 22 > /tmp/t/a/g; "
                "echo 3 > /tmp/t/a/b/c/h; ln -s f /tmp/t/l; mkfifo /tmp/t/p")
    one = listing(daemon, session, "/tmp/t")
    assert {name: entry["type"] for name, entry in one.items()} == {
        "a": "folder", "f": "file", "l": "symlink", "p": "other"}
    assert one["f"]["bytes"] == 2 and ENTRY <= set(one["f"])
    assert set(listing(daemon, session, "/tmp/t", depth=2)) == {"a", "f", "l", "p", "a/b", "a/g"}
    assert set(listing(daemon, session, "/tmp/t", depth=0)) == {
        "a", "f", "l", "p", "a/b", "a/g", "a/b/c", "a/b/c/h"}
    assert daemon.get(FILES.format(session) + "/list", path="/tmp/t")["truncated"] is False
    assert listing(daemon, session, "/tmp/t/a/b/c/..", depth=1).keys() == {"c"}


def test_mkdir_makes_the_folders_above(daemon, session):
    daemon.post(FILES.format(session) + "/mkdir", {"path": "/workspace/x/y/z", "mode": "0700"})
    assert stat(daemon, session, "/workspace/x/y/z")["mode"] == "0700"
    assert daemon.exec(session, "touch", "/workspace/x/y/z/f")["exit_code"] == 0
    daemon.post(FILES.format(session) + "/mkdir", {"path": "/workspace/x/y"})  # there: fine
    daemon.write(session, "/workspace/file", b"")
    for path in ("/workspace/file", "/workspace/file/sub"):
        daemon.refused("POST", FILES.format(session) + "/mkdir", 409, "path_not_folder",
                       {"path": path})


def test_move(daemon, session):
    daemon.write(session, "/tmp/from", b"x")
    daemon.write(session, "/tmp/old", b"old")
    daemon.post(FILES.format(session) + "/move", {"from": "/tmp/from", "to": "/tmp/to"})
    daemon.refused("GET", FILES.format(session) + "?path=/tmp/from", 404, "path_not_found")
    assert daemon.read(session, "/tmp/to") == b"x"
    daemon.post(FILES.format(session) + "/move", {"from": "/tmp/to", "to": "/tmp/old"})  # replaces
    assert daemon.read(session, "/tmp/old") == b"x"
    daemon.exec(session, "mkdir", "-p", "/tmp/folder/sub")
    daemon.post(FILES.format(session) + "/move", {"from": "/tmp/folder", "to": "/tmp/other"})
    assert stat(daemon, session, "/tmp/other/sub")["type"] == "folder"
    daemon.refused("POST", FILES.format(session) + "/move", 404, "path_not_found",
                   {"from": "/tmp/nothing", "to": "/tmp/x"})


def test_move_from_one_folder_of_the_box_to_another(daemon, session):
    daemon.write(session, "/tmp/old", b"x")
    daemon.post(FILES.format(session) + "/move", {"from": "/tmp/old", "to": "/workspace/new"})
    assert daemon.read(session, "/workspace/new") == b"x"


def test_delete(daemon, session):
    daemon.exec(session, "sh", "-c", "mkdir -p /tmp/t/a/b; echo x > /tmp/t/a/b/f; echo y > /tmp/keep; "
                "ln -s /tmp/keep /tmp/t/link; chmod 0 /tmp/t/a/b/f")
    daemon.refused("DELETE", FILES.format(session), 409, "folder_not_empty", query={"path": "/tmp/t"})
    daemon.asked("DELETE", FILES.format(session), query={"path": "/tmp/t/a/b/f"})
    daemon.asked("DELETE", FILES.format(session), query={"path": "/tmp/t/a/b"})  # empty by now
    daemon.asked("DELETE", FILES.format(session), query={"path": "/tmp/t", "recursive": "true"})
    daemon.refused("GET", FILES.format(session) + "/stat?path=/tmp/t", 404, "path_not_found")
    assert daemon.read(session, "/tmp/keep") == b"y\n"  # the link went, not what it named
    daemon.refused("DELETE", FILES.format(session), 404, "path_not_found", query={"path": "/tmp/t"})


def test_chmod(daemon, session):
    daemon.write(session, "/tmp/run", b"#!/bin/sh\necho ran\n")
    daemon.post(FILES.format(session) + "/chmod", {"path": "/tmp/run", "mode": "0755"})
    assert daemon.exec(session, "/tmp/run")["stdout"] == "ran\n"
    assert stat(daemon, session, "/tmp/run")["mode"] == "0755"


NAMES = ["with blank", "\u00fcml\u00e4ut", "new\nline", "quote\"'`$(x)", "-rf", "%2e%2e", "\U0001f4c8",
         "a" * 255, "tab\there", "back\\slash", "#?&=+", "..."]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name(daemon, session, name):
    path = "/tmp/names/" + name
    daemon.write(session, path, name.encode())
    assert daemon.read(session, path) == name.encode()
    assert set(listing(daemon, session, "/tmp/names")) == {name}
    inside = daemon.python(session, "import os; print(ascii(os.listdir('/tmp/names')))")
    assert inside["stdout"].strip() == ascii([name])
    daemon.asked("DELETE", FILES.format(session), query={"path": path})


def test_a_name_that_is_no_text_is_not_hidden(daemon, session):
    daemon.python(session, "open(b'/tmp/\\xff\\xfe', 'wb').write(b'odd')")
    found = daemon.get(FILES.format(session) + "/list", path="/tmp")
    assert len(found["entries"]) == 3, found  # data, output and the odd one


def test_a_name_that_is_no_text_can_be_read_and_deleted(daemon, session):
    daemon.python(session, "open(b'/tmp/\\xff\\xfe', 'wb').write(b'odd')")
    reply = daemon.call("GET", FILES.format(session) + "?path=/tmp/%ff%fe")
    assert (reply.status, reply.body) == (200, b"odd"), reply
    assert daemon.call("DELETE", FILES.format(session) + "?path=/tmp/%ff%fe").status == 200


def test_watch(daemon, session):
    daemon.exec(session, "mkdir", "-p", "/workspace/w/sub")
    with daemon.events(FILES.format(session) + "/watch", path="/workspace/w", recursive="true") as events:
        assert events.next().type == "ready"
        daemon.exec(session, "sh", "-c", "cd /workspace/w && echo 1 > a && mv a b && chmod 600 b && "
                    "rm b && echo 2 > sub/c && mkdir late && echo last > end")
        events.until("change", lambda data: data["path"].endswith("end") and data["kind"] == "written")
    seen = [(e.data["kind"], e.data["path"].rpartition("/workspace/w/")[2], e.data["type"])
            for e in events.seen if e.type == "change"]
    for expected in (("created", "a", "file"), ("written", "a", "file"), ("renamed_from", "a", "file"),
                     ("renamed_to", "b", "file"), ("attributes", "b", "file"), ("removed", "b", "file"),
                     ("created", "sub/c", "file"), ("created", "late", "folder")):
        assert expected in seen, (expected, seen)


def test_a_watch_sees_what_comes_through_the_door(daemon, session):
    with daemon.events(FILES.format(session) + "/watch", path="/tmp") as events:
        assert events.next().type == "ready"
        daemon.write(session, "/tmp/new", b"x")
        change = events.until("change", lambda data: data["path"].endswith("new"))
        assert change.data["kind"] in ("created", "written", "renamed_to")


def test_the_bus_has_file_changes(daemon, session):
    with daemon.events(f"/v1/sessions/{session}/events") as events:
        daemon.write(session, "/tmp/on-the-bus", b"x")
        data = events.until("file.changed").data
    assert data["session_id"] == session and "/tmp/on-the-bus" in str(data)


def test_two_paths_below_the_home_folder(daemon, session):
    daemon.write(session, "/home/user/.config/x", b"1")  # files may, the tools may not
    assert daemon.read(session, "/home/user/.config/x") == b"1"


def test_the_disk_limit_is_said():
    with serve.Daemon({"SANDBOX_DISK_LIMIT": "4m", "SANDBOX_MEMORY_LIMIT": "128m"}) as daemon:
        made = daemon.session()["id"]
        reply = daemon.call("PUT", FILES.format(made), b"x" * (8 << 20), query={"path": "/tmp/big"})
        assert (reply.status, reply.error["code"]) == (507, "disk_full"), reply
        daemon.refused("GET", FILES.format(made) + "/stat?path=/tmp/big", 404, "path_not_found")
        daemon.write(made, "/tmp/small", b"fits")


def test_the_command_line_copies_both_ways(daemon, session):
    work = daemon.room.work
    daemon.room.write("tree/a.txt", "a")
    daemon.room.write("tree/deep/b.bin", bytes(range(256)))
    assert daemon.bailey("cp", "tree", f"{session}:/workspace/tree").status == 0
    assert daemon.read(session, "/workspace/tree/deep/b.bin") == bytes(range(256))
    assert daemon.bailey("cp", f"{session}:/workspace/tree", "back").status == 0
    assert (work / "back" / "deep" / "b.bin").read_bytes() == bytes(range(256))
    done = daemon.bailey("cat", f"{session}:/workspace/tree/a.txt")
    assert (done.status, done.out) == (0, b"a")
    assert b"a.txt" in daemon.bailey("ls", f"{session}:/workspace/tree").out
    assert daemon.bailey("rm", "-r", f"{session}:/workspace/tree").status == 0
    assert daemon.bailey("ls", f"{session}:/workspace/tree").status == 125
