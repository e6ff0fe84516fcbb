"""Parts of the Python SDK that need no Bailey: parsers, finding a server, errors, and when a request is
tried again, against a server of a few lines that answers as the test says."""
import asyncio
import json
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading

import pytest

from sdk_server import CLIENTS

sys.path.insert(0, str(CLIENTS / "python" / "src"))
import bailey  # noqa: E402  (the path has to be there first)
from bailey import _api, _box, _errors, _find, _results, _websocket, _wire  # noqa: E402

KINDS = ["sync", "async"]
SESSION = {"id": "s_1", "state": "new", "name": None}


class Scripted:
    """Answers each request with the next of `answers`: (status, headers, JSON), "close" or "cut"."""

    def __init__(self, path, answers):
        self.requests, self._answers = [], list(answers)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(8)
        self.url = f"unix://{path}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                while self._answers and self._answer(connection, stream):
                    pass

    def _answer(self, connection, stream):
        first = stream.readline().decode().split()
        if not first:
            return False
        headers = {}
        for line in iter(stream.readline, b"\r\n"):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
        self.requests.append((first[0], first[1], headers, body))
        answer = self._answers.pop(0)
        if answer == "close":
            return False
        if answer == "cut":  # half of a body
            connection.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n" + b"x" * 50)
            return False
        status, more, members = answer
        text = json.dumps(members).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in more.items())
        connection.sendall(head.encode() + b"\r\n" + text)
        return more.get("Connection") != "close"

    def close(self):
        self._listener.close()


@pytest.fixture
def scripted(tmp_path):
    made = []

    def make(*answers):
        made.append(Scripted(tmp_path / "fake.sock", answers))
        return made[-1]

    yield make
    for one in made:
        one.close()


def call(kind, url, work, **options):
    """Runs `work(client)` of a Client or AsyncClient; what it returns is awaited for the latter."""
    if kind == "sync":
        with bailey.Client(url, **options) as client:
            return work(client)

    async def main():
        async with bailey.AsyncClient(url, **options) as client:
            return await work(client)

    return asyncio.run(main())


BUSY = (503, {"Retry-After": "0"}, {"error": {"code": "busy", "message": "later"}})
FINE = (200, {}, {"sessions": []})
MADE = (200, {}, {"stdout": "", "stderr": "", "exit_code": 0, "duration": 0.1, "meta": {}})


# --- CodeBox ---


