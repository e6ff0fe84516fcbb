"""What Scalebox's clients expect on the wire, and what is refused, without a client's package."""
import base64
import hashlib
import json
import pathlib
import struct

import pytest
import support
from test_e2b_wire import Server, envelopes

pytestmark = pytest.mark.needs_namespaces


class ScaleboxServer(Server):
    def sandbox_made(self, **body):
        status, _, told = self.control("POST", "/v1/sandboxes", {"template": "base", "timeout": 300, **body})
        assert status == 201 and told["success"] is True, told
        return told["data"]

    def inside(self, sandbox, method, path, body=None, **headers):
        return self.raw(method, path, body, {"X-Access-Token": sandbox["envd_access_token"],
                                             "Authorization": "Bearer root", **headers})

    def unary(self, sandbox, method, request, **headers):
        status, _, body = self.inside(sandbox, "POST", f"/sandboxagent.{method}", json.dumps(request),
                                    **{"Content-Type": "application/json", **headers})
        return status, json.loads(body)

    def stream_of(self, sandbox, method, request, **headers):
        body = json.dumps(request).encode()
        return self.inside(sandbox, "POST", f"/sandboxagent.{method}", struct.pack(">BI", 0, len(body)) + body,
                         **{"Content-Type": "application/connect+json", **headers})


@pytest.fixture(scope="module")
def server():
    with ScaleboxServer({"BAILEY_LOG": "info", "SANDBOX_HOSTS": "*.sandbox.test"}) as running:
        yield running


@pytest.fixture(scope="module")
def sandbox(server):
    made = server.sandbox_made(metadata={"aKey": "b"}, env_vars={"COLOUR": "blue"})
    told = messages(server.stream_of(made, "ExecutionService/Execute", {"code": "1"})[2])
    assert told[-1] == (2, {}), "its processes are there before the first test looks for what is left behind"
    yield made
    server.control("DELETE", f"/v1/sandboxes/{made['sandbox_id']}?force=true")


class Whole:
    """A body that is there as a whole, as a stream of envelopes."""

    def __init__(self, text):
        self.text = text

    def read(self, count):
        text, self.text = self.text[:count], self.text[count:]
        return text


def messages(text):
    return list(envelopes(Whole(text)))


def test_a_sandbox_has_an_envelope_and_snake_case(server, sandbox):
    assert sandbox["sandbox_domain"] == f"127.0.0.1:{server.port}" and sandbox["status"] == "running"
    assert (sandbox["timeout"], sandbox["metadata"]) == (300, {"aKey": "b"})
    path = f"/v1/sandboxes/{sandbox['sandbox_id']}"
    assert server.control("GET", path)[2]["data"]["sandbox_id"] == sandbox["sandbox_id"]
    listed = server.control("GET", "/v1/sandboxes?status=running")[2]["data"]
    assert sandbox["sandbox_id"] in [one["sandbox_id"] for one in listed["sandboxes"]] and listed["total"] >= 1
    assert server.control("GET", "/v1/sandboxes?status=paused")[2]["data"]["sandboxes"] == []
    told = server.control("GET", path, None, Host=f"api.sandbox.test:{server.port}")[2]["data"]
    assert told["sandbox_domain"] == f"{sandbox['sandbox_id']}.sandbox.test:{server.port}"


def test_a_sandbox_is_one_for_e2bs_clients_too(server, sandbox):
    assert server.control("GET", f"/sandboxes/{sandbox['sandbox_id']}")[2]["sandboxID"] == sandbox["sandbox_id"]


def test_who_has_no_key_or_a_wrong_one_gets_nothing(server, sandbox):
    path = f"/v1/sandboxes/{sandbox['sandbox_id']}"
    for headers in ({}, {"X-API-KEY": "wrong"}, {"Authorization": "Bearer wrong"},
                    {"Authorization": "Bearer root", "X-Access-Token": sandbox["envd_access_token"]},
                    {"X-API-KEY": "sbx_" + "0" * 40}):
        for method, where in (("GET", path), ("DELETE", path), ("POST", "/v1/sandboxes"), ("GET", "/v1/sandboxes")):
            status, _, body = server.raw(method, where, None, headers)
            told = json.loads(body)
            assert (status, told["success"], told["code"]) == (401, False, 401), (headers, where, body)
            assert told["message"] == told["error"]
    other = server.caller("other")
    status, _, body = server.raw("GET", path, None, {"X-API-KEY": other.text})
    assert (status, json.loads(body)["success"]) == (404, False)


