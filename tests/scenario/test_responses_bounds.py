"""POST /v1/responses at its edges: packages of a call, the key's file, TLS to the model server, reload,
quota and age of stored responses, clients that read slowly, responses in the background with code."""
import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import unittest.mock

import pytest

import install
import model_server
import support
import tcp
import wheels

from model_server import code, end, event, text

CODE = [{"type": "code_interpreter", "container": {"type": "auto"}}]
OUTPUTS = ["code_interpreter_call.outputs"]
DAY_MS = 24 * 3600 * 1000


@pytest.fixture(scope="module")
def model():
    with model_server.Server() as running:
        running.script("tea", [text("with ", "milk")])
        yield running


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    shelf = tmp_path_factory.mktemp("shelf")
    shelf.chmod(0o755)
    wheels.folder(shelf, install.TOWER)
    with tcp.Server(install.settings(shelf, BAILEY_UPSTREAM_URL=model.url)) as running:
        install.started(running)
        ask(running, "tea")  # the process `upstream` stays from the first request on
        yield running


def ask(server, name, status=200, key=None, **members):
    reply = server.tcp("POST", "/v1/responses", {"model": name, "input": "Go", **members}, key=key)
    assert reply.status == status, reply
    return reply.json()


def told(model, name):
    """What the model read of its calls, in its last request."""
    return [one["content"] for one in model.requests(name)[-1]["body"]["messages"]
            if one["role"] == "tool"]


def end_container(server, response):
    server.tcp("DELETE", f"/v1/containers/{response['output'][0]['container_id']}")


# ---- packages ----

def test_requirements_of_a_call_are_installed_before_its_code_runs(server, model):
    model.script("tower", [code("import tower\nprint(tower.height)", ["tower"]), text("ok")])
    response = ask(server, "tower", tools=CODE, include=OUTPUTS)
    assert response["output"][0]["outputs"] == [{"type": "logs", "logs": "7\n"}], told(model, "tower")
    end_container(server, response)


def test_requirements_that_cannot_be_installed_are_an_error_that_the_model_reads(server, model):
    model.script("nowhere", [code("print(1)", ["nowhere"]), text("sorry")])
    response = ask(server, "nowhere", tools=CODE, include=OUTPUTS)
    assert response["status"] == "completed" and response["output"][0]["status"] == "failed"
    result, = told(model, "nowhere")
    assert "could not be installed, so the code was not run" in result and "nowhere" in result
    end_container(server, response)


# ---- the connection to the model server ----

def test_the_key_is_read_from_its_file(model, tmp_path):
    tmp_path.joinpath("key").write_text("sk-of-a-file\n")
    tmp_path.joinpath("key").chmod(0o600)
    room = support.Room()
    room.write("bailey.yaml", (f"providers:\n  model:\n    url: {model.url}\n"
                               f"    key_file: {tmp_path}/key\n    model: tea\n").encode())
    with tcp.Server({"BAILEY_CONFIG": None}, room=room) as server:
        reply = server.tcp("POST", "/v1/responses", {"input": "Go"})
        assert reply.status == 200 and reply.json()["model"] == "tea", reply
    assert model.requests("tea")[-1]["authorization"] == "Bearer sk-of-a-file"
    tmp_path.joinpath("key").unlink()
    done = support.bailey("serve", env={"BAILEY_CONFIG": None, "SANDBOX_LISTEN": "none"}, room=room)
    assert done.status == 125 and f"bailey.yaml:4: the file '{tmp_path}/key' cannot be read" in done.stderr, done
    room.remove()


def trusting(certificate):
    """Meanwhile programs are started where the machine trusts this certificate alone."""
    trusted = "/etc/ssl/certs/ca-certificates.crt"
    if subprocess.run(["unshare", "--mount", "test", "-f", trusted], capture_output=True,
                      check=False).returncode != 0:
        pytest.skip(f"needs a mount namespace of its own, and {trusted}")
    plain = support.command

    def command(*args, **rest):
        return ["unshare", "--mount", "sh", "-c", f'mount --bind "$0" {trusted} && exec "$@"',
                str(certificate), *plain(*args, **rest)]
    return unittest.mock.patch.object(support, "command", command)


