"""stall.py - one attacker at a time against an otherwise idle server: part of `make load`.

Each row of `ATTACKS` is what one guest or one key can send. While it runs, another process asks for
/healthz and runs another tenant's cell, again and again, and the broker's memory is read. Prints a table, and
fails when an answer took longer than ANSWER_MS at the 99th percentile, or the broker grew by more than GROWTH_MB.
`turn` is a bound of the CPU time, in ms, that one turn of the broker's event loop took: it tells what the broker
does from what the machine does besides.

    STALL_SECONDS  6: how long each attack goes on
    STALL_ONLY     names of attacks, separated by commas
    STALL_LOGS     a folder for the daemons' logs
"""
import base64
import contextlib
import http.client
import json
import multiprocessing
import os
import re
import resource
import socket
import struct
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "load"), str(ROOT / "bench")]
import harness  # noqa: E402  (the path has to be there first)
import model_server  # noqa: E402
import own  # noqa: E402
import support  # noqa: E402
import tenants  # noqa: E402
import watch  # noqa: E402

ANSWER_MS, GROWTH_MB = 50, 64
MIB = 1 << 20
CONNECTIONS, TENANT_CONNECTIONS = 4096, 512  # LIMIT_CLIENTS, LIMIT_TENANT_CLIENTS
LIMIT_CODE = 5 * MIB
BODY = 15 * MIB + MIB // 2  # just below what a body of 16 MiB is refused for
SETTINGS = {"SANDBOX_MAX_SESSIONS": "100", "SANDBOX_MEMORY_LIMIT": "512m"}

# Python that runs in the attacker's kernel: `line` goes to the warden as the kernel's own event would.
FORGE = """
import os, json
def send(line):
    line += b"\\n"
    while line:
        line = line[os.write(250, line):]
"""


class Attacker:
    """A key, a session, and requests that may stay unanswered."""

    def __init__(self, port, key, session, seconds):
        self.port, self.key, self.session = port, key, session
        self.ends_at = time.monotonic() + seconds
        self.held = []
        self.said = {}

    def is_over(self):
        return time.monotonic() > self.ends_at

    def connect(self, receive=None):
        peer = socket.socket()
        if receive:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        peer.connect(("127.0.0.1", self.port))
        peer.settimeout(60)
        return peer

    def head(self, method, target, length, *more):
        return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}",
                            f"Authorization: Bearer {self.key}", "Content-Type: application/json",
                            f"Content-Length: {length}", *more, "", ""]).encode()

    def ask(self, method, target, body=b"", **headers):
        """The status of the reply; 0: the server closed the connection."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, body, {
                "Authorization": f"Bearer {self.key}", "Content-Type": "application/json",
                "Accept": "application/json" + (", text/event-stream" if target == "/mcp" else ""), **headers})
            reply = connection.getresponse()
            reply.read()
            status = reply.status
        except OSError:
            status = 0
        finally:
            connection.close()
        self.said[status] = self.said.get(status, 0) + 1
        return status

    def get_json(self, method, target, body):
        """The reply's JSON; {}: there was none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, json.dumps(body).encode() if method != "GET" else None, {
                "Authorization": f"Bearer {self.key}", "Content-Type": "application/json"})
            return json.loads(connection.getresponse().read() or b"{}")
        except (OSError, ValueError):
            return {}
        finally:
            connection.close()

    def again(self, method, target, body, **headers):
        while not self.is_over():
            if self.ask(method, target, body, **headers) in (0, 429, 503):
                time.sleep(0.2)

    def hold(self, count, method, target, length, send, *more):
        """`count` requests of which all but the last byte is sent."""
        for _ in range(count):
            if self.is_over():
                break
            try:
                peer = self.connect()
                peer.settimeout(2)
                self.held.append(peer)
                peer.sendall(self.head(method, target, length, *more) + send)
            except OSError:
                pass
        self.wait()

    def deaf(self, count, method, target, body=b"", *more):
        """`count` clients that ask and do not read."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        for _ in range(count):
            if self.is_over():
                break
            try:
                peer = self.connect(4096)
                self.held.append(peer)
                peer.sendall(self.head(method, target, len(body), *more) + body)
            except OSError:
                pass
        self.wait()

    def wait(self):
        time.sleep(max(0, self.ends_at - time.monotonic()))

    def handshake(self, target):
        nonce = base64.b64encode(os.urandom(16)).decode()
        return "\r\n".join([
            f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {self.key}",
            "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {nonce}", "", ""]).encode()

    def websocket(self, target):
        peer = self.connect()
        peer.sendall(self.handshake(target))
        text = b""
        while b"\r\n\r\n" not in text:
            piece = peer.recv(4096)
            assert piece, text
            text += piece
        assert b" 101 " in text, text
        self.held.append(peer)
        return peer

    def path(self, rest):
        return f"/v1/sessions/{self.session}/{rest}"


def frame(first, data, claim=None):
    """A masked frame; the mask is zero, so that the bytes are as they are."""
    return struct.pack("!BBQ4x", first, 0xFF, len(data) if claim is None else claim) + data


def of_size(piece, size, begin=b"", end=b""):
    return begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end


def cell(attacker, code):
    attacker.again("POST", attacker.path("code"), {"code": FORGE + code, "timeout": 60})


# ---- a guest


def one_large_event(attacker):
    cell(attacker, "send(json.dumps({'type': 'display', 'data': {'text/plain': 'x' * (48 << 20)}}).encode())")


def event_of_many_values(attacker):
    cell(attacker, "send(b'{\"type\":\"display\",\"data\":{\"application/json\":[' + b'{},' * (9 << 20) "
                   "+ b'0]}}')")


def event_of_many_keys(attacker):
    cell(attacker, "send(b'{\"type\":\"display\",\"data\":{\"application/json\":{' + b','.join("
                   "b'\"%d\":0' % i for i in range(1 << 20)) + b'}}}')")


def many_events(attacker):
    cell(attacker, "for i in range(1000): send(json.dumps({'type': 'display', 'data': "
                   "{'text/plain': chr(233) * 60000}}, ensure_ascii=False).encode())")


def many_tiny_events(attacker):
    cell(attacker, "send(b'{\"type\":\"error\"}\\n' * (2 << 20))")


def much_output(attacker):
    attacker.again("POST", attacker.path("exec"), {
        "argv": ["sh", "-c", "head -c 300000000 /dev/zero"], "timeout": 60})


def many_outputs(attacker):
    cell(attacker, "for i in range(3000): open('/tmp/output/' + 'n' * 200 + str(i), 'w').write('x')")


def long_listing(attacker):
    attacker.ask("POST", attacker.path("exec"), {"timeout": 60, "argv": ["python3", "-c", """