def test_the_key_counts_beside_a_users_name(server, sandbox):
    """The Python package sends the sandbox's headers to the control plane, too."""
    headers = {"X-API-KEY": server.e2b, "Authorization": "Bearer root", "X-Access-Token": sandbox["envd_access_token"]}
    path = f"/v1/sandboxes/{sandbox['sandbox_id']}"
    assert server.raw("GET", f"{path}/metrics", None, headers)[0] == 200
    assert server.raw("GET", path, None, {**headers, "X-API-KEY": "wrong"})[0] == 401


def test_who_has_no_token_reaches_no_sandbox(server, sandbox):
    token = sandbox["envd_access_token"]
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    for headers, expected in (({}, 400), ({"X-Access-Token": wrong}, 401), ({"X-Access-Token": "x"}, 400)):
        for path in ("/sandboxagent.Process/List", "/sandboxagent.Filesystem/Stat",
                     "/sandboxagent.ContextService/CreateContext", "/sandboxagent.ExecutionService/Execute"):
            status, _, body = server.raw("POST", path, "{}", {"Content-Type": "application/json", **headers})
            assert status == expected, (path, headers, body)
        assert server.raw("GET", "/download/home/user/a", None, headers)[0] == 401
        assert server.raw("POST", "/upload?path=/home/user/a", "x", {"Content-Type": "application/octet-stream", **headers})[0] == 401


@pytest.mark.parametrize("body", ["{", "[]", "7", "{\"template\":7}", "{\"timeout\":\"x\"}", "{\"timeout\":-1}",
                                  "{\"env_vars\":[]}", "{\"metadata\":{\"a\":1}}", "\xff", "{\"cpu_count\":64}"])
def test_a_garbage_body_is_refused(server, body):
    status, _, told = server.raw("POST", "/v1/sandboxes", body.encode("latin-1"), {"X-API-KEY": server.e2b})
    told = json.loads(told)
    assert (status, told["success"], told["code"]) == (400, False, 400) and told["message"], told


def test_an_unknown_sandbox_or_template_is_not_found(server):
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/connect"), ("POST", "/timeout"), ("POST", "/pause"),
                         ("POST", "/resume"), ("GET", "/metrics")):
        status, _, told = server.control(method, f"/v1/sandboxes/{'0' * 32}{path}", {} if method == "POST" else None)
        assert (status, told["success"]) == (404, False), path
    assert server.control("POST", "/v1/sandboxes", {"template": "none-such"})[0] == 404


def test_what_is_not_here_is_a_501_with_a_sentence(server, sandbox):
    one = f"/v1/sandboxes/{sandbox['sandbox_id']}"
    for method, path in (("GET", "/v1/scalebox-regions"), ("POST", f"{one}/create-template"), ("GET", f"{one}/ports"),
                         ("POST", f"{one}/execute"), ("POST", "/v1/contexts")):
        status, _, told = server.control(method, path, {} if method == "POST" else None)
        assert (status, told["success"]) == (501, False) and len(told["message"]) > 20, path


def test_binary_messages_are_read_and_written(server, sandbox):
    status, headers, body = server.inside(sandbox, "POST", "/sandboxagent.Filesystem/Stat", b"\x0a\x0a/home/user",
                                        **{"Content-Type": "application/proto"})
    assert (status, headers["Content-Type"]) == (200, "application/proto") and b"/home/user" in body
    start = b"\x0a\x18" + b"\x0a\x09/bin/bash" + b"\x12\x02-c" + b"\x12\x07echo hi"
    status, headers, body = server.inside(sandbox, "POST", "/sandboxagent.Process/Start",
                                        struct.pack(">BI", 0, len(start)) + start,
                                        **{"Content-Type": "application/connect+proto"})
    assert (status, headers["Content-Type"]) == (200, "application/connect+proto")
    assert b"hi\n" in body and body.endswith(b"\x02\x00\x00\x00\x02{}"), body


