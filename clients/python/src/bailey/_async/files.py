"""files.py - files of a sandbox, its datasets and its outputs."""
from __future__ import annotations

import io as _io
import os
from pathlib import Path
from typing import Any, BinaryIO, List, Optional, Union, cast

from .. import _api as api
from .._errors import PathNotFoundError, SandboxError
from .._results import Change
from .._wire import Operation, absolute, given
from .client import AsyncClient, AsyncEvents
from .io import blocking

Content = Union[str, bytes, BinaryIO]
LocalPath = Union[str, "os.PathLike[str]"]


def content_of(data: Any) -> Union[bytes, BinaryIO]:
    """What is sent as a body: bytes, or a file from where it stands."""
    if isinstance(data, str):
        return data.encode("utf-8")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if hasattr(data, "read"):
        return cast(BinaryIO, data)
    raise TypeError(f"text, bytes or an open binary file, not {type(data).__name__}")


async def send(client: AsyncClient, operation: Operation, path: str, data: Any,
               **options: Any) -> Any:
    """A request with a body of any size: a file is read while it is sent."""
    content = content_of(data)
    headers = {"Content-Type": "application/octet-stream"}
    if not isinstance(content, bytes):
        try:
            if isinstance(content, _io.TextIOBase) or not content.seekable():
                raise OSError
            here = content.tell()
            size = content.seek(0, os.SEEK_END) - here
            content.seek(here)
            headers["Content-Length"] = str(size)
        except OSError:  # a pipe, or text: its length is not known before it is read
            whole: Any = await blocking(content.read)
            content = whole.encode("utf-8") if isinstance(whole, str) else whole
    return await client.call(operation, path, content=content, headers=headers, waits=True,
                             **options)


async def save(client: AsyncClient, operation: Operation, path: str, local: LocalPath,
               **options: Any) -> Path:
    """Writes a body to a file as it comes; the file appears when it is whole."""
    there = Path(local)
    draft = there.with_name(there.name + ".part")
    reply = await client.request(operation, path, waits=True, **options)
    try:
        with open(draft, "wb") as file:
            while True:
                piece = await reply.read_some()
                if not piece:
                    break
                await blocking(file.write, piece)
        os.replace(draft, there)
    except BaseException:
        await reply.aclose()
        try:
            os.unlink(draft)
        except OSError:
            pass
        raise
    return there


