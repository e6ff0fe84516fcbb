"""The server over TCP: addresses, the first key, TLS, browsers, reload; and what makes a start fail."""
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess

import pytest

import serve
import support
import daemon_fixture
from tcp import certificate

LISTENING = re.compile(r"listening on (.*)")
KEY = re.compile(r"bly_[0-9a-f]+\.[A-Za-z0-9_-]+")


class Server(serve.Daemon):
    """A daemon with an address of its own on loopback, asked over TCP with its first key."""

    def __init__(self, env=None, **rest):
        super().__init__({"SANDBOX_LISTEN": "127.0.0.1:0", **(env or {})}, **rest)
        lines = LISTENING.findall(self.said())
        assert lines, self.said()
        self.urls = lines[-1].split(", ")
        keys = KEY.findall(self.said())
        self.key = keys[-1] if keys else None

    def address(self, number=0):
        found = re.fullmatch(r"https?://\[?([^\]]*?)\]?:(\d+)", self.urls[number])
        return found.group(1), int(found.group(2))

    def tcp(self, method, path, body=None, headers=None, key=None, number=0, context=None):
        """One request over TCP; `key` False: without one."""
        host, port = self.address(number)
        made = http.client.HTTPSConnection if context else http.client.HTTPConnection
        rest = {"context": context} if context else {}
        connection = made(host, port, timeout=support.PATIENCE, **rest)
        headers = dict(headers or {})
        if key is not False:
            headers.setdefault("Authorization", f"Bearer {key or self.key}")
        if body is not None:
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return serve.Reply(reply.status, reply.headers, reply.read())
        finally:
            connection.close()

    def raw(self, data):
        """What comes back for these bytes, up to the end of the connection."""
        with socket.create_connection(self.address(), timeout=support.PATIENCE) as peer:
            peer.sendall(data)
            got = b""
            while piece := peer.recv(65536):
                got += piece
            return got


@pytest.fixture
def server():
    with Server() as daemon:
        yield daemon


# ---- keys

def test_the_first_key_is_printed_once_and_works(server):
    assert len(KEY.findall(server.said())) == 1
    assert "curl" in server.said() and server.urls[0] in server.said()
    assert server.tcp("GET", "/v1/info").status == 200
    assert server.tcp("GET", "/v1/info", headers={"X-API-Key": server.key}, key=False).status == 200
    told = server.bailey("audit", "query", "--action", "key").stdout
    line = json.loads(told)
    assert (line["change"], line["key_id"]) == ("new", server.key[4:].split(".")[0]), told
    assert server.key.split(".")[1] not in told


def test_the_first_key_is_an_ordinary_one_and_says_so(server):
    made, = server.get("/v1/keys")["keys"]
    assert made["scopes"] == ["run", "sessions", "files"], made
    assert "scopes run, sessions and files" in server.said() and "bailey key new" in server.said()
    assert server.tcp("GET", "/v1/keys").status == server.tcp("GET", "/v1/audit").status == 403


def test_a_start_that_fails_does_not_use_up_the_first_key(tmp_path):
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    room = support.Room()
    with pytest.raises(AssertionError, match="bailey serve ended.*TLS"):
        Server({"SANDBOX_TLS_CERTIFICATE": first[0], "SANDBOX_TLS_KEY": second[1]}, room=room)
    assert "bly_" not in (room.path / "serve.log").read_text()
    with Server(room=room) as server:
        assert server.key and server.tcp("GET", "/v1/info").status == 200


def test_a_log_in_json_has_no_key_and_names_its_file():
    with serve.Daemon({"SANDBOX_LISTEN": "127.0.0.1:0", "BAILEY_LOG_FORMAT": "json"}) as server:
        line, = [json.loads(line) for line in server.said().splitlines() if '"listening"' in line]
        assert "bly_" not in server.said() and "api_key" not in line, line
        file = line["api_key_file"]
        assert os.path.realpath(file).startswith(os.path.realpath(server.state) + "/"), file
        assert os.stat(file).st_mode & 0o777 == 0o600
        with open(file, encoding="ascii") as text:
            key = text.read().strip()
        port = int(line["addresses"][0].rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=support.PATIENCE)
        connection.request("GET", "/v1/info", headers={"Authorization": f"Bearer {key}"})
        assert connection.getresponse().status == 200
        connection.close()


