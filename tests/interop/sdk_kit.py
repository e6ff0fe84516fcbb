"""sdk_kit.py - the Python SDK for scenarios that are written once: the blocking classes as they are, those
for asyncio behind Driver, which lets a test use them without await."""
import asyncio
import inspect
import sys

from sdk_server import CLIENTS

sys.path.insert(0, str(CLIENTS / "python" / "src"))
import bailey  # noqa: E402  (the path has to be there first)


class Driver:
    """An object of asyncio, used from outside: coroutines are run to their end."""

    def __init__(self, loop, inner):
        self.__dict__.update(_loop=loop, _inner=inner)

    def _settle(self, value):
        if inspect.isawaitable(value):
            value = self._loop.run_until_complete(_await(value))
        return Driver(self._loop, value) if type(value).__module__.startswith("bailey._async") else value

    def __getattr__(self, name):
        name = "aclose" if name == "close" else name
        value = getattr(self._inner, name)
        if callable(value):
            return lambda *args, **kwargs: self._settle(value(*args, **kwargs))
        return self._settle(value)

    def __enter__(self):
        return self._settle(self._inner.__aenter__())

    def __exit__(self, *error):
        self._settle(self._inner.__aexit__(*error))

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._settle(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


async def _await(value):
    return await value


class Kit:
    """The classes of one kind, with a server's address filled in."""

    def __init__(self, way, server):
        kind, self.way = way.split("-")
        self.is_async = kind == "async"
        self.url, self.key = server.way(self.way)
        self.loop = asyncio.new_event_loop() if self.is_async else None
        self.where = {"url": self.url, "api_key": self.key}

    def _make(self, kind, *args, **kwargs):
        if not self.is_async:
            return getattr(bailey, kind)(*args, **kwargs, **self.where)
        return Driver(self.loop, getattr(bailey, "Async" + kind)(*args, **kwargs, **self.where))

    def sandbox(self, *args, **kwargs):
        return self._make("Sandbox", *args, **kwargs)

    def codebox(self, **kwargs):
        return self._make("CodeBox", **kwargs)

    def interpreter(self, model, **kwargs):
        return self._make("CodeInterpreterSession", model, **kwargs)

    def client(self):
        return self._make("Client")

    def connect(self, name):
        made = (bailey.AsyncSandbox if self.is_async else bailey.Sandbox).connect(name, **self.where)
        return Driver(self.loop, self.loop.run_until_complete(made)) if self.is_async else made

    def run_python_code(self, code):
        name = "async_run_python_code" if self.is_async else "run_python_code"
        made = getattr(bailey, name)(code, **self.where)
        return self.loop.run_until_complete(made) if self.is_async else made
