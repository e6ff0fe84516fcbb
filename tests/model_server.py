"""model_server.py - a scripted model server that speaks Chat Completions, in a process of its own.

    with model_server.Server() as model:
        model.script("tea", [model_server.text("with milk")])
        model.script("sum", [model_server.code("print(1+1)"), model_server.text("two")])

The script is chosen by the request's `model`; each of its turns answers one request: the number of
tool messages after the last user message says which. `requests()` gives the bodies that came. A turn
is a list of steps: {"send": EVENT, "times": N}, {"raw": TEXT}, {"sleep": SECONDS}, {"wait": NAME} (until
go(NAME)), {"status": N, "headers": {}, "body": TEXT}, {"json": OBJECT}, {"cut": true}, {"hang": true}.
`python3 model_server.py PORT [CERTIFICATE KEY]` runs it, with files over HTTPS; it prints its port.
"""
import http.client
import http.server
import json
import os
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
         "prompt_tokens_details": {"cached_tokens": 2},
         "completion_tokens_details": {"reasoning_tokens": 1}}


# ---- turns ----

def event(delta=None, finish=None, **more):
    choices = [] if delta is None and finish is None else [
        {"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": choices, **more}


def end(finish="stop", usage=USAGE):
    steps = [{"send": event(finish=finish)}]
    if usage:
        steps.append({"send": event(usage=usage)})
    return steps + [{"raw": "data: [DONE]\n\n"}]


def text(*pieces, finish="stop", usage=USAGE):
    return [{"send": event({"role": "assistant", "content": ""})},
            *[{"send": event({"content": piece})} for piece in pieces], *end(finish, usage)]


def pieces_of(whole, size):
    return [whole[i:i + size] for i in range(0, len(whole), size)] or [""]


def call(arguments, name="code_interpreter", index=0, id="call_1", size=7):
    """The fragments of one tool call."""
    first, *rest = pieces_of(arguments, size)
    steps = [{"send": event({"tool_calls": [{"index": index, "id": id, "type": "function",
                                              "function": {"name": name, "arguments": first}}]})}]
    return steps + [{"send": event({"tool_calls": [{"index": index,
                                                    "function": {"arguments": piece}}]})}
                    for piece in rest]


def code(source, requirements=None, size=7, ascii=True, usage=USAGE, **more):
    arguments = {"code": source, **({"requirements": requirements} if requirements else {})}
    return (call(json.dumps(arguments, ensure_ascii=ascii), size=size, **more) +
            end("tool_calls", usage))


# ---- the server ----

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, *_):
        pass

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")

    def answer(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        state = self.server.state
        if self.path == "/requests":
            with state.lock:
                self.answer({"requests": state.requests, "left": state.left})

    def do_POST(self):
        state = self.server.state
        body = self.body()
        if self.path == "/script":
            with state.lock:
                state.scripts[body["model"]] = body["turns"]
                state.tries.pop(body["model"], None)
            return self.answer({})
        if self.path == "/go":
            state.gate(body["name"]).set()
            return self.answer({})
        if not self.path.endswith("/chat/completions"):
            return self.answer({"error": {"message": f"no {self.path}"}}, 404)
        with state.lock:
            state.requests.append({"path": self.path, "body": body, "time": time.monotonic(),
                                   "authorization": self.headers.get("Authorization")})
        self.play(state, body)

    def turn(self, state, body):
        script = state.scripts.get(body["model"])
        if script is None:
            return [{"status": 404, "body": json.dumps(
                {"error": {"message": f"The model '{body['model']}' does not exist"}})}]
        if script and isinstance(script[0], dict) and "tries" in script[0]:
            with state.lock:
                at = state.tries.get(body["model"], 0)
                state.tries[body["model"]] = at + 1
            return script[0]["tries"][min(at, len(script[0]["tries"]) - 1)]
        messages, turns = body["messages"], 0
        for message in reversed(messages):
            if message["role"] == "user":
                break
            turns += message["role"] == "assistant"
        return script[min(turns, len(script) - 1)]

    def begin(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def left(self, state):
        """Whether the client has gone."""
        with state.lock:
            state.left += 1

    def hang(self, state, limit=60):
        """Until the client goes."""
        self.connection.settimeout(limit)
        try:
            self.connection.recv(1)
        except OSError:
            pass
        self.left(state)
        self.close_connection = True

    def play(self, state, body):
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = False
        try:
            for step in self.turn(state, body):
                if "status" in step:
                    data = step.get("body", "").encode()
                    self.send_response(step["status"])
                    for name, value in step.get("headers", {}).items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                    return
                if "json" in step:
                    return self.answer(step["json"])
                if not begun and ("send" in step or "raw" in step or "begin" in step):
                    self.begin()
                    begun = True
                if "send" in step:
                    for _ in range(step.get("times", 1)):
                        self.chunk(b"data: " + json.dumps(step["send"]).encode() + b"\n\n")
                elif "raw" in step:
                    self.chunk(step["raw"].encode())
                elif "sleep" in step:
                    time.sleep(step["sleep"])
                elif "wait" in step:
                    state.gate(step["wait"]).wait(60)
                elif "cut" in step:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                elif "hang" in step:
                    return self.hang(state)
            self.chunk(b"")
        except OSError:
            self.left(state)
            self.close_connection = True


class State:
    def __init__(self):
        self.lock, self.scripts, self.requests, self.tries = threading.Lock(), {}, [], {}
        self.gates, self.left = {}, 0

    def gate(self, name):
        with self.lock:
            return self.gates.setdefault(name, threading.Event())


class Listener(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads, request_queue_size = True, 512


def main(port, certificate=None, key=None):
    listener = Listener(("127.0.0.1", port), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        listener.socket = context.wrap_socket(listener.socket, server_side=True,
                                              do_handshake_on_connect=False)
    listener.state = State()
    print(listener.server_address[1], flush=True)
    listener.serve_forever(poll_interval=60)


# ---- for tests ----

class Server:
    """The process, and what a test says to it. `tls`: files of a certificate and of its key."""

    def __init__(self, port=0, tls=()):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), str(port), *map(str, tls)],
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.context = ssl.create_default_context(cafile=tls[0]) if tls else None
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/v1"

    def ask(self, method, path, body=None):
        kind, more = ((http.client.HTTPSConnection, {"context": self.context}) if self.context
                      else (http.client.HTTPConnection, {}))
        connection = kind("127.0.0.1", self.port, timeout=60, **more)
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def script(self, model, turns):
        self.ask("POST", "/script", {"model": model, "turns": turns})
        return model

    def go(self, name):
        self.ask("POST", "/go", {"name": name})

    def requests(self, model=None):
        return [one for one in self.ask("GET", "/requests")["requests"]
                if model is None or one["body"]["model"] == model]

    def left(self):
        """How many clients went before their answer was over."""
        return self.ask("GET", "/requests")["left"]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
