"""POST /v1/responses: a model server of Chat Completions, code in containers, OpenAI's shapes."""
import http.client
import json
import os
import signal
import socket
import threading

import pytest

import model_server
import support
import tcp

from model_server import call, code, end, event, text

KEYS = {"id", "object", "created_at", "completed_at", "status", "incomplete_details", "model",
        "previous_response_id", "instructions", "output", "error", "tools", "tool_choice",
        "truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty",
        "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage",
        "max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata",
        "safety_identifier", "prompt_cache_key"}
CODE = [{"type": "code_interpreter", "container": {"type": "auto"}}]
OUTPUTS = ["code_interpreter_call.outputs"]
ADD = {"type": "function", "name": "add", "description": "adds", "strict": True,
       "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
SECRET = "sk-of-the-model-server"


@pytest.fixture(scope="module")
def model():
    with model_server.Server() as running:
        yield running


def served(model):
    return tcp.Server({"BAILEY_UPSTREAM_URL": model.url, "BAILEY_UPSTREAM_KEY": SECRET,
                       "BAILEY_UPSTREAM_MODEL": "the-default"})


@pytest.fixture(scope="module")
def server(model):
    with served(model) as running:
        model.script("first", [text("hello")])
        ask(running, "first")  # the process `upstream` stays from the first request on
        yield running


@pytest.fixture(autouse=True)
def tidy(request, leaks):
    """Containers live longer than responses: a test ends its own."""
    yield
    if "server" not in request.fixturenames:
        return
    server = request.getfixturevalue("server")
    for one in server.tcp("GET", "/v1/containers?limit=100").json()["data"]:
        server.tcp("DELETE", f"/v1/containers/{one['id']}")
    support.wait_until(lambda: not server.get("/v1/sessions")["sessions"], "all sessions end")


def ask(server, model, status=200, key=None, **members):
    reply = server.tcp("POST", "/v1/responses", {"model": model, "input": "Go", **members}, key=key)
    assert reply.status == status, reply
    return reply.json()


def fails(server, status, param=None, key=None, **members):
    """The error of a refused request, with all its four members."""
    error = ask(server, members.pop("model", "m"), status, key, **members)["error"]
    assert set(error) == {"message", "type", "param", "code"}, error
    assert error["message"] and (param is None or error["param"] == param), error
    return error


class Stream:
    """The events of a streamed response, one after the other."""

    def __init__(self, server, model, **members):
        self.connection = tcp.Connection(server.port)
        self.connection.request("POST", "/v1/responses", json.dumps(
            {"model": model, "input": "Go", "stream": True, **members}),
            {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"})
        self.reply = self.connection.getresponse()
        self.events = []

    def __iter__(self):
        name = None
        for line in self.reply:
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line == "data: [DONE]":
                self.events.append("[DONE]")
            elif line.startswith("data: "):
                data = json.loads(line[6:])
                assert data["type"] == name
                self.events.append(data)
                yield data

    def until(self, kind):
        for data in self:
            if data["type"] == kind:
                return data
        raise AssertionError(f"no {kind}: {self.events}")

    def close(self):
        self.reply.close()
        self.connection.close()


def stream(server, model, **members):
    one = Stream(server, model, **members)
    assert one.reply.status == 200, one.reply.read()
    events = list(one)
    assert one.events[-1] == "[DONE]"
    one.close()
    check(events)
    return events


def check(events):
    """What holds for every stream: numbers without gaps, and events about items that are open."""
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    open_items = {}
    for one in events:
        if one["type"] == "response.output_item.added":
            assert one["output_index"] == len(open_items)
            open_items[one["output_index"]] = one["item"]["id"]
        elif "item_id" in one:
            assert open_items[one["output_index"]] == one["item_id"], one
        elif one["type"] == "response.output_item.done":
            assert open_items[one["output_index"]] == one["item"]["id"]


def names(events):
    return [one["type"].removeprefix("response.") for one in events]


def told(model, name):
    """What the model read of its calls, in its last request."""
    return [one["content"] for one in model.requests(name)[-1]["body"]["messages"]
            if one["role"] == "tool"]


# ---- text ----

def test_a_text_answer_has_every_key_of_a_response(server, model):
    model.script("tea", [text("with ", "milk")])
    response = ask(server, "tea", instructions="Be brief", metadata={"a": "b"})
    assert KEYS <= set(response)
    assert response["object"] == "response" and response["id"].startswith("resp_")
    assert isinstance(response["created_at"], int) and response["completed_at"]
    assert response["output"][0]["content"] == [
        {"type": "output_text", "text": "with milk", "annotations": [], "logprobs": []}]
    assert response["usage"] == {"input_tokens": 10,
                                 "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
                                 "output_tokens": 5,
                                 "output_tokens_details": {"reasoning_tokens": 1},
                                 "total_tokens": 15}
    sent = model.requests("tea")[-1]
    assert sent["authorization"] == f"Bearer {SECRET}" and sent["path"] == "/v1/chat/completions"
    assert sent["body"]["messages"] == [{"role": "system", "content": "Be brief"},
                                        {"role": "user", "content": "Go"}]
    assert sent["body"]["stream"] and sent["body"]["stream_options"] == {"include_usage": True}
    assert "tools" not in sent["body"]


def test_a_streamed_text_answer_has_its_events_in_order(server, model):
    model.script("tea", [text("with ", "milk")])
    events = stream(server, "tea")
    assert names(events) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
        "completed"]
    assert events[0]["response"]["usage"] is None and events[-2]["item"]["status"] == "completed"
    assert events[-1]["response"]["usage"]["total_tokens"] == 15


def test_each_piece_of_a_stream_has_whole_events(server, model):
    """Some readers forget the half of an event that ends a piece, so no event is sent in two."""
    model.script("pieces", [text(*[f"piece {i} " for i in range(100)])])
    body = json.dumps({"model": "pieces", "input": "Go", "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection, connection.makefile("rb") as reply:
        connection.sendall(b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
                           b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                           % (server.key.encode(), len(body), body))
        while reply.readline() != b"\r\n":
            pass
        pieces = []
        while size := int(reply.readline(), 16):
            pieces.append(reply.read(size))
            assert reply.read(2) == b"\r\n"
    assert len(pieces) > 100 and all(one.startswith((b"event: ", b"data: ")) and one.endswith(b"\n\n") for one in pieces)


def test_the_configured_model_is_used_where_the_request_names_none(server, model):
    model.script("the-default", [text("yes")])
    reply = server.tcp("POST", "/v1/responses", {"input": "Go"})
    assert reply.json()["model"] == "the-default"


def test_options_and_formats_reach_the_model_server(server, model):
    model.script("opt", [text("{}")])
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    ask(server, "opt", temperature=0.5, top_p=0.9, max_output_tokens=64, reasoning={"effort": "low"},
        parallel_tool_calls=False, tools=[ADD],
        text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}})
    body = model.requests("opt")[-1]["body"]
    assert body["temperature"] == 0.5 and body["top_p"] == 0.9 and body["max_tokens"] == 64
    assert body["reasoning_effort"] == "low" and body["parallel_tool_calls"] is False
    assert body["response_format"] == {"type": "json_schema", "json_schema": {
        "name": "n", "schema": schema, "strict": True}}


# ---- code ----

def test_a_code_call_has_its_events_in_order(server, model):
    model.script("sum", [code("x = 6*7\nprint('hi')\nx"), text("It is ", "42")])
    events = stream(server, "sum", tools=CODE, include=OUTPUTS)
    seen = names(events)
    while "code_interpreter_call_code.delta" in seen[6:]:
        seen.remove("code_interpreter_call_code.delta")
    assert seen == [
        "created", "in_progress", "output_item.added", "code_interpreter_call.in_progress",
        "code_interpreter_call_code.delta", "code_interpreter_call_code.done",
        "code_interpreter_call.interpreting", "code_interpreter_call.completed",
        "output_item.done", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
        "completed"] or seen[4:6].count("code_interpreter_call_code.delta") == 2
    by_name = {one["type"]: one for one in events}
    added = events[2]["item"]
    assert added["status"] == "in_progress" and added["code"] == "" and added["outputs"] == []
    assert added["container_id"].startswith("cntr_") and added["id"].startswith("ci_")
    pieces = [one["delta"] for one in events if one["type"].endswith("_code.delta")]
    assert len(pieces) > 2 and "".join(pieces) == "x = 6*7\nprint('hi')\nx"
    assert by_name["response.code_interpreter_call_code.done"]["code"] == "".join(pieces)
    done = next(one["item"] for one in events if one["type"] == "response.output_item.done")
    assert done["outputs"] == [{"type": "logs", "logs": "hi\n42"}]
    assert set(done) == {"id", "type", "status", "code", "outputs", "container_id"}
    assert events[-1]["response"]["usage"]["total_tokens"] == 30


def test_the_first_piece_of_the_source_comes_before_the_last_is_sent(server, model):
    fragments = call(json.dumps({"code": "print('first')\nprint('last')"}), size=20)
    model.script("slow", [[*fragments[:-1], {"wait": "last"}, fragments[-1], *end("tool_calls")],
                          text("ok")])
    one = Stream(server, "slow", tools=CODE)
    delta = one.until("response.code_interpreter_call_code.delta")["delta"]
    assert delta.startswith("print(")
    model.go("last")
    assert one.until("response.completed")["response"]["status"] == "completed"
    one.close()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_escapes_and_surrogates_may_be_split_anywhere(server, model, size):
    source = 'print("\\n\\t\\"q\\" \\u00e9 😀 \\\\")  # é😀\n"""/"""'
    model.script("split", [code(source, size=size), text("ok")])
    events = stream(server, "split", tools=CODE)
    assert "".join(one["delta"] for one in events if one["type"].endswith("_code.delta")) == source


def test_outputs_are_null_unless_they_are_asked_for(server, model):
    model.script("quiet", [code("print(1)"), text("ok")])
    response = ask(server, "quiet", tools=[{"type": "code_interpreter"}])
    assert response["output"][0]["outputs"] is None
    path = f"/v1/responses/{response['id']}"
    assert server.tcp("GET", path).json()["output"][0]["outputs"] is None
    for query in ("include[]", "include%5B%5D", "include"):
        reply = server.tcp("GET", f"{path}?{query}=code_interpreter_call.outputs")
        assert reply.json()["output"][0]["outputs"] == [{"type": "logs", "logs": "1\n"}]


def test_variables_and_files_stay_from_call_to_call_and_from_response_to_response(server, model):
    model.script("first", [code("x = 20\nopen('/mnt/data/n.txt','w').write('22')", id="call_a"),
                           code("y = x + 1", id="call_b"), text("ok")])
    model.script("second", [code("print(y + int(open('/mnt/data/n.txt').read()))"), text("ok")])
    first = ask(server, "first", tools=CODE)
    second = ask(server, "second", tools=CODE, include=OUTPUTS, previous_response_id=first["id"])
    calls = [one for one in first["output"] + second["output"] if "code" in one]
    assert len({one["container_id"] for one in calls}) == 1
    assert second["output"][0]["outputs"] == [{"type": "logs", "logs": "43\n"}]
    assert second["previous_response_id"] == first["id"]
    # The conversation so far came first, with each call and its result.
    messages = model.requests("second")[0]["body"]["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant", "tool", "tool", "assistant",
                                                 "user"]
    assert {one["id"] for one in messages[1]["tool_calls"]} == {
        messages[2]["tool_call_id"], messages[3]["tool_call_id"]}


def test_a_traceback_goes_to_the_model_and_not_into_the_outputs(server, model):
    model.script("boom", [code("1/0"), text("sorry")])
    response = ask(server, "boom", tools=CODE, include=OUTPUTS)
    assert response["output"][0]["status"] == "completed"
    assert response["output"][0]["outputs"] == []
    assert "ZeroDivisionError" in told(model, "boom")[0]


PICTURE = ("import base64\nimport pathlib\n"
           "png = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
           "YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==')\n")


def test_pictures_have_links_that_work_without_a_key(server, model):
    model.script("draw", [code(PICTURE + "display({'image/png': base64.b64encode(png).decode()}, "
                                         "raw=True)\nimport os\n"
                                         "os.makedirs('/tmp/output', exist_ok=True)\n"
                                         "pathlib.Path('/tmp/output/p.png').write_bytes(png)", size=200),
                          text("ok")])
    outputs = ask(server, "draw", tools=CODE, include=OUTPUTS)["output"][0]["outputs"]
    images = [one for one in outputs if one["type"] == "image"]
    assert len(images) == 2, outputs
    for image in images:
        assert set(image) == {"type", "url"}
        assert image["url"].startswith(f"http://127.0.0.1:{server.port}/")
        reply = server.tcp("GET", image["url"].split(str(server.port), 1)[1], key=False)
        assert reply.status == 200 and reply.body.startswith(b"\x89PNG")


def test_a_written_file_is_announced_and_can_be_fetched(server, model):
    model.script("file", [code("open('/mnt/data/é.csv','w').write('a,b')"),
                          text("Here é: [é.csv](sandbox:/mnt/data/é.csv)")])
    events = stream(server, "file", tools=CODE)
    note = next(one for one in events if one["type"] == "response.output_text.annotation.added")
    message = events[-1]["response"]["output"][1]
    part = message["content"][0]
    assert part["annotations"] == [note["annotation"]]
    cited = part["annotations"][0]
    assert cited["type"] == "container_file_citation" and cited["filename"] == "é.csv"
    assert part["text"][cited["start_index"]:cited["end_index"]] == "sandbox:/mnt/data/é.csv"
    assert names(events).index("output_text.annotation.added") < names(events).index(
        "output_text.done")
    reply = server.tcp("GET", f"/v1/containers/{cited['container_id']}/files/{cited['file_id']}"
                              "/content")
    assert reply.body == b"a,b"


def test_files_of_the_input_are_in_the_container(server, model):
    model.script("read", [code("print(open('/mnt/data/in.txt').read())"), text("ok")])
    content = [{"type": "input_text", "text": "Read"},
               {"type": "input_file", "filename": "in.txt",
                "file_data": "data:text/plain;base64,aGVsbG8="}]
    response = ask(server, "read", input=[{"role": "user", "content": content}], tools=CODE,
                   include=OUTPUTS)
    assert response["output"][0]["outputs"] == [{"type": "logs", "logs": "hello\n"}]
    assert "/mnt/data/in.txt" in model.requests("read")[0]["body"]["messages"][0]["content"]


def test_a_container_by_its_id_is_used(server, model):
    model.script("named", [code("print(open('/mnt/data/a.txt').read())"), text("ok")])
    made = server.tcp("POST", "/v1/containers", {"name": "mine"}).json()
    boundary = ("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n"
                "from a client\r\n--b--\r\n")
    assert server.tcp("POST", f"/v1/containers/{made['id']}/files", boundary,
                      {"Content-Type": "multipart/form-data; boundary=b"}).status == 200
    response = ask(server, "named", tools=[{"type": "code_interpreter", "container": made["id"]}],
                   include=OUTPUTS)
    assert response["output"][0]["container_id"] == made["id"]
    assert response["output"][0]["outputs"][0]["logs"] == "from a client\n"
    error = fails(server, 404, "tools[0].container",
                  tools=[{"type": "code_interpreter", "container": "cntr_nothing"}])
    assert error["code"] == "container_not_found"


# ---- what model servers send ----

def quirk(*steps):
    return [*steps, *end("tool_calls")]


QUIRKS = {
    "no id": quirk(*[{"send": event({"tool_calls": [{"index": 0, "function": function}]})}
                     for function in ({"name": "code_interpreter", "arguments": '{"code":'},
                                      {"arguments": ' "print(5)"}'})]),
    "an empty id and no index": quirk({"send": event({"tool_calls": [
        {"id": "", "function": {"name": "code_interpreter", "arguments": '{"code": "print(5)"}'}}]})}),
    "the name again in each fragment": quirk(*[{"send": event({"tool_calls": [
        {"index": 0, "id": "c", "function": {"name": "code_interpreter", "arguments": piece}}]})}
        for piece in ('{"code":', ' "print(5)"}')]),
    "arguments as an object": quirk({"send": event({"tool_calls": [
        {"index": 0, "id": "c", "function": {"name": "code_interpreter",
                                             "arguments": {"code": "print(5)"}}}]})}),
    "it stops with the wrong reason": [*call('{"code": "print(5)"}'), *end("stop")],
    "no usage, no DONE": [*call('{"code": "print(5)"}'), {"send": event(finish="tool_calls")}],
    "the name python": quirk(*call('{"code": "print(5)"}', name="python")),
    "an answer that is no stream": [{"json": {"choices": [{"index": 0, "message": {
        "role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {
                "name": "code_interpreter", "arguments": '{"code": "print(5)"}'}}]},
        "finish_reason": "tool_calls"}], "usage": model_server.USAGE}}],
    "comments and carriage returns": [
        {"raw": ": ping\r\n\r\n"},
        {"raw": "data: " + json.dumps(call('{"code": "print(5)"}', size=99)[0]["send"]) + "\r\n\r\n"},
        *end("tool_calls")],
}


