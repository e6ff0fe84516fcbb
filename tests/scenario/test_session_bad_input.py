"""Bad input to the daemon: the exact status and code, what is wrong and where, and nothing is done."""
import json
import socket

import pytest

import serve


@pytest.fixture(scope="module")
def lived_in(daemon):
    """A session for questions that change nothing."""
    made = daemon.session(name="lived-in")["id"]
    daemon.exec(made, "sh", "-c", "mkdir /tmp/folder; echo x > /tmp/file; ln -s /etc /tmp/out; "
                "ln -s /etc/passwd /workspace/pw")
    yield made
    daemon.end(made)


def at(session, path=""):
    return f"/v1/sessions/{session}{path}"


# --- sessions ------------------------------------------------------------------------------------


SESSIONS = ["s_00000000000000000000000000000000", "nobody", "s_", "%00", "..", "%2e%2e", "a" * 300,
            "%ff", "*", "'; drop table sessions; --"]


@pytest.mark.parametrize("method, rest, body", [("GET", "", None), ("POST", "/exec", {"argv": ["true"]}),
                                                ("DELETE", "", None), ("GET", "/outputs", None)])
def test_an_unknown_session(daemon, method, rest, body):
    for session in SESSIONS:
        reply = daemon.call(method, at(session if "%" in session else serve.quoted(session), rest), body)
        assert reply.status in (400, 404), reply
        assert reply.error["code"] in ("session_not_found", "not_found", "bad_input"), reply


def test_an_unknown_session_is_said_exactly(daemon):
    error = daemon.refused("GET", at("nobody"), 404, "session_not_found")
    assert "nobody" in error["message"]
    error = daemon.refused("POST", at("nobody", "/exec"), 404, "session_not_found", {"argv": ["true"]})
    done = daemon.bailey("exec", "-s", "nobody", "--", "true")
    assert done.status == 125 and "nobody" in done.stderr


def test_a_name_that_cannot_be(daemon):
    for name in ("", "a" * 300, "with blank", "a/b", "../x", "\u00e4", "\0", "\n", 7, [], True):
        error = daemon.refused("POST", "/v1/sessions", 400, "bad_input", {"name": name})
        assert error["field"] == "name"


BAD_SESSIONS = [
    ({"env": []}, "env"), ({"env": {"A": 1}}, "env.A"), ({"env": {"": "x"}}, "env"),
    ({"env": {"A=B": "x"}}, "env"), ({"env": {"A": "nul\0"}}, "env.A"),
    ({"idle_timeout_s": 0}, "idle_timeout_s"), ({"idle_timeout_s": -1}, "idle_timeout_s"),
    ({"idle_timeout_s": "soon"}, "idle_timeout_s"), ({"max_age_s": 1e9}, "max_age_s"),
    ({"max_age_s": None}, None), ({"datasets": {}}, "datasets"), ({"datasets": [3]}, "datasets[0]"),
    ({"datasets": [{"name": "a", "content": 3}]}, "datasets[0].content"),
    ({"datasets": [{"content": "x"}]}, "datasets[0].name"),
    ({"datasets": [{"name": "a"}]}, "datasets[0]"),
    ({"datasets": [{"name": "a", "content": "x", "path": "/x"}]}, "datasets[0]"),
    ({"datasets": [{"name": "a", "content_base64": "!!"}]}, "datasets[0]"),
    ({"datasets": [{"name": "a" * 300, "content": ""}]}, "datasets[0].name"),
    ({"datasets": [{"name": "", "content": ""}]}, "datasets[0].name"),
    ({"datasets": [{"name": "..", "content": ""}]}, None),
    ({"datasets": [{"name": "a\0b", "content": ""}]}, "datasets[0].name"),
]


def test_wrong_types_and_values_of_a_session(daemon):
    before = daemon.get("/v1/info")["sessions"]
    for body, field in BAD_SESSIONS:
        reply = daemon.call("POST", "/v1/sessions", body)
        if field is None and reply.status == 201:  # may be taken as "not given"
            daemon.end(reply.json()["id"])
            continue
        assert (reply.status, reply.error["code"]) == (400, "bad_input"), (body, reply)
        assert field is None or reply.error["field"].startswith(field), (body, reply)
    assert daemon.get("/v1/info")["sessions"] == before


