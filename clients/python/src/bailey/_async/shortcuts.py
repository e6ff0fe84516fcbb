"""shortcuts.py - one call and nothing to hold."""
from __future__ import annotations

from typing import Any, Optional

from .._errors import SandboxError
from .client import AsyncClient
from .sandbox import AsyncSandbox


async def run_python_code(code: str, timeout: float = 30, *, url: Optional[str] = None,
                          api_key: Optional[str] = None) -> str:
    """Runs Python in a sandbox of its own: what it printed, or what went wrong, as text. Never raises."""
    try:
        async with AsyncClient(url, api_key=api_key) as client:
            reply = await client.tool("run_python_code", {"code": code, "timeout": timeout})
    except SandboxError as error:
        return f"Error: {error}"
    if reply.get("output"):
        return str(reply["output"])
    if reply.get("error"):
        return str(reply["error"])
    return str(reply.get("hint") or "The code ran and printed nothing.")


async def get_sandbox(type: Optional[str] = None, **options: Any) -> AsyncSandbox:
    """A sandbox of a runtime: "local", "docker", ...; the other arguments are those of AsyncSandbox."""
    return await AsyncSandbox.create(type=type, **options)
