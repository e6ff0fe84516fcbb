"""_leak.py - ends the session of a sandbox that was never closed.

Called by weakref.finalize when the object is collected or the interpreter exits. It has no event loop
and no sandbox any more, so it makes one request of its own, blocking and short.
"""
from __future__ import annotations

import os
import ssl
import warnings
from typing import Dict, Optional

from ._wire import Address

PATIENCE_S = 5.0


def end_session(pid: int, address: Address, context: Optional[ssl.SSLContext], target: str,
                headers: Dict[str, str], label: str) -> None:
    if pid != os.getpid():
        return  # a forked child: the sandbox is still its parent's
    from ._errors import SandboxError
    from ._sync.io import Transport

    warnings.warn(f"{label} was not closed; its session is ended now. "
                  "Use it in a with block, or call close()", ResourceWarning, stacklevel=2)
    transport = Transport(address, PATIENCE_S, context)
    try:
        transport.request("DELETE", target, headers, None, PATIENCE_S).read()
    except (SandboxError, OSError):
        pass  # the server ends it when its idle time is over
    finally:
        transport.close()