def test_an_unknown_parameter_is_told_the_nearest(daemon, lived_in):
    error = daemon.refused("POST", "/v1/sessions", 400, "unknown_parameter", {"nmae": "x"})
    assert (error["field"], error["nearest"]) == ("nmae", "name")
    error = daemon.refused("POST", at(lived_in, "/exec"), 400, "unknown_parameter",
                           {"argv": ["true"], "timout": 3})
    assert (error["field"], error["nearest"]) == ("timout", "timeout")
    error = daemon.refused("POST", at(lived_in, "/exec"), 400, "unknown_parameter",
                           {"argv": ["true"], "pty": {"rows": 3, "columns": 3, "colour": 1}})
    assert error["field"] == "pty.colour"
    error = daemon.refused("POST", "/v1/sessions", 400, "unknown_parameter",
                           {"datasets": [{"name": "a", "contents": "x"}]})
    assert (error["field"], error["nearest"]) == ("datasets[0].contents", "content")
    error = daemon.refused("GET", at(lived_in, "/files/list"), 400, "unknown_parameter",
                           query={"path": "/tmp", "dept": 1})
    assert (error["field"], error["nearest"]) == ("dept", "depth")


# --- JSON ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, line, column", [
    ('{"argv": ["true"],}', 1, None), ('{\n  "argv": [1 2]\n}', 2, None), ("{", 1, None),
    ('{"argv": ["a\nb"]}', None, None), ("nonsense", 1, None), ('{"a": 1}{"b": 2}', 1, None),
    ('{"argv": ["\\ud800"]}', None, None), ('{"name": "x", "name": "y"}', None, None),
    ("[" * 100000, None, None), ('{"argv": ' + "[" * 70 + "]" * 70 + "}", None, None),
])
def test_bad_json_has_a_position(daemon, lived_in, text, line, column):
    reply = daemon.call("POST", at(lived_in, "/exec"), text)
    assert (reply.status, reply.error["code"]) == (400, "bad_json"), reply
    assert reply.error["line"] >= 1 and reply.error["column"] >= 1, reply
    assert line is None or reply.error["line"] == line, reply


def test_json_that_is_not_utf_8(daemon, lived_in):
    reply = daemon.call("POST", at(lived_in, "/exec"), b'{"argv": ["\xff\xfe"]}')
    assert (reply.status, reply.error["code"]) == (400, "bad_json"), reply


def test_json_that_is_no_object(daemon, lived_in):
    for text in ("[]", "3", '"x"', "null", "true"):
        daemon.refused("POST", at(lived_in, "/exec"), 400, "bad_input", text)


def test_no_body_at_all(daemon, lived_in):
    reply = daemon.call("POST", at(lived_in, "/exec"))
    assert reply.status == 400 and reply.error["code"] in ("bad_json", "bad_input"), reply


BAD_COMMANDS = [
    ({}, "argv"), ({"argv": "true"}, "argv"), ({"argv": []}, "argv"), ({"argv": ["a", 1]}, "argv[1]"),
    ({"argv": ["a", "b", None]}, "argv[2]"), ({"argv": [""]}, "argv[0]"), ({"argv": ["a\0b"]}, "argv[0]"),
    ({"argv": ["true"], "cwd": 3}, "cwd"), ({"argv": ["true"], "cwd": ""}, "cwd"),
    ({"argv": ["true"], "timeout": "1"}, "timeout"), ({"argv": ["true"], "timeout": -1}, "timeout"),
    ({"argv": ["true"], "timeout": 1e12}, "timeout"), ({"argv": ["true"], "background": 1}, "background"),
    ({"argv": ["true"], "stdin": 5}, "stdin"), ({"argv": ["true"], "env": {"A": None}}, "env.A"),
    ({"argv": ["true"], "pty": True}, "pty"), ({"argv": ["true"], "pty": {"rows": 0, "columns": 1}},
                                               "pty.rows"),
    ({"argv": ["true"], "pty": {"rows": 1, "columns": 10**6}}, "pty.columns"),
    ({"argv": ["true"], "collect": "yes"}, "collect"),
]


