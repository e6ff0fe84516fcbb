"""Fixtures of the escape suite: `way`, `box`, `canary`. Every test ends with a run that works."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import attack  # noqa: E402  (the path has to be there first)
import serve  # noqa: E402
import support  # noqa: E402
import warm  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "ways(*names): the ways a box is made in this test")


def pytest_generate_tests(metafunc):
    if "way" in metafunc.fixturenames and "escape" in metafunc.definition.path.parts:
        marker = metafunc.definition.get_closest_marker("ways")
        names = getattr(metafunc.module, "ONLY_WAYS", None) or (marker.args if marker else attack.WAYS)
        metafunc.parametrize("way", names, indirect=True)


@pytest.fixture
def way(request):
    if os.geteuid() != 0:
        pytest.skip("plays root, an ordinary user and a refusing kernel in turn: needs root")
    way = support.ways()[request.param]
    if not way.deny:
        support.need_namespaces(way.user)  # without, it is the same as "refused"
    return way


@pytest.fixture
def box(leaks, way):
    made = attack.Box(way)
    yield made
    made.end()


@pytest.fixture
def canary(box):
    made = attack.Canary(box)
    yield made
    try:
        made.is_whole()
    finally:
        made.end()


# --- attacks on sessions: one daemon for each file of tests ---


@pytest.fixture(scope="module")
def daemon():
    if os.geteuid() != 0:
        pytest.skip("plants canaries that root's own DAC would give away: needs root")
    with serve.Daemon() as running:
        generation = running.get("/v1/info")["generation"]
        yield running
        assert running.get("/v1/info")["generation"] == generation, "the broker died"


@pytest.fixture
def session(daemon):
    """One for this test; at its end another one has to work."""
    made = daemon.session()["id"]
    yield made
    daemon.end(made)
    other = daemon.session()["id"]
    done = daemon.exec(other, "echo", "next")
    assert done["stdout"] == "next\n", done
    daemon.end(other)


@pytest.fixture
def outside(daemon):
    """A file of the host that everybody may read and write, and a folder where all may create."""
    made = attack.Outside(daemon.room.path)
    yield made
    made.is_whole()
    made.remove()


# --- attacks by cells: kernels of a daemon with zygotes ---


@pytest.fixture(scope="module")
def warm_daemon():
    if os.geteuid() != 0:
        pytest.skip("needs root, as the daemon's other attacks do")
    with warm.Daemon() as running:
        generation = running.get("/v1/info")["generation"]
        yield running
        assert running.get("/v1/info")["generation"] == generation, "the broker died"


@pytest.fixture(scope="module")
def neighbour(warm_daemon):
    """Another session, with a variable in a kernel of each language."""
    session = warm_daemon.session()["id"]
    for language, code in (("python", "kept = 41"), ("bash", "kept=41"), ("javascript", "var kept = 41")):
        reply = warm_daemon.call("POST", f"/v1/sessions/{session}/code", {"code": code, "language": language})
        assert reply.status == 200 or reply.error["code"] == "no_interpreter", reply
    yield session
    warm_daemon.end(session)


@pytest.fixture
def cells(warm_daemon, neighbour, request):
    language = request.param
    session = warm_daemon.session()["id"]
    made = warm.Cells(warm_daemon, session, language, neighbour)
    reply = warm_daemon.call("POST", f"/v1/sessions/{session}/code", {
        "code": warm.ECHO[language].format("here"), "language": language})
    if reply.status != 200 and reply.error["code"] == "no_interpreter":
        warm_daemon.end(session)
        pytest.skip(reply.error["message"])
    yield made
    warm_daemon.end(session)
