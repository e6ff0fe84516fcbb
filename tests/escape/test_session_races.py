"""docs/security.md, attacks 5 on sessions: a folder becomes a link and a folder again while the API works in it."""
import http.client
import threading
import time

import calls
import pytest
import serve

SECONDS = 3
MOST_SECONDS = 60  # on a busy machine, until a call has met each side of the race

# The guest swaps /workspace/there between a folder and a link, as fast as it can.
SWAPPER = """
import ctypes, os
libc = ctypes.CDLL(None)
os.chdir("/workspace")
os.makedirs("there", exist_ok=True)
open("there/file", "w").write("folder")
target = {target!r}
os.symlink(target, "other")
open("swapping", "w").close()
while True:
    libc.renameat2(-100, b"there", -100, b"other", 2)  # RENAME_EXCHANGE
"""
# The same with unlink and rename, and with the last component instead of one on the way.
FILE_SWAPPER = """
import os
os.chdir("/workspace")
os.makedirs("there", exist_ok=True)
open("swapping", "w").close()
while True:
    for make in (lambda: os.symlink({target!r} + "/secret.txt", "there/new"),
                 lambda: open("there/new", "w").write("folder")):
        try:
            make()
            os.rename("there/new", "there/file")
        except OSError:
            pass
"""
TARGETS = {"box": "/etc", "proc": "/proc/1/root/workspace", "host": None}


def answered(daemon, session, name, path):
    """The reply. A read of a file that becomes shorter after its length was told is cut, and the reader can see that it was."""
    try:
        return calls.ALL[name](daemon, session, path)
    except http.client.IncompleteRead as cut:
        assert name == "read", (name, cut)
        return serve.Reply(200, {}, cut.partial)


@pytest.mark.parametrize("swapper", [SWAPPER, FILE_SWAPPER], ids=["folder", "file"])
@pytest.mark.parametrize("target", TARGETS)
def test_05_swapped_while_the_api_works(daemon, session, outside, swapper, target):
    place = TARGETS[target] or str(outside.folder)
    before = daemon.exec(session, "sh", "-c", "ls -la /etc | sha256sum; cat /etc/passwd")["stdout"]
    running = daemon.background(session, "python3", "-c", swapper.format(target=place),
                                timeout=0)["execution_id"]
    while daemon.call("GET", f"/v1/sessions/{session}/files/stat",
                      query={"path": "/workspace/swapping"}).status != 200:
        pass
    begun, problems, done = time.monotonic(), [], []

    def is_enough():
        so_far = time.monotonic() - begun
        has_both_sides = any(done) and not all(done)
        return problems or so_far > (SECONDS if has_both_sides else MOST_SECONDS)

    def work(names):
        try:
            while not is_enough():
                for name in names:
                    for path in (b"/workspace/there/file", b"/workspace/there/passwd",
                                 b"/workspace/there/secret.txt", b"/workspace/there/new"):
                        reply = answered(daemon, session, name, path)
                        done.append(calls.was_done(reply))
                        assert b"root:" not in reply.body, (name, reply)
                        assert outside.secret.encode() not in reply.body, (name, reply)
        except BaseException as problem:  # shown below
            problems.append(problem)

    workers = [threading.Thread(target=work, args=(names,)) for names in (
        ["write", "write at", "tool write"], ["read", "list all", "stat"],
        ["remove all", "mkdir", "write new"], ["chmod", "tool edit", "watch"])]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not problems, problems[0]
    assert any(done) and not all(done), "both sides of the race were met"
    daemon.asked("POST", f"/v1/sessions/{session}/processes/{running}/signal", {"signal": "KILL"})
    daemon.wait(running)
    outside.is_whole()
    after = daemon.exec(session, "sh", "-c", "ls -la /etc | sha256sum; cat /etc/passwd")["stdout"]
    assert after == before


def test_05_moved_away_while_it_is_written(daemon, session, outside):
    """A long upload whose folder goes elsewhere: it ends in the folder, or not at all."""
    daemon.exec(session, "mkdir", "/workspace/there")

    def body():
        yield b"x" * 100000
        daemon.exec(session, "sh", "-c",
                    f"cd /workspace; mv there away; ln -s {outside.folder} there")
        yield b"y" * 100000

    reply = daemon.call("PUT", f"/v1/sessions/{session}/files", body(),
                        query={"path": "/workspace/there/big"})
    outside.is_whole()
    found = daemon.exec(session, "sh", "-c", "ls -l /workspace/away /workspace/there/ 2>&1")["stdout"]
    assert reply.status in (200, 201, 403, 404), reply
    assert ("big" in found) == (reply.status < 300), (reply, found)
