"""The socket over which an upgrade is asked for: who may, and what else is sent there changes nothing.

What it takes is executed with the launcher's rights, so it is the one door that hands over programs.
"""
import os
import socket

import pytest

import serve
import support


@pytest.fixture(scope="module")
def daemon():
    with serve.Daemon() as running:
        yield running


def place(daemon):
    found = [path for path in daemon.state.parent.rglob("*upgrade*") if path.is_socket()]
    assert len(found) == 1, found
    return found[0]


def said(_daemon, *packets, user=None):
    """What comes back after these (bytes, descriptors) were sent."""
    pid_read, pid_write = os.pipe()
    pid = os.fork()
    if pid == 0:  # a process of its own: its id is the socket's peer
        text = b""
        try:
            if user is not None:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                peer.settimeout(support.PATIENCE)
                peer.connect(str(place_of))
                for data, fds in packets:
                    socket.send_fds(peer, [data], fds) if fds else peer.send(data)
                text = peer.recv(200)
        except OSError as problem:
            text = type(problem).__name__.encode()
        finally:
            os.write(pid_write, text or b"closed")
            os._exit(0)
    os.close(pid_write)
    with os.fdopen(pid_read, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


place_of = None


@pytest.fixture(autouse=True)
def _nothing_changed(daemon):
    global place_of
    place_of = place(daemon)
    before = daemon.get("/v1/info")
    yield
    after = daemon.get("/v1/info")
    for member in ("version", "launcher_pid", "broker_pid", "generation"):
        assert after[member] == before[member], member


def test_others_do_not_reach_it(daemon):
    folder, status = place_of.parent, os.stat(place_of)
    assert status.st_mode & 0o077 == 0 and os.stat(folder).st_mode & 0o077 == 0
    assert said(daemon, (b"\1", []), user=support.ORDINARY_UID) in (b"PermissionError", b"FileNotFoundError")


def test_others_are_refused_where_the_folder_is_open(daemon):
    """The peer's id is checked, whatever the modes are."""
    opened = [place_of, *[path for path in place_of.parents if os.stat(path).st_mode & 0o011 != 0o011]]
    before = {path: os.stat(path).st_mode & 0o7777 for path in opened}
    try:
        for path in opened:
            os.chmod(path, 0o777)
        with open("/bin/true", "rb") as program:
            answer = said(daemon, (b"u", [program.fileno()] * 2), user=support.ORDINARY_UID)
        assert b"only the user who started" in answer or answer in (b"ConnectionResetError", b"BrokenPipeError"), answer
    finally:
        for path, mode in before.items():
            os.chmod(path, mode)


OTHERS = [byte for byte in range(0, 256, 15) if byte != ord("u")] + [ord(c) for c in "gspUkrfn"]


@pytest.mark.parametrize("first", OTHERS)
def test_other_words(daemon, first):
    """Also the words that supervisor and launcher use between them: the connection is closed without an answer."""
    with open("/bin/true", "rb") as program:
        fd = program.fileno()
        for data, fds in ((bytes([first]), []), (bytes([first]), [fd, fd]), (bytes([first]) * 4000, [fd])):
            assert said(daemon, (data, fds)) in (b"closed", b"ConnectionResetError"), (data[:1], len(fds))


def memfd(data=b""):
    fd = os.memfd_create("program", os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    return fd


def not_programs():
    true = open("/bin/true", "rb").read()
    return {"none": [], "one": [memfd(true)], "unsealed": [memfd(true), memfd(true)],
            "files": [os.open("/bin/true", os.O_RDONLY)] * 2, "folders": [os.open("/", os.O_RDONLY)] * 2,
            "devices": [os.open("/dev/zero", os.O_RDONLY)] * 2, "pipes": list(os.pipe()),
            "scripts": [memfd(b"#!/bin/sh\ntouch /tmp/upgraded\n"), memfd(true)],
            "paths": [os.open("/bin/true", os.O_PATH)] * 2, "many": [memfd(true) for _ in range(3)]}


@pytest.mark.parametrize("kind", ["none", "one", "unsealed", "files", "folders", "devices", "pipes", "scripts", "paths",
                                  "many"])
def test_what_is_no_sealed_program(daemon, kind):
    """It is refused in words or by closing; nothing is executed that its sender could still change."""
    answer = said(daemon, (b"u", not_programs()[kind]))
    assert answer[:1] == b"k" or answer in (b"closed", b"ConnectionResetError"), answer
    assert not os.path.exists("/tmp/upgraded")


def test_a_silent_client_makes_room(daemon):
    """One that says nothing keeps nobody from asking."""
    held = []
    for _ in range(20):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.connect(str(place_of))
        held.append(peer)
    done = daemon.bailey("upgrade", "--program", "/bin/true")
    assert done.status == 125 and done.stderr, done
    for peer in held:
        peer.close()