def test_tls_to_a_model_server_whose_authority_the_machine_trusts(tmp_path):
    files = tcp.certificate(tmp_path, "model")
    files[0].chmod(0o644)
    with model_server.Server(tls=files) as model:
        model.script("tea", [text("with ", "milk")])
        env = {"BAILEY_UPSTREAM_URL": model.url, "BAILEY_UPSTREAM_KEY": "sk-over-tls"}
        with tcp.Server(env) as server:  # a machine that does not know it
            error = ask(server, "tea", 502)["error"]
            assert error["code"] == "model_server_error" and "certificate" in error["message"], error
            assert model.requests() == []
        with trusting(files[0]), tcp.Server(env) as server:
            assert ask(server, "tea")["output"][0]["content"][0]["text"] == "with milk"
        assert [one["authorization"] for one in model.requests()] == ["Bearer sk-over-tls"]


def test_a_reload_says_that_new_values_need_a_restart(model):
    with tcp.Server({"BAILEY_UPSTREAM_URL": model.url}) as server:
        server.env.update(BAILEY_UPSTREAM_MODEL="another", BAILEY_CODE_INTERPRETER_PER="execution",
                          BAILEY_UPSTREAM_URL="http://127.0.0.1:9/v1")
        done = server.bailey("reload", "--json")
        assert done.status == 0, done
        assert set(json.loads(done.stdout)["restart"]) == {
            "BAILEY_UPSTREAM_URL", "BAILEY_UPSTREAM_MODEL", "BAILEY_CODE_INTERPRETER_PER"}, done
        assert ask(server, "tea")["status"] == "completed", "the old address still counts"


# ---- stored responses ----

def test_stored_responses_count_in_the_disk_quota(model):
    with tcp.Server({"BAILEY_UPSTREAM_URL": model.url, "SANDBOX_QUOTA_DISK": "64k"}) as server:
        key = server.new_key(tenant="small")
        first = ask(server, "tea", key=key, input="x" * 40_000)
        before = len(model.requests("tea"))
        error = ask(server, "tea", 429, key, input="x" * 40_000)["error"]
        assert error["code"] == "quota_exceeded" and set(error) == {"message", "type", "param", "code"}
        assert len(model.requests("tea")) == before, "the model is not asked in vain"
        assert ask(server, "tea", key=key, input="x" * 40_000, store=False)["status"] == "completed"
        assert server.tcp("DELETE", f"/v1/responses/{first['id']}", key=key).status == 200
        ask(server, "tea", key=key, input="x" * 40_000)
        ask(server, "tea", key=server.new_key(tenant="other"), input="x" * 40_000)


def test_responses_that_are_old_or_too_many_are_removed(model):
    room = support.Room()
    env = {"BAILEY_UPSTREAM_URL": model.url}
    with tcp.Server(env, room=room) as server:
        key = server.key
        old, kept = ask(server, "tea")["id"], ask(server, "tea")["id"]
        state = server.state
    with contextlib.closing(sqlite3.connect(next(state.rglob("index.db")))) as index, index:
        index.execute("UPDATE response SET created_ms = created_ms - ? WHERE id = ?",
                      (31 * DAY_MS, old))
        index.execute("UPDATE response SET created_ms = created_ms - ? WHERE id = ?",
                      (29 * DAY_MS, kept))

    def status(server, response):
        return server.tcp("GET", f"/v1/responses/{response}", key=key).status
    with tcp.Server(env, room=room) as server:
        ask(server, "tea", key=key)
        assert (status(server, old), status(server, kept)) == (404, 200)
    with contextlib.closing(sqlite3.connect(next(state.rglob("index.db")))) as index, index:
        index.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998)"
                      " INSERT INTO response SELECT 'resp_' || i, tenant, created_ms + i, status,"
                      " previous, container, bytes, document, input FROM response, n WHERE id = ?",
                      (kept,))
    with tcp.Server(env, room=room) as server:
        assert status(server, kept) == 200, "1,000 are kept"
        last = ask(server, "tea", key=key)["id"]
        assert [status(server, one) for one in (kept, "resp_1", last)] == [404, 200, 200]
    room.remove()


