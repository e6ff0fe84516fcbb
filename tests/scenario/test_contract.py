"""The contract of the tools and the stored records, sentence by sentence and through every door."""
import json
import re
import subprocess

import pytest

import serve
import support
from mcp_http import Legacy, Modern, Served

SCRIPT = "PASSWORD = 'swordfish-88'\nprint('it is', PASSWORD)\n"


@pytest.fixture(scope="module")
def server():
    with Served({"SANDBOX_STORE_CODE": "always", "SANDBOX_MEMORY_LIMIT": "256m"}) as served:
        yield served


@pytest.fixture(autouse=True)
def ended(leaks, server):
    yield
    for session in server.get("/v1/sessions")["sessions"]:
        server.end(session["id"])


def by_rest(server, tool, **parameters):
    return server.post(f"/v1/tools/{tool}", parameters)


def by_envelope(server, tool, reasoning_trace=None, **parameters):
    return server.post(f"/v1/tools/{tool}", {"tool": tool, "parameters": parameters,
                                             "reasoning_trace": reasoning_trace})


def by_cli(server, tool, **parameters):
    done = server.bailey("tool", tool, json.dumps(parameters), "-s", "contract")
    assert done.status == 0, done
    return done.stdout


def by_modern(server, tool, **parameters):
    return Modern(server).call(tool, parameters)


def by_legacy(server, tool, **parameters):
    return Legacy(server).call(tool, parameters)


def by_stdio(server, tool, **parameters):
    messages = [{"id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}},
                {"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": parameters}}]
    process = support.start("mcp", env=server.env, room=server.room, stdin=subprocess.PIPE)
    try:
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
    finally:
        process.communicate(timeout=support.PATIENCE)
    return json.loads(line)["result"]


DOORS = {"rest": by_rest, "envelope": by_envelope, "cli": by_cli, "mcp 2026": by_modern,
         "mcp 2025": by_legacy, "mcp stdio": by_stdio}


@pytest.fixture(params=DOORS)
def call(request, server):
    return lambda tool, **parameters: DOORS[request.param](server, tool, **parameters)


def audited(server):
    """The lines of the audit log."""
    return [json.loads(line) for line in
            (server.state / "logs" / "audit.jsonl").read_text().splitlines()]


def test_a_reasoning_trace_is_accepted_and_kept_in_the_audit(server, call, request):
    trace = f"because of {request.node.name}"
    reply = call("sandbox_exec", command=["sh", "-c", "env; cat /proc/*/cmdline"], reasoning_trace=trace)
    assert "PATH=" in str(reply) and trace not in str(reply), reply
    traces = [line.get("reasoning_trace") for line in audited(server) if line["action"] == "tool"]
    assert trace in traces


def test_every_tool_takes_a_reasoning_trace(server):
    for tool in server.get("/v1/tools")["tools"]:
        assert "reasoning_trace" in tool["parameters"]["properties"], tool["name"]


# --- records of code that ran

def records(server):
    folder = server.state / "artifacts" / "executions"
    return [json.loads(path.read_text()) for path in sorted(folder.iterdir())] if folder.exists() else []


def record_of(server, code):
    """The record of this code; a script is read from the box after its end."""
    found = serve.polled(lambda: [r for r in records(server) if r["code"] == code], bool,
                         f"a record of {code!r}")
    return found[-1]



def test_code_of_sessions_is_stored_too(server):
    tools = serve.Tools(server, server.session()["id"], "rest")
    tools.call("run_code", code="cell = 41 + 1\nprint(cell)")
    record = record_of(server, "cell = 41 + 1\nprint(cell)")
    assert (record["language"], record["result"]["stdout"]) == ("python", "42\n")
    done = server.bailey("code", "-s", tools.session, "-c", "by_the_command = 1")
    assert done.status == 0, done
    record_of(server, "by_the_command = 1")
    tools.write("/workspace/task.py", "print('script')\n")
    tools.run("python3", "-u", "task.py", "argument")
    record = record_of(server, "print('script')\n")
    assert record["result"]["stdout"] == "script\n" and record["language"] == "python"
    tools.run("bash", "-c", "echo in line")
    assert record_of(server, "echo in line")["language"] == "bash"
    tools.call("run_code", code="1 / 0")
    assert "ZeroDivisionError" in record_of(server, "1 / 0")["result"]["stderr"]


def test_storing_is_the_callers_setting(server):
    session = server.session()["id"]
    for setting, code in (("never", "not_stored = 1"), ("always", "stored_after_it = 1")):
        done = server.bailey("code", "-s", session, "-c", code, env={"SANDBOX_STORE_CODE": setting})
        assert done.status == 0, done
    record_of(server, "stored_after_it = 1")
    assert "not_stored = 1" not in [record["code"] for record in records(server)]


