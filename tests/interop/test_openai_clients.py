"""
POST /v1/responses for the clients that people have: the openai packages of PyPI and npm, raw streams
and their strict helpers, the Agents SDK with its CodeInterpreterTool, LangChain.

BAILEY_OPENAI_ROWS names other rows of tools/interop-setup (`make test-clients`: earlier versions).
"""
import os
import subprocess
from pathlib import Path

import pytest

import model_server
import support
import tcp

from sdk_server import NEWEST_NODE

ROWS = os.environ.get("BAILEY_OPENAI_ROWS", "openai-py openai-js").split()

# The PyPI client: a plain response, a raw stream, the strict helper, retrieve and delete.
PYTHON = """
import json, sys
from openai import OpenAI, BadRequestError, NotFoundError
client = OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
outputs = ["code_interpreter_call.outputs"]
function = {"type": "function", "name": "add", "description": "adds", "strict": False,
            "parameters": {"type": "object", "properties": {}}}
def whole(seen):  # the client itself lets pass what is missing, or of another type
    type(seen).model_validate(seen.to_dict())
    return seen
made = client.responses.create(model="sum", input="Go", tools=tools, include=outputs)
call = made.output[0]
assert call.type == "code_interpreter_call" and call.outputs[0].logs == "42\\n", made
assert made.output_text == "It is 42" and made.usage.total_tokens == 30, made
raw = list(client.responses.create(model="sum", input="Go", tools=tools, stream=True))
for seen in (made, *raw, client.responses.retrieve(made.id)):
    whole(seen)
assert raw[0].type == "response.created" and raw[-1].type == "response.completed", raw
code = "".join(e.delta for e in raw if e.type == "response.code_interpreter_call_code.delta")
assert code == "print(6*7)", code
if hasattr(client.responses, "stream"):
    with client.responses.stream(model="sum", input="Go", tools=tools) as stream:
        seen = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == "It is 42" and final.status == "completed", final
    assert "response.code_interpreter_call.interpreting" in seen, seen
for name in ("call", "cut", "breaks", "wrong", "file"):
    for seen in client.responses.create(model=name, input="Go", stream=True, tools=tools + [function]):
        whole(seen)
    whole(client.responses.create(model=name, input="Go", tools=tools + [function], include=outputs))
call = client.responses.create(model="call", input="Go", tools=[function])
done = [{"type": "function_call_output", "call_id": call.output[0].call_id, "output": "3"}]
assert client.responses.create(model="sum", input=done, previous_response_id=call.id).output_text
later = whole(client.responses.create(model="sum", input="Go", background=True))
whole(client.responses.cancel(later.id))
more = client.responses.create(model="sum", input="More", previous_response_id=made.id)
assert more.previous_response_id == made.id
assert client.responses.retrieve(made.id, include=outputs).output[0].outputs[0].logs == "42\\n"
assert [whole(one).type for one in client.responses.input_items.list(made.id)] == ["message"]
client.responses.delete(made.id)
try:
    client.responses.retrieve(made.id)
    raise SystemExit("it is still there")
except NotFoundError as error:
    assert error.code == "response_not_found", error
try:
    client.responses.create(model="sum", input="Go", max_output_tokens=1)
    raise SystemExit("it was taken")
except BadRequestError as error:
    assert error.param == "max_output_tokens", error
print("fine")
"""

JAVASCRIPT = """
import OpenAI from "openai";
import { readFileSync } from "node:fs";
const version = JSON.parse(readFileSync(new URL("node_modules/openai/package.json", import.meta.url))).version;
const client = new OpenAI({baseURL: process.argv[2], apiKey: process.argv[3], maxRetries: 0});
const tools = [{type: "code_interpreter", container: {type: "auto"}}];
function assert(fits, what) { if (!fits) throw new Error(JSON.stringify(what)); }
const made = await client.responses.create({model: "sum", input: "Go", tools,
                                            include: ["code_interpreter_call.outputs"]});
assert(made.output[0].outputs[0].logs === "42\\n" && made.output_text === "It is 42", made);
const types = [];
for await (const event of await client.responses.create({model: "sum", input: "Go", tools, stream: true}))
    types.push(event.type);
assert(types[0] === "response.created" && types.at(-1) === "response.completed", types);
const final = await client.responses.stream({model: "sum", input: "Go", tools}).finalResponse();
assert(final.status === "completed" && final.output[0].code === "print(6*7)", final);
let last;
for await (const event of await client.responses.create({model: "breaks", input: "Go", stream: true})) last = event;
assert(last.type === "response.failed" && last.response.error.code === "server_error", last);
const failed = await client.responses.stream({model: "breaks", input: "Go"}).finalResponse();
assert(failed.status === "failed" || parseInt(version) < 7, failed); // that helper knows response.completed only
try { await client.responses.create({model: "none", input: "Go"}); throw new Error("taken"); }
catch (error) { assert(error.status === 400 && error.message.includes("does not exist"), `${error}`); }
console.log("fine");
"""