@pytest.mark.parametrize("kind", KINDS)
def test_two_first_calls_of_a_code_box_make_one_sandbox(kind, scripted):
    server = scripted((201, {}, SESSION), (200, {}, {}))
    if kind == "sync":
        box = bailey.CodeBox(url=server.url)
        threads = [threading.Thread(target=box.start) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        box.stop()
    else:
        async def main():
            box = bailey.AsyncCodeBox(url=server.url)
            await asyncio.gather(box.start(), box.start())
            await box.stop()

        asyncio.run(main())
    assert [request[0] for request in server.requests] == ["POST", "DELETE"]


def test_a_file_that_is_no_text_is_output_too(tmp_path):
    (tmp_path / "code.py").write_bytes(b"\xff\xfe")
    output = bailey.CodeBox().run(tmp_path / "code.py")
    assert output.type == "error" and "decode" in output.content


# --- trying again ---


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_is_tried_again_after_a_lost_connection(kind, scripted):
    server = scripted("close", "close", FINE)
    assert call(kind, server.url, lambda c: c.sessions()) == []
    assert len(server.requests) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_what_makes_something_is_tried_again_with_the_same_key_after_a_lost_connection(kind, scripted):
    running = (409, {"Retry-After": "0"}, {"error": {"code": "idempotency_key_running", "message": "later"}})
    server = scripted("close", running, MADE)
    assert call(kind, server.url, lambda c: c.run("1")).exit_code == 0
    assert len(server.requests) == 3
    assert len({headers["idempotency-key"] for _, _, headers, _ in server.requests}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_no_key_is_not_tried_again_after_a_lost_connection(kind, scripted):
    server = scripted("close", FINE)
    with pytest.raises(bailey.SandboxConnectionError):
        call(kind, server.url, lambda c: c.tool("run_code", {"code": "1"}))
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_busy_is_tried_again_with_the_same_key(kind, scripted):
    server = scripted(BUSY, BUSY, MADE)
    assert call(kind, server.url, lambda c: c.run("1")).exit_code == 0
    keys = {headers["idempotency-key"] for _, _, headers, _ in server.requests}
    assert len(server.requests) == 3 and len(keys) == 1
    assert len({body for _, _, _, body in server.requests}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_two_calls_have_two_keys(kind, scripted):
    server = scripted(MADE)
    call(kind, server.url, lambda c: c.run("1"))
    server.close()
    os.unlink(server.url[7:])
    other = scripted(MADE)
    call(kind, other.url, lambda c: c.run("1"))
    assert server.requests[0][2]["idempotency-key"] != other.requests[0][2]["idempotency-key"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", [
    (503, {}, {"error": {"code": "refused", "message": "no"}}),
    (503, {"Retry-After": "3600"}, {"error": {"code": "busy", "message": "no"}}),
    (429, {"Retry-After": "0"}, {"error": {"code": "quota_exceeded", "message": "no"}}),
    (500, {}, {"error": {"code": "engine", "message": "no"}}),
])
def test_other_errors_are_the_callers(kind, scripted, answer):
    server = scripted(answer, FINE)
    with pytest.raises(bailey.SandboxError) as caught:
        call(kind, server.url, lambda c: c.sessions())
    assert caught.value.code == answer[2]["error"]["code"] and len(server.requests) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_an_end_to_trying(kind, scripted, tmp_path):
    server = scripted(*[BUSY] * 9)
    with pytest.raises(bailey.UnavailableError):
        call(kind, server.url, lambda c: c.sessions(), retries=2)
    assert len(server.requests) == 3
    with pytest.raises(bailey.SandboxConnectionError) as caught:
        call(kind, f"unix://{tmp_path}/nobody", lambda c: c.run("1"), retries=1)
    assert "nobody" in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_is_kept(kind, scripted, monkeypatch):
    server = scripted(FINE, FINE, FINE)

    if kind == "sync":
        with bailey.Client(server.url) as client:
            client.sessions()
            kept = client._transport._kept[0]
            client.sessions()
            assert client._transport._kept == [kept]
    else:
        async def main():
            async with bailey.AsyncClient(server.url) as client:
                await client.sessions()
                kept = client._transport._kept[0]
                await client.sessions()
                assert client._transport._kept == [kept]
        asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_kept_connection_that_the_server_closed_is_not_used(kind, scripted):
    """Were it used, a POST would fail, because it is not tried again."""
    closing = (200, {"Connection": "close"}, MADE[2])
    server = scripted(closing, MADE)

    def twice(client):
        client.run("1")
        return client.run("2")

    async def awaited(client):
        await client.run("1")
        return await client.run("2")

    assert call(kind, server.url, twice if kind == "sync" else awaited).exit_code == 0
    assert len(server.requests) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_time_limit_of_the_client(kind, tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen(1)
        with pytest.raises(bailey.SandboxTimeoutError) as caught:
            call(kind, f"unix://{tmp_path}/silent.sock", lambda c: c.info(), request_timeout=0.05)
    assert isinstance(caught.value, TimeoutError) and caught.value.code == "client_timeout"


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_is_not_ours(kind, scripted):
    server = scripted((404, {}, ["a page"]))
    with pytest.raises(bailey.NotFoundError) as caught:
        call(kind, server.url, lambda c: c.info())
    assert caught.value.code == "http_404"


@pytest.mark.parametrize("kind", KINDS)
def test_a_download_that_was_cut_is_no_file(kind, scripted, tmp_path):
    server = scripted((201, {}, SESSION), "cut", (200, {}, SESSION))
    target = tmp_path / "target"
    with pytest.raises(bailey.SandboxConnectionError):
        if kind == "sync":
            with bailey.Sandbox(url=server.url) as sandbox:
                sandbox.files.download("big", target)
        else:
            async def main():
                async with bailey.AsyncSandbox(url=server.url) as sandbox:
                    await sandbox.files.download("big", target)
            asyncio.run(main())
    assert [p.name for p in tmp_path.iterdir()] == ["fake.sock"]
    assert [request[0] for request in server.requests] == ["POST", "GET", "DELETE"]


def test_a_failed_construction_leaves_nothing_open(scripted):
    server = scripted((201, {}, SESSION), (413, {}, {"error": {"code": "too_large", "message": "no"}}),
                      (200, {}, SESSION))
    with pytest.raises(bailey.TooLargeError):
        bailey.Sandbox(url=server.url, data={"x": b"1"})
    assert [request[0] for request in server.requests] == ["POST", "PUT", "DELETE"]


# --- the pieces ---


def test_every_code_of_the_server_has_a_class():
    for code in _api.ErrorCode.__args__:
        error = _errors.error_from({"code": code, "message": "m"}, 409)
        assert isinstance(error, bailey.SandboxError) and error.code == code


def test_errors_can_be_pickled():
    error = _errors.error_from({"code": "session_ended", "message": "m", "reason": "idle"}, 410)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.details) == (type(error), error.code, error.details)


def test_errors_are_also_what_python_calls_them():
    for code, status, kind in (("path_not_found", 404, FileNotFoundError), ("forbidden", 403, PermissionError),
                               ("path_exists", 409, FileExistsError), ("bad_input", 400, ValueError)):
        assert isinstance(_errors.error_from({"code": code, "message": "m"}, status), kind)


def test_addresses():
    parse = _wire.Address.parse
    assert parse("unix:///run/x.sock").socket == "/run/x.sock"
    assert parse("/run/x.sock").socket == "/run/x.sock"
    assert parse("http://h:7070/prefix/")[1:] == ("h", 7070, False, "/prefix")
    assert parse("https://h")[1:4] == ("h", 443, True)
    assert parse("http://[::1]:80").authority == "[::1]"
    for address in ("http://h:7070/prefix", "http://[::1]:7070"):  # addresses of ports begin with it
        assert str(parse(address)) == address
    for wrong in ("ftp://h", "http://h:port", "http://h:99999", "http://[::1", "unix://x.sock"):
        with pytest.raises(bailey.SandboxError) as caught:
            parse(wrong)
        assert caught.value.code == "bad_address" and wrong in str(caught.value)


def test_paths_are_quoted():
    assert _api.READ_OUTPUT.at(id="a b", name="x/ü.txt") == "/v1/sessions/a%20b/outputs/x/%C3%BC.txt"
    assert _api.GIVE_DATASET.at(id="s", name="a/b") == "/v1/sessions/s/datasets/a%2Fb"
    assert _wire.target_of("/x", {"a": None, "b": True, "c": "&"}) == "/x?b=true&c=%26"


def test_events_in_any_pieces():
    text = ('id: 1\nevent: stdout\ndata: {"data":"ü"}\n\n: a comment\n\n'
            'event: two\r\ndata: {"a":\r\ndata: 1}\r\n\r\n').encode()
    for size in (1, 2, 3, 7, len(text)):
        parser = _wire.EventParser()
        found = [e for at in range(0, len(text), size) for e in parser.feed(text[at:at + size])]
        assert found == [("stdout", "1", {"data": "ü"}), ("two", None, {"a": 1})]


def test_a_character_cut_in_two_comes_whole():
    decoder = _results.ChunkDecoder()
    first = decoder.chunk("stdout", {"data": "ww==", "encoding": "base64"})
    second = decoder.chunk("stdout", {"data": "vA==", "encoding": "base64"})
    assert (first.text, second.text, first.data + second.data) == ("", "ü", "ü".encode())


def frame_of_server(kind, data, is_last=True):
    head = bytes([(0x80 if is_last else 0) | kind])
    size = len(data)
    head += bytes([size]) if size < 126 else struct.pack("!BH", 126, size) if size < 65536 \
        else struct.pack("!BQ", 127, size)
    return head + data


def test_websocket_frames():
    sent = _websocket.frame(_websocket.BINARY, b"x" * 300)
    assert sent[:2] == bytes([0x82, 0xFE]) and len(sent) == 4 + 4 + 300
    assert bytes(b ^ sent[4 + n % 4] for n, b in enumerate(sent[8:])) == b"x" * 300
    data = (frame_of_server(2, b"a" * 70000) + frame_of_server(1, b"{", False) +
            frame_of_server(9, b"?") + frame_of_server(0, b"}") + frame_of_server(8, b"\x03\xe8bye"))
    for size in (1, 1000, len(data)):
        parser = _websocket.FrameParser()
        got = [m for at in range(0, len(data), size) for m in parser.feed(data[at:at + size])]
        assert got == [(2, b"a" * 70000), (9, b"?"), (1, b"{}"), (1000, "bye")]
    with pytest.raises(bailey.SandboxConnectionError):
        list(_websocket.FrameParser().feed(struct.pack("!BBQ", 0x82, 127, 1 << 62)))


def test_code_of_a_reply():
    assert _box.code_in("text\n```python\nx\n```\nmore") == "x\n"
    assert _box.code_in("```py\r\nx") == "x"
    assert _box.code_in("```js\nx\n```") is None and _box.code_in("plain") is None


# --- finding a server ---


def test_the_argument_wins_over_the_environment():
    env = {"BAILEY_URL": "http://env:1"}
    assert _find.configured("http://arg:2", env).host == "arg"
    assert _find.configured(None, env).host == "env"
    assert _find.configured(None, {}) is None


def test_sockets_are_looked_for_where_the_daemon_puts_them(tmp_path):
    state = tmp_path / "state" / "bailey"
    state.mkdir(parents=True)
    env = {"HOME": "/h", "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": "/r"}
    assert list(_find.sockets(env)) == ["/r/bailey/engine.sock"]
    (state / "daemon.json").write_text('{"socket": "/written/down.sock"}')
    assert list(_find.sockets(env)) == ["/written/down.sock", "/r/bailey/engine.sock"]
    assert list(_find.sockets({"HOME": "/h"})) == ["/h/.local/state/bailey/run/engine.sock"]
    system = ["/var/lib/bailey/run/engine.sock"] if os.geteuid() == 0 else []  # a service of root has no HOME
    assert list(_find.sockets({}))[-1:] == system


def test_without_any_server_the_error_says_what_to_do(tmp_path):
    with pytest.raises(bailey.NoServerError) as caught:
        _find.local({"HOME": str(tmp_path), "PATH": str(tmp_path)})
    assert "BAILEY_URL" in str(caught.value) and "PATH" in str(caught.value)


def test_a_daemon_that_does_not_start_is_named(tmp_path):
    program = tmp_path / "bailey"
    program.write_text("#!/bin/sh\necho 'user namespaces are refused' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(bailey.NoServerError) as caught:
        _find.local({"HOME": str(tmp_path), "PATH": str(tmp_path)})
    assert "user namespaces are refused" in str(caught.value)


# --- the package ---


def test_all_names_are_there():
    for name in bailey.__all__:
        assert getattr(bailey, name) is not None
    with pytest.raises(AttributeError):
        bailey.no_such_name


def test_the_import_loads_nothing_of_the_network():
    """`import bailey` costs next to nothing, and blocking programs do not pay for asyncio."""
    script = ("import sys, bailey; print(sorted(m for m in ('http.client', 'asyncio', 'ssl') if m in sys.modules));"
              "bailey.Sandbox; print('asyncio' in sys.modules)")
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(CLIENTS / "python" / "src")})
    assert done.stdout.splitlines() == ["[]", "False"]


def test_blocking_and_asyncio_have_the_same_surface():
    for name in [n for n in bailey.__all__ if n.startswith("Async")]:
        waiting, plain = getattr(bailey, name), getattr(bailey, name[5:])
        renamed = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__",
                   "__aiter__": "__iter__", "__anext__": "__next__"}
        assert {renamed.get(n, n) for n in vars(waiting)} - {"__doc__"} == set(vars(plain)) - {"__doc__"}


