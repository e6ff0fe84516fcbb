"""No space in the state folder: clear errors, nothing crashes, nothing is half; then all is well.

The state folder is a small tmpfs in a mount namespace that one process of ours holds; the daemon
is started inside. It is filled and emptied from here, through /proc/HOLDER/root.
"""
import errno
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import load
import model_server
import pytest
import serve
import support

SIZE = "6m"


@pytest.fixture(autouse=True)
def _swept(_nothing_is_left):
    yield
    support.reap_orphans()
    done = support.bailey("exec", "--", "/bin/true")
    assert done.status == 0, done


class Disk:
    """A room whose state folder is on a disk of its own."""

    def __init__(self):
        self.room = support.Room()
        state = self.room.path / "state"
        state.mkdir(mode=0o700)
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             f"mount -t tmpfs -o size={SIZE},mode=0700 none {state} && echo ready && read line"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.holder.stdout.readline() != b"ready\n":
            said = self.holder.communicate()[1].decode()
            pytest.skip(f"a tmpfs of our own cannot be mounted here: {said.strip()}")
        self.state = Path(f"/proc/{self.holder.pid}/root{state}")
        self.filler = self.state / "filler"

    def fill(self):
        """Until not one byte more goes in."""
        with open(self.filler, "ab", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError as problem:
                    assert problem.errno == errno.ENOSPC, problem

    def empty(self):
        self.filler.unlink()

    def check_index(self):
        """A copy is looked at, with the log that belongs to it."""
        copy = self.room.path / "index"
        shutil.copytree(self.state / "index", copy)
        with sqlite3.connect(copy / "index.db") as index:
            assert index.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert index.execute("PRAGMA foreign_key_check").fetchall() == []
        shutil.rmtree(copy)

    def end(self):
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()
        self.holder.stderr.close()


@pytest.fixture
def disk(monkeypatch):
    made = Disk()
    plain = support.command

    def inside(*args, **named):
        return ["nsenter", f"--target={made.holder.pid}", "--mount", "--", *plain(*args, **named)]

    monkeypatch.setattr(support, "command", inside)
    yield made
    made.end()


def full(reply):
    """A clear error: the code, the status, words that name the place."""
    assert reply.status == 507, reply
    assert reply.error["code"] == "disk_full", reply
    assert len(reply.error["message"]) > 20, reply


def works(daemon, session=None):
    session = session or daemon.session()["id"]
    assert daemon.exec(session, "echo", "works")["stdout"] == "works\n"
    daemon.asked("PUT", f"/v1/sessions/{session}/datasets/new", b"a\n1\n", 201)
    assert daemon.exec(session, "cat", "/tmp/data/new.csv")["stdout"] == "a\n1\n"
    done = daemon.exec(session, "sh", "-c", "mkdir -p /tmp/output; echo out > /tmp/output/out.txt")
    assert done["meta"]["total_output_files"] >= 1, done
    name = f"/v1/sessions/{session}/outputs/out.txt"
    assert daemon.asked("GET", name).body == b"out\n"
    return session


def test_everything_on_a_full_disk(disk):
    with serve.Daemon(room=disk.room) as daemon:
        session = works(daemon)
        running = daemon.background(session, "python3", "-c", load.COUNTER,
                                    timeout=0)["execution_id"]
        serve.polled(lambda: daemon.get(f"/v1/sessions/{session}/processes/{running}"),
                     lambda p: p["stdout_bytes"] > 0, "it writes")
        disk.fill()
        full(daemon.call("POST", "/v1/sessions", {}))
        full(daemon.call("POST", "/v1/sessions", {
            "name": "with", "datasets": [{"name": "d", "content": "x" * 100000}]}))
        full(daemon.call("PUT", f"/v1/sessions/{session}/datasets/big", b"x" * 1000000))
        full(daemon.call("POST", f"/v1/sessions/{session}/exec", {"argv": ["true"]}))
        full(daemon.call("POST", f"/v1/sessions/{session}/exec",
                         {"argv": ["cat"], "stdin": "x" * 100000}))
        full(daemon.call("POST", f"/v1/sessions/{session}/exec",
                         {"argv": ["true"], "background": True}))
        said = daemon.post("/v1/tools/sandbox_exec", {"command": ["true"]}, session=session)
        assert said["success"] is False and said["code"] == "disk_full", said
        said = daemon.post("/v1/tools/sandbox_exec", {"command": ["true"]})
        assert said["success"] is False and said["code"] == "disk_full", said

        # What does not need this disk goes on.
        daemon.write(session, "/workspace/file", b"y" * 1000000)
        assert daemon.read(session, "/workspace/file") == b"y" * 1000000
        alive = [s["id"] for s in daemon.get("/v1/sessions")["sessions"]]
        assert alive == [session], "those that were refused are not there"
        assert [d["name"] for d in daemon.get(f"/v1/sessions/{session}/datasets")["datasets"]] == [
            "new"]
        daemon.write(session, "/tmp/enough")
        ended = daemon.wait(running)
        assert ended["state"] == "exited" and ended["exit_code"] == 7, ended

        disk.empty()
        assert daemon.get("/v1/info")["generation"] == 1, daemon.said()
        works(daemon, session)
        works(daemon)
        assert not [n for n in os.listdir(disk.state / "data") if n.startswith(".")]
    disk.check_index()


def test_what_a_command_wrote_meanwhile_is_said(disk):
    """Its output has no place: the command goes on, and nobody says that the rest was all."""
    with serve.Daemon(room=disk.room) as daemon:
        session = daemon.session()["id"]
        running = daemon.background(session, "sh", "-c", "cat; seq 1 200000", stdin=True,
                                    timeout=0)["execution_id"]
        disk.fill()
        daemon.asked("POST", f"/v1/sessions/{session}/processes/{running}/stdin", b"",
                     query={"end": "true"})
        with daemon.events(f"/v1/sessions/{session}/processes/{running}/events") as events:
            result = events.until("exit").data
        assert result["exit_code"] == 0, result
        assert result["meta"]["stdout_truncated"] and result["meta"]["truncated"], result["meta"]
        assert "no space in the state folder" in result["stderr"], result
        disk.empty()
        works(daemon, session)
    disk.check_index()


def test_outputs_that_find_no_place(disk):
    with serve.Daemon(room=disk.room) as daemon:
        session = works(daemon)
        big = "mkdir -p /tmp/output; head -c 20000000 /dev/zero > /tmp/output/big.csv; echo done"
        done = daemon.exec(session, "sh", "-c", big)
        assert done["exit_code"] == 0 and done["stdout"] == "done\n", done
        assert "big.csv" not in [o["name"] if isinstance(o, dict) else o
                                 for o in done["meta"]["output_files"]], done["meta"]
        reasons = {o["name"]: o["skipped"] for o in
                   daemon.get(f"/v1/sessions/{session}/outputs")["outputs"]}
        assert reasons.get("big.csv"), reasons
        folder = disk.state / "output" / f"session_{session}"
        assert sorted(os.listdir(folder)) == ["out.txt"], "no half file stays"
        daemon.exec(session, "rm", "/tmp/output/big.csv")
        works(daemon, session)
    disk.check_index()


def test_a_broker_that_dies_on_a_full_disk(disk):
    with serve.Daemon(room=disk.room) as daemon:
        session = works(daemon)
        running = daemon.background(session, "python3", "-c", load.COUNTER,
                                    timeout=0)["execution_id"]
        disk.fill()
        os.kill(daemon.get("/v1/info")["broker_pid"], 9)
        disk.empty()
        serve.polled(lambda: status(daemon), lambda code: code == 200, "a broker answers")
        daemon.write(session, "/tmp/enough")
        assert daemon.wait(running)["exit_code"] == 7
        works(daemon, session)
    disk.check_index()


def status(daemon):
    try:
        return daemon.call("GET", "/healthz", timeout=10).status
    except load.LOST:
        return None


def test_start_on_a_full_disk(disk):
    """It serves, or it says why not; once there is space it starts."""
    with serve.Daemon(room=disk.room) as daemon:
        kept = works(daemon)
    disk.fill()
    log = disk.room.path / "serve.log"
    log.write_text("")
    try:
        with serve.Daemon(room=disk.room) as daemon:
            assert daemon.get(f"/v1/sessions/{kept}")["end_reason"] == "engine_stopped"
    except AssertionError as problem:
        if "bailey serve ended" not in str(problem):
            raise
        assert "space" in log.read_text(), log.read_text()
    disk.empty()
    with serve.Daemon(room=disk.room) as daemon:
        assert daemon.get(f"/v1/sessions/{kept}")["end_reason"] == "engine_stopped"
        works(daemon)
    disk.check_index()


def test_a_response_whose_end_cannot_be_stored_is_failed_and_not_under_way(disk):
    with model_server.Server() as model, serve.Daemon({"BAILEY_UPSTREAM_URL": model.url}, room=disk.room) as daemon:
        body = {"model": "long", "input": "Go", "background": True}
        model.script("long", [[{"begin": True}, {"wait": "full"}, *model_server.text("x" * 200_000)]])
        path = f"/v1/responses/{daemon.asked('POST', '/v1/responses', json.dumps(body)).json()['id']}"
        support.wait_until(lambda: model.requests("long"), "the model server is asked")
        disk.fill()
        model.go("full")
        support.wait_until(lambda: daemon.call("GET", path).json()["status"] != "in_progress", "it ends")
        shown = daemon.call("GET", path).json()
        assert shown["status"] == "failed" and "stored" in shown["error"]["message"], shown
        disk.empty()
        assert daemon.call("GET", path).json()["status"] == "failed"
        assert daemon.asked("POST", "/v1/responses", json.dumps({**body, "background": False})).json()[
            "status"] == "completed"
        assert daemon.call("DELETE", path).status == 200