@pytest.mark.parametrize("name", QUIRKS)
def test_quirks_of_model_servers(server, model, name):
    model.script("quirk", [QUIRKS[name], text("ok")])
    response = ask(server, "quirk", tools=CODE, include=OUTPUTS)
    assert response["status"] == "completed"
    assert response["output"][0]["outputs"] == [{"type": "logs", "logs": "5\n"}], response
    message = model.requests("quirk")[-1]["body"]["messages"]
    assert message[-2]["tool_calls"][0]["id"] == message[-1]["tool_call_id"]


@pytest.mark.parametrize("ids", [("a", "b", 0, 1), ("a", "b", 0, 0)])
def test_several_calls_in_a_turn_run_one_after_the_other(server, model, ids):
    first, second, index, other = ids
    model.script("two", [quirk(*call('{"code": "n = 1\\nprint(n)"}', id=first, index=index),
                               *call('{"code": "n += 1\\nprint(n)"}', id=second, index=other,
                                     size=99)), text("ok")])
    response = ask(server, "two", tools=CODE, include=OUTPUTS)
    assert [one["outputs"][0]["logs"] for one in response["output"][:2]] == ["1\n", "2\n"]
    history = model.requests("two")[-1]["body"]["messages"]
    assert len(history[1]["tool_calls"]) == 2 and told(model, "two") == ["1\n", "2\n"]


