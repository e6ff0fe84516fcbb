"""relay.py - a port of the loopback that leads to a unix socket, for clients that know only TCP; or to
another port, with a connection that a test can cut.

    with relay.Relay(path) as address: ...    # "http://127.0.0.1:PORT"

    gate = relay.Relay(port)
    gate.cut()                                # every connection ends
    gate.is_shut = True                       # and no new one is let through; `turned_away` counts them

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
    _end(source, target)  # a client that leaves is one that left behind the relay too


def _end(*ends):
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Relay:
    def __init__(self, path, seen=None):
        self.path = path if isinstance(path, int) else str(path)
        self.seen = seen
        self.is_shut, self.turned_away = False, 0
        self.pairs = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _connect(self):
        if isinstance(self.path, int):
            return socket.create_connection(("127.0.0.1", self.path))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.path)
        except OSError:
            server.close()
            raise
        return server

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_shut:
                self.turned_away += 1
                client.close()
                continue
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client, server):
        self.pairs.add((client, server))
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server, self.seen)
        back.join()
        self.pairs.discard((client, server))
        client.close()
        server.close()

    def cut(self):
        for pair in list(self.pairs):
            _end(*pair)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        self.cut()

    def __enter__(self):
        return self.address

    def __exit__(self, *_):
        self.close()
