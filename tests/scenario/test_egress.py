"""test_egress.py - the egress proxy as a caller sees it: tunnels, requests, SOCKS, an upstream proxy."""
import base64
import hashlib
import http.server
import os
import socket
import ssl
import struct
import threading

import pytest

from egress import Proxy, echo, entry, read_all, read_head, server


def test_a_tunnel_relays_every_byte():
    data = os.urandom(8 * 1024 * 1024)
    with server(echo) as there, Proxy([entry("127.0.0.1", there.port)]) as proxy:
        tunnel = proxy.tunnel("127.0.0.1", there.port)
        sender = threading.Thread(target=lambda: (tunnel.sendall(data),
                                                  tunnel.shutdown(socket.SHUT_WR)))
        sender.start()
        came = read_all(tunnel)
        sender.join()
        assert hashlib.sha256(came).digest() == hashlib.sha256(data).digest()
        assert proxy.verdict() == (7, True, "127.0.0.1", there.port, "listed")


def test_half_close_in_either_order():
    def counts(connection):
        total = 0
        while data := connection.recv(65536):
            total += len(data)
        connection.sendall(b"%d" % total)

    def speaks_first(connection):
        connection.sendall(b"all of it")
        connection.shutdown(socket.SHUT_WR)
        heard.append(read_all(connection))
        done.set()

    heard, done = [], threading.Event()
    with server(counts) as one, server(speaks_first) as two, \
            Proxy([entry("127.0.0.1", one.port), entry("127.0.0.1", two.port)]) as proxy:
        with proxy.tunnel("127.0.0.1", one.port) as tunnel:
            tunnel.sendall(b"x" * 1000)
            tunnel.shutdown(socket.SHUT_WR)
            assert read_all(tunnel) == b"1000"
        with proxy.tunnel("127.0.0.1", two.port) as tunnel:
            assert read_all(tunnel) == b"all of it"
            tunnel.sendall(b"and an answer")
            tunnel.shutdown(socket.SHUT_WR)
            assert done.wait(30)
        assert heard == [b"and an answer"]


def test_back_pressure_holds_a_flood():
    """A server that sends without end to a caller that does not read: little of it is taken."""
    sent, stopped = [0], threading.Event()

    def floods(connection):
        connection.settimeout(2)
        try:
            while sent[0] < 1 << 30:
                sent[0] += connection.send(b"x" * 65536)
        except TimeoutError:
            stopped.set()

    with server(floods) as there, Proxy([entry("127.0.0.1", there.port)]) as proxy:
        with proxy.tunnel("127.0.0.1", there.port) as tunnel:
            assert stopped.wait(60)
            assert sent[0] < 64 << 20  # what kernels buffer on both sides, and one read of ours
            assert len(tunnel.recv(65536)) > 0


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.heads.append((self.requestline, dict(self.headers.items())))
        length = int(self.headers.get("Content-Length", 0))
        body = b"%s %s" % (self.command.encode(), self.rfile.read(length))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def web():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as there:
        there.heads = []
        there.port = there.server_address[1]
        thread = threading.Thread(target=there.serve_forever, daemon=True)
        thread.start()
        yield there
        there.shutdown()
        thread.join()


