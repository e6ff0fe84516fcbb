"""commands.py - programs in a sandbox: run to the end, or started and held by a handle."""
from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union, cast

from .. import _api as api
from .._errors import ConflictError, SandboxError, SandboxTimeoutError
from .._results import Chunk, ChunkDecoder, CommandResult
from .._wire import Operation, absolute, given
from .client import AsyncClient, AsyncFollower
from .io import called

Command = Union[str, Sequence[str]]
OnText = Callable[[str], Any]
LONGEST_WAIT_S = 30.0  # of one request


def argv_of(command: Command) -> List[str]:
    """A text is a line for the shell, a list is a program and its arguments."""
    return ["/bin/sh", "-c", command] if isinstance(command, str) else [str(w) for w in command]


class AsyncCommands:
    def __init__(self, owner: Any) -> None:
        self._owner = owner

    async def _client(self) -> AsyncClient:
        return cast(AsyncClient, await self._owner.ready())

    async def run(self, command: Command, *, env: Optional[Mapping[str, str]] = None,
                  cwd: Optional[str] = None, stdin: Union[str, bytes, None] = None,
                  timeout: Optional[float] = None, on_stdout: Optional[OnText] = None,
                  on_stderr: Optional[OnText] = None, check: bool = False,
                  collect: Optional[bool] = None) -> CommandResult:
        """Runs a command to its end.

        command    a list of words, or a text for the shell
        timeout    seconds; 0: as long as the session lives; default: the server's (60)
        check      raise CommandError unless it ends with 0
        collect    False leaves /tmp/output alone
        """
        if isinstance(stdin, bytes):
            try:
                stdin = stdin.decode("utf-8")
            except UnicodeDecodeError:  # the request is JSON; bytes go over the open input
                handle = await self.start(command, env=env, cwd=cwd, stdin=True,
                                          timeout=60 if timeout is None else timeout)
                async with handle:
                    await handle.send_stdin(cast(bytes, stdin), end=True)
                    result = await handle.wait(on_stdout=on_stdout, on_stderr=on_stderr)
                if check:
                    result.check()
                return result
        client = await self._client()
        body = given(argv=argv_of(command), env=env, cwd=absolute(cwd) if cwd else None,
                     stdin=stdin, timeout=timeout, collect=collect)
        path = api.EXEC.at(id=self._owner.id)
        if on_stdout is None and on_stderr is None:
            raw = await client.call(api.EXEC, path, body=body, makes=True, waits=True)
        else:
            raw = await follow(client, self._owner.id, api.EXEC, path, body,
                               {"stdout": on_stdout, "stderr": on_stderr})
        result = CommandResult.of(raw)
        if check:
            result.check()
        return result

    async def start(self, command: Command, *, env: Optional[Mapping[str, str]] = None,
                    cwd: Optional[str] = None, stdin: Union[str, bool, None] = None,
                    timeout: float = 0, collect: Optional[bool] = None) -> "AsyncCommandHandle":
        """Starts a command in the background.

        stdin      True keeps it open for send_stdin
        timeout    seconds; 0: as long as the session lives
        """
        client = await self._client()
        body = given(argv=argv_of(command), env=env, cwd=absolute(cwd) if cwd else None,
                     stdin=stdin or None, timeout=timeout, collect=collect, background=True)
        raw = await client.call(api.EXEC, api.EXEC.at(id=self._owner.id), body=body, makes=True)
        return AsyncCommandHandle(client, self._owner.id, raw)

    async def list(self) -> List[api.Process]:
        """Commands and cells of the session, newest first."""
        client = await self._client()
        reply = await client.call(api.LIST_PROCESSES, api.LIST_PROCESSES.at(id=self._owner.id))
        return cast(List[api.Process], reply["processes"])

    async def get(self, execution: Union[str, int]) -> "AsyncCommandHandle":
        """A handle of something that was started before, by its id or number."""
        client = await self._client()
        raw = await client.call(
            api.GET_PROCESS, api.GET_PROCESS.at(id=self._owner.id, execution=execution))
        return AsyncCommandHandle(client, self._owner.id, raw)


async def follow(client: AsyncClient, session: str, operation: Operation, path: str,
                 body: Mapping[str, Any], calls: Mapping[str, Optional[Callable[[Any], Any]]]
                 ) -> Dict[str, Any]:
    """Starts an execution as a stream and hands its events on; returns the data of `exit`."""
    events = await client.events(operation, path, body=body, makes=True)
    follower = AsyncFollower(client, session, events.header("Bailey-Execution"), events)
    return await hand_on(follower, calls)


async def hand_on(follower: AsyncFollower, calls: Mapping[str, Optional[Callable[[Any], Any]]]
                  ) -> Dict[str, Any]:
    decoder = ChunkDecoder()
    try:
        async for event in follower:
            if event.type == "exit":
                return cast(Dict[str, Any], event.data)
            callback = calls.get(event.type)
            if event.type in ("stdout", "stderr"):
                text = decoder.chunk(event.type, event.data).text
                if callback is not None and text:
                    await called(callback, text)
            elif callback is not None:
                await called(callback, {"type": event.type, **event.data})
    finally:
        await follower.aclose()
    raise SandboxError("the stream ended without a result", code="connection_failed")


