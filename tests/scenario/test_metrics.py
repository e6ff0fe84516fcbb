"""Every metric of docs/metrics.md moves when what it counts happens; labels of tenants are bounded."""
import os
import re
import signal
import threading

import pytest

import install
import serve
import support
import tenants
import wheels
import wsclient


def scrape(daemon):
    """Name with labels to number."""
    text = daemon.asked("GET", "/metrics").body.decode()
    return {name: float(value) for name, _, value in (
        line.rpartition(" ") for line in text.splitlines() if line[0] != "#")}


class World:
    def __init__(self, server):
        self.server = server
        self.acme = server.caller("acme")
        self.little = server.caller("little", ["sessions"])
        self.session = self.acme.session()["id"]
        install.install(self.acme, self.session, "PyWavelets")  # the first starts the proxy
        self.acme.exec(self.session, "true")

    def run(self, code="print(1)", status=200, **members):
        return self.acme.asked("POST", "/v1/run", {"code": code, **members}, status)

    def in_session(self, path, body):
        return self.acme.post(f"/v1/sessions/{self.session}/{path}", body)

    def over_quota(self):
        made = [self.little.session()["id"] for _ in range(3)]
        assert self.little.call("POST", "/v1/sessions", {}).status == 429
        for one in made:
            self.little.end(one)


def tool(world):
    world.acme.post("/v1/tools/sandbox_write_file", {"file_path": "/tmp/t", "content": "12345"},
                    session=world.session)


def file_of(method):
    return lambda w: w.acme.asked(method, f"/v1/sessions/{w.session}/files",
                                  b"12345" if method == "PUT" else None,
                                  query={"path": "/tmp/f"})


