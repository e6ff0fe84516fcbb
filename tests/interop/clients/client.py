"""client.py - the official Python SDK, either line of it, as a user of `bailey mcp` or of /mcp.

    client.py SCENARIO.json ERA COMMAND ARGUMENT...     ERA: legacy, auto, or a version (2.x only)
    client.py SCENARIO.json ERA URL KEY [SESSION]       over HTTP; every call names the session

Runs in a venv that tools/interop-setup made. Prints what it saw as one JSON object.
"""
import asyncio
import contextlib
import json
import os
import sys

import mcp
from mcp import StdioServerParameters

IS_NEW = hasattr(mcp, "Client")


def plain(thing):
    return thing.model_dump(by_alias=True, mode="json", exclude_none=True)


class Named:
    """A session whose calls all name one of the engine's."""

    def __init__(self, session, name):
        self.session, self.name = session, name

    def __getattr__(self, attribute):
        return getattr(self.session, attribute)

    def call_tool(self, tool, arguments, **rest):
        return self.session.call_tool(tool, {**arguments, "session": self.name}, **rest)


def over_http(url, key):
    from mcp.client import streamable_http
    headers = {"Authorization": f"Bearer {key}"}
    return streamable_http.streamable_http_client(
        url, http_client=streamable_http.create_mcp_http_client(headers=headers))


@contextlib.asynccontextmanager
async def connect(parameters, era):
    """(session, what the handshake said)"""
    if IS_NEW:
        if isinstance(parameters, tuple):
            parameters = over_http(*parameters)
        async with mcp.Client(parameters, mode=era) as client:
            # A pinned version asks nothing of the server before its first call.
            server = client.server_info
            yield client, {"version": client.protocol_version, "instructions": client.instructions,
                           "server": server.name if server else None}
        return
    from mcp.client.stdio import stdio_client
    way = over_http(*parameters) if isinstance(parameters, tuple) else stdio_client(parameters)
    async with way as streams, mcp.ClientSession(*streams[:2]) as session:
        said = await session.initialize()
        yield session, {"version": said.protocolVersion, "instructions": said.instructions,
                        "server": said.serverInfo.name}


async def failure(awaitable):
    """The code of the JSON-RPC error that it raises."""
    try:
        return {"unexpected": plain(await awaitable)}
    except Exception as problem:  # McpError is MCPError in 2.x
        return {"code": getattr(getattr(problem, "error", problem), "code", None),
                "message": str(problem)}


async def progress_until_seen(session, plan):
    told, calls = [], []

    async def on_progress(progress, total, message):
        told.append([progress, message])
        if "step one" in message:
            # Not awaited here: 1.x reads no answers while this runs.
            calls.append(asyncio.create_task(
                session.call_tool("sandbox_exec", {"command": plan["seen"]})))

    result = await session.call_tool("sandbox_exec", {"command": plan["steps"]},
                                     progress_callback=on_progress)
    await asyncio.gather(*calls)
    return {"told": told, "result": plain(result)}


async def cancel(session, plan):
    call = asyncio.create_task(session.call_tool("sandbox_exec", {"command": plan["endless"]}))
    await session.call_tool("sandbox_exec", {"command": plan["runs"]})
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    return plain(await session.call_tool("sandbox_exec", {"command": plan["gone"]}))


async def use(session, plan, saw):
    saw["tools"] = plain(await session.list_tools())["tools"]
    saw["tools_again"] = plain(await session.list_tools())["tools"]
    saw["no_resources"] = plain(await session.list_resources())["resources"]
    saw["written"] = plain(await session.call_tool(
        "sandbox_write_file", {"file_path": "/tmp/plot.py", "content": plan["script"]}))
    saw["drawn"] = plain(await session.call_tool(
        "sandbox_exec", {"command": ["python3", "/tmp/plot.py"]}))
    saw["resources"] = plain(await session.list_resources())["resources"]
    links = [b["uri"] for b in saw["drawn"]["content"] if b["type"] == "resource_link"]
    saw["read"] = [plain(await session.read_resource(uri))["contents"][0] for uri in links]
    saw["missing"] = await failure(session.read_resource(links[0] + ".not"))
    saw["templates"] = plain(await session.list_resource_templates())["resourceTemplates"]
    saw["prompts"] = plain(await session.list_prompts())["prompts"]
    saw["prompt"] = plain(await session.get_prompt(saw["prompts"][0]["name"]))
    saw["failed"] = plain(await session.call_tool("sandbox_exec", {"command": plan["fails"]}))
    saw["bad_path"] = plain(await session.call_tool(
        "sandbox_write_file", {"file_path": "/home/x", "content": ""}))
    saw["python"] = plain(await session.call_tool("run_python_code", {"code": "print(6 * 7)"}))
    saw["unknown"] = await failure(session.call_tool("sandbox_exce", {}))
    both = [session.call_tool("sandbox_exec", {"command": plan[n]}) for n in ("waits", "goes")]
    saw["parallel"] = [plain(r) for r in await asyncio.gather(*both)]
    saw["progress"] = await progress_until_seen(session, plan)
    if IS_NEW:  # 1.x tells nobody that a call was cancelled
        saw["cancelled"] = await cancel(session, plan)


async def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    is_http = sys.argv[3].startswith("http://")
    parameters = (sys.argv[3], sys.argv[4]) if is_http else StdioServerParameters(
        command=sys.argv[3], args=sys.argv[4:], env=dict(os.environ))
    async with connect(parameters, sys.argv[2]) as (session, saw):
        await use(Named(session, sys.argv[5]) if is_http and len(sys.argv) > 5 else session, plan,
                  saw)
    print(json.dumps(saw))


asyncio.run(main())
