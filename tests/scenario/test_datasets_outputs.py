"""Datasets in, outputs back: what the box is given to read, and what comes out of it by itself."""
import base64
import http.client
import os
import signal
from pathlib import Path

import pytest

import serve
import support

OUTPUT = {"name", "path", "bytes", "mime", "kind", "skipped", "modified_at", "id", "sha256", "url"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """With a folder whose files may be given by path."""
    shared = tmp_path_factory.mktemp("shared")
    shared.chmod(0o755)
    (shared / "listed.csv").write_text("a\n1\n")
    (shared / "sub").mkdir()
    (shared / "sub" / "deep.csv").write_text("b\n2\n")
    (shared / "link.csv").symlink_to("/etc/passwd")
    os.chmod(shared.parent, 0o755)
    with serve.Daemon({"SANDBOX_DATASET_FOLDERS": shared}) as running:
        running.shared = shared
        yield running


def tool(daemon, session, script):
    """sandbox_exec of a shell script; the reply."""
    reply = daemon.post("/v1/tools/sandbox_exec", {"command": ["sh", "-c", script]}, session=session)
    assert reply.get("exit_code") == 0, reply
    return reply


def folder(daemon, session):
    return Path(daemon.get(f"/v1/sessions/{session}")["output_folder"])


def saved(daemon, session):
    top = folder(daemon, session)
    return {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}


def outputs(daemon, session):
    found = daemon.get(f"/v1/sessions/{session}/outputs")
    assert Path(found["folder"]) == folder(daemon, session)
    return {each["name"]: each for each in found["outputs"]}


def names(reply):
    """Those that were fetched; what stayed in the box says so."""
    for each in reply["files"]:
        assert each["path"] or each["skipped"] or each["kind"] == "binary", each
        assert each["name"] in reply["output_files"]
    assert all(isinstance(name, str) for name in reply["output_files"]), reply
    return sorted(each["name"] for each in reply["files"] if each["path"])


# --- datasets ------------------------------------------------------------------------------------


def test_a_dataset_is_there_before_the_first_command(daemon):
    rows = b"x,y\n1,\xc3\xa4\n"
    made = daemon.session(datasets=[
        {"name": "text", "content": "a,b\n1,2\n"},
        {"name": "bytes", "content_base64": base64.b64encode(rows + b"\xff\0").decode()},
        {"name": "of path", "path": str(daemon.shared / "listed.csv")},
        {"name": "deep/er", "path": str(daemon.shared / "sub" / "deep.csv")}])
    listed = {each["name"]: each for each in made["datasets"]}
    assert {name: each["path"] for name, each in listed.items()} == {
        "text": "/tmp/data/text.csv", "bytes": "/tmp/data/bytes.csv",
        "of path": "/tmp/data/of_path.csv", "deep/er": "/tmp/data/deep_er.csv"}
    assert daemon.get(f"/v1/sessions/{made['id']}/datasets")["datasets"] == made["datasets"]
    assert listed["text"]["bytes"] == 8
    code = "import os\nfor n in sorted(os.listdir('/tmp/data')): print(n, open('/tmp/data/' + n, 'rb').read())"
    assert daemon.python(made["id"], code)["stdout"].splitlines() == [
        f"bytes.csv {rows + bytes([255, 0])!r}", "deep_er.csv b'b\\n2\\n'", "of_path.csv b'a\\n1\\n'",
        "text.csv b'a,b\\n1,2\\n'"]
    daemon.end(made["id"])


@pytest.mark.parametrize("first, second", [("a b", "a_b"), ("a/b", "a b"), ("same", "same"),
                                           ("x\ty", "x y")])
def test_two_names_that_become_one_are_an_error(daemon, first, second):
    before = len(daemon.get("/v1/sessions", all="true")["sessions"])
    error = daemon.refused("POST", "/v1/sessions", 409, "dataset_taken", {"datasets": [
        {"name": first, "content": "1"}, {"name": second, "content": "2"}]})
    assert "/tmp/data/" in error["message"] and error["field"] == "datasets[1].name", error
    assert len(daemon.get("/v1/sessions", all="true")["sessions"]) == before  # nothing was made


def test_a_dataset_given_later_just_appears(daemon, session):
    assert daemon.exec(session, "ls", "/tmp/data")["stdout"] == ""
    content = b"late\n" + b"1\n" * 100000
    daemon.asked("PUT", f"/v1/sessions/{session}/datasets/came%20late", content, 201)
    assert daemon.exec(session, "sha256sum", "/tmp/data/came_late.csv")["stdout"].split()[0] == \
        serve.sha256(content)
    assert [each["name"] for each in daemon.get(f"/v1/sessions/{session}/datasets")["datasets"]] == [
        "came late"]
    daemon.refused("PUT", f"/v1/sessions/{session}/datasets/came_late", 409, "dataset_taken", b"x")


def test_datasets_are_read_only(daemon):
    made = daemon.session(datasets=[{"name": "d", "content": "x\n"}])["id"]
    for script in ("echo y > /tmp/data/d.csv", "rm -f /tmp/data/d.csv && ! test -e /tmp/data/d.csv",
                   "touch /tmp/data/new", "chmod 777 /tmp/data/d.csv", "mv /tmp/data /tmp/x",
                   "rmdir /tmp/data", "ln -s x /tmp/data/l", "mv /tmp/data/d.csv /tmp/d.csv"):
        assert daemon.exec(made, "sh", "-c", script)["exit_code"] != 0, script
    files = f"/v1/sessions/{made}/files"
    for method, path, body in (("PUT", "?path=/tmp/data/d.csv", b"y"), ("PUT", "?path=/tmp/data/n", b"y"),
                               ("DELETE", "?path=/tmp/data/d.csv", None),
                               ("POST", "/mkdir", {"path": "/tmp/data/sub"}),
                               ("POST", "/chmod", {"path": "/tmp/data/d.csv", "mode": "0777"})):
        daemon.refused(method, files + path, 403, "read_only", body)
    assert daemon.read(made, "/tmp/data/d.csv") == b"x\n"  # reading by the door is fine
    daemon.end(made)


def test_a_dataset_is_not_moved_away(daemon):
    made = daemon.session(datasets=[{"name": "d", "content": "x\n"}])["id"]
    reply = daemon.call("POST", f"/v1/sessions/{made}/files/move",
                        {"from": "/tmp/data/d.csv", "to": "/tmp/e.csv"})
    daemon.end(made)
    assert (reply.status, reply.error["code"]) == (403, "read_only"), reply


@pytest.mark.parametrize("path", ["/etc/passwd", "link.csv", "../x", "relative.csv", "sub/../../x",
                                  "", "/proc/self/environ"])
def test_a_path_outside_of_the_configured_folders(daemon, path):
    whole = path if path.startswith("/") or not path else str(daemon.shared / path)
    whole = path if path == "relative.csv" else whole
    reply = daemon.call("POST", "/v1/sessions", {"datasets": [{"name": "d", "path": whole}]})
    assert reply.status in (400, 403, 404), reply
    assert "root:" not in reply.body.decode()


def test_the_command_line_opens_the_file_with_the_callers_rights(daemon):
    daemon.room.write("mine.csv", "m\n1\n")
    done = daemon.bailey("session", "new", "--data", "mine=mine.csv", "--json")
    assert done.status == 0, done
    made = done.json()["id"]
    assert daemon.exec(made, "cat", "/tmp/data/mine.csv")["stdout"] == "m\n1\n"
    daemon.end(made)
    done = daemon.bailey("session", "new", "--data", "mine=nowhere.csv")
    assert done.status == 125 and "nowhere.csv" in done.stderr, done


def test_a_big_dataset_costs_the_guest_no_memory():
    env = {"SANDBOX_MEMORY_LIMIT": "64m"}
    with serve.Daemon(env) as daemon:
        made = daemon.session()["id"]
        block = (b"0123456789abcde\n" * 65536)

        def body():
            for _ in range(200):
                yield block
        daemon.asked("PUT", f"/v1/sessions/{made}/datasets/big", body(), 201)
        broker = daemon.get("/v1/info")["broker_pid"]
        peak = int(next(line.split()[1] for line in Path(f"/proc/{broker}/status").read_text().splitlines()
                        if line.startswith("VmHWM:")))
        assert peak < 100 << 10, f"the broker has taken {peak} KiB"
        code = ("import hashlib\nh = hashlib.sha256()\nwith open('/tmp/data/big.csv', 'rb') as f:\n"
                "    while True:\n        piece = f.read(1 << 20)\n        if not piece: break\n"
                "        h.update(piece)\n    print(f.tell(), h.hexdigest())")
        result = daemon.python(made, code)
        digest = serve.hashlib.sha256()
        for piece in body():
            digest.update(piece)
        assert result["stdout"] == f"{200 << 20} {digest.hexdigest()}\n", result
        assert result["meta"]["oom_killed"] is False
        assert daemon.exec(made, "sh", "-c", "head -c 4000000 /dev/zero > /tmp/f")["exit_code"] == 0


# --- outputs -------------------------------------------------------------------------------------


def test_text_is_saved_by_its_relative_name(daemon, session):
    reply = tool(daemon, session, "cd /tmp/output; echo 1 > a.csv; echo 2 > b.json; echo 3 > c.txt; "
                 "echo 4 > d.log; mkdir -p x/y; echo 5 > x/y/e.txt; echo 6 > README.md")
    assert reply["total_output_files"] == 6
    assert names(reply) == ["README.md", "a.csv", "b.json", "c.txt", "d.log", "x/y/e.txt"]
    assert saved(daemon, session) == {"a.csv": b"1\n", "b.json": b"2\n", "c.txt": b"3\n",
                                      "d.log": b"4\n", "x/y/e.txt": b"5\n", "README.md": b"6\n"}
    listed = outputs(daemon, session)
    assert all(OUTPUT <= set(each) for each in listed.values())
    assert {each["kind"] for each in listed.values()} == {"text"}
    assert listed["a.csv"]["mime"] == "text/csv" and listed["b.json"]["mime"] == "application/json"
    assert listed["x/y/e.txt"]["path"] == str(folder(daemon, session) / "x/y/e.txt")
    got = daemon.asked("GET", f"/v1/sessions/{session}/outputs/x/y/e.txt")
    assert got.body == b"5\n"
    done = daemon.bailey("outputs", session)
    assert done.status == 0 and b"x/y/e.txt" in done.out, done


def test_twenty_files_at_most(daemon, session):
    reply = tool(daemon, session, "for n in $(seq 1 35); do echo $n > /tmp/output/$n.txt; done")
    assert reply["total_output_files"] == 35
    assert len(names(reply)) == 20
    assert len(saved(daemon, session)) == 20
    assert reply["hint"].startswith("Code executed successfully. 35 output files created."), reply


def test_files_above_twenty_are_named_and_claimed_once(daemon, session):
    wanted = {f"{n}.txt" for n in range(45)}
    reply = tool(daemon, session, "for n in $(seq 0 44); do echo $n > /tmp/output/$n.txt; done")
    assert set(reply["output_files"]) == wanted and len(reply["output_files"]) == 45
    listed = outputs(daemon, session)
    assert set(listed) == wanted
    assert sum(1 for each in listed.values() if each["path"]) == 20
    waiting = [each["skipped"] for each in listed.values() if not each["path"]]
    assert len(waiting) == 25 and set(waiting) == {"too many at once: fetched after the next command"}
    done = daemon.bailey("outputs", session)
    assert all(name.encode() in done.out for name in wanted), done
    later = tool(daemon, session, "echo new > /tmp/output/own.txt")
    assert later["output_files"] == ["own.txt"], later  # what an earlier command wrote is not its own
    assert later["total_output_files"] == 46
    last = tool(daemon, session, "true")
    assert (last["output_files"], last["total_output_files"]) == ([], 46), last
    assert set(saved(daemon, session)) == wanted | {"own.txt"}


def test_leftovers_are_not_claimed_after_a_restart_of_the_broker():
    with serve.Daemon() as own:
        session = own.session()["id"]
        tool(own, session, "for n in $(seq 0 29); do echo $n > /tmp/output/$n.txt; done")
        before = own.get("/v1/info")
        os.kill(before["broker_pid"], signal.SIGKILL)
        support.wait_until(lambda: restarted(own, before), "another broker answers")
        assert tool(own, session, "true")["output_files"] == []
        assert len(saved(own, session)) == 30


def restarted(own, before):
    try:
        return own.get("/v1/info")["broker_pid"] != before["broker_pid"]
    except (OSError, http.client.HTTPException):
        return False


@pytest.mark.parametrize("name, content", [
    ("t.parquet", b"PAR1\0\0PAR1"), ("t.arrow", b"ARROW1\0\0"), ("t.xlsx", b"PK\3\4rest"),
    ("t.pdf", b"%PDF-1.7\n"), ("t.webp", b"RIFF\4\0\0\0WEBPVP8 "), ("t.zip", b"PK\3\4rest"),
    ("t.ipynb", b'{"cells": []}')])
def test_files_that_people_want_are_saved_like_csv(daemon, session, name, content):
    text = base64.b64encode(content).decode()
    reply = tool(daemon, session, f"echo {text} | base64 -d > /tmp/output/{name}")
    assert names(reply) == [name], reply
    assert saved(daemon, session) == {name: content}
    assert outputs(daemon, session)[name]["kind"] != "binary"


@pytest.mark.parametrize("door", ["rest", "path", "cli"])
def test_a_dataset_keeps_its_ending(daemon, door):
    content = b"PAR1\xff\0PAR1"
    if door == "rest":
        session = daemon.session(datasets=[{
            "name": "s.parquet", "content_base64": base64.b64encode(content).decode()}])["id"]
    elif door == "path":
        (daemon.shared / "given.parquet").write_bytes(content)
        session = daemon.session(datasets=[{"name": "s", "path": str(daemon.shared / "given.parquet")}])["id"]
    else:
        daemon.room.write("given.parquet", content)
        done = daemon.bailey("session", "new", "--data", "s=given.parquet", "--data", "t=given.parquet", "--json")
        assert done.status == 0, done
        session = done.json()["id"]
    assert daemon.read(session, "/tmp/data/s.parquet") == content
    daemon.end(session)


def test_only_what_changed_is_copied_again(daemon, session):
    tool(daemon, session, "echo same > /tmp/output/same.txt; echo old > /tmp/output/new.txt")
    top = folder(daemon, session)
    before = {name: (top / name).stat() for name in ("same.txt", "new.txt")}
    reply = tool(daemon, session, "echo newer > /tmp/output/new.txt")
    assert names(reply) == ["new.txt"], reply
    assert reply["total_output_files"] == 2
    after = {name: (top / name).stat() for name in ("same.txt", "new.txt")}
    assert (top / "new.txt").read_text() == "newer\n"
    assert before["same.txt"].st_ino == after["same.txt"].st_ino
    assert before["same.txt"].st_mtime_ns == after["same.txt"].st_mtime_ns
    assert before["new.txt"].st_ino != after["new.txt"].st_ino  # replaced, not written into
    assert tool(daemon, session, "true")["output_files"] == []


def test_the_same_size_and_time_is_still_a_change(daemon, session):
    tool(daemon, session, "echo aaa > /tmp/output/f.txt")
    tool(daemon, session, "touch -r /tmp/output/f.txt /tmp/stamp; echo bbb > /tmp/output/f.txt; "
         "touch -r /tmp/stamp /tmp/output/f.txt")
    assert saved(daemon, session)["f.txt"] == b"bbb\n"


def test_links_and_special_files_are_skipped_and_reported(daemon, session):
    reply = tool(daemon, session, "cd /tmp/output; echo x > real.txt; ln -s /etc/passwd link.txt; "
                 "ln -s /etc folder; mkfifo pipe.txt; mkdir sub; ln -s ../real.txt sub/inner.txt; "
                 "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock.txt')\"")
    assert list(saved(daemon, session)) == ["real.txt"]
    assert names(reply) == ["real.txt"], reply
    listed = outputs(daemon, session)
    assert listed["link.txt"]["skipped"] == "symbolic link" and listed["link.txt"]["path"] is None
    assert listed["folder"]["skipped"] == "symbolic link"
    assert listed["sub/inner.txt"]["skipped"] == "symbolic link"
    assert listed["pipe.txt"]["skipped"] == "fifo"
    assert listed["sock.txt"]["skipped"] == "socket"
    assert listed["real.txt"]["skipped"] is None
    assert "link.txt" in str(reply), "the reply does not say what was skipped"


def test_an_output_folder_that_is_a_link(daemon, session):
    reply = daemon.post("/v1/tools/sandbox_exec", {"command": [
        "sh", "-c", "rmdir /tmp/output; ln -s /etc /tmp/output"]}, session=session)
    assert reply["exit_code"] == 0 and reply["output_files"] == [], reply
    assert saved(daemon, session) == {}


def test_a_name_cannot_leave_the_folder(daemon, session):
    tool(daemon, session, "cd /tmp/output; mkdir -p .hidden; echo x > '..x'; echo y > .hidden/f.txt; "
         "echo z > 'new\nline.txt'; echo w > 'back\\slash.txt'")
    top = folder(daemon, session)
    assert all(top in path.parents for path in top.parent.rglob("*") if path.is_file()
               and session in str(path))
    assert sorted(p.name for p in daemon.state.iterdir())  # nothing odd beside it


@pytest.mark.parametrize("name, mime", [("p.png", "image/png"), ("p.jpg", "image/jpeg"),
                                        ("p.jpeg", "image/jpeg"), ("p.svg", "image/svg+xml")])
def test_an_image_is_announced(daemon, session, name, mime):
    picture = base64.b64encode(PIXEL if mime == "image/png" else
                               b"<svg xmlns='http://www.w3.org/2000/svg'/>" if "svg" in mime else
                               b"\xff\xd8\xff\xe0picture").decode()
    with daemon.events(f"/v1/sessions/{session}/events") as events:
        tool(daemon, session, f"mkdir -p /tmp/output/plots; echo {picture} | base64 -d > "
             f"/tmp/output/plots/{name}")
        data = events.until("visualization").data
    content = base64.b64decode(picture)
    assert (data["name"], data["mime"], data["bytes"]) == (f"plots/{name}", mime, len(content)), data
    assert data["session_id"] == session
    assert Path(data["path"]).read_bytes() == content
    assert daemon.asked("GET", data["url"]).body == content
    assert outputs(daemon, session)[f"plots/{name}"]["kind"] == "image"


PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
                         "WjR9awAAAABJRU5ErkJggg==")


