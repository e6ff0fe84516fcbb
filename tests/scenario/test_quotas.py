"""Quotas of a tenant: over one of them 429 with its name and when to come back; others do not notice."""
import os
import threading
import time

import pytest
import serve
import tenants
import wsclient


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
    with server_of(requests=1) as server:
        one, other = server.caller("one"), server.caller("other")
        replies = [one.call("GET", "/v1/info") for _ in range(50)]
        refused = [reply for reply in replies if reply.status != 200]
        assert 10 <= len(replies) - len(refused) < 50
        for reply in refused:
            over(reply, "requests")
        assert other.call("GET", "/v1/info").status == 200
        for _ in range(20):
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


def test_bytes_of_what_stays_open():
    """They count while they go: the stream ends, with what to do, and so does a WebSocket."""
    with server_of(bytes=300000) as server:
        one, two, other = (server.caller(name) for name in ("one", "two", "other"))
        flood = {"code": "while True: print('x' * 1000)", "timeout": 1000}
        with one.events("/v1/run", flood, method="POST") as events:
            closed = events.until("closed").data
            assert closed["code"] == "quota_exceeded" and closed["quota"] == "bytes"
            assert events.next() is None
        over(one.call("GET", "/v1/info"), "bytes")
        made = two.session()["id"]
        with wsclient.connect_tcp(("127.0.0.1", server.port), f"/v1/sessions/{made}/ws",
                                  headers=two.headers) as ws:
            ws.send({"type": "exec", "argv": ["python3", "-c", flood["code"]], "id": 1})
            with pytest.raises(wsclient.Closed) as closed:
                while True:
                    ws.receive()
            assert closed.value.code == 1008 and "'bytes'" in closed.value.reason
        over(two.call("GET", "/v1/info"), "bytes")
        assert other.call("GET", "/v1/info").status == 200
        server.end(made)


def test_kept_outputs_count():
    """Beyond their session, until they are let go; also an older one of the same name."""
    with server_of(disk=100000) as server:
        one = server.caller("one")

        def make(session, size, letter="x"):
            one.python(session, "import os; os.makedirs('/tmp/output', exist_ok=True); "
                                f"open('/tmp/output/a.txt', 'w').write('{letter}' * {size})")
            (row,) = one.get(f"/v1/sessions/{session}/outputs")["outputs"]
            assert row["id"], (row, server.said())
            return row
        first = one.session()["id"]
        kept = make(first, 60000)
        one.post(f"/v1/artifacts/{kept['id']}/keep", {"keep": True})
        one.end(first)
        second = one.session()["id"]
        over(one.call("PUT", f"/v1/sessions/{second}/datasets/a", b"x" * 60000), "disk")
        assert one.asked("GET", f"/v1/artifacts/{kept['id']}").body == b"x" * 60000
        serve.support.os.kill(server.get("/v1/info")["broker_pid"], serve.signal.SIGKILL)

        def asked():
            try:
                return one.call("PUT", f"/v1/sessions/{second}/datasets/a", b"x" * 60000)
            except OSError:
                return None
        over(serve.polled(asked, lambda reply: reply is not None, "a new broker"), "disk")
        one.asked("DELETE", f"/v1/artifacts/{kept['id']}")
        one.asked("PUT", f"/v1/sessions/{second}/datasets/a", b"x" * 10000, status=201)
        older = make(second, 40000)
        one.post(f"/v1/artifacts/{older['id']}/keep", {"keep": True})
        assert make(second, 40000, "y")["id"] != older["id"]  # 10000 + 40000 + 40000
        over(one.call("PUT", f"/v1/sessions/{second}/datasets/b", b"x" * 20000), "disk")
        one.post(f"/v1/artifacts/{older['id']}/keep", {"keep": False})
        one.asked("PUT", f"/v1/sessions/{second}/datasets/b", b"x" * 20000, status=201)
        one.end(second)