def test_a_command_that_is_no_script_is_not_stored(server):
    tools = serve.Tools(server, server.session()["id"], "rest")
    before = len(records(server))
    tools.run("ls", "/")
    tools.call("run_code", code="after_the_command = 1")
    record_of(server, "after_the_command = 1")
    assert len(records(server)) == before + 1


def test_a_record_has_its_time_and_facts_to_search_by(server):
    tools = serve.Tools(server, server.session()["id"], "rest")
    reply = tools.call("run_code", code="facts = 1")
    record = record_of(server, "facts = 1")
    assert record["timestamp"].startswith("20") and record["timestamp"] == record["time"]
    facts = record["metadata"]
    assert (facts["session_id"], facts["execution_id"]) == (tools.session, reply["meta"]["execution_id"])
    assert (facts["language"], facts["runtime"], facts["exit_code"]) == ("python", "local", 0)


@pytest.mark.parametrize("how", ["run", "cell", "script"])
def test_a_secret_of_the_code_is_not_in_the_record_of_its_output(server, how):
    text = SCRIPT + f"# {how}\n"
    tools = serve.Tools(server, server.session()["id"], "rest")
    if how == "run":
        reply = server.post("/v1/run", {"code": text, "language": "python"})
    elif how == "cell":
        reply = tools.call("run_code", code=text)
    else:
        tools.write("/workspace/secret.py", text)
        reply = tools.run("python3", "/workspace/secret.py")
    assert reply["stdout"] == "it is swordfish-88\n", "the reply stays as it was"
    record = record_of(server, text.replace("swordfish-88", "[redacted]"))
    assert record["result"]["stdout"] == "it is [redacted]\n"
    assert "swordfish" not in json.dumps(record)


# --- configuration

CODE_INTERPRETER = """providers:
  code_interpreter:
    enabled: true
    settings:
      sandbox_url: http://127.0.0.1:9/
      execution_timeout: 60s
      max_output_size: 1m
      per: execution
      item_shape: nested
"""


def test_a_code_interpreter_elsewhere_is_valid_and_refused_by_serve(room):
    room.write("bailey.yaml", CODE_INTERPRETER)
    shown = support.bailey("config", room=room)
    assert shown.status == 0 and shown.err == b"", shown
    assert "BAILEY_CODE_INTERPRETER " in shown.stdout
    assert "http://127.0.0.1:9/" in shown.stdout
    refused = support.bailey("serve", room=room)
    assert refused.status == 125 and refused.out == b"", refused
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "providers.code_interpreter.settings.sandbox_url" in refused.stderr
    before = set(support.descendants())
    made = support.bailey("session", "new", room=room)
    # The daemon that did not start comes to us, and may be ending still.
    support.wait_until(lambda: support.reap_orphans() or not set(support.descendants()) - before, "it has ended")
    assert made.status == 125 and "settings.sandbox_url" in made.stderr, made


@pytest.mark.parametrize("options", [[], ["-s", "any"]], ids=["alone", "by a daemon"])
def test_run_python_code_answers_whatever_the_configuration_is(room, options):
    done = support.bailey("tool", "run_python_code", '{"code": "print(1)"}', *options, room=room,
                          env={"SANDBOX_TIMEOUT_SEC": "soon"})
    assert done.status == 0 and done.stdout.startswith("Error: SANDBOX_TIMEOUT_SEC: 'soon'"), done
    room.write("bailey.yaml", "sandbox: [")
    done = support.bailey("tool", "run_python_code", '{"code": "print(1)"}', *options, room=room)
    assert done.status == 0 and done.stdout.startswith("Error: "), done


# --- what a model reads over MCP

def text_of(result):
    return result["content"][0]["text"]


@pytest.fixture(params=["http", "stdio"])
def model(request, server):
    """One conversation; call(tool, arguments) gives the result."""
    if request.param == "http":
        yield Legacy(server).call
        return
    process = support.start("mcp", env=server.env, room=server.room, stdin=subprocess.PIPE)

    def ask(method, params):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method,
                                        "params": params}).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())["result"]

    ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                       "clientInfo": {"name": "test", "version": "1"}})
    yield lambda tool, arguments: ask("tools/call", {"name": tool, "arguments": arguments})
    process.communicate(timeout=support.PATIENCE)


def test_no_remark_about_outputs_and_no_tool_that_does_not_exist(model):
    text = text_of(model("sandbox_exec", {"command": ["echo", "hi"]}))
    assert text.splitlines()[1:] == ["hi"] and "session" not in text, text
    text = text_of(model("sandbox_exec", {"command": ["sh", "-c", "echo 1 > /tmp/output/a.csv"]}))
    assert "complete" not in text and "[files] a.csv (2 bytes)" in text, text