def test_a_client_that_reads_blocks_gets_blocks(server, sandbox):
    start = b"\x0a\x18" + b"\x0a\x09/bin/bash" + b"\x12\x02-c" + b"\x12\x07echo hi"
    body = server.inside(sandbox, "POST", "/sandboxagent.Process/Start", struct.pack(">BI", 0, len(start)) + start,
                       **{"Content-Type": "application/connect+proto", "User-Agent": "python-urllib3/2.8.0"})[2]
    at = 0
    while body[at] == 0:
        length = 5 + struct.unpack(">I", body[at + 1:at + 5])[0]
        assert length % 8192 == 0
        at += length
    assert at >= 3 * 8192 and body[at:] == b"\x02\x00\x00\x00\x02{}"


@pytest.mark.parametrize("body", [b"\xff", b"\x0a\xff", b"\x08\x01", b"\x0b", b"\x0a\x02\xff\xfe"])
def test_garbage_as_a_binary_message_is_refused(server, sandbox, body):
    status, _, told = server.inside(sandbox, "POST", "/sandboxagent.Filesystem/Stat", body,
                                  **{"Content-Type": "application/proto"})
    assert (status, json.loads(told)["code"]) == (400, "invalid_argument")
    status, _, told = server.inside(sandbox, "POST", "/sandboxagent.Process/Start", struct.pack(">BI", 0, len(body)) + body,
                                  **{"Content-Type": "application/connect+proto"})
    assert (status, messages(told)[-1][1]["error"]["code"]) == (200, "invalid_argument")


def test_garbage_as_json_is_refused(server, sandbox):
    for body in ("{", "[]", "\xff", "7"):
        status, _, told = server.inside(sandbox, "POST", "/sandboxagent.ContextService/CreateContext", body.encode("latin-1"),
                                      **{"Content-Type": "application/json"})
        assert (status, json.loads(told)["code"]) == (400, "invalid_argument"), body
    status, _, told = server.inside(sandbox, "POST", "/sandboxagent.ExecutionService/Execute", b"{}",
                                  **{"Content-Type": "text/plain"})
    assert status == 415
    assert server.unary(sandbox, "Process/None", {})[0] == 501
    assert server.unary(sandbox, "ContextService/None", {})[0] == 501


def test_code_is_a_stream_of_events(server, sandbox):
    status, made = server.unary(sandbox, "ContextService/CreateContext", {"language": "python", "cwd": ""})
    assert status == 200 and made["cwd"] == "/home/user"
    status, _, body = server.stream_of(sandbox, "ExecutionService/Execute", {
        "contextId": made["id"], "language": "python", "code": "print(1); import os; os.environ['A']", "envVars": {"A": "b"}})
    told = messages(body)
    assert told[0][1] == {"stdout": {"content": "1\n"}} and told[-1] == (2, {})
    assert told[1][1]["result"]["text"] == "b" and told[1][1]["result"]["isMainResult"] is True
    assert server.unary(sandbox, "ContextService/DestroyContext", {"contextId": made["id"]}) == (200, {"success": True})
    status, told = server.unary(sandbox, "ContextService/DestroyContext", {"contextId": made["id"]})
    assert (status, told["code"]) == (404, "not_found") and "not found" in told["message"]
    body = server.stream_of(sandbox, "ExecutionService/Execute", {"code": "x", "language": "cobol"})[2]
    assert "cobol" in messages(body)[-1][1]["error"]["message"]


def test_users_are_root_and_user_and_no_other(server, sandbox):
    for user, status in (("root", 200), ("user", 200), ("nobody-here", 401)):
        assert server.unary(sandbox, "Filesystem/Stat", {"path": "/home/user"}, Authorization=f"Bearer {user}")[0] == status
    done = messages(server.stream_of(sandbox, "Process/Start", {"process": {"cmd": "/usr/bin/id", "args": ["-un"]}})[2])
    assert base64.b64decode(done[1][1]["event"]["data"]["stdout"]) == b"user\n", "the name gives no power"