def test_without_a_key_nothing_is_told(server):
    for headers in ({}, {"Authorization": "Bearer " + server.key[:-1] + "x"},
                    {"Authorization": "Bearer bly_0.x"}, {"Authorization": "Basic " + server.key}):
        reply = server.tcp("GET", "/v1/sessions", headers=headers, key=False)
        assert reply.status == 401 and reply.error["code"] == "unauthorized", reply
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert server.tcp("GET", f"/v1/sessions?key={server.key}", key=False).status == 401
    assert server.get("/v1/sessions")  # and over its own socket nobody is asked


def test_a_second_start_makes_no_key_and_the_first_still_works():
    room = support.Room()
    with Server(room=room) as first:
        key = first.key
        secret = key.partition(".")[2].encode()
        for folder, _, names in os.walk(first.state):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    assert secret not in file.read(), (folder, name)
    with Server(room=room) as second:
        assert second.said().count("bly_") == 1  # the same log: only the first start's
        assert second.tcp("GET", "/v1/info", key=key).status == 200


# ---- addresses

def refused_start(env, *args):
    """A start that must fail: what it says, also to whoever waits for it."""
    place = daemon_fixture.DaemonFixture(env=env)
    try:
        ready, told = os.pipe()
        os.set_inheritable(told, True)
        process = place.start("serve", "--ready-fd", told, *args, pass_fds=[told],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(told)
        with os.fdopen(ready) as pipe:
            heard = pipe.read()
        _, said = process.communicate(timeout=support.PATIENCE)
        assert process.returncode in (125, 126), said
        return heard, said.decode()
    finally:
        place.close()


def test_an_address_that_others_reach_needs_a_key_first():
    for address in ("0.0.0.0:0", "[::]:0"):
        for heard in refused_start({"SANDBOX_LISTEN": address}):
            assert "no API key" in heard and "bailey key new" in heard, heard


def test_with_a_key_it_listens_everywhere():
    room = support.Room()
    with serve.Daemon(room=room) as daemon:
        key = daemon.post("/v1/keys", {"name": "one"}, 201)["key"]
    with Server({"SANDBOX_LISTEN": "0.0.0.0:0"}, room=room) as server:
        assert server.key is None
        assert server.tcp("GET", "/v1/info", key=key).status == 200
        assert server.tcp("GET", "/v1/info", key=False).status == 401


def test_open_to_others_without_a_key_where_that_was_said():
    with Server({"SANDBOX_LISTEN": "0.0.0.0:0", "SANDBOX_EXECUTE_OPEN": "true"}) as server:
        assert server.key is None
        done = server.tcp("POST", "/execute", {"code": "print(6 * 7)"}, key=False)
        assert done.status == 200 and done.json()["stdout"] == "42\n", done
        assert server.tcp("GET", "/v1/info", key=False).status == 401


def test_a_port_that_is_taken_is_named(server):
    taken = "%s:%d" % server.address()
    for heard in refused_start({"SANDBOX_LISTEN": taken}):
        assert taken in heard and "another program" in heard and "--listen" in heard, heard


@pytest.mark.parametrize("text", ["7070", "a.example:7070", "::1:7070", "127.0.0.1:99999"])
def test_what_is_no_address_is_named(text):
    for heard in refused_start({}, "--listen", text):
        assert text in heard and "127.0.0.1:7070" in heard, heard


def test_several_addresses_of_both_kinds():
    if not os.path.exists("/proc/net/if_inet6") or "00000000000000000000000000000001" not in \
            open("/proc/net/if_inet6").read():
        pytest.skip("this machine has no ::1")
    with Server({"SANDBOX_LISTEN": "127.0.0.1:0,[::1]:0"}) as server:
        assert [url.partition("://")[2].rpartition(":")[0] for url in server.urls] == \
            ["127.0.0.1", "[::1]"]
        for number in range(2):
            assert server.tcp("GET", "/v1/info", number=number).status == 200


def test_a_daemon_on_demand_opens_nothing():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = daemon_fixture.DaemonFixture(env={"SANDBOX_LISTEN": f"127.0.0.1:{port}"})
    try:
        place.session()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=support.PATIENCE)
    finally:
        place.close()


# ---- a session over TCP

