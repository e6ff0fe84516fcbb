"""A door is a folder and a row: that of tests/door, linked by -Dtest_rows=true, has keys, scopes, checks,
counts, refusals and OpenAPI from the front hall, with no other edit."""
import json

import pytest
import support
import tenants

PLAIN = support.BAILEY


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support, "BAILEY", support.fault_build())
        with tenants.Server() as server:
            yield server


def refused(reply, status, word):
    """In the shape of that door."""
    assert reply.status == status, reply
    assert set(reply.json()) == {"echo", "why"} and reply.json()["echo"] is False, reply
    assert word in reply.json()["why"], reply
    return reply


def test_it_answers_on_its_own_path(server):
    caller = server.caller("acme")
    first = caller.get("/echo/hello")
    assert first["word"] == "hello" and first["tenant"] == "acme", first
    assert caller.get("/echo/hello")["count"] == first["count"] + 1
    assert server.get("/echo/over-the-socket")["tenant"] == "local"
    assert caller.post("/echo?loud=true", {"word": "two"}, 201) == {"echo": True, "word": "two",
                                                                    "loud": True}


def test_a_key_is_needed_and_its_scope(server):
    refused(server.anybody().call("GET", "/echo/x"), 401, "a key is needed")
    files = server.caller("acme", ["files"])
    refused(files.call("GET", "/echo/x"), 403, "'run'")
    assert files.post("/echo", {"word": "x"}, 201)["word"] == "x"


def test_query_and_body_are_checked_against_its_rows(server):
    caller = server.caller("acme")
    refused(caller.call("POST", "/echo", {"word": ""}), 400, "'word' is empty")
    refused(caller.call("POST", "/echo", {"word": "x", "wort": "y"}), 400, "did you mean 'word'?")
    refused(caller.call("POST", "/echo?lout=true", {"word": "x"}), 400, "did you mean 'loud'?")
    refused(caller.call("POST", "/echo", b"{", {"Content-Type": "text/csv"}), 415, "has to be JSON")
    refused(caller.call("POST", "/echo", b"{"), 400, "not valid JSON")


def test_refusals_have_its_shape(server):
    caller = server.caller("acme")
    reply = refused(caller.call("DELETE", "/echo"), 405, "DELETE is not possible here")
    assert reply.headers["Allow"] == "POST"
    refused(caller.call("POST", "/echo", b"x" * (40 << 20)), 413, "")
    # A path near it is nobody's: the first door refuses it, and knows the nearest.
    assert caller.call("GET", "/ecco/x").error["nearest"] == "/echo/x"


def test_a_request_that_it_claims_is_its_own_whatever_the_path(server):
    caller = server.caller("acme")
    refused(caller.call("GET", "/v1/info", headers={"X-Echo": "1"}), 404, "/v1/info")
    assert caller.call("GET", "/echo/x", headers={"X-Echo": "1"}).json()["word"] == "x"


def test_it_is_counted_by_its_label_and_refusals_are_audited(server):
    server.anybody().call("GET", "/echo/noted")
    text = server.call("GET", "/metrics").body.decode()
    assert 'bailey_http_requests_total{door="echo",status="2xx"}' in text
    assert 'bailey_http_requests_total{door="echo",status="4xx"}' in text
    lines = [line for line in server.audit() if line.get("path") == "/echo/noted"]
    assert lines and lines[0]["action"] == "denied", lines


def test_openapi_has_its_rows_and_only_in_that_build(server):
    document = json.loads(server.bailey("openapi").out)
    said = document["paths"]["/echo/{word}"]["get"]
    assert said["operationId"] == "sayEcho"
    assert said["security"] == [{"bearer": ["run"]}, {"header": ["run"]}]
    assert document["components"]["schemas"]["Echo"]["required"] == ["echo"]
    assert server.get("/openapi.json") == document


def test_without_the_option_nothing_of_it_is_there(monkeypatch):
    monkeypatch.setattr(support, "BAILEY", PLAIN)
    document = json.loads(support.bailey("openapi").out)
    assert not [path for path in document["paths"] if path.startswith("/echo")]
    assert "Echo" not in document["components"]["schemas"]