def test_an_upload_says_one_file_and_a_download_gives_it_back(server, sandbox):
    sent = form((b"file", b"a/b.txt", b"abc"), (b"path", None, b"a/b.txt"))
    status, _, body = server.inside(sandbox, "POST", "/upload", sent, **{"Content-Type": "multipart/form-data; boundary=x"})
    assert (status, json.loads(body)["path"]) == (200, "/home/user/a/b.txt")
    for path in ("/download/home/user/a/b.txt", "/download/a/b.txt"):
        assert server.inside(sandbox, "GET", path)[::2] == (200, b"abc"), path
    assert server.inside(sandbox, "GET", "/download/etc/passwd")[0] == 404, "paths are below the home folder"
    assert server.inside(sandbox, "GET", "/download/home/user/a")[0] == 400
    assert server.inside(sandbox, "POST", "/upload", b"nonsense", **{"Content-Type": "multipart/form-data; boundary=x"})[0] == 400


def form(*parts):
    """A body of (name, file name or None, content)."""
    text = b""
    for name, filename, content in parts:
        text += b'--x\r\nContent-Disposition: form-data; name="' + name + b'"'
        text += (b'; filename="' + filename + b'"' if filename else b"") + b"\r\n\r\n" + content + b"\r\n"
    return text + b"--x--\r\n"


def test_the_field_path_of_a_form_counts_or_is_an_error(server, sandbox):
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    path, content = (b"path", None, b"/home/user/by-field"), (b"file", b"by-name", b"abc")
    status, _, body = server.inside(sandbox, "POST", "/upload", form(path, content), **kind)
    assert (status, json.loads(body)["path"]) == (200, "/home/user/by-field")
    status, _, body = server.inside(sandbox, "POST", "/upload", form(content, path), **kind)
    assert status == 400 and "send the field first" in json.loads(body)["message"]
    for wrong in (b"a\0b", b"x" * 10000):
        for parts in (((b"path", None, wrong), content), (content, (b"path", None, wrong))):
            assert server.inside(sandbox, "POST", "/upload", form(*parts), **kind)[0] == 400


def test_a_server_in_a_sandbox_has_the_host_name_that_the_packages_make(server):
    status, _, told = server.control("POST", "/v1/sandboxes", {}, Host=f"api.sandbox.test:{server.port}")
    own = told["data"]
    path = f"/v1/sandboxes/{own['sandbox_id']}"
    assert status == 201 and own["sandbox_domain"] == f"{own['sandbox_id']}.sandbox.test:{server.port}"
    content = pathlib.Path(support.__file__).with_name("guest_server.py").read_bytes()
    server.inside(own, "POST", "/upload?path=/home/user/server.py", content, **{"Content-Type": "application/octet-stream"})
    command = "python3 /home/user/server.py 3000 >/tmp/log 2>&1 & until grep -q ready /tmp/log; do :; done"
    server.stream_of(own, "Process/Start", {"process": {"cmd": "/bin/bash", "args": ["-c", command]}})
    for where in ("/", "/upload", "/v1/sandboxes", "/sandboxagent.Process/List"):
        status, _, body = server.raw("GET", where, None, {"Host": f"3000-{own['sandbox_domain']}"})
        assert (status, json.loads(body)["line"][1]) == (200, where), "whatever addresses this door has"
    assert server.control("DELETE", path)[0] == 204


def test_a_signed_upload_is_for_the_path_that_was_signed(server, sandbox):
    def signed(path, operation, asked):
        raw = f"{path}:{operation}:root:{sandbox['envd_access_token']}"
        text = base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode().rstrip("=")
        return f"{asked}username=root&signature=v1_{text.replace('+', '%2B')}"
    kind = {"Content-Type": "application/octet-stream"}
    upload = signed("/home/user/s.txt", "write", "/upload?path=/home/user/s.txt&")
    assert server.raw("POST", upload, b"abc", kind)[0] == 200
    assert server.raw("POST", upload.replace("=/home", "=home", 1), b"abc", kind)[0] == 401, "below the home folder"
    download = signed("/home/user/s.txt", "read", "/download/home/user/s.txt?")
    assert server.raw("GET", download)[::2] == (200, b"abc"), "whose first slash is the address's"


def test_tokens_and_contexts_stay_out_of_the_log(server, sandbox):
    assert sandbox["envd_access_token"] not in server.said()