import os
os.mkdir("/workspace/many")
for i in range(90000):
    os.mkdir("/workspace/many/" + chr(1) * 200 + str(i))
"""]})
    attacker.again("GET", attacker.path("files/list?path=/workspace/many&depth=0"), b"")


# ---- a key


def json_of_values(attacker):
    attacker.again("POST", "/v1/run", of_size(b"{},", BODY, b'{"code":[', b"0]}"))


def json_of_numbers(attacker):
    attacker.again("POST", "/v1/run", of_size(b"0,", BODY, b'{"code":[', b"0]}"))


def json_of_brackets(attacker):
    attacker.again("POST", "/v1/run", of_size(b"[", BODY))


def json_of_text(attacker):
    attacker.again("POST", attacker.path("code"), of_size(b"\\u00e9", BODY, b'{"code":"', b'"}'))


def json_of_middle_size(attacker):
    attacker.again("POST", attacker.path("code"), of_size(b"\\u00e9", 15 * MIB, b'{"code":"', b'"}'))


def execute_of_values(attacker):
    attacker.again("POST", "/execute", of_size(b"{},", 9 * MIB, b'{"code":[', b"0]}"))


def code_of_five_megabytes(attacker):
    attacker.again("POST", attacker.path("code"), {"code": "#" + "x" * (5 * MIB - 10)})


def runs_of_five_megabytes(attacker):
    attacker.again("POST", "/v1/run", {"code": "#" + "x" * (5 * MIB - 10)})


def held_bodies(attacker):
    attacker.hold(30, "POST", "/v1/run", BODY, of_size(b"x", BODY - 1, b'{"code":"'))


def held_half_bodies(attacker):
    attacker.hold(60, "POST", "/v1/run", 15 * MIB, of_size(b"x", 15 * MIB - 1, b'{"code":"'))


def held_mcp_bodies(attacker):
    attacker.hold(30, "POST", "/mcp", BODY, of_size(b"x", BODY - 1, b'{"code":"'))


def mcp_values(attacker):
    attacker.again("POST", "/mcp", of_size(b"{},", BODY, b'{"jsonrpc":"2.0","id":1,"method":"x","params":[',
                                           b"0]}"))


def mcp_text(attacker):
    attacker.again("POST", "/mcp", of_size(
        b"\\u00e9", 15 * MIB, b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code",'
        b'"arguments":{"code":"', b'"}}}'))


def websocket_values(attacker):
    peer = attacker.websocket("/v1/ws")
    data = frame(0x81, of_size(b"{},", BODY, b'{"id":1,"type":"ping","x":[', b"0]}"))
    while not attacker.is_over():
        try:
            peer.sendall(data)
            peer.recv(4096)
        except OSError:
            pass
        peer.close()
        peer = attacker.websocket("/v1/ws")


def websocket_unfinished(attacker):
    part = b"x" * (15 * MIB)
    for _ in range(30):
        try:
            peer = attacker.websocket("/v1/ws")
            peer.settimeout(1)
            peer.sendall(frame(0x01, part))
        except OSError:
            pass
    attacker.wait()


def deaf_to_results(attacker):
    attacker.ask("POST", attacker.path("code"), {"timeout": 60, "code": FORGE + (
        "for i in range(7): send(json.dumps({'type': 'display', 'data': {'text/plain': 'x' * (1 << 20)}}).encode())")})
    attacker.deaf(60, "POST", attacker.path("code"), {"timeout": 60, "code": FORGE + (
        "for i in range(7): send(json.dumps({'type': 'display', 'data': {'text/plain': 'x' * (1 << 20)}}).encode())")})


def deaf_to_events(attacker):
    """Server-sent events of cells."""
    attacker.deaf(60, "POST", attacker.path("code"), {"timeout": 60, "code": FORGE + (
        "for i in range(7): send(json.dumps({'type': 'display', 'data': {'text/plain': 'x' * (1 << 20)}}).encode())")},
        "Accept: text/event-stream")


def deaf_to_output(attacker):
    attacker.deaf(100, "POST", attacker.path("exec"), {"argv": ["sh", "-c", "head -c 50000000 /dev/zero"]},
                  "Accept: text/event-stream")


def deaf_to_the_bus(attacker):
    attacker.deaf(50, "GET", "/v1/events")


def queued_cells(attacker):
    """Cells of five megabytes that wait behind one which sleeps."""
    body = json.dumps({"code": "import time\ntime.sleep(60)", "background": True}).encode()
    attacker.ask("POST", attacker.path("code"), body)
    attacker.again("POST", attacker.path("code"), json.dumps(
        {"code": "#" + "x" * (5 * MIB - 10), "background": True}).encode())


def standard_inputs(attacker):
    body = json.dumps({"argv": ["sleep", "60"], "stdin": "x" * (14 * MIB), "background": True}).encode()
    attacker.again("POST", attacker.path("exec"), body)


def edited_files(attacker):
    """sandbox_edit_file reads the whole file."""
    attacker.ask("POST", attacker.path("exec"), {"argv": ["sh", "-c", (
        "head -c 8000000 /dev/zero | tr '\\0' x > /workspace/big")]})

    def edit():
        attacker.again("POST", f"/v1/tools/sandbox_edit_file?session={attacker.session}", {
            "file_path": "/workspace/big", "old_string": "y", "new_string": "z"})
    together(8, edit)


def written_files(attacker):
    body = json.dumps({"file_path": "/workspace/written", "content": "x" * (5 * MIB - 10)}).encode()
    together(8, lambda: attacker.again(
        "POST", f"/v1/tools/sandbox_write_file?session={attacker.session}", body))


def held_uploads(attacker):
    attacker.hold(60, "PUT", attacker.path("files?path=/workspace/x"), 64 * MIB, b"x" * (8 * MIB))


def produced_files(attacker):
    """POST /execute gives files back in its reply."""
    attacker.again("POST", "/execute", {"code": (
        "import os\nopen(os.environ['OUTPUT_DIR'] + '/a', 'wb').write(os.urandom(9 << 20))")})


def many_contexts(attacker):
    while not attacker.is_over():
        if attacker.ask("POST", attacker.path("contexts"), {"language": "bash"}) >= 400:
            time.sleep(0.1)


def large_environments(attacker):
    """Sessions with a large environment."""
    env = {f"A{i}": "x" * 1000 for i in range(100)}
    while not attacker.is_over():
        if attacker.ask("POST", "/v1/sessions", {"env": env}) >= 400:
            time.sleep(0.1)


def long_command_lines(attacker):
    while not attacker.is_over():
        attacker.ask("POST", attacker.path("exec"), {"argv": ["true", "x" * 100000], "background": True})


# ---- a key that opens all the connections it can


def many_connections(attacker, send):
    """Each stays open; `said` counts the statuses that came back, 0: nothing or an end."""
    while len(attacker.held) < CONNECTIONS and not attacker.is_over():
        status = 0
        try:
            peer = attacker.connect()
            peer.settimeout(5)
            attacker.held.append(peer)
            status = send(peer)
        except OSError:
            pass
        attacker.said[status] = attacker.said.get(status, 0) + 1
    attacker.wait()


def status_of(peer):
    text = peer.recv(4096)
    return int(text.split()[1]) if text else 0


def many_streams(attacker):
    def stream(peer):
        peer.sendall(attacker.head("GET", "/v1/events", 0))
        return status_of(peer)
    many_connections(attacker, stream)


def many_websockets(attacker):
    def open_one(peer):
        peer.sendall(attacker.handshake("/v1/ws"))
        return status_of(peer)
    many_connections(attacker, open_one)


def many_kept_connections(attacker):
    """Idle behind a reply, which is when a connection takes the most memory."""
    def ask(peer):
        peer.sendall(attacker.head("GET", "/v1/info", 0))
        return status_of(peer)
    many_connections(attacker, ask)


def many_half_requests(attacker):
    """A head with a key, and half of a body."""
    def half(peer):
        peer.sendall(attacker.head("POST", "/v1/run", 4096) + b"x" * 2048)
        return 0
    many_connections(attacker, half)


# ---- a key with many small things


def volley(attacker, count, target):
    """`count` connections that ask at the same moment, again and again."""
    request = attacker.head("GET", target, 0)
    peers = [attacker.connect() for _ in range(count)]
    attacker.held += peers
    while not attacker.is_over():
        for peer in peers:
            peer.sendall(request)
        for at, peer in enumerate(peers):
            status = read_reply(peer)
            attacker.said[status] = attacker.said.get(status, 0) + 1
            if status == 0 or status == 429:  # a connection over the share is closed behind its reply
                peer.close()
                peers[at] = attacker.connect()
                attacker.held.append(peers[at])


def read_reply(peer):
    """The status of a whole reply; 0: there was none."""
    text = b""
    try:
        while b"\r\n\r\n" not in text:
            piece = peer.recv(65536)
            if not piece:
                return 0
            text += piece
        head, _, rest = text.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        left = int(found.group(1)) - len(rest) if found else 0
        while left > 0:
            piece = peer.recv(min(left, 65536))
            if not piece:
                return 0
            left -= len(piece)
        return 0 if b"connection: close" in head.lower() else int(head.split()[1])
    except OSError:
        return 0


def volley_of_requests(attacker):
    volley(attacker, 200, "/v1/info")


def volley_of_listings(attacker):
    """The most that a reply without a box costs: many sessions, and all of their members."""
    for _ in range(80):
        attacker.ask("POST", "/v1/sessions", {"env": {"A": "x" * 1000}})
    volley(attacker, 100, "/v1/sessions")


def pipelined_requests(attacker):
    """One connection that does not wait for the replies before it asks again."""
    many = attacker.head("GET", "/v1/info", 0) * 500
    peer = attacker.connect()
    attacker.held.append(peer)
    threading.Thread(target=drain, args=(peer,), daemon=True).start()
    while not attacker.is_over():
        try:
            peer.sendall(many)
        except OSError:
            peer = attacker.connect()
            attacker.held.append(peer)
            threading.Thread(target=drain, args=(peer,), daemon=True).start()


def drain(peer):
    try:
        while peer.recv(65536):
            pass
    except OSError:
        pass


def many_small_cells(attacker):
    together(8, lambda: attacker.again("POST", attacker.path("code"), {"code": "1", "collect": False}))


def cells_that_fail(attacker):
    """Code that fails is stored, by default."""
    together(4, lambda: attacker.again("POST", attacker.path("code"), {
        "code": "#" + "token = 'abc' " * 60000 + "\n1/0", "collect": False}))


def cells_with_secrets(attacker):
    """Values of variables with secret names are looked for in what is stored."""
    env = {f"TOKEN{i}": f"{i:05}" + "x" * 60 for i in range(900)}
    attacker.again("POST", attacker.path("code"), {
        "code": "print('x' * 900000)\n1/0\n#" + "x" * 900000, "collect": False, "env": env})


def chunks_of_one_byte(attacker):
    data = of_size(b"1\r\nx\r\n", 6 * MIB)
    head = attacker.head("POST", "/v1/run", 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    while not attacker.is_over():
        try:
            peer = attacker.connect()
            peer.sendall(head + b"9\r\n{\"code\":\"\r\n" + data + b"2\r\n\"}\r\n0\r\n\r\n")
            status = read_reply(peer)
            peer.close()
        except OSError:
            status = 0
        attacker.said[status] = attacker.said.get(status, 0) + 1


def heads_of_many_lines(attacker):
    lines = [f"a{i}: b" for i in range(1000)]
    request = attacker.head("GET", "/v1/info", 0, *lines)
    cookies = attacker.head("GET", "/v1/info", 0, "Cookie: " + "; ".join(f"a{i}=b" for i in range(3000)))

    def ask():
        while not attacker.is_over():
            for one in (request, cookies):
                with attacker.connect() as peer:
                    peer.sendall(one)
                    status = read_reply(peer)
                attacker.said[status] = attacker.said.get(status, 0) + 1
    together(4, ask)


def addresses_that_are_none(attacker):
    def ask():
        while not attacker.is_over():
            attacker.ask("GET", "/v1/" + "/".join(["sesions"] * 60) + "?" + "&".join(
                f"argumen{i}=x" for i in range(60)))
    together(4, ask)


def mcp_batches(attacker):
    attacker.again("POST", "/mcp", of_size(b'{"jsonrpc":"2.0","id":1,"method":"ping"},', 4 * MIB, b"[", b"0]"))


def large_parameters(attacker):
    """A tool with code of five megabytes."""
    together(3, lambda: attacker.again(
        "POST", f"/v1/tools/run_code?session={attacker.session}",
        {"code": "import os, sys\n" * (LIMIT_CODE // 16)}))


def websocket_text(attacker):
    peer = attacker.websocket("/v1/ws")
    data = frame(0x81, of_size(b"\\u00e9", BODY, b'{"id":1,"type":"ping","x":"', b'"}'))
    while not attacker.is_over():
        try:
            peer.sendall(data)
            peer.recv(4096)
        except OSError:
            peer.close()
            peer = attacker.websocket("/v1/ws")


def websocket_pieces(attacker):
    """Messages in pieces of one byte."""
    def send():
        piece = struct.pack("!BB4x", 0x00, 0x81) + b"x"
        while not attacker.is_over():
            try:
                peer = attacker.websocket("/v1/ws")
                peer.sendall(struct.pack("!BB4x", 0x01, 0x81) + b"x" + piece * 500000)
                peer.close()
            except (OSError, AssertionError):
                pass
    together(2, send)


def websocket_pings(attacker):
    def send():
        peer = attacker.websocket("/v1/ws")
        threading.Thread(target=drain, args=(peer,), daemon=True).start()
        small = b'{"id":1,"type":"ping"}'
        data = (struct.pack("!BB4x", 0x89, 0x80) + struct.pack("!BB4x", 0x81, 0x80 | len(small)) + small) * 5000
        while not attacker.is_over():
            try:
                peer.sendall(data)
            except OSError:
                return
    together(4, send)


def websocket_input(attacker):
    """Standard input by messages, as base64."""
    made = attacker.get_json("POST", attacker.path("exec"), {
        "argv": ["sh", "-c", "cat > /dev/null"], "stdin": True, "background": True})
    peer = attacker.websocket(attacker.path("ws"))
    text = json.dumps({"id": 1, "type": "stdin", "execution": made.get("execution_id"), "encoding": "base64",
                       "data": base64.b64encode(b"x" * (10 * MIB)).decode()}).encode()
    data = frame(0x81, text)
    while not attacker.is_over():
        try:
            peer.sendall(data)
            peer.recv(4096)
        except OSError:
            peer.close()
            peer = attacker.websocket(attacker.path("ws"))


def resumed_streams(attacker):
    """A large log from its beginning, again and again."""
    made = attacker.get_json("POST", attacker.path("exec"), {
        "argv": ["sh", "-c", "head -c 60000000 /dev/urandom"], "timeout": 60, "background": True})
    attacker.ask("GET", attacker.path(f"processes/{made.get('execution_id')}?wait=10"))
    together(4, lambda: attacker.again(
        "GET", attacker.path(f"processes/{made.get('execution_id')}/events"), b""))


def whole_outputs(attacker):
    made = attacker.get_json("POST", attacker.path("exec"), {
        "argv": ["sh", "-c", "head -c 60000000 /dev/urandom"], "timeout": 60, "background": True})
    attacker.ask("GET", attacker.path(f"processes/{made.get('execution_id')}?wait=10"))
    together(4, lambda: attacker.again(
        "GET", attacker.path(f"processes/{made.get('execution_id')}/output"), b""))


def broken_text(attacker):
    """Bytes that are not UTF-8, in output and in results."""
    together(3, lambda: attacker.again("POST", attacker.path("exec"), {
        "argv": ["sh", "-c", "head -c 3000000 /dev/urandom; head -c 3000000 /dev/zero | tr '\\0' '\\377' >&2"]}))


def tiny_ranges(attacker):
    """One byte of a large output, again and again, and many ranges at once."""
    attacker.ask("POST", attacker.path("exec"), {"argv": ["sh", "-c", "head -c 50000000 /dev/zero > /tmp/output/a"]})
    found = attacker.get_json("GET", "/v1/artifacts", {})
    target = "/v1/artifacts/" + (found.get("artifacts") or [{"id": "x"}])[0]["id"]
    one = attacker.head("GET", target, 0, "Range: bytes=1000000-1000000")
    many = attacker.head("GET", target, 0, "Range: bytes=" + ",".join(f"{i}-{i}" for i in range(0, 20000, 2)))

    def ask():
        with attacker.connect() as peer:
            while not attacker.is_over():
                for request in (one, many):
                    peer.sendall(request)
                    status = read_reply(peer)
                    attacker.said[status] = attacker.said.get(status, 0) + 1
                    if status == 0:
                        peer.close()
                        peer = attacker.connect()
    together(4, ask)


def event_of_many_types(attacker):
    cell(attacker, "for n in range(20): send(json.dumps({'type': 'display', 'data': {"
                   "'application/x-%d' % i: 'x' * 20 for i in range(5000)}}).encode())")


def broken_events(attacker):
    cell(attacker, "for n in range(200): send(b'{\"type\":\"display\",\"data\":{\"text/plain\":\"' + "
                   "b'\\xff\\xc3' * 100000 + b'\"}}')")


def watched_files(attacker):
    """Watches of a folder in which files come and go."""
    for _ in range(30):
        peer = attacker.connect()
        attacker.held.append(peer)
        peer.sendall(attacker.head("GET", attacker.path("files/watch?path=/workspace&recursive=true"), 0))
        threading.Thread(target=drain, args=(peer,), daemon=True).start()
    attacker.again("POST", attacker.path("exec"), {"timeout": 60, "argv": ["python3", "-c", """
