"""A tenant whose neighbour made one call some time ago is not slowed: nothing of it waits longer than when it is
alone. Counted, not timed: the server lets two requests wait for a box and refuses a third, and three callers
that get their boxes at once never make that many wait."""
import threading

import pytest
import tenants

CALLERS, EACH = 3, 20


@pytest.fixture(scope="module")
def server():
    with tenants.Server({"SANDBOX_QUEUE": "2"}) as running:
        yield running


def statuses(tenant):
    """Of fresh boxes, as fast as three callers can ask for them."""
    seen = []

    def ask():
        for _ in range(EACH):
            seen.append(tenant.call("POST", "/v1/run", {"code": "exit 0", "language": "bash"}).status)

    threads = [threading.Thread(target=ask) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


@pytest.mark.parametrize("call", ["a key was made", "a box was used"])
def test_one_call_of_a_neighbour_slows_nobody(server, call):
    busy = server.caller(f"busy-{len(call)}")
    if call == "a key was made":
        assert server.bailey("key", "new", "--tenant", "neighbour").status == 0
    else:
        assert server.caller("neighbour").post("/v1/run", {"code": "print(1)"})["stdout"] == "1\n"
    assert statuses(busy) == [200] * CALLERS * EACH


def test_an_idle_session_of_a_neighbour_slows_nobody(server):
    neighbour, busy = server.caller("sleeper"), server.caller("worker")
    made = neighbour.session()["id"]
    assert neighbour.exec(made, "true")["exit_code"] == 0
    try:
        assert statuses(busy) == [200] * CALLERS * EACH
    finally:
        neighbour.end(made)
