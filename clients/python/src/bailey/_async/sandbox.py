"""sandbox.py - one sandbox from its making to its end."""
from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Union, cast

from .. import _api as api
from .._errors import (NotFoundError, SandboxConnectionError, SandboxError, SessionEndedError,
                       error_from)
from .._leak import end_session
from .._results import Execution, Result
from .._wire import absolute, given, target_of
from .client import AsyncClient, AsyncEvents
from .commands import AsyncCommands, OnText, follow
from .files import AsyncDatasets, AsyncFiles, AsyncOutputs
from .io import Lock, begin, called
from .ports import AsyncPorts
from .pty import AsyncPty

if TYPE_CHECKING:
    import ssl

Size = Union[str, int]


class AsyncSandbox:
    """A sandbox that keeps files, processes and variables until it is closed.

        async with AsyncSandbox() as sandbox:
            execution = await sandbox.run_code("1+1")
            print(execution.text)

    template      what is installed: "python", "data", or one of your own
    name          a name for it; `connect(name)` finds it again
    type          the runtime: "local", "docker", ...
    memory, disk  limits as text ("2g") or bytes; cpus and pids as numbers
    timeout       seconds that each execution may take, unless it says otherwise
    env           variables of everything that runs in it
    data          datasets by name: a path, bytes, an open file, or a data frame;
                  `sales` is /tmp/data/sales.csv
    idle_timeout  seconds without use after which the server ends it
    max_age       seconds after which the server ends it in any case
    metadata      texts of your own, kept with the session

    url, api_key, ssl_context, request_timeout, retries: see Client.

    Members that are not given are left to the server; one that the server does not know is an
    InvalidRequestError that names it.
    """

    def __init__(self, template: Optional[str] = None, *, name: Optional[str] = None,
                 type: Optional[str] = None, memory: Optional[Size] = None,
                 cpus: Optional[float] = None, pids: Optional[int] = None,
                 disk: Optional[Size] = None, timeout: Optional[float] = None,
                 env: Optional[Mapping[str, str]] = None, data: Optional[Mapping[str, Any]] = None,
                 idle_timeout: Optional[float] = None, max_age: Optional[float] = None,
                 metadata: Optional[Mapping[str, str]] = None, url: Optional[str] = None,
                 api_key: Optional[str] = None, ssl_context: Optional["ssl.SSLContext"] = None,
                 request_timeout: float = 60.0, retries: int = 3,
                 client: Optional[AsyncClient] = None, _session: Optional[str] = None) -> None:
        limits = given(memory=memory, cpus=cpus, pids=pids, disk=disk, timeout=timeout)
        self._wanted = given(name=name, template=template, type=type, env=env,
                             idle_timeout_s=idle_timeout, max_age_s=max_age, metadata=metadata,
                             limits=limits or None)
        self._data = dict(data or {})
        self._owns_client = client is None
        self._client = client if client is not None else AsyncClient(
            url, api_key=api_key, ssl_context=ssl_context, request_timeout=request_timeout,
            retries=retries)
        self._lock = Lock()
        self._attach_to = _session
        self._session: Optional[api.Session] = None
        self._is_closed = False
        self._finalizer: Optional[weakref.finalize[Any, Any]] = None
        self.commands = AsyncCommands(self)
        self.files = AsyncFiles(self)
        self.datasets = AsyncDatasets(self)
        self.outputs = AsyncOutputs(self)
        self.ports = AsyncPorts(self)
        begin(self.open)

    # ---- life ----

    @classmethod
    async def create(cls, template: Optional[str] = None, **options: Any) -> "AsyncSandbox":
        """Makes a sandbox at once; the arguments are those of the class."""
        sandbox = cls(template, **options)
        await sandbox.open()
        return sandbox

    @classmethod
    async def connect(cls, session: str, **options: Any) -> "AsyncSandbox":
        """A sandbox that exists, by id or name. Closing it leaves the session alive; kill() ends it."""
        sandbox = cls(_session=session, **options)
        await sandbox.open()
        return sandbox

    @classmethod
    async def list(cls, *, url: Optional[str] = None, api_key: Optional[str] = None,
                   ended: bool = False) -> List[api.Session]:
        """The sessions of the server."""
        async with AsyncClient(url, api_key=api_key) as client:
            return await client.sessions(ended=ended)

    async def open(self) -> "AsyncSandbox":
        """Makes the session unless that is done; the other calls do it by themselves."""
        async with self._lock:
            if self._is_closed:
                raise SandboxError("the sandbox is closed; make a new one", code="closed")
            if self._session is not None:
                return self
            try:
                await self._make()
            except BaseException:
                self._is_closed = True
                if self._owns_client:
                    await self._client.aclose()
                raise
        return self

    async def _make(self) -> None:
        if self._attach_to is not None:
            self._session = await self._client.call(
                api.GET_SESSION, api.GET_SESSION.at(id=self._attach_to))
            if self._session["state"] == "ended":
                raise SessionEndedError(
                    f"the session {self._attach_to} has ended "
                    f"({self._session.get('end_reason')}); make a new one",
                    code="session_ended", details=self._session)
            return
        self._session = await self._client.call(api.CREATE_SESSION, body=self._wanted, makes=True)
        await self._watch_for_leaks()
        try:
            for name, source in self._data.items():
                await AsyncDatasets(_Opened(self._client, self.id)).put(name, source)
        except BaseException:
            await self._end()
            raise
        self._data = {}

    async def _watch_for_leaks(self) -> None:
        transport = await self._client.transport()
        target = transport.address.prefix + target_of(api.DELETE_SESSION.at(id=self.id))
        self._finalizer = weakref.finalize(
            self, end_session, os.getpid(), transport.address, self._client.ssl_context, target,
            self._client.headers_for(), f"the sandbox {self.id}")

    async def ready(self) -> AsyncClient:
        """The client, once the session is there."""
        if self._session is None or self._is_closed:
            await self.open()
        return self._client

    async def _end(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
        try:
            try:
                await self._client.end_session(self.id)
            except SandboxConnectionError:
                await self._client.end_session(self.id)  # ending it twice does no harm
        except (SessionEndedError, NotFoundError):
            pass  # it has ended by itself, or by the first try

    async def aclose(self) -> None:
        """Ends the session (unless it was connected to) and the connections. Safe twice."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._session is not None and self._attach_to is None:
                await self._end()
        finally:
            if self._owns_client:
                await self._client.aclose()

    async def kill(self) -> None:
        """Ends the session, also one that was connected to."""
        if not self._is_closed:
            self._is_closed = True
            try:
                if self._session is not None:
                    await self._end()
            finally:
                if self._owns_client:
                    await self._client.aclose()

    async def detach(self) -> str:
        """Closes the connections and leaves the session alive; returns its id for connect()."""
        await self.ready()
        if self._finalizer is not None:
            self._finalizer.detach()
        self._attach_to = self.id
        await self.aclose()
        return self.id

    async def __aenter__(self) -> "AsyncSandbox":
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    @property
    def id(self) -> str:
        if self._session is None:
            raise SandboxError("the sandbox is not made yet; await open() first", code="not_open")
        return self._session["id"]

    @property
    def name(self) -> Optional[str]:
        return None if self._session is None else self._session.get("name")

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def info(self) -> api.Session:
        """The session as it is now: state, limits, isolation, when it ends."""
        client = await self.ready()
        self._session = cast(api.Session, await client.call(
            api.GET_SESSION, api.GET_SESSION.at(id=self.id)))
        return self._session

    async def extend(self, seconds: float) -> api.Session:
        """Lets the session live that much longer, idle or not."""
        client = await self.ready()
        return cast(api.Session, await client.call(
            api.EXTEND_SESSION, api.EXTEND_SESSION.at(id=self.id), body={"seconds": seconds}))

    async def pause(self) -> api.Session:
        """Stops everything in the session where it is, until resume(); memory is kept, no CPU time used."""
        client = await self.ready()
        return cast(api.Session, await client.call(
            api.PAUSE_SESSION, api.PAUSE_SESSION.at(id=self.id)))

    async def resume(self) -> api.Session:
        """Lets the same processes go on."""
        client = await self.ready()
        return cast(api.Session, await client.call(
            api.RESUME_SESSION, api.RESUME_SESSION.at(id=self.id)))

    async def events(self, *, last_id: Optional[str] = None) -> AsyncEvents:
        """What happens in the session from now on, or behind `last_id` ("0": from the beginning)."""
        client = await self.ready()
        return await client.events(api.SESSION_EVENTS, api.SESSION_EVENTS.at(id=self.id),
                                   last_id=last_id)

    # ---- code ----

    async def run_code(self, code: str, *, language: Optional[str] = None,
                       context: Union[str, api.Context, None] = None,
                       timeout: Optional[float] = None, stdin: Optional[str] = None,
                       env: Optional[Mapping[str, str]] = None, on_stdout: Optional[OnText] = None,
                       on_stderr: Optional[OnText] = None,
                       on_result: Optional[Callable[[Result], Any]] = None, check: bool = False,
                       collect: Optional[bool] = None) -> Execution:
        """Runs a cell; variables stay for the next one.

        language   "python" (default), "javascript", "bash"
        context    an interpreter of create_context(); default: the language's first
        timeout    seconds; 0: as long as the session lives; default: the server's (60)
        on_stdout, on_stderr, on_result    called as output and values come
        check      raise CommandError when the code raises; else the result's `error` says it
        """
        client = await self.ready()
        body = given(code=code, language=language, timeout=timeout, stdin=stdin, env=env,
                     context=context["id"] if isinstance(context, dict) else context,
                     collect=collect)
        path = api.RUN_CELL.at(id=self.id)
        if on_stdout is None and on_stderr is None and on_result is None:
            raw = await client.call(api.RUN_CELL, path, body=body, makes=True, waits=True)
        else:
            async def show(event: Dict[str, Any]) -> None:
                if on_result is not None:
                    await called(on_result, Result(event))

            raw = await follow(client, self.id, api.RUN_CELL, path, body,
                               {"stdout": on_stdout, "stderr": on_stderr, "result": show,
                                "display": show})
        execution = Execution.of(raw)
        if check:
            execution.check()
        return execution

    async def create_context(self, language: Optional[str] = None, *, name: Optional[str] = None,
                             cwd: Optional[str] = None) -> api.Context:
        """Another interpreter with variables of its own."""
        client = await self.ready()
        return cast(api.Context, await client.call(
            api.CREATE_CONTEXT, api.CREATE_CONTEXT.at(id=self.id), makes=True,
            body=given(language=language, name=name, cwd=absolute(cwd) if cwd else None)))

    async def contexts(self) -> List[api.Context]:
        client = await self.ready()
        reply = await client.call(api.LIST_CONTEXTS, api.LIST_CONTEXTS.at(id=self.id))
        return cast(List[api.Context], reply["contexts"])

    async def restart_context(self, context: Union[str, api.Context, None] = None) -> None:
        """A fresh interpreter: variables are gone. Default: all of the session's."""
        client = await self.ready()
        for one in await self._which(context):
            await client.call(api.RESTART_CONTEXT, api.RESTART_CONTEXT.at(id=self.id, context=one))

    async def interrupt(self, context: Union[str, api.Context, None] = None) -> None:
        """Interrupts what runs in a context (default: in all of them); variables stay."""
        client = await self.ready()
        for one in await self._which(context):
            await client.call(api.INTERRUPT_CONTEXT,
                              api.INTERRUPT_CONTEXT.at(id=self.id, context=one))

    async def delete_context(self, context: Union[str, api.Context]) -> None:
        client = await self.ready()
        for one in await self._which(context):
            await client.call(api.DELETE_CONTEXT, api.DELETE_CONTEXT.at(id=self.id, context=one))

    async def _which(self, context: Union[str, api.Context, None]) -> List[str]:
        if context is None:
            return [one["id"] for one in await self.contexts()]
        return [context["id"] if isinstance(context, dict) else context]

    # ---- packages, terminals ----

    async def install(self, *packages: str, on_progress: Optional[OnText] = None
                      ) -> List[api.Package]:
        """Installs packages of Python for this session; returns what is new."""
        client = await self.ready()
        path = api.INSTALL_PACKAGES.at(id=self.id)
        body = {"packages": [str(package) for package in packages]}
        if on_progress is None:
            reply = await client.call(api.INSTALL_PACKAGES, path, body=body, makes=True, waits=True)
            return cast(List[api.Package], reply["installed"])
        async with await client.events(api.INSTALL_PACKAGES, path, body=body, makes=True) as events:
            async for event in events:
                if event.type == "progress":
                    await called(on_progress, event.data["line"])
                elif event.type == "installed":
                    return cast(List[api.Package], event.data["installed"])
                elif event.type == "error":
                    raise error_from(event.data["error"])
        raise SandboxError("the installation ended without a result", code="connection_failed")

    async def packages(self) -> List[api.Package]:
        """What install() has added to the template."""
        client = await self.ready()
        reply = await client.call(api.LIST_PACKAGES, api.LIST_PACKAGES.at(id=self.id))
        return cast(List[api.Package], reply["packages"])

    async def pty(self, command: Optional[str] = None, *, rows: int = 24, columns: int = 80,
                  execution: Optional[str] = None, offset: Optional[int] = None) -> AsyncPty:
        """A terminal with a shell, or `command`, in it; with `execution` one that runs already."""
        client = await self.ready()
        transport = await client.transport()
        query: Dict[str, Any] = {"execution": execution, "offset": offset} if execution else {
            "rows": rows, "columns": columns, "command": command}
        target = target_of(api.OPEN_TERMINAL.at(id=self.id), query)
        headers = client.acting_headers()
        for name in ("Host", "Accept", "Accept-Encoding"):
            headers.pop(name, None)
        channel = await transport.channel(transport.address.prefix + target, headers, 60.0)
        terminal = AsyncPty(channel)
        try:
            await terminal.until_started(60.0)
        except BaseException:
            await terminal.detach()
            raise
        return terminal

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "new" if self._session is None else self.id
        return f"<{type(self).__name__} {state}>"


class _Opened:
    """What AsyncDatasets needs of a sandbox while that is still being made."""

    def __init__(self, client: AsyncClient, session: str) -> None:
        self._client, self.id = client, session

    async def ready(self) -> AsyncClient:
        return self._client