import os
for i in range(100000):
    os.close(os.open("/workspace/" + "n" * 200 + str(i % 50), os.O_CREAT | os.O_WRONLY))
    os.unlink("/workspace/" + "n" * 200 + str(i % 50))
"""]})


def deep_tree(attacker):
    attacker.ask("POST", attacker.path("exec"), {"timeout": 60, "argv": ["python3", "-c", """
import os
for wide in range(20):
    os.chdir("/workspace")
    for i in range(400):
        os.mkdir("d%d" % wide)
        os.chdir("d%d" % wide)
"""]})
    together(2, lambda: attacker.again("GET", attacker.path("files/list?path=/workspace&depth=64"), b""))


def listed_processes(attacker):
    """Long command lines, in a listing."""
    for _ in range(80):
        attacker.ask("POST", attacker.path("exec"), {"argv": ["true", "x" * 100000]})
    together(2, lambda: attacker.again("GET", attacker.path("processes"), b""))


def ended_sessions(attacker):
    """Sessions with many outputs and executions, which are removed with them."""
    while not attacker.is_over():
        made = attacker.get_json("POST", "/v1/sessions", {})
        for _ in range(3):
            attacker.ask("POST", f"/v1/sessions/{made.get('id')}/exec", {"argv": ["python3", "-c", (
                "import os\nfor i in range(900): open('/tmp/output/%d-%d' % (os.getpid(), i), 'w').write('x')")]})
        attacker.ask("DELETE", f"/v1/sessions/{made.get('id')}", b"")


def edits_of_many_places(attacker):
    attacker.ask("POST", attacker.path("exec"), {"argv": ["sh", "-c", (
        "head -c 8000000 /dev/zero | tr '\\0' x > /workspace/big")]})
    together(2, lambda: attacker.again("POST", f"/v1/tools/sandbox_edit_file?session={attacker.session}", {
        "file_path": "/workspace/big", "old_string": "x", "new_string": "z"}))


def terminals(attacker):
    """Terminals that write as fast as they can."""
    for _ in range(8):
        peer = attacker.websocket(attacker.path("pty/ws?command=yes"))
        threading.Thread(target=drain, args=(peer,), daemon=True).start()
    attacker.wait()


def subscriptions(attacker):
    """Every event to many subscriptions."""
    for _ in range(20):
        peer = attacker.websocket("/v1/ws")
        for i in range(64):
            text = json.dumps({"id": i, "type": "subscribe", "what": "events"}).encode()
            peer.sendall(struct.pack("!BB4x", 0x81, 0x80 | len(text)) + text)
        threading.Thread(target=drain, args=(peer,), daemon=True).start()
    together(4, lambda: attacker.again("POST", attacker.path("exec"), {"argv": ["true"]}))


def runs_with_files(attacker):
    files = {f"f{i}.txt": base64.b64encode(b"x" * 8000).decode() for i in range(900)}
    together(2, lambda: attacker.again("POST", "/execute", {"code": "1", "files": files}))


def idempotent_bodies(attacker):
    """Bodies are hashed, so that the same request is known again."""
    body = of_size(b"\\u00e9", BODY, b'{"code":"', b'"}')
    number = 0
    while not attacker.is_over():
        number += 1
        with attacker.connect() as peer:
            try:
                peer.sendall(attacker.head("POST", "/v1/run", len(body), f"Idempotency-Key: k{number}") + body)
                status = read_reply(peer)
            except OSError:
                status = 0
        attacker.said[status] = attacker.said.get(status, 0) + 1


# ---- a key at the door of E2B's clients


class Sandbox:
    """A sandbox of the attacker, called with its token."""

    def __init__(self, attacker):
        made = attacker.get_json("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300})
        self.attacker = attacker
        self.headers = {"E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"]}
        self.run(["true"])  # its box is made

    def call(self, method, target, body=b"", **headers):
        return self.attacker.ask(method, target, body, **self.headers, **headers)

    def again(self, method, target, body, **headers):
        self.attacker.again(method, target, body, **self.headers, **headers)

    def run(self, argv, **more):
        """A command to its end."""
        return self.call("POST", "/process.Process/Start", envelope({
            "process": {"cmd": argv[0], "args": argv[1:]}, "stdin": False, **more}), **CONNECT)

    def start(self, body, target="/process.Process/Start", **headers):
        """A request whose reply is not waited for, as bytes; its connection is closed after the first of them."""
        lines = [f"{name}: {value}" for name, value in {**self.headers, **headers}.items()]
        with self.attacker.connect() as peer:
            try:
                peer.sendall("\r\n".join([
                    f"POST {target} HTTP/1.1", f"Host: 127.0.0.1:{self.attacker.port}",
                    f"Content-Length: {len(body)}", *lines, "", ""]).encode() + body)
                head = peer.recv(4096)
            except OSError:
                head = b""
        status = int(head.split()[1]) if head else 0
        self.attacker.said[status] = self.attacker.said.get(status, 0) + 1
        return status


CONNECT = {"Content-Type": "application/connect+json"}


def envelope(message):
    if not isinstance(message, bytes):
        message = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(message)) + message


def e2b_listing(attacker):
    sandbox = Sandbox(attacker)
    sandbox.run(["python3", "-c", """
