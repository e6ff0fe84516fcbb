"""codebox.py - CodeBox: a sandbox with few words, whose run() never raises."""
from __future__ import annotations

import base64
import os
import re
from typing import Any, BinaryIO, List, Optional, Union

from .._box import IMPORT_NAMES, CodeBoxFile, CodeBoxOutput, CodeBoxStatus
from .._errors import SandboxError
from .._results import Execution
from .._wire import WORKSPACE
from .io import Lock
from .sandbox import AsyncSandbox

_MISSING = re.compile(r"No module named '([A-Za-z_][\w.]*)'")


class AsyncCodeBox:
    """A sandbox for one conversation: start, run, upload, download, install, stop.

    The arguments are those of AsyncSandbox. A package that code turns out to miss is installed and the
    code runs again, once, unless `auto_install` is False.
    """

    def __init__(self, template: Optional[str] = None, *, auto_install: bool = True,
                 **options: Any) -> None:
        self._arguments = (template, options)
        self._auto_install = auto_install
        self._sandbox: Optional[AsyncSandbox] = None
        self._lock = Lock()

    @property
    def session_id(self) -> Optional[str]:
        return None if self._sandbox is None else self._sandbox.id

    async def sandbox(self) -> AsyncSandbox:
        """The sandbox inside, started when needed: for everything that a CodeBox does not have."""
        async with self._lock:  # two first calls at once make one sandbox
            if self._sandbox is None:
                template, options = self._arguments
                self._sandbox = await AsyncSandbox.create(template, **options)
            return self._sandbox

    async def start(self) -> CodeBoxStatus:
        await self.sandbox()
        return CodeBoxStatus("started")

    async def status(self) -> CodeBoxStatus:
        """ "running", or "stopped" when it was not started, was stopped, or has ended by itself."""
        if self._sandbox is None or self._sandbox.is_closed:
            return CodeBoxStatus("stopped")
        try:
            state = (await self._sandbox.info())["state"]
        except SandboxError:
            return CodeBoxStatus("stopped")
        return CodeBoxStatus("stopped" if state in ("ending", "ended") else "running")

    async def run(self, code: Union[str, "os.PathLike[str]"], *,
                  timeout: Optional[float] = None) -> CodeBoxOutput:
        """Runs code (or a file of this machine) and says what came of it; an error is output too."""
        try:
            if isinstance(code, os.PathLike):
                with open(code, encoding="utf-8") as file:
                    code = file.read()
            execution = await self._execute(code, timeout)
        except (SandboxError, OSError, UnicodeError) as error:
            return CodeBoxOutput("error", str(error))
        png = execution.png
        if png is not None and execution.error is None:
            return CodeBoxOutput("image/png", base64.b64encode(png).decode("ascii"), execution)
        failed = execution.error is not None or execution.exit_code != 0
        return CodeBoxOutput("error" if failed else "text", execution.describe(), execution)

    async def _execute(self, code: str, timeout: Optional[float]) -> Execution:
        sandbox = await self.sandbox()
        execution = await sandbox.run_code(code, timeout=timeout)
        if not self._auto_install or execution.error is None \
                or execution.error.name != "ModuleNotFoundError" \
                or execution.meta.get("install_error"):
            return execution
        found = _MISSING.search(execution.error.value)
        if not found:
            return execution
        module = found.group(1).split(".")[0]
        try:
            await sandbox.install(IMPORT_NAMES.get(module, module))
        except SandboxError as error:
            execution.stderr += f"{module} could not be installed: {error}\n"
            return execution
        return await sandbox.run_code(code, timeout=timeout)

    async def upload(self, name: str, content: Union[str, bytes, BinaryIO]) -> CodeBoxStatus:
        """Puts a file into the working folder."""
        sandbox = await self.sandbox()
        await sandbox.files.write(name, content)
        return CodeBoxStatus(f"{name} uploaded")

    async def download(self, name: str) -> CodeBoxFile:
        sandbox = await self.sandbox()
        return CodeBoxFile(name, await sandbox.files.read_bytes(name))

    async def list_files(self) -> List[CodeBoxFile]:
        """The files of the working folder, without their content."""
        sandbox = await self.sandbox()
        entries = await sandbox.files.list(WORKSPACE)
        return [CodeBoxFile(entry["name"]) for entry in entries if entry["type"] == "file"]

    async def install(self, *packages: str) -> CodeBoxStatus:
        sandbox = await self.sandbox()
        await sandbox.install(*packages)
        return CodeBoxStatus(f"{', '.join(packages)} installed")

    async def restart(self) -> CodeBoxStatus:
        """Fresh interpreters: variables are gone, files stay."""
        sandbox = await self.sandbox()
        await sandbox.restart_context()
        return CodeBoxStatus("restarted")

    async def stop(self) -> CodeBoxStatus:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.aclose()
        return CodeBoxStatus("stopped")

    async def __aenter__(self) -> "AsyncCodeBox":
        await self.start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.stop()
