"""client.py - requests to one server: finding it, trying again where that is safe, streams of events."""
from __future__ import annotations

import json
import os
import sys
import uuid
from typing import (TYPE_CHECKING, Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Union,
                    cast)

from .. import _api as api
from .. import _find
from .._errors import (ConnectFailed, SandboxConnectionError, SandboxError, SandboxTimeoutError,
                       error_from, error_from_reply)
from .._results import CommandResult
from .._wire import Event, EventParser, Operation, Query, given, target_of
from .io import Body, Lock, Reply, Transport, blocking, sleep

if TYPE_CHECKING:
    import ssl

RETRIES = 3
LONGEST_PAUSE_S = 10.0
AGENT = f"bailey-sandbox/{api.VERSION} python/{sys.version_info[0]}.{sys.version_info[1]}"


class AsyncClient:
    """A server: the one at `url`, at $BAILEY_URL, or the local daemon, which is started when needed.

    url              http://HOST:PORT, https://HOST:PORT, unix:///PATH; default $BAILEY_URL
    api_key          default $BAILEY_API_KEY; a unix socket needs none
    request_timeout  seconds for an answer of the server; what runs code has the time limit of
                     that code instead, which the server keeps
    retries          how often a request is tried again where that is safe: no connection could be
                     made, the request only reads, or the server said 503 with Retry-After
    ssl_context      for servers with a certificate of your own

    What this process's environment sets (SANDBOX_MEMORY_LIMIT, ...) goes along, as with the command line.
    """

    def __init__(self, url: Optional[str] = None, *, api_key: Optional[str] = None,
                 request_timeout: float = 60.0, connect_timeout: float = 10.0,
                 retries: int = RETRIES, ssl_context: Optional["ssl.SSLContext"] = None) -> None:
        self._named = _find.configured(url)
        key = api_key or os.environ.get("BAILEY_API_KEY")
        self._request_timeout, self._connect_timeout = request_timeout, connect_timeout
        self._retries, self.ssl_context = retries, ssl_context
        self._transport: Optional[Transport] = None
        self._lock = Lock()
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity",
                         "User-Agent": AGENT}
        self._settings = _find.settings(self._named)
        if key and (self._named is not None and self._named.socket is None):
            self._headers["Authorization"] = f"Bearer {key}"

    # ---- requests ----

    async def _reach(self) -> Transport:
        """The transport; for the local daemon the first call finds or starts it."""
        if self._transport is not None:
            return self._transport
        async with self._lock:
            if self._transport is None:
                address = self._named
                if address is None:
                    address = await blocking(_find.local)
                self._headers["Host"] = address.authority
                self._transport = Transport(address, self._connect_timeout, self.ssl_context)
        return self._transport

    async def _forget(self) -> None:
        """A local daemon that is gone (idle, stopped) is looked for and started again."""
        transport = self._transport
        if self._named is None and transport is not None:
            self._transport = None
            await transport.aclose()

    def headers_for(self, more: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
        return {**self._headers, **(more or {})}

    def acting_headers(self) -> Dict[str, str]:
        """The same for what does something: looking and ending ask for no settings."""
        settings = {"Bailey-Settings": self._settings} if self._settings else {}
        return self.headers_for(settings)

    async def request(self, operation: Operation, path: Optional[str] = None, *,
                      query: Optional[Query] = None, body: Any = None, content: Body = None,
                      headers: Optional[Mapping[str, str]] = None, makes: bool = False,
                      timeout: Optional[float] = None, waits: bool = False) -> Reply:
        """Sends a request and returns its reply, not read yet; a status of 400 and more is raised.

        makes    the request makes something: it gets an Idempotency-Key, the same on every try, so
                 that the server does it once; it is sent again also when the connection was lost
        waits    the reply may take as long as the work takes, so there is no time limit here
        """
        is_acting = operation.method in ("POST", "PUT")
        whole = {**(self.acting_headers() if is_acting else self.headers_for()), **(headers or {})}
        if body is not None:
            content = json.dumps(body).encode("utf-8")
            whole["Content-Type"] = "application/json"
        if makes:
            whole["Idempotency-Key"] = str(uuid.uuid4())
        start = None
        if content is not None and not isinstance(content, bytes):
            start = content.tell() if content.seekable() else None
        limit = timeout if timeout is not None else None if waits else self._request_timeout
        target = target_of(path or operation.path, query)
        tries = 0
        while True:
            try:
                transport = await self._reach()
                whole.setdefault("Host", transport.address.authority)
                reply = await transport.request(
                    operation.method, transport.address.prefix + target, whole, content, limit)
                if reply.status < 400:
                    return reply
                await self._raise(reply)
            except SandboxError as error:
                pause = self._pause(operation, error, tries, makes)
                can_repeat = content is None or isinstance(content, bytes) or start is not None
                if pause is None or not can_repeat:
                    raise
                if isinstance(error, ConnectFailed):
                    await self._forget()
                    whole.pop("Host", None)
            tries += 1
            if start is not None:
                cast(Any, content).seek(start)
            await sleep(pause)

    def _pause(self, operation: Operation, error: SandboxError, tries: int,
               makes: bool) -> Optional[float]:
        """Seconds before another try; None: another try is not safe, or has no point."""
        if tries >= self._retries or isinstance(error, SandboxTimeoutError):
            return None
        if isinstance(error, SandboxConnectionError):
            is_safe = isinstance(error, ConnectFailed) or operation.method == "GET" or makes
            return min(2.0, 0.05 * 4.0 ** tries) if is_safe else None
        is_running = makes and error.code == "idempotency_key_running"
        if (error.status == 503 or is_running) and error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= LONGEST_PAUSE_S else None
        return None

    async def _raise(self, reply: Reply) -> NoReturn:
        raise error_from_reply(reply.status, await reply.read(), reply.header("Retry-After"))

    async def call(self, operation: Operation, path: Optional[str] = None, **options: Any) -> Any:
        """A request whose answer is JSON."""
        reply = await self.request(operation, path, **options)
        whole = await reply.read()
        try:
            return json.loads(whole)
        except ValueError:
            raise SandboxConnectionError(
                f"the server's answer is not JSON: {whole[:80]!r}; "
                "is this address that of a Bailey server?") from None

    async def fetch(self, operation: Operation, path: Optional[str] = None, **options: Any) -> bytes:
        """A request whose answer is bytes."""
        reply = await self.request(operation, path, **options)
        return await reply.read()

    async def events(self, operation: Operation, path: Optional[str] = None, *,
                     last_id: Optional[str] = None, **options: Any) -> "AsyncEvents":
        """A request whose answer is a stream of events."""
        headers = {"Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        reply = await self.request(operation, path, headers=headers, waits=True, **options)
        return AsyncEvents(reply)

    async def transport(self) -> Transport:
        return await self._reach()

    # ---- what a server has besides sandboxes ----

    async def info(self) -> api.Info:
        return cast(api.Info, await self.call(api.INFO))

    async def sessions(self, *, ended: bool = False) -> List[api.Session]:
        """The sessions that live; with `ended` also those that have ended."""
        reply = await self.call(api.LIST_SESSIONS, query={"all": ended or None})
        return cast(List[api.Session], reply["sessions"])

    async def end_session(self, session: str) -> api.Session:
        """Ends a session by id or name."""
        return cast(api.Session, await self.call(
            api.DELETE_SESSION, api.DELETE_SESSION.at(id=session)))

    async def templates(self) -> List[api.Template]:
        return cast(List[api.Template], (await self.call(api.LIST_TEMPLATES))["templates"])

    async def run(self, code: str, *, language: Optional[str] = None,
                  timeout: Optional[float] = None, env: Optional[Mapping[str, str]] = None,
                  stdin: Optional[str] = None, template: Optional[str] = None,
                  arguments: Optional[Sequence[str]] = None,
                  limits: Optional[Mapping[str, Union[str, int, float]]] = None,
                  type: Optional[str] = None) -> CommandResult:
        """Runs code once, in a sandbox of its own that is gone afterwards."""
        body = given(code=code, language=language, timeout=timeout, env=env, stdin=stdin,
                     template=template, arguments=arguments, limits=limits, type=type)
        return CommandResult.of(await self.call(api.RUN, body=body, makes=True, waits=True))

    async def tool(self, name: str, parameters: Mapping[str, Any], *,
                   session: Optional[str] = None) -> Dict[str, Any]:
        """Calls one of the tools that agents have over MCP; a failure is a reply too."""
        return cast(Dict[str, Any], await self.call(
            api.CALL_TOOL, api.CALL_TOOL.at(name=name), query={"session": session},
            body=dict(parameters), waits=True))

    async def aclose(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()


class AsyncEvents:
    """Events as they come; leaving it (aclose, or the end of a with block) closes the connection."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._parser = EventParser()
        self._ready: List[Event] = []

    def header(self, name: str) -> Optional[str]:
        return self._reply.header(name)

    def __aiter__(self) -> "AsyncEvents":
        return self

    async def __anext__(self) -> Event:
        while not self._ready:
            piece = await self._reply.read_some()
            if not piece:
                raise StopAsyncIteration
            self._ready = list(self._parser.feed(piece))
        event = self._ready.pop(0)
        if event.type == "closed":  # the key is not good any more, or a quota is used up
            await self.aclose()
            raise error_from(event.data)
        return event

    async def drain(self) -> None:
        """Reads to the end, so that the connection can be used again."""
        while await self._reply.read_some():
            pass

    async def aclose(self) -> None:
        await self._reply.aclose()

    async def __aenter__(self) -> "AsyncEvents":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()


class AsyncFollower:
    """The events of one execution to its end, over lost connections: none twice, none left out."""

    def __init__(self, client: AsyncClient, session: str, execution: Optional[str],
                 events: Optional[AsyncEvents] = None, last_id: Optional[str] = None) -> None:
        self._client, self._session = client, session
        self._events = events
        self.execution = execution
        self._last_id = last_id
        self._is_over = False

    def __aiter__(self) -> "AsyncFollower":
        return self

    async def __anext__(self) -> Event:
        tries = 0
        while not self._is_over:
            try:
                if self._events is None:
                    path = api.FOLLOW_PROCESS.at(id=self._session, execution=str(self.execution))
                    self._events = await self._client.events(api.FOLLOW_PROCESS, path,
                                                             last_id=self._last_id)
                event = await self._events.__anext__()
            except StopAsyncIteration:
                # The end without `exit`: this server process went away, another one takes over.
                lost: SandboxError = SandboxConnectionError(
                    "the stream ended before the execution did")
            except SandboxConnectionError as error:
                lost = error
            else:
                self._last_id = event.id or self._last_id
                self._is_over = event.type == "exit"
                if self._is_over:
                    await self._events.drain()  # nothing follows: the connection can be kept
                return event
            await self.aclose()
            tries += 1
            if self.execution is None or tries > RETRIES:
                raise lost
            await sleep(0.1 * 4 ** (tries - 1))
        raise StopAsyncIteration

    async def aclose(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            await events.aclose()