def test_binaries_and_models_stay(daemon, session):
    reply = tool(daemon, session, "cd /tmp/output; head -c 5000 /dev/urandom > model.pkl; "
                 "head -c 700 /dev/urandom > w.bin; echo x > notes.txt")
    assert list(saved(daemon, session)) == ["notes.txt"]
    listed = outputs(daemon, session)
    assert (listed["model.pkl"]["kind"], listed["model.pkl"]["bytes"], listed["model.pkl"]["path"]) == (
        "binary", 5000, None)
    assert "model.pkl" in str(reply) and reply["total_output_files"] == 3
    daemon.refused("GET", f"/v1/sessions/{session}/outputs/model.pkl", 404, "not_found")
    assert len(daemon.read(session, "/tmp/output/model.pkl")) == 5000  # it can still be had


def test_a_folder_takes_the_place_of_a_file(daemon, session):
    tool(daemon, session, "echo 1 > /tmp/output/x")
    tool(daemon, session, "rm /tmp/output/x; mkdir /tmp/output/x; echo 2 > /tmp/output/x/f.txt")
    assert saved(daemon, session).get("x/f.txt") == b"2\n"


def test_outputs_of_a_failed_run_come_too(daemon, session):
    reply = daemon.post("/v1/tools/sandbox_exec", {"command": [
        "sh", "-c", "echo part > /tmp/output/part.txt; exit 4"]}, session=session)
    assert reply["exit_code"] == 4 and names(reply) == ["part.txt"]
    reply = daemon.post("/v1/tools/sandbox_exec", {"command": [
        "sh", "-c", "echo more > /tmp/output/more.txt; sleep 1000"], "timeout": 1}, session=session)
    assert reply["exit_code"] == -1 and names(reply) == ["more.txt"], reply


