"""POST /v1/responses over several requests: calls and their outputs, containers and files that stay, items
by reference, pages of input items; and model servers that do not do what they are asked."""
import base64
import json

import pytest

import model_server
import support
import tcp

from model_server import call, code, end, text

OUTPUTS = ["code_interpreter_call.outputs"]
ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
def model():
    with model_server.Server() as running:
        running.script("tea", [text("with ", "milk")])
        running.script("add", [[*call("{}", name="add", id="call_9"), *end("tool_calls")]])
        yield running


@pytest.fixture(scope="module")
def server(model):
    with tcp.Server({"BAILEY_UPSTREAM_URL": model.url, "SANDBOX_MEMORY_LIMIT": "4g"}) as running:
        ask(running, "tea")  # the process `upstream` stays from the first request on
        yield running


@pytest.fixture(autouse=True)
def tidy(server, leaks):
    """Containers live longer than responses: a test ends its own."""
    yield
    for one in server.tcp("GET", "/v1/containers?limit=100").json()["data"]:
        server.tcp("DELETE", f"/v1/containers/{one['id']}")
    support.wait_until(lambda: not server.get("/v1/sessions")["sessions"], "all sessions end")


def ask(server, name, status=200, **members):
    reply = server.tcp("POST", "/v1/responses", {"model": name, "input": "Go", **members})
    assert reply.status == status, reply
    return reply.json()


