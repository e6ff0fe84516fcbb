"""The Python SDK against a real server: the blocking classes over the unix socket, those for asyncio over
TCP with a key. Each scenario is written once (sdk_kit.py)."""
import asyncio
import base64
import gc
import json
import os
import subprocess
import sys
import threading
import urllib.request
import warnings

import pytest
import support
import tcp

from sdk_kit import Driver, Kit, bailey
from sdk_server import CLIENTS, SdkServer, interop_cache

WAYS = ["sync-unix", "async-tcp"]


@pytest.fixture(scope="module")
def server():
    with SdkServer() as running:
        yield running


@pytest.fixture(scope="module", params=WAYS)
def kit(request, server):
    made = Kit(request.param, server)
    yield made
    if made.loop:
        made.loop.close()


@pytest.fixture(scope="module")
def sandbox(kit):
    """One for the scenarios that do not end it."""
    with kit.sandbox(data={"sales": b"region,sum\nnorth,3\n"}, env={"COLOUR": "green"}) as made:
        yield made


# --- life ---


def test_the_five_lines(kit, server):
    with kit.sandbox() as sandbox:
        assert sandbox.run_code("1+1").text == "2"
        assert sandbox.id in server.names()
    assert sandbox.id not in server.names()


def test_an_exception_inside_of_the_block_ends_the_session(kit, server):
    with pytest.raises(ZeroDivisionError):
        with kit.sandbox() as sandbox:
            sandbox.run_code("1")
            raise ZeroDivisionError
    assert sandbox.id not in server.names()


def test_a_dataset_that_cannot_be_read_leaves_no_session(kit, server):
    before = server.names()
    with pytest.raises(FileNotFoundError):
        kit.sandbox(data={"x": "/nowhere/x.csv"}).open()
    assert server.names() == before


def test_a_closed_sandbox_says_so(kit):
    sandbox = kit.sandbox()
    sandbox.close()
    sandbox.close()
    with pytest.raises(bailey.SandboxError) as caught:
        sandbox.run_code("1")
    assert caught.value.code == "closed"


def test_connect_and_detach(kit, server):
    first = kit.sandbox(name=f"again-{kit.way}")
    first.open()
    first.run_code("x = 7")
    session = first.detach()
    with kit.connect(f"again-{kit.way}") as second:
        assert second.id == session and second.run_code("x").text == "7"
    assert session in server.names()
    kit.connect(session).kill()
    assert session not in server.names()
    with pytest.raises(bailey.SessionEndedError):
        kit.connect(session)


def test_a_forgotten_sandbox_is_ended_with_a_warning(kit, server):
    sandbox = kit.sandbox()
    session = sandbox.open().id
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del sandbox
        gc.collect()
    assert session not in server.names()
    assert any(w.category is ResourceWarning and session in str(w.message) for w in caught)


def test_info_extend_and_lists(kit, sandbox):
    assert sandbox.info()["state"] in ("new", "ready")
    before = sandbox.info()["expires_at"]
    assert sandbox.extend(3600)["expires_at"] > before
    with kit.client() as client:
        assert sandbox.id in [one["id"] for one in client.sessions()]
        assert client.info()["version"] == bailey.__version__
        assert "python" in [one["name"] for one in client.templates()]


# --- code ---


def test_results_of_a_cell(sandbox):
    execution = sandbox.run_code("""
import json, sys
print("printed")
print("wrong", file=sys.stderr)
display({"text/html": "<b>x</b>", "image/svg+xml": "<svg/>", "application/json": {"a": 1}}, raw=True)
40 + 2
""")
    assert (execution.text, execution.html, execution.svg) == ("42", "<b>x</b>", "<svg/>")
    assert execution.json == {"a": 1}
    assert (execution.stdout, execution.stderr) == ("printed\n", "wrong\n")
    assert execution.success and execution.execution_id.startswith(sandbox.id)
    bundle = execution._repr_mimebundle_()
    assert "printed" in bundle["text/plain"] and "42" in bundle["text/plain"]
    assert "printed" in bundle["text/html"] and "42" in bundle["text/html"]


