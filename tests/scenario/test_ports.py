"""Servers that run in a session are reached from outside by its ports, and nothing else becomes reachable."""
import hashlib
import http.client
import json
import os
import pathlib
import signal
import socket

import pytest
import serve
import support
import tcp
import wsclient

pytestmark = pytest.mark.needs_namespaces

SERVER = pathlib.Path(support.__file__).with_name("guest_server.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server():
    with tcp.Server() as running:
        yield running


@pytest.fixture(scope="module")
def session(server):
    """A session with the test's server on port 3000 and Python's own on port 8000."""
    made = new_session(server)
    server.write(made, "/workspace/guest_server.py", SERVER.encode())
    listen(server, made, "python3 /workspace/guest_server.py 3000")
    listen(server, made, "cd /tmp && echo hello >hello.txt && python3 -u -m http.server --bind 127.0.0.1 8000")
    return made


def new_session(server):
    """Of the tenant whose key is server.key."""
    return server.tcp("POST", "/v1/sessions", {}).json()["id"]


def listen(server, session, command):
    """Starts it in the background; returns when it has said that it listens."""
    execution = server.background(session, "sh", "-c", command)["execution_id"]
    path = f"/v1/sessions/{session}/processes/{execution}"
    serve.polled(lambda: server.get(path), lambda process: process["stdout_bytes"] > 0, "the server listens")
    return execution


def path_of(session, port, path=""):
    return f"/v1/sessions/{session}/ports/{port}/{path}"


def asked(server, session, path, method="GET", body=None, headers=None, port=3000, **rest):
    return server.tcp(method, path_of(session, port, path), body, headers, **rest)


def names(reply):
    return [name.lower() for name, _ in json.loads(reply.body)["headers"]]


def test_a_server_of_the_standard_library_is_reached(server, session):
    reply = asked(server, session, "hello.txt", port=8000)
    assert (reply.status, reply.body) == (200, b"hello\n")
    assert asked(server, session, "nothing", port=8000).status == 404
    head = asked(server, session, "hello.txt", method="HEAD", port=8000)
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", "6")
    listing = asked(server, session, "", port=8000)
    assert listing.status == 200 and b"hello.txt" in listing.body
    redirect = server.tcp("GET", f"/v1/sessions/{session}/ports/8000")
    assert (redirect.status, redirect.headers["Location"]) == (308, "8000/")


def test_ports_are_listed(server, session):
    reply = server.get(f"/v1/sessions/{session}/ports")
    assert reply == {"ports": [{"port": port, "url": path_of(session, port)} for port in (3000, 8000)],
                     "truncated": False}
    empty = server.session()["id"]
    assert server.get(f"/v1/sessions/{empty}/ports")["ports"] == []
    server.end(empty)


def test_a_request_arrives_as_it_was_sent(server, session):
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        body = b"some \0 bytes" if method in ("POST", "PUT", "PATCH") else None
        reply = asked(server, session, "a%2Fb/../c//d/?x=1&y=%20", method, body, {"X-Mine": "yes"})
        seen = json.loads(reply.body)
        assert seen["line"][:2] == [method, "/a%2Fb/../c//d/?x=1&y=%20"], "nothing is normalised"
        assert seen["body"] == (body or b"").decode()
        assert ["X-Mine", "yes"] in seen["headers"] and ["Host", "localhost:3000"] in seen["headers"]


def test_no_key_reaches_the_guest(server, session):
    headers = {"Cookie": "c=1", "X-API-Key": server.key, "X-Access-Token": "t", "Bailey-Session": session,
               "E2b-Traffic": "t", "Proxy-Authorization": "p", "Referer": "http://x/v1/ports/secret",
               "X-Other": f"a {server.key} b", "Connection": "X-Hop", "X-Hop": "1"}
    reply = asked(server, session, f"echo?key={server.key}", headers=headers)
    text = reply.body.decode()
    assert reply.status == 200 and server.key not in text and server.key.partition(".")[2] not in text, text
    assert not {"authorization", "cookie", "x-api-key", "x-access-token", "bailey-session", "e2b-traffic",
                "proxy-authorization", "referer", "x-hop"} & set(names(reply))


def test_a_reply_under_the_apis_origin_sets_nothing_for_it(server, session):
    reply = asked(server, session, "echo")
    assert reply.headers["X-Guest"] == "yes" and reply.headers["Content-Type"] == "application/json"
    assert reply.headers.get_all("Content-Security-Policy") == ["sandbox"]
    for name in ("Set-Cookie", "Strict-Transport-Security", "Alt-Svc", "Access-Control-Allow-Origin", "X-Hop"):
        assert name not in reply.headers, name
    moved = asked(server, session, "move")
    assert (moved.status, moved.headers["Location"]) == (302, path_of(session, 3000, "echo?moved"))


def test_bodies_of_any_size_pass_both_ways(server, session):
    size = 20_000_000
    reply = asked(server, session, f"big?{size}")
    block = bytes(range(256)) * 256
    assert reply.status == 200 and reply.body == (block * (size // len(block) + 1))[:size]
    body = os.urandom(5_000_000)
    wanted = f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode()
    assert asked(server, session, "sink", "POST", body).body == wanted
    pieces = (body[at:at + 100_000] for at in range(0, len(body), 100_000))
    assert asked(server, session, "sink", "POST", pieces).body == wanted, "in chunks, of unknown length"


def test_a_client_that_does_not_read_slows_the_guest(server, session):
    """The guest of this one sends 200 MB; the server holds no more than a window of it."""
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.sendall(f"GET {path_of(session, 3000, 'big?200000000')} HTTP/1.1\r\nHost: localhost\r\n"
                 f"X-API-Key: {server.key}\r\n\r\n".encode())
    assert sock.recv(12) == b"HTTP/1.1 200"
    broker = server.get("/v1/info")["broker_pid"]
    for _ in range(20):  # others are served meanwhile
        assert asked(server, session, "hello.txt", port=8000).status == 200
    with open(f"/proc/{broker}/status", encoding="ascii") as file:
        resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    assert resident < 150_000, f"{resident} KB"
    sock.close()


def test_a_reply_is_streamed_as_it_comes(server, session):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=support.PATIENCE)
    connection.request("GET", path_of(session, 3000, "slow"), headers={"X-API-Key": server.key})
    assert connection.getresponse().read(6) == b"first\n", "although the guest has not finished"
    connection.close()


def test_a_server_that_dies_breaks_the_reply(server, session):
    with pytest.raises(http.client.IncompleteRead):
        asked(server, session, "die")
    assert asked(server, session, "echo").status == 200


def test_a_reply_that_said_its_end_is_whole_however_its_connection_ends(server, session):
    for _ in range(20):
        reply = asked(server, session, "reset")
        assert (reply.status, reply.body) == (200, b"whole")


def test_nothing_listens(server, session):
    reply = asked(server, session, "", port=4321)
    assert reply.status == 502 and reply.error["code"] == "port_closed"
    assert "no server listens on port 4321" in reply.error["message"], reply.error
    for port in ("0", "65536", "x", "080"):
        assert asked(server, session, "", port=port).status == 400, port
    elsewhere = server.tcp("GET", f"/v1/sessions/{session}/ports/https:elsewhere")
    assert elsewhere.status == 400 and "Location" not in elsewhere.headers, "no redirect to what is no port"


def raw(text):
    return "raw?" + text.encode().hex()


@pytest.mark.parametrize("reply", [
    "", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 30\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"])
def test_a_reply_that_is_not_http_is_502(server, session, reply):
    told = asked(server, session, raw(reply))
    assert told.status == 502 and told.error["code"] == "port_bad_reply", told
    assert "port 3000" in told.error["message"]


def test_only_the_sessions_own_tenant(server, session):
    other = server.new_key(tenant="other", scopes=["sessions"])
    for path in (path_of(session, 3000), f"/v1/sessions/{session}/ports"):
        assert server.tcp("GET", path, key=other).status == 404
        assert server.tcp("GET", path, key=False).status == 401
    assert server.tcp("POST", f"/v1/sessions/{session}/ports", {"port": 3000}, key=other).status == 404
    few = server.new_key(tenant="default", scopes=["metrics"])
    assert server.tcp("GET", path_of(session, 3000), key=few).status == 403


def test_a_signed_link_opens_this_port_and_nothing_else(server, session):
    made = server.post(f"/v1/sessions/{session}/ports", {"port": 3000, "seconds": 60}, 201)
    url = made["url"]
    reply = server.tcp("POST", url + "echo?a=b", b"x", key=False)
    seen = json.loads(reply.body)
    assert reply.status == 200 and seen["line"][:2] == ["POST", "/echo?a=b"] and url.split("/")[-2] not in reply.body.decode()
    assert server.tcp("GET", url + "move", key=False).headers["Location"] == url + "echo?moved"
    parts = url.split("/")  # "", v1, ports, id, port, expires, signature, ""
    for place, value in ((4, "8000"), (5, str(int(parts[5]) + 1)), (6, "0" * 64), (3, "s_" + "0" * 32)):
        changed = parts[:place] + [value] + parts[place + 1:]
        assert server.tcp("GET", "/".join(changed), key=False).error["code"] == "link_expired", place
    assert server.tcp("GET", f"/v1/sessions/{session}", key=False).status == 401
    assert parts[6] not in server.said(), "the log does not show signatures"


def test_a_websocket_passes(server, session):
    sock = socket.create_connection(("127.0.0.1", server.port))
    ws = wsclient.WebSocket(sock, path_of(session, 3000, "ws"), {"Host": f"127.0.0.1:{server.port}"},
                            protocols=[f"bailey.key.{server.key}", "chat"])
    assert ws.protocol == "chat", "the key is not among the protocols that the guest sees"
    for data in (b"", b"hello", os.urandom(70_000)):
        ws.send(data)
        assert ws.receive() == data
    ws.close()
    with pytest.raises(wsclient.Refused) as refused:
        sock = socket.create_connection(("127.0.0.1", server.port))
        wsclient.WebSocket(sock, path_of(session, 3000, "echo"), {"X-API-Key": server.key,
                                                                   "Host": f"127.0.0.1:{server.port}"})
    assert refused.value.status == 200, "a server that does not switch answers as it likes"


def test_a_websocket_does_not_outlive_its_key(server, session):
    """Also if the guest's server switches only after the key was removed."""
    made = server.post("/v1/keys", {"tenant": "default"}, 201)
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=support.PATIENCE)
    sock.sendall(f"GET {path_of(session, 3000, 'late')} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {made['key']}\r\n"
                 "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                 "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
    server.exec(session, "sh", "-c", "until [ -p /tmp/go ]; do :; done")
    assert server.call("DELETE", f"/v1/keys/{made['id']}").status in (200, 204)
    server.exec(session, "sh", "-c", ": >/tmp/go")
    file = sock.makefile("rb")
    while file.readline() not in (b"", b"\r\n"):
        pass
    sock.sendall(b"\x81\x85\0\0\0\0hello")
    assert file.read(1) == b"", "the guest's server would send it back"
    file.close()
    sock.close()


def test_a_session_that_is_paused_or_over_says_so(server):
    own = new_session(server)
    server.write(own, "/workspace/guest_server.py", SERVER.encode())
    listen(server, own, "python3 /workspace/guest_server.py 3000")
    assert asked(server, own, "echo").status == 200
    server.post(f"/v1/sessions/{own}/pause")
    assert asked(server, own, "echo").error["code"] == "session_paused"
    server.post(f"/v1/sessions/{own}/resume")
    assert asked(server, own, "echo").status == 200
    server.end(own)
    assert asked(server, own, "echo").error["code"] == "session_ended"


def test_new_connections_work_after_the_broker_was_restarted():
    with tcp.Server() as own:
        made = new_session(own)
        listen(own, made, "cd /tmp && echo hello >hello.txt && python3 -u -m http.server --bind 127.0.0.1 8000")
        assert asked(own, made, "hello.txt", port=8000).status == 200
        os.kill(own.get("/v1/info")["broker_pid"], signal.SIGKILL)
        serve.polled(lambda: can_connect(own), bool, "the broker is back")
        assert asked(own, made, "hello.txt", port=8000).body == b"hello\n"


def can_connect(server):
    try:
        return server.tcp("GET", "/health", key=False).status == 200
    except (OSError, http.client.HTTPException):
        return False


# --- bailey port

class Local:
    """`bailey port` for a session's port, on any free port of this machine."""

    def __init__(self, server, session, port, **env):
        self.process = support.start("port", "-s", session, str(port), "--local", "0", "--json",
                                     room=server.room, user=server.user, env={**server.env, **env})
        self.told = json.loads(self.process.stdout.readline())

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.told["local"]), timeout=support.PATIENCE)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.told["local"], timeout=support.PATIENCE)
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read()

    def end(self):
        """Ctrl-C; its status and what it said on standard error."""
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate(timeout=support.PATIENCE)[1]
        return self.process.returncode, said.decode()


def test_a_port_of_this_machine_leads_to_the_session(server, session):
    listed = server.bailey("port", "-s", session)
    assert (listed.status, listed.stdout) == (0, "3000\n8000\n")
    local = Local(server, session, 8000)
    assert local.told["address"] == "127.0.0.1" and local.told["port"] == 8000
    assert local.get("/hello.txt") == (200, b"hello\n")
    with local.connect() as peer:  # plain bytes, both ways, and an end of each direction
        peer.sendall(b"GET /hello.txt HTTP/1.0\r\n\r\n")
        peer.shutdown(socket.SHUT_WR)
        assert peer.makefile("rb").read().endswith(b"hello\n")
    assert local.end() == (0, "")
    with pytest.raises(ConnectionRefusedError):
        local.connect()


def test_much_passes_by_a_local_port(server, session):
    local = Local(server, session, 3000)
    size = 8_000_000
    assert local.get(f"/big?{size}")[1] == (bytes(range(256)) * (size // 256 + 1))[:size]
    held = [local.connect() for _ in range(5)]  # they say nothing, and keep nobody waiting
    assert local.get("/echo")[0] == 200
    for peer in held:
        peer.close()
    assert local.end()[0] == 0


def test_a_local_port_of_another_machines_server(server, session):
    remote = {"BAILEY_URL": f"http://127.0.0.1:{server.port}", "BAILEY_API_KEY": server.key}
    local = Local(server, session, 8000, **remote)
    assert local.get("/hello.txt") == (200, b"hello\n")
    assert local.end()[0] == 0


def test_what_a_local_port_cannot_do_is_said(server, session):
    local = Local(server, session, 4321)
    with local.connect() as peer:
        assert peer.recv(1) == b"", "it is closed"
    status, said = local.end()
    assert status == 0 and "no server listens on port 4321" in said, said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = server.bailey("port", "-s", session, "3000", "--local", port)
        assert refused.status != 0 and f"port {port} of this machine" in refused.stderr
    for words in (["3000"], ["-s", session, "x"], ["-s", session, "70000"], ["-s", session, "--local", "1"]):
        assert server.bailey("port", *words).status != 0, words


def test_the_same_over_tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    files = tcp.certificate(folder, "localhost")
    with tcp.Server(tls=files) as own:
        made = new_session(own)
        own.write(made, "/workspace/guest_server.py", SERVER.encode())
        listen(own, made, "python3 /workspace/guest_server.py 3000")
        size = 3_000_000
        wanted = (bytes(range(256)) * (size // 256 + 1))[:size]
        assert asked(own, made, f"big?{size}").body == wanted
        sock = own.context.wrap_socket(socket.create_connection(("127.0.0.1", own.port)), server_hostname="localhost")
        ws = wsclient.WebSocket(sock, path_of(made, 3000, "ws"), {"X-API-Key": own.key, "Host": f"localhost:{own.port}"})
        for data in (b"hello", os.urandom(70_000)):
            ws.send(data)
            assert ws.receive() == data
        ws.close()
        local = Local(own, made, 3000, BAILEY_URL=f"https://localhost:{own.port}", BAILEY_API_KEY=own.key,
                      BAILEY_CA_FILE=str(files[0]))
        assert local.get(f"/big?{size}") == (200, wanted)
        assert local.end()[0] == 0