def test_a_session_lives_over_tcp(server):
    made = server.tcp("POST", "/v1/sessions", {"name": "over-tcp"})
    assert made.status == 201, made
    done = server.tcp("POST", f"/v1/sessions/{made.json()['id']}/exec", {"argv": ["echo", "hello"]})
    assert done.json()["stdout"] == "hello\n", done
    assert server.tcp("DELETE", f"/v1/sessions/{made.json()['id']}").status == 200


# ---- browsers

@pytest.mark.attack(67)
def test_hosts_and_origins_of_others_are_refused(server):
    for headers in ({"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:7070"},
                    {"Origin": "http://evil.example"}, {"Origin": "null"}):
        reply = server.tcp("GET", "/v1/info", headers=headers)
        assert reply.status == 403 and reply.error["code"] == "forbidden", reply
        assert "Access-Control-Allow-Origin" not in reply.headers
    for headers in ({"Host": "localhost"}, {"Origin": server.urls[0]}):
        assert server.tcp("GET", "/v1/info", headers=headers).status == 200


def test_cors_only_for_those_that_are_configured():
    page = "https://app.example"
    question = {"Origin": page, "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization"}
    with Server({"SANDBOX_CORS_ORIGINS": page, "SANDBOX_HOSTS": "bailey.example"}) as server:
        asked = server.tcp("OPTIONS", "/v1/run", headers=question, key=False)
        assert asked.status == 204, asked
        assert asked.headers["Access-Control-Allow-Origin"] == page
        assert "POST" in asked.headers["Access-Control-Allow-Methods"]
        assert "Authorization" in asked.headers["Access-Control-Allow-Headers"]
        assert "Access-Control-Allow-Credentials" not in asked.headers
        got = server.tcp("GET", "/v1/info", headers={"Origin": page, "Host": "bailey.example"})
        assert got.status == 200 and got.headers["Access-Control-Allow-Origin"] == page, got
        question["Origin"] = "https://evil.example"
        assert server.tcp("OPTIONS", "/v1/run", headers=question, key=False).status == 403


SECOND = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("head", [
    b"Host: localhost\r\nContent-Length: 4\r\nContent-Length: 4\r\n",
    b"Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n",
    b"Host: localhost\r\nHost: evil.example\r\n",
])
def test_what_can_be_read_in_two_ways_ends_the_connection(server, head):
    """Those that we see; what libmicrohttpd sees first: test_http_library.py."""
    got = server.raw(b"POST /v1/run HTTP/1.1\r\n" + head + b"\r\n0\r\n\r\n" + SECOND)
    assert got.startswith(b"HTTP/1.1 400 ") and b'"bad_input"' in got, got
    assert got.count(b"HTTP/1.1 ") == 1, got


