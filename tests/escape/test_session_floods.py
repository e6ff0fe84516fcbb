"""docs/security.md, attacks 10 on sessions: much of everything; deleting it ends, and others are served meanwhile."""
import threading

import pytest
import serve

DEEP = """
import os
os.chdir("/workspace")
made = 0
try:
    for made in range(10000):  # Landlock looks at every folder above: deeper costs its square
        os.mkdir("d")
        os.chdir("d")
except OSError as problem:
    print(problem.errno)
print(made)
"""
WIDE = """
import os
os.mkdir("/workspace/wide")
made = 0
try:
    for made in range(100000):
        os.mkdir(f"/workspace/wide/{made}")
except OSError as problem:
    print(problem.errno)
print(made)
"""
INODES = """
import os
os.mkdir("/workspace/many")
made = 0
try:
    while True:
        open(f"/workspace/many/{made}", "w").close()
        made += 1
except OSError as problem:
    print(problem.errno, made)
"""


def delete_while_others_work(daemon, session, path):
    """The delete ends, and another command of the same box is answered before or meanwhile."""
    replies = []
    deleting = threading.Thread(target=lambda: replies.append(daemon.call(
        "DELETE", f"/v1/sessions/{session}/files", query={"path": path, "recursive": "true"})))
    deleting.start()
    assert daemon.exec(session, "echo", "alive")["stdout"] == "alive\n"
    assert daemon.get(f"/v1/sessions/{session}")["state"] == "ready"
    deleting.join()
    assert replies and replies[0].status in (200, 204), replies
    gone = daemon.call("GET", f"/v1/sessions/{session}/files/stat", query={"path": path})
    assert gone.status == 404, gone


@pytest.mark.parametrize("code, path", [(DEEP, "/workspace/d"), (WIDE, "/workspace/wide"),
                                        (INODES, "/workspace/many")],
                         ids=["deep", "wide", "inodes"])
def test_10_many_folders(daemon, session, code, path):
    done = daemon.python(session, code, timeout=120)
    assert done["exit_code"] == 0, done
    listed = daemon.asked("GET", f"/v1/sessions/{session}/files/list",
                          query={"path": path, "depth": 0}).json()
    assert len(listed["entries"]) > 0
    delete_while_others_work(daemon, session, path)
    assert daemon.write(session, "/workspace/after", b"room again").status in (200, 201)


def test_10_session_with_a_flood_is_deleted(daemon):
    session = daemon.session()["id"]
    daemon.python(session, WIDE + DEEP, timeout=120)
    daemon.end(session)
    assert daemon.get(f"/v1/sessions/{session}")["state"] == "ended"


def test_10_sparse_and_full(daemon, session):
    """The disk's limit holds for a guest's files and for uploads; both say it."""
    done = daemon.python(session, """
import errno, os
def code(act):
    try:
        act()
        return "ok"
    except OSError as problem:
        return errno.errorcode[problem.errno]
fd = os.open("/workspace/sparse", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 42)
print(code(lambda: os.posix_fallocate(fd, 0, 1 << 40)))
""")
    assert done["stdout"].strip() in ("ENOSPC", "EFBIG", "EDQUOT"), done
    part = daemon.asked("GET", f"/v1/sessions/{session}/files",
                        query={"path": "/workspace/sparse", "offset": (1 << 42) - 10}).body
    assert part == bytes(10)
    daemon.exec(session, "sh", "-c", "rm /workspace/sparse; head -c 2000000000 /dev/zero > "
                                     "/workspace/full; rm -f /workspace/full2")
    reply = daemon.call("PUT", f"/v1/sessions/{session}/files", b"x" * 1000000,
                        query={"path": "/workspace/more"})
    assert reply.status == 507 and reply.error["code"] == "disk_full", reply
    names = daemon.exec(session, "ls", "-A", "/workspace")["stdout"].split()
    assert names == ["full"], f"no half file stays: {names}"
    daemon.exec(session, "rm", "/workspace/full")
    daemon.write(session, "/workspace/more", b"x" * 1000000)


def test_10_upload_without_an_end(daemon, session):
    """More than the box may hold, in pieces: refused at the limit, and the box works on."""
    def endless():
        for _ in range(1200):
            yield b"x" * 1048576
    try:
        reply = daemon.call("PUT", f"/v1/sessions/{session}/files", endless(),
                            query={"path": "/workspace/big"})
        assert reply.status in (413, 507), reply
    except OSError:
        pass  # it hung up in the middle of the body
    assert daemon.exec(session, "ls", "-A", "/workspace")["stdout"] == ""


def test_10_many_watches_and_readers(daemon, session):
    """As many streams as a client likes: refused in words, or served; the box answers."""
    streams = []
    try:
        for _ in range(80):
            connection = serve.Connection(daemon.socket)
            connection.request("GET", f"/v1/sessions/{session}/files/watch?path=/workspace")
            answer = connection.getresponse()
            assert answer.status in (200, 400, 409, 413, 429, 503), answer.read()
            streams.append(connection)
        assert daemon.exec(session, "echo", "alive")["stdout"] == "alive\n"
    finally:
        for connection in streams:
            connection.close()


LATER = """
import socket, threading, time

def connect():
    asked.wait()
    kept = []
    while True:
        server = socket.create_server(("127.0.0.1", 0), backlog=4096)
        kept.append(server)
        for _ in range(1000):
            socket.create_connection(server.getsockname()).close()

asked = threading.Event()
threading.Thread(target=connect, daemon=True).start()
threading.Timer(0.5, asked.set).start()
"""


def test_57_a_thread_that_goes_on_after_its_cell_is_watched(daemon, session):
    """Connections that nobody accepts are kernel memory that no control group counts."""
    place = f"/v1/sessions/{session}"
    assert daemon.post(f"{place}/code", {"code": LATER})["exit_code"] == 0
    serve.polled(lambda: daemon.get(f"{place}/contexts")["contexts"][0]["state"],
                 lambda state: state == "dead", "the kernel was ended, with no cell running")
