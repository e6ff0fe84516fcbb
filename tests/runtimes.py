"""runtimes.py - each runtime in turn: the tests stay the same, what surrounds them changes.

$BAILEY_RUNTIMES names those that are tried ("local,docker").
"""
import os

import support

RUNTIMES = os.environ.get("BAILEY_RUNTIMES", "local,docker").split(",")
OTHERS = [name for name in RUNTIMES if name != "local"]


def surround(request, name):
    """A generator for fixtures: every call of bailey uses this runtime meanwhile."""
    assert name in ("local", "docker"), f"BAILEY_RUNTIMES: nobody here knows how to start {name}"
    dockerd = request.getfixturevalue("dockerd") if name == "docker" else None
    before = dockerd.kept() if dockerd else set()
    # Half a core, Docker's default, would only make a suite slow.
    env = dockerd.env(DOCKER_CPU_LIMIT="all") if dockerd else {"SANDBOX_TYPE": name}
    support.surroundings.update(env)
    try:
        yield name
    finally:
        for key in env:
            support.surroundings.pop(key, None)
    if dockerd:
        left = dockerd.left_since(before)
        assert not left, "left in Docker: " + "; ".join(left)
