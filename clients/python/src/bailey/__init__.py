"""Sandboxes for code that an AI agent wrote.

    from bailey import Sandbox

    with Sandbox() as sandbox:
        print(sandbox.run_code("1+1").text)

`AsyncSandbox` and the other names with Async are the same for asyncio. Modules are loaded when a name is
first used, so that `import bailey` costs next to nothing.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from ._api import VERSION as __version__
    from ._async.client import AsyncClient, AsyncEvents
    from ._async.codebox import AsyncCodeBox
    from ._async.commands import AsyncCommandHandle, AsyncCommands, AsyncOutputStream
    from ._async.files import AsyncDatasets, AsyncFiles, AsyncOutputs, AsyncWatch
    from ._async.interpreter import AsyncCodeInterpreterSession
    from ._async.ports import AsyncPorts
    from ._async.pty import AsyncPty
    from ._async.sandbox import AsyncSandbox
    from ._async.shortcuts import get_sandbox as async_get_sandbox
    from ._async.shortcuts import run_python_code as async_run_python_code
    from ._box import CodeBoxFile, CodeBoxOutput, CodeBoxStatus, CodeInterpreterResponse
    from ._errors import (AuthenticationError, CommandError, ConflictError, DiskFullError,
                          ForbiddenError, InstallError, InvalidRequestError, LimitError,
                          NameTakenError, NoServerError, NotFoundError, OutputGoneError,
                          PathExistsError, PathNotFoundError, SandboxConnectionError, SandboxError,
                          SandboxTimeoutError, ServerError, SessionEndedError, SessionNotFoundError,
                          TemplateNotFoundError, TooLargeError, UnavailableError)
    from ._results import (Change, Chunk, CommandResult, Execution, ExecutionError, ExecutionResult,
                           File, OutputFile, Result)
    from ._sync.client import Client, Events
    from ._sync.codebox import CodeBox
    from ._sync.commands import CommandHandle, Commands, OutputStream
    from ._sync.files import Datasets, Files, Outputs, Watch
    from ._sync.interpreter import CodeInterpreterSession
    from ._sync.ports import Ports
    from ._sync.pty import Pty
    from ._sync.sandbox import Sandbox
    from ._sync.shortcuts import get_sandbox, run_python_code
    from ._wire import Event

_ERRORS = """AuthenticationError CommandError ConflictError DiskFullError ForbiddenError InstallError
InvalidRequestError LimitError NameTakenError NoServerError NotFoundError OutputGoneError
PathExistsError PathNotFoundError SandboxConnectionError SandboxError SandboxTimeoutError ServerError
SessionEndedError SessionNotFoundError TemplateNotFoundError TooLargeError UnavailableError"""

_CLASSES = {"client": ("Client", "Events"), "codebox": ("CodeBox",),
            "commands": ("CommandHandle", "Commands", "OutputStream"),
            "files": ("Datasets", "Files", "Outputs", "Watch"),
            "interpreter": ("CodeInterpreterSession",), "ports": ("Ports",), "pty": ("Pty",),
            "sandbox": ("Sandbox",)}

# name: (module, its name there)
_WHERE = {name: ("_errors", name) for name in _ERRORS.split()}
_WHERE.update({name: ("_results", name) for name in (
    "Change", "Chunk", "CommandResult", "Execution", "ExecutionError", "ExecutionResult", "File",
    "OutputFile", "Result")})
_WHERE.update({name: ("_box", name) for name in (
    "CodeBoxFile", "CodeBoxOutput", "CodeBoxStatus", "CodeInterpreterResponse")})
for _module, _names in _CLASSES.items():
    for _name in _names:
        _WHERE[_name] = ("_sync." + _module, _name)
        _WHERE["Async" + _name] = ("_async." + _module, "Async" + _name)
for _name in ("get_sandbox", "run_python_code"):
    _WHERE[_name] = ("_sync.shortcuts", _name)
    _WHERE["async_" + _name] = ("_async.shortcuts", _name)
_WHERE["Event"] = ("_wire", "Event")
_WHERE["__version__"] = ("_api", "VERSION")

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'bailey' has no attribute {name!r}")
    from importlib import import_module

    module, there = _WHERE[name]
    value = getattr(import_module("." + module, __name__), there)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
