"""A TLS listener and clients that do not want to talk TLS properly: nobody else notices, and nothing old is spoken."""
import os
import re
import resource
import socket
import subprocess

import pytest

import serve
import support
import tcp

HELLO = bytes.fromhex("16030100050100000100")  # the head of a record, and less of it than it says


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    with tcp.Server(tls=tcp.certificate(folder, "localhost")) as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def _goes_on(server):
    before = server.get("/v1/info")["broker_pid"]
    yield
    assert server.tcp("GET", "/v1/info").status == 200
    assert server.get("/v1/info")["broker_pid"] == before


def openssl(server, *options, stdin=b""):
    return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", *options], input=stdin,
                          capture_output=True, timeout=support.PATIENCE)


@pytest.mark.parametrize("options", [["-tls1"], ["-tls1_1"], ["-tls1_2", "-cipher", "aNULL:eNULL@SECLEVEL=0"],
                                     ["-tls1_2", "-cipher", "RC4:3DES:DES:EXPORT@SECLEVEL=0"]])
def test_nothing_old_is_spoken(server, options):
    done = openssl(server, *options)
    assert done.returncode != 0 or b"Cipher is (NONE)" in done.stdout or b"no cipher match" in done.stderr, done


@pytest.mark.parametrize("options, version", [(["-tls1_2"], b"TLSv1.2"), (["-tls1_3"], b"TLSv1.3")])
def test_what_is_spoken(server, options, version):
    done = openssl(server, *options)
    assert version in done.stdout and b"Compression: NONE" in done.stdout, done


def test_a_client_does_not_renegotiate(server):
    """Each would cost the server a handshake, and the client a byte."""
    asks = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2"],
                            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    asks.stdin.write(b"R\n")
    asks.stdin.flush()  # and stays open: its end would be the client's own
    try:
        asks.wait(support.PATIENCE)  # the server has ended it
        assert b"RENEGOTIATING" in asks.stderr.read()
    finally:
        asks.kill()
        asks.communicate()


@pytest.mark.attack(68)
@pytest.mark.parametrize("data", [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", os.urandom(4096), b"\x16" * 70000,
                                  b"\x16\x03\x01\xff\xff" + b"\0" * 66000, b"\x80\x2e\x01\x00\x02" * 100],
                         ids=["http", "noise", "same", "longest", "sslv2"])
def test_what_is_no_tls(server, data):
    """Is answered by the end of the connection, and nothing of HTTP."""
    got = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=support.PATIENCE) as peer:
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            while piece := peer.recv(65536):
                got += piece
        except (ConnectionResetError, BrokenPipeError, OSError):
            pass
    assert b"HTTP/1.1 200" not in got and b"healthz" not in got, got[:200]


def connections(server):
    return int(re.search(r"^bailey_http_connections (\d+)$", server.call("GET", "/metrics").body.decode(), re.M)[1])


@pytest.mark.attack(84)
@pytest.mark.parametrize("data", [b"", HELLO], ids=["silent", "half a hello"])
def test_a_flood_before_the_handshake_locks_nobody_out(server, data):
    """More connections than the server has; none of them ever gets to its key."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    held = []
    try:
        for _ in range(4200):
            peer = socket.socket()
            held.append(peer)
            peer.settimeout(support.PATIENCE)
            peer.connect(("127.0.0.1", server.port))
            try:
                peer.sendall(data)
            except OSError:
                pass  # it was closed for a newer one already
        assert server.tcp("GET", "/v1/info").status == 200
        serve.polled(lambda: connections(server), lambda count: count < 600, "the oldest are closed")
    finally:
        for peer in held:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    serve.polled(lambda: connections(server), lambda count: count < 20, "the flood is over")