def test_headers_that_are_too_large(server):
    got = server.raw(b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 431 "), got[:200]


# ---- TLS and reload

def test_https_and_a_certificate_that_is_replaced_under_a_stream(tmp_path):
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    env = {"SANDBOX_TLS_CERTIFICATE": first[0], "SANDBOX_TLS_KEY": first[1]}
    old, new = (ssl.create_default_context(cafile=paths[0]) for paths in (first, second))
    with Server(env) as server:
        assert server.urls[0].startswith("https://")
        assert server.tcp("GET", "/v1/info", context=old).status == 200
        host, port = server.address()
        stream = http.client.HTTPSConnection(host, port, timeout=support.PATIENCE, context=old)
        stream.request("GET", "/v1/events", headers={"Authorization": f"Bearer {server.key}",
                                                     "Accept": "text/event-stream"})
        with serve.Events(stream, stream.getresponse()) as events:
            server.env.update(SANDBOX_TLS_CERTIFICATE=second[0], SANDBOX_TLS_KEY=second[1])
            done = server.bailey("reload", "--json")
            assert done.status == 0 and json.loads(done.stdout)["certificate"] is True, done
            assert json.loads(done.stdout)["restart"] == [], done
            assert server.tcp("GET", "/v1/info", context=new).status == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                server.tcp("GET", "/v1/info", context=old)
            made = server.tcp("POST", "/v1/sessions", {}, context=new).json()
            assert events.next().data["session_id"] == made["id"], events.seen
        # A broker that takes over shows it too.
        os.kill(server.get("/v1/info")["broker_pid"], signal.SIGKILL)
        server._wait_until_it_answers()
        assert server.tcp("GET", "/v1/info", context=new).status == 200
        server.env.update(SANDBOX_TLS_KEY=first[1])
        done = server.bailey("reload")
        assert done.status == 125 and "TLS" in done.stderr, done
        assert server.tcp("GET", "/v1/info", context=new).status == 200


def test_one_address_answers_https_and_http_where_that_is_set(tmp_path):
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    old, new = (ssl.create_default_context(cafile=paths[0]) for paths in (first, second))
    env = {"SANDBOX_TLS_CERTIFICATE": first[0], "SANDBOX_TLS_KEY": first[1], "SANDBOX_TLS_OPTIONAL": "true"}
    with Server(env) as server:
        for context in (old, None, old):
            assert server.tcp("GET", "/v1/info", context=context).status == 200
            assert server.tcp("GET", "/v1/info", context=context, key=False).status == 401
        streams = []
        for kind, more in ((http.client.HTTPSConnection, {"context": old}), (http.client.HTTPConnection, {})):
            stream = kind(*server.address(), timeout=support.PATIENCE, **more)
            stream.request("GET", "/v1/events", headers={"Authorization": f"Bearer {server.key}",
                                                         "Accept": "text/event-stream"})
            streams.append(serve.Events(stream, stream.getresponse()))
        server.env.update(SANDBOX_TLS_CERTIFICATE=second[0], SANDBOX_TLS_KEY=second[1])
        assert server.bailey("reload").status == 0
        assert server.tcp("GET", "/v1/info", context=new).status == 200
        made = server.tcp("POST", "/v1/sessions", {}).json()
        for events in streams:
            with events:
                assert events.next().data["session_id"] == made["id"], events.seen
        assert b" 200 " not in server.raw(b"\0\0\0\0\r\n\r\n")
        os.kill(server.get("/v1/info")["broker_pid"], signal.SIGKILL)
        server._wait_until_it_answers()
        for context in (new, None):
            assert server.tcp("GET", "/v1/info", context=context).status == 200


def test_tls_files_that_cannot_be_used(tmp_path):
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    there = {"SANDBOX_LISTEN": "127.0.0.1:0", "SANDBOX_TLS_CERTIFICATE": first[0]}
    for key, said in ((None, "SANDBOX_TLS_KEY"), (tmp_path / "none", "none"), (second[1], "TLS"),
                      ("/dev/null", "PEM")):
        for heard in refused_start({**there, **({"SANDBOX_TLS_KEY": key} if key else {})}):
            assert said in heard, (key, heard)


def test_reload_says_what_changed_and_what_needs_a_restart(server):
    assert server.tcp("GET", "/v1/info", headers={"Host": "new.example"}).status == 403
    server.env.update(SANDBOX_HOSTS="new.example", SANDBOX_POOL_MEMORY="64m")
    done = server.bailey("reload", "--json")
    assert done.status == 0, done
    assert json.loads(done.stdout) == {"changed": ["SANDBOX_HOSTS"], "certificate": False,
                                       "restart": ["SANDBOX_POOL_MEMORY"]}
    assert server.tcp("GET", "/v1/info", headers={"Host": "new.example"}).status == 200
    assert "SANDBOX_POOL_MEMORY needs a restart" in server.said()
    assert "SANDBOX_HOSTS changed" in server.said()
    os.kill(server.get("/v1/info")["broker_pid"], signal.SIGKILL)
    server._wait_until_it_answers()
    assert server.tcp("GET", "/v1/info", headers={"Host": "new.example"}).status == 200
    again = server.bailey("reload")
    assert again.status == 0 and "restart: SANDBOX_POOL_MEMORY" in again.stdout, again


def test_reload_is_for_the_owner_and_takes_all_or_nothing(server):
    body = {"settings": {"SANDBOX_HOSTS": "evil.example"}}
    operator = server.post("/v1/keys", {"name": "operator", "scopes": ["operator"]}, 201)["key"]
    for key in (server.key, operator):
        reply = server.tcp("POST", "/v1/reload", body, key=key)
        assert reply.status == 403 and reply.error["code"] == "forbidden", reply
    error = server.refused("POST", "/v1/reload", 400, "bad_input",
                           {"settings": {**body["settings"], "SANDBOX_QUEUE": "many"}})
    assert "SANDBOX_QUEUE" in error["message"]
    assert server.tcp("GET", "/v1/info", headers={"Host": "evil.example"}).status == 403