@pytest.mark.parametrize("arguments", ["print(1)", '{"code": 5}', "[]", '{"code": "pri', "", '{"code": " "}'])
def test_arguments_that_are_wrong_are_an_error_that_the_model_reads(server, model, arguments):
    model.script("wrong", [quirk(*call(arguments)), text("sorry")])
    response = ask(server, "wrong", tools=CODE)
    assert response["status"] == "completed" and response["output"][0]["status"] == "failed"
    assert "argument" in told(model, "wrong")[0]
    json.loads(model.requests("wrong")[-1]["body"]["messages"][1]["tool_calls"][0]["function"]
               ["arguments"])


def test_a_tool_that_does_not_exist_is_told_to_the_model(server, model):
    model.script("lost", [quirk(*call("{}", name="browse")), text("sorry")])
    assert ask(server, "lost", tools=CODE)["output"][0]["type"] == "message"
    assert "no tool 'browse'" in told(model, "lost")[0]


# ---- functions and choices ----

def test_a_function_call_ends_the_response_and_goes_on_with_its_output(server, model):
    model.script("add", [quirk(*call('{"a": 1}', name="add", id="call_9")), text("done")])
    first = ask(server, "add", tools=[ADD, *CODE])
    item = first["output"][0]
    assert first["status"] == "completed" and item["type"] == "function_call"
    assert item["call_id"] == "call_9" and item["arguments"] == '{"a": 1}'
    tools = model.requests("add")[-1]["body"]["tools"]
    assert {one["function"]["name"] for one in tools} == {"add", "code_interpreter"}
    model.script("add", [text("three")])
    second = ask(server, "add", previous_response_id=first["id"], input=[
        {"type": "function_call_output", "call_id": "call_9", "output": "3"}])
    assert second["output"][0]["content"][0]["text"] == "three"
    messages = model.requests("add")[-1]["body"]["messages"]
    assert messages[-1] == {"role": "tool", "tool_call_id": "call_9", "content": "3"}
    assert messages[-2]["tool_calls"][0]["id"] == "call_9"


