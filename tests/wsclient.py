"""wsclient.py - a WebSocket client for tests: frames by hand, so that wrong ones can be sent too.

    with wsclient.connect(daemon, f"/v1/sessions/{id}/ws") as ws:
        reply = ws.ask("exec", argv=["echo", "hi"])
        ws.until("exit", reply["subscription"])
"""
import base64
import hashlib
import json
import os
import socket
import struct

import support

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUED, TEXT, BINARY, CLOSE, PING, PONG, FIN = 0, 1, 2, 8, 9, 10, 0x80


class Refused(Exception):
    """The handshake was answered with something else than 101."""

    def __init__(self, status, headers, body):
        super().__init__(f"{status} {headers} {body[:1000]}")
        self.status, self.headers, self.body = status, headers, body

    @property
    def error(self):
        return json.loads(self.body)["error"]


class Closed(Exception):
    """The other side closed; `code` 1006: without a close frame."""

    def __init__(self, code, reason=""):
        super().__init__(f"closed: {code} {reason}")
        self.code, self.reason = code, reason


PATIENCE_S = 60  # a server that says nothing for so long has failed the test


class WebSocket:
    def __init__(self, sock, path, headers=None, protocols=None):
        self.sock, self.rest, self.number, self.events = sock, b"", 0, []
        self.replies = {}
        if sock.gettimeout() is None:
            sock.settimeout(PATIENCE_S)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = {"Host": "localhost", "Connection": "Upgrade", "Upgrade": "websocket",
                 "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
        if protocols:
            lines["Sec-WebSocket-Protocol"] = ", ".join(protocols)
        lines.update(headers or {})
        text = f"GET {path} HTTP/1.1\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
        self.sock.sendall(text.encode() + b"\r\n")
        self._read_head(key)

    def _read_head(self, key):
        while b"\r\n\r\n" not in self.rest:
            self._more()
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.headers = {name.lower(): value for name, value in
                        (line.split(": ", 1) for line in lines)}
        status = int(first.split()[1])
        if status != 101:
            while len(self.rest) < int(self.headers.get("content-length", 0)):
                self._more()
            self.sock.close()
            raise Refused(status, self.headers, self.rest)
        wanted = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
        assert self.headers["sec-websocket-accept"] == wanted, self.headers
        self.protocol = self.headers.get("sec-websocket-protocol")

    def _more(self):
        data = self.sock.recv(65536)
        if not data:
            raise Closed(1006)
        self.rest += data

    def _take(self, count):
        while len(self.rest) < count:
            self._more()
        data, self.rest = self.rest[:count], self.rest[count:]
        return data

    # --- frames

    def send_raw(self, data):
        self.sock.sendall(data)

    def send_frame(self, first, data=b"", masked=True, claim=None):
        length = len(data) if claim is None else claim
        head = bytes([first])
        bit = 0x80 if masked else 0
        if length < 126:
            head += bytes([bit | length])
        elif length < 65536:
            head += bytes([bit | 126]) + struct.pack(">H", length)
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", length)
        if masked:
            mask = os.urandom(4)
            head += mask
            whole = (mask * (len(data) // 4 + 1))[:len(data)]
            data = (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(
                len(data), "big") if data else b""
        self.sock.sendall(head + data)

    def frame(self):
        """The next frame: (first byte, payload)."""
        first, length = self._take(2)
        assert length < 128, "a server does not mask"
        if length == 126:
            length = struct.unpack(">H", self._take(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", self._take(8))[0]
        return first, self._take(length)

    # --- messages

    def send(self, data):
        if isinstance(data, bytes):
            self.send_frame(FIN | BINARY, data)
        else:
            self.send_frame(FIN | TEXT, (data if isinstance(data, str) else json.dumps(data)).encode())

    def receive(self):
        """The next message: bytes, or the object that a text is. Pings are answered."""
        while True:
            first, data = self.frame()
            if first == FIN | PING:
                self.send_frame(FIN | PONG, data)
            elif first == FIN | CLOSE:
                code = struct.unpack(">H", data[:2])[0] if data else 1005
                raise Closed(code, data[2:].decode())
            elif first == FIN | TEXT:
                return json.loads(data)
            elif first == FIN | BINARY:
                return data
            else:
                assert first == FIN | PONG, hex(first)

    def close(self, code=1000):
        """Sends a close frame and waits for the answer."""
        try:
            self.send_frame(FIN | CLOSE, struct.pack(">H", code))
            while True:
                self.receive()
        except (Closed, OSError):
            pass
        self.sock.close()

    def vanish(self):
        """Closes without a close frame."""
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- the door's messages

    def start(self, kind, **members):
        """Sends a request; the id to wait for."""
        self.number += 1
        self.send({"type": kind, "id": self.number, **members})
        return self.number

    def wait(self, number):
        """The reply to a request, or its error; events that come meanwhile are kept."""
        while number not in self.replies:
            self._sort(self.receive())
        return self.replies.pop(number)

    def _sort(self, message):
        if message["type"] in ("reply", "error"):
            self.replies[message["id"]] = message
        else:
            self.events.append(message)

    def ask(self, kind, **members):
        reply = self.wait(self.start(kind, **members))
        assert reply["type"] == "reply", reply
        return reply

    def refused(self, kind, **members):
        reply = self.wait(self.start(kind, **members))
        assert reply["type"] == "error", reply
        return reply["error"]

    def event(self, subscription=None):
        """The next event, of one subscription or of any; its end too."""
        while True:
            for at, event in enumerate(self.events):
                if subscription in (None, event["subscription"]):
                    return self.events.pop(at)
            self._sort(self.receive())

    def until(self, name, subscription, fits=lambda data: True):
        """All events of a subscription up to and with the first of this name that fits."""
        seen = []
        while True:
            event = self.event(subscription)
            seen.append(event)
            if event.get("event") == name and fits(event["data"]):
                return seen
            assert event["type"] == "event", seen


def connect(daemon, path, **rest):
    """Over the daemon's unix socket."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(support.PATIENCE)
    sock.connect(str(daemon.socket))
    return WebSocket(sock, path, **rest)


def connect_tcp(address, path, context=None, **rest):
    sock = socket.create_connection(address, timeout=support.PATIENCE)
    if context:
        sock = context.wrap_socket(sock, server_hostname=address[0])
    return WebSocket(sock, path, **rest)
