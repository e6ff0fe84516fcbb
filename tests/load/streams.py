"""streams.py - clients that follow something for as long as load.py runs, lose their connection now
and then, and resume from the last id: no byte may be missing or duplicated.

TICKER is followed by SSE and by WebSocket; a terminal echoes; slow readers slow a flood down.
"""
import asyncio
import base64

import client

# Numbers, one a line, a second apart: where a follower is can be told from what it reads.
TICKER = "import itertools, time\nfor i in itertools.count():\n    print(i, flush=True)\n    time.sleep(1)"
SLOW_BYTES, SLOW_S = 16 * 1024, 0.5


class Stream:
    """A connection that is made, used until it breaks on purpose, and made again."""

    is_cut = True  # a step may be left in the middle, because the connection goes then

    def __init__(self, world, tenant, random):
        self.world, self.tenant, self.random = world, tenant, random
        self.session = random.choice(tenant.sessions)
        self.connection = None

    async def live(self):
        await asyncio.sleep(self.random.uniform(0, self.world.ramp_s))
        while not self.world.is_over():
            self.connection = client.Connection(self.world.port, self.tenant.key)
            until = self.world.now() + self.random.expovariate(1 / self.world.stream_s)
            try:
                await self.open()
                self.world.open_streams += 1
                try:
                    await self.follow_until(until)
                finally:
                    self.world.open_streams -= 1
                self.world.count(type(self).__name__, 0)
            except client.Quota as quota:
                self.world.count_refused(quota.code)
                await self.world.rest(min(quota.after_s, 2))
            except client.Wrong as wrong:
                self.world.note(f"{type(self).__name__}: {wrong}")
                await self.world.rest(1)
            finally:
                self.connection.abort() if self.random.random() < 0.7 else self.connection.close()

    async def follow_until(self, until):
        while (left := min(until, self.world.ends_at) - self.world.now()) > 0:
            try:
                await asyncio.wait_for(self.step(), left if self.is_cut else None)
            except asyncio.TimeoutError:
                break
        await self.leave()

    async def leave(self):
        """What to send before the connection is closed."""


class Bytes:
    """The output of a ticker as it should be."""

    def __init__(self, what):
        self.what, self.data, self.last = what, b"", None

    def take(self, number, data):
        got = base64.b64decode(data["data"]) if data["encoding"] == "base64" \
            else data["data"].encode()
        if data["offset"] != len(self.data):
            raise client.Wrong(f"{self.what}: offset {data['offset']} where {len(self.data)} was next")
        self.data += got
        self.last = number
        lines = self.data.split(b"\n")[:-1]
        if lines and lines[-1] != b"%d" % (len(lines) - 1):
            raise client.Wrong(f"{self.what}: line {len(lines) - 1} is {lines[-1]!r}")


class SseTicker(Stream):
    def __init__(self, *rest):
        super().__init__(*rest)
        self.bytes = Bytes("ticker by SSE")

    async def open(self):
        ticker = self.tenant.tickers[self.session]
        self.events = client.Events(self.connection, "ticker by SSE")
        await self.events.start(
            "GET", f"/v1/sessions/{self.session}/processes/{ticker}/events",
            more=(f"Last-Event-ID: {self.bytes.last}",) if self.bytes.last else ())

    async def step(self):
        event = await self.events.next()
        if event is None or event[1] == "exit":
            raise client.Wrong(f"the ticker ended: {event}")
        if event[1] == "stdout":
            self.bytes.take(event[0], event[2])


class SseEvents(Stream):
    """Events of one session; ids only grow, behind a lost connection too."""

    last = None

    async def open(self):
        self.events = client.Events(self.connection, "events of a session")
        await self.events.start("GET", f"/v1/sessions/{self.session}/events",
                                more=(f"Last-Event-ID: {self.last}",) if self.last else ())

    async def step(self):
        event = await self.events.next()
        if event is None:
            raise client.Wrong("the events of a session ended")
        if event[0] is None:
            return
        if self.last is not None and int(event[0]) <= int(self.last):
            raise client.Wrong(f"event {event[0]} behind {self.last}")
        if event[2].get("session_id", self.session) != self.session:
            raise client.Wrong(f"an event of another session: {event}")
        self.last = event[0]