def test_wrong_types_have_the_path_of_the_field(daemon, lived_in):
    before = daemon.get(at(lived_in))["executions"]
    for body, field in BAD_COMMANDS:
        error = daemon.refused("POST", at(lived_in, "/exec"), 400, "bad_input", body)
        assert error["field"] == field, (body, error)
    assert daemon.get(at(lived_in))["executions"] == before


# --- addresses -----------------------------------------------------------------------------------


def test_an_unknown_address(daemon):
    for path in ("/", "/v1", "/v2/sessions", "/v1/sessions/", "/v1/sessions/x/nothing", "/v1/tool",
                 "/v1/../etc/passwd", "//v1/info", "/v1/info/x"):
        daemon.refused("GET", path, 404, "not_found")


def test_a_method_that_is_not_allowed(daemon):
    for method, path in (("POST", "/healthz"), ("DELETE", "/v1/info"), ("PUT", "/v1/tools"),
                         ("PATCH", "/v1/sessions"), ("GET", "/v1/run"), ("PUT", "/v1/run")):
        reply = daemon.call(method, path)
        assert (reply.status, reply.error["code"]) == (405, "method_not_allowed"), reply
        assert reply.headers["Allow"]


def test_a_target_and_headers_that_are_too_long(daemon):
    reply = daemon.call("GET", "/v1/sessions/" + "a" * 100000)
    assert (reply.status, reply.error["code"]) in ((414, "too_large"), (431, "too_large")), reply
    reply = daemon.call("GET", "/v1/info", headers={"X-Long": "a" * 100000})
    assert (reply.status, reply.error["code"]) == (431, "too_large"), reply
    # More than a connection has room for: libmicrohttpd says it, in its own words.
    assert daemon.call("GET", "/v1/sessions/" + "a" * 200000).status in (414, 431)
    assert daemon.call("GET", "/v1/info", headers={"X-Long": "a" * 200000}).status == 431


def test_a_body_that_is_too_large(daemon, lived_in):
    body = json.dumps({"argv": ["true"], "stdin": "x" * (80 << 20)})
    try:
        reply = daemon.call("POST", at(lived_in, "/exec"), body)
    except (BrokenPipeError, ConnectionResetError):
        return  # it was not read to its end, which is as good
    assert (reply.status, reply.error["code"]) == (413, "too_large"), reply


