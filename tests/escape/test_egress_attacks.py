"""test_egress_attacks.py - what a box may try against the egress proxy: attacks 46 to 52 and 56."""
import os
import ssl
import struct
import threading

import pytest

from egress import PATIENCE, Proxy, echo, entry, read_all, server

# One address, as some program somewhere would write it.
LOOPBACKS = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.1.",
             "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]"]
PLACES = ["0.0.0.0", "0", "[::]", "255.255.255.255", "224.0.0.1", "[ff02::1]", "169.254.169.254",
          "0xa9fea9fe", "[fd00:ec2::254]", "[fe80::1]", "10.0.0.1", "192.168.1.1",
          "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]", "8.8.8.8"]


@pytest.fixture
def canary():
    """A server that nobody may reach."""
    with server(echo) as there:
        yield there
        assert there.count == 0


@pytest.mark.parametrize("host", LOOPBACKS + PLACES)
def test_46_47_addresses_in_every_notation(host, canary):
    with Proxy([entry("pypi.org", 443)]) as proxy:
        assert "403 Forbidden" in proxy.tunnel(host, canary.port)
        _, allowed, said, port, reason = proxy.verdict()
        assert (allowed, port, reason) == (False, canary.port, "not_listed")
        if host in LOOPBACKS:
            assert said in ("127.0.0.1", "::1")
        assert f"refused {said}:{canary.port} (not_listed)" in proxy.logged()


def test_46_a_listed_address_is_one_however_it_is_written():
    with server(echo) as there, Proxy([entry("127.0.0.1", there.port)]) as proxy:
        for host in ("127.1", "0x7f000001", "[::ffff:127.0.0.1]"):
            with proxy.tunnel(host, there.port) as tunnel:
                tunnel.sendall(b"x")
                assert tunnel.recv(1) == b"x"


@pytest.mark.parametrize("address, reason", [
    ("127.0.0.1", "loopback_address"), ("::1", "loopback_address"), ("10.9.8.7", "private_address"),
    ("100.64.0.1", "private_address"), ("fd12::1", "private_address"),
    ("169.254.169.254", "metadata_address"), ("169.254.1.1", "link_local_address"),
    ("0.0.0.0", "reserved_address"), ("224.0.0.1", "multicast_address")])
def test_49_a_listed_name_that_stands_for_such_a_place(address, reason, canary):
    with Proxy([entry("index.test")], hosts={"index.test": address}) as proxy:
        answer = proxy.tunnel("index.test", canary.port)
        assert "403" in answer and "SANDBOX_INDEX_HOSTS" in answer
        assert proxy.verdict() == (7, False, "index.test", canary.port, reason)


def test_49_one_bad_address_among_good_ones_is_enough(canary):
    entries = [entry("index.test"), entry("127.0.0.2")]
    with Proxy(entries, hosts={"index.test": "127.0.0.2 127.0.0.1"}) as proxy:
        assert "403" in proxy.tunnel("index.test", canary.port)


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254"])
def test_49_private_does_not_mean_loopback_or_metadata(address, canary):
    entries = [entry("index.test", private=True)]
    with Proxy(entries, hosts={"index.test": address}) as proxy:
        assert "403" in proxy.tunnel("index.test", canary.port)


def test_48_names_that_are_not_listed():
    with Proxy([entry("pypi.org", 443), entry("*.listed.test", 443)]) as proxy:
        for name in ("secret.tunnel.test", "listed.test", "a" * 63 + ".test", "pypi.org.test",
                     "xpypi.org", "xlisted.test"):
            assert "403" in proxy.tunnel(name, 443)
            assert proxy.verdict()[1:] == (False, name, 443, "not_listed")
        for port in (53, 853, 80):
            assert "403" in proxy.tunnel("pypi.org", port)
            assert proxy.verdict()[1:] == (False, "pypi.org", port, "port_not_listed")


def test_48_a_name_that_is_not_listed_is_not_resolved():
    """Resolving needs threads, which libuv starts with the first name; none was."""
    with Proxy([entry("listed.test")], hosts={"listed.test": "127.0.0.1"}) as proxy:
        assert "403" in proxy.tunnel("not-listed.test", 443)
        assert len(os.listdir(f"/proc/{proxy.process.pid}/task")) == 1
        assert "403" in proxy.tunnel("listed.test", 443)
        assert len(os.listdir(f"/proc/{proxy.process.pid}/task")) > 1