def test_function_arguments_are_streamed(server, model):
    model.script("add", [quirk(*call('{"a": 1}', name="add", size=3))])
    events = stream(server, "add", tools=[ADD])
    pieces = [one["delta"] for one in events if one["type"].endswith("arguments.delta")]
    done = next(one for one in events if one["type"].endswith("arguments.done"))
    assert "".join(pieces) == done["arguments"] == '{"a": 1}' and done["name"] == "add"


@pytest.mark.parametrize("choice, sent", [
    ("none", "none"), ("auto", None), ("required", "required"),
    ({"type": "code_interpreter"}, {"type": "function", "function": {"name": "code_interpreter"}}),
    ({"type": "function", "name": "add"}, {"type": "function", "function": {"name": "add"}}),
    ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "code_interpreter"}]},
     "required")])
def test_a_choice_of_tools_is_passed_on_in_the_model_servers_shape(server, model, choice, sent):
    model.script("choose", [code("1"), text("ok")])
    response = ask(server, "choose", tools=[ADD, *CODE], tool_choice=choice)
    assert response["tool_choice"] == choice
    first, later = [one["body"] for one in model.requests("choose")[-2:]]
    assert first.get("tool_choice") == sent
    assert later.get("tool_choice") == ("none" if choice == "none" else None), \
        "a forced call would be forced for ever"
    if isinstance(choice, dict) and choice["type"] == "allowed_tools":
        assert [one["function"]["name"] for one in first["tools"]] == ["code_interpreter"]