def test_a_picture(sandbox):
    pixel = base64.b64encode(b"\x89PNG\r\n").decode()
    execution = sandbox.run_code(f'display({{"image/png": "{pixel}"}}, raw=True)')
    assert execution.png == b"\x89PNG\r\n" and execution.text is None
    assert execution._repr_mimebundle_()["image/png"] == pixel


def test_an_exception_in_code_is_a_result(sandbox):
    execution = sandbox.run_code("1/0")
    assert execution.error.name == "ZeroDivisionError" and "1/0" in execution.error.traceback
    assert execution.exit_code == 1 and execution.text is None
    with pytest.raises(bailey.CommandError) as caught:
        sandbox.run_code("1/0", check=True)
    assert caught.value.code == "code_raised" and caught.value.result.error.name == "ZeroDivisionError"


def test_callbacks(sandbox):
    seen = []
    execution = sandbox.run_code("""
import sys
print("ü" * 3)
print("bad", file=sys.stderr)
display("shown")
"last"
""", on_stdout=lambda t: seen.append(("out", t)), on_stderr=lambda t: seen.append(("err", t)),
                                 on_result=lambda r: seen.append((r.type, r.text)))
    assert "".join(t for kind, t in seen if kind == "out") == "üüü\n"
    assert ("err", "bad\n") in seen and ("display", "'shown'") in seen
    assert seen[-1] == ("result", "'last'") and execution.text == "'last'"


def test_a_timeout_of_code(sandbox):
    execution = sandbox.run_code("import time\nwhile True: time.sleep(0.01)", timeout=0.3)
    assert execution.timed_out and execution.exit_code == -1


def test_languages_contexts_and_restart(sandbox):
    assert sandbox.run_code("echo $((6*7))", language="bash").stdout == "42\n"
    context = sandbox.create_context(name="other")
    sandbox.run_code("x = 1")
    assert sandbox.run_code("'x' in globals()", context=context).text == "False"
    assert sandbox.run_code("'x' in globals()", context="other").text == "False"
    sandbox.restart_context(next(c for c in sandbox.contexts() if c["default"]))
    assert sandbox.run_code("'x' in globals()").text == "False"
    sandbox.delete_context(context)
    assert "other" not in [c["name"] for c in sandbox.contexts()]


# --- commands ---


def test_commands(sandbox):
    assert sandbox.commands.run("echo $COLOUR | tr a-z A-Z").stdout == "GREEN\n"
    result = sandbox.commands.run(["sh", "-c", "cat; pwd; exit 3"], stdin="in\n", cwd="/tmp")
    assert (result.stdout, result.exit_code, result.success) == ("in\n/tmp\n", 3, False)
    with pytest.raises(bailey.CommandError) as caught:
        sandbox.commands.run("echo no >&2; exit 4", check=True)
    assert caught.value.code == "command_failed" and "exit code 4: no" in str(caught.value)
    with pytest.raises(bailey.CommandError) as caught:
        sandbox.commands.run(["no-such-program"], check=True)
    assert caught.value.code == "command_not_found"


def test_input_that_is_no_text(sandbox):
    result = sandbox.commands.run("od -An -tx1", stdin=b"\xff\x00\xfe")
    assert result.stdout.split() == ["ff", "00", "fe"]


def test_output_as_it_comes(sandbox):
    seen = []
    result = sandbox.commands.run("echo one; echo two >&2", on_stdout=lambda t: seen.append(t),
                                  on_stderr=lambda t: seen.append(t.upper()))
    assert sorted(seen) == ["TWO\n", "one\n"] and result.success


def test_a_handle(sandbox):
    with sandbox.commands.start(["cat"], stdin=True) as handle:
        assert handle.send_stdin("first\n") == 6
        stream = handle.stream()
        assert next(stream).text == "first\n"
        with pytest.raises(bailey.SandboxTimeoutError):
            handle.wait(timeout=0.1)
        handle.send_stdin(b"second \xff", end=True)
        assert b"".join(chunk.data for chunk in stream) == b"second \xff"
        assert handle.wait().exit_code == 0
        assert handle.read() == b"first\nsecond \xff"
        assert handle.kill() is False


