"""_wire.py - what both kinds of client share of HTTP: addresses, paths, heads of replies, events.

Nothing here does input or output.
"""
from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from ._errors import SandboxConnectionError, SandboxError

MAX_HEAD = 256 * 1024
WORKSPACE = "/workspace"

Query = Mapping[str, Union[str, int, float, bool, None]]


class Operation(NamedTuple):
    """A method and a path with {names} in it, as the OpenAPI document has them."""

    method: str
    path: str

    def at(self, **parts: Union[str, int]) -> str:
        """The path with its names filled in; slashes stay only in an output's name."""
        path = self.path
        for name, value in parts.items():
            safe = "/" if self.path.endswith("/outputs/{name}") and name == "name" else ""
            path = path.replace("{" + name + "}", quote(str(value), safe=safe))
        return path


class Address(NamedTuple):
    """Where a server is: a unix socket, or host and port."""

    socket: Optional[str] = None
    host: str = "bailey"
    port: int = 80
    is_tls: bool = False
    prefix: str = ""

    @classmethod
    def parse(cls, url: str) -> "Address":
        if url.startswith("/"):
            return cls(socket=url)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:  # of the port, or a bracket that is not closed
            parts, port = urlsplit(""), None
        if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
            return cls(socket=parts.path)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SandboxError(
                f"the server's address {url!r} is not understood; "
                "write http://HOST:PORT, https://HOST:PORT or unix:///PATH/engine.sock",
                code="bad_address")
        is_tls = parts.scheme == "https"
        return cls(host=parts.hostname, port=port or (443 if is_tls else 80), is_tls=is_tls,
                   prefix=parts.path.rstrip("/"))

    def __str__(self) -> str:
        if self.socket is not None:
            return f"the unix socket {self.socket}"
        return f"{'https' if self.is_tls else 'http'}://{self._host}:{self.port}{self.prefix}"

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        if self.socket is not None:
            return "bailey"
        is_usual = self.port == (443 if self.is_tls else 80)
        return self._host if is_usual else f"{self._host}:{self.port}"


def target_of(path: str, query: Optional[Query] = None) -> str:
    """A request's target; members of the query that are None are left out."""
    pairs = {name: ("true" if value else "false") if isinstance(value, bool) else value
             for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(pairs)}" if pairs else path


def given(**members: Any) -> Dict[str, Any]:
    """The members that are not None: what was not asked for is left to the server."""
    return {name: value for name, value in members.items() if value is not None}


def absolute(path: str) -> str:
    """A path in the sandbox; one that is not absolute is meant from /workspace."""
    return path if path.startswith("/") else f"{WORKSPACE}/{path}"


def encode_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise SandboxError(f"the header {name} has a line break in its value",
                               code="bad_input")
        lines.append(f"{name}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def parse_head(head: bytes) -> Tuple[int, Dict[str, str]]:
    """Status and headers (names in lower case) of a reply."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise SandboxConnectionError(f"the server does not speak HTTP: {first[:80]!r}")
    headers: Dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return int(words[1]), headers


class Event(NamedTuple):
    """One server-sent event."""

    type: str
    id: Optional[str]
    data: Any


class EventParser:
    """Bytes of a text/event-stream in, events out."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: Dict[str, List[str]] = {}

    def feed(self, data: bytes) -> Iterator[Event]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            text = line.rstrip(b"\r").decode("utf-8", "replace")
            if text:
                name, _, value = text.partition(":")
                if name:
                    self._fields.setdefault(name, []).append(
                        value[1:] if value.startswith(" ") else value)
                continue
            fields, self._fields = self._fields, {}
            if "data" in fields:
                yield Event(fields.get("event", ["message"])[-1], fields.get("id", [None])[-1],
                            json.loads("\n".join(fields["data"])))
