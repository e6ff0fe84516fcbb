"""Output of commands and stored code: counted in the tenant's disk quota, and removed when they are too old."""
import pytest
import serve
import support
import tenants

pytestmark = pytest.mark.attack(81)
MIB = 1 << 20


def stored(server):
    folder = server.state / "artifacts" / "executions"
    return list(folder.iterdir()) if folder.is_dir() else []


def size_of_logs(server):
    files = [path for path in (server.state / "logs").rglob("*") if path.is_file() and "audit" not in path.name]
    return sum(path.stat().st_blocks * 512 for path in files)


@pytest.fixture(scope="module")
def server():
    support.need_sessions()
    with tenants.Server({"SANDBOX_QUOTA_DISK": "8m", "SANDBOX_STORE_CODE": "always"}) as made:
        yield made


def write_output(caller, session, megabytes):
    return caller.exec(session, "sh", "-c", f"head -c {megabytes * MIB} /dev/zero", collect=False)


def test_output_of_many_commands_stays_within_the_quota(server):
    """The oldest output of the session makes room for the newest."""
    acme = server.caller("acme")
    session = acme.session()["id"]
    done = [write_output(acme, session, 3) for _ in range(6)]
    assert size_of_logs(server) <= 9 * MIB
    assert all(one["exit_code"] == 0 for one in done), done
    newest = acme.call("GET", f"/v1/sessions/{session}/processes/{done[-1]['meta']['execution_id']}/output",
                       query={"stream": "stdout"})
    assert newest.status == 200, newest
    oldest = acme.call("GET", f"/v1/sessions/{session}/processes/{done[0]['meta']['execution_id']}/output",
                       query={"stream": "stdout", "offset": 0})
    assert oldest.status == 416 and oldest.error["code"] == "offset_gone", oldest
    acme.end(session)


def test_output_over_the_quota_does_not_stop_the_command(server):
    """What does not fit is not kept; the command goes on, and other tenants have their own quota."""
    full, other = server.caller("full"), server.caller("other")
    session, beside = full.session()["id"], other.session()["id"]
    done = write_output(full, session, 20)
    assert done["exit_code"] == 0, done
    assert size_of_logs(server) <= 9 * MIB
    assert other.exec(beside, "echo", "hi")["stdout"] == "hi\n"
    full.end(session)
    again = full.session()["id"]  # the quota is free again
    assert write_output(full, again, 3)["exit_code"] == 0
    for caller, made in ((full, again), (other, beside)):
        caller.end(made)


def test_stored_code_counts(server):
    """A file for each run, until the quota is used up; runs go on then."""
    hoard = server.caller("hoard")
    before = len(stored(server))
    code = "#" + "x" * MIB + "\nprint(1)"
    for _ in range(10):
        assert hoard.post("/v1/run", {"code": code})["stdout"] == "1\n"
    kept = len(stored(server)) - before
    assert 0 < kept < 8, kept
    assert "quota" in server.said(), server.said()[-1000:]


def test_too_old():
    """SANDBOX_LOG_TIME and SANDBOX_CODE_TIME."""
    support.need_sessions()
    with tenants.Server({"SANDBOX_LOG_TIME": "1s", "SANDBOX_CODE_TIME": "1s",
                         "SANDBOX_STORE_CODE": "always"}) as server:
        session = server.session()["id"]
        done = write_output(server, session, 1)
        server.post("/v1/run", {"code": "print(1)"})
        support.wait_until(lambda: not stored(server), "stored code is removed")
        path = f"/v1/sessions/{session}/processes/{done['meta']['execution_id']}/output"
        serve.polled(lambda: server.call("GET", path, query={"stream": "stdout", "offset": 0}),
                     lambda reply: reply.status == 416, "the output is removed")
        assert size_of_logs(server) < MIB


def test_a_new_broker_counts_the_same():
    """Files of an earlier broker: their rows say whose they are."""
    support.need_sessions()
    room = support.Room()
    env = {"SANDBOX_QUOTA_DISK": "3m", "SANDBOX_STORE_CODE": "always"}  # of code over 1 MiB that much is stored
    code = "#" + "x" * MIB + "\nprint(1)"
    with tenants.Server(env, room=room) as server:
        hoard = server.caller("hoard")
        for _ in range(3):
            hoard.post("/v1/run", {"code": code})
        kept = len(stored(server))
        assert kept == 2, stored(server)
    with tenants.Server(env, room=room) as server:
        hoard = server.caller("hoard")
        for _ in range(3):
            hoard.post("/v1/run", {"code": code})
        assert len(stored(server)) == kept, (kept, stored(server))