import os
os.mkdir("/workspace/many")
for i in range(90000):
    os.mkdir("/workspace/many/" + "n" * 200 + str(i))
"""])
    sandbox.again("POST", "/filesystem.Filesystem/ListDir", {"path": "/workspace/many", "depth": 1})


def e2b_values(attacker):
    """A message of a stream's input that has many values."""
    sandbox = Sandbox(attacker)
    sandbox.start(envelope({"process": {"cmd": "sleep", "args": ["300"]}, "tag": "t"}), **CONNECT)
    start = envelope({"start": {"process": {"tag": "t"}}})
    sandbox.again("POST", "/process.Process/StreamInput", start + envelope(
        of_size(b"{},", BODY - len(start), b'{"data":[', b"0]}")), **CONNECT)


def e2b_started_commands(attacker):
    """Commands that go on, each with members that are of no use."""
    sandbox = Sandbox(attacker)
    body = envelope({"process": {"cmd": "sleep", "args": ["300"]}, "more": "x" * (14 * MIB)})
    while not attacker.is_over():
        if sandbox.start(body, **CONNECT) != 200:
            time.sleep(0.2)


def e2b_waiting_cells(attacker):
    """Cells of a few bytes behind one that sleeps, in bodies that are large."""
    sandbox = Sandbox(attacker)
    sandbox.start(json.dumps({"code": "import time\ntime.sleep(60)"}).encode(), "/execute", **{"Content-Type": "application/json"})

    def wait():
        sandbox.again("POST", "/execute", {"code": "1", "x": "x" * (14 * MIB)})
    together(8, wait)


