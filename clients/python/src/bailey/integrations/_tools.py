"""_tools.py - what every framework gets: a few functions over one sandbox, with texts as answers.

A model reads the answer, so a failure is a text that says what to do and not an exception that ends
the agent's run.
"""
from __future__ import annotations

from typing import Any, Awaitable, Callable, List, NamedTuple, Optional

from .._async.sandbox import AsyncSandbox
from .._errors import SandboxError
from .._sync.sandbox import Sandbox

RUN_PYTHON = ("Runs Python code in a sandbox and returns what it printed, the value of its last expression, or "
              "its traceback. Variables stay between calls. Files are in /workspace; save results for the "
              "user below /tmp/output. There is no network.")
RUN_COMMAND = ("Runs a shell command in the sandbox, in /workspace, and returns its output and exit code.")
READ_FILE = "Reads a text file of the sandbox."
WRITE_FILE = "Writes a text file of the sandbox, replacing what was there."
INSTALL = "Installs packages of Python into the sandbox."
LIMIT = 20_000


def cut(text: str, limit: int = LIMIT) -> str:
    """A long text: its beginning and its end, and how much is missing."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - limit} characters left out ...]\n{text[-half:]}"


def command_text(result: Any) -> str:
    parts = [result.stdout.rstrip("\n")]
    if result.stderr:
        parts.append("[stderr]\n" + result.stderr.rstrip("\n"))
    failed = result.meta.get("error")
    if isinstance(failed, dict):
        parts.append(str(failed.get("message")))
    if result.timed_out:
        parts.append("the time limit passed")
    parts.append(f"exit code {result.exit_code}")
    return cut("\n".join(p for p in parts if p))


class SandboxTools:
    """The tools of one blocking sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def _text(self, work: Callable[[], str]) -> str:
        try:
            return cut(work())
        except (SandboxError, UnicodeError) as error:
            return f"Error: {error}"

    def run_python(self, code: str) -> str:
        return self._text(lambda: self._sandbox.run_code(code).describe() or "(no output)")

    def run_command(self, command: str) -> str:
        return self._text(lambda: command_text(self._sandbox.commands.run(command)))

    def read_file(self, path: str) -> str:
        return self._text(lambda: self._sandbox.files.read(path))

    def write_file(self, path: str, content: str) -> str:
        return self._text(
            lambda: f"{self._sandbox.files.write(path, content)} bytes written to {path}")

    def install_packages(self, packages: List[str]) -> str:
        return self._text(lambda: installed_text(self._sandbox.install(*packages)))


class AsyncSandboxTools:
    """The tools of one asyncio sandbox."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def _text(self, work: Awaitable[str]) -> str:
        try:
            return cut(await work)
        except (SandboxError, UnicodeError) as error:
            return f"Error: {error}"

    async def run_python(self, code: str) -> str:
        async def work() -> str:
            return (await self._sandbox.run_code(code)).describe() or "(no output)"
        return await self._text(work())

    async def run_command(self, command: str) -> str:
        async def work() -> str:
            return command_text(await self._sandbox.commands.run(command))
        return await self._text(work())

    async def read_file(self, path: str) -> str:
        return await self._text(self._sandbox.files.read(path))

    async def write_file(self, path: str, content: str) -> str:
        async def work() -> str:
            return f"{await self._sandbox.files.write(path, content)} bytes written to {path}"
        return await self._text(work())

    async def install_packages(self, packages: List[str]) -> str:
        async def work() -> str:
            return installed_text(await self._sandbox.install(*packages))
        return await self._text(work())


def installed_text(packages: Any) -> str:
    listed = ", ".join(f"{p['name']} {p['version']}" for p in packages)
    return f"installed {listed}" if listed else "all of them were there already"


class Row(NamedTuple):
    name: str  # of the tool, and of the method above
    description: str


ROWS = [Row("run_python", RUN_PYTHON), Row("run_command", RUN_COMMAND), Row("read_file", READ_FILE),
        Row("write_file", WRITE_FILE), Row("install_packages", INSTALL)]


def chosen(names: Optional[List[str]]) -> List[Row]:
    """The rows of these names; None: all."""
    if names is None:
        return ROWS
    known = {row.name: row for row in ROWS}
    for name in names:
        if name not in known:
            raise ValueError(f"there is no tool {name!r}; there are {', '.join(known)}")
    return [known[name] for name in names]
