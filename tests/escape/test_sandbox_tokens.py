"""Requests at the door of E2B's clients that want what their key or token does not open: sessions of other doors,
the power of the key that made a sandbox, two sandboxes in one request."""
import http.client
import json

import pytest
import support
import tenants

pytestmark = [pytest.mark.needs_namespaces, pytest.mark.attack(87)]


class Server(tenants.Server):
    def ask(self, method, target, body=None, **headers):
        """Status and text; a header's name has _ for -, and several values are a list."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=support.PATIENCE)
        text = b"" if body is None else json.dumps(body).encode()
        connection.putrequest(method, target)
        for name, values in {**headers, "Content_Length": str(len(text)), "Content_Type": "application/json"}.items():
            for value in values if isinstance(values, list) else [values]:
                connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(text)
        reply = connection.getresponse()
        told = reply.status, reply.read().decode()
        connection.close()
        return told

    def sandbox(self, caller):
        status, text = self.ask("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=caller.text)
        assert status == 201, text
        made = json.loads(text)
        return made["sandboxID"], made["envdAccessToken"]


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


@pytest.fixture(autouse=True)
def ended(server):
    """No test leaves a box behind."""
    yield
    for session in server.get("/v1/sessions")["sessions"]:
        server.end(session["id"])


def test_a_session_of_another_door_is_no_sandbox(server):
    """Its id is in replies, logs and events, where nothing says that it is a secret."""
    acme = server.caller("acme")
    session = acme.session()["id"]
    acme.post(f"/v1/sessions/{session}/code", {"code": "x = 42"}, 200)
    bare = {"E2b_Sandbox_Id": session[2:]}
    for method, target in (("GET", "/contexts"), ("POST", "/contexts"), ("POST", "/contexts/c1/restart"),
                           ("DELETE", "/contexts/c1"), ("GET", "/health")):
        status, text = server.ask(method, target, {} if method == "POST" else None, **bare)
        assert status == 502, (method, target, status, text)
    assert acme.post(f"/v1/sessions/{session}/code", {"code": "print(x)"}, 200)["stdout"] == "42\n"
    for method, target in (("POST", f"/sandboxes/{session[2:]}/connect"), ("GET", f"/sandboxes/{session[2:]}"),
                           ("DELETE", f"/sandboxes/{session[2:]}")):
        status, text = server.ask(method, target, {} if method == "POST" else None, X_API_Key=acme.text)
        assert status == 404 and "Token" not in text, (method, target, status, text)


def test_a_key_gets_no_token_that_can_do_more_than_the_key(server):
    sandbox, token = server.sandbox(server.caller("acme"))
    narrow = server.caller("acme", scopes=["sessions"])
    for target in (f"/sandboxes/{sandbox}/connect", f"/v2/sandboxes/{sandbox}/connect"):
        status, text = server.ask("POST", target, {"timeout": 60}, X_API_Key=narrow.text)
        assert status == 403 and "scopes" in text and token not in text, text
    status, text = server.ask("GET", f"/sandboxes/{sandbox}", X_API_Key=narrow.text)
    assert status == 200 and token not in text, text
    status, text = server.ask("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60},
                              X_API_Key=server.caller("acme").text)
    assert status == 200 and token in text, "a key with the same scopes gets it"


def test_a_token_that_is_wrong_or_of_another_sandbox_opens_nothing(server):
    acme = server.caller("acme")
    (sandbox, token), (other, others_token) = server.sandbox(acme), server.sandbox(server.caller("other"))
    for wrong in (others_token, token[:-1] + ("0" if token[-1] != "0" else "1"), token + "0", "bet_", ""):
        for method, target in (("GET", "/contexts"), ("POST", "/execute"), ("GET", "/envs"),
                               ("GET", "/files?path=/home/user/x"), ("POST", "/process.Process/List")):
            status, text = server.ask(method, target, {} if method == "POST" else None, E2b_Sandbox_Id=sandbox,
                                      X_Access_Token=wrong)
            assert status == 401, (wrong, target, status, text)


def test_two_sandboxes_in_one_request_are_none(server):
    acme, villain = server.caller("acme"), server.caller("villain")
    (sandbox, _), (own, token) = server.sandbox(acme), server.sandbox(villain)
    for headers in ({"E2b_Sandbox_Id": [sandbox, own], "X_Access_Token": token},
                    {"E2b_Sandbox_Id": [own, sandbox], "X_Access_Token": token},
                    {"E2b_Sandbox_Id": own, "X_Access_Token": [token, "bet_" + sandbox + "0" * 40]},
                    {"E2b_Sandbox_Id": own, "X_Access_Token": token, "E2b_Sandbox_Port": ["49983", "49999"]}):
        status, text = server.ask("POST", "/process.Process/List", {}, **headers)
        assert status == 400 and "twice" in text, (headers, status, text)
    status, text = server.ask("POST", "/process.Process/List", {}, E2b_Sandbox_Id=[own, own], X_Access_Token=token)
    assert status == 200, text
