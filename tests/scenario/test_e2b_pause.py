"""Sandboxes of E2B's clients are paused and resumed, on the wire."""
import base64
import json

import pytest
from test_e2b_wire import Server

pytestmark = pytest.mark.needs_namespaces


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


@pytest.fixture
def sandbox(server):
    made = server.sandbox()
    yield made
    server.control("DELETE", f"/sandboxes/{made.id}")


def test_a_paused_sandbox_goes_on_where_it_was(server, sandbox):
    with sandbox.start("echo here; read line; echo $line", stdin=True) as stream:
        pid = next(message for _, message in stream)["event"]["start"]["pid"]
        assert base64.b64decode(next(message for _, message in stream)["event"]["data"]["stdout"]) == b"here\n"
        assert server.control("POST", f"/sandboxes/{sandbox.id}/pause", {})[0] == 204
        flags, last = list(stream)[-1]
        assert flags == 2 and last["error"]["code"] == "unavailable", last
    status, _, body = server.control("POST", f"/sandboxes/{sandbox.id}/pause", {})
    assert (status, body["code"]) == (409, 409), "the SDKs make False of it"
    assert server.control("GET", f"/sandboxes/{sandbox.id}")[2]["state"] == "paused"
    for states, is_listed in (("paused", True), ("running", False), ("running,paused", True)):
        listed = server.control("GET", f"/v2/sandboxes?state={states}")[2]
        assert (sandbox.id in [one["sandboxID"] for one in listed]) == is_listed, states
    for method, path in (("GET", "/health"), ("GET", "/files?path=/home/user/a"), ("GET", "/contexts")):
        status, _, body = sandbox.call(method, path)
        assert status == 502 and json.loads(body)["message"] == "The sandbox was not found", path
    status, _, body = server.control("POST", f"/v2/sandboxes/{sandbox.id}/connect", {"memory": False})
    assert status == 400 and "memory" in body["message"], "not silently with the memory"
    assert server.control("GET", f"/sandboxes/{sandbox.id}")[2]["state"] == "paused"
    status, _, again = server.control("POST", f"/v2/sandboxes/{sandbox.id}/connect", {"timeout": 77})
    assert status == 201 and again["sandboxID"] == sandbox.id, again
    status, _, again = server.control("POST", f"/v2/sandboxes/{sandbox.id}/connect", {"timeout": 77})
    assert status == 200 and sandbox.call("GET", "/health")[0] == 204
    with sandbox.stream("process.Process/Connect", {"process": {"pid": pid}}) as stream:
        assert next(message for _, message in stream)["event"]["start"]["pid"] == pid
        sent = {"process": {"pid": pid}, "input": {"stdin": base64.b64encode(b"after\n").decode()}}
        assert sandbox.unary("process.Process/SendInput", sent)[0] == 200
        told = [message for _, message in stream]
    assert told[-2]["event"]["end"]["exitCode"] == 0, told
    assert server.control("POST", f"/sandboxes/{sandbox.id}/resume", {})[0] == 409
    assert server.control("POST", f"/sandboxes/{sandbox.id}/pause", {})[0] == 204
    assert server.control("POST", f"/sandboxes/{sandbox.id}/resume", {"timeout": 60})[0] == 201
    status, _, body = server.control("POST", f"/sandboxes/{sandbox.id}/pause", {"memory": False})
    assert status == 400 and "memory" in body["message"]
    assert server.control("POST", f"/sandboxes/{'0' * 32}/pause", {})[0] == 404


def test_a_sandbox_pauses_at_its_timeout_and_traffic_resumes_it(server):
    sandbox = server.sandbox(timeout=1, autoPause=True, autoResume={"enabled": True})
    with server.events("/v1/events", last=0) as events:
        events.until("session.paused", lambda data: data["session_id"].endswith(sandbox.id))
    detail = server.control("GET", f"/sandboxes/{sandbox.id}")[2]
    assert detail["state"] == "paused" and detail["lifecycle"] == {"onTimeout": "pause", "autoResume": True}
    assert sandbox.call("POST", "/files?path=/home/user/a", b"x", **{"Content-Type": "application/octet-stream"})[0] == 200
    assert server.control("GET", f"/sandboxes/{sandbox.id}")[2]["state"] == "running"
    assert server.control("POST", f"/sandboxes/{sandbox.id}/pause", {})[0] == 204
    with sandbox.start("echo again") as stream:
        assert list(stream)[-1] == (2, {})
    assert server.control("POST", f"/sandboxes/{sandbox.id}/pause", {})[0] == 204
    assert server.control("DELETE", f"/sandboxes/{sandbox.id}")[0] == 204, "a paused one is ended too"
    sandbox = server.sandbox(timeout=1, autoPause=True)
    with server.events("/v1/events", last=0) as events:
        events.until("session.paused", lambda data: data["session_id"].endswith(sandbox.id))
    assert sandbox.call("GET", "/health")[0] == 502, "not asked to"
    server.control("DELETE", f"/sandboxes/{sandbox.id}")
