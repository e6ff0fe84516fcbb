"""io.py - input and output on asyncio's streams: HTTP/1.1 over TCP, TLS or a unix socket.

The counterpart of _sync/io.py with the same names, without any package: a head is written, a head is
read, then a body by its length or in chunks. A connection is kept only after its reply was read to the
end; cancelling a task closes its connection, and the server then ends the command or cell.
"""
from __future__ import annotations

import asyncio
import inspect
import ssl
import weakref
from typing import (Any, Awaitable, BinaryIO, Callable, Dict, List, Mapping, Optional, Tuple,
                    TypeVar, Union)

from .. import _websocket
from .._errors import ConnectFailed, SandboxConnectionError, SandboxTimeoutError, error_from_reply
from .._sync.io import is_quiet, keep_alive, tls_context
from .._wire import MAX_HEAD, Address, encode_head, parse_head

Body = Union[None, bytes, BinaryIO]
T = TypeVar("T")
KEPT = 8
PIECE = 256 * 1024


class Lock:
    """asyncio.Lock, made inside of the loop that uses it (Python 3.9 binds it to one)."""

    def __init__(self) -> None:
        self._lock: Optional[asyncio.Lock] = None

    async def __aenter__(self) -> None:
        if self._lock is None:
            self._lock = asyncio.Lock()
        await self._lock.acquire()

    async def __aexit__(self, *_: Any) -> None:
        assert self._lock is not None
        self._lock.release()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def blocking(function: Callable[..., T], *args: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


async def called(callback: Callable[[Any], Any], value: Any) -> None:
    """Calls a function or a coroutine function."""
    result = callback(value)
    if inspect.isawaitable(result):
        await result


async def settled(value: Any) -> Any:
    """The value, or what a coroutine comes to."""
    return await value if inspect.isawaitable(value) else value


def begin(opens: Callable[[], Any]) -> None:
    """A constructor cannot wait: an AsyncSandbox is made by `async with`, create() or its first call."""


async def _connect(address: Address, timeout: float, context: Optional[ssl.SSLContext]
                   ) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        if address.socket is not None:
            return await asyncio.wait_for(
                asyncio.open_unix_connection(address.socket, limit=MAX_HEAD), timeout)
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(address.host, address.port, limit=MAX_HEAD,
                                    ssl=tls_context(context) if address.is_tls else None), timeout)
        keep_alive(writer.get_extra_info("socket"))
        return reader, writer
    except asyncio.TimeoutError as error:
        raise ConnectFailed(f"no connection to {address} in {timeout:g} s") from error
    except OSError as error:
        raise ConnectFailed(f"no connection to {address}: {error}") from error


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.loop = asyncio.get_running_loop()

    def is_usable(self) -> bool:
        """The socket is asked too: a loop that was busy or stood still has not seen its end yet."""
        return (self.loop is asyncio.get_running_loop() and not self.reader.at_eof()
                and not self.writer.is_closing()
                and is_quiet(self.writer.get_extra_info("socket")))

    def close(self) -> None:
        if not self.loop.is_closed():
            self.writer.transport.abort()

    def drop(self) -> None:
        """The same for __del__, which may run in any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.close)  # which keeps the writer until then


class Reply:
    """A reply whose body has not been read yet."""

    def __init__(self, transport: "Transport", connection: _Connection, status: int,
                 headers: Dict[str, str], method: str, timeout: Optional[float]) -> None:
        self._is_over = False
        self._transport, self._connection = transport, connection
        self.status, self._headers, self._timeout = status, headers, timeout
        self._is_chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self._left: Optional[int] = 0 if self._is_chunked else None
        if not self._is_chunked and "content-length" in headers:
            self._left = int(headers["content-length"])
        if method == "HEAD" or status in (204, 304) or (self._left == 0 and not self._is_chunked):
            self._end()

    def header(self, name: str) -> Optional[str]:
        return self._headers.get(name.lower())

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._transport.give_back(self._connection, self._headers.get("connection", ""),
                                      self._left is not None)

    async def _piece(self) -> bytes:
        reader = self._connection.reader
        if self._is_chunked and self._left == 0:
            self._left = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if self._left == 0:
                while await reader.readuntil(b"\r\n") != b"\r\n":
                    pass  # trailers
                self._end()
                return b""
        piece = await reader.read(PIECE if self._left is None else min(self._left, PIECE))
        if self._left is None:
            if not piece:
                self._end()
            return piece
        if not piece:
            raise asyncio.IncompleteReadError(b"", self._left)
        self._left -= len(piece)
        if self._left == 0:
            if self._is_chunked:
                await reader.readexactly(2)
            else:
                self._end()
        return piece

    async def read_some(self) -> bytes:
        """Some bytes as soon as there are any, b"" at the end."""
        if self._is_over:
            return b""
        return await self._transport.guarded(self._connection, self._piece(), self._timeout)

    async def read(self) -> bytes:
        pieces: List[bytes] = []
        while True:
            piece = await self.read_some()
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)

    async def aclose(self) -> None:
        """Leaves the reply where it is; the connection is closed unless the body was read."""
        if not self._is_over:
            self._is_over = True
            self._connection.close()

    def __del__(self) -> None:
        if not self._is_over:  # a stream that was left in the middle
            self._connection.drop()


class Transport:
    def __init__(self, address: Address, connect_timeout: float,
                 context: Optional[ssl.SSLContext]) -> None:
        self.address = address
        self._connect_timeout, self._context = connect_timeout, context
        self._kept: List[_Connection] = []
        self._open: "weakref.WeakSet[_Connection]" = weakref.WeakSet()  # streams and terminals too

    async def guarded(self, connection: _Connection, work: Awaitable[T],
                      timeout: Optional[float]) -> T:
        """Awaits `work`; whatever goes wrong closes the connection and is one of our errors."""
        try:
            return await (work if timeout is None else asyncio.wait_for(work, timeout))
        except asyncio.TimeoutError as error:
            connection.close()
            raise SandboxTimeoutError(f"{self.address} did not answer in time") from error
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            connection.close()
            if isinstance(error, SandboxConnectionError):
                raise
            raise SandboxConnectionError(
                f"the connection to {self.address} was lost: {error}") from error
        except BaseException:
            connection.close()
            raise

    async def _take(self) -> _Connection:
        while self._kept:
            connection = self._kept.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return await self._new()

    async def _new(self) -> _Connection:
        connection = _Connection(
            *await _connect(self.address, self._connect_timeout, self._context))
        self._open.add(connection)
        return connection

    def give_back(self, connection: _Connection, header: str, has_end: bool) -> None:
        if len(self._kept) < KEPT and has_end and header.lower() != "close":
            self._kept.append(connection)
        else:
            connection.close()

    async def _send(self, connection: _Connection, method: str, target: str,
                    headers: Mapping[str, str], body: Body) -> Tuple[int, Dict[str, str]]:
        writer = connection.writer
        head = encode_head(method, target, headers)
        try:
            if isinstance(body, bytes):
                writer.write(head + body)
            else:
                writer.write(head)
                while body is not None:
                    piece = await blocking(body.read, PIECE)
                    if not piece:
                        break
                    writer.write(piece)
                    await writer.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server may have answered before the body's end: its reason is worth more
        status = 100
        while status < 200:
            status, found = parse_head((await connection.reader.readuntil(b"\r\n\r\n"))[:-4])
        return status, found

    async def request(self, method: str, target: str, headers: Dict[str, str], body: Body,
                      timeout: Optional[float]) -> Reply:
        connection = await self._take()
        if body is None and method in ("POST", "PUT"):
            headers = {**headers, "Content-Length": "0"}
        elif isinstance(body, bytes):
            headers = {**headers, "Content-Length": str(len(body))}
        status, found = await self.guarded(
            connection, self._send(connection, method, target, headers, body), timeout)
        return Reply(self, connection, status, found, method, timeout)

    async def channel(self, target: str, headers: Mapping[str, str], timeout: float) -> "Channel":
        """Opens a WebSocket."""
        connection = await self._new()
        key = _websocket.new_key()

        async def upgrade() -> None:
            connection.writer.write(
                _websocket.handshake(target, self.address.authority, key, headers))
            head = await connection.reader.readuntil(b"\r\n\r\n")
            status, found = parse_head(head[:-4])
            if status != 101:
                body = await connection.reader.read(int(found.get("content-length") or 0))
                raise error_from_reply(status, body, found.get("retry-after"))
            _websocket.check_accept(key, found.get("sec-websocket-accept"))

        await self.guarded(connection, upgrade(), timeout)
        return Channel(connection)

    async def aclose(self) -> None:
        """Closes every connection, also those of streams and terminals that were left open."""
        for connection in list(self._open):
            connection.close()
        self._kept.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next round


class Channel:
    """The bytes of a WebSocket; one task may send while another receives."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    async def send(self, data: bytes) -> None:
        try:
            self._connection.writer.write(data)
            await self._connection.writer.drain()
        except OSError as error:
            raise SandboxConnectionError(f"the WebSocket was lost: {error}") from error

    async def receive(self, timeout: Optional[float]) -> bytes:
        """Some bytes, b"" at the end. A time limit leaves the channel usable."""
        try:
            return await asyncio.wait_for(self._connection.reader.read(65536), timeout)
        except asyncio.TimeoutError as error:
            raise SandboxTimeoutError("nothing came from the WebSocket in time") from error
        except OSError as error:
            raise SandboxConnectionError(f"the WebSocket was lost: {error}") from error

    async def aclose(self) -> None:
        self._connection.close()

    def __del__(self) -> None:
        self._connection.drop()
