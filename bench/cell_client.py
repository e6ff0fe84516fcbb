#!/usr/bin/python3
# cell_client.py - one cell a line, timed here: what call_latency.c starts with --pipe.
#
#   cell_client.py jupyter CODE                     a Jupyter kernel of this interpreter's
#   cell_client.py http SOCKET TARGET BODY EXPECT   the same over our HTTP, so that the client's own
#                                                   share (Python's, in both) can be seen
#   cell_client.py llm-sandbox HOW HOST IMAGE CODE EXPECT   the package of that name: a session that
#                                                   is "live", a "fresh" one each time, or one of its
#                                                   "pool"
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


class LlmSandbox:
    """Without its own setup of a container, which upgrades pip from the network each time; with a
    signal that a first process cannot ignore, so that closing does not wait for 10 s."""

    # Where its pool takes for granted that the setup has put an interpreter.
    LINK = ("mkdir -p /sandbox/.sandbox-venv/bin && "
            "ln -s /usr/bin/python3 /sandbox/.sandbox-venv/bin/python && exec sleep 86400")

    def __init__(self, how, host, image, code, expect):
        import docker
        self.how, self.code, self.expect = how, code, expect
        self.client = docker.DockerClient(base_url=host)
        self.options = {"client": self.client, "image": image, "lang": "python",
                        "skip_environment_setup": True, "keep_template": True, "runtime_configs": {
                            "network_mode": "none", "stop_signal": "SIGKILL"}}
        self.session = self.pool = None
        if how == "live":
            self.session = self.make()
            self.session.open()
        elif how == "pool":
            self.open_pool()

    def make(self):
        from llm_sandbox import SandboxSession
        return SandboxSession(**self.options)

    def open_pool(self):
        from llm_sandbox.pool import PoolConfig, create_pool_manager
        options = dict(self.options)
        options["runtime_configs"] = dict(options["runtime_configs"], command=["sh", "-c", self.LINK])
        self.pool = create_pool_manager(config=PoolConfig(min_pool_size=2, max_pool_size=2), **options)

    def run(self, session):
        done = session.run(self.code)
        if done.exit_code != 0 or done.stdout != self.expect:
            sys.exit("llm-sandbox: %r" % done)

    def once(self):
        if self.session:
            self.run(self.session)
            return
        if self.pool:
            from llm_sandbox.pool import PooledSandboxSession
            with PooledSandboxSession(pool_manager=self.pool, lang="python") as session:
                self.run(session)
            return
        with self.make() as session:
            self.run(session)

    def close(self):
        if self.session:
            self.session.close()
        if self.pool:
            self.pool.close()


PEERS = {"jupyter": Jupyter, "http": Http, "llm-sandbox": LlmSandbox}


def main():
    peer = PEERS[sys.argv[1]](*sys.argv[2:])
    try:
        print("ready", flush=True)
        for _ in sys.stdin:
            begin = time.perf_counter_ns()
            peer.once()
            print(time.perf_counter_ns() - begin, flush=True)
    finally:
        peer.close()


main()