def fails(server, param, name="tea", status=400, **members):
    error = ask(server, name, status, **members)["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["param"] == param, error
    return error["message"]


def interpreter(**container):
    return [{"type": "code_interpreter", "container": {"type": "auto", **container}}]


def logs(response):
    return "".join(one["logs"] for item in response["output"] if "outputs" in item
                   for one in item["outputs"])


def test_instructions_are_those_of_one_response(server, model):
    first = ask(server, "tea", instructions="Be brief")
    second = ask(server, "tea", previous_response_id=first["id"], input="More")
    third = ask(server, "tea", previous_response_id=first["id"], instructions="Be long")
    said = [[m["content"] for m in one["body"]["messages"]] for one in model.requests("tea")[-3:]]
    assert said == [["Be brief", "Go"], ["Go", "with milk", "More"], ["Be long", "Go", "with milk", "Go"]]
    assert [one["instructions"] for one in (first, second, third)] == ["Be brief", None, "Be long"]
    assert server.tcp("GET", f"/v1/responses/{third['id']}").json()["instructions"] == "Be long"


# ---- calls and their outputs ----

def test_an_output_without_its_call_is_refused_and_a_call_without_its_output(server, model):
    before = len(model.requests("tea"))
    output = {"type": "function_call_output", "call_id": "call_9", "output": "3"}
    assert "call_9" in fails(server, "input", input=[output])
    called = ask(server, "add", tools=[ADD])
    assert "no function_call_output" in fails(server, "input", previous_response_id=called["id"])
    assert len(model.requests("tea")) == before, "the model is not asked in vain"
    ask(server, "tea", previous_response_id=called["id"], input=[output])
    ask(server, "tea", input=[{"role": "user", "content": "Go"}, called["output"][0], output])


def test_a_response_that_is_not_over_cannot_be_continued(server, model):
    model.script("later", [[{"begin": True}, {"wait": "later"}, *text("here")]])
    made = ask(server, "later", background=True)
    assert "not over" in fails(server, "previous_response_id", previous_response_id=made["id"])
    model.go("later")
    path = f"/v1/responses/{made['id']}"
    support.wait_until(lambda: server.tcp("GET", path).json()["status"] == "completed", "it ends")
    ask(server, "tea", previous_response_id=made["id"])
    assert [one["content"] for one in model.requests("tea")[-1]["body"]["messages"]] == [
        "Go", "here", "Go"]


def test_pages_of_input_items_begin_behind_an_item_that_is_there(server):
    made = ask(server, "tea", input=[{"role": "user", "content": word} for word in "abc"])
    path = f"/v1/responses/{made['id']}/input_items"
    seen, after = [], ""
    while True:
        page = server.tcp("GET", f"{path}?limit=2{after}").json()
        seen += [one["content"][0]["text"] for one in page["data"]]
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"
    assert seen == ["c", "b", "a"], "the newest first"
    for query, param in (("after=msg_nothing", "after"), ("limit=0", "limit"), ("order=up", "order"),
                         ("before=msg_nothing", "before")):
        reply = server.tcp("GET", f"{path}?{query}")
        assert reply.status == 400, reply
        error = reply.json()["error"]
        assert error["param"] == param and error["message"].startswith(f"{param}: "), error


# ---- containers that stay ----

def test_a_container_with_a_memory_limit_stays(server, model):
    model.script("set", [code("x = 5"), text("ok")])
    model.script("get", [code("print(x)"), text("ok")])
    first = ask(server, "set", tools=interpreter(memory_limit="1g"))
    second = ask(server, "get", tools=interpreter(memory_limit="1g"), include=OUTPUTS,
                 previous_response_id=first["id"])
    assert logs(second) == "5\n"
    other = ask(server, "get", tools=interpreter(memory_limit="4g"), previous_response_id=first["id"])
    assert other["output"][0]["container_id"] != first["output"][0]["container_id"]


# ---- model servers ----

def test_no_code_runs_with_the_choice_none(server, model):
    model.script("stubborn", [code("print('ran')"), text("as you like")])
    response = ask(server, "stubborn", tools=interpreter(), tool_choice="none")
    assert [one["type"] for one in response["output"]] == ["message"]
    assert "tool_choice" in model.requests("stubborn")[-1]["body"]["messages"][-1]["content"]


@pytest.mark.parametrize("kind", ["application/json", "text/plain", None])
@pytest.mark.parametrize("first", ["", ": a comment\n\n", "\r\n"])
def test_events_under_another_content_type_are_read(server, model, kind, first):
    events = "".join(f"data: {json.dumps(step['send'])}\n\n" if "send" in step else step["raw"]
                     for step in text("as ", "events"))
    model.script("untyped", [[{"status": 200, "headers": {"Content-Type": kind} if kind else {},
                               "body": first + events}]])
    assert ask(server, "untyped")["output"][0]["content"][0]["text"] == "as events"


def test_tokens_written_to_a_cache_are_counted(server, model):
    usage = {"prompt_tokens": 9, "completion_tokens": 1,
             "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}}
    model.script("cache", [text("ok", usage=usage)])
    assert ask(server, "cache", prompt_cache_options={"ttl": "30m"})["usage"] == {
        "input_tokens": 9, "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
        "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 10}


# ---- files ----

SHOW = ("import pathlib\nfor one in sorted(pathlib.Path('/mnt/data').iterdir()):\n"
        "    print(one.name, one.read_text())")


def upload(server, name, content):
    boundary = ("--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--b\r\n"
                f"Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n--b--\r\n")
    reply = server.tcp("POST", "/v1/files", boundary,
                       {"Content-Type": "multipart/form-data; boundary=b"})
    assert reply.status == 200, reply
    return reply.json()["id"]


def question(*files):
    """A message with files: (name, text), or the id of an uploaded one."""
    parts = [{"type": "input_file", "file_id": one} if isinstance(one, str) else
             {"type": "input_file", "filename": one[0],
              "file_data": base64.b64encode(one[1].encode()).decode()} for one in files]
    return {"role": "user", "content": [{"type": "input_text", "text": "Go"}, *parts]}


def last_words(model, name):
    """The newest message of the person that the model server was sent."""
    return [one["content"] for one in model.requests(name)[-1]["body"]["messages"]
            if one["role"] == "user"][-1]


def test_files_of_the_tool_are_copied_once_and_changes_to_them_stay(server, model):
    model.script("change", [code("open('/mnt/data/a.csv', 'a').write(' changed')"), text("ok")])
    model.script("show", [code(SHOW, size=99), text("ok")])
    tools = interpreter(file_ids=[upload(server, "a.csv", "first")])
    first = ask(server, "change", tools=tools)
    second = ask(server, "show", tools=tools, include=OUTPUTS, previous_response_id=first["id"])
    assert logs(second) == "a.csv first changed\n"


def test_a_newer_file_of_the_same_name_takes_its_place(server, model):
    model.script("show", [code(SHOW, size=99), text("ok")])
    first = ask(server, "show", tools=interpreter(), include=OUTPUTS, input=[question(("a.csv", "old"))])
    assert logs(first) == "a.csv old\n"
    second = ask(server, "show", tools=interpreter(), include=OUTPUTS, input=[question(("a.csv", "new"))],
                 previous_response_id=first["id"])
    assert "[file /mnt/data/a.csv]" in last_words(model, "show")
    assert logs(second) == "a.csv new\n"


def test_files_of_one_name_in_one_request_are_told_apart(server, model):
    model.script("show", [code(SHOW, size=99), text("ok")])
    uploaded = upload(server, "a.csv", "three")
    response = ask(server, "show", tools=interpreter(file_ids=[uploaded]), include=OUTPUTS,
                   input=[question(("a.csv", "one"), ("a.csv", "two"), uploaded, ("a.csv", "one"))])
    assert last_words(model, "show").split("\n")[1:] == [
        "[file /mnt/data/2_a.csv]", "[file /mnt/data/3_a.csv]", "[file /mnt/data/a.csv]",
        "[file /mnt/data/2_a.csv]"]
    assert logs(response) == "2_a.csv one\n3_a.csv two\na.csv three\n"


def test_a_history_that_is_sent_again_neither_resets_files_nor_keeps_them_twice(server, model):
    model.script("change", [code("open('/mnt/data/a.csv', 'a').write(' changed')"), text("ok")])
    model.script("show", [code(SHOW, size=99), text("ok")])
    before = [one["id"] for one in server.tcp("GET", "/v1/files").json()["data"]]
    history = [question(("a.csv", "again"))]
    first = ask(server, "change", tools=interpreter(), input=history, store=False)
    history += [*first["output"], {"role": "user", "content": "And now?"}]
    second = ask(server, "show", tools=interpreter(), include=OUTPUTS, input=history, store=False)
    assert logs(second) == "a.csv again changed\n"
    kept = [one for one in server.tcp("GET", "/v1/files").json()["data"] if one["id"] not in before]
    assert [one["filename"] for one in kept] == ["a.csv"]
    assert server.tcp("DELETE", f"/v1/files/{kept[0]['id']}").status == 200
    ask(server, "show", tools=interpreter(), input=history, store=False)  # it is there again


def test_a_picture_by_its_id_is_shown_to_the_model_and_a_file_for_its_code(server, model):
    model.script("show", [code(SHOW, size=99), text("ok")])
    picture = upload(server, "p.png", "pixels")
    content = [{"type": "input_image", "file_id": picture}]
    response = ask(server, "show", tools=interpreter(), include=OUTPUTS,
                   input=[{"role": "user", "content": content}])
    assert last_words(model, "show") == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cGl4ZWxz"}},
        {"type": "text", "text": "[file /mnt/data/p.png]"}]
    assert logs(response) == "p.png pixels\n"
    items = server.tcp("GET", f"/v1/responses/{response['id']}/input_items").json()["data"]
    assert items[0]["content"] == content


# ---- items by reference ----

def test_items_by_reference_are_those_of_stored_responses(server, model):
    model.script("put", [code("x = 5\nprint('was', x)"), text("five")])
    model.script("take", [code("print(x)"), text("ok")])
    call_item, message = ask(server, "put", tools=interpreter())["output"]
    items = [{"role": "user", "content": "Set"}, {"type": "item_reference", "id": call_item["id"]},
             {"id": message["id"]}, {"role": "user", "content": "Get"}]
    second = ask(server, "take", tools=interpreter(), include=OUTPUTS, input=items)
    assert logs(second) == "5\n", "in the same container"
    first, calls, told, said, last = model.requests("take")[0]["body"]["messages"]
    assert [first["content"], said["content"], last["content"]] == ["Set", "five", "Get"]
    assert json.loads(calls["tool_calls"][0]["function"]["arguments"])["code"] == call_item["code"]
    assert told["content"] == "was 5\n", "what the model read then"
    listed = server.tcp("GET", f"/v1/responses/{second['id']}/input_items?order=asc").json()["data"]
    assert [one["type"] for one in listed] == ["message", "code_interpreter_call", "message", "message"]
    assert listed[2] == message and listed[1] == call_item


def test_items_of_others_and_of_responses_that_are_gone_are_not_found(server):
    def missing(item, key=None):
        reply = server.tcp("POST", "/v1/responses", {"model": "tea", "input": [
            {"role": "user", "content": "Go"}, {"type": "item_reference", "id": item}]}, key=key)
        assert reply.status == 404 and reply.json()["error"]["param"] == "input[1]", reply
    made = ask(server, "tea")
    item = made["output"][0]["id"]
    missing("msg_nothing")
    missing(item, key=server.new_key(tenant="other"))
    missing(ask(server, "tea", store=False)["output"][0]["id"])
    server.tcp("DELETE", f"/v1/responses/{made['id']}")
    missing(item)


# ---- containers that end ----

def test_a_conversation_goes_on_when_its_container_has_expired(server, model):
    model.script("begin", [code("x = 5"), text("ok")])
    model.script("go on", [code("print('x' in globals())"), text("ok")])
    first = ask(server, "begin", tools=interpreter())
    gone = first["output"][0]["container_id"]
    server.bailey("session", "rm", "s_" + gone.removeprefix("cntr_"))
    assert server.tcp("GET", f"/v1/containers/{gone}").json()["status"] == "expired"
    error = ask(server, "go on", 404, tools=[{"type": "code_interpreter", "container": gone}])["error"]
    assert error["code"] == "container_expired" and error["param"] == "tools[0].container"
    again = ask(server, "go on", tools=interpreter(), include=OUTPUTS, previous_response_id=first["id"])
    assert again["output"][0]["container_id"] != gone and logs(again) == "False\n"
