"""_websocket.py - the client's half of RFC 6455 without input or output: frames out, messages in."""
from __future__ import annotations

import base64
import hashlib
import os
import struct
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Union

from ._errors import SandboxConnectionError
from ._wire import encode_head

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MAX_MESSAGE = 64 * 1024 * 1024
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Message(NamedTuple):
    kind: int
    data: bytes


class Closed(NamedTuple):
    code: int
    reason: str


def new_key() -> str:
    return base64.b64encode(os.urandom(16)).decode("ascii")


def handshake(target: str, host: str, key: str, headers: Mapping[str, str]) -> bytes:
    whole: Dict[str, str] = {"Host": host, "Upgrade": "websocket", "Connection": "Upgrade",
                             "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key,
                             "Sec-WebSocket-Protocol": "bailey.v1", **headers}
    return encode_head("GET", target, whole)


def check_accept(key: str, accept: Optional[str]) -> None:
    wanted = base64.b64encode(hashlib.sha1(key.encode("ascii") + _GUID).digest()).decode("ascii")
    if accept != wanted:
        raise SandboxConnectionError("the server's answer to the WebSocket's opening is wrong")


def _mask(data: bytes, key: bytes) -> bytes:
    """XOR with the four bytes of the key, as one large number: no loop in Python."""
    size = len(data)
    repeated = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")


def frame(kind: int, data: bytes) -> bytes:
    """One whole masked frame."""
    size = len(data)
    head = bytes([0x80 | kind])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += struct.pack("!BH", 0x80 | 126, size)
    else:
        head += struct.pack("!BQ", 0x80 | 127, size)
    key = os.urandom(4)
    return head + key + (_mask(data, key) if data else b"")


def close_frame(code: int, reason: str = "") -> bytes:
    return frame(CLOSE, struct.pack("!H", code) + reason.encode("utf-8")[:123])


class FrameParser:
    """Bytes in, messages out; fragments are joined. PING comes out as a message for the caller to answer."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._kind = 0
        self._pieces: List[bytes] = []

    def feed(self, data: bytes) -> Iterator[Union[Message, Closed]]:
        self._rest += data
        while True:
            one = self._take()
            if one is None:
                return
            first, payload = one
            kind = first & 0x0F
            if kind == CLOSE:
                code = struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else 1005
                yield Closed(code, payload[2:].decode("utf-8", "replace"))
            elif kind in (PING, PONG):
                yield Message(kind, payload)
            else:
                self._kind = kind or self._kind
                self._pieces.append(payload)
                if sum(map(len, self._pieces)) > MAX_MESSAGE:
                    raise SandboxConnectionError("a message of the WebSocket is too large")
                if first & 0x80:
                    whole, self._pieces = b"".join(self._pieces), []
                    yield Message(self._kind, whole)

    def _take(self) -> Optional["tuple[int, bytes]"]:
        rest = self._rest
        if len(rest) < 2:
            return None
        size, at = rest[1] & 0x7F, 2
        if rest[1] & 0x80:
            raise SandboxConnectionError("the server masked a frame of its WebSocket")
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(rest) < 2 + width:
                return None
            size, at = int.from_bytes(rest[2:2 + width], "big"), 2 + width
        if size > MAX_MESSAGE:
            raise SandboxConnectionError("a frame of the WebSocket is too large")
        if len(rest) < at + size:
            return None
        first, payload = rest[0], bytes(rest[at:at + size])
        del rest[:at + size]
        return first, payload
