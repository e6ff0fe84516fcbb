"""langchain.py - a sandbox as tools of LangChain (needs langchain-core).

    from bailey import Sandbox
    from bailey.integrations.langchain import sandbox_tools

    with Sandbox() as sandbox:
        agent = create_agent(model, tools=sandbox_tools(sandbox))
"""
from __future__ import annotations

from typing import List, Optional, Union

from langchain_core.tools import BaseTool, StructuredTool

from .._async.sandbox import AsyncSandbox
from .._sync.sandbox import Sandbox
from ._tools import AsyncSandboxTools, SandboxTools, chosen


def sandbox_tools(sandbox: Union[Sandbox, AsyncSandbox],
                  names: Optional[List[str]] = None) -> List[BaseTool]:
    """Tools over one sandbox: run_python, run_command, read_file, write_file, install_packages.

    A Sandbox gives tools that agents call with invoke and ainvoke; an AsyncSandbox those for ainvoke.
    """
    if isinstance(sandbox, AsyncSandbox):
        waiting = AsyncSandboxTools(sandbox)
        return [StructuredTool.from_function(coroutine=getattr(waiting, row.name), name=row.name,
                                             description=row.description) for row in chosen(names)]
    tools = SandboxTools(sandbox)
    return [StructuredTool.from_function(func=getattr(tools, row.name), name=row.name,
                                         description=row.description) for row in chosen(names)]
