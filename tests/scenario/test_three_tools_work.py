"""The three tools, an agent's way of working: write, run, read the error, edit, run again."""
import base64
from pathlib import Path

import pytest

import serve

NO_FILES = "Code executed but no outputs in /tmp/output/. Verify script saves results."
FAILED = "Execution failed. Review stderr and use sandbox_edit_file to fix errors."
WRITTEN = "File written successfully. Use sandbox_exec to run it."
EDITED = "File edited successfully. Re-run with sandbox_exec."
NOT_UNIQUE = "Edit failed - old_string not unique. Include more surrounding context."
NOT_FOUND = "Edit failed - old_string not found. Read file first with sandbox_exec."


def files_created(number):
    return (f"Code executed successfully. {number} output files created. "
            "Consider using 'complete' to present results.")


def test_hello_world(tools):
    code = "print('Hello, world')\n"
    written = tools.write("/tmp/hello.py", code)
    assert (written["success"], written["file_path"], written["bytes_written"]) == (
        True, "/tmp/hello.py", len(code))
    assert written["hint"] == WRITTEN
    reply = tools.run("python3", "/tmp/hello.py")
    assert (reply["exit_code"], reply["stdout"], reply["stderr"]) == (0, "Hello, world\n", "")
    assert (reply["stdout_truncated"], reply["stderr_truncated"]) == (False, False)
    assert (reply["output_files"], reply["total_output_files"]) == ([], 0)
    assert reply["hint"] == NO_FILES
    assert isinstance(reply["execution_time"], float) and reply["execution_time"] > 0
    assert reply["session_id"] == tools.session


def test_the_envelope_is_taken_too(daemon, tools):
    call = {"tool": "sandbox_exec", "parameters": {"command": ["sh", "-c", "env; cat /proc/*/cmdline"]},
            "reasoning_trace": "canary-of-the-trace"}
    if tools.door == "rest":
        reply = daemon.post("/v1/tools/sandbox_exec", call, session=tools.session)
    else:
        done = daemon.bailey("tool", "sandbox_exec", serve.json.dumps(call), "-s", tools.session)
        assert done.status == 0, done
        reply = done.json()
    assert "PATH=" in reply["stdout"], reply
    assert "canary" not in reply["stdout"]  # never goes into the box


@pytest.mark.parametrize("door", ["cli", "rest"])
def test_data_loaded_from_tmp_data(daemon, door):
    rows = b"city,people\nUlm,3\nRom,4\n"
    made = daemon.session(datasets=[
        {"name": "some cities/a", "content_base64": base64.b64encode(rows).decode()}])
    tools = serve.Tools(daemon, made["id"], door)
    code = ("import csv\nrows = list(csv.DictReader(open('/tmp/data/some_cities_a.csv')))\n"
            "print(sum(int(r['people']) for r in rows), rows[0]['city'])\n")
    tools.write("/workspace/load.py", code)
    reply = tools.run("python3", "/workspace/load.py")
    assert (reply["stdout"], reply["exit_code"]) == ("7 Ulm\n", 0), reply
    daemon.end(made["id"])


def test_buggy_code_is_fixed_by_an_edit(tools):
    tools.write("/tmp/bug.py", "numbers = [1, 2, 3]\nprint(sum(numbrs))\n")
    failed = tools.run("python3", "/tmp/bug.py")
    assert failed["exit_code"] == 1 and failed["hint"] == FAILED
    assert "NameError" in failed["stderr"] and 'File "/tmp/bug.py", line 2' in failed["stderr"]
    edited = tools.edit("/tmp/bug.py", "sum(numbrs)", "sum(numbers)")
    assert edited["success"] is True and edited["hint"] == EDITED, edited
    reply = tools.run("python3", "/tmp/bug.py")
    assert (reply["exit_code"], reply["stdout"]) == (0, "6\n")


