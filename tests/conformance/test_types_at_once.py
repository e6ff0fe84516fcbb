"""One daemon, sessions of two types at once: what a caller says about SANDBOX_TYPE counts for its session,
whatever type the daemon was started with."""
import os
import signal

import pytest
import serve
import support

OTHERS = {"local": "clone", "clone": "local", "docker": "local", "url": "local"}


@pytest.fixture
def daemon(runtime):
    """Of the runtime that is tried; `clone` is offered beside it where this build has it."""
    if runtime == "local" and support.bailey("config", env={"SANDBOX_TYPE": "clone"}).status != 0:
        pytest.skip("the second runtime needs a build with -Dtest_provider=true")
    # Root without capabilities, as a provider host has it, cannot make boxes of `clone`.
    user = support.ORDINARY_UID if runtime == "local" and support.is_root() else None
    with serve.Daemon({"BAILEY_TEST_CLONE": "1"}, user=user) as running:
        yield running


def where(daemon, session):
    """What made the session's box, by its own result, of a command and of a cell."""
    command = daemon.exec(session, "true")
    assert command["exit_code"] == 0, command
    cell = daemon.post(f"/v1/sessions/{session}/code", {"code": "print(6 * 7)"})
    assert cell["stdout"] == "42\n", cell
    assert command["meta"]["runtime"] == cell["meta"]["runtime"]
    return cell["meta"]["runtime"]


def test_sessions_of_two_types(daemon, runtime):
    other = OTHERS[runtime]
    made = {}
    for name, args, env in (("own", (), {}), ("flag", ("--type", other), {}), ("variable", (), {"SANDBOX_TYPE": other})):
        done = daemon.bailey("session", "new", "-q", "--name", name, *args, env=env)
        assert done.status == 0, done
        made[name] = done.stdout.strip()
    made["rest"] = daemon.post("/v1/sessions", {"type": other}, 201)["id"]
    for name, session in made.items():
        wanted = runtime if name == "own" else other
        assert daemon.get(f"/v1/sessions/{session}")["type"] == wanted
        assert where(daemon, session) == wanted, name
    run = daemon.post("/v1/run", {"code": "print(6 * 7)", "type": other})
    assert run["stdout"] == "42\n" and run["meta"]["runtime"] == other, run
    # a caller that says another type meets a session that has one
    done = daemon.bailey("exec", "-s", "flag", "--", "true", env={"SANDBOX_TYPE": runtime})
    assert done.status == 125 and "SANDBOX_TYPE" in done.stderr and runtime in done.stderr, done
    # a broker that takes over finds the boxes of both
    os.kill(daemon.get("/v1/info")["broker_pid"], signal.SIGKILL)
    daemon._wait_until_it_answers()
    for name, session in made.items():
        assert where(daemon, session) == (runtime if name == "own" else other), name
    for session in made.values():
        daemon.end(session)