def test_files_that_come_with_requests_count_like_uploaded_ones(model):
    room = support.Room()
    env = {"BAILEY_UPSTREAM_URL": model.url}
    part = {"type": "input_file", "filename": "a.csv", "file_data": "eA=="}
    with tcp.Server(env, room=room) as server:
        key = server.new_key(tenant="full")
        state = server.state
        sent = server.tcp("POST", "/v1/files", b"--b\r\nContent-Disposition: form-data; name=purpose\r\n\r\nuser_data\r\n"
                          b"--b\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\nx\r\n--b--\r\n",
                          {"Content-Type": "multipart/form-data; boundary=b"}, key)
        assert sent.status == 200, sent
    with contextlib.closing(sqlite3.connect(next(state.rglob("index.db")))) as index, index:
        index.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
                      " INSERT INTO upload SELECT 'file-' || printf('%032x', i), tenant, filename, purpose, 0, created_ms,"
                      " expires_ms FROM upload, n WHERE id = ?", (sent.json()["id"],))
    with tcp.Server(env, room=room) as server:
        error = ask(server, "tea", 429, key, tools=CODE, input=[{"role": "user", "content": [part]}])["error"]
        assert "at most 10000 files" in error["message"], error
        other = server.new_key(tenant="other")
        assert ask(server, "tea", key=other, tools=CODE, input=[{"role": "user", "content": [part]}])["status"] == "completed"
    room.remove()


# ---- what is in memory ----

def test_what_responses_keep_in_memory_is_the_tenants_share(server, model):
    """In the background: their requests are over, and what they hold is not."""
    model.script("never", [[{"begin": True}, {"hang": True}]])
    key, other = server.new_key(tenant="large"), server.new_key(tenant="neighbour")
    large = {"background": True, "input": "x" * 10_000_000}
    made = [ask(server, "never", key=key, **large)["id"] for _ in range(2)]
    reply = server.tcp("POST", "/v1/responses", {"model": "never", **large}, key=key)
    assert reply.status == 429 and reply.headers["Retry-After"] and "tenant's share" in reply.json()["error"]["message"], reply
    ask(server, "tea", key=key)
    ask(server, "tea", key=other, input="x" * 10_000_000)
    for one in made:
        assert server.tcp("POST", f"/v1/responses/{one}/cancel", key=key).status == 200
    assert ask(server, "tea", key=key, input="x" * 10_000_000)["status"] == "completed"


def test_a_conversation_has_a_maximum(server, model):
    """What the model does not read counts too: it is loaded each time."""
    def ask_on(previous, status=200):
        return ask(server, "tea", status, previous_response_id=previous, input=[
            {"type": "reasoning", "summary": "x" * 7_000_000}, {"role": "user", "content": "Go"}])
    first = ask_on(None)
    second = ask_on(first["id"])
    third = ask_on(second["id"])
    before = len(model.requests("tea"))
    error = ask_on(third["id"], 400)["error"]
    assert error["param"] == "previous_response_id" and "larger than 16 MB" in error["message"], error
    assert len(model.requests("tea")) == before
    items = server.tcp("GET", f"/v1/responses/{third['id']}/input_items").json()["data"]
    assert len(items) == 2, "what is stored is there"


def test_items_that_are_named_have_a_maximum(server, model):
    """Each name would load and copy what it stands for, a thousand times."""
    model.script("long", [text("x" * 3_000_000)])
    model.script("other", [text("x" * 3_000_000)])
    names = [{"type": "item_reference", "id": ask(server, name)["output"][0]["id"]} for name in ("long", "other")]
    before = len(model.requests("tea"))
    for items in ([names[0]] * 1000, names * 500):
        error = ask(server, "tea", 400, input=items)["error"]
        assert error["param"].startswith("input[") and "larger than 16 MB" in error["message"], error
    assert len(model.requests("tea")) == before
    assert ask(server, "tea", input=[names[0], {"role": "user", "content": "Go"}])["status"] == "completed"


def test_output_of_code_has_a_maximum_in_one_response(server, model):
    model.script("loud", [*[code("print('x' * 900_000)")] * 11, text("ok")])
    response = ask(server, "loud", tools=CODE, include=OUTPUTS)
    logs = [one["outputs"][0]["logs"] for one in response["output"] if one["type"] == "code_interpreter_call"]
    assert len(logs) == 11 and len(logs[8]) == 900_001
    assert logs[9] == logs[10] == "[left out: the output of all code of one response has at most 8 MB]"
    end_container(server, response)


