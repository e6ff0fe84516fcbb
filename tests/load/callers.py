"""callers.py - one client of load.py: requests of all kinds, one after another, each answer checked.

What it does is a row of `KINDS`: a weight and a coroutine. Some leave in the middle, some send or
read slowly.
"""
import asyncio
import base64
import json

import client

SMALL, LARGE = 1000, 256 * 1024
DRIP_BYTES, DRIP_S = 8 * 1024, 0.05


class Caller:
    def __init__(self, world, tenant, random):
        self.world, self.tenant, self.random = world, tenant, random
        self.connection = client.Connection(world.port, tenant.key)
        self.number = 0

    async def live(self):
        """Until the world ends; a client that was refused by a quota comes back when it may."""
        await asyncio.sleep(self.random.uniform(0, self.world.ramp_s))
        weights = [weight for weight, _ in KINDS]
        while not self.world.is_over():
            _, kind = self.random.choices(KINDS, weights)[0]
            await self.once(kind)
            await self.world.rest(self.random.uniform(0, 2 * self.world.gap_s))
        self.connection.close()

    async def once(self, kind):
        self.number += 1
        began = self.world.now()
        try:
            await kind(self)
            self.world.count(kind.__name__, self.world.now() - began)
        except client.Quota as quota:
            self.world.count_refused(quota.code)
            await self.world.rest(min(quota.after_s, 2))
        except (client.Wrong, KeyError, ValueError) as wrong:
            self.world.note(f"{kind.__name__}: {wrong!r}")
            self.connection.abort()
        finally:
            self.world.again += self.connection.again
            self.connection.again = 0

    def session(self):
        return self.random.choice(self.tenant.sessions)

    def word(self):
        return f"{self.number}-{self.random.getrandbits(32):08x}"

    def expect(self, what, got, wanted):
        if got != wanted:
            raise client.Wrong(f"{what}: {str(got)[:200]!r} instead of {str(wanted)[:200]!r}")


# ---- whole requests


async def health(caller):
    reply = await caller.connection.ask("GET", "/health")
    caller.expect("/health", reply.json()["status"], "healthy")


async def info(caller):
    reply = await caller.connection.ask("GET", "/v1/info")
    if reply.json()["sessions"] < len(caller.tenant.sessions):
        raise client.Wrong(f"/v1/info: {reply.body[:200]!r}")


async def listing(caller):
    reply = await caller.connection.ask("GET", "/v1/sessions")
    found = {session["id"] for session in reply.json()["sessions"]}
    if not found.issuperset(caller.tenant.sessions):
        raise client.Wrong("/v1/sessions: not all are there")


async def command(caller):
    word = caller.word()
    reply = await caller.connection.ask("POST", f"/v1/sessions/{caller.session()}/exec", {
        "argv": ["sh", "-c", "cat; echo $0", word], "stdin": word, "collect": False})
    caller.expect("exec", reply.json()["stdout"], word + word + "\n")


async def cell(caller):
    word = caller.word()
    reply = await caller.connection.ask("POST", f"/v1/sessions/{caller.session()}/code", {
        "code": f"print({word!r})", "collect": False})
    caller.expect("cell", reply.json()["stdout"], word + "\n")


async def fresh_box(caller):
    word = caller.word()
    reply = await caller.connection.ask("POST", "/v1/run", {"code": f"print({word!r})"})
    caller.expect("run", reply.json()["stdout"], word + "\n")


async def execute(caller):
    word = caller.word()
    reply = await caller.connection.ask("POST", "/execute", {
        "code": f"import os\nopen(os.environ['OUTPUT_DIR'] + '/a', 'w').write({word!r})"})
    caller.expect("/execute", base64.b64decode(reply.json()["files_produced"]["a"]).decode(), word)


async def tool(caller):
    word = caller.word()
    reply = await caller.connection.ask(
        "POST", f"/v1/tools/sandbox_exec?session={caller.session()}", {"command": ["echo", word]})
    done = reply.json()  # 200 whatever became of it
    if not done.get("success", True) and done.get("code") in ("quota_exceeded", "busy"):
        raise client.Quota(done["code"], done.get("retry_after_s", 1))
    caller.expect("sandbox_exec", done.get("stdout", done), word + "\n")


async def a_session(caller):
    reply = await caller.connection.ask("POST", "/v1/sessions", {"env": {"A": "b"}})
    made = reply.json()["id"]
    try:
        reply = await caller.connection.ask("POST", f"/v1/sessions/{made}/exec", {
            "argv": ["printenv", "A"], "collect": False})
        caller.expect("first command", reply.json()["stdout"], "b\n")
    finally:
        # A session that stayed would be a leak of ours.
        await caller.connection.ask_until("DELETE", f"/v1/sessions/{made}")