def test_leaving_the_block_kills(sandbox):
    with sandbox.commands.start("sleep 1000") as handle:
        assert handle.refresh()["state"] in ("waiting", "running")
    again = sandbox.commands.get(handle.execution_id)
    assert again.wait().exit_code == 128 + 9
    assert handle.execution_id in [p["execution_id"] for p in sandbox.commands.list()]


def test_much_output_is_whole_in_the_stream(sandbox):
    with sandbox.commands.start("seq 1 200000") as handle:
        got = b"".join(chunk.data for chunk in handle.stream())
    assert got == b"".join(b"%d\n" % n for n in range(1, 200001))
    assert handle.result.truncated


# --- files ---


def test_files(sandbox, tmp_path):
    files = sandbox.files
    files.mkdir("deep/er")
    assert files.write("deep/er/a.txt", "grün") == 5
    assert files.read("/workspace/deep/er/a.txt") == "grün"
    assert files.read_bytes("deep/er/a.txt", offset=2, length=2) == "ü".encode()
    with pytest.raises(FileExistsError):
        files.write("deep/er/a.txt", b"", new=True)
    files.chmod("deep/er/a.txt", "0755")
    assert files.stat("deep/er/a.txt")["mode"] == "0755"
    files.move("deep/er/a.txt", "b.txt")
    assert files.exists("b.txt") and not files.exists("deep/er/a.txt")
    assert {e["name"] for e in files.list("deep", depth=0)} == {"er"}
    with pytest.raises(bailey.ConflictError):
        files.remove("deep")
    files.remove("deep", recursive=True)
    with pytest.raises(FileNotFoundError) as caught:
        files.read("deep/er/a.txt")
    assert isinstance(caught.value, bailey.PathNotFoundError) and caught.value.code == "path_not_found"


