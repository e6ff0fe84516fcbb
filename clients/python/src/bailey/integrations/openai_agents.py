"""openai_agents.py - a sandbox as function tools of the OpenAI Agents SDK (needs openai-agents).

    async with AsyncSandbox() as sandbox:
        agent = Agent(name="Analyst", tools=sandbox_tools(sandbox))
        result = await Runner.run(agent, "How many primes are below 10,000?")
"""
from __future__ import annotations

from typing import List, Optional

from agents import FunctionTool, function_tool

from .._async.sandbox import AsyncSandbox
from ._tools import AsyncSandboxTools, chosen


def sandbox_tools(sandbox: AsyncSandbox, names: Optional[List[str]] = None) -> List[FunctionTool]:
    """Tools over one sandbox: run_python, run_command, read_file, write_file, install_packages."""
    tools = AsyncSandboxTools(sandbox)
    return [function_tool(getattr(tools, row.name), name_override=row.name,
                          description_override=row.description, strict_mode=True)
            for row in chosen(names)]
