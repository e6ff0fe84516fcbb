# server.py - what is measured of the server over TCP with keys: calls beside the unix socket, requests
# a second beside nginx, files, 500 streams. Whether tenants share it is in fair.py.
import os
import re
import shutil
import socket
import subprocess
import time

from harness import Failed, median, percentile
from peers import Connection, Nginx, Serve
from sessions import (EXIT_0, GIGABYTE, Transfer, available, build_client, download, forget_peak,
                      forget_upload, high_water, http, measure_calls, resident, run_client, running_ns,
                      upload, Calls)

STREAMS = 500
CLIENTS = 100   # of wrk
SETTINGS = {"SANDBOX_MAX_SESSIONS": "300", "SANDBOX_MEMORY_LIMIT": "3g", "SANDBOX_DISK_LIMIT": "1500m",
            "SANDBOX_POOL_SIZE": "8", "SANDBOX_STORE_CODE": "never"}
SMALL_FILE = "x" * 4096
UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}


class TcpServe(Serve):
    """A daemon with an address on loopback."""

    def __init__(self, bench, settings):
        super().__init__(bench, {"SANDBOX_LISTEN": "127.0.0.1:0", **settings})
        with open(self.log) as file:
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", file.read())
        if not found:
            self.close()
            raise Failed("the server does not say where it listens")
        self.port = int(found.group(1))

    def key(self, tenant):
        with self.connect() as connection:
            return connection.ask("POST", "/v1/keys", {
                "tenant": tenant, "scopes": ["run", "sessions", "files"]})["key"]

    def caller(self, tenant):
        return Caller(self, self.key(tenant))


class Caller:
    """One with a key; has what upload() and download() of sessions.py want."""

    def __init__(self, serve, key):
        self.serve, self.key = serve, key
        self.way = "tcp:%d:%s" % (serve.port, key)

    def connect(self):
        return Connection(None, self.serve.port, self.key)

    def session(self, name):
        with self.connect() as connection:
            self.serve.session(connection, name)
            connection.ask("POST", "/v1/sessions/%s/code" % name, {"code": "1"})


# ---- the budgets over TCP ----

KINDS = (
    ("GET /health", ("GET", "/health", "", "healthy")),
    ("GET /v1/info", ("GET", "/v1/info", "", "version")),
    ("fresh box, warm pool: POST /v1/run", ("POST", "/v1/run", '{"code":"print(\'Hello\')"}', "Hello")),
    ("POST /execute", ("POST", "/execute", '{"code":"print(\'Hello\')"}', "Hello")),
    ('exec ["true"] in a session', ("POST", "/v1/sessions/live/exec",
                                    '{"argv":["true"],"collect":false}', EXIT_0)),
    ("cell in a session", ("POST", "/v1/sessions/live/code", '{"code":"1","collect":false}', EXIT_0)),
    ("file of 4 KB written", ("PUT", "/v1/sessions/live/files?path=/workspace/small", SMALL_FILE,
                              "4096")),
    ("file of 4 KB read", ("GET", "/v1/sessions/live/files?path=/workspace/small", "", "xxxx")),
)
SOCKET, TCP = ", unix socket", ", TCP with a key"


def budget_calls(bench, serve, caller):
    """Each call both ways, interleaved. The session is the tenant's; the owner finds it by its id."""
    with caller.connect() as connection:
        live = connection.ask("GET", "/v1/sessions/live")["id"]
    ways = []
    for name, (method, target, body, expect) in KINDS:
        own = target.replace("/live/", "/%s/" % live)
        ways.append((name + SOCKET, http(serve.socket, (method, own, body, expect))))
        ways.append((name + TCP, http(caller.way, (method, target, body, expect))))
    return measure_calls(bench, "The server: calls over TCP with a key", ways, bench.hot_rounds,
                         bench.paced_rounds)


# ---- requests a second ----

class Rate:
    def __init__(self, name, requests_s, p50_ns, p99_ns, refused=0, requests=0):
        self.name, self.requests_s, self.p50_ns, self.p99_ns = name, requests_s, p50_ns, p99_ns
        self.refused, self.requests = refused, requests


def duration_ns(text):
    value, unit = re.fullmatch(r"([\d.]+)([a-z]+)", text).groups()
    return float(value) * UNITS[unit]


def read_wrk(name, text):
    found = re.search(r"Requests/sec:\s+([\d.]+)", text)
    shares = dict(re.findall(r"^\s+(50|99)%\s+(\S+)\s*$", text, re.M))
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    requests = re.search(r"(\d+) requests in", text)
    if not found or len(shares) != 2:
        raise Failed("wrk, %s: %s" % (name, text.strip()[-300:]))
    return Rate(name, float(found.group(1)), duration_ns(shares["50"]), duration_ns(shares["99"]),
                int(refused.group(1)) if refused else 0, int(requests.group(1)))


def wrk_words(port, target, clients, seconds, key=None, script=None):
    program = shutil.which("wrk")
    if not program:
        raise Failed("no wrk here; tools/setup bench installs it")
    return ([program, "-t1", "-c%d" % clients, "-d%ds" % seconds, "--timeout", "30s", "--latency"]
            + (["-H", "Authorization: Bearer " + key] if key else [])
            + (["-s", script] if script else []) + ["http://127.0.0.1:%d%s" % (port, target)])