def test_stderr_that_is_too_long_shows_its_end_and_how_to_read_on(model):
    code = "import sys\nfor n in range(5000): print('line', n, file=sys.stderr)\n1/0"
    text = text_of(model("sandbox_exec", {"command": ["python3", "-c", code]}))
    assert "line 0\n" in text and "ZeroDivisionError: division by zero" in text
    assert "line 2500\n" not in text
    more = text[text.index("[more] stderr"):]
    arguments = json.loads(more[more.index("{"):more.index("}") + 1])
    part = text_of(model("sandbox_wait", arguments))
    head = text[text.index("line 0\n"):text.index("\n... (output truncated)")]
    everything = "".join(f"line {n}\n" for n in range(5000))
    assert everything.startswith(head)
    assert part[part.index("[stderr]\n") + 9:].startswith(everything[arguments["offset"]:][:3000])


ENDINGS = {
    "exit": {"code": "import os; os._exit(3)"},
    "out of memory": {"code": "everything = bytearray(4 << 30)"},
    "deaf at its timeout": {"code": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
                            "timeout": 1},
}


@pytest.mark.parametrize("how", ENDINGS)
def test_an_interpreter_that_was_replaced_is_told_twice(model, how):
    assert "[note]" not in text_of(model("run_code", {"code": "x = 1"}))
    lost = text_of(model("run_code", ENDINGS[how]))
    assert "its variables are gone" in lost and "kept between" not in lost, lost
    after = text_of(model("run_code", {"code": "print('x' in dir())"}))
    assert "False" in after and "variables of earlier calls are gone" in after, after
    assert "[note]" not in text_of(model("run_code", {"code": "x = 1"}))


def test_a_command_given_as_a_string_gets_an_example(model):
    result = model("sandbox_exec", {"command": "ls -l \"/tmp\""})
    text = text_of(result)
    example = json.loads(text[text.index("{"):text.rindex("}") + 1])
    assert result["isError"] and example == {"command": ["bash", "-c", "ls -l \"/tmp\""]}


PICTURES = """
import base64
pixel = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')
for n in range(6): open(f'/tmp/output/{n}.png', 'wb').write(pixel)
"""


def test_images_carry_their_names_and_left_out_ones_are_named(model):
    result = model("sandbox_exec", {"command": ["python3", "-c", PICTURES]})
    images = [block for block in result["content"] if block["type"] == "image"]
    assert len(images) == 4
    assert "[images below, in this order] 0.png, 1.png, 2.png, 3.png\n" in text_of(result)
    assert "[images left out, too many or too large] 4.png, 5.png" in text_of(result)


def test_why_files_are_not_saved_is_said_once_for_all_of_them(model):
    text = text_of(model("sandbox_exec", {"command": [
        "sh", "-c", "cd /tmp/output && for n in $(seq 30); do echo $n > $n.pkl; done; ln -s 1.pkl link"]}))
    line = next(line for line in text.splitlines() if line.startswith("[not saved] "))
    assert "1.pkl (2 bytes), 10.pkl (3 bytes)" in line and line.count("stays in the sandbox") == 1, text
    assert re.search(r"\[files\] \d+ more in /tmp/output", text), text


def test_files_are_named_with_their_place_on_the_users_disk(server):
    made = by_stdio(server, "sandbox_exec", command=["sh", "-c", "echo 1 > /tmp/output/a.csv"])
    folder = text_of(made).split("; on the user's disk in ")[1].splitlines()[0]
    assert folder.startswith(str(server.state)), made
    with open(f"{folder}/a.csv", encoding="ascii") as file:
        assert file.read() == "1\n"


def test_out_of_memory_names_the_limit_and_what_to_do():
    with serve.Daemon({"SANDBOX_MEMORY_LIMIT": "64m", "SANDBOX_DISK_LIMIT": "16m"}) as small:
        session = small.session()["id"]
        reply = small.post("/v1/tools/sandbox_exec", {
            "command": ["python3", "-c", "x = bytearray(400 << 20)"]}, session=session)
        assert reply["oom_killed"] is True, reply
        assert "the box has 64m" in reply["stderr"] and "Hold less at once" in reply["stderr"]


@pytest.mark.parametrize("era", [Legacy, Modern])
def test_run_code_does_what_its_description_says(server, era):
    client = era(server)
    tools = {each["name"]: each for each in client.request("tools/list")["result"]["tools"]}
    client.call("run_code", {"code": "kept = 1"})
    again = text_of(client.call("run_code", {"code": "print('kept' in dir())"}))
    if era is Legacy:
        assert "Variables and files are kept between calls" in tools["run_code"]["description"]
        assert "True" in again, again
    else:
        assert "Without one: in a fresh sandbox" in tools["run_code"]["description"]
        assert "False" in again, again


def test_the_stateless_era_names_the_session(server):
    first = Modern(server).call("sandbox_exec", {"command": ["sh", "-c", "echo 1 > /tmp/f"]})
    session = text_of(first).split("session ")[1].split("]")[0]
    again = Modern(server).call("sandbox_exec", {"command": ["cat", "/tmp/f"], "session": session})
    assert "\n1\n" in text_of(again), again
