"""Quotas of a tenant: over one of them 429 with its name and when to come back; others do not notice."""
import threading
import time

import pytest
import serve
import tenants


def over(reply, quota):
    """The shape that every one of them has."""
    assert reply.status == 429, reply
    error = reply.error
    assert error["code"] == "quota_exceeded" and error["quota"] == quota, error
    assert f"'{quota}'" in error["message"] and "SANDBOX_QUOTA_" in error["message"]
    assert int(reply.headers["Retry-After"]) == error["retry_after_s"] >= 1
    return error


def server_of(**quotas):
    return tenants.Server({f"SANDBOX_QUOTA_{name.upper()}": str(value)
                           for name, value in quotas.items()})


def test_sessions():
    with server_of(sessions=2) as server:
        one, other = server.caller("one"), server.caller("other")
        made = [one.session()["id"] for _ in range(2)]
        over(one.call("POST", "/v1/sessions", {}), "sessions")
        assert other.session()["tenant"] == "other"
        assert one.get("/v1/info")["max_sessions"] == 2
        for _ in range(4):
            server.session()  # the owner has what the machine has
        reply = one.post("/v1/tools/sandbox_exec", {"command": ["true"]})
        assert reply["code"] == "quota_exceeded" and reply["quota"] == "sessions", reply
        one.end(made[0])
        one.session()
        over(one.call("POST", "/v1/sessions", {}), "sessions")
        for row in server.get("/v1/sessions")["sessions"]:
            server.end(row["id"])


def test_runs_at_once():
    with server_of(runs=1) as server:
        one, other = server.caller("one"), server.caller("other")
        made = one.session()["id"]
        running = one.background(made, "sleep", "1000")["execution_id"]
        over(one.call("POST", f"/v1/sessions/{made}/exec", {"argv": ["true"]}), "runs")
        over(one.call("POST", f"/v1/sessions/{made}/code", {"code": "1"}), "runs")
        over(one.call("POST", "/v1/run", {"code": "1"}), "runs")
        assert other.post("/v1/run", {"code": "print(1)"})["stdout"] == "1\n"
        one.post(f"/v1/sessions/{made}/processes/{running}/signal", {"signal": "KILL"}, 200)
        one.wait(running)
        assert one.exec(made, "echo", "x")["stdout"] == "x\n"
        # A client that leaves gives its place back.
        with one.events("/v1/run", {"code": "print(1, flush=True)\nwhile True: pass"},
                        method="POST") as events:
            events.until("stdout")
        serve.polled(lambda: one.call("POST", "/v1/run", {"code": "print(2)"}).status,
                     lambda status: status == 200, "the place is free")
        one.end(made)


def test_runs_after_another_broker():
    with server_of(runs=1) as server:
        one = server.caller("one")
        made = one.session()["id"]
        running = one.background(made, "sleep", "1000")["execution_id"]
        # One that no warden knows yet would not outlive the broker.
        serve.polled(lambda: one.get(f"/v1/sessions/{made}/processes/{running}")["state"],
                     lambda state: state == "running", "it runs")
        serve.support.os.kill(server.get("/v1/info")["broker_pid"], serve.signal.SIGKILL)

        def asked():
            try:
                return one.call("POST", f"/v1/sessions/{made}/exec", {"argv": ["true"]})
            except OSError:
                return None
        over(serve.polled(asked, lambda reply: reply is not None, "a new broker"), "runs")
        one.post(f"/v1/sessions/{made}/processes/{running}/signal", {"signal": "KILL"}, 200)
        one.wait(running)
        assert one.exec(made, "true")["exit_code"] == 0
        one.end(made)


def test_memory():
    with tenants.Server({"SANDBOX_QUOTA_MEMORY": "768m", "SANDBOX_MEMORY_LIMIT": "512m"}) as server:
        limit = server.get("/v1/info")["limits"]["memory_bytes"]
        assert limit <= 768 << 20 < 2 * limit, limit
        one, other = server.caller("one"), server.caller("other")
        first, second = (one.session()["id"] for _ in range(2))
        assert one.exec(first, "true")["exit_code"] == 0
        over(one.call("POST", f"/v1/sessions/{second}/exec", {"argv": ["true"]}), "memory")
        over(one.call("GET", f"/v1/sessions/{second}/files?path=/tmp/x"), "memory")
        over(one.call("POST", "/v1/run", {"code": "1"}), "memory")
        assert other.post("/v1/run", {"code": "print(1)"})["stdout"] == "1\n"
        one.end(first)
        assert one.exec(second, "true")["exit_code"] == 0
        one.end(second)


def test_cpu():
    with server_of(cpu=1) as server:
        one, other = server.caller("one"), server.caller("other")
        made = one.session()["id"]
        code = "import time\nwhile time.process_time() < 0.6: pass"
        assert one.python(made, code)["exit_code"] == 0
        assert one.post("/v1/run", {"code": code})["exit_code"] == 0
        error = over(one.call("POST", "/v1/run", {"code": "1"}), "cpu")
        assert error["retry_after_s"] > 60
        over(one.call("POST", f"/v1/sessions/{made}/exec", {"argv": ["true"]}), "cpu")
        assert one.get(f"/v1/sessions/{made}")["id"] == made  # looking costs nothing
        assert other.post("/v1/run", {"code": "print(1)"})["stdout"] == "1\n"
        one.end(made)


