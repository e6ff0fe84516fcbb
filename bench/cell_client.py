#!/usr/bin/python3
# cell_client.py - one cell a line, timed here: what call_latency.c starts with --pipe.
#
#   cell_client.py jupyter CODE                     a Jupyter kernel of this interpreter's
#   cell_client.py http SOCKET TARGET BODY EXPECT   the same over our HTTP, so that the client's own
#                                                   share (Python's, in both) can be seen
#
# Says "ready", then the nanoseconds of a round trip for each line that it gets.
import socket
import sys
import time


class Jupyter:
    """A round trip ends when the reply is there and the kernel has said that it is idle: only then
    have all results come."""

    def __init__(self, code):
        from jupyter_client.manager import start_new_kernel
        self.code = code
        self.manager, self.client = start_new_kernel(kernel_name="python3")

    def once(self):
        message = self.client.execute(self.code)
        if self.client.get_shell_msg(timeout=60)["content"]["status"] != "ok":
            sys.exit("the cell failed")
        while True:
            said = self.client.get_iopub_msg(timeout=60)
            if said["parent_header"].get("msg_id") == message and said["msg_type"] == "status" \
                    and said["content"]["execution_state"] == "idle":
                return

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Http:
    def __init__(self, path, target, body, expect):
        self.expect = expect.encode()
        self.request = ("POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
                        "Content-Length: %d\r\n\r\n%s" % (target, len(body), body)).encode()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def once(self):
        self.socket.sendall(self.request)
        data = b""
        while True:
            data += self.socket.recv(1 << 16)
            head, found, body = data.partition(b"\r\n\r\n")
            if found:
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                if len(body) >= length:
                    break
        if self.expect not in body:
            sys.exit("unexpected: %r" % body[:300])

    def close(self):
        self.socket.close()


def main():
    peer = Jupyter(*sys.argv[2:]) if sys.argv[1] == "jupyter" else Http(*sys.argv[2:])
    try:
        print("ready", flush=True)
        for _ in sys.stdin:
            begin = time.perf_counter_ns()
            peer.once()
            print(time.perf_counter_ns() - begin, flush=True)
    finally:
        peer.close()


main()
