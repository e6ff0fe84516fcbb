"""guest_server.py - a server of a session's guest for tests of its ports: run in the box, with a port.

It answers in one thread per connection and writes its replies by hand, so that wrong ones can be sent too:
/echo what it was asked, /big?N that many bytes, /sink the length and hash of the body, /die a body that breaks
off, /raw?HEX those bytes and the end, /endless headers without end, /reset a whole
reply and then a reset instead of an end, /ws a WebSocket that sends everything back,
/late the same, once the pipe /tmp/go was opened and closed."""
import base64
import hashlib
import json
import os
import socket
import struct
import sys
import threading

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def read_head(file):
    line = file.readline().decode().split()
    headers = []
    while True:
        text = file.readline().decode("latin-1").rstrip("\r\n")
        if not text:
            return line, headers
        name, _, value = text.partition(": ")
        headers.append((name, value))


def bodies(file, headers):
    named = {name.lower(): value for name, value in headers}
    if named.get("transfer-encoding") == "chunked":
        while size := int(file.readline(), 16):
            yield file.read(size)
            file.readline()
        file.readline()
    left = int(named.get("content-length", 0))
    while left > 0:
        data = file.read(min(left, 65536))
        left -= len(data)
        yield data


def reply(sock, text, *headers):
    body = text.encode()
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers]
    sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def echo(sock, line, headers, file):
    data = b"".join(bodies(file, headers))
    text = json.dumps({"line": line, "headers": headers, "body": data.decode("latin-1")})
    reply(sock, text, "Content-Type: application/json", "Set-Cookie: guest=1", "Set-Cookie: wide=1; Domain=.example",
          "X-Guest: yes", "Strict-Transport-Security: max-age=1", "Alt-Svc: h3=\":443\"",
          "Access-Control-Allow-Origin: *", "Connection: X-Hop", "X-Hop: 1")


def big(sock, line):
    left, block = int(line[1].partition("?")[2]), bytes(range(256)) * 256
    sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while left > 0:
        piece = block[:left]
        sock.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        left -= len(piece)
    sock.sendall(b"0\r\n\r\n")


def sink(sock, headers, file):
    total, digest = 0, hashlib.sha256()
    for data in bodies(file, headers):
        total += len(data)
        digest.update(data)
    reply(sock, f"{total} {digest.hexdigest()}")


def websocket(sock, headers, file):
    named = {name.lower(): value for name, value in headers}
    accept = base64.b64encode(hashlib.sha1((named["sec-websocket-key"] + GUID).encode()).digest()).decode()
    lines = ["HTTP/1.1 101 Switching", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {accept}"]
    if "sec-websocket-protocol" in named:
        lines.append(f"Sec-WebSocket-Protocol: {named['sec-websocket-protocol'].split(',')[0]}")
    sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
    while True:
        head = file.read(2)
        if len(head) < 2 or head[0] == 0x88:
            sock.sendall(b"\x88\x02\x03\xe8")
            return
        length = head[1] & 127
        if length == 126:
            length = struct.unpack(">H", file.read(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", file.read(8))[0]
        mask, data = file.read(4), bytearray(file.read(length))
        for i in range(length):
            data[i] ^= mask[i % 4]
        size = bytes([length]) if length < 126 else b"\x7e" + struct.pack(">H", length) if length < 65536 else (
            b"\x7f" + struct.pack(">Q", length))
        sock.sendall(head[:1] + size + data)


def serve(sock):
    file = sock.makefile("rb")
    line, headers = read_head(file)
    path = line[1].partition("?")[0] if line else ""
    if path == "/big":
        big(sock, line)
    elif path == "/sink":
        sink(sock, headers, file)
    elif path == "/die":
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart")
    elif path == "/raw":
        sock.sendall(bytes.fromhex(line[1].partition("?")[2]))
    elif path == "/endless":
        sock.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            sock.sendall(b"X-More: " + b"x" * 500 + b"\r\n")
    elif path == "/move":
        sock.sendall(b"HTTP/1.1 302 Found\r\nLocation: /echo?moved\r\nContent-Length: 0\r\n\r\n")
    elif path == "/slow":
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nfirst\n")
        file.read()  # until the client has gone
    elif path == "/reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n")
        return
    elif path == "/late":
        os.mkfifo("/tmp/go")
        with open("/tmp/go", "rb") as gate:
            gate.read()
        websocket(sock, headers, file)
    elif path == "/ws":
        websocket(sock, headers, file)
    else:
        echo(sock, line, headers, file)
    sock.shutdown(socket.SHUT_WR)


def run(sock):
    try:
        serve(sock)
    except OSError:
        pass
    finally:
        sock.close()


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    print("ready", flush=True)
    while True:
        threading.Thread(target=run, args=(listener.accept()[0],), daemon=True).start()
