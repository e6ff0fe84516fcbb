"""egress.py - the egress proxy alone: the real process, with the test at the launcher's end of its
socket, listening sockets on this host's loopback as boxes, threads as servers, and a private /etc/hosts.
"""
import contextlib
import fcntl
import json
import os
import socket
import struct
import subprocess
import threading

import support

ENGINE = support.BAILEY.with_name("bailey-engine")
ADD, REMOVE, VERDICT = 1, 2, 3
PATIENCE = 30.0  # seconds; reached only by what hangs


def entry(host, port=0, **more):
    return {"host": host, "port": port, **more}


def message(kind, number, policy=None):
    data = struct.pack("<BI", kind, number)
    return data if policy is None else data + bytes([policy])


class Proxy:
    """`bailey-engine egress` with one list, and by default one box (number 7)."""

    def __init__(self, entries, upstream=None, hosts=None, patience=None, with_box=True,
                 descriptors=1024):
        support.need_namespaces()
        self.room = support.Room()
        settings = {"policies": {"installer": entries}, "upstream": upstream}
        if patience:
            settings["patience_ms"] = patience
        self.log = open(self.room.path / "log", "w+")
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(PATIENCE)
        self.process = self._start(theirs, json.dumps(settings), hosts or {}, descriptors)
        theirs.close()
        self.boxes = {}
        if with_box:
            self.add(7)

    def _start(self, theirs, settings, hosts, descriptors):
        hosts_file = self.room.path / "hosts"
        hosts_file.write_text("127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, addresses in hosts.items()
            for address in addresses.split()))
        memory = os.memfd_create("settings")
        os.write(memory, settings.encode())
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (theirs.fileno(), memory)]
        # Descriptors by number: 3 the launcher's socket, 5 the settings. Only bash knows large ones.
        script = (f"mount --bind {hosts_file} /etc/hosts && ulimit -S -n {descriptors} && "
                  f"exec {ENGINE} egress 3<&{high[0]} 5<&{high[1]} {high[0]}<&- {high[1]}<&-")
        words = ["unshare", "-m"] if support.is_root() else ["unshare", "-rm"]
        process = subprocess.Popen(words + ["bash", "-c", script], stderr=self.log,
                                   pass_fds=high,
                                   env={"PATH": support.PATH})
        for fd in (memory, *high):
            os.close(fd)
        return process

    def add(self, number):
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.boxes[number] = listener.getsockname()
        socket.send_fds(self.control, [message(ADD, number, 0)], [listener.fileno()])
        listener.close()

    def remove(self, number):
        self.control.send(message(REMOVE, number))

    def verdict(self):
        """(box, allowed, host, port, reason), the next one."""
        data = self.control.recv(512)
        assert data[0] == VERDICT, data
        number, allowed, port, length = struct.unpack_from("<IBHH", data, 1)
        host = data[10:10 + length].decode()
        (more,) = struct.unpack_from("<H", data, 10 + length)
        reason = data[12 + length:12 + length + more].decode()
        assert len(data) == 12 + length + more
        return number, bool(allowed), host, port, reason

    def connect(self, number=7):
        there = socket.create_connection(self.boxes[number])
        there.settimeout(PATIENCE)
        return there

    def ask(self, data, number=7):
        """What is answered to these bytes, up to the end."""
        with self.connect(number) as there:
            there.sendall(data.encode() if isinstance(data, str) else data)
            return read_all(there)

    def tunnel(self, host, port, number=7):
        """A tunnel, or the answer's first line as text."""
        there = self.connect(number)
        there.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = read_head(there)
        if head.startswith(b"HTTP/1.1 200 "):
            return there
        there.close()
        return head.split(b"\r\n")[0].decode()

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def close(self):
        self.control.close()
        try:
            assert self.process.wait(PATIENCE) == 0, self.logged()
        finally:
            self.process.kill()
            self.log.close()
            self.room.remove()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            print(self.logged())
        self.close()


def read_all(there):
    data = b""
    while True:
        try:
            part = there.recv(65536)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


def read_head(there):
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        part = there.recv(1)
        if not part:
            return data
        data += part
    return data


@contextlib.contextmanager
def server(handle, address="127.0.0.1"):
    """handle(connection) in a thread for each; .port, and .count of connections so far."""
    listener = socket.create_server((address, 0), backlog=256)

    class Facts:
        port = listener.getsockname()[1]
        count = 0

    def one(connection):
        with connection:
            try:
                handle(connection)
            except OSError:
                pass  # the other side has gone: the test says whether it may

    def run():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE)
            Facts.count += 1
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield Facts
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE)


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