class AsyncCommandHandle:
    """A command that was started; in a with block it is killed at the block's end if it still runs."""

    def __init__(self, client: AsyncClient, session: str, process: api.Process) -> None:
        self._client, self._session = client, session
        self.process = process
        self.execution_id: str = process["execution_id"]
        self.result: Optional[CommandResult] = None

    def _at(self, operation: Operation) -> str:
        return operation.at(id=self._session, execution=self.execution_id)

    @property
    def is_running(self) -> bool:
        """As of the last answer of the server; refresh() asks again."""
        return self.process["state"] in ("waiting", "running")

    def ended(self, raw: Mapping[str, Any]) -> CommandResult:
        """Takes the result of the event `exit`."""
        self.result = CommandResult.of(raw)
        self.process["state"] = "exited"
        return self.result

    async def refresh(self) -> api.Process:
        self.process = await self._client.call(api.GET_PROCESS, self._at(api.GET_PROCESS))
        return self.process

    async def wait(self, timeout: Optional[float] = None, *, on_stdout: Optional[OnText] = None,
                   on_stderr: Optional[OnText] = None, check: bool = False) -> CommandResult:
        """Waits for the end. After `timeout` seconds SandboxTimeoutError is raised; the command goes on."""
        if self.result is None:
            if on_stdout is not None or on_stderr is not None:
                follower = AsyncFollower(self._client, self._session, self.execution_id)
                raw = await hand_on(follower, {"stdout": on_stdout, "stderr": on_stderr})
            else:
                await self._wait_for_end(timeout)
                at = f"{self.process['stdout_bytes']}-{self.process['stderr_bytes']}"
                raw = await hand_on(AsyncFollower(self._client, self._session, self.execution_id,
                                                  last_id=at), {})
            self.ended(raw)
        assert self.result is not None
        if check:
            self.result.check()
        return self.result

    async def _wait_for_end(self, timeout: Optional[float]) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LONGEST_WAIT_S if deadline is None else deadline - time.monotonic()
            self.process = await self._client.call(
                api.GET_PROCESS, self._at(api.GET_PROCESS),
                query={"wait": round(max(0.0, min(left, LONGEST_WAIT_S)), 3)}, waits=True)
            if not self.is_running:
                return
            if deadline is not None and time.monotonic() >= deadline:
                raise SandboxTimeoutError(
                    f"{self.execution_id} still runs after {timeout:g} s; kill() ends it")

    def stream(self) -> "AsyncOutputStream":
        """Its output from the first byte that is kept, as chunks, until it ends."""
        return AsyncOutputStream(self, AsyncFollower(self._client, self._session,
                                                     self.execution_id))

    async def read(self, stream: str = "stdout", *, offset: int = 0,
                   length: Optional[int] = None) -> bytes:
        """Output that is there now; the server keeps the newest 64 MiB of each stream."""
        return await self._client.fetch(
            api.GET_OUTPUT, self._at(api.GET_OUTPUT),
            query={"stream": stream, "offset": offset, "length": length})

    async def send_stdin(self, data: Union[str, bytes], *, end: bool = False) -> int:
        """Writes to its standard input (`start(..., stdin=True)`); `end` closes it behind the data."""
        raw = data.encode("utf-8") if isinstance(data, str) else data
        reply = await self._client.call(api.WRITE_INPUT, self._at(api.WRITE_INPUT),
                                        query={"end": end or None}, content=raw, waits=True)
        return int(reply["bytes"])

    async def close_stdin(self) -> None:
        await self.send_stdin(b"", end=True)

    async def signal(self, signal: Union[str, int]) -> None:
        """Sends a signal: "TERM", "INT", a number."""
        self.process = await self._client.call(api.SIGNAL_PROCESS, self._at(api.SIGNAL_PROCESS),
                                               body={"signal": signal})

    async def kill(self) -> bool:
        """Kills it; False when it has ended before."""
        try:
            await self.signal("KILL")
        except ConflictError as error:
            if error.code == "execution_ended":
                return False
            raise
        return True

    async def __aenter__(self) -> "AsyncCommandHandle":
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self.result is None:
            try:
                await self.kill()
            except SandboxError:
                pass  # the session has ended, and with it the command

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.execution_id} {self.process['state']}>"


class AsyncOutputStream:
    """Chunks of output; iterate over it. At the end the handle's `result` is there."""

    def __init__(self, handle: AsyncCommandHandle, follower: AsyncFollower) -> None:
        self._handle, self._follower = handle, follower
        self._decoder = ChunkDecoder()

    def __aiter__(self) -> "AsyncOutputStream":
        return self

    async def __anext__(self) -> Chunk:
        async for event in self._follower:
            if event.type == "exit":
                self._handle.ended(event.data)
            elif event.type in ("stdout", "stderr"):
                return self._decoder.chunk(event.type, event.data)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._follower.aclose()

    async def __aenter__(self) -> "AsyncOutputStream":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()
