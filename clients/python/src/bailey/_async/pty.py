"""pty.py - a terminal in a sandbox, over a WebSocket: bytes both ways, sizes and signals beside them."""
from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Union

from .. import _websocket as ws
from .._errors import SandboxConnectionError, SandboxError, error_from
from .io import Channel


class AsyncPty:
    """A program on a terminal. Leaving it (aclose, or a with block) hangs up, and the program ends;
    detach() leaves it running, and `sandbox.pty(execution=..., offset=...)` comes back to it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._parser = ws.FrameParser()
        self._ready: List[Union[ws.Message, ws.Closed]] = []
        self._is_closed = False
        self.execution_id: Optional[str] = None
        self.offset = 0  # of the next byte
        self.exit: Optional[Dict[str, Any]] = None

    @property
    def exit_code(self) -> Optional[int]:
        """The program's, once it has ended."""
        return None if self.exit is None else self.exit.get("exit_code")

    async def until_started(self, timeout: float) -> None:
        while self.execution_id is None:
            if await self._take(timeout) is None:
                raise SandboxConnectionError("the terminal ended before it was there")

    async def send(self, data: Union[str, bytes]) -> None:
        """Types something; Ctrl-C is "\\x03", Ctrl-D is "\\x04"."""
        raw = data.encode("utf-8") if isinstance(data, str) else data
        await self._channel.send(ws.frame(ws.BINARY, raw))

    async def resize(self, rows: int, columns: int) -> None:
        await self._tell({"type": "resize", "rows": rows, "columns": columns})

    async def signal(self, signal: Union[str, int]) -> None:
        await self._tell({"type": "signal", "signal": signal})

    async def _tell(self, message: Dict[str, Any]) -> None:
        await self._channel.send(ws.frame(ws.TEXT, json.dumps(message).encode("utf-8")))

    async def receive(self, timeout: Optional[float] = None) -> bytes:
        """Some of what the program wrote; b"" when it has ended. A time limit can be tried again."""
        while True:
            data = await self._take(timeout)
            if data is None:
                return b""
            if data:
                return data

    async def read_until(self, marker: Union[str, bytes], timeout: Optional[float] = None) -> bytes:
        """Everything up to and with `marker`, or up to the end."""
        wanted = marker.encode("utf-8") if isinstance(marker, str) else marker
        seen = b""
        while wanted not in seen:
            piece = await self.receive(timeout)
            if not piece:
                break
            seen += piece
        return seen

    async def wait(self, timeout: Optional[float] = None) -> Optional[int]:
        """Reads on to the end and returns the exit code."""
        while await self.receive(timeout):
            pass
        return self.exit_code

    async def _take(self, timeout: Optional[float]) -> Optional[bytes]:
        """The next message: bytes of the terminal, b"" for any other, None at the end."""
        while not self._ready:
            if self._is_closed:
                return None
            data = await self._channel.receive(timeout)
            if not data:
                await self._drop()
                if self.exit is None:
                    raise SandboxConnectionError(
                        f"the terminal's connection was lost; it goes on as {self.execution_id} "
                        f"from offset {self.offset}")
                return None
            self._ready = list(self._parser.feed(data))
        message = self._ready.pop(0)
        if isinstance(message, ws.Closed):
            await self._drop()
            if message.code != 1000:
                raise SandboxConnectionError(
                    f"the terminal was closed with {message.code}: {message.reason}")
            return None
        if message.kind == ws.PING:
            await self._channel.send(ws.frame(ws.PONG, message.data))
        elif message.kind == ws.BINARY:
            self.offset += len(message.data)
            return message.data
        elif message.kind == ws.TEXT:
            self._learn(json.loads(message.data))
        return b""

    def _learn(self, message: Dict[str, Any]) -> None:
        if message["type"] == "started":
            self.execution_id = message["execution_id"]
            self.offset = int(message.get("offset", 0))
        elif message["type"] == "exit":
            self.exit = message
        elif message["type"] == "error":
            raise error_from(message["error"])

    async def _drop(self) -> None:
        self._is_closed = True
        await self._channel.aclose()

    def __aiter__(self) -> "AsyncPty":
        return self

    async def __anext__(self) -> bytes:
        data = await self.receive()
        if not data:
            raise StopAsyncIteration
        return data

    async def detach(self) -> None:
        """Leaves the terminal; its program runs on."""
        if not self._is_closed:
            await self._drop()

    async def aclose(self) -> None:
        """Hangs up: the program ends."""
        if self._is_closed:
            return
        try:
            await self._channel.send(ws.close_frame(1000))
            while await self._take(5.0) is not None:
                pass
        except SandboxError:
            pass
        finally:
            await self._drop()

    async def __aenter__(self) -> "AsyncPty":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()