class WsTicker(Stream):
    def __init__(self, *rest):
        super().__init__(*rest)
        self.bytes = Bytes("ticker by WebSocket")

    async def open(self):
        self.socket = client.Socket(self.connection, "ticker by WebSocket")
        await self.socket.start(f"/v1/sessions/{self.session}/ws")
        more = {"last_id": self.bytes.last} if self.bytes.last else {}
        self.socket.ask("subscribe", what="execution",
                        execution=self.tenant.tickers[self.session], **more)

    async def step(self):
        message = await self.socket.next()
        if message is None or message["type"] in ("error", "end"):
            raise client.Wrong(f"ticker by WebSocket: {message}")
        if message["type"] == "event" and message["event"] == "stdout":
            self.bytes.take(message["id"], message["data"])

    async def leave(self):
        if self.random.random() < 0.3:
            self.socket.say_goodbye()


class WsTerminal(Stream):
    """`cat` on a terminal, which says everything twice; the same one after a lost connection."""

    execution, at = None, 0

    async def open(self):
        self.socket = client.Socket(self.connection, "terminal")
        more = f"execution={self.execution}&offset={self.at}" if self.execution else "command=cat"
        await self.socket.start(f"/v1/sessions/{self.session}/pty/ws?{more}")
        message = await self.socket.next()
        if not isinstance(message, dict) or message.get("type") != "started":
            raise client.Wrong(f"terminal: {message}")
        self.execution = message["execution_id"]

    async def step(self):
        word = b"%08x" % self.random.getrandbits(32)
        self.socket.frame(2, word + b"\n")
        got = b""
        while got.count(word) < 2:  # its echo, and what cat says
            message = await self.socket.next()
            if not isinstance(message, bytes):
                raise client.Wrong(f"terminal: {message}")
            self.at += len(message)
            got += message
        await self.world.rest(self.random.uniform(0, 4))


class SseFlood(Stream):
    """A program that writes without end, and a client that hardly reads: only that program is slowed down."""

    async def open(self):
        await self.connection.open(receive_bytes=SLOW_BYTES)
        self.events = client.Events(self.connection, "flood by SSE")
        await self.events.start("POST", f"/v1/sessions/{self.session}/exec",
                                {"argv": ["yes"], "timeout": 0, "collect": False})

    async def step(self):
        await asyncio.sleep(SLOW_S)
        if not await self.connection.read_chunk("flood by SSE"):
            raise client.Wrong("the flood ended")


class WsFlood(Stream):
    """The same by WebSocket; it ends its program by a signal, which has to come through."""

    is_cut = False

    async def open(self):
        self.socket = client.Socket(self.connection, "flood by WebSocket")
        await self.socket.start(f"/v1/sessions/{self.session}/ws", receive_bytes=SLOW_BYTES)
        self.socket.ask("exec", argv=["yes"], timeout=0, collect=False)
        message = await self.socket.next()
        if message["type"] == "error" and message["error"]["code"] == "quota_exceeded":
            raise client.Quota("quota_exceeded", message["error"].get("retry_after_s", 1))
        if message["type"] != "reply":
            raise client.Wrong(f"flood by WebSocket: {message}")
        self.execution = message["execution_id"]

    async def step(self):
        await asyncio.sleep(SLOW_S)
        message = await self.socket.next()
        if message is None or message["type"] != "event" or message["event"] == "exit":
            raise client.Wrong(f"flood by WebSocket: {str(message)[:300]}")

    async def leave(self):
        self.socket.ask("signal", execution=self.execution, signal="KILL")
        try:
            await asyncio.wait_for(self.ended(), client.PATIENCE_S)
        except asyncio.TimeoutError:
            raise client.Wrong("flood by WebSocket: a signal did not end it") from None

    async def ended(self):
        while True:
            message = await self.socket.next()
            if message is None or message["type"] == "error":
                raise client.Wrong(f"flood by WebSocket: {str(message)[:300]}")
            if message["type"] == "event" and message["event"] == "exit":
                return


# Of 500: how many of each.
SHARES = ((140, SseEvents), (130, SseTicker), (140, WsTicker), (50, WsTerminal), (20, SseFlood),
          (20, WsFlood))
