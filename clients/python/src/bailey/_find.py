"""_find.py - which server is meant, and starting the local daemon when none was named.

In this order: the argument `url`, the variable BAILEY_URL, the local daemon's unix socket. The
daemon is started by a command of `bailey` that needs one, so that the rules for that stay in one place.
"""
from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Iterator, List, Mapping, Optional

from ._api import CALLER_SETTINGS, DAEMON_SETTINGS
from ._errors import NoServerError
from ._wire import Address

if TYPE_CHECKING:
    import subprocess

START_TIMEOUT_S = 60
_ELSE = ("give a server's address (url=..., or BAILEY_URL and BAILEY_API_KEY), "
         "or install bailey so that it is on PATH")


def _state_folder(env: Mapping[str, str]) -> Optional[str]:
    if env.get("BAILEY_STATE_DIR"):
        return env["BAILEY_STATE_DIR"]
    if env.get("XDG_STATE_HOME", "").startswith("/"):
        return os.path.join(env["XDG_STATE_HOME"], "bailey")
    if env.get("HOME", "").startswith("/"):
        return os.path.join(env["HOME"], ".local/state/bailey")
    return "/var/lib/bailey" if hasattr(os, "geteuid") and os.geteuid() == 0 else None


def sockets(env: Mapping[str, str]) -> Iterator[str]:
    """Where the daemon's socket may be: as the daemon wrote it down, then the default places."""
    state = _state_folder(env)
    if state:
        try:
            with open(os.path.join(state, "daemon.json"), encoding="utf-8") as file:
                yield str(json.load(file)["socket"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
    if env.get("XDG_RUNTIME_DIR", "").startswith("/"):
        yield os.path.join(env["XDG_RUNTIME_DIR"], "bailey/engine.sock")
    elif state:
        yield os.path.join(state, "run/engine.sock")


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _bailey(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    import subprocess

    try:
        return subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=START_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoServerError(f"{program} {' '.join(words)}: {error}; {_ELSE}") from error


def local(env: Optional[Mapping[str, str]] = None) -> Address:
    """The local daemon's address; starts the daemon when nothing listens there. Blocks."""
    env = os.environ if env is None else env
    if not hasattr(socket, "AF_UNIX"):
        raise NoServerError(f"this system has no unix sockets, so there is no local daemon; {_ELSE}")
    tried: List[str] = []
    for path in sockets(env):
        if _answers(path):
            return Address(socket=path)
        tried.append(path)
    import shutil  # here, and not above: most programs find a server without it

    program = shutil.which("bailey", path=env.get("PATH"))
    if not program:
        where = f" (nothing listens on {tried[0]})" if tried else ""
        raise NoServerError(f"no server is configured and no local daemon is running{where}; {_ELSE}")
    started = _bailey(program, "session", "ls", "--json")
    if started.returncode != 0:
        raise NoServerError(f"the local daemon could not be started: {started.stderr.strip()}")
    status = _bailey(program, "daemon", "status", "--json")
    try:
        return Address(socket=str(json.loads(status.stdout)["socket"]))
    except (ValueError, KeyError, TypeError):
        raise NoServerError("the local daemon does not say where its socket is: "
                            f"{status.stderr.strip() or status.stdout.strip()}") from None


def settings(named: Optional[Address], env: Optional[Mapping[str, str]] = None) -> Optional[str]:
    """The header Bailey-Settings: what the environment sets, as the command line sends it.

    Keys of the daemon only go to the local one, which has to agree with them; paths of interpreters only to
    a server of this machine.
    """
    env = os.environ if env is None else env
    names = CALLER_SETTINGS + (DAEMON_SETTINGS if named is None else ())
    found = {name: env[name] for name in names if env.get(name)}
    for name in ("SANDBOX_PYTHON", "SANDBOX_NODE"):
        if named is not None and named.socket is None:
            found.pop(name, None)
        elif name in found and "/" not in found[name]:
            import shutil

            found[name] = shutil.which(found[name], path=env.get("PATH")) or found[name]
    return json.dumps(found, separators=(",", ":"), sort_keys=True) if found else None


def configured(url: Optional[str], env: Optional[Mapping[str, str]] = None) -> Optional[Address]:
    """The server that was named, None: the local daemon."""
    env = os.environ if env is None else env
    url = url or env.get("BAILEY_URL")
    return Address.parse(url) if url else None