def run_wrk(bench, name, *words):
    out = subprocess.run(wrk_words(*words), capture_output=True, text=True, env=bench.env)
    if out.returncode != 0:
        raise Failed("wrk, %s: %s" % (name, out.stderr.strip()[-300:]))
    return read_wrk(name, out.stdout)


def rates(bench, serve, caller, nginx):
    """[Rate], of several rounds in turns the one in the middle."""
    ways = [("GET /health", serve.port, "/health", None),
            ("GET /v1/info with a key", serve.port, "/v1/info", caller.key)]
    if nginx:
        ways.insert(0, ("nginx, a static file of 300 bytes", nginx.port, "/small", None))
    found = {name: [] for name, *_ in ways}
    bench.tell("requests a second, %d clients: %d rounds of %d s" % (
        CLIENTS, bench.rate_rounds, bench.rate_seconds))
    for _ in range(bench.rate_rounds):
        for name, port, target, key in ways:
            rate = run_wrk(bench, name, port, target, CLIENTS, bench.rate_seconds, key)
            if rate.refused:
                raise Failed("%s: %d were refused" % (name, rate.refused))
            found[name].append(rate)
    return [sorted(rows, key=lambda rate: rate.requests_s)[len(rows) // 2]
            for rows in found.values()]


# ---- files ----

def download_static(nginx, size):
    room = memoryview(bytearray(1 << 20))
    with nginx.connect() as connection:
        connection.send_head("GET", "/big", 0)
        status, length = connection.read_head()
        if status != 200 or length != size:
            raise Failed("nginx: status %d, %d bytes" % (status, length))
        while length > 0:
            count = connection.file.readinto(room[:min(length, len(room))])
            if not count:
                raise Failed("nginx: %d bytes are missing" % length)
            length -= count


def big_file(nginx):
    with open(os.path.join(nginx.folder, "big"), "wb") as file:
        for _ in range(GIGABYTE >> 20):
            file.write(bytes(1 << 20))


def transfers(bench, serve, caller, nginx):
    """[Transfer] of 1 GB each way."""
    if available() < 6 * GIGABYTE:
        raise Failed("1 GB in three places needs 6 GB of free memory")
    pid = serve.info()["broker_pid"]
    ways = [Transfer("in: PUT .../files", lambda: upload(caller)),
            Transfer("out: GET .../files", lambda: download(caller))]
    if nginx:
        big_file(nginx)
        ways.append(Transfer("out: nginx, a static file", lambda: download_static(nginx, GIGABYTE)))
    bench.tell("1 GB over TCP: %d rounds" % bench.output_rounds)
    for _ in range(bench.output_rounds):
        forget_upload(caller)
        for way in ways:
            forget_peak(pid)
            cpu_ns, begin = running_ns(pid), time.perf_counter_ns()
            way.run()
            way.ns.append(time.perf_counter_ns() - begin)
            way.cpu_ns.append(running_ns(pid) - cpu_ns)
            way.broker = max(way.broker, high_water(pid))
    forget_upload(caller)
    return ways


# ---- streams ----

UPGRADE = ("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
           "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n")


def open_stream(serve, caller, is_ws):
    peer = socket.create_connection(("127.0.0.1", serve.port))
    peer.sendall(("GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n%s\r\n" % (
        "/v1/ws" if is_ws else "/v1/events", serve.port, caller.key,
        UPGRADE if is_ws else "Accept: text/event-stream\r\n")).encode())
    head = peer.recv(4096)
    if not head.startswith(b"HTTP/1.1 101" if is_ws else b"HTTP/1.1 200"):
        raise Failed("a stream: %r" % head[:200])
    return peer


def many_streams(bench, serve, caller):
    """{kind: (bytes of the broker without, and with so many of them)}"""
    pid = serve.info()["broker_pid"]
    found = {}
    for kind in ("server-sent events", "WebSockets"):
        bench.tell("%d %s" % (STREAMS, kind))
        before = resident(pid)
        opened = [open_stream(serve, caller, kind == "WebSockets") for _ in range(STREAMS)]
        with caller.connect() as connection:  # something that all of the first kind are told
            connection.ask("POST", "/v1/sessions/live/exec", {"argv": ["true"], "collect": False})
        time.sleep(1)
        found[kind] = (before, resident(pid))
        for peer in opened:
            peer.close()
        time.sleep(1)
    return found


def measure(bench, found, attempt):
    """Everything of the server into `found`, each part by itself."""
    bench.client = build_client(bench)
    nginx = None
    try:
        nginx = Nginx(bench, {"small": b"x" * 300})
    except (Failed, OSError) as error:
        found["no_nginx"] = str(error)
    try:
        with TcpServe(bench, SETTINGS) as serve:
            caller = serve.caller("bench")
            caller.session("live")
            attempt(bench, found, "server_calls", budget_calls, serve, caller)
            attempt(bench, found, "server_rates", rates, serve, caller, nginx)
            attempt(bench, found, "server_streams", many_streams, serve, caller)
            attempt(bench, found, "server_transfers", transfers, serve, caller, nginx)
    finally:
        if nginx:
            nginx.close()
