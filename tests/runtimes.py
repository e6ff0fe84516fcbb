"""runtimes.py - each runtime in turn: the tests stay the same, what surrounds them changes.

$BAILEY_RUNTIMES names those that are tried ("local,docker"). `clone` is the provider of tests/provider,
which only builds with -Dtest_provider=true have.
"""
import os

import support

RUNTIMES = os.environ.get("BAILEY_RUNTIMES", "local,docker").split(",")
OTHERS = [name for name in RUNTIMES if name != "local"]


def surround(request, name):
    """A generator for fixtures: every call of bailey uses this runtime meanwhile."""
    assert name in ("local", "docker", "clone"), f"BAILEY_RUNTIMES: nobody here knows how to start {name}"
    dockerd = request.getfixturevalue("dockerd") if name == "docker" else None
    before = dockerd.kept() if dockerd else set()
    # Half a core, Docker's default, would only make a suite slow.
    env = dockerd.env(DOCKER_CPU_LIMIT="all") if dockerd else {"SANDBOX_TYPE": name}
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
    if dockerd:
        left = dockerd.left_since(before)
        assert not left, "left in Docker: " + "; ".join(left)
