"""key_relay.py - a port of the loopback in front of the server's own, for clients that cannot send a
key, or have another one: it puts its own and hands on everything else as it came, Host and Origin included.

    with key_relay.KeyRelay(port, key) as relayed: ...    # the port

    made = key_relay.KeyRelay(port, key)
    made.refuse = lambda method, path: 503 if path.endswith("/signal") else None    # a status, or None
    made.lose = lambda method, path: True    # handed on, and the reply is lost
"""
import http.client
import http.server
import threading

HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = self.server.refuse(self.command, self.path)
        if status:
            self.send_response_only(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        there = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=120)
        try:
            there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP | {"authorization"}:
                    there.putheader(name, value)
            there.putheader("Authorization", f"Bearer {self.server.key}")
            there.putheader("Content-Length", str(len(body)))
            there.endheaders(body)
            reply = there.getresponse()
            if self.server.lose(self.command, self.path):
                self.close_connection = True
            else:
                self.answer(reply)
        finally:
            there.close()

    def answer(self, reply):
        """To the end of the reply, forwarding each piece as it arrives."""
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while True:
            piece = reply.read1(65536)
            if not piece:
                return
            self.wfile.write(piece)
            self.wfile.flush()

    do_GET = do_POST = do_DELETE = do_PUT = do_OPTIONS = do_HEAD = forward

    def log_message(self, *_):
        pass


class KeyRelay(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target, key):
        super().__init__(("127.0.0.1", 0), Handler)
        self.target, self.key = target, key
        self.refuse = lambda method, path: None
        self.lose = lambda method, path: False
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # a client that left

    def __enter__(self):
        return self.server_address[1]

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