AGENTS = """
import asyncio, sys
from agents import Agent, Runner, CodeInterpreterTool, OpenAIResponsesModel, set_tracing_disabled
from openai import AsyncOpenAI
set_tracing_disabled(True)
client = AsyncOpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
tool = CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}})
agent = Agent(name="a", instructions="Compute", tools=[tool],
              model=OpenAIResponsesModel(model="sum", openai_client=client))
async def main():
    result = await Runner.run(agent, "What is 6*7?")
    assert result.final_output == "It is 42", result
    streamed = Runner.run_streamed(agent, "What is 6*7?")
    async for event in streamed.stream_events():
        pass
    assert streamed.final_output == "It is 42", streamed
    again = await Runner.run(agent, result.to_input_list() + [{"role": "user", "content": "Again"}])
    assert again.final_output == "It is 42", again
asyncio.run(main())
print("fine")
"""

LANGCHAIN = """
import sys
from langchain_openai import ChatOpenAI
model = ChatOpenAI(model="sum", base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0,
                   use_responses_api=True, include=["code_interpreter_call.outputs"])
def ran(message):
    # The code ran, and what it printed is in the message.
    calls = [one for one in message.content if one["type"] == "code_interpreter_call"]
    assert [one["code"] for one in calls] == ["print(6*7)"], message
    assert calls[0]["outputs"] == [{"type": "logs", "logs": "42\\n"}], message
    assert calls[0]["status"] == "completed" and calls[0]["container_id"], message
    return True
tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
bound = model.bind_tools(tools)
answer = bound.invoke("What is 6*7?")
assert ran(answer) and answer.text == "It is 42", answer
assert answer.usage_metadata["total_tokens"] == 30, answer
pieces = list(bound.stream("What is 6*7?"))
whole = pieces[0]
for piece in pieces[1:]:
    whole += piece
assert ran(whole) and whole.text == "It is 42", whole
again = bound.invoke([("user", "What is 6*7?"), answer, ("user", "Again")])
assert ran(again) and again.text == "It is 42", again
more = bound.bind(previous_response_id=answer.response_metadata["id"]).invoke("More")
assert ran(more) and more.content[0]["container_id"] == answer.content[0]["container_id"], more
print("fine")
"""


def row(name):
    """Its folder; skips only when its registry cannot be reached."""
    done = subprocess.run([support.REPO / "tools" / "interop-setup", name], text=True,
                          capture_output=True, timeout=900, check=False)
    if done.returncode == 2:
        pytest.skip(f"the registry cannot be reached: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().split("\n")[-1]) / name


@pytest.fixture(scope="module")
def server():
    with model_server.Server() as model:
        model.script("sum", [model_server.code("print(6*7)"), model_server.text("It is ", "42")])
        model.script("call", [[*model_server.call("{}", name="add"), *model_server.end("tool_calls")]])
        model.script("cut", [model_server.text("half", finish="length")])
        model.script("wrong", [[*model_server.call("nonsense"), *model_server.end("tool_calls")],
                               model_server.text("sorry")])
        model.script("file", [model_server.code("open('/mnt/data/a.csv', 'w').write('1')\nimport base64\n"
                                                "display({'image/png': 'aGVsbG8='}, raw=True)"),
                              model_server.text("[it](sandbox:/mnt/data/a.csv)")])
        model.script("breaks", [[{"send": model_server.event({"content": "half"})}, {"cut": True}]])
        with tcp.Server({"BAILEY_UPSTREAM_URL": model.url}) as running:
            yield running


def run(server, *command, cwd=None):
    done = subprocess.run([*map(str, command), f"http://127.0.0.1:{server.port}/v1", server.key],
                          capture_output=True, text=True, timeout=120, check=False, cwd=cwd,
                          env={**os.environ, "OPENAI_AGENTS_DISABLE_TRACING": "1"})
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr


def in_python(server, name, source):
    run(server, row(name) / "bin" / "python", "-c", source)


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("openai-py")])
def test_the_client_of_pypi(server, name):
    in_python(server, name, PYTHON)


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("openai-js")])
def test_the_client_of_npm(server, name):
    folder = row(name)
    node = row("mcp-inspector").parent / NEWEST_NODE
    script = folder / "check.mjs"
    script.write_text(JAVASCRIPT)
    run(server, node, script)


def test_the_agents_sdk(server):
    in_python(server, "sdk-frameworks", AGENTS)


def test_langchain(server):
    in_python(server, "openai-langchain", LANGCHAIN)