# --- settings of the environment


SETTING = {"SANDBOX_MEMORY_LIMIT": "96m", "SANDBOX_MAX_SESSIONS": "9", "SANDBOX_TEMPLATE": "", "SANDBOX_NONSENSE": "1",
           "SANDBOX_STORE_CODE": "n\u00e9ver", "BAILEY_LOG": "debug"}


def test_what_the_environment_sets_as_a_header():
    here, there = _wire.Address(socket="/run/x"), _wire.Address.parse("http://127.0.0.1:1")
    said = _find.settings(None, SETTING)
    assert said.isascii() and "\n" not in said
    of_calls = {"SANDBOX_MEMORY_LIMIT": "96m", "SANDBOX_STORE_CODE": "n\u00e9ver"}
    assert json.loads(said) == {**of_calls, "SANDBOX_MAX_SESSIONS": "9"}  # the local daemon has to agree
    for named in (here, there):
        assert json.loads(_find.settings(named, SETTING)) == of_calls
    assert _find.settings(None, {"SANDBOX_TEMPLATE": ""}) is None


def test_an_interpreter_is_found_here_and_stays_here(tmp_path):
    python = tmp_path / "python9"
    python.write_text("")
    python.chmod(0o755)
    env = {"SANDBOX_PYTHON": "python9", "SANDBOX_NODE": "/opt/node", "PATH": str(tmp_path)}
    assert json.loads(_find.settings(None, env)) == {"SANDBOX_PYTHON": str(python), "SANDBOX_NODE": "/opt/node"}
    assert json.loads(_find.settings(None, {**env, "PATH": "/nowhere"}))["SANDBOX_PYTHON"] == "python9"
    assert _find.settings(_wire.Address.parse("http://127.0.0.1:1"), env) is None


@pytest.mark.parametrize("kind", KINDS)
def test_settings_go_with_what_does_something(kind, scripted, monkeypatch):
    monkeypatch.setenv("SANDBOX_MEMORY_LIMIT", "96m")
    server = scripted(MADE, FINE)
    call(kind, server.url, lambda c: c.run("1"))
    call(kind, server.url, lambda c: c.sessions())
    ran, looked = [headers.get("bailey-settings") for _, _, headers, _ in server.requests]
    assert json.loads(ran) == {"SANDBOX_MEMORY_LIMIT": "96m"} and looked is None
