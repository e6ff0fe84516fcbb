"""ports.py - servers that run in a sandbox, reached from outside."""
from __future__ import annotations

from typing import Any, List, Optional, cast

from .. import _api as api
from .._errors import SandboxError
from .._wire import given
from .client import AsyncClient


class AsyncPorts:
    """Ports of the sandbox's own loopback that its processes listen on."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    async def list(self) -> List[int]:
        """The numbers of the ports that are listened on now."""
        client = cast(AsyncClient, await self._owner.ready())
        reply = await client.call(api.LIST_PORTS, api.LIST_PORTS.at(id=self._owner.id))
        return [port["port"] for port in reply["ports"]]

    async def url(self, port: int, path: str = "", *, seconds: Optional[float] = None) -> str:
        """An address below which the server on this port answers, for a limited time.

        Everyone who has it may use it: it needs no key, and opens this port only. The time is at
        most, and by default, the server's SANDBOX_LINK_TIME. `path` is appended.
        """
        client = cast(AsyncClient, await self._owner.ready())
        transport = await client.transport()
        address = transport.address
        if address.socket is not None:
            raise SandboxError(
                f"the server is reached by {address}, which addresses of the web cannot name; run "
                f"'bailey port -s {self._owner.id} {port}', or use a server with an address "
                "(bailey serve)", code="no_address")
        wanted = given(port=port, seconds=seconds)
        link = await client.call(api.LINK_PORT, api.LINK_PORT.at(id=self._owner.id), body=wanted)
        return f"{address}{link['url']}{path.lstrip('/')}"
