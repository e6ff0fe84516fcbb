"""pydantic_ai.py - a sandbox as a toolset of Pydantic AI (needs pydantic-ai-slim).

    async with AsyncSandbox() as sandbox:
        agent = Agent("openai:gpt-5", toolsets=[sandbox_toolset(sandbox)])
        print((await agent.run("How many primes are below 10,000?")).output)
"""
from __future__ import annotations

from typing import Any, List, Optional

from pydantic_ai import FunctionToolset, Tool

from .._async.sandbox import AsyncSandbox
from ._tools import AsyncSandboxTools, chosen


def sandbox_toolset(sandbox: AsyncSandbox, names: Optional[List[str]] = None
                    ) -> "FunctionToolset[Any]":
    """Tools over one sandbox: run_python, run_command, read_file, write_file, install_packages."""
    tools = AsyncSandboxTools(sandbox)
    return FunctionToolset([Tool(getattr(tools, row.name), name=row.name,
                                 description=row.description, takes_ctx=False)
                            for row in chosen(names)])