def test_max_tool_calls_ends_the_running_of_code(server, model):
    model.script("many", [code("print('one')"), code("print('two')"), text("enough")])
    response = ask(server, "many", tools=CODE, max_tool_calls=1)
    assert [one["type"] for one in response["output"]] == ["code_interpreter_call", "message"]
    assert "max_tool_calls" in told(model, "many")[1]


def test_a_model_that_calls_for_ever_ends_incomplete(server, model):
    model.script("loop", [code("1")])
    response = ask(server, "loop", tools=CODE)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert len(model.requests("loop")) == 32


@pytest.mark.parametrize("finish, reason", [("length", "max_output_tokens"),
                                            ("content_filter", "content_filter")])
def test_an_answer_that_is_cut_ends_incomplete(server, model, finish, reason):
    model.script("cut", [text("half", finish=finish)])
    events = stream(server, "cut")
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["incomplete_details"] == {"reason": reason}


def test_tokens_are_counted_over_all_answers(server, model):
    model.script("budget", [code("1", usage={"prompt_tokens": 1, "completion_tokens": 10}),
                            code("2", usage={"prompt_tokens": 1, "completion_tokens": 10}),
                            text("never")])
    response = ask(server, "budget", tools=CODE, max_output_tokens=18)
    assert response["status"] == "incomplete" and response["usage"]["output_tokens"] == 20
    assert [one["body"]["max_tokens"] for one in model.requests("budget")] == [18, 8]


# ---- bad input ----