def e2b_metadata(attacker):
    """Each upload has as much metadata as a file may have."""
    sandbox = Sandbox(attacker)
    metadata = {f"X-Metadata-a{i}": "x" * 240 for i in range(16)}
    number = 0
    while not attacker.is_over():
        number += 1
        sandbox.call("POST", f"/files?path=/home/user/{'f' * 200}{number % 1500}", b"x", **{
            "Content-Type": "application/octet-stream", **metadata})


def e2b_watchers(attacker):
    """Watchers that are never asked, of folders in which files come and go."""
    sandbox = Sandbox(attacker)
    for _ in range(250):
        sandbox.call("POST", "/filesystem.Filesystem/CreateWatcher", {"path": "/workspace", "recursive": True})
    sandbox.run(["python3", "-c", """
import os
for i in range(100000):
    os.close(os.open("/workspace/" + "n" * 200 + str(i % 50), os.O_CREAT | os.O_WRONLY))
    os.unlink("/workspace/" + "n" * 200 + str(i % 50))
"""])
    attacker.wait()


def e2b_form_of_files(attacker):
    """An upload of many small files with long paths."""
    sandbox = Sandbox(attacker)

    def form():
        for i in range(20000):
            yield (f'--b\r\nContent-Disposition: form-data; name="file"; filename="/workspace/{("n" * 200 + "/") * 15}{i}"'
                   "\r\n\r\nx\r\n").encode()
        yield b"--b--\r\n"
    body = b"".join(form())
    sandbox.again("POST", "/files", body, **{"Content-Type": "multipart/form-data; boundary=b"})