def test_one_tenant_leaves_places_for_others(model):
    model.script("never", [[{"begin": True}, {"hang": True}]])
    with tcp.Server({"BAILEY_UPSTREAM_URL": model.url}) as server:
        key, other = server.new_key(tenant="many"), server.new_key(tenant="other")
        for _ in range(256):
            ask(server, "never", key=key, background=True)
        reply = server.tcp("POST", "/v1/responses", {"model": "never", "background": True}, key=key)
        assert reply.status == 503 and "256 responses of this tenant" in reply.json()["error"]["message"], reply
        assert reply.headers["Retry-After"]
        assert ask(server, "tea", key=other)["status"] == "completed"


# ---- clients that read slowly ----

class SlowConnection(tcp.Connection):
    """Little fits into what the kernel keeps for it."""

    def connect(self):
        self.sock = self.slow = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.settimeout(self.timeout)
        self.sock.connect(("127.0.0.1", self.port))


def stream(server, name, kind=tcp.Connection):
    connection = kind(server.port)
    connection.request("POST", "/v1/responses", json.dumps({"model": name, "input": "Go", "stream": True}),
                       {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"})
    return connection, connection.getresponse()


def resident(server):
    with open(f"/proc/{server.get('/v1/info')['broker_pid']}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) << 10


def test_a_client_that_reads_slowly_holds_the_model_back(server, model):
    piece, pieces = "x" * 4096, 1700  # of 8 MiB that an answer may have
    model.script("flood", [[{"send": event({"content": piece}), "times": pieces}, *end()]])
    connection, reply = stream(server, "flood")
    assert b"response.completed" in reply.read()
    connection.close()
    before = resident(server)
    slow = [stream(server, "flood", SlowConnection) for _ in range(4)]
    identities = []
    for _, reply in slow:
        assert reply.readline() == b"event: response.created\n"
        identities.append(json.loads(reply.readline()[6:])["response"]["id"])
    # One that reads is served meanwhile, to its end.
    connection, reply = stream(server, "flood")
    assert b"response.completed" in reply.read()
    connection.close()
    states = [server.tcp("GET", f"/v1/responses/{one}").json()["status"] for one in identities]
    assert states == ["in_progress"] * len(slow)
    # What the model sent so far is kept, for the stored response. All events of 4 answers of 7 MB, the
    # last of which have the whole text four times, would be about 200 MB.
    # AddressSanitizer keeps up to 256 MiB of freed memory.
    assert resident(server) - before < (352 if "ASAN_OPTIONS" in os.environ else 96) << 20
    for connection, reply in slow:
        connection.slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        assert reply.read().endswith(b"data: [DONE]\n\n")
        connection.close()
    for one in identities:
        whole = server.tcp("GET", f"/v1/responses/{one}").json()
        assert len(whole["output"][0]["content"][0]["text"]) == len(piece) * pieces


# ---- in the background ----

def test_code_of_a_background_response_is_interrupted_by_cancel(server, model):
    made = server.tcp("POST", "/v1/containers", {"name": "busy"}).json()
    tools = [{"type": "code_interpreter", "container": made["id"]}]
    model.script("loop", [code("open('/tmp/begun', 'w').close()\nwhile True: pass"), text("never")])
    response = ask(server, "loop", tools=tools, background=True)
    assert response["status"] == "queued" and response["output"] == []
    path = f"/v1/responses/{response['id']}"
    session = next(one["id"] for one in server.get("/v1/sessions")["sessions"])
    support.wait_until(lambda: server.call("GET", f"/v1/sessions/{session}/files/stat?path=/tmp/begun")
                       .status == 200, "the code runs")
    assert server.tcp("GET", path).json()["status"] == "in_progress"
    cancelled = server.tcp("POST", path + "/cancel").json()
    assert cancelled["status"] == "cancelled" and cancelled["background"] is True
    model.script("free", [code("print('free')"), text("ok")])
    again = ask(server, "free", tools=tools, include=OUTPUTS)
    assert again["output"][0]["outputs"] == [{"type": "logs", "logs": "free\n"}]
    assert server.tcp("GET", path).json()["status"] == "cancelled"
    assert len(model.requests("loop")) == 1, "the model is not asked any more"
    assert server.tcp("POST", path + "/cancel").json()["status"] == "cancelled", "twice is fine"
    server.tcp("DELETE", f"/v1/containers/{made['id']}")
