"""Servers in sandboxes of E2B's clients: by the host that get_host() gives, and by E2B's headers."""
import base64
import json
import pathlib

import pytest
import support
from test_e2b_wire import Server

pytestmark = pytest.mark.needs_namespaces

SERVER = pathlib.Path(support.__file__).with_name("guest_server.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


def serving(server, **body):
    sandbox = server.sandbox(**body)
    sandbox.call("POST", "/files?path=/home/user/server.py", SERVER.encode(),
                 **{"Content-Type": "application/octet-stream"})
    with sandbox.start("python3 /home/user/server.py 3000 >/tmp/log 2>&1 & until grep -q ready /tmp/log; do :; done") as stream:
        assert list(stream)[-1] == (2, {})
    return sandbox


@pytest.fixture(scope="module")
def sandbox(server):
    made = serving(server)
    yield made
    server.control("DELETE", f"/sandboxes/{made.id}")


def by_host(server, sandbox, method, path, body=None, port=3000, **headers):
    host = {"Host": f"{port}-{sandbox.id}.localhost:{server.port}"}
    return server.raw(method, path, body, {**host, **headers})


def test_a_host_label_is_an_origin_of_the_guests_own(server, sandbox):
    status, headers, body = by_host(server, sandbox, "POST", "/execute?a=b", b"x", Cookie="mine=1",
                                    Authorization="Bearer of-the-guest", Referer="http://elsewhere/")
    seen = json.loads(body)
    assert status == 200 and seen["line"][:2] == ["POST", "/execute?a=b"], "whatever addresses other doors have"
    named = dict(seen["headers"])
    assert named["Host"] == f"3000-{sandbox.id}.localhost:{server.port}"
    assert (named["Cookie"], named["Authorization"]) == ("mine=1", "Bearer of-the-guest")
    assert headers.get_all("Set-Cookie") == ["guest=1"], "none for a domain, which has other sandboxes"
    assert "Content-Security-Policy" not in headers and "Alt-Svc" not in headers
    assert json.loads(by_host(server, sandbox, "GET", "/")[2])["line"][1] == "/"


def test_a_key_is_not_relayed_by_a_host_label_either(server, sandbox):
    basic = base64.b64encode(f"user:{server.e2b}".encode()).decode()
    for headers in ({"Authorization": f"Bearer {server.e2b}"}, {"X-API-KEY": server.e2b}, {"Cookie": f"k={server.e2b}"},
                    {"Authorization": f"Basic {basic}"}, {"X-Access-Token": sandbox.token}):
        status, _, body = by_host(server, sandbox, "GET", f"/echo?key={server.e2b}", **headers)
        text = body.decode()
        assert status == 200 and server.e2b[20:] not in text and basic not in text and sandbox.token not in text, headers


def test_the_headers_choose_the_port_too(server, sandbox):
    status, headers, body = sandbox.call("GET", "/health", port=3000)
    seen = json.loads(body)
    assert status == 200 and seen["line"][1] == "/health" and headers["Content-Security-Policy"] == "sandbox"
    assert not [name for name, _ in seen["headers"] if name.lower().startswith(("e2b", "x-access"))]


def test_what_is_not_there_is_told_as_by_e2bs_proxy(server, sandbox):
    status, _, body = by_host(server, sandbox, "GET", "/", port=3001)
    assert (status, json.loads(body)) == (502, {"sandboxId": sandbox.id, "port": 3001, "code": 502,
                                                "message": "The sandbox is running but port is not open"})
    status, _, body = server.raw("GET", "/", None, {"Host": f"3000-{'0' * 32}.localhost"})
    assert (status, json.loads(body)["message"]) == (502, "The sandbox was not found")


def test_a_session_of_another_door_needs_its_key(server):
    owner = server.caller("owner")
    made = owner.session()["id"]
    owner.write(made, "/workspace/server.py", SERVER.encode())
    host = {"Host": f"3000-{made[2:]}.localhost"}
    assert server.raw("GET", "/", None, host)[0] == 502, "as a sandbox that does not exist"
    assert server.raw("GET", "/", None, {**host, "X-API-Key": server.e2b})[0] == 502
    status, _, body = server.raw("GET", "/", None, {**host, **owner.headers})
    assert (status, json.loads(body)["message"]) == (502, "The sandbox is running but port is not open")
    server.end(made)


def test_traffic_resumes_a_sandbox_that_says_so(server):
    sleeper = serving(server, autoPause=True, autoResume={"enabled": True})
    assert server.control("POST", f"/sandboxes/{sleeper.id}/pause", {})[0] == 204
    assert by_host(server, sleeper, "GET", "/echo")[0] == 200
    assert server.control("GET", f"/sandboxes/{sleeper.id}")[2]["state"] == "running"
    server.control("DELETE", f"/sandboxes/{sleeper.id}")
    lasting = serving(server)
    assert server.control("POST", f"/sandboxes/{lasting.id}/pause", {})[0] == 204
    assert by_host(server, lasting, "GET", "/echo")[0] == 502, "its owner resumes it"
    server.control("DELETE", f"/sandboxes/{lasting.id}")