def test_an_edit_that_is_not_unique_is_read_and_fixed(tools):
    code = "x = 1\nprint(x)\nx = 1\nprint(x)\n"
    tools.write("/workspace/twice.py", code)
    twice = tools.edit("/workspace/twice.py", "x = 1", "x = 2")
    assert twice["success"] is False and twice["hint"] == NOT_UNIQUE, twice
    assert twice["error"] == "old_string found 2 times - not unique. Include more context."
    never = tools.edit("/workspace/twice.py", "y = 1", "x = 2")
    assert never["success"] is False and never["hint"] == NOT_FOUND, never
    assert never["error"] == "old_string not found"
    assert tools.run("cat", "/workspace/twice.py")["stdout"] == code  # neither changed anything
    assert tools.edit("/workspace/twice.py", "print(x)\nx = 1", "print(x)\nx = 2")["success"] is True
    reply = tools.run("python3", "/workspace/twice.py")
    assert (reply["exit_code"], reply["stdout"]) == (0, "1\n2\n")


@pytest.mark.parametrize("text, old, count", [("aaaa", "aa", 2), ("aaaaa", "aa", 2),
                                              ("a\nb\na\nb\na\nb\n", "a\nb\n", 3)])
def test_an_edit_counts_what_does_not_overlap(daemon, session, text, old, count):
    daemon.write(session, "/tmp/f", text.encode())
    reply = daemon.post("/v1/tools/sandbox_edit_file", {
        "file_path": "/tmp/f", "old_string": old, "new_string": "x"}, session=session)
    assert reply["error"] == f"old_string found {count} times - not unique. Include more context."


def test_an_edit_works_on_bytes_and_keeps_mode_and_owner(daemon, session):
    daemon.write(session, "/tmp/f", b"\xff\xfe\0 needle \r\n\x80", mode="0751")
    before = daemon.exec(session, "stat", "-c", "%a %u %g", "/tmp/f")["stdout"]
    reply = daemon.post("/v1/tools/sandbox_edit_file", {
        "file_path": "/tmp/f", "old_string": "needle", "new_string": "n\u00e4del"}, session=session)
    assert reply["success"] is True, reply
    assert daemon.read(session, "/tmp/f") == b"\xff\xfe\0 n\xc3\xa4del \r\n\x80"
    assert daemon.exec(session, "stat", "-c", "%a %u %g", "/tmp/f")["stdout"] == before
    assert before.startswith("751 ")


def test_an_edit_refuses_an_empty_old_string(tools):
    tools.write("/tmp/f", "text")
    reply = tools.edit("/tmp/f", "", "more")
    assert reply["success"] is False and "old_string" in reply["error"] and reply["hint"], reply
    assert tools.run("cat", "/tmp/f")["stdout"] == "text"


def test_an_edit_may_take_away(tools):
    tools.write("/tmp/f", "keep drop keep")
    assert tools.edit("/tmp/f", " drop", "")["success"] is True
    assert tools.run("cat", "/tmp/f")["stdout"] == "keep keep"


def test_several_outputs(daemon, tools):
    code = ("import os\nos.makedirs('/tmp/output/sub', exist_ok=True)\n"
            "open('/tmp/output/a.csv', 'w').write('x\\n1\\n')\n"
            "open('/tmp/output/b.json', 'w').write('{}')\n"
            "open('/tmp/output/sub/c.txt', 'w').write('c')\n")
    tools.write("/tmp/many.py", code)
    reply = tools.run("python3", "/tmp/many.py")
    assert reply["exit_code"] == 0 and reply["total_output_files"] == 3, reply
    assert reply["hint"] == files_created(3)
    assert reply["output_files"] == ["a.csv", "b.json", "sub/c.txt"]
    assert [each["name"] for each in reply["files"]] == reply["output_files"]
    assert all({"path", "bytes", "mime", "id", "url"} <= set(each) for each in reply["files"])
    folder = Path(daemon.get(f"/v1/sessions/{tools.session}")["output_folder"])
    assert folder.name == f"session_{tools.session}" and folder.parent.name == "output"
    assert (folder / "a.csv").read_text() == "x\n1\n"
    assert (folder / "b.json").read_text() == "{}"
    assert (folder / "sub" / "c.txt").read_text() == "c"


def test_background_and_wait(tools):
    begun = tools.run("sh", "-c", "echo first; read x < /tmp/go; echo last", background=True)
    assert begun["execution_id"], begun
    missing = tools.call("sandbox_wait", execution_id=begun["execution_id"], timeout=1)
    assert missing.get("running") is not True, missing  # there is no such pipe: it has failed
    tools.run("mkfifo", "/tmp/go")
    begun = tools.run("sh", "-c", "echo first; read x < /tmp/go; echo last", background=True)
    still = tools.call("sandbox_wait", execution_id=begun["execution_id"], timeout=1)
    assert still["running"] is True and still["stdout"] == "first\n", still
    tools.run("sh", "-c", "echo go > /tmp/go")
    done = tools.call("sandbox_wait", execution_id=begun["execution_id"])
    assert (done["exit_code"], done["stdout"]) == (0, "first\nlast\n"), done
    assert done["output_files"] == [] and done["hint"] == NO_FILES