class AsyncFiles:
    """Files of the sandbox. A path that is not absolute is meant from /workspace."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    async def _client(self) -> AsyncClient:
        return cast(AsyncClient, await self._owner.ready())

    def _at(self, operation: Operation) -> str:
        return operation.at(id=self._owner.id)

    async def read(self, path: str) -> str:
        """A file as text (UTF-8)."""
        return (await self.read_bytes(path)).decode("utf-8")

    async def read_bytes(self, path: str, *, offset: Optional[int] = None,
                         length: Optional[int] = None) -> bytes:
        client = await self._client()
        return await client.fetch(
            api.READ_FILE, self._at(api.READ_FILE),
            query={"path": absolute(path), "offset": offset, "length": length})

    async def write(self, path: str, data: Content, *, mode: Optional[str] = None,
                    new: bool = False) -> int:
        """Writes a file at once or not at all; folders above it have to be there.

        mode   such as "0755"
        new    fail when the file exists
        """
        client = await self._client()
        reply = await send(client, api.WRITE_FILE, self._at(api.WRITE_FILE), data,
                           query={"path": absolute(path), "mode": mode, "new": new or None})
        return int(reply["bytes"])

    async def list(self, path: str = "/workspace", *, depth: int = 1) -> List[api.Entry]:
        """What is in a folder; depth 0: everything below it."""
        client = await self._client()
        reply = await client.call(api.LIST_FILES, self._at(api.LIST_FILES),
                                  query={"path": absolute(path), "depth": depth})
        return cast(List[api.Entry], reply["entries"])

    async def stat(self, path: str) -> api.Entry:
        client = await self._client()
        return cast(api.Entry, await client.call(api.STAT_FILE, self._at(api.STAT_FILE),
                                                 query={"path": absolute(path)}))

    async def exists(self, path: str) -> bool:
        try:
            await self.stat(path)
        except PathNotFoundError:
            return False
        return True

    async def mkdir(self, path: str, *, mode: Optional[str] = None) -> None:
        """Makes a folder and those above it."""
        client = await self._client()
        await client.call(api.MAKE_FOLDER, self._at(api.MAKE_FOLDER),
                          body=given(path=absolute(path), mode=mode))

    async def move(self, source: str, target: str) -> None:
        client = await self._client()
        await client.call(api.MOVE_FILE, self._at(api.MOVE_FILE),
                          body={"from": absolute(source), "to": absolute(target)})

    async def chmod(self, path: str, mode: str) -> None:
        client = await self._client()
        await client.call(api.CHANGE_MODE, self._at(api.CHANGE_MODE),
                          body={"path": absolute(path), "mode": mode})

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        client = await self._client()
        await client.call(api.DELETE_FILE, self._at(api.DELETE_FILE),
                          query={"path": absolute(path), "recursive": recursive or None})

    async def upload(self, local: LocalPath, path: Optional[str] = None) -> str:
        """Copies a file of this machine into the sandbox; returns where it is there."""
        there = absolute(path or Path(local).name)
        with open(local, "rb") as file:
            await self.write(there, file)
        return there

    async def download(self, path: str, local: Optional[LocalPath] = None) -> Path:
        """Copies a file of the sandbox to this machine, whatever its size."""
        client = await self._client()
        return await save(client, api.READ_FILE, self._at(api.READ_FILE),
                          local if local is not None else Path(path).name,
                          query={"path": absolute(path)})

    async def watch(self, path: str = "/workspace", *, recursive: bool = False) -> "AsyncWatch":
        """Changes below a folder from now on; iterate over it, and leave it by a with block or aclose()."""
        client = await self._client()
        events = await client.events(api.WATCH_FILES, self._at(api.WATCH_FILES),
                                     query={"path": absolute(path), "recursive": recursive or None})
        watch = AsyncWatch(events)
        await watch.until_ready()
        return watch


class AsyncWatch:
    """Changes as they come."""

    def __init__(self, events: AsyncEvents) -> None:
        self._events = events

    async def until_ready(self) -> None:
        async for event in self._events:
            if event.type == "ready":
                return
        raise SandboxError("the watch ended before it began", code="connection_failed")

    def __aiter__(self) -> "AsyncWatch":
        return self

    async def __anext__(self) -> Change:
        async for event in self._events:
            if event.type == "change":
                return Change(event.data["kind"], event.data["path"], event.data.get("type"))
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._events.aclose()

    async def __aenter__(self) -> "AsyncWatch":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()


class AsyncDatasets:
    """Tables and other files in /tmp/data, which the sandbox can read and not change."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    async def put(self, name: str, source: Any) -> api.Dataset:
        """Gives a dataset.

        source  a path on this machine, bytes, an open binary file, or a data frame (pandas, Polars)
        """
        client = cast(AsyncClient, await self._owner.ready())
        path = api.GIVE_DATASET.at(id=self._owner.id, name=name)
        if hasattr(source, "write_csv"):  # Polars
            source = source.write_csv().encode("utf-8")
        elif hasattr(source, "to_csv"):  # pandas
            source = source.to_csv(index=False).encode("utf-8")
        if isinstance(source, (str, os.PathLike)):
            with open(source, "rb") as file:
                return cast(api.Dataset, await send(client, api.GIVE_DATASET, path, file))
        return cast(api.Dataset, await send(client, api.GIVE_DATASET, path, source))

    async def list(self) -> List[api.Dataset]:
        client = cast(AsyncClient, await self._owner.ready())
        reply = await client.call(api.LIST_DATASETS, api.LIST_DATASETS.at(id=self._owner.id))
        return cast(List[api.Dataset], reply["datasets"])


class AsyncOutputs:
    """What the sandbox left in /tmp/output and was saved; still there when the session has ended."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    async def list(self) -> List[api.Output]:
        client = cast(AsyncClient, await self._owner.ready())
        reply = await client.call(api.LIST_OUTPUTS, api.LIST_OUTPUTS.at(id=self._owner.id))
        return cast(List[api.Output], reply["outputs"])

    async def read(self, name: str) -> bytes:
        client = cast(AsyncClient, await self._owner.ready())
        return await client.fetch(api.READ_OUTPUT, api.READ_OUTPUT.at(id=self._owner.id, name=name))

    async def download(self, name: str, local: Optional[LocalPath] = None) -> Path:
        client = cast(AsyncClient, await self._owner.ready())
        return await save(client, api.READ_OUTPUT,
                          api.READ_OUTPUT.at(id=self._owner.id, name=name),
                          local if local is not None else Path(name).name)
