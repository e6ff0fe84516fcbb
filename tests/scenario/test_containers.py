"""Containers and files in OpenAI's shapes: life, files both ways, pages, errors, tenants, faults."""
import http.client
import json
import os
import signal
import socket

import pytest

import serve
import support
import tenants

ERROR = {"message", "type", "param", "code"}


def form(*parts, boundary="xBOUNDARYx"):
    """A multipart body: (name, value) or (name, filename, bytes); with its Content-Type."""
    body = b""
    for part in parts:
        head = f'form-data; name="{part[0]}"' + (f'; filename="{part[1]}"' if len(part) == 3 else "")
        data = part[-1] if isinstance(part[-1], bytes) else part[-1].encode()
        body += f"--{boundary}\r\nContent-Disposition: {head}\r\n\r\n".encode() + data + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def send(daemon, method, path, body=None, content_type=None):
    """One request with a body of bytes; the reply."""
    headers = {"Content-Type": content_type} if content_type else {}
    if isinstance(body, dict):
        body, headers["Content-Type"] = json.dumps(body), "application/json"
    connection = daemon.connect()
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return serve.Reply(reply.status, reply.headers, reply.read())
    finally:
        connection.close()


def good(reply):
    assert reply.status == 200, reply
    return reply.json()


def refused(reply, status, param=None):
    """An error in OpenAI's shape: all four members, always."""
    assert reply.status == status, reply
    whole = reply.json()
    assert list(whole) == ["error"] and set(whole["error"]) == ERROR, whole
    assert whole["error"]["param"] == param, whole
    return whole["error"]


def upload(daemon, name, data, purpose="user_data", **more):
    return send(daemon, "POST", "/v1/files", *form(("purpose", purpose), *more.items(), ("file", name, data)))


def container(daemon, **members):
    return good(send(daemon, "POST", "/v1/containers", {"name": "c", **members}))


def put(daemon, made, name, data):
    return send(daemon, "POST", f"/v1/containers/{made['id']}/files", *form(("file", name, data)))


def session_of(daemon, made):
    """The session of the newest container; the only one that lives is enough here."""
    ids = [s["id"] for s in daemon.get("/v1/sessions")["sessions"] if s["id"] not in session_of.known]
    assert len(ids) == 1, (made, ids)
    session_of.known.add(ids[0])
    return ids[0]


session_of.known = set()


def files_folder(daemon):
    return [n for n in os.listdir(daemon.state / "data" / ".files")] if (daemon.state / "data" / ".files").exists() else []


@pytest.fixture(scope="module")
def daemon():
    with serve.Daemon() as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_stays(request):
    """Sessions of a test end with it: session_of() looks for the one that lives."""
    yield
    session_of.known = set()
    for name in {"daemon", "server"} & set(request.fixturenames):
        running = request.getfixturevalue(name)
        for one in running.get("/v1/sessions")["sessions"]:
            running.end(one["id"])


# --- containers ----------------------------------------------------------------------------------


def test_a_container_has_openais_members(daemon):
    made = container(daemon, memory_limit="1g", network_policy={"type": "disabled"},
                     expires_after={"anchor": "last_active_at", "minutes": 5})
    assert made["id"].startswith("cntr_") and made["object"] == "container" and made["name"] == "c"
    assert made["status"] == "running" and made["memory_limit"] == "1g"
    assert made["expires_after"] == {"anchor": "last_active_at", "minutes": 5}
    assert made["network_policy"] == {"type": "disabled"}
    assert isinstance(made["created_at"], int) and made["last_active_at"] >= made["created_at"]
    plain = container(daemon)
    assert plain["memory_limit"] is None and plain["network_policy"] is None
    assert plain["expires_after"]["minutes"] == 20
    assert good(send(daemon, "GET", f"/v1/containers/{made['id']}"))["id"] == made["id"]
    gone = good(send(daemon, "DELETE", f"/v1/containers/{made['id']}"))
    assert gone == {"id": made["id"], "object": "container.deleted", "deleted": True}
    assert refused(send(daemon, "GET", f"/v1/containers/{made['id']}"), 404)["code"] == "container_not_found"


@pytest.mark.parametrize("members, param", [
    ({"file_ids": {}}, "file_ids"),
    ({"memory_limit": "64g"}, "memory_limit"),
    ({"memory_limit": "2g"}, "memory_limit"),
    ({"network_policy": {"type": "allowlist", "allowed_domains": ["example.org"]}}, "network_policy"),
    ({"network_policy": {"type": "open"}}, "network_policy"),
    ({"expires_after": {"anchor": "created_at", "minutes": 5}}, "expires_after.anchor"),
    ({"expires_after": {"anchor": "last_active_at", "minutes": 0}}, "expires_after.minutes"),
    ({"file_ids": ["file-1"]}, "file_ids"),
    ({"name": ""}, "name"),
    ({"unknown": 1}, "unknown"),
])
def test_what_a_container_cannot_be_is_an_error_that_names_the_member(daemon, members, param):
    before = len(daemon.get("/v1/sessions")["sessions"])
    reply = send(daemon, "POST", "/v1/containers", {"name": "c", **members})
    refused(reply, 404 if members == {"file_ids": ["file-1"]} else 400, param)
    assert len(daemon.get("/v1/sessions")["sessions"]) == before