def test_outputs_of_the_plain_exec(daemon, session):
    result = daemon.exec(session, "sh", "-c", "echo 1 > /tmp/output/a.txt")
    assert result["meta"]["total_output_files"] == 1 and len(result["meta"]["output_files"]) == 1
    assert saved(daemon, session) == {"a.txt": b"1\n"}
    result = daemon.exec(session, "sh", "-c", "echo 2 > /tmp/output/b.txt", collect=False)
    assert "b.txt" not in saved(daemon, session)
    daemon.exec(session, "true")
    assert saved(daemon, session)["b.txt"] == b"2\n"


def test_outputs_outlive_their_session(daemon, session):
    tool(daemon, session, "echo kept > /tmp/output/kept.txt")
    daemon.end(session)
    assert daemon.asked("GET", f"/v1/sessions/{session}/outputs/kept.txt").body == b"kept\n"
    assert (folder(daemon, session) / "kept.txt").read_bytes() == b"kept\n"


def test_what_a_background_command_leaves_is_collected_by_whoever_waits(daemon, session):
    begun = daemon.post("/v1/tools/sandbox_exec", {"command": [
        "sh", "-c", "echo bg > /tmp/output/bg.txt"], "background": True}, session=session)
    reply = daemon.post("/v1/tools/sandbox_wait", {"execution_id": begun["execution_id"]},
                        session=session)
    assert names(reply) == ["bg.txt"], reply
    assert saved(daemon, session)["bg.txt"] == b"bg\n"


def generation_now(daemon):
    try:
        return daemon.get("/v1/info")["generation"]
    except OSError:  # nobody listens for a moment
        return 0


def test_the_next_broker_knows_what_was_fetched():
    """With a daemon of its own: a new broker is a new process, which the file's would seem to leave."""
    with serve.Daemon() as daemon:
        session = daemon.session()["id"]
        tool(daemon, session, "echo once > /tmp/output/once.txt")
        info = daemon.get("/v1/info")
        os.kill(info["broker_pid"], signal.SIGKILL)
        serve.polled(lambda: generation_now(daemon), lambda now: now > info["generation"],
                     "a new broker")
        assert saved(daemon, session) == {"once.txt": b"once\n"}
        assert names(tool(daemon, session, "true")) == []
