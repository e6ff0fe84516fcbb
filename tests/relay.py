"""relay.py - a port of the loopback that leads to a unix socket, for clients that know only TCP.

    with relay.Relay(path) as address: ...    # "http://127.0.0.1:PORT"

Bytes go both ways as they are; each connection has a thread for either way. What clients say is
added to the list `seen`.
"""
import socket
import threading


def _copy(source, target, seen=None):
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            if seen is not None:
                seen.append(data)
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):  # a client that leaves is one that left behind the relay too
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Relay:
    def __init__(self, path, seen=None):
        self.path = str(path)
        self.seen = seen
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.path)
            except OSError:
                client.close()
                server.close()
                continue
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client, server):
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server, self.seen)
        back.join()
        client.close()
        server.close()

    def __enter__(self):
        return self.address

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