@pytest.mark.parametrize("raw", [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                                 b"GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                                 b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                                 b"\r\nZZZ\r\n"])
def test_bytes_that_are_no_http(daemon, raw):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(daemon.socket))
        client.sendall(raw)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    assert daemon.get("/healthz") == {"status": "ok"}


# --- paths ---------------------------------------------------------------------------------------

READS = [("GET", "/files"), ("GET", "/files/stat"), ("GET", "/files/list"), ("DELETE", "/files"),
         ("PUT", "/files"), ("GET", "/files/watch")]


@pytest.mark.parametrize("method, rest", READS)
def test_a_path_outside(daemon, lived_in, method, rest):
    for path in ("", "relative", "/etc/passwd", "/tmpx", "/tmp/../etc/passwd", "/", "/proc/self/environ",
                 "/home/other/x", "/dev/shm/../../etc", "/workspace/../../x", "/tmp/" + "a" * 4200):
        reply = daemon.call(method, at(lived_in, rest), b"x" if method == "PUT" else None,
                            query={"path": path})
        assert (reply.status, reply.error["code"]) == (400, "path_invalid"), (path, reply)


@pytest.mark.parametrize("method, rest", READS)
def test_a_path_with_a_nul(daemon, lived_in, method, rest):
    reply = daemon.call(method, at(lived_in, rest) + "?path=/tmp/a%00b", b"x" if method == "PUT" else None)
    assert (reply.status, reply.error["code"]) in ((400, "path_invalid"), (400, "bad_input")), reply


@pytest.mark.parametrize("method, rest", READS)
def test_no_path_at_all(daemon, lived_in, method, rest):
    error = daemon.refused(method, at(lived_in, rest), 400, "bad_input", b"x" if method == "PUT" else None)
    assert error["field"] == "path"


@pytest.mark.parametrize("path", ["/tmp/out/passwd", "/workspace/pw"])
def test_a_link_that_leads_out(daemon, lived_in, path):
    daemon.refused("GET", at(lived_in, "/files"), 403, "path_refused", query={"path": path})


def test_a_path_that_is_a_folder_or_is_not(daemon, lived_in):
    daemon.refused("GET", at(lived_in, "/files"), 409, "path_is_folder", query={"path": "/tmp/folder"})
    daemon.refused("PUT", at(lived_in, "/files"), 409, "path_is_folder", b"x", query={"path": "/tmp/folder"})
    daemon.refused("GET", at(lived_in, "/files/list"), 409, "path_not_folder", query={"path": "/tmp/file"})
    daemon.refused("GET", at(lived_in, "/files"), 409, "path_not_folder", query={"path": "/tmp/file/x"})
    daemon.refused("GET", at(lived_in, "/files"), 404, "path_not_found", query={"path": "/tmp/none"})
    for tool, body in (("sandbox_write_file", {"content": "x"}),
                       ("sandbox_edit_file", {"old_string": "a", "new_string": "b"})):
        reply = daemon.post(f"/v1/tools/{tool}", {"file_path": "/tmp/folder", **body}, session=lived_in)
        assert (reply["success"], reply["code"]) == (False, "path_is_folder"), reply
    reply = daemon.post("/v1/tools/sandbox_edit_file", {
        "file_path": "/tmp/none", "old_string": "a", "new_string": "b"}, session=lived_in)
    assert (reply["success"], reply["code"]) == (False, "path_not_found"), reply


@pytest.mark.parametrize("query, field", [({"offset": "x"}, "offset"), ({"offset": -1}, "offset"),
                                          ({"length": "1k"}, "length"), ({"mode": "9999"}, "mode"),
                                          ({"mode": "rwx"}, "mode"), ({"new": "maybe"}, "new")])
def test_wrong_arguments_of_an_address(daemon, lived_in, query, field):
    method = "PUT" if field in ("mode", "new") else "GET"
    error = daemon.refused(method, at(lived_in, "/files"), 400, "bad_input", b"x" if method == "PUT" else None,
                           query={"path": "/tmp/file", **query})
    assert error["field"] == field


# --- executions ----------------------------------------------------------------------------------


def test_an_unknown_execution(daemon, lived_in):
    for name in ("999", f"{lived_in}.999", "x", "-1", "0", "1e3", "99999999999999999999"):
        for rest in ("", "/output", "/events"):
            daemon.refused("GET", at(lived_in, f"/processes/{name}{rest}"), 404, "execution_not_found")
        daemon.refused("POST", at(lived_in, f"/processes/{name}/signal"), 404, "execution_not_found",
                       {"signal": "TERM"})


def test_what_a_process_that_ended_cannot_do(daemon, lived_in):
    execution = daemon.exec(lived_in, "true")["meta"]["execution_id"]
    process = at(lived_in, f"/processes/{execution}")
    daemon.refused("POST", process + "/stdin", 409, "execution_ended", b"x")
    daemon.refused("POST", process + "/signal", 409, "execution_ended", {"signal": "TERM"})
    reply = daemon.call("POST", process + "/resize", {"rows": 5, "columns": 5})
    assert reply.status == 409 and reply.error["code"] in ("execution_ended", "not_a_terminal"), reply


def test_a_signal_that_is_none(daemon, session):
    begun = daemon.background(session, "sleep", "1000")
    for body in ({"signal": "NOPE"}, {"signal": 0}, {"signal": 65}, {"signal": -9}, {}, {"signal": []},
                 {"signal": 9.5}):
        error = daemon.refused("POST", at(session, f"/processes/{begun['execution_id']}/signal"), 400,
                               "bad_input", body)
        assert error["field"] == "signal", error


def test_input_for_a_command_that_reads_none(daemon, session):
    begun = daemon.background(session, "sleep", "1000")
    reply = daemon.call("POST", at(session, f"/processes/{begun['execution_id']}/stdin"), b"x")
    assert reply.status in (400, 409), reply


# --- tools ---------------------------------------------------------------------------------------


def test_an_unknown_tool_is_told_the_nearest(daemon, lived_in):
    error = daemon.refused("POST", "/v1/tools/sandbox_exce", 404, "unknown_tool", {}, query={
        "session": lived_in})
    assert error["nearest"] == "sandbox_exec"
    done = daemon.bailey("tool", "sandbox_exce", "{}", "-s", lived_in)
    assert done.status == 125 and "sandbox_exec" in done.stderr, done


@pytest.mark.parametrize("tool, body, code, field", [
    ("sandbox_exec", {}, "bad_input", "command"), ("sandbox_exec", {"command": "ls"}, "bad_input", "command"),
    ("sandbox_exec", {"command": []}, "bad_input", "command"),
    ("sandbox_exec", {"command": ["ls", 3]}, "bad_input", "command[1]"),
    ("sandbox_exec", {"comand": ["ls"]}, "unknown_parameter", "comand"),
    ("sandbox_exec", {"command": ["ls"], "timeout": "5"}, "bad_input", "timeout"),
    ("sandbox_write_file", {"file_path": "/tmp/a"}, "bad_input", "content"),
    ("sandbox_write_file", {"file_path": 3, "content": ""}, "bad_input", "file_path"),
    ("sandbox_edit_file", {"file_path": "/tmp/file", "old_string": "", "new_string": "x"}, "bad_input",
     None),
    ("sandbox_wait", {"execution_id": 5}, "bad_input", "execution_id"),
    ("sandbox_wait", {"execution_id": "nope"}, "execution_not_found", None),
    ("run_code", {"code": "x", "language": "cobol"}, None, "language"),
    ("run_python_code", {"code": 3}, "bad_input", "code"),
])
def test_errors_of_a_tool_are_results(daemon, lived_in, tool, body, code, field):
    reply = daemon.post(f"/v1/tools/{tool}", body, session=lived_in)
    assert reply["success"] is False and reply["error"] and reply["hint"], reply
    assert code is None or reply["code"] == code, reply
    assert field is None or reply["field"] == field, reply


def test_an_envelope_for_another_tool(daemon, lived_in):
    reply = daemon.call("POST", "/v1/tools/sandbox_exec", {"tool": "run_code", "parameters": {}},
                        query={"session": lived_in})
    assert reply.status == 400 or reply.json()["success"] is False, reply


def test_the_codes_are_in_the_document(daemon):
    done = daemon.bailey("openapi")
    assert done.status == 0, done
    text = done.stdout
    for code in ("bad_json bad_input unknown_parameter path_invalid path_refused read_only not_found "
                 "session_not_found execution_not_found path_not_found unknown_tool method_not_allowed "
                 "session_ambiguous name_taken dataset_taken execution_ended not_a_terminal path_exists "
                 "path_is_folder path_not_folder folder_not_empty command_not_found not_executable "
                 "no_interpreter blocked_import cancelled session_ended too_large offset_gone "
                 "too_many_sessions box_failed box_lost engine refused shutting_down disk_full").split():
        assert f'"{code}"' in text, code


# --- one-shot runs -------------------------------------------------------------------------------


def test_a_one_shot_run(daemon):
    result = daemon.post("/v1/run", {"code": "import os; print(os.environ['A'], input())",
                                     "env": {"A": "b"}, "stdin": "in\n"})
    assert (result["stdout"], result["exit_code"], result["meta"]["session_id"]) == ("b in\n", 0, None)
    bash = daemon.post("/v1/run", {"code": "exit 3", "language": "bash"})
    assert bash["exit_code"] == 3


@pytest.mark.parametrize("body, field", [({}, "code"), ({"code": ""}, "code"), ({"code": 1}, "code"),
                                         ({"code": "1", "timeout": 0}, "timeout"),
                                         ({"code": "1", "timeout": 10**6}, "timeout"),
                                         ({"code": "1", "env": 3}, "env")])
def test_bad_one_shot_runs(daemon, body, field):
    error = daemon.refused("POST", "/v1/run", 400, "bad_input", body)
    assert error["field"] == field