def test_mnt_data_is_the_containers_folder_and_code_sees_uploads(daemon):
    made = container(daemon)
    one = good(put(daemon, made, "sales data.csv", b"a,b\n1,2\n"))
    assert one["path"] == "/mnt/data/sales data.csv" and one["source"] == "user" and one["bytes"] == 8
    assert one["id"].startswith("cfile_") and one["container_id"] == made["id"]
    session = session_of(daemon, made)
    run = daemon.python(session, "print(open('/mnt/data/sales data.csv').read(), end='')\n"
                        "open('/mnt/data/plot.txt', 'w').write('drawn')\n"
                        "import os; os.makedirs('/mnt/data/.cache'); open('/mnt/data/.cache/x', 'w')\n"
                        "open('/tmp/output/table.csv', 'w').write('t')")
    assert run["stdout"] == "a,b\n1,2\n", run
    listed = good(send(daemon, "GET", f"/v1/containers/{made['id']}/files?order=asc"))
    found = {f["path"]: f for f in listed["data"]}
    assert set(found) == {"/mnt/data/sales data.csv", "/mnt/data/plot.txt", "/tmp/output/table.csv"}
    assert found["/mnt/data/sales data.csv"] == one
    assert found["/mnt/data/plot.txt"]["source"] == "assistant"
    plot = found["/mnt/data/plot.txt"]["id"]
    assert send(daemon, "GET", f"/v1/containers/{made['id']}/files/{plot}/content").body == b"drawn"
    assert good(send(daemon, "GET", f"/v1/containers/{made['id']}/files/{plot}"))["bytes"] == 5
    daemon.python(session, "import os; open('/mnt/data/plot.txt', 'a').write('!')\nos.remove('/tmp/output/table.csv')")
    again = {f["path"]: f for f in good(send(daemon, "GET", f"/v1/containers/{made['id']}/files"))["data"]}
    assert again["/mnt/data/plot.txt"]["id"] == plot and again["/mnt/data/plot.txt"]["bytes"] == 6
    assert "/tmp/output/table.csv" not in again
    gone = good(send(daemon, "DELETE", f"/v1/containers/{made['id']}/files/{plot}"))
    assert gone == {"id": plot, "object": "container.file.deleted", "deleted": True}
    assert refused(send(daemon, "GET", f"/v1/containers/{made['id']}/files/{plot}"), 404)["code"] == "file_not_found"
    assert "plot.txt" not in daemon.python(session, "import os; print(os.listdir('/mnt/data'))")["stdout"]


def test_uploaded_files_are_copied_into_a_container(daemon):
    big = os.urandom(3 << 20)
    ids = [good(upload(daemon, "x.bin", big))["id"], good(upload(daemon, "x.bin", b"two"))["id"]]
    made = container(daemon, file_ids=ids)
    listed = good(send(daemon, "GET", f"/v1/containers/{made['id']}/files?order=asc"))["data"]
    assert [f["path"] for f in listed] == ["/mnt/data/x.bin", "/mnt/data/2_x.bin"]
    assert send(daemon, "GET", f"/v1/containers/{made['id']}/files/{listed[0]['id']}/content").body == big
    third = good(send(daemon, "POST", f"/v1/containers/{made['id']}/files", {"file_id": ids[1]}))
    assert third["path"] == "/mnt/data/x.bin" and third["id"] == listed[0]["id"] and third["bytes"] == 3
    by_form = send(daemon, "POST", f"/v1/containers/{made['id']}/files", *form(("file_id", ids[0])))
    assert good(by_form)["bytes"] == len(big)


def test_lists_come_in_pages(daemon):
    made = container(daemon)
    ids = [good(put(daemon, made, f"{i}.txt", b"x"))["id"] for i in range(5)]
    first = good(send(daemon, "GET", f"/v1/containers/{made['id']}/files?limit=2&order=asc"))
    assert first["object"] == "list" and [f["id"] for f in first["data"]] == ids[:2] and first["has_more"]
    assert first["first_id"] == ids[0] and first["last_id"] == ids[1]
    rest = good(send(daemon, "GET", f"/v1/containers/{made['id']}/files?order=asc&after={first['last_id']}"))
    assert [f["id"] for f in rest["data"]] == ids[2:] and not rest["has_more"]
    newest = good(send(daemon, "GET", f"/v1/containers/{made['id']}/files?limit=1"))
    assert newest["data"][0]["id"] == ids[4]
    named = container(daemon, name="of its own name")
    only = good(send(daemon, "GET", "/v1/containers?name=of%20its%20own%20name"))
    assert [c["id"] for c in only["data"]] == [named["id"]]
    refused(send(daemon, "GET", "/v1/containers?after=cntr_0"), 400, "after")
    refused(send(daemon, "GET", "/v1/containers?limit=0"), 400, "limit")
    empty = good(send(daemon, "GET", "/v1/files?purpose=evals"))
    assert empty == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