@pytest.mark.parametrize("target", [
    "user@pypi.org:443", "pypi.org@evil.test:443", "pypi.org\x00.evil.test:443", "pypi.org%00:443",
    "pypi.org:443:80", "pypi..org:443", ".pypi.org:443", "pypi.org", "pypi.org:", "pypi.org:0",
    "pypi.org:65536", "pypi.org:+443", "pypi.org:0x1bb", "-pypi.org:443", "[::1%25lo]:443",
    "[pypi.org]:443", "pypi.org\t:443", "pyp\u0131.org:443", "1.2.3.4.5:443", "256.1.1.1:443",
    "0x100000000:443", "a" * 64 + ".org:443", "/:443", "*.pypi.org:443", "*:443"])
def test_50_hosts_that_cannot_be_read(target):
    with Proxy([entry("pypi.org", 443)]) as proxy:
        answer = proxy.ask(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert proxy.verdict() == (7, False, "-", 0, "bad_request")


def test_50_socks_names_have_the_same_parser(canary):
    with Proxy([entry("localhost")]) as proxy:
        for name in (b"localhost\x00.evil.test", b"user@localhost", b"evil.test", b"127.0.0.1",
                     b"0x7f.1", b"local host", b""):
            with proxy.connect() as caller:
                caller.sendall(b"\x05\x01\x00\x05\x01\x00\x03" + bytes([len(name)]) + name +
                               struct.pack(">H", canary.port))
                assert read_all(caller)[2:4] == b"\x05\x02", name


def test_50_upper_case_and_a_last_dot_are_the_same_name():
    with server(echo) as there, Proxy([entry("localhost", there.port)]) as proxy:
        for name in ("LOCALHOST", "localhost.", "LocalHost."):
            with proxy.tunnel(name, there.port) as tunnel:
                tunnel.sendall(b"x")
                assert tunnel.recv(1) == b"x"


def hello_of(name, length=None):
    context = ssl.create_default_context()
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()[:length]


@pytest.mark.parametrize("data, reason", [
    (lambda: hello_of("other.test"), "wrong_sni"), (lambda: hello_of(None), "no_sni"),
    (lambda: b"SSH-2.0-x\r\n", "not_tls"), (lambda: b"CONNECT evil.test:443 HTTP/1.1\r\n", "not_tls"),
    (lambda: b"\x16\x03\x01\x40\x00" * 5000, "not_tls"),
    (lambda: hello_of("index.test").replace(b"\x00\x2b", b"\xfe\x0d", 1), "hidden_sni")])
def test_50_a_tunnel_for_another_name_carries_nothing(data, reason):
    heard = []

    def listens(connection):
        heard.append(read_all(connection))

    with server(listens) as there:
        entries = [entry("index.test", there.port, tls=True), entry("127.0.0.1", there.port)]
        with Proxy(entries, hosts={"index.test": "127.0.0.1"}) as proxy:
            with proxy.tunnel("index.test", there.port) as tunnel:
                proxy.verdict()
                try:
                    tunnel.sendall(data())
                except OSError:
                    pass
                assert proxy.verdict() == (7, False, "index.test", there.port, reason)
                assert read_all(tunnel) == b""
    assert b"".join(heard) == b""


BAD_HEADS = {
    "both lengths": "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "chunked": "Transfer-Encoding: chunked\r\n",
    "odd chunked": "Transfer-Encoding : xchunked\r\n",
    "two lengths": "Content-Length: 5\r\nContent-Length: 6\r\n",
    "the same length twice": "Content-Length: 5\r\nContent-Length: 5\r\n",
    "a list of lengths": "Content-Length: 5, 5\r\n",
    "signed": "Content-Length: +5\r\n",
    "negative": "Content-Length: -5\r\n",
    "huge": "Content-Length: 99999999999999999999\r\n",
    "folded": "X: a\r\n b\r\n",
    "bare newline": "X: a\nTransfer-Encoding: chunked\r\n",
    "bare return": "X: a\rY: b\r\n",
    "blank before the colon": "Content-Length : 5\r\n",
    "no colon": "nonsense\r\n",
    "no name": ": x\r\n",
    "NUL": "X: a\x00b\r\n",
    "two hosts": "Host: a\r\nHost: b\r\n",
    "a hundred and one": "X: y\r\n" * 101,
    "too large": "X: " + "y" * 20000 + "\r\n",
}


@pytest.mark.parametrize("what", BAD_HEADS)
def test_51_heads_that_two_readers_might_read_differently(what, canary):
    with Proxy([entry("127.0.0.1", canary.port)]) as proxy:
        answer = proxy.ask(f"POST http://127.0.0.1:{canary.port}/ HTTP/1.1\r\n{BAD_HEADS[what]}\r\n")
        assert answer[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 5")


@pytest.mark.parametrize("line", [
    "GET / HTTP/1.1", "GET https://127.0.0.1/ HTTP/1.1", "GET ftp://127.0.0.1/ HTTP/1.1",
    "GET http://127.0.0.1/ HTTP/2.0", "GET http://127.0.0.1/ HTTP/1.1 x", "GET  / HTTP/1.1",
    "GET http://a@127.0.0.1/ HTTP/1.1", "GET http:// HTTP/1.1", "OPTIONS * HTTP/1.1",
    "PRI * HTTP/2.0", "G\xe4T http://127.0.0.1/ HTTP/1.1", "GET http://127.0.0.1/#f HTTP/1.1", ""])
def test_51_request_lines(line):
    with Proxy([entry("127.0.0.1")]) as proxy:
        assert proxy.ask((line + "\r\n\r\n").encode("latin-1")).startswith(b"HTTP/1.1 400 ")


def test_52_socks_knows_no_udp_and_no_bind(canary):
    with Proxy([entry("127.0.0.1")]) as proxy:
        for command in (b"\x02", b"\x03"):
            with proxy.connect() as caller:
                caller.sendall(b"\x05\x01\x00\x05" + command + b"\x00\x01\x7f\x00\x00\x01" +
                               struct.pack(">H", canary.port))
                assert read_all(caller)[2:4] == b"\x05\x07"


def test_56_a_box_has_so_many_connections_and_others_are_unharmed():
    """64 slow ones fill one box's places; another box is served, and a place that is left is used."""
    with server(echo) as there, Proxy([entry("127.0.0.1", there.port)]) as proxy:
        proxy.add(8)
        slow = [proxy.connect() for _ in range(200)]
        for caller in slow:
            caller.sendall(b"GET http://")
        with proxy.tunnel("127.0.0.1", there.port, 8) as tunnel:
            tunnel.sendall(b"x")
            assert tunnel.recv(1) == b"x"
        assert descriptors(proxy) < 64 + 40
        for caller in slow:
            caller.close()
        with proxy.tunnel("127.0.0.1", there.port) as tunnel:
            tunnel.sendall(b"x")
            assert tunnel.recv(1) == b"x"


def descriptors(proxy):
    """Of the proxy itself, which is what unshare and bash have become."""
    return len(os.listdir(f"/proc/{proxy.process.pid}/fd"))


def test_56_slow_heads_are_ended_and_bytes_buy_no_time():
    with Proxy([entry("127.0.0.1")], patience={"head": 300}) as proxy:
        with proxy.connect() as caller:
            stop = threading.Event()

            def drip():
                try:
                    while not stop.wait(0.05):
                        caller.sendall(b"x")
                except OSError:
                    pass

            caller.sendall(b"GET http://127.0.0.1/")
            thread = threading.Thread(target=drip)
            thread.start()
            assert read_all(caller).startswith(b"HTTP/1.1 408 ")
            stop.set()
            thread.join()


def test_56_idle_tunnels_are_ended():
    with server(echo) as there:
        with Proxy([entry("127.0.0.1")], patience={"idle": 300}) as proxy:
            with proxy.tunnel("127.0.0.1", there.port) as tunnel:
                assert read_all(tunnel) == b""


def test_56_verdicts_are_told_up_to_a_number():
    with Proxy([]) as proxy:
        for _ in range(300):
            assert "403" in proxy.tunnel("x.test", 1)
        told = [proxy.verdict() for _ in range(257)]
        assert {v[4] for v in told[:256]} == {"not_listed"} and told[256][4] == "too_many_to_tell"
        proxy.add(8)
        assert "403" in proxy.tunnel("x.test", 1, 8)
        assert proxy.verdict()[0] == 8


def test_the_launcher_is_trusted_with_little():
    """Nonsense on the control socket ends the proxy: there is nobody else who could send it."""
    with Proxy([], with_box=False) as proxy:
        proxy.control.send(b"nonsense")
        assert proxy.process.wait(PATIENCE) == 0
