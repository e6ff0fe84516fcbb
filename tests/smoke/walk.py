"""walk.py - what both walks share: a daemon that installs without a network, and groups of routes."""
import re

import support
import wheels

MOAT = wheels.Wheel("moat", "1.0", {"moat.py": "depth = 41\n"})


def furnished():
    """Arguments of a daemon: its room, with a folder of wheels that is all pip knows."""
    room = support.Room()
    wheels.folder(room.path / "wheels", MOAT)
    return {"room": room, "env": {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": room.path / "wheels"}}


def group(path):
    """The resource that a path of /openapi.json is about: /v1/keys, /v1/sessions/{id}/files."""
    parts = path.split("/")
    return "/".join(parts[:5 if parts[2:3] == ["sessions"] else 3])


def is_about(path, wanted):
    """Whether a path that was asked for belongs to this group."""
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", wanted), group(path)) is not None
