"""sdk_frameworks.py - agents of three real frameworks use a sandbox; prints what they saw as JSON.

Each has a model that answers by a script: first a call of run_python, then the last tool's output as
its answer. What is tried is the way from the framework's loop into the sandbox and back.
"""
import asyncio
import json
import sys

CODE = "import platform\nx = 6 * 7\nprint(platform.system(), x)"


def langchain():
    from langchain_core.messages import ToolMessage

    from bailey import AsyncSandbox, Sandbox
    from bailey.integrations.langchain import sandbox_tools

    with Sandbox() as sandbox:
        tools = {tool.name: tool for tool in sandbox_tools(sandbox)}
        message = tools["run_python"].invoke({"type": "tool_call", "id": "1", "name": "run_python",
                                              "args": {"code": CODE}})
        assert isinstance(message, ToolMessage)
        seen = {"names": sorted(tools), "answer": message.content,
                "schema": tools["run_python"].args_schema.model_json_schema(),
                "error": tools["run_python"].invoke({"code": "1/0"}),
                "command": tools["run_command"].invoke({"command": "echo hi; exit 3"}),
                "written": tools["write_file"].invoke({"path": "a.txt", "content": "abc"}),
                "read": tools["read_file"].invoke({"path": "a.txt"}),
                "missing": tools["read_file"].invoke({"path": "b.txt"}),
                "installed": tools["install_packages"].invoke({"packages": ["castle"]})}

    async def main():
        async with AsyncSandbox() as sandbox:
            tool = sandbox_tools(sandbox, ["run_python"])[0]
            return await tool.ainvoke({"code": CODE})

    return {**seen, "async": asyncio.run(main())}


def openai_agents():
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
    from openai.types.responses import (ResponseFunctionToolCall, ResponseOutputMessage,
                                        ResponseOutputText)

    from bailey import AsyncSandbox
    from bailey.integrations.openai_agents import sandbox_tools

    class Scripted(Model):
        tools = []

        async def get_response(self, system_instructions, input, model_settings, tools, *args, **kwargs):
            Scripted.tools = tools
            outputs = [i for i in input if isinstance(i, dict) and i.get("type") == "function_call_output"] \
                if isinstance(input, list) else []
            if not outputs:
                made = ResponseFunctionToolCall(arguments=json.dumps({"code": CODE}), call_id="1",
                                                name="run_python", type="function_call", id="1")
            else:
                text = ResponseOutputText(annotations=[], text=outputs[-1]["output"], type="output_text",
                                          logprobs=[])
                made = ResponseOutputMessage(id="2", content=[text], role="assistant",
                                             status="completed", type="message")
            return ModelResponse(output=[made], usage=Usage(), response_id=None)

        async def stream_response(self, *args, **kwargs):
            raise NotImplementedError
            yield

    async def main():
        async with AsyncSandbox() as sandbox:
            agent = Agent(name="Analyst", model=Scripted(), tools=sandbox_tools(sandbox))
            result = await Runner.run(agent, "compute", run_config=RunConfig(tracing_disabled=True))
            return {"answer": result.final_output, "names": sorted(t.name for t in Scripted.tools),
                    "schema": next(t for t in Scripted.tools if t.name == "run_python").params_json_schema}

    return asyncio.run(main())


def pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    from bailey import AsyncSandbox
    from bailey.integrations.pydantic_ai import sandbox_toolset

    tools = []

    def scripted(messages, info):
        tools[:] = info.function_tools
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(last.content)])
        return ModelResponse(parts=[ToolCallPart("run_python", {"code": CODE})])

    async def main():
        async with AsyncSandbox() as sandbox:
            agent = Agent(FunctionModel(scripted), toolsets=[sandbox_toolset(sandbox)])
            result = await agent.run("compute")
            return {"answer": result.output, "names": sorted(t.name for t in tools),
                    "schema": next(t for t in tools if t.name == "run_python").parameters_json_schema}

    return asyncio.run(main())


print(json.dumps({"langchain": langchain, "openai_agents": openai_agents,
                  "pydantic_ai": pydantic_ai}[sys.argv[1]]()))