def test_an_error_of_a_file_tool_names_the_file(tools):
    outside = tools.write("/etc/x", "text")
    assert (outside["success"], outside["file_path"]) == (False, "/etc/x"), outside
    missing = tools.edit("/tmp/../tmp/nowhere", "a", "b")
    assert (missing["success"], missing["file_path"]) == (False, "/tmp/nowhere"), missing
    tools.write("/tmp/f", "text")
    for old, new in (("nothing like it", "x"), ("", "x"), ("t", "x"), ("text", "text")):
        reply = tools.edit("/tmp/f", old, new)
        assert (reply["success"], reply["file_path"]) == (False, "/tmp/f"), reply
    wrong = tools.call("sandbox_write_file", file_path="/tmp/f", content=7)
    assert (wrong["success"], wrong["file_path"]) == (False, "/tmp/f"), wrong


def test_a_command_that_is_not_there_is_127_and_stderr_says_so(tools):
    reply = tools.run("no-such-program")
    assert reply["exit_code"] == 127 and reply["stderr"].startswith("no-such-program: "), reply
    assert reply["stderr"].strip() == reply["error"] and reply["code"] == "command_not_found"


def test_run_python_code_is_a_fresh_box(tools):
    tools.write("/tmp/here", "x")
    reply = tools.call("run_python_code", code="import os; print(os.path.exists('/tmp/here'))")
    assert "False" in str(reply), reply
    broken = tools.call("run_python_code", code="1/0")
    assert "ZeroDivisionError" in str(broken), broken


def test_run_code_is_in_the_sessions_box(tools):
    tools.write("/tmp/here", "x")
    reply = tools.call("run_code", code="print(open('/tmp/here').read())", language="python")
    assert (reply["stdout"], reply["exit_code"]) == ("x\n", 0), reply
    bash = tools.call("run_code", code="cat /tmp/here; false", language="bash")
    assert (bash["stdout"], bash["exit_code"]) == ("x", 1), bash


def test_run_code_keeps_variables_in_a_session(tools):
    first = tools.call("run_code", code="x = 41")
    assert "kept" in first["state"] and first["meta"]["kernel"] == "new", first
    second = tools.call("run_code", code="x + 1")
    assert second["results"][0]["data"]["text/plain"] == "42", second
    wrong = tools.call("run_code", code="1/0")
    assert wrong["exit_code"] == 1 and wrong["error"]["name"] == "ZeroDivisionError", wrong
    missing = tools.call("run_code", code="x", context="none")
    assert missing["success"] is False and missing["code"] == "context_not_found", missing


def test_the_table_of_tools(daemon):
    table = {tool["name"]: tool for tool in daemon.get("/v1/tools")["tools"]}
    assert {name: tool["category"] for name, tool in table.items()} == {
        "sandbox_exec": "code_execution", "sandbox_write_file": "file_management",
        "sandbox_edit_file": "file_management", "sandbox_wait": "code_execution",
        "run_python_code": "code_execution", "run_code": "code_execution",
        "sandbox_pause": "code_execution", "sandbox_install": "code_execution"}
    for tool in table.values():
        assert tool["title"] and tool["description"] and tool["annotations"] is not None
        assert tool["parameters"]["type"] == "object" and tool["parameters"]["properties"]
    timeout = table["sandbox_exec"]["parameters"]["properties"]["timeout"]
    assert (timeout["minimum"], timeout["maximum"], timeout["default"]) == (1, 300, 60)


def test_the_prompt_teaches_them(daemon):
    done = daemon.bailey("prompt")
    assert (done.status, done.err) == (0, b"")
    for word in ("sandbox_exec", "sandbox_write_file", "sandbox_edit_file", "/tmp/data",
                 "/tmp/output", "polars", "300", "not unique", "5 MB", "20"):
        assert word.lower() in done.stdout.lower(), word