# ---- a key at the door of a model's responses (the server has a model server that never answers)


def responses_of_text(attacker):
    attacker.again("POST", "/v1/responses", of_size(b"\\u00e9", BODY, b'{"model":"fails","input":"', b'"}'))


def responses_of_items(attacker):
    item = b'{"role":"user","content":"x"},'
    attacker.again("POST", "/v1/responses", of_size(item, BODY, b'{"model":"fails","input":[', item[:-1] + b"]}"))


def responses_in_the_background(attacker):
    attacker.again("POST", "/v1/responses", of_size(
        b"x", 10 * MIB, b'{"model":"hangs","background":true,"input":"', b'"}'))


def responses_of_a_conversation(attacker):
    """Each goes on from the one before, and adds what the model does not read."""
    previous = None
    while not attacker.is_over():
        made = attacker.get_json("POST", "/v1/responses", {
            "model": "answers", "previous_response_id": previous, "input": [
                {"type": "reasoning", "summary": "x" * (10 * MIB)}, {"role": "user", "content": "x"}]})
        attacker.said[made.get("status")] = attacker.said.get(made.get("status"), 0) + 1
        if made.get("id"):
            previous = made["id"]
        else:
            time.sleep(0.2)


def chats_in_parallel(attacker):
    """Streams, which are answered at once and then go on."""
    attacker.deaf(40, "POST", "/v1/chat", {"model": "begins", "message": "x", "stream": True, "files": [
        {"name": "a", "content": "x" * (10 * MIB)}]})