def test_the_queue_is_bounded():
    """More than may wait: 503 at once; who floods leaves room; those that wait are served."""
    with tenants.Server({"SANDBOX_QUEUE": "8", "SANDBOX_WARM": "false"}) as server:
        one, other = server.caller("one"), server.caller("other")
        launcher = server.get("/v1/info")["launcher_pid"]
        replies = {one: [], other: []}

        def run(caller):
            replies[caller].append(caller.call("POST", "/v1/run", {"code": "print(1)"}))

        def start(caller, count):
            threads = [threading.Thread(target=run, args=(caller,)) for _ in range(count)]
            for thread in threads:
                thread.start()
            return threads
        # It makes no box: 8 are in its hands, 7 of one tenant wait, and one place is another's. What is the other's part
        # of the machine, of as many as the cores and one more, does not wait at all.
        part = (os.sysconf("SC_NPROCESSORS_ONLN") + 1) // 2
        serve.support.os.kill(launcher, serve.signal.SIGSTOP)
        try:
            threads = start(one, 30)
            serve.polled(lambda: len(replies[one]), lambda count: count == 15, "the rest is refused")
            threads += start(other, part + 2)
            serve.polled(lambda: len(replies[other]), lambda count: count == 1, "one may wait, one is refused")
            for reply in replies[one] + replies[other]:
                assert reply.status == 503 and reply.headers["Retry-After"] == "1"
                assert reply.error["code"] == "busy"
        finally:
            serve.support.os.kill(launcher, serve.signal.SIGCONT)
        for thread in threads:
            thread.join()
        served = [reply for reply in replies[one] + replies[other] if reply.status == 200]
        assert len(served) == 16 + part, replies
        assert {reply.json()["stdout"] for reply in served} == {"1\n"}
        assert one.post("/v1/run", {"code": "print(1)"})["stdout"] == "1\n"


@pytest.mark.attack(83)
def test_cpu_of_what_is_given_up():
    """A client that leaves before its program ends has used it all the same."""
    with server_of(cpu=1) as server:
        one = server.caller("one")
        code = "import time\nwhile time.process_time() < 1.2: pass\nprint('up', flush=True)\n" \
               "time.sleep(1000)"
        with one.events("/v1/run", {"code": code, "timeout": 1000}, method="POST") as events:
            events.until("stdout")
        over(serve.polled(lambda: one.call("POST", "/v1/run", {"code": "1"}),
                          lambda reply: reply.status != 200, "its time is counted"), "cpu")


@pytest.mark.attack(83)
def test_cpu_of_what_still_runs():
    """A program that never ends is counted while it runs."""
    with server_of(cpu=1) as server:
        one = server.caller("one")
        made = one.session()["id"]
        one.background(made, "python3", "-c", "while True: pass", timeout=0)
        over(serve.polled(lambda: one.call("POST", f"/v1/sessions/{made}/exec", {"argv": ["true"]}),
                          lambda reply: reply.status != 200, "its time is counted"), "cpu")
        one.end(made)


def test_disk_of_what_requests_bring():
    """A command line in the index and a standard input on disk count; a session's end gives them back."""
    with server_of(disk=200000) as server:
        one = server.caller("one")
        made = one.session()["id"]
        command = f"/v1/sessions/{made}/exec"
        over(one.call("POST", command, {"argv": ["cat"], "stdin": "x" * 300000}), "disk")
        for _ in range(5):  # the oldest ended ones make room
            assert one.post(command, {"argv": ["true", "x" * 90000]})["exit_code"] == 0
        for _ in range(2):
            one.post(command, {"argv": ["sh", "-c", "sleep 1000", "x" * 90000], "background": True}, 202)
        over(one.call("POST", command, {"argv": ["true", "x" * 90000]}), "disk")
        one.end(made)
        other = one.session()["id"]
        assert one.post(f"/v1/sessions/{other}/exec", {"argv": ["cat"], "stdin": "x" * 150000})["exit_code"] == 0


def test_cpu_of_a_run_that_has_not_ended():
    """A one-shot run is counted while it runs: the next one is refused beside it."""
    with server_of(cpu=1) as server:
        one = server.caller("one")
        code = "print('up', flush=True)\nwhile True: pass"
        with one.events("/v1/run", {"code": code, "timeout": 1000}, method="POST") as events:
            events.until("stdout")
            over(serve.polled(lambda: one.call("POST", "/v1/run", {"code": "1"}),
                              lambda reply: reply.status != 200, "its time is counted"), "cpu")


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