def test_upload_and_download(sandbox, tmp_path):
    content = os.urandom(3 * 1024 * 1024 + 7)
    (tmp_path / "big.bin").write_bytes(content)
    assert sandbox.files.upload(tmp_path / "big.bin") == "/workspace/big.bin"
    sandbox.files.download("big.bin", tmp_path / "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == content
    with open(tmp_path / "big.bin", "rb") as file:
        file.seek(1024)
        sandbox.files.write("rest.bin", file)
    assert sandbox.files.stat("rest.bin")["bytes"] == len(content) - 1024
    reading, writing = os.pipe()  # its length is not known before its end
    os.write(writing, b"from a pipe")
    os.close(writing)
    with open(reading, "rb") as pipe:
        sandbox.files.write("piped.txt", pipe)
    assert sandbox.files.read("piped.txt") == "from a pipe"
    with pytest.raises(FileNotFoundError):
        sandbox.files.download("absent", tmp_path / "absent")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back.bin", "big.bin"]


def test_watch(sandbox):
    with sandbox.files.watch("/workspace") as watch:
        sandbox.files.write("seen.txt", "1")
        change = next(watch)
        assert (change.path, change.type) == ("/workspace/seen.txt", "file")


def test_ports(kit, sandbox):
    assert sandbox.ports.list() == []
    serving = "echo hello >hello.txt; exec python3 -u -m http.server --bind 127.0.0.1 8000"
    with sandbox.commands.start(serving) as handle:
        assert "Serving" in next(handle.stream()).text
        assert sandbox.ports.list() == [8000]
        if kit.way == "unix":
            with pytest.raises(bailey.SandboxError, match="bailey port -s"):
                sandbox.ports.url(8000)
        else:
            url = sandbox.ports.url(8000, "/hello.txt", seconds=60)
            with urllib.request.urlopen(url, timeout=support.PATIENCE) as reply:
                assert (reply.read(), reply.headers["Content-Security-Policy"]) == (b"hello\n", "sandbox")


def test_datasets_and_outputs(sandbox, tmp_path):
    assert sandbox.commands.run("cat /tmp/data/sales.csv").stdout == "region,sum\nnorth,3\n"
    made = sandbox.datasets.put("two words", b"a\n")
    assert made["path"] in [d["path"] for d in sandbox.datasets.list()]
    assert sandbox.commands.run(["cat", made["path"]]).stdout == "a\n"
    result = sandbox.commands.run("mkdir -p '/tmp/output/of day'; echo 1 > '/tmp/output/of day/r.csv'")
    assert [f.name for f in result.output_files] == ["of day/r.csv"]
    assert sandbox.outputs.read("of day/r.csv") == b"1\n"
    assert sandbox.outputs.download("of day/r.csv", tmp_path / "r.csv").read_bytes() == b"1\n"
    assert "of day/r.csv" in [o["name"] for o in sandbox.outputs.list()]


# --- terminals, packages ---


def test_pty(sandbox):
    with sandbox.pty("stty size; read line; echo got:$line; exit 5", rows=10, columns=33) as terminal:
        assert b"10 33" in terminal.read_until("33")
        terminal.send("word\r")
        assert b"got:word" in terminal.read_until("got:word")
        assert terminal.wait() == 5


def test_pty_left_and_found_again(sandbox):
    terminal = sandbox.pty("cat")
    terminal.send("one\r")
    terminal.read_until("one\r\none")
    execution, offset = terminal.execution_id, terminal.offset
    terminal.detach()
    with sandbox.pty(execution=execution, offset=offset) as again:
        again.resize(20, 60)
        again.send("two\r")
        assert b"two" in again.read_until("two\r\ntwo")
    assert sandbox.commands.get(execution).wait().exit_code != 0


def test_install(kit):
    with kit.sandbox() as sandbox:
        lines = []
        new = sandbox.install("castle", on_progress=lines.append)
        assert {p["name"] for p in new} == {"castle", "moat"} and lines
        assert {p["name"] for p in sandbox.packages()} == {"castle", "moat"}
        assert sandbox.run_code("import castle; castle.walls").text == "42"
        with pytest.raises(bailey.InstallError) as caught:
            sandbox.install("no-such-package-anywhere")
        assert caught.value.code == "install_failed"


# --- errors ---


def test_what_the_server_does_not_know_is_named(kit):
    with pytest.raises(bailey.InvalidRequestError) as caught:
        kit.sandbox(metadata={"a": "b"}, template="python", name="x y").open()
    assert caught.value.code in ("unknown_parameter", "bad_input") and caught.value.field
    with pytest.raises(bailey.TemplateNotFoundError):
        kit.sandbox("no-such-template").open()


def test_a_taken_name(kit):
    with kit.sandbox(name=f"one-{kit.way}"):
        with pytest.raises(bailey.NameTakenError):
            kit.sandbox(name=f"one-{kit.way}").open()


def test_a_wrong_key(server):
    with pytest.raises(bailey.AuthenticationError) as caught:
        bailey.Sandbox(url=server.url, api_key="bly_no.thing")
    assert caught.value.status == 401 and caught.value.code == "unauthorized"


def test_a_session_that_was_ended_elsewhere(kit, server):
    with kit.sandbox() as sandbox:
        server.end(sandbox.id)
        with pytest.raises(bailey.SessionEndedError) as caught:
            sandbox.run_code("1")
        assert caught.value.details["reason"] == "deleted"


# --- CodeBox, CodeInterpreterSession, one call ---


def test_codebox(kit):
    with kit.codebox() as box:
        assert str(box.status()) == "running"
        assert (box.run("1/0").type, box.run("print(6*7)").content) == ("error", "42")
        box.upload("in.txt", "content")
        assert [f.name for f in box.list_files()] == ["in.txt"]
        assert box.download("in.txt").content == b"content"
        pixel = base64.b64encode(b"\x89PNG").decode()
        assert box.run(f'display({{"image/png": "{pixel}"}}, raw=True)').type == "image/png"
        assert box.run("import castle; castle.walls").content == "42"  # installed by itself
        box.run("x = 1")
        box.restart()
        assert box.run("x").type == "error"
        missing = box.run("import no_such_module_anywhere")
        assert missing.type == "error" and "ModuleNotFoundError" in missing.content
    assert str(box.status()) == "stopped"


def test_codebox_never_raises(tmp_path):
    box = bailey.CodeBox(url=f"unix://{tmp_path}/nobody.sock", retries=0)
    out = box.run("1")
    assert out.type == "error" and "nobody.sock" in out.content


def test_code_interpreter_session(kit, tmp_path):
    (tmp_path / "sales.csv").write_text("a\n1\n2\n")
    asked = []

    def model(messages):
        asked.append(messages)
        if len(asked) == 1:
            return ("Let me look.\n```python\ntotal = sum(int(x) for x in open('sales.csv').read().split()[1:])\n"
                    "open('/tmp/output/total.txt', 'w').write(str(total))\ntotal\n```")
        return "The sum is " + messages[-1]["content"].splitlines()[-1]

    with kit.interpreter(model) as session:
        answer = session.generate_response("What is the sum?", files=[tmp_path / "sales.csv"])
    assert answer.content == "The sum is 3"
    assert [(f.name, f.content) for f in answer.files] == [("total.txt", b"3")]
    assert len(answer.code_log) == 1 and answer.code_log[0][1] == "Output:\n3"
    assert asked[0][0]["role"] == "system" and "sales.csv" in asked[0][-1]["content"]


def test_code_interpreter_session_has_an_end(kit):
    with kit.interpreter(lambda _: "```python\n1\n```", max_steps=2) as session:
        with pytest.raises(bailey.SandboxError) as caught:
            session.generate_response("loop")
    assert caught.value.code == "too_many_steps"


def test_one_call(kit, tmp_path):
    assert kit.run_python_code("print(6*7)") == "42\n"
    assert "ZeroDivisionError" in kit.run_python_code("1/0")
    assert "nobody.sock" in bailey.run_python_code("1", url=f"unix://{tmp_path}/nobody.sock")
    with kit.client() as client:
        result = client.run("import sys; print(sys.argv[1:]); sys.exit(3)", arguments=["a", "b"])
        assert isinstance(result, bailey.ExecutionResult)
        assert (result.stdout, result.exit_code) == ("['a', 'b']\n", 3)


# --- what only one kind can show ---


def test_threads_share_a_sandbox(server):
    with bailey.Sandbox(url=server.unix) as sandbox:
        found = []

        def work(number):
            found.append(sandbox.commands.run(["echo", str(number)]).stdout)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [f"{n}\n" for n in range(8)]


def test_tasks_share_a_sandbox_and_cancelling_ends_the_work(server):
    async def main():
        async with bailey.AsyncSandbox(url=server.url, api_key=server.key) as sandbox:
            done = await asyncio.gather(*(sandbox.commands.run(["echo", str(n)]) for n in range(8)))
            assert [d.stdout for d in done] == [f"{n}\n" for n in range(8)]
            started = asyncio.Event()
            task = asyncio.ensure_future(sandbox.commands.run(
                "echo up; sleep 1000", timeout=0, on_stdout=lambda _: started.set()))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            execution = (await sandbox.commands.list())[0]["execution_id"]
            handle = await sandbox.commands.get(execution)
            assert (await handle.wait()).exit_code != 0  # the server ended it

    asyncio.run(main())


def test_callbacks_may_be_coroutines(server):
    seen = []

    async def take(text):
        await asyncio.sleep(0)
        seen.append(text)

    async def main():
        async with bailey.AsyncSandbox(url=server.unix) as sandbox:
            await sandbox.run_code("print('here')", on_stdout=take)

    asyncio.run(main())
    assert "".join(seen) == "here\n"


def test_a_model_may_be_a_coroutine(server):
    async def model(messages):
        await asyncio.sleep(0)
        return "done" if len(messages) > 2 else "```python\n6*7\n```"

    async def main():
        async with bailey.AsyncCodeInterpreterSession(model, url=server.unix) as session:
            return await session.generate_response("go")

    assert asyncio.run(main()).code_log == [("6*7\n", "Output:\n42")]


def test_a_stream_goes_on_with_a_new_broker(server):
    """The process that serves HTTP is killed in the middle of a stream: not a byte is missing or twice."""
    with bailey.Sandbox(url=server.unix) as sandbox:
        handle = sandbox.commands.start(["sh", "-c", "echo first; read x; seq 1 1000"], stdin=True)
        stream = handle.stream()
        assert next(stream).data == b"first\n"
        os.kill(server.get("/v1/info")["broker_pid"], 9)
        support.wait_until(lambda: _answers(server), "a new broker answers")
        handle.send_stdin("go\n", end=True)
        assert b"".join(c.data for c in stream) == b"".join(b"%d\n" % n for n in range(1, 1001))
        assert handle.result.exit_code == 0


def _answers(server):
    try:
        return server.call("GET", "/healthz").status == 200
    except OSError:
        return False


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_closing_a_sandbox_closes_streams_that_were_left_open(server, kind):
    script = {"sync": """
import bailey
with bailey.Sandbox() as sandbox:
    handle = sandbox.commands.start("echo x; sleep 1000")
    stream = handle.stream()
    next(stream)
    watch = sandbox.files.watch()
    terminal = sandbox.pty()
""", "async": """
import asyncio, bailey
async def main():
    async with bailey.AsyncSandbox() as sandbox:
        handle = await sandbox.commands.start("echo x; sleep 1000")
        async for chunk in handle.stream():
            break
        watch = await sandbox.files.watch()
        terminal = await sandbox.pty()
asyncio.run(main())
"""}[kind]
    script += "import gc, os; gc.collect(); print([f for f in os.listdir('/proc/self/fd') if 'socket' in link(f)])"
    link = "import os\ndef link(f):\n    try: return os.readlink('/proc/self/fd/' + f)\n    except OSError: return ''\n"
    done = subprocess.run([sys.executable, "-W", "error", "-c", link + script], capture_output=True, text=True,
                          env=script_env(server.client_env("tcp")), timeout=support.PATIENCE, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[]\n"), done.stderr


def test_get_sandbox(server):
    with pytest.raises(bailey.SandboxError) as caught:
        bailey.get_sandbox(type="no-such-runtime", url=server.unix)
    assert caught.value.code in ("unknown_parameter", "bad_input") and caught.value.field == "type"
    with bailey.get_sandbox(url=server.unix) as sandbox:
        assert sandbox.run_code("1+1").text == "2"


def test_https(tmp_path):
    """Calls, a stream, a large upload and a terminal behind TLS; a certificate of an unknown authority is refused."""
    content = os.urandom(1024 * 1024)
    with tcp.Server(tls=tcp.certificate(tmp_path, "localhost")) as server:
        where = {"url": f"https://127.0.0.1:{server.port}", "api_key": server.key}
        with pytest.raises(bailey.SandboxConnectionError) as caught:
            bailey.Sandbox(**where, retries=0)
        assert "CERTIFICATE_VERIFY_FAILED" in str(caught.value)

        def scenario(sandbox):
            seen = []
            assert sandbox.run_code("print(1); 1+1", on_stdout=seen.append).text == "2" and seen == ["1\n"]
            for _ in range(3):
                sandbox.files.write("big", content)
            assert sandbox.files.read_bytes("big") == content
            with sandbox.pty("echo there") as terminal:
                assert b"there" in terminal.read_until("there")

        with bailey.Sandbox(**where, ssl_context=server.context) as sandbox:
            scenario(sandbox)
        loop = asyncio.new_event_loop()
        with Driver(loop, bailey.AsyncSandbox(**where, ssl_context=server.context)) as sandbox:
            scenario(sandbox)
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


SCRIPT = """
import json, sys, bailey
with bailey.Sandbox() as sandbox:
    print(json.dumps({"text": sandbox.run_code("1+1").text, "id": sandbox.id}))
forgotten = bailey.Sandbox()
print(json.dumps({"id": forgotten.id}))
"""


def script_env(env):
    return {**env, "PYTHONPATH": str(CLIENTS / "python" / "src")}


def test_a_program_finds_the_server_by_its_variables(server):
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=script_env(server.client_env("tcp")),
                          capture_output=True, text=True, timeout=support.PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    first, forgotten = map(json.loads, done.stdout.splitlines())
    assert first["text"] == "2"
    assert not {first["id"], forgotten["id"]} & set(server.names())  # ended at the program's exit


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_ctrl_c_in_the_middle_of_a_cell_leaves_no_session(server, kind):
    script = {"sync": """
import bailey
with bailey.Sandbox() as sandbox:
    sandbox.run_code("import time\\nprint('up')\\ntime.sleep(1000)", timeout=0, on_stdout=lambda t: print(t, sandbox.id, flush=True))
""", "async": """
import asyncio, bailey
async def main():
    async with bailey.AsyncSandbox() as sandbox:
        await sandbox.run_code("import time\\nprint('up')\\ntime.sleep(1000)", timeout=0, on_stdout=lambda t: print(t, sandbox.id, flush=True))
asyncio.run(main())
"""}[kind]
    with subprocess.Popen([sys.executable, "-c", script], env=script_env(server.client_env("tcp")), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout.readline() == "up\n"
        session = program.stdout.readline().strip()
        assert session in server.names()
        program.send_signal(2)
        _, said = program.communicate(timeout=support.PATIENCE)
    assert program.returncode != 0 and "KeyboardInterrupt" in said
    assert session not in server.names()


def test_a_cancelled_block_leaves_no_session(server):
    seen = []

    async def work():
        async with bailey.AsyncSandbox(url=server.unix) as sandbox:
            seen.append(sandbox.id)
            await sandbox.run_code("import time; time.sleep(1000)", timeout=0)

    async def main():
        task = asyncio.ensure_future(work())
        while not seen:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen[0] not in server.names()


# --- agent frameworks, the real packages ---


@pytest.fixture(scope="module")
def frameworks():
    """Their Python; skips only when the package index cannot be reached."""
    return interop_cache("sdk-frameworks") / "sdk-frameworks" / "bin" / "python"


@pytest.mark.parametrize("framework", ["langchain", "openai_agents", "pydantic_ai"])
def test_an_agent_of_a_framework_uses_the_sandbox(frameworks, server, framework):
    done = subprocess.run([frameworks, support.REPO / "tests/interop/clients/sdk_frameworks.py", framework],
                          env=script_env(server.client_env("tcp")), capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["answer"] == "Linux 42"
    assert seen["names"] == ["install_packages", "read_file", "run_command", "run_python", "write_file"]
    assert list(seen["schema"]["properties"]) == ["code"] and seen["schema"]["required"] == ["code"]
    if framework == "langchain":
        assert seen["async"] == "Linux 42" and "ZeroDivisionError" in seen["error"]
        assert seen["command"] == "hi\nexit code 3"
        assert (seen["written"], seen["read"]) == ("3 bytes written to a.txt", "abc")
        assert seen["missing"].startswith("Error:") and "path_not_found" in seen["missing"]
        assert seen["installed"] == "installed castle 1.2, moat 1.0"


# --- settings of this process


def test_what_the_environment_sets_goes_along(kit, server, monkeypatch):
    monkeypatch.setenv("SANDBOX_MEMORY_LIMIT", "96m")
    monkeypatch.setenv("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "true")
    with kit.sandbox() as made, kit.sandbox(memory="80m") as named:
        said = server.get(f"/v1/sessions/{made.id}")
        assert said["settings"]["SANDBOX_MEMORY_LIMIT"] == "96m" and said["limits"]["memory_bytes"] == 96 << 20
        assert server.get(f"/v1/sessions/{named.id}")["limits"]["memory_bytes"] == 80 << 20  # an argument goes over it
        with pytest.raises(bailey.SandboxError) as caught:
            made.run_code("import socket")
        assert caught.value.code == "blocked_import"
    monkeypatch.setenv("SANDBOX_MEMORY_LIMIT", "999g")
    with pytest.raises(bailey.SandboxError) as caught:
        kit.sandbox().open()
    assert "SANDBOX_MEMORY_LIMIT" in str(caught.value) and "999g" in str(caught.value)


def test_an_interpreter_of_this_machine(kit, server, monkeypatch):
    folder = support.Room().path  # pytest closes its own folders to others
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder / "venv"], check=True)
    monkeypatch.setenv("SANDBOX_PYTHON", str(folder / "venv/bin/python"))
    with kit.sandbox() as made:
        text = made.run_code("import sys; sys.prefix").text
    assert (text == repr(str(folder / "venv"))) == (kit.way == "unix"), text  # a server elsewhere has its own
