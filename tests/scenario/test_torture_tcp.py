"""Requests and frames that are no good, over TCP: refused, their connection closed, and nobody else
notices."""
import http.client
import json
import re
import resource
import socket
import struct

import pytest

import serve
import support
import wsclient
from test_server_tcp import Server
from wsclient import BINARY, CLOSE, CONTINUED, FIN, PING, TEXT

SECOND = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def server():
    with Server() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def hasty(server):
    """One that waits for nobody long; its own socket is as patient as ever. Ends before the other, which
    looks for what is left."""
    with Server({"SANDBOX_HEAD_TIME": "1s", "SANDBOX_BODY_TIME": "1s"}) as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def _goes_on(server):
    """Whatever was said: the next one is served, and the broker is the one that it was."""
    before = server.get("/v1/info")["broker_pid"]
    yield
    assert server.tcp("GET", "/healthz", key=False).status == 200
    assert server.get("/v1/info")["broker_pid"] == before


def say(server, *pieces):
    """What comes back up to the end of the connection, which the server has to make. What it closes
    with unread bytes may be reset, and take its last words with it."""
    got = b""
    with socket.create_connection(server.address(), timeout=support.PATIENCE) as peer:
        try:
            for piece in pieces:
                peer.sendall(piece)
            while piece := peer.recv(65536):
                got += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
    return got


def head(server, *lines, request=b"POST /v1/run HTTP/1.1", host=b"Host: localhost"):
    key = b"Authorization: Bearer " + server.key.encode()
    return b"\r\n".join([request, *([host] if host else []), key, *lines]) + b"\r\n\r\n"


def is_refused(got, *statuses):
    """By one of these, and nothing behind it was read as a request. (Who answers, and how often:
    test_http_library.py.)"""
    if got:
        assert int(got.split()[1]) in (statuses or (400,)), got[:300]
    assert b"HTTP/1.1 200 " not in got, got
    return True


# ---- what two servers in a row could read differently