def test_disk():
    with server_of(disk=100000) as server:
        one, other = server.caller("one"), server.caller("other")
        made = one.session()["id"]
        one.asked("PUT", f"/v1/sessions/{made}/datasets/a", b"x" * 60000, status=201)
        over(one.call("PUT", f"/v1/sessions/{made}/datasets/b", b"x" * 60000), "disk")
        names = [row["name"] for row in one.get(f"/v1/sessions/{made}/datasets")["datasets"]]
        assert names == ["a"]
        # An output that does not fit stays in the box, and says so.
        one.python(made, "import os; os.makedirs('/tmp/output', exist_ok=True); "
                         "open('/tmp/output/big.txt', 'w').write('x' * 60000); "
                         "open('/tmp/output/small.txt', 'w').write('x' * 100)")
        outputs = {row["name"]: row for row in
                   one.get(f"/v1/sessions/{made}/outputs")["outputs"]}
        assert outputs["big.txt"]["path"] is None and "disk" in outputs["big.txt"]["skipped"]
        assert outputs["small.txt"]["path"] and not outputs["small.txt"]["skipped"]
        other.asked("PUT", f"/v1/sessions/{other.session()['id']}/datasets/a", b"x" * 60000,
                    status=201)
        one.end(made)
        again = one.session()["id"]
        one.asked("PUT", f"/v1/sessions/{again}/datasets/b", b"x" * 60000, status=201)
        for row in server.get("/v1/sessions")["sessions"]:
            server.end(row["id"])


def test_requests():
    with server_of(requests=5) as server:
        one, other = server.caller("one"), server.caller("other")
        replies = [one.call("GET", "/v1/info") for _ in range(200)]
        refused = [reply for reply in replies if reply.status != 200]
        assert 50 <= len(replies) - len(refused) < 200
        for reply in refused:
            over(reply, "requests")
        assert other.call("GET", "/v1/info").status == 200
        for _ in range(100):
            server.get("/v1/info")
        serve.polled(lambda: one.call("GET", "/v1/info").status, lambda status: status == 200,
                     "a second later it may ask again")


def test_bytes():
    with server_of(bytes=1000000) as server:
        one, other = server.caller("one"), server.caller("other")
        made = one.session()["id"]
        one.write(made, "/tmp/big", b"x" * 600000)
        assert len(one.read(made, "/tmp/big")) == 600000
        assert len(one.read(made, "/tmp/big")) == 600000
        serve.polled(lambda: one.call("GET", "/v1/info"), lambda reply: reply.status == 429,
                     "all bytes are used")
        error = over(one.call("GET", "/v1/info"), "bytes")
        assert error["retry_after_s"] > 60
        assert other.call("GET", "/v1/info").status == 200
        server.end(made)


def test_the_queue_is_bounded():
    """More than may wait: 503 at once, and those that wait are served all the same."""
    with tenants.Server({"SANDBOX_QUEUE": "2", "SANDBOX_WARM": "false"}) as server:
        one = server.caller("one")
        replies = []

        def run():
            replies.append(one.call("POST", "/v1/run", {"code": "print(1)"}))
        threads = [threading.Thread(target=run) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        busy = [reply for reply in replies if reply.status == 503]
        for reply in busy:
            assert reply.error["code"] == "busy" and reply.headers["Retry-After"] == "1"
        served = [reply for reply in replies if reply.status == 200]
        assert len(served) + len(busy) == 60 and len(served) >= 10
        assert {reply.json()["stdout"] for reply in served} == {"1\n"}
        assert one.post("/v1/run", {"code": "print(1)"})["stdout"] == "1\n"


@pytest.mark.parametrize("door", ["exec", "run"])
def test_a_slow_reader_slows_its_own_guest_only(door):
    """It does not read; its guest stands still, the broker keeps little, everybody else goes on."""
    with server_of() as server:
        slow, other = server.caller("slow"), server.caller("other")
        made = slow.session()["id"]
        flood = "while True: print('x' * 1000)"
        if door == "exec":
            events = slow.events(f"/v1/sessions/{made}/exec",
                                 {"argv": ["python3", "-c", flood], "timeout": 1000}, method="POST")
        else:
            events = slow.events("/v1/run", {"code": flood, "timeout": 1000}, method="POST")
        with events:
            broker = server.get("/v1/info")["broker_pid"]
            memory = resident(broker)
            for number in range(20):
                assert other.post("/v1/run", {"code": f"print({number})"})["stdout"] == f"{number}\n"
            if door == "exec":
                # It comes to a standstill: what was written does not grow any more.
                written = serve.polled(lambda: (size(slow, made), time.sleep(0.5), size(slow, made)),
                                       lambda seen: seen[0] == seen[2], "the guest stands still")[0]
                assert written < 64 << 20
            assert resident(broker) - memory < 64 << 20
        server.end(made)


def size(caller, session):
    return caller.get(f"/v1/sessions/{session}/processes")["processes"][0]["stdout_bytes"]


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")
