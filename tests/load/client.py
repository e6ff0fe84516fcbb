"""client.py - HTTP/1.1, server-sent events and WebSockets on asyncio, as small as load.py needs them.

Python's own http.client blocks, and a thread for each of 1,500 connections would be the load. What
the server does wrong is a `Wrong`; that it ended a connection without a reason is one too (`Lost`).
A reason is that a kept connection was idle for as long as the server keeps it: that request is sent
again on a new one, as every client does (RFC 9112, 9.3.1), and counted.
"""
import asyncio
import base64
import hashlib
import json
import os
import socket
import struct
import time

PATIENCE_S = 60  # an answer that takes longer counts as hung
KEEP_S = 75  # HTTP_KEEP_MS
KEEP_MARGIN_S = 2  # so much sooner than us the server may have begun to count
HEAD_MAX = 64 * 1024
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Wrong(Exception):
    """An answer that should not have come."""


class Lost(Wrong):
    """The server ended the connection, behind so many bytes of an answer."""

    def __init__(self, text, received=0):
        super().__init__(text)
        self.received = received


class Quota(Exception):
    """429 or 503, as they should be: with a code, and with when to come back."""

    def __init__(self, code, after_s):
        super().__init__(code)
        self.code, self.after_s = code, after_s


class Reply:
    def __init__(self, status, headers):
        self.status, self.headers, self.body = status, headers, b""

    def json(self):
        return json.loads(self.body)


class Connection:
    """A connection that is kept open from request to request, and reopened when it was closed."""

    def __init__(self, port, key):
        self.port, self.key = port, key
        self.reader = self.writer = None
        self.rested_at = None  # its last answer was whole then; None: it had none yet
        self.again = 0  # requests that were sent a second time

    async def open(self, receive_bytes=None):
        """`receive_bytes`: the receive buffer of a client that does not read."""
        peer = socket.socket()
        peer.setblocking(False)
        if receive_bytes:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", self.port))
        except OSError as problem:
            peer.close()
            raise Lost(f"connecting: {problem}") from None
        self.reader, self.writer = await asyncio.open_connection(
            sock=peer, limit=receive_bytes or 1 << 20)
        self.rested_at = None

    def abort(self):
        """Closes with a reset."""
        if self.writer:
            peer = self.writer.get_extra_info("socket")
            if peer is not None and peer.fileno() >= 0:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        self.reader = self.writer = None

    def close(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None

    def head(self, method, target, length=None, more=()):
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}",
                 f"Authorization: Bearer {self.key}", *more]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def send(self, method, target, body=None, more=()):
        if self.writer is None:
            await self.open()
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        try:
            self.writer.write(self.head(method, target, None if data is None else len(data), more)
                              + (data or b""))
            await asyncio.wait_for(self.writer.drain(), PATIENCE_S)
        except OSError as problem:
            raise Lost(f"{method} {target}: sending: {problem}") from None

    async def read_head(self, what):
        try:
            text = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        except asyncio.TimeoutError:
            raise Wrong(f"{what}: no answer in {PATIENCE_S} s") from None
        except asyncio.IncompleteReadError as problem:
            raise Lost(f"{what}: {len(problem.partial)} bytes of an answer",
                       len(problem.partial)) from None
        except OSError as problem:  # a reset; what came before it is still in the buffer
            raise Lost(f"{what}: instead of an answer: {problem!r}",
                       len(self.reader._buffer)) from None
        first, *lines = text.decode("latin-1").rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in
                   (line.partition(":") for line in lines)}
        return Reply(int(first.split()[1]), headers)

    async def read_chunk(self, what):
        """One piece of a body of unknown length; b"" at its end."""
        try:
            size = int((await self.reader.readline()).split(b";")[0] or b"x", 16)
            data = await self.reader.readexactly(size + 2)
        except (OSError, ValueError, asyncio.IncompleteReadError) as problem:
            raise Lost(f"{what}: within the body: {problem!r}") from None
        return data[:-2]

    async def read_body(self, reply, what):
        if "content-length" in reply.headers:
            try:
                reply.body = await asyncio.wait_for(
                    self.reader.readexactly(int(reply.headers["content-length"])), PATIENCE_S)
            except asyncio.TimeoutError:
                raise Wrong(f"{what}: half a body after {PATIENCE_S} s") from None
            except (OSError, asyncio.IncompleteReadError) as problem:
                raise Lost(f"{what}: within the body: {problem!r}") from None
        elif reply.headers.get("transfer-encoding") == "chunked":
            while piece := await asyncio.wait_for(self.read_chunk(what), PATIENCE_S):
                reply.body += piece
        if reply.headers.get("connection", "").lower() == "close":
            self.close()
        self.rested_at = time.monotonic()
        return reply

    async def answer(self, what):
        """The reply, whole; a refusal by a quota as Quota."""
        reply = await self.read_body(await self.read_head(what), what)
        check(reply, what)
        return reply

    async def ask(self, method, target, body=None, more=()):
        what = f"{method} {target}"
        idle_s = None
        if self.writer is not None and self.rested_at is not None:
            idle_s = time.monotonic() - self.rested_at
        try:
            await self.send(method, target, body, more)
            reply = await self.read_head(what)
        except Lost as lost:
            if idle_s is None or idle_s < KEEP_S - KEEP_MARGIN_S or lost.received:
                rested = "new" if idle_s is None else f"idle for {idle_s:.1f} s"
                raise Lost(f"{lost} (the connection was {rested})", lost.received) from None
            self.abort()
            self.again += 1
            await self.send(method, target, body, more)
            reply = await self.read_head(what)
        check(await self.read_body(reply, what), what)
        return reply


    async def ask_until(self, *call):
        """However often a quota says no."""
        while True:
            try:
                return await self.ask(*call)
            except Quota as quota:
                await asyncio.sleep(min(quota.after_s, 2))