@pytest.mark.parametrize("members, param", [
    ({"input": 5}, "input"), ({"input": []}, "input"), ({"input": [5]}, "input[0]"),
    ({"input": [{"role": "boss", "content": "x"}]}, "input[0]"),
    ({"input": [{"type": "web_search_call", "id": "ws"}]}, "input[0]"),
    ({"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "http://x"}]}]},
     "input[0].content[0]"),
    ({"max_output_tokens": 1}, "max_output_tokens"), ({"max_tool_calls": 0}, "max_tool_calls"),
    ({"temperature": "hot"}, "temperature"), ({"stream": "yes"}, "stream"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
    ({"tools": [{"type": "code_interpreter", "container": 5}]}, "tools[0].container"),
    ({"tools": [{"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "64g"}}]},
     "tools[0].container.memory_limit"),
    ({"tools": [{"type": "code_interpreter", "container": {
        "type": "auto", "network_policy": {"type": "allowlist", "allowed_domains": ["a.b"]}}}]},
     "tools[0].container.network_policy"),
    ({"tool_choice": {"type": "function", "name": "nothing"}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"), ({"include": ["everything"]}, "include[0]"),
    ({"conversation": "conv_1"}, "conversation"), ({"truncation": "auto"}, "truncation"),
    ({"background": True, "store": False}, "background"), ({"metadata": {"a": 5}}, "metadata"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"), ({"strean": True}, "strean")])
def test_bad_input_is_refused_with_the_member_that_is_wrong(server, model, members, param):
    error = fails(server, 400, param, **members)
    assert error["type"] == "invalid_request_error"


def test_an_unknown_previous_response_is_not_found(server, model):
    error = fails(server, 404, "previous_response_id", previous_response_id="resp_nothing")
    assert error["code"] == "previous_response_not_found"


def test_other_addresses_and_bodies_have_errors_of_the_same_shape(server):
    for method, path, body in (("GET", "/v1/responses/resp_nothing", None),
                               ("PUT", "/v1/responses/resp_nothing", None),
                               ("POST", "/v1/responses", "{"), ("POST", "/v1/responses", "[1]")):
        reply = server.tcp(method, path, body, {"Content-Type": "application/json"})
        assert reply.status in (400, 404, 405), reply
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    reply = server.tcp("POST", "/v1/responses", {"input": "x"}, key=False)
    assert reply.status == 401 and set(reply.json()["error"]) == {"message", "type", "param", "code"}


# ---- stored responses ----

def test_a_response_is_stored_listed_and_deleted(server, model):
    model.script("keep", [text("kept")])
    made = ask(server, "keep", input=[{"role": "user", "content": "one"},
                                      {"role": "user", "content": "two"}])
    path = f"/v1/responses/{made['id']}"
    assert server.tcp("GET", path).json() == made
    items = server.tcp("GET", path + "/input_items?order=asc&limit=1").json()
    assert items["object"] == "list" and items["has_more"] is True
    assert items["data"][0]["content"] == [{"type": "input_text", "text": "one"}]
    rest = server.tcp("GET", path + f"/input_items?order=asc&after={items['last_id']}").json()
    assert [one["content"][0]["text"] for one in rest["data"]] == ["two"]
    assert server.tcp("DELETE", path).json() == {"id": made["id"], "object": "response",
                                                 "deleted": True}
    assert server.tcp("GET", path).status == 404
    fails(server, 404, "previous_response_id", previous_response_id=made["id"])


def test_a_response_that_is_not_stored_cannot_be_fetched(server, model):
    model.script("keep", [text("gone")])
    made = ask(server, "keep", store=False)
    assert server.tcp("GET", f"/v1/responses/{made['id']}").status == 404


def test_a_background_response_goes_on_and_can_be_cancelled(server, model):
    model.script("later", [[{"begin": True}, {"wait": "later"}, *text("here")]])
    made = ask(server, "later", background=True)
    path = f"/v1/responses/{made['id']}"
    assert made["status"] == "queued" and made["background"] is True
    assert server.tcp("GET", path).json()["status"] == "in_progress"
    model.go("later")
    support.wait_until(lambda: server.tcp("GET", path).json()["status"] == "completed", "it ends")
    model.script("never", [[{"begin": True}, {"hang": True}]])
    made = ask(server, "never", background=True)
    before = model.left()
    path = f"/v1/responses/{made['id']}"
    support.wait_until(lambda: model.requests("never"), "the model server is asked")
    assert server.tcp("POST", path + "/cancel").json()["status"] == "cancelled"
    support.wait_until(lambda: model.left() > before, "the model server's client goes")
    assert server.tcp("GET", path).json()["status"] == "cancelled"


def test_only_background_responses_can_be_cancelled(server, model):
    model.script("keep", [text("kept")])
    made = ask(server, "keep")
    reply = server.tcp("POST", f"/v1/responses/{made['id']}/cancel")
    assert reply.status == 400 and "background" in reply.json()["error"]["message"]


def test_tenants_do_not_see_each_others_responses_and_containers(server, model):
    model.script("mine", [code("x = 1"), text("ok")])
    other = server.new_key(tenant="other")
    made = ask(server, "mine", tools=CODE)
    container = made["output"][0]["container_id"]
    assert server.tcp("GET", f"/v1/responses/{made['id']}", key=other).status == 404
    assert server.tcp("DELETE", f"/v1/responses/{made['id']}", key=other).status == 404
    assert server.tcp("GET", f"/v1/responses/{made['id']}/input_items", key=other).status == 404
    fails(server, 404, "previous_response_id", key=other, previous_response_id=made["id"])
    fails(server, 404, "tools[0].container", key=other,
          tools=[{"type": "code_interpreter", "container": container}])


# ---- faults ----

def test_a_model_server_that_recovers_is_asked_again(server, model):
    busy = [{"status": 429, "headers": {"Retry-After": "0.1"}, "body": "{}"}]
    model.script("busy", [{"tries": [busy, [{"status": 503, "body": "no"}], text("third")]}])
    assert ask(server, "busy")["output"][0]["content"][0]["text"] == "third"
    assert len(model.requests("busy")) == 3


@pytest.mark.parametrize("stream_it", [False, True])
def test_a_model_server_that_stays_down_is_a_bad_gateway(server, model, stream_it):
    model.script("down", [{"tries": [[{"status": 500, "body": json.dumps(
        {"error": {"message": f"broken, and the key is {SECRET}"}})}]]}])
    before = len(model.requests("down"))
    error = fails(server, 502, model="down", stream=stream_it)
    assert error["type"] == "server_error" and error["code"] == "model_server_error"
    assert "broken" in error["message"] and SECRET not in error["message"]
    assert len(model.requests("down")) == before + 3


def test_a_pause_longer_than_the_time_that_is_left_is_not_waited_for(server, model):
    model.script("wait", [{"tries": [[{"status": 429, "headers": {"Retry-After": "3600"}}]]}])
    assert "429" in fails(server, 502, model="wait")["message"]
    assert len(model.requests("wait")) == 1


def test_what_the_model_server_refuses_is_the_callers_error(server, model):
    error = fails(server, 400, model="no-such-model")
    assert "does not exist" in error["message"] and len(model.requests("no-such-model")) == 1


BROKEN = {
    "cut": [{"send": event({"content": "half"})}, {"cut": True}],
    "ended without a reason": [{"send": event({"content": "half"})}],
    "garbage": [{"send": event({"content": "half"})}, {"raw": "data: {nonsense\n\n"}],
    "no object": [{"send": event({"content": "half"})}, {"raw": "data: [1]\n\n"}],
    "an error in the stream": [{"send": event({"content": "half"})},
                               {"raw": 'data: {"error": {"message": "out of memory"}}\n\n'}],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_server_that_breaks_later_makes_the_response_failed(server, model, name):
    model.script("late", [BROKEN[name]])
    events = stream(server, "late")
    last = events[-1]["response"]
    assert events[-1]["type"] == "response.failed" and last["status"] == "failed"
    assert last["error"]["code"] == "server_error" and last["error"]["message"]
    assert last["output"][0]["status"] == "incomplete"
    assert server.tcp("GET", f"/v1/responses/{last['id']}").json()["status"] == "failed"
    before = len(model.requests("late"))
    assert ask(server, "late")["status"] == "failed"
    assert len(model.requests("late")) == before + 1, "nothing is tried again after the first byte"


def test_a_client_that_leaves_ends_the_model_servers_answer(server, model):
    model.script("long", [[{"send": event({"content": "x"})}, {"hang": True}]])
    before = model.left()
    one = Stream(server, "long")
    one.until("response.output_text.delta")
    one.close()
    support.wait_until(lambda: model.left() > before, "the model server's client goes")
    identity = one.events[0]["response"]["id"]
    support.wait_until(lambda: server.tcp("GET", f"/v1/responses/{identity}").json()["status"] ==
                       "cancelled", "the response is over")


def test_a_client_that_leaves_interrupts_the_code(server, model):
    made = server.tcp("POST", "/v1/containers", {"name": "busy"}).json()
    tools = [{"type": "code_interpreter", "container": made["id"]}]
    model.script("busy2", [code("import time\nwhile True: time.sleep(0.01)"), text("ok")])
    one = Stream(server, "busy2", tools=tools)
    one.until("response.code_interpreter_call.interpreting")
    one.close()
    model.script("free", [code("print('free')"), text("ok")])
    response = ask(server, "free", tools=tools, include=OUTPUTS)
    assert response["output"][0]["outputs"] == [{"type": "logs", "logs": "free\n"}]


def test_a_killed_upstream_process_is_started_again(model):
    model.script("alive", [text("yes")])
    with served(model) as own:
        ask(own, "alive")
        pid = upstream_pid(own)
        os.kill(pid, signal.SIGKILL)
        support.wait_until(lambda: own.tcp("POST", "/v1/responses", {
            "model": "alive", "input": "x"}).status == 200, "it answers again")
        assert upstream_pid(own) != pid


def processes_named(server, name):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/status") as status:
                if comm.read().strip() == name:
                    found.append((int(pid), status.read()))
        except OSError:
            pass
    return found


def upstream_pid(server):
    """Of the daemon under test: its keeper is a child of the process that the test started."""
    for pid, status in processes_named(server, "upstream"):
        parent = int(next(line.split()[1] for line in status.splitlines()
                          if line.startswith("PPid:")))
        with open(f"/proc/{parent}/stat") as stat:
            if int(stat.read().rsplit(")", 1)[1].split()[1]) == server.process.pid:
                return pid
    raise AssertionError("there is no process 'upstream'")


def test_only_the_process_upstream_has_the_key(server, model):
    model.script("alive", [text("yes")])
    ask(server, "alive")
    pid = upstream_pid(server)
    with open(f"/proc/{server.get('/v1/info')['broker_pid']}/environ", "rb") as environ:
        assert SECRET.encode() not in environ.read()
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)
    assert fields["CapEff"].strip("0") == "" and fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    if os.geteuid() == 0:
        assert fields["Uid"].split()[0] != "0"


def test_a_killed_broker_leaves_failed_responses_and_not_unfinished_ones(model):
    model.script("stuck", [[{"begin": True}, {"hang": True}]])
    model.script("alive", [text("yes")])
    with served(model) as own:
        made = ask(own, "stuck", background=True)
        support.wait_until(lambda: model.requests("stuck"), "the model server is asked")
        os.kill(own.get("/v1/info")["broker_pid"], signal.SIGKILL)

        def state():
            try:
                return own.tcp("GET", f"/v1/responses/{made['id']}").json()
            except (OSError, http.client.HTTPException):
                return {}
        support.wait_until(lambda: state().get("status") == "failed", "it has failed")
        assert state()["error"]["code"] == "server_error"
        assert ask(own, "alive")["status"] == "completed"


def test_many_streams_at_once(server, model):
    model.script("crowd", [[{"begin": True}, {"wait": "crowd"}, *text("a", "b")]])
    done = []

    def one():
        done.append(stream(server, "crowd", store=False)[-1]["type"])
    threads = [threading.Thread(target=one) for _ in range(200)]
    for thread in threads:
        thread.start()
    support.wait_until(lambda: len(model.requests("crowd")) == 200, "all are asked")
    model.go("crowd")
    for thread in threads:
        thread.join()
    assert done == ["response.completed"] * 200


# ---- other configurations ----

def configured(settings):
    room = support.Room()
    room.write("bailey.yaml", ("providers:\n  code_interpreter:\n    enabled: true\n    settings:\n" +
                               "".join(f"      {line}\n" for line in settings)).encode())
    return room


def test_nested_items_and_a_new_box_for_each_call(model):
    room = configured(["item_shape: nested", "per: execution", "execution_timeout: 60"])
    with tcp.Server({"BAILEY_UPSTREAM_URL": model.url, "BAILEY_CONFIG": None}, room=room) as server:
        model.script("fresh", [code("x = 1", id="a"), code(PICTURE + "print('x' in globals())",
                                                           id="b", size=200), text("ok")])
        response = ask(server, "fresh", tools=CODE, include=OUTPUTS)
        first, second = response["output"][:2]
        assert set(first) == {"type", "id", "status", "code_interpreter"}
        assert first["code_interpreter"] == {"code": "x = 1", "outputs": []}
        assert second["code_interpreter"]["outputs"] == [{"type": "logs", "logs": "False\n"}]
        assert server.tcp("GET", "/v1/containers").json()["data"] == []
    room.remove()


def test_no_box_to_be_had_is_an_error_that_the_model_reads(model):
    model.script("full", [code("print(1)"), text("sorry")])
    with tcp.Server({"BAILEY_UPSTREAM_URL": model.url, "SANDBOX_MAX_SESSIONS": "1"}) as server:
        taken = server.post("/v1/sessions", {}, 201)["id"]
        response = ask(server, "full", tools=CODE)
        assert response["status"] == "completed" and response["output"][0]["status"] == "failed"
        assert response["output"][0]["container_id"].startswith("cntr_")
        assert "No sandbox could be had" in told(model, "full")[0]
        server.end(taken)


def test_a_server_without_a_model_server_says_how_to_get_one():
    with tcp.Server({}) as server:
        error = fails(server, 503)
        assert "BAILEY_UPSTREAM_URL" in error["message"]


@pytest.mark.parametrize("line, key", [("sandbox_url: http://127.0.0.1:1", "sandbox_url"),
                                       ("sandbox_template: data", "sandbox_template")])
def test_what_another_runtime_will_serve_is_refused_by_its_key(line, key):
    room = configured([line])
    done = support.bailey("serve", env={"BAILEY_CONFIG": None, "SANDBOX_LISTEN": "none"}, room=room)
    assert done.status == 125 and key in done.stderr, done
    room.remove()
