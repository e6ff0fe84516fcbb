"""runtimes.py - each runtime in turn: the tests stay the same, what surrounds them changes.

$BAILEY_RUNTIMES names those that are tried ("local,docker,url"). `url` starts a second server of its own, whose
sessions are the boxes. `clone` is the provider of tests/provider,
which only builds with -Dtest_provider=true have.
"""
import contextlib
import os

import support
import tcp

RUNTIMES = os.environ.get("BAILEY_RUNTIMES", "local,docker,url").split(",")
OTHERS = [name for name in RUNTIMES if name != "local"]
CONTAINERS = [name for name in RUNTIMES if name == "docker"]  # boxes with walls that are not ours: attacked as such


@contextlib.contextmanager
def target():
    """The variables of SANDBOX_TYPE=url and a server with the sandboxes, which is left without any."""
    with tcp.Server({"SANDBOX_WARM": "true"}) as server:
        yield {"SANDBOX_TYPE": "url", "SANDBOX_URL": f"http://127.0.0.1:{server.port}",
               "SANDBOX_URL_KEY": server.key}
        left = server.get("/v1/sessions")["sessions"]
        assert not left, f"left at the server: {left}"


def surround(request, name):
    """A generator for fixtures: every call of bailey uses this runtime meanwhile."""
    if name == "url":
        with target() as env:
            yield from within(env, name)
        return
    assert name in ("local", "docker", "clone"), f"BAILEY_RUNTIMES: nobody here knows how to start {name}"
    dockerd = request.getfixturevalue("dockerd") if name == "docker" else None
    before = dockerd.kept() if dockerd else set()
    # Half a core, Docker's default, would only make a suite slow.
    env = dockerd.env(DOCKER_CPU_LIMIT="all") if dockerd else {"SANDBOX_TYPE": name}
    yield from within(env, name)
    if dockerd:
        left = dockerd.left_since(before)
        assert not left, "left in Docker: " + "; ".join(left)


def within(env, name):
    """Every call of bailey has these variables meanwhile."""
    support.surroundings.update(env)
    # Root without capabilities, as a provider host has it, cannot map its own id into a namespace.
    support.usual_user = support.ORDINARY_UID if name == "clone" and support.is_root() else None
    try:
        if name == "clone":
            support.need_namespaces()  # its boxes are made of them
        yield name
    finally:
        support.usual_user = None
        for key in env:
            support.surroundings.pop(key, None)