# --- uploaded files ------------------------------------------------------------------------------


def test_a_file_is_uploaded_listed_read_and_deleted(daemon):
    data = os.urandom(300_000) + b"\r\n--xBOUNDARY-almost"
    made = good(upload(daemon, "q3/räport.csv", data))
    assert made["id"].startswith("file-") and made["object"] == "file" and made["bytes"] == len(data)
    assert made["filename"] == "räport.csv" and made["purpose"] == "user_data" and made["status"] == "processed"
    assert good(send(daemon, "GET", f"/v1/files/{made['id']}")) == made
    assert made in good(send(daemon, "GET", "/v1/files"))["data"]
    whole = send(daemon, "GET", f"/v1/files/{made['id']}/content")
    assert whole.status == 200 and whole.body == data
    assert "attachment" in whole.headers["Content-Disposition"]
    assert good(send(daemon, "DELETE", f"/v1/files/{made['id']}")) == {
        "id": made["id"], "object": "file", "deleted": True}
    refused(send(daemon, "GET", f"/v1/files/{made['id']}"), 404)
    assert made["id"] not in files_folder(daemon)
    soon = good(upload(daemon, "a", b"", **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}))
    assert soon["expires_at"] - soon["created_at"] in (3599, 3600, 3601) and soon["bytes"] == 0


@pytest.mark.parametrize("body, param", [
    (form(("purpose", "user_data")), "file"),
    (form(("file", "a.txt", b"x")), "purpose"),
    (form(("purpose", "cooking"), ("file", "a.txt", b"x")), "purpose"),
    (form(("purpose", "user_data"), ("file", "..", b"x")), None),
    (form(("purpose", "user_data"), ("file", "a", b"x"), ("file", "b", b"x")), None),
    (form(("purpose", "user_data"), ("other", "a", b"x")), None),
    (form(("purpose", "user_data"), ("expires_after[seconds]", "1"), ("file", "a", b"x")), "expires_after"),
    ((form(("purpose", "user_data"), ("file", "a", b"x"))[0][:-6], "multipart/form-data; boundary=xBOUNDARYx"), None),
    ((b"no multipart at all", "multipart/form-data; boundary=x"), None),
    ((b"x", "multipart/form-data"), None),
    ((b"x", "multipart/form-data; boundary="), None),
    (form(("purpose", "user_data"), ("file", "a/" * 600 + "b", b"x")), None),
    ((b"--x\r\n\r\nno name\r\n--x--\r\n", "multipart/form-data; boundary=x"), None),
    ((b"--x\r\nX: " + b"h" * 20000, "multipart/form-data; boundary=x"), None),
])
def test_a_bad_form_is_an_error_and_leaves_nothing(daemon, body, param):
    before = sorted(files_folder(daemon))
    reply = send(daemon, "POST", "/v1/files", *body)
    refused(reply, 413 if reply.status == 413 else 400, param)
    assert sorted(files_folder(daemon)) == before
    assert refused(send(daemon, "POST", "/v1/files", {"purpose": "user_data"}), 415)


@pytest.mark.parametrize("parts", [
    [(f"field{i}", "x") for i in range(65)],
    [("purpose", "x" * 20_000)],
    [("x" * 20_000, "user_data")],
], ids=["parts", "a field", "a head"])
def test_forms_with_too_much_are_refused(daemon, parts):
    refused(send(daemon, "POST", "/v1/files", *form(*parts)), 413)