def together(count, act):
    threads = [threading.Thread(target=act, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def nothing(attacker):
    """What the machine does by itself."""
    attacker.wait()


ATTACKS = (
    nothing, one_large_event, event_of_many_values, event_of_many_keys, many_events, many_tiny_events, much_output,
    many_outputs, long_listing, json_of_values, json_of_numbers, json_of_brackets, json_of_text,
    json_of_middle_size, execute_of_values, code_of_five_megabytes, runs_of_five_megabytes, held_bodies,
    held_half_bodies, held_mcp_bodies, mcp_values, mcp_text, websocket_values, websocket_unfinished,
    deaf_to_results, deaf_to_events, deaf_to_output, deaf_to_the_bus, queued_cells, standard_inputs,
    edited_files, written_files, held_uploads, produced_files, many_contexts, large_environments,
    long_command_lines, volley_of_requests, volley_of_listings, pipelined_requests, many_small_cells,
    cells_that_fail, cells_with_secrets, chunks_of_one_byte, heads_of_many_lines, addresses_that_are_none,
    mcp_batches, large_parameters, websocket_text, websocket_pieces, websocket_pings, websocket_input,
    resumed_streams, whole_outputs, broken_text, tiny_ranges, event_of_many_types, broken_events,
    watched_files, deep_tree, listed_processes, ended_sessions, edits_of_many_places, terminals, subscriptions,
    runs_with_files, idempotent_bodies, e2b_listing, e2b_values, e2b_started_commands, e2b_waiting_cells,
    e2b_metadata, e2b_watchers, e2b_form_of_files, responses_of_text, responses_of_items,
    responses_in_the_background, responses_of_a_conversation, chats_in_parallel, many_streams, many_websockets, many_kept_connections, many_half_requests,
)


OF_MODELS = (responses_of_text, responses_of_items, responses_in_the_background, responses_of_a_conversation,
             chats_in_parallel)


@contextlib.contextmanager
def settings(attack):
    """Those of a server for this attack, and what it needs meanwhile."""
    if attack not in OF_MODELS:
        yield SETTINGS
        return
    with model_server.Server() as model:
        model.script("hangs", [[{"hang": True}]])
        model.script("begins", [[{"send": model_server.event({"content": "x"})}, {"hang": True}]])
        model.script("fails", [[{"status": 400, "body": '{"error":{"message":"no"}}'}]])
        model.script("answers", [model_server.text("yes")])
        yield {**SETTINGS, "BAILEY_UPSTREAM_URL": model.url}


# ---- the other tenant


def probe(port, key, session, stop, pipe):
    """Seconds of each /healthz, on a new connection each time, and of each cell, until `stop`."""
    connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=120) for _ in range(2)]
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    body = json.dumps({"code": "1 + 1", "collect": False}).encode()
    times = ([], [])
    while not stop.is_set():
        for i, (method, target, data) in enumerate((("GET", "/healthz", None),
                                                    ("POST", f"/v1/sessions/{session}/code", body))):
            began = time.monotonic()
            connections[i].request(method, target, data, headers)
            reply = connections[i].getresponse()
            text = reply.read()
            times[i].append(time.monotonic() - began)
            assert reply.status == 200, (target, reply.status, text)
        connections[0].close()
        time.sleep(0.005)
    pipe.send(times)