async def file_there_and_back(caller):
    data = caller.random.randbytes(caller.random.randint(1, LARGE))
    target = f"/v1/sessions/{caller.session()}/files?path=/tmp/{caller.word()}"
    await caller.connection.ask("PUT", target, data)
    reply = await caller.connection.ask("GET", target)
    caller.expect("file", reply.body == data, True)
    await caller.connection.ask("DELETE", target)


# ---- slow ones


async def slow_writer(caller):
    """A body that is sent slowly, on a separate connection."""
    connection = client.Connection(caller.world.port, caller.tenant.key)
    data = caller.random.randbytes(caller.random.randint(SMALL, LARGE))
    target = f"/v1/sessions/{caller.session()}/files?path=/tmp/{caller.word()}"
    try:
        await connection.open()
        connection.writer.write(connection.head("PUT", target, len(data)))
        for at in range(0, len(data), DRIP_BYTES):
            connection.writer.write(data[at:at + DRIP_BYTES])
            await asyncio.sleep(DRIP_S)
        await connection.answer(f"PUT {target}, slowly")
        reply = await connection.ask("GET", target)
        caller.expect("file that was written slowly", reply.body == data, True)
        await connection.ask("DELETE", target)
    except OSError as problem:
        raise client.Lost(f"slow writer: {problem}") from None
    finally:
        connection.close()


async def slow_reader(caller):
    """A reply that is read slowly by a client with a small receive buffer."""
    connection = client.Connection(caller.world.port, caller.tenant.key)
    what = "output, read slowly"
    try:
        await connection.open(receive_bytes=DRIP_BYTES)
        await connection.send("POST", f"/v1/sessions/{caller.session()}/exec", {
            "argv": ["sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x"], "collect": False},
            ("Accept: text/event-stream",))
        reply = await connection.read_head(what)
        if reply.status != 200:
            client.check(await connection.read_body(reply, what), what)
        text = b""
        while piece := await connection.read_chunk(what):
            text += piece
            await asyncio.sleep(DRIP_S / 4)
        caller.expect(what, sum_of_output(text), 200000)
    finally:
        connection.close()


def sum_of_output(text):
    """How many bytes of stdout were in these events."""
    count = 0
    for block in text.decode().split("\n\n"):
        if block.startswith("id: ") and "\nevent: stdout\n" in block:
            count += len(json.loads(block.partition("\ndata: ")[2])["data"])
    return count


# ---- those who leave


async def leave_in_the_head(caller):
    await leave(caller, caller.connection.head("GET", "/v1/info")[:40])


async def leave_in_the_body(caller):
    target = f"/v1/sessions/{caller.session()}/files?path=/tmp/half"
    await leave(caller, caller.connection.head("PUT", target, LARGE) + b"x" * SMALL)


async def leave_a_command(caller):
    """What it started has to end, because no other client waits for it."""
    body = json.dumps({"argv": ["sleep", "1000"], "timeout": 0}).encode()
    await leave(caller, caller.connection.head(
        "POST", f"/v1/sessions/{caller.session()}/exec", len(body)) + body)


async def leave_a_run(caller):
    body = json.dumps({"code": "import time\ntime.sleep(20)"}).encode()
    await leave(caller, caller.connection.head("POST", "/v1/run", len(body)) + body)


async def leave_a_download(caller):
    """After the first bytes of an answer that would be long."""
    connection = client.Connection(caller.world.port, caller.tenant.key)
    try:
        await connection.send("POST", f"/v1/sessions/{caller.session()}/exec", {
            "argv": ["yes"], "timeout": 0}, ("Accept: text/event-stream",))
        reply = await connection.read_head("a flood")
        if reply.status != 200:
            client.check(await connection.read_body(reply, "a flood"), "a flood")
        await connection.read_chunk("a flood")
    finally:
        connection.abort()


async def leave(caller, data):
    connection = client.Connection(caller.world.port, caller.tenant.key)
    await connection.open()
    connection.writer.write(data)
    await asyncio.sleep(caller.random.uniform(0, 0.5))
    if caller.random.random() < 0.5:
        connection.abort()
    else:
        connection.close()


KINDS = (
    (15, health), (15, info), (4, listing), (20, command), (12, cell), (3, fresh_box), (2, execute),
    (5, tool), (2, a_session), (8, file_there_and_back), (2, slow_writer), (2, slow_reader),
    (2, leave_in_the_head), (2, leave_in_the_body), (2, leave_a_command), (1, leave_a_run),
    (2, leave_a_download),
)


async def be_greedy(caller):
    """A client that sends requests as fast as it can, in bursts: a quota has to limit it."""
    while not caller.world.is_over():
        until = caller.world.now() + 2
        while caller.world.now() < until and not caller.world.is_over():
            try:
                await caller.connection.ask("GET", "/v1/info")
                caller.world.count("greedy", 0)
            except client.Quota as quota:
                caller.world.count_refused(quota.code)
                await asyncio.sleep(0.02)
            except client.Wrong as wrong:
                caller.world.note(f"greedy: {wrong}")
                return
        await caller.world.rest(8)
    caller.connection.close()