RESULT = 'bailey_results_total{{kind="{}",result="{}",tenant="acme"}}'.format
# what is seen to grow: what makes it grow
COUNTS = {
    'bailey_box_creation_seconds_count{origin="zygote"}': World.run,
    'bailey_box_creation_seconds_sum{origin="zygote"}': World.run,
    'bailey_box_creation_seconds_count{origin="cold"}': lambda w: w.run("true", language="bash"),
    'bailey_execution_seconds_count{kind="run",tenant="acme"}': World.run,
    'bailey_execution_seconds_sum{kind="run",tenant="acme"}': World.run,
    'bailey_execution_seconds_bucket{kind="run",tenant="acme",le="+Inf"}': World.run,
    'bailey_execution_seconds_count{kind="exec",tenant="acme"}':
        lambda w: w.in_session("exec", {"argv": ["true"]}),
    'bailey_execution_seconds_count{kind="cell",tenant="acme"}':
        lambda w: w.in_session("code", {"code": "1"}),
    RESULT("run", "ok"): World.run,
    RESULT("run", "error"): lambda w: w.run("raise SystemExit(3)"),
    RESULT("run", "timeout"): lambda w: w.run("while True: pass", timeout=0.2),
    RESULT("run", "oom"): lambda w: w.run("x = b'x' * (1 << 30)"),
    RESULT("run", "refused"): lambda w: w.run("import socket"),
    RESULT("exec", "ok"): lambda w: w.in_session("exec", {"argv": ["true"]}),
    RESULT("exec", "error"): lambda w: w.in_session("exec", {"argv": ["false"]}),
    RESULT("exec", "timeout"): lambda w: w.in_session("exec", {"argv": ["sleep", "9"],
                                                               "timeout": 0.2}),
    RESULT("cell", "ok"): lambda w: w.in_session("code", {"code": "1"}),
    RESULT("cell", "error"): lambda w: w.in_session("code", {"code": "1 / 0"}),
    'bailey_file_operations_total{operation="writeFile",result="ok"}': file_of("PUT"),
    'bailey_file_operations_total{operation="readFile",result="ok"}': file_of("GET"),
    'bailey_file_operations_total{operation="readFile",result="error"}': lambda w: w.acme.refused(
        "GET", f"/v1/sessions/{w.session}/files?path=/tmp/none", 404, "path_not_found"),
    'bailey_file_operations_total{operation="sandbox_write_file",result="ok"}': tool,
    'bailey_file_bytes_total{direction="in"}': tool,
    'bailey_file_bytes_total{direction="out"}': file_of("GET"),
    'bailey_output_bytes_total{tenant="acme"}': World.run,
    'bailey_http_requests_total{door="rest",status="2xx"}': World.run,
    'bailey_http_requests_total{door="rest",status="4xx"}':
        lambda w: w.acme.asked("GET", "/v1/nothing", None, 404),
    'bailey_http_requests_total{door="execute",status="2xx"}':
        lambda w: w.acme.post("/execute", {"code": "1"}),
    'bailey_http_requests_total{door="mcp",status="4xx"}':
        lambda w: w.acme.asked("POST", "/mcp", {}, 400),
    'bailey_http_request_seconds_count{door="rest"}': World.run,
    'bailey_http_bytes_total{direction="in"}': World.run,
    'bailey_http_bytes_total{direction="out"}': World.run,
    'bailey_refused_total{reason="unauthorized"}':
        lambda w: w.server.anybody().asked("GET", "/v1/info", None, 401),
    'bailey_refused_total{reason="forbidden"}': lambda w: w.acme.asked("GET", "/v1/keys", None, 403),
    'bailey_refused_total{reason="origin"}': lambda w: w.acme.asked(
        "GET", "/v1/info", None, 403, headers={"Origin": "http://evil.example"}),
    'bailey_refused_total{reason="quota"}': World.over_quota,
    'bailey_quota_refused_total{quota="sessions",tenant="little"}': World.over_quota,
    'bailey_retries_total{what="box"}': lambda w: w.run("import moat"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    shelf = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(shelf, *install.ALL)
    with tenants.Server(install.settings(
            shelf, SANDBOX_BLOCK_DANGEROUS_IMPORTS="true", SANDBOX_BLOCKED_IMPORTS="socket",
            SANDBOX_QUOTA_SESSIONS=3, SANDBOX_MEMORY_LIMIT="256m", SANDBOX_DISK_LIMIT="64m",
            SANDBOX_QUEUE=4)) as server:
        made = World(server)
        yield made
        for row in server.get("/v1/sessions")["sessions"]:
            server.end(row["id"])


@pytest.mark.parametrize("name", COUNTS)
def test_it_grows(world, name):
    """Of requests, the number comes when the last byte of the reply has gone."""
    before = scrape(world.server).get(name, 0)
    COUNTS[name](world)
    serve.polled(lambda: scrape(world.server).get(name, 0), lambda now: now > before, name)


def test_what_is_there_now(world):
    """Gauges: each is up while something is there, and down again."""
    running = world.acme.background(world.session, "sleep", "1000")["execution_id"]
    assert scrape(world.server)['bailey_running{tenant="acme"}'] == 1
    assert scrape(world.server)['bailey_sessions{tenant="acme"}'] == 1
    more = world.acme.session()["id"]
    assert scrape(world.server)['bailey_sessions{tenant="acme"}'] == 2
    world.acme.end(more)
    assert scrape(world.server)['bailey_sessions{tenant="acme"}'] == 1
    world.acme.post(f"/v1/sessions/{world.session}/processes/{running}/signal", {"signal": "KILL"})
    world.acme.wait(running)
    assert scrape(world.server)['bailey_running{tenant="acme"}'] == 0
    with wsclient.connect(world.server, "/v1/ws") as ws:
        ws.ask("ping")
        seen = scrape(world.server)
        assert seen['bailey_streams{door="ws"}'] == 1 and seen["bailey_http_connections"] >= 2, seen
    serve.polled(lambda: scrape(world.server)['bailey_streams{door="ws"}'], lambda now: now == 0,
                 "the stream is gone")
    with world.server.events("/v1/events"):
        assert scrape(world.server)['bailey_streams{door="sse"}'] == 1
    serve.polled(lambda: scrape(world.server)['bailey_streams{door="sse"}'], lambda now: now == 0,
                 "the stream is gone")
    assert sum(value for name, value in seen.items()
               if name.startswith("bailey_zygotes{") and 'state="ready"' in name) >= 1, seen


def test_the_queue(world):
    """Nobody makes boxes: 8 are asked for, 4 wait, one more is refused; and a look gets an answer."""
    launcher = world.server.get("/v1/info")["launcher_pid"]
    refused = 'bailey_refused_total{reason="queue"}'
    before = scrape(world.server).get(refused, 0)
    threads = [threading.Thread(target=world.acme.call, args=("POST", "/v1/run", {"code": "1"}))
               for _ in range(12)]
    os.kill(launcher, signal.SIGSTOP)
    try:
        for thread in threads:
            thread.start()
        serve.polled(lambda: scrape(world.server)["bailey_queue_depth"], lambda now: now == 4,
                     "four wait")
        assert world.acme.call("POST", "/v1/run", {"code": "1"}).status == 503
        assert scrape(world.server)[refused] == before + 1
    finally:
        os.kill(launcher, signal.SIGCONT)
        for thread in threads:
            thread.join()
    seen = scrape(world.server)
    assert seen["bailey_queue_depth"] == 0
    assert seen['bailey_queue_wait_seconds_count{tenant="acme"}'] == 4


def test_the_pool():
    with serve.Daemon({"SANDBOX_POOL_SIZE": "2"}) as daemon:
        seen = serve.polled(lambda: scrape(daemon),
                            lambda now: now['bailey_pool_boxes{state="ready"}'] >= 1, "one is ready")
        assert seen['bailey_pool_boxes{state="wanted"}'] >= seen['bailey_pool_boxes{state="ready"}']
        daemon.post("/v1/run", {"code": "print(1)"})
        assert scrape(daemon)['bailey_box_creation_seconds_count{origin="pool"}'] == 1


def test_tenants_are_bounded():
    """A hundred are told apart, the others are counted together; nothing is lost."""
    count = 110
    with tenants.Server({"SANDBOX_MAX_SESSIONS": 200}) as server:
        for number in range(count):
            server.caller(f"tenant{number}").session()
        seen = scrape(server)
        told = {name: value for name, value in seen.items() if name.startswith("bailey_sessions{")}
        assert len(told) == 101 and sum(told.values()) == count, told
        assert told['bailey_sessions{tenant="other"}'] == count - 100, told
        assert len({re.search('tenant="([^"]*)"', name).group(1)
                    for name in seen if "tenant=" in name}) <= 101


def test_the_document_has_them_all(world):
    text = world.server.asked("GET", "/metrics").body.decode()
    table = (support.REPO / "docs" / "metrics.md").read_text()
    assert re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M) == re.findall(
        r"^\| `((?:bailey|process)_\w+)` \| (\w+)", table, re.M)