def strike(attack, port, key, session, seconds, pipe):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attacker = Attacker(port, key, session, seconds)
    try:
        attack(attacker)
    finally:
        pipe.send(attacker.said)
        for peer in attacker.held:
            peer.close()


TURNS = re.compile(r'^bailey_loop_turn_seconds_bucket\{le="([^"]+)"\} (\d+)$', re.MULTILINE)


def turns(server):
    """How many turns of the broker's loop took at most so many seconds of CPU time."""
    text = server.call("GET", "/metrics").body.decode()
    return [(float(bound), int(count)) for bound, count in TURNS.findall(text)]


def longest_turn(before, after):
    """The bound in ms below which every turn in between was."""
    counts = [(bound, late - early) for (bound, late), (_, early) in zip(after, before)]
    return 1000 * next(bound for bound, count in counts if count == counts[-1][1])


class Row:
    def __init__(self, name, times, growth, turn, said):
        self.name, self.turn, self.said = name, turn, said
        self.health, self.cell = (1000 * harness.percentile(one, 99) for one in times)
        self.worst = 1000 * max(max(one) for one in times)
        self.count, self.growth = min(len(one) for one in times), growth / 1e6

    def is_wrong(self):
        return self.health > ANSWER_MS or self.cell > ANSWER_MS or self.growth > GROWTH_MB

    def line(self):
        return (f"  {self.name:24} {self.health:9.1f} {self.cell:9.1f} {self.worst:9.1f} {self.growth:9.1f} "
                f"{self.turn:7.0f} {self.count:7}  {'TOO MUCH' if self.is_wrong() else 'ok':8}  {self.said}")


def measure(attack, server, seconds):
    victim, villain = server.caller("victim"), server.caller("villain")
    sessions = [who.session()["id"] for who in (victim, villain)]
    for who, session in zip((victim, villain), sessions):
        for _ in range(5):
            who.post(f"/v1/sessions/{session}/code", {"code": "1"}, 200)
    memory = watch.Memory("broker", server.get("/v1/info")["broker_pid"])
    memory.look(0)
    before = turns(server)
    stop = multiprocessing.Event()
    times, told = multiprocessing.Pipe(), multiprocessing.Pipe()
    probing = multiprocessing.Process(target=probe, args=(server.port, victim.text, sessions[0], stop, times[1]))
    striking = multiprocessing.Process(target=strike, args=(
        attack, server.port, villain.text, sessions[1], seconds, told[1]))
    probing.start()
    times[1].close()  # so that recv() below ends if the probe fails
    striking.start()
    while not told[0].poll():
        memory.look(0)
        time.sleep(0.01)
        if not striking.is_alive() and not told[0].poll():
            break
    said = told[0].recv() if told[0].poll() else "failed"
    stop.set()
    memory.look(0)
    found = times[0].recv()
    probing.join()
    striking.join()
    growth = max(size for _, size in memory.samples) - memory.samples[0][1]
    return Row(attack.__name__, found, growth, longest_turn(before, turns(server)), said)


def main():
    only = [name for name in os.environ.get("STALL_ONLY", "").split(",") if name]
    seconds = float(os.environ.get("STALL_SECONDS") or 6)
    logs = os.environ.get("STALL_LOGS")
    own.settle()
    wrong = []
    print(f"stall: one attacker at a time, {seconds:.0f} s each; another tenant's answers in ms, the broker's growth in "
          f"MB\n  {'attack':24} {'/healthz':>9} {'cell p99':>9} {'worst':>9} {'growth':>9} {'turn <':>7} {'asked':>7}")
    for attack in ATTACKS:
        if only and attack.__name__ not in only:
            continue
        with settings(attack) as env, tenants.Server(env) as server:
            row = measure(attack, server, seconds)
            if logs:
                Path(logs, attack.__name__ + ".log").write_text(server.said())
        print(row.line(), flush=True)
        if row.is_wrong():
            wrong.append(row.name)
    own.leave()
    support.remove_base()
    print("stall: " + (f"too slow or too large: {', '.join(wrong)}" if wrong else
                       f"all within {ANSWER_MS} ms and {GROWTH_MB} MB"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
