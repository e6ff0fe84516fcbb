"""data_template.py - the real `data` template for suites that need it, built once for all of them.

It is in a state folder outside the repository (${XDG_CACHE_HOME:-~/.cache}/bailey-tests), one for
each user and lock file, so that later runs find it. `state()` returns the folder or skips the test, with pip's message, if
the package index cannot be reached. One daemon at a time can use it: state folders have a lock.
"""
import hashlib
import os
import pathlib

import pytest

import serve

LOCK = pathlib.Path(__file__).resolve().parents[1] / "templates" / "data" / "requirements.lock"
_known = {}


def folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    return pathlib.Path(cache) / "bailey-tests" / f"state-{os.getuid()}-{name}"


def host_settings():
    """Of pip on this machine: tests start with an environment of their own."""
    return {name: value for name, value in os.environ.items()
            if name.startswith("PIP_") or name.lower() in ("http_proxy", "https_proxy", "no_proxy")}


def env(more=None):
    return {**host_settings(), "BAILEY_STATE_DIR": folder(), **(more or {})}


def state():
    """The state folder with the template built in it; skips where it cannot be."""
    if "why" not in _known:
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        with serve.Daemon(env()) as daemon:
            done = daemon.bailey("template", "build", "data", timeout=1200)
            _known["why"] = "" if done.status == 0 else done.stderr
    if "cannot be reached" in _known["why"]:
        pytest.skip(_known["why"])
    assert not _known["why"], _known["why"]
    return folder()
