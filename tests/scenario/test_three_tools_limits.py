"""The three tools at their limits: what is cut, refused, stopped, and cleaned away."""
import pytest
import support

PATH_ERROR = "Invalid path: must be /tmp/* or /workspace/*"
PATH_HINT = "Invalid path. Use /tmp/ or /workspace/ only."
CUT = "... (output truncated)"


def test_large_stdout_is_cut_with_the_flag(tools):
    reply = tools.run("python3", "-c", "import sys; print('x' * 50000); print('e', file=sys.stderr)")
    assert (reply["exit_code"], reply["stdout_truncated"], reply["stderr_truncated"]) == (
        0, True, False)
    assert reply["stdout"].startswith("x" * 10240) and reply["stdout"].rstrip().endswith(CUT)
    assert len(reply["stdout"]) < 10240 + 64
    other = tools.run("sh", "-c", "head -c 20000 /dev/zero | tr '\\0' y >&2; head -c 10240 /dev/zero "
                      "| tr '\\0' z")
    assert (other["stdout_truncated"], other["stderr_truncated"]) == (False, True)
    assert other["stdout"] == "z" * 10240
    assert other["stderr"] == "y" * 5120 + "\n" + CUT + "\n" + "y" * 5120


@pytest.mark.parametrize("path", [
    "/home/user/x.py", "/home/x.py", "/etc/passwd", "x.py", "/tmp/../etc/passwd", "/tmpx/a", "/tmp",
    "/workspace/../home/user/a", "/", "/tmp/a/../../home/b", "/workspace/"])
def test_a_path_elsewhere_is_rejected(daemon, session, path):
    reply = daemon.post("/v1/tools/sandbox_write_file", {"file_path": path, "content": "x"},
                        session=session)
    assert reply["success"] is False and reply["code"] == "path_invalid", reply
    assert reply["error"] == PATH_ERROR and reply["hint"] == PATH_HINT


def test_a_home_path_is_rejected(tools):
    reply = tools.write("/home/user/script.py", "print(1)")
    assert reply["success"] is False, reply
    assert (reply["error"], reply["hint"]) == (PATH_ERROR, PATH_HINT)
    reply = tools.edit("/home/user/script.py", "a", "b")
    assert (reply["success"], reply["error"]) == (False, PATH_ERROR)


@pytest.mark.parametrize("path", ["/tmp/./a//b.txt", "/tmp/x/../a/b.txt", "/workspace/deep/er/b.txt",
                                  "/workspace/../tmp/a/b.txt"])
def test_a_path_is_normalised_and_its_folders_are_made(daemon, session, path):
    reply = daemon.post("/v1/tools/sandbox_write_file", {"file_path": path, "content": "\u20ac"},
                        session=session)
    assert reply["success"] is True and reply["bytes_written"] == 3, reply
    end = "/workspace/deep/er/b.txt" if "deep" in path else "/tmp/a/b.txt"
    assert daemon.read(session, end) == "\u20ac".encode()


def test_content_has_to_be_under_5_mb(daemon, session):
    limit = 5 << 20
    good = daemon.post("/v1/tools/sandbox_write_file",
                       {"file_path": "/tmp/a", "content": "x" * (limit - 1)}, session=session)
    assert good["success"] is True and good["bytes_written"] == limit - 1, good
    large = daemon.post("/v1/tools/sandbox_write_file",
                        {"file_path": "/tmp/b", "content": "x" * (limit + 1)}, session=session)
    assert large["success"] is False and "5 MB" in large["error"], large
    daemon.refused("GET", f"/v1/sessions/{session}/files/stat?path=/tmp/b", 404, "path_not_found")


def test_the_data_folder_is_not_written_to(tools):
    reply = tools.write("/tmp/data/new.csv", "x")
    assert reply["success"] is False and reply["hint"], reply


def test_the_network_is_blocked(tools):
    code = ("import socket\n"
            "for family, address in ((socket.AF_INET, ('1.1.1.1', 53)), (socket.AF_INET, "
            "('127.0.0.1', 1)), (socket.AF_INET6, ('2606:4700::1111', 53))):\n"
            "    try:\n        socket.create_connection(address, 5)\n        print('CONNECTED')\n"
            "    except OSError as e:\n        print('blocked', type(e).__name__)\n"
            "try:\n    socket.getaddrinfo('example.com', 80)\n    print('RESOLVED')\n"
            "except OSError:\n    print('blocked')\n")
    reply = tools.run("python3", "-c", code)
    assert reply["exit_code"] == 0 and reply["stdout"].count("blocked") == 4, reply
    assert "CONNECTED" not in reply["stdout"] and "RESOLVED" not in reply["stdout"]
    listed = tools.run("cat", "/proc/net/dev")["stdout"]
    assert [line.split(":")[0].strip() for line in listed.splitlines()[2:]] == ["lo"]


def test_a_timeout_keeps_what_was_written(tools):
    reply = tools.run("sh", "-c", "echo before; exec sleep 1000", timeout=1)
    assert reply["exit_code"] == -1 and reply["stdout"] == "before\n", reply
    assert "timed out after 1 s" in reply["stderr"]
    assert tools.run("echo", "alive")["stdout"] == "alive\n"  # the session goes on
    assert "sleep" not in tools.run("sh", "-c", "cat /proc/[0-9]*/comm")["stdout"]


@pytest.mark.parametrize("timeout", [0, -1, 301, 100000, 0.5])
def test_a_timeout_outside_of_the_limits_names_them(tools, timeout):
    reply = tools.run("touch", "/tmp/ran", timeout=timeout)
    assert reply["success"] is False and reply["field"] == "timeout", reply
    assert "1" in reply["error"] and "300" in reply["error"] and reply["hint"]
    assert tools.run("test", "-e", "/tmp/ran")["exit_code"] == 1  # nothing was run


def test_timeouts_at_the_limits(tools):
    for timeout in (1, 300):
        assert tools.run("true", timeout=timeout)["exit_code"] == 0


def test_the_sessions_end_cleans_up(daemon):
    before = support.snapshot()
    made = daemon.session(datasets=[{"name": "d", "content": "x\n1\n"}])["id"]
    code = "mkdir -p /tmp/output; echo kept > /tmp/output/kept.txt; echo x > /tmp/scratch; sleep 1000 &"
    reply = daemon.post("/v1/tools/sandbox_exec", {"command": ["sh", "-c", code]}, session=made)
    assert reply["exit_code"] == 0, reply
    daemon.background(made, "sleep", "1000", timeout=0)
    assert support.snapshot() - before  # there is something to clean
    files = {p for p in daemon.state.rglob("*") if p.is_file() and made in str(p)}
    done = daemon.bailey("session", "rm", made)
    assert done.status == 0, done
    assert support.left_since(before) == []
    left = {p for p in daemon.state.rglob("*") if p.is_file() and made in str(p)}
    assert [p.name for p in left] == ["kept.txt"], (files, left)  # results stay, data goes
    assert [p.read_text() for p in left] == ["kept\n"]


def test_a_failed_one_shot_run_is_kept_as_an_artifact(daemon):
    """SANDBOX_STORE_CODE is on_error: also where the daemon ran it, below the state folder."""
    kept = daemon.state / "artifacts" / "executions"
    before = set(kept.glob("*.json"))
    reply = daemon.post("/v1/run", {"code": "print('canary'); 1/0"})
    assert reply["exit_code"] == 1
    daemon.post("/v1/run", {"code": "print('fine')"})
    new = set(kept.glob("*.json")) - before
    assert len(new) == 1 and "canary" in new.pop().read_text(), daemon.said()