@pytest.mark.parametrize("lines", [
    [b"Content-Length: 4", b"Transfer-Encoding: chunked"],
    [b"Transfer-Encoding: chunked", b"Content-Length: 4"],
    [b"Content-Length: 4", b"Content-Length: 4"],
    [b"Content-Length: 4", b"Content-Length: 5"],
    [b"Content-Length: 4, 4"],
    [b"Content-Length: +4"],
    [b"Content-Length: -1"],
    [b"Content-Length: 0x4"],
    [b"Content-Length: 99999999999999999999"],
    [b"Transfer-Encoding: gzip"],
    [b"Transfer-Encoding: gzip, chunked"],
    [b"Transfer-Encoding: chunked, identity"],
    [b"Transfer-Encoding: xchunked"],
    [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
    [b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"],
    [b"Host: evil.example"],
    [b"Content-Length : 4"],
    [b"X\x01Y: 4"],
], ids=lambda lines: " | ".join(line.decode() for line in lines))
def test_what_can_be_read_in_two_ways(server, lines):
    got = say(server, head(server, *lines) + b"0\r\n\r\n" + SECOND)
    assert got and is_refused(got, 400, 413), got


@pytest.mark.parametrize("host", [None, b"Host: a b", b"Host: localhost/x", b"Host: a,b"])
def test_a_host_that_is_none(server, host):
    got = say(server, head(server, host=host, request=b"GET /v1/info HTTP/1.1") + SECOND)
    assert got and is_refused(got), got


def test_old_ones_know_no_chunks(server):
    got = say(server, head(server, b"Transfer-Encoding: chunked", request=b"POST /v1/run HTTP/1.0") +
              b"0\r\n\r\n" + SECOND)
    assert got and is_refused(got), got


# ---- heads

@pytest.mark.parametrize("lines", [
    [b"X: " + b"x" * 70_000], [b"X: " + b"x" * 1_000_000], [b"X: y"] * 20_000, [b"x" * 100_000 + b": y"],
], ids=["large", "huge", "many", "name"])
def test_heads_that_are_too_large(server, lines):
    is_refused(say(server, head(server, *lines, request=b"GET /v1/info HTTP/1.1") + SECOND), 431)


def test_a_head_that_never_ends(server):
    def lines():
        yield b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n"
        for number in range(100_000):
            yield b"X-%d: " % number + b"x" * 1000 + b"\r\n"
    is_refused(say(server, *lines()), 431)


def test_a_target_that_is_too_long(server):
    got = say(server, head(server, b"Connection: close", request=b"GET /" + b"x" * 9000 + b" HTTP/1.1"))
    assert got and is_refused(got, 414), got


@pytest.mark.parametrize("line", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n",
                                  b"GET /v1/info HTTP/9.9\r\nHost: localhost\r\n\r\n",
                                  b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0" * 1000 + b"\r\n\r\n"])
def test_what_is_no_request(hasty, line):
    assert b"HTTP/1.1 200 " not in say(hasty, line + b"\r\n\r\n")


# ---- chunks

RUN = b'{"code": "print(1)"}'


def chunks(server, data, *more):
    return head(server, b"Content-Type: application/json", b"Transfer-Encoding: chunked", *more) + data


@pytest.mark.parametrize("data", [
    b"zz\r\nabc\r\n", b"-1\r\nabc\r\n", b"\r\nabc\r\n", b"0x5\r\nhello\r\n", b"5 5\r\nhello\r\n",
    b"ffffffffffffffffff\r\nabc\r\n", b"3\r\nabcdef\r\n", b"3\r\nab\r\n\r\n", b"5;" + b"x" * 600_000,
    b"0\r\n" + b"X: y\r\n" * 100_000, b"0" * 600_000,
], ids=["no number", "negative", "empty", "0x", "two", "too large", "too short", "too long", "extension",
        "trailers", "zeros"])
def test_chunks_that_are_no_good(server, data):
    is_refused(say(server, chunks(server, data) + b"0\r\n\r\n" + SECOND), 400, 413, 431)


def test_trailers_mean_nothing(server):
    """Extensions: test_http_library.py."""
    body = b"%x\r\n%s\r\n" % (len(RUN), RUN)
    got = say(server, chunks(server, body + b"0\r\nX-Trailer: y\r\nHost: evil.example\r\n\r\n"),
              b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert got.count(b"HTTP/1.1 200 ") == 2 and b'"1\\n"' in got, got


def test_a_key_in_a_trailer_is_none(server):
    key = b"Authorization: Bearer " + server.key.encode()
    got = say(server, b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
              b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (len(RUN), RUN, key))
    assert got.startswith(b"HTTP/1.1 401 "), got


PIECE = b"10000\r\n" + b" " * 65536 + b"\r\n"


@pytest.mark.parametrize("path, limit", [(b"/v1/run", 16 << 20), (b"/execute", 10 << 20), (b"/mcp", 17 << 20),
                                         (b"/v1/nothing", 64 << 10)], ids=lambda value: str(value))
def test_more_chunks_than_are_taken(server, path, limit):
    """Answered as its door does where it is too long, and the connection ended: it has no end of its own."""
    got = say(server, head(server, b"Content-Type: application/json", b"Transfer-Encoding: chunked",
                           b"Accept: application/json, text/event-stream",
                           request=b"POST " + path + b" HTTP/1.1"), *[PIECE] * (limit // 65536), b"9\r\n ")
    assert got and is_refused(got, 413), got[:300]
    start, _, body = got.partition(b"\r\n\r\n")
    assert b"Connection: close" in start and f"Content-Length: {len(body)}".encode() in start, got
    error = json.loads(body)["error"]
    assert (error["code"] == -32600) if path == b"/mcp" else ("too_large" in body.decode()), error


def test_chunks_without_end(server):
    """Who goes on sending behind that is cut off soon."""
    with socket.create_connection(server.address(), timeout=support.PATIENCE) as peer:
        peer.sendall(head(server, b"Content-Type: application/json", b"Transfer-Encoding: chunked",
                          request=b"POST /execute HTTP/1.1"))
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range((10 << 20) // 65536 + 1024):  # what fits into buffers on the way is less
                peer.sendall(PIECE)
        assert peer.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_strangers_body_is_not_taken(server):
    """Who is no good is told so by the head alone, and the connection ends: nobody waits for a body."""
    for path, key in ((b"/v1/run", b"bly_00.00"), (b"/execute", b"bly_00.00"), (b"/mcp", b"x")):
        got = say(server, b"POST %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n"
                  b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" % (path, key))
        assert got.startswith(b"HTTP/1.1 401 "), (path, got[:300])


# ---- those that take their time

def trickle(server, first, piece):
    """Sends a piece whenever the server has not ended the connection within a moment; how it ended."""
    with socket.create_connection(server.address(), timeout=support.PATIENCE) as peer:
        peer.sendall(first)
        peer.settimeout(0.05)
        got = b""
        while True:
            try:
                data = peer.recv(65536)
                if not data:
                    return got
                got += data
            except TimeoutError:
                try:
                    peer.sendall(piece)
                except (ConnectionResetError, BrokenPipeError):
                    return got
            except ConnectionResetError:
                return got


def test_a_head_that_trickles(hasty):
    got = trickle(hasty, b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n")
    assert b"HTTP/1.1 200 " not in got
    assert trickle(hasty, b"", b"\r\n") == b""  # nor lines before the first
    assert trickle(hasty, b"", b"") == b""  # nor silence


@pytest.mark.parametrize("length, piece", [(b"Content-Length: 100000", b" "),
                                           (b"Transfer-Encoding: chunked", b"1\r\n \r\n")])
def test_a_body_that_trickles(hasty, length, piece):
    got = trickle(hasty, head(hasty, b"Content-Type: application/json", length), piece)
    assert b"HTTP/1.1 200 " not in got


def test_many_that_trickle_keep_nobody_out(hasty):
    peers = [socket.create_connection(hasty.address(), timeout=support.PATIENCE) for _ in range(100)]
    for peer in peers:
        peer.sendall(b"GET /v1/info HTTP/1.1\r\nX: ")
    assert hasty.get("/v1/info")
    for peer in peers:
        try:
            assert b"HTTP/1.1 200 " not in peer.recv(65536)
        except ConnectionResetError:
            pass
        peer.close()


# ---- frames

def frame(first, data=b"", **rest):
    return lambda ws: ws.send_frame(first, data, **rest)


@pytest.mark.parametrize("codes, send", [
    ((1002,), frame(FIN | TEXT, b"{}", masked=False)),
    ((1002,), frame(FIN | TEXT | 0x40, b"{}")),
    ((1002,), frame(FIN | TEXT | 0x20, b"{}")),
    ((1002,), frame(FIN | TEXT | 0x10, b"{}")),
    ((1002,), frame(FIN | 3, b"x")),
    ((1002,), frame(FIN | 11, b"x")),
    ((1002,), frame(FIN | CONTINUED, b"x")),
    ((1002, 1005), frame(PING, b"x")),
    ((1002, 1005), frame(FIN | PING, b"x" * 126)),
    ((1002, 1005), frame(FIN | CLOSE, b"x")),
    ((1002, 1007), frame(FIN | CLOSE, struct.pack(">H", 1000) + b"\xff")),
    ((1003,), frame(FIN | BINARY, b"x")),
    ((1007,), frame(FIN | TEXT, b"\xed\xa0\x80")),
    ((1007,), frame(FIN | TEXT, b"\xc0\x80")),
    ((1009,), frame(FIN | TEXT, b"x", claim=1 << 40)),
    ((1002, 1005, 1009), frame(FIN | TEXT, b"x", claim=(1 << 64) - 1)),
    ((1002, 1005), lambda ws: ws.send_raw(b"\x81\xfe\x00\x05\0\0\0\0hello")),  # 5 needs no 16 bits
    ((1002, 1005), lambda ws: ws.send_raw(b"\x81\xff\0\0\0\0\0\0\0\x05\0\0\0\0hello")),
], ids=range(18))
def test_bad_frames(server, codes, send):
    ws = wsclient.connect_tcp(server.address(), "/v1/ws", headers={"X-API-Key": server.key})
    send(ws)
    with pytest.raises(wsclient.Closed) as closed:
        ws.receive()
    assert closed.value.code in codes
    with pytest.raises(wsclient.Closed):  # and then it is ended, once we have had our say
        ws.sock.shutdown(socket.SHUT_WR)
        ws._more()
    ws.vanish()


def test_a_message_that_begins_within_another(server):
    ws = wsclient.connect_tcp(server.address(), "/v1/ws", headers={"X-API-Key": server.key})
    ws.send_frame(TEXT, b'{"type":')
    ws.send_frame(FIN | TEXT, b'"ping"}')
    with pytest.raises(wsclient.Closed) as closed:
        ws.receive()
    assert closed.value.code == 1002
    ws.vanish()


def test_pieces_without_end(server):
    """A message in pieces has the same maximum as one that is whole."""
    ws = wsclient.connect_tcp(server.address(), "/v1/ws", headers={"X-API-Key": server.key})
    ws.send_frame(TEXT, b'"')
    with pytest.raises((wsclient.Closed, ConnectionResetError, BrokenPipeError)):
        for _ in range(1000):
            ws.send_frame(CONTINUED, b"x" * 65536)
        ws.receive()
    ws.vanish()


# ---- connections without a key

PARTIAL = {"nothing": b"", "half a head": b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
           "no body": b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
           "a wrong key": b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-API-Key: bly_none\r\n\r\n",
           "no key needed": SECOND}


@pytest.mark.attack(84)
@pytest.mark.parametrize("kind", PARTIAL)
def test_a_flood_without_a_key_locks_nobody_out(server, kind):
    """More connections than the server has, all of one address: clients with a key do not notice."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    kept, held = http.client.HTTPConnection(*server.address(), timeout=support.PATIENCE), []

    def ask(connection):
        connection.request("GET", "/v1/info", headers={"X-API-Key": server.key})
        reply = connection.getresponse()
        reply.read()
        return reply.status

    try:
        assert ask(kept) == 200
        for _ in range(4200):
            peer = socket.socket()
            held.append(peer)
            peer.settimeout(support.PATIENCE)
            peer.connect(server.address())
            try:
                peer.sendall(PARTIAL[kind])
            except OSError:
                pass  # it was closed for a newer one already
        assert ask(kept) == 200, "a connection with a key stays"
        assert server.tcp("GET", "/v1/info").status == 200, "a new one gets in, from the same address"
        with socket.create_connection(server.address(), support.PATIENCE,
                                      source_address=("127.0.0.2", 0)) as other:
            other.sendall(SECOND.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert b" 200 " in other.makefile("rb").readline(), "and one of another address"
        serve.polled(lambda: connections(server), lambda count: count < 600,
                     "one address has at most 512 connections without a key")
        assert ask(kept) == 200
    finally:
        kept.close()
        for peer in held:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    serve.polled(lambda: connections(server), lambda count: count < 20, "the flood is over")


def connections(server):
    text = server.call("GET", "/metrics").body.decode()
    return int(re.search(r"^bailey_http_connections (\d+)$", text, re.M)[1])
