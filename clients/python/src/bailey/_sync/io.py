"""io.py - blocking input and output: http.client over TCP, TLS or a unix socket, connections kept.

A connection is kept only after its reply was read to the end; whatever ends in between (a time limit,
Ctrl-C, a stream that is left) closes it. The server then ends the command or cell that only this connection waited for.
Several threads may use one Transport: each request has a connection to itself.
"""
from __future__ import annotations

import http.client
import os
import select
import socket
import ssl
import threading
import time
import weakref
from typing import Any, BinaryIO, Callable, Dict, List, Mapping, Optional, TypeVar, Union

from .. import _websocket
from .._errors import ConnectFailed, SandboxConnectionError, SandboxTimeoutError, error_from_reply
from .._wire import MAX_HEAD, Address, parse_head

Body = Union[None, bytes, BinaryIO]
T = TypeVar("T")
KEPT = 8
PIECE = 256 * 1024
Lock = threading.Lock


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def blocking(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


def called(callback: Callable[[Any], Any], value: Any) -> None:
    callback(value)


def settled(value: Any) -> Any:
    return value


def begin(opens: Callable[[], Any]) -> None:
    """A blocking sandbox is made by its constructor."""
    opens()


def tls_context(context: Optional[ssl.SSLContext]) -> ssl.SSLContext:
    return context if context is not None else ssl.create_default_context()


def keep_alive(sock: socket.socket) -> None:
    """A peer that vanished without a word is noticed within about a minute, also while we only wait."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _connect(address: Address, timeout: float, context: Optional[ssl.SSLContext]) -> socket.socket:
    try:
        if address.socket is not None:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.settimeout(timeout)
                sock.connect(address.socket)
            except BaseException:
                sock.close()
                raise
            return sock
        sock = socket.create_connection((address.host, address.port), timeout)
        try:
            keep_alive(sock)
            if address.is_tls:
                return tls_context(context).wrap_socket(sock, server_hostname=address.host)
            return sock
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise ConnectFailed(f"no connection to {address}: {error}") from error


class _Connection(http.client.HTTPConnection):
    """An HTTPConnection over a socket that is connected already."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__("bailey", blocksize=PIECE)
        self.sock = sock
        self.auto_open = 0  # a lost connection is an error here, not a silent second try


def is_quiet(sock: socket.socket) -> bool:
    """Whether nothing can be read: a kept connection that can be read was closed by the server."""
    if hasattr(select, "poll"):
        poller = select.poll()
        poller.register(sock, select.POLLIN)
        return not poller.poll(0)
    return not select.select([sock], [], [], 0)[0]


class Reply:
    """A reply whose body has not been read yet."""

    def __init__(self, transport: "Transport", connection: _Connection,
                 response: http.client.HTTPResponse) -> None:
        self._transport, self._connection, self._response = transport, connection, response
        self.status = response.status

    def header(self, name: str) -> Optional[str]:
        return self._response.headers.get(name)

    def read_some(self) -> bytes:
        """Some bytes as soon as there are any, b"" at the end."""
        with self._transport.guarded(self._connection):
            piece = self._response.read1(PIECE)
            if not piece and self._response.length:  # read1, unlike read, takes this for the end
                raise http.client.IncompleteRead(b"", self._response.length)
        if not piece:
            self._transport.give_back(self._connection, self._response)
        return piece

    def read(self) -> bytes:
        with self._transport.guarded(self._connection):
            whole = self._response.read()
        self._transport.give_back(self._connection, self._response)
        return whole

    def close(self) -> None:
        """Leaves the reply where it is; the connection is closed unless the body was read."""
        if not self._response.isclosed():
            self._response.close()
            self._connection.close()

    __del__ = close  # a stream that was left in the middle


class _Guard:
    """Turns what the socket raises into this package's errors and closes the connection."""

    def __init__(self, connection: _Connection, address: Address) -> None:
        self._connection, self._address = connection, address

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is None:
            return
        self._connection.close()
        if isinstance(error, socket.timeout):
            raise SandboxTimeoutError(f"{self._address} did not answer in time") from error
        if isinstance(error, (OSError, http.client.HTTPException)):
            raise SandboxConnectionError(
                f"the connection to {self._address} was lost: "
                f"{error or type(error).__name__}") from error


class Transport:
    def __init__(self, address: Address, connect_timeout: float,
                 context: Optional[ssl.SSLContext]) -> None:
        self.address = address
        self._connect_timeout, self._context = connect_timeout, context
        self._kept: List[_Connection] = []
        self._open: "weakref.WeakSet[Any]" = weakref.WeakSet()  # streams and terminals too
        self._pid = os.getpid()

    def guarded(self, connection: _Connection) -> _Guard:
        return _Guard(connection, self.address)

    def _take(self) -> _Connection:
        if self._pid != os.getpid():  # after a fork the kept ones are the parent's
            self._kept, self._open, self._pid = [], weakref.WeakSet(), os.getpid()
        while self._kept:
            try:
                connection = self._kept.pop()
            except IndexError:  # another thread was faster
                break
            if connection.sock is not None and is_quiet(connection.sock):
                return connection
            connection.close()
        connection = _Connection(_connect(self.address, self._connect_timeout, self._context))
        self._open.add(connection)
        return connection

    def give_back(self, connection: _Connection, response: http.client.HTTPResponse) -> None:
        response.close()
        if connection.sock is None:
            return  # the server said that it closes it
        if len(self._kept) < KEPT and self._pid == os.getpid():
            self._kept.append(connection)
        else:
            connection.close()

    def request(self, method: str, target: str, headers: Dict[str, str], body: Body,
                timeout: Optional[float]) -> Reply:
        connection = self._take()
        connection.sock.settimeout(timeout)
        with self.guarded(connection):
            try:
                connection.request(method, target, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server may have answered before the body's end: its reason is worth more
            response = connection.getresponse()
        return Reply(self, connection, response)

    def channel(self, target: str, headers: Mapping[str, str], timeout: float) -> "Channel":
        """Opens a WebSocket."""
        sock = _connect(self.address, self._connect_timeout, self._context)
        try:
            sock.settimeout(timeout)
            key = _websocket.new_key()
            sock.sendall(_websocket.handshake(target, self.address.authority, key, headers))
            head, rest = b"", b""
            while b"\r\n\r\n" not in head:
                piece = sock.recv(4096)
                if not piece or len(head) > MAX_HEAD:
                    raise SandboxConnectionError(f"{self.address} closed the connection")
                head += piece
            head, rest = head.split(b"\r\n\r\n", 1)
            status, found = parse_head(head)
            if status != 101:
                size = int(found.get("content-length") or 0)
                while len(rest) < size:
                    piece = sock.recv(65536)
                    if not piece:
                        break
                    rest += piece
                raise error_from_reply(status, rest, found.get("retry-after"))
            _websocket.check_accept(key, found.get("sec-websocket-accept"))
            sock.settimeout(None)
            channel = Channel(sock, rest)
            self._open.add(channel)
            return channel
        except socket.timeout as error:
            sock.close()
            raise SandboxTimeoutError(f"{self.address} did not answer in time") from error
        except OSError as error:
            sock.close()
            if isinstance(error, SandboxConnectionError):
                raise
            raise SandboxConnectionError(f"no WebSocket to {self.address}: {error}") from error
        except BaseException:
            sock.close()
            raise

    def close(self) -> None:
        """Closes every connection, also those of streams and terminals that were left open."""
        for connection in list(self._open):
            connection.close()
        self._kept.clear()


class Channel:
    """The bytes of a WebSocket; one thread may send while another receives."""

    def __init__(self, sock: socket.socket, rest: bytes) -> None:
        self._sock, self._rest = sock, rest
        self._sending = threading.Lock()

    def send(self, data: bytes) -> None:
        try:
            with self._sending:
                self._sock.sendall(data)
        except OSError as error:
            raise SandboxConnectionError(f"the WebSocket was lost: {error}") from error

    def receive(self, timeout: Optional[float]) -> bytes:
        """Some bytes, b"" at the end. A time limit leaves the channel usable."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        if timeout is not None and isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            timeout = None
        if timeout is not None and not select.select([self._sock], [], [], timeout)[0]:
            raise SandboxTimeoutError("nothing came from the WebSocket in time")
        try:
            return self._sock.recv(65536)
        except OSError as error:
            raise SandboxConnectionError(f"the WebSocket was lost: {error}") from error

    def close(self) -> None:
        self._sock.close()

    __del__ = close