def test_a_plain_request_is_written_anew(web):
    with Proxy([entry("127.0.0.1", web.port)]) as proxy:
        answer = proxy.ask(f"GET http://127.0.0.1:{web.port}/a?b=c HTTP/1.1\r\nHost: elsewhere\r\n"
                           "Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\nX-Kept: 2\r\n"
                           "Proxy-Authorization: Basic eA==\r\nUpgrade: websocket\r\n"
                           "Proxy-Connection: keep-alive\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"GET ")
        line, fields = web.heads[0]
        assert line == "GET /a?b=c HTTP/1.1"
        assert fields == {"Host": f"127.0.0.1:{web.port}", "Connection": "close", "X-Kept": "2"}


def test_a_body_passes_and_what_is_behind_it_does_not(web):
    with Proxy([entry("127.0.0.1", web.port)]) as proxy:
        answer = proxy.ask(f"POST http://127.0.0.1:{web.port}/ HTTP/1.1\r\nContent-Length: 5\r\n\r\n"
                           "helloGET http://127.0.0.1/second HTTP/1.1\r\n\r\n")
        assert answer.endswith(b"POST hello")
        assert len(web.heads) == 1


def test_socks_with_names_and_addresses():
    with server(echo) as there, Proxy([entry("localhost", there.port),
                                       entry("127.0.0.1", there.port)]) as proxy:
        for kind, host in ((b"\x03", b"\x0aLocalHost."), (b"\x01", socket.inet_aton("127.0.0.1"))):
            with proxy.connect() as caller:
                caller.sendall(b"\x05\x02\x00\x02")
                assert caller.recv(2) == b"\x05\x00"
                caller.sendall(b"\x05\x01\x00" + kind + host + struct.pack(">H", there.port))
                assert caller.recv(10)[:2] == b"\x05\x00"
                caller.sendall(b"hello")
                assert caller.recv(5) == b"hello"


def test_names_with_several_addresses_are_tried_in_turn():
    with server(echo) as there:
        entries = [entry("two.test", there.port), entry("127.0.0.3"), entry("127.0.0.1")]
        with Proxy(entries, hosts={"two.test": "127.0.0.3 127.0.0.1"}) as proxy:
            with proxy.tunnel("two.test", there.port) as tunnel:
                tunnel.sendall(b"x")
                assert tunnel.recv(1) == b"x"


def test_nobody_there_is_said():
    with Proxy([entry("127.0.0.1"), entry("no-such-name.test")]) as proxy:
        assert "502 Bad Gateway" in proxy.tunnel("127.0.0.1", 1)
        assert "could not be reached" in proxy.tunnel("no-such-name.test", 80)


def upstream_proxy(heads, then):
    def handle(connection):
        heads.append(read_head(connection).decode())
        then(connection)
    return handle


def tunnels(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n")
    echo(connection)


def test_an_upstream_proxy_is_asked_by_name():
    heads = []
    secret = "Basic " + base64.b64encode(b"me:secret").decode()
    with server(upstream_proxy(heads, tunnels)) as there:
        upstream = {"host": "127.0.0.1", "port": there.port, "authorization": secret}
        with Proxy([entry("only.upstream.knows", 8443)], upstream=upstream) as proxy:
            with proxy.tunnel("only.upstream.knows", 8443) as tunnel:
                tunnel.sendall(b"hello")
                assert tunnel.recv(5) == b"hello"
            assert "403" in proxy.tunnel("not.listed", 8443)
            assert "secret" not in proxy.logged() and secret not in proxy.logged()
    assert heads == [f"CONNECT only.upstream.knows:8443 HTTP/1.1\r\nHost: only.upstream.knows:8443"
                     f"\r\nProxy-Authorization: {secret}\r\n\r\n"]


def test_an_upstream_proxy_gets_plain_requests_whole():
    heads = []

    def answers(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with server(upstream_proxy(heads, answers)) as there:
        with Proxy([entry("a.test", 80)], upstream={"host": "localhost", "port": there.port}) as proxy:
            assert proxy.ask("GET http://a.test/x HTTP/1.1\r\n\r\n").endswith(b"ok")
    assert heads == ["GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"]


def test_an_upstream_proxy_that_refuses_is_told():
    def refuses(connection):
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    with server(upstream_proxy([], refuses)) as there:
        with Proxy([entry("a.test")], upstream={"host": "127.0.0.1", "port": there.port}) as proxy:
            assert "the upstream proxy answered 407" in proxy.tunnel("a.test", 443)


def test_a_direct_entry_passes_the_upstream_by():
    with server(echo) as there:
        upstream = {"host": "127.0.0.1", "port": 1}
        with Proxy([entry("127.0.0.1", there.port, direct=True)], upstream=upstream) as proxy:
            with proxy.tunnel("127.0.0.1", there.port) as tunnel:
                tunnel.sendall(b"x")
                assert tunnel.recv(1) == b"x"


def client_hello(name):
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_tls_for_the_host_that_was_asked_for():
    hello = client_hello("index.test")
    with server(echo) as there:
        entries = [entry("index.test", there.port, tls=True), entry("127.0.0.1", there.port)]
        with Proxy(entries, hosts={"index.test": "127.0.0.1"}) as proxy:
            with proxy.tunnel("index.test", there.port) as tunnel:
                for at in range(len(hello)):  # however it is cut
                    tunnel.sendall(hello[at:at + 1])
                came = b""
                while len(came) < len(hello):
                    came += tunnel.recv(65536)
                assert came == hello


def test_callers_without_a_descriptor_wait_for_their_turn():
    """Of either box: the proxy neither turns without end nor forgets who waits."""
    with Proxy([entry("a.test")], descriptors=106) as proxy:  # for five callers
        proxy.add(8)
        silent = [proxy.connect(number) for _ in range(55) for number in (7, 8)]
        callers = [proxy.connect(number) for number in (7, 8, 7, 8)]
        for caller in callers:
            caller.sendall(b"GET http://b.test/x HTTP/1.1\r\n\r\n")
        for caller in silent:
            caller.close()
        for caller in callers:
            assert read_all(caller).startswith(b"HTTP/1.1 403 ")
            caller.close()
        assert "too many open files" not in proxy.logged()


def test_boxes_come_and_go():
    with server(echo) as there, Proxy([entry("127.0.0.1", there.port)]) as proxy:
        proxy.add(8)
        one, two = (proxy.tunnel("127.0.0.1", there.port, number) for number in (7, 8))
        proxy.remove(7)
        assert read_all(one) == b""
        one.close()
        with pytest.raises(OSError):
            proxy.connect(7).recv(1)
            raise ConnectionError("a connection that was made and ended at once")
        two.sendall(b"x")
        assert two.recv(1) == b"x"
        two.close()