def test_an_upload_that_is_cut_off_leaves_nothing(daemon):
    before = sorted(files_folder(daemon))
    body, kind = form(("purpose", "user_data"), ("file", "cut.bin", b"x" * 500_000))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(daemon.socket))
        client.sendall(f"POST /v1/files HTTP/1.1\r\nHost: b\r\nContent-Type: {kind}\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:400_000])
        support.wait_until(lambda: len(files_folder(daemon)) == len(before) + 1, "the upload began")
    support.wait_until(lambda: sorted(files_folder(daemon)) == before, "its bytes are gone")


# --- life ----------------------------------------------------------------------------------------


def test_an_expired_container_is_still_shown_and_nothing_else(daemon):
    made = container(daemon)
    good(put(daemon, made, "a.txt", b"x"))
    daemon.bailey("session", "rm", session_of(daemon, made))
    shown = good(send(daemon, "GET", f"/v1/containers/{made['id']}"))
    assert shown["status"] == "expired" and shown["name"] == "c"
    assert made["id"] in [c["id"] for c in good(send(daemon, "GET", "/v1/containers?limit=100"))["data"]]
    for reply in (send(daemon, "GET", f"/v1/containers/{made['id']}/files"), put(daemon, made, "b.txt", b"x")):
        assert refused(reply, 404)["code"] == "container_expired"


def test_containers_and_files_survive_a_killed_broker():
    with serve.Daemon() as daemon:
        made = container(daemon)
        one = good(put(daemon, made, "kept.txt", b"kept"))
        stored = good(upload(daemon, "stored.txt", b"stored"))
        strays = daemon.state / "data" / ".files"
        (strays / ".part-77").write_bytes(b"an upload when the broker died")
        (strays / ("file-" + "0" * 32)).write_bytes(b"without a row")
        broker = json.loads(daemon.bailey("daemon", "status", "--json").stdout)["broker_pid"]
        os.kill(broker, signal.SIGKILL)
        support.wait_until(lambda: is_up(daemon, broker), "another broker is there")
        assert good(send(daemon, "GET", f"/v1/containers/{made['id']}"))["status"] == "running"
        listed = good(send(daemon, "GET", f"/v1/containers/{made['id']}/files"))["data"]
        assert [f["id"] for f in listed] == [one["id"]]
        assert send(daemon, "GET", f"/v1/containers/{made['id']}/files/{one['id']}/content").body == b"kept"
        assert send(daemon, "GET", f"/v1/files/{stored['id']}/content").body == b"stored"
        assert not (strays / ".part-77").exists() and not (strays / ("file-" + "0" * 32)).exists()


def is_up(daemon, before):
    try:
        return json.loads(daemon.bailey("daemon", "status", "--json").stdout)["broker_pid"] != before
    except (OSError, http.client.HTTPException, KeyError, ValueError):
        return False


# --- tenants, quotas, full disks -------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with tenants.Server({"SANDBOX_QUOTA_DISK": "48m", "SANDBOX_MEMORY_LIMIT": "64m"}) as running:
        yield running


def test_tenants_never_see_each_others_containers_and_files(server):
    mine, other = server.caller("mine"), server.caller("other")
    made = container(mine)
    file = good(upload(mine, "a.txt", b"secret"))
    for method, path in [("GET", f"/v1/containers/{made['id']}"), ("DELETE", f"/v1/containers/{made['id']}"),
                         ("GET", f"/v1/containers/{made['id']}/files"), ("GET", f"/v1/files/{file['id']}"),
                         ("GET", f"/v1/files/{file['id']}/content"), ("DELETE", f"/v1/files/{file['id']}")]:
        refused(send(other, method, path), 404)
    refused(send(other, "POST", "/v1/containers", {"name": "n", "file_ids": [file["id"]]}), 404, "file_ids")
    refused(put(other, made, "x", b"x"), 404)
    assert good(send(other, "GET", "/v1/containers"))["data"] == []
    assert good(send(other, "GET", "/v1/files"))["data"] == []
    assert send(mine, "GET", f"/v1/files/{file['id']}/content").body == b"secret"


def test_scopes_are_needed(server):
    assert refused(send(server.caller("s1", ["files"]), "POST", "/v1/containers", {"name": "n"}), 403)
    assert refused(send(server.caller("s2", ["sessions"]), "GET", "/v1/files"), 403)
    assert refused(send(server.anybody(), "GET", "/v1/files"), 401)


def test_uploads_count_in_the_disk_quota(server):
    caller = server.caller("quota")
    first = good(upload(caller, "a", b"x" * (30 << 20)))
    why = refused(upload(caller, "b", b"x" * (20 << 20)), 429)
    assert why["code"] == "quota_exceeded" and why["type"] == "too_many_requests"
    good(send(caller, "DELETE", f"/v1/files/{first['id']}"))
    good(upload(caller, "b", b"x" * (20 << 20)))


def test_a_full_container_says_so(server):
    caller = server.caller("full")
    made = container(caller)
    why = refused(put(caller, made, "a", b"x" * (40 << 20)), 507)
    assert why["code"] == "disk_full" and why["type"] == "server_error", why
    assert good(send(caller, "GET", f"/v1/containers/{made['id']}/files"))["data"] == []
    good(put(caller, made, "b", b"x" * (1 << 20)))
    stored = good(upload(caller, "big", b"x" * (40 << 20)))
    before = good(send(caller, "GET", "/v1/containers?limit=100"))["data"]
    refused(send(caller, "POST", "/v1/containers", {"name": "n", "file_ids": [stored["id"]]}), 507, "file_ids")
    assert good(send(caller, "GET", "/v1/containers?limit=100"))["data"] == before