def check(reply, what):
    if reply.status < 400:
        return
    try:
        error = reply.json()["error"]
        code = error if isinstance(error, str) else error["code"]
    except (ValueError, KeyError, TypeError):
        raise Wrong(f"{what}: {reply.status} {reply.body[:300]!r}") from None
    after = reply.headers.get("retry-after", "")
    is_quota = reply.status == 429 or reply.status == 503 and code == "busy"
    if is_quota and after.isdigit():
        raise Quota(code, int(after))
    raise Wrong(f"{what}: {reply.status} {reply.body[:300]!r}")


class Events:
    """Server-sent events of one answer: `async for id, event, data in events`."""

    def __init__(self, connection, what):
        self.connection, self.what, self.text = connection, what, b""

    async def start(self, method, target, body=None, more=()):
        await self.connection.send(method, target, body, ("Accept: text/event-stream", *more))
        reply = await self.connection.read_head(self.what)
        if reply.status != 200:
            check(await self.connection.read_body(reply, self.what), self.what)
            raise Wrong(f"{self.what}: {reply.status} instead of events")
        return reply

    async def next(self):
        """(id, event, data), or None at the end."""
        while True:
            block, mark, rest = self.text.partition(b"\n\n")
            if not mark:
                piece = await self.connection.read_chunk(self.what)
                if not piece:
                    return None
                self.text += piece
                continue
            self.text = rest
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n")
                          if b": " in line and not line.startswith(b":"))
            if b"data" in fields:
                return (fields.get(b"id", b"").decode() or None, fields.get(b"event", b"").decode(),
                        json.loads(fields[b"data"]))


class Socket:
    """A WebSocket: `ask` sends a message, `next` gives what comes, text parsed and bytes as bytes."""

    def __init__(self, connection, what):
        self.connection, self.what, self.number = connection, what, 0

    async def start(self, target, receive_bytes=None):
        key = base64.b64encode(os.urandom(16)).decode()
        await self.connection.open(receive_bytes)
        await self.connection.send("GET", target, None, (
            "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}"))
        reply = await self.connection.read_head(self.what)
        if reply.status != 101:
            check(await self.connection.read_body(reply, self.what), self.what)
            raise Wrong(f"{self.what}: {reply.status} instead of a WebSocket")
        wanted = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
        if reply.headers.get("sec-websocket-accept") != wanted:
            raise Wrong(f"{self.what}: Sec-WebSocket-Accept is wrong")

    def frame(self, opcode, data):
        mask = os.urandom(4)
        size = len(data)
        length = bytes([0x80 | size]) if size < 126 else struct.pack(">BH", 0x80 | 126, size) \
            if size < 65536 else struct.pack(">BQ", 0x80 | 127, size)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
        self.connection.writer.write(bytes([0x80 | opcode]) + length + mask + masked)

    def ask(self, kind, **members):
        self.number += 1
        self.frame(1, json.dumps({"type": kind, "id": self.number, **members}).encode())
        return self.number

    def say_goodbye(self):
        self.frame(8, struct.pack(">H", 1000))

    async def read_frame(self):
        reader = self.connection.reader
        try:
            first, second = await reader.readexactly(2)
            size = second & 127
            if size == 126:
                size = struct.unpack(">H", await reader.readexactly(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", await reader.readexactly(8))[0]
            return first & 15, await reader.readexactly(size)
        except (OSError, asyncio.IncompleteReadError) as problem:
            raise Lost(f"{self.what}: {problem!r}") from None

    async def next(self):
        """The next message; None: the server has closed, as it should."""
        while True:
            opcode, data = await self.read_frame()
            if opcode == 1:
                return json.loads(data)
            if opcode == 2:
                return data
            if opcode == 9:
                self.frame(10, data)
            elif opcode == 8:
                code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else 1005
                if code != 1000:
                    raise Wrong(f"{self.what}: closed with {code} {data[2:]!r}")
                return None
