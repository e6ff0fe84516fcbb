"""POST /v1/responses when things go wrong: a model server that is down, slow or no model server at all,
clients that leave, requests that are huge."""
import json
import socket
import threading

import pytest

import model_server
import support
import tcp

from model_server import event, text

FOUR = {"message", "type", "param", "code"}


@pytest.fixture(scope="module")
def model():
    with model_server.Server() as running:
        running.script("tea", [text("with ", "milk")])
        yield running


@pytest.fixture(scope="module")
def server(model):
    with tcp.Server({"BAILEY_UPSTREAM_URL": model.url, "BAILEY_UPSTREAM_TIMEOUT": "2s"}) as running:
        ask(running, "tea")  # the process `upstream` stays from the first request on
        yield running


def ask(server, name, status=200, **members):
    reply = server.tcp("POST", "/v1/responses", {"model": name, "input": "Go", **members})
    assert reply.status == status, reply
    return reply.json()


def fails(server, name, status=502, **members):
    error = ask(server, name, status, **members)["error"]
    assert set(error) == FOUR, error
    return error


def events(server, name, **members):
    """Those of a stream, to its end."""
    reply = server.tcp("POST", "/v1/responses", {"model": name, "input": "Go", "stream": True, **members})
    assert reply.status == 200, reply
    lines = reply.body.decode().split("\n")
    assert lines[-3] == "data: [DONE]", lines
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


# ---- the model server ----

def test_a_model_server_that_is_down_is_a_bad_gateway():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nothing listens
        with tcp.Server({"BAILEY_UPSTREAM_URL": f"http://127.0.0.1:{taken.getsockname()[1]}/v1"}) as server:
            for stream in (False, True):
                error = fails(server, "tea", stream=stream)
                assert error["code"] == "model_server_error" and error["type"] == "server_error"
                assert "cannot be reached" in error["message"] and "several times" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_server_that_never_answers_is_a_bad_gateway(server, model, stream):
    model.script("silent", [[{"hang": True}]])
    before, asked = model.left(), len(model.requests("silent"))
    assert "in time" in fails(server, "silent", stream=stream)["message"]
    support.wait_until(lambda: model.left() > before, "the model server's client goes")
    assert len(model.requests("silent")) == asked + 1, "the time is for all tries together"


def test_a_model_server_that_stalls_makes_the_response_failed(server, model):
    model.script("stalls", [[{"send": event({"content": "half"})}, {"hang": True}]])
    last = events(server, "stalls")[-1]
    assert last["type"] == "response.failed" and last["response"]["error"]["code"] == "server_error"
    assert last["response"]["output"][0]["content"][0]["text"] == "half"
    assert server.tcp("GET", f"/v1/responses/{last['response']['id']}").json()["status"] == "failed"


@pytest.mark.parametrize("answer", [b"what?\r\n\r\n", b"HTTP/1.1 99999 x\r\n\r\n", b"\x16\x03\x01\x02\x00", b""])
def test_what_is_no_http_is_a_bad_gateway(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            while True:
                try:
                    client = listener.accept()[0]
                except OSError:
                    return
                with client:
                    client.recv(65536)
                    client.sendall(answer)
        threading.Thread(target=serve, daemon=True).start()
        with tcp.Server({"BAILEY_UPSTREAM_URL": f"http://127.0.0.1:{listener.getsockname()[1]}/v1"}) as server:
            assert fails(server, "tea")["code"] == "model_server_error"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("body", ["<html>It works!</html>", "[]", "{}", "data: x\n\n", "null", ""])
def test_what_is_no_chat_completion_makes_the_response_failed(server, model, body):
    model.script("page", [[{"status": 200, "headers": {"Content-Type": "text/html"}, "body": body}]])
    response = ask(server, "page")
    assert response["status"] == "failed" and response["error"]["message"], response
    assert events(server, "page")[-1]["type"] == "response.failed"


# ---- clients ----

@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turn", [[{"hang": True}], [{"begin": True}, {"hang": True}]], ids=["before", "after"])
def test_a_client_that_leaves_while_nothing_has_come_ends_the_answer(model, turn, stream):
    name = model.script(f"waits{len(turn)}{stream}", [turn])
    with tcp.Server({"BAILEY_UPSTREAM_URL": model.url}) as own:
        before = model.left()
        connection = tcp.Connection(own.port)
        connection.request("POST", "/v1/responses", json.dumps({"model": name, "input": "Go", "stream": stream}),
                           {"Authorization": f"Bearer {own.key}", "Content-Type": "application/json"})
        support.wait_until(lambda: model.requests(name), "the model server is asked")
        connection.close()
        support.wait_until(lambda: model.left() > before, "the model server's client goes")
        assert ask(own, "tea")["status"] == "completed"


# ---- huge requests ----

def test_a_request_that_is_too_large_is_refused_with_all_four_members(server):
    reply = server.tcp("POST", "/v1/responses", {"model": "tea", "input": "x" * (17 << 20)})
    assert reply.status == 413 and set(reply.json()["error"]) == FOUR, reply


def test_a_conversation_that_grows_too_large_is_refused(server, model):
    last = None
    for _ in range(2):
        last = ask(server, "tea", input="x" * 11_500_000, previous_response_id=last)["id"]
    before = len(model.requests("tea"))
    error = fails(server, "tea", 400, input="x" * 11_500_000, previous_response_id=last)
    assert "16 MB" in error["message"] and error["param"] == "previous_response_id", error
    assert len(model.requests("tea")) == before


def processor_time(server):
    """What the broker has used, in its own unit."""
    with open(f"/proc/{server.get('/v1/info')['broker_pid']}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_calls_in_a_row_cost_no_more_than_other_items(server):
    """They become one message of the assistant, with their results behind it: a search for that message
    which looks at all that came since takes seconds in which the broker serves no other request."""
    output = {"type": "function_call_output", "call_id": "x", "output": ""}
    costs = []
    for item in ({"role": "user", "content": "c"}, {"type": "code_interpreter_call", "id": "c"}):
        before = processor_time(server)
        assert "'x'" in fails(server, "tea", 400, input=[*[item] * 20_000, output])["message"]
        costs.append(processor_time(server) - before + 1)
    assert costs[1] < 20 * costs[0], costs


def test_lists_of_tools_are_bounded(server):
    function = {"type": "function", "name": "f"}
    assert fails(server, "tea", 400, tools=[function] * 257)["param"] == "tools"
    assert fails(server, "tea", 400, tools=[function], tool_choice={
        "type": "allowed_tools", "mode": "auto", "tools": [function] * 257})["param"] == "tool_choice"
